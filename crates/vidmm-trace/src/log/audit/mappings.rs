//! Mappings: which addresses of a process show what, until the addresses are free again (I04, I17).

use vidmm::contract::{AddressingModel, KmdAllocationHandle};
use vidmm::{Event, PagingQueueId, ProcessId};

use super::Audit;
use super::allocation::Mapping;
use super::device::RequestKind;
use super::finding::Invariant;

impl Audit {
    pub(super) fn addresses(&mut self, event: &Event) {
        match *event {
            Event::GpuVirtualAddressMapped {
                process,
                virtual_address,
                size,
                allocation,
                allocation_offset,
                page_size,
                read_only,
                driver_protection,
                queue,
                paging_fence_value,
            } => {
                // The queue's device is the one that maps: who opened an allocation maps it for itself.
                let Some(device) = self.fences.queues.get(&queue).map(|queue| queue.device) else { return };
                let mapping = Mapping {
                    process,
                    device,
                    virtual_address: virtual_address.0,
                    size,
                    allocation,
                    allocation_offset,
                    page_size,
                    read_only,
                    driver_protection,
                    granted: paging_fence_value == 0,
                    freed: None,
                };
                self.map(mapping, queue, paging_fence_value);
            }
            Event::GpuVirtualAddressFreed { process, virtual_address, size } => {
                self.free(process, virtual_address.0, size);
            }
            Event::GpuVirtualAddressReclaimed { process, virtual_address } => {
                self.reclaim(process, virtual_address.0);
            }
            _ => {}
        }
    }

    fn map(&mut self, mapping: Mapping, queue: PagingQueueId, paging_fence_value: u64) {
        let Mapping { process, virtual_address, allocation: id, .. } = mapping;
        self.replace_mappings(&mapping);
        self.check_alone(&mapping);
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        allocation.mappings.insert((process, virtual_address));
        let device = mapping.device;
        self.mappings.insert((process, virtual_address), mapping);
        if paging_fence_value > 0 {
            self.ask(device, queue, paging_fence_value, RequestKind::Map(process, virtual_address));
        }
    }

    /// Forgets mappings at the addresses of a new one: there must be none, until their addresses are reclaimed.
    fn replace_mappings(&mut self, new: &Mapping) {
        let before = self.mappings.range((new.process, 0)..(new.process, new.end()));
        let overlapping = |mapping: &&Mapping| mapping.end() > new.virtual_address;
        let old: Vec<Mapping> = before.rev().map(|(_, mapping)| mapping).take_while(overlapping).copied().collect();
        for mapping in old {
            self.forget_mapping(&mapping);
            let Mapping { process, virtual_address: start, allocation, .. } = mapping;
            let message = format!("{start:#x} of {process} is mapped anew, but still belongs to {allocation}");
            self.findings.report(Invariant::I04, message);
        }
    }

    /// Where all processes share a domain, an address is of one of them (U-17).
    fn check_alone(&mut self, new: &Mapping) {
        if self.adapter.addressing_model != AddressingModel::GpuVaIoMmuGlobal {
            return;
        }
        let others = self.processes.keys().filter(|&&process| process != new.process);
        let other = others.filter_map(|&process| {
            let (_, before) = self.mappings.range((process, 0)..(process, new.end())).next_back()?;
            (before.end() > new.virtual_address).then_some(process)
        });
        let other = other.min();
        self.findings.check(other.is_none(), Invariant::I29, || {
            format!("{:#x} of {} is mapped, but {other:?} uses that address", new.virtual_address, new.process)
        });
    }

    /// Work that was submitted by now may still use the mapping. What is no mapping is a reservation.
    fn free(&mut self, process: ProcessId, virtual_address: u64, size: u64) {
        let Some(mapping) = self.mappings.get_mut(&(process, virtual_address)).filter(|of| of.size == size) else {
            return;
        };
        let submitted = self.devices.get(&mapping.device).map_or(0, |device| device.submitted);
        let allocation = self.allocations.get(&mapping.allocation);
        let open = allocation.is_some_and(|allocation| allocation.open.contains(&mapping.device));
        // The mappings of a device that has closed the allocation were freed by that.
        let twice = mapping.freed.replace(submitted).is_some() && open;
        self.findings.check(!twice, Invariant::Log, || format!("{virtual_address:#x} of {process} is freed twice"));
    }

    /// Nothing uses the mapping any more, and nothing shows it.
    fn reclaim(&mut self, process: ProcessId, virtual_address: u64) {
        let freed = |mapping: &&Mapping| mapping.freed.is_some();
        let Some(mapping) = self.mappings.get(&(process, virtual_address)).filter(freed).copied() else {
            let message = format!("{virtual_address:#x} of {process} is reclaimed, but no freed mapping is there");
            return self.findings.report(Invariant::Log, message);
        };
        self.forget_mapping(&mapping);
        let Some(allocation) = self.allocations.get(&mapping.allocation) else { return };
        let (id, handle) = (mapping.device, allocation.handle);
        let shown = self.is_shown(&mapping, handle);
        let seen = self.range_of(&mapping).is_some();
        self.findings.check(!seen, Invariant::I29, || {
            format!("{virtual_address:#x} of {process} is reclaimed, but still mapped for {}", mapping.allocation)
        });
        self.findings.check(!shown, Invariant::I04, || {
            format!("{virtual_address:#x} of {process} is reclaimed, but still shows {}", mapping.allocation)
        });
        let last = mapping.freed.unwrap_or(0);
        let retired = self.devices.get(&id).is_none_or(|device| device.has_retired(last));
        self.findings.check(retired, Invariant::I17, || {
            format!("{virtual_address:#x} of {process} is reclaimed, but submission {last} of {id} may use it")
        });
    }

    fn forget_mapping(&mut self, mapping: &Mapping) {
        let key = (mapping.process, mapping.virtual_address);
        self.mappings.remove(&key);
        if let Some(allocation) = self.allocations.get_mut(&mapping.allocation) {
            allocation.mappings.remove(&key);
        }
    }

    /// Whether a valid entry of the mapping shows the allocation.
    pub(super) fn is_shown(&self, mapping: &Mapping, allocation: KmdAllocationHandle) -> bool {
        self.processes.get(&mapping.process).is_some_and(|process| {
            self.shadow.shows(process.handle, mapping.virtual_address, mapping.end(), allocation)
        })
    }
}
