//! An adapter whose driver, host and GPU cost next to nothing: what is left to measure is the manager.

use vidmm::contract::*;
use vidmm::{
    AdapterOptions, AllocationId, ContextId, DestroyFlags, DeviceId, EvictFlags, MakeResidentFlags,
    MapGpuVirtualAddress, MemorySegmentGroup, PagingQueueId, ProcessId, Residency, SubmitDesc,
};
use vidmm_replay::null::{NullAdapter, NullAllocation, NullMachine, NullMemory, RENDER};

/// The size of every allocation: one page of the segment.
pub const ALLOCATION_SIZE: u64 = 64 << 10;

/// How textures leave a list: written once, read ever since, and wanted back soon.
pub const READ_ONLY: EvictFlags = EvictFlags::all();

/// One page of local memory, without notifications.
pub const USUAL: NullAllocation = NullAllocation {
    size: ALLOCATION_SIZE,
    memory: NullMemory::Local,
    flags2: AllocationFlags2::empty(),
    is_range: false,
};

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
    pub machine: NullMachine,
    client: Client,
    context: ContextId,
    local_bytes: u64,
}

impl World {
    /// An adapter whose segment holds `capacity` allocations.
    pub fn start(capacity: usize) -> Self {
        Self::start_adapter(NullAdapter {
            model: AddressingModel::GpuMmu,
            local_bytes: capacity as u64 * ALLOCATION_SIZE,
            has_large_pages: true,
            system_bytes: 64 << 20,
            paging_va_mib: 64,
        })
    }

    pub fn start_adapter(adapter: NullAdapter) -> Self {
        let mut machine = NullMachine::start(adapter, AdapterOptions::default()).expect("it starts");
        let client = client(&mut machine);
        let NullMachine { vidmm, driver, .. } = &mut machine;
        let context = vidmm.create_context(driver, client.device, RENDER).expect("a context is created");
        let local_bytes = adapter.local_bytes;
        let mut world = Self { machine, client, context, local_bytes };
        world.settle();
        world
    }

    /// Another client.
    pub fn client(&mut self) -> Client {
        client(&mut self.machine)
    }

    pub fn create(&mut self) -> AllocationId {
        self.create_as(USUAL)
    }

    pub fn create_as(&mut self, desc: NullAllocation) -> AllocationId {
        self.create_on(self.client.device, desc)
    }

    /// A usual allocation of another client.
    pub fn create_for(&mut self, device: DeviceId) -> AllocationId {
        self.create_on(device, USUAL)
    }

    fn create_on(&mut self, device: DeviceId, desc: NullAllocation) -> AllocationId {
        let data = desc.to_bytes();
        let NullMachine { vidmm, driver, host, .. } = &mut self.machine;
        let created = vidmm.create_allocation(driver, host, device, &data);
        created.expect("an allocation is created")
    }

    pub fn create_all(&mut self, count: usize) -> Vec<AllocationId> {
        (0..count).map(|_| self.create()).collect()
    }

    /// Maps all of an allocation. The first mapping in the range of a page table has the table built.
    pub fn map(&mut self, allocation: AllocationId) {
        let desc = MapGpuVirtualAddress::whole(allocation);
        let mapped = self
            .machine
            .vidmm
            .map_gpu_virtual_address(&mut self.machine.host, self.client.queue, &desc)
            .expect("it is mapped");
        if mapped.paging_fence_value != 0 {
            self.settle();
        }
    }

    pub fn destroy(&mut self, allocation: AllocationId) {
        self.machine
            .vidmm
            .destroy_allocation(&mut self.machine.host, allocation, DestroyFlags::empty())
            .expect("it exists");
    }

    pub fn make_resident(&mut self, allocations: &[AllocationId]) -> Residency {
        self.machine
            .vidmm
            .make_resident(self.client.queue, allocations, MakeResidentFlags::empty())
            .expect("the list fits")
    }

    /// Whether allocations joined the list, or were refused.
    pub fn may_be_resident(&mut self, allocations: &[AllocationId]) -> bool {
        self.machine.vidmm.make_resident(self.client.queue, allocations, MakeResidentFlags::empty()).is_ok()
    }

    pub fn evict(&mut self, allocations: &[AllocationId], flags: EvictFlags) {
        self.machine.vidmm.evict(self.client.device, allocations, flags).expect("it is on the list");
    }

    /// Submits work without commands. Returns its number.
    pub fn submit(&mut self) -> u64 {
        self.machine.vidmm.submit(self.context, SubmitDesc::default()).expect("the queue has room")
    }

    /// Polls until nothing is left to do, and ends paging buffers as they come.
    pub fn settle(&mut self) {
        self.machine.settle();
    }

    /// The GPU ends all submissions up to number `last` that it has got.
    pub fn complete(&mut self, last: u64) {
        self.machine.complete(last);
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
        let statistics = self.machine.vidmm.statistics();
        (statistics.bytes_paged_in + statistics.bytes_filled) / ALLOCATION_SIZE
    }

    /// Whether more is resident than there is local memory.
    pub fn is_over_budget(&self) -> bool {
        let info = self.machine.vidmm.query_video_memory_info(self.client.process, MemorySegmentGroup::Local);
        info.expect("the process exists").current_usage > self.local_bytes
    }
}

fn client(NullMachine { vidmm, driver, host, .. }: &mut NullMachine) -> Client {
    let process = vidmm.create_process(driver, host).expect("a process is created");
    let device = vidmm.create_device(process).expect("a device is created");
    let queue = vidmm.create_paging_queue(device, 0).expect("a paging queue is created");
    Client { process, device, queue }
}
