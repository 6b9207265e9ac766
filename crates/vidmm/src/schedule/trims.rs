//! Devices that are asked to trim, and processes that are told their budgets (RES-40..RES-44, RES-53).

use alloc::vec::Vec;

use crate::{
    budget::{MemorySegmentGroup, account::Account},
    event::{Event, trim::TrimFlags},
    id::{DeviceIx, ProcessIx, TrimNotificationIx},
    memory::Memory,
    moment::Output,
    objects::turn::TRIM_GRACE,
    schedule::{AskedToTrim, Schedule},
    shares::Shares,
    state::State,
    units::Nanoseconds,
};
/// The groups, in the order in which processes are told of them.
const GROUPS: [MemorySegmentGroup; 2] = [MemorySegmentGroup::Local, MemorySegmentGroup::NonLocal];

/// Above this share of an account on lists periodic trims come at the larger interval: 70 %.
const BUSY_PERCENT: u64 = 70;

impl Schedule {
    /// Whether anybody may be told anything: memory is short, somebody listens, or a period runs.
    pub(crate) fn may_ask_to_trim(&self, shares: &Shares) -> bool {
        shares.is_pressed()
            || !shares.listeners.is_empty()
            || !self.periods.is_empty()
            || !self.asked_to_trim.is_empty()
    }

    /// Asks those to trim who are above their budget, tells those their budget who listen, and lets periods end.
    pub(crate) fn ask_to_trim(&mut self, state: &mut State) {
        for group in GROUPS.map(Some).into_iter().chain([None]) {
            self.trim_to_budget(state, group);
        }
        tell_all_budgets(state);
        self.note_trimmed(state);
        self.end_periods(state);
    }

    /// Asks processes above their budget of a group to trim: when it comes to that, when their budget has moved by more than 5 %, and
    /// again after each minimum interval. A device has a moment for it each time, and is not asked by a registration again for an
    /// amount that it has not answered (RES-41, RES-43, U-30).
    fn trim_to_budget(&mut self, state: &mut State, group: Option<MemorySegmentGroup>) {
        let accounts = accounts_in(state, group);
        for process in state.shares.over_budget(&accounts) {
            let moved = group.is_some_and(|group| publish_budget(state, process, group));
            let num_bytes_to_trim = num_bytes_to_trim(state, process, group);
            if num_bytes_to_trim == 0 {
                continue;
            }
            for device in Vec::from_iter(state.objects[process].devices.iter().copied()) {
                let record = &state.objects[device];
                if record.is_over() {
                    continue;
                }
                let has_trimmed = accounts.iter().any(|&of| record.list[of].has_shrunk());
                let asked =
                    AskedToTrim { at: state.moment.now(), num_bytes_to_trim, was_within: false, budget_moved: false };
                for registration in record.notifications.clone() {
                    if !self.is_to_be_asked(state, (registration, group), num_bytes_to_trim, has_trimmed, moved) {
                        continue;
                    }
                    self.asked_to_trim.insert((registration, group), asked);
                    accounts.iter().for_each(|&account| state.objects[device].list[account].expect_to_shrink());
                    self.notify(state, registration, TrimFlags::TRIM_TO_BUDGET, group, num_bytes_to_trim);
                }
            }
        }
    }

    /// Whether a registration is asked to trim so much now; if it is later, the manager wakes up then.
    fn is_to_be_asked(
        &mut self,
        state: &mut State,
        of: (TrimNotificationIx, Option<MemorySegmentGroup>),
        num_bytes_to_trim: u64,
        has_trimmed: bool,
        budget_moved: bool,
    ) -> bool {
        let Some(asked) = self.asked_to_trim.get_mut(&of) else { return true };
        asked.budget_moved |= budget_moved;
        if !has_trimmed && !asked.was_within && asked.num_bytes_to_trim == num_bytes_to_trim {
            return false;
        }
        let is_due = asked.budget_moved || asked.was_within;
        let interval = if is_due { TRIM_GRACE } else { self.trim_intervals.min.max(TRIM_GRACE) };
        let again_at = asked.at.saturating_add(interval);
        if state.moment.now() < again_at {
            state.moment.wake_at(again_at);
        }
        state.moment.now() >= again_at
    }

    /// Notes the processes that are within their budget again, and forgets requests to them after a while.
    fn note_trimmed(&mut self, state: &State) {
        self.asked_to_trim.retain(|&(registration, group), asked| {
            let device = self.trim_notifications[registration];
            asked.was_within |= num_bytes_to_trim(state, state.objects[device].process, group) == 0;
            !asked.was_within || state.moment.now() < asked.at.saturating_add(TRIM_GRACE)
        });
    }

    /// The time until which a device has a moment to trim.
    pub(crate) fn trims_until(&self, device: DeviceIx) -> Nanoseconds {
        let of_device =
            |&((registration, _), _): &(&(TrimNotificationIx, _), _)| self.trim_notifications[*registration] == device;
        let asked = self.asked_to_trim.iter().filter(of_device);
        asked.map(|(_, asked)| asked.at.saturating_add(TRIM_GRACE)).max().unwrap_or(0)
    }

    fn notify(
        &self,
        state: &mut State,
        registration: TrimNotificationIx,
        flags: TrimFlags,
        group: Option<MemorySegmentGroup>,
        num_bytes_to_trim: u64,
    ) {
        let notification = self.trim_notifications.id(registration);
        let device = state.objects.device_id(self.trim_notifications[registration]);
        state.moment.record(|| Event::TrimNotified { notification, device, flags, group, num_bytes_to_trim });
        state.moment.hand_out(Output::TrimNotification { notification, device, flags, group, num_bytes_to_trim });
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
            let listed = u128::from(shares.by_account[account].requested_total());
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
            let record = &mut state.objects[device];
            record.period_runs = false;
            let flags = match record.suspended_in_period || !record.is_active() {
                true => TrimFlags::RESTART_PERIODIC_TRIM,
                false => TrimFlags::PERIODIC_TRIM,
            };
            for registration in record.notifications.clone() {
                self.notify(state, registration, flags, None, 0);
            }
        }
    }
}

/// Tells a process its budget of a group, if it listens or is above it, and the last that it was told does not stand any more. Returns
/// whether that is so.
fn publish_budget(state: &mut State, process: ProcessIx, group: MemorySegmentGroup) -> bool {
    let in_group = Vec::from_iter(state.adapter.accounts_in(group));
    let published = in_group.iter().filter(|&&account| state.shares.by_account[account].publish(process).is_some());
    if published.count() == 0 {
        return false;
    }
    let shares = |&account: &Account| &state.shares.by_account[account];
    let budget = in_group.iter().map(|account| shares(account).published_budget(process)).fold(0, u64::saturating_add);
    let requested = in_group.iter().map(|account| shares(account).requested(process)).sum();
    let id = state.objects.processes.id(process);
    state.moment.record(|| Event::BudgetChanged { process: id, group, budget, requested });
    if state.shares.listeners.contains(&process) {
        state.moment.hand_out(Output::BudgetChanged { process: id, group, budget });
    }
    true
}

/// The accounts of a group; of none, those that count toward no budget.
fn accounts_in(state: &State, group: Option<MemorySegmentGroup>) -> Vec<Account> {
    state.memory.accounts().iter().filter(|&account| state.adapter.group_of(account) == group).collect()
}

/// Bytes that the process's lists name above its budgets of a group.
fn num_bytes_to_trim(state: &State, process: ProcessIx, group: Option<MemorySegmentGroup>) -> u64 {
    let over = |account| state.shares.num_bytes_to_trim_in(process, account);
    accounts_in(state, group).into_iter().map(over).fold(0, u64::saturating_add)
}

/// Tells a process its budgets.
pub(crate) fn tell_budgets_of(state: &mut State, process: ProcessIx) {
    GROUPS.into_iter().for_each(|group| _ = publish_budget(state, process, group));
}

/// Tells those their budgets who listen.
pub(crate) fn tell_all_budgets(state: &mut State) {
    let listeners = Vec::from_iter(state.shares.listeners.iter().copied());
    for group in GROUPS {
        listeners.iter().for_each(|&process| _ = publish_budget(state, process, group));
    }
}
