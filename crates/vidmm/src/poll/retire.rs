//! Events retire: what engines report. They call no driver; what follows is done by the next `poll`.

use crate::{
    allocation::AllocationState,
    contract::{DmaBuffer, EngineFence, Host, Kmd},
    engine::{InFlight, Work},
    error::{DeviceErrorReason, DriverFinding},
    event::Event,
    gpu_va::Mapping,
    id::PlanNo,
    paging::{Plan, Retire},
    planted::PlantedBug,
    recovery::Phase,
    state::{DeferredAction, Output, VidMm},
    units::{GpuVirtualAddress, PhysicalAddress, SegmentId},
};

impl VidMm {
    /// An engine has ended the packet that signals `signal`; its buffer comes back.
    ///
    /// Engines end packets in order: all earlier ones of the engine have ended too, and if that was not reported, an interrupt
    /// was lost. A fence that has ended before, or was never handed out, changes nothing. Each is reported as a
    /// [`DriverFinding`] (SYN-13, P47).
    #[doc(alias = "DXGK_INTERRUPT_DMA_COMPLETED")]
    pub fn handle_completed(&mut self, signal: EngineFence, buffer: DmaBuffer) {
        if !self.hears(signal.engine) {
            return;
        }
        let first = self.engines.get(signal.engine as usize).and_then(|engine| engine.in_flight.front());
        if first.is_none_or(|first| first.fence_id != signal.fence_id) && !self.has_missed_interrupts(signal) {
            return;
        }
        let packet = self.engines[signal.engine as usize].pop_up_to(signal.fence_id).expect("it is under way");
        if matches!(packet.work, Work::Paging) {
            self.take_back(buffer);
        }
        self.ended(signal.engine, packet, None);
    }

    /// An engine reports another packet than its first: whether one that is under way. Then those before it have ended.
    #[inline(never)]
    fn has_missed_interrupts(&mut self, found: EngineFence) -> bool {
        let Some(engine) = self.engines.get(found.engine as usize).filter(|engine| engine.has(found.fence_id)) else {
            let was_submitted =
                self.engines.get(found.engine as usize).is_some_and(|engine| found.fence_id <= engine.submitted);
            self.report(match was_submitted && found.fence_id > 0 {
                true => DriverFinding::CompletedAgain { found },
                false => DriverFinding::CompletedForeign { found },
            });
            return false;
        };
        let expected = engine.in_flight[0].fence_id;
        self.report(DriverFinding::InterruptLost { found, expected });
        self.complete_up_to(found.engine, found.fence_id - 1);
        true
    }

    /// Whether what an engine reports counts: not while it, or the adapter, is being reset (FLT-22).
    pub(super) fn hears(&self, engine: u32) -> bool {
        let is_reset = matches!(self.recovery.phase(engine), Some(Phase::Resetting { .. }));
        self.recovery.is_working() && !is_reset
    }

    /// All packets of an engine up to `fence_id` have ended, although that was not reported: their buffers will not come back.
    pub(super) fn complete_up_to(&mut self, engine: u32, fence_id: u64) {
        while let Some(packet) = self.engines[engine as usize].pop_up_to(fence_id) {
            if matches!(packet.work, Work::Paging) {
                self.builder.buffers -= 1;
            }
            self.ended(engine, packet, None);
        }
    }

    /// A packet has left its engine: it has come to its end, or with an error it has not.
    pub(super) fn ended(&mut self, engine: u32, packet: InFlight, error: Option<DeviceErrorReason>) {
        self.stirred = true;
        let signal = EngineFence { engine, fence_id: packet.fence_id };
        let is_aborted = error.is_some();
        self.events.record(|| if is_aborted { Event::Aborted { signal } } else { Event::Completed { signal } });
        let Work::User { context, submission, signals, .. } = packet.work else { return };
        let context = &mut self.contexts[context];
        context.in_flight -= 1;
        let device_index = context.device;
        let device = &mut self.devices[device_index];
        device.retirements.end(submission);
        device.turn.last_busy = self.now;
        self.settle_list(device_index);
        for named in signals {
            let fence = &mut self.monitored_fences[named.fence.ix()];
            fence.references -= 1;
            fence.dispatched.retain(|&(_, by)| by != signal);
            self.raise_fence(named.fence, if error.is_some() { u64::MAX } else { named.value });
        }
        if let Some(reason) = error {
            self.put_device_in_error(device_index, reason);
        }
    }

    /// Takes a paging buffer back into the pool. One that is not of the pool is not let in, and its place is free.
    pub(super) fn take_back(&mut self, buffer: DmaBuffer) {
        let (size, private) = (self.adapter.paging_buffer_size, self.adapter.paging_private_size);
        match buffer {
            DmaBuffer::Paging(mut buffer) if buffer.has_sizes(size, private) => {
                buffer.reset();
                self.builder.pool.push(buffer);
            }
            _ => self.builder.buffers -= 1,
        }
    }

    /// Retires plans whose last operation has completed.
    pub(crate) fn retire_plans(&mut self, host: &mut dyn Host) {
        let completed = self.paging_engine().retired + u64::from(self.adapter.has_bug(PlantedBug::RetireEarly));
        while let Some((number, plan)) = self.stream.retire_next(completed) {
            self.stirred = true;
            // All paging operations that were under way for these ranges have ended with it (NTF-04).
            for &range in &plan.io_mmu_unmap {
                self.unmap_io_mmu(host, number, range);
            }
            self.events.record(|| Event::PlanRetired { plan: number });
            for rotation in &plan.rotate {
                self.reveal(host, number, rotation);
            }
            self.follow_plan(host, number, plan);
        }
    }

    /// What follows when a plan is over.
    pub(super) fn follow_plan(&mut self, host: &mut dyn Host, number: PlanNo, plan: Plan) {
        for retire in plan.retire {
            match retire {
                Retire::Allocation(index) => self.dead.push(index),
                Retire::Opening { allocation, device } => self.closed.push((allocation, device)),
                Retire::Discard(index) => self.settle_discard(host, index, number),
                Retire::Mapping(mapping) => {
                    self.end_mapping(&mapping);
                    let process = self.processes.id(mapping.process);
                    let (virtual_address, size) = (GpuVirtualAddress(mapping.virtual_address), mapping.size);
                    self.events.record(|| Event::GpuVirtualAddressReclaimed { process, virtual_address, size });
                }
                Retire::Table { address, bytes } => host.decommit_backing_store(address, bytes),
            }
        }
    }

    /// Nothing uses or shows a mapping any more.
    fn end_mapping(&mut self, mapping: &Mapping) {
        self.processes[mapping.process].space.unmap(mapping.virtual_address, mapping.size);
        self.release_tables(mapping);
    }

    /// Tells the driver and the host of allocations that are gone.
    pub(crate) fn reap(&mut self, kmd: &mut dyn Kmd, host: &mut dyn Host) {
        for (index, device) in core::mem::take(&mut self.closed) {
            let closed = self.allocations[index].forget_opening(device).expect("an opening ends once");
            self.devices[device].allocations -= 1;
            if let Some(handle) = closed.handle {
                kmd.close_allocation(handle);
            }
            let books = &self.allocations[index];
            if books.state.contains(AllocationState::PURGE_DUE) && books.openings().next().is_none() {
                self.defer(books.device, DeferredAction::Purge(index));
            }
        }
        for index in core::mem::take(&mut self.dead) {
            let id = self.allocation_id(index);
            self.end_locks(host, index);
            let gone = self.allocations.remove(index);
            if !self.adapter.has_bug(PlantedBug::LeakBooks) {
                self.patched.remove(&index);
            }
            gone.mappings().for_each(|mapping| self.end_mapping(&mapping));
            if !gone.state.intersects(AllocationState::NOT_COMMITTED | AllocationState::EXISTING_SYS_MEM) {
                let backing_store = PhysicalAddress { segment: SegmentId::SYSTEM, offset: gone.backing_store };
                host.decommit_backing_store(backing_store, gone.size);
            }
            kmd.destroy_allocation(gone.handle);
            self.devices[gone.device].allocations -= 1;
            self.events.record(|| Event::AllocationReclaimed { allocation: id });
            if gone.state.contains(AllocationState::SYNCHRONOUS_DESTROY) {
                self.outputs.push_back(Output::AllocationReclaimed { allocation: id });
            }
        }
    }
}
