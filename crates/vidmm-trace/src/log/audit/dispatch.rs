//! The schedule gate: work is handed to its engine when all that it requires is in, or once it waits for it (I06).

use std::collections::BTreeMap;

use vidmm::contract::EngineFence;
use vidmm::{AllocationId, ContextId, DeviceId, PlanNo};

use super::Audit;
use super::device::Submission;
use super::fences::Work;
use super::finding::Invariant;
use super::monitored::FenceValue;

/// Packets of a context that an engine holds at most (D7).
const IN_FLIGHT_MAX: usize = 4;

/// Work that is let go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dispatch {
    pub device: DeviceId,
    pub submission: u64,
    /// Packets of the paging engine up to this one are done when it runs.
    covered: u64,
}

impl Audit {
    pub(super) fn dispatched(&mut self, id: DeviceId, submission: u64, signal: EngineFence, waits: &[EngineFence]) {
        for wait in waits {
            self.findings.check(wait.fence_id <= self.fences.submitted(wait.engine), Invariant::I13, || {
                format!("submission {submission} of {id} waits for {wait:?}, which was not handed out")
            });
        }
        let is_lost = |wait: &&EngineFence| {
            let (completed, submitted) = (self.fences.completed(wait.engine), self.fences.submitted(wait.engine));
            // A paging buffer that came back is handed out again under its name.
            let comes_again = self.fences.has_returned_paging(**wait);
            !self.fences.has(**wait) && !comes_again && completed < wait.fence_id && wait.fence_id <= submitted
        };
        let lost = waits.iter().find(is_lost);
        self.findings.check(lost.is_none(), Invariant::I30, || {
            format!("submission {submission} of {id} waits for {lost:?}, which is not under way")
        });
        self.check_overtakes(id, submission, signal.engine);
        if let Some(process) = self.process_of(id).filter(|_| self.sees_operations()) {
            self.check_read_zero(process);
        }
        match waits {
            [] => self.check_urgent(id, submission, signal.engine),
            _ => self.check_not_in_the_way(id, submission, signal.engine),
        }
        self.fences.submit(signal, &mut self.findings);
        let Some(device) = self.devices.get_mut(&id) else { return };
        if device.is_over() {
            let message =
                format!("submission {submission} of {id} is dispatched, but that is in error or was destroyed");
            return self.findings.report(Invariant::I12, message);
        }
        let Some(Submission { context, waits: fences, signals, portion, .. }) = device.undispatched.remove(&submission)
        else {
            let message = format!("submission {submission} of {id} is dispatched, but does not wait for that");
            return self.findings.report(Invariant::Log, message);
        };
        device.dispatched.insert(submission, self.findings.event);
        let engine = self.contexts.get(&context).map(|context| context.engine);
        self.findings.check(engine == Some(signal.engine), Invariant::Log, || {
            format!("submission {submission} of {id} runs on engine {}, but is for {engine:?}", signal.engine)
        });
        let awaited = waits.iter().filter(|&&wait| self.fences.is_paging(wait)).map(|wait| wait.fence_id).max();
        let covered = self.fences.paging_completed().max(awaited.unwrap_or(0));
        self.fences.awaited = self.fences.awaited.max(covered);
        self.is_work_free = self.is_work_free || !self.plans.are_over_by(covered);
        let dispatch = Dispatch { device: id, submission, covered };
        self.check_monitored_waits(dispatch, &fences, waits);
        let waits = waits.to_vec();
        self.note_stillness(id, |of, at| of.begin(at));
        self.fences.work.insert(signal, Work { device: id, submission, context, waits, signals });
        self.check_runs(dispatch, portion);
        self.check_root(dispatch, context);
        self.check_requests(dispatch);
        self.check_list(dispatch);
    }

    /// A packet that an engine gave back is handed to it again before anything else, but for another context's work that is more
    /// urgent, or where the packet waits for paging (D23).
    fn check_overtakes(&mut self, id: DeviceId, submission: u64, engine: u32) {
        let returned = self.fences.engines.get(engine as usize).map_or(&[][..], |books| &books.returned);
        if returned.is_empty() {
            return;
        }
        let work = self.devices.get(&id).and_then(|device| device.undispatched.get(&submission));
        let own = work.map(|work| work.context);
        let mut packets =
            returned.iter().filter_map(|&fence_id| self.fences.work.get(&EngineFence { engine, fence_id }));
        let is_overtaken = |packet: &Work| {
            own.is_some_and(|own| self.priority_of(packet.context) < self.priority_of(own))
                || self.fences.awaits_paging(packet)
        };
        let is_own = packets.clone().any(|packet| Some(packet.context) == own);
        self.findings.check(!is_own && packets.any(is_overtaken), Invariant::I30, || {
            format!("submission {submission} of {id} is dispatched before what engine {engine} gave back")
        });
    }

    /// How urgent the work of a context is.
    fn priority_of(&self, context: ContextId) -> i32 {
        self.contexts.get(&context).map_or(0, |context| context.priority)
    }

    /// Work that waits for nothing, also not for packets of its context, is handed out behind less urgent packets, which its engine has not
    /// begun, only if the engine was asked to yield since it was submitted (D23). Where addresses are patched the log does not say since
    /// when a portion could be handed out; and the packets of an only engine keep their places among paging buffers.
    fn check_urgent(&mut self, id: DeviceId, submission: u64, engine: u32) {
        let work = self.devices.get(&id).and_then(|device| device.undispatched.get(&submission));
        let Some((work, books)) = work.zip(self.fences.engine(engine)) else { return };
        let packet = |fence_id| self.fences.work.get(&EngineFence { engine, fence_id });
        let is_less_urgent = |&&fence_id: &&u64| {
            let priority = self.priority_of(work.context);
            packet(fence_id).is_some_and(|packet| self.priority_of(packet.context) < priority)
        };
        let mut before = books.in_flight.iter().filter_map(|&fence_id| packet(fence_id));
        let is_next = before.all(|packet| packet.context != work.context);
        let overtakes = is_next && !self.adapter.is_physical() && engine != self.fences.paging_engine;
        let passed = books.in_flight.iter().skip(1).find(is_less_urgent).filter(|_| overtakes);
        let was_asked = books.preemptions > work.preemptions;
        self.findings.check(passed.is_none() || was_asked, Invariant::I30, || {
            format!("submission {submission} of {id} waits behind packet {passed:?} of engine {engine}, which is less urgent")
        });
    }

    /// Work that waits is handed out only where no other context has ready work that its engine takes later (D23): an engine holds a few
    /// packets of each context at most, so ready work may have to wait until one of its own ends.
    fn check_not_in_the_way(&mut self, id: DeviceId, submission: u64, engine: u32) {
        let own =
            self.devices.get(&id).and_then(|device| device.undispatched.get(&submission)).map(|work| work.context);
        let Some(books) = self.fences.engine(engine).filter(|_| !self.adapter.is_physical()) else { return };
        if !books.returned.is_empty() || books.in_flight.len() < IN_FLIGHT_MAX {
            return;
        }
        let mut given: BTreeMap<ContextId, usize> = BTreeMap::new();
        for &fence_id in &books.in_flight {
            let context = self.fences.work.get(&EngineFence { engine, fence_id }).map(|packet| packet.context);
            context.into_iter().for_each(|context| *given.entry(context).or_default() += 1);
        }
        let full = given.into_iter().filter(|&(context, count)| count >= IN_FLIGHT_MAX && Some(context) != own);
        let held_up = full.map(|(context, _)| context).find(|&context| self.has_ready_work(context));
        self.findings.check(held_up.is_none(), Invariant::I30, || {
            format!(
                "submission {submission} of {id}, which waits, goes before ready work of {held_up:?} on engine {engine}"
            )
        });
    }

    /// Whether the next work of a context certainly waits for nothing but its engine.
    fn has_ready_work(&self, context: ContextId) -> bool {
        let Some(books) = self.contexts.get(&context) else { return false };
        let Some(device) = self.devices.get(&books.device) else { return false };
        let Some((&submission, work)) = device.undispatched.iter().find(|(_, work)| work.context == context) else {
            return false;
        };
        let is_in = |plan: PlanNo| self.plans.is_retired(plan);
        let process = self.processes.get(&device.process);
        let is_free = self.is_work_free || self.plans.are_over();
        let runs = is_free && device.is_active() && !device.is_over() && !device.is_blocked() && !self.powered_down;
        let has_root = !self.adapter.has_page_tables()
            || self
                .root_of(books.device)
                .zip(books.root)
                .is_some_and(|(root, told)| root.address == told.address && is_in(root.plan));
        // Nothing more of a process is handed out before a page of it is cut (GVA-42).
        let is_cut = self.rests.iter().any(|&(of, _)| of == device.process);
        let is_whole = process.is_some_and(|of| of.suspended.is_none() && is_in(of.cut_by)) && !is_cut;
        let is_back = device.resumed_by.iter().all(|&plan| is_in(plan));
        let asked = device.requests.iter().filter(|request| request.after_submission < submission);
        let is_granted = asked
            .into_iter()
            .all(|request| request.granted.as_ref().is_some_and(|plans| plans.iter().all(|&plan| is_in(plan))));
        let is_listed = self.allocations.values().filter(|of| of.lists.contains_key(&books.device)).all(|of| {
            of.decided.as_ref().is_some_and(|place| is_in(place.plan)) && is_in(of.last_plan) && is_in(of.refreshed_by)
        });
        let has_waited = work.waits.iter().all(|&wait| self.fences.monitored.has_reached(wait));
        let mut own = self.fences.work.values().filter(|packet| packet.context == context);
        let is_over = |wait: &EngineFence| self.fences.completed(wait.engine) >= wait.fence_id;
        let is_told = self.reaches_all(books) || own.clone().next().is_none();
        let is_next = own.all(|packet| packet.waits.iter().all(is_over));
        runs && has_root && is_told && is_whole && is_back && is_granted && is_listed && has_waited && is_next
    }

    /// Each monitored fence that the work waits for has its value, or the work waits for a packet that will signal it.
    fn check_monitored_waits(&mut self, dispatch: Dispatch, fences: &[FenceValue], waits: &[EngineFence]) {
        for &(fence, value) in fences {
            let signals = |work: &Work| work.signals.iter().any(|&(of, to)| of == fence && value <= to);
            let awaited = || waits.iter().any(|wait| self.fences.work.get(wait).is_some_and(signals));
            let done = self.fences.monitored.has_reached((fence, value)) || awaited();
            self.findings.check(done, Invariant::I06, || {
                let Dispatch { device, submission, .. } = dispatch;
                format!(
                    "submission {submission} of {device} is dispatched without waiting for {fence} to reach {value}"
                )
            });
        }
    }

    /// All that was asked for before the submission is granted, and done when it runs.
    fn check_requests(&mut self, dispatch: Dispatch) {
        let Dispatch { device: id, submission, .. } = dispatch;
        let Some(device) = self.devices.get(&id) else { return };
        let mut needed = Vec::new();
        for request in device.requests.iter().filter(|request| request.after_submission < submission) {
            match &request.granted {
                Some(plans) => needed.extend(plans),
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
            self.check_gate(dispatch, plan);
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
        let entry = allocation.lists.get(&dispatch.device);
        let Some(&span) = entry.and_then(|entry| entry.span(number)) else { return false };
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
            self.check_gate(dispatch, plan);
            return self.check_seen(dispatch, id, plan);
        }
        let Dispatch { device, submission, .. } = dispatch;
        let message = format!("submission {submission} of {device} is dispatched, but {id} has no place");
        self.findings.report(Invariant::I06, message);
    }

    /// The host has mapped by now what the work needs of an allocation that is in place since `plan`.
    fn check_seen(&mut self, dispatch: Dispatch, id: AllocationId, plan: PlanNo) {
        if !self.sees_operations() {
            return;
        }
        let unseen = self.unseen_mapping(dispatch, id, plan).map(|mapping| mapping.virtual_address);
        self.findings.check(unseen.is_none(), Invariant::I06, || {
            let Dispatch { device, submission, .. } = dispatch;
            let address = unseen.unwrap_or_default();
            format!("submission {submission} of {device} is dispatched, but {id} is not mapped at {address:#x}")
        });
    }

    /// Work that requires `plan` is let go: the plan is built to its end, and the work waits for its last packet.
    pub(super) fn check_gate(&mut self, dispatch: Dispatch, number: PlanNo) {
        if self.plans.is_retired(number) {
            return;
        }
        let built = self.plans.get(number).and_then(|plan| plan.built);
        self.findings.check(built.is_some_and(|fence_id| fence_id <= dispatch.covered), Invariant::I06, || {
            let Dispatch { device, submission, covered } = dispatch;
            let state = built.map_or("is not built to its end".to_owned(), |packet| format!("needs packet {packet}"));
            format!(
                "submission {submission} of {device} is dispatched when packet {covered} of the paging engine is done, but \
                 it requires plan {number}, which {state}"
            )
        });
    }
}
