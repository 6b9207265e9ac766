//! One step after another, until nothing more can be done now.

use crate::{
    contract::{Host, Kmd},
    state::{Output, VidMm},
    turn::Power,
    units::Nanoseconds,
};

impl VidMm {
    /// When to call [`poll`](Self::poll) next if nothing else happens before: a time slice ends, or somebody is to be asked to
    /// trim, or a time limit is over; `None` when nothing waits for time to pass.
    pub fn next_wake(&self) -> Option<Nanoseconds> {
        if self.failed.is_some() {
            return None;
        }
        self.wake.into_iter().chain(self.recovery.due).min()
    }

    /// Does what can be done at time `now`, and returns the next thing to be done by others; `None` when nothing is left.
    ///
    /// Call it again and again until it returns `None`: after calls, and after events.
    pub fn poll(&mut self, now: Nanoseconds, kmd: &mut dyn Kmd, host: &mut dyn Host) -> Option<Output> {
        self.events.set_time(now);
        self.now = self.now.max(now);
        if self.wake.is_some_and(|wake| wake <= now) {
            self.wake = None;
            self.stirred = true;
        }
        self.stirred |= self.recovery.due.is_some_and(|due| due <= now);
        while self.stirred && self.failed.is_none() {
            self.stirred = false;
            self.step(kmd, host);
        }
        self.outputs.pop_front()
    }

    #[inline(never)]
    fn step(&mut self, kmd: &mut dyn Kmd, host: &mut dyn Host) {
        if !self.recovery.is_working() {
            self.clean_up(kmd, host);
            return self.watch();
        }
        if self.has_news() {
            self.take_news(kmd, host);
        }
        // Work that can run is handed out before anything is decided: deciding looks at what runs.
        if !self.queued.is_empty() {
            self.dispatch(kmd);
        }
        if self.has_put_off() {
            self.tick(host);
        }
        if self.has_paging() {
            self.page(kmd, host);
        }
        if !self.recovery.engines.is_empty() {
            self.recover(kmd);
        }
        if !self.stirred {
            self.watch();
        }
    }

    // All this is asked for at each submission, and nearly always only `dispatch` has something to do. The rest stays out of
    // line, so that nothing of it is set up for a submission that only passes by.

    fn has_news(&self) -> bool {
        !self.stream.is_empty() || !self.dead.is_empty() || !self.closed.is_empty() || !self.granted.is_empty()
    }

    /// Takes note of what has retired and what has been built.
    #[inline(never)]
    fn take_news(&mut self, kmd: &mut dyn Kmd, host: &mut dyn Host) {
        self.retire_plans(host);
        self.reap(kmd, host);
        self.settle_requests();
    }

    fn has_put_off(&self) -> bool {
        !self.stopped.is_empty()
            || !self.turns.is_calm()
            || self.may_ask_to_trim()
            || !self.rootless.is_empty()
            || !self.empty_tables.is_empty()
            || !self.deferring.is_empty()
            || !self.evict_soon.is_empty()
    }

    /// The scheduler's tick: what was put off and can be planned now (U-27).
    #[inline(never)]
    fn tick(&mut self, host: &mut dyn Host) {
        if self.turns.power == Power::Down {
            // What is said of budgets does not depend on what runs.
            return self.tell_all_budgets();
        }
        self.ask_to_trim();
        self.take_turns();
        self.plan_roots();
        self.free_empty_tables(host);
        self.follow_up_all();
        self.evict_soon();
        self.save_all();
    }

    fn has_paging(&self) -> bool {
        !self.requesting.is_empty()
            || !self.stream.is_empty()
            || self.builder.has_work()
            || (self.adapter.is_physical() && !self.queued.is_empty())
    }

    /// Grants what has room, and builds what is decided.
    #[inline(never)]
    fn page(&mut self, kmd: &mut dyn Kmd, host: &mut dyn Host) {
        // Without power nothing can be brought in, and no table written, for a device in error either.
        if self.turns.power != Power::Down {
            self.grant();
            if self.adapter.is_physical() {
                let mut round = self.begin_round();
                while let Some((device, reason)) = self.prepare(&mut round) {
                    self.put_device_in_error(device, reason);
                }
            }
        }
        self.enter(host);
        self.build(kmd, host);
    }
}
