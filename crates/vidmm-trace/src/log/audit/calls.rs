//! Objects: their creation.

use vidmm::{Event, Extent};

use super::allocation::{Allocation, ListEntry};
use super::device::{Context, Device};
use super::fences::Queue;
use super::names::Name;
use super::{Audit, Process};

impl Audit {
    pub(super) fn create(&mut self, event: &Event) {
        match *event {
            Event::ProcessCreated { process, handle } => {
                self.settle_start();
                self.born(process, None);
                self.processes.insert(process, Process { handle, root: None, tables: Vec::new() });
                self.by_process_handle.insert(handle, process);
            }
            Event::DeviceCreated { device, process } => {
                self.born(device, Some(process.into()));
                self.devices.insert(device, Device::new(process));
            }
            Event::ContextCreated { context, device, engine } => {
                self.born(context, Some(device.into()));
                self.contexts.insert(context, Context { device, engine, root: None });
            }
            Event::PagingQueueCreated { queue, device, priority } => {
                self.born(queue, Some(device.into()));
                self.fences.queues.insert(queue, Queue::new(device, priority));
            }
            Event::MonitoredFenceCreated { fence, value } => {
                self.born(fence, None);
                self.fences.monitored.create(fence, value);
            }
            Event::AllocationCreated { .. } => self.allocation_created(event),
            _ => {}
        }
    }

    fn born(&mut self, name: impl Into<Name>, owner: Option<Name>) {
        self.names.create(name.into(), owner, &mut self.findings);
    }

    fn allocation_created(&mut self, event: &Event) {
        let Event::AllocationCreated {
            allocation,
            device,
            handle,
            size,
            backing_store,
            supported_segment_set,
            accessed_physically,
            notify,
            ..
        } = *event
        else {
            return;
        };
        self.born(allocation, Some(device.into()));
        self.check_notifications_exist(notify);
        self.places.system.commit(Extent { offset: backing_store, size }, &mut self.findings);
        self.by_handle.insert(handle, allocation);
        let created = Allocation {
            device,
            handle,
            size,
            backing_store,
            supported_segment_set,
            accessed_physically,
            notify,
            unmap_told: (0, 0),
            decided: None,
            entered: None,
            built: None,
            last_plan: 0,
            backed: false,
            was_in_place: false,
            written: false,
            destroyed: false,
            list: ListEntry::default(),
            mappings: Default::default(),
        };
        self.allocations.insert(allocation, created);
    }
}
