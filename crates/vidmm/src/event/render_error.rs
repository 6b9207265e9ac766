//! The reasons why commands are refused.

use crate::{adapter::patching::PatchListRule, contract::RenderStatus, event::error::DeviceInError, id::InvalidHandle};

/// The reason why commands were refused. Nothing changed, but for a broken patch-location list and an allocation that
/// is not resident.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RenderError {
    /// A handle names nothing.
    #[error(transparent)]
    InvalidHandle(#[from] InvalidHandle),
    /// The device or the adapter is in error (FLT-04).
    #[error(transparent)]
    DeviceInError(#[from] DeviceInError),
    /// Engines use GPU virtual addresses: there is nothing to patch.
    #[error("the adapter's engines use GPU virtual addresses: submit a DMA buffer instead")]
    GpuVirtualAddresses,
    /// An allocation is not open on the context's device.
    #[error("allocation number {position} of the list is not open on the context's device")]
    WrongDevice {
        /// Its position in the list.
        position: usize,
    },
    /// An allocation is not on the device's list: the device is in error for it (FLT-02).
    #[error(
        "allocation number {position} of the list is not on the device's residency list, and the device is in error for it"
    )]
    NotResident {
        /// Its position in the list.
        position: usize,
    },
    /// The context's queue is full (D14).
    #[error("{queued} submissions of the context are queued; poll and complete work before the next")]
    QueueFull {
        /// The limit.
        queued: usize,
    },
    /// The driver does not translate the commands (PAT-12).
    #[error("the driver refuses the commands: {0}")]
    Driver(RenderStatus),
    /// The driver's patch-location list breaks a rule: nothing was queued, and the device is in error (U-45).
    #[error(
        "patch location number {position} of the driver's list breaks a rule, and the device is in error for it: {rule}"
    )]
    PatchLocationList {
        /// Its position in the list.
        position: usize,
        /// The rule.
        rule: PatchListRule,
    },
}
