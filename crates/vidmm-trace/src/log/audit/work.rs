//! Work: submissions, what engines report, and devices in error (I13).

use vidmm::contract::EngineFence;
use vidmm::{DeviceId, Event};

use super::Audit;
use super::device::Submission;
use super::fences::Work;
use super::finding::Invariant;

impl Audit {
    pub(super) fn work(&mut self, event: &Event) {
        match *event {
            Event::Submitted { device, context, submission, ref waits, ref signals } => {
                let work = Submission { context, waits: waits.clone(), signals: signals.clone() };
                self.submitted(device, submission, work);
            }
            Event::RootPageTableSet { context, address } => self.root_set(context, address),
            Event::Dispatched { device, submission, signal, ref waits } => {
                self.dispatched(device, submission, signal, waits);
            }
            Event::Completed { signal } => {
                let signals = self.ended(signal).map(|work| work.signals);
                self.fences.monitored.owe(signals.unwrap_or_default());
            }
            // A packet that was aborted has ended too. Whoever waits for it waits no longer.
            Event::Aborted { signal } => {
                let signals = self.ended(signal).map(|work| work.signals).unwrap_or_default();
                self.fences.monitored.owe(signals.into_iter().map(|(fence, _)| (fence, u64::MAX)));
            }
            Event::MonitoredFenceSignaled { fence, value } => {
                self.fences.monitored.signal((fence, value), &mut self.findings);
            }
            Event::DeviceInError { device, .. } => {
                let dropped = self.devices.get_mut(&device).map(|device| {
                    device.in_error = true;
                    device.drop_undispatched()
                });
                self.fences.monitored.owe(dropped.unwrap_or_default().into_iter().map(|fence| (fence, u64::MAX)));
            }
            _ => {}
        }
    }

    fn submitted(&mut self, id: DeviceId, submission: u64, work: Submission) {
        let Some(device) = self.devices.get_mut(&id) else { return };
        let expected = device.submitted.saturating_add(1);
        self.findings.check(submission == expected, Invariant::Log, || {
            format!("submission {submission} of {id} is made, but the next is {expected}")
        });
        device.submitted = submission.max(device.submitted);
        device.undispatched.insert(submission, work);
        device.unretired.insert(submission);
    }

    fn ended(&mut self, signal: EngineFence) -> Option<Work> {
        let work = self.fences.complete(signal, &mut self.findings)?;
        if let Some(device) = self.devices.get_mut(&work.device) {
            device.unretired.remove(&work.submission);
        }
        Some(work)
    }
}
