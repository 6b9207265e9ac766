//! Suspension of a process by a call, as the test hooks of WDDM do (P10, 10.5).

use alloc::vec::Vec;

use crate::{
    allocation::AllocationState,
    event::{Event, SuspendReason},
    id::{DeviceIx, InvalidHandle, ProcessId, ProcessIx},
    state::VidMm,
    turn::Power,
};

impl VidMm {
    /// None of the process's devices runs from now on; when nothing of them is in flight any more, what their lists name is
    /// evicted. Calls and submissions are accepted and wait (RES-74).
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    #[doc(alias = "D3DKMT_VIDMMESCAPETYPE_SUSPEND_PROCESS")]
    pub fn suspend_process(&mut self, process: ProcessId, allow_wake_on_submission: bool) -> Result<(), InvalidHandle> {
        let index = self.processes.lookup(process)?;
        self.processes[index].standing.halted = Some(allow_wake_on_submission);
        self.events.record(|| Event::ProcessSuspended { process, allow_wake_on_submission });
        for device in Vec::from_iter(self.processes[index].devices.iter().copied()) {
            self.halt(device);
        }
        Ok(())
    }

    /// Ends the suspension: the lists of the process's devices are brought back when their turn comes.
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    #[doc(alias = "D3DKMT_VIDMMESCAPETYPE_RESUME_PROCESS")]
    pub fn resume_process(&mut self, process: ProcessId) -> Result<(), InvalidHandle> {
        let index = self.processes.lookup(process)?;
        self.end_suspension(index, false);
        Ok(())
    }

    /// Ends the suspension of a process, if it is suspended.
    pub(super) fn end_suspension(&mut self, index: ProcessIx, by_submission: bool) {
        if self.processes[index].standing.halted.take().is_none() {
            return;
        }
        let process = self.processes.id(index);
        self.events.record(|| Event::ProcessResumed { process, by_submission });
        for device in Vec::from_iter(self.processes[index].devices.iter().copied()) {
            self.let_run(device);
        }
    }

    /// No turn of the device comes until [`let_run`](Self::let_run).
    pub(super) fn halt(&mut self, device: DeviceIx) {
        let reason = match self.turns.power {
            Power::Up => SuspendReason::ProcessSuspended,
            Power::GoingDown | Power::Down => SuspendReason::PowerDown,
        };
        self.devices[device].turn.is_halted = true;
        self.stop(device, reason, None, true);
        if self.devices[device].is_suspended() {
            self.evict_suspended(device);
        }
    }

    /// The device may have turns, if nothing else stands against it.
    pub(crate) fn let_run(&mut self, device: DeviceIx) {
        let books = &mut self.devices[device];
        let process_runs = self.processes[books.process].standing.halted.is_none();
        books.turn.is_halted = !process_runs || self.turns.power != Power::Up;
        self.stirred = true;
    }

    /// What a suspended device held is evicted soon.
    fn evict_suspended(&mut self, device: DeviceIx) {
        for id in self.devices[device].to_bring_back.clone() {
            if let Ok(index) = self.allocations.lookup(id)
                && self.allocations[index].state.contains(AllocationState::SUSPENDED)
            {
                self.allocations[index].state |= AllocationState::EVICT_SOON;
                self.let_go(index);
            }
        }
    }
}
