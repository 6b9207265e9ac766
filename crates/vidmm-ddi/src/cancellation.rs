//! Work that the hardware never gets: the driver is told, and frees what the driver keeps for the work (DRV-13).

use crate::abi::*;
use crate::adapter::{Adapter, PASSIVE_LEVEL};
use crate::dma_buffers::Unsubmitted;
use crate::progress::Entry;
use crate::reports::report;

/// Cancels DMA buffers of a context that were translated, and that the driver never got. The allocations of the buffers may be gone, so
/// the lists are empty. A driver that does not ask for cancellations hears nothing.
pub(crate) fn cancel_unsubmitted(adapter: &Adapter, context: u64, is_meant: impl Fn(usize) -> bool) {
    let unsubmitted = Vec::from_iter(adapter.dma.unsubmitted(context).into_iter().filter(|part| is_meant(part.number)));
    let function = adapter.ddi().DxgkDdiCancelCommand.filter(|_| adapter.cancels.get());
    let Some(function) = function else {
        adapter.drops.set(adapter.drops.get() || !unsubmitted.is_empty());
        return;
    };
    for Unsubmitted { number, start, end } in unsubmitted {
        let (buffer, bytes) = adapter.dma.patched(number);
        let mut args = DXGKARG_CANCELCOMMAND {
            hContext: adapter.contexts.handle(context),
            pDmaBuffer: bytes,
            DmaBufferSize: end as u32,
            DmaBufferSubmissionStartOffset: start as u32,
            DmaBufferSubmissionEndOffset: end as u32,
            pDmaBufferPrivateData: buffer.private,
            DmaBufferPrivateDataSize: buffer.private_size,
            DmaBufferPrivateDataSubmissionEndOffset: buffer.private_end(),
            ..DXGKARG_CANCELCOMMAND::zeroed()
        };
        // SAFETY: the struct and the buffer live for the call.
        let status = adapter.call_with(Entry::DxgkDdiCancelCommand, PASSIVE_LEVEL, &mut args, |args| unsafe {
            function(adapter.handle(), args)
        });
        if status < 0 {
            report("DDI-CANCEL", format!("DxgkDdiCancelCommand failed with status {status:#x}: it must not fail"));
        }
        adapter.dma.must_be_whole(number, "BPB-02", "DxgkDdiCancelCommand");
    }
}
