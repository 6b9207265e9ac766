//! What drivers report of packets that cannot go on (6.2, FLT-03).

use alloc::vec::Vec;

use crate::{
    contract::{DmaPageFaulted, EngineFence, NotifyInterrupt, PageFaultFlags},
    engine::Engine,
    error::{DeviceErrorReason, DriverFinding, Violation},
    event::{Event, Neighbour},
    id::AllocationIx,
    state::VidMm,
    units::GpuVirtualAddress,
};

impl VidMm {
    /// The driver reports that an engine has stopped at a packet which cannot go on.
    ///
    /// The device that submitted it is in error, and its engine is reset; no other is harmed. If the driver does not know the
    /// packet, the engine's reset says whose it was (FLT-11). A fault in a paging buffer is nobody's: the adapter is reset
    /// (FLT-23, U-43).
    #[doc(alias = "DxgkCbNotifyInterrupt")]
    pub fn handle_interrupt(&mut self, interrupt: &NotifyInterrupt) {
        let (engine, fence_id) = match *interrupt {
            NotifyInterrupt::DmaPageFaulted(fault) => (fault.node_ordinal, fault.faulted_fence_id),
            NotifyInterrupt::DmaFaulted { faulted_fence_id, node_ordinal } => (node_ordinal, faulted_fence_id),
        };
        if !self.hears(engine) {
            return;
        }
        let flags = match interrupt {
            NotifyInterrupt::DmaPageFaulted(fault) => fault.page_fault_flags,
            NotifyInterrupt::DmaFaulted { .. } => PageFaultFlags::empty(),
        };
        if flags.contains(PageFaultFlags::FATAL_HARDWARE_ERROR) {
            return self.fail(Violation::FatalHardwareError);
        }
        let resets = PageFaultFlags::ADAPTER_RESET_REQUIRED | PageFaultFlags::ENGINE_RESET_REQUIRED;
        let is_sound = match flags.contains(PageFaultFlags::FENCE_INVALID) {
            true => (engine as usize) < self.engines.len() && fence_id == 0 && flags.intersects(resets),
            false => self.engines.get(engine as usize).is_some_and(|engine| engine.has(fence_id)),
        };
        if !is_sound {
            return self.report(DriverFinding::FaultData { engine, fence_id });
        }
        // Whatever was before the packet has ended (FLT-11).
        self.complete_up_to(engine, fence_id.saturating_sub(1));
        let first = self.engines[engine as usize].in_flight.front().map_or(0, |packet| packet.fence_id);
        let signal = EngineFence { engine, fence_id: first };
        let reason = match interrupt {
            NotifyInterrupt::DmaPageFaulted(fault) => {
                self.record_page_fault(signal, fault);
                DeviceErrorReason::PageFault { virtual_address: fault.faulted_virtual_address }
            }
            NotifyInterrupt::DmaFaulted { .. } => {
                self.events.record(|| Event::IllegalCommand { signal });
                DeviceErrorReason::IllegalCommand
            }
        };
        if engine == self.adapter.paging_engine {
            return self.begin_adapter_reset(DeviceErrorReason::PagingBufferFault);
        }
        let resets_adapter = flags.contains(PageFaultFlags::ADAPTER_RESET_REQUIRED);
        // The first packet of which no end was reported may only have lost its interrupt. The reset of the adapter says nothing
        // of packets, and harms its device in any case.
        let is_known = !flags.contains(PageFaultFlags::FENCE_INVALID) || resets_adapter;
        if let Some(device) = self.device_under_way(engine).filter(|_| is_known) {
            self.put_device_in_error(device, reason);
        }
        match resets_adapter {
            true => self.begin_adapter_reset(DeviceErrorReason::AdapterReset),
            false => self.condemn(engine, reason),
        }
    }

    /// Nothing is gathered if no events are kept.
    fn record_page_fault(&mut self, signal: EngineFence, fault: &DmaPageFaulted) {
        let virtual_address = fault.faulted_virtual_address;
        let device = self.device_under_way(signal.engine);
        let Self { events, devices, processes, allocations, engines, .. } = self;
        events.record(|| {
            let space = device.map(|device| &processes[devices[device].process].space);
            let (below, above) = space.map_or((None, None), |space| space.neighbours(virtual_address.0));
            let neighbour = |found: Option<(u64, u64, AllocationIx)>| {
                let (start, size, index) = found?;
                let allocation = allocations.id(index);
                Some(Neighbour { allocation, virtual_address: GpuVirtualAddress(start), size })
            };
            let (below, above) = (neighbour(below), neighbour(above));
            let mapped = space.and_then(|space| space.allocation_at(virtual_address.0));
            Event::PageFault {
                signal,
                virtual_address,
                write: fault.page_fault_flags.contains(PageFaultFlags::WRITE),
                allocation: mapped.map(|index| allocations.id(index)),
                flags: fault.page_fault_flags,
                page_table_level: fault.page_table_level,
                fault_error_code: fault.fault_error_code,
                below,
                above,
                in_flight: all_in_flight(engines),
            }
        });
    }
}

/// The packets under way, those of an engine in their order.
fn all_in_flight(engines: &[Engine]) -> Vec<EngineFence> {
    let of_engine = |(engine, books): (u32, &Engine)| {
        books.in_flight.iter().map(|packet| EngineFence { engine, fence_id: packet.fence_id }).collect::<Vec<_>>()
    };
    (0..).zip(engines).flat_map(of_engine).collect()
}
