//! The reference driver: its kernel-mode half encodes paging, its user-mode half kernels.

use std::collections::{BTreeMap, BTreeSet};

use vidmm::contract::{
    AdapterInfo, AddressingModel, AllocationFlags2, AllocationInfo, BuildPagingBuffer, BuildStatus,
    CreateAllocationError, EngineDesc, EngineKind, FillVirtual, FlushTlb, GpuMmuCaps, GpuMmuFlags, Kmd,
    KmdAllocationHandle, KmdContextHandle, KmdError, KmdProcessHandle, PageTableLevelDesc, PageTableUpdateMode,
    PagingBufferDesc, PagingOperation, RootPageTable, SegmentDescriptor, SegmentFlags, SegmentPreference, SegmentSet,
    SubmitCommand, TransferVirtual, UpdatePageTable, UpdatePageTableFlags, WddmVersion,
};
use vidmm::{PageSize, PhysicalAddress, SegmentId};
use vidmm_runtime::{AllocationDesc, KernelCommand, Umd};

use crate::config::SoftAdapterConfig;
use crate::encoding::{self, Command, Fill, FlushRange, SetRootPageTable, Transfer, WritePtes};
use crate::layout::{HardwareEntry, PageTableLayout};
use crate::private_data::AllocationPrivateData;

/// The segment of local memory.
pub const LOCAL_SEGMENT: SegmentId = SegmentId(1);
/// The aperture segment. Nothing is placed in it in this version.
pub const APERTURE_SEGMENT: SegmentId = SegmentId(2);

/// Engine 0: runs the paging buffers.
pub const PAGING_ENGINE: u32 = 0;
/// Engine 1: runs kernels.
pub const RENDER_ENGINE: u32 = 1;
/// Engine 2: runs copies, and kernels as well.
pub const COPY_ENGINE: u32 = 2;

const PRIORITY_NORMAL: u32 = 0x7800_0000;

/// The kernel-mode half of the reference driver.
///
/// `multipass_offset` counts the commands that an operation has got so far (BPB-04): a transfer or fill is cut into commands
/// of [`max_command_bytes`](SoftAdapterConfig::max_command_bytes), an update of a page table into commands of
/// [`max_entries_per_command`](SoftAdapterConfig::max_entries_per_command), a flush is one.
#[derive(Debug)]
pub struct SoftKmd {
    config: SoftAdapterConfig,
    layout: PageTableLayout,
    next_handle: u64,
    processes: BTreeSet<KmdProcessHandle>,
    contexts: BTreeMap<KmdContextHandle, Context>,
    allocations: BTreeSet<KmdAllocationHandle>,
    transfers_asked: u32,
}

#[derive(Debug)]
struct Context {
    process: KmdProcessHandle,
    root: Option<RootPageTable>,
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
            config,
            layout,
            next_handle: 1,
            processes: BTreeSet::new(),
            contexts: BTreeMap::new(),
            allocations: BTreeSet::new(),
            transfers_asked: 0,
        }
    }

    /// How many processes, contexts and allocations are alive: all 0 when everything was destroyed.
    pub fn live_objects(&self) -> (usize, usize, usize) {
        (self.processes.len(), self.contexts.len(), self.allocations.len())
    }

    /// Handles are never used twice, so that a stale one names nothing.
    fn handle(&mut self) -> u64 {
        let handle = self.next_handle;
        self.next_handle += 1;
        handle
    }

    fn segments(&self) -> Vec<SegmentDescriptor> {
        let pool =
            if self.config.page_size == PageSize::Kib64 { SegmentFlags::USE_64KB_PAGES } else { SegmentFlags::empty() };
        let local = SegmentDescriptor {
            flags: pool | SegmentFlags::APPLICATION_TARGET | SegmentFlags::LOCAL_BUDGET_GROUP,
            base_address: 0,
            size: self.config.local_memory_bytes,
            commit_limit: self.config.local_memory_bytes,
        };
        let aperture = SegmentDescriptor {
            flags: SegmentFlags::APERTURE | SegmentFlags::NON_LOCAL_BUDGET_GROUP,
            base_address: self.config.local_memory_bytes,
            size: self.config.aperture_bytes,
            commit_limit: self.config.aperture_bytes,
        };
        vec![local, aperture]
    }

    fn gpu_mmu(&self) -> GpuMmuCaps {
        let mut flags = GpuMmuFlags::READ_ONLY_MEMORY_SUPPORTED;
        flags.set(GpuMmuFlags::DUAL_PTE_SUPPORTED, self.config.dual_pte);
        flags.set(GpuMmuFlags::INVALID_TLB_ENTRIES_NOT_CACHED, self.config.invalid_tlb_entries_not_cached);
        GpuMmuCaps {
            flags,
            page_table_update_mode: PageTableUpdateMode::GpuPhysical,
            virtual_address_bit_count: self.config.virtual_address_bit_count,
            leaf_page_table_size_for_64k_pages_in_bytes: self.layout.leaf_64kib_table_bytes(),
        }
    }

    fn page_table_level(&self, level: u32) -> PageTableLevelDesc {
        let segment = if self.config.page_tables_in_system_memory { SegmentId::SYSTEM } else { LOCAL_SEGMENT };
        PageTableLevelDesc {
            page_table_index_bit_count: self.layout.index_bits(level),
            page_table_segment_id: segment,
            paging_process_page_table_segment_id: segment,
            page_table_size_in_bytes: self.layout.table_bytes(level),
        }
    }

    /// Whether this transfer is one that asks for an idle allocation.
    fn is_busy(&mut self, build: &BuildPagingBuffer<'_>) -> bool {
        let first_pass = *build.multipass_offset == 0;
        let (Some(every), PagingOperation::VirtualTransfer(_)) = (self.config.busy_every, build.operation) else {
            return false;
        };
        if build.allocation_is_idle || !first_pass {
            return false;
        }
        self.transfers_asked += 1;
        self.transfers_asked.is_multiple_of(every)
    }

    /// How many commands `operation` takes.
    fn num_commands(&self, operation: &PagingOperation) -> u64 {
        let by_bytes = |bytes: u64| bytes.div_ceil(self.config.max_command_bytes);
        match operation {
            PagingOperation::VirtualTransfer(op) => by_bytes(op.transfer_size_in_bytes),
            PagingOperation::VirtualFill(op) => by_bytes(op.fill_size_in_bytes),
            PagingOperation::UpdatePageTable(op) => {
                u64::from(op.page_table_entries.num_page_table_entries.div_ceil(self.config.max_entries_per_command))
            }
            _ => 1,
        }
    }

    /// Command number `index` of `operation`; `None` for an operation that is newer than this driver.
    fn command(&self, operation: &PagingOperation, index: u64) -> Option<Command> {
        match operation {
            PagingOperation::VirtualTransfer(op) => Some(Command::Transfer(self.transfer(op, index))),
            PagingOperation::VirtualFill(op) => Some(Command::Fill(self.fill(op, index))),
            PagingOperation::UpdatePageTable(op) => Some(Command::WritePtes(self.write_ptes(op, index))),
            PagingOperation::FlushTlb(op) => Some(Command::FlushTlb(flush(op))),
            _ => None,
        }
    }

    /// What command number `index` covers of an operation over `bytes` bytes: where it begins, and how much it is.
    fn part(&self, bytes: u64, index: u64) -> (u64, u64) {
        let start = index * self.config.max_command_bytes;
        (start, self.config.max_command_bytes.min(bytes - start))
    }

    fn transfer(&self, op: &TransferVirtual, index: u64) -> Transfer {
        let (start, bytes) = self.part(op.transfer_size_in_bytes, index);
        Transfer {
            source: op.source_virtual_address.offset(start),
            destination: op.destination_virtual_address.offset(start),
            bytes,
            direction: op.transfer_direction,
            allocation: op.allocation,
            allocation_offset: op.allocation_offset_in_bytes + start,
        }
    }

    fn fill(&self, op: &FillVirtual, index: u64) -> Fill {
        let (start, bytes) = self.part(op.fill_size_in_bytes, index);
        Fill {
            destination: op.destination_virtual_address.offset(start),
            bytes,
            pattern: op.fill_pattern,
            allocation: op.allocation,
            allocation_offset: op.allocation_offset_in_bytes + start,
        }
    }

    fn write_ptes(&self, op: &UpdatePageTable, index: u64) -> WritePtes {
        let run = op.page_table_entries;
        let start = index as u32 * self.config.max_entries_per_command;
        let page_size =
            if op.flags.contains(UpdatePageTableFlags::USE_64KB_PAGES) { PageSize::Kib64 } else { PageSize::Kib4 };
        let repeat = op.flags.contains(UpdatePageTableFlags::REPEAT);
        let stride = if repeat { 0 } else { page_size.bytes() };
        let entry = |pte| HardwareEntry::from_pte(pte).offset_by(u64::from(start) * stride);
        WritePtes {
            process: op.process,
            virtual_address: op
                .first_pte_virtual_address
                .offset(u64::from(start) * self.layout.coverage(op.page_table_level, page_size)),
            level: op.page_table_level,
            page_size,
            table: op.page_table_address,
            start_index: op.start_index + start,
            count: self.config.max_entries_per_command.min(run.num_page_table_entries - start),
            first: entry(run.first),
            first_64kb: run.first_64kb.map(entry),
            stride,
        }
    }

    /// Encodes commands from `multipass_offset` on, as many as fit.
    fn encode_commands(&self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        let num_commands = self.num_commands(build.operation);
        while u64::from(*build.multipass_offset) < num_commands {
            let Some(command) = self.command(build.operation, u64::from(*build.multipass_offset)) else {
                return BuildStatus::Success;
            };
            let rest = &mut build.dma_buffer[build.dma_bytes_written..];
            let Some(bytes) = encoding::encode(&command, rest) else { return BuildStatus::InsufficientDmaBuffer };
            build.dma_bytes_written += bytes;
            *build.multipass_offset += 1;
        }
        BuildStatus::Success
    }
}

fn flush(op: &FlushTlb) -> FlushRange {
    FlushRange { process: op.process, start: op.start_virtual_address, end: op.end_virtual_address }
}

const PRIVATE_BYTES_PER_BUILD: usize = 8;

impl Kmd for SoftKmd {
    fn query_adapter_info(&mut self) -> AdapterInfo {
        AdapterInfo {
            wddm_version: WddmVersion::WDDM3_2,
            addressing_model: AddressingModel::GpuMmu,
            linked_adapter_segments: Vec::new(),
            aperture_segment_commit_limit: u64::MAX,
            scheduling_log_buffer_size: None,
            segments: self.segments(),
            engines: [EngineKind::Paging, EngineKind::Render3d, EngineKind::Copy]
                .map(|kind| EngineDesc { kind })
                .into(),
            gpu_mmu: self.gpu_mmu(),
            page_table_levels: (0..self.layout.levels()).map(|level| self.page_table_level(level)).collect(),
            paging_buffer: PagingBufferDesc {
                size: self.config.paging_buffer_bytes,
                private_data_size: self.config.paging_buffer_private_data_bytes,
            },
        }
    }

    fn query_paging_process_gpu_va_size(&mut self, _physical_adapter_index: u32) -> Option<u32> {
        self.config.paging_va_mib
    }

    fn create_process(&mut self, _system_process: bool) -> Result<KmdProcessHandle, KmdError> {
        let process = KmdProcessHandle(self.handle());
        self.processes.insert(process);
        Ok(process)
    }

    fn destroy_process(&mut self, process: KmdProcessHandle) {
        self.processes.remove(&process);
    }

    fn create_context(
        &mut self,
        process: KmdProcessHandle,
        _node_ordinal: u32,
        _system_context: bool,
    ) -> Result<KmdContextHandle, KmdError> {
        let context = KmdContextHandle(self.handle());
        self.contexts.insert(context, Context { process, root: None });
        Ok(context)
    }

    fn destroy_context(&mut self, context: KmdContextHandle) {
        self.contexts.remove(&context);
    }

    fn create_allocation(&mut self, private_driver_data: &[u8]) -> Result<AllocationInfo, CreateAllocationError> {
        let data = AllocationPrivateData::from_bytes(private_driver_data)?;
        let allocation = KmdAllocationHandle(self.handle());
        self.allocations.insert(allocation);
        let mut preferred_segment = SegmentPreference::default();
        preferred_segment.0[0] = LOCAL_SEGMENT;
        Ok(AllocationInfo {
            allocation,
            size: data.size,
            alignment: self.config.page_size.bytes() as u32,
            supported_segment_set: SegmentSet::of(LOCAL_SEGMENT),
            preferred_segment,
            allocation_priority: if data.allocation_priority == 0 { PRIORITY_NORMAL } else { data.allocation_priority },
            flags: data.flags,
            flags2: AllocationFlags2::empty(),
        })
    }

    fn destroy_allocation(&mut self, allocation: KmdAllocationHandle) {
        self.allocations.remove(&allocation);
    }

    fn set_root_page_table(&mut self, context: KmdContextHandle, root: RootPageTable) {
        if let Some(context) = self.contexts.get_mut(&context) {
            context.root = Some(root);
        }
    }

    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
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
        let Some(context) = self.contexts.get(&submit.context) else { return };
        // A context without a root must not run in the address space that the engine had last: it gets one without entries.
        let nowhere =
            RootPageTable { address: PhysicalAddress { segment: SegmentId::SYSTEM, offset: 0 }, num_entries: 0 };
        let root = context.root.unwrap_or(nowhere);
        let command = SetRootPageTable { process: context.process, root: root.address, num_entries: root.num_entries };
        encoding::encode_to_vec(&Command::SetRootPageTable(command), preamble);
    }
}

/// The user-mode half of the reference driver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SoftUmd;

impl Umd for SoftUmd {
    fn encode_kernel(&self, kernel: &KernelCommand) -> Vec<u8> {
        let mut bytes = Vec::new();
        encoding::encode_to_vec(&Command::Kernel(kernel.clone()), &mut bytes);
        bytes
    }

    fn allocation_private_data(&self, desc: &AllocationDesc) -> Vec<u8> {
        let flags = vidmm::contract::AllocationFlags::empty();
        AllocationPrivateData { size: desc.size, allocation_priority: 0, flags }.to_bytes()
    }
}
