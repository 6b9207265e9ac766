//! The end of processes and devices: their queued work is dropped, and all that they have is given back once what is
//! dispatched has ended.

use alloc::vec::Vec;

use crate::{
    calls::sharing,
    contract::{Host, Kmd},
    event::{Event, destroy_flags::DestroyFlags},
    gpu_va::Table,
    id::{
        AllocationIx, ContextIx, DeviceId, DeviceIx, InvalidHandle, MonitoredFenceIx, PagingQueueIx, ProcessId,
        ProcessIx,
    },
    manager::VidMm,
    objects::{
        Objects,
        allocation::{Allocation, AllocationState},
        device::Device,
    },
    recovery::device_error,
    units::{Extent, PhysicalAddress},
};

/// # Processes and devices: their end
impl VidMm {
    /// Ends a process, as the end of its program does: all its devices are destroyed, as
    /// [`destroy_device`](Self::destroy_device) says. Its page tables are free when the last of them is gone, and the driver is
    /// told then.
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    #[doc(alias = "DxgkDdiDestroyProcess")]
    pub fn destroy_process(
        &mut self,
        kmd: &mut dyn Kmd,
        host: &mut dyn Host,
        process: ProcessId,
    ) -> Result<(), InvalidHandle> {
        let index = self.state.objects.processes.lookup(process)?;
        self.state.objects.processes.withdraw(index);
        self.state.moment.record(|| Event::ProcessTerminated { process });
        for device in Vec::from_iter(self.state.objects[index].devices.iter().copied()) {
            self.end_device(host, device);
        }
        self.state.objects.ending.processes.push(index);
        self.bury(kmd, host);
        Ok(())
    }

    /// Ends a device, whatever it is doing. Its handle, and those of its contexts, paging queues, monitored fences,
    /// allocations and registrations for trim notifications are invalid at once. Its queued work is dropped. Its allocations
    /// are destroyed, and what others share is theirs (U-34); content that nobody needs is not saved.
    ///
    /// Work that the GPU has been given runs to its end. Then the fences that the dropped work would have signalled, and the
    /// device's own, are at the maximum, so that others who wait for them go on; all is given back, and the driver is told, in
    /// this call or a later [`poll`](Self::poll).
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    #[doc(alias = "D3DKMTDestroyDevice")]
    #[doc(alias = "DxgkDdiDestroyDevice")]
    pub fn destroy_device(
        &mut self,
        kmd: &mut dyn Kmd,
        host: &mut dyn Host,
        device: DeviceId,
    ) -> Result<(), InvalidHandle> {
        let index = self.state.objects.devices.lookup(device)?;
        self.end_device(host, index);
        self.bury(kmd, host);
        Ok(())
    }

    fn end_device(&mut self, host: &mut dyn Host, index: DeviceIx) {
        let objects = &mut self.state.objects;
        if core::mem::replace(&mut objects[index].has_ended, true) {
            return;
        }
        objects.devices.withdraw(index);
        let device = objects.devices.id(index);
        self.state.moment.record(|| Event::DeviceTerminated { device });
        contexts_of(objects, index).into_iter().for_each(|context| objects.contexts.withdraw(context));
        queues_of(objects, index).into_iter().for_each(|queue| objects.paging_queues.withdraw(queue));
        for &registration in &objects[index].notifications {
            self.schedule.trim_notifications.withdraw(registration);
        }
        device_error::end_work(&mut self.state, &mut self.requests, &mut self.work, index);
        let fences = fences_of(&self.state.objects, index);
        fences.into_iter().for_each(|fence| self.state.objects.monitored_fences.withdraw(fence));
        for allocation in allocations_of(&self.state.objects, index) {
            self.give_up(host, allocation, index);
        }
        self.state.objects.ending.devices.push(index);
        self.state.moment.request_poll();
    }

    /// Lets others go on that wait for a device which has ended: nothing of it is dispatched any more.
    fn release_waiters(&mut self, device: DeviceIx) {
        let objects = &mut self.state.objects;
        for index in fences_of(objects, device) {
            let fence = objects.monitored_fences.id(index);
            objects.raise_fence(&mut self.state.moment, fence, u64::MAX);
            objects[index].device = None;
            objects.ending.monitored_fences.push(index);
        }
    }

    /// Ends the use of an allocation by a device.
    fn give_up(&mut self, host: &mut dyn Host, index: AllocationIx, device: DeviceIx) {
        if self.state.objects[index].device != device {
            return sharing::close(&mut self.state, &mut self.requests, index, device);
        }
        self.end_allocation(host, index, DestroyFlags::empty());
    }

    /// Removes what was destroyed, as far as nothing uses it any more.
    pub(crate) fn bury(&mut self, kmd: &mut dyn Kmd, host: &mut dyn Host) {
        for device in core::mem::take(&mut self.state.objects.ending.devices) {
            if !self.state.objects[device].is_in_flight() {
                self.release_waiters(device);
            }
            match is_over(&self.state.objects, device) {
                true => self.remove_device(kmd, device),
                false => self.state.objects.ending.devices.push(device),
            }
        }
        for fence in core::mem::take(&mut self.state.objects.ending.monitored_fences) {
            match self.state.objects[fence].references {
                0 => self.remove_fence(fence),
                _ => self.state.objects.ending.monitored_fences.push(fence),
            }
        }
        for process in core::mem::take(&mut self.state.objects.ending.processes) {
            match self.has_tables_under_way(process) || !self.state.objects[process].devices.is_empty() {
                false => self.remove_process(kmd, host, process),
                true => self.state.objects.ending.processes.push(process),
            }
        }
    }

    fn remove_device(&mut self, kmd: &mut dyn Kmd, index: DeviceIx) {
        for context in contexts_of(&self.state.objects, index) {
            self.remove_context(kmd, context);
        }
        for queue in queues_of(&self.state.objects, index) {
            self.remove_queue(queue);
        }
        self.state.shares.forget_device(&mut self.state.objects, index);
        let device = self.state.objects.devices.id(index);
        let gone = self.state.objects.devices.remove(index);
        self.state.objects[gone.process].devices.remove(&index);
        self.schedule.forget_device(index);
        self.plans.stream.forget_device(index);
        for registration in gone.notifications {
            let notification = self.schedule.trim_notifications.id(registration);
            self.schedule.unregister(registration);
            self.state.moment.record(|| Event::TrimNotificationUnregistered { notification });
        }
        self.state.moment.record(|| Event::DeviceDestroyed { device });
    }

    /// Whether tables of a process are to be freed, or are being initialised or freed.
    fn has_tables_under_way(&self, process: ProcessIx) -> bool {
        let is_under_way = |table: &Table| !self.plans.stream.is_retired(table.plan.max(table.unlinked));
        self.state.addresses.has_unsettled(process)
            || !self.plans.stream.is_retired(self.state.objects[process].reserved_by)
            || self.state.objects[process].tables.iter().any(|(_, table)| is_under_way(table))
    }

    fn remove_process(&mut self, kmd: &mut dyn Kmd, host: &mut dyn Host, index: ProcessIx) {
        self.state.addresses.forget_process(index);
        self.state.shares.forget_process(index);
        let process = self.state.objects.processes.id(index);
        let gone = self.state.objects.processes.remove(index);
        for (key, table) in gone.tables.iter() {
            let account = self.state.adapter.tables_in;
            let size = self.state.adapter.table_bytes_in(account);
            match table.address {
                Some(address) if address.segment.is_system() => {
                    host.decommit_backing_store(address, key.bytes(&self.state.adapter));
                }
                Some(PhysicalAddress { offset, .. }) => {
                    self.state.memory.table_placer(account).release(Extent { offset, size });
                    self.state.shares.remove_table_bytes(&mut self.state.memory, account, size);
                }
                None => self.state.shares.remove_table_bytes(&mut self.state.memory, account, size),
            }
        }
        kmd.destroy_process(gone.handle);
        self.state.moment.record(|| Event::ProcessDestroyed { process });
    }
}

/// Whether nothing of a device is under way, and it has no allocations any more.
fn is_over(objects: &Objects, device: DeviceIx) -> bool {
    let Device { allocations, ref requests, ref deferred, .. } = objects[device];
    allocations == 0 && requests.is_empty() && deferred.is_empty() && !objects[device].is_in_flight()
}

fn contexts_of(objects: &Objects, device: DeviceIx) -> Vec<ContextIx> {
    objects.contexts.iter().filter(|(_, context)| context.device == device).map(|(index, _)| index).collect()
}

fn queues_of(objects: &Objects, device: DeviceIx) -> Vec<PagingQueueIx> {
    objects.paging_queues.iter().filter(|(_, queue)| queue.device == device).map(|(index, _)| index).collect()
}

fn fences_of(objects: &Objects, device: DeviceIx) -> Vec<MonitoredFenceIx> {
    let of_device = objects.monitored_fences.iter().filter(|(_, fence)| fence.device == Some(device));
    of_device.map(|(index, _)| index).collect()
}

/// The allocations that a device may name in calls.
fn allocations_of(objects: &Objects, device: DeviceIx) -> Vec<AllocationIx> {
    let is_named = |&(_, allocation): &(AllocationIx, &Allocation)| {
        allocation.is_open_on(device) && !allocation.is(AllocationState::DESTROYED)
    };
    objects.allocations.iter().filter(is_named).map(|(index, _)| index).collect()
}
