//! Changes of a process as time passes: its priority, its visibility, its end. And the answers that it gave in time.

use vidmm::{EvictFlags, Nanoseconds, PriorityBand, Visibility};
use vidmm_runtime::Runtime;

use super::{
    Client,
    error::{ClientError, refused},
    list::EachKernel,
    process::Answer,
};

impl Client<'_> {
    /// The arrival of a kernel. Kernels that arrive together in the workload do so here.
    pub(super) fn arrival(&self, process: usize, kernel: usize) -> Nanoseconds {
        let process = &self.processes[process];
        let arrival = self.workload.kernels[kernel].not_before_ns;
        let before = process.submitted.checked_sub(1).map(|before| process.kernels[before] as usize);
        match (before, process.arrivals.last()) {
            (Some(before), Some(&arrived)) if self.workload.kernels[before].not_before_ns == arrival => arrived,
            _ => arrival + process.delay,
        }
    }

    /// Records the end of a submission. The last one of those that arrived together completes an answer.
    pub fn kernel_ended(&mut self, process: usize, submission: u64, ended_at: Nanoseconds) {
        let process = &mut self.processes[process];
        let Some(at) = process.running.remove(&submission) else { return };
        process.numbers.remove(&at);
        let kernel = &self.workload.kernels[process.kernels[at] as usize];
        let next = process.kernels.get(at + 1).map(|&next| &self.workload.kernels[next as usize]);
        let is_last = next.is_none_or(|next| next.not_before_ns != kernel.not_before_ns);
        if is_last && !kernel.is_upload() && !process.has_exited {
            process.answers.push(Answer { arrived_at: process.arrivals[at], ended_at });
        }
    }

    /// The answers of a process so far.
    pub fn answers(&self, process: usize) -> &[Answer] {
        &self.processes[process].answers
    }

    /// The number of the process of that name.
    pub fn process_named(&self, name: &str) -> Option<usize> {
        self.processes.iter().position(|process| process.desc.name == name)
    }

    /// Whether a process has begun and not ended.
    pub fn is_alive(&self, process: usize) -> bool {
        self.processes[process].started && !self.processes[process].has_exited
    }

    /// Changes the priority and visibility of a process. One that is paced by its display stands still while it is
    /// minimised.
    pub fn set_priority(
        &mut self,
        runtime: &mut Runtime,
        process: usize,
        band: Option<PriorityBand>,
        visibility: Option<Visibility>,
    ) {
        let process = &mut self.processes[process];
        process.desc.band = band.unwrap_or(process.desc.band);
        process.desc.visibility = visibility.unwrap_or(process.desc.visibility);
        let (band, visibility) = (process.desc.band, process.desc.visibility);
        let set = runtime.vidmm().set_process_priority(process.id, band, visibility);
        set.expect("processes live as long as the run");
        if process.desc.paced && visibility == Visibility::Minimized {
            process.paused_at.get_or_insert(runtime.now());
        } else if let Some(since) = process.paused_at.take() {
            process.delay += runtime.now() - since;
        }
    }

    /// An application that goes idle takes everything off its list.
    ///
    /// # Errors
    ///
    /// If the manager refuses.
    pub fn trim_all(&mut self, runtime: &mut Runtime, process: usize) -> Result<(), ClientError> {
        let process = &mut self.processes[process];
        let trimmed = process.with_list(runtime, |keeper, list| keeper.trim_all(list));
        trimmed.map_err(|error| refused(process.submitted, "Evict", error))
    }

    /// Ends a process: nothing more of it is submitted, and all its objects are destroyed.
    pub fn exit(&mut self, runtime: &mut Runtime, process: usize) {
        if self.processes[process].has_exited {
            return;
        }
        self.destroy_buffers(runtime, process);
        let process = &mut self.processes[process];
        process.goes_on(runtime.now());
        process.kernels.truncate(process.submitted);
        // The list went with the device.
        process.list = Box::new(EachKernel { flags: EvictFlags::empty() });
        (process.started, process.has_exited) = (true, true);
    }

    /// Ends all remaining processes.
    pub fn exit_all(&mut self, runtime: &mut Runtime) {
        (0..self.processes.len()).for_each(|process| self.exit(runtime, process));
    }
}
