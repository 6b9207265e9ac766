//! Offer and Reclaim (RES-60..RES-68).

use alloc::{collections::BTreeSet, vec::Vec};

use crate::{
    allocation::AllocationState,
    contract::{BackingStoreError, Host},
    error::{OfferError, ReclaimError},
    event::Event,
    id::{AllocationId, AllocationIx, DeviceId, DeviceIx, PagingQueueId, PagingQueueIx},
    offer::{Offer, OfferFlags, OfferPriority, ReclaimResult},
    planted::PlantedBug,
    pool::{PerPool, Pool},
    request::RequestKind,
    residency::EvictFlags,
    state::{DeferredAction, VidMm},
    units::PhysicalAddress,
};

use super::resident::REQUESTS_MAX;

/// What Reclaim answers.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub struct Reclaimed {
    /// What became of each allocation's content, in the order of the call.
    pub results: Vec<ReclaimResult>,
    /// The value of the paging queue's fence from which on the GPU can use those that are on the device's list; 0 is at once.
    /// The CPU can lock all of them at once (RES-65).
    pub paging_fence_value: u64,
}

/// An allocation that is on its device's list again, and how often.
struct Listed {
    index: AllocationIx,
    count: u32,
}

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
        let device_index = self.devices.lookup(device)?;
        self.check_device(device_index)?;
        if self.devices[device_index].has_reference_lists() {
            return Err(OfferError::ReferenceLists);
        }
        if allocations.is_empty() {
            return Err(OfferError::Empty);
        }
        let mut indices = Vec::with_capacity(allocations.len());
        let mut named = BTreeSet::new();
        for (position, &id) in allocations.iter().enumerate() {
            let index = self.lookup_allocation(id)?;
            let allocation = &self.allocations[index];
            if allocation.device != device_index {
                return Err(OfferError::WrongDevice { position });
            }
            if allocation.state.contains(AllocationState::OFFERED) || !named.insert(index) {
                return Err(OfferError::Offered { position });
            }
            if allocation.state.contains(AllocationState::LOCKED) {
                return Err(OfferError::Locked { position });
            }
            if allocation.state.contains(AllocationState::EXISTING_SYS_MEM) {
                return Err(OfferError::ExistingSysMem { position });
            }
            if allocation.openings().any(|opening| !opening.is_closed) {
                return Err(OfferError::Shared { position });
            }
            if allocation.state.contains(AllocationState::NOT_COMMITTED) {
                return Err(OfferError::NotCommitted { position });
            }
            indices.push(index);
        }
        let after_submission = self.devices[device_index].submitted;
        self.events.record(|| Event::Offered {
            device,
            allocations: allocations.to_vec(),
            priority,
            flags,
            after_submission,
        });
        indices.into_iter().for_each(|index| self.offer(device_index, index, priority, flags));
        self.stirred = true;
        Ok(())
    }

    fn offer(&mut self, device: DeviceIx, index: AllocationIx, priority: OfferPriority, flags: OfferFlags) {
        let allocation = &mut self.allocations[index];
        let priority = priority.resolved(allocation.priority);
        let count = allocation.entry_mut(device).count;
        allocation.state |= AllocationState::OFFERED;
        // An earlier Evict no longer hastens it: it stays where it is until memory is wanted.
        allocation.state -= AllocationState::EVICT_SOON | AllocationState::LOCK_PENDING;
        self.offers.insert(index, Offer { count, priority, flags });
        self.leave_list(index, device, EvictFlags::EVICT_ONLY_IF_NECESSARY);
        self.reclassify(index);
        if flags.contains(OfferFlags::OFFER_IMMEDIATELY) {
            self.defer(device, DeferredAction::Discard(index));
        }
    }

    /// Takes offered allocations back, and says what became of their content. Those on the device's list are brought in, as
    /// by MakeResident, whatever the budget says (RES-65).
    ///
    /// # Errors
    ///
    /// If an allocation is not offered, or another device's, or the device's list would not fit even alone with what comes
    /// back to it. None is then reclaimed.
    #[doc(alias = "D3DKMTReclaimAllocations2")]
    pub fn reclaim_allocations(
        &mut self,
        host: &mut dyn Host,
        paging_queue: PagingQueueId,
        allocations: &[AllocationId],
    ) -> Result<Reclaimed, ReclaimError> {
        let queue = self.paging_queues.lookup(paging_queue)?;
        let device = self.paging_queues[queue].device;
        self.check_device(device)?;
        if allocations.is_empty() {
            return Err(ReclaimError::Empty);
        }
        let pending = self.devices[device].requests.len();
        if pending >= REQUESTS_MAX {
            return Err(ReclaimError::TooManyPending { pending });
        }
        let mut indices = Vec::with_capacity(allocations.len());
        let mut named = BTreeSet::new();
        for (position, &id) in allocations.iter().enumerate() {
            let index = self.lookup_allocation(id)?;
            let allocation = &self.allocations[index];
            if allocation.device != device {
                return Err(ReclaimError::WrongDevice { position });
            }
            if !allocation.state.contains(AllocationState::OFFERED) || !named.insert(index) {
                return Err(ReclaimError::NotOffered { position });
            }
            indices.push(index);
        }

        self.check_fits_again(device, &indices)?;
        let mut results = Vec::with_capacity(indices.len());
        let mut listed = Vec::new();
        for &index in &indices {
            let (result, count) = self.reclaim(host, index);
            results.push(result);
            if count > 0 {
                listed.push(Listed { index, count });
            }
        }
        let not_held = self.count_in_again(device, &listed);
        let joining: Vec<AllocationIx> = listed.iter().map(|listed| listed.index).collect();
        let at_once = joining.is_empty() || self.can_join_at_once(device, &joining, not_held);
        let paging_fence_value = if at_once { 0 } else { self.paging_queues[queue].last_value + 1 };
        let (device_id, after_submission) = (self.devices.id(device), self.devices[device].submitted);
        let books = &self.allocations;
        self.events.record(|| Event::Reclaimed {
            device: device_id,
            queue: paging_queue,
            allocations: allocations.to_vec(),
            results: results.clone(),
            backing_stores: indices.iter().map(|&index| books[index].backing_store).collect(),
            after_submission,
            paging_fence_value,
        });
        if at_once {
            self.assign_where_shown(joining.into_iter());
        }
        self.join_again(queue, listed, at_once);
        self.stirred = true;
        Ok(Reclaimed { results, paging_fence_value })
    }

    /// The device's list must fit alone with what comes back to it: then its turn comes (D3).
    fn check_fits_again(&self, device: DeviceIx, indices: &[AllocationIx]) -> Result<(), ReclaimError> {
        let mut num_bytes_to_trim = 0;
        let packing = self.packing_room(device);
        for pool in Pool::ALL {
            let comes_back =
                |&&index: &&AllocationIx| self.is_listed_offered(index) && self.allocations[index].pool() == pool;
            let sum = |bytes: &dyn Fn(AllocationIx) -> u64| -> u64 {
                indices.iter().filter(comes_back).map(|&index| bytes(index)).sum()
            };
            let list = self.devices[device].list[pool].now() + sum(&|index| self.allocations[index].size);
            let missing = i128::from(list) - i128::from(self.list_capacity(pool));
            let misplaced = i128::from(sum(&|index| self.weight(index, pool))) - packing[pool];
            num_bytes_to_trim += u64::try_from(missing.max(misplaced).max(0)).unwrap_or(u64::MAX);
        }
        if num_bytes_to_trim > 0 { Err(ReclaimError::NoMemory { num_bytes_to_trim }) } else { Ok(()) }
    }

    /// Ends an offer. Returns what became of the content, and how often the allocation is on its device's list from now on.
    fn reclaim(&mut self, host: &mut dyn Host, index: AllocationIx) -> (ReclaimResult, u32) {
        let discarded = self.allocations[index].state.contains(AllocationState::DISCARDED)
            && !self.adapter.has_bug(PlantedBug::ReclaimDiscarded);
        let offer = self.end_offer(index).expect("it was found to be offered");
        let allocation = &self.allocations[index];
        if !allocation.state.contains(AllocationState::NOT_COMMITTED) {
            let result = if discarded { ReclaimResult::Discarded } else { ReclaimResult::Ok };
            return (result, offer.count);
        }
        let size = allocation.size;
        match self.commit_backing_store(host, size) {
            Ok(backing_store) => {
                let allocation = &mut self.allocations[index];
                allocation.backing_store = backing_store.offset;
                allocation.state -= AllocationState::NOT_COMMITTED;
                (ReclaimResult::Discarded, offer.count)
            }
            Err(_) => {
                if offer.count > 0 {
                    self.let_go(index);
                }
                (ReclaimResult::NotCommitted, 0)
            }
        }
    }

    /// Forgets that an allocation is offered, if it is. It is on no list until it joins one again.
    pub(crate) fn end_offer(&mut self, index: AllocationIx) -> Option<Offer> {
        let offer = self.offers.remove(&index)?;
        let allocation = &mut self.allocations[index];
        allocation.state -= AllocationState::OFFERED | AllocationState::DISCARDED;
        self.reclassify(index);
        Some(offer)
    }

    /// An Evict of an offered allocation: it will be on the list once less when it is reclaimed. The count must be above 0.
    pub(super) fn leave_offered(&mut self, index: AllocationIx) {
        let offer = self.offers.get_mut(&index).expect("an offered allocation has an offer");
        offer.count -= 1;
        if offer.count == 0 {
            self.let_go(index);
        }
    }

    /// Whether the allocation is offered, and will be on its device's list again when it is reclaimed.
    pub(crate) fn is_listed_offered(&self, index: AllocationIx) -> bool {
        self.offers.get(&index).is_some_and(|offer| offer.count > 0)
    }

    /// Puts what was offered back on the device's list. Where it is counted is what it was: room was kept there for it. Returns
    /// the bytes of what is not held in place.
    fn count_in_again(&mut self, device: DeviceIx, listed: &[Listed]) -> PerPool<u64> {
        let (mut added, mut not_held): (PerPool<u64>, PerPool<u64>) = Default::default();
        for &Listed { index, .. } in listed {
            let allocation = &self.allocations[index];
            added[allocation.pool()] += allocation.size;
            if !allocation.is_held_by(device) {
                not_held[allocation.pool()] += allocation.size;
            }
        }
        self.add_to_list(device, added);
        not_held
    }

    fn join_again(&mut self, queue: PagingQueueIx, listed: Vec<Listed>, at_once: bool) {
        let mut items = Vec::new();
        let device = self.paging_queues[queue].device;
        for Listed { index, count } in listed {
            let entry = self.allocations[index].entry_mut(device);
            if at_once {
                let effect = entry.join_granted();
                entry.count = count;
                self.withdraw_promise(device);
                self.apply(index, device, effect);
                self.renew_promise(device);
            } else {
                items.push((index, entry.join_ungranted(&mut self.spans)));
                entry.count = count;
            }
        }
        if !items.is_empty() {
            self.request(queue, RequestKind::MakeResident(items));
        }
    }

    /// Commits a backing store. Where the host has none left, offered allocations that allow it are decommitted for it, those
    /// of lower priority first.
    pub(super) fn commit_backing_store(
        &mut self,
        host: &mut dyn Host,
        size: u64,
    ) -> Result<PhysicalAddress, BackingStoreError> {
        if self.adapter.has_bug(PlantedBug::DecommitUnasked) {
            self.decommit_offered(host, self.decommittable(), size);
        }
        host.commit_backing_store(size).or_else(|error| {
            let offered = self.decommittable();
            if offered.is_empty() {
                return Err(error);
            }
            self.events.record(|| Event::BackingStoreRefused { size });
            self.decommit_offered(host, offered, size);
            host.commit_backing_store(size)
        })
    }

    /// Offered allocations that allow it and are in no memory, the least wanted first.
    fn decommittable(&self) -> Vec<AllocationIx> {
        let mut candidates: Vec<(OfferPriority, AllocationIx)> = Vec::new();
        for (&index, offer) in &self.offers {
            let allocation = &self.allocations[index];
            let can_go = offer.flags.contains(OfferFlags::ALLOW_DECOMMIT)
                && self.is_discardable(index)
                && allocation.place.is_none()
                && !allocation.state.contains(AllocationState::NOT_COMMITTED)
                && self.stream.is_retired(allocation.last_plan);
            if can_go {
                candidates.push((offer.priority, index));
            }
        }
        candidates.sort_unstable();
        candidates.into_iter().map(|(_, index)| index).collect()
    }

    /// Decommits those of `offered`, in their order, until `size` bytes are free.
    fn decommit_offered(&mut self, host: &mut dyn Host, offered: Vec<AllocationIx>, size: u64) {
        let mut freed = 0;
        for index in offered {
            if freed >= size {
                break;
            }
            self.note_discarded(index);
            self.decommit(host, index);
            freed += self.allocations[index].size;
        }
    }
}
