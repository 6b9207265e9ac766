//! The commands of applications, as calls of the manager.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use vidmm::contract::{AllocationFlags, AllocationFlags2};
use vidmm::{
    AllocationId, DestroyFlags, DeviceId, MapGpuVirtualAddress, OfferFlags, PAGE_SIZE, PAGE_SIZE_64K, ProcessId,
};
use vidmm_runtime::{AllocationSegments, Placement};
use vidmm_soft::AllocationPrivateData;

use crate::device::Point;
use crate::error::VulkanError;
use crate::sparse::SparseResource;

use super::super::command::{
    Command, CreateAllocation, FrameAllocations, NewAllocation, NewDevice, NewResource, OnTrim, Turn,
};
use super::super::error::Error;
use super::super::frame_list::{FrameList, FrameMember};
use super::super::objects::{AllocationRecord, DeviceRecord, ProcessRecord, Ready};
use super::Worker;

impl Worker {
    pub(super) fn handle(&mut self, command: Command) -> Result<(), Error> {
        match command {
            Command::CreateProcess(reply) => {
                let _ = reply.send(self.create_process());
            }
            Command::DestroyProcess(process) => {
                if let Some(record) = self.objects.processes.get_mut(&process) {
                    record.is_closing = true;
                }
                self.close_process(process);
            }
            Command::CreateDevice { process, uses, reply } => {
                let _ = reply.send(self.create_device(process, uses));
            }
            Command::DestroyDevice(device) => {
                if let Some(record) = self.objects.devices.get_mut(&device) {
                    record.is_closing = true;
                }
                self.close_device(device)?;
            }
            Command::CreateAllocation { device, desc, reply } => {
                // Allocations that were dropped before and are unused give their addresses and backing store back first.
                self.pump()?;
                let _ = reply.send(self.create_allocation(device, desc));
            }
            Command::DestroyAllocation(allocation) => {
                if let Some(frames) = self.frames_of(allocation) {
                    frames.forget(allocation);
                }
                self.objects.allocations.entry(allocation).and_modify(|record| record.is_dropped = true);
                // The worker alone destroys allocations, each once.
                let _ = self.vidmm.destroy_allocation(&mut self.host, allocation, DestroyFlags::SYNCHRONOUS_DESTROY);
            }
            Command::MakeResident { device, allocations, flags, ready, reply } => {
                let made = self.make_resident(device, &allocations, flags, ready)?;
                let _ = reply.send(made);
            }
            Command::Evict { device, allocations, flags } => {
                // The application's own list was looked at before.
                self.vidmm.evict(device, &allocations, flags).map_err(|error| Error::Lost(error.to_string()))?;
                for allocation in allocations {
                    self.objects.allocations.entry(allocation).and_modify(|record| record.listed -= 1);
                }
            }
            Command::Announce { device, allocations } => {
                // A device in error lists nothing any more, and what the application names lives.
                let _ = self.vidmm.announce(device, &allocations);
            }
            Command::Offer { device, allocations, priority, reply } => {
                let offered = self.vidmm.offer_allocations(device, &allocations, priority, OfferFlags::empty());
                for allocation in allocations.iter().filter(|_| offered.is_ok()) {
                    self.objects.allocations.entry(*allocation).and_modify(|record| record.is_offered = true);
                }
                let _ = reply.send(offered.map_err(Error::from));
            }
            Command::Reclaim { device, allocations, ready, reply } => {
                let reclaimed = self.reclaim(device, &allocations, ready)?;
                let _ = reply.send(reclaimed);
            }
            Command::Begin { device, turn } => {
                self.queue_use(device, turn)?;
                self.vacate()?;
            }
            Command::BeginFrame { device, allocations, turn, reply } => {
                let begun = self.begin_frame(device, &allocations, turn)?;
                let _ = reply.send(begun);
            }
            Command::End { number, at } => self.turns.tell(number, at),
            Command::OnTrim { device, call } => self.listen(device, call)?,
            Command::Budget { process, group, reply } => {
                let info = self.vidmm.query_video_memory_info(process, group);
                let _ = reply.send(info.map_err(|error| Error::Lost(error.to_string())));
            }
            Command::Residency { allocation, reply } => {
                let status = self.vidmm.query_allocation_residency(allocation);
                let _ = reply.send(status.map_err(|error| Error::Lost(error.to_string())));
            }
            Command::RestrictLocalMemory(bytes) => self.restrict_local_memory(bytes),
            Command::PinLocalMemory { bytes, reply } => {
                let _ = reply.send(self.pin_local_memory(bytes));
            }
            Command::UnpinLocalMemory(bytes) => self.unpin_local_memory(bytes),
            Command::LocalMemory(reply) => {
                let _ = reply.send(Ok(self.local_memory()));
            }
            Command::Statistics(reply) => {
                let _ = reply.send(Ok(self.vidmm.statistics()));
            }
            Command::Allocations(reply) => {
                let _ = reply.send(self.allocation_statistics());
            }
            Command::Name { allocation, name } => self.name(allocation, &name),
            Command::Release { allocation, listed } => self.release(allocation, listed)?,
            // The next round finds out which have ended.
            Command::PagingEnded | Command::UseEnded => {}
            Command::Failed(error) => return Err(error.into()),
            Command::Stop => self.stopping = Some(Instant::now()),
        }
        Ok(())
    }

    fn create_process(&mut self) -> Result<ProcessId, Error> {
        let process = self.vidmm.create_process(&mut self.kmd, &mut self.host)?;
        // The driver's handles rise: the last is the new one's.
        let handle = self.kmd.processes().next_back();
        let handle = handle.ok_or_else(|| Error::Lost("the driver has lost a process".to_owned()))?;
        self.objects.processes.insert(process, ProcessRecord { handle, devices: 0, is_closing: false });
        Ok(process)
    }

    /// The point before the first of a device: of a new semaphore, or of one whose device is gone.
    fn first_point(&mut self) -> Result<Point, VulkanError> {
        match self.free_points.pop() {
            Some(point) => Ok(point),
            None => Ok(Point { semaphore: self.device.new_semaphore()?, value: 0 }),
        }
    }

    fn create_device(&mut self, process: ProcessId, uses: Arc<AtomicUsize>) -> Result<NewDevice, Error> {
        let (ready, done) = (self.first_point()?, self.first_point()?);
        let device = self.vidmm.create_device(process)?;
        let made = self
            .vidmm
            .create_paging_queue(device, 0)
            .and_then(|queue| Ok((queue, self.vidmm.create_self_scheduled_context(device)?)));
        let (queue, context) = match made {
            Ok(made) => made,
            Err(error) => {
                // It was just created.
                let _ = self.vidmm.destroy_device(&mut self.kmd, &mut self.host, device);
                self.free_points.extend([ready, done]);
                return Err(error.into());
            }
        };
        let record = DeviceRecord {
            process,
            queue,
            context,
            ready: Ready::new(ready),
            done,
            requests: VecDeque::new(),
            uses,
            allocations: 0,
            on_trim: None,
            frames: None,
            frame_count: 0,
            is_closing: false,
        };
        self.objects.devices.insert(device, record);
        self.objects.queues.insert(queue, device);
        if let Some(process) = self.objects.processes.get_mut(&process) {
            process.devices += 1;
        }
        Ok(NewDevice { device, ready, done })
    }

    fn create_allocation(&mut self, device: DeviceId, desc: CreateAllocation) -> Result<NewAllocation, Error> {
        let CreateAllocation { resource, segments, notify_eviction } = desc;
        let resource = match resource {
            NewResource::Buffer { bytes, usage } => SparseResource::for_application(&self.device, bytes, usage)?,
            NewResource::Image(desc) => desc.create(&self.device)?,
        };
        let foreign = notify_eviction.map(|record| self.paging.memory().borrow_mut().foreign().insert(record));
        let created = self.create_for(device, resource, segments, foreign);
        created.inspect_err(|_| self.forget_foreign(foreign))
    }

    /// No paging names an application's commands any more.
    pub(super) fn forget_foreign(&self, foreign: Option<u32>) {
        if let Some(token) = foreign {
            self.paging.memory().borrow_mut().foreign().remove(token);
        }
    }

    fn create_for(
        &mut self,
        device: DeviceId,
        resource: SparseResource,
        segments: AllocationSegments,
        foreign: Option<u32>,
    ) -> Result<NewAllocation, Error> {
        let bytes = resource.bytes().next_multiple_of(PAGE_SIZE_64K);
        let mut flags2 = AllocationFlags2::empty();
        flags2.set(AllocationFlags2::NOTIFY_EVICTION, foreign.is_some());
        let data = AllocationPrivateData {
            size: bytes,
            allocation_priority: 0,
            flags: AllocationFlags::empty(),
            flags2,
            segments,
            surface: None,
            foreign,
            placement: Placement::default(),
        };
        let gone = || Error::Lost("a device has no record".to_owned());
        let record = self.objects.devices.get(&device).ok_or_else(gone)?;
        let (queue, process) = (record.queue, record.process);
        let process = self.objects.processes.get(&process).ok_or_else(gone)?.handle;
        let (raw, address) = (resource.raw(), resource.address);
        let data = data.to_bytes();
        let allocation = match self.vidmm.create_allocation(&mut self.kmd, &mut self.host, device, &data) {
            Ok(allocation) => allocation,
            Err(error) => {
                resource.destroy_unused();
                return Err(error.into());
            }
        };
        let desc = MapGpuVirtualAddress::whole(allocation);
        let mapped = self.vidmm.map_gpu_virtual_address(&mut self.host, queue, &desc).map_err(Error::from);
        let reserved = mapped.and_then(|mapped| {
            let first = mapped.virtual_address.0 / PAGE_SIZE;
            let mut memory = self.paging.memory().borrow_mut();
            memory.reserve(process, first, bytes / PAGE_SIZE, resource).map_err(|error| match error {
                VulkanError::OutOfAddresses { limit } => Error::Addresses { limit },
                error => error.into(),
            })?;
            Ok(first)
        });
        match reserved {
            Ok(first) => {
                self.objects.allocations.insert(
                    allocation,
                    AllocationRecord {
                        device,
                        process,
                        first,
                        bytes,
                        foreign,
                        listed: 0,
                        is_offered: false,
                        is_dropped: false,
                        was_listed: false,
                    },
                );
                if let Some(record) = self.objects.devices.get_mut(&device) {
                    record.allocations += 1;
                }
                Ok(NewAllocation { id: allocation, bytes, raw, address })
            }
            Err(error) => {
                // It was just created.
                let _ = self.vidmm.destroy_allocation(&mut self.host, allocation, DestroyFlags::empty());
                Err(error)
            }
        }
    }

    /// The list of the frames of an allocation's device.
    pub(super) fn frames_of(&mut self, allocation: AllocationId) -> Option<&mut FrameList> {
        let device = self.objects.allocations.get(&allocation)?.device;
        self.objects.devices.get_mut(&device)?.frames.as_mut()
    }

    /// Brings in what a frame names.
    pub(super) fn bring_in(&mut self, device: DeviceId, allocations: &FrameAllocations) -> Result<(), Error> {
        let Self { objects, vidmm, .. } = self;
        let frames = objects.devices.get_mut(&device).and_then(|record| record.frames.as_mut());
        let Some(frames) = frames else { return Ok(()) };
        let known = &objects.allocations;
        let member = |&allocation| {
            let &AllocationRecord { bytes, was_listed, .. } = known.get(&allocation)?;
            Some(FrameMember { allocation, bytes, is_written_by_others: was_listed })
        };
        let [read, written] = [&allocations.read, &allocations.written].map(|names| names.iter().filter_map(member));
        frames.bring_in(vidmm, read, written)
    }

    /// Begins a use. Returns its number, unless the device is gone.
    pub(super) fn queue_use(&mut self, device: DeviceId, turn: Turn) -> Result<Option<u64>, Error> {
        let Some(record) = self.objects.devices.get_mut(&device) else { return Ok(None) };
        if let Turn::Application { ready, .. } = turn {
            record.ready.expect(ready);
        }
        let context = record.context;
        // The number of a device's uses is bounded before.
        let number = self.vidmm.begin_use(context).map_err(|error| Error::Lost(error.to_string()))?;
        self.turns.wait(context, number, device, turn);
        Ok(Some(number))
    }

    fn listen(&mut self, device: DeviceId, call: OnTrim) -> Result<(), Error> {
        let Some(record) = self.objects.devices.get_mut(&device) else { return Ok(()) };
        if record.on_trim.replace(call).is_none() && record.frames.is_none() {
            self.vidmm.register_trim_notification(device)?;
        }
        Ok(())
    }
}
