use crate::{
    event::offer::Offer, id::AllocationIx, memory::Memory, moment::Moment, objects::Objects, residency::Residents,
};

impl Residents {
    /// Ends the offer of an allocation: it is on no list until it joins one again. Returns the offer, and whether the content was lost
    /// meanwhile; none if it is not offered.
    pub(crate) fn end_offer(&mut self, objects: &mut Objects, index: AllocationIx) -> Option<(Offer, bool)> {
        let ended = objects.end_offer(index)?;
        self.reclassify(objects, index);
        Some(ended)
    }

    /// Lowers the count that an offered allocation will have when it is reclaimed. The count must be above 0.
    pub(crate) fn leave_offered(
        &mut self,
        moment: &mut Moment,
        objects: &mut Objects,
        memory: &mut Memory,
        index: AllocationIx,
    ) {
        let count = objects[index].offered_count_mut().expect("an offered allocation has an offer");
        *count -= 1;
        if *count == 0 {
            self.unpin(moment, objects, memory, index);
        }
    }
}

/// Whether the allocation is offered, and will be on its device's list again when it is reclaimed.
pub(crate) fn is_listed_offered(objects: &Objects, index: AllocationIx) -> bool {
    objects[index].offer().is_some_and(|offer| offer.count > 0)
}
