//! The configuration of the reference driver's adapter.

use std::borrow::Cow;

use vidmm::contract::{AddressingModel, PageTableUpdateMode, WddmVersion};
use vidmm::{PAGE_SIZE, PageSize, SegmentId};

use crate::layout::PageTableLayout;

/// Everything about the adapter that a user of the reference driver may choose.
///
/// The driver reports it, and the model GPU is built to it: both must be made from the same value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SoftAdapterConfig {
    /// The interface version that the driver declares.
    pub wddm_version: WddmVersion,
    /// How engines find memory (PGV-20). With an IOMMU there is no local memory. With an IOMMU or physical addresses the fields
    /// about page tables and the TLB mean nothing.
    pub addressing_model: AddressingModel,
    /// The number of engines, from 1 to 64: those of paging, of kernels and of copies, and further ones of copies. One
    /// engine runs everything.
    pub engines: u32,
    /// Bytes of local memory, which is segment 1 unless `segment_order` says otherwise; a multiple of `page_size`.
    /// 0 is none: then the aperture is segment 1, and page tables live in system memory.
    pub local_memory_bytes: u64,
    /// Whether the CPU sees all of local memory.
    pub local_memory_cpu_visible: bool,
    /// Further memory segments, which follow the aperture; none without local memory.
    pub more_memory: Vec<MemoryConfig>,
    /// The pages that memory segments are managed in (GVA-40).
    pub page_size: PageSize,
    /// Bytes of the aperture segment, which follows local memory; 0 is none (SEG-10). A multiple of 4 KiB.
    pub aperture_bytes: u64,
    /// Further aperture segments, which come last, before WDDM 2.0 (SEG-10); none without a first one.
    pub more_apertures: Vec<ApertureConfig>,
    /// The kinds of the segments, by id from 1. Empty is local memory, the aperture, further memory and further
    /// apertures, as far as there are any. Memory segments stand in it in their order, and so do apertures.
    pub segment_order: Vec<SegmentKind>,
    /// The most that may be mapped in the aperture segment, in bytes, at most its size; `None` is its size (SEG-30, SEG-50).
    pub aperture_commit_limit_bytes: Option<u64>,
    /// Whether the GPU snoops the CPU's caches through the aperture (BPB-30).
    pub cache_coherent_aperture: bool,
    /// Whether the driver is sent MAP_APERTURE_SEGMENT2 in place of MAP_APERTURE_SEGMENT, from WDDM 2.9 on (BPB-34).
    pub map_aperture2: bool,
    /// The most that may be resident in the aperture and in implicit system memory together, in bytes; `None` leaves it to
    /// the core (SEG-50).
    pub system_commit_limit_bytes: Option<u64>,
    /// Bytes of the log buffers of hardware scheduling; `None` if the system schedules (PGV-02).
    pub scheduling_log_buffer_bytes: Option<u64>,
    /// The other physical adapters of a link, from index 1 on.
    pub linked_adapters: Vec<LinkedAdapterConfig>,
    /// Bits in a GPU virtual address.
    pub virtual_address_bit_count: u32,
    /// Index bits of the page-table levels below the root, leaf first. The root takes the bits that remain (GVA-12).
    pub page_table_index_bits: Vec<u32>,
    /// Whether a level-1 entry points to a 4 KiB and to a 64 KiB leaf table (GVA-43).
    pub dual_pte: bool,
    /// Whether the page tables live in system memory, where none may be larger than 4 KiB (GVA-15), or in segment 1.
    pub page_tables_in_system_memory: bool,
    /// The writer of page tables, and where it finds them (GVA-10).
    pub page_table_update_mode: PageTableUpdateMode,
    /// Whether the TLB caches valid entries only. If not, an entry that becomes valid must be flushed too.
    pub invalid_tlb_entries_not_cached: bool,
    /// Entries of page tables can say that the CPU's caches are snooped (4.2).
    pub cache_coherent_memory: bool,
    /// Entries of page tables can read as zero (GVA-20).
    pub zero_in_pte: bool,
    /// Entries of level 1 can show memory, as much as a leaf table covers (GVA-21).
    pub large_pages: bool,
    /// Large pages may begin at any page, not only at multiples of their size.
    pub large_pages_anywhere: bool,
    /// Large pages may be in system memory.
    pub large_pages_in_system_memory: bool,
    /// Bytes in a paging buffer (SEG-35).
    pub paging_buffer_bytes: u32,
    /// Bytes of private data beside each paging buffer. If there are any, each build that encodes commands takes 8.
    pub paging_buffer_private_data_bytes: u32,
    /// The size of the paging process's address space in MiB; `None` leaves it to the core (PGV-02).
    pub paging_va_mib: Option<u32>,
    /// The most bytes that one command covers, page-table entries aside; a multiple of 4 KiB.
    pub max_command_bytes: u64,
    /// The most entries that one command writes into a page table.
    pub max_entries_per_command: u32,
    /// Answer "allocation busy" to every n-th transfer, or discarding of content, that does not promise an idle allocation
    /// (BPB-06).
    pub busy_every: Option<u32>,
    /// How many slots the resource table of a DMA buffer has (SPL-02). This field and the two that follow mean something with
    /// physical addresses only.
    pub max_allocation_list_slot_id: u32,
    /// Engines save and restore their state between packets (SPL-07).
    pub preemption_aware: bool,
    /// Where the banks of local memory end, in bytes from its start (SEG-31).
    pub bank_range_table: Vec<u64>,
    /// The same as `busy_every` for every n-th notification, for which that answer is not documented (NTF-08).
    pub busy_notify_every: Option<u32>,
    /// The driver takes copies of content that stays in its memory segment (D37).
    pub write_behind: bool,
    /// The paging engine copies in both directions at the same time.
    pub copies_both_ways: bool,
    /// Groups of engines, by ordinal, of which the reset of one harms the others (FLT-26). An engine in no group harms no other.
    pub dependent_engines: Vec<Vec<u32>>,
}

/// The kind of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentKind {
    /// Memory of the adapter's own.
    Memory,
    /// A range of addresses over system memory.
    Aperture,
}

/// A segment: its kind, and what it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SegmentConfig {
    /// Memory of the adapter's own.
    Memory(MemoryConfig),
    /// A range of addresses over system memory.
    Aperture(ApertureConfig),
}

/// A further memory segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryConfig {
    /// Its bytes; a multiple of the adapter's `page_size`.
    pub bytes: u64,
    /// Whether the CPU sees all of it.
    pub cpu_visible: bool,
}

/// A further aperture segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ApertureConfig {
    /// Its bytes; a multiple of 4 KiB.
    pub bytes: u64,
    /// The most that may be mapped in it, in bytes, at most its size; `None` is its size (SEG-30, SEG-50).
    pub commit_limit_bytes: Option<u64>,
    /// Whether the GPU snoops the CPU's caches through it (BPB-30).
    pub cache_coherent: bool,
}

/// The configuration of a further physical adapter of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LinkedAdapterConfig {
    /// Bytes of its local memory; a multiple of the first adapter's `page_size`, 0 if it has none.
    pub local_memory_bytes: u64,
    /// Bytes of its aperture segment; a multiple of 4 KiB.
    pub aperture_bytes: u64,
    /// The size of its paging process's address space in MiB; `None` leaves it to the core (PGV-02).
    pub paging_va_mib: Option<u32>,
}

impl Default for SoftAdapterConfig {
    fn default() -> Self {
        Self {
            wddm_version: WddmVersion::WDDM3_2,
            addressing_model: AddressingModel::GpuMmu,
            engines: 3,
            local_memory_bytes: 8 << 30,
            local_memory_cpu_visible: false,
            more_memory: Vec::new(),
            page_size: PageSize::Kib64,
            aperture_bytes: 256 << 20,
            more_apertures: Vec::new(),
            segment_order: Vec::new(),
            aperture_commit_limit_bytes: None,
            cache_coherent_aperture: false,
            map_aperture2: false,
            system_commit_limit_bytes: None,
            scheduling_log_buffer_bytes: None,
            linked_adapters: Vec::new(),
            virtual_address_bit_count: 47,
            page_table_index_bits: vec![13, 10],
            dual_pte: true,
            page_tables_in_system_memory: false,
            page_table_update_mode: PageTableUpdateMode::GpuPhysical,
            invalid_tlb_entries_not_cached: true,
            cache_coherent_memory: false,
            zero_in_pte: false,
            large_pages: false,
            large_pages_anywhere: false,
            large_pages_in_system_memory: false,
            paging_buffer_bytes: 64 << 10,
            paging_buffer_private_data_bytes: 0,
            paging_va_mib: None,
            max_command_bytes: 64 << 20,
            max_entries_per_command: 1 << 20,
            busy_every: None,
            max_allocation_list_slot_id: 16,
            preemption_aware: false,
            bank_range_table: Vec::new(),
            busy_notify_every: None,
            write_behind: true,
            copies_both_ways: false,
            dependent_engines: Vec::new(),
        }
    }
}

impl SoftAdapterConfig {
    /// The default adapter with a 4 KiB pool: four levels of 9 bits in a 48-bit space, and one kind of leaf table.
    pub fn with_4kib_pages() -> Self {
        Self {
            page_size: PageSize::Kib4,
            virtual_address_bit_count: 48,
            page_table_index_bits: vec![9, 9, 9],
            dual_pte: false,
            ..Self::default()
        }
    }

    /// The default adapter without local memory: page tables in system memory, and the aperture as segment 1.
    pub fn without_local_memory() -> Self {
        Self { local_memory_bytes: 0, page_tables_in_system_memory: true, ..Self::with_4kib_pages() }
    }

    /// An adapter whose engines find memory through the IOMMU: `model` is not GpuMmu.
    pub fn with_io_mmu(model: AddressingModel) -> Self {
        Self { addressing_model: model, ..Self::without_local_memory() }
    }

    /// An adapter without GPU virtual addresses: the driver patches physical addresses into what engines run (PAT-10).
    pub fn with_patching() -> Self {
        Self { addressing_model: AddressingModel::Physical, ..Self::with_4kib_pages() }
    }

    /// The segment of local memory, if there is any.
    pub fn local_segment(&self) -> Option<SegmentId> {
        self.memory_segment(1)
    }

    /// The aperture segment, if there is one: the first of several.
    pub fn aperture_segment(&self) -> Option<SegmentId> {
        self.aperture(1)
    }

    /// The segments by their ids: which each is, where it begins in the GPU's physical addresses, and what it is. They
    /// follow each other without gaps.
    pub(crate) fn segments(&self) -> impl Iterator<Item = (SegmentId, u64, SegmentConfig)> {
        let (mut memories, mut apertures) = (self.memories(), self.apertures());
        let kinds = self.segment_kinds().into_owned();
        let mut base = 0;
        (1..).map(SegmentId).zip(kinds).filter_map(move |(segment, kind)| {
            let (begins, config) = (
                base,
                match kind {
                    SegmentKind::Memory => SegmentConfig::Memory(memories.next()?),
                    SegmentKind::Aperture => SegmentConfig::Aperture(apertures.next()?),
                },
            );
            base += match config {
                SegmentConfig::Memory(memory) => memory.bytes,
                SegmentConfig::Aperture(aperture) => aperture.bytes,
            };
            Some((segment, begins, config))
        })
    }

    fn memories(&self) -> impl Iterator<Item = MemoryConfig> {
        let local = MemoryConfig { bytes: self.local_memory_bytes, cpu_visible: self.local_memory_cpu_visible };
        let local = (self.local_memory_bytes > 0).then_some(local);
        local.into_iter().chain(self.more_memory.iter().copied())
    }

    fn apertures(&self) -> impl Iterator<Item = ApertureConfig> {
        let first = ApertureConfig {
            bytes: self.aperture_bytes,
            commit_limit_bytes: self.aperture_commit_limit_bytes,
            cache_coherent: self.cache_coherent_aperture,
        };
        let first = (self.aperture_bytes > 0).then_some(first);
        first.into_iter().chain(self.more_apertures.iter().copied())
    }

    /// The kinds of the segments, by id from 1.
    fn segment_kinds(&self) -> Cow<'_, [SegmentKind]> {
        if !self.segment_order.is_empty() {
            return Cow::Borrowed(&self.segment_order);
        }
        let local = (self.local_memory_bytes > 0).then_some(SegmentKind::Memory);
        let aperture = (self.aperture_bytes > 0).then_some(SegmentKind::Aperture);
        let more_memory = self.more_memory.iter().map(|_| SegmentKind::Memory);
        let more_apertures = self.more_apertures.iter().map(|_| SegmentKind::Aperture);
        local.into_iter().chain(aperture).chain(more_memory).chain(more_apertures).collect()
    }

    /// The memory segments, local memory first: which each is, where it begins in the GPU's physical addresses, and what it is.
    pub fn memory_segments(&self) -> impl Iterator<Item = (SegmentId, u64, MemoryConfig)> {
        self.segments().filter_map(|(segment, base, config)| match config {
            SegmentConfig::Memory(memory) => Some((segment, base, memory)),
            SegmentConfig::Aperture(_) => None,
        })
    }

    /// The aperture segments: which each is, where it begins in the GPU's physical addresses, and what it is.
    pub fn aperture_segments(&self) -> impl Iterator<Item = (SegmentId, u64, ApertureConfig)> {
        self.segments().filter_map(|(segment, base, config)| match config {
            SegmentConfig::Aperture(aperture) => Some((segment, base, aperture)),
            SegmentConfig::Memory(_) => None,
        })
    }

    /// The memory segment of this number, from 1.
    pub fn memory_segment(&self, number: u8) -> Option<SegmentId> {
        let (segment, ..) = self.memory_segments().nth(usize::from(number).checked_sub(1)?)?;
        Some(segment)
    }

    /// The aperture segment of this number, from 1.
    pub fn aperture(&self, number: u8) -> Option<SegmentId> {
        let (segment, ..) = self.aperture_segments().nth(usize::from(number).checked_sub(1)?)?;
        Some(segment)
    }

    /// Whether engines find memory through the IOMMU, and not through page tables.
    pub fn uses_io_mmu(&self) -> bool {
        matches!(self.addressing_model, AddressingModel::GpuVaIoMmu | AddressingModel::GpuVaIoMmuGlobal)
    }

    /// Whether engines find memory through page tables of the GPU's own.
    pub fn has_page_tables(&self) -> bool {
        self.addressing_model == AddressingModel::GpuMmu
    }

    /// Whether engines use physical addresses.
    pub fn is_physical(&self) -> bool {
        self.addressing_model == AddressingModel::Physical
    }

    /// The engines that are harmed when `engine` is reset, that one included: bit n is engine n (FLT-26).
    pub fn dependent_engine_mask(&self, engine: u32) -> u64 {
        let groups = self.dependent_engines.iter().filter(|group| group.contains(&engine));
        groups.flatten().fold(1 << engine, |mask, &other| mask | 1 << other)
    }

    /// The shape of the page tables.
    ///
    /// # Panics
    ///
    /// If the levels break a rule of [`check`](Self::check).
    pub fn layout(&self) -> PageTableLayout {
        PageTableLayout::new(&self.page_table_index_bits, self.virtual_address_bit_count, self.dual_pte)
    }

    /// Looks for a contradiction.
    ///
    /// # Errors
    ///
    /// The first rule that is broken.
    pub fn check(&self) -> Result<(), ConfigError> {
        if self.aperture_bytes > 0 {
            self.check_memory(self.local_memory_bytes, self.aperture_bytes)?;
        } else if self.local_memory_bytes == 0 {
            return Err(ConfigError::NoMemory);
        }
        for memory in &self.more_memory {
            check_multiple("more_memory", memory.bytes, self.page_size.bytes())?;
        }
        if self.local_memory_bytes == 0 && !self.more_memory.is_empty() {
            return Err(ConfigError::MoreMemoryWithoutLocal);
        }
        for aperture in &self.more_apertures {
            check_multiple("more_apertures", aperture.bytes, PAGE_SIZE)?;
        }
        if self.aperture_bytes == 0 && !self.more_apertures.is_empty() {
            return Err(ConfigError::MoreAperturesWithoutFirst);
        }
        let num_of = |kind| self.segment_kinds().iter().filter(|&&other| other == kind).count();
        if num_of(SegmentKind::Memory) != self.memories().count()
            || num_of(SegmentKind::Aperture) != self.apertures().count()
        {
            return Err(ConfigError::SegmentOrder);
        }
        for linked in &self.linked_adapters {
            self.check_memory(linked.local_memory_bytes, linked.aperture_bytes)?;
        }
        if self.local_memory_bytes > 0 && self.uses_io_mmu() {
            return Err(ConfigError::LocalMemoryBehindIoMmu { bytes: self.local_memory_bytes });
        }
        if self.local_memory_bytes == 0 && self.has_page_tables() && !self.page_tables_in_system_memory {
            return Err(ConfigError::TablesWithoutLocalMemory);
        }
        for (_, _, ApertureConfig { bytes: size, commit_limit_bytes, .. }) in self.aperture_segments() {
            if let Some(limit) = commit_limit_bytes.filter(|&limit| limit > size) {
                return Err(ConfigError::ApertureCommitLimit { limit, size });
            }
        }
        check_multiple("max_command_bytes", self.max_command_bytes, PAGE_SIZE)?;
        if self.max_entries_per_command == 0 {
            return Err(ConfigError::NoEntriesPerCommand);
        }
        if !(1..=ENGINES_MAX).contains(&self.engines) {
            return Err(ConfigError::EngineCount { engines: self.engines });
        }
        if let Some(&engine) = self.dependent_engines.iter().flatten().find(|&&engine| engine >= self.engines) {
            return Err(ConfigError::NoSuchEngine { engine, engines: self.engines });
        }
        self.check_levels()
    }

    fn check_memory(&self, local_memory_bytes: u64, aperture_bytes: u64) -> Result<(), ConfigError> {
        if local_memory_bytes > 0 {
            check_multiple("local_memory_bytes", local_memory_bytes, self.page_size.bytes())?;
        }
        check_multiple("aperture_bytes", aperture_bytes, PAGE_SIZE)
    }

    fn check_levels(&self) -> Result<(), ConfigError> {
        let levels = self.page_table_index_bits.len() as u32 + 1;
        if !(2..=6).contains(&levels) {
            return Err(ConfigError::LevelCount { levels });
        }
        // A 64 KiB leaf table has a sixteenth of the entries of a 4 KiB one (GVA-44).
        let fewest = if self.dual_pte { 4 } else { 1 };
        if self.page_table_index_bits[0] < fewest || self.page_table_index_bits.contains(&0) {
            return Err(ConfigError::IndexBits);
        }
        let below_root: u64 = 12 + self.page_table_index_bits.iter().map(|&bits| u64::from(bits)).sum::<u64>();
        let address_bits = u64::from(self.virtual_address_bit_count);
        if address_bits > 63 || below_root >= address_bits || address_bits - below_root > MAX_INDEX_BITS {
            return Err(ConfigError::IndexBits);
        }
        if self.page_table_index_bits.iter().any(|&bits| u64::from(bits) > MAX_INDEX_BITS) {
            return Err(ConfigError::IndexBits);
        }
        let layout = self.layout();
        // The CPU sets some up where others are written through them (GVA-33).
        let some_are_in_system_memory =
            self.page_tables_in_system_memory || self.page_table_update_mode == PageTableUpdateMode::GpuVirtual;
        if some_are_in_system_memory && (0..levels).any(|level| u64::from(layout.table_bytes(level)) > PAGE_SIZE) {
            return Err(ConfigError::TableTooLargeForSystemMemory);
        }
        Ok(())
    }
}

/// How many engines an adapter has at most: a mask of dependent engines has a bit for each (FLT-26).
const ENGINES_MAX: u32 = 64;

/// The segment of local memory, on adapters that have any, unless
/// [`segment_order`](SoftAdapterConfig::segment_order) says otherwise.
pub const LOCAL_SEGMENT: SegmentId = SegmentId(1);

/// Index bits beyond which a table no longer has a size that fits the contract's 32 bits.
const MAX_INDEX_BITS: u64 = 27;

fn check_multiple(field: &'static str, value: u64, unit: u64) -> Result<(), ConfigError> {
    if value == 0 || !value.is_multiple_of(unit) {
        return Err(ConfigError::NotAMultiple { field, value, unit });
    }
    Ok(())
}

/// Why a [`SoftAdapterConfig`] describes no adapter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConfigError {
    /// A size is 0 or no multiple of its unit.
    #[error("{field} is {value}: it must be a multiple of {unit}, and not 0")]
    NotAMultiple {
        /// The field.
        field: &'static str,
        /// Its value, in bytes.
        value: u64,
        /// The unit, in bytes.
        unit: u64,
    },
    /// There is no engine, or more than the GPU has.
    #[error("engines is {engines}: an adapter has from 1 to {ENGINES_MAX}")]
    EngineCount {
        /// The number of engines.
        engines: u32,
    },
    /// There is neither local memory nor an aperture.
    #[error("local_memory_bytes and aperture_bytes are 0: an adapter has at least one segment")]
    NoMemory,
    /// Further memory segments, but no first one.
    #[error("local_memory_bytes is 0, so more_memory must be empty")]
    MoreMemoryWithoutLocal,
    /// Further aperture segments, but no first one.
    #[error("aperture_bytes is 0, so more_apertures must be empty")]
    MoreAperturesWithoutFirst,
    /// The order of segments names more or fewer of a kind than there are.
    #[error("segment_order must name each memory segment and each aperture once")]
    SegmentOrder,
    /// Local memory that no engine could reach.
    #[error("local_memory_bytes is {bytes}: engines that find memory through the IOMMU reach system memory only")]
    LocalMemoryBehindIoMmu {
        /// Bytes of local memory.
        bytes: u64,
    },
    /// There is no local memory for the page tables.
    #[error("local_memory_bytes is 0, so page_tables_in_system_memory must be true")]
    TablesWithoutLocalMemory,
    /// More may be mapped in an aperture than its size.
    #[error("the commit limit of an aperture is {limit}, more than its {size}")]
    ApertureCommitLimit {
        /// The limit in bytes.
        limit: u64,
        /// The aperture's size in bytes.
        size: u64,
    },
    /// A command could write no entry.
    #[error("max_entries_per_command is 0")]
    NoEntriesPerCommand,
    /// A group of dependent engines names one that there is not.
    #[error("dependent_engines names engine {engine}: there are {engines} engines, and the first is 0")]
    NoSuchEngine {
        /// The ordinal.
        engine: u32,
        /// The number of engines.
        engines: u32,
    },
    /// There are 2 to 6 levels of page tables, the root included (GVA-11).
    #[error("{levels} levels of page tables: there are 2 to 6, the root included")]
    LevelCount {
        /// How many were asked for, the root included.
        levels: u32,
    },
    /// The index bits of the levels do not add up to a virtual address.
    #[error(
        "page_table_index_bits must be at least 1 a level (4 for the leaf with dual entries), at most 27, and leave the root 1 \
         to 27 bits of an address of at most 63"
    )]
    IndexBits,
    /// A table in system memory is larger than 4 KiB (GVA-15).
    #[error("a page table in system memory cannot be larger than 4 KiB")]
    TableTooLargeForSystemMemory,
}
