//! The steps that plans are expanded into.

use crate::{
    addresses::IoMmuRange,
    contract::{PagingOperation, UpdatePageTable},
};

/// One step of the stream: what the driver encodes, or what is done without the GPU in between.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Operation(PagingOperation),
    /// Nothing that is under way uses the addresses: done at once.
    MapIoMmu(IoMmuRange),
    /// Done by the host when all that was built before has completed.
    UnmapIoMmu(IoMmuRange),
    /// Done by the driver, with the CPU, when all that was built before has completed (BPB-08): whatever the GPU read through
    /// the old entries it has read, and what is built next finds the new ones.
    UpdateByCpu(UpdatePageTable),
    /// Replaced by the steps through which the paging engine writes entries at addresses of the paging process.
    UpdateInView(UpdatePageTable),
}
