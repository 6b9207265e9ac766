//! The flags of an allocation.

use bitflags::bitflags;

bitflags! {
    /// Facts of an allocation's content and life.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub(crate) struct AllocationState: u32 {
        /// The backing store holds content. Without content in the store the page-in is a fill with zeros (CRE-42, RES-18).
        const BACKED = 1 << 0;
        /// The GPU's content is newer than the backing store: eviction must copy the content out (RES-22).
        const DIRTY = 1 << 1;
        /// The allocation stands in a queue of `Evictable`.
        const EVICTABLE = 1 << 2;
        /// The last Evict asked for eviction at the earliest opportunity (RES-21).
        const EVICT_SOON = 1 << 3;
        /// The caller destroyed the allocation, which lives on until the last use has ended (RES-91).
        const DESTROYED = 1 << 4;
        /// The aperture maps the allocation in system memory (SEG-13).
        const ACCESSED_PHYSICALLY = 1 << 11;
        /// The driver is told before the eviction (NTF-02).
        const NOTIFY_EVICTION = 1 << 9;
        /// The driver is told before the unmapping from the IOMMU (NTF-04).
        const NOTIFY_IO_MMU_UNMAP = 1 << 10;
        /// The parts that were copied out in place are right, as nothing has written since (D37).
        const CLEANING = 1 << 14;
        /// All content was copied out in place, and the allocation has stayed since (D37).
        const CLEANED = 1 << 21;
        /// Other devices may open the allocation (CRE-41).
        const SHARED = 1 << 12;
        /// A destroyed allocation that goes with the last use by a device that has closed the allocation.
        const PURGE_DUE = 1 << 13;
        /// The owner does without the allocation until the reclaim (RES-61).
        const OFFERED = 1 << 15;
        /// The content was lost since the offer.
        const DISCARDED = 1 << 16;
        /// The driver is told of each arrival in a memory segment and of each departure (BPB-51).
        const NOTIFY_RESIDENCY = 1 << 17;
        /// There is no backing store: an offer's decommit took the store (RES-66).
        const NOT_COMMITTED = 1 << 18;
        /// The CPU sees the allocation (RES-80).
        const LOCKED = 1 << 19;
        /// A lock waits until the allocation has left a memory segment outside the CPU's sight (RES-82).
        const LOCK_PENDING = 1 << 20;
        /// The CPU sees a copy in system memory, kept for any place of the allocation (2.2).
        const KEEPS_COPY = 1 << 22;
        /// The backing store is the caller's (2.2).
        const EXISTING_SYS_MEM = 1 << 23;
        /// The backing store is in cacheable memory (2.2).
        const CACHED = 1 << 26;
        /// Only leaf entries show the allocation (GVA-21).
        const NO_LARGE_PAGES = 1 << 27;
        /// The destroyer waits for the end (RES-91).
        const SYNCHRONOUS_DESTROY = 1 << 24;
        /// A walk over a list, with repeated names, has passed the allocation. Set during the walk only.
        const SEEN = 1 << 25;
        /// The home in the lists of the devices. Fixed while anything outstanding requires the allocation.
        const HOME = 0b1111 << 5;
        /// The class of the queue with the evictable allocation.
        const CLASS = 0b111 << 29;
    }
}

impl AllocationState {
    /// The lowest bit of [`CLASS`](Self::CLASS).
    pub(super) const LOWEST_CLASS_BIT: u32 = 1 << 29;
    pub(super) const LOWEST_HOME_BIT: u32 = 1 << 5;
}
