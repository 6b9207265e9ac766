//! Calls that need room: frames give up allocations, and a refusal tells the caller's remedies.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use vidmm::{
    AllocationId, CreateError, DeviceId, MakeResidentError, MakeResidentFlags, NoMemoryReason, ReclaimError,
    ReclaimResult, Reclaimed, Residency, Shortage,
};

use super::super::command::{FrameAllocations, NamedRanges, Turn};
use super::super::error::Error;
use super::super::frame_list::FrameList;
use super::super::no_room::{ListRoom, NeedsRoom, NoRoom};
use super::super::objects::DeviceRecord;
use super::super::resources::ResourceRecord;
use super::Worker;

impl Worker {
    /// The worker's own failure, or else the answer to the caller.
    pub(super) fn make_resident(
        &mut self,
        device: DeviceId,
        allocations: &[AllocationId],
        flags: MakeResidentFlags,
        ready: u64,
    ) -> Result<Result<(), Error>, Error> {
        let Some(record) = self.objects.devices.get_mut(&device) else { return Ok(Ok(())) };
        for &allocation in allocations {
            let Some(resource) = self.objects.resources.get_mut(allocation) else { continue };
            resource.was_listed = true;
            if let Some(frames) = &mut record.frames {
                frames.expect_other_writers(resource);
            }
        }
        let all = self.objects.resources.allocations(allocations);
        record.ready.expect(ready);
        let queue = record.queue;
        let answer = loop {
            let answer = self.vidmm.make_resident(queue, &all, flags);
            match &answer {
                Err(MakeResidentError::NoMemory { reason, shortages, .. })
                    if self.make_room(device, *reason, shortages)? => {}
                _ => break answer,
            }
        };
        if answer.is_ok() {
            for &allocation in allocations {
                self.change(allocation, |record| record.listed += 1);
            }
        }
        let Some(record) = self.objects.devices.get_mut(&device) else { return Ok(Ok(())) };
        match answer {
            Ok(Residency::Pending { paging_fence_value }) => {
                record.requests.push_back((paging_fence_value, ready));
                return Ok(Ok(()));
            }
            _ => record.ready.come(&self.device, ready)?,
        }
        Ok(answer.map(drop).map_err(|error| match error {
            MakeResidentError::NoMemory { reason, num_bytes_to_trim, .. } => {
                let named = self.objects.resources.whole(allocations);
                self.no_room(device, NeedsRoom::MakeResident, &named, reason, num_bytes_to_trim)
            }
            error => error.into(),
        }))
    }

    pub(super) fn query_room(&self, device: DeviceId, allocations: &[AllocationId]) -> Result<ListRoom, Error> {
        let room = self.vidmm.query_room(device, &self.objects.resources.allocations(allocations))?;
        let frames = self.objects.devices.get(&device).and_then(|record| record.frames.as_ref());
        Ok(ListRoom { room, bytes_of_frames: frames.map_or(0, FrameList::listed_bytes) })
    }

    /// Frames of a device give up the bytes that a refusal misses, by the policy. Where the refusal is for the budget of the process,
    /// frames of the process's other devices follow. Returns whether any frame gave up an allocation.
    fn make_room(&mut self, device: DeviceId, reason: NoMemoryReason, shortages: &[Shortage]) -> Result<bool, Error> {
        let Self { objects, vidmm, .. } = self;
        let process = objects.devices.get(&device).map(|record| record.process);
        let is_of_process = matches!(
            reason,
            NoMemoryReason::OverBudget | NoMemoryReason::OverMaximumBudget | NoMemoryReason::OverShare
        );
        let may_help = |id, record: &DeviceRecord| id == device || is_of_process && Some(record.process) == process;
        let mut devices: Vec<_> = objects.devices.iter_mut().filter(|(id, record)| may_help(**id, record)).collect();
        devices.sort_by_key(|&(&id, _)| id != device);
        for frames in devices.into_iter().filter_map(|(_, record)| record.frames.as_mut()) {
            // The worker alone evicts what frames have brought in.
            if frames.make_room(vidmm, shortages).map_err(|error| Error::Lost(error.to_string()))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The worker's own failure, or else the answer to the caller.
    pub(super) fn reclaim(
        &mut self,
        device: DeviceId,
        allocations: &[AllocationId],
        ready: u64,
    ) -> Result<Result<Vec<ReclaimResult>, Error>, Error> {
        let Some(record) = self.objects.devices.get_mut(&device) else { return Ok(Ok(Vec::new())) };
        record.ready.expect(ready);
        let queue = record.queue;
        let all = self.objects.resources.allocations(allocations);
        let answer = loop {
            let answer = self.vidmm.reclaim_allocations(&mut self.host, queue, &all);
            match &answer {
                // Other devices are no reason: the list would not fit alone.
                Err(ReclaimError::NoMemory { shortages, .. })
                    if self.make_room(device, NoMemoryReason::DoesNotFit, shortages)? => {}
                _ => break answer,
            }
        };
        for &allocation in allocations.iter().filter(|_| answer.is_ok()) {
            self.change(allocation, |record| record.is_offered = false);
        }
        let Some(record) = self.objects.devices.get_mut(&device) else { return Ok(Ok(Vec::new())) };
        match answer {
            Ok(Reclaimed { paging_fence_value, .. }) if paging_fence_value > 0 => {
                record.requests.push_back((paging_fence_value, ready));
            }
            _ => record.ready.come(&self.device, ready)?,
        }
        Ok(answer.map(|reclaimed| self.of_each(allocations, &reclaimed.results)).map_err(|error| match error {
            ReclaimError::NoMemory { num_bytes_to_trim, shortages } => {
                let reason = shortages.first().map_or(NoMemoryReason::DoesNotFit, |shortage| shortage.reason);
                let named = self.objects.resources.whole(allocations);
                self.no_room(device, NeedsRoom::Reclaim, &named, reason, num_bytes_to_trim)
            }
            error => error.into(),
        }))
    }

    /// The worker's own failure, or else the answer to the caller.
    pub(super) fn begin_frame(
        &mut self,
        device: DeviceId,
        allocations: &FrameAllocations,
        turn: Turn,
    ) -> Result<Result<(), Error>, Error> {
        let Some(record) = self.objects.devices.get_mut(&device) else { return Ok(Ok(())) };
        record.frame_count += 1;
        let frame = NeedsRoom::Frame { device, number: record.frame_count };
        if record.frames.is_none() {
            if record.on_trim.is_none() {
                self.vidmm.register_trim_notification(device)?;
            }
            let frames =
                FrameList::new(&mut self.vidmm, device, record.queue, self.policy).map_err(CreateError::from)?;
            record.frames = Some(frames);
        }
        while let Err(error) = self.bring_in(device, allocations) {
            match error {
                // The device's own frames have given up all by then.
                Error::MakeResident(MakeResidentError::NoMemory { reason, ref shortages, .. })
                    if self.make_room(device, reason, shortages)? => {}
                Error::MakeResident(MakeResidentError::NoMemory { reason, num_bytes_to_trim, .. }) => {
                    let named = [&allocations.read[..], &allocations.written].concat();
                    return Ok(Err(self.no_room(device, frame, &named, reason, num_bytes_to_trim)));
                }
                Error::Lost(reason) => return Err(Error::Lost(reason)),
                refused => return Ok(Err(refused)),
            }
        }
        let number = self.queue_use(device, turn)?;
        let frames = self.objects.devices.get_mut(&device).and_then(|record| record.frames.as_mut());
        if let (Some(frames), Some(number)) = (frames, number) {
            frames.begun(number);
        }
        self.vacate()?;
        Ok(Ok(()))
    }

    /// The state of the content of each resource: lost if the content of a range is lost.
    fn of_each(&self, resources: &[AllocationId], results: &[ReclaimResult]) -> Vec<ReclaimResult> {
        let mut rest = results.iter().copied();
        let known = resources.iter().filter_map(|&resource| self.objects.resources.get(resource));
        let worst = |of: &mut dyn Iterator<Item = ReclaimResult>| of.max_by_key(|&result| result as u32);
        known.filter_map(|record| worst(&mut rest.by_ref().take(record.allocations.len()))).collect()
    }

    /// The refusal of a call, after frames have given up all they can.
    fn no_room(
        &self,
        device: DeviceId,
        call: NeedsRoom,
        named: &[NamedRanges],
        reason: NoMemoryReason,
        num_bytes_to_trim: u64,
    ) -> Error {
        let known = &self.objects.resources;
        let mut numbers: BTreeMap<AllocationId, BTreeSet<usize>> = BTreeMap::new();
        for NamedRanges { resource, ranges } in named {
            numbers.entry(*resource).or_default().extend(ranges.start as usize..ranges.end as usize);
        }
        let listed = |(id, record): &(AllocationId, &ResourceRecord)| {
            record.device == device && record.listed > 0 && !record.is_offered && !numbers.contains_key(id)
        };
        let of_call = numbers.iter().filter_map(|(&id, numbers)| {
            let record = known.get(id)?;
            Some((id, numbers.iter().map(|&number| record.range_size(number)).sum()))
        });
        let of_list = known.all().filter(listed).map(|(id, record)| (id, record.bytes));
        let named_with_bytes = |(id, bytes)| (self.names.of(id), bytes);
        let largest = of_call.clone().max_by_key(|&(id, bytes)| (bytes, Reverse(id)));
        let Some((mut largest, of_largest)) = largest.map(named_with_bytes) else {
            return Error::Lost(format!("{call} names nothing, and has no room"));
        };
        largest.range = known.get(largest.id).and_then(|record| record.around(&numbers[&largest.id]));
        let listed_bytes = of_list.clone().map(|(_, bytes)| bytes).sum();
        Error::NoRoom(Box::new(NoRoom {
            call,
            allocations: numbers.len(),
            ranges: numbers.values().map(BTreeSet::len).sum(),
            bytes: of_call.map(|(_, bytes)| bytes).sum(),
            largest: (largest, of_largest),
            reason,
            num_bytes_to_trim: if num_bytes_to_trim <= listed_bytes { num_bytes_to_trim } else { 0 },
            listed_bytes,
            largest_listed: of_list.max_by_key(|&(id, bytes)| (bytes, Reverse(id))).map(named_with_bytes),
        }))
    }
}
