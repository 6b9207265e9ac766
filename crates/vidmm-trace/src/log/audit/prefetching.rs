//! Prefetch: content comes ahead of its MakeResident, into free memory and in idle time (D37).

use std::collections::{BTreeMap, BTreeSet};

use vidmm::event::{EvictReason, PrefetchReason};
use vidmm::{AllocationId, DeviceId, PlanNo};

use super::Audit;
use super::finding::Invariant;
use super::plans::Stage;

/// The announcements of devices.
#[derive(Debug, Default)]
pub(super) struct Announcements {
    /// The last announcement of each device.
    last: BTreeMap<DeviceId, BTreeSet<AllocationId>>,
    /// The event of the last submission of any device.
    pub submitted_at: u64,
}

impl Audit {
    /// A device announces what it needs soon: a use by the last submission, in the order of victims.
    pub(super) fn announced(&mut self, device: DeviceId, allocations: &[AllocationId]) {
        let at = self.announcements.submitted_at;
        for id in allocations {
            let Some(allocation) = self.allocations.get_mut(id) else { continue };
            let is_open = allocation.open.contains(&device);
            self.findings
                .check(is_open, Invariant::I27, || format!("{device} announces {id}, which is not open there"));
            if allocation.offer.is_none() {
                allocation.last_use = Some(allocation.last_use.unwrap_or(0).max(at));
            }
        }
        self.announcements.last.insert(device, allocations.iter().copied().collect());
    }

    /// An allocation comes ahead of its MakeResident. The reason must hold, and nobody may be waiting for the paging engine.
    pub(super) fn prefetched(&mut self, plan: PlanNo, id: AllocationId, reason: PrefetchReason) {
        self.check_has_power(|| format!("{id} is prefetched"));
        self.findings.check(self.paging_is_idle(), Invariant::D37, || {
            format!("{id} is prefetched while the paging engine has something else to do")
        });
        let is_in_use = self.is_in_use(id);
        self.findings.check(!is_in_use, Invariant::D37, || {
            format!("{id} is prefetched, but a list names it, or submitted work will use it")
        });
        if let PrefetchReason::Announced { device } = reason {
            let is_named = self.announcements.last.get(&device).is_some_and(|named| named.contains(&id));
            self.findings.check(is_named, Invariant::D37, || {
                format!("{id} is prefetched for {device}, whose last announcement does not name it")
            });
        }
        let Some(allocation) = self.allocations.get(&id) else { return };
        let is_there = allocation.decided.as_ref().is_some_and(|place| self.places.is_memory(place.segment));
        let may_come = allocation.offer.is_none() && !allocation.destroyed && allocation.cpu_view.is_none();
        self.findings.check(may_come && !is_there, Invariant::D37, || {
            format!("{id} is prefetched, but is in a memory segment, or the owner or the CPU has the content")
        });
        self.plans.draft(plan).prefetched = Some(id);
        // An earlier Evict that asked for the eviction at once has had it.
        self.liveness.evicted.remove(&id);
    }

    /// Nothing is evicted for what comes ahead: a plan of a prefetch takes out the prefetched allocation alone, from system memory.
    pub(super) fn check_not_for_prefetch(&mut self, plan: PlanNo, id: AllocationId, reason: EvictReason) {
        let prefetched = self.plans.draft(plan).prefetched;
        let is_own = prefetched.is_none_or(|of| of == id && reason == EvictReason::Promoted);
        self.findings.check(is_own, Invariant::D37, || {
            format!("{id} is evicted as {reason:?} by plan {plan}, which prefetches {prefetched:?}")
        });
    }

    /// Whether the paging engine has nothing to do.
    pub(super) fn paging_is_idle(&self) -> bool {
        let in_stream = self.plans.all().any(|plan| plan.stage == Stage::Entered);
        !in_stream && self.fences.engine(self.fences.paging_engine).is_none_or(|books| books.in_flight.is_empty())
    }
}
