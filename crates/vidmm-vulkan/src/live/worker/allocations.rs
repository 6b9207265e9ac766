//! Buffers and images: creation, release, names, statistics.

use vidmm::{
    AllocationId, AllocationResidencyStatus, CreateError, DestroyFlags, DeviceId, EvictError, EvictFlags,
    GpuVirtualAddress, MakeResidentFlags, MapGpuVirtualAddress, PAGE_SIZE, PAGE_SIZE_64K, PagingQueueId,
};
use vidmm_client::Managed;
use vidmm_runtime::AllocationSegments;

use super::super::command::{AllocationStatistics, CreateAllocation, NewAllocation, NewResource};
use super::super::driver::AllocationData;
use super::super::error::Error;
use super::super::resources::ResourceRecord;
use super::Worker;
use crate::error::VulkanError;
use crate::sparse::{Handle, SparseResource};

/// The most mappings before the worker polls the manager: waiting requests have a bound (D14).
const AT_A_TIME: usize = 1024;

impl Worker {
    /// The worker's own failure, or else the answer to the caller.
    pub(super) fn create_allocation(
        &mut self,
        device: DeviceId,
        desc: CreateAllocation,
    ) -> Result<Result<NewAllocation, Error>, Error> {
        let object = match &desc.resource {
            &NewResource::Buffer { bytes, usage, .. } => {
                SparseResource::for_application(&self.device, bytes, usage).map_err(Error::from)
            }
            NewResource::Image(image) => image.create(&self.device),
        };
        match object {
            Ok(object) => self.create_resource(device, desc, object),
            Err(Error::Vulkan(VulkanError::TooManyRanges { limit })) => Ok(Err(Error::Mappings { limit })),
            Err(error) => Ok(Err(error)),
        }
    }

    fn create_resource(
        &mut self,
        device: DeviceId,
        desc: CreateAllocation,
        object: SparseResource,
    ) -> Result<Result<NewAllocation, Error>, Error> {
        let CreateAllocation { resource, segments, notify_eviction } = desc;
        let gone = || Error::Lost("a device has no record".to_owned());
        let of_device = self.objects.devices.get(&device).ok_or_else(gone)?;
        let queue = of_device.queue;
        let process = self.objects.processes.get(&of_device.process).ok_or_else(gone)?.handle;
        let (raw, address) = (object.raw(), object.address);
        let bytes = object.bytes().next_multiple_of(PAGE_SIZE_64K);
        let range_bytes = match resource {
            NewResource::Buffer { range_bytes, .. } => range_bytes.min(bytes),
            NewResource::Image(_) => bytes,
        };
        // Allocations get backing store one by one. A look at the whole comes first, so that a refusal creates nothing.
        let reserved = self.host.check(bytes).map_err(|error| CreateError::from(error).into()).and_then(|()| {
            let reserved = self.vidmm.reserve_gpu_virtual_address(&mut self.host, queue, None, bytes);
            reserved.map_err(Error::from)
        });
        let first = match reserved {
            Ok(reserved) => reserved.virtual_address.0 / PAGE_SIZE,
            Err(error) => {
                object.destroy_unused();
                return Ok(Err(error));
            }
        };
        let mut memory = self.paging.memory().borrow_mut();
        let ranges = bytes.div_ceil(range_bytes) as u32;
        let foreign = notify_eviction.map(|record| memory.foreign().insert(record, ranges, range_bytes));
        let reserved = memory.reserve(process, first, bytes / PAGE_SIZE, object);
        drop(memory);
        let mut record = ResourceRecord {
            device,
            process,
            first,
            bytes,
            range_bytes,
            allocations: Vec::new(),
            managed: Vec::new(),
            left: 0,
            foreign,
            listed: 0,
            is_offered: false,
            is_dropped: false,
            was_listed: false,
        };
        let created = match reserved {
            Ok(()) => self.create_ranges(&mut record, ranges, queue, segments)?,
            Err(VulkanError::OutOfAddresses { limit }) => Err(Error::Addresses { limit }),
            Err(error) => Err(error.into()),
        };
        record.left = record.allocations.len();
        if record.left == 0 {
            self.end_resource(&record);
            return Ok(Err(created.err().unwrap_or_else(gone)));
        }
        if let Some(of_device) = self.objects.devices.get_mut(&device) {
            of_device.resources += 1;
        }
        let id = self.objects.resources.insert(record);
        if created.is_err() {
            self.destroy(id, DestroyFlags::ASSUME_NOT_IN_USE);
        }
        Ok(created.map(|()| NewAllocation { id, bytes, range_bytes, raw, address }))
    }

    /// Creates and maps the allocations of a resource, as far as there is memory.
    fn create_ranges(
        &mut self,
        record: &mut ResourceRecord,
        ranges: u32,
        queue: PagingQueueId,
        segments: AllocationSegments,
    ) -> Result<Result<(), Error>, Error> {
        for number in 0..ranges {
            let foreign = record.foreign.map(|first| first + number);
            let data = AllocationData { size: record.range_size(number as usize), segments, foreign };
            let data = data.to_bytes();
            let created = self.vidmm.create_allocation(&mut self.kmd, &mut self.host, record.device, &data);
            let allocation = match created {
                Ok(allocation) => allocation,
                Err(error) => return Ok(Err(error.into())),
            };
            record.allocations.push(allocation);
        }
        for (number, &allocation) in record.allocations.iter().enumerate() {
            let base_address = Some(GpuVirtualAddress(record.pages(number).start * PAGE_SIZE));
            let desc = MapGpuVirtualAddress { base_address, ..MapGpuVirtualAddress::whole(allocation) };
            if let Err(error) = self.vidmm.map_gpu_virtual_address(&mut self.host, queue, &desc) {
                return Ok(Err(error.into()));
            }
            if (number + 1).is_multiple_of(AT_A_TIME) {
                self.pump()?;
            }
        }
        Ok(Ok(()))
    }

    /// Takes a buffer or an image off all lists, `listed` times off the application's list. It leaves local memory after the last use.
    pub(super) fn release(&mut self, resource: AllocationId, listed: u32) -> Result<(), Error> {
        let Some(record) = self.objects.resources.get_mut(resource) else { return Ok(()) };
        record.listed -= u64::from(listed);
        let device = record.device;
        for number in 0..record.allocations.len() {
            let Some(record) = self.objects.resources.get(resource) else { return Ok(()) };
            let (allocation, managed) = (record.allocations[number], record.managed.get(number).copied());
            self.let_go(device, allocation, managed, listed)?;
        }
        Ok(())
    }

    /// Takes an allocation off all lists, `listed` times off the application's list. It leaves local memory after the last use.
    pub(super) fn let_go(
        &mut self,
        device: DeviceId,
        allocation: AllocationId,
        managed: Option<Managed>,
        listed: u32,
    ) -> Result<(), Error> {
        // The worker alone evicts for frames, and the application's own list was checked before.
        let lost = |error: EvictError| Error::Lost(error.to_string());
        let frees = EvictFlags::empty();
        let Some(record) = self.objects.devices.get_mut(&device) else { return Ok(()) };
        let queue = record.queue;
        let frames = record.frames.as_mut().zip(managed).filter(|(frames, managed)| frames.has(*managed));
        let is_listed = listed > 0 || frames.is_some();
        if let Some((frames, managed)) = frames {
            frames.release(&mut self.vidmm, managed).map_err(lost)?;
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

    /// Names the Vulkan object of a buffer or an image.
    pub(super) fn name(&self, resource: AllocationId, name: &str) {
        let Some(&ResourceRecord { process, first, .. }) = self.objects.resources.get(resource) else { return };
        let mut memory = self.paging.memory().borrow_mut();
        match memory.space(process).resource(first).map(|(object, _)| object.raw()) {
            Some(Handle::Buffer(buffer)) => self.device.name(buffer, name),
            Some(Handle::Image(image)) => self.device.name(image, name),
            None => {}
        }
    }

    /// Where a buffer or an image is: the range that is farthest from the GPU, and the bytes in local memory.
    pub(super) fn residency(&self, resource: AllocationId) -> Result<(AllocationResidencyStatus, u64), Error> {
        let mut found = (AllocationResidencyStatus::ResidentInGpuMemory, 0);
        let record = self.objects.resources.get(resource);
        for (number, &allocation) in record.iter().flat_map(|record| record.allocations.iter().enumerate()) {
            let residency = self.vidmm.query_allocation_residency(allocation);
            let residency = residency.map_err(|error| Error::Lost(error.to_string()))?;
            if residency == AllocationResidencyStatus::ResidentInGpuMemory {
                found.1 += record.map_or(0, |record| record.range_size(number));
            }
            if residency as u32 > found.0 as u32 {
                found.0 = residency;
            }
        }
        Ok(found)
    }

    /// The statistics of all buffers and images.
    pub(super) fn allocation_statistics(&self) -> Result<Vec<AllocationStatistics>, Error> {
        let tell = |(id, record): (AllocationId, &ResourceRecord)| {
            let (residency, local_bytes) = self.residency(id)?;
            let frames = self.objects.devices.get(&record.device).and_then(|device| device.frames.as_ref());
            let is_held = |&managed: &Managed| frames.is_some_and(|frames| frames.has(managed));
            Ok(AllocationStatistics {
                allocation: self.names.of(id),
                device: record.device,
                bytes: record.bytes,
                ranges: record.allocations.len(),
                residency,
                local_bytes,
                listed: record.listed,
                is_offered: record.is_offered,
                is_held_by_frames: record.managed.iter().any(is_held),
            })
        };
        // A dropped allocation may still be in use, without a handle.
        self.objects.resources.all().filter(|(_, record)| !record.is_dropped).map(tell).collect()
    }
}
