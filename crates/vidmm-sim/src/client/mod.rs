//! The clients that run a workload: processes that make resident, submit and evict, each in its own way (RES-).

// A file imports only from those above it; `buffers` and `changes` from this one.
mod desc;
mod error;
mod list;
mod kept;
mod process;
mod buffers;
mod changes;

use vidmm::contract::EngineKind;
use vidmm::{DeviceId, FenceValueDesc, MonitoredFenceId, Nanoseconds, ProcessId, SubmitDesc, TrimFlags};
use vidmm_runtime::{Content, KernelCommand, Runtime};
use vidmm_trace::{Cost, Workload};

use self::{
    buffers::BufferState,
    error::refused,
    list::Named,
    process::{Process, slot},
};
use crate::system_copies::SystemCopies;

pub use desc::{BufferDesc, ClientDesc, Lifetimes, ResidencyPolicy};
pub use error::ClientError;
pub(crate) use process::Answer;

/// What all processes of a run have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientOptions {
    pub content: Content,
    /// Bytes a second at which an upload runs.
    pub upload_bytes_per_second: u64,
}

/// All processes of a workload.
pub(crate) struct Client<'a> {
    workload: &'a Workload,
    options: ClientOptions,
    processes: Vec<Process>,
    buffers: Vec<BufferState>,
    /// Whose each buffer is, by its place in `processes`.
    owners: Vec<u32>,
}

/// What became of an attempt to submit.
enum Attempt {
    Submitted,
    /// There is no room at present.
    NoMemory {
        num_bytes_to_trim: u64,
    },
}

impl<'a> Client<'a> {
    /// Creates the processes of `workload`, with a device, a paging queue and a context on each kind of engine. `descs` has
    /// how each behaves, in the order of their numbers; where it is shorter the last is for all that follow.
    pub fn new(
        runtime: &mut Runtime,
        engines: &[EngineKind],
        workload: &'a Workload,
        descs: &[ClientDesc],
        options: ClientOptions,
    ) -> Result<Self, ClientError> {
        let mut buffers = vec![BufferState::default(); workload.buffers.len()];
        for (buffer, (_, last)) in buffers.iter_mut().zip(workload.first_and_last_use()) {
            buffer.last_use = last;
        }
        let numbers = workload.processes();
        let default = ClientDesc::default();
        let mut processes = Vec::with_capacity(numbers.len());
        for at in 0..numbers.len() {
            let desc = descs.get(at).or(descs.last()).unwrap_or(&default);
            processes.push(Process::new(runtime, engines, desc)?);
        }
        let mut owners = vec![0; workload.buffers.len()];
        for (kernel, work) in workload.kernels.iter().enumerate() {
            let process = numbers.binary_search(&work.process).expect("the workload lists its processes");
            processes[process].kernels.push(kernel as u32);
            work.reads.iter().chain(&work.writes).for_each(|&buffer| owners[buffer as usize] = process as u32);
        }
        let mut client = Self { workload, options, processes, buffers, owners };
        for process in 0..client.processes.len() {
            client.start_at(runtime, process, 0)?;
        }
        Ok(client)
    }

    /// Whether all kernels have ended.
    pub fn is_done(&self) -> bool {
        self.processes.iter().all(Process::is_done)
    }

    /// Kernels that have ended.
    pub fn ended(&self) -> usize {
        self.processes.iter().map(|process| process.ended).sum()
    }

    /// The processes, as the manager calls them, with their devices.
    pub fn processes(&self) -> impl Iterator<Item = (ProcessId, DeviceId, &ClientDesc)> {
        self.processes.iter().map(|process| (process.id, process.device, &process.desc))
    }

    /// How long each process waited for memory, in nanoseconds.
    pub fn waited_ns(&self) -> impl Iterator<Item = Nanoseconds> {
        self.processes.iter().map(|process| process.waited_ns)
    }

    /// A fence has reached `value`.
    pub fn fence_signaled(&mut self, fence: MonitoredFenceId, value: u64) {
        for process in &mut self.processes {
            for engine in process.engines.iter_mut().filter(|engine| engine.fence == fence) {
                // A device in error signals the maximum.
                let value = value.min(engine.submitted);
                process.ended += (value - engine.ended) as usize;
                engine.ended = value;
            }
        }
    }

    /// Whether somebody still waits for memory: then it is too small.
    ///
    /// # Errors
    ///
    /// For the first who does.
    pub fn check_memory(&self) -> Result<(), ClientError> {
        let waiting = self.processes.iter().find_map(|process| {
            let kernel = *process.kernels.get(process.submitted)? as usize;
            let (_, num_bytes_to_trim) = process.waits?;
            Some(ClientError::DoesNotFit { kernel, num_bytes_to_trim })
        });
        waiting.map_or(Ok(()), Err)
    }

    /// A device is asked to trim.
    pub fn trim(
        &mut self,
        runtime: &mut Runtime,
        device: DeviceId,
        flags: TrimFlags,
        num_bytes: u64,
    ) -> Result<(), ClientError> {
        for process in self.processes.iter_mut().filter(|process| process.device == device) {
            let trimmed = process.with_list(runtime, |keeper, list| keeper.trim(list, flags, num_bytes));
            trimmed.map_err(|error| refused(process.ended, "Evict", error))?;
        }
        Ok(())
    }

    /// Submits what may be submitted at this time. Returns when the next kernel arrives that is not there yet.
    ///
    /// `copies` is shown each buffer that is about to be used and was evicted.
    pub fn submit(
        &mut self,
        runtime: &mut Runtime,
        copies: &mut SystemCopies<'_>,
    ) -> Result<Option<Nanoseconds>, ClientError> {
        let mut next_arrival: Option<Nanoseconds> = None;
        for index in 0..self.processes.len() {
            let start = self.processes[index].desc.start;
            if self.processes[index].has_exited {
                continue;
            }
            if !self.start_at(runtime, index, runtime.now())? {
                next_arrival = Some(next_arrival.map_or(start, |next| next.min(start)));
                continue;
            }
            while let Some(kernel) = self.next_kernel(index) {
                let arrival = self.arrival(index, kernel);
                if arrival > runtime.now() {
                    next_arrival = Some(next_arrival.map_or(arrival, |next| next.min(arrival)));
                    break;
                }
                let attempt = self.attempt(runtime, copies, index, kernel)?;
                let process = &mut self.processes[index];
                match attempt {
                    Attempt::Submitted => {
                        process.goes_on(runtime.now());
                        process.arrivals.push(arrival);
                        if process.desc.paced {
                            process.delay += runtime.now() - arrival;
                        }
                    }
                    Attempt::NoMemory { num_bytes_to_trim } => {
                        process.waits(runtime.now(), num_bytes_to_trim);
                        if self.nothing_under_way(runtime) {
                            return Err(ClientError::DoesNotFit { kernel, num_bytes_to_trim });
                        }
                        break;
                    }
                }
            }
        }
        Ok(next_arrival)
    }

    /// Lets a process begin, if it is time. Returns whether it has begun.
    fn start_at(&mut self, runtime: &mut Runtime, index: usize, now: Nanoseconds) -> Result<bool, ClientError> {
        let process = &self.processes[index];
        if process.started || process.desc.start > now {
            return Ok(process.started);
        }
        let kernel = process.kernels.first().map_or(0, |&kernel| kernel as usize);
        match self.start(runtime, index)? {
            Some(num_bytes_to_trim) => Err(ClientError::DoesNotFit { kernel, num_bytes_to_trim }),
            None => Ok(true),
        }
    }

    /// Whether nothing will make room by itself.
    fn nothing_under_way(&self, runtime: &mut Runtime) -> bool {
        let vidmm = runtime.vidmm();
        self.processes.iter().all(|process| !process.is_busy()) && vidmm.is_idle() && vidmm.next_wake().is_none()
    }

    fn next_kernel(&self, process: usize) -> Option<usize> {
        let process = &self.processes[process];
        if process.submitted - process.ended > process.desc.ahead || process.paused_at.is_some() {
            return None;
        }
        process.kernels.get(process.submitted).map(|&kernel| kernel as usize)
    }

    /// Submits one kernel: its buffers exist, are mapped and resident.
    fn attempt(
        &mut self,
        runtime: &mut Runtime,
        copies: &mut SystemCopies<'_>,
        process: usize,
        kernel: usize,
    ) -> Result<Attempt, ClientError> {
        let buffers = self.workload.kernels[kernel].buffers();
        buffers.iter().for_each(|&buffer| self.judge_copy(runtime, copies, buffer));
        for &buffer in &buffers {
            let Some(num_bytes) = self.provide(runtime, process, kernel, buffer)? else { continue };
            // What fills the list is in the way of page tables too.
            let trim = TrimFlags::TRIM_TO_BUDGET;
            let trimmed = self.processes[process].with_list(runtime, |keeper, list| keeper.trim(list, trim, num_bytes));
            trimmed.map_err(|error| refused(kernel, "Evict", error))?;
            if let Some(num_bytes_to_trim) = self.provide(runtime, process, kernel, buffer)? {
                return Ok(Attempt::NoMemory { num_bytes_to_trim });
            }
        }
        let named = self.named(kernel, &buffers);
        let made = self.processes[process].with_list(runtime, |keeper, list| keeper.make_resident(list, &named));
        if let Some(num_bytes_to_trim) = made.map_err(|error| refused(kernel, "MakeResident", error))? {
            return Ok(Attempt::NoMemory { num_bytes_to_trim });
        }
        self.submit_kernel(runtime, process, kernel, &buffers)?;
        let submitted = self.processes[process].with_list(runtime, |keeper, list| keeper.submitted(list, &named));
        submitted.map_err(|error| refused(kernel, "Evict", error))?;
        self.give_up_dead(runtime, process, kernel, &buffers)?;
        Ok(Attempt::Submitted)
    }

    /// A kernel's buffers, which are provided, as who keeps the list wants to know them.
    fn named(&self, kernel: usize, buffers: &[u32]) -> Vec<Named> {
        let writes = &self.workload.kernels[kernel].writes;
        let named = |&buffer: &u32| Named {
            allocation: self.buffers[buffer as usize].allocation.expect("a kernel's buffers are provided first"),
            bytes: self.workload.buffers[buffer as usize].bytes,
            written: writes.contains(&buffer),
        };
        buffers.iter().map(named).collect()
    }

    fn submit_kernel(
        &mut self,
        runtime: &mut Runtime,
        process: usize,
        kernel: usize,
        named: &[u32],
    ) -> Result<(), ClientError> {
        let work = &self.workload.kernels[kernel];
        let own = slot(work.engine);
        let other = 1 - own;
        let range = |&buffer: &u32| self.buffers[buffer as usize].mapping.expect("it was provided");
        let command = KernelCommand {
            kernel: kernel as u64,
            nanoseconds: self.nanoseconds(kernel),
            content: self.options.content,
            inputs: work.reads.iter().map(range).collect(),
            outputs: work.writes.iter().map(range).collect(),
        };
        let waited = named.iter().map(|&buffer| self.buffers[buffer as usize].last_access[other]).max();
        let [compute, copy] = &mut self.processes[process].engines;
        let (own_queue, other_queue) = if own == 0 { (compute, &*copy) } else { (copy, &*compute) };
        let waits = waited.filter(|&value| value > other_queue.ended);
        let waits = waits.map(|value| FenceValueDesc { fence: other_queue.fence, value });
        let desc = SubmitDesc {
            dma_buffer: runtime.umd().encode_kernel(&command),
            waits: waits.into_iter().collect(),
            signals: vec![FenceValueDesc { fence: own_queue.fence, value: own_queue.submitted + 1 }],
            ..SubmitDesc::default()
        };
        let submitted = runtime.vidmm().submit(own_queue.context, desc);
        submitted.map_err(|error| refused(kernel, "submit", error))?;
        own_queue.submitted += 1;
        for &buffer in named {
            let state = &mut self.buffers[buffer as usize];
            state.last_access[own] = own_queue.submitted;
            state.was_used = true;
            state.copy_is_judged = false;
        }
        self.processes[process].submitted += 1;
        Ok(())
    }

    fn nanoseconds(&self, kernel: usize) -> u64 {
        let kernel = &self.workload.kernels[kernel];
        match kernel.cost {
            Cost::Nanoseconds(nanoseconds) => nanoseconds,
            Cost::Upload => {
                let bytes =
                    kernel.writes.iter().map(|&buffer| u128::from(self.workload.buffers[buffer as usize].bytes));
                let rate = u128::from(self.options.upload_bytes_per_second.max(1));
                (bytes.sum::<u128>() * 1_000_000_000 / rate) as u64
            }
        }
    }

    /// Destroys all that is left, so that the end of a run shows whether anything leaks.
    pub fn close(mut self, runtime: &mut Runtime, copies: &mut SystemCopies<'_>) -> Result<(), ClientError> {
        let last = self.workload.kernels.len();
        for buffer in 0..self.buffers.len() {
            self.judge_copy(runtime, copies, buffer as u32);
        }
        for process in 0..self.processes.len() {
            self.destroy_buffers(runtime, process);
        }
        while !runtime.vidmm().is_idle() && runtime.advance(None) {}
        for process in &self.processes {
            process.destroy(runtime).map_err(|error| refused(last, "destroy", error))?;
        }
        Ok(())
    }
}
