//! Work: submissions, and what engines report of them (I13).

use vidmm::contract::{EngineFence, RootPageTable};
use vidmm::{DeviceId, Event, MonitoredFenceId};

use super::Audit;
use super::device::Submission;
use super::fences::Work;
use super::finding::Invariant;

impl Audit {
    pub(super) fn work(&mut self, event: &Event) {
        match *event {
            Event::Submitted { device, context, submission, ref waits, ref signals } => {
                let (waits, signals) = (waits.clone(), signals.clone());
                let engine = self.contexts.get(&context).and_then(|context| self.fences.engine(context.engine));
                let preemptions = engine.map_or(0, |engine| engine.preemptions);
                let work = Submission { context, waits, signals, portion: None, preemptions };
                self.submitted(device, submission, work);
                self.submitted_as_a_whole(device, context, submission);
            }
            Event::RootPageTableSet { context, address, num_entries } => {
                self.root_set(context, RootPageTable { address, num_entries });
            }
            Event::Dispatched { device, submission, signal, ref waits } => {
                self.dispatched(device, submission, signal, waits);
            }
            Event::Completed { signal } => {
                let signals = self.ended(signal).map(|work| work.signals);
                self.fences.monitored.owe(signals.unwrap_or_default());
            }
            Event::Aborted { signal } => self.aborted(signal),
            Event::MonitoredFenceSignaled { fence, value } => {
                self.check_ends_alone(fence, value);
                self.fences.monitored.signal((fence, value), &mut self.findings);
            }
            _ => {}
        }
    }

    /// The fences of a device that ends are at the maximum when the work has ended that the GPU was given.
    fn check_ends_alone(&mut self, fence: MonitoredFenceId, value: u64) {
        // Where all is aborted one by one, each packet signals its own fences.
        let is_of_end = value == u64::MAX && self.reset.is_none() && !self.fences.monitored.is_owed((fence, value));
        let Some(owner) = self.fences.monitored.owner(fence).filter(|_| is_of_end) else { return };
        let has_ended = self.devices.get(&owner).is_some_and(|device| device.has_ended);
        let of_owner = |signal| self.fences.work.get(&signal).filter(|work| work.device == owner && has_ended);
        let under_way = self.fences.in_flight().find_map(of_owner);
        let submission = under_way.map(|work| work.submission);
        self.findings.check(submission.is_none(), Invariant::I13, || {
            format!("{fence} is at the maximum, since {owner} ends, but submission {submission:?} of that is under way")
        });
    }

    pub(super) fn submitted(&mut self, id: DeviceId, submission: u64, work: Submission) {
        let Some(device) = self.devices.get_mut(&id) else { return };
        let expected = device.submitted.saturating_add(1);
        self.findings.check(submission == expected, Invariant::Log, || {
            format!("submission {submission} of {id} is made, but the next is {expected}")
        });
        device.submitted = submission.max(device.submitted);
        device.submitted_at = self.findings.event;
        device.undispatched.insert(submission, work);
        device.unretired.insert(submission, self.findings.event);
    }

    fn ended(&mut self, signal: EngineFence) -> Option<Work> {
        let work = self.fences.complete(signal, &mut self.findings)?;
        self.retire_work(&work);
        Some(work)
    }

    /// Work has left its engine.
    pub(super) fn retire_work(&mut self, work: &Work) {
        if let Some(device) = self.devices.get_mut(&work.device) {
            device.unretired.remove(&work.submission);
            self.settle(work.device);
        }
    }
}
