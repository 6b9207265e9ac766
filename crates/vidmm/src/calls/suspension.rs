//! Suspension of a process by a call, as the test hooks of WDDM do (P10, 10.5).

use crate::{
    id::{InvalidHandle, ProcessId},
    manager::VidMm,
};

/// # Suspension of processes
impl VidMm {
    /// Suspends a process: none of its devices runs from now on. When nothing of them is in flight any more, the
    /// allocations on their lists are evicted. Calls and submissions are accepted and wait (RES-74).
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    #[doc(alias = "D3DKMT_VIDMMESCAPETYPE_SUSPEND_PROCESS")]
    pub fn suspend_process(&mut self, process: ProcessId, allow_wake_on_submission: bool) -> Result<(), InvalidHandle> {
        let index = self.state.objects.processes.lookup(process)?;
        self.schedule.suspend_process(&mut self.state, index, allow_wake_on_submission);
        Ok(())
    }

    /// Ends the suspension: the lists of the process's devices are brought back when their turn comes.
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    #[doc(alias = "D3DKMT_VIDMMESCAPETYPE_RESUME_PROCESS")]
    pub fn resume_process(&mut self, process: ProcessId) -> Result<(), InvalidHandle> {
        let index = self.state.objects.processes.lookup(process)?;
        self.schedule.end_suspension(&mut self.state, index, false);
        Ok(())
    }
}
