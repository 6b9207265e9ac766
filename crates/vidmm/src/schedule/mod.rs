//! The schedule: turns of devices, trims, power, and the order of grants.

pub(crate) mod cleaner;
pub(crate) mod deferred;
mod exchange;
pub(crate) mod grant;
pub(crate) mod homecoming;
pub(crate) mod idle;
pub(crate) mod power;
mod prefetch;
pub(crate) mod replacement;
mod spare;
pub(crate) mod stopping;
pub(crate) mod suspension;
pub(crate) mod trims;
pub(crate) mod turns;
pub(crate) mod waiting;

use alloc::collections::{BTreeMap, BTreeSet};

use crate::{
    budget::MemorySegmentGroup,
    event::trim::TrimIntervals,
    id::{DeviceIx, Slots, TrimNotificationId, TrimNotificationIx, kind},
    schedule::{cleaner::Cleaner, idle::IdleTime, waiting::Turns},
    units::Nanoseconds,
};

/// The last request to a registration to trim to a budget.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AskedToTrim {
    at: Nanoseconds,
    num_bytes_to_trim: u64,
    /// Whether its process has been within the budget since, and whether it was told another budget.
    was_within: bool,
    budget_moved: bool,
}

/// The turns of devices, and the registrations for trim notifications.
pub(crate) struct Schedule {
    pub turns: Turns,
    /// Registrations for trim notifications: their devices.
    pub trim_notifications: Slots<kind::TrimNotification, DeviceIx>,
    pub trim_intervals: TrimIntervals,
    /// When the periods of devices that listen end.
    pub periods: BTreeSet<(Nanoseconds, DeviceIx)>,
    /// The last request to each registration to trim to a budget of a group.
    asked_to_trim: BTreeMap<(TrimNotificationIx, Option<MemorySegmentGroup>), AskedToTrim>,
    pub idle: IdleTime,
}

impl Schedule {
    /// Nothing is scheduled yet.
    pub(crate) fn new(trim_intervals: TrimIntervals, exchange_after: Nanoseconds, cleaner: Cleaner) -> Self {
        let turns = Turns { exchange_after, ..Turns::default() };
        let trim_notifications = Slots::new();
        Self {
            turns,
            trim_notifications,
            trim_intervals,
            periods: BTreeSet::new(),
            asked_to_trim: BTreeMap::new(),
            idle: IdleTime::new(cleaner),
        }
    }

    /// Forgets a device that is gone: another may get its index.
    pub(crate) fn forget_device(&mut self, device: DeviceIx) {
        self.turns.forget(device);
        self.idle.prefetcher.forget_device(device);
        self.periods.retain(|&(_, of)| of != device);
    }

    /// Registers a device for trim notifications.
    pub(crate) fn register(&mut self, device: DeviceIx) -> TrimNotificationId {
        self.trim_notifications.insert(device)
    }

    /// Ends a registration. Returns its device.
    pub(crate) fn unregister(&mut self, registration: TrimNotificationIx) -> DeviceIx {
        self.asked_to_trim.retain(|&(of, _), _| of != registration);
        self.trim_notifications.remove(registration)
    }
}
