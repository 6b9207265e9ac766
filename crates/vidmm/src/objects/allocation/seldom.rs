//! Offers, locks, next homes and hints: what happens to few allocations.

use alloc::vec::Vec;

use super::{cold::Rehoming, flags::AllocationState, lock::Lock, record::Allocation};
use crate::{
    adapter::patching::Patched,
    contract::CpuVirtualAddress,
    event::offer::Offer,
    id::PlanNo,
    units::{Extent, SegmentId},
};

/// # Offers (RES-60)
impl Allocation {
    /// The owner's offer, until the reclaim.
    pub fn offer(&self) -> Option<&Offer> {
        self.cold()?.offer.as_ref()
    }

    /// The count on the device's list after the reclaim.
    pub fn offered_count_mut(&mut self) -> Option<&mut u32> {
        Some(&mut self.cold.as_mut()?.offer.as_mut()?.count)
    }

    /// The owner offers the allocation. The allocation stays in place until memory is wanted: no earlier Evict hastens the
    /// eviction.
    pub fn begin_offer(&mut self, offer: Offer) {
        self.state |= AllocationState::OFFERED;
        self.state -= AllocationState::EVICT_SOON | AllocationState::LOCK_PENDING;
        self.cold_mut().offer = Some(offer);
    }

    /// The owner reclaims the allocation. Returns the offer, and whether the content was lost meanwhile; none without an
    /// offer.
    pub fn end_offer(&mut self) -> Option<(Offer, bool)> {
        let offer = self.cold.as_mut()?.offer.take()?;
        let is_discarded = self.is(AllocationState::DISCARDED);
        self.state -= AllocationState::OFFERED | AllocationState::DISCARDED;
        Some((offer, is_discarded))
    }

    /// The content is lost during an offer (RES-63). Returns whether this is the first loss of the offer.
    pub fn discard(&mut self) -> bool {
        let is_first = !self.is(AllocationState::DISCARDED);
        self.state |= AllocationState::DISCARDED;
        self.state -= AllocationState::BACKED | AllocationState::DIRTY | AllocationState::CLEANING;
        is_first
    }

    /// The backing store is gone (RES-66).
    pub fn decommit(&mut self) {
        self.state |= AllocationState::NOT_COMMITTED;
    }

    /// A new backing store stands at this address of system memory.
    pub fn commit(&mut self, address: u64) {
        self.backing_store = address;
        self.state -= AllocationState::NOT_COMMITTED;
    }

    /// The last plan with a discard of the content that has not retired.
    pub fn discarded_by(&self) -> Option<PlanNo> {
        self.cold()?.discard
    }

    /// Notes the last plan with a discard of the content; none after the retirement.
    pub fn set_discarded_by(&mut self, plan: Option<PlanNo>) {
        if plan.is_some() || self.cold.is_some() {
            self.cold_mut().discard = plan;
        }
    }
}

/// # Locks (RES-80)
impl Allocation {
    /// The lock: the CPU's view of the allocation.
    pub fn lock(&self) -> Option<&Lock> {
        self.cold()?.lock.as_ref()
    }

    /// The CPU sees these ranges at an address, and may write there.
    pub fn begin_lock(&mut self, address: CpuVirtualAddress, shown: (SegmentId, Vec<Extent>)) {
        self.state -= AllocationState::LOCK_PENDING | AllocationState::CLEANING;
        self.state |= AllocationState::LOCKED;
        self.state |= if shown.0.is_system() { AllocationState::BACKED } else { AllocationState::DIRTY };
        self.cold_mut().lock = Some(Lock { count: 1, address, shown, moved_by: 0 });
    }

    /// Adds a lock.
    pub fn lock_again(&mut self) {
        self.lock_mut().count += 1;
    }

    /// Ends a lock. Returns the number of locks left; none without a lock.
    pub fn unlock(&mut self) -> Option<u32> {
        let lock = self.cold.as_mut()?.lock.as_mut()?;
        lock.count -= 1;
        Some(lock.count)
    }

    /// The CPU sees nothing of the allocation. Returns the lock.
    pub fn end_locks(&mut self) -> Option<Lock> {
        let lock = self.cold.as_mut()?.lock.take()?;
        self.state -= AllocationState::LOCKED;
        Some(lock)
    }

    /// The CPU sees these ranges. Returns the address.
    pub fn show(&mut self, shown: (SegmentId, Vec<Extent>)) -> CpuVirtualAddress {
        let lock = self.lock_mut();
        lock.shown = shown;
        lock.address
    }

    /// A plan in the stream moves the allocation: the CPU sees nothing until the plan has retired.
    pub fn conceal(&mut self, plan: PlanNo) {
        self.lock_mut().moved_by = plan;
    }

    fn lock_mut(&mut self) -> &mut Lock {
        self.cold_mut().lock.as_mut().expect("only what is locked is shown")
    }
}

/// # Homes to come, and hints
impl Allocation {
    /// The next home, until the grant of the request with the move.
    pub fn rehoming(&self) -> Option<Rehoming> {
        self.cold()?.rehoming
    }

    /// Sets or takes away the next home. Returns the next home before.
    pub fn set_rehoming(&mut self, rehoming: Option<Rehoming>) -> Option<Rehoming> {
        if rehoming.is_none() && self.cold.is_none() {
            return None;
        }
        core::mem::replace(&mut self.cold_mut().rehoming, rehoming)
    }

    /// The hints and the counts of an adapter without GPU virtual addresses.
    pub fn patched(&self) -> Option<&Patched> {
        self.cold()?.patched.as_ref()
    }

    /// The hints and the counts of an adapter without GPU virtual addresses, for a change.
    pub fn patched_mut(&mut self) -> &mut Patched {
        self.cold_mut().patched.get_or_insert_default()
    }
}
