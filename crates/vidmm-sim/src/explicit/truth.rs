//! Where every allocation is, by the event log alone: what the manager's answers are compared with.

use std::collections::BTreeMap;
use vidmm_trace::Segments;

use vidmm::{AllocationId, Event, MemorySegmentGroup, ProcessId, ReclaimResult, SegmentId};

use crate::scenario::steps::Whereabouts;

/// The facts that the log tells of allocations.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    segments: Segments,
    allocations: BTreeMap<AllocationId, Allocation>,
    /// The adapter is being reset.
    is_reset: bool,
}

#[derive(Debug)]
struct Allocation {
    owner: ProcessId,
    size: u64,
    place: Option<SegmentId>,
    offered: bool,
    /// It was offered, and not reclaimed with a backing store since: its content may go at any time (RES-66).
    may_lose_content: bool,
    /// A Reclaim could not commit it again.
    uncommitted: bool,
}

impl Truth {
    /// Takes note of an event.
    pub fn observe(&mut self, event: &Event) {
        match *event {
            Event::AdapterStarted { .. } => self.segments = Segments::of(event).unwrap_or_default(),
            Event::AllocationCreated { allocation, process, size, .. } => {
                let (place, offered, may_lose_content, uncommitted) = (None, false, false, false);
                let created = Allocation { owner: process, size, place, offered, may_lose_content, uncommitted };
                self.allocations.insert(allocation, created);
            }
            Event::AllocationReclaimed { allocation } => {
                self.allocations.remove(&allocation);
            }
            Event::AllocationOwnershipTransferred { allocation, process, .. } => {
                self.change(allocation, |allocation| allocation.owner = process);
            }
            Event::Placed { allocation, segment, .. } => {
                self.change(allocation, |allocation| allocation.place = Some(segment));
            }
            Event::Evicted { allocation, .. } => self.change(allocation, |allocation| allocation.place = None),
            Event::AdapterResetBegun { .. } => self.is_reset = true,
            // Nothing is resident any more (FLT-32).
            Event::AdapterRestarted => {
                self.is_reset = false;
                self.allocations.values_mut().for_each(|allocation| allocation.place = None);
            }
            Event::Offered { ref allocations, .. } => {
                let offer = |of: &mut Allocation| (of.offered, of.may_lose_content) = (true, true);
                allocations.iter().for_each(|&id| self.change(id, offer));
            }
            Event::Reclaimed { ref allocations, ref results, .. } => {
                for (&id, &result) in allocations.iter().zip(results) {
                    let is_uncommitted = result == ReclaimResult::NotCommitted;
                    self.change(id, |of| {
                        (of.offered, of.may_lose_content, of.uncommitted) = (false, is_uncommitted, is_uncommitted);
                    });
                }
            }
            // No program can reclaim it any more: until it goes it is memory of its owner's.
            Event::AllocationDestroyed { allocation, .. } => self.change(allocation, |of| of.offered = false),
            _ => {}
        }
    }

    /// Bytes of the process's allocations that are resident in a group, without those that it has offered (U-33, U-37). Unknown
    /// while the adapter is reset: no event says when all has gone.
    pub fn usage(&self, process: ProcessId, group: MemorySegmentGroup) -> Option<u64> {
        let counts = |allocation: &&Allocation| {
            allocation.owner == process
                && !allocation.offered
                && allocation.place.is_some_and(|place| self.segments.group(place) == Some(group))
        };
        (!self.is_reset).then(|| self.allocations.values().filter(counts).map(|allocation| allocation.size).sum())
    }

    /// The bytes and the number of allocations of a process, or of all, that are resident in a segment, or anywhere.
    pub fn resident(&self, process: Option<ProcessId>, segment: Option<SegmentId>) -> (u64, u64) {
        let counts = |allocation: &&Allocation| {
            let place = allocation.place.map(|place| if self.is_memory(place) { place } else { SegmentId::SYSTEM });
            process.is_none_or(|process| process == allocation.owner)
                && place.is_some_and(|place| segment.is_none_or(|segment| segment == place))
        };
        let sizes = self.allocations.values().filter(counts).map(|allocation| allocation.size);
        sizes.fold((0, 0), |(bytes, count), size| (bytes + size, count + 1))
    }

    /// Whether a Reclaim could not commit an allocation again.
    pub fn is_uncommitted(&self, allocation: AllocationId) -> bool {
        self.allocations.get(&allocation).is_some_and(|allocation| allocation.uncommitted)
    }

    /// Whether the content of an allocation may go at any time.
    pub fn may_lose_content(&self, allocation: AllocationId) -> bool {
        self.allocations.get(&allocation).is_some_and(|allocation| allocation.may_lose_content)
    }

    /// Whether the adapter is being reset.
    pub fn is_reset(&self) -> bool {
        self.is_reset
    }

    /// Whether an allocation is in a memory segment of an adapter that is being reset: its content is undefined (FLT-34).
    pub fn is_being_lost(&self, allocation: AllocationId) -> bool {
        self.is_reset && self.whereabouts(allocation) == Whereabouts::Local
    }

    /// Whether a segment is memory of its own, and no aperture.
    pub fn is_memory(&self, segment: SegmentId) -> bool {
        !segment.is_system() && self.segments.apertures().all(|aperture| aperture != segment)
    }

    /// Where an allocation is.
    pub fn whereabouts(&self, allocation: AllocationId) -> Whereabouts {
        match self.allocations.get(&allocation).and_then(|allocation| allocation.place) {
            None => Whereabouts::Nowhere,
            Some(segment) if segment.is_system() => Whereabouts::System,
            Some(segment) if self.is_memory(segment) => Whereabouts::Local,
            Some(_) => Whereabouts::Aperture,
        }
    }

    fn change(&mut self, allocation: AllocationId, change: impl FnOnce(&mut Allocation)) {
        if let Some(allocation) = self.allocations.get_mut(&allocation) {
            change(allocation);
        }
    }
}
