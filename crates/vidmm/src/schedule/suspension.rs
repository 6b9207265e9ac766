use alloc::vec::Vec;

use crate::{
    event::{Event, SuspendReason},
    id::{ContextIx, DeviceIx, ProcessIx},
    objects::{Objects, context::Queued, list::ListEntry, submission::Submission},
    schedule::{Schedule, stopping, waiting::Power},
    state::State,
    work::Work,
};

impl Schedule {
    /// No device of a process gets a turn until [`end_suspension`](Self::end_suspension).
    pub(crate) fn suspend_process(&self, state: &mut State, index: ProcessIx, allow_wake_on_submission: bool) {
        state.objects[index].standing.halted = Some(allow_wake_on_submission);
        let process = state.objects.processes.id(index);
        state.moment.record(|| Event::ProcessSuspended { process, allow_wake_on_submission });
        for device in Vec::from_iter(state.objects[index].devices.iter().copied()) {
            self.halt(state, device);
        }
        self.renew_demand(state, index);
    }

    /// Ends the suspension of a process, if it is suspended.
    pub(crate) fn end_suspension(&self, state: &mut State, index: ProcessIx, by_submission: bool) {
        if state.objects[index].standing.halted.take().is_none() {
            return;
        }
        let process = state.objects.processes.id(index);
        state.moment.record(|| Event::ProcessResumed { process, by_submission });
        self.renew_demand(state, index);
        for device in Vec::from_iter(state.objects[index].devices.iter().copied()) {
            self.let_run(&mut state.objects, device);
        }
    }

    /// A process suspended by a call or without power demands the reservation only, any other process the lists (D30).
    pub(crate) fn renew_demand(&self, state: &mut State, process: ProcessIx) {
        let is_halted = state.objects[process].standing.halted.is_some() || self.turns.power == Power::Down;
        if state.shares.set_halted(process, is_halted) {
            // Budgets of further processes follow, and listeners are told (RES-53).
            state.moment.request_poll();
        }
    }

    /// No turn of the device comes until [`let_run`](Self::let_run).
    pub(crate) fn halt(&self, state: &mut State, device: DeviceIx) {
        let reason = match self.turns.power {
            Power::Up => SuspendReason::ProcessSuspended,
            Power::GoingDown | Power::Down => SuspendReason::PowerDown,
        };
        state.objects[device].turn.is_halted = true;
        stopping::stop(state, device, reason, None, true);
        if state.objects[device].is_suspended() {
            evict_suspended(state, device);
        }
    }

    /// The device may have turns, if nothing else stands against it.
    pub(crate) fn let_run(&self, objects: &mut Objects, device: DeviceIx) {
        let record = &mut objects.devices[device];
        let process_runs = objects.processes[record.process].standing.halted.is_none();
        record.turn.is_halted = !process_runs || self.turns.power != Power::Up;
    }
}

/// The allocations that a suspended device pinned are evicted soon.
fn evict_suspended(state: &mut State, device: DeviceIx) {
    for id in state.objects[device].to_bring_back.clone() {
        if let Ok(index) = state.objects.allocations.lookup(id)
            && state.objects[index].entry(device).is_some_and(ListEntry::is_to_restore)
        {
            state.objects[index].set_hastened(true);
            state.residency.unpin(&mut state.moment, &mut state.objects, &mut state.memory, index);
        }
    }
}

impl Schedule {
    /// Queues work of a context.
    #[inline(always)]
    pub(crate) fn queue(&mut self, state: &mut State, work: &mut Work, context: ContextIx, submission: Submission) {
        for named in submission.desc.fences() {
            state.objects[named.fence.ix()].references += 1;
        }
        self.note_work(state, state.objects[context].device);
        work.queued.insert(Queued::new(state.objects[context].priority, context));
        state.objects[context].queue.push_back(submission);
    }

    /// A device has submitted work: its period begins, and it ends a suspension that allows it (P10).
    fn note_work(&mut self, state: &mut State, device: DeviceIx) {
        state.objects[device].turn.note_busy(state.moment.now());
        self.begin_period(state, device);
        let process = state.objects[device].process;
        if state.objects[process].standing.halted == Some(true) {
            self.end_suspension(state, process, true);
        }
    }
}
