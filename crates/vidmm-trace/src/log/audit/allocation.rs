//! An allocation as the events tell of it.

use std::collections::{BTreeMap, BTreeSet};

use vidmm::contract::{AllocationFlags2, KmdAllocationHandle};
use vidmm::{DeviceId, Extent, PAGE_SIZE, PageSize, PagingQueueId, PlanNo, ProcessId, SegmentId};

use super::aspects::{Begun, Charge, CpuView, Offer, Pool, Residency};
use super::list_entry::{ListEntry, Writes};
use super::segment::{Run, runs_of};

/// The record of an allocation.
#[derive(Debug)]
pub(super) struct Allocation {
    /// The owning device. The device's process is charged for the memory.
    pub owner: DeviceId,
    pub handle: KmdAllocationHandle,
    pub size: u64,
    pub priority: u32,
    pub backing_store: u64,
    /// It has a backing store.
    pub committed: bool,
    /// Its backing store is the caller's memory.
    pub existing_sys_mem: bool,
    /// Its backing store is in cacheable memory.
    pub cached: bool,
    /// Only leaf entries may show the allocation.
    pub never_large: bool,
    /// Where the driver said that it can be.
    pub supported_segment_set: u32,
    /// The segment that its driver prefers most, until it says otherwise or the CPU is to see it.
    pub preferred_segment: Option<SegmentId>,
    pub accessed_physically: bool,
    pub shared: bool,
    /// The CPU sees its backing store, wherever it is (2.2).
    pub seen_in_backing_store: bool,
    /// The notifications that its driver is to hear.
    pub notify: AllocationFlags2,
    /// The plan for which its driver last heard that it is to be unmapped from the IOMMU, and the packet of the paging engine.
    pub unmap_told: (PlanNo, u64),
    /// The place in a memory segment that its driver knows of, if it asked for that.
    pub residency: Option<Residency>,
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
    /// The last plan that copies, fills or loses its content, or has its driver put it right.
    pub last_copy: PlanNo,
    /// The event that last gave it a place, or took it away: earlier work wrote to what it left.
    pub moved_at: u64,
    /// The last plan that brings it up to date, until which its copy alone is right; 0 is none.
    pub refreshed_by: PlanNo,
    /// Its cleaning, if that has begun and not ended.
    pub cleaning: Option<Begun>,
    /// Its backing store has content.
    pub backed: bool,
    /// Engines reached its backing store since that had no content.
    pub was_in_place: bool,
    /// The event of the last submission that used it, of those that were the last of their device when its list let it go; none if
    /// there was none.
    pub last_use: Option<u64>,
    /// Writes that the backing store lacks, beside those of [`cleaning`](Self::cleaning).
    pub writes: Writes,
    /// The caller destroyed it: its content is nothing to anybody.
    pub destroyed: bool,
    /// Devices that can name it: its owner, and those that opened it, in the order in which they did.
    pub open: Vec<DeviceId>,
    /// Devices that have closed it, and the last submission that each had made by then.
    pub closed_by: Vec<(DeviceId, u64)>,
    pub lists: BTreeMap<DeviceId, ListEntry>,
    /// An Evict has asked that it goes, whether its room is wanted or not (RES-21), since a list last began to name it.
    pub is_to_go: bool,
    pub offer: Option<Offer>,
    /// The last plan that discards its content.
    pub discarded_by: PlanNo,
    /// The CPU's view of it while it is locked.
    pub cpu_view: Option<CpuView>,
    /// Lists count it in another memory since a call that may have been a lock: the log says nothing of a lock before the allocation is
    /// where the CPU sees it.
    pub may_wait_for_lock: bool,
    /// Where lists count it, if it may be in several memories.
    pub counted_in: Option<Pool>,
    /// The bytes that lists demand for it.
    pub charges: Vec<Charge>,
    /// Where processes see it.
    pub mappings: BTreeSet<(ProcessId, u64)>,
}

impl Allocation {
    /// A request for a span of a device is granted: of the Evicts before, only those of work that is under way still count.
    pub fn grant(&mut self, device: DeviceId, span: u64) {
        self.lists.get_mut(&device).into_iter().for_each(|entry| entry.grant(span));
        self.is_to_go = self.lists.values().flat_map(ListEntry::spans).any(|span| span.is_to_go && span.to.is_some());
    }

    /// A cleaning ends before its end: the backing store lacks all writes.
    pub fn stop_cleaning(&mut self) {
        if let Some(begun) = self.cleaning.take() {
            self.writes.add(begun.before);
        }
    }

    /// Its content is nothing to anybody.
    pub fn forget_content(&mut self) {
        (self.backed, self.was_in_place, self.writes, self.cleaning) = (false, false, Writes::NONE, None);
    }
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
    /// The page size that its entries may still have: it is what is left of a page that was cut, and the rest of that is not
    /// reclaimed yet (GVA-42).
    pub cut_from: Option<PageSize>,
    pub read_only: bool,
    pub no_execute: bool,
    pub driver_protection: u64,
    /// The value of the queue that says when it can be used; 0 is at once.
    pub asked_by: (PagingQueueId, u64),
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

    /// The part of it in `start..end`; none if that is empty.
    pub fn part(&self, start: u64, end: u64) -> Option<Self> {
        let (start, end) = (start.max(self.virtual_address), end.min(self.end()));
        let allocation_offset = self.allocation_offset.saturating_add(start.checked_sub(self.virtual_address)?);
        let size = end.checked_sub(start).filter(|&size| size > 0)?;
        Some(Self { virtual_address: start, size, allocation_offset, ..*self })
    }

    /// Its parts when `start..end` is freed: that part, and the rests. The rest of a page that is cut has
    /// pages of 4 KiB (GVA-42).
    pub fn cut(&self, start: u64, end: u64) -> (Option<Self>, Vec<Self>) {
        let page = self.page_size.bytes();
        let (first, last) = (start / page * page, end.checked_next_multiple_of(page).unwrap_or(u64::MAX));
        let small = |part: Self| Self { page_size: PageSize::Kib4, cut_from: Some(self.page_size), ..part };
        let rest = |start, end| self.part(start, end).map(|part| if page > PAGE_SIZE { small(part) } else { part });
        let left = [
            self.part(0, first),
            rest(first.max(self.virtual_address), start),
            rest(end, last),
            self.part(last, u64::MAX),
        ];
        (self.part(start, end), left.into_iter().flatten().collect())
    }

    /// Whether its entries may be of such pages.
    pub fn has_pages_of(&self, page_size: PageSize) -> bool {
        self.page_size == page_size || self.cut_from == Some(page_size)
    }
}
