use crate::{
    budget::account::Account,
    buggify::Unlikely,
    event::{EvictReason, offer::OfferPriority},
    id::AllocationIx,
    moment::Moment,
    objects::{Objects, allocation::AllocationState},
    residency::{
        Residents,
        evictable::{Cheapest, Class},
    },
    units::SegmentId,
};
impl Residents {
    /// Whether one more goes than must.
    pub(crate) fn evicts_more(&self, moment: &mut Moment, objects: &Objects, account: Account) -> bool {
        moment.makes(Unlikely::EvictMore) && self.evictable[account].iter(&objects.allocations).next().is_some()
    }

    /// The allocation that goes next, in the documented order (CRE-31a).
    /// A policy chooses among those that are worth no more than the first.
    pub(crate) fn next_victim(
        &mut self,
        objects: &mut Objects,
        account: Account,
        memory: SegmentId,
    ) -> (AllocationIx, EvictReason) {
        let victim = self.evictable[account].iter(&objects.allocations).next();
        let mut victim = victim.expect("a decision is made only when what is evictable makes enough room");
        if let Some(policy) = self.policy.as_mut().filter(|_| !objects[victim].queued_class().is_worthless()) {
            let of = (account, memory);
            let mut cheapest = Cheapest::like(&mut self.evictable[account], &mut objects.allocations, of, victim);
            let slot = policy.victim(&mut cheapest);
            victim = cheapest.find(slot).unwrap_or(victim);
        }
        (victim, self.reason(objects, victim, EvictReason::RoomWanted))
    }

    /// Why an allocation goes: what is dead goes for that, whatever else is wanted of it, and what is offered, unless its
    /// own range is wanted.
    pub(crate) fn reason(&self, objects: &Objects, index: AllocationIx, otherwise: EvictReason) -> EvictReason {
        match (self.class_of(objects, index), otherwise) {
            (Class::Dead, _) => EvictReason::Destroyed,
            (_, EvictReason::RangeWanted) => EvictReason::RangeWanted,
            (Class::OfferedLow | Class::OfferedNormal | Class::OfferedHigh, _) => EvictReason::Offered,
            (Class::DeviceSuspended, EvictReason::RoomWanted) => EvictReason::DeviceSuspended,
            (Class::NotRequired | Class::DeviceSuspended, _) => otherwise,
        }
    }

    /// The worth of an evictable allocation to its owner.
    pub(crate) fn class_of(&self, objects: &Objects, index: AllocationIx) -> Class {
        let allocation = &objects[index];
        if objects.is_dead(index) {
            return Class::Dead;
        }
        if allocation.state.contains(AllocationState::SUSPENDED) {
            return Class::DeviceSuspended;
        }
        if !objects.is_discardable(index) {
            return Class::NotRequired;
        }
        match self.offers[&index].priority {
            OfferPriority::Low => Class::OfferedLow,
            OfferPriority::Normal | OfferPriority::Auto => Class::OfferedNormal,
            OfferPriority::High => Class::OfferedHigh,
        }
    }
}
