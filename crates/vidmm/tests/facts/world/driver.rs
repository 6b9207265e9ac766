//! The driver of the test world: it encodes nothing but the number of the operation, and remembers all that it was asked.

use std::collections::{BTreeMap, BTreeSet};

use vidmm::contract::*;
use vidmm::policy::PolicyChoice;
use vidmm::{
    AdapterOptions, Nanoseconds, NotificationRevision, PAGE_SIZE, PageSize, PhysicalAddress, SegmentId, TdrOptions,
    VerifierKnobs, WriteBehind,
};

use super::failing::{Failing, Fallible};
use super::journal::{Happened, Journal};

pub const LOCAL: SegmentId = SegmentId(1);
pub const NORMAL: u32 = 0x7800_0000;

/// The adapter of a world. The default has small tables, so that a few pages exercise several of them, and keeps
/// them in system memory, so that the whole segment is there for allocations.
#[derive(Clone, Debug)]
pub struct Config {
    pub model: AddressingModel,
    pub wddm_version: WddmVersion,
    pub caps: VidMmCaps,
    /// Bytes of local memory; 0 is none.
    pub segment_bytes: u64,
    /// Further memory segments, which come after the aperture: their bytes, and whether the CPU sees them.
    pub more_memory: Vec<(u64, bool)>,
    pub aperture_bytes: u64,
    /// The most that may be resident in the aperture, if that is less than its size.
    pub aperture_commit_limit: Option<u64>,
    pub aperture_is_coherent: bool,
    /// Bytes of the log buffers of hardware scheduling.
    pub scheduling_log: Option<u64>,
    /// The sizes of local memory of further physical adapters, and what the driver answers when asked for their paging
    /// process's addresses.
    pub linked: Vec<(u64, Option<u32>)>,
    pub revision: NotificationRevision,
    pub paging_va_without_local_memory: bool,
    pub paging_tables_by_cpu: bool,
    /// Address bits behind an IOMMU; with page tables they follow from the levels.
    pub io_mmu_bits: u32,
    pub page_size: PageSize,
    pub tables_in_system: bool,
    /// Bytes at the end of local memory that hold nothing but page tables.
    pub page_table_area: u64,
    /// The order of eviction.
    pub policy: PolicyChoice,
    pub verifier: VerifierKnobs,
    /// Copies ahead of evictions, which the driver takes.
    pub write_behind: WriteBehind,
    /// The CPU sees local memory.
    pub cpu_visible: bool,
    /// Index bits of the levels, leaf first, root last.
    pub level_bits: Vec<u32>,
    pub dual: bool,
    pub invalid_not_cached: bool,
    pub has_read_only: bool,
    pub has_no_execute: bool,
    pub has_cache_coherent: bool,
    pub has_zero: bool,
    /// Of two levels of tables, the index bits of the root at first, if the driver says how large a root is.
    pub first_root_bits: Option<u32>,
    /// The capabilities of large pages.
    pub large_pages: GpuMmuFlags,
    pub update_mode: PageTableUpdateMode,
    pub paging_va_mib: Option<u32>,
    pub buffer_bytes: u32,
    pub private_bytes: u32,
    /// The bytes of an operation in a paging buffer; a multiple of 8.
    pub operation_bytes: usize,
    /// Time limits. Without others nothing is found hung: the time of most tests is not a GPU's.
    pub tdr: TdrOptions,
    /// The driver resets an engine as soon as it is asked to; otherwise the test does.
    pub resets_at_once: bool,
    /// The same for the whole adapter.
    pub stops_at_once: bool,
    /// One engine runs paging buffers and all work.
    pub one_engine: bool,
    /// The engines that a reset harms, by engine.
    pub dependent_engines: [u64; 3],
}

impl Default for Config {
    fn default() -> Self {
        Self {
            model: AddressingModel::GpuMmu,
            wddm_version: WddmVersion::WDDM3_2,
            caps: VidMmCaps::empty(),
            segment_bytes: 64 * PAGE_SIZE,
            more_memory: Vec::new(),
            aperture_bytes: 1 << 20,
            aperture_commit_limit: None,
            aperture_is_coherent: false,
            scheduling_log: None,
            linked: Vec::new(),
            revision: NotificationRevision::Current,
            paging_va_without_local_memory: false,
            paging_tables_by_cpu: false,
            io_mmu_bits: 40,
            page_size: PageSize::Kib4,
            tables_in_system: true,
            page_table_area: 0,
            policy: PolicyChoice::LRU,
            verifier: VerifierKnobs::default(),
            write_behind: WriteBehind::OFF,
            cpu_visible: false,
            level_bits: vec![4, 4, 8],
            dual: false,
            invalid_not_cached: false,
            has_read_only: true,
            has_no_execute: true,
            has_cache_coherent: false,
            has_zero: false,
            first_root_bits: None,
            large_pages: GpuMmuFlags::empty(),
            update_mode: PageTableUpdateMode::GpuPhysical,
            paging_va_mib: None,
            buffer_bytes: 4096,
            private_bytes: 0,
            operation_bytes: 64,
            tdr: TdrOptions { quantum: Nanoseconds::MAX, ..TdrOptions::default() },
            resets_at_once: true,
            stops_at_once: true,
            one_engine: false,
            dependent_engines: [1, 2, 4],
        }
    }
}

impl Config {
    /// An adapter whose segment has `pages` pages of 4 KiB.
    pub fn pages(pages: u64) -> Self {
        Self { segment_bytes: pages * PAGE_SIZE, ..Self::default() }
    }

    /// An adapter with a pool of 64 KiB pages.
    pub fn pages_64kb(pages: u64, dual: bool) -> Self {
        let segment_bytes = pages * PageSize::Kib64.bytes();
        Self { segment_bytes, page_size: PageSize::Kib64, dual, level_bits: vec![6, 4, 8], ..Self::default() }
    }

    /// An adapter with local memory and an aperture, of so many pages of 4 KiB.
    pub fn discrete(pages: u64, aperture_pages: u64) -> Self {
        Self { aperture_bytes: aperture_pages * PAGE_SIZE, ..Self::pages(pages) }
    }

    /// An adapter without local memory, with hardware scheduling, and of any addressing model.
    pub fn integrated(model: AddressingModel, aperture_pages: u64) -> Self {
        let aperture_bytes = aperture_pages * PAGE_SIZE;
        Self { model, segment_bytes: 0, aperture_bytes, scheduling_log: Some(1 << 20), ..Self::default() }
    }

    /// The engine where work for `engine` runs.
    pub fn engine(&self, engine: u32) -> u32 {
        if self.one_engine { 0 } else { engine }
    }

    pub fn options(&self) -> AdapterOptions {
        AdapterOptions {
            events: true,
            notification_revision: self.revision,
            page_table_area: self.page_table_area,
            policy: self.policy,
            verifier: self.verifier,
            write_behind: self.write_behind,
            paging_va_without_local_memory: self.paging_va_without_local_memory,
            paging_tables_by_cpu: self.paging_tables_by_cpu,
            tdr: self.tdr,
            ..AdapterOptions::default()
        }
    }

    /// The number of the aperture segment.
    pub fn aperture(&self) -> SegmentId {
        SegmentId(if self.segment_bytes > 0 { 2 } else { 1 })
    }

    /// The memory segments, local memory first.
    pub fn memory_segments(&self) -> Vec<SegmentId> {
        let local = (self.segment_bytes > 0).then_some(LOCAL);
        let first = self.aperture().0 + 1;
        local.into_iter().chain((first..).map(SegmentId).take(self.more_memory.len())).collect()
    }

    pub fn has_page_tables(&self) -> bool {
        self.model == AddressingModel::GpuMmu
    }

    /// The most that may be resident outside local memory, in bytes.
    pub fn commit_limit(&self) -> u64 {
        self.aperture_commit_limit.unwrap_or(self.aperture_bytes)
    }

    /// Whose addresses an access of `process` uses, where the IOMMU translates them.
    pub fn domain(&self, process: KmdProcessHandle) -> IoMmuDomain {
        match self.model {
            AddressingModel::GpuVaIoMmuGlobal => IoMmuDomain::Global,
            _ => IoMmuDomain::Process(process),
        }
    }

    /// The driver's description of an allocation of `pages` pages that may be in `place`, with the notices that it asks for.
    pub fn allocation(&self, place: Place, pages: u64, flags2: AllocationFlags2) -> AllocationInfo {
        let aperture = SegmentSet::of(self.aperture());
        let supported_segment_set = match place {
            Place::Local => SegmentSet::of(LOCAL),
            Place::System | Place::Aperture => aperture,
            Place::LocalOrSystem => SegmentSet(SegmentSet::of(LOCAL).0 | aperture.0),
        };
        let mut flags = AllocationFlags::empty();
        flags.set(AllocationFlags::ACCESSED_PHYSICALLY, place == Place::Aperture);
        AllocationInfo { supported_segment_set, flags, flags2, ..allocation_info(pages * PAGE_SIZE, NORMAL) }
    }

    pub fn info(&self) -> AdapterInfo {
        let segment = |flags, base_address, size| SegmentDescriptor { flags, base_address, size, commit_limit: size };
        let home = if self.tables_in_system { SegmentId::SYSTEM } else { LOCAL };
        let level = |bits: &u32| PageTableLevelDesc {
            page_table_index_bit_count: *bits,
            page_table_segment_id: home,
            paging_process_page_table_segment_id: home,
            page_table_size_in_bytes: (8u32 << bits).next_multiple_of(4096),
            page_table_alignment_in_bytes: 0,
        };
        let mut pool = SegmentFlags::APPLICATION_TARGET;
        pool.set(SegmentFlags::USE_64KB_PAGES, self.page_size == PageSize::Kib64);
        pool.set(SegmentFlags::CPU_VISIBLE, self.cpu_visible);
        let mut mmu = self.large_pages;
        mmu.set(GpuMmuFlags::READ_ONLY_MEMORY_SUPPORTED, self.has_read_only);
        mmu.set(GpuMmuFlags::NO_EXECUTE_MEMORY_SUPPORTED, self.has_no_execute);
        mmu.set(GpuMmuFlags::CACHE_COHERENT_MEMORY_SUPPORTED, self.has_cache_coherent);
        mmu.set(GpuMmuFlags::ZERO_IN_PTE_SUPPORTED, self.has_zero);
        mmu.set(GpuMmuFlags::DUAL_PTE_SUPPORTED, self.dual);
        mmu.set(GpuMmuFlags::INVALID_TLB_ENTRIES_NOT_CACHED, self.invalid_not_cached);
        let mut window = SegmentFlags::APERTURE;
        window.set(SegmentFlags::CACHE_COHERENT, self.aperture_is_coherent);
        let segments_of = |bytes: u64| {
            let memory = (bytes > 0).then(|| segment(pool, 0, bytes));
            let aperture =
                SegmentDescriptor { commit_limit: self.commit_limit(), ..segment(window, bytes, self.aperture_bytes) };
            memory.into_iter().chain([aperture]).collect::<Vec<_>>()
        };
        let mut segments = segments_of(self.segment_bytes);
        for &(bytes, cpu_visible) in &self.more_memory {
            let behind = segments.iter().map(|segment| segment.base_address + segment.size).max();
            let mut flags = pool;
            flags.set(SegmentFlags::CPU_VISIBLE, cpu_visible);
            segments.push(segment(flags, behind.unwrap_or(0), bytes));
        }
        let levels = if self.has_page_tables() { &self.level_bits[..] } else { &[] };
        let table_bits = 12 + self.level_bits.iter().sum::<u32>();
        let mut page_table_levels: Vec<PageTableLevelDesc> = levels.iter().map(level).collect();
        if let (Some(bits), Some(root)) = (self.first_root_bits, page_table_levels.last_mut()) {
            (root.page_table_index_bit_count, root.page_table_size_in_bytes) = (bits, 0);
        }
        AdapterInfo {
            wddm_version: self.wddm_version,
            addressing_model: self.model,
            memory_management_caps: self.caps,
            linked_adapter_segments: self.linked.iter().map(|&(bytes, _)| segments_of(bytes)).collect(),
            aperture_segment_commit_limit: u64::MAX,
            scheduling_log_buffer_size: self.scheduling_log,
            segments,
            engines: [EngineKind::Paging, EngineKind::Render3d, EngineKind::Copy]
                .into_iter()
                .take(if self.one_engine { 1 } else { 3 })
                .map(|kind| EngineDesc { kind })
                .collect(),
            gpu_mmu: GpuMmuCaps {
                flags: mmu,
                page_table_update_mode: self.update_mode,
                legacy_behaviors: LegacyBehaviors::empty(),
                virtual_address_bit_count: if self.has_page_tables() { table_bits } else { self.io_mmu_bits },
                leaf_page_table_size_for_64k_pages_in_bytes: if self.dual { 4096 } else { 0 },
            },
            page_table_levels,
            write_behind: self.write_behind != WriteBehind::OFF,
            paging_buffer: PagingBufferDesc { size: self.buffer_bytes, private_data_size: self.private_bytes },
            patching: PatchingCaps::default(),
        }
    }
}

/// Where an allocation may be resident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Local,
    /// Implicit system memory (SEG-12).
    System,
    /// The aperture segment: accessed physically (SEG-13).
    Aperture,
    /// Local memory, and else implicit system memory.
    LocalOrSystem,
}

/// One call of `build_paging_buffer`.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    pub operation: PagingOperation,
    pub status: BuildStatus,
    pub write_offset: u32,
    pub room: usize,
    pub bytes: usize,
    pub multipass_before: u32,
    pub multipass_after: u32,
    pub allocation_is_idle: bool,
}

type Answer = Box<dyn FnMut(&mut BuildPagingBuffer<'_>) -> Option<BuildStatus>>;

pub struct Driver {
    pub info: AdapterInfo,
    pub paging_va_mib: Option<u32>,
    /// The bytes of a root table, if it says them when it is asked, and the numbers of entries for which it was.
    pub root_bytes: Option<u32>,
    pub roots_asked: Vec<u32>,
    linked_paging_va_mib: Vec<Option<u32>>,
    /// The physical adapters whose paging process's address space was asked for.
    pub paging_va_queries: Vec<u32>,
    has_page_tables: bool,
    pub operation_bytes: usize,
    dependent_engines: [u64; 3],
    /// Asked first; if it says nothing, the operation is encoded as usual.
    pub answer: Answer,
    /// The description of the next allocation, instead of what its private data says; the handle is not used.
    pub next_allocation: Option<AllocationInfo>,
    /// How many objects are still created before one creation fails.
    pub fails_after: Option<u64>,
    /// Which call fails, of the driver's and the host's together.
    pub failing: Failing,
    /// How the call fails that builds a paging buffer.
    pub build_failure: BuildStatus,
    /// The allocations that are open and not closed.
    pub opened: BTreeSet<KmdOpenHandle>,
    num_opened: u64,
    pub calls: Vec<Call>,
    /// Operations that were encoded to their end.
    pub operations: Vec<PagingOperation>,
    pub journal: Journal,
    /// The driver's descriptions of allocations that live.
    pub infos: BTreeMap<KmdAllocationHandle, AllocationInfo>,
    /// Handles of objects that were created and not destroyed.
    pub live: BTreeSet<u64>,
    /// The submissions, and the root table that the context had then.
    pub submitted: Vec<(SubmitCommand, Option<RootPageTable>)>,
    pub contexts: BTreeMap<KmdContextHandle, (KmdProcessHandle, Option<RootPageTable>)>,
    pub last_handle: u64,
    /// It lets no allocation move to other segments.
    pub vetoes: bool,
    /// It has stopped the GPU, and encodes nothing until it has started it again (BPB-27).
    pub is_stopped: bool,
}

/// The private data of an allocation of `size` bytes.
pub fn private_data(size: u64, priority: u32) -> Vec<u8> {
    [size.to_le_bytes(), u64::from(priority).to_le_bytes()].concat()
}

/// The description that the driver makes of such private data.
pub fn allocation_info(size: u64, priority: u32) -> AllocationInfo {
    let plain = AllocationInfo::new(KmdAllocationHandle(0), size, SegmentSet::of(LOCAL));
    AllocationInfo { allocation_priority: priority, ..plain }
}

/// Whether the CPU carries an operation out, without a paging buffer (BPB-08).
pub fn is_by_cpu(operation: &PagingOperation) -> bool {
    matches!(operation, PagingOperation::UpdatePageTable(op) if matches!(op.update_mode, UpdateMode::CpuVirtual(_)))
}

pub fn words(bytes: &[u8]) -> impl Iterator<Item = u64> {
    bytes.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()))
}

impl Driver {
    pub fn new(config: &Config) -> Self {
        Self {
            info: config.info(),
            paging_va_mib: config.paging_va_mib,
            root_bytes: config.first_root_bits.map(|_| 4096),
            roots_asked: Vec::new(),
            linked_paging_va_mib: config.linked.iter().map(|&(_, answer)| answer).collect(),
            paging_va_queries: Vec::new(),
            has_page_tables: config.has_page_tables(),
            operation_bytes: config.operation_bytes,
            dependent_engines: config.dependent_engines,
            answer: Box::new(|_| None),
            next_allocation: None,
            fails_after: None,
            failing: Failing::default(),
            build_failure: BuildStatus::InsufficientDmaBuffer,
            opened: BTreeSet::new(),
            num_opened: 0,
            calls: Vec::new(),
            operations: Vec::new(),
            journal: Journal::default(),
            infos: BTreeMap::new(),
            live: BTreeSet::new(),
            submitted: Vec::new(),
            contexts: BTreeMap::new(),
            last_handle: 0,
            vetoes: false,
            is_stopped: false,
        }
    }

    fn create(&mut self, call: Fallible) -> Option<u64> {
        if self.failing.fails(call) {
            return None;
        }
        if self.fails_after == Some(0) {
            self.fails_after = None;
            return None;
        }
        self.fails_after = self.fails_after.map(|left| left - 1);
        self.last_handle += 1;
        self.live.insert(self.last_handle);
        Some(self.last_handle)
    }

    fn destroy(&mut self, handle: u64) {
        assert!(self.live.remove(&handle), "handle {handle} was destroyed twice");
    }

    /// A failure, if it is this call's turn: one that the driver is free to answer (BPB-05, U-11).
    fn fail_to_build(&mut self, build: &mut BuildPagingBuffer<'_>) -> Option<BuildStatus> {
        let is_possible = match self.build_failure {
            BuildStatus::InsufficientDmaBuffer => *build.multipass_offset == 0,
            _ => !build.allocation_is_idle,
        };
        let fails = is_possible && self.failing.fails(Fallible::BuildPagingBuffer);
        if fails && self.build_failure == BuildStatus::InsufficientDmaBuffer {
            *build.multipass_offset += 1;
        }
        fails.then_some(self.build_failure)
    }

    /// Words of zero, and at the end of an operation its number.
    fn encode(&mut self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        if is_by_cpu(build.operation) {
            assert!(
                build.dma_buffer.is_empty() && build.dma_buffer_private_data.is_empty(),
                "BPB-08: there is no buffer"
            );
            self.operations.push(*build.operation);
            self.journal.push(Happened::Built(self.operations.len() - 1));
            return BuildStatus::Success;
        }
        let words = (self.operation_bytes / 8) as u32;
        while *build.multipass_offset < words {
            let Some(room) = build.dma_buffer[build.dma_bytes_written..].get_mut(..8) else {
                return BuildStatus::InsufficientDmaBuffer;
            };
            *build.multipass_offset += 1;
            build.dma_bytes_written += 8;
            let mut word = 0;
            if *build.multipass_offset == words {
                self.operations.push(*build.operation);
                self.journal.push(Happened::Built(self.operations.len() - 1));
                word = self.operations.len() as u64;
            }
            room.copy_from_slice(&word.to_le_bytes());
        }
        BuildStatus::Success
    }
}

impl Kmd for Driver {
    fn query_adapter_info(&mut self) -> AdapterInfo {
        self.info.clone()
    }

    fn query_paging_process_gpu_va_size(&mut self, physical_adapter_index: u32) -> Option<u32> {
        self.paging_va_queries.push(physical_adapter_index);
        match physical_adapter_index {
            0 => self.paging_va_mib,
            linked => self.linked_paging_va_mib[linked as usize - 1],
        }
    }

    fn create_process(&mut self, _system_process: bool) -> Result<KmdProcessHandle, KmdError> {
        self.create(Fallible::CreateProcess).map(KmdProcessHandle).ok_or(KmdError)
    }

    fn destroy_process(&mut self, process: KmdProcessHandle) {
        self.destroy(process.0);
    }

    fn create_context(&mut self, process: KmdProcessHandle, _: u32, _: bool) -> Result<KmdContextHandle, KmdError> {
        let context = self.create(Fallible::CreateContext).map(KmdContextHandle).ok_or(KmdError)?;
        self.contexts.insert(context, (process, None));
        Ok(context)
    }

    fn destroy_context(&mut self, context: KmdContextHandle) {
        self.contexts.remove(&context);
        self.destroy(context.0);
    }

    fn get_root_page_table_size(&mut self, num_entries: u32) -> Option<u32> {
        self.roots_asked.push(num_entries);
        self.root_bytes
    }

    fn create_allocation(&mut self, private_driver_data: &[u8]) -> Result<AllocationInfo, CreateAllocationError> {
        let [size, priority] = words(private_driver_data).collect::<Vec<_>>()[..] else {
            return Err(CreateAllocationError::InvalidParameter);
        };
        let allocation = self.create(Fallible::CreateAllocation).map(KmdAllocationHandle);
        let allocation = allocation.ok_or(CreateAllocationError::NoMemory)?;
        let info = self.next_allocation.take().unwrap_or_else(|| allocation_info(size, priority as u32));
        let info = AllocationInfo { allocation, ..info };
        self.infos.insert(allocation, info);
        Ok(info)
    }

    fn destroy_allocation(&mut self, allocation: KmdAllocationHandle) {
        self.infos.remove(&allocation);
        self.destroy(allocation.0);
    }

    fn validate_update_allocation_property(
        &mut self,
        allocation: KmdAllocationHandle,
        _: SegmentSet,
        _: SegmentPreference,
    ) -> bool {
        assert!(self.infos.contains_key(&allocation), "I28: {allocation:?} was destroyed");
        !self.vetoes && !self.failing.fails(Fallible::ValidateUpdateAllocationProperty)
    }

    fn open_allocation(
        &mut self,
        _: KmdProcessHandle,
        allocation: KmdAllocationHandle,
    ) -> Result<KmdOpenHandle, KmdError> {
        assert!(self.infos.contains_key(&allocation), "I28: {allocation:?} was destroyed");
        if self.failing.fails(Fallible::OpenAllocation) {
            return Err(KmdError);
        }
        self.num_opened += 1;
        self.opened.insert(KmdOpenHandle(self.num_opened));
        Ok(KmdOpenHandle(self.num_opened))
    }

    fn close_allocation(&mut self, allocation: KmdOpenHandle) {
        assert!(self.opened.remove(&allocation), "{allocation:?} was closed twice");
    }

    fn set_root_page_table(&mut self, context: KmdContextHandle, root: RootPageTable) {
        assert!(self.has_page_tables, "PGV-20: a root page table, but nothing walks it");
        self.contexts.get_mut(&context).expect("the context lives").1 = Some(root);
    }

    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        if let Some(allocation) = build.operation.allocation() {
            assert!(self.live.contains(&allocation.0), "I28: an operation names a destroyed allocation");
        }
        let multipass_before = *build.multipass_offset;
        let room = build.dma_buffer.len();
        let status = match self.is_stopped {
            true => (self.answer)(build).unwrap_or(BuildStatus::Success),
            false => {
                let failure = self.fail_to_build(build);
                failure.or_else(|| (self.answer)(build)).unwrap_or_else(|| self.encode(build))
            }
        };
        self.calls.push(Call {
            operation: *build.operation,
            status,
            write_offset: build.dma_buffer_write_offset,
            room,
            bytes: build.dma_bytes_written,
            multipass_before,
            multipass_after: *build.multipass_offset,
            allocation_is_idle: build.allocation_is_idle,
        });
        status
    }

    fn query_dependent_engine_group(&mut self, node_ordinal: u32) -> u64 {
        self.dependent_engines[node_ordinal as usize]
    }

    fn submit_command(&mut self, submit: &SubmitCommand, preamble: &mut Vec<u8>) {
        let (process, root) = self.contexts[&submit.context];
        self.submitted.push((*submit, root));
        let no_root = PhysicalAddress { segment: SegmentId::SYSTEM, offset: 0 };
        let root = root.unwrap_or(RootPageTable { address: no_root, num_entries: 0 });
        let RootPageTable { address: PhysicalAddress { segment, offset }, num_entries } = root;
        for word in [process.0, segment.0.into(), offset, num_entries.into()] {
            preamble.extend(word.to_le_bytes());
        }
    }
}
