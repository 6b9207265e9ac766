//! Events retire: what engines report. They call no driver; what follows is done by the next `poll`.

use crate::{
    allocation::AllocationState,
    contract::{DmaBuffer, EngineFence, Host, Kmd},
    error::{DeviceErrorReason, DeviceInError, Violation},
    event::Event,
    paging::Retire,
    state::{DeferredAction, Output, VidMm},
    units::{GpuVirtualAddress, PhysicalAddress, SegmentId},
};

impl VidMm {
    /// An engine has ended the packet that signals `signal`; its buffer comes back.
    ///
    /// A fence that is not the engine's next is a violation: the adapter is in error, nothing else changes (P47).
    #[doc(alias = "DXGK_INTERRUPT_DMA_COMPLETED")]
    pub fn handle_completed(&mut self, signal: EngineFence, buffer: DmaBuffer) {
        if self.retire_packet(signal, buffer) {
            self.events.record(|| Event::Completed { signal });
            self.retire_user_packet(signal, None);
        }
    }

    /// A packet accessed an address where nothing is resident; its engine has aborted it and was reset (FLT-03).
    ///
    /// The device that submitted it is in error. A fault of a paging buffer is nobody's but the driver's: then the adapter
    /// is (U-43).
    #[doc(alias = "DXGK_INTERRUPT_DMA_PAGE_FAULTED")]
    pub fn handle_page_fault(
        &mut self,
        signal: EngineFence,
        virtual_address: GpuVirtualAddress,
        write: bool,
        buffer: DmaBuffer,
    ) {
        if !self.retire_packet(signal, buffer) {
            return;
        }
        let packet = self.engines[signal.engine as usize].in_flight.front();
        let device = packet.map(|packet| self.contexts[packet.context as usize].device);
        let allocation = device.and_then(|device| {
            let space = &self.processes[self.devices[device as usize].process as usize].space;
            space.lookup(virtual_address.0).map(|(index, _)| self.allocation_id(index))
        });
        self.events.record(|| Event::PageFault { signal, virtual_address, write, allocation });
        let reason = DeviceErrorReason::PageFault { virtual_address };
        self.abort(signal, reason, Violation::FaultInPagingBuffer { virtual_address });
    }

    /// A packet holds a command that means nothing; its engine has aborted it and was reset. Who is in error is as with
    /// [`handle_page_fault`](Self::handle_page_fault).
    #[doc(alias = "DXGK_INTERRUPT_DMA_FAULTED")]
    pub fn handle_illegal_command(&mut self, signal: EngineFence, buffer: DmaBuffer) {
        if self.retire_packet(signal, buffer) {
            self.events.record(|| Event::IllegalCommand { signal });
            self.abort(signal, DeviceErrorReason::IllegalCommand, Violation::IllegalCommandInPagingBuffer);
        }
    }

    /// Puts in error who is to blame for an aborted packet.
    fn abort(&mut self, signal: EngineFence, reason: DeviceErrorReason, violation: Violation) {
        if signal.engine == self.adapter.paging_engine {
            return self.fail(violation);
        }
        self.retire_user_packet(signal, Some(reason));
    }

    /// Takes note that the engine's next packet has ended; `false` if it is not the next.
    fn retire_packet(&mut self, signal: EngineFence, buffer: DmaBuffer) -> bool {
        let next = self.engines.get(signal.engine as usize).filter(|engine| engine.retired < engine.submitted);
        let expected = next.map_or(0, |engine| engine.retired + 1);
        if signal.fence_id != expected || expected == 0 {
            self.fail(Violation::FenceOrder { found: signal, expected });
            return false;
        }
        self.engines[signal.engine as usize].retired = signal.fence_id;
        if signal.engine == self.adapter.paging_engine {
            self.take_back(buffer);
        }
        self.stirred = true;
        true
    }

    /// Takes a paging buffer back into the pool. One that is not of the pool is not let in, and its place is free.
    fn take_back(&mut self, buffer: DmaBuffer) {
        let (size, private) = (self.adapter.paging_buffer_size, self.adapter.paging_private_size);
        match buffer {
            DmaBuffer::Paging(mut buffer) if buffer.has_sizes(size, private) => {
                buffer.reset();
                self.builder.pool.push(buffer);
            }
            _ => self.builder.buffers -= 1,
        }
    }

    /// Retires the submission of a user's packet and signals its fences; with an error, its device's other work is dropped.
    fn retire_user_packet(&mut self, signal: EngineFence, error: Option<DeviceErrorReason>) {
        if signal.engine == self.adapter.paging_engine {
            return;
        }
        let packet = self.engines[signal.engine as usize].in_flight.pop_front();
        let packet = packet.expect("a user's packet is under way");
        let context = &mut self.contexts[packet.context as usize];
        context.in_flight -= 1;
        let device_index = context.device;
        let device = &mut self.devices[device_index as usize];
        device.unretired.remove(&packet.submission);
        device.turn.last_busy = self.now;
        self.settle_list(device_index as usize);
        for named in &packet.signals {
            let fence = &mut self.monitored_fences[named.fence.index()];
            fence.references -= 1;
            fence.dispatched.retain(|&(_, by)| by != signal);
            let value = if error.is_some() { u64::MAX } else { named.value };
            self.raise_fence(named.fence, value);
        }
        if let Some(reason) = error {
            self.put_device_in_error(device_index, reason);
        }
    }

    /// No more work of the device is accepted or dispatched; what waits for its fences waits no longer (FLT-04, FLT-33).
    pub(crate) fn put_device_in_error(&mut self, index: u32, reason: DeviceErrorReason) {
        if self.devices[index as usize].error.is_some() {
            return;
        }
        self.devices[index as usize].error = Some(reason);
        let device = self.device_id(index);
        self.events.record(|| Event::DeviceInError { device, reason });
        self.outputs.push_back(Output::DeviceInError(DeviceInError { device, reason }));
        let of_device = |context: &&u32| self.contexts[**context as usize].device == index;
        for context in alloc::vec::Vec::from_iter(self.queued.iter().filter(of_device).copied()) {
            self.queued.remove(&context);
            for dropped in core::mem::take(&mut self.contexts[context as usize].queue) {
                let device = &mut self.devices[index as usize];
                device.undispatched.remove(&dropped.number);
                device.unretired.remove(&dropped.number);
                for wait in &dropped.desc.waits {
                    self.monitored_fences[wait.fence.index()].references -= 1;
                }
                for named in &dropped.desc.signals {
                    self.monitored_fences[named.fence.index()].references -= 1;
                    self.raise_fence(named.fence, u64::MAX);
                }
            }
        }
        self.lapse_dispatched(index);
        self.settle_list(index as usize);
    }

    /// Retires plans whose last operation has completed.
    pub(crate) fn retire_plans(&mut self, host: &mut dyn Host) {
        let completed = self.paging_engine().retired;
        while let Some((number, plan)) = self.stream.retire_next(completed) {
            self.stirred = true;
            // All paging operations that were under way for these ranges have ended with it (NTF-04).
            for range in plan.io_mmu_unmap {
                self.unmap_io_mmu(host, number, range);
            }
            self.events.record(|| Event::PlanRetired { plan: number });
            for rotation in &plan.rotate {
                self.reveal(host, number, rotation);
            }
            for retire in plan.retire {
                match retire {
                    Retire::Allocation(index) => self.dead.push(index),
                    Retire::Opening { allocation, device } => self.closed.push((allocation, device)),
                    Retire::Discard(index) => self.settle_discard(host, index),
                    Retire::Mapping { process, virtual_address } => {
                        self.processes[process as usize].space.unmap(virtual_address);
                        let process = self.processes.id(process as usize);
                        let virtual_address = GpuVirtualAddress(virtual_address);
                        self.events.record(|| Event::GpuVirtualAddressReclaimed { process, virtual_address });
                    }
                }
            }
        }
    }

    /// Tells the driver and the host of allocations that are gone.
    pub(crate) fn reap(&mut self, kmd: &mut dyn Kmd, host: &mut dyn Host) {
        for (index, device) in core::mem::take(&mut self.closed) {
            let closed = self.allocations[index as usize].forget_opening(device).expect("an opening ends once");
            self.devices[device as usize].allocations -= 1;
            if let Some(handle) = closed.handle {
                kmd.close_allocation(handle);
            }
            let books = &self.allocations[index as usize];
            if books.state.contains(AllocationState::PURGE_DUE) && books.openings().next().is_none() {
                self.defer(books.device as usize, DeferredAction::Purge(index));
            }
        }
        for index in core::mem::take(&mut self.dead) {
            let id = self.allocation_id(index);
            self.end_locks(host, index);
            let gone = self.allocations.remove(index as usize);
            for mapping in gone.mappings() {
                self.processes[mapping.process as usize].space.unmap(mapping.virtual_address);
            }
            if !gone.state.intersects(AllocationState::NOT_COMMITTED | AllocationState::EXISTING_SYS_MEM) {
                let backing_store = PhysicalAddress { segment: SegmentId::SYSTEM, offset: gone.backing_store };
                host.decommit_backing_store(backing_store, gone.size);
            }
            kmd.destroy_allocation(gone.handle);
            self.devices[gone.device as usize].allocations -= 1;
            self.events.record(|| Event::AllocationReclaimed { allocation: id });
            if gone.state.contains(AllocationState::SYNCHRONOUS_DESTROY) {
                self.outputs.push_back(Output::AllocationReclaimed { allocation: id });
            }
        }
    }
}
