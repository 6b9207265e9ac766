use crate::{
    budget::{AccountShares, account::Account},
    event::{EvictReason, offer::OfferPriority},
    id::{AllocationIx, ProcessIx},
    objects::{
        Objects,
        allocation::{AllocationState, worth::Class},
    },
    residency::{Residents, evictable::Cheapest},
    shares::Shares,
    units::SegmentId,
};
impl Residents {
    /// The allocation that goes next for a process, in the documented order (CRE-31a), but for those that are kept
    /// ([`is_kept`]). A policy chooses among those of the same process that are worth no more.
    pub(crate) fn next_victim(
        &mut self,
        objects: &mut Objects,
        shares: &mut Shares,
        (account, memory): (Account, SegmentId),
        wanted_by: Option<ProcessIx>,
    ) -> (AllocationIx, EvictReason) {
        let shares = shares.account_mut(account);
        let victim = self.evictable[account].first_not_kept(&objects.allocations, shares, wanted_by);
        let mut victim = victim.expect("a decision is made only when what is evictable makes enough room");
        if let Some(policy) = self.policy.as_mut().filter(|_| !objects[victim].queued_class().is_worthless()) {
            let of = (account, memory);
            let mut cheapest = Cheapest::like(&mut self.evictable[account], &mut objects.allocations, of, victim);
            let slot = policy.victim(&mut cheapest);
            let chosen = cheapest.find(slot).unwrap_or(victim);
            // A policy does not take what its process keeps in the place of what it can spare.
            let is_kept = |index| is_kept(objects, shares, index, wanted_by, || 0);
            victim = if is_kept(chosen) && !is_kept(victim) { victim } else { chosen };
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
    #[inline(always)]
    pub(crate) fn class_of(&self, objects: &Objects, index: AllocationIx) -> Class {
        let allocation = &objects[index];
        let is_done_with =
            allocation.is_any(AllocationState::DESTROYED | AllocationState::OFFERED) && objects.is_done_with(index);
        if is_done_with && allocation.is(AllocationState::DESTROYED) {
            return Class::Dead;
        }
        if allocation.is_to_restore() {
            return Class::DeviceSuspended;
        }
        if !is_done_with {
            return Class::NotRequired;
        }
        match allocation.offer().expect("what is done with and not destroyed is offered").priority {
            OfferPriority::Low => Class::OfferedLow,
            OfferPriority::Normal | OfferPriority::Auto => Class::OfferedNormal,
            OfferPriority::High => Class::OfferedHigh,
        }
    }
}

/// Whether an allocation that somebody misses stays for now, because its process would have less than it is entitled to once
/// that and the bytes of it that are `leaving` have gone for another process.
pub(crate) fn is_kept(
    objects: &Objects,
    shares: &AccountShares,
    index: AllocationIx,
    wanted_by: Option<ProcessIx>,
    leaving: impl FnOnce() -> u64,
) -> bool {
    let allocation = &objects[index];
    let other = wanted_by.filter(|_| !allocation.queued_class().is_worthless());
    other.is_some_and(|other| shares.keeps(allocation.process, other, leaving() + allocation.size))
}
