use crate::{
    event::offer::Offer,
    id::AllocationIx,
    memory::Memory,
    moment::Moment,
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

    /// Lowers the count that an offered allocation will have when it is reclaimed. The count must be above 0.
    pub(crate) fn leave_offered(
        &mut self,
        moment: &mut Moment,
        objects: &mut Objects,
        memory: &mut Memory,
        index: AllocationIx,
    ) {
        let offer = self.offers.get_mut(&index).expect("an offered allocation has an offer");
        offer.count -= 1;
        if offer.count == 0 {
            self.unpin(moment, objects, memory, index);
        }
    }

    /// Whether the allocation is offered, and will be on its device's list again when it is reclaimed.
    pub(crate) fn is_listed_offered(&self, index: AllocationIx) -> bool {
        self.offers.get(&index).is_some_and(|offer| offer.count > 0)
    }
}
