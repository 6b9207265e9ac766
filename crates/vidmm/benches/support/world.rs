//! An adapter whose driver, host and GPU cost next to nothing: what is left to measure is the manager.

use std::collections::VecDeque;

use vidmm::contract::*;
use vidmm::{
    AdapterOptions, AllocationId, ContextId, DestroyFlags, DeviceId, EvictFlags, MakeResidentFlags,
    MapGpuVirtualAddress, MemorySegmentGroup, Output, PagingQueueId, PhysicalAddress, ProcessId, Residency, SegmentId,
    SubmitDesc, VidMm,
};

/// The size of every allocation: one page of the segment.
pub const ALLOCATION_SIZE: u64 = 64 << 10;

const LOCAL_MEMORY: SegmentId = SegmentId(1);
const PAGING: u32 = 0;
const RENDER: u32 = 1;

/// How textures leave a list: written once, read ever since, and wanted back soon.
pub const READ_ONLY: EvictFlags = EvictFlags::all();

/// The adapter.
#[derive(Clone, Copy)]
pub struct Adapter {
    pub model: AddressingModel,
    /// How many allocations of one page the local memory holds; 0 is none.
    pub capacity: usize,
    /// Bytes that can be resident in system memory.
    pub system_bytes: u64,
    pub paging_va_mib: u32,
}

/// The description of an allocation; the driver reads it in its private data.
#[derive(Clone, Copy)]
pub struct AllocationDesc {
    pub size: u64,
    /// In implicit system memory, not in local memory.
    pub in_system: bool,
    pub flags2: AllocationFlags2,
}

/// One page of local memory, without notifications.
pub const USUAL: AllocationDesc =
    AllocationDesc { size: ALLOCATION_SIZE, in_system: false, flags2: AllocationFlags2::empty() };

impl AllocationDesc {
    fn to_bytes(self) -> [u8; 16] {
        let words = [self.size, u64::from(self.flags2.bits()) << 1 | u64::from(self.in_system)];
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&words[0].to_le_bytes());
        bytes[8..].copy_from_slice(&words[1].to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Self {
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let flags2 = AllocationFlags2::from_bits_truncate((word(8) >> 1) as u32);
        Self { size: word(0), in_system: word(8) & 1 == 1, flags2 }
    }
}

/// A driver that encodes each operation in 8 bytes and keeps nothing about anything.
struct NullDriver {
    adapter: Adapter,
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
        let Adapter { model, capacity, system_bytes, .. } = self.adapter;
        let local_bytes = capacity as u64 * ALLOCATION_SIZE;
        let local = segment(SegmentFlags::USE_64KB_PAGES | SegmentFlags::APPLICATION_TARGET, 0, local_bytes);
        let aperture = segment(SegmentFlags::APERTURE, local_bytes, system_bytes);
        let has_page_tables = model == AddressingModel::GpuMmu;
        AdapterInfo {
            wddm_version: WddmVersion::WDDM3_2,
            addressing_model: model,
            memory_management_caps: VidMmCaps::empty(),
            linked_adapter_segments: Vec::new(),
            aperture_segment_commit_limit: u64::MAX,
            scheduling_log_buffer_size: (capacity == 0).then_some(1 << 20),
            segments: if capacity > 0 { vec![local, aperture] } else { vec![aperture] },
            engines: vec![EngineDesc { kind: EngineKind::Paging }, EngineDesc { kind: EngineKind::Render3d }],
            gpu_mmu: GpuMmuCaps {
                flags: GpuMmuFlags::DUAL_PTE_SUPPORTED,
                page_table_update_mode: PageTableUpdateMode::GpuPhysical,
                virtual_address_bit_count: 48,
                leaf_page_table_size_for_64k_pages_in_bytes: 4096,
            },
            page_table_levels: if has_page_tables { vec![level; 4] } else { Vec::new() },
            paging_buffer: PagingBufferDesc { size: 64 << 10, private_data_size: 0 },
            patching: PatchingCaps::default(),
        }
    }

    fn query_paging_process_gpu_va_size(&mut self, _physical_adapter_index: u32) -> Option<u32> {
        Some(self.adapter.paging_va_mib)
    }

    fn create_process(&mut self, _system_process: bool) -> Result<KmdProcessHandle, KmdError> {
        Ok(KmdProcessHandle(self.handle()))
    }

    fn destroy_process(&mut self, _process: KmdProcessHandle) {}

    fn create_context(&mut self, _: KmdProcessHandle, _node: u32, _system: bool) -> Result<KmdContextHandle, KmdError> {
        Ok(KmdContextHandle(self.handle()))
    }

    fn destroy_context(&mut self, _context: KmdContextHandle) {}

    fn create_allocation(&mut self, private_driver_data: &[u8]) -> Result<AllocationInfo, CreateAllocationError> {
        let AllocationDesc { size, in_system, flags2 } = AllocationDesc::from_bytes(private_driver_data);
        let aperture = if self.adapter.capacity > 0 { SegmentId(2) } else { SegmentId(1) };
        Ok(AllocationInfo {
            allocation: KmdAllocationHandle(self.handle()),
            size,
            alignment: 0,
            supported_segment_set: SegmentSet::of(if in_system { aperture } else { LOCAL_MEMORY }),
            preferred_segment: SegmentPreference::default(),
            hinted_bank: SegmentBankPreference::default(),
            eviction_segment_set: SegmentSet::default(),
            allocation_priority: 0x7800_0000,
            flags: AllocationFlags::empty(),
            flags2,
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

    fn reset_backing_store(&mut self, _address: PhysicalAddress, _size: u64) {}
}

/// A process with one device and one paging queue.
#[derive(Clone, Copy)]
pub struct Client {
    pub process: ProcessId,
    pub device: DeviceId,
    pub queue: PagingQueueId,
}

/// A started adapter with one client, which has one context. Its GPU ends paging buffers at once, and
/// users' packets when it is told to.
pub struct World {
    pub vidmm: VidMm,
    driver: NullDriver,
    host: NullHost,
    running: VecDeque<(EngineFence, DmaBuffer)>,
    client: Client,
    context: ContextId,
    local_bytes: u64,
}

impl World {
    /// An adapter whose segment holds `capacity` allocations.
    pub fn start(capacity: usize) -> Self {
        let model = AddressingModel::GpuMmu;
        Self::start_adapter(Adapter { model, capacity, system_bytes: 64 << 20, paging_va_mib: 64 })
    }

    pub fn start_adapter(adapter: Adapter) -> Self {
        let mut driver = NullDriver { adapter, last_handle: 0 };
        let mut host = NullHost { end: 0 };
        let mut vidmm = VidMm::start_adapter(AdapterOptions::default(), &mut driver, &mut host).expect("it starts");
        let client = client(&mut vidmm, &mut driver, &mut host);
        let context = vidmm.create_context(&mut driver, client.device, RENDER).expect("a context is created");
        let local_bytes = adapter.capacity as u64 * ALLOCATION_SIZE;
        let mut world = Self { vidmm, driver, host, running: VecDeque::new(), client, context, local_bytes };
        world.settle();
        world
    }

    /// Another client.
    pub fn client(&mut self) -> Client {
        client(&mut self.vidmm, &mut self.driver, &mut self.host)
    }

    pub fn create(&mut self) -> AllocationId {
        self.create_as(USUAL)
    }

    pub fn create_as(&mut self, desc: AllocationDesc) -> AllocationId {
        self.create_on(self.client.device, desc)
    }

    /// A usual allocation of another client.
    pub fn create_for(&mut self, device: DeviceId) -> AllocationId {
        self.create_on(device, USUAL)
    }

    fn create_on(&mut self, device: DeviceId, desc: AllocationDesc) -> AllocationId {
        let data = desc.to_bytes();
        let created = self.vidmm.create_allocation(&mut self.driver, &mut self.host, device, &data);
        created.expect("an allocation is created")
    }

    pub fn create_all(&mut self, count: usize) -> Vec<AllocationId> {
        (0..count).map(|_| self.create()).collect()
    }

    /// Maps all of an allocation. The first mapping in the range of a page table has the table built.
    pub fn map(&mut self, allocation: AllocationId) {
        let desc = MapGpuVirtualAddress::whole(allocation);
        let mapped =
            self.vidmm.map_gpu_virtual_address(&mut self.host, self.client.queue, &desc).expect("it is mapped");
        if mapped.paging_fence_value != 0 {
            self.settle();
        }
    }

    pub fn destroy(&mut self, allocation: AllocationId) {
        self.vidmm.destroy_allocation(&mut self.host, allocation, DestroyFlags::empty()).expect("it exists");
    }

    pub fn make_resident(&mut self, allocations: &[AllocationId]) -> Residency {
        self.vidmm.make_resident(self.client.queue, allocations, MakeResidentFlags::empty()).expect("the list fits")
    }

    pub fn evict(&mut self, allocations: &[AllocationId], flags: EvictFlags) {
        self.vidmm.evict(self.client.device, allocations, flags).expect("it is on the list");
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

    /// Whether more is resident than there is local memory.
    pub fn is_over_budget(&self) -> bool {
        let info = self.vidmm.query_video_memory_info(self.client.process, MemorySegmentGroup::Local);
        info.expect("the process exists").current_usage > self.local_bytes
    }
}

fn client(vidmm: &mut VidMm, driver: &mut NullDriver, host: &mut NullHost) -> Client {
    let process = vidmm.create_process(driver, host).expect("a process is created");
    let device = vidmm.create_device(process).expect("a device is created");
    let queue = vidmm.create_paging_queue(device, 0).expect("a paging queue is created");
    Client { process, device, queue }
}
