use crate::{
    id::{AllocationIx, DeviceIx},
    objects::{
        Objects,
        allocation::AllocationState,
        device::{Deferred, DeferredAction, Device},
        list::ListEntry,
    },
};

impl Objects {
    /// Whether the content of an allocation is lost when it leaves its place.
    pub(crate) fn is_worthless(&self, index: AllocationIx) -> bool {
        self[index].is_any(AllocationState::DESTROYED | AllocationState::OFFERED) && self.is_done_with(index)
    }

    /// Whether an allocation was destroyed and no work will use it (RES-91).
    pub(crate) fn is_dead(&self, index: AllocationIx) -> bool {
        self[index].is(AllocationState::DESTROYED) && self.is_done_with(index)
    }

    /// Whether an allocation is offered and no work that was submitted before will use it (RES-61).
    pub(crate) fn is_discardable(&self, index: AllocationIx) -> bool {
        self[index].is(AllocationState::OFFERED) && self.is_done_with(index)
    }

    /// Whether no undispatched work requires the allocation. The work of a suspended device requires it, although no
    /// entry pins it.
    pub(crate) fn is_done_with(&self, index: AllocationIx) -> bool {
        let is_used = |device: DeviceIx, entry: &ListEntry| self.is_to_be_used(device, entry);
        !self[index].any_entry(is_used) && !self.is_queued(index)
    }

    /// Whether a device's list requires an allocation for work that is not dispatched, or not submitted yet.
    fn is_to_be_used(&self, device: DeviceIx, entry: &ListEntry) -> bool {
        entry.is_open() || entry.has_ungranted_span() || entry.until() > self[device].dispatched()
    }

    /// Whether a queued DMA buffer refers to an allocation.
    pub(crate) fn is_queued(&self, index: AllocationIx) -> bool {
        self[index].patched().is_some_and(|patched| patched.queued > 0)
    }

    /// Whether content is to be discarded of which nothing that was submitted or requested before makes use any more.
    pub(crate) fn discards_are_due(&self) -> bool {
        let is_discard = |deferred: &Deferred| matches!(deferred.action, DeferredAction::Discard(_));
        let is_due = |device: &Device| device.deferred.iter().take_while(|next| device.is_due(next)).any(is_discard);
        self.devices.iter().any(|(_, device)| is_due(device))
    }
}
