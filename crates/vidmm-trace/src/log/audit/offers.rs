//! Offer and Reclaim: what is offered is used by nobody, and content is lost only as was said (I25, RES-60 to RES-68).

use vidmm::event::EvictReason;
use vidmm::{
    AllocationId, DeviceId, Event, Extent, OfferFlags, OfferPriority, PagingQueueId, PlanNo, ReclaimResult, SegmentId,
};

use super::Audit;
use super::allocation::{Allocation, Mapping};
use super::aspects::Offer;
use super::device::RequestKind;
use super::finding::Invariant;

/// Priorities of allocations up to which AUTO is LOW, and from which it is HIGH (CRE-31b).
const PRIORITY_LOW: u32 = 0x5000_0000;
const PRIORITY_HIGH: u32 = 0xa000_0000;

/// Memory that the host refused, while all that happens is that content goes for it.
#[derive(Debug)]
pub(super) struct RefusedMemory {
    /// So many more bytes are to be free.
    pub bytes: u64,
    /// Pairs of an allocation that was decommitted, and of one that is offered and was to go before.
    pub passed_over: Vec<(AllocationId, AllocationId)>,
}

impl Audit {
    pub(super) fn offered(
        &mut self,
        device: DeviceId,
        id: AllocationId,
        priority: OfferPriority,
        flags: OfferFlags,
        last: u64,
    ) {
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        // An allocation that was created to be shared may be offered while nobody else has it open (RES-62).
        let alone = allocation.owner == device && allocation.open.iter().all(|&opener| opener == device);
        let offerable = allocation.offer.is_none() && allocation.cpu_view.is_none() && alone;
        self.findings.check(offerable, Invariant::I25, || {
            format!("{id} is offered by {device}, but is offered already, locked, open on others or another's (RES-62)")
        });
        let class = match priority {
            OfferPriority::Auto if allocation.priority <= PRIORITY_LOW => OfferPriority::Low,
            OfferPriority::Auto if allocation.priority >= PRIORITY_HIGH => OfferPriority::High,
            OfferPriority::Auto => OfferPriority::Normal,
            said => said,
        };
        self.offered.insert(id);
        let at = self.findings.event;
        let offer = Offer { flags, class, last, at, was_idle: false, discarded: false, decommitted: false };
        allocation.offer = Some(offer);
        if let Some(entry) = allocation.lists.get_mut(&device) {
            entry.offer(last);
        }
        let was_idle = self.allocations.get(&id).is_some_and(|allocation| self.is_unused(id, allocation));
        if let Some(offer) = self.allocations.get_mut(&id).and_then(|allocation| allocation.offer.as_mut()) {
            offer.was_idle = was_idle;
        }
        self.charge(id);
    }

    pub(super) fn reclaimed(&mut self, event: &Event) {
        let &Event::Reclaimed {
            device,
            queue,
            ref allocations,
            ref results,
            ref backing_stores,
            after_submission,
            paging_fence_value,
        } = event
        else {
            return;
        };
        self.check_position(device, after_submission);
        self.check_names_any(allocations, "Reclaim");
        let whole = results.len() == allocations.len() && backing_stores.len() == allocations.len();
        self.findings.check(whole, Invariant::Log, || {
            format!("{} allocations are reclaimed, with {} results", allocations.len(), results.len())
        });
        let mut spans = Vec::new();
        for ((&id, &result), &backing_store) in allocations.iter().zip(results).zip(backing_stores) {
            self.check_result(id, result, backing_store);
            let Some(allocation) = self.allocations.get_mut(&id) else { continue };
            let committed = allocation.committed;
            if let Some(entry) = allocation.lists.get_mut(&device) {
                // A list never names an allocation without a backing store: no later work requires it (RES-66).
                match committed {
                    true => spans.extend(entry.reclaim(after_submission).map(|span| (id, span))),
                    false => entry.reclaim_in_vain(),
                }
            }
            self.charge(id);
        }
        if let Some(device) = self.devices.get_mut(&device) {
            device.spans.extend(&spans);
        }
        if paging_fence_value > 0 {
            return self.ask(device, queue, paging_fence_value, RequestKind::MakeResident(spans));
        }
        for (id, span) in spans {
            self.check_in_place(device, id);
            self.allocations.get_mut(&id).into_iter().for_each(|of| of.grant(device, span));
        }
    }

    /// The answer of Reclaim about an allocation is true of its content (RES-64, RES-66).
    fn check_result(&mut self, id: AllocationId, result: ReclaimResult, backing_store: u64) {
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        self.offered.remove(&id);
        let Some(offer) = allocation.offer.take() else {
            return self.findings.report(Invariant::I25, format!("{id} is reclaimed, but is not offered"));
        };
        let right = match result {
            ReclaimResult::Ok => !(offer.discarded || offer.decommitted),
            ReclaimResult::Discarded => offer.discarded,
            ReclaimResult::NotCommitted => offer.decommitted,
        };
        self.findings.check(right, Invariant::I25, || {
            let (discarded, decommitted) = (offer.discarded, offer.decommitted);
            format!("{id} is reclaimed as {result:?}, but discarded: {discarded}, decommitted: {decommitted}")
        });
        if result != ReclaimResult::Ok {
            allocation.forget_content();
        }
        let (before, size) = (allocation.backing_store, allocation.size);
        let committed = result != ReclaimResult::NotCommitted;
        allocation.committed &= committed;
        if offer.decommitted && committed {
            (allocation.committed, allocation.backing_store) = (true, backing_store);
            self.places.system.commit(Extent { offset: backing_store, size }, &mut self.findings);
        } else {
            self.findings.check(!committed || backing_store == before, Invariant::I25, || {
                format!("{id} is reclaimed with its backing store at {backing_store:#x}, but that is at {before:#x}")
            });
        }
    }

    /// The backing store of what was offered goes with its content, if its caller allowed that (RES-66).
    pub(super) fn decommitted(&mut self, id: AllocationId) {
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        let (offer, has_place) = (allocation.offer, allocation.decided.is_some());
        let allowed = offer.is_some_and(|offer| offer.flags.contains(OfferFlags::ALLOW_DECOMMIT));
        // Nothing of it is on its way, and engines do not reach it.
        let idle = !has_place && self.plans.is_retired(allocation.last_plan);
        let because = offer.is_some_and(|offer| offer.discarded);
        self.findings.check(allowed && idle && because, Invariant::I25, || {
            format!(
                "the backing store of {id} is decommitted; that is allowed: {allowed}, it is idle: {idle}, \
                 its content is discarded: {because}"
            )
        });
        if let Some(refused) = &mut self.refused_memory {
            self.findings.check(refused.bytes > 0, Invariant::U37, || {
                format!("the backing store of {id} goes, though as much as was refused is decommitted already")
            });
            refused.bytes = refused.bytes.saturating_sub(allocation.size);
        }
        let class = offer.map(|offer| offer.class);
        if let Some(offer) = &mut allocation.offer {
            offer.decommitted = true;
        }
        if std::mem::replace(&mut allocation.committed, false) {
            self.places.system.decommit(Extent { offset: allocation.backing_store, size: allocation.size });
        }
        let goes_before = |other: &&AllocationId| {
            let Some(of) = self.allocations.get(*other) else { return false };
            let may_go = |offer: &Offer| {
                offer.flags.contains(OfferFlags::ALLOW_DECOMMIT) && Some(offer.class) < class && !offer.decommitted
            };
            // Addresses that were freed are unmapped by a plan that the log does not name; and the plan of a mapping may make
            // page tables, which the plan that brings the allocation in must follow.
            let is_changing = |mapping: &Mapping| mapping.freed.is_some() || self.is_awaited(mapping.asked_by);
            let may_change = |key| self.mappings.get(key).is_some_and(is_changing);
            of.offer.as_ref().is_some_and(may_go)
                && of.decided.is_none()
                && !of.mappings.iter().any(may_change)
                && self.plans.is_retired(of.last_plan)
                && self.is_unused(**other, of)
        };
        let passed_over = Vec::from_iter(self.offered.iter().filter(goes_before).map(|&other| (id, other)));
        if let Some(refused) = &mut self.refused_memory {
            refused.passed_over.extend(passed_over);
        }
    }

    /// Whether a paging queue lives and has not come to a value.
    fn is_awaited(&self, (queue, value): (PagingQueueId, u64)) -> bool {
        self.fences.queues.get(&queue).is_some_and(|queue| queue.signaled < value)
    }

    /// Nothing more goes for memory that was refused: what went was the first to go. A Reclaim takes what it names back before it is
    /// short of memory for that, and is told of afterwards.
    pub(super) fn check_went_in_order(&mut self, event: &Event) {
        if matches!(event, Event::ContentDiscarded { .. } | Event::Decommitted { .. }) {
            return;
        }
        let Some(refused) = self.refused_memory.take() else { return };
        let is_reclaimed = |id| matches!(event, Event::Reclaimed { allocations, .. } if allocations.contains(id));
        if let Some((id, other)) = refused.passed_over.iter().find(|(_, other)| !is_reclaimed(other)) {
            let message = format!("the backing store of {id} goes, but {other} was to lose its own before");
            self.findings.report(Invariant::U37, message);
        }
    }

    /// Content is thrown away only of what is offered; and what goes for being offered loses its content (RES-61).
    pub(super) fn check_discard(&mut self, id: AllocationId, reason: EvictReason, copied: bool, discarded: bool) {
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        let offered = allocation.offer.is_some();
        let right = (reason != EvictReason::Offered || discarded) && (!discarded || offered && !copied);
        self.findings.check(right, Invariant::I25, || {
            format!("{id} is taken out as {reason:?}; offered: {offered}, discarded: {discarded}, copied: {copied}")
        });
        if discarded {
            allocation.forget_content();
        }
        let is_told = !discarded || allocation.offer.is_some_and(|offer| offer.discarded);
        self.findings.check(is_told, Invariant::I25, || {
            format!("{id} is taken out without its content, which is not said to be discarded")
        });
    }

    /// The content of an offered allocation is lost, once for each offer: with a plan, or because it was in its backing store
    /// alone and the host has no memory.
    pub(super) fn discarded(&mut self, id: AllocationId, plan: Option<PlanNo>) {
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        let is_new = allocation.offer.is_some_and(|offer| !offer.discarded);
        let may_go = plan.is_some() || self.refused_memory.is_some() && allocation.decided.is_none();
        self.findings.check(is_new && may_go, Invariant::I25, || {
            format!("{id} is discarded by {plan:?}; it is offered, and was not discarded yet: {is_new}")
        });
        allocation.forget_content();
        // Until that plan has ended, its backing store stays, too.
        allocation.last_plan = plan.unwrap_or(allocation.last_plan);
        allocation.last_copy = plan.unwrap_or(allocation.last_copy);
        allocation.discarded_by = plan.unwrap_or(allocation.discarded_by);
        if let Some(offer) = &mut allocation.offer {
            offer.discarded = true;
        }
    }

    /// Whether nothing keeps an allocation that was offered with OFFER_IMMEDIATELY from losing its content, whether memory
    /// is wanted or not (RES-61): neither work submitted before, nor what was asked for before, nor pages that are being
    /// cut, for which there may be no room.
    pub(super) fn is_to_be_discarded(&self, id: AllocationId) -> bool {
        let Some(allocation) = self.allocations.get(&id) else { return false };
        let (Some(offer), Some(device)) = (allocation.offer, self.devices.get(&allocation.owner)) else { return false };
        offer.flags.contains(OfferFlags::OFFER_IMMEDIATELY)
            && !offer.discarded
            && !device.is_over()
            && device.next_request().is_none()
            && device.has_retired(offer.last)
            && self.rests.is_empty()
            && self.is_not_awaited(id, allocation)
            && allocation.closed_by.iter().all(|&(device, last)| self.is_done_with_what_it_closed(device, last))
    }

    /// Whether nothing of a device that has closed something is still to be granted or dispatched which it had asked for before.
    fn is_done_with_what_it_closed(&self, device: DeviceId, last: u64) -> bool {
        let Some(device) = self.devices.get(&device) else { return true };
        device.undispatched.range(..=last).next().is_none() && device.next_request().is_none()
    }

    /// Whether an offered allocation is in a segment, and nothing that is still to be granted or dispatched uses it.
    pub(super) fn is_free_to_go(&self, id: AllocationId, allocation: &Allocation, segment: SegmentId) -> bool {
        self.is_in(allocation, segment) && self.is_unused(id, allocation)
    }

    /// Whether nothing that is still to be granted or dispatched uses an offered allocation.
    fn is_unused(&self, id: AllocationId, allocation: &Allocation) -> bool {
        let (Some(offer), Some(device)) = (allocation.offer, self.devices.get(&allocation.owner)) else { return false };
        device.undispatched.range(..=offer.last).next().is_none() && self.is_not_awaited(id, allocation)
    }

    /// A call names an allocation that must not be offered.
    pub(super) fn check_not_offered(&mut self, id: AllocationId, how: &str) {
        let allocation = self.allocations.get(&id);
        let offered = allocation.is_some_and(|allocation| allocation.offer.is_some());
        self.findings.check(!offered, Invariant::I25, || format!("{id} is {how}, but is offered (RES-62)"));
        let uncommitted = allocation.is_some_and(|allocation| !allocation.committed) && !offered;
        self.findings
            .check(!uncommitted, Invariant::I25, || format!("{id} is {how}, but has no backing store (RES-66)"));
    }
}
