//! The drivers' reports of packets that cannot go on (6.2, FLT-03).

use alloc::vec::Vec;

use crate::{
    contract::{DmaPageFaulted, EngineFence, PageFaultFlags},
    engines::engine::Engine,
    event::{Event, Neighbour},
    id::AllocationIx,
    state::State,
    units::GpuVirtualAddress,
};

/// Records a page fault with its facts, which are gathered only if events are kept.
pub(crate) fn record_page_fault(state: &mut State, signal: EngineFence, fault: &DmaPageFaulted) {
    let virtual_address = fault.faulted_virtual_address;
    let device = state.engines.device_under_way(&state.objects, signal.engine);
    state.moment.record(|| {
        let space = device.map(|device| &state.objects[state.objects[device].process].space);
        let (below, above) = space.map_or((None, None), |space| space.neighbours(virtual_address.0));
        let neighbour = |found: Option<(u64, u64, AllocationIx)>| {
            let (start, size, index) = found?;
            let allocation = state.objects.allocations.id(index);
            Some(Neighbour { allocation, virtual_address: GpuVirtualAddress(start), size })
        };
        let (below, above) = (neighbour(below), neighbour(above));
        let mapped = space.and_then(|space| space.allocation_at(virtual_address.0));
        Event::PageFault {
            signal,
            virtual_address,
            write: fault.page_fault_flags.contains(PageFaultFlags::WRITE),
            allocation: mapped.map(|index| state.objects.allocations.id(index)),
            flags: fault.page_fault_flags,
            page_table_level: fault.page_table_level,
            fault_error_code: fault.fault_error_code,
            below,
            above,
            in_flight: all_in_flight(&state.engines.engines),
        }
    });
}

/// The packets under way, those of an engine in their order.
fn all_in_flight(engines: &[Engine]) -> Vec<EngineFence> {
    let of_engine = |(engine, record): (u32, &Engine)| {
        record.in_flight().iter().map(|packet| EngineFence { engine, fence_id: packet.fence_id }).collect::<Vec<_>>()
    };
    (0..).zip(engines).flat_map(of_engine).collect()
}
