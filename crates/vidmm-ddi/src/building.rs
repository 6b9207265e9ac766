//! BuildPagingBuffer: the operation goes to the driver, and its answer comes back judged.

use vidmm::PAGE_SIZE;
use vidmm::contract::{BuildPagingBuffer, BuildStatus, PagingOperationKind};

use crate::abi::*;
use crate::adapter::{Adapter, PASSIVE_LEVEL};
use crate::bounce::Bounce;
use crate::memory::SegmentBases;
use crate::payload::{Payloads, handle};
use crate::progress::Entry;
use crate::reports::report;

/// The lists and buffers that the calls point to; they live until the next one.
pub(crate) struct Building {
    payloads: Payloads,
    dma: Bounce,
    private: Bounce,
}

impl Building {
    pub fn new(bases: SegmentBases) -> Self {
        Self { payloads: Payloads::new(bases), dma: Bounce::default(), private: Bounce::default() }
    }

    /// Lets the driver encode an operation.
    pub fn build(&mut self, adapter: &Adapter, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        let Some(function) = adapter.ddi().DxgkDdiBuildPagingBuffer else { return BuildStatus::Other(-1) };
        let (operation, payload) = self.payloads.payload(build.operation);
        let by_cpu = build.operation.is_by_cpu();
        let (offset, room) = (build.dma_buffer_write_offset as usize, build.dma_buffer.len());
        let private_room = build.dma_buffer_private_data.len();
        let dma = if by_cpu { std::ptr::null_mut() } else { self.dma.start(offset, room) };
        let private = if private_room == 0 { std::ptr::null_mut() } else { self.private.start(0, private_room) };
        let mut args = DXGKARG_BUILDPAGINGBUFFER {
            pDmaBuffer: dma,
            DmaSize: room as u32,
            pDmaBufferPrivateData: private,
            DmaBufferPrivateDataSize: private_room as u32,
            Operation: operation,
            MultipassOffset: *build.multipass_offset,
            Reserved: payload,
            hSystemContext: handle(build.system_context.0),
            DmaBufferGpuVirtualAddress: 0,
            DmaBufferWriteOffset: build.dma_buffer_write_offset,
        };
        let allocation = build.operation.allocation().map_or(0, |allocation| allocation.0);
        adapter.progress().build(operation, allocation);
        // SAFETY: the struct, its lists and its buffers live for the call; beyond a buffer's end are bytes of ours.
        let status = adapter
            .call(Entry::DxgkDdiBuildPagingBuffer, PASSIVE_LEVEL, || unsafe { function(adapter.handle(), &mut args) });
        *build.multipass_offset = args.MultipassOffset;
        let kind = build.operation.kind();
        if !by_cpu {
            build.dma_bytes_written = take(&mut self.dma, offset, args.pDmaBuffer, build.dma_buffer, kind);
        }
        if private_room > 0 {
            let (end, data) = (args.pDmaBufferPrivateData, &mut *build.dma_buffer_private_data);
            build.private_bytes_written = take(&mut self.private, 0, end, data, kind);
        }
        judged(status, kind, build.allocation_is_idle)
    }

    /// Asks for an operation that no version has.
    pub fn ask_unknown(&mut self, adapter: &Adapter) {
        /// Far behind the last operation of WDDM 3.2.
        const UNKNOWN_OPERATION: u32 = 0x7FFF;
        const ROOM: usize = PAGE_SIZE as usize;
        let Some(function) = adapter.ddi().DxgkDdiBuildPagingBuffer else { return };
        let mut args = DXGKARG_BUILDPAGINGBUFFER {
            pDmaBuffer: self.dma.start(0, ROOM),
            DmaSize: ROOM as u32,
            Operation: UNKNOWN_OPERATION,
            ..DXGKARG_BUILDPAGINGBUFFER::zeroed()
        };
        adapter.progress().build(UNKNOWN_OPERATION, 0);
        // SAFETY: the struct and its buffer live for the call.
        let status = adapter
            .call(Entry::DxgkDdiBuildPagingBuffer, PASSIVE_LEVEL, || unsafe { function(adapter.handle(), &mut args) });
        if status >= 0 {
            let message =
                "an operation that the driver cannot know is answered with success, as if it were carried out";
            report("DDI-UNKNOWN-OPERATION", message);
        }
    }
}

/// Takes the bytes that the driver has written, and returns how many there are: more than there was room for if it has left its room.
fn take(from: &mut Bounce, offset: usize, end: *const u8, into: &mut [u8], kind: PagingOperationKind) -> usize {
    match from.written(offset, end) {
        Some(written) => {
            into[..written.len()].copy_from_slice(written);
            written.len()
        }
        None => {
            let room = into.len();
            let message = "or the pointer that is to be behind the last byte is not within it";
            report(
                "BPB-02",
                format!("{kind} has room for {room} bytes, and bytes behind that were written, {message}"),
            );
            room + 1
        }
    }
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
