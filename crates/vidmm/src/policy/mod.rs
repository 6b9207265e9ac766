//! Policies of eviction: the order in which allocations of equal worth go (D24).
//!
//! The manager decides how much must go, and from which memory. The dead and the offered go first, then lower priorities (RES-60,
//! CRE-30); budgets and lists say what may go at all. A policy orders the rest. It sees uses and places, and can break no rule:
//! where its answer is none of the candidates, the first of them goes.
//!
//! A *use* is an entry that joins a device's list, or a reference of a DMA buffer. A list that does not change calls no hook:
//! allocations that stay on a list for many submissions are used once, when they join it.

mod arrivals;
mod choice;
mod clock;
mod forecast;
mod gdsf;
mod lfu_da;
mod lru_2;
mod order;
mod predict;
mod recency;
mod s3_fifo;
mod shadow;
mod sieve;
mod slots;

pub use choice::{MakePolicy, Parameter, PolicyChoice, PolicyError, PolicyKind};
pub use order::Order;
pub use recency::Recency;

use core::fmt::Debug;

use crate::{id::AllocationId, units::SegmentId};

/// An allocation, as a policy sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Subject {
    /// The allocation.
    pub allocation: AllocationId,
    /// A number among all allocations of now, for tables. Another allocation may have the number later.
    pub slot: usize,
    /// Its size in bytes.
    pub size: u64,
}

/// An allocation that may go now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// The [`slot`](Subject::slot).
    pub slot: usize,
    /// Its rank: candidates are found in the order of their ranks.
    pub rank: u64,
    /// Its size in bytes.
    pub size: u64,
}

/// The allocations of one memory that may go now, and are worth as little as any other there.
pub trait Candidates {
    /// The memory: a memory segment, or [`SegmentId::SYSTEM`].
    fn memory(&self) -> SegmentId;

    /// The candidate of the lowest rank from `rank` on; of several, the one that has it for longest.
    fn first_from(&self, rank: u64) -> Option<Candidate>;

    /// The allocation of a slot, if it is a candidate.
    fn get(&self, slot: usize) -> Option<Candidate>;

    /// Gives a candidate another rank. Does nothing if it is none.
    fn set_rank(&mut self, slot: usize, rank: u64);
}

/// A policy is to be set while allocations exist. Set it before the first is created: it must hear of each from its beginning.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a policy is set before the first allocation is created, and there are some; destroy them, or set it earlier")]
pub struct PolicyInUse;

/// The largest rank. A larger rank counts as the largest.
pub const RANK_MAX: u64 = (1 << 56) - 1;

/// An order of eviction. [`VidMm::set_policy`](crate::VidMm::set_policy) takes one of your own.
///
/// [`rank`](Self::rank) is enough for a policy; the other hooks do nothing by default, or what the ranks say. Times are counted in
/// submissions of all devices. Every hook must do the same for the same calls: whatever is random follows from a seed.
pub trait Policy: Debug + Send {
    /// A use. The allocation may be in no memory yet, or be on the list of another device as well.
    fn used(&mut self, _subject: Subject, _time: u64) {}

    /// The allocation gets a place in a memory.
    fn brought_in(&mut self, _subject: Subject, _memory: SegmentId) {}

    /// No list of a device names it any more; the last submission under which one did had the number `last_use`.
    fn released(&mut self, _subject: Subject, _last_use: u64) {}

    /// The rank of a resident allocation that becomes a candidate, up to [`RANK_MAX`]. Where one must go whose range is wanted (a memory segment
    /// without pages), the ranks alone are the order.
    fn rank(&self, slot: usize) -> u64;

    /// Chooses the candidate that goes, by default the candidate of the lowest rank. There is at least one candidate. The manager evicts the
    /// choice, and says so by [`left`](Self::left).
    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        candidates.first_from(0).map_or(usize::MAX, |first| first.slot)
    }

    /// Whether the content of a candidate at the cold end may be copied out ahead of the eviction (D37). The order of the copies is
    /// that of the ranks. A policy that expects another write before the eviction says no.
    fn cleans(&self, _candidate: Candidate) -> bool {
        true
    }

    /// The device of an allocation has announced that it needs the allocation soon ([`VidMm::announce`](crate::VidMm::announce)); the last
    /// submission had the number `time`. A policy that ranks by uses counts this as a use.
    fn announced(&mut self, _subject: Subject, _time: u64) {}

    /// Whether the manager is to ask [`prefetch`](Self::prefetch). The answer never changes.
    fn prefetches(&self) -> bool {
        false
    }

    /// Chooses the allocation that comes into `memory` ahead of its use, while engines leave the bus alone (D37): the slot, or none.
    /// `free` bytes of the memory are in no use, and nothing is evicted. No allocation comes if the answer is in a memory segment,
    /// on a list, offered, locked or destroyed, prefers another memory, or is larger than `free`. A destroyed allocation [`left`](Self::left) and
    /// is not [`gone`](Self::gone) before its last use has ended. What has come is told by
    /// [`brought_in`](Self::brought_in), and may go again before any list names it.
    fn prefetch(&mut self, _memory: SegmentId, _free: u64) -> Option<usize> {
        None
    }

    /// The allocation has left a memory.
    fn left(&mut self, _subject: Subject, _memory: SegmentId) {}

    /// The allocation is no more.
    fn gone(&mut self, _subject: Subject) {}
}
