//! Page-table entries, as the driver gets them.

use bitflags::bitflags;

use crate::units::{PageSize, PhysicalAddress, SegmentId};

bitflags! {
    /// The state of an entry, with WDDM's bit positions (4.4).
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct PteFlags: u64 {
        /// The entry points somewhere. Access through an entry that is neither valid nor zero faults (GVA-20).
        const VALID = 1 << 0;
        /// Reads give 0, writes are dropped (GVA-20, C-8).
        const ZERO = 1 << 1;
        /// The GPU snoops the CPU's caches: of entries that show cached memory in system memory, where the driver
        /// reports [`CACHE_COHERENT_MEMORY_SUPPORTED`](super::GpuMmuFlags::CACHE_COHERENT_MEMORY_SUPPORTED) (4.2).
        const CACHE_COHERENT = 1 << 2;
        /// Writes fault.
        const READ_ONLY = 1 << 3;
        /// The memory behind the entry is not executed.
        const NO_EXECUTE = 1 << 4;
        /// The entry of a table above the leaves points to memory, and not to a table: as much as a table below it covers (GVA-21).
        const LARGE_PAGE = 1 << 10;
    }
}

/// One page-table entry. The hardware's own format is the driver's secret (GVA-01).
#[doc(alias = "DXGK_PTE")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Pte {
    /// Its state.
    pub flags: PteFlags,
    /// The address that it points to: a page in a leaf table or with [`LARGE_PAGE`](PteFlags::LARGE_PAGE), the next table in the others.
    pub address: PhysicalAddress,
}

impl Pte {
    /// The entry through which every access faults.
    pub const INVALID: Pte =
        Pte { flags: PteFlags::empty(), address: PhysicalAddress { segment: SegmentId::SYSTEM, offset: 0 } };

    /// The entry through which every read gives 0, and every write is dropped.
    pub const ZERO: Pte = Pte { flags: PteFlags::ZERO, ..Pte::INVALID };

    /// An entry that points to `address`.
    pub const fn valid(address: PhysicalAddress) -> Self {
        Self { flags: PteFlags::VALID, address }
    }

    /// The entry `pages` further on in a run: its address advances, unless it is not valid.
    pub fn advanced(self, pages: u64, page_size: PageSize) -> Self {
        if self.flags.contains(PteFlags::VALID) {
            Self { address: self.address.offset_by(pages * page_size.bytes()), ..self }
        } else {
            self
        }
    }
}

/// Consecutive entries of one table: the first, and their number.
///
/// WDDM passes an array. Ours is the run that the array nearly always is (D11): with
/// [`REPEAT`](super::UpdatePageTableFlags::REPEAT) all entries are equal, else each is one page further than the one before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PteRun {
    /// The first entry: of the 4 KiB side when the table is a level-1 table with dual entries (GVA-43).
    pub first: Pte,
    /// The first entry of the 64 KiB side of a level-1 table with dual entries (GVA-30).
    #[doc(alias = "pPageTableEntries64KB")]
    pub first_64kb: Option<Pte>,
    /// The number of entries; never 0.
    #[doc(alias = "NumPageTableEntries")]
    pub num_page_table_entries: u32,
}

impl PteRun {
    /// Whether a side of its entries points to memory in place of a table (GVA-21).
    pub fn has_large_pages(&self) -> bool {
        let sides = [Some(self.first), self.first_64kb];
        sides.into_iter().flatten().any(|pte| pte.flags.contains(PteFlags::LARGE_PAGE))
    }
}
