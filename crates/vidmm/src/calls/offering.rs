//! Offer and Reclaim (RES-60..RES-68).

use alloc::vec::Vec;

use crate::{
    contract::Host,
    error::{OfferError, ReclaimError},
    id::{AllocationId, DeviceId, PagingQueueId},
    offer::{OfferFlags, OfferPriority, ReclaimResult},
    state::VidMm,
};

/// What Reclaim answers.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub struct Reclaimed {
    /// What became of each allocation's content, in the order of the call.
    pub results: Vec<ReclaimResult>,
    /// The value of the paging queue's fence from which on the GPU can use those that are on the device's list; 0 is at once.
    /// The CPU can lock all of them at once (RES-65).
    pub paging_fence_value: u64,
}

impl VidMm {
    /// Offers allocations: once the work submitted before has ended, their memory may be used for others, and their content
    /// is then lost (RES-61). They stay where they are until memory is wanted; then they go before any other, those of lower
    /// priority and those offered earlier first (U-37).
    ///
    /// They stay on their device's list with their counts, but the list does not require them, and they do not count in the
    /// process's usage. Between Offer and Reclaim they can be neither locked nor made resident, and work must not use them
    /// (RES-62).
    ///
    /// # Errors
    ///
    /// If an allocation is offered already, locked, shared, or another device's. None is then offered.
    #[doc(alias = "D3DKMTOfferAllocations")]
    pub fn offer_allocations(
        &mut self,
        device: DeviceId,
        allocations: &[AllocationId],
        priority: OfferPriority,
        flags: OfferFlags,
    ) -> Result<(), OfferError> {
        let _ = (device, allocations, priority, flags);
        todo!()
    }

    /// Takes offered allocations back, and says what became of their content. Those on the device's list are brought in, as
    /// by MakeResident, whatever the budget says (RES-65).
    ///
    /// # Errors
    ///
    /// If an allocation is not offered, or another device's. None is then reclaimed.
    #[doc(alias = "D3DKMTReclaimAllocations2")]
    pub fn reclaim_allocations(
        &mut self,
        host: &mut dyn Host,
        paging_queue: PagingQueueId,
        allocations: &[AllocationId],
    ) -> Result<Reclaimed, ReclaimError> {
        let _ = (host, paging_queue, allocations);
        todo!()
    }
}
