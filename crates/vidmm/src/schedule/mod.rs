//! The schedule: whose turn it is, who is asked to trim, power, and the order of grants.

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

/// Whose turn it is, and who is to be asked to trim.
pub(crate) struct Schedule {
    pub turns: Turns,
    pub trim_notifications: Slots<kind::TrimNotification, TrimRegistration>,
    pub trim_intervals: TrimIntervals,
    /// When the periods of devices that listen end.
    pub periods: BTreeSet<(Nanoseconds, DeviceIx)>,
}
