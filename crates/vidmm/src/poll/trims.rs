//! Who is asked to trim, and who is told its budget (RES-40..RES-44, RES-53).

use alloc::vec::Vec;

use crate::{
    budget::MemorySegmentGroup,
    event::Event,
    id::{DeviceIx, ProcessIx},
    planted::PlantedBug,
    pool::Pool,
    state::{Output, VidMm},
    trim::TrimFlags,
    units::Nanoseconds,
};

/// Above this share of a pool on lists periodic trims come at the larger interval: 70 %.
const BUSY_PERCENT: u64 = 70;

impl VidMm {
    /// Whether anybody may be told anything: memory is short, somebody listens, or a period runs.
    pub(super) fn may_ask_to_trim(&self) -> bool {
        let is_pressed = |pool| self.shares[pool].is_pressed();
        Pool::ALL.into_iter().any(is_pressed) || !self.listeners.is_empty() || !self.periods.is_empty()
    }

    /// Asks those to trim who are above their budget, tells those their budget who listen, and lets periods end.
    pub(crate) fn ask_to_trim(&mut self) {
        for pool in Pool::ALL {
            self.trim_to_budget(pool);
            self.tell_budgets(pool);
        }
        self.end_periods();
    }

    /// A process above its budget is asked when it comes to that, when its budget has moved by more than 5 %, and again after
    /// each minimum interval (RES-44).
    fn trim_to_budget(&mut self, pool: Pool) {
        if !self.shares[pool].is_pressed() {
            return;
        }
        for process in Vec::from_iter(self.shares[pool].over_budget()) {
            let moved = self.publish_budget(process, pool);
            for device in Vec::from_iter(self.processes[process].devices.iter().copied()) {
                let books = &self.devices[device];
                if books.notifications.is_empty() || books.error.is_some() {
                    continue;
                }
                let again_at = books.turn.asked_to_trim_at.map(|asked| asked.saturating_add(self.trim_intervals.min));
                match again_at {
                    Some(again_at) if !moved && self.now < again_at => self.wake_at(again_at),
                    _ => {
                        self.devices[device].turn.asked_to_trim_at = Some(self.now);
                        self.notify_to_trim(device, TrimFlags::TRIM_TO_BUDGET);
                        self.wake_at(self.now.saturating_add(self.trim_intervals.min));
                    }
                }
            }
        }
    }

    /// Tells a process its budget, if it listens or is above it, and the last that it was told does not stand any more.
    fn publish_budget(&mut self, process: ProcessIx, pool: Pool) -> bool {
        let Some(group) = self.group_of(pool) else { return false };
        let Some(mut budget) = self.shares[pool].publish(process) else { return false };
        if self.adapter.has_bug(PlantedBug::TellWrongBudget) {
            budget /= 2;
        }
        let requested = self.shares[pool].get(process).demand;
        let id = self.processes.id(process);
        self.events.record(|| Event::BudgetChanged { process: id, group, budget, requested });
        if self.processes[process].standing.listens {
            self.outputs.push_back(Output::BudgetChanged { process: id, group, budget });
        }
        true
    }

    /// Tells those their budgets who listen.
    pub(super) fn tell_all_budgets(&mut self) {
        Pool::ALL.into_iter().for_each(|pool| self.tell_budgets(pool));
    }

    fn tell_budgets(&mut self, pool: Pool) {
        for process in Vec::from_iter(self.listeners.iter().copied()) {
            self.publish_budget(process, pool);
        }
    }

    /// What the process's lists name above its budgets, in bytes; 0 without pressure (RES-23).
    pub(crate) fn num_bytes_to_trim(&self, process: ProcessIx) -> u64 {
        let over = |pool| {
            let shares = &self.shares[pool];
            let over = || shares.get(process).demand.saturating_sub(shares.budget(process));
            if shares.is_pressed() { over() } else { 0 }
        };
        over(Pool::Memory) + over(Pool::System)
    }

    /// Whether the process is above a budget that is imposed.
    pub(crate) fn is_over_budget(&self, process: ProcessIx) -> bool {
        self.num_bytes_to_trim(process) > 0
    }

    fn notify_to_trim(&mut self, device: DeviceIx, flags: TrimFlags) {
        let process = self.devices[device].process;
        let is_to_budget = flags.contains(TrimFlags::TRIM_TO_BUDGET);
        let num_bytes_to_trim = if is_to_budget { self.num_bytes_to_trim(process) } else { 0 };
        let id = self.device_id(device);
        for registration in self.devices[device].notifications.clone() {
            let notification = self.trim_notifications.id(registration);
            self.events.record(|| Event::TrimNotified { notification, device: id, flags, num_bytes_to_trim });
            let output = Output::TrimNotification { notification, device: id, flags, num_bytes_to_trim };
            self.outputs.push_back(output);
        }
    }

    /// A device that listens has submitted work: its period ends some time from now.
    pub(crate) fn begin_period(&mut self, device: DeviceIx) {
        let books = &mut self.devices[device];
        if books.notifications.is_empty() || core::mem::replace(&mut books.period_runs, true) {
            return;
        }
        books.suspended_in_period = false;
        let end = self.now.saturating_add(self.period());
        self.periods.insert((end, device));
    }

    fn period(&self) -> Nanoseconds {
        let is_pressed = Pool::ALL.into_iter().any(|pool| self.shares[pool].is_pressed());
        let is_busy = Pool::ALL.into_iter().any(|pool| {
            let listed = u128::from(self.shares[pool].demand_total());
            listed * 100 > u128::from(self.list_capacity(pool)) * u128::from(BUSY_PERCENT)
        });
        match (is_pressed, is_busy) {
            (true, _) => self.trim_intervals.min,
            (false, true) => self.trim_intervals.max,
            (false, false) => self.trim_intervals.idle,
        }
    }

    /// Periods that are over: whoever ran all the time trims; whoever was suspended begins anew, since what it did not use it
    /// could not use (RES-42).
    fn end_periods(&mut self) {
        while let Some(&(end, device)) = self.periods.first() {
            if end > self.now {
                return self.wake_at(end);
            }
            self.periods.pop_first();
            if !self.devices.contains(device) {
                continue;
            }
            let books = &mut self.devices[device];
            books.period_runs = false;
            let flags = match books.suspended_in_period || !books.is_active() {
                true => TrimFlags::RESTART_PERIODIC_TRIM,
                false => TrimFlags::PERIODIC_TRIM,
            };
            self.notify_to_trim(device, flags);
        }
    }

    /// The group that a pool's budget is for; none for a memory segment that the adapter does not have (RES-50, U-3).
    fn group_of(&self, pool: Pool) -> Option<MemorySegmentGroup> {
        match (pool, self.adapter.memory.is_some()) {
            (Pool::Memory, true) | (Pool::System, false) => Some(MemorySegmentGroup::Local),
            (Pool::System, true) => Some(MemorySegmentGroup::NonLocal),
            (Pool::Memory, false) => None,
        }
    }

    /// The pool that a group's budget is for; none if the adapter has nothing of it.
    pub(crate) fn pool_of(&self, group: MemorySegmentGroup) -> Option<Pool> {
        match (group, self.adapter.memory.is_some()) {
            (MemorySegmentGroup::Local, true) => Some(Pool::Memory),
            (MemorySegmentGroup::Local, false) | (MemorySegmentGroup::NonLocal, true) => Some(Pool::System),
            (MemorySegmentGroup::NonLocal, false) => None,
        }
    }
}
