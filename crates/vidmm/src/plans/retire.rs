use crate::{
    adapter::Adapter,
    addresses,
    contract::{DmaBuffer, Host},
    event::Event,
    gpu_va::Mapping,
    id::PlanNo,
    plans::{Plan, Plans, Retire, build, cleaning, views},
    state::State,
    units::GpuVirtualAddress,
};

impl Plans {
    /// Takes a paging buffer back into the pool. One that is not of the pool is not let in, and its place is free.
    pub(crate) fn take_back(&mut self, adapter: &Adapter, buffer: DmaBuffer) {
        let (size, private) = (adapter.paging_buffer_size, adapter.paging_private_size);
        match buffer {
            DmaBuffer::Paging(mut buffer) if buffer.has_sizes(size, private) => {
                buffer.reset();
                self.builder.pool.push(buffer);
            }
            _ => self.lose_buffer(),
        }
    }

    /// A paging buffer does not come back.
    pub(crate) fn lose_buffer(&mut self) {
        self.builder.buffers -= 1;
    }

    /// Retires plans whose last operation has completed.
    pub(crate) fn retire_plans(&mut self, state: &mut State, host: &mut dyn Host) {
        let completed = state.engines.paging_engine(&state.adapter).retired;
        while let Some((number, plan)) = self.stream.retire_next(completed) {
            // All paging operations that were under way for these ranges have ended with it (NTF-04).
            for &range in &plan.io_mmu_unmap {
                build::unmap_io_mmu(&mut state.moment, host, number, range);
            }
            state.moment.record(|| Event::PlanRetired { plan: number });
            if let Some(part) = &plan.clean {
                cleaning::settle(&mut state.objects, part);
            }
            for rotation in &plan.rotate {
                views::reveal(state, host, number, rotation);
            }
            self.follow_plan(state, host, number, plan);
        }
    }

    /// Carries out what follows when a plan is over.
    pub(crate) fn follow_plan(&mut self, state: &mut State, host: &mut dyn Host, number: PlanNo, mut plan: Plan) {
        for retire in plan.retire.drain(..) {
            match retire {
                Retire::Allocation(index) => state.objects.note_dead(index),
                Retire::Opening { allocation, device } => state.objects.note_closed(allocation, device),
                Retire::Discard(index) => self.settle_discard(state, host, index, number),
                Retire::Mapping { mapping, reason } => {
                    end_mapping(state, &mapping);
                    let process = state.objects.processes.id(mapping.process);
                    let (virtual_address, size) = (GpuVirtualAddress(mapping.virtual_address), mapping.size);
                    state.moment.record(|| Event::GpuVirtualAddressReclaimed {
                        process,
                        virtual_address,
                        size,
                        reason,
                    });
                }
                Retire::Reservation(unreserved) => self.end_reservation(state, &unreserved),
                Retire::Table { address, bytes } => host.decommit_backing_store(address, bytes),
            }
        }
        self.stream.reuse(plan);
    }
}

/// Nothing uses or shows a mapping any more.
pub(crate) fn end_mapping(state: &mut State, mapping: &Mapping) {
    state.objects[mapping.process].space.unmap(mapping.virtual_address, mapping.size);
    let keys = addresses::tables_of(&state.adapter, mapping);
    state.addresses.release_tables(&state.adapter, &mut state.objects, mapping.process, keys);
}
