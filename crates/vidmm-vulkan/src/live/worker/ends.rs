//! The ends of objects: each goes when nothing of it is left.

use std::sync::atomic::Ordering;

use vidmm::{AllocationId, DeviceId, ProcessId};

use super::super::error::Error;
use super::super::objects::{AllocationRecord, DeviceRecord, ProcessRecord};
use super::{Retired, Worker};

impl Worker {
    /// An allocation is gone, and so is its buffer once nothing that was submitted names it.
    pub(super) fn bury(&mut self, allocation: AllocationId) -> Result<(), Error> {
        let Some(AllocationRecord { device, process, first, foreign, .. }) =
            self.objects.allocations.remove(&allocation)
        else {
            return Ok(());
        };
        self.forget_foreign(foreign);
        let buffer = self.paging.memory().borrow_mut().space(process).take_chunk(first);
        self.graveyard.extend(buffer.map(|buffer| (self.device.submitted(), Retired::Resource(buffer))));
        if let Some(record) = self.objects.devices.get_mut(&device) {
            record.allocations -= 1;
        }
        self.close_device(device)
    }

    /// Destroys a device, if nobody has a handle to it, a buffer of it or a use of it any more.
    pub(super) fn close_device(&mut self, device: DeviceId) -> Result<(), Error> {
        let is_over = |record: &DeviceRecord| {
            record.is_closing && record.allocations == 0 && record.uses.load(Ordering::Relaxed) == 0
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
            self.paging.forget_process(record.handle);
        }
    }
}
