//! MakeResident and Evict (RES-10..RES-24).

use alloc::vec::Vec;

use super::admission::Admission;
use crate::{
    allocation::{Allocation, AllocationState},
    error::{DeviceErrorReason, EvictError, MakeResidentError, NoMemoryReason},
    event::Event,
    id::{AllocationId, AllocationIx, DeviceId, DeviceIx, PagingQueueId, PagingQueueIx},
    place::Place,
    planted::PlantedBug,
    pool::{PerPool, Pool},
    request::{Request, RequestKind},
    residency::{EntryFlags, EvictFlags, MakeResidentFlags},
    state::VidMm,
    units::Extent,
};

/// How many requests of a device may wait for their end (D14).
pub(crate) const REQUESTS_MAX: usize = 4096;

/// What MakeResident answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub enum Residency {
    /// All are resident and can be used now (RES-11, paging fence value 0).
    #[doc(alias = "S_OK")]
    Resident,
    /// They can be used when the paging queue's fence has reached this value. Work submitted after the call waits for it by
    /// itself.
    #[doc(alias = "E_PENDING")]
    Pending {
        /// The value.
        paging_fence_value: u64,
    },
}

impl VidMm {
    /// Adds `allocations` to the residency list of the queue's device, each as often as it is named (RES-02).
    ///
    /// Work submitted after the call requires them, until [`evict`](Self::evict) was called as often. The answer is
    /// [`Residency::Resident`] if all are in place and nothing is under way for them, and nothing that the device asked for
    /// earlier is pending (RES-16, U-25).
    ///
    /// A list that fits beside those of all other processes is always accepted. If they do not fit together, memory is short:
    /// then a process may have its budget (RES-53), with CANT_TRIM_FURTHER up to the maximum budget (RES-15), and devices run in
    /// turn (RES-71).
    ///
    /// # Errors
    ///
    /// [`MakeResidentError::NoMemory`] if that is not enough. Any error leaves the list as it was (RES-11); with MUST_SUCCEED
    /// NoMemory also puts the device in error.
    #[doc(alias = "D3DKMTMakeResident")]
    #[doc(alias = "D3DDDI_MAKERESIDENT")]
    pub fn make_resident(
        &mut self,
        paging_queue: PagingQueueId,
        allocations: &[AllocationId],
        flags: MakeResidentFlags,
    ) -> Result<Residency, MakeResidentError> {
        let queue = self.paging_queues.lookup(paging_queue)?;
        let device = self.paging_queues[queue].device;
        self.check_device(device)?;
        if allocations.is_empty() {
            return Err(MakeResidentError::Empty);
        }
        if flags.contains(MakeResidentFlags::MUST_SUCCEED) && !flags.contains(MakeResidentFlags::CANT_TRIM_FURTHER) {
            return Err(MakeResidentError::Flags);
        }
        let pending = self.devices[device].requests.len();
        if pending >= REQUESTS_MAX {
            return Err(MakeResidentError::TooManyPending { pending });
        }
        let indices = self.joining(device, allocations)?;
        let not_held = self.count_in(device, allocations, &indices, flags)?;

        let at_once = self.can_join_at_once(device, &indices, not_held);
        let books = &self.devices[device];
        let paging_fence_value = if at_once { 0 } else { self.paging_queues[queue].last_value + 1 };
        let (device_id, after_submission) = (self.devices.id(device), books.submitted);
        self.events.record(|| Event::MakeResident {
            device: device_id,
            queue: paging_queue,
            allocations: allocations.to_vec(),
            flags,
            after_submission,
            paging_fence_value,
        });
        if at_once {
            self.keep_all(indices.iter().copied());
            self.assign_where_shown(indices.iter().copied());
            self.withdraw_promise(device);
            for index in indices {
                let effect = self.allocations[index].entry_mut(device).join_granted();
                self.apply(index, device, effect);
            }
            self.renew_promise(device);
            return Ok(Residency::Resident);
        }
        let join = |index| {
            let entry = self.allocations[index].entry_mut(device);
            (index, entry.join_ungranted(&mut self.spans))
        };
        let items = indices.into_iter().map(join).collect();
        self.request(queue, RequestKind::MakeResident(items));
        Ok(Residency::Pending { paging_fence_value })
    }

    /// Takes `allocations` off the device's list, each as often as it is named (RES-02).
    ///
    /// Work submitted before still has them; work submitted later must not use them (RES-20). Memory is given up when that
    /// work has ended: soon, or only when it is wanted, as `flags` say (RES-21). Returns how many bytes the process should still
    /// trim to meet its budget; 0 is none (RES-23).
    ///
    /// # Errors
    ///
    /// If the device is in error, or an allocation is not on the list that often. The list is then as it was.
    #[doc(alias = "D3DKMTEvict")]
    #[doc(alias = "D3DKMT_EVICT")]
    pub fn evict(
        &mut self,
        device: DeviceId,
        allocations: &[AllocationId],
        flags: EvictFlags,
    ) -> Result<u64, EvictError> {
        let device_index = self.devices.lookup(device)?;
        self.check_device(device_index)?;
        if self.devices[device_index].has_reference_lists() {
            return Err(EvictError::ReferenceLists);
        }
        if allocations.is_empty() {
            return Err(EvictError::Empty);
        }
        let mut indices = Vec::with_capacity(allocations.len());
        for &id in allocations {
            indices.push(self.lookup_allocation(id)?);
        }
        self.count_out(device_index, &indices)?;

        let last = self.devices[device_index].submitted;
        let mut left: PerPool<u64> = PerPool::default();
        self.withdraw_promise(device_index);
        for index in indices {
            let allocation = &mut self.allocations[index];
            if allocation.state.contains(AllocationState::OFFERED) {
                self.leave_offered(index);
                continue;
            }
            let entry = allocation.entry_mut(device_index);
            if self.adapter.has_bug(PlantedBug::EvictTwice) && entry.count > 1 {
                entry.count -= 1;
            }
            let effect = entry.leave(last, flags, &mut self.spans);
            if entry.count == 0 {
                left[allocation.pool()] += allocation.size;
            } else if flags.contains(EvictFlags::NOT_WRITTEN_TO) {
                self.devices[device_index].not_written.push(index);
            }
            self.apply(index, device_index, effect);
        }
        self.renew_promise(device_index);
        for pool in Pool::ALL.into_iter().filter(|&pool| left[pool] > 0) {
            self.set_list_bytes(device_index, pool, self.devices[device_index].list[pool].now() - left[pool]);
        }
        let num_bytes_to_trim = self.num_bytes_to_trim(self.devices[device_index].process);
        self.events.record(|| Event::Evict {
            device,
            allocations: allocations.to_vec(),
            flags,
            after_submission: last,
            num_bytes_to_trim,
        });
        self.stirred = true;
        Ok(num_bytes_to_trim)
    }

    /// What allocations are that may join the device's list.
    fn joining(&self, device: DeviceIx, allocations: &[AllocationId]) -> Result<Vec<AllocationIx>, MakeResidentError> {
        let mut indices = Vec::with_capacity(allocations.len());
        for (position, &id) in allocations.iter().enumerate() {
            let index = self.lookup_allocation(id)?;
            let allocation = &self.allocations[index];
            if !allocation.is_open_on(device) {
                return Err(MakeResidentError::WrongDevice { position });
            }
            if allocation.state.contains(AllocationState::OFFERED) {
                return Err(MakeResidentError::Offered { position });
            }
            if allocation.state.contains(AllocationState::NOT_COMMITTED) {
                return Err(MakeResidentError::NotCommitted { position });
            }
            indices.push(index);
        }
        Ok(indices)
    }

    /// Counts allocations as often as they are named, and adds to the device's list what is not on it yet, if that fits.
    /// Returns the bytes of what joins it and is not held in place.
    fn count_in(
        &mut self,
        device: DeviceIx,
        allocations: &[AllocationId],
        indices: &[AllocationIx],
        flags: MakeResidentFlags,
    ) -> Result<PerPool<u64>, MakeResidentError> {
        let mut admission = self.admission(device, indices, None);
        if admission.refused.is_some() {
            self.undo_admission(&admission, indices);
            admission = self.admission(device, indices, Some(flags));
        }
        let Some(reason) = admission.refused else {
            self.accept_admission(&admission);
            return Ok(admission.not_held);
        };
        self.undo_admission(&admission, indices);
        let cant_trim = flags.contains(MakeResidentFlags::CANT_TRIM_FURTHER);
        let reason = match reason {
            NoMemoryReason::OverBudget if cant_trim => NoMemoryReason::OverMaximumBudget,
            other => other,
        };
        let (num_bytes_to_trim, device_id) = (admission.num_bytes_to_trim, self.devices.id(device));
        self.events.record(|| Event::MakeResidentRefused {
            device: device_id,
            allocations: allocations.to_vec(),
            flags,
            num_bytes_to_trim,
            reason,
        });
        if flags.contains(MakeResidentFlags::MUST_SUCCEED) {
            self.put_device_in_error(device, DeviceErrorReason::OutOfMemory);
        }
        Err(MakeResidentError::NoMemory { num_bytes_to_trim, reason })
    }

    /// Whether allocations join the device's list without a request: it has its turn, nothing is ahead of them, and they are in
    /// place (RES-16, U-25). `not_held` are the bytes of those that join it and that it does not hold: what was on the list of
    /// such a device before, it holds.
    pub(super) fn can_join_at_once(&self, device: DeviceIx, indices: &[AllocationIx], not_held: PerPool<u64>) -> bool {
        let books = &self.devices[device];
        books.granted == books.requests.len()
            && self.recovery.is_working()
            && books.is_active()
            && books.turn.plans.is_empty()
            && indices.iter().all(|&index| self.is_in_place(index))
            && self.may_hold(device, not_held)
            && self.packs_with(device, indices.iter().copied())
    }

    /// What joins a list at once is in place; where it is shown in the aperture, the range is its own from now on.
    pub(super) fn assign_where_shown(&mut self, indices: impl Iterator<Item = AllocationIx>) {
        for index in indices {
            let Allocation { place, size, .. } = self.allocations[index];
            if let Some(Place::Aperture(page)) = place
                && self.aperture.assigned(index).is_none()
            {
                self.aperture.assign(index, size, Some(page.bytes()));
            }
        }
    }

    /// Counts allocations as often as they are named, and finds room for what is not on the device's list yet.
    fn admission(
        &mut self,
        device: DeviceIx,
        indices: &[AllocationIx],
        entitled: Option<MakeResidentFlags>,
    ) -> Admission {
        let mut admission = self.begin_admission(device, entitled);
        for &index in indices {
            let count = &mut self.allocations[index].entry_mut(device).count;
            *count += 1;
            if *count == 1 {
                self.admit(&mut admission, index);
            }
        }
        admission
    }

    /// Checks that each allocation is on the device's list as often as it is named.
    fn count_out(&mut self, device: DeviceIx, indices: &[AllocationIx]) -> Result<(), EvictError> {
        // Counts go down, so that an allocation named twice is counted twice, and up again.
        let left = indices.iter().position(|&index| {
            let count = self.count_mut(device, index).filter(|count| **count > 0);
            count.map(|count| *count -= 1).is_none()
        });
        for &index in &indices[..left.unwrap_or(indices.len())] {
            *self.count_mut(device, index).expect("it was counted") += 1;
        }
        left.map_or(Ok(()), |position| Err(EvictError::NotResident { position }))
    }

    /// The device submits work, which may write what was said not to be written before.
    pub(super) fn forget_not_written(&mut self, device: DeviceIx) {
        if self.devices[device].not_written.is_empty() {
            return;
        }
        for index in core::mem::take(&mut self.devices[device].not_written) {
            let is_there = self.allocations.contains(index);
            if is_there && self.allocations[index].entry(device).is_some() {
                self.allocations[index].entry_mut(device).is -= EntryFlags::NOT_WRITTEN;
            }
        }
    }

    /// How often the device's list names the allocation; while it is offered, how often it will again. None if it is not open
    /// on the device.
    fn count_mut(&mut self, device: DeviceIx, index: AllocationIx) -> Option<&mut u32> {
        let allocation = &mut self.allocations[index];
        if !allocation.is_open_on(device) {
            return None;
        }
        if allocation.state.contains(AllocationState::OFFERED) {
            return self.offers.get_mut(&index).map(|offer| &mut offer.count);
        }
        Some(&mut allocation.entry_mut(device).count)
    }

    /// Whether the allocation is where it is to be, with its content, and nothing is under way for it.
    pub(super) fn is_in_place(&self, index: AllocationIx) -> bool {
        self.is_placed(index) && self.stream.is_retired(self.allocations[index].last_plan)
    }

    /// Whether it is decided that the allocation is where its device's list counts it.
    pub(crate) fn is_placed(&self, index: AllocationIx) -> bool {
        let allocation = &self.allocations[index];
        match allocation.place {
            Some(Place::Memory(_)) => allocation.pool() == Pool::Memory,
            Some(Place::System) => {
                allocation.pool() == Pool::System && !allocation.state.contains(AllocationState::ACCESSED_PHYSICALLY)
            }
            Some(Place::Aperture(offset)) => {
                let shown = Extent { offset: offset.bytes(), size: allocation.size };
                // Without GPU virtual addresses nothing keeps a range for what nothing holds.
                let can_be_had = || self.adapter.is_physical() && self.aperture.is_unassigned(shown);
                let is_counted_there = allocation.pool() == Pool::System;
                is_counted_there && self.aperture.assigned(index).map_or_else(can_be_had, |range| range == shown)
            }
            None => false,
        }
    }

    /// Appends a request of the queue's device.
    pub(crate) fn request(&mut self, queue: PagingQueueIx, kind: RequestKind) {
        let books = &mut self.paging_queues[queue];
        books.last_value += 1;
        books.pending += 1;
        let (device_index, fence_value) = (books.device, books.last_value);
        let device = &mut self.devices[device_index];
        device.last_request += 1;
        self.arrivals += 1;
        device.requests.push_back(Request {
            number: device.last_request,
            arrival: self.arrivals,
            queue,
            fence_value,
            position: device.submitted,
            kind,
            plans: Vec::new(),
            paging_fence: 0,
        });
        self.requesting.insert(device_index);
        self.stirred = true;
    }
}
