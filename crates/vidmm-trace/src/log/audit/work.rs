//! Work: submissions, and what engines report of them (I13).

use vidmm::contract::EngineFence;
use vidmm::{DeviceId, Event, MonitoredFenceId};

use super::Audit;
use super::device::{Device, Submission};
use super::fences::Work;
use super::finding::Invariant;

impl Audit {
    /// Work is submitted as a whole.
    pub(super) fn work_submitted(&mut self, event: &Event) {
        let &Event::Submitted { device, context, submission, ref waits, ref signals } = event else { return };
        let (waits, signals) = (waits.clone(), signals.clone());
        let engine = self.contexts.get(&context).and_then(|context| self.fences.engine(context.engine));
        let preemptions = engine.map_or(0, |engine| engine.preemptions);
        self.submitted(device, submission, Submission { context, waits, signals, portion: None, preemptions });
        self.submitted_as_a_whole(device, context, submission);
        // Where addresses are patched, portions are submitted later than the work.
        if !self.adapter.is_physical() {
            self.period_begins(device);
        }
        self.submitted_to_its_process(device);
    }

    /// The fences that a device's dropped work would have signalled, and those of a device that ends, are at the maximum only when the work
    /// has ended that the GPU was given.
    pub(super) fn check_nothing_in_flight(&mut self, fence: MonitoredFenceId, value: u64) {
        if value < u64::MAX || self.fences.monitored.is_owed((fence, value)) {
            return;
        }
        let owner = self.fences.monitored.owner(fence);
        let is_over = |(id, device): &(&DeviceId, &Device)| {
            device.dropped_signals.contains(&fence) || device.has_ended && owner == Some(**id)
        };
        let in_flight = |(id, device): (&DeviceId, &Device)| Some((*id, *device.unretired.keys().next()?));
        if let Some((device, submission)) = self.devices.iter().filter(is_over).find_map(in_flight) {
            self.findings.report(
                Invariant::I13,
                format!(
                    "{fence} is at the maximum for the end of {device}, but submission {submission} of it is in flight"
                ),
            );
        }
    }

    pub(super) fn submitted(&mut self, id: DeviceId, submission: u64, work: Submission) {
        let Some(device) = self.devices.get_mut(&id) else { return };
        let expected = device.submitted.saturating_add(1);
        self.findings.check(submission == expected, Invariant::Log, || {
            format!("submission {submission} of {id} is made, but the next is {expected}")
        });
        device.submitted = submission.max(device.submitted);
        device.submitted_at = self.findings.event;
        self.announcements.submitted_at = self.findings.event;
        device.undispatched.insert(submission, work);
        device.unretired.insert(submission, self.findings.event);
    }

    pub(super) fn completed(&mut self, signal: EngineFence) {
        let Some(work) = self.fences.complete(signal, &mut self.findings) else { return };
        self.retire_work(&work);
        self.fences.monitored.owe(work.signals);
        self.owe_dropped(work.device, None);
    }

    /// Work has left its engine.
    pub(super) fn retire_work(&mut self, work: &Work) {
        self.note_stillness(work.device, |of, at| of.end(at));
        if let Some(device) = self.devices.get_mut(&work.device) {
            device.unretired.remove(&work.submission);
            self.settle(work.device);
        }
    }
}
