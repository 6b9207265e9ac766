//! The rules that a driver's report can break. The text of each names the fact.

use alloc::vec::Vec;
use core::fmt;

/// The adapter did not start: each rule that the driver's report breaks (U-1).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StartAdapterError {
    /// The broken rules, in the order of the report.
    pub broken_rules: Vec<BrokenRule>,
}

impl core::error::Error for StartAdapterError {}

impl fmt::Display for StartAdapterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the adapter cannot start: what the driver reports breaks {} rule(s)", self.broken_rules.len())?;
        self.broken_rules.iter().try_for_each(|rule| write!(f, "\n  {rule}"))
    }
}

/// A rule that the driver's report breaks. The text names the fact.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum BrokenRule {
    /// Too few or too many segments.
    #[error("SEG-05: {0} segments are reported; 1 to 32 are possible")]
    SegmentCount(usize),
    /// A segment without memory, or not a whole number of pages.
    #[error(
        "SEG-06: segment {segment} has a size of {size} bytes; it must be a multiple of its pages of {page_size} and not 0"
    )]
    SegmentSize {
        /// The segment.
        segment: u8,
        /// Its size in bytes.
        size: u64,
        /// Its page size in bytes.
        page_size: u64,
    },
    /// A segment larger than this version manages.
    #[error("vidmm: segment {segment} has {size} bytes; this version manages up to 1 EiB")]
    SegmentTooLarge {
        /// The segment.
        segment: u8,
        /// Its size in bytes.
        size: u64,
    },
    /// A segment that ends beyond 64 bits.
    #[error("SEG-05: segment {0} ends beyond the 64-bit physical address space")]
    SegmentOverflow(u8),
    /// Two segments share addresses.
    #[error("SEG-05: segments {0} and {1} overlap")]
    SegmentOverlap(u8, u8),
    /// A memory segment of which only a part may be committed.
    #[error("SEG-30: memory segment {segment} has a commit limit of {commit_limit}; it must equal its size of {size}")]
    CommitLimit {
        /// The segment.
        segment: u8,
        /// Its size in bytes.
        size: u64,
        /// Its limit in bytes.
        commit_limit: u64,
    },
    /// More aperture segments than there may be.
    #[error(
        "SEG-10: {0} aperture segments are reported; WDDM 2 has exactly one, and this version manages 5 at most of WDDM 1"
    )]
    ApertureCount(usize),
    /// More memory segments than this version manages.
    #[error("vidmm: {0} memory segments are reported; this version manages 10 at most")]
    MemorySegmentCount(usize),
    /// A memory segment that engines cannot address.
    #[error(
        "GVA-02: segment {0} is a memory segment, but the IOMMU, which translates this adapter's addresses, reaches system memory only"
    )]
    MemorySegmentBehindIoMmu(u8),
    /// Page tables that nothing walks.
    #[error("PGV-20: {0} page-table levels are reported, but the IOMMU translates this adapter's addresses")]
    LevelsWithoutGpuMmu(usize),
    /// Address bits that no IOMMU has.
    #[error("PGV-20: {0} virtual address bits are reported; 32 to 63 are possible behind an IOMMU")]
    IoMmuAddressBits(u32),
    /// A resource table without slots, or with more than slot ids can name.
    #[error("SPL-02, U-44: {0} slots are reported; 1 to 16777216 are possible")]
    SlotCount(u32),
    /// A memory segment that is larger than contiguous placement can manage.
    #[error("vidmm: the memory segment has {0} bytes; without GPU virtual addresses this version manages up to 1 TiB")]
    LinearSegmentSize(u64),
    /// Banks that do not divide the memory segment.
    #[error(
        "SEG-31: {count} banks are reported; there can be 127, whose ends rise, are multiples of 4096 and lie in the memory segment"
    )]
    Banks {
        /// How many.
        count: usize,
    },
    /// Too few or too many engines.
    #[error("BPB-10: {0} engines are reported; 1 to 64 are possible")]
    EngineCount(usize),
    /// Not exactly one paging engine.
    #[error("GVA-63: {0} paging engines are reported; exactly one runs the paging buffers")]
    PagingEngineCount(usize),
    /// An interface version before WDDM 2.0, with GPU virtual addresses.
    #[error("GVA-01: interface version {0:#x} is older than WDDM 2.0 (0x5023), which GPU virtual addresses begin with")]
    Version(u32),
    /// An interface version before WDDM 2.9, with MAP_APERTURE_SEGMENT2.
    #[error(
        "BPB-34: MapAperture2Supported is reported, but interface version {0:#x} is older than WDDM 2.9 (0xe003), which MAP_APERTURE_SEGMENT2 begins with"
    )]
    MapAperture2(u32),
    /// Too few or too many levels.
    #[error("GVA-11: {0} page-table levels are reported; 2 to 6 are possible")]
    LevelCount(usize),
    /// Address bits and levels do not go together.
    #[error("GVA-12: {va_bits} virtual address bits, but pages and the levels below the root take {below_root}")]
    AddressBits {
        /// The reported bits.
        va_bits: u32,
        /// Bits that pages and lower levels take.
        below_root: u64,
    },
    /// A table size that cannot be.
    #[error(
        "GVA-15: a table of level {level} has {size} bytes; it must be a multiple of 4096 with at least 8 bytes an entry for {entries} entries"
    )]
    TableSize {
        /// The level.
        level: u32,
        /// The reported size in bytes.
        size: u32,
        /// Its entries.
        entries: u64,
    },
    /// Tables in system memory larger than a page.
    #[error("GVA-15: a table of level {level} has {size} bytes; in system memory 4096 is the most")]
    SystemTableSize {
        /// The level.
        level: u32,
        /// The reported size in bytes.
        size: u32,
    },
    /// Tables larger than a page of the segment that they live in.
    #[error(
        "vidmm: page tables have up to {size} bytes, more than a page of their segment ({page_size}); give them an area of their own with AdapterOptions::page_table_area"
    )]
    TableBeyondPage {
        /// The bytes of the largest, in whole pages.
        size: u64,
        /// The page size in bytes.
        page_size: u64,
    },
    /// Tables in a segment that holds none.
    #[error(
        "GVA-15: tables of level {level} are to live in segment {segment}; only the memory segment and system memory (0), the same for all levels, hold tables"
    )]
    TableSegment {
        /// The level.
        level: u32,
        /// The segment.
        segment: u8,
    },
    /// A leaf table for 64 KiB pages that cannot be.
    #[error(
        "GVA-44: the leaf table for 64 KiB pages has {size} bytes; it must be a multiple of 4096 with at least 8 bytes an entry for {entries} entries, of which there must be at least 1"
    )]
    LeafTableSize64Kb {
        /// The reported size in bytes.
        size: u32,
        /// Its entries: a sixteenth of those of a leaf table for 4 KiB pages.
        entries: u64,
    },
    /// A paging buffer larger than any that makes sense.
    #[error(
        "SEG-35: a paging buffer has {size} bytes and {private_data_size} of private data; 64 MiB of each are the most"
    )]
    PagingBufferSize {
        /// Bytes of the buffer.
        size: u32,
        /// Bytes of private data.
        private_data_size: u32,
    },
    /// The CPU is to set the paging process's tables up where this version lets it write none.
    #[error(
        "GVA-33: page tables are written through the paging process's addresses (GpuVirtual), so the CPU sets that process's own tables up, but they live in segment {0}; let PagingProcessPageTableSegmentId be system memory (0)"
    )]
    PagingTablesBeyondCpu(u8),
    /// The same, where the adapter's user has asked for it.
    #[error(
        "GVA-33: the CPU is to write the paging process's tables (paging_tables_by_cpu), but they live in segment {0}; let PagingProcessPageTableSegmentId be system memory (0)"
    )]
    PagingTablesByCpu(u8),
    /// No work of a process may run while its entries are written.
    #[error(
        "GVA-35: PageTableUpdateRequireAddressSpaceIdle is reported, but this version writes and flushes entries while other work of their process runs"
    )]
    AddressSpaceIdle,
    /// Transfers are to say where page tables are.
    #[error(
        "BPB-40: SourcePageTableVaInTransfer is reported, but this version sends VIRTUAL_TRANSFER without SourcePageTable and DestinationPageTable"
    )]
    PageTablesInTransfers,
    /// Page tables that the CPU is to write, in local memory.
    #[error(
        "GVA-10: the CPU is to write page tables (CpuVirtual), but some live in segment {0}, which is local memory; report GpuPhysical, or system memory (0)"
    )]
    CpuTablesInLocalMemory(u8),
    /// The address space is too small for the windows of the paging process.
    #[error(
        "GVA-61: {va_bits} virtual address bits are too few: the paging process needs two windows of at least {coverage} bytes, which one leaf table covers, behind an unused one"
    )]
    AddressSpaceTooSmall {
        /// The reported bits.
        va_bits: u32,
        /// Bytes that a leaf table covers.
        coverage: u64,
    },
    /// The pinned tables of the paging process do not fit.
    #[error(
        "PGV-04: the page tables of the paging process take {tables} bytes, which always stay resident; {size} bytes of the segment may be tables"
    )]
    PagingTables {
        /// Their size in bytes.
        tables: u64,
        /// The bytes of the segment that they may take.
        size: u64,
    },
    /// The area for page tables is no part of their segment.
    #[error(
        "vidmm: the area for page tables has {area} bytes; it must be whole tables of {table_size} and at most half of its segment of {size}"
    )]
    PageTableArea {
        /// Its size in bytes.
        area: u64,
        /// The bytes that each table takes: as many as the largest, in whole pages.
        table_size: u64,
        /// The segment's size in bytes.
        size: u64,
    },
    /// An alignment of tables that their places do not have.
    #[error(
        "GVA-15: page tables are to be aligned to {alignment} bytes; they lie at multiples of {table_size}, which must be a multiple of that, as the start of their area must"
    )]
    TableAlignment {
        /// The largest alignment of a level in bytes.
        alignment: u64,
        /// The bytes that each table takes.
        table_size: u64,
    },
    /// The driver or the host had no memory for the system process.
    #[error("GVA-62: the system process could not be created: out of memory")]
    SystemProcess,
}
