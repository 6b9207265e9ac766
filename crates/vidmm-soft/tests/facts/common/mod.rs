//! A GPU with its driver, and page tables that the test writes through both.

pub mod patching;

use std::collections::BTreeMap;

use vidmm::contract::*;
use vidmm::{GpuVirtualAddress, PAGE_SIZE, PageSize, PhysicalAddress, SegmentId};
use vidmm_runtime::{
    AllocationDesc, AllocationSegments, Content, Gpu, GpuEvent, KernelCommand, PageRange, Surface, Umd,
};
use vidmm_soft::*;

/// Everything costs nothing but what the test says.
pub const FREE: CostModel = CostModel {
    bus_to_device_bytes_per_second: u64::MAX,
    bus_to_host_bytes_per_second: u64::MAX,
    kernel_read_bytes_per_second: None,
    kernel_write_bytes_per_second: None,
    local_bytes_per_second: u64::MAX,
    packet_nanoseconds: 0,
    latency_seed: None,
    command_nanoseconds: 0,
    pte_picoseconds: 0,
    flush_nanoseconds: 0,
    decompress_bytes_per_second: u64::MAX,
    reset_nanoseconds: 0,
};

#[derive(Clone, Copy)]
pub struct Process {
    pub handle: KmdProcessHandle,
    pub context: KmdContextHandle,
}

pub struct Rig {
    pub kmd: SoftKmd,
    pub gpu: ModelGpu,
    pub system: SystemMemory,
    pub io_mmu: IoMmu,
    pub config: SoftAdapterConfig,
    pub now: u64,
    layout: PageTableLayout,
    fences: [u64; 3],
    tables: BTreeMap<(KmdProcessHandle, u32, u64, bool), PhysicalAddress>,
    next_table: u64,
}

pub fn local(offset: u64) -> PhysicalAddress {
    PhysicalAddress { segment: LOCAL_SEGMENT, offset }
}

pub fn system(offset: u64) -> PhysicalAddress {
    PhysicalAddress { segment: SegmentId::SYSTEM, offset }
}

pub fn range(virtual_address: u64, num_pages: u64) -> PageRange {
    PageRange::plain(GpuVirtualAddress(virtual_address), num_pages)
}

/// `plain` as pages of surface `number` from `first_page` on.
pub fn compressed(plain: PageRange, number: u32, first_page: u64) -> PageRange {
    PageRange { surface: Some(Surface { number, first_page }), ..plain }
}

pub fn kernel(kernel: u64, nanoseconds: u64, inputs: &[PageRange], outputs: &[PageRange]) -> Vec<u8> {
    kernel_with(Content::Uniform, kernel, nanoseconds, inputs, outputs)
}

pub fn kernel_with(
    content: Content,
    kernel: u64,
    nanoseconds: u64,
    inputs: &[PageRange],
    outputs: &[PageRange],
) -> Vec<u8> {
    let (inputs, outputs) = (inputs.into(), outputs.into());
    SoftUmd.encode_kernel(&KernelCommand { kernel, nanoseconds, content, inputs, outputs })
}

/// The digest of page 0 of output 0 of kernel `kernel` that read pages with these digests, with uniform content.
pub fn expected(kernel: u64, inputs: &[u64]) -> u64 {
    let mut state = KernelState::new(kernel);
    inputs.iter().for_each(|&digest| state.absorb(digest));
    uniform_digest(state.seed(0, 0))
}

/// The commands that `kmd` encodes for `operation`, from as many small buffers as it takes.
pub fn build(kmd: &mut dyn Kmd, operation: &PagingOperation) -> Vec<u8> {
    build_in(kmd, operation, 4096)
}

/// The same, from buffers of `size` bytes.
pub fn build_in(kmd: &mut dyn Kmd, operation: &PagingOperation, size: usize) -> Vec<u8> {
    let (mut commands, mut multipass_offset, mut idle) = (Vec::new(), 0, false);
    loop {
        let mut buffer = vec![0; size];
        let mut build = BuildPagingBuffer {
            operation,
            dma_buffer: &mut buffer,
            dma_buffer_write_offset: 0,
            dma_buffer_private_data: &mut [0; 64],
            dma_bytes_written: 0,
            private_bytes_written: 0,
            multipass_offset: &mut multipass_offset,
            allocation_is_idle: idle,
            system_context: KmdContextHandle(0),
        };
        let status = kmd.build_paging_buffer(&mut build);
        let written = build.dma_bytes_written;
        commands.extend_from_slice(&buffer[..written]);
        match status {
            BuildStatus::Success => return commands,
            BuildStatus::InsufficientDmaBuffer => assert!(written > 0),
            BuildStatus::AllocationBusy => idle = true,
            BuildStatus::Other(status) => panic!("status {status:#x}"),
        }
    }
}

/// The notification that `bytes` bytes of `allocation`, from `offset` on, are about to be evicted, and are at `window` of the
/// paging process.
pub fn notify_eviction(allocation: KmdAllocationHandle, offset: u64, bytes: u64, window: u64) -> PagingOperation {
    PagingOperation::NotifyAlloc(NotifyAlloc {
        allocation,
        process: None,
        flags: NotifyAllocFlags::EVICTION,
        offset_in_bytes: offset,
        size_in_bytes: bytes,
        gpu_virtual_address_at_offset: GpuVirtualAddress(window),
    })
}

/// The notification that `bytes` bytes at `address` of `process`, which are those of an allocation, are about to be unmapped
/// from the IOMMU.
pub fn notify_io_mmu_unmap(process: Option<KmdProcessHandle>, address: u64, bytes: u64) -> PagingOperation {
    PagingOperation::NotifyAlloc(NotifyAlloc {
        allocation: KmdAllocationHandle(1),
        process,
        flags: NotifyAllocFlags::IO_MMU_UNMAP,
        offset_in_bytes: 0,
        size_in_bytes: bytes,
        gpu_virtual_address_at_offset: GpuVirtualAddress(address),
    })
}

impl Rig {
    pub fn new(config: SoftAdapterConfig) -> Self {
        Self::with(config, FREE, ModelGpuFaults::default())
    }

    pub fn with(config: SoftAdapterConfig, cost: CostModel, faults: ModelGpuFaults) -> Self {
        let (system, io_mmu) = (SystemMemory::new(), IoMmu::new());
        Self {
            kmd: SoftKmd::new(config.clone()).with_memory(system.clone()),
            gpu: ModelGpu::new(&config, cost, faults, system.clone(), io_mmu.clone()),
            system,
            io_mmu,
            layout: config.layout(),
            // Tables lie at the end of local memory, or in system memory far from what tests use.
            next_table: if config.page_tables_in_system_memory { 1 << 40 } else { config.local_memory_bytes / 2 },
            config,
            now: 0,
            fences: [0; 3],
            tables: BTreeMap::new(),
        }
    }

    fn new_table(&mut self, bytes: u64) -> PhysicalAddress {
        let address = self.next_table;
        self.next_table += bytes;
        if self.config.page_tables_in_system_memory { system(address) } else { local(address) }
    }

    /// A process with an empty root table.
    pub fn process(&mut self) -> Process {
        self.new_process(false)
    }

    /// The paging process, with an empty root table.
    pub fn paging_process(&mut self) -> Process {
        self.new_process(true)
    }

    fn new_process(&mut self, system_process: bool) -> Process {
        let handle = self.kmd.create_process(system_process).unwrap();
        let context = self.kmd.create_context(handle, 1, system_process).unwrap();
        let top = self.layout.levels() - 1;
        let address = self.new_table(self.layout.table_bytes(top).into());
        self.tables.insert((handle, top, 0, false), address);
        let num_entries = self.layout.entries(top, PageSize::Kib4) as u32;
        self.kmd.set_root_page_table(context, RootPageTable { address, num_entries });
        Process { handle, context }
    }

    pub fn limit_root(&mut self, process: Process, num_entries: u32) {
        let address = self.tables[&(process.handle, self.layout.levels() - 1, 0, false)];
        self.kmd.set_root_page_table(process.context, RootPageTable { address, num_entries });
    }

    /// An allocation as the driver knows it.
    pub fn allocation(&mut self, size: u64, segments: AllocationSegments, surface: Option<u32>) -> KmdAllocationHandle {
        let desc = AllocationDesc { segments, surface, notify_eviction: true, ..AllocationDesc::local(size) };
        self.kmd.create_allocation(&SoftUmd.allocation_private_data(&desc)).unwrap().allocation
    }

    /// The commands for `operation`.
    pub fn build(&mut self, operation: &PagingOperation) -> Vec<u8> {
        build(&mut self.kmd, operation)
    }

    /// The commands that write `count` entries at `virtual_address` into the process's tables, and make the tables.
    pub fn map(
        &mut self,
        process: Process,
        virtual_address: u64,
        first: Pte,
        count: u64,
        page_size: PageSize,
    ) -> Vec<u8> {
        let mut commands = Vec::new();
        let large = page_size == PageSize::Kib64;
        let mut done = 0;
        while done < count {
            let address = virtual_address + done * page_size.bytes();
            let table = self.leaf(process, address, large, &mut commands);
            let entries = self.layout.entries(0, page_size);
            let index = address / page_size.bytes() % entries;
            let run = (entries - index).min(count - done);
            let flags = if large { UpdatePageTableFlags::USE_64KB_PAGES } else { UpdatePageTableFlags::empty() };
            let first = first.advanced(done, page_size);
            commands.extend(self.update(
                process,
                0,
                table,
                index,
                PteRun { first, first_64kb: None, num_page_table_entries: run as u32 },
                flags,
                address,
            ));
            done += run;
        }
        commands
    }

    /// The leaf table for `address`, made with all above it if need be.
    fn leaf(&mut self, process: Process, address: u64, large: bool, commands: &mut Vec<u8>) -> PhysicalAddress {
        let top = self.layout.levels() - 1;
        let mut table = self.tables[&(process.handle, top, 0, false)];
        for level in (0..top).rev() {
            let large = large && level == 0;
            let number = address / self.layout.coverage(level + 1, PageSize::Kib4);
            let parent = table;
            if let Some(&known) = self.tables.get(&(process.handle, level, number, large)) {
                table = known;
                continue;
            }
            let bytes = if large { self.layout.leaf_64kib_table_bytes() } else { self.layout.table_bytes(level) };
            table = self.new_table(bytes.into());
            self.tables.insert((process.handle, level, number, large), table);
            commands.extend(self.point_to(process, level, number, parent, address));
        }
        table
    }

    /// Writes the entry of `parent` for table number `number` of `level`: both sides that exist.
    fn point_to(
        &mut self,
        process: Process,
        level: u32,
        number: u64,
        parent: PhysicalAddress,
        address: u64,
    ) -> Vec<u8> {
        let side = |large| self.tables.get(&(process.handle, level, number, large)).map(|&table| Pte::valid(table));
        let run = PteRun {
            first: side(false).unwrap_or(Pte::INVALID),
            first_64kb: if level == 0 && self.config.dual_pte { side(true) } else { None },
            num_page_table_entries: 1,
        };
        let index = self.layout.index(level + 1, address);
        self.update(process, level + 1, parent, index, run, UpdatePageTableFlags::empty(), address)
    }

    #[allow(clippy::too_many_arguments)]
    pub fn update(
        &mut self,
        process: Process,
        level: u32,
        table: PhysicalAddress,
        index: u64,
        run: PteRun,
        flags: UpdatePageTableFlags,
        address: u64,
    ) -> Vec<u8> {
        self.build(&PagingOperation::UpdatePageTable(UpdatePageTable {
            page_table_level: level,
            allocation: None,
            page_table_address: table,
            page_table_entries: run,
            start_index: index as u32,
            flags,
            driver_protection: 0,
            allocation_offset_in_bytes: 0,
            process: process.handle,
            update_mode: UpdateMode::GpuPhysical,
            first_pte_virtual_address: GpuVirtualAddress(address),
        }))
    }

    pub fn flush(&mut self, process: Process, start: u64, end: u64) -> Vec<u8> {
        self.build(&PagingOperation::FlushTlb(FlushTlb {
            root_page_table_address: local(0),
            process: process.handle,
            start_virtual_address: GpuVirtualAddress(start),
            end_virtual_address: GpuVirtualAddress(end),
        }))
    }

    pub fn transfer(&mut self, source: u64, destination: u64, bytes: u64, way: MemoryTransferDirection) -> Vec<u8> {
        self.build(&PagingOperation::VirtualTransfer(TransferVirtual {
            allocation: KmdAllocationHandle(1),
            allocation_offset_in_bytes: 0,
            transfer_size_in_bytes: bytes,
            source_virtual_address: GpuVirtualAddress(source),
            destination_virtual_address: GpuVirtualAddress(destination),
            transfer_direction: way,
            flags: TransferVirtualFlags::empty(),
        }))
    }

    pub fn fill(&mut self, destination: u64, bytes: u64, fill_pattern: u32) -> Vec<u8> {
        self.build(&PagingOperation::VirtualFill(FillVirtual {
            allocation: KmdAllocationHandle(1),
            allocation_offset_in_bytes: 0,
            fill_size_in_bytes: bytes,
            fill_pattern,
            destination_virtual_address: GpuVirtualAddress(destination),
        }))
    }

    /// The commands that let `pages` pages of the aperture from `first` on show system memory from `offset` on, by the form of
    /// the operation that the adapter has.
    pub fn map_aperture(&mut self, first: u64, pages: u64, offset: u64) -> Vec<u8> {
        let map = MapApertureSegment {
            allocation: KmdAllocationHandle(1),
            segment_id: self.config.aperture_segment().unwrap(),
            offset_in_pages: first,
            number_of_pages: pages,
            mdl: system(offset),
            flags: MapApertureFlags::empty(),
        };
        self.build(&match self.config.map_aperture2 {
            true => PagingOperation::MapApertureSegment2(map.into()),
            false => PagingOperation::MapApertureSegment(map),
        })
    }

    /// The commands that let `pages` pages of the aperture from `first` on show the page of system memory at `dummy_page`.
    pub fn unmap_aperture(&mut self, first: u64, pages: u64, dummy_page: u64) -> Vec<u8> {
        let operation = PagingOperation::UnmapApertureSegment(UnmapApertureSegment {
            allocation: KmdAllocationHandle(1),
            segment_id: self.config.aperture_segment().unwrap(),
            offset_in_pages: first,
            number_of_pages: pages,
            dummy_page: system(dummy_page),
        });
        self.build(&operation)
    }

    pub fn submit(&mut self, process: Process, engine: u32, waits: &[EngineFence], commands: Vec<u8>) -> EngineFence {
        self.fences[engine as usize] += 1;
        let signal = EngineFence { engine, fence_id: self.fences[engine as usize] };
        let mut preamble = Vec::new();
        let submit = SubmitCommand {
            context: process.context,
            node_ordinal: engine,
            submission_fence_id: signal.fence_id,
            paging: engine == 0,
            dma_buffer_submission_offsets: None,
        };
        self.kmd.submit_command(&submit, &mut preamble);
        let packet = Packet { waits: waits.into(), signal, preamble, buffer: DmaBuffer::User(commands) };
        self.gpu.submit(self.now, packet);
        signal
    }

    /// Runs until nothing is left to do.
    pub fn drain(&mut self) -> Vec<GpuEvent> {
        let mut events = Vec::new();
        while let Some(at) = self.gpu.next_event_at() {
            self.now = self.now.max(at);
            self.gpu.advance(self.now, &mut events);
        }
        events
    }

    /// Runs commands on engine 1, alone.
    pub fn run(&mut self, process: Process, commands: Vec<u8>) -> Vec<GpuEvent> {
        self.submit(process, RENDER_ENGINE, &[], commands);
        let events = self.drain();
        if !interrupts(&events).is_empty() {
            self.gpu.reset_engine(self.now, RENDER_ENGINE);
            self.drain();
        }
        events
    }

    /// Runs commands on engine 1, and expects that they end well.
    pub fn run_well(&mut self, process: Process, commands: Vec<u8>) {
        let events = self.run(process, commands);
        assert!(matches!(events.last(), Some(GpuEvent::Completed { .. })), "{events:?}");
    }

    /// Maps, and expects that it works.
    pub fn map_now(&mut self, process: Process, virtual_address: u64, first: Pte, count: u64, page_size: PageSize) {
        let commands = self.map(process, virtual_address, first, count, page_size);
        self.run_well(process, commands);
    }

    pub fn digest(&mut self, process: Process, virtual_address: u64) -> Option<u64> {
        self.gpu.read_page_digest(process.handle, GpuVirtualAddress(virtual_address))
    }

    pub fn write_local(&mut self, process: Process, virtual_address: u64, pages: u64, number: u64) {
        self.run_well(process, kernel(number, 0, &[], &[range(virtual_address, pages)]));
    }

    /// The digests of the pages of `range` as a kernel reads them.
    pub fn read(&mut self, process: Process, range: PageRange) -> Vec<u64> {
        let events = self.run(process, kernel(0, 0, &[range], &[]));
        assert_eq!(faults(&events), []);
        reads(&events).remove(0).1.remove(0)
    }
}

/// The inputs of the kernels among `events`.
pub fn reads(events: &[GpuEvent]) -> Vec<(u64, Vec<Vec<u64>>)> {
    let read = |event: &GpuEvent| match event {
        GpuEvent::KernelRead { kernel, inputs } => Some((*kernel, inputs.clone())),
        _ => None,
    };
    events.iter().filter_map(read).collect()
}

/// The content of the status registers at each interrupt among `events`.
pub fn interrupts(events: &[GpuEvent]) -> Vec<StatusRegisters> {
    let registers = |event: &GpuEvent| match event {
        GpuEvent::Interrupt { status, .. } => Some(StatusRegisters::from_bytes(status).unwrap()),
        _ => None,
    };
    events.iter().filter_map(registers).collect()
}

/// Whether all that happened is that a packet was refused as meaningless.
pub fn is_refusal(events: &[GpuEvent]) -> bool {
    events.len() == 1 && interrupts(events).iter().any(|registers| registers.kind == StatusKind::IllegalCommand)
}

/// The page faults among `events`: address and whether it was a write.
pub fn faults(events: &[GpuEvent]) -> Vec<(u64, bool)> {
    let fault = |registers: StatusRegisters| match registers.kind {
        StatusKind::PageFault { virtual_address, write, .. } => Some((virtual_address.0, write)),
        StatusKind::IllegalCommand => None,
    };
    interrupts(events).into_iter().filter_map(fault).collect()
}

/// Start and end of each packet that completed.
pub fn times(events: &[GpuEvent]) -> Vec<(EngineFence, u64, u64)> {
    let time = |event: &GpuEvent| match event {
        GpuEvent::Completed { signal, started_at, ended_at, .. } => Some((*signal, *started_at, *ended_at)),
        _ => None,
    };
    events.iter().filter_map(time).collect()
}

pub const PAGE: u64 = PAGE_SIZE;
