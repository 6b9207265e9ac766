//! A small run, written by hand, whose log is right.

pub mod broken;
pub mod faults;
pub mod notified;
pub mod schema;
pub mod steps;

use vidmm::MemorySegmentGroup;
use vidmm::contract::*;
use vidmm::event::{ApertureSegmentFacts, ContentSource, Event, EvictReason, MemorySegmentFacts, Neighbour, WantedBy};
use vidmm::*;
use vidmm_trace::{Audit, AuditFinding};

pub const PAGING: u32 = 0;
pub const RENDER: u32 = 1;
pub const WINDOW: u64 = 0x3000;
pub const SYSTEM_WINDOW: u64 = 0x10_0000;
pub const LOCAL_WINDOW: u64 = 0x18_0000;
/// The address of `A`.
pub const MAPPED_AT: u64 = 0x20_0000;
pub const ROOT: u64 = 0x3000;
pub const ROOT_ENTRIES: u32 = 1 << 8;
pub const LEAF: u64 = 0x4000;
/// Bytes of commands that the driver writes for an operation.
pub const OPERATION: u32 = 64;
/// Bytes of a paging buffer.
pub const BUFFER: u64 = 0x2000;
/// The user-mode driver's protection bits for the mapping of `A`.
pub const PROTECTION: u64 = 7;
pub const PAGING_HANDLE: KmdProcessHandle = KmdProcessHandle(100);
pub const USER_HANDLE: KmdProcessHandle = KmdProcessHandle(101);

/// An allocation of the story.
#[derive(Clone, Copy)]
pub struct Thing {
    pub index: u64,
    pub size: u64,
    pub backing_store: u64,
}

/// Mapped, written, copied out, and brought in again.
pub const A: Thing = Thing { index: 0, size: 0x4000, backing_store: 0x100_0000 };
/// As large as all the segment but tables, and not mapped.
pub const B: Thing = Thing { index: 1, size: 0x1_b000, backing_store: 0x200_0000 };

impl Thing {
    pub fn id(self) -> AllocationId {
        AllocationId::from_bits(self.index)
    }

    pub fn handle(self) -> KmdAllocationHandle {
        KmdAllocationHandle(10 + self.index)
    }
}

pub fn process() -> ProcessId {
    ProcessId::from_bits(0)
}

pub fn device() -> DeviceId {
    DeviceId::from_bits(0)
}

pub fn queue() -> PagingQueueId {
    PagingQueueId::from_bits(0)
}

pub fn context() -> ContextId {
    ContextId::from_bits(0)
}

pub fn monitored() -> MonitoredFenceId {
    MonitoredFenceId::from_bits(0)
}

pub fn fence(engine: u32, fence_id: u64) -> EngineFence {
    EngineFence { engine, fence_id }
}

pub fn extent(offset: u64, size: u64) -> Extent {
    Extent { offset, size }
}

pub fn local(offset: u64) -> PhysicalAddress {
    PhysicalAddress { segment: SegmentId(1), offset }
}

/// One memory alone is short, which is of the local group.
pub fn short_of(segment: SegmentId, num_bytes_to_trim: u64, reason: NoMemoryReason) -> Vec<Shortage> {
    let account = MemoryAccount { segment, group: Some(MemorySegmentGroup::Local) };
    vec![Shortage { account, num_bytes_to_trim, reason }]
}

pub fn system(offset: u64) -> PhysicalAddress {
    PhysicalAddress { segment: SegmentId::SYSTEM, offset }
}

/// Numbers events as the manager does, a microsecond apart; operations are packed into their buffers, and plans without it get
/// the event that they are built.
pub fn numbered(mut events: Vec<Event>) -> Vec<NumberedEvent> {
    pack(&mut events);
    let number = |(number, event)| NumberedEvent { number, at: number * 1000, occurred_at: None, event };
    (1..).zip(say_built(events)).map(number).collect()
}

/// Numbers events that need not be a story.
pub fn counted(events: Vec<Event>) -> Vec<NumberedEvent> {
    (1..).zip(events).map(|(number, event)| NumberedEvent { number, at: 0, occurred_at: None, event }).collect()
}

/// Each plan that enters is built with its last operation, or, if it has none, with the last one before it in the stream.
pub fn say_built(events: Vec<Event>) -> Vec<Event> {
    let is_said = |event: &Event| matches!(event, Event::PlanBuilt { .. });
    if events.iter().any(is_said) {
        return events;
    }
    let plan_of = |event: &Event| match *event {
        Event::PagingOperation { plan, .. }
        | Event::IoMmuMapped { plan, .. }
        | Event::IoMmuUnmapped { plan, window: true, .. } => Some(plan),
        _ => None,
    };
    let mut ends = Vec::new();
    let mut last = 0;
    for (at, event) in events.iter().enumerate() {
        let &Event::PlanEntered { plan } = event else { continue };
        let own = (at..events.len()).rev().find(|&at| plan_of(&events[at]) == Some(plan));
        // A plan that is given up, or cut off, half-way is not built.
        let is_half_way = own.is_none() || events.contains(&Event::PlanAbandoned { plan });
        if is_half_way && !events.contains(&Event::PlanRetired { plan }) {
            continue;
        }
        last = own.unwrap_or(at).max(last);
        ends.push((last, plan));
    }
    let (mut said, mut submitted, mut is_open) = (Vec::new(), 0, false);
    for (at, event) in events.into_iter().enumerate() {
        match &event {
            Event::PagingOperation { offset, bytes, .. } => is_open |= offset + bytes > 0,
            Event::PagingBufferSubmitted { signal, .. } => (submitted, is_open) = (signal.fence_id, false),
            _ => {}
        }
        said.push(event);
        let built = ends.iter().filter(|&&(end, _)| end == at);
        let signal = fence(PAGING, submitted + u64::from(is_open));
        said.extend(built.map(|&(_, plan)| Event::PlanBuilt { plan, signal }));
    }
    said
}

/// Puts each operation of the story behind the one before it in its buffer.
fn pack(events: &mut [Event]) {
    let mut filled = 0;
    for event in events {
        match event {
            Event::PagingOperation { offset, bytes: OPERATION, .. } => {
                *offset = filled;
                filled += OPERATION;
            }
            Event::PagingBufferSubmitted { bytes, .. } if filled > 0 => *bytes = std::mem::take(&mut filled),
            _ => {}
        }
    }
}

/// The audit's findings in events.
pub fn audit(events: &[NumberedEvent]) -> Vec<AuditFinding> {
    let mut audit = Audit::new();
    events.iter().for_each(|event| audit.event(event));
    audit.finish()
}

/// An operation that the driver has encoded to its end.
pub fn built(plan: PlanNo, operation: PagingOperation) -> Event {
    let status = BuildStatus::Success;
    Event::PagingOperation { plan, operation, status, offset: 0, bytes: OPERATION, multipass_offset: 0 }
}

/// Entries that are written.
pub struct Entries {
    pub process: KmdProcessHandle,
    pub level: u32,
    pub table: u64,
    pub allocation: Option<Thing>,
    pub virtual_address: u64,
    pub offset: u64,
    pub first: Pte,
    pub count: u64,
}

pub fn write(plan: PlanNo, entries: &Entries) -> Event {
    let Entries { process, level, table, allocation, virtual_address, offset, first, count } = *entries;
    let repeat = !first.flags.contains(PteFlags::VALID);
    let shift = if level == 0 { 12 } else { 21 };
    built(
        plan,
        PagingOperation::UpdatePageTable(UpdatePageTable {
            page_table_level: level,
            allocation: allocation.map(Thing::handle),
            page_table_address: local(table),
            page_table_entries: PteRun { first, first_64kb: None, num_page_table_entries: count as u32 },
            start_index: (virtual_address >> shift) as u32 & 511,
            flags: if repeat { UpdatePageTableFlags::REPEAT } else { UpdatePageTableFlags::empty() },
            driver_protection: if process == USER_HANDLE && level == 0 { PROTECTION } else { 0 },
            allocation_offset_in_bytes: offset,
            process,
            update_mode: UpdateMode::GpuPhysical,
            first_pte_virtual_address: GpuVirtualAddress(virtual_address),
        }),
    )
}

/// Entries that become invalid are the first content of their table.
pub fn initial(mut event: Event) -> Event {
    broken::change_update(&mut event, |op| {
        let invalid = !op.page_table_entries.first.flags.contains(PteFlags::VALID);
        op.flags.set(UpdatePageTableFlags::INITIAL_UPDATE, invalid);
    });
    event
}

/// Entries of a window of the paging process.
fn window(plan: PlanNo, address: u64, size: u64, thing: Thing, offset: u64, first: Pte) -> Event {
    let allocation = Some(thing);
    let (process, level, table, count) = (PAGING_HANDLE, 0, 0x1000, size >> 12);
    write(plan, &Entries { process, level, table, allocation, virtual_address: address, offset, first, count })
}

/// Entries of the mapping of `A`.
pub fn entries_of_a(plan: PlanNo, first: Pte) -> Event {
    let offset = 0;
    let (process, level, table, count) = (USER_HANDLE, 0, LEAF, A.size >> 12);
    write(
        plan,
        &Entries { process, level, table, allocation: Some(A), virtual_address: MAPPED_AT, offset, first, count },
    )
}

pub fn flush_a(plan: PlanNo) -> Event {
    flush(plan, USER_HANDLE, MAPPED_AT, A.size)
}

/// The leaf table is freed by `plan`, which makes the entry of the root that points to it invalid.
pub fn leaf_freed(plan: PlanNo) -> Vec<Event> {
    let (process, level, table, allocation) = (USER_HANDLE, 1, ROOT, None);
    let (virtual_address, offset, first, count) = (MAPPED_AT, 0, Pte::INVALID, 1);
    vec![
        Event::PageTableFreed {
            plan,
            process: self::process(),
            level: 0,
            page_size: PageSize::Kib4,
            virtual_address: GpuVirtualAddress(MAPPED_AT),
            address: local(LEAF),
            size: 0x1000,
        },
        decided(plan, &[], &[]),
        Event::PlanEntered { plan },
        write(plan, &Entries { process, level, table, allocation, virtual_address, offset, first, count }),
        flush(plan, USER_HANDLE, MAPPED_AT, 512 << 12),
        Event::PagingBufferSubmitted { signal: fence(PAGING, plan), bytes: 0 },
        Event::Completed { signal: fence(PAGING, plan) },
        Event::PlanRetired { plan },
    ]
}

/// The TLB forgets addresses of a process.
pub fn flush(plan: PlanNo, process: KmdProcessHandle, start: u64, size: u64) -> Event {
    let root = if process == USER_HANDLE { ROOT } else { 0 };
    let op = FlushTlb {
        root_page_table_address: local(root),
        process,
        start_virtual_address: GpuVirtualAddress(start),
        end_virtual_address: GpuVirtualAddress(start + size),
    };
    built(plan, PagingOperation::FlushTlb(op))
}

/// The events of the story, without numbers.
///
/// 1. `A` is mapped: plan 1 makes the page tables.
/// 2. `A` becomes resident: plan 2 fills it. Submission 1 writes to it.
/// 3. `B` becomes resident and needs all the room: plan 3 copies `A` out, plan 4 fills `B`. Submission 2 requires it.
/// 4. `A` becomes resident again: plan 5 takes `B` out, which was not written to, and copies `A` in.
pub fn story() -> Vec<Event> {
    let mut events = objects();
    events.extend(map_a());
    events.extend(a_comes_in());
    events.extend(b_replaces_a());
    events.extend(a_replaces_b());
    events
}

/// An allocation that appears in a story.
pub struct NewAllocation {
    pub allocation: AllocationId,
    pub device: DeviceId,
    pub process: ProcessId,
    pub handle: KmdAllocationHandle,
    pub size: u64,
    pub backing_store: u64,
    pub segment: SegmentId,
    pub accessed_physically: bool,
    pub notify: AllocationFlags2,
}

impl NewAllocation {
    /// A page that the device of the story makes, for segment 1.
    pub fn of(allocation: AllocationId) -> Self {
        Self {
            allocation,
            device: device(),
            process: process(),
            handle: KmdAllocationHandle(allocation.to_bits()),
            size: PAGE_SIZE,
            backing_store: 0,
            segment: SegmentId(1),
            accessed_physically: false,
            notify: AllocationFlags2::empty(),
        }
    }

    pub fn event(self) -> Event {
        let Self { allocation, device, process, handle, size, backing_store, segment, accessed_physically, notify } =
            self;
        Event::AllocationCreated {
            allocation,
            device,
            process,
            handle,
            size,
            priority: 1,
            backing_store,
            supported_segment_set: SegmentSet::of(segment).0,
            preferred_segment: None,
            accessed_physically,
            notify,
            shared: false,
            existing_sys_mem: false,
            permanent_sys_mem: false,
            cached: false,
            disable_large_page_mapping: false,
            explicit_residency_notification: false,
        }
    }
}

fn objects() -> Vec<Event> {
    let (process, device, queue) = (process(), device(), queue());
    let created = |thing: Thing| {
        let (handle, size, backing_store) = (thing.handle(), thing.size, thing.backing_store);
        NewAllocation { handle, size, backing_store, ..NewAllocation::of(thing.id()) }.event()
    };
    vec![
        Event::AdapterStarted {
            wddm_version: WddmVersion::WDDM2_0.0,
            addressing_model: AddressingModel::GpuMmu,
            map_aperture2_supported: false,
            num_slots: 0,
            preemption_aware: false,
            notification_revision: NotificationRevision::Current,
            memory: vec![MemorySegmentFacts {
                segment: SegmentId(1),
                size: 0x2_0000,
                page_size: PageSize::Kib4,
                cpu_visible: true,
                group: Some(MemorySegmentGroup::Local),
                page_table_area: 0,
            }],
            apertures: vec![ApertureSegmentFacts { segment: SegmentId(2), size: 0x2_0000, cache_coherent: false }],
            system_group: MemorySegmentGroup::NonLocal,
            paging_tables_segment: SegmentId(1),
            system_commit_limit: 0,
            dummy_page: system(0x1_0000),
            engines: vec![EngineKind::Paging, EngineKind::Render3d],
            level_bits: vec![9, 9],
            table_bytes: vec![0x1000, 0x1000],
            leaf_table_64kb_bytes: None,
            page_table_update_mode: PageTableUpdateMode::GpuPhysical,
            invalid_tlb_entries_not_cached: true,
            paging_tables_by_cpu: false,
            cache_coherent_memory_supported: false,
            zero_in_pte_supported: false,
            large_page_supported: false,
            allow_non_aligned_large_page_address: false,
            sys_mem_large_page_supported: false,
            restrict_budget_local: None,
            restrict_budget_non_local: None,
            paging_buffer_bytes: BUFFER,
            va_bits: 30,
            paging_va_size: WINDOW,
            paging_process: PAGING_HANDLE,
            paging_tables: vec![extent(0, 0x3000)],
            paging_table_bytes: 0x3000,
            tdr_limit_count: 5,
            tdr_limit_time: 60_000_000_000,
            tdr_quantum: None,
            tdr_dependent_delay: None,
        },
        Event::ProcessCreated { process, handle: USER_HANDLE },
        Event::DeviceCreated { device, process, residency: vidmm::DeviceResidency::DeviceList },
        Event::ContextCreated { context: context(), device, engine: RENDER },
        Event::PagingQueueCreated { queue, device, priority: 0 },
        Event::MonitoredFenceCreated { fence: monitored(), value: 0, device: None },
        created(A),
        created(B),
    ]
}

fn map_a() -> Vec<Event> {
    let placed = |level, address| Event::PageTablePlaced {
        plan: 1,
        process: process(),
        level,
        page_size: PageSize::Kib4,
        virtual_address: GpuVirtualAddress(if level == 0 { MAPPED_AT } else { 0 }),
        address: local(address),
        size: 0x1000,
    };
    let (process_handle, offset) = (USER_HANDLE, 0);
    let table = |level, table, virtual_address, first, count| {
        let (process, allocation) = (process_handle, None);
        let entries = Entries { process, level, table, allocation, virtual_address, offset, first, count };
        initial(write(1, &entries))
    };
    vec![
        Event::GpuVirtualAddressMapped {
            process: process(),
            virtual_address: GpuVirtualAddress(MAPPED_AT),
            size: A.size,
            allocation: A.id(),
            allocation_offset: 0,
            page_size: PageSize::Kib4,
            read_only: false,
            no_execute: false,
            driver_protection: PROTECTION,
            queue: queue(),
            paging_fence_value: 1,
        },
        placed(1, ROOT),
        placed(0, LEAF),
        decided(1, &[], &[]),
        granted(1, &[1]),
        Event::PlanEntered { plan: 1 },
        table(1, ROOT, 0, Pte::INVALID, 512),
        table(0, LEAF, MAPPED_AT, Pte::INVALID, 512),
        table(1, ROOT, MAPPED_AT, Pte::valid(local(LEAF)), 1),
        Event::PagingBufferSubmitted { signal: fence(PAGING, 1), bytes: 192 },
        Event::Completed { signal: fence(PAGING, 1) },
        Event::PlanRetired { plan: 1 },
        Event::PagingFenceSignaled { queue: queue(), value: 1 },
    ]
}

fn a_comes_in() -> Vec<Event> {
    let place = [extent(0x5000, A.size)];
    let mut events = vec![
        make_resident(A, 0, 2),
        placed(2, A, &place, ContentSource::Fill),
        decided(2, &[], &[]),
        granted(2, &[2]),
        Event::PlanEntered { plan: 2 },
    ];
    events.extend(fill(2, A, &place));
    events.extend([
        entries_of_a(2, Pte::valid(local(0x5000))),
        Event::PagingBufferSubmitted { signal: fence(PAGING, 2), bytes: 640 },
        submitted(1, &[], &[1]),
        Event::RootPageTableSet { context: context(), address: local(ROOT), num_entries: ROOT_ENTRIES },
        dispatched(1, 2),
        Event::Completed { signal: fence(PAGING, 2) },
        Event::PlanRetired { plan: 2 },
        Event::PagingFenceSignaled { queue: queue(), value: 2 },
        evict(A, EvictFlags::empty(), 1),
    ]);
    events
}

fn b_replaces_a() -> Vec<Event> {
    let (left, place) = ([extent(0x5000, A.size)], [extent(0x9000, 0x1_7000), extent(0x5000, 0x4000)]);
    let mut events = vec![
        make_resident(B, 1, 3),
        evicted(3, A, &left, true),
        decided(3, &[1], &[]),
        placed(4, B, &place, ContentSource::Fill),
        decided(4, &[], &[3]),
        granted(3, &[4]),
        submitted(2, &[1], &[2]),
        Event::Completed { signal: fence(RENDER, 1) },
        monitored_reaches(1),
        Event::PlanEntered { plan: 3 },
        Event::PlanEntered { plan: 4 },
        entries_of_a(3, Pte::INVALID),
        flush_a(3),
    ];
    events.extend(transfer(3, A, &left, MemoryTransferDirection::LocalToSystem));
    events.push(Event::PagingBufferSubmitted { signal: fence(PAGING, 3), bytes: 640 });
    events.extend(fill(4, B, &place));
    events.extend([
        Event::PagingBufferSubmitted { signal: fence(PAGING, 4), bytes: 640 },
        dispatched(2, 4),
        Event::Completed { signal: fence(PAGING, 3) },
        Event::Completed { signal: fence(PAGING, 4) },
        Event::PlanRetired { plan: 3 },
        Event::PlanRetired { plan: 4 },
        Event::PagingFenceSignaled { queue: queue(), value: 3 },
        Event::Completed { signal: fence(RENDER, 2) },
        monitored_reaches(2),
        evict(B, EvictFlags::all(), 2),
    ]);
    events
}

fn a_replaces_b() -> Vec<Event> {
    let (left, place) = ([extent(0x9000, 0x1_7000), extent(0x5000, 0x4000)], [extent(0x1_0000, A.size)]);
    let mut events = vec![
        make_resident(A, 2, 4),
        evicted(5, B, &left, false),
        placed(5, A, &place, ContentSource::BackingStore),
        decided(5, &[], &[]),
        granted(4, &[5]),
        Event::PlanEntered { plan: 5 },
    ];
    events.extend(transfer(5, A, &place, MemoryTransferDirection::SystemToLocal));
    events.extend([
        entries_of_a(5, Pte::valid(local(0x1_0000))),
        Event::PagingBufferSubmitted { signal: fence(PAGING, 5), bytes: 640 },
        Event::Completed { signal: fence(PAGING, 5) },
        Event::PlanRetired { plan: 5 },
        Event::PagingFenceSignaled { queue: queue(), value: 4 },
        monitored_reaches(3),
    ]);
    events
}

pub fn make_resident(thing: Thing, after_submission: u64, paging_fence_value: u64) -> Event {
    let (device, queue, allocations) = (device(), queue(), vec![thing.id()]);
    Event::MakeResident {
        device,
        queue,
        waiting: if paging_fence_value > 0 { allocations.clone() } else { Vec::new() },
        allocations,
        flags: MakeResidentFlags::empty(),
        after_submission,
        paging_fence_value,
    }
}

pub fn evict(thing: Thing, flags: EvictFlags, after_submission: u64) -> Event {
    Event::Evict { device: device(), allocations: vec![thing.id()], flags, after_submission, num_bytes_to_trim: 0 }
}

pub fn granted(paging_fence_value: u64, plans: &[PlanNo]) -> Event {
    Event::Granted { device: device(), queue: queue(), paging_fence_value, plans: plans.to_vec() }
}

pub fn decided(plan: PlanNo, submissions: &[u64], after: &[PlanNo]) -> Event {
    let waits = submissions.iter().map(|&submission| (device(), submission)).collect();
    Event::PlanDecided { plan, waits, after: after.to_vec() }
}

fn placed(plan: PlanNo, thing: Thing, extents: &[Extent], content: ContentSource) -> Event {
    let (allocation, segment, extents) = (thing.id(), SegmentId(1), extents.to_vec());
    Event::Placed { plan, allocation, segment, extents, content }
}

fn evicted(plan: PlanNo, thing: Thing, extents: &[Extent], copied: bool) -> Event {
    let (allocation, extents, reason) = (thing.id(), extents.to_vec(), EvictReason::RoomWanted);
    Event::Evicted {
        plan,
        allocation,
        segment: SegmentId(1),
        extents,
        copied,
        reason,
        discarded: false,
        wanted_by: None,
    }
}

/// Room is made for a device.
pub fn for_device(device: DeviceId) -> WantedBy {
    WantedBy { device, request: None, allocation: None }
}

/// Work that waits for values of the monitored fence, and signals others.
pub fn submitted(submission: u64, waits: &[u64], signals: &[u64]) -> Event {
    let values = |values: &[u64]| values.iter().map(|&value| (monitored(), value)).collect();
    Event::Submitted {
        device: device(),
        context: context(),
        submission,
        waits: values(waits),
        signals: values(signals),
    }
}

/// A packet reads an address without a mapping, while no other packet is under way.
pub fn page_fault(signal: EngineFence, virtual_address: GpuVirtualAddress) -> Event {
    Event::PageFault {
        signal,
        virtual_address,
        write: false,
        allocation: None,
        flags: PageFaultFlags::empty(),
        page_table_level: 0,
        fault_error_code: FaultErrorCode::PAGE_FAULT,
        below: None,
        above: None,
        in_flight: vec![signal],
    }
}

/// The fault is before the mapping of `A`, and nothing is mapped before it.
pub fn before_a(mut fault: Event) -> Event {
    let Event::PageFault { above, .. } = &mut fault else { panic!("not a fault") };
    *above = Some(Neighbour { allocation: A.id(), virtual_address: GpuVirtualAddress(MAPPED_AT), size: A.size });
    fault
}

/// Time passes, and all stays as it is.
pub fn time_passes() -> [Event; 2] {
    let TrimIntervals { min, max, idle } = TrimIntervals::default();
    [Event::TrimIntervalsSet { min, max, idle }, Event::TrimIntervalsSet { min, max, idle }]
}

pub fn monitored_reaches(value: u64) -> Event {
    Event::MonitoredFenceSignaled { fence: monitored(), value }
}

/// Submission `submission` runs once packet `paging` of the paging engine has ended.
fn dispatched(submission: u64, paging: u64) -> Event {
    let waits = vec![fence(PAGING, paging)];
    Event::Dispatched { device: device(), submission, signal: fence(RENDER, submission), waits }
}

/// The chunks of an allocation: offset and size.
fn chunks(thing: Thing) -> impl Iterator<Item = (u64, u64)> {
    (0..thing.size).step_by(WINDOW as usize).map(move |offset| (offset, WINDOW.min(thing.size - offset)))
}

/// Maps the local window, page by page, to a chunk, after a flush of both windows.
fn map_local(plan: PlanNo, thing: Thing, place: &[Extent], (offset, size): (u64, u64)) -> Vec<Event> {
    let flushed = flush(plan, PAGING_HANDLE, SYSTEM_WINDOW, LOCAL_WINDOW + WINDOW - SYSTEM_WINDOW);
    let page = |done: u64| {
        let address = Pte::valid(local(byte_at(place, offset + done)));
        window(plan, LOCAL_WINDOW + done, 0x1000, thing, offset + done, address)
    };
    std::iter::once(flushed).chain((0..size).step_by(0x1000).map(page)).collect()
}

fn byte_at(place: &[Extent], mut offset: u64) -> u64 {
    for extent in place {
        if offset < extent.size {
            return extent.offset + offset;
        }
        offset -= extent.size;
    }
    panic!("the story places whole allocations")
}

fn fill(plan: PlanNo, thing: Thing, place: &[Extent]) -> Vec<Event> {
    let chunk = |(offset, size)| {
        let mut events = map_local(plan, thing, place, (offset, size));
        let op = FillVirtual {
            allocation: thing.handle(),
            allocation_offset_in_bytes: offset,
            fill_size_in_bytes: size,
            fill_pattern: 0,
            destination_virtual_address: GpuVirtualAddress(LOCAL_WINDOW),
        };
        events.push(built(plan, PagingOperation::VirtualFill(op)));
        events.push(window(plan, LOCAL_WINDOW, size, thing, 0, Pte::INVALID));
        events
    };
    chunks(thing).flat_map(chunk).collect()
}

fn transfer(plan: PlanNo, thing: Thing, place: &[Extent], way: MemoryTransferDirection) -> Vec<Event> {
    let (source, destination) = match way {
        MemoryTransferDirection::LocalToSystem => (LOCAL_WINDOW, SYSTEM_WINDOW),
        _ => (SYSTEM_WINDOW, LOCAL_WINDOW),
    };
    let chunk = |(offset, size)| {
        let mut events = map_local(plan, thing, place, (offset, size));
        let store = Pte::valid(system(thing.backing_store + offset));
        events.push(window(plan, SYSTEM_WINDOW, size, thing, offset, store));
        let op = TransferVirtual {
            allocation: thing.handle(),
            allocation_offset_in_bytes: offset,
            transfer_size_in_bytes: size,
            source_virtual_address: GpuVirtualAddress(source),
            destination_virtual_address: GpuVirtualAddress(destination),
            transfer_direction: way,
            flags: TransferVirtualFlags::empty(),
        };
        events.push(built(plan, PagingOperation::VirtualTransfer(op)));
        events.push(window(plan, LOCAL_WINDOW, size, thing, 0, Pte::INVALID));
        events.push(window(plan, SYSTEM_WINDOW, size, thing, 0, Pte::INVALID));
        events
    };
    chunks(thing).flat_map(chunk).collect()
}
