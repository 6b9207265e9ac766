//! Devices that are asked to trim, and processes that are told their budgets (RES-40..RES-44, RES-53).

use alloc::vec::Vec;

use crate::{
    budget::account::Account,
    event::{Event, trim::TrimFlags},
    id::{DeviceIx, ProcessIx},
    memory::Memory,
    moment::Output,
    schedule::Schedule,
    shares::Shares,
    state::State,
    units::Nanoseconds,
};
/// Above this share of an account on lists periodic trims come at the larger interval: 70 %.
const BUSY_PERCENT: u64 = 70;

impl Schedule {
    /// Whether anybody may be told anything: memory is short, somebody listens, or a period runs.
    pub(crate) fn may_ask_to_trim(&self, shares: &Shares) -> bool {
        shares.is_pressed() || shares.has_listeners() || !self.periods.is_empty()
    }

    /// Asks those to trim who are above their budget, tells those their budget who listen, and lets periods end.
    pub(crate) fn ask_to_trim(&mut self, state: &mut State) {
        for account in state.memory.accounts().iter() {
            self.trim_to_budget(state, account);
            tell_budgets(state, account);
        }
        self.end_periods(state);
    }

    /// A process above its budget is asked when it comes to that, when its budget has moved by more than 5 %, and again after
    /// each minimum interval (RES-44).
    fn trim_to_budget(&self, state: &mut State, account: Account) {
        if !state.shares.by_account[account].is_pressed() {
            return;
        }
        for process in Vec::from_iter(state.shares.by_account[account].over_budget()) {
            let moved = publish_budget(state, process, account);
            for device in Vec::from_iter(state.objects[process].devices.iter().copied()) {
                let record = &state.objects[device];
                if record.notifications.is_empty() || record.is_over() {
                    continue;
                }
                let again_at = record.turn.asked_to_trim_at.map(|asked| asked.saturating_add(self.trim_intervals.min));
                match again_at {
                    Some(again_at) if !moved && state.moment.now() < again_at => state.moment.wake_at(again_at),
                    _ => {
                        state.objects[device].turn.asked_to_trim_at = Some(state.moment.now());
                        self.notify_to_trim(state, device, TrimFlags::TRIM_TO_BUDGET);
                        state.moment.wake_at(state.moment.now().saturating_add(self.trim_intervals.min));
                    }
                }
            }
        }
    }

    fn notify_to_trim(&self, state: &mut State, device: DeviceIx, flags: TrimFlags) {
        let process = state.objects[device].process;
        let is_to_budget = flags.contains(TrimFlags::TRIM_TO_BUDGET);
        let num_bytes_to_trim = if is_to_budget { state.shares.num_bytes_to_trim(process) } else { 0 };
        let id = state.objects.device_id(device);
        for registration in state.objects[device].notifications.clone() {
            let notification = self.trim_notifications.id(registration);
            state.moment.record(|| Event::TrimNotified { notification, device: id, flags, num_bytes_to_trim });
            let output = Output::TrimNotification { notification, device: id, flags, num_bytes_to_trim };
            state.moment.hand_out(output);
        }
    }

    /// A device that listens has submitted work: its period ends some time from now.
    pub(crate) fn begin_period(&mut self, state: &mut State, device: DeviceIx) {
        let record = &mut state.objects[device];
        if record.notifications.is_empty() || core::mem::replace(&mut record.period_runs, true) {
            return;
        }
        record.suspended_in_period = false;
        let end = state.moment.now().saturating_add(self.period(&state.memory, &state.shares));
        self.periods.insert((end, device));
    }

    fn period(&self, memory: &Memory, shares: &Shares) -> Nanoseconds {
        let is_busy = shares.accounts().iter().any(|account| {
            let listed = u128::from(shares.by_account[account].demand_total());
            listed * 100 > u128::from(memory.list_capacity(account)) * u128::from(BUSY_PERCENT)
        });
        match (shares.is_pressed(), is_busy) {
            (true, _) => self.trim_intervals.min,
            (false, true) => self.trim_intervals.max,
            (false, false) => self.trim_intervals.idle,
        }
    }

    /// Periods that are over: whoever ran all the time trims; whoever was suspended begins anew, since what it did not use it
    /// could not use (RES-42).
    fn end_periods(&mut self, state: &mut State) {
        while let Some(&(end, device)) = self.periods.first() {
            if end > state.moment.now() {
                return state.moment.wake_at(end);
            }
            self.periods.pop_first();
            if !state.objects.devices.contains(device) {
                continue;
            }
            let record = &mut state.objects[device];
            record.period_runs = false;
            let flags = match record.suspended_in_period || !record.is_active() {
                true => TrimFlags::RESTART_PERIODIC_TRIM,
                false => TrimFlags::PERIODIC_TRIM,
            };
            self.notify_to_trim(state, device, flags);
        }
    }
}

/// Tells a process its budget, if it listens or is above it, and the last that it was told does not stand any more.
fn publish_budget(state: &mut State, process: ProcessIx, account: Account) -> bool {
    let Some(group) = state.adapter.group_of(account) else { return false };
    let in_group = Vec::from_iter(state.adapter.accounts_in(group));
    let published = in_group.iter().filter(|&&account| state.shares.by_account[account].publish(process).is_some());
    if published.count() == 0 {
        return false;
    }
    let shares = |&account: &Account| &state.shares.by_account[account];
    let budget = in_group.iter().map(|account| shares(account).published_budget(process)).fold(0, u64::saturating_add);
    let requested = in_group.iter().map(|account| shares(account).get(process).demand).sum();
    let id = state.objects.processes.id(process);
    state.moment.record(|| Event::BudgetChanged { process: id, group, budget, requested });
    if state.objects[process].standing.listens {
        state.moment.hand_out(Output::BudgetChanged { process: id, group, budget });
    }
    true
}

/// Tells those their budgets who listen.
pub(crate) fn tell_all_budgets(state: &mut State) {
    state.memory.accounts().iter().for_each(|account| tell_budgets(state, account));
}

fn tell_budgets(state: &mut State, account: Account) {
    for process in Vec::from_iter(state.shares.listeners()) {
        publish_budget(state, process, account);
    }
}
