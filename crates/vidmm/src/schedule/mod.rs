//! The schedule: turns of devices, trims, power, and the order of grants.

pub(crate) mod deferred;
pub(crate) mod grant;
pub(crate) mod power;
pub(crate) mod replacement;
pub(crate) mod suspension;
pub(crate) mod trims;
pub(crate) mod turns;

use alloc::collections::BTreeSet;

use crate::{
    event::trim::TrimIntervals,
    id::{DeviceIx, Slots, kind},
    objects::{device::TrimRegistration, turn::Turns},
    units::Nanoseconds,
};

/// The turns of devices, and the registrations for trim notifications.
pub(crate) struct Schedule {
    pub turns: Turns,
    pub trim_notifications: Slots<kind::TrimNotification, TrimRegistration>,
    pub trim_intervals: TrimIntervals,
    /// When the periods of devices that listen end.
    pub periods: BTreeSet<(Nanoseconds, DeviceIx)>,
}
