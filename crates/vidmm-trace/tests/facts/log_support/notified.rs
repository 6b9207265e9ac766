//! Small runs in which an allocation is resident in system memory and leaves it, written by hand from the documents.

use vidmm::MemorySegmentGroup;
use vidmm::contract::*;
use vidmm::event::{ApertureSegmentFacts, ContentSource, Event, EvictReason, MemorySegmentFacts};
use vidmm::*;

use super::broken::{Broken, change_update};
use super::*;

pub const MIB: u64 = 1 << 20;
/// The driver's answer for the size of a window.
pub const ANSWER_MIB: u32 = 4;
pub const NOTIFY_WINDOW: u64 = 4 * MIB;
/// The address of the window.
pub const WINDOW_AT: u64 = 4 * MIB;
/// Larger than two windows.
pub const T: Thing = Thing { index: 0, size: 9 * MIB, backing_store: 0x4000_0000 };
/// The chunks in which the driver is notified of it: offset and size.
pub const CHUNKS: [(u64, u64); 3] = [(0, 4 * MIB), (4 * MIB, 4 * MIB), (8 * MIB, MIB)];
pub const MEMORY: SegmentId = SegmentId(1);
pub const APERTURE: SegmentId = SegmentId(2);
/// Its range in the aperture, in runs that place it there.
pub const RANGE: Extent = Extent { offset: 3 * MIB, size: T.size };
pub const DUMMY_PAGE: u64 = 0x9_0000;
/// The plans: `T` comes in, and leaves.
pub const IN: PlanNo = 2;
pub const OUT: PlanNo = 3;
/// A leaf table of each mapping.
const LEAVES: [u64; 2] = [0x6000, 0x8000];

/// A part of `T` that its process sees.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    pub at: u64,
    pub offset: u64,
    pub size: u64,
    leaf: u64,
}

pub const SEEN: [Seen; 2] = [
    Seen { at: 8 * MIB, offset: MIB, size: 2 * MIB, leaf: LEAVES[0] },
    Seen { at: 16 * MIB, offset: 0, size: MIB, leaf: LEAVES[1] },
];

/// A kind of run.
#[derive(Clone, Copy)]
pub struct Run {
    pub model: AddressingModel,
    pub revision: NotificationRevision,
    pub notify: AllocationFlags2,
    /// `T` is accessed physically, and so in the aperture.
    pub in_aperture: bool,
    /// `T` is destroyed while it is resident.
    pub destroyed: bool,
}

/// On an adapter with page tables, in implicit system memory.
pub const IMPLICIT: Run = Run {
    model: AddressingModel::GpuMmu,
    revision: NotificationRevision::Current,
    notify: AllocationFlags2::NOTIFY_EVICTION,
    in_aperture: false,
    destroyed: false,
};
/// As `IMPLICIT`, in the aperture.
pub const IN_APERTURE: Run = Run { in_aperture: true, ..IMPLICIT };
/// Behind the IOMMU, with a domain for each process and with both notifications.
pub const BY_PROCESS: Run = Run { model: AddressingModel::GpuVaIoMmu, notify: AllocationFlags2::all(), ..IMPLICIT };
/// As `BY_PROCESS`, with one domain for all.
pub const GLOBAL: Run = Run { model: AddressingModel::GpuVaIoMmuGlobal, ..BY_PROCESS };
/// The text of August 2024, with both notifications.
pub const AUGUST: Run = Run { revision: NotificationRevision::August2024, notify: AllocationFlags2::all(), ..IMPLICIT };

impl Run {
    pub fn has_page_tables(self) -> bool {
        self.model == AddressingModel::GpuMmu
    }

    /// The place of `T` while it is resident.
    pub fn place(self) -> (SegmentId, Extent) {
        match self.in_aperture {
            true => (APERTURE, RANGE),
            false => (SegmentId::SYSTEM, Extent { offset: T.backing_store, size: T.size }),
        }
    }

    /// The domain of the user's process, or the paging process.
    pub fn domain(self, process: KmdProcessHandle) -> IoMmuDomain {
        match self.model {
            AddressingModel::GpuVaIoMmuGlobal => IoMmuDomain::Global,
            _ => IoMmuDomain::Process(process),
        }
    }

    /// The events of the run, without numbers:
    ///
    /// 1. `T` is mapped twice: plan 1 makes the page tables, if there are any.
    /// 2. `T` becomes resident: plan 2. Submission 1 uses it.
    /// 3. `T` leaves: plan 3.
    pub fn story(self) -> Broken {
        let mut events = self.objects();
        events.extend(self.mapped());
        events.extend(self.comes_in());
        events.extend(self.leaves());
        number_packets(&mut events);
        Broken(events)
    }

    fn objects(self) -> Vec<Event> {
        let (process, device, queue) = (process(), device(), queue());
        let memory = MemorySegmentFacts {
            segment: MEMORY,
            size: 64 * MIB,
            page_size: PageSize::Kib4,
            cpu_visible: false,
            group: Some(MemorySegmentGroup::Local),
            page_table_area: 0,
        };
        let tables = self.has_page_tables();
        let beyond = DriverFinding::AllocationBeyondPagingVa { size: T.size, paging_va_size: NOTIFY_WINDOW };
        let mut events = vec![
            Event::AdapterStarted {
                wddm_version: WddmVersion::WDDM3_2.0,
                addressing_model: self.model,
                map_aperture2_supported: false,
                num_slots: 0,
                preemption_aware: false,
                notification_revision: self.revision,
                memory: tables.then_some(memory).into_iter().collect(),
                apertures: vec![ApertureSegmentFacts { segment: APERTURE, size: 64 * MIB, cache_coherent: false }],
                system_group: if tables { MemorySegmentGroup::NonLocal } else { MemorySegmentGroup::Local },
                paging_tables_segment: if tables { MEMORY } else { SegmentId::SYSTEM },
                system_commit_limit: T.size,
                dummy_page: system(DUMMY_PAGE),
                engines: vec![EngineKind::Paging, EngineKind::Render3d],
                level_bits: if tables { vec![10, 8] } else { vec![] },
                table_bytes: if tables { vec![0x2000, 0x1000] } else { vec![] },
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
                paging_va_size: NOTIFY_WINDOW,
                paging_process: PAGING_HANDLE,
                paging_tables: if tables { vec![extent(0, 0x3000)] } else { vec![] },
                paging_table_bytes: if tables { 0x3000 } else { 0 },
                tdr_limit_count: 5,
                tdr_limit_time: 60_000_000_000,
                tdr_quantum: None,
                tdr_dependent_delay: None,
            },
            Event::PagingVaQueried {
                query_type: 48,
                physical_adapter_index: 0,
                input_data_size: 4,
                output_data_size: 4,
                answer_mib: Some(ANSWER_MIB),
                paging_va_size: NOTIFY_WINDOW,
            },
            Event::ProcessCreated { process, handle: USER_HANDLE },
            Event::DeviceCreated { device, process, residency: vidmm::DeviceResidency::DeviceList },
            Event::ContextCreated { context: context(), device, engine: RENDER },
            Event::PagingQueueCreated { queue, device, priority: 0 },
            NewAllocation {
                handle: T.handle(),
                size: T.size,
                backing_store: T.backing_store,
                segment: APERTURE,
                accessed_physically: self.in_aperture,
                notify: self.notify,
                ..NewAllocation::of(T.id())
            }
            .event(),
        ];
        if self.notify.contains(AllocationFlags2::NOTIFY_EVICTION) {
            events.push(Event::DriverFinding { finding: beyond });
        }
        events
    }

    fn mapped(self) -> Vec<Event> {
        let map = |(seen, value): (Seen, u64)| Event::GpuVirtualAddressMapped {
            process: process(),
            virtual_address: GpuVirtualAddress(seen.at),
            size: seen.size,
            allocation: T.id(),
            allocation_offset: seen.offset,
            page_size: PageSize::Kib4,
            read_only: false,
            no_execute: false,
            driver_protection: PROTECTION,
            queue: queue(),
            paging_fence_value: value,
        };
        let mut events: Vec<Event> = SEEN.into_iter().zip(1..).map(map).collect();
        if self.has_page_tables() {
            events.extend([table_placed(1, 0, ROOT), table_placed(0, SEEN[0].at, LEAVES[0])]);
            events.push(table_placed(0, SEEN[1].at, LEAVES[1]));
        }
        events.extend([decided(1, &[], &[]), granted(1, &[1]), granted(2, &[1]), Event::PlanEntered { plan: 1 }]);
        if self.has_page_tables() {
            events.extend([table(1, ROOT, 0, Pte::INVALID), table(0, LEAVES[0], SEEN[0].at, Pte::INVALID)]);
            events.push(table(0, LEAVES[1], SEEN[1].at, Pte::INVALID));
            events.extend(SEEN.map(|seen| table(1, ROOT, seen.at, Pte::valid(local(seen.leaf)))));
            events.extend(packet());
        }
        events.push(Event::PlanRetired { plan: 1 });
        events.extend([1, 2].map(|value| Event::PagingFenceSignaled { queue: queue(), value }));
        events
    }

    fn comes_in(self) -> Vec<Event> {
        let mut events = vec![
            make_resident(T, 0, 3),
            self.placed(IN),
            decided(IN, &[], &[]),
            granted(3, &[IN]),
            Event::PlanEntered { plan: IN },
        ];
        events.extend(self.in_aperture.then(|| map_aperture(IN)));
        events.extend(SEEN.map(|seen| match self.has_page_tables() {
            true => self.entries(IN, seen),
            false => self.io_mmu_mapped(IN, seen),
        }));
        if self.has_page_tables() || self.in_aperture {
            events.extend(packet());
        }
        events.extend([
            Event::PlanRetired { plan: IN },
            Event::PagingFenceSignaled { queue: queue(), value: 3 },
            submitted(1, &[], &[]),
        ]);
        if self.has_page_tables() {
            events.push(Event::RootPageTableSet {
                context: context(),
                address: local(ROOT),
                num_entries: ROOT_ENTRIES,
            });
        }
        let signal = fence(RENDER, 1);
        events.push(Event::Dispatched { device: device(), submission: 1, signal, waits: vec![] });
        events
    }

    fn leaves(self) -> Vec<Event> {
        let goes = if self.destroyed { t_destroyed() } else { evict(T, EvictFlags::empty(), 1) };
        let mut events = vec![
            goes,
            self.evicted(OUT),
            decided(OUT, &[1], &[]),
            Event::Completed { signal: fence(RENDER, 1) },
            Event::PlanEntered { plan: OUT },
        ];
        let by_mapping = self.revision == NotificationRevision::Current;
        let unmap = self.notify.contains(AllocationFlags2::NOTIFY_IO_MMU_UNMAP);
        if self.notify.contains(AllocationFlags2::NOTIFY_EVICTION) && !self.destroyed {
            events.extend(self.chunks(NotifyAllocFlags::EVICTION));
        }
        if unmap && !by_mapping && !self.destroyed {
            events.extend(self.chunks(NotifyAllocFlags::IO_MMU_UNMAP));
        }
        if self.has_page_tables() {
            events.extend(SEEN.map(|seen| invalid_entries(OUT, seen)));
            events.extend(SEEN.map(|seen| flush(OUT, USER_HANDLE, seen.at, seen.size)));
        }
        events.extend(self.in_aperture.then(|| unmap_aperture(OUT)));
        if unmap && by_mapping && !self.has_page_tables() {
            events.extend(SEEN.map(|seen| notify_unmap(OUT, seen)));
        }
        if self.has_page_tables() || self.in_aperture || unmap && by_mapping {
            events.extend(packet());
        }
        if !self.has_page_tables() {
            events.extend(SEEN.map(|seen| self.io_mmu_unmapped(OUT, seen)));
        }
        events.push(Event::PlanRetired { plan: OUT });
        if self.destroyed {
            events.push(Event::AllocationReclaimed { allocation: T.id() });
        }
        events
    }

    pub fn placed(self, plan: PlanNo) -> Event {
        let (segment, extent) = self.place();
        let (allocation, content) = (T.id(), ContentSource::InPlace);
        Event::Placed { plan, allocation, segment, extents: vec![extent], content }
    }

    pub fn evicted(self, plan: PlanNo) -> Event {
        let (segment, extent) = self.place();
        let reason = if self.destroyed { EvictReason::Destroyed } else { EvictReason::EvictRequested };
        Event::Evicted {
            plan,
            allocation: T.id(),
            segment,
            extents: vec![extent],
            copied: false,
            reason,
            discarded: false,
            wanted_by: None,
        }
    }

    /// The entries of a mapping point to the place of `T`.
    pub fn entries(self, plan: PlanNo, seen: Seen) -> Event {
        let (segment, extent) = self.place();
        let address = PhysicalAddress { segment, offset: extent.offset + seen.offset };
        entries(plan, seen, Pte::valid(address))
    }

    /// The host maps the parts of `T` that a process sees.
    pub fn io_mmu_mapped(self, plan: PlanNo, seen: Seen) -> Event {
        Event::IoMmuMapped {
            plan,
            domain: self.domain(USER_HANDLE),
            virtual_address: GpuVirtualAddress(seen.at),
            allocation: T.id(),
            allocation_offset: seen.offset,
            size: seen.size,
            window: false,
        }
    }

    pub fn io_mmu_unmapped(self, plan: PlanNo, seen: Seen) -> Event {
        let (domain, virtual_address) = (self.domain(USER_HANDLE), GpuVirtualAddress(seen.at));
        Event::IoMmuUnmapped { plan, domain, virtual_address, size: seen.size, window: false }
    }

    /// The driver is notified of all of `T`, chunk by chunk, each in a window of the paging process.
    fn chunks(self, flags: NotifyAllocFlags) -> Vec<Event> {
        let chunk = |(offset, size)| {
            let told = notify_chunk(OUT, flags, (offset, size));
            let [submitted, completed] = packet();
            if self.has_page_tables() {
                let window = |first| window_entries(OUT, (offset, size), first);
                let shown = window(Pte::valid(system(T.backing_store + offset)));
                let flushed = flush(OUT, PAGING_HANDLE, WINDOW_AT, size);
                vec![shown, flushed, told, submitted, completed, window(Pte::INVALID)]
            } else {
                let mapped = self.window_mapped((offset, size));
                vec![mapped, told, submitted, completed, self.window_unmapped(size)]
            }
        };
        CHUNKS.into_iter().flat_map(chunk).collect()
    }

    pub fn window_mapped(self, (allocation_offset, size): (u64, u64)) -> Event {
        let (domain, virtual_address) = (self.domain(PAGING_HANDLE), GpuVirtualAddress(WINDOW_AT));
        let (plan, allocation, window) = (OUT, T.id(), true);
        Event::IoMmuMapped { plan, domain, virtual_address, allocation, allocation_offset, size, window }
    }

    pub fn window_unmapped(self, size: u64) -> Event {
        let (domain, virtual_address) = (self.domain(PAGING_HANDLE), GpuVirtualAddress(WINDOW_AT));
        Event::IoMmuUnmapped { plan: OUT, domain, virtual_address, size, window: true }
    }
}

fn t_destroyed() -> Event {
    Event::AllocationDestroyed { allocation: T.id(), flags: DestroyFlags::empty() }
}

fn table_placed(level: u32, virtual_address: u64, address: u64) -> Event {
    Event::PageTablePlaced {
        plan: 1,
        process: process(),
        level,
        page_size: PageSize::Kib4,
        virtual_address: GpuVirtualAddress(virtual_address),
        address: local(address),
        size: 0x2000,
    }
}

/// Entries of a table: all of them, if they become invalid. A leaf table covers 4 MiB.
fn table(level: u32, table: u64, virtual_address: u64, first: Pte) -> Event {
    let all = if level == 0 { 1024 } else { 256 };
    let count = if first == Pte::INVALID { all } else { 1 };
    let (process, allocation, offset) = (USER_HANDLE, None, 0);
    let entries = Entries { process, level, table, allocation, virtual_address, offset, first, count };
    let mut event = initial(write(1, &entries));
    change_update(&mut event, |op| op.start_index = if level == 0 { 0 } else { (virtual_address >> 22) as u32 });
    event
}

pub fn entries(plan: PlanNo, seen: Seen, first: Pte) -> Event {
    let Seen { at, offset, size, leaf } = seen;
    let (process, level, allocation, count) = (USER_HANDLE, 0, Some(T), size >> 12);
    write(plan, &Entries { process, level, table: leaf, allocation, virtual_address: at, offset, first, count })
}

pub fn invalid_entries(plan: PlanNo, seen: Seen) -> Event {
    entries(plan, seen, Pte::INVALID)
}

/// Entries of the window: of a chunk, or none.
pub fn window_entries(plan: PlanNo, (offset, size): (u64, u64), first: Pte) -> Event {
    let (process, level, table, allocation, count) = (PAGING_HANDLE, 0, 0x1000, Some(T), size >> 12);
    write(plan, &Entries { process, level, table, allocation, virtual_address: WINDOW_AT, offset, first, count })
}

pub fn map_aperture(plan: PlanNo) -> Event {
    let op = MapApertureSegment {
        allocation: T.handle(),
        segment_id: APERTURE,
        offset_in_pages: RANGE.offset / PAGE_SIZE,
        number_of_pages: RANGE.size / PAGE_SIZE,
        mdl: system(T.backing_store),
        flags: MapApertureFlags::empty(),
    };
    built(plan, PagingOperation::MapApertureSegment(op))
}

pub fn unmap_aperture(plan: PlanNo) -> Event {
    let op = UnmapApertureSegment {
        allocation: T.handle(),
        segment_id: APERTURE,
        offset_in_pages: RANGE.offset / PAGE_SIZE,
        number_of_pages: RANGE.size / PAGE_SIZE,
        dummy_page: system(DUMMY_PAGE),
    };
    built(plan, PagingOperation::UnmapApertureSegment(op))
}

pub fn notify_chunk(plan: PlanNo, flags: NotifyAllocFlags, (offset_in_bytes, size_in_bytes): (u64, u64)) -> Event {
    let gpu_virtual_address_at_offset = GpuVirtualAddress(WINDOW_AT);
    let (allocation, process) = (T.handle(), None);
    let op = NotifyAlloc { allocation, process, flags, offset_in_bytes, size_in_bytes, gpu_virtual_address_at_offset };
    built(plan, PagingOperation::NotifyAlloc(op))
}

pub fn notify_unmap(plan: PlanNo, seen: Seen) -> Event {
    let op = NotifyAlloc {
        allocation: T.handle(),
        process: Some(USER_HANDLE),
        flags: NotifyAllocFlags::IO_MMU_UNMAP,
        offset_in_bytes: seen.offset,
        size_in_bytes: seen.size,
        gpu_virtual_address_at_offset: GpuVirtualAddress(seen.at),
    };
    built(plan, PagingOperation::NotifyAlloc(op))
}

/// The open buffer is handed to the paging engine, which ends it.
pub fn packet() -> [Event; 2] {
    let signal = fence(PAGING, 0);
    [Event::PagingBufferSubmitted { signal, bytes: 0 }, Event::Completed { signal }]
}

/// Numbers the packets of the paging engine: each kind of event counts for itself.
pub fn number_packets(events: &mut [Event]) {
    let (mut submitted, mut completed) = (0, 0);
    for event in events {
        let (count, signal) = match event {
            Event::PagingBufferSubmitted { signal, .. } => (&mut submitted, signal),
            Event::Completed { signal } if signal.engine == PAGING => (&mut completed, signal),
            _ => continue,
        };
        *count += 1;
        signal.fence_id = *count;
    }
}

/// The story with new numbers of packets.
pub fn renumbered(mut story: Broken) -> Broken {
    number_packets(&mut story.0);
    story
}

/// A notification of a chunk that begins at byte `offset`.
pub fn chunk(flags: NotifyAllocFlags, offset: u64) -> impl Fn(&Event) -> bool + Copy {
    move |event| match event {
        Event::PagingOperation { operation: PagingOperation::NotifyAlloc(op), .. } => {
            op.flags == flags && op.offset_in_bytes == offset && op.process.is_none()
        }
        _ => false,
    }
}

/// An eviction notification of a chunk.
pub fn evicted_chunk(offset: u64) -> impl Fn(&Event) -> bool + Copy {
    chunk(NotifyAllocFlags::EVICTION, offset)
}

/// Changes the notification of an event.
pub fn change_notify(event: &mut Event, change: impl FnOnce(&mut NotifyAlloc)) {
    match event {
        Event::PagingOperation { operation: PagingOperation::NotifyAlloc(op), .. } => change(op),
        _ => panic!("not a notification"),
    }
}
