//! Properties of an allocation that change later: its priority, and where it may be (CRE-31, CRE-50).

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;

use vidmm::contract::SegmentSet;
use vidmm::{AllocationId, ContextId, DeviceId, PagingQueueId, SegmentId};

use super::Audit;
use super::allocation::Allocation;
use super::aspects::Pool;
use super::device::RequestKind;
use super::finding::Invariant;
use super::list_entry::ListEntry;
use super::segment::Segment;

/// The priorities of contexts.
const PRIORITIES: RangeInclusive<i32> = -7..=7;

impl Audit {
    pub(super) fn context_priority_changed(&mut self, id: ContextId, priority: i32) {
        self.findings.check(PRIORITIES.contains(&priority), Invariant::Log, || {
            format!("{id} has priority {priority}, but priorities are {PRIORITIES:?}")
        });
        self.contexts.entry(id).and_modify(|context| context.priority = priority);
    }

    /// Neither its driver nor a call gives an allocation priority 0 (CRE-05).
    pub(super) fn check_priority_is_possible(&mut self, id: AllocationId, priority: u32) {
        self.findings.check(priority > 0, Invariant::Cre05, || format!("{id} has priority 0"));
    }

    /// Lists count an allocation in another memory, which is one of those where it may be.
    pub(super) fn counted(&mut self, id: AllocationId, pool: Pool, anew: bool) {
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        let may_be = self.places.pools_of(SegmentSet(allocation.supported_segment_set)).contains(&pool);
        self.findings.check(may_be, Invariant::I01, || format!("{id} is counted in {pool:?}, where it may not be"));
        let (before, owner) = (allocation.counted_in.replace(pool), allocation.owner);
        allocation.may_wait_for_lock = !anew && allocation.lists.values().any(|entry| entry.count > 0);
        if !anew {
            self.demands.note_recount(self.findings.event);
        }
        self.charge(id);
        self.note_away(id);
        if anew {
            self.moved_home(id, before, pool);
            [before, Some(pool)].into_iter().flatten().for_each(|pool| self.recount(pool, owner));
        } else {
            // A call of its owner has moved it.
            self.forget_moves(id);
        }
    }

    /// Where it may be is another set of segments; if it must move for that, it is a request of the queue's device.
    pub(super) fn property_updated(
        &mut self,
        id: AllocationId,
        set: u32,
        queue: PagingQueueId,
        paging_fence_value: u64,
    ) {
        self.check_leaves_for(id, SegmentSet(set), paging_fence_value);
        let pools = self.places.pools_of(SegmentSet(set));
        if let Some(allocation) = self.allocations.get_mut(&id) {
            (allocation.supported_segment_set, allocation.preferred_segment) = (set, None);
            allocation.counted_in = allocation.counted_in.filter(|pool| pools.contains(pool));
            let size = allocation.size;
            self.may_be_in(set, size);
        }
        self.charge(id);
        self.note_away(id);
        let device = self.fences.queues.get(&queue).map(|queue| queue.device);
        if let Some(device) = device.filter(|_| paging_fence_value > 0) {
            self.ask(device, queue, paging_fence_value, RequestKind::Move);
        }
    }

    /// A change of the set takes an allocation out of a place where it may not be any more, and only then has to wait (CRE-51).
    fn check_leaves_for(&mut self, id: AllocationId, set: SegmentSet, paging_fence_value: u64) {
        let left = self.forced_out.take();
        let is_right = left.is_none_or(|(of, segment)| of == id && !self.places.admits(set, segment));
        self.findings.check(is_right && left.is_some() == (paging_fence_value > 0), Invariant::Cre51, || {
            format!("the set of {id} becomes {:#x} with value {paging_fence_value}, for which {left:?} was left", set.0)
        });
        let place = self.allocations.get(&id).and_then(|allocation| allocation.decided.as_ref());
        let forbidden = place.map(|place| place.segment).filter(|&segment| !self.places.admits(set, segment));
        self.findings.check(forbidden.is_none(), Invariant::Cre51, || {
            format!("the set of {id} becomes {:#x}, but it stays in {forbidden:?}", set.0)
        });
    }

    /// An allocation leaves its place for another set only with the call that gives it that.
    pub(super) fn check_is_updated(&mut self) {
        let left = self.forced_out.take();
        self.findings.check(left.is_none(), Invariant::Cre51, || {
            format!("{left:?} was left for another set of segments, but no call has changed that")
        });
    }

    /// Allocations without any tie that join a device's list away from home: no list names them, no work, no request and no lock uses
    /// them, and their content is in no memory segment.
    pub(super) fn demoted_by_choice(&self, device: DeviceId, named: &[AllocationId]) -> BTreeSet<AllocationId> {
        let is_settled = self.devices.get(&device).is_some_and(|device| device.next_request().is_none());
        let is_free = |id: AllocationId, of: &Allocation| {
            let is_elsewhere = of.decided.as_ref().is_none_or(|place| self.places.in_system_memory(place.segment));
            let has_tie = of.accessed_physically || of.shared || of.cpu_view.is_some() || of.may_wait_for_lock;
            let mut spans = of.lists.values().flat_map(ListEntry::spans);
            is_elsewhere && !has_tie && spans.all(|span| span.to.is_some()) && self.is_not_awaited(id, of)
        };
        let is_demoted = |id: &AllocationId| {
            let of = self.allocations.get(id)?;
            let home =
                self.preferred_memory(of).filter(|&home| of.counted_in.is_some_and(|counted| counted != home))?;
            (is_free(*id, of) && self.places.memory(home.0).is_some_and(|memory| !memory.has_ranges)).then_some(*id)
        };
        named.iter().filter(|_| is_settled && !self.adapter.is_physical()).filter_map(is_demoted).collect()
    }

    /// Allocations have joined a list away from home, and would not have fitted there together, beside all lists (SEG-42, SEG-47).
    pub(super) fn check_first_choice(&mut self, demoted: &BTreeSet<AllocationId>) {
        if demoted.is_empty() || !self.demands_are_clear() {
            return;
        }
        let mut wanted: BTreeMap<Pool, u64> = BTreeMap::new();
        for of in demoted.iter().filter_map(|id| self.allocations.get(id)) {
            let bytes = self.preferred_memory(of).map(|home| wanted.entry(home).or_default());
            bytes.into_iter().for_each(|bytes| *bytes = bytes.saturating_add(of.size));
        }
        let has_room = |&(&home, &bytes): &(&Pool, &u64)| {
            self.demands.requested_by_all(home).saturating_add(bytes) <= self.places.capacity(home)
        };
        let roomy = wanted.iter().find(has_room).map(|(&home, _)| home);
        self.findings.check(roomy.is_none(), Invariant::Seg42, || {
            format!("{demoted:?} join a list away from home, though {roomy:?} has room for all")
        });
    }

    /// So many bytes more may be counted in the segments of a set, now or later.
    pub(super) fn may_be_in(&mut self, set: u32, size: u64) {
        for pool in self.places.pools_of(SegmentSet(set)) {
            let bytes = self.possible_bytes.entry(pool).or_default();
            *bytes = bytes.saturating_add(size);
        }
    }

    /// An allocation goes at first to the segment that its driver prefers most, as long as half of that has always had room for all
    /// that was ever there to be in it, and budgets are not restricted (SEG-42).
    pub(super) fn check_preferred(&mut self, id: AllocationId, segment: SegmentId) {
        let Some(allocation) = self.allocations.get(&id) else { return };
        let set = SegmentSet(allocation.supported_segment_set);
        let Some(preferred) = allocation.preferred_segment.filter(|&preferred| set.contains(preferred)) else { return };
        let pool = self.places.pool(preferred);
        let half = self.places.memory(pool.0).map_or_else(|| self.places.capacity(pool), Segment::least_capacity) / 2;
        let always_fits = self.possible_bytes.get(&pool).is_some_and(|&bytes| bytes <= half);
        let was_placed = allocation.last_plan > 0;
        let is_free = !was_placed && !allocation.accessed_physically;
        let holds = !is_free || !always_fits || self.adapter.restricts_budgets() || self.places.pool(segment) == pool;
        self.findings.check(holds, Invariant::Seg42, || {
            format!(
                "{id} goes to segment {}, but {} is preferred, and has always had room for all that may be there",
                segment.0, preferred.0
            )
        });
    }
}
