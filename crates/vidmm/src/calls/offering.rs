//! Offer and Reclaim (RES-60..RES-68).

use super::resident::REQUESTS_MAX;
use crate::{
    budget::account::PerAccount,
    calls::{refusal::Shortages, resident},
    contract::Host,
    event::{
        Event,
        error::{NoMemoryReason, OfferError, ReclaimError},
        list_flags::EvictFlags,
        offer::{Offer, OfferFlags, OfferPriority, ReclaimResult},
    },
    id::{AllocationId, AllocationIx, DeviceId, DeviceIx, PagingQueueId},
    manager::VidMm,
    objects::{allocation::AllocationState, device::DeferredAction},
    plans::Plans,
    requests::Requests,
    residency::{offers, packing, rehoming, weight},
    schedule::turns,
    state::State,
    work::Work,
};
use alloc::{collections::BTreeSet, vec::Vec};

/// The answer of Reclaim.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub struct Reclaimed {
    /// The state of each allocation's content, in the order of the call.
    pub results: Vec<ReclaimResult>,
    /// The value of the paging queue's fence from which on the GPU can use those that are on the device's list; 0 is at once.
    /// The CPU can lock all of them at once (RES-65).
    pub paging_fence_value: u64,
}

/// # Residency: Offer and Reclaim
impl VidMm {
    /// Offers allocations: once the work submitted before has ended, their memory may be used for others, and their content
    /// is then lost (RES-61). They stay where they are until memory is wanted; then they go before any other, those of lower
    /// priority and those offered earlier first (U-37).
    ///
    /// They stay on their device's list with their counts, but the list does not require them, and they do not count in the
    /// process's usage. Between Offer and Reclaim they can be neither locked nor made resident, and work must not use them
    /// (RES-62); Evict lowers their counts as ever.
    ///
    /// # Errors
    ///
    /// If an allocation is offered already, locked, shared, or another device's. None is then offered.
    #[doc(alias = "D3DKMTOfferAllocations")]
    pub fn offer_allocations(
        &mut self,
        device: DeviceId,
        allocations: &[AllocationId],
        priority: OfferPriority,
        flags: OfferFlags,
    ) -> Result<(), OfferError> {
        let device_index = self.state.objects.devices.lookup(device)?;
        self.state.objects.check_device(&self.state.moment, device_index)?;
        if self.state.objects[device_index].has_reference_lists() {
            return Err(OfferError::ReferenceLists);
        }
        if allocations.is_empty() {
            return Err(OfferError::Empty);
        }
        let mut indices = Vec::with_capacity(allocations.len());
        let mut named = BTreeSet::new();
        for (position, &id) in allocations.iter().enumerate() {
            let index = self.state.objects.lookup_allocation(id)?;
            let allocation = &self.state.objects[index];
            if allocation.device != device_index {
                return Err(OfferError::WrongDevice { position });
            }
            if allocation.is(AllocationState::OFFERED) || !named.insert(index) {
                return Err(OfferError::Offered { position });
            }
            if allocation.is(AllocationState::LOCKED) {
                return Err(OfferError::Locked { position });
            }
            if allocation.is(AllocationState::EXISTING_SYS_MEM) {
                return Err(OfferError::ExistingSysMem { position });
            }
            if allocation.openings().any(|opening| !opening.is_closed) {
                return Err(OfferError::Shared { position });
            }
            if allocation.is(AllocationState::NOT_COMMITTED) {
                return Err(OfferError::NotCommitted { position });
            }
            indices.push(index);
        }
        let is_discarded = self.state.adapter.verifier.always_discard_offer;
        let flags = if is_discarded { flags | OfferFlags::OFFER_IMMEDIATELY } else { flags };
        let after_submission = self.state.objects[device_index].submitted;
        self.state.moment.record(|| Event::Offered {
            device,
            allocations: allocations.to_vec(),
            priority,
            flags,
            after_submission,
        });
        indices
            .into_iter()
            .for_each(|index| offer(&mut self.state, &mut self.requests, device_index, index, priority, flags));
        Ok(())
    }

    /// Reclaims offered allocations, and returns the state of their content. Those on the device's list are brought in,
    /// as by MakeResident, whatever the budget says (RES-65).
    ///
    /// # Errors
    ///
    /// If an allocation is not offered, or another device's, or the device's list would not fit even alone with the
    /// allocations that come back to it. None is then reclaimed.
    #[doc(alias = "D3DKMTReclaimAllocations2")]
    pub fn reclaim_allocations(
        &mut self,
        host: &mut dyn Host,
        paging_queue: PagingQueueId,
        allocations: &[AllocationId],
    ) -> Result<Reclaimed, ReclaimError> {
        let queue = self.state.objects.paging_queues.lookup(paging_queue)?;
        let device = self.state.objects[queue].device;
        self.state.objects.check_device(&self.state.moment, device)?;
        if allocations.is_empty() {
            return Err(ReclaimError::Empty);
        }
        let pending = self.state.objects[device].requests.len();
        if pending >= REQUESTS_MAX {
            return Err(ReclaimError::TooManyPending { pending });
        }
        let mut indices = Vec::with_capacity(allocations.len());
        let mut named = BTreeSet::new();
        for (position, &id) in allocations.iter().enumerate() {
            let index = self.state.objects.lookup_allocation(id)?;
            let allocation = &self.state.objects[index];
            if allocation.device != device {
                return Err(ReclaimError::WrongDevice { position });
            }
            if !allocation.is(AllocationState::OFFERED) || !named.insert(index) {
                return Err(ReclaimError::NotOffered { position });
            }
            indices.push(index);
        }

        check_fits_again(&self.state, device, &indices)?;
        let mut results = Vec::with_capacity(indices.len());
        let (mut joining, mut counts) = (Vec::new(), Vec::new());
        for &index in &indices {
            let (result, count) = reclaim(&mut self.state, &self.plans, host, index);
            results.push(result);
            if count > 0 {
                joining.push(index);
                counts.push(count);
            }
        }
        let not_pinned = count_in_again(&mut self.state, &self.work, device, &joining);
        let at_once = joining.is_empty()
            || joining.iter().all(|&index| self.plans.is_in_place(&self.state, index))
                && resident::may_join_at_once(&self.state, device, joining.iter().copied(), &not_pinned);
        let paging_fence_value = if at_once { 0 } else { self.state.objects[queue].last_value + 1 };
        let (device_id, after_submission) =
            (self.state.objects.devices.id(device), self.state.objects[device].submitted);
        let record = &self.state.objects.allocations;
        self.state.moment.record(|| Event::Reclaimed {
            device: device_id,
            queue: paging_queue,
            allocations: allocations.to_vec(),
            results: results.clone(),
            backing_stores: indices.iter().map(|&index| record[index].backing_store).collect(),
            after_submission,
            paging_fence_value,
        });
        for (&index, count) in joining.iter().zip(counts) {
            self.state.objects[index].entry_mut(device).count = count;
            let (allocation, record) = self.state.objects.records(index, device);
            weight::note_listed(record, allocation, true);
            rehoming::note_choice(&mut self.state.objects, device, index);
            // While offered, the allocation was on no list, and so not away.
            if self.state.objects[index].homes_differ() && !self.state.adapter.is_physical() {
                self.schedule.turns.note_away(device, index, self.state.moment.now());
            }
        }
        let (at_once, waiting) = if at_once { (joining, Vec::new()) } else { (Vec::new(), joining) };
        resident::join(&mut self.state, &mut self.requests, queue, &at_once, waiting, Vec::new());
        Ok(Reclaimed { results, paging_fence_value })
    }
}

pub(crate) fn offer(
    state: &mut State,
    requests: &mut Requests,
    device: DeviceIx,
    index: AllocationIx,
    priority: OfferPriority,
    flags: OfferFlags,
) {
    let allocation = &mut state.objects[index];
    let priority = priority.resolved(allocation.priority);
    let count = allocation.entry_mut(device).count;
    state.objects.begin_offer(index, Offer { count, priority, flags });
    state.leave_list(index, device, EvictFlags::EVICT_ONLY_IF_NECESSARY);
    state.residency.reclassify(&mut state.objects, index);
    if flags.contains(OfferFlags::OFFER_IMMEDIATELY) {
        requests.defer(&mut state.objects, device, DeferredAction::Discard(index));
    }
}

/// Checks that the device's list fits alone with the allocations that come back to it: then its turn comes (D3).
fn check_fits_again(state: &State, device: DeviceIx, indices: &[AllocationIx]) -> Result<(), ReclaimError> {
    let mut shortages = Shortages::default();
    let (mut is_refused, mut is_enough) = (false, true);
    // Reclaimed allocations keep their homes.
    let is_there = |index: &&AllocationIx| state.objects.allocations.contains(**index);
    let has_choice = |&index: &AllocationIx| state.objects[index].allowed_homes().len() > 1;
    let may_be_elsewhere = indices.iter().chain(&state.objects[device].with_choice).filter(is_there).any(has_choice);
    let has_ranges = indices.iter().any(|&index| weight::is_one_range(&state.objects[index]));
    let mut packing = has_ranges.then(|| packing::packing_room(&state.objects, &state.memory, device));
    for account in state.memory.accounts().iter() {
        let comes_back = |&index: &AllocationIx| {
            offers::is_listed_offered(&state.objects, index) && state.objects[index].counted_in() == account
        };
        let mut list = state.objects[device].list[account].now();
        let mut misplaced = 0;
        for index in indices.iter().copied().filter(comes_back) {
            let home = state.objects[index].home_on_list();
            if let Some(packing) = &mut packing {
                let footprint = weight::footprint(&state.objects[index], home);
                misplaced = packing[home].missing_for(footprint).max(misplaced);
                packing[home] = packing[home].with(footprint);
            }
            list += state.objects[index].size;
        }
        let missing = i128::from(list) - i128::from(state.memory.list_capacity(account));
        is_refused |= missing > 0 || misplaced > 0;
        let reason = match missing > 0 {
            true if may_be_elsewhere => NoMemoryReason::HeldForNow,
            true => NoMemoryReason::DoesNotFit,
            false => NoMemoryReason::Fragmented,
        };
        let (listed, bytes) = (state.objects[device].list[account].now(), missing.max(misplaced).max(0).unsigned_abs());
        is_enough &= bytes <= u128::from(listed);
        shortages.add(account, u64::try_from(bytes).unwrap_or(u64::MAX), reason);
    }
    if !is_refused {
        return Ok(());
    }
    let shortages = if is_enough { shortages.told(&state.adapter) } else { Vec::new() };
    let num_bytes_to_trim = shortages.iter().map(|shortage| shortage.num_bytes_to_trim).fold(0, u64::saturating_add);
    Err(ReclaimError::NoMemory { num_bytes_to_trim, shortages })
}

/// Ends an offer. Returns the state of the content, and the allocation's count on its device's list from now on.
pub(crate) fn reclaim(
    state: &mut State,
    plans: &Plans,
    host: &mut dyn Host,
    index: AllocationIx,
) -> (ReclaimResult, u32) {
    let (offer, discarded) = state.residency.end_offer(&mut state.objects, index).expect("it was found to be offered");
    let allocation = &state.objects[index];
    if !allocation.is(AllocationState::NOT_COMMITTED) {
        let result = if discarded { ReclaimResult::Discarded } else { ReclaimResult::Ok };
        return (result, offer.count);
    }
    let size = allocation.size;
    match plans.commit_backing_store(state, host, size) {
        Ok(backing_store) => {
            state.objects[index].commit(backing_store.offset);
            (ReclaimResult::Discarded, offer.count)
        }
        Err(_) => {
            if offer.count > 0 {
                state.residency.unpin(&mut state.moment, &mut state.objects, &mut state.memory, index);
            }
            (ReclaimResult::NotCommitted, 0)
        }
    }
}

/// Puts offered allocations back on the device's list. Their homes are the same: room was kept there for them. Returns
/// the bytes of those that are not pinned.
fn count_in_again(state: &mut State, work: &Work, device: DeviceIx, joining: &[AllocationIx]) -> PerAccount<u64> {
    let accounts = state.memory.accounts();
    let (mut added, mut not_pinned): (PerAccount<u64>, PerAccount<u64>) = (accounts.none(), accounts.none());
    for &index in joining {
        let (account, allocation) = (state.objects[index].counted_in(), &state.objects[index]);
        added[account] += allocation.size;
        if !allocation.is_pinned_by(device) {
            not_pinned[account] += allocation.size;
        }
    }
    turns::change_list(state, work, device, &added, &accounts.none());
    not_pinned
}
