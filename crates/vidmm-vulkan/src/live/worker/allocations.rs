//! Calls about single allocations: release, names, statistics.

use vidmm::{AllocationId, AllocationResidencyStatus, EvictError, EvictFlags, MakeResidentFlags};

use super::super::command::AllocationStatistics;
use super::super::error::Error;
use super::super::objects::AllocationRecord;
use super::Worker;
use crate::sparse::Handle;

impl Worker {
    /// Takes an allocation off all lists, `listed` times off the application's list. The allocation leaves local memory after the last use.
    pub(super) fn release(&mut self, allocation: AllocationId, listed: u32) -> Result<(), Error> {
        let Some(record) = self.objects.allocations.get_mut(&allocation) else { return Ok(()) };
        record.listed -= u64::from(listed);
        let (device, frees) = (record.device, EvictFlags::empty());
        // The worker alone evicts for frames, and the application's own list was checked before.
        let lost = |error: EvictError| Error::Lost(error.to_string());
        let Some(record) = self.objects.devices.get_mut(&device) else { return Ok(()) };
        let queue = record.queue;
        let frames = record.frames.as_mut().filter(|frames| frames.has(allocation));
        let is_listed = listed > 0 || frames.is_some();
        if let Some(frames) = frames {
            frames.release(&mut self.vidmm, allocation).map_err(lost)?;
        }
        if listed > 0 {
            self.vidmm.evict(device, &vec![allocation; listed as usize], frees).map_err(lost)?;
        }
        // A former EVICT_ONLY_IF_NECESSARY would let the allocation stay. The last Evict decides (RES-21), so the allocation joins the list for
        // a moment. A refusal does no harm: memory is wanted then.
        let is_there =
            self.vidmm.query_allocation_residency(allocation) == Ok(AllocationResidencyStatus::ResidentInGpuMemory);
        if !is_listed && is_there {
            let flags = MakeResidentFlags::CANT_TRIM_FURTHER;
            if self.vidmm.make_resident(queue, &[allocation], flags).is_ok() {
                self.vidmm.evict(device, &[allocation], frees | EvictFlags::NOT_WRITTEN_TO).map_err(lost)?;
            }
        }
        Ok(())
    }

    /// Names the Vulkan object of an allocation.
    pub(super) fn name(&self, allocation: AllocationId, name: &str) {
        let Some(&AllocationRecord { process, first, .. }) = self.objects.allocations.get(&allocation) else { return };
        let mut memory = self.paging.memory().borrow_mut();
        match memory.space(process).resource(first).map(|(resource, _)| resource.raw()) {
            Some(Handle::Buffer(buffer)) => self.device.name(buffer, name),
            Some(Handle::Image(image)) => self.device.name(image, name),
            None => {}
        }
    }

    /// The statistics of all allocations.
    pub(super) fn allocation_statistics(&self) -> Result<Vec<AllocationStatistics>, Error> {
        let tell = |(&id, record): (&AllocationId, &AllocationRecord)| {
            let residency = self.vidmm.query_allocation_residency(id);
            let frames = self.objects.devices.get(&record.device).and_then(|device| device.frames.as_ref());
            Ok(AllocationStatistics {
                allocation: self.names.of(id),
                device: record.device,
                bytes: record.bytes,
                residency: residency.map_err(|error| Error::Lost(error.to_string()))?,
                listed: record.listed,
                is_offered: record.is_offered,
                is_held_by_frames: frames.is_some_and(|frames| frames.has(id)),
            })
        };
        // A dropped allocation may still be in use, without a handle.
        let live = self.objects.allocations.iter().filter(|(_, record)| !record.is_dropped);
        live.map(tell).collect()
    }
}
