//! Processes that hang engines: how often they may, within how long (FLT-31, U-42).

use vidmm::{DeviceId, Event, ProcessId};

use super::Audit;
use super::device::Device;
use super::finding::Invariant;

impl Audit {
    /// The packet of a device was aborted because it took too long.
    pub(super) fn note_timeout(&mut self, device: DeviceId) {
        let Some(id) = self.process_of(device) else { return };
        let Some(process) = self.processes.get_mut(&id) else { return };
        process.timeouts.push_back(self.at);
        if self.num_timeouts(id) >= self.resets.limit.0 as usize && !self.blocked.contains(&id) {
            self.must_block = Some(id);
        }
    }

    /// How often a process has hung an engine within the time that counts, up to now.
    fn num_timeouts(&mut self, id: ProcessId) -> usize {
        let limit = self.resets.limit.1;
        let Some(process) = self.processes.get_mut(&id) else { return 0 };
        process.timeouts.retain(|&at| self.at.saturating_sub(at) < limit);
        process.timeouts.len()
    }

    /// A process loses the GPU for that only.
    pub(super) fn check_may_be_blocked(&mut self, id: ProcessId) {
        self.must_block = self.must_block.filter(|&other| other != id);
        let (found, limit) = (self.num_timeouts(id), self.resets.limit.0);
        self.findings.check(found >= limit as usize, Invariant::Flt31, || {
            format!("{id} is blocked, but has hung engines {found} times, of which {limit} are too many")
        });
    }

    /// Time passes: all devices of a process that has lost the GPU are in error.
    pub(super) fn check_blocked_devices(&mut self, next: &Event) {
        if matches!(next, Event::DeviceInError { .. } | Event::MonitoredFenceSignaled { .. } | Event::Aborted { .. }) {
            return;
        }
        let is_left = |(_, device): &(&DeviceId, &Device)| self.blocked.contains(&device.process) && !device.is_over();
        let left = if self.blocked.is_empty() { None } else { self.devices.iter().find(is_left) };
        let left = left.map(|(&id, device)| (id, device.process));
        self.findings.check(left.is_none(), Invariant::Flt31, || {
            format!("{left:?} is a device of a process that is blocked, but is not in error")
        });
    }

    /// All that follows from the reset of an engine is over.
    pub(super) fn check_blocked(&mut self) {
        let Some(id) = self.must_block.take() else { return };
        let limit = self.resets.limit.0;
        self.findings.report(
            Invariant::Flt31,
            format!("{id} has hung engines {limit} times within the time that counts, but is not blocked"),
        );
    }
}
