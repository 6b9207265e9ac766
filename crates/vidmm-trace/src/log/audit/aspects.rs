//! Properties of an allocation besides its place and its lists.

use std::collections::BTreeMap;

use vidmm::contract::CpuVirtualAddress;
use vidmm::{DeviceId, Extent, OfferFlags, OfferPriority, PhysicalAddress, PlanNo, ProcessId, SegmentId};

use super::list_entry::Writes;

/// Memory that is shared among processes: a memory segment, or system memory that engines reach.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Pool(pub SegmentId);

impl Pool {
    /// System memory that engines reach.
    pub const SYSTEM: Pool = Pool(SegmentId::SYSTEM);
}

/// Bytes of each pool.
#[derive(Clone, Debug, Default)]
pub(super) struct PerPool(pub BTreeMap<Pool, u64>);

impl PerPool {
    pub fn of(&self, pool: Pool) -> u64 {
        self.0.get(&pool).copied().unwrap_or(0)
    }
}

/// A part of an allocation, in bytes from its start.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chunk {
    pub offset: u64,
    pub size: u64,
}

/// The cleaning of an allocation, until the copy of the last part has ended.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    /// The first byte of the next part.
    pub next: u64,
    /// Writes before the first part, which the backing store lacks until the end.
    pub before: Writes,
}

/// The way in which a list counts an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Charge {
    pub process: ProcessId,
    /// The device whose list names it.
    pub device: DeviceId,
    /// None if the log does not say in which it is counted.
    pub pool: Option<Pool>,
    pub size: u64,
}

/// The record of an offered allocation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Offer {
    pub flags: OfferFlags,
    /// LOW, NORMAL or HIGH: who has less is discarded first.
    pub class: OfferPriority,
    /// The last submission that uses it.
    pub last: u64,
    /// The event of the offer, and whether nothing used it by then.
    pub at: u64,
    pub was_idle: bool,
    /// Its content is lost.
    pub discarded: bool,
    pub decommitted: bool,
}

/// The CPU's view of a locked allocation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct CpuView {
    pub address: CpuVirtualAddress,
    /// The segment and the ranges of it that it shows; no ranges while that moves.
    pub shown: (SegmentId, Vec<Extent>),
    /// The last plan that moves it and has entered the stream: until that has retired the CPU sees nothing.
    pub hidden_by: Option<PlanNo>,
    pub locks: u32,
}

/// Where in a memory segment the driver believes an allocation to be; nowhere at first, and after a reset of the adapter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Residency(pub Option<PhysicalAddress>);
