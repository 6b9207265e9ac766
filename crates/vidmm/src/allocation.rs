//! An allocation: what the driver said of it, where it is, and what it needs to be told apart from.

use alloc::{boxed::Box, vec::Vec};
use core::num::NonZeroU64;

use bitflags::bitflags;

use crate::{
    adapter::Adapter,
    contract::KmdAllocationHandle,
    extents::Extents,
    gpu_va::Mapping,
    id::{PlanNo, Slots, kind},
    pool::Pool,
    residency::ListEntry,
    units::{Extent, PAGE_SIZE, PageSize, SegmentId},
};

pub(crate) type Allocations = Slots<kind::Allocation, Allocation>;

/// The books of one allocation.
#[derive(Debug)]
pub(crate) struct Allocation {
    /// What the driver calls it.
    pub handle: KmdAllocationHandle,
    /// Size in bytes, rounded up to pages of where it may live (CRE-04, SEG-46).
    pub size: u64,
    /// Where its backing store is, in system memory.
    pub backing_store: u64,
    /// *Decided* (D4): where the last plan makes it resident; none is nowhere: its content is in its backing store.
    pub place: Option<Place>,
    /// The last plan that names it. It is *in flight* while that plan has not retired (D4).
    pub last_plan: PlanNo,
    pub links: Links,
    /// How the list of its device names it.
    pub entry: ListEntry,
    /// Its first mapping, if that shows all of it; the others.
    whole_mapping: Option<WholeMapping>,
    #[expect(clippy::box_collection, reason = "a thin pointer: nearly no allocation has other mappings")]
    more_mappings: Option<Box<Vec<Mapping>>>,
    /// The process of its device.
    pub process: u32,
    /// The device it was created on; only that device's list can name it (RES-10).
    pub device: u32,
    /// Larger stays longer (CRE-30).
    pub priority: u32,
    pub state: AllocationState,
}

/// Where an allocation is resident (1.2).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the memory segment.
    Memory(Extents),
    /// In the implicit system memory segment: where its backing store is (SEG-12).
    System,
    /// There too, and in the aperture segment from this byte on (SEG-13).
    Aperture(u64),
}

impl Place {
    /// What it takes there.
    pub fn pool(&self) -> Pool {
        match self {
            Place::Memory(_) => Pool::Memory,
            Place::System | Place::Aperture(_) => Pool::System,
        }
    }
}

/// Whose an allocation is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub process: u32,
    pub device: u32,
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
    pub(crate) struct AllocationState: u32 {
        /// The backing store holds content; otherwise the content is zero, and page-in is a fill (CRE-42, RES-18).
        const BACKED = 1 << 0;
        /// What the GPU has is newer than the backing store: eviction must copy it out, or is over with it in place (RES-22).
        const DIRTY = 1 << 1;
        /// It stands in a queue of [`Evictable`](crate::evictable::Evictable).
        const EVICTABLE = 1 << 2;
        /// Its last Evict asked for eviction at the earliest opportunity (RES-21).
        const EVICT_SOON = 1 << 3;
        /// The caller destroyed it; it lives on until nothing names it (RES-91).
        const DESTROYED = 1 << 4;
        /// It may be resident in the memory segment.
        const MAY_BE_IN_MEMORY = 1 << 5;
        /// It may be resident in system memory.
        const MAY_BE_IN_SYSTEM = 1 << 6;
        /// Of both it had better be in system memory (SEG-42).
        const PREFERS_SYSTEM = 1 << 7;
        /// In system memory it is mapped in the aperture (SEG-13).
        const ACCESSED_PHYSICALLY = 1 << 8;
        /// The driver is told before it is evicted (NTF-02).
        const NOTIFY_EVICTION = 1 << 9;
        /// The driver is told before it is unmapped from the IOMMU (NTF-04).
        const NOTIFY_IO_MMU_UNMAP = 1 << 10;
        /// The list of its device counts it in system memory. Fixed while anything outstanding requires it.
        const LISTED_IN_SYSTEM = 1 << 11;
        /// Its owner can do without it until it is reclaimed (RES-61).
        const OFFERED = 1 << 12;
        /// It was discarded since it was offered.
        const DISCARDED = 1 << 13;
        /// What its backing store holds is worthless, and is reset when the plan that discards it has retired.
        const RESET_PENDING = 1 << 14;
        /// It has no backing store: that was decommitted while it was offered (RES-66).
        const NOT_COMMITTED = 1 << 15;
        /// While it is evictable, the class of the queue that it stands in.
        const CLASS = 0b111 << 29;
    }
}

impl AllocationState {
    /// The lowest bit of [`CLASS`](Self::CLASS).
    pub const LOWEST_CLASS_BIT: u32 = 1 << 29;
}

/// A mapping of all of an allocation without driver protection, as nearly all are: its address, and flags in the bits that a
/// page's address has to spare.
#[derive(Clone, Copy, Debug)]
struct WholeMapping(NonZeroU64);

impl WholeMapping {
    const KIB64: u64 = 1 << 0;
    const READ_ONLY: u64 = 1 << 1;

    fn pack(mapping: &Mapping) -> Self {
        let large = if mapping.pte_page_size == PageSize::Kib64 { Self::KIB64 } else { 0 };
        let read_only = if mapping.read_only { Self::READ_ONLY } else { 0 };
        Self(NonZeroU64::new(mapping.virtual_address | large | read_only).expect("address 0 is never mapped"))
    }

    fn unpack(self, process: u32, size: u64) -> Mapping {
        Mapping {
            process,
            pte_page_size: if self.0.get() & Self::KIB64 != 0 { PageSize::Kib64 } else { PageSize::Kib4 },
            read_only: self.0.get() & Self::READ_ONLY != 0,
            virtual_address: self.0.get() & !(PAGE_SIZE - 1),
            size,
            allocation_offset: 0,
            driver_protection: 0,
        }
    }
}

impl Allocation {
    /// A new allocation: nowhere but in its backing store.
    pub fn new(
        handle: KmdAllocationHandle,
        size: u64,
        backing_store: u64,
        owner: Owner,
        priority: u32,
        state: AllocationState,
    ) -> Self {
        Self {
            handle,
            size,
            backing_store,
            place: None,
            last_plan: 0,
            links: Links::UNLINKED,
            entry: ListEntry::default(),
            whole_mapping: None,
            more_mappings: None,
            process: owner.process,
            device: owner.device,
            priority,
            state,
        }
    }

    /// All mappings.
    pub fn mappings(&self) -> impl Iterator<Item = Mapping> {
        let whole = self.whole_mapping.map(|whole| whole.unpack(self.process, self.size));
        whole.into_iter().chain(self.more_mappings.iter().flat_map(|mappings| mappings.iter().copied()))
    }

    /// Adds a mapping.
    pub fn add_mapping(&mut self, mapping: Mapping) {
        let whole = WholeMapping::pack(&mapping);
        if self.whole_mapping.is_none() && whole.unpack(self.process, self.size) == mapping {
            self.whole_mapping = Some(whole);
        } else {
            self.more_mappings.get_or_insert_default().push(mapping);
        }
    }

    /// Removes and returns the mapping at exactly `virtual_address`.
    pub fn remove_mapping(&mut self, virtual_address: u64) -> Option<Mapping> {
        let whole = self.whole_mapping.map(|whole| whole.unpack(self.process, self.size));
        if let Some(mapping) = whole.filter(|mapping| mapping.virtual_address == virtual_address) {
            self.whole_mapping = None;
            return Some(mapping);
        }
        let more = self.more_mappings.as_mut()?;
        let at = more.iter().position(|mapping| mapping.virtual_address == virtual_address)?;
        Some(more.swap_remove(at))
    }

    /// Where its device's list counts it.
    pub fn pool(&self) -> Pool {
        if self.state.contains(AllocationState::LISTED_IN_SYSTEM) { Pool::System } else { Pool::Memory }
    }

    /// Where it may be counted, first choice first. While something outstanding requires it, that is where it is.
    pub fn pools(&self) -> [Option<Pool>; 2] {
        if self.entry.holding || self.entry.has_ungranted_span() {
            return [Some(self.pool()), None];
        }
        let memory = self.state.contains(AllocationState::MAY_BE_IN_MEMORY).then_some(Pool::Memory);
        let system = self.state.contains(AllocationState::MAY_BE_IN_SYSTEM).then_some(Pool::System);
        if self.state.contains(AllocationState::PREFERS_SYSTEM) { [system, memory] } else { [memory, system] }
    }

    /// Whether something outstanding requires it: a granted span, or one that waits for its grant.
    pub fn is_required(&self) -> bool {
        self.entry.count > 0 || self.entry.holding || self.entry.has_ungranted_span()
    }

    /// The segment that it is resident in, and its ranges there; its backing store if it is nowhere else.
    pub fn location(&self, adapter: &Adapter) -> (SegmentId, Extents) {
        let in_place = |offset| Extents::one(Extent { offset, size: self.size });
        match &self.place {
            Some(Place::Memory(extents)) => (adapter.memory_id(), extents.clone()),
            Some(Place::Aperture(offset)) => (adapter.aperture.id, in_place(*offset)),
            Some(Place::System) | None => (SegmentId::SYSTEM, in_place(self.backing_store)),
        }
    }

    /// Whether it was destroyed and no submission, queued ones included, will use it.
    pub fn is_dead(&self) -> bool {
        self.state.contains(AllocationState::DESTROYED) && !self.entry.holding && !self.entry.has_ungranted_span()
    }

    /// Whether its content is lost when it leaves the place where it is.
    pub fn is_worthless(&self) -> bool {
        self.is_dead() || self.is_discardable()
    }

    /// Whether it is offered and no submission that was made before, queued ones included, will use it.
    pub fn is_discardable(&self) -> bool {
        self.state.contains(AllocationState::OFFERED) && !self.entry.holding && !self.entry.has_ungranted_span()
    }
}
