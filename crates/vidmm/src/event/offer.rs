//! Offer and Reclaim: memory that the owner can do without for a while (5.7).

use bitflags::bitflags;

/// The priority of an offer: the content of lower ones is discarded first (RES-60). NONE of WDDM is not allowed in a
/// call, and is not here.
#[doc(alias = "D3DKMT_OFFER_PRIORITY")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum OfferPriority {
    /// The content is worthless: discarded first.
    Low = 1,
    /// The content is easily made again.
    Normal = 2,
    /// The content had better be kept.
    High = 3,
    /// As the allocation's own priority says (CRE-31b): up to LOW is low, from HIGH on is high, normal between.
    Auto = 4,
}

bitflags! {
    /// The flags of an offer (RES-60).
    #[doc(alias = "D3DKMT_OFFER_FLAGS")]
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct OfferFlags: u32 {
        /// Its content is discarded as soon as the work submitted before has ended, whether or not memory is wanted.
        const OFFER_IMMEDIATELY = 1 << 0;
        /// The backing store may be decommitted with a discard of the content; Reclaim may find no backing store (RES-66).
        const ALLOW_DECOMMIT = 1 << 1;
    }
}

/// The state of the content of an allocation that was offered (RES-64).
#[doc(alias = "D3DDDI_RECLAIM_RESULT")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum ReclaimResult {
    /// The content is intact.
    Ok = 0,
    /// The content is lost; the allocation reads as zero (U-36).
    Discarded = 1,
    /// The content is lost, and the system has no memory for a new backing store: the allocation cannot be used any
    /// more, only destroyed (RES-66).
    NotCommitted = 2,
}

impl OfferPriority {
    /// The priority that AUTO means for an allocation of `priority` (CRE-30, CRE-31b); never AUTO.
    pub(crate) fn resolved(self, priority: u32) -> Self {
        const LOW: u32 = 0x5000_0000;
        const HIGH: u32 = 0xA000_0000;
        match self {
            OfferPriority::Auto if priority <= LOW => OfferPriority::Low,
            OfferPriority::Auto if priority >= HIGH => OfferPriority::High,
            OfferPriority::Auto => OfferPriority::Normal,
            said => said,
        }
    }
}

/// The record of an offered allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offer {
    /// The count on its device's list with which it joins again when it is reclaimed. 0 is not at all.
    pub count: u32,
    /// Never AUTO.
    pub priority: OfferPriority,
    pub flags: OfferFlags,
}
