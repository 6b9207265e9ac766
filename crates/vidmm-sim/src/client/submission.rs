//! One kernel of a process: its buffers are provided, put on the list, and used.

use std::collections::BTreeSet;

use vidmm::{FenceValueDesc, MakeResidentError, MemorySegmentGroup, SubmitDesc, TrimFlags};
use vidmm_runtime::{AllocationSegments, KernelCommand, Runtime};
use vidmm_trace::{Cost, Lifetime};

use super::Client;
use super::error::{ClientError, NEVER_ENDS, polled, refused};
use super::list::{DeviceList, ListError, ListKeeper, Listed, Named};
use super::process::{Process, slot};
use super::state::Attempt;
use crate::{illegal_uses::Declared, system_copies::SystemCopies};

impl Client<'_> {
    /// Submits one kernel, after its buffers exist, are mapped and are on the list.
    pub(super) fn attempt(
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
            // The allocations on the list are in the way of page tables too.
            let trim = TrimFlags::TRIM_TO_BUDGET;
            let trimmed = self.processes[process].with_list(runtime, |keeper, list| keeper.trim(list, trim, num_bytes));
            trimmed.map_err(|error| refused(kernel, "Evict", error))?;
            if let Some(num_bytes_to_trim) = self.provide(runtime, process, kernel, buffer)? {
                return Ok(Attempt::NoMemory { num_bytes_to_trim });
            }
        }
        let named: Vec<Named> = buffers.iter().map(|&buffer| self.named(process, kernel, buffer)).collect();
        match self.with_list(runtime, process, kernel, |keeper, list| keeper.make_resident(list, &named))? {
            Listed::All => {}
            Listed::NoMemory { num_bytes_to_trim } => return Ok(Attempt::NoMemory { num_bytes_to_trim }),
            Listed::WaitsFor(kernel) => return Ok(Attempt::WaitsFor(kernel)),
        }
        self.load_again(runtime, process, kernel)?;
        self.submit_kernel(runtime, process, kernel, &buffers)?;
        let submitted = self.processes[process].with_list(runtime, |keeper, list| keeper.submitted(list, &named));
        submitted.map_err(|error| refused(kernel, "Evict", error))?;
        self.give_up_dead(runtime, process, kernel, &buffers)?;
        self.announce(runtime, process, kernel)?;
        Ok(Attempt::Submitted)
    }

    /// Announces the buffers of the next kernels, as far as these buffers exist.
    fn announce(&self, runtime: &mut Runtime, process: usize, kernel: usize) -> Result<(), ClientError> {
        let Process { desc, kernels, submitted, device, .. } = &self.processes[process];
        if desc.announces == 0 {
            return Ok(());
        }
        let next = kernels[*submitted..].iter().take(desc.announces);
        let buffers = next.flat_map(|&kernel| self.workload.kernels[kernel as usize].buffers());
        let mut seen = BTreeSet::new();
        let existing = buffers.filter_map(|buffer| self.buffers[buffer as usize].allocation);
        let soon = Vec::from_iter(existing.filter(|&allocation| seen.insert(allocation)));
        runtime.vidmm().announce(*device, &soon).map_err(|error| refused(kernel, "announce", error))
    }

    /// A buffer that a kernel names, which was created, in the form for the keeper of the list.
    fn named(&self, process: usize, kernel: usize, buffer: u32) -> Named {
        let desc = &self.workload.buffers[buffer as usize];
        Named {
            allocation: self.buffers[buffer as usize].allocation.expect("a kernel's buffers are provided first"),
            bytes: desc.bytes,
            // Content that was lost is loaded again before the kernel reads it.
            written: self.workload.kernels[kernel].writes.contains(&buffer) || self.buffers[buffer as usize].is_lost,
            group: self.group_of(process, buffer),
            is_temporary: desc.lifetime == Lifetime::Temporary,
        }
    }

    /// The group that a process asks for a buffer in.
    pub fn group_of(&self, process: usize, buffer: u32) -> MemorySegmentGroup {
        match self.processes[process].desc.segments_of(buffer) {
            AllocationSegments::System => MemorySegmentGroup::NonLocal,
            AllocationSegments::Local | AllocationSegments::LocalOrSystem | AllocationSegments::Ordered(_) => {
                MemorySegmentGroup::Local
            }
        }
    }

    /// Tells the keeper of its process's list that a buffer was created.
    pub(super) fn created(
        &mut self,
        runtime: &mut Runtime,
        process: usize,
        kernel: usize,
        buffer: u32,
    ) -> Result<(), ClientError> {
        let named = self.named(process, kernel, buffer);
        self.with_list(runtime, process, kernel, |keeper, list| keeper.created(list, &named))
    }

    /// Lends the list of a process to its keeper, which makes allocations of a kernel resident.
    fn with_list<T>(
        &mut self,
        runtime: &mut Runtime,
        process: usize,
        kernel: usize,
        mut act: impl FnMut(&mut dyn ListKeeper, &mut DeviceList<'_>) -> Result<T, ListError>,
    ) -> Result<T, ClientError> {
        let process = &mut self.processes[process];
        let acted = polled(runtime, |runtime| match process.with_list(runtime, &mut act) {
            Err(ListError::MakeResident(MakeResidentError::TooManyPending { .. })) => None,
            acted => Some(acted),
        });
        let acted = acted.ok_or_else(|| refused(kernel, "MakeResident", NEVER_ENDS))?;
        acted.map_err(|error| match error {
            ListError::NothingLeft { .. } => {
                let more = self.options.more_memory;
                refused(kernel, "MakeResident", format_args!("{error}; give the machine more {more}"))
            }
            error => refused(kernel, "MakeResident", error),
        })
    }

    fn submit_kernel(
        &mut self,
        runtime: &mut Runtime,
        process: usize,
        kernel: usize,
        named: &[u32],
    ) -> Result<(), ClientError> {
        let number = self.number(process, kernel);
        let work = &self.workload.kernels[kernel];
        let own = slot(work.engine);
        let other = 1 - own;
        let range = |&buffer: &u32| self.buffers[buffer as usize].mapping.expect("it was provided");
        let command = KernelCommand {
            kernel: number as u64,
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
        let submission = submitted.map_err(|error| refused(kernel, "submit", error))?;
        own_queue.submitted += 1;
        let value = own_queue.submitted;
        self.declare(process, submission, number, named);
        for &buffer in named {
            let state = &mut self.buffers[buffer as usize];
            state.last_access[own] = value;
            state.was_used = true;
            state.copy_is_judged = false;
        }
        let signal = (own, value);
        let process = &mut self.processes[process];
        process.under_way.push_back(signal);
        process.running.insert(submission, process.submitted);
        process.numbers.insert(process.submitted, number);
        process.submitted += 1;
        Ok(())
    }

    /// Declares, in strict mode, the buffers that a submission uses.
    pub(super) fn declare(&mut self, process: usize, submission: u64, kernel: usize, buffers: &[u32]) {
        if !self.options.strict {
            return;
        }
        let used = |&buffer: &u32| {
            let allocation = self.buffers[buffer as usize].allocation.expect("a kernel's buffers are provided first");
            (allocation, self.workload.buffers[buffer as usize].name)
        };
        let (device, uses) = (self.processes[process].device, buffers.iter().map(used).collect());
        self.declared.push(Declared { process, device, submission, kernel, uses });
    }

    fn nanoseconds(&self, kernel: usize) -> u64 {
        let kernel = &self.workload.kernels[kernel];
        match kernel.cost {
            Cost::Nanoseconds(nanoseconds) => nanoseconds,
            Cost::Upload => self.upload_ns(&kernel.writes),
        }
    }

    /// The time that the upload of buffers takes, in nanoseconds.
    pub(super) fn upload_ns(&self, buffers: &[u32]) -> u64 {
        let bytes = buffers.iter().map(|&buffer| u128::from(self.workload.buffers[buffer as usize].bytes));
        let rate = u128::from(self.options.upload_bytes_per_second.max(1));
        (bytes.sum::<u128>() * 1_000_000_000 / rate) as u64
    }
}
