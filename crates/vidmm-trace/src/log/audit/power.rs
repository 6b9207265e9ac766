//! Power: while the adapter has none, nothing is in its memory and nothing runs (P60).

use super::Audit;
use super::finding::Invariant;

impl Audit {
    /// The adapter may lose power: no device runs, and nothing but page tables is in its memory.
    pub(super) fn powered_down(&mut self) {
        self.powered_down = true;
        let active = self.devices.iter().find(|(_, device)| device.requires_its_list()).map(|(&id, _)| id);
        self.findings
            .check(active.is_none(), Invariant::P60, || format!("the adapter loses power while {active:?} is active"));
        let running = self.fences.work.values().next().map(|work| (work.device, work.submission));
        self.findings
            .check(running.is_none(), Invariant::P60, || format!("the adapter loses power while {running:?} runs"));
        let mut allocations = self.allocations.iter();
        let left =
            allocations.find(|(_, of)| of.decided.as_ref().is_some_and(|place| self.places.is_memory(place.segment)));
        let left = left.map(|(&id, _)| id);
        self.findings.check(left.is_none(), Invariant::P60, || {
            format!("the adapter loses power while {left:?} is in its memory")
        });
        let pending = self.plans.first_pending();
        self.findings.check(pending.is_none(), Invariant::P60, || {
            format!("the adapter loses power before plan {} has retired", pending.unwrap_or(0))
        });
    }

    /// The adapter has power again. Its memory holds nothing: page tables are empty until they are initialised.
    pub(super) fn powered_up(&mut self) {
        let was_down = std::mem::replace(&mut self.powered_down, false);
        self.findings.check(was_down, Invariant::P60, || "the adapter has power again, but had lost none".to_owned());
        self.tables.lose_content();
        self.zeros.lose_content();
        self.views.clear();
        self.forget_told_roots();
        // The tables of the paging process are built before anything else.
        self.started = false;
    }

    /// Something happens that needs power.
    pub(super) fn check_has_power(&mut self, what: impl FnOnce() -> String) {
        let powered = !self.powered_down;
        self.findings.check(powered, Invariant::P60, || format!("{}, but the adapter has no power", what()));
    }
}
