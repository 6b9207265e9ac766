//! A driver with a mistake: it encodes another operation than it was asked for.

use vidmm::contract::{
    AllocationListElement, Fill, FillVirtual, FlushTlb, Kmd, KmdProcessHandle, MapApertureSegment,
    MemoryTransferDirection, NotifyAlloc, PagingOperation, Patch, PatchLocation, Pte, PteFlags, PteRun, Transfer,
    TransferVirtual, UnmapApertureSegment, UpdatePageTable, UpdatePageTableFlags,
};
use vidmm::{PAGE_SIZE, PhysicalAddress, SegmentId};

use crate::driver_fault::DriverFault;

/// Whether an operation is an occasion of a mistake.
pub(crate) fn is_about(fault: DriverFault, operation: &PagingOperation, paging: Option<KmdProcessHandle>) -> bool {
    let is_of_user = |process| Some(process) != paging;
    match (fault, operation) {
        (DriverFault::DropPageIn, PagingOperation::VirtualTransfer(op)) => {
            op.transfer_direction == MemoryTransferDirection::SystemToLocal
        }
        (DriverFault::DropPageIn, PagingOperation::Transfer(op)) => {
            op.transfer_size > 0 && op.source.segment.is_system()
        }
        (
            DriverFault::ShortTransfer
            | DriverFault::TransferNextPage
            | DriverFault::SwapTransfer
            | DriverFault::TransferToNextPage
            | DriverFault::HalfTransfer,
            PagingOperation::VirtualTransfer(_),
        ) => true,
        (
            DriverFault::ShortTransfer
            | DriverFault::TransferNextPage
            | DriverFault::SwapTransfer
            | DriverFault::TransferToNextPage
            | DriverFault::HalfTransfer,
            PagingOperation::Transfer(op),
        ) => op.transfer_size > 0,
        (
            DriverFault::SkipFill
            | DriverFault::ShortFill
            | DriverFault::WrongFillPattern
            | DriverFault::FillFromNextPage
            | DriverFault::HalfFill,
            PagingOperation::VirtualFill(_) | PagingOperation::Fill(_),
        ) => true,
        (DriverFault::AddNoTransferOffset, PagingOperation::Transfer(op)) => op.transfer_offset > 0,
        (DriverFault::EntriesAtNextIndex | DriverFault::LongEntries, PagingOperation::UpdatePageTable(op)) => {
            // Behind a whole table there is no entry.
            !op.flags.contains(UpdatePageTableFlags::INITIAL_UPDATE) && is_of_user(op.process)
        }
        (DriverFault::ZeroEntries, PagingOperation::UpdatePageTable(op)) => {
            is_leaf(op) && is_valid(op) && is_of_user(op.process)
        }
        (DriverFault::EntriesOfSystemMemory, PagingOperation::UpdatePageTable(op)) => {
            is_leaf(op)
                && is_valid(op)
                && is_of_user(op.process)
                && !op.page_table_entries.first.address.segment.is_system()
        }
        (DriverFault::WritableEntries, PagingOperation::UpdatePageTable(op)) => {
            is_leaf(op) && op.page_table_entries.first.flags.contains(PteFlags::READ_ONLY | PteFlags::VALID)
        }
        (DriverFault::IncoherentEntries, PagingOperation::UpdatePageTable(op)) => {
            is_leaf(op)
                && op.page_table_entries.first.flags.contains(PteFlags::CACHE_COHERENT)
                && is_of_user(op.process)
        }
        (DriverFault::RepeatEntries, PagingOperation::UpdatePageTable(op)) => {
            let is_repeated = op.flags.contains(UpdatePageTableFlags::REPEAT);
            is_leaf(op) && is_valid(op) && !is_repeated && op.page_table_entries.num_page_table_entries > 1
        }
        (DriverFault::LinkNextTable, PagingOperation::UpdatePageTable(op)) => op.page_table_level > 0 && is_valid(op),
        (DriverFault::LargePageAsTable, PagingOperation::UpdatePageTable(op)) => {
            op.page_table_entries.has_large_pages()
        }
        (DriverFault::SkipLargeLink, PagingOperation::UpdatePageTable(op)) => {
            op.page_table_entries.first_64kb.is_some_and(|pte| pte.flags.contains(PteFlags::VALID))
        }
        (DriverFault::SkipInitialUpdate, PagingOperation::UpdatePageTable(op)) => {
            op.flags.contains(UpdatePageTableFlags::INITIAL_UPDATE) && is_of_user(op.process)
        }
        (DriverFault::KeepTableLink, PagingOperation::UpdatePageTable(op)) => {
            let is_initial = op.flags.contains(UpdatePageTableFlags::INITIAL_UPDATE);
            op.page_table_level > 0 && !is_initial && !is_valid(op) && is_of_user(op.process)
        }
        (DriverFault::ShortFlush | DriverFault::FlushFromNextPage, PagingOperation::FlushTlb(op)) => {
            op.end_virtual_address.0 > 0
        }
        (
            DriverFault::ShortMapAperture | DriverFault::MapAtNextPage,
            PagingOperation::MapApertureSegment(_) | PagingOperation::MapApertureSegment2(_),
        )
        | (DriverFault::ShortUnmapAperture | DriverFault::UnmapToNextPage, PagingOperation::UnmapApertureSegment(_))
        | (DriverFault::ShortNotification | DriverFault::NotifyFromNextPage, PagingOperation::NotifyAlloc(_)) => true,
        (
            DriverFault::SkipEntries
            | DriverFault::ShortEntries
            | DriverFault::WrongEntries
            | DriverFault::ReadOnlyEntries,
            PagingOperation::UpdatePageTable(op),
        ) => is_leaf(op) && is_valid(op) && is_of_user(op.process),
        (DriverFault::KeepEntries, PagingOperation::UpdatePageTable(op)) => {
            is_leaf(op) && !is_valid(op) && is_of_user(op.process)
        }
        (DriverFault::SkipTableLink, PagingOperation::UpdatePageTable(op)) => {
            op.page_table_level > 0 && is_valid(op) && is_of_user(op.process)
        }
        (DriverFault::FlushOtherProcess, PagingOperation::FlushTlb(op)) => is_of_user(op.process),
        (
            DriverFault::SkipMapAperture | DriverFault::MapNextPages,
            PagingOperation::MapApertureSegment(_) | PagingOperation::MapApertureSegment2(_),
        )
        | (DriverFault::SkipUnmapAperture, PagingOperation::UnmapApertureSegment(_)) => true,
        (
            DriverFault::SkipPartAfterFull
            | DriverFault::OverrunDmaBuffer
            | DriverFault::OverrunPrivateData
            | DriverFault::AdvanceLess
            | DriverFault::StandStill
            | DriverFault::StayBusy
            | DriverFault::AnswerNotSupported,
            _,
        ) => true,
        _ => false,
    }
}

fn is_leaf(op: &UpdatePageTable) -> bool {
    op.page_table_level == 0 && !op.flags.contains(UpdatePageTableFlags::INITIAL_UPDATE)
}

fn is_valid(op: &UpdatePageTable) -> bool {
    let entries = op.page_table_entries;
    let is_valid = |pte: vidmm::contract::Pte| pte.flags.contains(PteFlags::VALID);
    is_valid(entries.first) || entries.first_64kb.is_some_and(is_valid)
}

/// The operation that is encoded in place of `operation`, which is an occasion of `fault`; none if nothing is encoded.
pub(crate) fn operation(
    fault: DriverFault,
    operation: &PagingOperation,
    paging: Option<KmdProcessHandle>,
) -> Option<PagingOperation> {
    Some(match (fault, *operation) {
        (_, PagingOperation::VirtualTransfer(op)) => PagingOperation::VirtualTransfer(virtual_transfer(fault, op)?),
        (_, PagingOperation::Transfer(op)) => PagingOperation::Transfer(physical_transfer(fault, op)?),
        (_, PagingOperation::UpdatePageTable(op)) => PagingOperation::UpdatePageTable(entries(fault, op)?),
        (DriverFault::ShortFill, PagingOperation::VirtualFill(op)) => {
            let fill_size_in_bytes = less_a_page(op.fill_size_in_bytes)?;
            PagingOperation::VirtualFill(FillVirtual { fill_size_in_bytes, ..op })
        }
        (DriverFault::ShortFill, PagingOperation::Fill(op)) => {
            PagingOperation::Fill(Fill { fill_size: less_a_page(op.fill_size)?, ..op })
        }
        (DriverFault::HalfFill, PagingOperation::VirtualFill(op)) => {
            PagingOperation::VirtualFill(FillVirtual { fill_size_in_bytes: half(op.fill_size_in_bytes)?, ..op })
        }
        (DriverFault::HalfFill, PagingOperation::Fill(op)) => {
            PagingOperation::Fill(Fill { fill_size: half(op.fill_size)?, ..op })
        }
        (DriverFault::FillFromNextPage, PagingOperation::VirtualFill(op)) => {
            PagingOperation::VirtualFill(FillVirtual {
                fill_size_in_bytes: less_a_page(op.fill_size_in_bytes)?,
                destination_virtual_address: op.destination_virtual_address.offset(PAGE_SIZE),
                allocation_offset_in_bytes: op.allocation_offset_in_bytes + PAGE_SIZE,
                ..op
            })
        }
        (DriverFault::FillFromNextPage, PagingOperation::Fill(op)) => PagingOperation::Fill(Fill {
            fill_size: less_a_page(op.fill_size)?,
            destination: op.destination.offset_by(PAGE_SIZE),
            ..op
        }),
        (DriverFault::ShortFlush, PagingOperation::FlushTlb(op)) => {
            let range = op.end_virtual_address.0.checked_sub(PAGE_SIZE).filter(|&end| end > op.start_virtual_address.0);
            PagingOperation::FlushTlb(FlushTlb { end_virtual_address: vidmm::GpuVirtualAddress(range?), ..op })
        }
        (DriverFault::FlushFromNextPage, PagingOperation::FlushTlb(op)) => {
            let start_virtual_address = op.start_virtual_address.offset(PAGE_SIZE);
            let is_left = start_virtual_address < op.end_virtual_address;
            PagingOperation::FlushTlb(is_left.then_some(FlushTlb { start_virtual_address, ..op })?)
        }
        (DriverFault::ShortUnmapAperture, PagingOperation::UnmapApertureSegment(op)) => {
            let number_of_pages = less_one(op.number_of_pages)?;
            PagingOperation::UnmapApertureSegment(UnmapApertureSegment { number_of_pages, ..op })
        }
        (DriverFault::UnmapToNextPage, PagingOperation::UnmapApertureSegment(op)) => {
            let dummy_page = op.dummy_page.offset_by(PAGE_SIZE);
            PagingOperation::UnmapApertureSegment(UnmapApertureSegment { dummy_page, ..op })
        }
        (DriverFault::ShortNotification, PagingOperation::NotifyAlloc(op)) => {
            PagingOperation::NotifyAlloc(NotifyAlloc { size_in_bytes: less_a_page(op.size_in_bytes)?, ..op })
        }
        (DriverFault::NotifyFromNextPage, PagingOperation::NotifyAlloc(op)) => {
            PagingOperation::NotifyAlloc(NotifyAlloc {
                offset_in_bytes: op.offset_in_bytes + PAGE_SIZE,
                size_in_bytes: less_a_page(op.size_in_bytes)?,
                gpu_virtual_address_at_offset: op.gpu_virtual_address_at_offset.offset(PAGE_SIZE),
                ..op
            })
        }
        (DriverFault::WrongFillPattern, PagingOperation::VirtualFill(op)) => {
            PagingOperation::VirtualFill(FillVirtual { fill_pattern: WRONG_PATTERN, ..op })
        }
        (DriverFault::WrongFillPattern, PagingOperation::Fill(op)) => {
            PagingOperation::Fill(Fill { fill_pattern: WRONG_PATTERN, ..op })
        }
        (DriverFault::FlushOtherProcess, PagingOperation::FlushTlb(op)) => {
            PagingOperation::FlushTlb(FlushTlb { process: paging?, ..op })
        }
        (_, PagingOperation::MapApertureSegment(op)) => PagingOperation::MapApertureSegment(mapped(fault, op)?),
        (_, PagingOperation::MapApertureSegment2(op)) => {
            PagingOperation::MapApertureSegment2(mapped(fault, op.into())?.into())
        }
        // A mistake names the operations that it garbles, as in `is_about`, and leaves out all others.
        _ => return None,
    })
}

const WRONG_PATTERN: u32 = 0xDEAD_BEEF;

fn less_a_page(bytes: u64) -> Option<u64> {
    bytes.checked_sub(PAGE_SIZE).filter(|&left| left > 0)
}

fn less_one(pages: u64) -> Option<u64> {
    pages.checked_sub(1).filter(|&left| left > 0)
}

/// Half of the pages, rounded down.
fn half(bytes: u64) -> Option<u64> {
    Some(bytes / PAGE_SIZE / 2 * PAGE_SIZE).filter(|&left| left > 0)
}

fn mapped(fault: DriverFault, op: MapApertureSegment) -> Option<MapApertureSegment> {
    match fault {
        DriverFault::MapNextPages => Some(MapApertureSegment { mdl: op.mdl.offset_by(PAGE_SIZE), ..op }),
        DriverFault::ShortMapAperture => {
            Some(MapApertureSegment { number_of_pages: less_one(op.number_of_pages)?, ..op })
        }
        // Of the last page of an aperture there is no next one.
        DriverFault::MapAtNextPage => Some(MapApertureSegment {
            offset_in_pages: op.offset_in_pages + 1,
            number_of_pages: less_one(op.number_of_pages)?,
            ..op
        }),
        _ => None,
    }
}

fn virtual_transfer(fault: DriverFault, op: TransferVirtual) -> Option<TransferVirtual> {
    let short = || Some(TransferVirtual { transfer_size_in_bytes: less_a_page(op.transfer_size_in_bytes)?, ..op });
    match fault {
        DriverFault::ShortTransfer => short(),
        DriverFault::HalfTransfer => {
            Some(TransferVirtual { transfer_size_in_bytes: half(op.transfer_size_in_bytes)?, ..op })
        }
        DriverFault::TransferToNextPage => Some(TransferVirtual {
            destination_virtual_address: op.destination_virtual_address.offset(PAGE_SIZE),
            ..short()?
        }),
        DriverFault::TransferNextPage => {
            Some(TransferVirtual { source_virtual_address: op.source_virtual_address.offset(PAGE_SIZE), ..short()? })
        }
        DriverFault::SwapTransfer => Some(TransferVirtual {
            source_virtual_address: op.destination_virtual_address,
            destination_virtual_address: op.source_virtual_address,
            ..op
        }),
        _ => None,
    }
}

fn physical_transfer(fault: DriverFault, op: Transfer) -> Option<Transfer> {
    let short = || Some(Transfer { transfer_size: less_a_page(op.transfer_size)?, ..op });
    match fault {
        DriverFault::ShortTransfer => short(),
        DriverFault::AddNoTransferOffset => Some(Transfer { transfer_offset: 0, mdl_offset: 0, ..op }),
        DriverFault::HalfTransfer => Some(Transfer { transfer_size: half(op.transfer_size)?, ..op }),
        DriverFault::TransferToNextPage => {
            Some(Transfer { destination: op.destination.offset_by(PAGE_SIZE), ..short()? })
        }
        DriverFault::TransferNextPage => {
            let source = vidmm::PhysicalAddress { offset: op.source.offset + PAGE_SIZE, ..op.source };
            Some(Transfer { source, ..short()? })
        }
        DriverFault::SwapTransfer => Some(Transfer { source: op.destination, destination: op.source, ..op }),
        _ => None,
    }
}

fn entries(fault: DriverFault, op: UpdatePageTable) -> Option<UpdatePageTable> {
    let mut garbled = op;
    let run = &mut garbled.page_table_entries;
    match fault {
        DriverFault::ShortEntries if run.num_page_table_entries > 1 => run.num_page_table_entries -= 1,
        DriverFault::WrongEntries => run.first.address.offset += op.page_size().bytes(),
        DriverFault::ReadOnlyEntries => run.first.flags |= PteFlags::READ_ONLY,
        DriverFault::LongEntries => run.num_page_table_entries += 1,
        DriverFault::EntriesAtNextIndex => garbled.start_index += 1,
        DriverFault::EntriesOfSystemMemory => run.first.address.segment = SegmentId::SYSTEM,
        DriverFault::ZeroEntries => both_sides(run, |pte| pte.flags = PteFlags::ZERO),
        DriverFault::WritableEntries => run.first.flags -= PteFlags::READ_ONLY,
        DriverFault::IncoherentEntries => run.first.flags -= PteFlags::CACHE_COHERENT,
        DriverFault::RepeatEntries => garbled.flags |= UpdatePageTableFlags::REPEAT,
        DriverFault::LinkNextTable => both_sides(run, |pte| pte.address = next_page(pte.address)),
        DriverFault::LargePageAsTable => both_sides(run, |pte| pte.flags -= PteFlags::LARGE_PAGE),
        DriverFault::SkipLargeLink => run.first_64kb = None,
        _ => return None,
    }
    Some(garbled)
}

fn both_sides(run: &mut PteRun, change: impl Fn(&mut Pte)) {
    change(&mut run.first);
    run.first_64kb.as_mut().into_iter().for_each(change);
}

fn next_page(address: PhysicalAddress) -> PhysicalAddress {
    address.offset_by(PAGE_SIZE)
}

/// Whether the occasions of a mistake are patches.
pub(crate) fn is_about_patches(fault: DriverFault) -> bool {
    matches!(
        fault,
        DriverFault::SkipPatch
            | DriverFault::PatchNextElement
            | DriverFault::SkipLastPatch
            | DriverFault::IgnorePatchOffset
    )
}

/// Gives the patch locations their split offsets in the reverse order.
pub(crate) fn reverse_split_offsets(list: &mut [PatchLocation]) {
    let offsets: Vec<u32> = list.iter().map(|location| location.split_offset).collect();
    list.iter_mut().zip(offsets.into_iter().rev()).for_each(|(location, offset)| location.split_offset = offset);
}

/// Lets the last patch location name a slot.
pub(crate) fn name_slot(list: &mut [PatchLocation], slot_id: u32) {
    if let Some(last) = list.last_mut() {
        last.slot_id = slot_id;
    }
}

/// The last patch location of an allocation that a larger split offset follows. Element 0 of the model's lists is no allocation.
pub(crate) fn last_before_split(list: &[PatchLocation]) -> Option<usize> {
    let is_last = |pair: &[PatchLocation]| pair[0].split_offset < pair[1].split_offset && pair[0].allocation_index > 0;
    list.windows(2).rposition(is_last)
}

/// Lets `driver` patch otherwise than it was asked, or not at all.
pub(crate) fn patch(fault: DriverFault, driver: &mut dyn Kmd, patch: &mut Patch<'_>) {
    let mut list: Vec<AllocationListElement> = patch.allocation_list.to_vec();
    let mut locations: Vec<PatchLocation> = patch.patch_location_list.to_vec();
    let mut length = patch.patch_location_list_submission_length;
    match fault {
        DriverFault::SkipPatch => return,
        DriverFault::PatchNextElement => list.rotate_left(1),
        DriverFault::SkipLastPatch => length -= 1,
        DriverFault::IgnorePatchOffset => locations.iter_mut().for_each(|location| location.allocation_offset = 0),
        _ => unreachable!("the mistake is about patches"),
    }
    driver.patch(&mut Patch {
        context: patch.context,
        dma_buffer: patch.dma_buffer,
        dma_buffer_size: patch.dma_buffer_size,
        dma_buffer_private_data: patch.dma_buffer_private_data,
        dma_buffer_submission_start_offset: patch.dma_buffer_submission_start_offset,
        dma_buffer_submission_end_offset: patch.dma_buffer_submission_end_offset,
        allocation_list: &list,
        patch_location_list: &locations,
        patch_location_list_submission_start: patch.patch_location_list_submission_start,
        patch_location_list_submission_length: length,
        submission_fence_id: patch.submission_fence_id,
    });
}
