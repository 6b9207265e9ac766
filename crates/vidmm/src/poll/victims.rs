//! Room: who goes for what comes, in the documented order (CRE-31a), and who of them stays resident elsewhere.

use alloc::vec::Vec;

use super::draft::Draft;
use crate::{
    allocation::AllocationState,
    buggify::Unlikely,
    event::EvictReason,
    evictable::Class,
    extents::Extents,
    id::{AllocationIx, DeviceIx},
    offer::OfferPriority,
    planted::PlantedBug,
    pool::Pool,
    residency::ListEntry,
    state::VidMm,
    units::Extent,
};

impl VidMm {
    /// Takes `bytes` of the memory segment, making victims until there is room.
    pub(super) fn take(&mut self, draft: &mut Draft, bytes: u64) -> Extents {
        while self.placer.available() < bytes || self.evicts_more(Pool::Memory) {
            let (victim, reason) = self.next_victim(Pool::Memory);
            self.plan_out(draft, victim, reason);
            if self.can_be_demoted(victim) {
                self.demote(draft, victim);
            }
        }
        let number = self.stream.next_number();
        let takes_early = self.adapter.has_bug(PlantedBug::TakeEarly);
        self.placer.pages().take(bytes, |plan| {
            if plan != number && !takes_early {
                draft.plan.follow(plan);
            }
        })
    }

    /// Makes victims until `index` fits under the commit limit, and its range of the aperture is free.
    pub(super) fn make_commit_room(&mut self, draft: &mut Draft, index: AllocationIx) {
        if let Some(range) = self.aperture.assigned(index) {
            for occupant in Vec::from_iter(self.aperture.shown_in(range)) {
                self.plan_out(draft, occupant, self.reason(occupant, EvictReason::RangeWanted));
            }
        }
        while self.commit.available() < self.allocations[index].size || self.evicts_more(Pool::System) {
            let (victim, reason) = self.next_victim(Pool::System);
            self.plan_out(draft, victim, reason);
        }
    }

    /// Whether one more goes than must.
    fn evicts_more(&mut self, pool: Pool) -> bool {
        self.buggify.makes(Unlikely::EvictMore) && self.evictable[pool].iter(&self.allocations).next().is_some()
    }

    /// Who goes next, in the documented order (CRE-31a).
    fn next_victim(&self, pool: Pool) -> (AllocationIx, EvictReason) {
        let victim = self.evictable[pool].iter(&self.allocations).next();
        let victim = victim.expect("a decision is made only when what is evictable makes enough room");
        (victim, self.reason(victim, EvictReason::RoomWanted))
    }

    /// Why an allocation goes: what is dead goes for that, whatever else is wanted of it, and what is offered, unless its
    /// own range is wanted.
    pub(super) fn reason(&self, index: AllocationIx, otherwise: EvictReason) -> EvictReason {
        match (self.class_of(index), otherwise) {
            (Class::Dead, _) => EvictReason::Destroyed,
            (_, EvictReason::RangeWanted) => EvictReason::RangeWanted,
            (Class::OfferedLow | Class::OfferedNormal | Class::OfferedHigh, _) => EvictReason::Offered,
            (Class::DeviceSuspended, EvictReason::RoomWanted) => EvictReason::DeviceSuspended,
            (Class::NotRequired | Class::DeviceSuspended, _) => otherwise,
        }
    }

    /// Whether the content of an allocation is lost when it leaves the place where it is.
    pub(super) fn is_worthless(&self, index: AllocationIx) -> bool {
        self.is_dead(index) || self.is_discardable(index)
    }

    /// Whether an allocation was destroyed and no work will use it (RES-91).
    pub(crate) fn is_dead(&self, index: AllocationIx) -> bool {
        self.allocations[index].state.contains(AllocationState::DESTROYED) && self.is_done_with(index)
    }

    /// Whether an allocation is offered and no work that was submitted before will use it (RES-61).
    pub(crate) fn is_discardable(&self, index: AllocationIx) -> bool {
        self.allocations[index].state.contains(AllocationState::OFFERED) && self.is_done_with(index)
    }

    /// Whether nothing that was submitted and not dispatched requires the allocation. The work of a suspended device does,
    /// although nothing holds what it requires.
    pub(crate) fn is_done_with(&self, index: AllocationIx) -> bool {
        let is_used = |device: DeviceIx, entry: &ListEntry| self.is_to_be_used(device, entry);
        !self.allocations[index].any_entry(is_used) && !self.is_queued(index)
    }

    /// Whether a device's list requires an allocation for what is not dispatched, or not submitted yet.
    fn is_to_be_used(&self, device: DeviceIx, entry: &ListEntry) -> bool {
        entry.is_open() || entry.has_ungranted_span() || entry.until() > self.devices[device].dispatched()
    }

    /// Whether another device than `device` will still use an allocation, although it may not have it open any more.
    pub(crate) fn is_to_be_used_by_others(&self, index: AllocationIx, device: DeviceIx) -> bool {
        let is_used = |other: DeviceIx, entry: &ListEntry| other != device && self.is_to_be_used(other, entry);
        self.allocations[index].any_entry(is_used)
    }

    /// Whether a queued DMA buffer refers to an allocation.
    pub(crate) fn is_queued(&self, index: AllocationIx) -> bool {
        self.patched.get(&index).is_some_and(|patched| patched.queued > 0)
    }

    /// What an allocation that may be evicted is to its owner.
    pub(crate) fn class_of(&self, index: AllocationIx) -> Class {
        let allocation = &self.allocations[index];
        if self.is_dead(index) {
            return Class::Dead;
        }
        if allocation.state.contains(AllocationState::SUSPENDED) {
            return Class::DeviceSuspended;
        }
        if !self.is_discardable(index) {
            return Class::NotRequired;
        }
        match self.offers[&index].priority {
            OfferPriority::Low => Class::OfferedLow,
            OfferPriority::Normal | OfferPriority::Auto => Class::OfferedNormal,
            OfferPriority::High => Class::OfferedHigh,
        }
    }

    /// Whether a victim of the memory segment stays resident in implicit system memory: where nobody must go for it.
    fn can_be_demoted(&self, index: AllocationIx) -> bool {
        let allocation = &self.allocations[index];
        let may_be_there = allocation.state.contains(AllocationState::MAY_BE_IN_SYSTEM);
        may_be_there && !self.is_worthless(index) && self.commit.available() >= allocation.size
    }

    /// A victim becomes resident in implicit system memory, in the plan that takes it out of the memory segment.
    fn demote(&mut self, draft: &mut Draft, index: AllocationIx) {
        let content = self.plan_into_system(draft, index);
        self.record_placed(index, content);
        self.statistics.demotions += 1;
        self.expose(index);
    }

    /// Takes one page of the segment for a table; adapter start refuses larger ones.
    pub(super) fn take_whole(&mut self, draft: &mut Draft, bytes: u64) -> Extent {
        self.take(draft, bytes).iter().next().expect("one page is one range")
    }
}
