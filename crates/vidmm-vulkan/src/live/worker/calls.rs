//! The commands of applications, as calls of the manager.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Instant;

use vidmm::{AllocationId, DestroyFlags, DeviceId, OfferFlags, ProcessId};

use crate::device::Point;
use crate::error::VulkanError;

use super::super::command::{Command, FrameAllocations, NewDevice, OnTrim, Turn};
use super::super::error::Error;
use super::super::objects::{DeviceRecord, ProcessRecord, Ready};
use super::super::resources::ResourceRecord;
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
                let created = self.create_allocation(device, desc)?;
                let _ = reply.send(created);
            }
            Command::DestroyAllocation(allocation) => self.destroy(allocation, DestroyFlags::empty()),
            Command::MakeResident { device, allocations, flags, ready, reply } => {
                let made = self.make_resident(device, &allocations, flags, ready)?;
                let _ = reply.send(made);
            }
            Command::QueryRoom { device, allocations, reply } => {
                let _ = reply.send(self.query_room(device, &allocations));
            }
            Command::Evict { device, allocations, flags } => {
                // The application's own list was looked at before.
                let all = self.objects.resources.allocations(&allocations);
                self.vidmm.evict(device, &all, flags).map_err(|error| Error::Lost(error.to_string()))?;
                for allocation in allocations {
                    self.change(allocation, |record| record.listed -= 1);
                }
            }
            Command::Announce { device, allocations } => {
                // A device in error lists nothing any more, and what the application names lives.
                let _ = self.vidmm.announce(device, &self.objects.resources.of_ranges(&allocations));
            }
            Command::Offer { device, allocations, priority, reply } => {
                let all = self.objects.resources.allocations(&allocations);
                let offered = self.vidmm.offer_allocations(device, &all, priority, OfferFlags::empty());
                for &allocation in allocations.iter().filter(|_| offered.is_ok()) {
                    self.change(allocation, |record| record.is_offered = true);
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
                let _ = reply.send(self.residency(allocation).map(|(residency, _)| residency));
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
        let handle = self.kmd.last_process();
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
            resources: 0,
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

    /// Changes the record of a buffer or an image.
    pub(super) fn change(&mut self, resource: AllocationId, change: impl FnOnce(&mut ResourceRecord)) {
        self.objects.resources.get_mut(resource).map(change);
    }

    /// Brings in what a frame names.
    pub(super) fn bring_in(&mut self, device: DeviceId, allocations: &FrameAllocations) -> Result<(), Error> {
        let Self { objects, vidmm, .. } = self;
        let frames = objects.devices.get_mut(&device).and_then(|record| record.frames.as_mut());
        let Some(frames) = frames else { return Ok(()) };
        frames.bring_in(vidmm, &mut objects.resources, allocations)
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
