//! What the events say of an allocation, and how its device's list names it.

use std::collections::{BTreeSet, VecDeque};

use vidmm::contract::{AllocationFlags2, KmdAllocationHandle};
use vidmm::{DeviceId, EvictFlags, Extent, PageSize, PlanNo, ProcessId, SegmentId};

use super::segment::{Run, runs_of};

/// What is known of an allocation.
#[derive(Debug)]
pub(super) struct Allocation {
    pub device: DeviceId,
    pub handle: KmdAllocationHandle,
    pub size: u64,
    pub backing_store: u64,
    /// Where the driver said that it can be.
    pub supported_segment_set: u32,
    pub accessed_physically: bool,
    /// What its driver is to hear of.
    pub notify: AllocationFlags2,
    /// The plan for which its driver last heard that it is to be unmapped from the IOMMU, and the packet of the paging engine.
    pub unmap_told: (PlanNo, u64),
    /// Where the last decision puts it.
    pub decided: Option<Place>,
    /// Where the plans put it that have entered the stream.
    pub entered: Option<Place>,
    /// Where it is once all that was built has run.
    pub built: Option<Place>,
    /// The last plan that moves it.
    pub last_plan: PlanNo,
    /// Its backing store has content.
    pub backed: bool,
    /// Engines reached its backing store since that had no content.
    pub was_in_place: bool,
    /// Something was written that its backing store does not have.
    pub written: bool,
    /// The caller destroyed it: its content is nothing to anybody.
    pub destroyed: bool,
    pub list: ListEntry,
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
    pub virtual_address: u64,
    pub size: u64,
    pub allocation: vidmm::AllocationId,
    pub allocation_offset: u64,
    pub page_size: PageSize,
    pub read_only: bool,
    pub driver_protection: u64,
    /// Its request is granted.
    pub granted: bool,
    /// It was given back after this submission of the allocation's device.
    pub freed: Option<u64>,
}

impl Mapping {
    /// The first address after it.
    pub fn end(&self) -> u64 {
        self.virtual_address.saturating_add(self.size)
    }
}

/// How the list of its device names an allocation. A *span* lasts from the MakeResident that raises the count from 0 to the
/// Evict that lowers it to 0; the submissions made in it require the allocation (D2).
#[derive(Debug, Default)]
pub(super) struct ListEntry {
    pub count: u64,
    spans: VecDeque<Span>,
    last_number: u64,
}

/// One span.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub number: u64,
    /// The last submission before it.
    pub from: u64,
    /// The last submission in it, once it has ended.
    pub to: Option<u64>,
    pub granted: bool,
    not_written_to: bool,
}

impl Span {
    /// Whether a submission was made in it.
    pub fn requires(&self, submission: u64) -> bool {
        self.from < submission && self.to.is_none_or(|to| submission <= to)
    }

    /// The submissions that were made in it, as bounds of a range that is well formed.
    pub fn submissions(&self) -> std::ops::RangeInclusive<u64> {
        let to = self.to.unwrap_or(u64::MAX);
        self.from.saturating_add(1).min(to)..=to
    }

    /// Whether work in it may have written to the allocation.
    pub fn may_have_written(&self) -> bool {
        !self.not_written_to && self.to.is_none_or(|to| self.from < to)
    }
}

impl ListEntry {
    /// A MakeResident after submission `from`. Returns the number of the span that it is for.
    pub fn join(&mut self, from: u64) -> u64 {
        self.count += 1;
        if self.count == 1 {
            self.last_number += 1;
            let span = Span { number: self.last_number, from, to: None, granted: false, not_written_to: false };
            self.spans.push_back(span);
        }
        self.last_number
    }

    /// An Evict after submission `to`; `false` if the allocation is not on the list.
    pub fn leave(&mut self, to: u64, flags: EvictFlags) -> bool {
        let Some(count) = self.count.checked_sub(1) else { return false };
        self.count = count;
        if let Some(span) = self.spans.back_mut() {
            span.not_written_to |= flags.contains(EvictFlags::NOT_WRITTEN_TO);
            if count == 0 {
                span.to = Some(to.max(span.from));
            }
        }
        true
    }

    /// The allocation leaves the list, however often it is on it.
    pub fn leave_for_good(&mut self, to: u64) {
        self.count = self.count.min(1);
        self.leave(to, EvictFlags::all());
    }

    /// A request for a span is granted.
    pub fn grant(&mut self, number: u64) {
        if let Some(span) = self.spans.iter_mut().find(|span| span.number == number) {
            span.granted = true;
        }
    }

    pub fn span(&self, number: u64) -> Option<&Span> {
        self.spans.iter().find(|span| span.number == number)
    }

    pub fn spans(&self) -> impl Iterator<Item = &Span> {
        self.spans.iter()
    }

    /// Forgets granted spans of which `is_over` says that all their work has retired. Returns whether any of them wrote.
    pub fn forget(&mut self, is_over: impl Fn(&Span) -> bool) -> bool {
        let mut written = false;
        self.spans.retain(|span| {
            let over = span.granted && span.to.is_some() && is_over(span);
            written |= over && span.may_have_written();
            !over
        });
        written
    }
}
