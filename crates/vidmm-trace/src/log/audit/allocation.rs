//! What the events say of an allocation.

use std::collections::{BTreeMap, BTreeSet};

use vidmm::contract::{AllocationFlags2, KmdAllocationHandle};
use vidmm::{DeviceId, Extent, PageSize, PlanNo, ProcessId, SegmentId};

use super::aspects::{Charge, CpuView, Offer};
use super::list_entry::ListEntry;
use super::segment::{Run, runs_of};

/// What is known of an allocation.
#[derive(Debug)]
pub(super) struct Allocation {
    /// The device that it belongs to, whose process is charged for it.
    pub owner: DeviceId,
    pub handle: KmdAllocationHandle,
    pub size: u64,
    pub priority: u32,
    pub backing_store: u64,
    /// It has a backing store.
    pub committed: bool,
    /// Its backing store is the caller's memory.
    pub existing_sys_mem: bool,
    /// Where the driver said that it can be.
    pub supported_segment_set: u32,
    pub accessed_physically: bool,
    pub shared: bool,
    /// The CPU sees its backing store, wherever it is (2.2).
    pub seen_in_backing_store: bool,
    /// What its driver is to hear of.
    pub notify: AllocationFlags2,
    /// The plan for which its driver last heard that it is to be unmapped from the IOMMU, and the packet of the paging engine.
    pub unmap_told: (PlanNo, u64),
    /// Where the last decision puts it.
    pub decided: Option<Place>,
    /// The plan that has moved it there because it was in the way elsewhere.
    pub moved_by: Option<PlanNo>,
    /// Where the plans put it that have entered the stream.
    pub entered: Option<Place>,
    /// Where it is once all that was built has run.
    pub built: Option<Place>,
    /// The last plan that moves it.
    pub last_plan: PlanNo,
    /// The event that last gave it a place.
    pub placed_at: u64,
    /// Its backing store has content.
    pub backed: bool,
    /// Engines reached its backing store since that had no content.
    pub was_in_place: bool,
    /// Something was written that its backing store does not have.
    pub written: bool,
    /// The caller destroyed it: its content is nothing to anybody.
    pub destroyed: bool,
    /// Devices that can name it: its owner, and those that opened it, in the order in which they did.
    pub open: Vec<DeviceId>,
    pub lists: BTreeMap<DeviceId, ListEntry>,
    pub offer: Option<Offer>,
    /// What the CPU sees of it while it is locked.
    pub cpu_view: Option<CpuView>,
    /// What its owner's process demands for it.
    pub charge: Option<Charge>,
    /// Where processes see it.
    pub mappings: BTreeSet<(ProcessId, u64)>,
}

/// Where an allocation lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Place {
    /// The plan that brings it there.
    pub plan: PlanNo,
    pub segment: SegmentId,
    pub extents: Vec<Extent>,
}

impl Place {
    /// The memory that holds bytes `offset..offset + size` of what lies here.
    pub fn runs(&self, offset: u64, size: u64) -> Vec<Run> {
        runs_of(self.segment, &self.extents, offset, size)
    }
}

/// A part of an allocation that a process sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Mapping {
    pub process: ProcessId,
    /// The device on whose queue it was made.
    pub device: DeviceId,
    pub virtual_address: u64,
    pub size: u64,
    pub allocation: vidmm::AllocationId,
    pub allocation_offset: u64,
    pub page_size: PageSize,
    pub read_only: bool,
    pub driver_protection: u64,
    /// Its request is granted.
    pub granted: bool,
    /// It was given back after this submission of its device.
    pub freed: Option<u64>,
}

impl Mapping {
    /// The first address after it.
    pub fn end(&self) -> u64 {
        self.virtual_address.saturating_add(self.size)
    }
}
