//! What drivers report of packets that cannot go on (6.2, FLT-03).

use alloc::vec::Vec;

use crate::{
    contract::{DmaPageFaulted, EngineFence, NotifyInterrupt, PageFaultFlags},
    error::{DeviceErrorReason, DriverFinding, Violation},
    event::{Event, Neighbour},
    state::VidMm,
    units::GpuVirtualAddress,
};

impl VidMm {
    /// The driver reports that an engine has stopped at a packet which cannot go on.
    ///
    /// The device that submitted it is in error, and its engine is reset; no other is harmed. A fault in a paging buffer is
    /// nobody's: the adapter is reset (FLT-23, U-43).
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
        if let Some(device) = self.device_under_way(engine) {
            self.put_device_in_error(device, reason);
        }
        match flags.contains(PageFaultFlags::ADAPTER_RESET_REQUIRED) {
            true => self.begin_adapter_reset(DeviceErrorReason::AdapterReset),
            false => self.condemn(engine, reason),
        }
    }

    fn record_page_fault(&mut self, signal: EngineFence, fault: &DmaPageFaulted) {
        let virtual_address = fault.faulted_virtual_address;
        let process = self.device_under_way(signal.engine).map(|device| self.devices[device as usize].process);
        let space = process.map(|process| &self.processes[process as usize].space);
        let allocation = space.and_then(|space| space.lookup(virtual_address.0)).map(|(index, _)| index);
        let (below, above) = space.map_or((None, None), |space| space.neighbours(virtual_address.0));
        let neighbour = |found: Option<(u64, u64, u32)>| {
            let (start, size, index) = found?;
            Some(Neighbour { allocation: self.allocation_id(index), virtual_address: GpuVirtualAddress(start), size })
        };
        let event = Event::PageFault {
            signal,
            virtual_address,
            write: fault.page_fault_flags.contains(PageFaultFlags::WRITE),
            allocation: allocation.map(|index| self.allocation_id(index)),
            flags: fault.page_fault_flags,
            page_table_level: fault.page_table_level,
            fault_error_code: fault.fault_error_code,
            below: neighbour(below),
            above: neighbour(above),
            in_flight: self.all_in_flight(),
        };
        self.events.record(|| event);
    }

    /// What all engines have got and not ended.
    fn all_in_flight(&self) -> Vec<EngineFence> {
        let engines = (0..).zip(&self.engines);
        let packets = engines.flat_map(|(engine, books)| {
            books.in_flight.iter().map(move |packet| EngineFence { engine, fence_id: packet.fence_id })
        });
        packets.collect()
    }
}
