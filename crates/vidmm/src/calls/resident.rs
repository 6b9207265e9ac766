//! MakeResident and Evict (RES-10..RES-24).

use super::{
    admission::{Admission, Terms},
    candidates::{self, Joining, Joins, Named},
    refusal::{self, Refusal},
};
use crate::{
    budget::account::{Account, PerAccount},
    calls::admission,
    event::{
        Event,
        error::{DeviceErrorReason, EvictError, MakeResidentError},
        list_flags::{EvictFlags, MakeResidentFlags},
    },
    id::{AllocationId, AllocationIx, DeviceId, DeviceIx, InvalidHandle, PagingQueueId, PagingQueueIx},
    manager::VidMm,
    objects::{Objects, allocation::AllocationState, list::Leave, request::RequestKind},
    recovery::device_error,
    requests::Requests,
    residency::{packing, place, rehoming, weight},
    schedule::Schedule,
    state::State,
    work::Work,
};
use alloc::vec::Vec;

/// The number of requests of a device that may wait for their end (D14).
pub(crate) const REQUESTS_MAX: usize = 4096;

/// The answer of MakeResident.
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

/// Where an allocation is resident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[doc(alias = "D3DKMT_ALLOCATIONRESIDENCYSTATUS")]
pub enum AllocationResidencyStatus {
    /// In a memory segment.
    ResidentInGpuMemory,
    /// In system memory, where the GPU reaches it.
    ResidentInSharedMemory,
    /// Nowhere: its content is in its backing store, or it has none.
    NotResident,
}

/// # Residency: MakeResident and Evict
impl VidMm {
    /// Where an allocation is resident, or is on its way to (RES-76). Whether it is still there at the next poll only a list decides.
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    #[doc(alias = "D3DKMTQueryAllocationResidency")]
    pub fn query_allocation_residency(
        &self,
        allocation: AllocationId,
    ) -> Result<AllocationResidencyStatus, InvalidHandle> {
        let index = self.state.objects.lookup_allocation(allocation)?;
        Ok(match self.state.objects[index].place {
            None => AllocationResidencyStatus::NotResident,
            Some(place) if place.account() == Account::SYSTEM => AllocationResidencyStatus::ResidentInSharedMemory,
            Some(_) => AllocationResidencyStatus::ResidentInGpuMemory,
        })
    }

    /// Adds `allocations` to the residency list of the queue's device, each as often as it is named (RES-02).
    ///
    /// Work submitted after the call requires them, until [`evict`](Self::evict) was called as often. The answer is
    /// [`Residency::Resident`] if all are in place and nothing is under way for them, and no earlier request of the
    /// device is pending (RES-16, U-25).
    ///
    /// A list that fits beside those of all other processes is always accepted. If they do not fit together, memory is short:
    /// then a process may have its budget (RES-53), with CANT_TRIM_FURTHER up to the maximum budget (RES-15), and devices run in
    /// turn (RES-71).
    ///
    /// # Errors
    ///
    /// [`MakeResidentError::NoMemory`] if that is not enough. The amount to trim follows from the budget at the call, published or not
    /// (RES-13). Any error leaves the list as it was (RES-11); with MUST_SUCCEED NoMemory also puts the device in error.
    #[doc(alias = "D3DKMTMakeResident")]
    #[doc(alias = "D3DDDI_MAKERESIDENT")]
    pub fn make_resident(
        &mut self,
        paging_queue: PagingQueueId,
        allocations: &[AllocationId],
        flags: MakeResidentFlags,
    ) -> Result<Residency, MakeResidentError> {
        let queue = self.state.objects.paging_queues.lookup(paging_queue)?;
        let device = self.state.objects[queue].device;
        self.state.objects.check_device(&self.state.moment, device)?;
        if allocations.is_empty() {
            return Err(MakeResidentError::Empty);
        }
        if flags.contains(MakeResidentFlags::MUST_SUCCEED) && !flags.contains(MakeResidentFlags::CANT_TRIM_FURTHER) {
            return Err(MakeResidentError::Flags);
        }
        let pending = self.state.objects[device].requests.len();
        if pending >= REQUESTS_MAX {
            return Err(MakeResidentError::TooManyPending { pending });
        }
        let named = name(&self.state.objects, device, allocations)?;
        let counted = count_in(&mut self.state, &self.work, &mut self.schedule, device, &named, flags)
            .map_err(|refusal| self.refuse_make_resident(device, allocations, flags, refusal))?;

        let joins = |&index: &AllocationIx| {
            self.state.objects[index].entry(device).is_some_and(|entry| entry.count == 1).then_some(index)
        };
        self.state.residency.note_joined(&self.state.objects, named.indices.iter().filter_map(joins));
        let ranges = named.indices.iter().copied().filter(|_| named.has_ranges);
        let may_join = counted.rehomed.is_empty() && may_join_at_once(&self.state, device, ranges, &counted.not_pinned);
        let mut at_once = named.indices;
        let waits = |index: &AllocationIx| !(may_join && self.plans.is_in_place(&self.state, *index));
        // Nearly always all are in place, or none is.
        let waiting = match at_once.iter().position(waits) {
            None => Vec::new(),
            Some(first) => Vec::from_iter(at_once.extract_if(first.., |index| waits(index))),
        };
        let record = &self.state.objects[device];
        let paging_fence_value = if waiting.is_empty() { 0 } else { self.state.objects[queue].last_value + 1 };
        let (device_id, after_submission) = (self.state.objects.devices.id(device), record.submitted);
        self.state.moment.record(|| Event::MakeResident {
            device: device_id,
            queue: paging_queue,
            allocations: allocations.to_vec(),
            flags,
            after_submission,
            paging_fence_value,
            waiting: waiting.iter().map(|&index| self.state.objects.allocations.id(index)).collect(),
        });
        join(&mut self.state, &mut self.requests, queue, &at_once, waiting, counted.rehomed);
        match paging_fence_value {
            0 => Ok(Residency::Resident),
            _ => Ok(Residency::Pending { paging_fence_value }),
        }
    }

    /// Takes `allocations` off the device's list, each as often as it is named (RES-02).
    ///
    /// Work submitted before still has them; work submitted later must not use them (RES-20). Memory is given up when
    /// that work has ended: soon, or only when it is wanted, as `flags` say (RES-21). Returns the bytes that the
    /// process should still trim to meet its budget; 0 is none (RES-23).
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
        let device_index = self.state.objects.devices.lookup(device)?;
        self.state.objects.check_device(&self.state.moment, device_index)?;
        if self.state.objects[device_index].has_reference_lists() {
            return Err(EvictError::ReferenceLists);
        }
        if allocations.is_empty() {
            return Err(EvictError::Empty);
        }
        let left = lower_counts(&mut self.state.objects, device_index, allocations)?;
        let is_hastened = self.state.adapter.verifier.hastens_evictions();
        let flags = if is_hastened { flags.difference(EvictFlags::EVICT_ONLY_IF_NECESSARY) } else { flags };

        let State { moment, objects, memory, residency, .. } = &mut self.state;
        let last = objects[device_index].submitted;
        let mut bytes: PerAccount<u64> = memory.accounts().none();
        for (index, left) in left {
            let allocation = &objects[index];
            if !allocation.is(AllocationState::OFFERED) {
                bytes[allocation.counted_in()] += if left == 0 { allocation.size } else { 0 };
                residency.leave(moment, objects, memory, index, device_index, Leave { left, last, flags });
            } else if left == 0 {
                residency.unpin(moment, objects, memory, index);
            }
        }
        self.state.shares.renew_promise(&mut self.state.objects, device_index);
        for account in self.state.memory.accounts().iter().filter(|&account| bytes[account] > 0) {
            let bytes = self.state.objects[device_index].list[account].now() - bytes[account];
            self.state.shares.set_list_bytes(&mut self.state.objects, device_index, account, bytes);
        }
        let num_bytes_to_trim = self.state.shares.num_bytes_to_trim(self.state.objects[device_index].process);
        self.state.moment.record(|| Event::Evict {
            device,
            allocations: allocations.to_vec(),
            flags,
            after_submission: last,
            num_bytes_to_trim,
        });
        Ok(num_bytes_to_trim)
    }

    /// Records a MakeResident that is refused. With MUST_SUCCEED its device is in error.
    fn refuse_make_resident(
        &mut self,
        device: DeviceIx,
        allocations: &[AllocationId],
        flags: MakeResidentFlags,
        Refusal { shortages, reason }: Refusal,
    ) -> MakeResidentError {
        let device_id = self.state.objects.device_id(device);
        let (num_bytes_to_trim, shortages) = (shortages.num_bytes_to_trim(), shortages.told(&self.state.adapter));
        self.state.moment.record(|| Event::MakeResidentRefused {
            device: device_id,
            allocations: allocations.to_vec(),
            flags,
            num_bytes_to_trim,
            reason,
            shortages: shortages.clone(),
        });
        if flags.contains(MakeResidentFlags::MUST_SUCCEED) {
            let reason = DeviceErrorReason::OutOfMemory;
            device_error::put_device_in_error(&mut self.state, &mut self.requests, &mut self.work, device, reason);
        }
        MakeResidentError::NoMemory { num_bytes_to_trim, reason, shortages }
    }
}

/// The allocations of a call, if all may join the device's list.
pub(crate) fn name(
    objects: &Objects,
    device: DeviceIx,
    allocations: &[AllocationId],
) -> Result<Named, MakeResidentError> {
    let mut named = Named { indices: Vec::with_capacity(allocations.len()), has_ranges: false };
    for (position, &id) in allocations.iter().enumerate() {
        let (index, allocation) = objects.find_allocation(id)?;
        if !allocation.is_open_on(device) {
            return Err(MakeResidentError::WrongDevice { position });
        }
        if allocation.is(AllocationState::OFFERED) {
            return Err(MakeResidentError::Offered { position });
        }
        if allocation.is(AllocationState::NOT_COMMITTED) {
            return Err(MakeResidentError::NotCommitted { position });
        }
        named.indices.push(index);
        named.has_ranges |= weight::is_one_range(allocation);
    }
    Ok(named)
}

/// Counts each allocation as often as named, and adds the joining allocations to the device's list, if all fit.
fn count_in(
    state: &mut State,
    work: &Work,
    schedule: &mut Schedule,
    device: DeviceIx,
    named: &Named,
    flags: MakeResidentFlags,
) -> Result<Admission, Refusal> {
    let joining = raise_counts(state, device, named);
    let admission = [Terms::Beside, Terms::Entitled(flags)]
        .into_iter()
        .find_map(|terms| admission::admit(state, &joining, terms))
        .map_or_else(|| search(state, &joining, flags), Ok);
    match &admission {
        Ok(admission) => {
            admission.accept(state, schedule, work);
            for &Joins { index, .. } in &joining.allocations {
                let (allocation, record) = state.objects.records(index, device);
                weight::note_listed(record, allocation, true);
                rehoming::note_choice(&mut state.objects, device, index);
            }
        }
        Err(_) => named.indices.iter().for_each(|&index| state.objects[index].entry_mut(device).count -= 1),
    }
    admission
}

/// Searches homes for the joining allocations, and for the movable allocations of the list (D30).
fn search(state: &mut State, joining: &Joining<'_>, flags: MakeResidentFlags) -> Result<Admission, Refusal> {
    rehoming::strike_out_unlisted(&mut state.objects, joining.device);
    let candidates = candidates::counted(candidates::candidates(state, joining));
    admission::assign(state, joining, &candidates, Terms::Entitled(flags))
        .map_err(|within| refusal::refuse(state, joining, &candidates, flags, within))
}

/// Whether allocations that are in place join the device's list without a request: the device has its turn, and nothing is ahead of
/// them (RES-16, U-25). `not_pinned` are the bytes of those that join it and that it does not pin: such a device pins all that was on
/// its list before.
pub(crate) fn may_join_at_once(
    state: &State,
    device: DeviceIx,
    joining: impl Iterator<Item = AllocationIx> + Clone,
    not_pinned: &PerAccount<u64>,
) -> bool {
    let record = &state.objects[device];
    record.granted == record.requests.len()
        && state.engines.recovery.is_working()
        && record.is_active()
        && record.turn.plans.is_empty()
        && state.shares.may_pin(&state.objects, &state.memory, device, not_pinned)
        && packing::packs_with(&state.objects, &state.memory, device, joining)
}

/// Allocations that have been counted join the list of a queue's device: at once, or with a request, which moves the homes of others too.
pub(crate) fn join(
    state: &mut State,
    requests: &mut Requests,
    queue: PagingQueueIx,
    at_once: &[AllocationIx],
    waiting: Vec<AllocationIx>,
    rehomed: Vec<AllocationIx>,
) {
    let State { objects, memory, shares, residency, .. } = state;
    let device = objects[queue].device;
    let from = objects[device].submitted;
    for &index in at_once {
        place::assign_where_shown(objects, memory, index);
        residency.join_granted(objects, index, device, from);
    }
    shares.renew_promise(objects, device);
    let ask =
        |index: AllocationIx| (index, objects[index].entry_mut(device).join_ungranted(from, &mut residency.spans));
    let items = Vec::from_iter(waiting.into_iter().map(ask));
    if !items.is_empty() {
        let items = items.into_iter().chain(rehomed.into_iter().map(|index| (index, None))).collect();
        requests.request(objects, queue, RequestKind::MakeResident(items));
    }
}

/// Counts each allocation as often as named. Returns the joining allocations.
fn raise_counts<'c>(state: &mut State, device: DeviceIx, named: &'c Named) -> Joining<'c> {
    let State { objects, memory, residency, .. } = state;
    let mut allocations = Vec::with_capacity(named.indices.len());
    for &index in &named.indices {
        if objects[index].entry_mut(device).count == 0 {
            allocations.push(Joins::of(residency, objects, index, device));
        }
        objects[index].entry_mut(device).count += 1;
    }
    Joining::new(objects, memory, device, named, allocations)
}

/// Lowers the count of each allocation as often as named. Returns the allocations, each with the count that is left.
fn lower_counts(
    objects: &mut Objects,
    device: DeviceIx,
    allocations: &[AllocationId],
) -> Result<Vec<(AllocationIx, u32)>, EvictError> {
    let mut lowered = Vec::with_capacity(allocations.len());
    let mut refusal = None;
    for (position, &id) in allocations.iter().enumerate() {
        match objects.lookup_allocation(id) {
            Ok(index) if refusal.is_none() => match count_mut(objects, device, index).filter(|count| **count > 0) {
                Some(count) => {
                    *count -= 1;
                    lowered.push((index, *count));
                }
                None => refusal = Some(EvictError::NotResident { position }),
            },
            Ok(_) => {}
            // A handle that names nothing is answered before all else.
            Err(invalid) => {
                refusal = Some(invalid.into());
                break;
            }
        }
    }
    let Some(refusal) = refusal else { return Ok(lowered) };
    for (index, _) in lowered {
        *count_mut(objects, device, index).expect("the allocation has been counted") += 1;
    }
    Err(refusal)
}

/// The number of times that the device's list names the allocation, or will name it again when it is reclaimed. None if
/// it is not open on the device.
#[inline(always)]
fn count_mut(objects: &mut Objects, device: DeviceIx, index: AllocationIx) -> Option<&mut u32> {
    let allocation = &mut objects[index];
    if !allocation.is_open_on(device) {
        return None;
    }
    if allocation.is(AllocationState::OFFERED) {
        return allocation.offered_count_mut();
    }
    Some(&mut allocation.entry_mut(device).count)
}
