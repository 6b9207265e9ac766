//! Paging operations as copies and mappings: the bytes of a paging buffer where no GPU decodes commands.

use std::collections::BTreeMap;
use std::ops::Range;

use vidmm::contract::{
    BuildPagingBuffer, BuildStatus, KmdAllocationHandle, KmdProcessHandle, NotifyAllocFlags, PagingOperation, PteFlags,
    UpdatePageTable, UpdatePageTableFlags,
};
use vidmm::{GpuVirtualAddress, PAGE_SIZE, SegmentId};

use crate::mapped::{Mapped, Target};

/// An operation, as the queue carries it out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Operation {
    /// Pages of a process's addresses lead to memory, or nowhere.
    Map { process: KmdProcessHandle, pages: Range<u64>, to: Option<Target> },
    /// Pages are copied.
    Copy { from: Target, to: Target, pages: u64 },
    /// Pages are filled with a pattern.
    Fill { to: Target, pages: u64, pattern: u32 },
    /// The application's own commands run on pages of its buffer, from a byte on.
    Foreign { token: u32, at: Target, pages: u64, offset: u64 },
}

/// The bytes of an operation in a paging buffer: five words.
const BYTES: usize = 40;

const MAP: u64 = 0;
const UNMAP: u64 = 1;
const COPY: u64 = 2;
const FILL: u64 = 3;
const FOREIGN: u64 = 4;

impl Operation {
    /// The first word has the kind, the segments of both sides, and a pattern or a token.
    fn words(&self) -> [u64; 5] {
        let first = |kind, one: SegmentId, other: SegmentId, number: u32| {
            kind | u64::from(one.0) << 8 | u64::from(other.0) << 16 | u64::from(number) << 32
        };
        const NONE: SegmentId = SegmentId::SYSTEM;
        match self {
            Self::Map { process, pages, to: Some(to) } => {
                [first(MAP, to.segment, NONE, 0), process.0, pages.start, pages.end, to.page]
            }
            Self::Map { process, pages, to: None } => [UNMAP, process.0, pages.start, pages.end, 0],
            Self::Copy { from, to, pages } => [first(COPY, to.segment, from.segment, 0), to.page, *pages, from.page, 0],
            Self::Fill { to, pages, pattern } => [first(FILL, to.segment, NONE, *pattern), to.page, *pages, 0, 0],
            Self::Foreign { token, at, pages, offset } => {
                [first(FOREIGN, at.segment, NONE, *token), at.page, *pages, *offset, 0]
            }
        }
    }

    fn of_words([first, one, two, three, four]: [u64; 5]) -> Option<Self> {
        let [kind, segment, other, ..] = first.to_le_bytes();
        let at = |segment, page| Target { segment: SegmentId(segment), page, aperture: None };
        let number = (first >> 32) as u32;
        let mapped = |to| Self::Map { process: KmdProcessHandle(one), pages: two..three, to };
        Some(match u64::from(kind) {
            MAP => mapped(Some(at(segment, four))),
            UNMAP => mapped(None),
            COPY => Self::Copy { from: at(other, three), to: at(segment, one), pages: two },
            FILL => Self::Fill { to: at(segment, one), pages: two, pattern: number },
            FOREIGN => Self::Foreign { token: number, at: at(segment, one), pages: two, offset: three },
            _ => return None,
        })
    }

    /// The bytes of the operation.
    pub(crate) fn to_bytes(&self) -> [u8; BYTES] {
        let mut bytes = [0; BYTES];
        for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(self.words()) {
            *to = word.to_le_bytes();
        }
        bytes
    }

    /// The operations of a paging buffer; none in place of bytes without a meaning.
    pub(crate) fn all(commands: &[u8]) -> impl Iterator<Item = Option<Self>> {
        let (whole, rest) = commands.as_chunks::<BYTES>();
        let word = |bytes: &[u8; BYTES], number: usize| {
            u64::from_le_bytes(std::array::from_fn(|byte| bytes[number * 8 + byte]))
        };
        let whole = whole.iter().map(move |bytes| Self::of_words(std::array::from_fn(|number| word(bytes, number))));
        whole.chain((!rest.is_empty()).then_some(None))
    }
}

/// The part of a driver that encodes: paging operations become [`Operation`]s.
///
/// Only the encoder knows the paging process's addresses: operations name the memory behind windows. Updates of windows, and flushes, have no
/// bytes.
#[derive(Default)]
pub(crate) struct Encoder {
    paging_process: Option<KmdProcessHandle>,
    windows: Mapped,
    /// The tokens of the application's own commands before an eviction, by allocation.
    foreign: BTreeMap<KmdAllocationHandle, u32>,
    /// The operations for the paging operation under way.
    operations: Vec<Operation>,
}

/// The answer to an unknown operation.
const STATUS_NOT_SUPPORTED: i32 = 0xC000_00BB_u32 as i32;

impl Encoder {
    /// The process whose addresses are windows.
    pub(crate) fn set_paging_process(&mut self, process: KmdProcessHandle) {
        self.paging_process = Some(process);
    }

    /// Commands of the application's own run before an allocation is evicted.
    pub(crate) fn set_foreign(&mut self, allocation: KmdAllocationHandle, token: u32) {
        self.foreign.insert(allocation, token);
    }

    /// An allocation is gone.
    pub(crate) fn forget(&mut self, allocation: KmdAllocationHandle) {
        self.foreign.remove(&allocation);
    }

    /// Encodes a paging operation, from `multipass_offset` on: the number of operations in earlier buffers (BPB-04).
    pub(crate) fn build(&mut self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        let Some(operations) = self.encode(build.operation) else { return BuildStatus::Other(STATUS_NOT_SUPPORTED) };
        build.write(operations.iter().map(Operation::to_bytes))
    }

    /// The operations for a paging operation; none if the paging operation is unknown.
    pub(crate) fn encode(&mut self, operation: &PagingOperation) -> Option<&[Operation]> {
        self.operations.clear();
        match operation {
            PagingOperation::UpdatePageTable(op) => self.update(op)?,
            PagingOperation::VirtualTransfer(op) => {
                let (from, to) = (op.source_virtual_address, op.destination_virtual_address);
                self.transfer(from.0 / PAGE_SIZE, to.0 / PAGE_SIZE, op.transfer_size_in_bytes / PAGE_SIZE)?;
            }
            PagingOperation::VirtualFill(op) => {
                let (at, bytes, pattern) = (op.destination_virtual_address, op.fill_size_in_bytes, op.fill_pattern);
                self.shown(at, bytes, |_, to, pages| Operation::Fill { to, pages, pattern })?;
            }
            PagingOperation::NotifyAlloc(op) if op.flags.contains(NotifyAllocFlags::EVICTION) => {
                if let Some(&token) = self.foreign.get(&op.allocation) {
                    let (at, bytes, first) = (op.gpu_virtual_address_at_offset, op.size_in_bytes, op.offset_in_bytes);
                    let of_part = |done: u64, at, pages| {
                        let offset = first + done * PAGE_SIZE;
                        Operation::Foreign { token, at, pages, offset }
                    };
                    self.shown(at, bytes, of_part)?;
                }
            }
            PagingOperation::FlushTlb(_) | PagingOperation::NotifyAlloc(_) | PagingOperation::NotifyResidency(_) => {}
            PagingOperation::Transfer(_)
            | PagingOperation::Fill(_)
            | PagingOperation::DiscardContent(_)
            | PagingOperation::MapApertureSegment(_)
            | PagingOperation::MapApertureSegment2(_)
            | PagingOperation::UnmapApertureSegment(_) => return None,
        }
        Some(&self.operations)
    }

    /// Leaf entries say where addresses lead. The device keeps tables of the device's own, and entries for tables say nothing. The first
    /// entries of a new table map nothing. A large page shows the same memory as the leaf table (GVA-21).
    fn update(&mut self, op: &UpdatePageTable) -> Option<()> {
        if op.page_table_level > 0 || op.flags.contains(UpdatePageTableFlags::INITIAL_UPDATE) {
            return Some(());
        }
        let first = op.page_table_entries.first;
        let is_mapped = first.flags & (PteFlags::VALID | PteFlags::ZERO) == PteFlags::VALID;
        let count = u64::from(op.page_table_entries.num_page_table_entries);
        if is_mapped && op.flags.contains(UpdatePageTableFlags::REPEAT) && count > 1 {
            return None;
        }
        let start = op.first_pte_virtual_address.0 / PAGE_SIZE;
        let pages = start..start + count * (op.page_size().bytes() / PAGE_SIZE);
        let page = first.address.offset / PAGE_SIZE;
        let to = is_mapped.then_some(Target { segment: first.address.segment, page, aperture: None });
        if self.paging_process == Some(op.process) {
            self.windows.set(pages, to);
        } else {
            self.operations.push(Operation::Map { process: op.process, pages, to });
        }
        Some(())
    }

    fn transfer(&mut self, from: u64, to: u64, pages: u64) -> Option<()> {
        let mut done = 0;
        while done < pages {
            let ((source, readable), (destination, writable)) =
                (self.windows.at(from + done)?, self.windows.at(to + done)?);
            let pages = readable.min(writable).min(pages - done);
            self.operations.push(Operation::Copy { from: source, to: destination, pages });
            done += pages;
        }
        Some(())
    }

    /// Adds an operation for each piece of memory in a window. `make` gets the number of pages before the piece, the place, and the number of
    /// pages.
    fn shown(
        &mut self,
        window: GpuVirtualAddress,
        bytes: u64,
        make: impl Fn(u64, Target, u64) -> Operation,
    ) -> Option<()> {
        let (first, all, mut done) = (window.0 / PAGE_SIZE, bytes / PAGE_SIZE, 0);
        while done < all {
            let (at, pages) = self.windows.at(first + done)?;
            let pages = pages.min(all - done);
            self.operations.push(make(done, at, pages));
            done += pages;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use vidmm::contract::{
        BuildPagingBuffer, BuildStatus, DiscardContent, DiscardContentFlags, FlushTlb, KmdAllocationHandle,
        KmdContextHandle, KmdProcessHandle, MemoryTransferDirection, PagingOperation, Pte, PteRun, TransferVirtual,
        TransferVirtualFlags, UpdateMode, UpdatePageTable, UpdatePageTableFlags,
    };
    use vidmm::{GpuVirtualAddress, PAGE_SIZE, PhysicalAddress, SegmentId};

    use super::{BYTES, Encoder, Operation};
    use crate::mapped::Target;

    const PAGING: KmdProcessHandle = KmdProcessHandle(1);
    const OTHER: KmdProcessHandle = KmdProcessHandle(2);
    const ALLOCATION: KmdAllocationHandle = KmdAllocationHandle(3);

    fn at(segment: u8, page: u64) -> Target {
        Target { segment: SegmentId(segment), page, aperture: None }
    }

    /// Entries of 4 KiB pages from page `first` of a process on, which lead to consecutive pages or nowhere.
    fn map(process: KmdProcessHandle, first: u64, count: u32, to: Option<Target>) -> UpdatePageTable {
        let address = |to: Target| PhysicalAddress { segment: to.segment, offset: to.page * PAGE_SIZE };
        let pte = to.map_or(Pte::INVALID, |to| Pte::valid(address(to)));
        let mut flags = UpdatePageTableFlags::empty();
        flags.set(UpdatePageTableFlags::REPEAT, to.is_none());
        UpdatePageTable {
            page_table_level: 0,
            allocation: Some(ALLOCATION),
            page_table_address: PhysicalAddress { segment: SegmentId::SYSTEM, offset: 0 },
            page_table_entries: PteRun { first: pte, first_64kb: None, num_page_table_entries: count },
            start_index: 0,
            flags,
            driver_protection: 0,
            allocation_offset_in_bytes: 0,
            process,
            update_mode: UpdateMode::GpuPhysical,
            first_pte_virtual_address: GpuVirtualAddress(first * PAGE_SIZE),
        }
    }

    fn copy(from: u64, to: u64, pages: u64) -> PagingOperation {
        PagingOperation::VirtualTransfer(TransferVirtual {
            allocation: ALLOCATION,
            allocation_offset_in_bytes: 0,
            transfer_size_in_bytes: pages * PAGE_SIZE,
            source_virtual_address: GpuVirtualAddress(from * PAGE_SIZE),
            destination_virtual_address: GpuVirtualAddress(to * PAGE_SIZE),
            transfer_direction: MemoryTransferDirection::SystemToLocal,
            flags: TransferVirtualFlags::empty(),
        })
    }

    /// Builds one operation into buffers of `room` bytes, and returns the statuses and all bytes.
    fn build(encoder: &mut Encoder, operation: &PagingOperation, room: usize) -> (Vec<BuildStatus>, Vec<u8>) {
        let (mut statuses, mut bytes, mut multipass_offset) = (Vec::new(), Vec::new(), 0);
        loop {
            let mut buffer = vec![0; room];
            let mut build = BuildPagingBuffer {
                operation,
                dma_buffer: &mut buffer,
                dma_buffer_write_offset: 0,
                dma_buffer_private_data: &mut [],
                dma_bytes_written: 0,
                private_bytes_written: 0,
                multipass_offset: &mut multipass_offset,
                allocation_is_idle: false,
                system_context: KmdContextHandle(0),
            };
            let status = encoder.build(&mut build);
            bytes.extend(&build.dma_buffer[..build.dma_bytes_written]);
            statuses.push(status);
            if status != BuildStatus::InsufficientDmaBuffer {
                return (statuses, bytes);
            }
        }
    }

    fn encoder() -> Encoder {
        let mut encoder = Encoder::default();
        encoder.set_paging_process(PAGING);
        encoder
    }

    #[test]
    fn a_transfer_copies_what_windows_show_and_goes_on_in_the_next_buffer() {
        let mut encoder = encoder();
        let windows = [(0, 8, at(0, 100)), (64, 3, at(1, 20)), (67, 3, at(1, 40)), (70, 2, at(1, 9))];
        for (first, count, to) in windows {
            let window = PagingOperation::UpdatePageTable(map(PAGING, first, count, Some(to)));
            assert_eq!(build(&mut encoder, &window, 0), (vec![BuildStatus::Success], vec![]), "windows have no bytes");
        }
        let (statuses, bytes) = build(&mut encoder, &copy(0, 64, 8), 2 * BYTES + 7);
        assert_eq!(statuses, [BuildStatus::InsufficientDmaBuffer, BuildStatus::Success]);
        let copied = |from, to, pages| Some(Operation::Copy { from: at(0, from), to: at(1, to), pages });
        let operations: Vec<_> = Operation::all(&bytes).collect();
        assert_eq!(operations, [copied(100, 20, 3), copied(103, 40, 3), copied(106, 9, 2)]);
    }

    #[test]
    fn a_mapping_of_a_process_is_an_operation_and_a_flush_is_none() {
        let mut encoder = encoder();
        let mut encoded =
            |op: UpdatePageTable| encoder.encode(&PagingOperation::UpdatePageTable(op)).map(<[Operation]>::to_vec);
        let mapped = |to| Some(vec![Operation::Map { process: OTHER, pages: 16..48, to }]);
        assert_eq!(encoded(map(OTHER, 16, 32, Some(at(1, 5)))), mapped(Some(at(1, 5))));
        assert_eq!(encoded(map(OTHER, 16, 32, None)), mapped(None));
        let large =
            UpdatePageTable { flags: UpdatePageTableFlags::USE_64KB_PAGES, ..map(OTHER, 16, 2, Some(at(1, 16))) };
        assert_eq!(encoded(large), mapped(Some(at(1, 16))), "entries for pages of 64 KiB");
        let upper = UpdatePageTable { page_table_level: 1, ..map(OTHER, 16, 1, Some(at(1, 5))) };
        assert_eq!(encoded(upper), Some(vec![]), "the device has tables of its own");
        let flush = FlushTlb {
            root_page_table_address: PhysicalAddress { segment: SegmentId::SYSTEM, offset: 0 },
            process: OTHER,
            start_virtual_address: GpuVirtualAddress(0),
            end_virtual_address: GpuVirtualAddress(PAGE_SIZE),
        };
        assert_eq!(encoder.encode(&PagingOperation::FlushTlb(flush)), Some(&[][..]));
    }

    #[test]
    fn an_operation_without_a_meaning_is_refused() {
        let mut encoder = encoder();
        let refused = |encoder: &mut Encoder, operation: PagingOperation| {
            matches!(build(encoder, &operation, 4096), (statuses, bytes)
                if matches!(statuses[..], [BuildStatus::Other(_)]) && bytes.is_empty())
        };
        assert!(refused(&mut encoder, copy(0, 64, 8)), "no window shows anything");
        let address = PhysicalAddress { segment: SegmentId(1), offset: 0 };
        let discard = DiscardContent { allocation: ALLOCATION, flags: DiscardContentFlags::empty(), address };
        assert!(refused(&mut encoder, PagingOperation::DiscardContent(discard)), "it is for physical addresses");
        let flags = UpdatePageTableFlags::REPEAT;
        let repeated = UpdatePageTable { flags, ..map(OTHER, 16, 32, Some(at(1, 5))) };
        assert!(refused(&mut encoder, PagingOperation::UpdatePageTable(repeated)), "pages that are all one");
    }

    #[test]
    fn operations_come_back_from_their_bytes_and_bytes_without_a_meaning_are_told() {
        let process = KmdProcessHandle(0x1234_5678_9ABC);
        let operations = [
            Operation::Map { process, pages: 5..1 << 35, to: Some(at(31, 1 << 40)) },
            Operation::Map { process, pages: 5..6, to: None },
            Operation::Copy { from: at(0, 7), to: at(3, 1 << 33), pages: 1 << 34 },
            Operation::Fill { to: at(1, 9), pages: 16, pattern: u32::MAX },
            Operation::Foreign { token: 0xFEDC_BA98, at: at(2, 11), pages: 3, offset: 1 << 45 },
        ];
        let bytes: Vec<u8> = operations.iter().flat_map(Operation::to_bytes).collect();
        let decoded: Option<Vec<Operation>> = Operation::all(&bytes).collect();
        assert_eq!(decoded.as_deref(), Some(&operations[..]));
        assert_eq!(Operation::all(&bytes[1..]).last(), Some(None), "bytes that are cut");
        assert_eq!(Operation::all(&[0xFF; BYTES]).next(), Some(None), "a kind that there is not");
        assert_eq!(Operation::all(&[]).count(), 0);
    }
}
