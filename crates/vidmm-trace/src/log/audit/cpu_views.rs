//! The CPU's view: a locked allocation stays at one address, which follows it when it moves (RES-80 to RES-86).

use std::collections::BTreeMap;

use vidmm::contract::CpuVirtualAddress;
use vidmm::{AllocationId, Event, Extent, PlanNo, SegmentId};

use super::Audit;
use super::allocation::{Allocation, Place};
use super::aspects::CpuView;
use super::finding::{Findings, Invariant};

/// A segment and ranges of it.
type Shown = (SegmentId, Vec<Extent>);

impl Audit {
    pub(super) fn locked(&mut self, id: AllocationId, address: CpuVirtualAddress, shown: Shown) {
        self.check_not_offered(id, "locked");
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        // An allocation that is locked already is seen where it was until a plan that moves it enters the stream.
        let view = allocation.cpu_view.as_ref().filter(|view| view.hidden_by.is_none());
        let is_seen = view.is_some();
        let right = match view {
            Some(view) => view.shown.clone(),
            None => self.places.shown_to_cpu(allocation, allocation.decided.as_ref()),
        };
        let settled = is_seen || allocation.seen_in_backing_store || self.plans.is_retired(allocation.last_copy);
        self.findings.check(settled && shown == right, Invariant::Res86, || {
            format!("the CPU sees {id} at {shown:?}, but it is at {right:?}; settled there: {settled}")
        });
        self.places.check_seen(id, shown.0, &mut self.findings);
        // The CPU may have written there from now on.
        allocation.backed |= shown.0.is_system();
        allocation.writes.possible |= !shown.0.is_system();
        // It may be kept where the CPU sees it.
        allocation.preferred_segment = None;
        allocation.may_wait_for_lock = false;
        let new = || CpuView { address, shown: shown.clone(), hidden_by: None, locks: 0 };
        let view = allocation.cpu_view.get_or_insert_with(new);
        view.locks = view.locks.saturating_add(1);
        let same = (view.address, &view.shown) == (address, &shown);
        self.findings.check(same, Invariant::Res86, || format!("{id} is locked again at {address}, not as before"));
    }

    /// After a reset all that is locked is seen in its backing store: nothing is anywhere else.
    fn rotated_after_reset(&mut self, id: AllocationId, address: CpuVirtualAddress, shown: Shown) {
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        let right = self.places.shown_to_cpu(allocation, None);
        let Some(view) = allocation.cpu_view.as_mut() else { return };
        self.findings.check(shown == right && address == view.address, Invariant::Res86, || {
            format!("after a reset the view of {id} is rotated at {address} to {shown:?}, but must show {right:?}")
        });
        view.shown = shown;
    }

    /// The GPU runs again: no view is left of what is lost.
    pub(super) fn check_views_after_reset(&mut self) {
        let is_stale =
            |allocation: &&Allocation| allocation.cpu_view.as_ref().is_some_and(|view| !view.shown.0.is_system());
        let stale = self.allocations.values().find(is_stale).map(|allocation| allocation.handle);
        self.findings.check(stale.is_none(), Invariant::Res86, || {
            format!("the adapter was reset, but the CPU still sees {stale:?} in the memory segment")
        });
    }

    pub(super) fn rotated(&mut self, plan: PlanNo, id: AllocationId, address: CpuVirtualAddress, shown: Shown) {
        if self.reset.is_some() {
            return self.rotated_after_reset(id, address, shown);
        }
        if shown.1.is_empty() {
            return self.concealed(plan, id, address);
        }
        let expected = self.rotations.iter().position(|&(of, by, _)| (of, by) == (id, plan));
        let right = expected.map(|at| self.rotations.swap_remove(at).2);
        self.places.check_seen(id, shown.0, &mut self.findings);
        let Some(view) = self.allocations.get_mut(&id).and_then(|allocation| allocation.cpu_view.as_mut()) else {
            return self
                .findings
                .report(Invariant::Res86, format!("the view of {id} is rotated, but it is not locked"));
        };
        self.findings.check(right.as_ref() == Some(&shown) && view.address == address, Invariant::Res86, || {
            format!(
                "the view of {id} at {} is rotated at {address} to {shown:?}, but must show {right:?}",
                view.address
            )
        });
        view.shown = shown;
        view.hidden_by = None;
    }

    /// The CPU sees nothing of an allocation from the moment when a plan that moves it enters the stream until that has
    /// retired: what it wrote in between would be in neither place.
    fn concealed(&mut self, plan: PlanNo, id: AllocationId, address: CpuVirtualAddress) {
        let moves = self.plans.is_waiting(plan) && self.plans.moves(plan, id);
        let Some(view) = self.allocations.get_mut(&id).and_then(|allocation| allocation.cpu_view.as_mut()) else {
            return self
                .findings
                .report(Invariant::Res86, format!("the view of {id} is taken away, but it is not locked"));
        };
        self.findings.check(moves && view.address == address, Invariant::Res86, || {
            format!(
                "the view of {id} at {} is taken away at {address} for plan {plan}, which does not move it now",
                view.address
            )
        });
        (view.shown, view.hidden_by) = ((SegmentId::SYSTEM, Vec::new()), Some(plan));
    }

    pub(super) fn unlocked(&mut self, id: AllocationId, left: u32) {
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        let locks = allocation.cpu_view.as_mut().map(|view| {
            view.locks = view.locks.saturating_sub(1);
            view.locks
        });
        self.findings.check(locks == Some(left), Invariant::Res86, || {
            format!("{id} is unlocked, and {left} locks are left; by the log {locks:?} are")
        });
        if left == 0 {
            allocation.cpu_view = None;
        }
    }

    /// A plan has retired: the views of the locked allocations that it moved are rotated at once, to the last place of each.
    pub(super) fn expect_rotations(&mut self, plan: PlanNo, moves: &[(AllocationId, Option<Place>)]) {
        let last: BTreeMap<AllocationId, &Option<Place>> = moves.iter().map(|(id, place)| (*id, place)).collect();
        for (id, place) in &last {
            let Some(allocation) = self.allocations.get(id) else { continue };
            // A later plan that moves it has entered the stream: it shows where it is then.
            let shows = |view: &&CpuView| view.hidden_by.is_none_or(|by| by == plan);
            let Some(view) = allocation.cpu_view.as_ref().filter(shows) else { continue };
            let shown = self.places.shown_to_cpu(allocation, place.as_ref());
            if view.shown != shown {
                self.rotations.push((*id, plan, shown));
            }
        }
    }

    /// Something else happens: no rotation is missing.
    pub(super) fn check_rotated(&mut self, event: &Event) {
        if matches!(event, Event::Rotated { .. }) {
            return;
        }
        for (id, plan, shown) in std::mem::take(&mut self.rotations) {
            // Of what is destroyed the CPU need not be shown anything new.
            if self.allocations.get(&id).is_none_or(|allocation| allocation.destroyed) {
                continue;
            }
            let message = format!("plan {plan} has moved {id}, which is locked, but the CPU is not shown {shown:?}");
            self.findings.report(Invariant::Res86, message);
        }
    }
}

impl super::places::Places {
    /// A locked allocation comes into a memory segment only if the CPU sees it there (RES-84, U-40).
    pub(super) fn check_seen(&self, id: AllocationId, segment: SegmentId, findings: &mut Findings) {
        findings.check(!self.is_hidden(segment), Invariant::Res84, || {
            format!("{id} is locked, and is in segment {}, which the CPU does not see", segment.0)
        });
    }

    /// The memory that the CPU is to see of an allocation that has this place: its backing store, unless it is in the
    /// memory segment.
    fn shown_to_cpu(&self, allocation: &Allocation, place: Option<&Place>) -> Shown {
        let store = vec![Extent { offset: allocation.backing_store, size: allocation.size }];
        match place.filter(|place| self.is_memory(place.segment) && !allocation.seen_in_backing_store) {
            Some(place) => (place.segment, place.extents.clone()),
            None => (SegmentId::SYSTEM, store),
        }
    }
}
