use crate::{
    event::offer::Offer,
    id::AllocationIx,
    objects::{Objects, allocation::AllocationState},
    residency::Residents,
};

impl Residents {
    /// Forgets that an allocation is offered, if it is. It is on no list until it joins one again.
    pub(crate) fn end_offer(&mut self, objects: &mut Objects, index: AllocationIx) -> Option<Offer> {
        let offer = self.offers.remove(&index)?;
        let allocation = &mut objects[index];
        allocation.state -= AllocationState::OFFERED | AllocationState::DISCARDED;
        self.reclassify(objects, index);
        Some(offer)
    }

    /// Whether the allocation is offered, and will be on its device's list again when it is reclaimed.
    pub(crate) fn is_listed_offered(&self, index: AllocationIx) -> bool {
        self.offers.get(&index).is_some_and(|offer| offer.count > 0)
    }
}
