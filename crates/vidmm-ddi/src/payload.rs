//! A paging operation, in the union of C's payloads.

use vidmm::contract::{
    KmdAllocationHandle, KmdContextHandle, KmdProcessHandle, MapApertureSegment, MemoryTransferDirection,
    PagingOperation, RootPageTable,
};
use vidmm::{PAGE_SIZE, PhysicalAddress};

use crate::abi::*;
use crate::adapter::Adapter;
use crate::memory::{NO_PAGE, SegmentBases, page_to_driver, to_driver};
use crate::page_tables::{update_mode, write_entries};

/// How many page numbers behind the end of an ADL lead nowhere.
const GUARD_PAGES: u64 = 64;

/// The most pages of a list before the first mapped page.
const LEAD_PAGES: u64 = 3;

/// The lists that an operation points to; they live until the next operation.
pub(crate) struct Payloads {
    entries: Vec<DXGK_PTE>,
    entries_64kb: Vec<DXGK_PTE>,
    adl: Vec<u64>,
    /// The MDLs of the operation.
    pub lists: Vec<usize>,
    bases: SegmentBases,
}

impl Payloads {
    pub fn new(bases: SegmentBases) -> Self {
        Self { bases, entries: Vec::new(), entries_64kb: Vec::new(), adl: Vec::new(), lists: Vec::new() }
    }

    /// The list of `count` pages of system memory from `first` on.
    fn mdl(&mut self, adapter: &Adapter, first: PhysicalAddress, count: u64) -> *const MDL {
        let number = |page: u64| page_to_driver(first.offset_by(page * PAGE_SIZE)) as usize;
        let (list, mdl) = adapter.mdls.new_list(adapter.driver(), (0..count).map(number));
        self.lists.push(list);
        mdl
    }

    fn transfer_side(&mut self, adapter: &Adapter, side: PhysicalAddress, pages: u64) -> TRANSFER_SIDE {
        let address = match side.segment.is_system() {
            true => self.mdl(adapter, side, pages).addr() as u64,
            false => self.bases.address(side),
        };
        TRANSFER_SIDE { SegmentId: side.segment.0.into(), SegmentAddress: address }
    }

    /// Writes the payload of the operation. Returns the operation's number. The CPU sees the page table at `table`, if the CPU writes tables.
    pub fn write_payload(
        &mut self,
        adapter: &Adapter,
        operation: &PagingOperation,
        table: Option<*mut u8>,
        to: &mut OPERATION,
    ) -> u32 {
        let allocation = |number: KmdAllocationHandle| adapter.allocations.handle(number.0);
        let process = |number: KmdProcessHandle| adapter.processes.handle(number.0);
        match operation {
            PagingOperation::VirtualTransfer(op) => {
                to.TransferVirtual = DXGK_BUILDPAGINGBUFFER_TRANSFERVIRTUAL {
                    hAllocation: allocation(op.allocation),
                    AllocationOffsetInBytes: op.allocation_offset_in_bytes,
                    TransferSizeInBytes: op.transfer_size_in_bytes,
                    SourceVirtualAddress: op.source_virtual_address.0,
                    DestinationVirtualAddress: op.destination_virtual_address.0,
                    SourcePageTable: 0,
                    TransferDirection: match op.transfer_direction {
                        MemoryTransferDirection::LocalToSystem => 0,
                        MemoryTransferDirection::SystemToLocal => 1,
                        MemoryTransferDirection::LocalToLocal => 2,
                    },
                    Flags: op.flags.bits(),
                    DestinationPageTable: 0,
                };
                DXGK_OPERATION_VIRTUAL_TRANSFER
            }
            PagingOperation::VirtualFill(op) => {
                to.FillVirtual = DXGK_BUILDPAGINGBUFFER_FILLVIRTUAL {
                    hAllocation: allocation(op.allocation),
                    AllocationOffsetInBytes: op.allocation_offset_in_bytes,
                    FillSizeInBytes: op.fill_size_in_bytes,
                    FillPattern: op.fill_pattern,
                    DestinationVirtualAddress: op.destination_virtual_address.0,
                };
                DXGK_OPERATION_VIRTUAL_FILL
            }
            PagingOperation::UpdatePageTable(op) => {
                write_entries(op, &mut self.entries, &mut self.entries_64kb);
                let has_two_sides = !self.entries_64kb.is_empty();
                to.UpdatePageTable = DXGK_BUILDPAGINGBUFFER_UPDATEPAGETABLE {
                    PageTableLevel: op.page_table_level,
                    hAllocation: op.allocation.map_or(std::ptr::null_mut(), allocation),
                    PageTableAddress: table.map_or_else(|| physical(op.page_table_address), seen_by_cpu),
                    pPageTableEntries: self.entries.as_ptr(),
                    StartIndex: op.start_index,
                    NumPageTableEntries: op.page_table_entries.num_page_table_entries,
                    Reserved0: 0,
                    Flags: op.flags.bits(),
                    DriverProtection: op.driver_protection,
                    AllocationOffsetInBytes: op.allocation_offset_in_bytes,
                    hProcess: process(op.process),
                    UpdateMode: update_mode(&op.update_mode),
                    pPageTableEntries64KB: if has_two_sides { self.entries_64kb.as_ptr() } else { std::ptr::null() },
                    FirstPteVirtualAddress: op.first_pte_virtual_address.0,
                };
                DXGK_OPERATION_UPDATE_PAGE_TABLE
            }
            PagingOperation::FlushTlb(op) => {
                to.FlushTlb = DXGK_BUILDPAGINGBUFFER_FLUSHTLB {
                    RootPageTableAddress: physical(op.root_page_table_address),
                    hProcess: process(op.process),
                    StartVirtualAddress: op.start_virtual_address.0,
                    EndVirtualAddress: op.end_virtual_address.0,
                };
                DXGK_OPERATION_FLUSH_TLB
            }
            PagingOperation::MapApertureSegment(op) => {
                // The list begins before the mapped part, as lists of larger allocations do.
                let lead = adapter.dice.below(LEAD_PAGES + 1).min(op.mdl.offset / PAGE_SIZE);
                let first = PhysicalAddress { offset: op.mdl.offset - lead * PAGE_SIZE, ..op.mdl };
                to.MapApertureSegment = MAP_APERTURE_SEGMENT {
                    hDevice: std::ptr::null_mut(),
                    hAllocation: allocation(op.allocation),
                    SegmentId: op.segment_id.0.into(),
                    OffsetInPages: op.offset_in_pages as usize,
                    NumberOfPages: op.number_of_pages as usize,
                    pMdl: self.mdl(adapter, first, lead + op.number_of_pages),
                    Flags: op.flags.bits(),
                    MdlOffset: lead as u32,
                };
                DXGK_OPERATION_MAP_APERTURE_SEGMENT
            }
            PagingOperation::MapApertureSegment2(op) => {
                let first = MapApertureSegment::from(*op);
                let number = |page: u64| page_to_driver(first.mdl.offset_by(page * PAGE_SIZE));
                self.adl.clear();
                self.adl.extend((0..first.number_of_pages).map(number));
                self.adl.extend((0..GUARD_PAGES).map(|_| NO_PAGE));
                to.MapApertureSegment2 = MAP_APERTURE_SEGMENT2 {
                    hDevice: std::ptr::null_mut(),
                    hAllocation: allocation(first.allocation),
                    SegmentId: first.segment_id.0.into(),
                    OffsetInPages: first.offset_in_pages as usize,
                    NumberOfPages: first.number_of_pages as usize,
                    Adl: DXGK_ADL { PageCount: first.number_of_pages as u32, Flags: 0, Pages: self.adl.as_ptr() },
                    Flags: first.flags.bits(),
                    AdlOffset: 0,
                    CpuVisibleAddress: std::ptr::null_mut(),
                };
                DXGK_OPERATION_MAP_APERTURE_SEGMENT2
            }
            PagingOperation::UnmapApertureSegment(op) => {
                to.UnmapApertureSegment = UNMAP_APERTURE_SEGMENT {
                    hDevice: std::ptr::null_mut(),
                    hAllocation: allocation(op.allocation),
                    SegmentId: op.segment_id.0.into(),
                    OffsetInPages: op.offset_in_pages as usize,
                    NumberOfPages: op.number_of_pages as usize,
                    DummyPage: page_to_driver(op.dummy_page) * PAGE_SIZE,
                };
                DXGK_OPERATION_UNMAP_APERTURE_SEGMENT
            }
            PagingOperation::NotifyAlloc(op) => {
                to.NotifyAllocation = DXGK_BUILDPAGINGBUFFER_NOTIFYALLOC {
                    hAllocation: allocation(op.allocation),
                    hKmdProcessHandle: op.process.map_or(std::ptr::null_mut(), process),
                    Flags: op.flags.bits(),
                    OffsetInBytes: op.offset_in_bytes,
                    SizeInBytes: op.size_in_bytes,
                    GpuVirtualAddressAtOffset: op.gpu_virtual_address_at_offset.0,
                };
                DXGK_OPERATION_NOTIFY_ALLOC
            }
            PagingOperation::Transfer(op) => {
                let pages = u64::from(op.mdl_offset) + op.transfer_size / PAGE_SIZE;
                to.Transfer = TRANSFER {
                    hAllocation: allocation(op.allocation),
                    TransferOffset: op.transfer_offset as u32,
                    TransferSize: op.transfer_size as usize,
                    Source: self.transfer_side(adapter, op.source, pages),
                    Destination: self.transfer_side(adapter, op.destination, pages),
                    Flags: op.flags.bits(),
                    MdlOffset: op.mdl_offset,
                };
                DXGK_OPERATION_TRANSFER
            }
            PagingOperation::Fill(op) => {
                let destination = self.transfer_side(adapter, op.destination, op.fill_size / PAGE_SIZE);
                to.Fill = FILL {
                    hAllocation: allocation(op.allocation),
                    FillSize: op.fill_size as usize,
                    FillPattern: op.fill_pattern,
                    Destination: destination,
                };
                DXGK_OPERATION_FILL
            }
            PagingOperation::DiscardContent(op) => {
                to.DiscardContent = DISCARD_CONTENT {
                    hAllocation: allocation(op.allocation),
                    Flags: op.flags.bits(),
                    SegmentId: op.address.segment.0.into(),
                    SegmentAddress: self.bases.address(op.address),
                };
                DXGK_OPERATION_DISCARD_CONTENT
            }
            PagingOperation::NotifyResidency(op) => {
                to.NotifyResidency = DXGK_BUILDPAGINGBUFFER_NOTIFYRESIDENCY {
                    hAllocation: allocation(op.allocation),
                    PhysicalAddress: physical(op.physical_address),
                    Reserved: op.resident.into(),
                };
                DXGK_OPERATION_NOTIFY_RESIDENCY
            }
        }
    }
}

/// The union of a table's addresses, with the address for the CPU.
fn seen_by_cpu(table: *mut u8) -> D3DGPU_PHYSICAL_ADDRESS {
    let address = table.expose_provenance() as u64;
    D3DGPU_PHYSICAL_ADDRESS { SegmentId: address as u32, Padding: (address >> 32) as u32, SegmentOffset: 0 }
}

/// A place, as the driver sees it.
pub(crate) fn physical(address: PhysicalAddress) -> D3DGPU_PHYSICAL_ADDRESS {
    let (segment, offset) = to_driver(address);
    D3DGPU_PHYSICAL_ADDRESS { SegmentId: segment, Padding: 0, SegmentOffset: offset }
}

/// The root table of a submission, as the driver sees it.
pub(crate) fn root_args(adapter: &Adapter, context: KmdContextHandle, root: RootPageTable) -> DXGKARG_SETROOTPAGETABLE {
    DXGKARG_SETROOTPAGETABLE {
        hContext: adapter.contexts.handle(context.0),
        Address: physical(root.address),
        NumEntries: root.num_entries,
    }
}
