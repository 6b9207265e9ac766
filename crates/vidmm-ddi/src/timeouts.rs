//! The driver's answers about an engine that is late: the last fence, the state, data for a debugger (DRV-13).
//!
//! A driver without one of the functions is not asked.

use crate::abi::*;
use crate::adapter::{Adapter, PASSIVE_LEVEL};
use crate::guards::{BEHIND, Damage, GUARD};
use crate::progress::Entry;
use crate::reports::report;

/// The packet that the driver names as the last ended packet of an engine; none if the driver does not say.
pub(crate) fn query_current_fence(adapter: &Adapter, node_ordinal: u32) -> Option<u32> {
    let function = adapter.ddi().DxgkDdiQueryCurrentFence?;
    let mut args = DXGKARG_QUERYCURRENTFENCE { NodeOrdinal: node_ordinal, ..DXGKARG_QUERYCURRENTFENCE::zeroed() };
    // SAFETY: the struct lives for the call.
    let status = adapter.call_with(Entry::DxgkDdiQueryCurrentFence, PASSIVE_LEVEL, &mut args, |args| unsafe {
        function(adapter.handle(), args)
    });
    (status >= 0).then(|| adapter.fences.packet_of(args.CurrentFence))
}

/// Asks for the state of an engine, as Windows does before a reset of the engine. The answer decides nothing here: the engine is reset
/// in any case.
pub(crate) fn query_engine_status(adapter: &Adapter, node_ordinal: u32) {
    let Some(function) = adapter.ddi().DxgkDdiQueryEngineStatus else { return };
    let mut args = DXGKARG_QUERYENGINESTATUS { NodeOrdinal: node_ordinal, ..DXGKARG_QUERYENGINESTATUS::zeroed() };
    // SAFETY: the struct lives for the call.
    let status = adapter.call_with(Entry::DxgkDdiQueryEngineStatus, PASSIVE_LEVEL, &mut args, |args| unsafe {
        function(adapter.handle(), args)
    });
    if status < 0 {
        let message = "it must always succeed (DRV-13)";
        report("DDI-ENGINE-STATUS", format!("DxgkDdiQueryEngineStatus failed with status {status:#x}: {message}"));
    }
}

/// The timeout before which data for a debugger is collected.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Timeout {
    Adapter,
    Engine,
}

/// The buffers for the data have these sizes in turn: a driver may write as many bytes.
const DEBUG_BYTES: [usize; 3] = [64, 4096, 0];

/// Lets the driver collect data for a debugger, as Windows does before a reset. A failure is legal: the data is left out.
pub(crate) fn collect_dbg_info(adapter: &Adapter, timeout: Timeout) {
    let Some(function) = adapter.ddi().DxgkDdiCollectDbgInfo else { return };
    let number = adapter.debug_reports.replace(adapter.debug_reports.get() + 1);
    let size = DEBUG_BYTES[number % DEBUG_BYTES.len()];
    let mut buffer = vec![GUARD; BEHIND + size + BEHIND];
    let mut extension = DXGKARG_COLLECTDBGINFO_EXT::zeroed();
    let mut args = DXGKARG_COLLECTDBGINFO {
        Reason: match timeout {
            Timeout::Adapter => VIDEO_TDR_TIMEOUT_DETECTED,
            Timeout::Engine => VIDEO_ENGINE_TIMEOUT_DETECTED,
        },
        pBuffer: buffer.as_mut_ptr().wrapping_add(BEHIND).cast(),
        BufferSize: size,
        pExtension: &mut extension,
    };
    // SAFETY: the structs and the buffer live for the call; beside the buffer are bytes of ours.
    adapter.call_with(Entry::DxgkDdiCollectDbgInfo, PASSIVE_LEVEL, &mut args, |args| unsafe {
        function(adapter.handle(), args)
    });
    if let Some(damage) = Damage::find(&buffer[..BEHIND], &buffer[BEHIND + size..]) {
        report("DDI-DEBUG-DATA", format!("DxgkDdiCollectDbgInfo has a buffer of {size} bytes, and {damage} (DRV-13)"));
    }
}
