//! The driver's decisions when an allocation is created.

use bitflags::bitflags;

use super::KmdAllocationHandle;
use crate::units::SegmentId;
pub use vidmm_linear::Direction;

/// The driver's decisions about an allocation, from its user-mode part's private data (CRE-03).
#[doc(alias = "DXGK_ALLOCATIONINFO")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllocationInfo {
    /// The driver's own handle; named in every operation on the allocation.
    pub allocation: KmdAllocationHandle,
    /// Size in bytes; rounded up to the pages of the segments that it may live in (CRE-04, SEG-46).
    pub size: u64,
    /// Alignment in bytes: 0 for a page, else a power of two. A 64 KiB pool asks for a multiple of 64 KiB.
    pub alignment: u32,
    /// The segments where it may live. An aperture segment in the set means system memory (SEG-12).
    pub supported_segment_set: SegmentSet,
    /// The segments where it had better live: first choice first.
    pub preferred_segment: SegmentPreference,
    /// The banks of the segment of its first preference where it had better live; ignored where a memory segment is
    /// pages.
    pub hinted_bank: SegmentBankPreference,
    /// Aperture segments through which its content may leave the memory segment; none is directly (SEG-45). Ignored
    /// with GPU virtual addresses.
    pub eviction_segment_set: SegmentSet,
    /// Initial priority, larger stays longer; never 0 (CRE-05, CRE-30).
    pub allocation_priority: u32,
    /// Its flags.
    pub flags: AllocationFlags,
    /// Its newer flags (CRE-07). Below the interface version that has them they are ignored.
    pub flags2: AllocationFlags2,
}

/// The priority of most allocations (CRE-30).
#[doc(alias = "D3DDDI_ALLOCATIONPRIORITY_NORMAL")]
pub const ALLOCATION_PRIORITY_NORMAL: u32 = 0x7800_0000;

impl AllocationInfo {
    /// A plain allocation of `size` bytes, in any of these segments: normal priority, and no preference, alignment or flag.
    pub fn new(allocation: KmdAllocationHandle, size: u64, supported_segment_set: SegmentSet) -> Self {
        Self {
            allocation,
            size,
            alignment: 0,
            supported_segment_set,
            preferred_segment: SegmentPreference::default(),
            hinted_bank: SegmentBankPreference::default(),
            eviction_segment_set: SegmentSet::default(),
            allocation_priority: ALLOCATION_PRIORITY_NORMAL,
            flags: AllocationFlags::empty(),
            flags2: AllocationFlags2::empty(),
        }
    }
}

/// Segments, as a mask: bit n is segment n+1 (SEG-40).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SegmentSet(pub u32);

impl SegmentSet {
    /// The set that holds `segment` alone.
    ///
    /// # Panics
    ///
    /// If `segment` is system memory, which has no place in a set (SEG-11), or beyond 32.
    pub const fn of(segment: SegmentId) -> Self {
        assert!(segment.0 >= 1 && segment.0 <= 32);
        Self(1 << (segment.0 - 1))
    }

    /// Whether `segment` is in the set.
    pub const fn contains(self, segment: SegmentId) -> bool {
        segment.0 >= 1 && segment.0 <= 32 && self.0 >> (segment.0 - 1) & 1 == 1
    }
}

/// Up to five segments in order of preference (SEG-42).
#[doc(alias = "DXGK_SEGMENTPREFERENCE")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SegmentPreference {
    /// The segments; id 0 ends the list.
    pub segment_ids: [SegmentId; 5],
    /// The end of each from which room is searched. Pages of a segment are all alike.
    pub directions: [Direction; 5],
}

impl SegmentPreference {
    /// These segments, from their starts.
    pub const fn of(segment_ids: [SegmentId; 5]) -> Self {
        Self { segment_ids, directions: [Direction::FromStart; 5] }
    }

    /// The rest of it where only segments of `set` are possible.
    pub fn within(self, set: SegmentSet) -> Self {
        let named = self.segment_ids.into_iter().zip(self.directions).take_while(|(segment, _)| !segment.is_system());
        let mut left = Self::default();
        for (at, (segment, direction)) in named.filter(|&(segment, _)| set.contains(segment)).enumerate() {
            (left.segment_ids[at], left.directions[at]) = (segment, direction);
        }
        left
    }
}

/// Up to four banks of the segment of first preference, in order of preference (SEG-43).
#[doc(alias = "DXGK_SEGMENTBANKPREFERENCE")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SegmentBankPreference {
    /// The banks, from 1; 0 ends the list.
    pub banks: [u8; 4],
    /// The end of each from which room is searched.
    pub directions: [Direction; 4],
}

bitflags! {
    /// Flags of an allocation, with WDDM's bit positions (2.2).
    #[doc(alias = "DXGK_ALLOCATIONINFOFLAGS_WDDM2_0")]
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct AllocationFlags: u32 {
        /// The CPU may lock it.
        const CPU_VISIBLE = 1 << 0;
        /// The content in system memory is kept while it is in the memory segment. When it is evicted and the GPU has
        /// not written to it nothing is copied, Lock shows the copy in system memory, and Unlock brings the content in
        /// the memory segment up to date (2.2). Needs `CPU_VISIBLE`.
        const PERMANENT_SYS_MEM = 1 << 1;
        /// Its backing store is in cacheable memory, and not write-combined (2.2). Where the GPU can snoop the CPU's
        /// caches it is told to: by entries with [`CACHE_COHERENT`](super::PteFlags::CACHE_COHERENT), and by maps of
        /// cache-coherent apertures (BPB-30). Elsewhere the host keeps memory and caches the same. Needs `CPU_VISIBLE`.
        const CACHED = 1 << 2;
        /// Its backing store is memory that the caller owns, given at creation; locks are those of `PERMANENT_SYS_MEM`.
        const EXISTING_SYS_MEM = 1 << 4;
        /// Room for it is searched from the end of a segment, unless a preference says otherwise (SEG-44).
        const FROM_END_OF_SEGMENT = 1 << 6;
        /// No entry with [`LARGE_PAGE`](super::PteFlags::LARGE_PAGE) shows it (GVA-21).
        const DISABLE_LARGE_PAGE_MAPPING = 1 << 7;
        /// Engines address it physically: while it is resident in system memory it is mapped in the aperture segment (SEG-13).
        /// Not possible with a memory segment in its set in this version.
        const ACCESSED_PHYSICALLY = 1 << 15;
        /// The driver is told when it has come into a memory segment, and when it is to leave it (BPB-51). Needs
        /// `ACCESSED_PHYSICALLY`.
        const EXPLICIT_RESIDENCY_NOTIFICATION = 1 << 16;
    }
}

bitflags! {
    /// Newer flags of an allocation, with WDDM's bit positions (2.3).
    #[doc(alias = "DXGK_ALLOCATIONINFOFLAGS2")]
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct AllocationFlags2: u32 {
        /// The driver is told before it is evicted from the aperture or the implicit system memory segment (NTF-02).
        const NOTIFY_EVICTION = 1 << 4;
        /// The driver is told before it is unmapped from the IOMMU (NTF-04).
        const NOTIFY_IO_MMU_UNMAP = 1 << 5;
    }
}

/// The reason why a driver did not create an allocation (CRE-01).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum CreateAllocationError {
    /// The private data means nothing to the driver.
    #[error("the driver does not understand the allocation's private data")]
    InvalidParameter,
    /// The driver is out of memory.
    #[error("the driver has no memory for another allocation")]
    NoMemory,
    /// The private data comes from a user-mode part of another version (C-21).
    #[error("the user-mode driver and the kernel-mode driver do not match")]
    DriverMismatch,
}
