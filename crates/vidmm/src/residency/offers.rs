use crate::{event::offer::Offer, id::AllocationIx, objects::Objects, residency::Residents};

impl Residents {
    /// Ends the offer of an allocation: it is on no list until it joins one again. Returns the offer, and whether the content was lost
    /// meanwhile; none if it is not offered.
    pub(crate) fn end_offer(&mut self, objects: &mut Objects, index: AllocationIx) -> Option<(Offer, bool)> {
        let ended = objects.end_offer(index)?;
        self.reclassify(objects, index);
        Some(ended)
    }
}

/// Whether the allocation is offered, and will be on its device's list again when it is reclaimed.
pub(crate) fn is_listed_offered(objects: &Objects, index: AllocationIx) -> bool {
    objects[index].offer().is_some_and(|offer| offer.count > 0)
}
