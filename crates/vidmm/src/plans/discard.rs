//! The content of offered allocations: it is lost when their room is taken, or at once if they were offered so.

use crate::{
    contract::Host,
    event::{
        EvictReason,
        offer::{Offer, OfferFlags},
    },
    id::{AllocationIx, PlanNo},
    moment::Moment,
    objects::{Objects, allocation::AllocationState},
    plans::{
        Plans, Retire, content,
        draft::{self, Draft},
    },
    state::State,
};

impl Plans {
    /// Discards an allocation that was offered with OFFER_IMMEDIATELY, if it is still offered and nothing will use it.
    pub(crate) fn discard_at_once(&mut self, state: &mut State, draft: &mut Draft, index: AllocationIx) {
        let immediately = |offer: &Offer| offer.flags.contains(OfferFlags::OFFER_IMMEDIATELY);
        if !state.objects[index].offer().is_some_and(immediately) {
            return;
        }
        let allocation = &state.objects[index];
        if !state.objects.is_discardable(index) || allocation.is(AllocationState::DISCARDED) {
            return;
        }
        if allocation.place.is_some() {
            return self.plan_out(state, draft, index, EvictReason::Offered);
        }
        let last_plan = allocation.last_plan;
        if allocation.discarded_by() == Some(last_plan) {
            // It was nowhere else since: what is under way does for this time too.
            return content::note_discarded(&mut state.moment, &mut state.objects, index, Some(last_plan));
        }
        let number = self.stream.next_number();
        let last_plan = state.objects[index].follow(number);
        self.plan_after(draft, last_plan);
        self.plan_discard(&mut state.moment, &mut state.objects, draft, index);
    }

    /// Writes into `draft` that the content of an allocation is lost: its backing store is reset when the plan has retired, for
    /// until then something may write there. It comes in again only after that.
    pub(crate) fn plan_discard(
        &mut self,
        moment: &mut Moment,
        objects: &mut Objects,
        draft: &mut Draft,
        index: AllocationIx,
    ) {
        let number = self.stream.next_number();
        content::note_discarded(moment, objects, index, Some(number));
        objects[index].set_discarded_by(Some(number));
        draft::plan_retire(draft, Retire::Discard(index));
    }

    /// A plan that discarded an allocation has retired. Later ones may bring it in again, and discard it again.
    pub(crate) fn settle_discard(&mut self, state: &mut State, host: &mut dyn Host, index: AllocationIx, plan: PlanNo) {
        let is_last = state.objects[index].discarded_by() == Some(plan);
        if is_last {
            state.objects[index].set_discarded_by(None);
        }
        // Work that was submitted between a reclaim and the destruction still reads it.
        if state.objects.is_dead(index) {
            return;
        }
        let allocation = &state.objects[index];
        let allows = |offer: &Offer| offer.flags.contains(OfferFlags::ALLOW_DECOMMIT);
        let is_discarded = is_last && allocation.is(AllocationState::DISCARDED);
        if is_discarded && allocation.offer().is_some_and(allows) {
            return content::decommit(&mut state.moment, &mut state.objects, host, index);
        }
        host.reset_backing_store(allocation.store_address(), allocation.size);
    }
}
