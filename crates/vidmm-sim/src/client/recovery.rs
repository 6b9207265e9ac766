//! Processes whose device is in error create another, load content again, and go on. Some bring the error about
//! themselves.

use vidmm::{CreateError, DeviceErrorReason, DeviceId, GpuVirtualAddress, Nanoseconds, SubmitDesc};
use vidmm_runtime::{KernelCommand, PageRange, Runtime};

use super::{
    Client, MoreKernel,
    desc::Misdeed,
    error::{ClientError, refused},
    process::slot,
};

/// An address where no process maps anything.
const NOWHERE: GpuVirtualAddress = GpuVirtualAddress(0x1000);

impl Client<'_> {
    /// The process of a device.
    pub fn process_with(&self, device: DeviceId) -> Option<usize> {
        self.processes.iter().position(|process| process.device == device)
    }

    /// Whether a process goes on after an error. If the process caused it, that must be its habit, or be brought about
    /// from outside.
    pub fn survives(&self, process: usize, reason: DeviceErrorReason, is_brought_about: bool) -> bool {
        let process = &self.processes[process];
        let is_its_own = matches!(
            reason,
            DeviceErrorReason::PageFault { .. }
                | DeviceErrorReason::IllegalCommand
                | DeviceErrorReason::EngineTimeout
                | DeviceErrorReason::ProcessBlocked
        );
        let recovers = process.desc.recovers && (is_brought_about || !is_its_own);
        recovers || process.desc.misbehaviour.is_some() || process.has_exited
    }

    /// Replaces the device of a process by a new one. The process goes on with the first kernel that has not ended, and
    /// loads again the content that it needs. A process that gets no other device has ended.
    ///
    /// # Errors
    ///
    /// If the manager refuses the device, except for a process that is blocked.
    pub fn recover(&mut self, runtime: &mut Runtime, process: usize) -> Result<(), ClientError> {
        if self.processes[process].has_exited {
            return Ok(());
        }
        self.give_up_device(runtime, process);
        let now = runtime.now();
        let process = &mut self.processes[process];
        process.goes_on(now);
        process.waits_for = 0;
        match process.replace_device(runtime) {
            Ok(()) => {
                let every = process.desc.misbehaviour.map(|misbehaviour| misbehaviour.every);
                process.next_misdeed = process.next_misdeed.or(every.map(|every| now + every));
                Ok(())
            }
            Err(CreateError::ProcessBlocked) => {
                process.kernels.truncate(process.submitted);
                (process.started, process.has_exited) = (true, true);
                Ok(())
            }
            Err(error) => Err(refused(process.submitted, "CreateDevice", error)),
        }
    }

    /// Forgets all objects of a device, and all work that was under way.
    fn give_up_device(&mut self, runtime: &mut Runtime, index: usize) {
        let process = &mut self.processes[index];
        let (first, last) = (process.completed() as usize, process.submitted);
        let again: Vec<u32> = process.kernels[first..last].to_vec();
        self.void.extend(std::mem::take(&mut process.numbers).into_values());
        process.renumbered = process.renumbered.max(last);
        (process.submitted, process.ended) = (first, first);
        process.under_way.clear();
        process.running.clear();
        process.arrivals.truncate(first);
        let needed = again.iter().flat_map(|&kernel| self.workload.kernels[kernel as usize].buffers());
        let needed: Vec<u32> = needed.collect();
        let owned = self.owners.iter().zip(0..).filter(|(owner, _)| **owner as usize == index);
        let living = owned.map(|(_, buffer)| buffer).filter(|&buffer: &u32| !self.buffers[buffer as usize].is_dead);
        let living: Vec<u32> = living.collect();
        self.destroy_buffers(runtime, index);
        for buffer in living.into_iter().chain(needed) {
            let state = &mut self.buffers[buffer as usize];
            state.is_lost |= state.was_used;
            (state.allocation, state.mapping) = (None, None);
            state.last_access = [0; 2];
            (state.was_used, state.copy_is_judged, state.is_dead) = (false, false, false);
        }
    }

    /// Loads again the lost content that a kernel reads.
    pub(super) fn load_again(
        &mut self,
        runtime: &mut Runtime,
        process: usize,
        kernel: usize,
    ) -> Result<(), ClientError> {
        let (work, buffers) = (&self.workload.kernels[kernel], &mut self.buffers);
        let engine = slot(work.engine);
        let lost = work.reads.iter().filter(|&&buffer| std::mem::take(&mut buffers[buffer as usize].is_lost));
        let lost = Vec::from_iter(lost.copied());
        // A buffer that the kernel only writes is written whole.
        work.writes.iter().for_each(|&buffer| buffers[buffer as usize].is_lost = false);
        for buffer in lost {
            let number = self.add_kernel(MoreKernel { process, reads: Vec::new(), writes: vec![buffer] });
            let command = KernelCommand {
                kernel: number as u64,
                nanoseconds: self.upload_ns(&[buffer]),
                content: self.options.content,
                inputs: Vec::new(),
                outputs: vec![self.buffers[buffer as usize].mapping.expect("it was provided")],
            };
            self.submit_beside(runtime, process, engine, &command, &[buffer])?;
        }
        Ok(())
    }

    /// Lets a process make its mistake if it is time. Returns the time of the next one.
    pub(super) fn misbehave(
        &mut self,
        runtime: &mut Runtime,
        index: usize,
    ) -> Result<Option<Nanoseconds>, ClientError> {
        let process = &self.processes[index];
        let (Some(misbehaviour), Some(next)) = (process.desc.misbehaviour, process.next_misdeed) else {
            return Ok(None);
        };
        if process.is_done() {
            return Ok(None);
        }
        if next > runtime.now() {
            return Ok(Some(next));
        }
        self.processes[index].next_misdeed = None;
        let number = self.add_kernel(MoreKernel { process: index, reads: Vec::new(), writes: Vec::new() });
        self.void.insert(number);
        let (nanoseconds, inputs) = match misbehaviour.misdeed {
            Misdeed::PageFault => (1000, vec![PageRange::plain(NOWHERE, 1)]),
            Misdeed::Hang => (u64::MAX, Vec::new()),
        };
        let content = self.options.content;
        let command = KernelCommand { kernel: number as u64, nanoseconds, content, inputs, outputs: Vec::new() };
        self.submit_beside(runtime, index, 0, &command, &[])?;
        Ok(None)
    }

    /// Submits a kernel that the workload does not have, which writes these buffers. It signals nothing when it ends.
    fn submit_beside(
        &mut self,
        runtime: &mut Runtime,
        process: usize,
        engine: usize,
        command: &KernelCommand,
        written: &[u32],
    ) -> Result<(), ClientError> {
        let dma_buffer = runtime.umd().encode_kernel(command);
        let context = self.processes[process].engines[engine].context;
        let submitted = runtime.vidmm().submit(context, SubmitDesc { dma_buffer, ..SubmitDesc::default() });
        let submission = submitted.map_err(|error| refused(self.processes[process].submitted, "submit", error))?;
        self.declare(process, submission, command.kernel as usize, written);
        Ok(())
    }

    /// The number of the next kernel of a process. A kernel that runs again has a number of its own, so that it is not
    /// taken for its first run.
    pub(super) fn number(&mut self, process: usize, kernel: usize) -> usize {
        if self.processes[process].submitted >= self.processes[process].renumbered {
            return kernel;
        }
        let work = &self.workload.kernels[kernel];
        let more = MoreKernel { process, reads: work.reads.clone(), writes: work.writes.clone() };
        self.add_kernel(more)
    }

    fn add_kernel(&mut self, kernel: MoreKernel) -> usize {
        self.more_kernels.push(kernel);
        self.workload.kernels.len() + self.more_kernels.len() - 1
    }

    /// The kernels that the workload does not have, whose numbers follow its own.
    pub fn more_kernels(&self) -> &[MoreKernel] {
        &self.more_kernels
    }

    /// Whether the results of a kernel do not count, because its device is in error.
    pub fn is_void(&self, kernel: usize) -> bool {
        self.void.contains(&kernel)
    }
}
