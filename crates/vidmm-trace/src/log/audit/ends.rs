//! The end of objects: nothing is left of what is gone (I28).

use vidmm::contract::KmdProcessHandle;
use vidmm::{
    AllocationId, ContextId, DeviceId, Event, Extent, GpuVirtualAddress, MonitoredFenceId, PagingQueueId,
    PhysicalAddress, ProcessId, SegmentId,
};

use super::device::Device;
use super::finding::Invariant;
use super::list_entry::ListEntry;
use super::names::Name;
use super::{Audit, Process};

impl Audit {
    fn gone(&mut self, name: impl Into<Name>) {
        self.names.remove(name.into(), &mut self.findings);
    }

    pub(super) fn process_terminated(&mut self, id: ProcessId) {
        let Some(process) = self.processes.get_mut(&id) else { return };
        let had_ended = std::mem::replace(&mut process.has_ended, true);
        self.findings.check(!had_ended, Invariant::I27, || format!("a call names {id}, which was destroyed"));
        let of_process = |(_, device): &(&DeviceId, &Device)| device.process == id && !device.has_ended;
        self.must_end.extend(self.devices.iter().filter(of_process).map(|(&device, _)| device));
    }

    /// Its work that was not handed out is dropped. Once the rest has ended, nobody waits for its fences any more.
    pub(super) fn device_terminated(&mut self, id: DeviceId) {
        self.must_end.remove(&id);
        let Some(device) = self.devices.get_mut(&id) else { return };
        let had_ended = std::mem::replace(&mut device.has_ended, true);
        self.findings.check(!had_ended, Invariant::I27, || format!("a call names {id}, which was destroyed"));
        self.drop_work(id);
    }

    /// Nothing of a device that ended runs any more: its fences are at the maximum.
    fn check_waiters_released(&mut self, id: DeviceId) {
        if !self.devices.get(&id).is_some_and(|device| device.unretired.is_empty()) {
            return;
        }
        let is_waited_for = |fence: &MonitoredFenceId| !self.fences.monitored.has_reached((*fence, u64::MAX));
        let left = self.fences.monitored.of_device(id).into_iter().find(is_waited_for);
        self.findings.check(left.is_none(), Invariant::I13, || {
            let left = left.as_ref().map(MonitoredFenceId::to_string).unwrap_or_default();
            format!("{id} was destroyed and nothing of it runs, but {left} is not at the maximum")
        });
    }

    /// A decision of the manager follows: what has ended, and of which nothing is under way, is gone by then.
    pub(super) fn check_gone(&mut self, event: &Event) {
        if !matches!(event, Event::Dispatched { .. } | Event::Granted { .. }) {
            return;
        }
        if let Some(id) = self.must_end.pop_first() {
            let message = format!("its process was destroyed, but {id} has not ended");
            self.findings.report(Invariant::I28, message);
        }
        for id in Vec::from_iter(self.devices.iter().filter(|(_, device)| device.has_ended).map(|(&id, _)| id)) {
            self.check_waiters_released(id);
        }
        let is_used = |id: DeviceId| self.allocations.values().any(|allocation| allocation.owner == id);
        let is_over = |(id, device): &(&DeviceId, &Device)| {
            let is_over = device.has_ended && device.unretired.is_empty() && device.requests.is_empty();
            // The log does not say when a device is done with what it has closed.
            is_over && !device.has_closed && !is_used(**id)
        };
        let device = self.devices.iter().find(is_over).map(|(id, _)| id.to_string());
        let has_devices = |id: ProcessId| self.devices.values().any(|device| device.process == id);
        // Its tables are freed after its last device is gone.
        let is_over = |(id, process): &(&ProcessId, &Process)| {
            process.has_ended && !has_devices(**id) && self.table_left(**id, process).is_none() && self.plans.are_over()
        };
        let process = self.processes.iter().find(is_over).map(|(id, _)| id.to_string());
        for id in device.into_iter().chain(process) {
            let message = format!("{id} was destroyed, and nothing of it is under way, but it is not gone");
            self.findings.report(Invariant::I28, message);
        }
    }

    /// A table of a process that is freed when nothing is mapped any more: neither its root, nor one in which a reservation ends.
    fn table_left(&self, id: ProcessId, process: &Process) -> Option<(SegmentId, Extent)> {
        let is_held = |&&(segment, Extent { offset, .. }): &&(SegmentId, Extent)| {
            let table = self.tables.at(process.handle, PhysicalAddress { segment, offset });
            table.is_some_and(|table| self.is_cut_by_reservation(id, table.first_address, self.tables.end(table)))
        };
        process.tables_but_its_root().find(|table| !is_held(table)).copied()
    }

    /// Its tables are free at once: nothing of it is left in the stream. But for the root they were freed before, unless the GPU
    /// does nothing any more that would free them.
    pub(super) fn process_destroyed(&mut self, id: ProcessId) {
        self.gone(id);
        let Some(process) = self.processes.remove(&id) else { return };
        self.by_process_handle.remove(&process.handle);
        let left = self.table_left(id, &process);
        let is_over = self.is_up() && self.devices.values().all(|device| device.process != id);
        self.findings.check(left.is_none() || !is_over, Invariant::I15, || {
            format!("{id} is gone, and nothing was mapped any more, but its table at {left:?} was not freed")
        });
        for (segment, extent) in process.tables {
            match self.places.ranges(segment) {
                Some(ledger) => {
                    ledger.free(extent);
                    ledger.tables = ledger.tables.saturating_sub(extent.size);
                }
                None => self.places.system.decommit(extent),
            }
        }
        self.demands.relieved += 1;
        self.check_nothing_mapped(process.handle);
        self.shadow.remove(process.handle);
        self.tables.remove(process.handle);
        self.zeros.remove(id, process.handle);
    }

    fn check_nothing_mapped(&mut self, handle: KmdProcessHandle) {
        let mapped = self.shadow.first_mapped(handle).map(GpuVirtualAddress).or(self.io_mmu.first_of(handle));
        self.findings.check(mapped.is_none(), Invariant::I28, || {
            format!("process {} is gone, but sees something at {}", handle.0, mapped.unwrap_or_default())
        });
    }

    pub(super) fn device_destroyed(&mut self, id: DeviceId) {
        self.check_waiters_released(id);
        self.gone(id);
        self.check_nothing_open(id);
        self.keep_writes_of(id);
        self.devices.remove(&id);
        self.forget_list(id);
        let of_device = self.listeners.iter().filter(|&(_, &device)| device == id);
        for notification in Vec::from_iter(of_device.map(|(&notification, _)| notification)) {
            self.listeners.remove(&notification);
            self.names.remove(notification.into(), &mut self.findings);
        }
    }

    /// Writes of a device's work outlive the device, and stay possible after a suspension, whatever a later Evict says.
    pub(super) fn keep_writes_of(&mut self, id: DeviceId) {
        let Some(device) = self.devices.get(&id) else { return };
        for allocation in self.allocations.values_mut() {
            let spans = allocation.lists.get(&id).into_iter().flat_map(ListEntry::spans);
            let is_written =
                spans.map(|span| device.writes_in(span, allocation.moved_at)).any(|writes| writes.possible);
            allocation.writes.possible |= is_written;
        }
    }

    pub(super) fn context_destroyed(&mut self, id: ContextId) {
        self.gone(id);
        let Some(context) = self.contexts.remove(&id) else { return };
        let queued = self.devices.get(&context.device).is_some_and(|device| device.has_work_of(id));
        let running = self.fences.work.values().any(|work| work.context == id);
        self.findings.check(!queued && !running, Invariant::I28, || format!("{id} is gone, but has work"));
    }

    pub(super) fn paging_queue_destroyed(&mut self, id: PagingQueueId) {
        self.gone(id);
        let Some(queue) = self.fences.queues.remove(&id) else { return };
        let requests = self.devices.get(&queue.device).map(|device| &device.requests);
        let pending = requests.and_then(|requests| requests.iter().find(|request| request.queue == id));
        self.findings.check(pending.is_none(), Invariant::I28, || {
            format!("{id} is gone, but value {} is not signalled", pending.map_or(0, |request| request.fence_value))
        });
    }

    pub(super) fn monitored_fence_destroyed(&mut self, id: MonitoredFenceId) {
        self.gone(id);
        self.fences.monitored.remove(id);
        let queued = self.portions.name(id) || self.devices.values().any(|device| device.has_work_that_names(id));
        let running = self.fences.work.values().flat_map(|work| &work.signals).any(|&(fence, _)| fence == id);
        self.findings.check(!queued && !running, Invariant::I28, || format!("{id} is gone, but work names it"));
    }

    pub(super) fn allocation_reclaimed(&mut self, id: AllocationId) {
        self.gone(id);
        let Some(gone) = self.allocations.remove(&id) else { return };
        self.forget_home(id);
        self.by_handle.remove(&gone.handle);
        self.findings.check(gone.destroyed, Invariant::I28, || format!("{id} is gone, but was not destroyed"));
        self.findings.check(gone.decided.is_none(), Invariant::I28, || format!("{id} is gone, but has a place"));
        if gone.committed && !gone.existing_sys_mem {
            self.places.system.decommit(Extent { offset: gone.backing_store, size: gone.size });
        }
        self.offered.remove(&id);
        let mapped = self.first_in_io_mmu(id, &gone).map(|(address, _)| address);
        self.findings.check(mapped.is_none(), Invariant::I28, || {
            format!("{id} is gone, but the IOMMU still shows it at {}", mapped.unwrap_or_default())
        });
        for key in gone.mappings {
            let Some(mapping) = self.mappings.remove(&key) else { continue };
            self.rests.remove(&key);
            let shown = self.is_shown(&mapping, gone.handle);
            self.findings.check(!shown, Invariant::I28, || {
                format!("{id} is gone, but {} still sees it at {:#x}", mapping.process, mapping.virtual_address)
            });
        }
    }
}
