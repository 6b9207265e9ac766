//! Devices that are asked to trim: to their budget, and at the ends of their periods (RES-41, RES-42, U-30).

use vidmm::{DeviceId, MemorySegmentGroup, ProcessId, TrimFlags, TrimIntervals, TrimNotificationId};

use super::Audit;
use super::device::{Device, Period};
use super::finding::Invariant;
use super::shares::Standing;

/// The time that a device has for a request to trim, in nanoseconds (U-30).
const TRIM_GRACE: u64 = 10_000_000;

/// The time that a call may take, after which the end of a period is late, in nanoseconds.
const LATE: u64 = 1_000_000_000;

/// The groups of memory that have budgets; none is that of segments outside both.
const GROUPS: [Option<MemorySegmentGroup>; 3] =
    [Some(MemorySegmentGroup::Local), Some(MemorySegmentGroup::NonLocal), None];

/// The last request to trim of a registration.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct AskedToTrim {
    at: u64,
    event: u64,
    bytes: u64,
    /// How often anything had been relieved then.
    relieved: u64,
    /// Its process has been within the budget since, and was told another.
    was_within: bool,
    budget_moved: bool,
    /// The log has not always said what its process demands since.
    is_unclear: bool,
}

impl Audit {
    pub(super) fn unregistered(&mut self, notification: TrimNotificationId) {
        self.asked_to_trim.retain(|&(of, _), _| of != notification);
        self.names.remove(notification.into(), &mut self.findings);
        let device = self.listeners.remove(&notification).and_then(|device| self.devices.get_mut(&device));
        // A period ends without a word where nobody listens any more.
        if let Some(device) = device.filter(|device| device.period != Period::None) {
            device.period = Period::Unknown;
        }
    }

    /// The first work of a device that listens begins its period.
    pub(super) fn period_begins(&mut self, id: DeviceId) {
        let listens = self.listeners.values().any(|&device| device == id);
        let begins = listens && self.devices.get(&id).is_some_and(|device| device.period == Period::None);
        if !begins {
            return;
        }
        let [earliest, latest] = self.period().map(|interval| self.at.saturating_add(interval));
        let runs = Period::Runs { was_suspended: false, earliest, latest };
        let is_stopped = self.powered_down || self.reset.is_some();
        let period = if is_stopped { Period::Unknown } else { runs };
        self.devices.entry(id).and_modify(|device| device.period = period);
    }

    /// The least and the most that the interval of a period that begins now can be: one of three while the log says how much memory is
    /// demanded (U-29).
    fn period(&self) -> [u64; 2] {
        let TrimIntervals { min, max, idle } = self.trim_intervals;
        let process = self.processes.keys().next().filter(|_| self.demands_are_clear());
        let Some(&process) = process else { return [min.min(max).min(idle), min.max(max).max(idle)] };
        let standings = self.sharings(None).into_iter().map(|sharing| sharing.standing(process, 0));
        let is_busy = |of: &Standing| u128::from(of.requested_total) * 10 > u128::from(of.capacity) * 7;
        let (is_pressed, is_busy) =
            standings.fold((false, false), |(pressed, busy), of| (pressed || of.is_pressed(), busy || is_busy(&of)));
        let interval = if is_pressed {
            min
        } else if is_busy {
            max
        } else {
            idle
        };
        [interval; 2]
    }

    /// Periods do not end in time while the GPU does not run.
    pub(super) fn forget_periods(&mut self) {
        let running = self.devices.values_mut().filter(|device| device.period != Period::None);
        running.for_each(|device| device.period = Period::Unknown);
    }

    pub(super) fn budget_moved(&mut self, process: ProcessId, group: Option<MemorySegmentGroup>) {
        for ((notification, of), asked) in &mut self.asked_to_trim {
            let device = self.listeners.get(notification).and_then(|id| self.devices.get(id));
            asked.budget_moved |= *of == group && device.is_some_and(|device| device.process == process);
        }
    }

    /// Time passes: every period has ended that had to.
    pub(super) fn check_periods_end(&mut self, now: u64) {
        let is_late = |(_, device): &(&DeviceId, &Device)| {
            !device.is_over()
                && matches!(device.period, Period::Runs { latest, .. } if latest.saturating_add(LATE) < now)
        };
        let late = self.devices.iter().find(is_late).map(|(&id, _)| id).filter(|_| !self.has_failed);
        self.findings.check(late.is_none(), Invariant::Res41, || {
            format!("the period of {late:?} has not ended by {now} ns, which is more than any interval")
        });
    }

    /// A device that was suspended in its period, or does not run, begins anew: what it did not use it could not use (RES-42).
    fn period_ended(&mut self, id: DeviceId, flags: TrimFlags) {
        let Some(device) = self.devices.get_mut(&id) else { return };
        let Period::Runs { was_suspended, earliest, .. } = std::mem::take(&mut device.period) else { return };
        let restarts = was_suspended || !device.is_active();
        self.findings.check(self.at >= earliest, Invariant::Res41, || {
            format!("the period of {id} ends, which cannot be over before {earliest} ns")
        });
        self.findings.check(flags.contains(TrimFlags::RESTART_PERIODIC_TRIM) == restarts, Invariant::Res41, || {
            format!("the period of {id} ends with {flags:?}, but it was suspended or does not run: {restarts}")
        });
    }

    /// The time until which a device has a moment to trim.
    pub(super) fn trims_until(&self, id: DeviceId) -> u64 {
        let of_device = |&((notification, _), _): &(&(TrimNotificationId, _), _)| {
            self.listeners.get(notification).is_some_and(|&device| device == id)
        };
        let asked = self.asked_to_trim.iter().filter(of_device);
        asked.map(|(_, asked)| asked.at.saturating_add(TRIM_GRACE)).max().unwrap_or(0)
    }

    /// Time passes: by now every device that listens has been asked to trim, if its process has come above its budget of a
    /// group, and its moment for an earlier request is over (RES-41).
    pub(super) fn check_asked_to_trim(&mut self) {
        if std::mem::take(&mut self.has_restarted) || self.listeners.is_empty() || !self.is_up() {
            return;
        }
        if !self.demands_are_clear() {
            self.asked_to_trim.values_mut().for_each(|asked| asked.is_unclear = true);
            return;
        }
        let sharings = GROUPS.map(|group| self.sharings(Some(group)));
        let listeners = self.listeners.iter().map(|(&notification, &device)| (notification, device));
        for (notification, id) in Vec::from_iter(listeners) {
            let Some(process) = self.devices.get(&id).filter(|device| !device.is_over()).map(|device| device.process)
            else {
                continue;
            };
            // A halted process demands the reservation only, and is not asked (D30).
            if self.processes.get(&process).is_some_and(|of| of.suspended.is_some()) {
                continue;
            }
            for (group, sharings) in GROUPS.into_iter().zip(&sharings) {
                let above = Self::above_budget(sharings, process);
                let asked = self.asked_to_trim.get_mut(&(notification, group));
                if *above.end() == 0 {
                    asked.into_iter().for_each(|asked| asked.was_within = true);
                    continue;
                }
                let at = self.at;
                let is_asked = asked.is_some_and(|asked| !asked.was_within || at < asked.at.saturating_add(TRIM_GRACE));
                self.findings.check(is_asked || *above.start() == 0, Invariant::Res41, || {
                    format!("{process} is {above:?} bytes above its budget of {group:?}, but {id} is not asked to trim")
                });
            }
        }
    }

    /// Only who listens is asked to trim, and to trim to the budget only who is above it (RES-41, P07).
    pub(super) fn trim_notified(
        &mut self,
        notification: TrimNotificationId,
        device: DeviceId,
        flags: TrimFlags,
        bytes: u64,
    ) {
        let listens = self.listeners.get(&notification) == Some(&device);
        let both = flags.contains(TrimFlags::PERIODIC_TRIM | TrimFlags::RESTART_PERIODIC_TRIM);
        if flags.intersects(TrimFlags::PERIODIC_TRIM | TrimFlags::RESTART_PERIODIC_TRIM) && !both {
            self.period_ended(device, flags);
        }
        self.findings.check(listens && !both && !flags.is_empty(), Invariant::Res41, || {
            format!("{device} is notified by {notification} with {flags:?}; it listens there: {listens}")
        });
        let to_budget = flags.contains(TrimFlags::TRIM_TO_BUDGET);
        self.findings.check(to_budget == (bytes > 0), Invariant::Res41, || {
            format!("{device} is asked to trim {bytes} bytes with {flags:?}")
        });
    }

    /// A request to trim says by how much the process is above its budget of the group. A device has a moment for each, and is not
    /// asked for the same amount again that it has not answered (RES-41, U-30).
    pub(super) fn asked_to_trim(
        &mut self,
        notification: TrimNotificationId,
        device: DeviceId,
        group: Option<MemorySegmentGroup>,
        bytes: u64,
    ) {
        let Some(process) = self.process_of(device) else { return };
        self.check_over(process, Some(group), bytes, || format!("the notification of {device}"));
        group.into_iter().for_each(|group| self.check_told_budget(process, group));
        let (at, event) = (self.at, self.findings.event);
        let asked = AskedToTrim { at, event, bytes, relieved: self.demands.relieved, ..AskedToTrim::default() };
        let Some(before) = self.asked_to_trim.insert((notification, group), asked) else { return };
        // Whether it was within its budget for a moment the log does not say.
        let is_due = before.was_within || before.budget_moved || before.is_unclear || asked.relieved > before.relieved;
        let interval = if is_due { TRIM_GRACE } else { TRIM_GRACE.max(self.trim_intervals.min) };
        let again_at = before.at.saturating_add(interval);
        self.findings.check(self.at >= again_at, Invariant::Res41, || {
            format!(
                "{device} is asked to trim at {} ns, but was asked at {} and has until {again_at}",
                asked.at, before.at
            )
        });
        let is_new = bytes != before.bytes || before.is_unclear || asked.relieved > before.relieved;
        // Of allocations that may count in several memories the log does not say when a demand falls.
        self.findings.check(is_new || !self.demands.were_clear_since(before.event), Invariant::Res41, || {
            format!("{device} is asked again to trim {bytes} bytes of {group:?}, and nothing has changed since")
        });
    }
}
