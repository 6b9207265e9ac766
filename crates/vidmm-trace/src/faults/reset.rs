//! A reset of the adapter, told when it is over: its reason, the devices in error, and the lost content.

use vidmm::{AllocationId, DeviceErrorReason, DeviceId, Event};

use super::{FaultReporter, line};
use crate::explain::words::{list, time};

/// The reset so far.
#[derive(Debug, Default)]
pub(super) struct ResetStory {
    /// The first lines.
    begin: String,
    devices: Vec<DeviceId>,
    /// The owners of the allocations of a faulting paging buffer.
    owners: Vec<DeviceId>,
    aborted: u64,
    abandoned: u64,
    lost: Vec<AllocationId>,
    /// Those whose bytes are kept, in the form that the GPU left them in.
    as_left: Vec<AllocationId>,
}

impl ResetStory {
    pub fn learn(&mut self, event: &Event) {
        match *event {
            Event::DeviceInError { device, reason: DeviceErrorReason::PagingBufferFault } => {
                self.devices.push(device);
                self.owners.push(device);
            }
            Event::DeviceInError { device, .. } => self.devices.push(device),
            Event::Aborted { .. } => self.aborted += 1,
            Event::PlanAbandoned { .. } => self.abandoned += 1,
            Event::ContentLost { allocation, is_kept: false } => self.lost.push(allocation),
            Event::ContentLost { allocation, is_kept: true } => self.as_left.push(allocation),
            _ => {}
        }
    }
}

impl FaultReporter {
    pub(super) fn reset_begun(&mut self, number: u64, at: u64, cause: DeviceErrorReason) {
        let mut begin = format!("The adapter was reset (event {number}, at {}): {}.", time(at), why(cause));
        match std::mem::take(&mut self.faults).into_values().max_by_key(|fault| fault.number) {
            Some(fault) => {
                line(&mut begin, &format!("The fault was reported in event {}, at {}.", fault.number, time(fault.at)));
                self.tell_fault(&mut begin, &fault);
            }
            None => {
                let under_way: Vec<_> = self.packets.under_way().collect();
                self.tell_in_flight(&mut begin, &under_way);
            }
        }
        self.reset = Some(ResetStory { begin, ..ResetStory::default() });
    }

    /// Tells a reset that is over, well or not.
    pub(super) fn end_of_reset(&mut self) {
        let Some(ResetStory { begin: mut text, devices, owners, aborted, abandoned, lost, as_left }) =
            self.reset.take()
        else {
            return;
        };
        let named = |devices: &[DeviceId]| {
            let named: Vec<String> = devices.iter().map(|&device| self.packets.device(device)).collect();
            list(&named)
        };
        line(&mut text, &format!("In error for it ({}): {}.", devices.len(), named(&devices)));
        if !owners.is_empty() {
            line(&mut text, &format!("The content that was being paged belongs to {}.", named(&owners)));
        }
        line(
            &mut text,
            &format!("{aborted} packets were aborted and {abandoned} plans abandoned; nothing is resident."),
        );
        line(&mut text, &format!("Content that was lost ({}): {}.", lost.len(), list(&lost)));
        if !as_left.is_empty() {
            let kept =
                "Bytes that are kept in system memory as the GPU left them, and that nobody can put right any more";
            line(&mut text, &format!("{kept} ({}): {}.", as_left.len(), list(&as_left)));
        }
        self.reports.push(text);
    }
}

/// The cause of a reset of the adapter, in words of its own: the text of a reason speaks of a device.
const fn why(cause: DeviceErrorReason) -> &'static str {
    match cause {
        DeviceErrorReason::EngineTimeoutPromotedToAdapterReset => "an engine could not be reset, or that did not help",
        DeviceErrorReason::PagingEngineTimeout => "the paging engine hung",
        DeviceErrorReason::PagingBufferFault => "a paging buffer faulted",
        _ => "the driver said that a fault needs it",
    }
}
