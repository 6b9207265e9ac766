//! The clients that run a workload: processes that make resident, submit and evict, each in its own way (RES-).

// A file imports only from those above it; the last four from this one.
mod kind;
mod desc;
mod error;
mod list;
mod kept;
mod state;
mod models;
mod process;
mod buffers;
mod submission;
mod changes;
mod recovery;

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use vidmm::contract::EngineKind;
use vidmm::{DeviceId, MonitoredFenceId, Nanoseconds, ProcessId, TrimFlags};
use vidmm_runtime::{Content, Runtime};
use vidmm_trace::Workload;

use self::{
    error::refused,
    process::Process,
    state::{Attempt, BufferState},
};
use crate::{illegal_uses::Declared, system_copies::SystemCopies};

pub use desc::{BufferDesc, ClientDesc, Lifetimes, Misbehaviour, Misdeed, ResidencyPolicy};
pub use error::ClientError;
pub use kind::ClientKind;
pub(crate) use process::Answer;

/// The settings that all processes of a run have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClientOptions {
    pub content: Content,
    /// Bytes a second at which an upload runs.
    pub upload_bytes_per_second: u64,
    /// Whether submissions declare what they use.
    pub strict: bool,
    /// The keys of a scenario that give the buffers more memory, in words.
    pub more_memory: &'static str,
    /// Whether nobody else uses the manager. Then no other process will give memory back.
    pub are_alone: bool,
}

/// All processes of a workload.
pub(crate) struct Client<'a> {
    workload: Cow<'a, Workload>,
    options: ClientOptions,
    processes: Vec<Process>,
    buffers: Vec<BufferState>,
    /// The process of each buffer, by its place in `processes`.
    owners: Vec<u32>,
    /// Kernels that the workload does not have, whose numbers follow its own.
    more_kernels: Vec<MoreKernel>,
    /// Kernels of devices in error, whose results do not count.
    void: BTreeSet<usize>,
    /// The uses of what was submitted since they were taken last, in strict mode.
    declared: Vec<Declared>,
}

/// A kernel that the workload does not have: one that runs again, loads content again, or is a mistake.
#[derive(Clone, Debug)]
pub(crate) struct MoreKernel {
    pub process: usize,
    pub reads: Vec<u32>,
    pub writes: Vec<u32>,
}

impl<'a> Client<'a> {
    /// Creates the processes of `workload`, with a device, a paging queue and a context on each kind of engine. `descs`
    /// has the behaviour of each process, by number; the last behaviour is for all further processes.
    pub fn new(
        runtime: &mut Runtime,
        engines: &[EngineKind],
        workload: Cow<'a, Workload>,
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
        let mut client = Self {
            workload,
            options,
            processes,
            buffers,
            owners,
            more_kernels: Vec::new(),
            void: BTreeSet::new(),
            declared: Vec::new(),
        };
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

    /// The processes, by the manager's handles, with their devices.
    pub fn processes(&self) -> impl Iterator<Item = (ProcessId, DeviceId, &ClientDesc)> {
        self.processes.iter().map(|process| (process.id, process.device, &process.desc))
    }

    /// The name of each process in reports. A process has its number too if another one has that name, or its number
    /// alone.
    pub fn names(&self) -> Vec<String> {
        let mut times: BTreeMap<&String, u32> = BTreeMap::new();
        self.processes.iter().for_each(|process| *times.entry(&process.desc.name).or_default() += 1);
        let name = |process: &Process| match (&process.desc.name, times[&process.desc.name]) {
            (name, _) if name.is_empty() => process.id.to_string(),
            (name, 1) => name.clone(),
            (name, _) => format!("{name} ({})", process.id),
        };
        self.processes.iter().map(name).collect()
    }

    /// The uses of what was submitted since this was asked last, in strict mode.
    pub fn take_declared(&mut self) -> Vec<Declared> {
        std::mem::take(&mut self.declared)
    }

    /// The time that each process waited for memory, in nanoseconds.
    pub fn waited_ns(&self) -> impl Iterator<Item = Nanoseconds> {
        self.processes.iter().map(|process| process.waited_ns)
    }

    /// Records that a fence has reached `value`. Returns its process.
    pub fn fence_signaled(&mut self, fence: MonitoredFenceId, value: u64) -> Option<usize> {
        self.processes.iter_mut().position(|process| process.fence_signaled(fence, value))
    }

    /// Tells a process that its fence has been signalled.
    pub fn fence_reached(&mut self, runtime: &mut Runtime, process: usize) -> Result<(), ClientError> {
        let process = &mut self.processes[process];
        let heard = process.with_list(runtime, |keeper, list| keeper.fence_reached(list));
        heard.map_err(|error| refused(process.ended, "Evict", error))
    }

    /// The process of a kernel.
    pub fn process_of(&self, kernel: usize) -> usize {
        if let Some(more) = kernel.checked_sub(self.workload.kernels.len()) {
            return self.more_kernels[more].process;
        }
        let kernel = &self.workload.kernels[kernel];
        let buffer = kernel.reads.iter().chain(&kernel.writes).next().expect("a kernel uses something");
        self.owners[*buffer as usize] as usize
    }

    /// Checks that no process still waits for memory, which is then too small.
    ///
    /// # Errors
    ///
    /// Returns an error for the first process that waits.
    pub fn check_memory(&self) -> Result<(), ClientError> {
        let waiting = self.processes.iter().find_map(|process| {
            let kernel = *process.kernels.get(process.submitted)? as usize;
            let (_, num_bytes_to_trim) = process.waits?;
            Some(ClientError::DoesNotFit { kernel, num_bytes_to_trim, more: self.options.more_memory })
        });
        waiting.map_or(Ok(()), Err)
    }

    /// Passes a request to trim to the process of a device.
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

    /// Submits the kernels that may be submitted at this time. Returns the time of the next arrival.
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
                match self.processes[index].waits {
                    None => next_arrival = Some(next_arrival.map_or(start, |next| next.min(start))),
                    Some(_) if self.nothing_under_way(runtime) => self.check_memory()?,
                    Some(_) => {}
                }
                continue;
            }
            let misdeed = self.misbehave(runtime, index)?;
            next_arrival = next_arrival.into_iter().chain(misdeed).min();
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
                            let more = self.options.more_memory;
                            return Err(ClientError::DoesNotFit { kernel, num_bytes_to_trim, more });
                        }
                        break;
                    }
                    Attempt::WaitsFor(kernel) => {
                        process.waits_for = kernel;
                        break;
                    }
                }
            }
        }
        Ok(next_arrival)
    }

    /// Lets a process begin, if the time has come and the page tables have room. Returns whether the process has begun.
    fn start_at(&mut self, runtime: &mut Runtime, index: usize, now: Nanoseconds) -> Result<bool, ClientError> {
        let process = &self.processes[index];
        if process.started || process.desc.start > now {
            return Ok(process.started);
        }
        let missing = self.start(runtime, index)?;
        let process = &mut self.processes[index];
        match missing {
            Some(num_bytes_to_trim) => process.waits(now, num_bytes_to_trim),
            None => process.goes_on(now),
        }
        Ok(missing.is_none())
    }

    /// Whether no room will become free by itself.
    fn nothing_under_way(&self, runtime: &mut Runtime) -> bool {
        let vidmm = runtime.vidmm();
        let are_idle = self.processes.iter().all(|process| !process.is_busy());
        self.options.are_alone && are_idle && vidmm.is_idle() && vidmm.next_wake().is_none()
    }

    fn next_kernel(&self, process: usize) -> Option<usize> {
        let process = &self.processes[process];
        let is_full = process.submitted - process.ended > process.desc.ahead;
        if is_full || process.completed() < process.waits_for || process.paused_at.is_some() {
            return None;
        }
        process.kernels.get(process.submitted).map(|&kernel| kernel as usize)
    }

    /// Destroys all remaining objects, so that the end of a run shows whether anything leaks.
    pub fn close(mut self, runtime: &mut Runtime, copies: &mut SystemCopies<'_>) -> Result<(), ClientError> {
        let last = self.workload.kernels.len();
        for buffer in 0..self.buffers.len() {
            self.judge_copy(runtime, copies, buffer as u32);
        }
        for process in 0..self.processes.len() {
            self.destroy_buffers(runtime, process);
        }
        for process in &self.processes {
            process.destroy(runtime).map_err(|error| refused(last, "destroy", error))?;
        }
        while !runtime.vidmm().is_idle() && runtime.advance(None) {}
        match runtime.vidmm().is_idle() {
            true => Ok(()),
            false => Err(refused(last, "destroy", "something of it never ends")),
        }
    }
}
