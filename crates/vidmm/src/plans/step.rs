//! The steps that plans are expanded into.

use crate::{addresses::IoMmuRange, contract::PagingOperation};

/// One step of the stream: what the driver encodes, or what the host does in between.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Step {
    Operation(PagingOperation),
    /// Nothing that is under way uses the addresses: done at once.
    MapIoMmu(IoMmuRange),
    /// Done when all that was built before has completed.
    UnmapIoMmu(IoMmuRange),
}
