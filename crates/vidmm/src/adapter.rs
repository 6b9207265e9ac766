//! Adapter start: what the driver reported, checked, in the form in which the core uses it.

use alloc::vec::Vec;
use core::fmt;

use crate::contract::{
    AdapterInfo, AddressingModel, EngineKind, GpuMmuFlags, IoMmuDomain, KmdProcessHandle, PageTableLevelDesc,
    PageTableUpdateMode, PagingBufferDesc, SegmentDescriptor, SegmentFlags, WddmVersion,
};
use crate::units::{PAGE_SIZE, PageSize, SegmentId};

const SEGMENTS_MAX: usize = 32;
const ENGINES_MAX: usize = 64;
const PAGING_BUFFER_MAX: u32 = 64 << 20;

/// Which revision of the allocation notification's documents is followed (C-16, D16).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum NotificationRevision {
    /// The present text: an IOMMU unmap is notified once for each process and mapping, and waited for (NTF-04, NTF-05).
    #[default]
    Current,
    /// The text of August 2024: NotifyIoMmuUnmap is sent as NotifyEviction is: in chunks that are mapped in the paging process's
    /// addresses, on leaving the aperture or implicit system memory, whatever the addressing model (NTF-06).
    August2024,
}

/// What the core knows of the adapter. Fixed while it runs (SEG-05).
#[derive(Clone, Debug)]
pub(crate) struct Adapter {
    pub version: WddmVersion,
    pub model: AddressingModel,
    pub revision: NotificationRevision,
    /// The memory segment, if there is one.
    pub memory: Option<MemorySegment>,
    pub aperture: ApertureSegment,
    /// The most that may be resident in the aperture and in implicit system memory together, in bytes (SEG-50, U-6).
    pub system_commit_limit: u64,
    /// All reported segments, as a mask (SEG-40).
    pub segments_mask: u32,
    pub engines: Vec<EngineKind>,
    pub paging_engine: u32,
    /// Level 0 is the leaf; none without GpuMmu.
    pub levels: Vec<Level>,
    /// Bytes in a leaf table of 64 KiB entries; `None` when 64 KiB pages are mapped by 4 KiB entries.
    pub leaf_table_64kb: Option<u64>,
    pub va_bits: u32,
    /// A valid entry that replaces an invalid one needs no flush.
    pub invalid_not_cached: bool,
    pub tables_in_system: bool,
    pub paging_tables_in_system: bool,
    /// Bytes of one scratch window of the paging process, on each side of a transfer (U-16); 0 if it has no addresses (PGV-03).
    pub paging_va_size: u64,
    pub paging_buffer_size: usize,
    pub paging_private_size: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct MemorySegment {
    pub id: SegmentId,
    pub size: u64,
    pub page_size: PageSize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ApertureSegment {
    pub id: SegmentId,
    pub size: u64,
    /// The GPU snoops the CPU's caches through it.
    pub cache_coherent: bool,
}

/// A level of the page tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    pub index_bits: u32,
    /// Lowest address bit that the index covers.
    pub shift: u32,
    pub table_bytes: u64,
}

/// How many processes can share the one address space of GpuVaIoMmuGlobal; the paging process has a slice too.
const GLOBAL_SLICES: u64 = 256;

/// The first addresses of a space without page tables that are never used (GVA-58).
const NULL_GUARD: u64 = 2 << 20;

impl Adapter {
    /// Whether the GPU has page tables, which the manager writes.
    pub fn has_page_tables(&self) -> bool {
        self.model == AddressingModel::GpuMmu
    }

    /// The size of the memory segment's pages; small ones without a memory segment.
    pub fn memory_page_size(&self) -> PageSize {
        self.memory.map_or(PageSize::Kib4, |memory| memory.page_size)
    }

    /// Bytes of the memory segment; 0 without one.
    pub fn memory_size(&self) -> u64 {
        self.memory.map_or(0, |memory| memory.size)
    }

    /// The memory segment.
    ///
    /// # Panics
    ///
    /// Without one: then nothing asks where in it something lies.
    pub fn memory_id(&self) -> SegmentId {
        self.memory.expect("only an adapter with a memory segment places anything in it").id
    }

    /// First and end of the addresses that process number `index` may use. The first ones of a space are never used, so that
    /// a null pointer with an offset faults too (GVA-58, GVA-59).
    pub fn process_addresses(&self, index: usize) -> Option<(u64, u64)> {
        let end = 1 << self.va_bits;
        match self.model {
            AddressingModel::GpuMmu => Some((self.coverage(0), end)),
            AddressingModel::GpuVaIoMmu => Some((NULL_GUARD, end)),
            AddressingModel::GpuVaIoMmuGlobal => {
                let slice = end / GLOBAL_SLICES;
                let number = index as u64 + 1;
                (number < GLOBAL_SLICES).then_some((number * slice, (number + 1) * slice))
            }
        }
    }

    /// The first address that the paging process uses, and the most bytes that it may use from there on.
    pub fn paging_addresses(&self) -> (u64, u64) {
        let end = 1 << self.va_bits;
        match self.model {
            AddressingModel::GpuMmu => (self.coverage(0), end - self.coverage(0)),
            AddressingModel::GpuVaIoMmu => (NULL_GUARD, end - NULL_GUARD),
            AddressingModel::GpuVaIoMmuGlobal => (NULL_GUARD, end / GLOBAL_SLICES - NULL_GUARD),
        }
    }

    /// Whose addresses the IOMMU translates for a process; none if the GPU has page tables.
    pub fn io_mmu_domain(&self, process: KmdProcessHandle) -> Option<IoMmuDomain> {
        match self.model {
            AddressingModel::GpuMmu => None,
            AddressingModel::GpuVaIoMmu => Some(IoMmuDomain::Process(process)),
            AddressingModel::GpuVaIoMmuGlobal => Some(IoMmuDomain::Global),
        }
    }

    /// The root's level.
    pub fn root_level(&self) -> u32 {
        self.levels.len() as u32 - 1
    }

    /// Bytes of address space that one table of `level` covers.
    pub fn coverage(&self, level: u32) -> u64 {
        let level = &self.levels[level as usize];
        1 << (level.shift + level.index_bits)
    }

    /// The page size that a leaf entry for a page of `page_size` has.
    pub fn pte_page_size(&self, page_size: PageSize) -> PageSize {
        if self.leaf_table_64kb.is_some() { page_size } else { PageSize::Kib4 }
    }
}

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
#[non_exhaustive]
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
    /// Not exactly one aperture segment.
    #[error("SEG-10: {0} aperture segments are reported; WDDM 2 has exactly one")]
    ApertureCount(usize),
    /// More than one memory segment.
    #[error("vidmm: {0} memory segments are reported; this version manages one at most")]
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
    /// Too few or too many engines.
    #[error("BPB-10: {0} engines are reported; 1 to 64 are possible")]
    EngineCount(usize),
    /// Not exactly one paging engine.
    #[error("GVA-63: {0} paging engines are reported; exactly one runs the paging buffers")]
    PagingEngineCount(usize),
    /// An interface version before WDDM 2.0.
    #[error("0.4: interface version {0:#x} is older than WDDM 2.0 (0x5023)")]
    Version(u32),
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
        "vidmm: a table of level {level} has {size} bytes, more than a page of its segment ({page_size}); this version places tables in single pages"
    )]
    TableBeyondPage {
        /// The level.
        level: u32,
        /// The reported size in bytes.
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
    /// An update mode that this version does not know.
    #[error("vidmm: page-table update mode {0:?} is not supported by this version; report GpuPhysical")]
    UpdateMode(PageTableUpdateMode),
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
        "PGV-04: the page tables of the paging process take {tables} bytes, which always stay resident; segment has {size}"
    )]
    PagingTables {
        /// Their size in bytes.
        tables: u64,
        /// The segment's size in bytes.
        size: u64,
    },
    /// The driver or the host had no memory for the system process.
    #[error("GVA-62: the system process could not be created: out of memory")]
    SystemProcess,
}

/// Checks what the driver reports. The size of the paging process's address space is left to
/// [`paging_va`](crate::paging_va).
pub(crate) fn validate(info: &AdapterInfo, total_system_memory: u64) -> Result<Adapter, Vec<BrokenRule>> {
    let mut broken = Vec::new();
    if info.wddm_version < WddmVersion::WDDM2_0 {
        broken.push(BrokenRule::Version(info.wddm_version.0));
    }
    let (memory, aperture) = check_segments(&info.segments, &mut broken);
    for segments in &info.linked_adapter_segments {
        check_segments(segments, &mut broken);
    }
    let paging_engine = check_engines(info, &mut broken);
    let levels = match info.addressing_model {
        AddressingModel::GpuMmu => check_levels(info, &mut broken),
        _ => check_io_mmu(info, memory, &mut broken),
    };
    let mode = info.gpu_mmu.page_table_update_mode;
    let has_page_tables = info.addressing_model == AddressingModel::GpuMmu;
    if has_page_tables && mode != PageTableUpdateMode::GpuPhysical {
        broken.push(BrokenRule::UpdateMode(mode));
    }
    let dual = has_page_tables && info.gpu_mmu.flags.contains(GpuMmuFlags::DUAL_PTE_SUPPORTED);
    let leaf_64kb = info.gpu_mmu.leaf_page_table_size_for_64k_pages_in_bytes;
    if let (true, Some(levels)) = (dual, &levels) {
        check_leaf_64kb(leaf_64kb, &levels[0], &mut broken);
    }
    let PagingBufferDesc { size, private_data_size } = info.paging_buffer;
    if size.max(private_data_size) > PAGING_BUFFER_MAX {
        broken.push(BrokenRule::PagingBufferSize { size, private_data_size });
    }
    if let (Some(memory), Some(levels)) = (&memory, &levels) {
        let leaf_64kb = if dual { u64::from(leaf_64kb) } else { 0 };
        let page_size = memory.page_size.bytes();
        for (level, size) in (0..).zip(levels.iter().map(|level| level.table_bytes)).chain([(0, leaf_64kb)]) {
            if size > page_size {
                broken.push(BrokenRule::TableBeyondPage { level, size, page_size });
            }
        }
    }
    let (Some(aperture), Some(paging_engine), Some(levels), true) =
        (aperture, paging_engine, levels, broken.is_empty())
    else {
        return Err(broken);
    };
    let home = |segment: fn(&PageTableLevelDesc) -> SegmentId| {
        info.page_table_levels.first().filter(|_| has_page_tables).is_some_and(|level| segment(level).is_system())
    };
    Ok(Adapter {
        version: info.wddm_version,
        model: info.addressing_model,
        revision: NotificationRevision::default(),
        memory,
        aperture,
        system_commit_limit: system_commit_limit(info, total_system_memory),
        segments_mask: u32::MAX >> (32 - info.segments.len()),
        engines: info.engines.iter().map(|engine| engine.kind).collect(),
        paging_engine,
        levels,
        leaf_table_64kb: dual.then_some(u64::from(leaf_64kb)),
        va_bits: info.gpu_mmu.virtual_address_bit_count,
        invalid_not_cached: info.gpu_mmu.flags.contains(GpuMmuFlags::INVALID_TLB_ENTRIES_NOT_CACHED),
        tables_in_system: home(|level| level.page_table_segment_id),
        paging_tables_in_system: home(|level| level.paging_process_page_table_segment_id),
        paging_va_size: 0,
        paging_buffer_size: (info.paging_buffer.size as usize)
            .next_multiple_of(PAGE_SIZE as usize)
            .max(PAGE_SIZE as usize),
        paging_private_size: info.paging_buffer.private_data_size as usize,
    })
}

/// The shared limit (1.7). Implicit system memory counts against it as the aperture does (U-6).
fn system_commit_limit(info: &AdapterInfo, total_system_memory: u64) -> u64 {
    let apertures = info.segments.iter().filter(|segment| is_aperture(segment));
    let committable: u64 = apertures.map(|segment| segment.commit_limit).sum();
    let for_graphics = (total_system_memory / 2).max(64 << 20);
    let limit = committable.min(info.aperture_segment_commit_limit).min(for_graphics);
    limit - limit % PAGE_SIZE
}

/// An adapter behind an IOMMU has no page tables, and reaches system memory only (GVA-02, U-17).
fn check_io_mmu(info: &AdapterInfo, memory: Option<MemorySegment>, broken: &mut Vec<BrokenRule>) -> Option<Vec<Level>> {
    if let Some(memory) = memory {
        broken.push(BrokenRule::MemorySegmentBehindIoMmu(memory.id.0));
    }
    if !info.page_table_levels.is_empty() {
        broken.push(BrokenRule::LevelsWithoutGpuMmu(info.page_table_levels.len()));
    }
    let va_bits = info.gpu_mmu.virtual_address_bit_count;
    if !(32..=63).contains(&va_bits) {
        broken.push(BrokenRule::IoMmuAddressBits(va_bits));
    }
    Some(Vec::new())
}

fn check_segments(
    segments: &[SegmentDescriptor],
    broken: &mut Vec<BrokenRule>,
) -> (Option<MemorySegment>, Option<ApertureSegment>) {
    if segments.is_empty() || segments.len() > SEGMENTS_MAX {
        broken.push(BrokenRule::SegmentCount(segments.len()));
        return (None, None);
    }
    let numbered = || segments.iter().enumerate().map(|(index, segment)| (index as u8 + 1, segment));
    for (id, segment) in numbered() {
        let page_size = page_size_of(segment).bytes();
        if segment.size == 0 || !segment.size.is_multiple_of(page_size) {
            broken.push(BrokenRule::SegmentSize { segment: id, size: segment.size, page_size });
        }
        if segment.base_address.checked_add(segment.size).is_none() {
            broken.push(BrokenRule::SegmentOverflow(id));
        }
        if !is_aperture(segment) && segment.commit_limit != segment.size {
            let (size, commit_limit) = (segment.size, segment.commit_limit);
            broken.push(BrokenRule::CommitLimit { segment: id, size, commit_limit });
        }
        for (other_id, other) in numbered().skip(usize::from(id)) {
            let starts_before_end =
                |a: &SegmentDescriptor, b: &SegmentDescriptor| a.base_address < b.base_address.saturating_add(b.size);
            if starts_before_end(segment, other) && starts_before_end(other, segment) {
                broken.push(BrokenRule::SegmentOverlap(id, other_id));
            }
        }
    }
    let apertures = segments.iter().filter(|segment| is_aperture(segment)).count();
    if apertures != 1 {
        broken.push(BrokenRule::ApertureCount(apertures));
    }
    let memories = segments.len() - apertures;
    if memories > 1 {
        broken.push(BrokenRule::MemorySegmentCount(memories));
    }
    let memory = numbered().find(|(_, segment)| !is_aperture(segment)).map(|(id, segment)| MemorySegment {
        id: SegmentId(id),
        size: segment.size,
        page_size: page_size_of(segment),
    });
    let aperture = numbered().find(|(_, segment)| is_aperture(segment)).map(|(id, segment)| ApertureSegment {
        id: SegmentId(id),
        size: segment.size,
        cache_coherent: segment.flags.contains(SegmentFlags::CACHE_COHERENT),
    });
    (memory, aperture)
}

fn is_aperture(segment: &SegmentDescriptor) -> bool {
    segment.flags.contains(SegmentFlags::APERTURE)
}

fn page_size_of(segment: &SegmentDescriptor) -> PageSize {
    if segment.flags.contains(SegmentFlags::USE_64KB_PAGES) { PageSize::Kib64 } else { PageSize::Kib4 }
}

fn check_leaf_64kb(size: u32, leaf: &Level, broken: &mut Vec<BrokenRule>) {
    let entries = (1u64 << leaf.index_bits) / (PageSize::Kib64.bytes() / PageSize::Kib4.bytes());
    let bytes = u64::from(size);
    if entries == 0 || bytes == 0 || !bytes.is_multiple_of(PAGE_SIZE) || bytes < entries * 8 {
        broken.push(BrokenRule::LeafTableSize64Kb { size, entries });
    }
}

fn check_engines(info: &AdapterInfo, broken: &mut Vec<BrokenRule>) -> Option<u32> {
    if info.engines.is_empty() || info.engines.len() > ENGINES_MAX {
        broken.push(BrokenRule::EngineCount(info.engines.len()));
    }
    let mut paging = info.engines.iter().enumerate().filter(|(_, engine)| engine.kind == EngineKind::Paging);
    match (paging.next(), paging.count()) {
        (Some((ordinal, _)), 0) => Some(ordinal as u32),
        (first, more) => {
            broken.push(BrokenRule::PagingEngineCount(usize::from(first.is_some()) + more));
            None
        }
    }
}

fn check_levels(info: &AdapterInfo, broken: &mut Vec<BrokenRule>) -> Option<Vec<Level>> {
    let descs = &info.page_table_levels;
    if !(2..=6).contains(&descs.len()) {
        broken.push(BrokenRule::LevelCount(descs.len()));
        return None;
    }
    let page_shift = PAGE_SIZE.trailing_zeros();
    let va_bits = info.gpu_mmu.virtual_address_bit_count;
    let root = descs.len() - 1;
    let below_root = descs[..root]
        .iter()
        .fold(u64::from(page_shift), |bits, desc| bits + u64::from(desc.page_table_index_bit_count));
    let zero_level = descs[..root].iter().any(|desc| desc.page_table_index_bit_count == 0);
    if zero_level || u64::from(va_bits) <= below_root || va_bits > 63 || u64::from(va_bits) - below_root > 31 {
        broken.push(BrokenRule::AddressBits { va_bits, below_root });
        return None;
    }
    let mut shift = page_shift;
    let mut levels = Vec::with_capacity(descs.len());
    for (index, desc) in descs.iter().enumerate() {
        let index_bits = if index == root { va_bits - below_root as u32 } else { desc.page_table_index_bit_count };
        let size = desc.page_table_size_in_bytes;
        let (level, entries) = (index as u32, 1u64 << index_bits);
        if !u64::from(size).is_multiple_of(PAGE_SIZE) || u64::from(size) < entries * 8 {
            broken.push(BrokenRule::TableSize { level, size, entries });
        }
        let memory_ids: Vec<u8> =
            (1..).zip(&info.segments).filter(|(_, segment)| !is_aperture(segment)).map(|(id, _)| id).collect();
        let homes = [desc.page_table_segment_id, desc.paging_process_page_table_segment_id];
        let first_homes = [descs[0].page_table_segment_id, descs[0].paging_process_page_table_segment_id];
        for (home, first_home) in homes.into_iter().zip(first_homes) {
            if home.is_system() && u64::from(size) > PAGE_SIZE {
                broken.push(BrokenRule::SystemTableSize { level, size });
            }
            if home != first_home || !(home.is_system() || memory_ids.contains(&home.0)) {
                broken.push(BrokenRule::TableSegment { level, segment: home.0 });
            }
        }
        levels.push(Level { index_bits, shift, table_bytes: u64::from(size) });
        shift += index_bits;
    }
    Some(levels)
}
