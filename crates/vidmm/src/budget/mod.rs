//! Budgets: how much memory each process may keep resident when not all can have what they want (5.6).

use alloc::collections::VecDeque;

use crate::units::{Nanoseconds, SegmentId};
pub(crate) use shares::{AccountShares, ProcessShare, ToLose};

mod level;
pub(crate) mod account;
mod ranking;
pub(crate) mod shares;

/// The memory that a budget is for (RES-50).
///
/// On an adapter without a memory segment only `Local` is used: it is the system memory that the GPU reaches (U-3).
#[doc(alias = "DXGK_MEMORY_SEGMENT_GROUP")]
#[doc(alias = "D3DKMT_MEMORY_SEGMENT_GROUP")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum MemorySegmentGroup {
    /// The memory segment.
    Local = 0,
    /// System memory: the aperture segment and the implicit system memory segment.
    NonLocal = 1,
}

/// The memory in which lists count an allocation: a memory segment, or system memory (D19).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MemoryAccount {
    /// The memory segment, or [`SegmentId::SYSTEM`] for system memory, through whichever aperture.
    pub segment: SegmentId,
    /// The group whose budget it is part of; none if it counts toward no budget.
    pub group: Option<MemorySegmentGroup>,
}

/// How important a process is to the user (RES-53).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum PriorityBand {
    /// The compositor of the desktop.
    Dwm = 0,
    /// The process whose window has the focus.
    Focus = 1,
    /// Every other.
    #[default]
    Normal = 2,
}

/// How much of a process the user sees (RES-53).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Visibility {
    /// Nothing.
    Minimized = 0,
    /// Its windows are covered by others.
    Occluded = 1,
    /// Something.
    #[default]
    Visible = 2,
}

impl PriorityBand {
    /// The factor of the band in a process's weight (U-32).
    const fn weight(self) -> u32 {
        match self {
            PriorityBand::Dwm | PriorityBand::Focus => 4,
            PriorityBand::Normal => 1,
        }
    }
}

impl Visibility {
    /// The factor of visibility in a process's weight (U-32).
    const fn weight(self) -> u32 {
        match self {
            Visibility::Visible => 4,
            Visibility::Occluded => 2,
            Visibility::Minimized => 1,
        }
    }
}

/// The meaning of a process to the user, and its wishes to be told. A new process is Normal and Visible.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    pub band: PriorityBand,
    pub visibility: Visibility,
    /// It was suspended by a call, and whether a submission ends that.
    pub halted: Option<bool>,
    /// When its work hung an engine, as far as that is remembered (FLT-31).
    pub timeouts: VecDeque<Nanoseconds>,
    /// It has lost the GPU.
    pub is_blocked: bool,
}

impl Standing {
    /// The weight of the process in the sharing of memory, from 1 to 16 (U-32).
    pub const fn weight(&self) -> u32 {
        self.band.weight() * self.visibility.weight()
    }
}

/// The bytes that a process may use of a group, and those that it uses (RES-51).
#[doc(alias = "D3DKMT_QUERYVIDEOMEMORYINFO")]
#[doc(alias = "DXGI_QUERY_VIDEO_MEMORY_INFO")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VideoMemoryInfo {
    /// Bytes that it may keep resident. Imposed only while the lists of all processes do not fit together (RES-53).
    pub budget: u64,
    /// Bytes of its allocations that are resident in the group (U-33). Offered allocations do not count (U-37).
    pub current_usage: u64,
    /// Bytes that it has reserved.
    pub current_reservation: u64,
    /// The most that it can reserve (U-31).
    pub available_for_reservation: u64,
    /// Bytes that the lists of its devices name in the group, resident or not (U-33).
    pub requested: u64,
}
