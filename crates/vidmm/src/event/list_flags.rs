//! The flags of MakeResident and Evict.

use bitflags::bitflags;

bitflags! {
    /// The flags of Evict.
    #[doc(alias = "D3DDDI_EVICT_FLAGS")]
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct EvictFlags: u32 {
        /// Only when memory is wanted; otherwise at the earliest opportunity (RES-21).
        const EVICT_ONLY_IF_NECESSARY = 1 << 0;
        /// The GPU wrote nothing since the allocation was made resident: its content need not be copied out (RES-22).
        const NOT_WRITTEN_TO = 1 << 1;
    }
}

bitflags! {
    /// The flags of MakeResident (RES-14, RES-15).
    #[doc(alias = "D3DDDI_MAKERESIDENT_FLAGS")]
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct MakeResidentFlags: u32 {
        /// The caller has nothing left to trim: it succeeds above the current budget, up to the maximum budget (U-24).
        const CANT_TRIM_FURTHER = 1 << 0;
        /// A failure puts the device in error. Only with `CANT_TRIM_FURTHER`.
        const MUST_SUCCEED = 1 << 1;
    }
}
