//! Devices that waited for memory behind others that did not yield to them.

use std::fmt;

use serde::Serialize;
use vidmm::{DeviceId, Event, Nanoseconds};

/// A device that had waited for a second behind another, as the event `device_held_up` tells it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HeldUp {
    /// The device that waited, or its process.
    pub device: String,
    /// The device that kept the memory, or its process: in the foreground and not asleep, or within its reservation.
    pub behind: String,
    /// The time since which it waited, and the time at which its turn came, if it did.
    pub since_ns: Nanoseconds,
    /// None if it waits still.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until_ns: Option<Nanoseconds>,
}

impl HeldUp {
    /// Takes note of an event at a time, if it begins or ends a wait.
    pub(crate) fn take_note(
        waits: &mut Vec<Self>,
        event: &Event,
        at: Nanoseconds,
        name: impl Fn(DeviceId) -> Option<String>,
    ) {
        match *event {
            Event::DeviceHeldUp { device, behind, since } => {
                if let (Some(device), Some(behind)) = (name(device), name(behind)) {
                    waits.push(Self { device, behind, since_ns: since, until_ns: None });
                }
            }
            Event::DeviceResumed { device, .. } if waits.iter().any(|wait| wait.until_ns.is_none()) => {
                let device = name(device);
                let is_over = |wait: &&mut Self| wait.until_ns.is_none() && Some(&wait.device) == device.as_ref();
                waits.iter_mut().filter(is_over).for_each(|wait| wait.until_ns = Some(at));
            }
            _ => {}
        }
    }
}

impl fmt::Display for HeldUp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |ns: Nanoseconds| ns / 1_000_000;
        write!(
            f,
            "{} waits behind {}, which keeps its memory, since {} ms",
            self.device,
            self.behind,
            ms(self.since_ns)
        )?;
        self.until_ns.map_or(Ok(()), |until| write!(f, ", until {} ms", ms(until)))
    }
}
