//! The ends of objects: each goes when nothing of it is left.

use std::sync::atomic::Ordering;

use vidmm::{AllocationId, DestroyFlags, DeviceId, GpuVirtualAddress, PAGE_SIZE, ProcessId};

use super::super::error::Error;
use super::super::objects::{DeviceRecord, ProcessRecord};
use super::super::resources::ResourceRecord;
use super::{Retired, Worker};

impl Worker {
    /// The application drops a buffer or an image.
    pub(super) fn destroy(&mut self, resource: AllocationId, flags: DestroyFlags) {
        let Self { objects, vidmm, host, .. } = self;
        let Some(record) = objects.resources.get_mut(resource) else { return };
        record.is_dropped = true;
        if let Some(frames) = objects.devices.get_mut(&record.device).and_then(|device| device.frames.as_mut()) {
            frames.forget(record);
        }
        for &allocation in &record.allocations {
            // The worker alone destroys allocations, each once.
            let _ = vidmm.destroy_allocation(host, allocation, flags | DestroyFlags::SYNCHRONOUS_DESTROY);
        }
    }

    /// An allocation is gone. With the last of a resource the Vulkan object goes too, once nothing that was submitted names it.
    pub(super) fn bury(&mut self, allocation: AllocationId) -> Result<(), Error> {
        let Some(record) = self.objects.resources.forget(allocation) else { return Ok(()) };
        self.end_resource(&record);
        if let Some(device) = self.objects.devices.get_mut(&record.device) {
            device.resources -= 1;
        }
        self.close_device(record.device)
    }

    /// A resource has no allocations: its addresses are free, and the Vulkan object once nothing that was submitted names it.
    pub(super) fn end_resource(&mut self, record: &ResourceRecord) {
        let &ResourceRecord { device, process, first, bytes, foreign, .. } = record;
        let mut memory = self.paging.memory().borrow_mut();
        if let Some(token) = foreign {
            memory.foreign().remove(token);
        }
        let object = memory.space(process).take_chunk(first);
        self.graveyard.extend(object.map(|object| (self.device.submitted(), Retired::Resource(object))));
        if let Some(device) = self.objects.devices.get(&device) {
            let base = GpuVirtualAddress(first * PAGE_SIZE);
            // The worker alone reserves addresses, and nothing is mapped there any more.
            let _ = self.vidmm.free_gpu_virtual_address(&mut self.host, device.process, base, bytes);
        }
    }

    /// Destroys a device, if nobody has a handle to it, a buffer of it or a use of it any more.
    pub(super) fn close_device(&mut self, device: DeviceId) -> Result<(), Error> {
        let is_over = |record: &DeviceRecord| {
            record.is_closing && record.resources == 0 && record.uses.load(Ordering::Relaxed) == 0
        };
        if !self.objects.devices.get(&device).is_some_and(is_over) {
            return Ok(());
        }
        let Some(mut record) = self.objects.devices.remove(&device) else { return Ok(()) };
        // The worker alone destroys devices, each once.
        let _ = self.vidmm.destroy_device(&mut self.kmd, &mut self.host, device);
        self.objects.queues.remove(&record.queue);
        record.ready.release(&self.device)?;
        self.free_points.extend([record.ready.signalled(), record.done]);
        if let Some(process) = self.objects.processes.get_mut(&record.process) {
            process.devices -= 1;
        }
        self.close_process(record.process);
        Ok(())
    }

    /// Destroys a process, if nobody has a handle to it or a device of it any more.
    pub(super) fn close_process(&mut self, process: ProcessId) {
        let is_over = |record: &ProcessRecord| record.is_closing && record.devices == 0;
        if !self.objects.processes.get(&process).is_some_and(is_over) {
            return;
        }
        if let Some(record) = self.objects.processes.remove(&process) {
            // The worker alone destroys processes, each once.
            let _ = self.vidmm.destroy_process(&mut self.kmd, &mut self.host, process);
            self.paging.memory().borrow_mut().forget_process(record.handle);
        }
    }
}
