//! The kernel-mode half of the reference driver: it encodes paging, and lets users run kernels.

mod adopted;
mod patch;
mod physical;
mod render;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use vidmm::contract::{
    ALLOCATION_PRIORITY_NORMAL, AdapterInfo, AllocationFlags, AllocationInfo, BuildPagingBuffer, BuildStatus,
    CpuVirtualAddress, CreateAllocationError, EngineDesc, EngineKind, FillVirtual, FlushTlb, GpuMmuCaps, GpuMmuFlags,
    Kmd, KmdAllocationHandle, KmdContextHandle, KmdError, KmdProcessHandle, LegacyBehaviors, MapApertureFlags,
    MapApertureSegment, MemoryTransferDirection, NotifyAlloc, NotifyAllocFlags, NotifyInterrupt, NotifyResidency,
    PageTableLevelDesc, PageTableUpdateMode, PagingBufferDesc, PagingOperation, Patch, Render, RenderStatus,
    RootPageTable, SegmentDescriptor, SegmentFlags, SegmentPreference, SegmentSet, SubmitCommand, TransferVirtual,
    UnmapApertureSegment, UpdateMode, UpdatePageTable, UpdatePageTableFlags, VidMmCaps,
};
use vidmm::{GpuVirtualAddress, PAGE_SIZE, PageSize, PhysicalAddress, SegmentId};
use vidmm_runtime::{AllocationSegments, MemoryKind, Surface};

use crate::config::{ApertureConfig, LinkedAdapterConfig, MemoryConfig, SegmentConfig, SoftAdapterConfig};
use crate::encoding::{
    self, Command, Decompress, Fill, FlushRange, Foreign, MapAperture, SetContext, SetRootPageTable, TableAddress,
    Transfer, UnmapAperture, UseAllocation, WritePtes,
};
use crate::layout::{HardwareEntry, PageTableLayout};
use crate::physical_addresses::PhysicalAddressMap;
use crate::private_data::AllocationPrivateData;
use crate::status::StatusRegisters;
use crate::surface::SurfaceBook;
use crate::system::{self, SystemMemory};
use crate::table;

/// Engine 0: runs the paging buffers.
pub const PAGING_ENGINE: u32 = 0;
/// Engine 1: runs kernels.
pub const RENDER_ENGINE: u32 = 1;
/// Engine 2: runs copies, and kernels as well.
pub const COPY_ENGINE: u32 = 2;

/// The kernel-mode half of the reference driver.
///
/// `multipass_offset` counts the commands that an operation has got so far (BPB-04): an update of a page table is cut into
/// commands of [`max_entries_per_command`](SoftAdapterConfig::max_entries_per_command), a flush is one, and everything else is
/// cut into parts of [`max_command_bytes`](SoftAdapterConfig::max_command_bytes).
///
/// The driver makes plain, before it leaves the GPU, what the GPU holds compressed: by a notification of eviction
/// (NTF-01), and part for part before a transfer to system memory. A fill begins the same way, so that no mark of lost
/// content is left, and so does the discarding of content.
///
/// Without GPU virtual addresses it translates command buffers of kernels: [`render`](Kmd::render) copies whole commands, one to
/// one, and refuses what could reach memory that the allocation list does not name.
#[derive(Debug)]
pub struct SoftKmd {
    config: SoftAdapterConfig,
    layout: PageTableLayout,
    /// As the CPU sees it.
    memory: SystemMemory,
    next_handle: u64,
    processes: BTreeSet<KmdProcessHandle>,
    contexts: BTreeMap<KmdContextHandle, Context>,
    allocations: BTreeMap<KmdAllocationHandle, Allocation>,
    surfaces: SurfaceBook,
    addresses: PhysicalAddressMap,
    paging_process: Option<KmdProcessHandle>,
    transfers_asked: u32,
    notifications_asked: u32,
}

/// The driver's record of an allocation.
#[derive(Clone, Copy, Debug)]
struct Allocation {
    /// In bytes.
    size: u64,
    /// Its compression surface, if it has one.
    surface: Option<u32>,
    /// The commands of the user's own that change it before it is evicted.
    foreign: Option<u32>,
    /// The GPU is told where it is, and checks that kernels find it there.
    is_told: bool,
}

#[derive(Debug)]
struct Context {
    process: KmdProcessHandle,
    is_system: bool,
    root: Option<RootPageTable>,
    /// The allocations of the portion that was patched last, and is submitted next.
    uses: Vec<UseAllocation>,
}

impl SoftKmd {
    /// A driver for the adapter that `config` describes.
    ///
    /// # Panics
    ///
    /// If [`SoftAdapterConfig::check`] finds an error.
    pub fn new(config: SoftAdapterConfig) -> Self {
        if let Err(error) = config.check() {
            panic!("{error}");
        }
        let layout = config.layout();
        Self {
            addresses: PhysicalAddressMap::new(&config),
            config,
            layout,
            memory: SystemMemory::new(),
            next_handle: 1,
            processes: BTreeSet::new(),
            contexts: BTreeMap::new(),
            allocations: BTreeMap::new(),
            surfaces: SurfaceBook::default(),
            paging_process: None,
            transfers_asked: 0,
            notifications_asked: 0,
        }
    }

    /// The surfaces of its allocations.
    pub fn surface_book(&self) -> SurfaceBook {
        self.surfaces.clone()
    }

    /// The driver with the machine's system memory, where its CPU writes page tables if it is to (GVA-10).
    pub fn with_memory(self, memory: SystemMemory) -> Self {
        Self { memory, ..self }
    }

    /// How many processes, contexts and allocations are alive: all 0 when everything was destroyed.
    pub fn live_objects(&self) -> (usize, usize, usize) {
        (self.processes.len(), self.contexts.len(), self.allocations.len())
    }

    /// The processes that are alive, the paging process too, in the order in which they were created.
    pub fn processes(&self) -> impl DoubleEndedIterator<Item = KmdProcessHandle> {
        self.processes.iter().copied()
    }

    /// Handles are never used twice, so that a stale one names nothing.
    fn handle(&mut self) -> u64 {
        let handle = self.next_handle;
        self.next_handle += 1;
        handle
    }

    fn segments(&self) -> Vec<SegmentDescriptor> {
        let descriptor = |(_, base_address, config)| match config {
            SegmentConfig::Memory(MemoryConfig { bytes: size, cpu_visible }) => {
                let flags = self.memory_flags() | cpu_visible_flag(cpu_visible);
                SegmentDescriptor { flags, base_address, size, commit_limit: size }
            }
            SegmentConfig::Aperture(ApertureConfig { bytes: size, commit_limit_bytes, cache_coherent }) => {
                let commit_limit = commit_limit_bytes.unwrap_or(size);
                SegmentDescriptor { flags: aperture_flags(cache_coherent), base_address, size, commit_limit }
            }
        };
        self.config.segments().map(descriptor).collect()
    }

    fn memory_flags(&self) -> SegmentFlags {
        let mut flags = SegmentFlags::APPLICATION_TARGET | SegmentFlags::LOCAL_BUDGET_GROUP;
        flags.set(SegmentFlags::USE_64KB_PAGES, self.config.page_size == PageSize::Kib64);
        flags
    }

    /// The segments of a further physical adapter: local memory if there is any, and the aperture behind it.
    fn linked_segments(&self, linked: &LinkedAdapterConfig) -> Vec<SegmentDescriptor> {
        let LinkedAdapterConfig { local_memory_bytes, aperture_bytes, .. } = *linked;
        let local = SegmentDescriptor {
            flags: self.memory_flags(),
            base_address: 0,
            size: local_memory_bytes,
            commit_limit: local_memory_bytes,
        };
        let aperture = SegmentDescriptor {
            flags: aperture_flags(self.config.cache_coherent_aperture),
            base_address: local_memory_bytes,
            size: aperture_bytes,
            commit_limit: aperture_bytes,
        };
        let local = (local_memory_bytes > 0).then_some(local);
        let aperture = (aperture_bytes > 0).then_some(aperture);
        local.into_iter().chain(aperture).collect()
    }

    fn gpu_mmu(&self) -> GpuMmuCaps {
        let mut flags = GpuMmuFlags::READ_ONLY_MEMORY_SUPPORTED | GpuMmuFlags::NO_EXECUTE_MEMORY_SUPPORTED;
        let dual_pte = self.config.dual_pte && self.config.has_page_tables();
        flags.set(GpuMmuFlags::DUAL_PTE_SUPPORTED, dual_pte);
        flags.set(GpuMmuFlags::INVALID_TLB_ENTRIES_NOT_CACHED, self.config.invalid_tlb_entries_not_cached);
        flags.set(GpuMmuFlags::CACHE_COHERENT_MEMORY_SUPPORTED, self.config.cache_coherent_memory);
        flags.set(GpuMmuFlags::ZERO_IN_PTE_SUPPORTED, self.config.zero_in_pte);
        flags.set(GpuMmuFlags::LARGE_PAGE_SUPPORTED, self.config.large_pages);
        flags.set(GpuMmuFlags::ALLOW_NON_ALIGNED_LARGE_PAGE_ADDRESS, self.config.large_pages_anywhere);
        flags.set(GpuMmuFlags::SYS_MEM_LARGE_PAGE_SUPPORTED, self.config.large_pages_in_system_memory);
        GpuMmuCaps {
            flags,
            page_table_update_mode: self.config.page_table_update_mode,
            legacy_behaviors: LegacyBehaviors::empty(),
            virtual_address_bit_count: self.config.virtual_address_bit_count,
            leaf_page_table_size_for_64k_pages_in_bytes: if dual_pte {
                self.layout.leaf_64kib_table_bytes()
            } else {
                0
            },
        }
    }

    fn memory_management_caps(&self) -> VidMmCaps {
        let mut caps = VidMmCaps::empty();
        caps.set(VidMmCaps::MAP_APERTURE2_SUPPORTED, self.config.map_aperture2);
        caps
    }

    fn page_table_levels(&self) -> Vec<PageTableLevelDesc> {
        let levels = if self.config.has_page_tables() { self.layout.levels() } else { 0 };
        (0..levels).map(|level| self.page_table_level(level)).collect()
    }

    fn page_table_level(&self, level: u32) -> PageTableLevelDesc {
        let local = self.config.local_segment().filter(|_| !self.config.page_tables_in_system_memory);
        let segment = local.unwrap_or(SegmentId::SYSTEM);
        // The CPU sets the paging process's tables up where all others are written through them (GVA-33).
        let is_set_up_by_cpu = self.config.page_table_update_mode == PageTableUpdateMode::GpuVirtual;
        // The root of two levels has nothing at first, and is as large as it is asked to be (GVA-15, GVA-16).
        let is_resizable = self.layout.levels() == 2 && level == 1;
        PageTableLevelDesc {
            page_table_index_bit_count: if is_resizable { 0 } else { self.layout.index_bits(level) },
            page_table_segment_id: segment,
            paging_process_page_table_segment_id: if is_set_up_by_cpu { SegmentId::SYSTEM } else { segment },
            page_table_size_in_bytes: if is_resizable { 0 } else { self.layout.table_bytes(level) },
            page_table_alignment_in_bytes: 0,
        }
    }

    /// Whether this operation is one that asks for an idle allocation.
    fn is_busy(&mut self, build: &BuildPagingBuffer<'_>) -> bool {
        let (asked, every) = match build.operation {
            PagingOperation::Transfer(op) if op.transfer_size == 0 => return false,
            PagingOperation::VirtualTransfer(_) | PagingOperation::Transfer(_) | PagingOperation::DiscardContent(_) => {
                (&mut self.transfers_asked, self.config.busy_every)
            }
            PagingOperation::NotifyAlloc(_) => (&mut self.notifications_asked, self.config.busy_notify_every),
            PagingOperation::VirtualFill(_)
            | PagingOperation::UpdatePageTable(_)
            | PagingOperation::FlushTlb(_)
            | PagingOperation::MapApertureSegment(_)
            | PagingOperation::MapApertureSegment2(_)
            | PagingOperation::UnmapApertureSegment(_)
            | PagingOperation::Fill(_)
            | PagingOperation::NotifyResidency(_) => return false,
        };
        let first_pass = *build.multipass_offset == 0;
        let (Some(every), true, false) = (every, first_pass, build.allocation_is_idle) else { return false };
        *asked += 1;
        asked.is_multiple_of(every)
    }

    /// Command number `index` of `operation`; `None` if there are no more.
    fn command(&self, operation: &PagingOperation, index: u64) -> Option<Command> {
        match operation {
            PagingOperation::VirtualTransfer(op) => self.transfer(op, index),
            PagingOperation::VirtualFill(op) => self.fill(op, index),
            PagingOperation::Transfer(op) => self.physical_transfer(op, index),
            PagingOperation::Fill(op) => self.physical_fill(op, index),
            PagingOperation::DiscardContent(op) => self.discard_content(op, index),
            PagingOperation::UpdatePageTable(op) => self.write_ptes(op, index).map(Command::WritePtes),
            PagingOperation::FlushTlb(op) => (index == 0).then(|| Command::FlushTlb(flush(op))),
            PagingOperation::MapApertureSegment(op) => self.map_aperture(op, index).map(Command::MapAperture),
            PagingOperation::MapApertureSegment2(op) => {
                self.map_aperture(&(*op).into(), index).map(Command::MapAperture)
            }
            PagingOperation::UnmapApertureSegment(op) => self.unmap_aperture(op, index).map(Command::UnmapAperture),
            PagingOperation::NotifyAlloc(op) if op.flags.contains(NotifyAllocFlags::EVICTION) => {
                self.notify_eviction(op, index)
            }
            PagingOperation::NotifyAlloc(op) => self.notify_io_mmu_unmap(op, index).map(Command::FlushTlb),
            PagingOperation::NotifyResidency(op) => (index == 0).then(|| self.notify_residency(op)),
        }
    }

    /// Part number `index` of `bytes` bytes: where it begins, and how much it is.
    fn part(&self, bytes: u64, index: u64) -> Option<(u64, u64)> {
        let start = index * self.config.max_command_bytes;
        (start < bytes).then(|| (start, self.config.max_command_bytes.min(bytes - start)))
    }

    fn surface(&self, allocation: KmdAllocationHandle) -> Option<u32> {
        self.allocations.get(&allocation)?.surface
    }

    /// Part number `index` of making `range` plain; `None` as well if the allocation is never compressed.
    fn decompress(&self, range: &AllocationRange, index: u64) -> Option<Command> {
        let number = self.surface(range.allocation)?;
        let (start, bytes) = self.part(range.bytes, index)?;
        let allocation_offset = range.allocation_offset + start;
        Some(Command::Decompress(Decompress {
            virtual_address: range.virtual_address.offset(start),
            bytes,
            surface: Surface { number, first_page: allocation_offset / PAGE_SIZE },
            allocation: range.allocation,
            allocation_offset,
        }))
    }

    /// Command number `index` of an operation of which each part begins with `range` being made plain, if it can be compressed.
    fn plain_first(
        &self,
        range: &AllocationRange,
        index: u64,
        command: impl FnOnce(u64) -> Option<Command>,
    ) -> Option<Command> {
        match (self.surface(range.allocation), index % 2) {
            (None, _) => command(index),
            (Some(_), 0) => self.decompress(range, index / 2),
            (Some(_), _) => command(index / 2),
        }
    }

    fn transfer(&self, op: &TransferVirtual, index: u64) -> Option<Command> {
        let transfer = |index| {
            let (start, bytes) = self.part(op.transfer_size_in_bytes, index)?;
            Some(Command::Transfer(Transfer {
                source: op.source_virtual_address.offset(start),
                destination: op.destination_virtual_address.offset(start),
                bytes,
                direction: op.transfer_direction,
                allocation: op.allocation,
                allocation_offset: op.allocation_offset_in_bytes + start,
            }))
        };
        if op.transfer_direction != MemoryTransferDirection::LocalToSystem {
            return transfer(index);
        }
        let source = AllocationRange {
            virtual_address: op.source_virtual_address,
            bytes: op.transfer_size_in_bytes,
            allocation: op.allocation,
            allocation_offset: op.allocation_offset_in_bytes,
        };
        self.plain_first(&source, index, transfer)
    }

    fn fill(&self, op: &FillVirtual, index: u64) -> Option<Command> {
        let destination = AllocationRange {
            virtual_address: op.destination_virtual_address,
            bytes: op.fill_size_in_bytes,
            allocation: op.allocation,
            allocation_offset: op.allocation_offset_in_bytes,
        };
        self.plain_first(&destination, index, |index| {
            let (start, bytes) = self.part(op.fill_size_in_bytes, index)?;
            Some(Command::Fill(Fill {
                destination: op.destination_virtual_address.offset(start),
                bytes,
                pattern: op.fill_pattern,
                allocation: op.allocation,
                allocation_offset: op.allocation_offset_in_bytes + start,
            }))
        })
    }

    fn map_aperture(&self, op: &MapApertureSegment, index: u64) -> Option<MapAperture> {
        let (start, bytes) = self.part(op.number_of_pages * PAGE_SIZE, index)?;
        Some(MapAperture {
            segment: op.segment_id,
            first_page: op.offset_in_pages + start / PAGE_SIZE,
            num_pages: bytes / PAGE_SIZE,
            system_memory: op.mdl.offset_by(start),
            cache_coherent: op.flags.contains(MapApertureFlags::CACHE_COHERENT),
            allocation: op.allocation,
        })
    }

    fn unmap_aperture(&self, op: &UnmapApertureSegment, index: u64) -> Option<UnmapAperture> {
        let (start, bytes) = self.part(op.number_of_pages * PAGE_SIZE, index)?;
        Some(UnmapAperture {
            segment: op.segment_id,
            first_page: op.offset_in_pages + start / PAGE_SIZE,
            num_pages: bytes / PAGE_SIZE,
            dummy_page: op.dummy_page,
            allocation: op.allocation,
        })
    }

    /// The chunk becomes plain where the window shows it. The GPU's cache of the window's addresses is of an earlier
    /// window: with page tables the core flushes it, behind an IOMMU only the driver can.
    fn notify_eviction(&self, op: &NotifyAlloc, index: u64) -> Option<Command> {
        let chunk = AllocationRange {
            virtual_address: op.gpu_virtual_address_at_offset,
            bytes: op.size_in_bytes,
            allocation: op.allocation,
            allocation_offset: op.offset_in_bytes,
        };
        match (self.config.uses_io_mmu(), index) {
            (false, part) => self.leave(&chunk, part),
            (true, 0) => Some(Command::FlushTlb(notified_range(op, self.paging_process))),
            (true, next) => self.leave(&chunk, next - 1),
        }
    }

    /// Part number `index` of what is done to `range` before it is evicted.
    fn leave(&self, range: &AllocationRange, index: u64) -> Option<Command> {
        let Some(token) = self.allocations.get(&range.allocation).and_then(|allocation| allocation.foreign) else {
            return self.decompress(range, index);
        };
        let (start, bytes) = self.part(range.bytes, index)?;
        Some(Command::Foreign(Foreign {
            token,
            virtual_address: range.virtual_address.offset(start),
            bytes,
            allocation: range.allocation,
            allocation_offset: range.allocation_offset + start,
        }))
    }

    /// The GPU forgets its cached mappings of the IOMMU; a GPU with page tables has none. A notification that names no
    /// process, as the revision of August 2024 has them, does not tell where the allocation is mapped (NTF-06): then everything
    /// is forgotten.
    fn notify_io_mmu_unmap(&self, op: &NotifyAlloc, index: u64) -> Option<FlushRange> {
        if !self.config.uses_io_mmu() || index > 0 {
            return None;
        }
        let everything = FlushRange { process: None, start: GpuVirtualAddress(0), end: GpuVirtualAddress(0) };
        Some(op.process.map_or(everything, |process| notified_range(op, Some(process))))
    }

    fn write_ptes(&self, op: &UpdatePageTable, index: u64) -> Option<WritePtes> {
        let run = op.page_table_entries;
        let start = u32::try_from(index * u64::from(self.config.max_entries_per_command)).ok()?;
        if start >= run.num_page_table_entries {
            return None;
        }
        let page_size = op.page_size();
        let repeat = op.flags.contains(UpdatePageTableFlags::REPEAT);
        let stride = if repeat { 0 } else { page_size.bytes() };
        let entry = |pte| HardwareEntry::from_pte(pte).offset_by(u64::from(start) * stride);
        Some(WritePtes {
            process: op.process,
            virtual_address: op
                .first_pte_virtual_address
                .offset(u64::from(start) * self.layout.coverage(op.page_table_level, page_size)),
            level: op.page_table_level,
            page_size,
            table: match op.update_mode {
                UpdateMode::GpuVirtual(address) => TableAddress::Virtual(address),
                UpdateMode::GpuPhysical | UpdateMode::CpuVirtual(_) => TableAddress::Physical(op.page_table_address),
            },
            start_index: op.start_index + start,
            count: self.config.max_entries_per_command.min(run.num_page_table_entries - start),
            first: entry(run.first),
            first_64kb: run.first_64kb.map(entry),
            stride,
        })
    }

    /// Writes entries with the CPU, into the table that it sees at `address` (BPB-08).
    fn write_by_cpu(&self, op: &UpdatePageTable, address: CpuVirtualAddress) -> BuildStatus {
        let table = system::seen_at(address).filter(|offset| offset.is_multiple_of(PAGE_SIZE));
        let Some(offset) = table else { return BuildStatus::Other(STATUS_INVALID_PARAMETER) };
        let mut memory = self.memory.lock();
        for ptes in (0..).map_while(|index| self.write_ptes(op, index)) {
            let seen = table::pages_of(&self.layout, &ptes).map(|pages| (offset / PAGE_SIZE + pages.start, pages));
            let is_there = |&(first, ref pages): &(u64, Range<u64>)| memory.contains(first, pages.end - pages.start);
            let Some((first_page, pages)) = seen.filter(is_there) else {
                return BuildStatus::Other(STATUS_INVALID_PARAMETER);
            };
            table::write_entries(&mut memory, first_page, pages, &self.layout, &ptes);
        }
        BuildStatus::Success
    }

    /// The GPU keeps where the allocation is.
    fn notify_residency(&self, op: &NotifyResidency) -> Command {
        let address = op.resident.then(|| self.addresses.address(op.physical_address));
        Command::NotifyResidency(encoding::NotifyResidency { allocation: op.allocation, address })
    }

    /// The segments that allocations of `segments` may live in, first choice first. System memory is named by the aperture
    /// (SEG-11).
    fn supported_segments(&self, segments: AllocationSegments) -> Result<Vec<SegmentId>, CreateAllocationError> {
        let (local, aperture) = (self.config.local_segment(), self.config.aperture_segment());
        let segments: Option<Vec<SegmentId>> = match segments {
            AllocationSegments::Local => local.map(|local| vec![local]),
            AllocationSegments::System => aperture.map(|aperture| vec![aperture]),
            AllocationSegments::LocalOrSystem => Some(local.into_iter().chain(aperture).collect()),
            AllocationSegments::Ordered(order) => order
                .kinds()
                .map(|kind| match kind {
                    MemoryKind::Memory(number) => self.config.memory_segment(number),
                    MemoryKind::System => aperture,
                    MemoryKind::Aperture(number) => self.config.aperture(number),
                })
                .collect(),
        };
        segments.ok_or(CreateAllocationError::InvalidParameter)
    }

    /// Encodes commands from `multipass_offset` on, as many as fit.
    fn encode_commands(&self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        while let Some(command) = self.command(build.operation, u64::from(*build.multipass_offset)) {
            let rest = &mut build.dma_buffer[build.dma_bytes_written..];
            let Some(bytes) = encoding::encode(&command, rest) else { return BuildStatus::InsufficientDmaBuffer };
            build.dma_bytes_written += bytes;
            *build.multipass_offset += 1;
        }
        BuildStatus::Success
    }
}

/// The flags of an aperture segment.
fn aperture_flags(cache_coherent: bool) -> SegmentFlags {
    let mut flags = SegmentFlags::APERTURE | SegmentFlags::NON_LOCAL_BUDGET_GROUP;
    flags.set(SegmentFlags::CACHE_COHERENT, cache_coherent);
    flags
}

/// The flag of a segment that the CPU sees.
fn cpu_visible_flag(cpu_visible: bool) -> SegmentFlags {
    if cpu_visible { SegmentFlags::CPU_VISIBLE } else { SegmentFlags::empty() }
}

/// A range of an allocation, as the address space in which the commands run has it.
struct AllocationRange {
    virtual_address: GpuVirtualAddress,
    bytes: u64,
    allocation: KmdAllocationHandle,
    allocation_offset: u64,
}

fn flush(op: &FlushTlb) -> FlushRange {
    FlushRange { process: Some(op.process), start: op.start_virtual_address, end: op.end_virtual_address }
}

/// The addresses that `op` is about, which are those of `process`.
fn notified_range(op: &NotifyAlloc, process: Option<KmdProcessHandle>) -> FlushRange {
    let start = op.gpu_virtual_address_at_offset;
    FlushRange { process, start, end: start.offset(op.size_in_bytes) }
}

const PRIVATE_BYTES_PER_BUILD: usize = 8;

/// The answer to an operation that the driver was not told of before: there is no such page table.
const STATUS_INVALID_PARAMETER: i32 = 0xC000_000D_u32 as i32;

impl Kmd for SoftKmd {
    fn query_adapter_info(&mut self) -> AdapterInfo {
        AdapterInfo {
            wddm_version: self.config.wddm_version,
            addressing_model: self.config.addressing_model,
            memory_management_caps: self.memory_management_caps(),
            linked_adapter_segments: (self.config.linked_adapters.iter())
                .map(|linked| self.linked_segments(linked))
                .collect(),
            aperture_segment_commit_limit: self.config.system_commit_limit_bytes.unwrap_or(u64::MAX),
            scheduling_log_buffer_size: self.config.scheduling_log_buffer_bytes,
            segments: self.segments(),
            engines: [EngineKind::Paging, EngineKind::Render3d]
                .into_iter()
                .chain(std::iter::repeat(EngineKind::Copy))
                .take(self.config.engines as usize)
                .map(|kind| EngineDesc { kind })
                .collect(),
            gpu_mmu: self.gpu_mmu(),
            page_table_levels: self.page_table_levels(),
            paging_buffer: PagingBufferDesc {
                size: self.config.paging_buffer_bytes,
                private_data_size: self.config.paging_buffer_private_data_bytes,
            },
            write_behind: self.config.write_behind,
            patching: self.patching_caps(),
        }
    }

    fn query_paging_process_gpu_va_size(&mut self, physical_adapter_index: u32) -> Option<u32> {
        match physical_adapter_index.checked_sub(1) {
            None => self.config.paging_va_mib,
            Some(linked) => self.config.linked_adapters.get(linked as usize)?.paging_va_mib,
        }
    }

    fn get_root_page_table_size(&mut self, num_entries: u32) -> Option<u32> {
        (self.layout.levels() == 2 && num_entries <= 1 << self.layout.index_bits(1)).then(|| self.layout.table_bytes(1))
    }

    fn create_process(&mut self, system_process: bool) -> Result<KmdProcessHandle, KmdError> {
        let process = KmdProcessHandle(self.handle());
        self.processes.insert(process);
        if system_process {
            self.paging_process = Some(process);
        }
        Ok(process)
    }

    fn destroy_process(&mut self, process: KmdProcessHandle) {
        self.processes.remove(&process);
    }

    fn create_context(
        &mut self,
        process: KmdProcessHandle,
        _node_ordinal: u32,
        system_context: bool,
    ) -> Result<KmdContextHandle, KmdError> {
        let context = KmdContextHandle(self.handle());
        self.contexts.insert(context, Context { process, is_system: system_context, root: None, uses: Vec::new() });
        Ok(context)
    }

    fn destroy_context(&mut self, context: KmdContextHandle) {
        self.contexts.remove(&context);
    }

    fn create_allocation(&mut self, private_driver_data: &[u8]) -> Result<AllocationInfo, CreateAllocationError> {
        let data = AllocationPrivateData::from_bytes(private_driver_data)?;
        let segments = self.supported_segments(data.segments)?;
        let may_be_local = self.config.memory_segments().any(|(segment, ..)| segments.contains(&segment));
        let page_size = if may_be_local { self.config.page_size } else { PageSize::Kib4 };
        let placement = data.placement;
        let mut preferred_segment = SegmentPreference { directions: placement.directions, ..Default::default() };
        preferred_segment.segment_ids[..segments.len()].copy_from_slice(&segments);
        let allocation = KmdAllocationHandle(self.handle());
        let is_told = data.flags.contains(AllocationFlags::EXPLICIT_RESIDENCY_NOTIFICATION);
        self.allocations
            .insert(allocation, Allocation { size: data.size, surface: data.surface, foreign: data.foreign, is_told });
        self.surfaces.set(allocation, data.surface);
        let mut flags = data.flags;
        flags.set(AllocationFlags::FROM_END_OF_SEGMENT, placement.from_end_of_segment);
        Ok(AllocationInfo {
            allocation,
            size: data.size,
            alignment: placement.alignment.max(page_size.bytes() as u32),
            supported_segment_set: SegmentSet(segments.iter().map(|&segment| SegmentSet::of(segment).0).sum()),
            preferred_segment,
            hinted_bank: placement.hinted_bank,
            eviction_segment_set: match self.config.aperture_segment() {
                Some(aperture) if placement.evict_through_aperture => SegmentSet::of(aperture),
                _ => SegmentSet::default(),
            },
            allocation_priority: if data.allocation_priority == 0 {
                ALLOCATION_PRIORITY_NORMAL
            } else {
                data.allocation_priority
            },
            flags,
            flags2: data.flags2,
        })
    }

    fn destroy_allocation(&mut self, allocation: KmdAllocationHandle) {
        self.allocations.remove(&allocation);
        self.surfaces.set(allocation, None);
    }

    fn set_root_page_table(&mut self, context: KmdContextHandle, root: RootPageTable) {
        if let Some(context) = self.contexts.get_mut(&context) {
            context.root = Some(root);
        }
    }

    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        if let PagingOperation::UpdatePageTable(op) = build.operation
            && let UpdateMode::CpuVirtual(address) = op.update_mode
        {
            return self.write_by_cpu(op, address);
        }
        if self.is_busy(build) {
            return BuildStatus::AllocationBusy;
        }
        let wants_private = self.config.paging_buffer_private_data_bytes > 0;
        if wants_private && build.dma_buffer_private_data.len() < PRIVATE_BYTES_PER_BUILD {
            return BuildStatus::InsufficientDmaBuffer;
        }
        let status = self.encode_commands(build);
        if wants_private && build.dma_bytes_written > 0 {
            let note = (build.dma_bytes_written as u64).to_le_bytes();
            build.dma_buffer_private_data[..PRIVATE_BYTES_PER_BUILD].copy_from_slice(&note);
            build.private_bytes_written = PRIVATE_BYTES_PER_BUILD;
        }
        status
    }

    fn submit_command(&mut self, submit: &SubmitCommand, preamble: &mut Vec<u8>) {
        let Some(context) = self.contexts.get_mut(&submit.context) else { return };
        if self.config.is_physical() {
            let (process, is_system) = (context.process, context.is_system);
            let command = SetContext { process, context: submit.context, is_system };
            encoding::encode_to_vec(&Command::SetContext(command), preamble);
            let uses = context.uses.drain(..);
            return uses.for_each(|used| encoding::encode_to_vec(&Command::UseAllocation(used), preamble));
        }
        if self.config.uses_io_mmu() {
            return encoding::encode_to_vec(&Command::SetAddressSpace(context.process), preamble);
        }
        // A context without a root must not run in the address space that the engine had last: it gets one without entries.
        let nowhere =
            RootPageTable { address: PhysicalAddress { segment: SegmentId::SYSTEM, offset: 0 }, num_entries: 0 };
        let root = context.root.unwrap_or(nowhere);
        let command = SetRootPageTable { process: context.process, root: root.address, num_entries: root.num_entries };
        encoding::encode_to_vec(&Command::SetRootPageTable(command), preamble);
    }

    fn render(&mut self, render: &mut Render<'_>) -> Result<(), RenderStatus> {
        self.render_commands(render)
    }

    fn patch(&mut self, patch: &mut Patch<'_>) {
        self.patch_portion(patch);
        self.note_uses(patch);
    }

    fn interrupt_routine(&mut self, status: &[u8]) -> Option<NotifyInterrupt> {
        StatusRegisters::from_bytes(status).map(StatusRegisters::notification)
    }

    fn query_dependent_engine_group(&mut self, node_ordinal: u32) -> u64 {
        self.config.dependent_engine_mask(node_ordinal)
    }
}
