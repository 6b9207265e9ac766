//! The order of victims: what nobody misses goes first, then lower priorities (CRE-31a, U-37).

use vidmm::event::EvictReason;
use vidmm::{AllocationId, DeviceId, OfferFlags, SegmentId};

use super::Audit;
use super::allocation::Allocation;
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
    ) {
        let victim = self.allocations.get(&id).and_then(|allocation| allocation.offer);
        let immediately = victim.is_some_and(|offer| offer.flags.contains(OfferFlags::OFFER_IMMEDIATELY));
        // An allocation that its own device wants elsewhere, where its list counts it, is no victim.
        let entry = |device| self.allocations.get(&id).and_then(|allocation| allocation.lists.get(&device));
        let is_own = wanted_by.is_some_and(|device| {
            let still_holds = |span: &Span| self.devices.get(&device).is_some_and(|books| books.still_holds(span));
            entry(device).is_some_and(|entry| entry.demands() || entry.spans().any(still_holds))
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
            self.check_priority(id, segment, reason == EvictReason::DeviceSuspended);
        }
        let before = |id: &&AllocationId| {
            let allocation = self.allocations.get(*id);
            let class =
                allocation.filter(|other| self.is_free_to_go(**id, other, segment)).and_then(|other| other.offer);
            class.is_some_and(|other| victim.is_none_or(|victim| other.class < victim.class))
        };
        let passed_over = self.offered.iter().find(before).copied();
        self.findings.check(passed_over.is_none(), Invariant::U37, || {
            format!("{id} makes room as {reason:?}, but {passed_over:?} was to go before it")
        });
    }

    /// Among the allocations of a process the dead go first, then by priority what no device requires, and last what a suspended
    /// device does. A larger one may stay where a smaller goes: its process would have too little left.
    fn check_priority(&mut self, id: AllocationId, segment: SegmentId, is_suspended: bool) {
        let Some(victim) = self.allocations.get(&id) else { return };
        let process = self.devices.get(&victim.owner).map(|device| device.process);
        let comes_before = |(other, of): &(&AllocationId, &Allocation)| {
            (is_suspended || of.destroyed || of.priority < victim.priority)
                && (of.destroyed || of.size <= victim.size)
                && **other != id
                && !victim.destroyed
                && of.offer.is_none()
                && of.lists.values().flat_map(ListEntry::spans).all(|span| span.to.is_some())
                && self.devices.get(&of.owner).map(|device| device.process) == process
                && self.is_spare(**other, of, segment)
        };
        let passed_over = self.allocations.iter().find(comes_before).map(|(&other, of)| (other, of.priority));
        let priority = victim.priority;
        self.findings.check(passed_over.is_none(), Invariant::Cre31a, || {
            format!("{id} of priority {priority} makes room, but {passed_over:?} of its process was to go before it")
        });
    }

    /// Whether an allocation is in a segment, and nothing that is still to be granted or dispatched uses it.
    pub(super) fn is_spare(&self, id: AllocationId, allocation: &Allocation, segment: SegmentId) -> bool {
        let there = allocation.decided.as_ref().is_some_and(|place| place.segment == segment);
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
                RequestKind::Map(..) | RequestKind::Move => false,
            })
        };
        there && spans.all(|(id, span)| is_over(id, span)) && !is_awaited()
    }
}
