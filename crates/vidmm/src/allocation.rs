//! An allocation: what the driver said of it, where it is, and what it needs to be told apart from.

use alloc::{boxed::Box, vec::Vec};

use bitflags::bitflags;

use crate::{
    contract::KmdAllocationHandle,
    extents::Extents,
    gpu_va::Mapping,
    id::{PlanNo, Slots, kind},
    residency::ListEntry,
};

pub(crate) type Allocations = Slots<kind::Allocation, Allocation>;

/// The books of one allocation.
#[derive(Debug)]
pub(crate) struct Allocation {
    /// What the driver calls it.
    pub handle: KmdAllocationHandle,
    /// Size in bytes, rounded up to pages of the segment (CRE-04, SEG-46).
    pub size: u64,
    /// Where its backing store is, in system memory.
    pub backing_store: u64,
    /// *Decided* (D4): where the last plan puts it; none is its backing store.
    pub place: Option<Extents>,
    /// The last plan that names it. It is *in flight* while that plan has not retired (D4).
    pub last_plan: PlanNo,
    pub links: Links,
    /// How the list of its device names it.
    pub entry: ListEntry,
    /// Where processes see it.
    pub mapping: Option<Mapping>,
    pub more_mappings: Option<Box<Vec<Mapping>>>,
    /// The device it was created on; only that device's list can name it (RES-10).
    pub device: u32,
    /// Larger stays longer (CRE-30).
    pub priority: u32,
    pub state: AllocationState,
}

/// Neighbours of an allocation in the queue of its priority while it is evictable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Links {
    pub before: u32,
    pub after: u32,
}

impl Links {
    /// No neighbour.
    pub const NONE: u32 = u32::MAX;
    /// Of an allocation that stands in no queue.
    pub const UNLINKED: Links = Links { before: Self::NONE, after: Self::NONE };
}

bitflags! {
    /// What is known of an allocation's content and life.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub(crate) struct AllocationState: u8 {
        /// The backing store holds content; otherwise the content is zero, and page-in is a fill (CRE-42, RES-18).
        const BACKED = 1 << 0;
        /// The copy in the segment is newer than the backing store: eviction must copy it out (RES-22).
        const DIRTY = 1 << 1;
        /// It stands in a queue of [`Evictable`](crate::residency::Evictable).
        const EVICTABLE = 1 << 2;
        /// Its last Evict asked for eviction at the earliest opportunity (RES-21).
        const EVICT_SOON = 1 << 3;
        /// The caller destroyed it; it lives on until nothing names it (RES-91).
        const DESTROYED = 1 << 4;
        /// The plan that takes its last traces away has been decided.
        const PURGED = 1 << 5;
    }
}

impl Allocation {
    /// All mappings.
    pub fn mappings(&self) -> impl Iterator<Item = &Mapping> {
        self.mapping.iter().chain(self.more_mappings.iter().flat_map(|mappings| mappings.iter()))
    }

    /// Adds a mapping.
    pub fn add_mapping(&mut self, mapping: Mapping) {
        match self.mapping {
            None => self.mapping = Some(mapping),
            Some(_) => self.more_mappings.get_or_insert_default().push(mapping),
        }
    }

    /// Removes and returns the mapping of `process` at exactly `virtual_address`.
    pub fn remove_mapping(&mut self, process: u32, virtual_address: u64) -> Option<Mapping> {
        let is_it = |mapping: &Mapping| mapping.process == process && mapping.virtual_address == virtual_address;
        if self.mapping.as_ref().is_some_and(is_it) {
            let next = self.more_mappings.as_mut().and_then(|mappings| mappings.pop());
            return core::mem::replace(&mut self.mapping, next);
        }
        let more = self.more_mappings.as_mut()?;
        let at = more.iter().position(is_it)?;
        Some(more.swap_remove(at))
    }

    /// Whether it was destroyed and no submission, queued ones included, will use it.
    pub fn is_dead(&self) -> bool {
        self.state.contains(AllocationState::DESTROYED) && !self.entry.holding && !self.entry.has_ungranted_span()
    }
}
