//! What becomes of the content of offered allocations: it is lost when their room is taken, or at once if they were offered so.

use super::draft::Draft;
use crate::{
    allocation::AllocationState,
    contract::Host,
    event::{Event, EvictReason},
    id::{AllocationIx, PlanNo},
    offer::{Offer, OfferFlags},
    paging::Retire,
    state::VidMm,
    units::{PhysicalAddress, SegmentId},
};

impl VidMm {
    /// Discards an allocation that was offered with OFFER_IMMEDIATELY, if it is still offered and nothing will use it.
    pub(super) fn discard_at_once(&mut self, draft: &mut Draft, index: AllocationIx) {
        let immediately = |offer: &Offer| offer.flags.contains(OfferFlags::OFFER_IMMEDIATELY);
        if !self.offers.get(&index).is_some_and(immediately) {
            return;
        }
        let allocation = &self.allocations[index];
        if !self.is_discardable(index) || allocation.state.contains(AllocationState::DISCARDED) {
            return;
        }
        if allocation.place.is_some() {
            return self.plan_out(draft, index, EvictReason::Offered);
        }
        if self.discards.get(&index) == Some(&allocation.last_plan) {
            // It was nowhere else since: what is under way does for this time too.
            return self.note_discarded(index);
        }
        let number = self.stream.next_number();
        let last_plan = core::mem::replace(&mut self.allocations[index].last_plan, number);
        self.plan_after(draft, last_plan);
        self.plan_discard(draft, index);
    }

    /// Writes into `draft` that the content of an allocation is lost: its backing store is reset when the plan has retired, for
    /// until then something may write there. It comes in again only after that.
    pub(super) fn plan_discard(&mut self, draft: &mut Draft, index: AllocationIx) {
        self.note_discarded(index);
        self.discards.insert(index, self.stream.next_number());
        self.plan_retire(draft, Retire::Discard(index));
    }

    /// Notes that the content of an offered allocation is lost (RES-63).
    pub(crate) fn note_discarded(&mut self, index: AllocationIx) {
        let allocation = &mut self.allocations[index];
        allocation.state |= AllocationState::DISCARDED;
        allocation.state -= AllocationState::BACKED | AllocationState::DIRTY;
    }

    /// A plan that discarded an allocation has retired. Later ones may bring it in again, and discard it again.
    pub(super) fn settle_discard(&mut self, host: &mut dyn Host, index: AllocationIx, plan: PlanNo) {
        let is_last = self.discards.get(&index) == Some(&plan);
        if is_last {
            self.discards.remove(&index);
        }
        // Work that was submitted between a reclaim and the destruction still reads it.
        if self.is_dead(index) {
            return;
        }
        let allocation = &self.allocations[index];
        let allows = |offer: &Offer| offer.flags.contains(OfferFlags::ALLOW_DECOMMIT);
        let is_discarded = is_last && allocation.state.contains(AllocationState::DISCARDED);
        if is_discarded && self.offers.get(&index).is_some_and(allows) {
            return self.decommit(host, index);
        }
        let address = PhysicalAddress { segment: SegmentId::SYSTEM, offset: allocation.backing_store };
        host.reset_backing_store(address, allocation.size);
    }

    /// Gives back the backing store of an offered allocation whose content is lost (RES-66).
    pub(crate) fn decommit(&mut self, host: &mut dyn Host, index: AllocationIx) {
        let allocation = &mut self.allocations[index];
        allocation.state |= AllocationState::NOT_COMMITTED;
        let address = PhysicalAddress { segment: SegmentId::SYSTEM, offset: allocation.backing_store };
        host.decommit_backing_store(address, allocation.size);
        let allocation = self.allocation_id(index);
        self.events.record(|| Event::Decommitted { allocation });
    }
}
