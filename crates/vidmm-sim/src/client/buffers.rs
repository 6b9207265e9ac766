//! The buffers of a workload: created and mapped at their first use, and given up behind their last.

use vidmm::{
    AllocationId, DestroyFlags, MapError, MapGpuVirtualAddress, OfferFlags, OfferPriority, PAGE_SIZE, ReclaimError,
};
use vidmm_runtime::{PageRange, Runtime};
use vidmm_trace::Lifetime;

use super::Client;
use super::desc::Lifetimes;
use super::error::{ClientError, NEVER_ENDS, not_created, polled, refused};
use super::process::Spare;
use crate::system_copies::SystemCopies;

impl Client<'_> {
    /// The buffer that a process has mapped at an address, and which page of it is there.
    pub fn mapping_at(&self, process: usize, virtual_address: u64) -> Option<(u32, u64)> {
        let at = |buffer: u32| {
            let PageRange { virtual_address: start, num_pages, .. } = self.buffers[buffer as usize].mapping?;
            let page = virtual_address.checked_sub(start.0)? / PAGE_SIZE;
            (page < num_pages).then_some((buffer, page))
        };
        let mut owned =
            (0..self.buffers.len() as u32).filter(|&buffer| self.owners[buffer as usize] as usize == process);
        let living = owned.clone().filter(|&buffer| !self.buffers[buffer as usize].is_dead).find_map(at);
        living.or_else(|| owned.find_map(at))
    }

    /// The allocation that holds a buffer at present.
    pub fn allocation_of(&self, buffer: u32) -> Option<AllocationId> {
        self.buffers[buffer as usize].allocation
    }

    /// Creates the buffers that a process has from its start on. Returns the bytes to trim if their page tables do not
    /// fit.
    pub(super) fn start(&mut self, runtime: &mut Runtime, process: usize) -> Result<Option<u64>, ClientError> {
        for index in 0..self.processes[process].kernels.len() {
            let kernel = self.processes[process].kernels[index] as usize;
            for buffer in self.workload.kernels[kernel].buffers() {
                let whole = self.workload.buffers[buffer as usize].lifetime == Lifetime::Whole;
                if whole && let Some(num_bytes_to_trim) = self.provide(runtime, process, kernel, buffer)? {
                    return Ok(Some(num_bytes_to_trim));
                }
            }
        }
        self.processes[process].started = true;
        Ok(None)
    }

    /// Makes sure that a buffer exists and is mapped. Returns the bytes to trim if its page tables do not fit at
    /// present.
    pub(super) fn provide(
        &mut self,
        runtime: &mut Runtime,
        process: usize,
        kernel: usize,
        buffer: u32,
    ) -> Result<Option<u64>, ClientError> {
        if self.buffers[buffer as usize].allocation.is_none() && !self.reclaim(runtime, process, kernel, buffer)? {
            self.create(runtime, process, kernel, buffer)?;
        }
        let state = &mut self.buffers[buffer as usize];
        let allocation = state.allocation.expect("it was created");
        if state.mapping.is_some() {
            return Ok(None);
        }
        let owner = &self.processes[process];
        let mapped = polled(runtime, |runtime| {
            let (vidmm, _, host) = runtime.borrow();
            match vidmm.map_gpu_virtual_address(host, owner.queue, &MapGpuVirtualAddress::whole(allocation)) {
                Err(MapError::TooManyPending { .. }) => None,
                mapped => Some(mapped),
            }
        });
        match mapped.ok_or_else(|| refused(kernel, "MapGpuVirtualAddress", NEVER_ENDS))? {
            Ok(mapped) => {
                let num_pages = self.workload.buffers[buffer as usize].bytes.div_ceil(PAGE_SIZE);
                state.mapping = Some(owner.desc.buffers.range(buffer, mapped.virtual_address, num_pages));
                self.created(runtime, process, kernel, buffer)?;
                Ok(None)
            }
            Err(MapError::NoMemory { num_bytes_to_trim, .. }) => Ok(Some(num_bytes_to_trim)),
            Err(error) => Err(refused(kernel, "MapGpuVirtualAddress", error)),
        }
    }

    fn create(&mut self, runtime: &mut Runtime, process: usize, kernel: usize, buffer: u32) -> Result<(), ClientError> {
        let process = &self.processes[process];
        let desc = process.desc.allocation(buffer, self.workload.buffers[buffer as usize].bytes);
        let private_data = runtime.umd().allocation_private_data(&desc);
        let (vidmm, kmd, host) = runtime.borrow();
        let created = vidmm.create_allocation(kmd, host, process.device, &private_data);
        self.buffers[buffer as usize].allocation =
            Some(created.map_err(|error| not_created(kernel, "CreateAllocation2", error))?);
        Ok(())
    }

    /// Reclaims the allocation of the buffer's size that was offered last. Returns whether there was one. Its content
    /// does not matter, because a kernel writes a buffer before any reads it.
    fn reclaim(
        &mut self,
        runtime: &mut Runtime,
        process: usize,
        kernel: usize,
        buffer: u32,
    ) -> Result<bool, ClientError> {
        let process = &mut self.processes[process];
        let spares = process.spares.get_mut(&self.workload.buffers[buffer as usize].bytes);
        let Some(spare) = spares.and_then(Vec::pop) else { return Ok(false) };
        let reclaimed = polled(runtime, |runtime| {
            let (vidmm, _, host) = runtime.borrow();
            match vidmm.reclaim_allocations(host, process.queue, &[spare.allocation]) {
                Err(ReclaimError::TooManyPending { .. }) => None,
                reclaimed => Some(reclaimed),
            }
        });
        let reclaimed = reclaimed.ok_or_else(|| refused(kernel, "ReclaimAllocations2", NEVER_ENDS))?;
        let _ = reclaimed.map_err(|error| refused(kernel, "ReclaimAllocations2", error))?;
        let state = &mut self.buffers[buffer as usize];
        let Spare { allocation, mapping, last_access } = spare;
        (state.allocation, state.mapping, state.last_access) = (Some(allocation), Some(mapping), last_access);
        Ok(true)
    }

    /// Gives up the buffers whose last kernel this was.
    pub(super) fn give_up_dead(
        &mut self,
        runtime: &mut Runtime,
        process: usize,
        kernel: usize,
        named: &[u32],
    ) -> Result<(), ClientError> {
        let lifetimes = self.processes[process].desc.lifetimes;
        for &buffer in named {
            let temporary = self.workload.buffers[buffer as usize].lifetime == Lifetime::Temporary;
            let is_last = self.buffers[buffer as usize].last_use as usize == kernel;
            if temporary && is_last && lifetimes != Lifetimes::Ignore {
                self.give_up(runtime, process, kernel, buffer, lifetimes)?;
            }
        }
        Ok(())
    }

    fn give_up(
        &mut self,
        runtime: &mut Runtime,
        process: usize,
        kernel: usize,
        buffer: u32,
        lifetimes: Lifetimes,
    ) -> Result<(), ClientError> {
        let bytes = self.workload.buffers[buffer as usize].bytes;
        let process = &mut self.processes[process];
        let state = &mut self.buffers[buffer as usize];
        state.is_dead = true;
        let allocation = state.allocation.expect("it was provided");
        let left = process.with_list(runtime, |keeper, list| keeper.leave(list, allocation));
        left.map_err(|error| refused(kernel, "Evict", error))?;
        if lifetimes == Lifetimes::Destroy {
            let (vidmm, _, host) = runtime.borrow();
            let destroyed = vidmm.destroy_allocation(host, allocation, DestroyFlags::empty());
            return destroyed.map_err(|error| refused(kernel, "DestroyAllocation2", error));
        }
        let (priority, flags) = (OfferPriority::Low, OfferFlags::empty());
        let offered = runtime.vidmm().offer_allocations(process.device, &[allocation], priority, flags);
        offered.map_err(|error| refused(kernel, "OfferAllocations", error))?;
        let mapping = state.mapping.expect("it was provided");
        let spare = Spare { allocation, mapping, last_access: state.last_access };
        process.spares.entry(bytes).or_default().push(spare);
        Ok(())
    }

    /// Lets `copies` judge the CPU's view of a buffer, once between two uses.
    pub(super) fn judge_copy(&mut self, runtime: &mut Runtime, copies: &mut SystemCopies<'_>, buffer: u32) {
        let state = &mut self.buffers[buffer as usize];
        let is_to_be_judged = state.was_used && !state.copy_is_judged && !state.is_dead;
        if let Some(allocation) = state.allocation.filter(|_| is_to_be_judged) {
            state.copy_is_judged = copies.judge(runtime, buffer, allocation);
        }
    }

    /// Destroys all buffers of a process.
    pub(super) fn destroy_buffers(&mut self, runtime: &mut Runtime, process: usize) {
        let spares = std::mem::take(&mut self.processes[process].spares).into_values().flatten();
        let spares: Vec<AllocationId> = spares.map(|spare| spare.allocation).collect();
        let owned = self.buffers.iter_mut().zip(&self.owners);
        let living = owned.filter(|(buffer, owner)| **owner as usize == process && !buffer.is_dead);
        let living = living.filter_map(|(buffer, _)| {
            buffer.is_dead = true;
            buffer.allocation
        });
        for allocation in spares.into_iter().chain(living) {
            let (vidmm, _, host) = runtime.borrow();
            let destroyed = vidmm.destroy_allocation(host, allocation, DestroyFlags::empty());
            destroyed.expect("nobody else destroys it");
        }
    }
}
