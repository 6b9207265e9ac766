//! What is known of an allocation besides its place and its lists.

use vidmm::contract::CpuVirtualAddress;
use vidmm::{Extent, OfferFlags, OfferPriority, PlanNo, ProcessId, SegmentId};

/// A kind of memory that is shared among processes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Pool {
    /// The memory segment.
    Memory,
    /// System memory that engines reach.
    System,
}

/// Bytes of each kind of memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PerPool {
    pub memory: u64,
    pub system: u64,
}

impl PerPool {
    pub fn of(&self, pool: Pool) -> u64 {
        match pool {
            Pool::Memory => self.memory,
            Pool::System => self.system,
        }
    }
}

/// A part of an allocation, in bytes from its start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub offset: u64,
    pub size: u64,
}

/// What an allocation is counted as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Charge {
    pub process: ProcessId,
    /// None if the log does not say in which it is counted: it may be in both, or others than its owner list it.
    pub pool: Option<Pool>,
    pub size: u64,
}

/// What is known of an allocation that is offered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub flags: OfferFlags,
    /// LOW, NORMAL or HIGH: who has less is discarded first.
    pub class: OfferPriority,
    /// The last submission that uses it.
    pub last: u64,
    /// A plan threw its content away.
    pub discarded: bool,
    pub decommitted: bool,
}

impl Offer {
    /// Whether its content can be lost by now. Where it has no place it is discarded in its backing store, which no plan does.
    pub fn may_be_lost(&self, has_place: bool) -> bool {
        let immediately = self.flags.contains(OfferFlags::OFFER_IMMEDIATELY) && !has_place;
        self.discarded || self.decommitted || immediately
    }
}

/// What the CPU sees of a locked allocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CpuView {
    pub address: CpuVirtualAddress,
    pub segment: SegmentId,
    pub extents: Vec<Extent>,
    /// The last plan that moves it and has entered the stream: until that has retired the CPU sees nothing.
    pub hidden_by: Option<PlanNo>,
    pub locks: u32,
}
