//! Objects: their creation and their end.

use vidmm::contract::KmdProcessHandle;
use vidmm::{AllocationId, Event, ProcessId};

use super::allocation::{Allocation, ListEntry};
use super::device::Device;
use super::fences::Queue;
use super::finding::Invariant;
use super::segment::Segment;
use super::{Audit, Process};

impl Audit {
    pub(super) fn object(&mut self, event: &Event) {
        match event {
            Event::AdapterStarted {
                segment,
                size,
                page_size,
                engines,
                level_bits,
                paging_va_size,
                paging_process,
                paging_tables,
                ..
            } => {
                self.segment = Segment::new(*segment, *size, *page_size);
                self.fences.start(engines);
                self.tables.level_bits.clone_from(level_bits);
                self.window_bytes = *paging_va_size;
                self.paging_process = Some(*paging_process);
                for &extent in paging_tables {
                    self.segment.take(extent, &mut self.findings);
                }
            }
            Event::ProcessCreated { process, handle } => {
                self.processes.insert(*process, Process { handle: *handle, tables: Vec::new() });
                self.by_process_handle.insert(*handle, *process);
            }
            Event::ProcessDestroyed { process } => self.process_destroyed(*process),
            Event::DeviceCreated { device, process } => {
                self.findings.check(self.processes.contains_key(process), Invariant::Log, || {
                    format!("{process} does not exist")
                });
                self.devices.insert(*device, Device::new());
            }
            Event::DeviceDestroyed { device } => {
                self.devices.remove(device);
            }
            Event::ContextCreated { context, engine, .. } => {
                self.contexts.insert(*context, *engine);
            }
            Event::ContextDestroyed { context } => {
                self.contexts.remove(context);
            }
            Event::PagingQueueCreated { queue, device } => {
                self.fences.queues.insert(*queue, Queue { device: *device, granted: 0, signaled: 0 });
            }
            Event::AllocationCreated { allocation, device, handle, size, backing_store, .. } => {
                self.by_handle.insert(*handle, *allocation);
                let created = Allocation {
                    device: *device,
                    handle: *handle,
                    size: *size,
                    backing_store: *backing_store,
                    decided: None,
                    built: None,
                    last_plan: 0,
                    backed: false,
                    written: false,
                    destroyed: false,
                    list: ListEntry::default(),
                    mappings: Default::default(),
                };
                self.allocations.insert(*allocation, created);
            }
            Event::AllocationDestroyed { allocation } => self.allocation_destroyed(*allocation),
            Event::AllocationReclaimed { allocation } => self.allocation_reclaimed(*allocation),
            _ => {}
        }
    }

    /// Its tables are free at once: nothing of it is left in the stream.
    fn process_destroyed(&mut self, process: ProcessId) {
        let Some(gone) = self.processes.remove(&process) else { return self.unknown(process) };
        self.by_process_handle.remove(&gone.handle);
        for extent in gone.tables {
            self.segment.free(extent);
        }
        self.check_nothing_mapped(gone.handle);
        self.shadow.remove(gone.handle);
        self.tables.remove(gone.handle);
    }

    fn check_nothing_mapped(&mut self, handle: KmdProcessHandle) {
        let mapped = self.shadow.first_mapped(handle);
        self.findings.check(mapped.is_none(), Invariant::I28, || {
            format!("process {} is gone, but its entry for {:#x} is valid", handle.0, mapped.unwrap_or_default())
        });
    }

    /// It leaves its device's list after what was submitted so far.
    fn allocation_destroyed(&mut self, id: AllocationId) {
        let Some(allocation) = self.allocations.get_mut(&id) else { return self.unknown(id) };
        let submitted = self.devices.get(&allocation.device).map_or(0, |device| device.submitted);
        allocation.list.leave_for_good(submitted);
        allocation.destroyed = true;
    }

    fn allocation_reclaimed(&mut self, id: AllocationId) {
        let Some(gone) = self.allocations.remove(&id) else { return self.unknown(id) };
        self.by_handle.remove(&gone.handle);
        self.findings.check(gone.decided.is_none(), Invariant::I28, || format!("{id} is gone, but has a place"));
        for key in gone.mappings {
            let Some(mapping) = self.mappings.remove(&key) else { continue };
            let Some(process) = self.processes.get(&mapping.process) else { continue };
            let shown = self.shadow.shows(process.handle, mapping.virtual_address, mapping.end(), gone.handle);
            self.findings.check(!shown, Invariant::I28, || {
                format!("{id} is gone, but {} still sees it at {:#x}", mapping.process, mapping.virtual_address)
            });
        }
    }
}
