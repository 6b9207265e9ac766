//! Work: submissions, the schedule gate, and what engines report (I06, I13).

use vidmm::contract::EngineFence;
use vidmm::{AllocationId, ContextId, DeviceId, Event, PlanNo};

use super::Audit;
use super::finding::Invariant;
use super::plans::Built;

/// Work that is let go.
#[derive(Clone, Copy, Debug)]
struct Dispatch {
    device: DeviceId,
    submission: u64,
    /// Packets of the paging engine up to this one are done when it runs.
    covered: u64,
}

impl Audit {
    pub(super) fn work(&mut self, event: &Event) {
        match *event {
            Event::Submitted { device, context, submission } => self.submitted(device, context, submission),
            Event::Dispatched { device, submission, signal, ref waits } => {
                self.dispatched(device, submission, signal, waits);
            }
            // A packet that faulted has ended too.
            Event::Completed { signal } | Event::PageFault { signal, .. } => self.completed(signal),
            Event::MonitoredFenceSignaled { fence, value } => {
                self.fences.signal_monitored(fence, value, &mut self.findings);
            }
            Event::DeviceInError { device, .. } => match self.devices.get_mut(&device) {
                Some(device) => device.drop_undispatched(),
                None => self.unknown(device),
            },
            _ => {}
        }
    }

    fn submitted(&mut self, id: DeviceId, context: ContextId, submission: u64) {
        let Some(device) = self.devices.get_mut(&id) else { return self.unknown(id) };
        let expected = device.submitted.saturating_add(1);
        self.findings.check(submission == expected, Invariant::Log, || {
            format!("submission {submission} of {id} is made, but the next is {expected}")
        });
        device.submitted = submission.max(device.submitted);
        device.undispatched.insert(submission, context);
        device.unretired.insert(submission);
    }

    fn completed(&mut self, signal: EngineFence) {
        let Some((device, submission)) = self.fences.complete(signal, &mut self.findings) else { return };
        if let Some(device) = self.devices.get_mut(&device) {
            device.unretired.remove(&submission);
        }
    }

    fn dispatched(&mut self, id: DeviceId, submission: u64, signal: EngineFence, waits: &[EngineFence]) {
        for wait in waits {
            self.findings.check(wait.fence_id <= self.fences.submitted(wait.engine), Invariant::I13, || {
                format!("submission {submission} of {id} waits for {wait:?}, which was not handed out")
            });
        }
        self.fences.submit(signal, &mut self.findings);
        self.fences.work.insert(signal, (id, submission));
        let Some(device) = self.devices.get_mut(&id) else { return self.unknown(id) };
        let context = device.undispatched.remove(&submission);
        let engine = context.and_then(|context| self.contexts.get(&context)).copied();
        self.findings.check(engine == Some(signal.engine), Invariant::Log, || {
            format!("submission {submission} of {id} runs on engine {}, but is for {engine:?}", signal.engine)
        });
        let paging = self.fences.paging_engine;
        let awaited = waits.iter().filter(|wait| wait.engine == paging).map(|wait| wait.fence_id).max();
        let covered = self.fences.completed(paging).max(awaited.unwrap_or(0));
        let dispatch = Dispatch { device: id, submission, covered };
        self.check_requests(dispatch);
        self.check_list(dispatch);
    }

    /// All that was asked for before the submission is granted, and done when it runs.
    fn check_requests(&mut self, dispatch: Dispatch) {
        let Dispatch { device: id, submission, .. } = dispatch;
        let Some(device) = self.devices.get(&id) else { return };
        let mut needed = Vec::new();
        for request in device.requests.iter().filter(|request| request.after_submission < submission) {
            match &request.granted {
                Some((_, plans)) => needed.extend(plans),
                None => self.findings.report(
                    Invariant::I06,
                    format!(
                        "submission {submission} of {id} is dispatched before value {}, asked for before it, is granted",
                        request.fence_value
                    ),
                ),
            }
        }
        for plan in needed {
            self.check_gate(dispatch, plan, None);
        }
    }

    /// All that is on the list of the submission is in place when it runs.
    fn check_list(&mut self, dispatch: Dispatch) {
        let id = dispatch.device;
        let Some(device) = self.devices.get(&id) else { return };
        let spans: Vec<(AllocationId, u64)> = device.spans.iter().copied().collect();
        for (allocation, number) in spans {
            if !self.must_look_again(dispatch, allocation, number)
                && let Some(device) = self.devices.get_mut(&id)
            {
                device.spans.remove(&(allocation, number));
            }
        }
    }

    /// Checks an allocation if the submission was made in this span of it. Returns whether later submissions must be checked
    /// too: not if the allocation is there already, as long as it does not leave.
    fn must_look_again(&mut self, dispatch: Dispatch, id: AllocationId, number: u64) -> bool {
        let Some(allocation) = self.allocations.get(&id) else { return false };
        let Some(&span) = allocation.list.span(number) else { return false };
        let place = allocation.decided.as_ref().map(|place| place.plan);
        if span.requires(dispatch.submission) {
            self.check_required(dispatch, id, place);
            return place.is_none_or(|plan| !self.plans.is_retired(plan));
        }
        let device = self.devices.get(&dispatch.device);
        span.to.is_none() || device.is_some_and(|device| device.undispatched_in(&span).is_some())
    }

    /// An allocation on the list has a place, and is there when the work runs.
    fn check_required(&mut self, dispatch: Dispatch, id: AllocationId, place: Option<PlanNo>) {
        if let Some(plan) = place {
            return self.check_gate(dispatch, plan, Some(id));
        }
        let Dispatch { device, submission, .. } = dispatch;
        let message = format!("submission {submission} of {device} is dispatched, but {id} has no place");
        self.findings.report(Invariant::I06, message);
    }

    /// Work that requires `plan` is let go: the plan is built, and the work waits for its last buffer. With an allocation, the
    /// plan is the one that brings it in, so that something of it must be built.
    fn check_gate(&mut self, dispatch: Dispatch, number: PlanNo, brings_in: Option<AllocationId>) {
        if self.plans.is_retired(number) {
            return;
        }
        let event = self.findings.event;
        let built = self.plans.get_mut(number).map_or(Built::Nothing, |plan| {
            // If another operation of it comes, it was not built to its end.
            plan.relied_on.get_or_insert(event);
            plan.built
        });
        let done = match built {
            Built::Nothing => brings_in.is_none(),
            Built::InOpenBuffer => false,
            Built::InBuffer(fence_id) => fence_id <= dispatch.covered,
        };
        self.findings.check(done, Invariant::I06, || {
            let Dispatch { device, submission, covered } = dispatch;
            format!(
                "submission {submission} of {device} is dispatched when packet {covered} of the paging engine is done, but \
                 it requires plan {number}, whose last operation is {built:?}"
            )
        });
    }
}
