//! The flags of DestroyAllocation.

use bitflags::bitflags;

bitflags! {
    /// The flags of DestroyAllocation (RES-90).
    #[doc(alias = "D3DDDICB_DESTROYALLOCATION2FLAGS")]
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct DestroyFlags: u32 {
        /// Work that was submitted before does not use it: its memory is free without waiting for that work. If such
        /// work uses it all the same, it faults (RES-91).
        const ASSUME_NOT_IN_USE = 1 << 0;
        /// [`Output::AllocationReclaimed`](crate::Output::AllocationReclaimed) says when its memory is free; the caller waits
        /// for that (RES-91).
        const SYNCHRONOUS_DESTROY = 1 << 1;
    }
}
