//! The records that an adapter without GPU virtual addresses adds (section 7).

use alloc::vec::Vec;

use vidmm_linear::{Direction, HintedBank};

use crate::{
    budget::account::{Account, Choices},
    id::ContextIx,
    units::{Extent, PAGE_SIZE},
};

/// The choices that a driver author can force, to see rare paths of a driver every time (SPL-13).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "kebab-case", deny_unknown_fields, default))]
pub struct PreparationKnobs {
    /// Every DMA buffer is cut at every split point.
    pub take_split_point: bool,
    /// No address is told when a command buffer is rendered: all come with Patch.
    #[doc(alias = "NoPrePatching")]
    pub never_prepatch: bool,
    /// Patch is called for every portion, also if all addresses that were told are still right.
    pub always_repatch: bool,
    /// A DMA buffer that cannot be brought in at all is expected: it is no finding, and puts no device in error. It is dropped.
    pub expect_preparation_failure: bool,
    /// The slot whose id is the number of slots is there too (U-44).
    pub accept_max_slot_id: bool,
}

/// The manager's records of DMA buffers on an adapter without GPU virtual addresses.
#[derive(Debug, Default)]
pub(crate) struct Patching {
    pub knobs: PreparationKnobs,
    /// The context whose DMA buffer has been cut and not come to its last portion: there is one at most, so that no two wait
    /// for what the other keeps in its place.
    pub splitting: Option<ContextIx>,
    /// DMA buffers so far, and when each context was served last.
    pub num_dma_buffers: u64,
    pub turns: u64,
}

impl Patching {
    /// A context's DMA buffer is cut.
    pub fn begin_splitting(&mut self, context: ContextIx) {
        self.splitting = Some(context);
    }

    /// A context's DMA buffer is not cut any more.
    pub fn end_splitting(&mut self, context: ContextIx) {
        self.splitting = self.splitting.filter(|&splitting| splitting != context);
    }
}

/// The record of an allocation on such an adapter.
#[derive(Debug, Default)]
pub(crate) struct Patched {
    /// Where in a segment it had better be.
    pub hint: Hint,
    /// The memory segment that the direction and the banks of the hint are for, if its driver prefers one.
    pub hinted_in: Option<Account>,
    /// The apertures through one of which its content leaves a memory segment, if there is room (SEG-45).
    pub leaves_through: Choices,
    /// Queued DMA buffers that refer to it.
    pub queued: u32,
    /// Where in its memory segment it goes with the plan that is being written.
    pub coming_at: Option<Extent>,
}

impl Patched {
    /// Where it had better be in a memory segment.
    pub fn hint_in(&self, account: Account) -> Hint {
        match self.hinted_in {
            Some(hinted_in) if hinted_in != account => Hint { alignment: self.hint.alignment, ..Hint::default() },
            _ => self.hint.clone(),
        }
    }
}

/// Where in a segment an allocation had better be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hint {
    /// In bytes, a power of two.
    pub alignment: u64,
    pub direction: Direction,
    /// Banks to look in first (SEG-43).
    pub hinted_banks: Vec<HintedBank>,
}

impl Default for Hint {
    fn default() -> Self {
        Self { alignment: PAGE_SIZE, direction: Direction::default(), hinted_banks: Vec::new() }
    }
}

/// A rule that a driver's patch-location list breaks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum PatchListRule {
    /// It names an element that the allocation list does not have.
    #[error("SPL-02: AllocationIndex is beyond the allocation list")]
    AllocationIndex,
    /// It names a slot that there is not.
    #[error("SPL-02, U-44: SlotId is not below MaxAllocationListSlotId")]
    SlotId,
    /// The DMA buffer ends before it.
    #[error("SPL-02: SplitOffset is beyond the end of the DMA buffer")]
    SplitOffset,
    /// One before it is larger.
    #[error("SPL-04, U-45: SplitOffset is smaller than that of the patch location before it")]
    DecreasingSplitOffset,
    /// The address would be in what runs without the allocation, or in a part that may run later.
    #[error("SPL-11: PatchOffset is not between its split point and the next one")]
    PatchOffset,
}
