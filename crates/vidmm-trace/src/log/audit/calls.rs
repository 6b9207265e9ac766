//! Objects: their creation.

use vidmm::Event;
use vidmm::event::MemorySegmentFacts;

use super::allocation::{Allocation, ListEntry};
use super::device::{Context, Device};
use super::fences::Queue;
use super::names::Name;
use super::segment::Segment;
use super::tables::Tables;
use super::{Audit, Process};

impl Audit {
    pub(super) fn create(&mut self, event: &Event) {
        match *event {
            Event::AdapterStarted { .. } => self.adapter_started(event),
            Event::ProcessCreated { process, handle } => {
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

    fn adapter_started(&mut self, event: &Event) {
        let Event::AdapterStarted {
            memory: Some(MemorySegmentFacts { segment, size, page_size }),
            engines,
            level_bits,
            table_bytes,
            leaf_table_64kb_bytes,
            invalid_tlb_entries_not_cached,
            paging_buffer_bytes,
            paging_va_size,
            paging_process,
            paging_tables,
            ..
        } = event
        else {
            return;
        };
        self.segment = Segment::new(*segment, *size, *page_size);
        self.fences.start(engines);
        self.tables = Tables::new(level_bits, table_bytes, *leaf_table_64kb_bytes, *page_size);
        self.window_bytes = *paging_va_size;
        self.open_buffer.capacity = *paging_buffer_bytes;
        self.paging_process = Some(*paging_process);
        self.shadow.tlb.paging_process = Some(*paging_process);
        self.shadow.tlb.remembers_invalid = !invalid_tlb_entries_not_cached;
        for &extent in paging_tables {
            self.segment.take(extent, &mut self.findings);
        }
    }

    fn allocation_created(&mut self, event: &Event) {
        let Event::AllocationCreated { allocation, device, handle, size, backing_store, .. } = *event else { return };
        self.born(allocation, Some(device.into()));
        self.by_handle.insert(handle, allocation);
        let created = Allocation {
            device,
            handle,
            size,
            backing_store,
            decided: None,
            built: None,
            last_plan: 0,
            backed: false,
            written: false,
            destroyed: false,
            list: ListEntry::default(),
            mappings: Default::default(),
        };
        self.allocations.insert(allocation, created);
    }
}
