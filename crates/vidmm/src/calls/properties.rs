//! What of an allocation can be changed later: its priority and its segments (CRE-31, 2.6).

use crate::{
    contract::{Kmd, SegmentPreference, SegmentSet},
    error::UpdateError,
    id::{AllocationId, PagingQueueId},
    state::VidMm,
};

/// What is to change; `None` leaves a property as it is.
#[doc(alias = "D3DDDI_UPDATEALLOCPROPERTY")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UpdateAllocationProperty {
    /// Where it may live.
    pub supported_segment_set: Option<SegmentSet>,
    /// Where it had better live.
    pub preferred_segment: Option<SegmentPreference>,
}

impl VidMm {
    /// Sets priorities: larger stays longer (CRE-30, CRE-31a). A hint of the allocation's creator.
    ///
    /// # Errors
    ///
    /// If the priority is 0 or the handle names nothing.
    #[doc(alias = "D3DKMTSetAllocationPriority")]
    pub fn set_allocation_priority(&mut self, allocation: AllocationId, priority: u32) -> Result<(), UpdateError> {
        let _ = (allocation, priority);
        todo!()
    }

    /// Changes where an allocation may be resident (CRE-50). If it must move for that, the value of the paging queue's fence
    /// is returned that says when it has; 0 is at once. The same value again is ignored (CRE-51).
    ///
    /// # Errors
    ///
    /// If the new set is impossible or the driver does not allow it.
    #[doc(alias = "D3DKMTUpdateAllocationProperty")]
    pub fn update_allocation_property(
        &mut self,
        kmd: &mut dyn Kmd,
        paging_queue: PagingQueueId,
        allocation: AllocationId,
        update: &UpdateAllocationProperty,
    ) -> Result<u64, UpdateError> {
        let _ = (kmd, paging_queue, allocation, update);
        todo!()
    }
}
