//! The loop: step after step, until nothing more can be done now.

use crate::{
    contract::{Host, Kmd},
    dispatch::{self, prepare},
    manager::VidMm,
    moment::Output,
    plans,
    recovery::{adapter_reset, device_error, engine_reset, watch},
    schedule::{deferred, trims, waiting::Power},
    units::Nanoseconds,
};

/// Far more steps than any instant needs.
const STEPS_MAX: u32 = 1 << 20;

/// # The loop: what is to be done next
impl VidMm {
    /// The time of the next [`poll`](Self::poll) without an event before: a time slice ends, a trim request is due, or a time
    /// limit is over; `None` when nothing waits for time to pass.
    pub fn next_wake(&self) -> Option<Nanoseconds> {
        if self.state.moment.has_failed() {
            return None;
        }
        self.state.moment.wake().into_iter().chain(self.state.engines.recovery.due).min()
    }

    /// Does all possible steps at time `now`, and returns the next output for the caller to carry out; `None` when nothing is
    /// left.
    ///
    /// Call `poll` until the answer is `None`: after calls, and after events.
    pub fn poll(&mut self, now: Nanoseconds, kmd: &mut dyn Kmd, host: &mut dyn Host) -> Option<Output> {
        self.state.moment.advance(now);
        self.state.moment.request_poll_if(self.state.engines.recovery.due.is_some_and(|due| due <= now));
        let mut steps: u32 = 0;
        while self.state.moment.begin_step() {
            self.step(kmd, host);
            steps += 1;
            assert!(steps < STEPS_MAX, "the steps of the loop undo one another");
        }
        self.state.moment.next_output()
    }

    #[inline(never)]
    fn step(&mut self, kmd: &mut dyn Kmd, host: &mut dyn Host) {
        if !self.state.engines.recovery.is_working() {
            adapter_reset::clean_up(&mut self.state, &mut self.plans, kmd, host);
            return watch::watch(&mut self.state, &mut self.requests, &mut self.work);
        }
        let submissions = self.state.moment.statistics().submissions;
        if self.has_news() {
            self.take_news(kmd, host);
        }
        // Ready work is handed out before any decision: decisions look at the running work.
        if !self.work.queued.is_empty() {
            dispatch::dispatch(&mut self.state, &self.plans, &mut self.requests, &mut self.work, kmd);
        }
        let has_put_off = self.has_put_off();
        if has_put_off {
            self.tick(host);
        }
        let has_paging = self.has_paging();
        if has_paging {
            self.page(kmd, host);
        }
        let is_recovering = !self.state.engines.recovery.engines.is_empty();
        if is_recovering {
            engine_reset::recover(&mut self.state, &self.plans, &mut self.requests, &mut self.work, kmd);
        }
        // A handed-out packet asks for no step: if nothing more was to be done, nothing follows from the packet.
        let has_handed_out = self.state.moment.statistics().submissions > submissions;
        let has_more = has_put_off || has_paging || is_recovering || self.has_news() || !self.work.queued.is_empty();
        self.state.moment.request_poll_if(has_handed_out && has_more);
        if !self.state.moment.needs_poll() {
            watch::watch(&mut self.state, &mut self.requests, &mut self.work);
        }
        // The rest of this step may have freed the bus after the look at it.
        self.state.moment.request_poll_if(self.schedule.idle.may_begin(
            self.schedule.turns.power,
            &self.state,
            &self.plans,
        ));
    }

    // Each submission asks for all steps, and nearly always only `dispatch` has work. The rest stays out of line, so a
    // submission that only passes by pays no setup.
    fn has_news(&self) -> bool {
        !self.plans.stream.is_empty()
            || !self.state.objects.dead.is_empty()
            || !self.state.objects.closed.is_empty()
            || !self.requests.granted.is_empty()
            || !self.state.objects.ending.is_over()
    }

    /// Takes note of retired and of built plans.
    #[inline(never)]
    fn take_news(&mut self, kmd: &mut dyn Kmd, host: &mut dyn Host) {
        self.plans.retire_plans(&mut self.state, host);
        self.requests.reap(&mut self.state, kmd, host);
        self.requests.settle_requests(&mut self.state, &self.plans);
        self.bury(kmd, host);
    }

    fn has_put_off(&self) -> bool {
        !self.state.shares.stopped.is_empty()
            || !self.schedule.turns.is_calm()
            || self.schedule.may_ask_to_trim(&self.state.shares)
            || !self.state.addresses.is_settled()
            || !self.requests.deferring.is_empty()
            || !self.state.residency.evict_soon.is_empty()
            || plans::exceeds_limits(&self.state)
    }

    /// The scheduler's tick: plans postponed work (U-27).
    #[inline(never)]
    fn tick(&mut self, host: &mut dyn Host) {
        if self.schedule.turns.power == Power::Down {
            // Reports of budgets do not depend on running work.
            return trims::tell_all_budgets(&mut self.state);
        }
        let held_work = dispatch::waits_for_decisions(&self.state);
        self.schedule.ask_to_trim(&mut self.state);
        self.schedule.take_turns(&mut self.state, &mut self.plans, &mut self.requests, &self.work);
        self.plans.plan_roots(&mut self.state);
        self.plans.hide_reservations(&mut self.state);
        self.plans.free_empty_tables(&mut self.state, host);
        deferred::follow_up_all(&mut self.state, &mut self.plans, &mut self.requests);
        self.schedule.evict_soon(&mut self.state, &mut self.plans);
        self.plans.keep_to_limits(&mut self.state);
        self.schedule.save_all(&mut self.state, &mut self.plans);
        // A discard of content that was reclaimed in time is decided without a plan, so no plan's end asks for the step that hands
        // the held work out.
        self.state.moment.request_poll_if(held_work && !dispatch::waits_for_decisions(&self.state));
    }

    fn has_paging(&self) -> bool {
        !self.requests.requesting.is_empty()
            || !self.plans.stream.is_empty()
            || self.plans.builder.has_work()
            || (self.state.adapter.is_physical() && !self.work.queued.is_empty())
            || self.schedule.idle.is_due(&self.state)
    }

    /// Grants requests that have room, and builds decided plans.
    #[inline(never)]
    fn page(&mut self, kmd: &mut dyn Kmd, host: &mut dyn Host) {
        // Without power no page-in and no table update is possible, not even for a device in error.
        if self.schedule.turns.power != Power::Down {
            self.schedule.grant(&mut self.state, &mut self.plans, &mut self.requests);
            if self.state.adapter.is_physical() {
                let mut round = prepare::begin_round(&mut self.state, &mut self.work);
                while let Some((device, reason)) =
                    prepare::prepare(&mut self.state, &mut self.plans, &mut self.requests, &mut self.work, &mut round)
                {
                    device_error::put_device_in_error(
                        &mut self.state,
                        &mut self.requests,
                        &mut self.work,
                        device,
                        reason,
                    );
                }
            }
        }
        self.plans.enter(&mut self.state, host);
        if self.schedule.idle.is_due(&self.state) {
            self.schedule.idle.begin_work(self.schedule.turns.power, &mut self.state, &mut self.plans);
            self.plans.enter(&mut self.state, host);
        }
        self.plans.build(&mut self.state, kmd, host);
    }
}
