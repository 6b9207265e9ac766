//! The flags of DestroyAllocation.

use bitflags::bitflags;

bitflags! {
    /// The flags of DestroyAllocation (RES-90).
    #[doc(alias = "D3DDDICB_DESTROYALLOCATION2FLAGS")]
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct DestroyFlags: u32 {
        /// Earlier work does not use the allocation: the memory is free without waiting for earlier work. If earlier work uses
        /// the allocation all the same, the work faults (RES-91).
        const ASSUME_NOT_IN_USE = 1 << 0;
        /// [`Output::AllocationReclaimed`](crate::Output::AllocationReclaimed) says when the memory is free; the caller waits
        /// for the output (RES-91).
        const SYNCHRONOUS_DESTROY = 1 << 1;
    }
}
