//! Something in error, and whether that is expected; and faults that are still to be told of a packet.

use vidmm::{DeviceId, GpuVirtualAddress};

/// Something that is in error, and whether a step expects that.
#[derive(Debug)]
pub(crate) struct InError<T> {
    pub why: T,
    pub is_expected: bool,
}

impl<T> InError<T> {
    pub fn unexpected(why: T) -> Self {
        Self { why, is_expected: false }
    }
}

/// A page fault of an engine whose driver did not know the packet, while the manager does not know it either (FLT-11).
#[derive(Debug)]
pub(crate) struct UnnamedFault {
    pub engine: u32,
    pub virtual_address: GpuVirtualAddress,
    /// The access in words.
    pub access: String,
    /// The device that is in error for it, as soon as the engine was reset.
    pub device: Option<DeviceId>,
}
