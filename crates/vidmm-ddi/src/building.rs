//! BuildPagingBuffer: the operation goes to the driver, and its answer comes back judged.

use vidmm::contract::{BuildPagingBuffer, BuildStatus, PagingOperation, PagingOperationKind, UpdatePageTable};
use vidmm::{PAGE_SIZE, PhysicalAddress};

use crate::abi::*;
use crate::adapter::{Adapter, PASSIVE_LEVEL};
use crate::bounce::Bounce;
use crate::dma_buffers::Written;
use crate::guards::Guarded;
use crate::memory::SegmentBases;
use crate::payload::Payloads;
use crate::progress::Entry;
use crate::reports::report;
use crate::targets::Effect;

/// The lists of a call, until the next call.
pub(crate) struct Building {
    payloads: Payloads,
    /// A page table as the CPU sees it.
    table: Bounce,
    /// Bytes of a table of each level, leaf first.
    table_bytes: Vec<u32>,
}

/// A table of more bytes no driver has.
const TABLE_BYTES_MAX: u32 = 64 << 20;

impl Building {
    pub fn new(bases: SegmentBases, table_bytes: Vec<u32>) -> Self {
        Self { payloads: Payloads::new(bases), table: Bounce::default(), table_bytes }
    }

    /// Shows the CPU the table of an update, if the CPU writes tables (GVA-33).
    fn show_table(&mut self, adapter: &Adapter, operation: &PagingOperation) -> Option<Shown> {
        let PagingOperation::UpdatePageTable(op) = operation else { return None };
        let bytes = self.table_bytes_of(op);
        op.update_mode.is_by_cpu().then(|| {
            let start = self.table.start(0, bytes as usize);
            let mut before = vec![0; bytes as usize];
            if let Some(memory) = adapter.memory() {
                memory.read_place(op.page_table_address, &mut before);
            }
            // SAFETY: the room is as large as the table.
            unsafe { start.copy_from_nonoverlapping(before.as_ptr(), before.len()) };
            Shown { place: op.page_table_address, start, bytes: bytes as usize }
        })
    }

    fn table_bytes_of(&self, op: &UpdatePageTable) -> u32 {
        self.table_bytes.get(op.page_table_level as usize).copied().unwrap_or_default().min(TABLE_BYTES_MAX)
    }

    /// The effect of an operation in memory. An aperture has none: the pages that the aperture shows are not the operation's own.
    fn effect(&self, adapter: &Adapter, operation: &PagingOperation) -> Option<Effect> {
        let table_bytes = match operation {
            PagingOperation::UpdatePageTable(op) => self.table_bytes_of(op).into(),
            _ => 0,
        };
        let is_aperture =
            |place: PhysicalAddress| adapter.memory().is_some_and(|memory| memory.is_aperture(place.segment.0.into()));
        match Effect::of(operation, table_bytes) {
            Some(Effect::Physical { to, from, .. }) if is_aperture(to) || from.is_some_and(is_aperture) => {
                Some(Effect::Unknown)
            }
            effect => effect,
        }
    }

    /// Copies the bytes from the CPU to the table.
    fn take_table(&mut self, adapter: &Adapter, shown: Shown) {
        match self.table.written(0, shown.start.wrapping_add(shown.bytes)) {
            Some(bytes) => adapter.memory().iter().for_each(|memory| memory.write_place(shown.place, bytes)),
            None => report("BPB-02", "UPDATE_PAGE_TABLE: bytes behind the table were written by the CPU"),
        }
    }

    /// Lets the driver encode an operation.
    pub fn build(&mut self, adapter: &Adapter, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        let Some(function) = adapter.ddi().DxgkDdiBuildPagingBuffer else { return BuildStatus::Other(-1) };
        adapter.retire_mdls();
        let shown = self.show_table(adapter, build.operation);
        let table = shown.as_ref().map(|shown| shown.start);
        let (offset, room) = (build.dma_buffer_write_offset as usize, build.dma_buffer.len());
        let private_room = build.dma_buffer_private_data.len();
        // The place of the first byte names the manager's buffer, and stays.
        let key = build.dma_buffer.as_ptr().addr().wrapping_sub(offset);
        let is_by_gpu = !build.operation.is_by_cpu();
        let place = is_by_gpu.then(|| adapter.dma.paging(key, offset, offset + room, private_room));
        let mut args = Guarded::new(DXGKARG_BUILDPAGINGBUFFER::zeroed());
        args.Operation = self.payloads.write_payload(adapter, build.operation, table, &mut args.Reserved);
        if let Some(place) = place {
            (args.pDmaBuffer, args.pDmaBufferPrivateData) = (place.dma, place.private);
        }
        args.DmaSize = room as u32;
        args.DmaBufferPrivateDataSize = private_room as u32;
        args.MultipassOffset = *build.multipass_offset;
        args.hSystemContext = adapter.contexts.handle(build.system_context.0);
        args.DmaBufferWriteOffset = build.dma_buffer_write_offset;
        let allocation = build.operation.allocation().map_or(0, |allocation| allocation.0);
        adapter.progress().build(args.Operation, allocation);
        // SAFETY: the struct, its lists and its buffers live for the call; beyond a buffer's end are bytes of ours.
        let status = adapter.call_guarded(Entry::DxgkDdiBuildPagingBuffer, PASSIVE_LEVEL, &mut args, |args| unsafe {
            function(adapter.handle(), args)
        });
        *build.multipass_offset = args.MultipassOffset;
        if let Some(shown) = shown {
            self.take_table(adapter, shown);
        }
        let kind = build.operation.kind();
        let effect = self.effect(adapter, build.operation);
        let lists = &mut self.payloads.lists;
        match place {
            Some(place) => {
                adapter.dma.keep_mdls(place.number, lists);
                if let Some(effect) = effect {
                    adapter.dma.add_effect(place.number, effect);
                }
                let written = adapter.dma.take_dma(place, args.pDmaBuffer, build.dma_buffer);
                build.dma_bytes_written = must_be_within(written, room, kind, "a DMA buffer");
                if private_room > 0 {
                    let end = args.pDmaBufferPrivateData;
                    let written = adapter.dma.take_private(place, end, build.dma_buffer_private_data);
                    build.private_bytes_written = must_be_within(written, private_room, kind, "private data");
                }
            }
            None => {
                if let Some(Effect::Maps(op, _)) = effect {
                    adapter.targets.map(&op);
                }
                adapter.mdls.retire(adapter.driver(), std::mem::take(lists));
            }
        }
        judged(status, kind, build.allocation_is_idle)
    }

    /// Asks for an operation that no version has.
    pub fn ask_unknown(&self, adapter: &Adapter) {
        /// Behind the last operation of WDDM 3.2. A larger number is no value of the enumeration in C++.
        const UNKNOWN_OPERATION: u32 = 31;
        const ROOM: usize = PAGE_SIZE as usize;
        let Some(function) = adapter.ddi().DxgkDdiBuildPagingBuffer else { return };
        let place = adapter.dma.paging(0, 0, ROOM, 0);
        let mut args = DXGKARG_BUILDPAGINGBUFFER {
            pDmaBuffer: place.dma,
            DmaSize: ROOM as u32,
            Operation: UNKNOWN_OPERATION,
            ..DXGKARG_BUILDPAGINGBUFFER::zeroed()
        };
        adapter.progress().build(UNKNOWN_OPERATION, 0);
        // SAFETY: the struct and its buffer live for the call.
        let status = adapter.call_with(Entry::DxgkDdiBuildPagingBuffer, PASSIVE_LEVEL, &mut args, |args| unsafe {
            function(adapter.handle(), args)
        });
        if status >= 0 {
            let message =
                "an operation that the driver cannot know is answered with success, as if it were carried out";
            report("DDI-UNKNOWN-OPERATION", message);
        }
    }
}

/// A table for the CPU: the place, and the bytes.
struct Shown {
    place: PhysicalAddress,
    start: *mut u8,
    bytes: usize,
}

/// How many bytes the driver has written: more than the room if the driver has left the room.
fn must_be_within(written: Written, room: usize, kind: PagingOperationKind, what: &str) -> usize {
    written.unwrap_or_else(|damage| {
        report("BPB-02", format!("{kind}: DxgkDdiBuildPagingBuffer has {room} bytes of {what}, and {damage}"));
        room + 1
    })
}

/// The answer. An illegal one is reported here, because a world in which mistakes are made on purpose expects the adapter to fail.
fn judged(status: NTSTATUS, kind: PagingOperationKind, is_idle: bool) -> BuildStatus {
    match status {
        STATUS_SUCCESS => BuildStatus::Success,
        STATUS_GRAPHICS_INSUFFICIENT_DMA_BUFFER => BuildStatus::InsufficientDmaBuffer,
        STATUS_GRAPHICS_ALLOCATION_BUSY => {
            if is_idle || !kind.may_be_busy() {
                let reason = if is_idle { "its allocation is idle" } else { "it has no such answer" };
                report("BPB-06", format!("{kind} is answered with busy, although {reason}"));
            }
            BuildStatus::AllocationBusy
        }
        other => {
            report("BPB-01", format!("{kind} is answered with status {other:#x}"));
            BuildStatus::Other(other)
        }
    }
}
