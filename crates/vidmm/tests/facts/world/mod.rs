//! A tiny world for tests: the manager with a driver that records, a host that counts, and a GPU that runs what it is
//! handed when the test says so. It has no clock; nothing happens by itself.

mod foretold;
mod aperture;
mod device_cache;
mod driver;
mod failing;
mod faults;
mod host;
mod journal;
mod machine;
mod surface;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use vidmm::contract::*;
use vidmm::event::{EvictReason, ResumeReason, SuspendReason};
use vidmm::*;

use crate::judge::Judge;
pub use driver::{Call, Config, Driver, LOCAL, NORMAL, Place, allocation_info, is_by_cpu, private_data, words};
pub use failing::{Failing, Fallible};
pub use faults::{Ending, Faults, Owed};
use foretold::assert_foretold;
pub use host::{IoMmuMapping, KERNEL_ADDRESS, Ledger};
pub use journal::{Happened, Journal};
pub use machine::{Known, Machine, Mistake, Root};
pub use surface::Surfaces;

pub const PAGING: u32 = 0;
pub const RENDER: u32 = 1;
pub const COPY: u32 = 2;

pub const MILLISECOND: Nanoseconds = 1_000_000;

/// The driver's handle of the paging process: the first thing that it was asked to create.
pub const PAGING_PROCESS: KmdProcessHandle = KmdProcessHandle(1);

pub const SOON: EvictFlags = EvictFlags::empty();
pub const IF_NECESSARY: EvictFlags = EvictFlags::EVICT_ONLY_IF_NECESSARY;
pub const NOT_WRITTEN: EvictFlags = EvictFlags::NOT_WRITTEN_TO;

pub const SILENT: AllocationFlags2 = AllocationFlags2::empty();
pub const EVICTION: AllocationFlags2 = AllocationFlags2::NOTIFY_EVICTION;
pub const IO_MMU_UNMAP: AllocationFlags2 = AllocationFlags2::NOTIFY_IO_MMU_UNMAP;
pub const BOTH: AllocationFlags2 = EVICTION.union(IO_MMU_UNMAP);

/// A user of the adapter: a device with a paging queue and a context on the render engine.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    pub process: ProcessId,
    pub kmd_process: KmdProcessHandle,
    pub device: DeviceId,
    pub queue: PagingQueueId,
    pub context: ContextId,
}

/// An access of work to one page.
#[derive(Clone, Copy, Debug)]
pub enum Access {
    /// Reads its token; all that was read is in [`World::read`].
    Read(u64),
    /// Gives it a new token.
    Write(u64, u64),
    /// Reads it through the surface of an allocation, of which it shows this page.
    ReadSurface(u64, KmdAllocationHandle, u64),
    /// Gives it a new token, which is stored compressed: address, allocation, page, token.
    WriteSurface(u64, KmdAllocationHandle, u64, u64),
    /// Accesses nothing: leaves its number in [`World::read`], to tell which work it was.
    Tag(u64),
}

/// The memory that the IOMMU shows in a range, and the last operation that was built with a notification of it.
#[derive(Clone, Copy, Debug)]
struct Shown {
    system_address: PhysicalAddress,
    size: u64,
    notified_by: Option<usize>,
}

pub struct World {
    pub vidmm: VidMm,
    pub driver: Driver,
    pub host: Ledger,
    pub machine: Machine,
    /// The packets that the engines were handed and have not ended, oldest first.
    pub engines: [VecDeque<Packet>; 3],
    /// The time, in nanoseconds: it passes only when the manager waits for it.
    pub now: Nanoseconds,
    /// How often it passed.
    pub num_wakes: usize,
    /// Devices that are suspended, or whose list is on its way back.
    pub suspended: BTreeSet<DeviceId>,
    /// The plans that bring lists back.
    resuming: BTreeMap<DeviceId, BTreeSet<PlanNo>>,
    pub completed: [u64; 3],
    submitted: [u64; 3],
    /// Requests to yield that engines have not answered.
    pub preempting: Vec<(u32, u64)>,
    /// Engines that have stopped at a fault.
    stopped: [bool; 3],
    /// Engines that answer nothing and run nothing until the adapter is reset.
    pub hung: [bool; 3],
    /// The driver's part in what went wrong, and who may be blamed.
    pub trouble: Faults,
    /// The outputs of `poll` besides packets.
    pub outputs: Vec<Output>,
    pub events: Vec<Event>,
    /// The judge of them.
    pub audit: Judge,
    /// Tokens that completed work has read.
    pub read: Vec<u64>,
    pub config: Config,
    /// Each call is followed by the manager's audit of itself.
    pub is_audited: bool,
    pub journal: Journal,
    /// How much of the journal the machine knows.
    journal_seen: usize,
    /// How many operations the GPU has executed.
    pub executed: usize,
    /// Where allocations are resident, as the manager has decided.
    pub placed: BTreeMap<AllocationId, SegmentId>,
    /// The driver's handles of the allocations that live.
    handles: BTreeMap<AllocationId, KmdAllocationHandle>,
    /// The ranges that the IOMMU maps: what they show, and the last operation that names each.
    io_mmu: BTreeMap<(IoMmuDomain, u64), Shown>,
    clients: Vec<Client>,
    pub more_contexts: Vec<ContextId>,
    allocations: Vec<AllocationId>,
    fences: Vec<MonitoredFenceId>,
}

/// A write that found nothing at `address`.
pub fn page_fault(address: u64) -> DmaPageFaulted {
    DmaPageFaulted {
        faulted_fence_id: 0,
        faulted_primitive_api_sequence_number: DmaPageFaulted::PRIMITIVE_API_SEQUENCE_NUMBER_UNKNOWN,
        faulted_pipeline_stage: 0,
        faulted_bind_table_entry: DmaPageFaulted::BIND_TABLE_ENTRY_UNKNOWN,
        page_fault_flags: PageFaultFlags::WRITE | PageFaultFlags::ENGINE_RESET_REQUIRED,
        faulted_virtual_address: GpuVirtualAddress(address),
        node_ordinal: 0,
        page_table_level: 0,
        fault_error_code: FaultErrorCode::PAGE_FAULT,
        faulted_process: None,
    }
}

/// Local memory, where it is a group of its own.
pub const LOCAL_MEMORY: MemoryAccount = MemoryAccount { segment: LOCAL, group: Some(MemorySegmentGroup::Local) };

/// The shortage of one memory alone.
pub fn short(account: MemoryAccount, num_bytes_to_trim: u64, reason: NoMemoryReason) -> Vec<Shortage> {
    let is_short = num_bytes_to_trim > 0;
    is_short.then_some(Shortage { account, num_bytes_to_trim, reason }).into_iter().collect()
}

/// The refusal of a MakeResident for which one memory alone is short.
pub fn refused_in(account: MemoryAccount, num_bytes_to_trim: u64, reason: NoMemoryReason) -> MakeResidentError {
    MakeResidentError::NoMemory { num_bytes_to_trim, reason, shortages: short(account, num_bytes_to_trim, reason) }
}

impl World {
    pub fn new(config: Config) -> Self {
        let (mut driver, mut host) = (Driver::new(&config), Ledger::default());
        let journal = Journal::default();
        (driver.journal, host.journal) = (journal.clone(), journal.clone());
        host.failing = driver.failing.clone();
        let options = config.options();
        let vidmm = VidMm::start_adapter(options, &mut driver, &mut host).unwrap();
        let mut world = Self {
            vidmm,
            driver,
            host,
            machine: Machine::new(&config),
            engines: Default::default(),
            now: 0,
            num_wakes: 0,
            suspended: BTreeSet::new(),
            resuming: BTreeMap::new(),
            completed: [0; 3],
            submitted: [0; 3],
            preempting: Vec::new(),
            stopped: [false; 3],
            hung: [false; 3],
            trouble: Faults::default(),
            outputs: Vec::new(),
            events: Vec::new(),
            audit: Judge::default(),
            read: Vec::new(),
            config,
            is_audited: true,
            journal,
            journal_seen: 0,
            executed: 0,
            placed: BTreeMap::new(),
            handles: BTreeMap::new(),
            io_mmu: BTreeMap::new(),
            clients: Vec::new(),
            more_contexts: Vec::new(),
            allocations: Vec::new(),
            fences: Vec::new(),
        };
        world.run_all();
        world
    }

    /// A world whose segment holds exactly `pages` pages of allocations, and a client.
    pub fn with_pages(pages: u64) -> (Self, Client) {
        let mut world = Self::new(Config::pages(pages));
        let client = world.client();
        (world, client)
    }

    // Calls. Each is followed by the manager's audit of itself.

    pub fn call<T>(&mut self, call: impl FnOnce(&mut VidMm, &mut Driver, &mut Ledger) -> T) -> T {
        let answer = call(&mut self.vidmm, &mut self.driver, &mut self.host);
        self.see_cpu_updates();
        self.check();
        answer
    }

    /// The CPU has written entries: nothing that was built before was still to run.
    fn see_cpu_updates(&mut self) {
        for number in self.executed..self.driver.operations.len() {
            let PagingOperation::UpdatePageTable(op) = self.driver.operations[number] else { continue };
            let UpdateMode::CpuVirtual(address) = op.update_mode else { continue };
            assert_eq!(number, self.executed, "BPB-08: the CPU writes entries before the GPU has come so far");
            assert_eq!(
                address.0,
                KERNEL_ADDRESS + op.page_table_address.offset,
                "BPB-08: the CPU sees the table there"
            );
            assert!(self.host.holds(op.page_table_address.offset), "GVA-10: a table that the CPU writes is committed");
            self.machine.update_page_table(&op);
            self.executed += 1;
        }
    }

    pub fn client(&mut self) -> Client {
        self.try_client().unwrap()
    }

    pub fn try_client(&mut self) -> Result<Client, CreateError> {
        let process = self.call(|vidmm, driver, host| vidmm.create_process(driver, host))?;
        let kmd_process = KmdProcessHandle(self.driver.last_handle);
        let client = self.try_client_of(process, kmd_process)?;
        self.run_paging(); // Its root table.
        Ok(client)
    }

    /// Another device of the same process.
    pub fn sibling(&mut self, client: Client) -> Client {
        self.try_client_of(client.process, client.kmd_process).unwrap()
    }

    fn try_client_of(&mut self, process: ProcessId, kmd_process: KmdProcessHandle) -> Result<Client, CreateError> {
        let device = self.call(|vidmm, _, _| vidmm.create_device(process))?;
        let queue = self.call(|vidmm, _, _| vidmm.create_paging_queue(device, 0)).unwrap();
        let engine = self.config.engine(RENDER);
        let context = self.call(|vidmm, driver, _| vidmm.create_context(driver, device, engine)).unwrap();
        let client = Client { process, kmd_process, device, queue, context };
        self.clients.push(client);
        Ok(client)
    }

    pub fn context(&mut self, client: Client, engine: u32) -> ContextId {
        let engine = self.config.engine(engine);
        let context = self.call(|vidmm, driver, _| vidmm.create_context(driver, client.device, engine)).unwrap();
        self.more_contexts.push(context);
        context
    }

    pub fn fence(&mut self) -> MonitoredFenceId {
        let fence = self.call(|vidmm, _, _| vidmm.create_monitored_fence(0)).unwrap();
        self.fences.push(fence);
        fence
    }

    pub fn allocate(&mut self, client: Client, pages: u64) -> AllocationId {
        self.allocate_with(client, pages, NORMAL)
    }

    pub fn allocate_with(&mut self, client: Client, pages: u64, priority: u32) -> AllocationId {
        self.try_allocate(client, pages * PAGE_SIZE, priority).unwrap()
    }

    pub fn try_allocate(&mut self, client: Client, bytes: u64, priority: u32) -> Result<AllocationId, CreateError> {
        let data = private_data(bytes, priority);
        let answer = self.call(|vidmm, driver, host| vidmm.create_allocation(driver, host, client.device, &data));
        self.allocations.extend(answer.clone().ok());
        answer
    }

    /// The driver's description of it, instead of what follows from private data.
    pub fn try_create(&mut self, client: Client, info: AllocationInfo) -> Result<AllocationId, CreateError> {
        self.driver.next_allocation = Some(info);
        self.try_allocate(client, 0, 0)
    }

    /// An allocation of `pages` pages that may be in `place`, with these notifications.
    pub fn create(&mut self, client: Client, place: Place, pages: u64, flags2: AllocationFlags2) -> AllocationId {
        let info = self.config.allocation(place, pages, flags2);
        self.try_create(client, info).unwrap()
    }

    /// Such an allocation, mapped and resident; and where.
    pub fn create_resident(
        &mut self,
        client: Client,
        place: Place,
        pages: u64,
        flags2: AllocationFlags2,
    ) -> (AllocationId, u64) {
        let allocation = self.create(client, place, pages, flags2);
        let address = self.map(client, allocation);
        self.bring_in(client, &[allocation]);
        (allocation, address)
    }

    /// The driver's handle of an allocation.
    pub fn handle(&self, allocation: AllocationId) -> KmdAllocationHandle {
        self.living_handle(allocation).expect("the allocation lives")
    }

    /// The driver's handle of an allocation; none if it is gone.
    pub fn living_handle(&self, allocation: AllocationId) -> Option<KmdAllocationHandle> {
        self.handles.get(&allocation).copied()
    }

    /// Maps all of the allocation; where.
    pub fn map(&mut self, client: Client, allocation: AllocationId) -> u64 {
        self.try_map(client, &MapGpuVirtualAddress::whole(allocation)).unwrap().virtual_address.0
    }

    pub fn try_map(&mut self, client: Client, desc: &MapGpuVirtualAddress) -> Result<Mapped, MapError> {
        self.call(|vidmm, _, host| vidmm.map_gpu_virtual_address(host, client.queue, desc))
    }

    pub fn free(&mut self, client: Client, address: u64, pages: u64) -> Result<(), GpuVaError> {
        let address = GpuVirtualAddress(address);
        self.call(|vidmm, _, host| vidmm.free_gpu_virtual_address(host, client.process, address, pages * PAGE_SIZE))
    }

    /// Makes resident, and is refused; returns what is missing.
    pub fn misses(&mut self, client: Client, allocations: &[AllocationId]) -> Vec<(SegmentId, u64)> {
        let answer = self.make_resident(client, allocations);
        let Err(MakeResidentError::NoMemory { shortages, .. }) = answer else {
            panic!("it was not refused: {answer:?}")
        };
        shortages.iter().map(|shortage| (shortage.account.segment, shortage.num_bytes_to_trim / PAGE_SIZE)).collect()
    }

    pub fn make_resident(
        &mut self,
        client: Client,
        allocations: &[AllocationId],
    ) -> Result<Residency, MakeResidentError> {
        let room = self.vidmm.query_room(client.device, allocations);
        let answer =
            self.call(|vidmm, _, _| vidmm.make_resident(client.queue, allocations, MakeResidentFlags::empty()));
        assert_foretold(room, &answer);
        answer
    }

    /// Makes resident, and lets all paging end.
    pub fn bring_in(&mut self, client: Client, allocations: &[AllocationId]) {
        let _: Residency = self.make_resident(client, allocations).unwrap();
        self.run_paging();
    }

    /// An allocation of `pages` pages that is resident and mapped; and where.
    pub fn resident(&mut self, client: Client, pages: u64) -> (AllocationId, u64) {
        let allocation = self.allocate(client, pages);
        let address = self.map(client, allocation);
        self.bring_in(client, &[allocation]);
        (allocation, address)
    }

    /// Makes resident up to the maximum budget.
    pub fn cant_trim(&mut self, client: Client, allocations: &[AllocationId]) -> Result<Residency, MakeResidentError> {
        let flags = MakeResidentFlags::CANT_TRIM_FURTHER;
        self.call(|vidmm, _, _| vidmm.make_resident(client.queue, allocations, flags))
    }

    /// An allocation that other devices may open.
    pub fn create_shared(&mut self, client: Client, pages: u64) -> AllocationId {
        let info = self.config.allocation(Place::Local, pages, SILENT);
        self.create_to_share(client, info)
    }

    /// The same, as the driver says.
    pub fn create_to_share(&mut self, client: Client, info: AllocationInfo) -> AllocationId {
        self.driver.next_allocation = Some(info);
        let data = private_data(0, 0);
        let flags = CreateAllocationFlags::CREATE_SHARED;
        let desc = CreateAllocationDesc { flags, ..CreateAllocationDesc::from(&data) };
        let answer = self.call(|vidmm, driver, host| vidmm.create_allocation(driver, host, client.device, desc));
        self.allocations.extend(answer.clone().ok());
        answer.unwrap()
    }

    pub fn open(&mut self, client: Client, allocation: AllocationId) -> Result<(), OpenError> {
        self.call(|vidmm, driver, _| vidmm.open_allocation(driver, client.device, allocation))
    }

    pub fn close(&mut self, client: Client, allocation: AllocationId) -> Result<(), OpenError> {
        self.call(|vidmm, _, _| vidmm.close_allocation(client.device, allocation))
    }

    /// The answer to the client's process about its local memory.
    pub fn local_info(&self, client: Client) -> VideoMemoryInfo {
        self.vidmm.query_video_memory_info(client.process, MemorySegmentGroup::Local).unwrap()
    }

    /// Reserves local memory.
    pub fn reserve(&mut self, client: Client, bytes: u64) -> Result<(), ReservationError> {
        let group = MemorySegmentGroup::Local;
        self.call(|vidmm, _, _| vidmm.change_video_memory_reservation(client.process, group, bytes))
    }

    pub fn set_priority(&mut self, client: Client, band: PriorityBand, visibility: Visibility) {
        self.call(|vidmm, _, _| vidmm.set_process_priority(client.process, band, visibility)).unwrap();
    }

    pub fn evict(&mut self, client: Client, allocations: &[AllocationId], flags: EvictFlags) -> Result<(), EvictError> {
        self.call(|vidmm, _, _| vidmm.evict(client.device, allocations, flags)).map(drop)
    }

    /// Offers with this priority, and no flags.
    pub fn offer(
        &mut self,
        client: Client,
        allocations: &[AllocationId],
        priority: OfferPriority,
    ) -> Result<(), OfferError> {
        self.offer_with(client, allocations, priority, OfferFlags::empty())
    }

    pub fn offer_with(
        &mut self,
        client: Client,
        allocations: &[AllocationId],
        priority: OfferPriority,
        flags: OfferFlags,
    ) -> Result<(), OfferError> {
        self.call(|vidmm, _, _| vidmm.offer_allocations(client.device, allocations, priority, flags))
    }

    pub fn reclaim(&mut self, client: Client, allocations: &[AllocationId]) -> Result<Reclaimed, ReclaimError> {
        self.call(|vidmm, _, host| vidmm.reclaim_allocations(host, client.queue, allocations))
    }

    pub fn lock(&mut self, client: Client, allocation: AllocationId) -> Result<CpuVirtualAddress, LockError> {
        self.call(|vidmm, _, host| vidmm.lock(host, client.device, allocation))
    }

    pub fn unlock(&mut self, allocation: AllocationId) -> Result<(), UnlockError> {
        self.call(|vidmm, _, host| vidmm.unlock(host, allocation))
    }

    /// The token of a page that the CPU sees.
    pub fn cpu_read(&self, address: CpuVirtualAddress, page: u64) -> u64 {
        let at = self.host.seen(address, page).expect("nothing moves");
        self.machine.read(at, &self.host)
    }

    /// The CPU writes a page that it sees.
    pub fn cpu_write(&mut self, address: CpuVirtualAddress, page: u64, token: u64) {
        let at = self.host.seen(address, page).expect("nothing moves");
        self.machine.write(at, token, &self.host);
    }

    /// An allocation of `pages` pages that may be in `place`, with these flags.
    pub fn create_flagged(
        &mut self,
        client: Client,
        place: Place,
        pages: u64,
        flags: AllocationFlags,
    ) -> Result<AllocationId, CreateError> {
        let info = AllocationInfo { flags, ..self.config.allocation(place, pages, SILENT) };
        self.try_create(client, info)
    }

    pub fn destroy(&mut self, allocation: AllocationId) {
        self.destroy_with(allocation, DestroyFlags::empty());
    }

    pub fn destroy_with(&mut self, allocation: AllocationId, flags: DestroyFlags) {
        self.call(|vidmm, _, host| vidmm.destroy_allocation(host, allocation, flags)).unwrap();
    }

    /// Submits work that makes these accesses when it runs.
    pub fn submit(&mut self, client: Client, program: &[Access]) -> u64 {
        self.submit_to(client.context, program, &[], &[])
    }

    /// Submits work that waits for fences and signals fences.
    pub fn submit_to(
        &mut self,
        context: ContextId,
        program: &[Access],
        waits: &[(MonitoredFenceId, u64)],
        signals: &[(MonitoredFenceId, u64)],
    ) -> u64 {
        let bytes = program.iter().flat_map(|access| match *access {
            Access::Read(address) => [0, address, 0, 0, 0],
            Access::Write(address, token) => [1, address, token, 0, 0],
            Access::Tag(number) => [2, number, 0, 0, 0],
            Access::ReadSurface(address, allocation, page) => [3, address, 0, allocation.0, page],
            Access::WriteSurface(address, allocation, page, token) => [4, address, token, allocation.0, page],
        });
        let named = |named: &[(MonitoredFenceId, u64)]| {
            named.iter().map(|&(fence, value)| FenceValueDesc { fence, value }).collect()
        };
        let dma_buffer = bytes.flat_map(u64::to_le_bytes).collect();
        let desc = SubmitDesc { dma_buffer, waits: named(waits), signals: named(signals), allocations: vec![] };
        self.call(|vidmm, _, _| vidmm.submit(context, desc)).unwrap()
    }

    pub fn signal(&mut self, fence: MonitoredFenceId, value: u64) {
        self.call(|vidmm, _, _| vidmm.signal_monitored_fence(fence, value)).unwrap();
    }

    pub fn check(&mut self) {
        if self.is_audited {
            self.vidmm.check().unwrap();
        }
        let events = self.audit.drain(&mut self.vidmm);
        self.read_journal();
        for event in &events {
            self.learn(event);
        }
        self.events.extend(events);
    }

    /// Notes the allocations that come and go.
    fn learn(&mut self, event: &Event) {
        match *event {
            Event::AllocationCreated { allocation, handle, size, backing_store, .. } => {
                let backing_store = PhysicalAddress { segment: SegmentId::SYSTEM, offset: backing_store };
                let info = self.driver.infos[&handle];
                self.machine.created(handle, Known { info, backing_store, size });
                self.handles.insert(allocation, handle);
            }
            Event::Reclaimed { ref allocations, ref backing_stores, .. } => {
                for (allocation, &offset) in allocations.iter().zip(backing_stores) {
                    self.machine.committed(self.handles[allocation], offset);
                }
            }
            Event::PoweredDown => self.machine.lose_power(),
            Event::AdapterRestarted => self.placed.clear(),
            Event::Dispatched { device, signal, .. } => _ = self.trouble.whose.insert(signal, device),
            Event::Resubmitted { before, signal, .. } => {
                if let Some(&device) = self.trouble.whose.get(&before) {
                    self.trouble.whose.insert(signal, device);
                }
            }
            Event::AdapterResetBegun { .. } => {
                self.trouble.adapter_resets.push(self.now);
            }
            Event::DeviceSuspended { device } => {
                self.suspended.insert(device);
                self.resuming.remove(&device);
            }
            Event::DeviceResumed { device, ref plans, .. } => {
                self.resuming.insert(device, plans.iter().copied().collect());
                self.settle_resumed();
            }
            Event::PlanRetired { plan } | Event::PlanAbandoned { plan } => {
                self.resuming.values_mut().for_each(|plans| _ = plans.remove(&plan));
                self.settle_resumed();
            }
            Event::Placed { allocation, segment, .. } => _ = self.placed.insert(allocation, segment),
            Event::Evicted { allocation, segment, .. } => {
                assert_eq!(self.placed.remove(&allocation), Some(segment), "it leaves where it was placed");
            }
            Event::AllocationReclaimed { allocation } => {
                let handle = self.handles.remove(&allocation).expect("it was created");
                self.machine.reclaimed(handle, &self.host);
            }
            _ => {}
        }
    }

    fn settle_resumed(&mut self) {
        let Self { resuming, suspended, .. } = self;
        resuming.retain(|device, plans| {
            if plans.is_empty() {
                suspended.remove(device);
            }
            !plans.is_empty()
        });
    }

    /// Carries out what follows from the host's steps and the driver's, in their order.
    fn read_journal(&mut self) {
        let lines = self.journal.since(self.journal_seen).to_vec();
        self.journal_seen += lines.len();
        for line in lines {
            match line {
                Happened::Mapped { domain, virtual_address, system_address, size, .. } => {
                    self.io_mmu.insert((domain, virtual_address.0), Shown { system_address, size, notified_by: None });
                    self.machine.host_mapped(self.is_window(domain, virtual_address), system_address);
                }
                Happened::Built(number) => {
                    if let PagingOperation::NotifyAlloc(op) = self.driver.operations[number] {
                        let domain = self.config.domain(op.process.unwrap_or(PAGING_PROCESS));
                        let address = op.gpu_virtual_address_at_offset.0;
                        if let Some(named) = self.cut_io_mmu(domain, address, op.size_in_bytes) {
                            let notified_by = Some(number);
                            self.io_mmu.insert((domain, address), Shown { notified_by, ..named });
                        }
                    }
                }
                Happened::Unmapped { domain, virtual_address, size } => {
                    let shown = self.cut_io_mmu(domain, virtual_address.0, size).expect("it was mapped");
                    let (shown, last) = (shown.system_address, shown.notified_by);
                    let is_over = last.is_none_or(|number| number < self.executed);
                    assert!(is_over, "NTF-04: {virtual_address} is unmapped, but operation {last:?} has not ended");
                    let shown = (!self.is_window(domain, virtual_address)).then_some(shown);
                    self.machine.host_unmapped(domain, virtual_address.0, size, shown);
                }
                // The host has checked that it was committed then; what was given back since holds nothing.
                Happened::Reset { address, size } if self.host.holds(address.offset) => {
                    self.machine.reset(address, size, &self.host);
                }
                Happened::Reset { .. } => {}
                Happened::Executed(_) | Happened::Completed(_) => {}
            }
        }
    }

    /// Takes what the IOMMU shows at some addresses out, if all of them were mapped at once; what is around them stays (U-22).
    fn cut_io_mmu(&mut self, domain: IoMmuDomain, start: u64, size: u64) -> Option<Shown> {
        let (&(of, first), &whole) = self.io_mmu.range(..=(domain, start)).next_back()?;
        let (end, last) = (start + size, first + whole.size);
        if of != domain || end > last {
            return None;
        }
        self.io_mmu.remove(&(domain, first));
        let part = |from: u64, to: u64| {
            let system_address = whole.system_address.offset_by(from - first);
            Shown { system_address, size: to - from, ..whole }
        };
        for (from, to) in [(first, start), (end, last)].into_iter().filter(|(from, to)| from < to) {
            self.io_mmu.insert((domain, from), part(from, to));
        }
        Some(part(start, end))
    }

    /// Whether an address is one of the paging process's.
    pub fn is_window(&self, domain: IoMmuDomain, address: GpuVirtualAddress) -> bool {
        match domain {
            IoMmuDomain::Process(process) => process == PAGING_PROCESS,
            IoMmuDomain::Global => address.0 >> (self.config.io_mmu_bits - 8) == 0,
        }
    }

    // The loop that a runtime would have.

    /// Lets the manager do all that it can now.
    pub fn poll(&mut self) {
        let now = self.now;
        while let Some(output) = self.call(|vidmm, driver, host| vidmm.poll(now, driver, host)) {
            match output {
                Output::Submit(packet) => {
                    self.submit_packet(packet);
                    continue;
                }
                Output::PreemptCommand { engine, preemption_fence_id } => {
                    self.preempting.push((engine, preemption_fence_id));
                    if self.engines[engine as usize].is_empty() && self.is_able(engine) {
                        self.yield_engine(engine);
                    }
                }
                Output::ResetEngine { engine } => {
                    self.trouble.being_reset[engine as usize] = true;
                    match self.config.resets_at_once {
                        true => self.reset_engine(engine),
                        false => self.trouble.owed.push_back(Owed::Engine(engine)),
                    }
                }
                Output::ResetFromTimeout if self.config.stops_at_once => self.reset_adapter(),
                Output::ResetFromTimeout => self.trouble.owed.push_back(Owed::Stop),
                Output::RestartFromTimeout if self.config.stops_at_once => self.restart_adapter(),
                Output::RestartFromTimeout => self.trouble.owed.push_back(Owed::Restart),
                Output::DeviceInError(error) => self.is_told(error),
                _ => {}
            }
            self.outputs.push(output);
        }
    }

    fn submit_packet(&mut self, packet: Packet) {
        let EngineFence { engine, fence_id } = packet.signal;
        if !self.trouble.coming_again.remove(&packet.signal) {
            self.submitted[engine as usize] += 1;
            assert_eq!(fence_id, self.submitted[engine as usize], "SYN-13: fence ids rise by one");
        }
        for wait in &packet.waits {
            let handed_out = wait.fence_id <= self.submitted[wait.engine as usize];
            assert!(handed_out, "D7: {:?} waits for {wait:?}, which was not handed out", packet.signal);
        }
        self.engines[engine as usize].push_back(packet);
    }

    /// Whether the engine has a packet whose waits are over.
    pub fn can_complete(&self, engine: u32) -> bool {
        let is_over = |wait: &EngineFence| wait.fence_id <= self.completed[wait.engine as usize];
        let can_run = self.engines[engine as usize].front().is_some_and(|packet| packet.waits.iter().all(is_over));
        can_run && self.is_able(engine)
    }

    /// The engine runs its next packet to its end, and the manager hears of it.
    pub fn complete(&mut self, engine: u32) {
        self.complete_quietly(engine);
        self.poll();
    }

    /// The same, but nobody polls.
    pub fn complete_quietly(&mut self, engine: u32) {
        assert!(self.can_complete(engine), "engine {engine} has nothing whose waits are over");
        let packet = self.run_packet(engine);
        self.journal.push(Happened::Completed(packet.signal));
        self.hear(packet.signal, packet.buffer);
    }

    /// The engine's next packet, as ended.
    pub fn take_packet(&mut self, engine: u32) -> Packet {
        let packet = self.engines[engine as usize].pop_front().expect("the engine has a packet");
        self.completed[engine as usize] = packet.signal.fence_id;
        self.has_ended(packet.signal);
        packet
    }

    fn execute(&mut self, packet: &Packet) {
        self.execute_part(packet, usize::MAX);
    }

    /// The engine comes only so far: so many operations, or accesses.
    fn execute_part(&mut self, packet: &Packet, steps: usize) {
        let [process, segment, offset, num_entries] = words(&packet.preamble).collect::<Vec<_>>()[..] else {
            panic!("the driver writes four words")
        };
        let table = PhysicalAddress { segment: SegmentId(segment as u8), offset };
        let root = Root { process: KmdProcessHandle(process), table, num_entries };
        if let DmaBuffer::Paging(buffer) = &packet.buffer {
            for number in words(buffer.commands()).filter(|&word| word > 0).take(steps) {
                let number = number as usize - 1;
                assert_eq!(number, self.executed, "BPB-03: operations run once, in the order in which they were built");
                self.machine.execute(&self.driver.operations[number], root, &self.host);
                self.executed += 1;
                self.journal.push(Happened::Executed(number));
            }
            return;
        }
        let program: Vec<u64> = words(packet.buffer.commands()).collect();
        for access in program.chunks_exact(5).take(steps) {
            let [kind, address, token, allocation, page] = *access else { unreachable!("an access is five words") };
            if kind == 2 {
                self.read.push(address);
                continue;
            }
            let (at, read_only) = self
                .machine
                .access(root, address, &self.host)
                .unwrap_or_else(|| panic!("FLT-03: work of {:?} faults at {address:#x}", packet.signal));
            let surface = KmdAllocationHandle(allocation);
            let is_compressed = self.machine.surfaces.is_compressed(surface, page);
            if kind == 0 || kind == 3 {
                let stored = self.machine.read(at, &self.host);
                self.read.push(if is_compressed { Surfaces::plain(stored) } else { stored });
                continue;
            }
            assert!(!read_only, "FLT-03: {address:#x} is read-only");
            if kind == 4 {
                self.machine.write(at, Surfaces::compress(token), &self.host);
                self.machine.surfaces.set(surface, page, true);
            } else {
                self.machine.write(at, token, &self.host);
            }
        }
    }

    /// Whether the engine's next packet is a paging buffer.
    pub fn is_paging_next(&self, engine: u32) -> bool {
        let next = self.engines[engine as usize].front();
        next.is_some_and(|next| matches!(next.buffer, DmaBuffer::Paging(_)))
    }

    /// Lets paging end, and nothing else.
    pub fn run_paging(&mut self) {
        self.poll();
        while self.can_complete(PAGING) && self.is_paging_next(PAGING) {
            self.complete(PAGING);
        }
    }

    /// Lets all engines come to their end; whatever was handed out must be able to.
    pub fn run_all(&mut self) {
        self.poll();
        loop {
            while let Some(engine) = (0..3).find(|&engine| self.can_complete(engine)) {
                self.complete(engine);
            }
            if !self.yield_who_can() && !self.pass_time() {
                break;
            }
        }
        assert!(self.engines.iter().all(VecDeque::is_empty), "packets wait for each other: {:?}", self.engines);
    }

    /// Lets the time come that the manager waits for, if something waits; `false` if not.
    pub fn pass_time(&mut self) -> bool {
        let wake = self.vidmm.next_wake().filter(|_| !self.vidmm.is_idle());
        let Some(wake) = wake else { return false };
        assert!(wake > self.now, "the time that is waited for is to come");
        self.num_wakes += 1;
        let last = self.events.len().saturating_sub(40);
        assert!(self.num_wakes < 10_000, "I32: time passes, and nothing ends: {:#?}", &self.events[last..]);
        self.now = wake;
        self.poll();
        true
    }

    /// So much time passes, and the manager is polled whenever it asks for it; paging ends at once, work does not end.
    pub fn wait(&mut self, time: Nanoseconds) {
        let end = self.now + time;
        self.run_paging();
        while let Some(wake) = self.vidmm.next_wake().filter(|&wake| wake < end) {
            assert!(wake > self.now, "the time that is waited for is to come");
            self.now = wake;
            self.run_paging();
        }
        self.now = end;
        self.run_paging();
    }

    /// The last decisions, for a reader who learns that something does not end.
    pub fn where_it_stands(&self) -> String {
        let is_about_turns = |event: &&Event| {
            matches!(
                event,
                Event::MakeResident { .. }
                    | Event::Evict { .. }
                    | Event::AllocationCreated { .. }
                    | Event::AllocationDestroyed { .. }
                    | Event::Submitted { .. }
                    | Event::Granted { .. }
                    | Event::Dispatched { .. }
                    | Event::DeviceYielded { .. }
                    | Event::DeviceSuspended { .. }
                    | Event::DeviceResumed { .. }
                    | Event::DeviceHeldUp { .. }
            )
        };
        let last: Vec<String> = self.events.iter().filter(is_about_turns).map(|event| format!("{event:?}")).collect();
        format!("idle {}, wake {:?}, after\n{}", self.vidmm.is_idle(), self.vidmm.next_wake(), last.join("\n"))
    }

    // Looks from outside.

    /// Where the process of a client sees `address`, as its page tables say; none if access faults.
    pub fn translate(&self, client: Client, address: u64) -> Option<PhysicalAddress> {
        self.pte(client, address).map(|pte| pte.address)
    }

    pub fn pte(&self, client: Client, address: u64) -> Option<Pte> {
        self.machine.translate(self.machine.root_of(client.kmd_process)?, address, &self.host)
    }

    /// Bytes of system memory that are committed, but for the page tables of processes.
    pub fn backing_store_bytes(&self) -> u64 {
        let tables: u64 = self.tables().filter(|(address, _)| address.segment.is_system()).map(|(_, size)| size).sum();
        self.host.bytes() - tables
    }

    /// Where the page tables of processes lie, and their sizes in bytes.
    pub fn tables(&self) -> impl Iterator<Item = (PhysicalAddress, u64)> {
        let mut tables = BTreeMap::new();
        for event in &self.events {
            match *event {
                Event::PageTablePlaced { address, size, .. } => drop(tables.insert(address, size)),
                Event::PageTableFreed { address, .. } => drop(tables.remove(&address)),
                _ => {}
            }
        }
        tables.into_iter()
    }

    /// The token that the process of a client sees at `address`.
    pub fn token(&self, client: Client, address: u64) -> Option<u64> {
        Some(self.machine.read(self.translate(client, address)?, &self.host))
    }

    pub fn paging_fence(&self, client: Client) -> u64 {
        self.vidmm.paging_fence_value(client.queue).unwrap()
    }

    /// The evictions so far, in order, with the reasons.
    pub fn evicted(&self) -> Vec<(AllocationId, EvictReason)> {
        let evicted = |event: &Event| match *event {
            Event::Evicted { allocation, reason, .. } => Some((allocation, reason)),
            _ => None,
        };
        self.events.iter().filter_map(evicted).collect()
    }

    /// The devices that yielded so far, in order, with the reasons.
    pub fn yielded(&self) -> Vec<(DeviceId, SuspendReason)> {
        let yielded = |event: &Event| match *event {
            Event::DeviceYielded { device, reason, .. } => Some((device, reason)),
            _ => None,
        };
        self.events.iter().filter_map(yielded).collect()
    }

    /// The devices that were resumed so far, in order, with the reasons.
    pub fn resumed(&self) -> Vec<(DeviceId, ResumeReason)> {
        let resumed = |event: &Event| match *event {
            Event::DeviceResumed { device, reason, .. } => Some((device, reason)),
            _ => None,
        };
        self.events.iter().filter_map(resumed).collect()
    }

    /// Bytes that were copied in, and bytes that were copied out.
    pub fn statistics_of_copies(&self) -> (u64, u64) {
        let statistics = self.vidmm.statistics();
        (statistics.bytes_paged_in, statistics.bytes_paged_out)
    }

    /// The operations that were encoded since the driver had encoded `since`.
    pub fn operations_since(&self, since: usize) -> Vec<PagingOperation> {
        self.driver.operations[since..].to_vec()
    }

    /// Everything that a refused call might have changed.
    pub fn fingerprint(&mut self) -> impl PartialEq + std::fmt::Debug + use<> {
        self.poll();
        let outputs = self.outputs.len();
        let operations = self.driver.operations.len();
        (self.vidmm.statistics(), self.driver.live.clone(), self.host.live.clone(), outputs, operations)
    }

    /// Ends a client's process, whatever it is doing.
    pub fn end_process(&mut self, client: Client) {
        self.clients.retain(|other| other.process != client.process);
        self.call(|vidmm, driver, host| vidmm.destroy_process(driver, host, client.process)).unwrap();
    }

    /// Destroys all objects that were made through the world, and looks for what is left.
    pub fn tear_down(mut self) {
        self.run_all();
        for allocation in std::mem::take(&mut self.allocations) {
            // An allocation that others have opened is theirs first, and then destroyed by them.
            while self.call(|vidmm, _, host| vidmm.destroy_allocation(host, allocation, DestroyFlags::empty())).is_ok()
            {
            }
        }
        self.run_all();
        let clients = std::mem::take(&mut self.clients);
        let contexts = std::mem::take(&mut self.more_contexts);
        for context in clients.iter().map(|client| client.context).chain(contexts) {
            self.call(|vidmm, driver, _| vidmm.destroy_context(driver, context)).unwrap();
        }
        for client in &clients {
            self.call(|vidmm, _, _| vidmm.destroy_paging_queue(client.queue)).unwrap();
            self.call(|vidmm, driver, host| vidmm.destroy_device(driver, host, client.device)).unwrap();
        }
        for fence in std::mem::take(&mut self.fences) {
            self.call(|vidmm, _, _| vidmm.destroy_monitored_fence(fence)).unwrap();
        }
        let left = std::mem::take(&mut self.trouble.left_processes);
        for process in clients.into_iter().map(|client| client.process).chain(left) {
            _ = self.call(|vidmm, driver, host| vidmm.destroy_process(driver, host, process));
        }
        self.assert_nothing_is_left();
    }

    fn assert_nothing_is_left(&mut self) {
        let fresh = World::new(self.config.clone());
        assert_eq!(self.driver.live.len(), fresh.driver.live.len(), "I28: the driver still has objects");
        assert_eq!(self.host.bytes(), fresh.host.bytes(), "I28: the host still has backing stores");
        assert!(self.vidmm.is_idle());
        // The whole segment but the paging process's tables and a root table can be had again.
        let paging_tables = self.events.iter().find_map(|event| match event {
            Event::AdapterStarted { paging_tables, .. } => Some(paging_tables.iter().map(|table| table.size).sum()),
            _ => None,
        });
        let root_table = if self.config.tables_in_system { 0 } else { self.config.page_size.bytes() };
        let for_tables = match self.config.page_table_area {
            0 => paging_tables.unwrap_or(0) + root_table,
            area => area,
        };
        let all = self.config.segment_bytes.saturating_sub(for_tables);
        let client = self.client();
        if self.config.segment_bytes > 0 {
            let whole = self.try_allocate(client, all, NORMAL).unwrap();
            self.bring_in(client, &[whole]);
            assert_eq!(self.paging_fence(client), 1, "I28: a part of the segment leaked");
        }
        assert!(self.machine.aperture.is_empty(), "I28: the aperture still shows something");
        assert!(self.host.io_mmu.is_empty(), "I28: the IOMMU still maps {:x?}", self.host.io_mmu);
        let pages = self.config.commit_limit().min(self.config.aperture_bytes) / PAGE_SIZE;
        let whole = self.create(client, Place::Aperture, pages, SILENT);
        self.bring_in(client, &[whole]);
        assert_eq!(self.machine.aperture.pages_of(self.handle(whole)).len() as u64, pages, "I28: the aperture leaked");
    }
}

/// The kinds of operations, in a word each.
pub fn kind(operation: &PagingOperation) -> &'static str {
    match operation {
        PagingOperation::UpdatePageTable(op) if op.flags.contains(UpdatePageTableFlags::INITIAL_UPDATE) => "initialise",
        PagingOperation::UpdatePageTable(op) if op.page_table_level > 0 => "link",
        PagingOperation::UpdatePageTable(op) if op.page_table_entries.first.flags.contains(PteFlags::VALID) => "valid",
        PagingOperation::UpdatePageTable(_) => "invalid",
        PagingOperation::FlushTlb(_) => "flush",
        PagingOperation::VirtualFill(_) => "fill",
        PagingOperation::VirtualTransfer(op) if op.transfer_direction == MemoryTransferDirection::SystemToLocal => "in",
        PagingOperation::VirtualTransfer(_) => "out",
        PagingOperation::MapApertureSegment(_) => "map aperture",
        PagingOperation::MapApertureSegment2(_) => "map aperture 2",
        PagingOperation::UnmapApertureSegment(_) => "unmap aperture",
        PagingOperation::NotifyAlloc(op) if op.flags == NotifyAllocFlags::EVICTION => "eviction",
        PagingOperation::NotifyAlloc(_) => "io mmu unmap",
        PagingOperation::Transfer(_) => "transfer",
        PagingOperation::Fill(_) => "physical fill",
        PagingOperation::DiscardContent(_) => "discard",
        PagingOperation::NotifyResidency(_) => "residency",
    }
}

/// Writes one page by work of the client, and comes to rest.
pub fn write(world: &mut World, client: Client, at: u64, token: u64) {
    world.submit(client, &[Access::Write(at, token)]);
    world.run_all();
}

/// Reads one page by work of the client, and comes to rest.
pub fn read(world: &mut World, client: Client, at: u64) -> u64 {
    world.submit(client, &[Access::Read(at)]);
    world.run_all();
    *world.read.last().unwrap()
}

/// Takes the whole segment for a moment, so that all that is evictable goes.
pub fn squeeze(world: &mut World, pages: u64) {
    let client = world.client();
    let (all, _) = world.resident(client, pages);
    world.destroy(all);
    world.run_all();
}
