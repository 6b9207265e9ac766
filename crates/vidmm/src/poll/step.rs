//! One step after another, until nothing more can be done now.

use crate::{
    contract::{Host, Kmd},
    state::{Output, VidMm},
    units::Nanoseconds,
};

impl VidMm {
    /// When to call [`poll`](Self::poll) next if nothing else happens before: a time slice ends, or somebody is to be asked to
    /// trim; `None` when nothing waits for time to pass.
    pub fn next_wake(&self) -> Option<Nanoseconds> {
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
            if !self.recovery.is_working() {
                self.clean_up(kmd, host);
                self.watch();
                continue;
            }
            // Work that can run is handed out before anything is decided: deciding looks at what runs.
            self.retire_plans(host);
            self.reap(kmd, host);
            self.settle_requests();
            self.dispatch(kmd);
            self.tick();
            self.grant();
            self.enter(host);
            self.build(kmd, host);
            self.watch();
            self.recover(kmd);
        }
        self.outputs.pop_front()
    }
}
