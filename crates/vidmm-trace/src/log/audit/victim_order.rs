//! The order of victims: what nobody misses goes first, then lower priorities (CRE-31a, U-37).

use std::collections::BTreeMap;

use vidmm::event::EvictReason;
use vidmm::{AllocationId, DeviceId, OfferFlags, ProcessId, SegmentId};

use super::Audit;
use super::allocation::Allocation;
use super::aspects::{Offer, Pool};
use super::device::RequestKind;
use super::finding::Invariant;
use super::list_entry::{ListEntry, Span};

impl Audit {
    /// Room is made by offered allocations before all others, and among them by those of lower priority (U-37). What a suspended
    /// device has goes for others, or, when its process is suspended, for nobody: that makes no room.
    pub(super) fn check_victim_order(
        &mut self,
        id: AllocationId,
        segment: SegmentId,
        reason: EvictReason,
        wanted_by: Option<DeviceId>,
        comes_home: bool,
    ) {
        let victim = self.allocations.get(&id).and_then(|allocation| allocation.offer);
        let immediately = victim.is_some_and(|offer| offer.flags.contains(OfferFlags::OFFER_IMMEDIATELY));
        // An allocation that its own device wants elsewhere, where its list counts it, is no victim.
        let entry = |device| self.allocations.get(&id).and_then(|allocation| allocation.lists.get(&device));
        let is_own = wanted_by.is_some_and(|device| {
            entry(device)
                .is_some_and(|entry| entry.demands() || entry.spans().any(|span| self.holds_span(device, span)))
        });
        let makes_room = match reason {
            EvictReason::RoomWanted => !is_own,
            EvictReason::DeviceSuspended => wanted_by.is_some(),
            EvictReason::Offered => !immediately,
            _ => false,
        };
        // Where allocations are one range each, one that makes no hole that is wanted is spared.
        let has_ranges = self.places.memory(segment).is_some_and(|memory| memory.has_ranges);
        if !makes_room || has_ranges || self.adapter.is_physical() {
            return;
        }
        if reason != EvictReason::Offered {
            let is_listed = reason == EvictReason::DeviceSuspended;
            if !(comes_home && is_listed) {
                self.check_priority(id, segment, is_listed);
                self.check_not_entitled(id, segment, wanted_by);
            }
        }
        let owner = self.allocations.get(&id).map(|allocation| allocation.owner);
        let process = owner.and_then(|owner| self.process_of(owner));
        let before = |id: &&AllocationId| {
            let allocation = self.allocations.get(*id);
            let Some(other) = allocation.filter(|other| self.is_free_to_go(**id, other, segment)) else { return false };
            let is_earlier = |offer: Offer, victim: Offer| {
                let is_older = offer.was_idle && offer.at < victim.at && self.process_of(other.owner) == process;
                (offer.class, !is_older) < (victim.class, true)
            };
            other.offer.is_some_and(|offer| victim.is_none_or(|victim| is_earlier(offer, victim)))
        };
        let passed_over = self.offered.iter().find(before).copied();
        self.findings.check(passed_over.is_none(), Invariant::U37, || {
            format!("{id} makes room as {reason:?}, but {passed_over:?} was to go before it")
        });
    }

    /// A process loses for another's sake what it is entitled to only where no other can go without: what it has reserved; its
    /// budget, while budgets are imposed, or where it means more to the user than the other (U-31, RES-53, RES-70).
    fn check_not_entitled(&mut self, id: AllocationId, segment: SegmentId, wanted_by: Option<DeviceId>) {
        let Some(victim) = self.allocations.get(&id).filter(|of| is_pages(of)) else { return };
        let (Some(own), Some(other)) =
            (self.process_of(victim.owner), wanted_by.and_then(|device| self.process_of(device)))
        else {
            return;
        };
        if own == other || !self.demands_are_clear() {
            return;
        }
        let pool = self.places.pool(segment);
        let (bytes, sharing) = (self.bytes_in(pool), self.sharing(pool));
        let rights = |process| (bytes.get(&process).copied().unwrap_or(0), sharing.entitled(process, other));
        let (has, entitled) = rights(own);
        let left = has.saturating_sub(victim.size);
        if left >= *entitled.start() {
            return;
        }
        // Another process can do, whatever else it has, without an allocation that leaves it what it is entitled to.
        let instead = self.allocations.iter().find_map(|(&other_id, of)| {
            let place = of.decided.as_ref().filter(|place| self.places.pool(place.segment) == pool)?;
            let process = self.process_of(of.owner).filter(|&process| process != own)?;
            // An allocation that goes anyway makes room for nobody.
            let is_to_go = of.lists.values().flat_map(ListEntry::spans).any(|span| span.is_to_go);
            let can_go = is_pages(of) && !is_to_go && self.is_missed_by_nobody(other_id, of, place.segment);
            let (has, entitled) = can_go.then(|| rights(process))?;
            let is_enough = has.saturating_sub(of.size) >= *entitled.end();
            (process == other || is_enough).then_some(process)
        });
        self.findings.check(instead.is_none(), Invariant::P08, || {
            format!(
                "{id} makes room for {other}, which leaves {own} {left} bytes of {pool:?} of the {entitled:?} that it is entitled to, \
                 but {instead:?} has more than that"
            )
        });
    }

    /// The allocations in a pool.
    pub(super) fn allocations_in(&self, pool: Pool) -> impl Iterator<Item = &Allocation> {
        let is_here =
            move |of: &&Allocation| of.decided.as_ref().is_some_and(|at| self.places.pool(at.segment) == pool);
        self.allocations.values().filter(is_here)
    }

    /// The bytes that processes have in a pool.
    pub(super) fn bytes_in(&self, pool: Pool) -> BTreeMap<ProcessId, u64> {
        let mut bytes: BTreeMap<_, u64> = BTreeMap::new();
        for of in self.allocations_in(pool) {
            if let Some(process) = self.process_of(of.owner) {
                let bytes = bytes.entry(process).or_default();
                *bytes = bytes.saturating_add(of.size);
            }
        }
        bytes
    }

    /// Among the allocations of a process the dead go first, then by priority what no device requires, and last what a suspended
    /// device does. A larger one may stay where a smaller goes: its process would have too little left.
    fn check_priority(&mut self, id: AllocationId, segment: SegmentId, is_suspended: bool) {
        let Some(victim) = self.allocations.get(&id) else { return };
        let process = self.process_of(victim.owner);
        let is_older = |of: &Allocation| {
            let is_equal = self.keeps_order_of_use && of.priority == victim.priority;
            is_equal && is_used_before(of, victim)
        };
        let comes_before = |(other, of): &(&AllocationId, &Allocation)| {
            (is_suspended || of.destroyed || of.priority < victim.priority || is_older(of))
                && (of.destroyed || of.size <= victim.size)
                && **other != id
                && !victim.destroyed
                && self.process_of(of.owner) == process
                && self.is_missed_by_nobody(**other, of, segment)
        };
        let passed_over = self.allocations.iter().find(comes_before).map(|(&other, of)| (other, of.priority));
        let priority = victim.priority;
        self.findings.check(passed_over.is_none(), Invariant::Cre31a, || {
            format!("{id} of priority {priority} makes room, but {passed_over:?} of its process was to go before it")
        });
    }

    /// Whether an allocation is in a segment, is not offered, and is spare there, with no list that requires it.
    fn is_missed_by_nobody(&self, id: AllocationId, allocation: &Allocation, segment: SegmentId) -> bool {
        allocation.offer.is_none()
            && is_off_all_lists(allocation)
            && self.is_in(allocation, segment)
            && self.is_not_awaited(id, allocation)
    }

    /// The event of the last work that used an allocation before the lists let it go that name it no more.
    pub(super) fn last_use(&self, allocation: &Allocation) -> Option<u64> {
        let used = |(id, entry): (&DeviceId, &ListEntry)| {
            let device = self.devices.get(id)?;
            (entry.last_use() == Some(device.submitted)).then_some(device.submitted_at)
        };
        allocation.lists.iter().filter_map(used).chain(allocation.last_use).max()
    }

    pub(super) fn is_in(&self, allocation: &Allocation, segment: SegmentId) -> bool {
        allocation.decided.as_ref().is_some_and(|place| place.segment == segment)
    }

    /// Whether nothing that is still to be granted or dispatched uses an allocation.
    pub(super) fn is_not_awaited(&self, id: AllocationId, allocation: &Allocation) -> bool {
        let is_over = |id: &DeviceId, span: &Span| {
            span.granted && self.devices.get(id).is_none_or(|device| !device.still_holds(span))
        };
        let mut spans = allocation.lists.iter().flat_map(|(id, entry)| entry.spans().map(move |span| (id, span)));
        let is_awaited = || {
            let on_lists = allocation.lists.keys().filter_map(|device| self.devices.get(device));
            on_lists.flat_map(|device| &device.requests).any(|request| match &request.kind {
                RequestKind::MakeResident(named) => {
                    request.granted.is_none() && named.iter().any(|&(allocation, _)| allocation == id)
                }
                RequestKind::Map(..) | RequestKind::Reserve | RequestKind::Move => false,
            })
        };
        spans.all(|(id, span)| is_over(id, span)) && !is_awaited()
    }
}

/// Whether an allocation is pages: for one that is a range all that are in its way go.
fn is_pages(allocation: &Allocation) -> bool {
    !allocation.destroyed && !allocation.accessed_physically
}

/// Whether no list requires an allocation any more.
pub(super) fn is_off_all_lists(allocation: &Allocation) -> bool {
    allocation.lists.values().flat_map(ListEntry::spans).all(|span| span.to.is_some())
}

/// Whether one allocation was last used before another.
fn is_used_before(one: &Allocation, other: &Allocation) -> bool {
    one.last_use.zip(other.last_use).is_some_and(|(before, after)| before < after)
}
