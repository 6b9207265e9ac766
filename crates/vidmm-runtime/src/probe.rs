//! A look into a GPU, for the comparison of effects with what is documented.

use std::ops::Range;

use bitflags::bitflags;
use vidmm::contract::{KmdAllocationHandle, KmdProcessHandle, Pte, PteFlags};
use vidmm::{GpuVirtualAddress, PageSize, PhysicalAddress, SegmentId};

bitflags! {
    /// The parts of a GPU that it shows beside the content of pages.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub struct Sees: u32 {
        /// Entries of page tables: [`Probe::page_table_entry`].
        const ENTRIES = 1 << 0;
        /// Each flush of cached translations is reported: [`GpuEvent::Flushed`](crate::GpuEvent::Flushed).
        const FLUSHES = 1 << 1;
        /// The pages that apertures show: [`Probe::aperture_page`].
        const APERTURES = 1 << 2;
        /// Which pages of an allocation are compressed, and what they hold: [`Probe::first_compressed`] and
        /// [`Probe::plain_digest`].
        const COMPRESSION = 1 << 3;
        /// The mappings of the IOMMU, and what the device has cached of them: [`Probe::first_stale`].
        const IO_MMU = 1 << 4;
        /// The addresses in commands: [`Probe::patched_address`].
        const PATCHES = 1 << 5;
    }
}

/// A look into a GPU, past every cache, while it is between two packets.
///
/// A method is called only if [`sees`](Self::sees) names it.
pub trait Probe {
    /// The parts that the GPU shows.
    fn sees(&self) -> Sees;

    /// The entry of a page table, as it is in memory; none if no memory is there, or the table has no such entry. The
    /// `page_size` of a leaf table is that of its entries.
    fn page_table_entry(
        &self,
        table: PhysicalAddress,
        level: u32,
        page_size: PageSize,
        index: u32,
    ) -> Option<TableEntry> {
        let _ = (table, level, page_size, index);
        None
    }

    /// The number of the page of system memory that a page of an aperture shows; none if it shows nothing.
    fn aperture_page(&self, segment: SegmentId, page: u64) -> Option<u64> {
        let _ = (segment, page);
        None
    }

    /// The first of some pages of an allocation that holds compressed bytes.
    fn first_compressed(&self, allocation: KmdAllocationHandle, pages: Range<u64>) -> Option<u64> {
        let _ = (allocation, pages);
        None
    }

    /// The digest of a page of an allocation that is at `address`, as it is when it is decompressed; none if no memory is
    /// there.
    fn plain_digest(&self, allocation: KmdAllocationHandle, page: u64, address: PhysicalAddress) -> Option<u64> {
        let _ = (allocation, page, address);
        None
    }

    /// The first of some pages of a process's addresses that the IOMMU does not map, or that the device has cached with
    /// another meaning. Addresses are in pages.
    fn first_stale(&self, process: KmdProcessHandle, pages: Range<u64>) -> Option<GpuVirtualAddress> {
        let _ = (process, pages);
        None
    }

    /// The address that the driver was told for one of the manager's: findings name that.
    fn told_address(&self, address: PhysicalAddress) -> PhysicalAddress {
        address
    }

    /// The address that the bytes at `offset` of some commands stand for; none if it is none of any memory.
    fn patched_address(&self, commands: &[u8], offset: usize) -> Option<PhysicalAddress> {
        let _ = (commands, offset);
        None
    }
}

/// An entry of a page table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableEntry {
    /// The entry: of the 4 KiB side if the table has dual entries (GVA-43).
    pub pte: Pte,
    /// The entry of the 64 KiB side, if the table has dual entries.
    pub pte_64kb: Option<Pte>,
}

impl TableEntry {
    /// Whether the two do the same: the address of an entry that is not valid, or that reads as zero, means nothing.
    pub fn is_same_as(&self, other: &Self) -> bool {
        is_same(self.pte, other.pte)
            && match (self.pte_64kb, other.pte_64kb) {
                (Some(one), Some(other)) => is_same(one, other),
                (None, None) => true,
                _ => false,
            }
    }
}

/// Whether an entry points to memory: the zero bit alone wins over the valid bit (C-8).
pub(crate) fn leads_somewhere(pte: Pte) -> bool {
    pte.flags & (PteFlags::VALID | PteFlags::ZERO) == PteFlags::VALID
}

fn is_same(one: Pte, other: Pte) -> bool {
    match (leads_somewhere(one), leads_somewhere(other)) {
        (true, true) => one.flags == other.flags && one.address == other.address,
        (false, false) => one.flags.contains(PteFlags::ZERO) == other.flags.contains(PteFlags::ZERO),
        _ => false,
    }
}
