//! An adapter whose driver, host and GPU cost next to nothing: what is left to measure is the manager.

use std::collections::VecDeque;

use vidmm::contract::*;
use vidmm::{
    AdapterOptions, AllocationId, ContextId, DeviceId, EvictFlags, MapGpuVirtualAddress, Output, PagingQueueId,
    PhysicalAddress, Residency, SegmentId, SubmitDesc, VidMm,
};

/// The size of every allocation: one page of the segment.
pub const ALLOCATION_SIZE: u64 = 64 << 10;

const LOCAL_MEMORY: SegmentId = SegmentId(1);
const PAGING: u32 = 0;
const RENDER: u32 = 1;

/// How textures leave a list: written once, read ever since, and wanted back soon.
pub const READ_ONLY: EvictFlags = EvictFlags::all();

/// A driver that encodes each operation in 8 bytes and keeps nothing about anything.
struct NullDriver {
    segment_size: u64,
    last_handle: u64,
}

impl NullDriver {
    fn handle(&mut self) -> u64 {
        self.last_handle += 1;
        self.last_handle
    }
}

impl Kmd for NullDriver {
    fn query_adapter_info(&mut self) -> AdapterInfo {
        let segment = |flags, base_address, size| SegmentDescriptor { flags, base_address, size, commit_limit: size };
        let level = PageTableLevelDesc {
            page_table_index_bit_count: 9,
            page_table_segment_id: SegmentId::SYSTEM,
            paging_process_page_table_segment_id: SegmentId::SYSTEM,
            page_table_size_in_bytes: 4096,
        };
        AdapterInfo {
            wddm_version: WddmVersion::WDDM2_0,
            addressing_model: AddressingModel::GpuMmu,
            linked_adapter_segments: Vec::new(),
            aperture_segment_commit_limit: u64::MAX,
            scheduling_log_buffer_size: None,
            segments: vec![
                segment(SegmentFlags::USE_64KB_PAGES | SegmentFlags::APPLICATION_TARGET, 0, self.segment_size),
                segment(SegmentFlags::APERTURE, self.segment_size, 64 << 20),
            ],
            engines: vec![EngineDesc { kind: EngineKind::Paging }, EngineDesc { kind: EngineKind::Render3d }],
            gpu_mmu: GpuMmuCaps {
                flags: GpuMmuFlags::DUAL_PTE_SUPPORTED,
                page_table_update_mode: PageTableUpdateMode::GpuPhysical,
                virtual_address_bit_count: 48,
                leaf_page_table_size_for_64k_pages_in_bytes: 4096,
            },
            page_table_levels: vec![level; 4],
            paging_buffer: PagingBufferDesc { size: 64 << 10, private_data_size: 0 },
        }
    }

    fn query_paging_process_gpu_va_size(&mut self, _physical_adapter_index: u32) -> Option<u32> {
        Some(64)
    }

    fn create_process(&mut self, _system_process: bool) -> Result<KmdProcessHandle, KmdError> {
        Ok(KmdProcessHandle(self.handle()))
    }

    fn destroy_process(&mut self, _process: KmdProcessHandle) {}

    fn create_context(&mut self, _: KmdProcessHandle, _node: u32, _system: bool) -> Result<KmdContextHandle, KmdError> {
        Ok(KmdContextHandle(self.handle()))
    }

    fn destroy_context(&mut self, _context: KmdContextHandle) {}

    fn create_allocation(&mut self, _private_driver_data: &[u8]) -> Result<AllocationInfo, CreateAllocationError> {
        Ok(AllocationInfo {
            allocation: KmdAllocationHandle(self.handle()),
            size: ALLOCATION_SIZE,
            alignment: 0,
            supported_segment_set: SegmentSet::of(LOCAL_MEMORY),
            preferred_segment: SegmentPreference::default(),
            allocation_priority: 0x7800_0000,
            flags: AllocationFlags::empty(),
            flags2: AllocationFlags2::empty(),
        })
    }

    fn destroy_allocation(&mut self, _allocation: KmdAllocationHandle) {}

    fn set_root_page_table(&mut self, _context: KmdContextHandle, _root: RootPageTable) {}

    fn build_paging_buffer(&mut self, build: &mut BuildPagingBuffer<'_>) -> BuildStatus {
        let Some(room) = build.dma_buffer.first_chunk_mut() else { return BuildStatus::InsufficientDmaBuffer };
        *room = [0xAA; 8];
        build.dma_bytes_written = room.len();
        BuildStatus::Success
    }

    fn submit_command(&mut self, _submit: &SubmitCommand, _preamble: &mut Vec<u8>) {}
}

/// A host that commits addresses and never reuses them.
struct NullHost {
    end: u64,
}

impl Host for NullHost {
    fn commit_backing_store(&mut self, size: u64) -> Result<PhysicalAddress, BackingStoreError> {
        let address = PhysicalAddress { segment: SegmentId::SYSTEM, offset: self.end };
        self.end += size.next_multiple_of(ALLOCATION_SIZE);
        Ok(address)
    }

    fn decommit_backing_store(&mut self, _address: PhysicalAddress, _size: u64) {}
}

/// A started adapter with one process, one device, one context and one paging queue. Its GPU ends paging buffers at once, and
/// users' packets when it is told to.
pub struct World {
    pub vidmm: VidMm,
    driver: NullDriver,
    host: NullHost,
    running: VecDeque<(EngineFence, DmaBuffer)>,
    device: DeviceId,
    context: ContextId,
    queue: PagingQueueId,
}

impl World {
    /// An adapter whose segment holds `capacity` allocations.
    pub fn start(capacity: usize) -> Self {
        let mut driver = NullDriver { segment_size: capacity as u64 * ALLOCATION_SIZE, last_handle: 0 };
        let mut host = NullHost { end: 0 };
        let mut vidmm = VidMm::start_adapter(AdapterOptions::default(), &mut driver, &mut host).expect("it starts");
        let process = vidmm.create_process(&mut driver, &mut host).expect("a process is created");
        let device = vidmm.create_device(process).expect("a device is created");
        let context = vidmm.create_context(&mut driver, device, RENDER).expect("a context is created");
        let queue = vidmm.create_paging_queue(device, 0).expect("a paging queue is created");
        let mut world = Self { vidmm, driver, host, running: VecDeque::new(), device, context, queue };
        world.settle();
        world
    }

    pub fn create(&mut self) -> AllocationId {
        let created = self.vidmm.create_allocation(&mut self.driver, &mut self.host, self.device, &[]);
        created.expect("an allocation is created")
    }

    pub fn create_all(&mut self, count: usize) -> Vec<AllocationId> {
        (0..count).map(|_| self.create()).collect()
    }

    /// Maps all of an allocation. The first mapping in the range of a page table has the table built.
    pub fn map(&mut self, allocation: AllocationId) {
        let desc = MapGpuVirtualAddress::whole(allocation);
        let mapped = self.vidmm.map_gpu_virtual_address(&mut self.host, self.queue, &desc).expect("it is mapped");
        if mapped.paging_fence_value != 0 {
            self.settle();
        }
    }

    pub fn destroy(&mut self, allocation: AllocationId) {
        self.vidmm.destroy_allocation(allocation).expect("it exists");
    }

    pub fn make_resident(&mut self, allocations: &[AllocationId]) -> Residency {
        self.vidmm.make_resident(self.queue, allocations).expect("the list fits")
    }

    pub fn evict(&mut self, allocations: &[AllocationId], flags: EvictFlags) {
        self.vidmm.evict(self.device, allocations, flags).expect("it is on the list");
    }

    /// Submits work without commands. Returns its number.
    pub fn submit(&mut self) -> u64 {
        self.vidmm.submit(self.context, SubmitDesc::default()).expect("the queue has room")
    }

    /// Polls until nothing is left to do, and ends paging buffers as they come.
    pub fn settle(&mut self) {
        while let Some(output) = self.vidmm.poll(0, &mut self.driver, &mut self.host) {
            match output {
                Output::Submit(Packet { signal, buffer, .. }) if signal.engine == PAGING => {
                    self.vidmm.handle_completed(signal, buffer);
                }
                Output::Submit(Packet { signal, buffer, .. }) => self.running.push_back((signal, buffer)),
                Output::AdapterInError(violation) => panic!("the manager or its driver is wrong: {violation}"),
                _ => {}
            }
        }
    }

    /// The GPU ends all submissions up to number `last` that it has got.
    pub fn complete(&mut self, last: u64) {
        while self.running.front().is_some_and(|(signal, _)| signal.fence_id <= last) {
            let (signal, buffer) = self.running.pop_front().expect("there is a first");
            self.vidmm.handle_completed(signal, buffer);
        }
    }

    /// Brings `allocations` in, in portions; they stay where they are when nobody needs the room.
    pub fn visit_all(&mut self, allocations: &[AllocationId], flags: EvictFlags) {
        for portion in allocations.chunks(256) {
            let _ = self.make_resident(portion);
            self.settle();
            self.evict(portion, flags);
            self.settle();
        }
    }

    /// Allocations brought in so far.
    pub fn misses(&self) -> u64 {
        let statistics = self.vidmm.statistics();
        (statistics.bytes_paged_in + statistics.bytes_filled) / ALLOCATION_SIZE
    }
}
