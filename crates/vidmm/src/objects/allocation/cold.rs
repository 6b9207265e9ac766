//! The facts of an allocation that few allocations have.

use alloc::vec::Vec;

use super::lock::Lock;
use crate::{
    adapter::patching::Patched,
    budget::account::Home,
    contract::KmdOpenHandle,
    event::offer::Offer,
    gpu_va::Mapping,
    id::{DeviceIx, PlanNo, ProcessIx},
    objects::list::ListEntry,
    units::Extent,
};

/// The facts of an allocation that few allocations have, outside the record.
#[derive(Debug, Default)]
pub(super) struct Cold {
    /// The ranges of the memory segment, for an allocation in parts.
    pub parts: Vec<Extent>,
    /// The mappings, without the owner's mapping of the whole allocation.
    pub mappings: Vec<Mapping>,
    /// The other devices with the allocation open.
    pub openings: Vec<Opening>,
    pub offer: Option<Offer>,
    pub lock: Option<Lock>,
    pub rehoming: Option<Rehoming>,
    pub patched: Option<Patched>,
    /// The last plan with a discard of the content, until the plan has retired. The backing store is reset at the
    /// retirement.
    pub discard: Option<PlanNo>,
}

/// The next home of an allocation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rehoming {
    pub to: Home,
    /// The device of the request, and the number of the request on the device.
    pub device: DeviceIx,
    pub request: u64,
}

/// The owner of an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub process: ProcessIx,
    pub device: DeviceIx,
}

/// A shared allocation on a device that is not the owner's (CRE-06).
#[derive(Debug)]
pub(crate) struct Opening {
    pub device: DeviceIx,
    pub process: ProcessIx,
    /// The driver's handle; none for the creator.
    pub handle: Option<KmdOpenHandle>,
    /// The entry of the device.
    pub entry: ListEntry,
    /// The device has closed the allocation; submitted work may still use the allocation.
    pub is_closed: bool,
}
