//! Logs as files: every event survives, and a log that is not whole is refused.

use std::collections::BTreeSet;
use std::io::{self, Write};

use crate::log_support::*;
use proptest::prelude::*;
use vidmm::contract::*;
use vidmm::event::{
    ApertureSegmentFacts, BusAccess, ContentSource, Event, EvictReason, Neighbour, PortionBinding, PortionEnd,
    PreemptReason, PrefetchReason, ReclaimReason, RequestName, ResumeReason, SuspendReason, WantedBy,
};
use vidmm::*;
use vidmm_trace::{Audit, LogError, LogHeader, LogReader, LogWriter};

const GUIDE: &str = include_str!("../../../../docs/reference/events.md");
const EVENT_RS: &str = include_str!("../../../vidmm/src/event/mod.rs");

/// Above 2^53, where a reader that goes through floating point loses bits.
const LARGE: u64 = u64::MAX - 2;

/// One or more of every kind of event.
pub fn all_events() -> Vec<Event> {
    let (process, device, queue) =
        (ProcessId::from_bits(LARGE), DeviceId::from_bits(LARGE), PagingQueueId::from_bits(3 << 32));
    let (context, allocation) = (ContextId::from_bits(1 << 32 | 7), AllocationId::from_bits(LARGE));
    let fence_id = MonitoredFenceId::from_bits(u64::MAX);
    let (virtual_address, size, submission, plan) = (GpuVirtualAddress(LARGE), LARGE, LARGE, LARGE);
    let (paging_fence_value, value, kernel, pages) = (LARGE, LARGE, LARGE, LARGE);
    let number = u32::MAX;
    let extents = vec![extent(0, LARGE), extent(LARGE, 1)];
    let signal = fence(number, LARGE);
    let address = local(LARGE);
    let mut events = vec![
        Event::AdapterStarted {
            wddm_version: number,
            addressing_model: AddressingModel::GpuVaIoMmu,
            map_aperture2_supported: true,
            num_slots: number,
            preemption_aware: true,
            notification_revision: NotificationRevision::August2024,
            memory: vec![],
            apertures: vec![ApertureSegmentFacts { segment: SegmentId(32), size, cache_coherent: true }],
            system_group: vidmm::MemorySegmentGroup::Local,
            paging_tables_segment: SegmentId::SYSTEM,
            system_commit_limit: LARGE,
            dummy_page: system(LARGE),
            engines: vec![EngineKind::Paging, EngineKind::Render3d, EngineKind::Copy],
            level_bits: vec![13, 10, 12],
            table_bytes: vec![LARGE, 4096, 0],
            leaf_table_64kb_bytes: Some(LARGE),
            page_table_update_mode: PageTableUpdateMode::CpuVirtual,
            invalid_tlb_entries_not_cached: true,
            paging_tables_by_cpu: true,
            cache_coherent_memory_supported: true,
            zero_in_pte_supported: true,
            large_page_supported: true,
            allow_non_aligned_large_page_address: true,
            sys_mem_large_page_supported: true,
            restrict_budget_local: Some(LARGE),
            restrict_budget_non_local: Some(LARGE),
            paging_buffer_bytes: LARGE,
            va_bits: 47,
            paging_va_size: LARGE,
            paging_process: KmdProcessHandle(LARGE),
            paging_tables: extents.clone(),
            paging_table_bytes: LARGE,
            tdr_limit_count: number,
            tdr_limit_time: LARGE,
            tdr_quantum: Some(LARGE),
            tdr_dependent_delay: Some(LARGE),
        },
        Event::PagingVaQueried {
            query_type: 48,
            physical_adapter_index: number,
            input_data_size: 4,
            output_data_size: 4,
            answer_mib: Some(number),
            paging_va_size: LARGE,
        },
        Event::ProcessCreated { process, handle: KmdProcessHandle(LARGE) },
        Event::ProcessTerminated { process },
        Event::ProcessDestroyed { process },
        Event::DeviceCreated { device, process, residency: vidmm::DeviceResidency::DeviceList },
        Event::DeviceTerminated { device },
        Event::DeviceDestroyed { device },
        Event::ContextCreated { context, device, engine: number },
        Event::ContextDestroyed { context },
        Event::ContextPriorityChanged { context, priority: i32::MIN },
        Event::PagingQueueCreated { queue, device, priority: i32::MIN },
        Event::PagingQueueDestroyed { queue },
        Event::MonitoredFenceCreated { fence: fence_id, value, device: Some(device) },
        Event::MonitoredFenceDestroyed { fence: fence_id },
        Event::AllocationCreated {
            allocation,
            device,
            process,
            handle: KmdAllocationHandle(LARGE),
            size,
            priority: number,
            backing_store: LARGE,
            supported_segment_set: number,
            preferred_segment: Some(SegmentId(9)),
            accessed_physically: true,
            notify: AllocationFlags2::all(),
            shared: true,
            existing_sys_mem: false,
            permanent_sys_mem: true,
            cached: true,
            disable_large_page_mapping: true,
            explicit_residency_notification: true,
        },
        Event::AllocationDestroyed { allocation, flags: DestroyFlags::all() },
        Event::AllocationReclaimed { allocation },
        Event::GpuVirtualAddressReserved { process, virtual_address, size, queue: Some(queue), paging_fence_value: 7 },
        Event::GpuVirtualAddressMapped {
            process,
            virtual_address,
            size,
            allocation,
            allocation_offset: LARGE,
            page_size: PageSize::Kib4,
            read_only: true,
            no_execute: true,
            driver_protection: LARGE,
            queue,
            paging_fence_value,
        },
        Event::GpuVirtualAddressFreed { process, virtual_address, size },
        Event::GpuVirtualAddressReclaimed { process, virtual_address, size, reason: ReclaimReason::Freed },
        Event::GpuVirtualAddressReclaimed {
            process,
            virtual_address,
            size,
            reason: ReclaimReason::Closed { allocation, device },
        },
        Event::Submitted {
            device,
            context,
            submission,
            waits: vec![(fence_id, LARGE)],
            signals: vec![(fence_id, 1), (fence_id, 2)],
        },
        Event::RootPageTableSet { context, address, num_entries: 256 },
        Event::Dispatched { device, submission, signal, waits: vec![signal, fence(0, 1)] },
        Event::Granted { device, queue, paging_fence_value, plans: vec![1, LARGE] },
        Event::PageTablePlaced { plan, process, level: 2, page_size: PageSize::Kib4, virtual_address, address, size },
        Event::PageTableFreed { plan, process, level: 1, page_size: PageSize::Kib4, virtual_address, address, size },
        Event::PlanDecided { plan, waits: vec![(device, LARGE)], after: vec![LARGE, 1] },
        Event::PlanEntered { plan },
        Event::PlanBuilt { plan, signal },
        Event::PlanRetired { plan },
        Event::PagingBufferSubmitted { signal, bytes: number },
        Event::Completed { signal },
        Event::PagingFenceSignaled { queue, value },
        Event::MonitoredFenceSignaled { fence: fence_id, value },
        Event::ContentChecked { kernel, pages, wrong: 0 },
        Event::AccessedOverBus { device, kernel, accesses: vec![BusAccess { allocation, bytes: LARGE, lost_ns: 1 }] },
        Event::Finding { kernel, allocation, page: LARGE, expected: LARGE, found: 1 },
    ];
    for content in [ContentSource::Fill, ContentSource::BackingStore, ContentSource::InPlace] {
        let (segment, extents) = (SegmentId(255), extents.clone());
        events.push(Event::Placed { plan, allocation, segment, extents, content });
    }
    events.push(Event::Refreshed { plan, allocation });
    let (ahead, watermark) = (LARGE, 0);
    events.push(Event::Cleaned { plan, allocation, offset: LARGE, size: LARGE, is_last: true, ahead, watermark });
    for reason in [PrefetchReason::Announced { device }, PrefetchReason::Policy] {
        events.push(Event::Prefetched { plan, allocation, reason });
    }
    for domain in [IoMmuDomain::Process(KmdProcessHandle(LARGE)), IoMmuDomain::Global] {
        let (allocation_offset, window) = (LARGE, domain == IoMmuDomain::Global);
        events.extend([
            Event::IoMmuMapped { plan, domain, virtual_address, allocation, allocation_offset, size, window },
            Event::IoMmuUnmapped { plan, domain, virtual_address, size, window },
        ]);
    }
    events.extend(residency_events());
    events.extend(split_events());
    events.extend(fault_events());
    events.extend(reset_events());
    events.extend(driver_findings().into_iter().map(|finding| Event::DriverFinding { finding }));
    let violations = violations(signal);
    events.extend(violations.into_iter().map(|violation| Event::AdapterInError { violation }));
    let statuses = [
        BuildStatus::Success,
        BuildStatus::InsufficientDmaBuffer,
        BuildStatus::AllocationBusy,
        BuildStatus::Other(i32::MIN),
    ];
    for (operation, status) in operations().into_iter().zip(statuses.into_iter().cycle()) {
        let (offset, bytes, multipass_offset) = (number, 0, number);
        events.push(Event::PagingOperation { plan, operation, status, offset, bytes, multipass_offset });
    }
    events
}

/// The kinds of events of 5.1 to 5.10: lists, offers, locks, sharing, budgets, trims, suspension and power.
fn residency_events() -> Vec<Event> {
    let mut events = list_events();
    events.extend(offer_events());
    events.extend(sharing_events());
    events.extend(budget_events());
    events.extend(suspension_events());
    events
}

fn list_events() -> Vec<Event> {
    let (device, queue) = (DeviceId::from_bits(LARGE), PagingQueueId::from_bits(3 << 32));
    let allocation = AllocationId::from_bits(LARGE);
    let allocations = vec![allocation, AllocationId::from_bits(0)];
    let (after_submission, paging_fence_value, num_bytes_to_trim) = (0, LARGE, LARGE);
    let mut events = vec![Event::Announced { device, allocations: allocations.clone() }];
    for flags in [MakeResidentFlags::empty(), MakeResidentFlags::CANT_TRIM_FURTHER, MakeResidentFlags::all()] {
        let (allocations, waiting) = (allocations.clone(), vec![allocation]);
        events.push(Event::MakeResident {
            device,
            queue,
            allocations,
            flags,
            after_submission,
            paging_fence_value,
            waiting,
        });
    }
    for reason in [
        NoMemoryReason::OverBudget,
        NoMemoryReason::OverMaximumBudget,
        NoMemoryReason::DoesNotFit,
        NoMemoryReason::Fragmented,
    ] {
        let (allocations, flags) = (allocations.clone(), MakeResidentFlags::CANT_TRIM_FURTHER);
        let shortages = short_of(SegmentId(1), num_bytes_to_trim, reason);
        events.push(Event::MakeResidentRefused { device, allocations, flags, num_bytes_to_trim, reason, shortages });
    }
    for flags in [EvictFlags::empty(), EvictFlags::NOT_WRITTEN_TO, EvictFlags::all()] {
        let allocations = allocations.clone();
        events.push(Event::Evict { device, allocations, flags, after_submission, num_bytes_to_trim });
    }
    let request = RequestName { queue, paging_fence_value };
    let whole = WantedBy { device, request: Some(request), allocation: Some(allocation) };
    let device = for_device(device);
    for (reason, wanted_by) in [
        (EvictReason::RoomWanted, Some(whole)),
        (EvictReason::EvictRequested, None),
        (EvictReason::Promoted, None),
        (EvictReason::RangeWanted, Some(device)),
        (EvictReason::Destroyed, None),
        (EvictReason::Offered, None),
        (EvictReason::DeviceSuspended, Some(device)),
        (EvictReason::Locked, None),
        (EvictReason::PropertyUpdated, None),
        (EvictReason::PoweredDown, None),
        (EvictReason::Moved, Some(device)),
    ] {
        let (plan, segment, extents) = (LARGE, SegmentId::SYSTEM, vec![extent(0, LARGE), extent(LARGE, 1)]);
        let (copied, discarded) = (wanted_by.is_some(), reason == EvictReason::Offered);
        events.push(Event::Evicted { plan, allocation, segment, extents, copied, reason, discarded, wanted_by });
    }
    events
}

/// A DMA buffer that is patched, its portions, and one that is dropped.
fn split_events() -> Vec<Event> {
    let (device, context) = (DeviceId::from_bits(LARGE), ContextId::from_bits(1 << 32 | 7));
    let (allocation, dma_buffer, number) = (AllocationId::from_bits(LARGE), LARGE, u32::MAX);
    let location = PatchLocation {
        allocation_index: number,
        slot_id: 1,
        driver_id: number,
        allocation_offset: number,
        patch_offset: number,
        split_offset: number,
    };
    let mut events = vec![
        Event::Rendered {
            device,
            context,
            dma_buffer,
            bytes: number,
            allocations: vec![None, Some(allocation)],
            patch_locations: vec![location],
            waits: vec![(MonitoredFenceId::from_bits(LARGE), LARGE)],
            signals: vec![(MonitoredFenceId::from_bits(1), 0)],
        },
        Event::PreparationFailed { device, dma_buffer, offset: number, bytes: LARGE },
    ];
    for (cut, fixed) in [
        (PortionEnd::EndOfDmaBuffer, true),
        (PortionEnd::NoRoom { allocation }, false),
        (PortionEnd::TakeSplitPoint, true),
    ] {
        let (address, is_last) = (local(LARGE), cut == PortionEnd::EndOfDmaBuffer);
        let bound = PortionBinding { slot_id: number, allocation: Some(allocation), address, fixed };
        let unbound = PortionBinding { slot_id: 0, allocation: None, address: system(0), fixed: false };
        events.push(Event::Portion {
            device,
            dma_buffer,
            portion: number,
            submission: LARGE,
            start_offset: 0,
            end_offset: number,
            is_last,
            patch_location_start: number,
            patch_location_length: 0,
            bindings: vec![bound, unbound],
            cut,
            patched: fixed,
        });
    }
    events
}

fn offer_events() -> Vec<Event> {
    let (device, queue) = (DeviceId::from_bits(LARGE), PagingQueueId::from_bits(LARGE));
    let allocations = vec![AllocationId::from_bits(LARGE), AllocationId::from_bits(1), AllocationId::from_bits(2)];
    let offered = |(priority, flags)| Event::Offered {
        device,
        allocations: allocations.clone(),
        priority,
        flags,
        after_submission: LARGE,
    };
    let offers = [
        (OfferPriority::Low, OfferFlags::empty()),
        (OfferPriority::Normal, OfferFlags::OFFER_IMMEDIATELY),
        (OfferPriority::High, OfferFlags::ALLOW_DECOMMIT),
        (OfferPriority::Auto, OfferFlags::all()),
    ];
    let mut events: Vec<Event> = offers.map(offered).into();
    events.push(Event::Reclaimed {
        device,
        queue,
        allocations: allocations.clone(),
        results: vec![ReclaimResult::Ok, ReclaimResult::Discarded, ReclaimResult::NotCommitted],
        backing_stores: vec![0, LARGE, 1],
        after_submission: LARGE,
        paging_fence_value: 0,
    });
    events.push(Event::BackingStoreRefused { size: LARGE });
    let allocation = AllocationId::from_bits(1);
    events.push(Event::ContentDiscarded { allocation, plan: Some(LARGE) });
    events.push(Event::ContentDiscarded { allocation, plan: None });
    events.push(Event::Decommitted { allocation });
    events
}

fn sharing_events() -> Vec<Event> {
    let (process, device, queue) =
        (ProcessId::from_bits(LARGE), DeviceId::from_bits(LARGE), PagingQueueId::from_bits(LARGE));
    let allocation = AllocationId::from_bits(LARGE);
    let (address, segment, extents) = (CpuVirtualAddress(LARGE), SegmentId(255), vec![extent(LARGE, 1)]);
    vec![
        Event::Locked { device, allocation, address, segment, extents: extents.clone() },
        Event::Rotated { plan: LARGE, allocation, address, segment, extents },
        Event::Unlocked { allocation, locks: u32::MAX },
        Event::AllocationOpened { allocation, device, process },
        Event::AllocationClosed { allocation, device },
        Event::AllocationOwnershipTransferred { allocation, device, process },
        Event::AllocationPriorityChanged { allocation, priority: u32::MAX },
        Event::AllocationCounted { allocation, segment: SegmentId(2), anew: true },
        Event::AllocationPropertyUpdated {
            allocation,
            supported_segment_set: u32::MAX,
            queue,
            paging_fence_value: LARGE,
        },
    ]
}

fn budget_events() -> Vec<Event> {
    let (process, device) = (ProcessId::from_bits(LARGE), DeviceId::from_bits(LARGE));
    let notification = TrimNotificationId::from_bits(LARGE);
    let priorities = [
        (PriorityBand::Dwm, Visibility::Visible),
        (PriorityBand::Focus, Visibility::Occluded),
        (PriorityBand::Normal, Visibility::Minimized),
    ];
    let mut events = vec![
        Event::TrimNotificationRegistered { notification, device },
        Event::TrimNotificationUnregistered { notification },
        Event::TrimIntervalsSet { min: 1, max: LARGE, idle: 0 },
    ];
    for (band, visibility) in priorities {
        events.push(Event::ProcessPriorityChanged { process, band, visibility });
    }
    for group in [MemorySegmentGroup::Local, MemorySegmentGroup::NonLocal] {
        events.push(Event::ReservationChanged { process, group, reservation: LARGE });
        events.extend([Some(LARGE), None].map(|bytes| Event::BudgetRestricted { group, bytes }));
        events.push(Event::BudgetChanged { process, group, budget: LARGE, requested: 1 });
    }
    for flags in [
        TrimFlags::TRIM_TO_BUDGET,
        TrimFlags::RESTART_PERIODIC_TRIM,
        TrimFlags::PERIODIC_TRIM | TrimFlags::TRIM_TO_BUDGET,
    ] {
        for group in [None, Some(MemorySegmentGroup::Local), Some(MemorySegmentGroup::NonLocal)] {
            events.push(Event::TrimNotified { notification, device, flags, group, num_bytes_to_trim: LARGE });
        }
    }
    events
}

fn suspension_events() -> Vec<Event> {
    let (process, device) = (ProcessId::from_bits(LARGE), DeviceId::from_bits(LARGE));
    let reasons = [
        SuspendReason::IdleOverBudget,
        SuspendReason::SliceOver,
        SuspendReason::Idle,
        SuspendReason::Asleep,
        SuspendReason::Exchange,
        SuspendReason::ExchangeEnds,
        SuspendReason::Starvation,
        SuspendReason::WaitsForRoom,
        SuspendReason::Replace,
        SuspendReason::ProcessSuspended,
        SuspendReason::PowerDown,
    ];
    let yielded = |reason| Event::DeviceYielded { device, reason, wanted_by: Some(DeviceId::from_bits(1)) };
    let mut events: Vec<Event> = reasons.map(yielded).into();
    events.extend([
        Event::DeviceYielded { device, reason: SuspendReason::PowerDown, wanted_by: None },
        Event::DeviceSuspended { device },
        Event::DeviceHeldUp { device, behind: DeviceId::from_bits(1), since: LARGE },
        Event::DeviceResumed { device, reason: ResumeReason::HasWork, plans: vec![1, LARGE] },
        Event::DeviceResumed { device, reason: ResumeReason::PressureFell, plans: vec![] },
        Event::ProcessSuspended { process, allow_wake_on_submission: true },
        Event::ProcessResumed { process, by_submission: true },
        Event::PoweredDown,
        Event::PoweredUp,
    ]);
    events
}

fn fault_events() -> Vec<Event> {
    let (device, allocation) = (DeviceId::from_bits(LARGE), AllocationId::from_bits(LARGE));
    let (signal, virtual_address) = (fence(u32::MAX, LARGE), GpuVirtualAddress(LARGE));
    let neighbour = Neighbour { allocation, virtual_address, size: LARGE };
    let fault = |write, below, above, flags, fault_error_code| Event::PageFault {
        signal,
        virtual_address,
        write,
        allocation: write.then_some(allocation),
        flags,
        page_table_level: u32::MAX,
        fault_error_code,
        below,
        above,
        in_flight: vec![signal, fence(0, 1)],
    };
    let mut events = vec![
        fault(true, Some(neighbour), None, PageFaultFlags::all(), FaultErrorCode::PAGE_FAULT),
        fault(false, None, Some(neighbour), PageFaultFlags::empty(), FaultErrorCode(u32::MAX)),
        Event::IllegalCommand { signal },
        Event::Aborted { signal },
        Event::ProcessBlocked { process: ProcessId::from_bits(LARGE) },
    ];
    events.extend(device_errors().into_iter().map(|reason| Event::DeviceInError { device, reason }));
    events
}

fn device_errors() -> Vec<DeviceErrorReason> {
    vec![
        DeviceErrorReason::PageFault { virtual_address: GpuVirtualAddress(LARGE) },
        DeviceErrorReason::IllegalCommand,
        DeviceErrorReason::EngineTimeout,
        DeviceErrorReason::DependentEngineReset,
        DeviceErrorReason::EngineTimeoutPromotedToAdapterReset,
        DeviceErrorReason::PagingEngineTimeout,
        DeviceErrorReason::PagingBufferFault,
        DeviceErrorReason::AdapterReset,
        DeviceErrorReason::ProcessBlocked,
        DeviceErrorReason::NotResident { allocation: AllocationId::from_bits(LARGE) },
        DeviceErrorReason::OutOfMemory,
        DeviceErrorReason::AdapterInError,
        DeviceErrorReason::PatchLocationList { rule: PatchListRule::DecreasingSplitOffset },
        DeviceErrorReason::PreparationFailed { dma_buffer: LARGE, bytes: LARGE },
    ]
}

fn reset_events() -> Vec<Event> {
    let (engine, preemption_fence_id, signal) = (u32::MAX, LARGE, fence(u32::MAX, LARGE));
    let (allocation, plan, returned) = (AllocationId::from_bits(LARGE), LARGE, vec![LARGE, u64::MAX]);
    let reasons = [
        PreemptReason::Quantum,
        PreemptReason::Dependent,
        PreemptReason::WaitsForReset,
        PreemptReason::AfterReset,
        PreemptReason::Priority,
        PreemptReason::ReadyWork,
    ];
    let mut events: Vec<Event> =
        reasons.map(|reason| Event::PreemptRequested { engine, preemption_fence_id, reason }).into();
    events.extend([
        Event::Preempted { engine, preemption_fence_id, last_completed_fence_id: LARGE, returned: returned.clone() },
        Event::PreemptTimedOut { engine, preemption_fence_id },
        Event::EngineResetBegun { engine, reason: DeviceErrorReason::EngineTimeout, dependent_engines: vec![engine] },
        Event::EngineReset { engine, last_aborted_fence_id: Some(LARGE), returned },
        Event::EngineReset { engine, last_aborted_fence_id: None, returned: vec![] },
        Event::Resubmitted { before: signal, signal: fence(u32::MAX, u64::MAX), waits: vec![signal] },
        Event::AdapterResetBegun { cause: DeviceErrorReason::PagingBufferFault },
        Event::PlanAbandoned { plan },
        Event::ContentLost { allocation, is_kept: true },
        Event::AdapterRestarted,
    ]);
    let purges = operations().into_iter().filter(|operation| {
        matches!(operation, PagingOperation::Transfer(_) | PagingOperation::UnmapApertureSegment(_))
    });
    events.extend(purges.map(|operation| Event::PurgeOperation {
        allocation,
        operation,
        status: BuildStatus::Success,
    }));
    events
}

fn driver_findings() -> Vec<DriverFinding> {
    let (physical_adapter_index, asked_mib, paging_va_size) = (u32::MAX, u32::MAX, LARGE);
    let mut findings = vec![
        DriverFinding::PatchLocationList { position: 7, rule: PatchListRule::SlotId },
        DriverFinding::PagingVaIgnored { physical_adapter_index, asked_mib },
        DriverFinding::PagingVaWithPhysicalAddresses { physical_adapter_index, asked_mib },
        DriverFinding::PagingVaRounded { physical_adapter_index, asked_mib, paging_va_size },
        DriverFinding::PagingVaClamped { physical_adapter_index, asked_mib, paging_va_size },
        DriverFinding::PagingVaNeedlesslyLarge {
            physical_adapter_index,
            asked_mib,
            default_size: LARGE,
            table_bytes: LARGE,
        },
        DriverFinding::AllocationBeyondPagingVa { size: LARGE, paging_va_size },
        DriverFinding::FlagsBeyondVersion { flags2: AllocationFlags2::all(), wddm_version: u32::MAX },
        DriverFinding::NotifyIoMmuUnmapWithoutIoMmu,
        DriverFinding::CompletedAgain { found: fence(u32::MAX, LARGE) },
        DriverFinding::CompletedForeign { found: fence(u32::MAX, LARGE) },
        DriverFinding::InterruptLost { found: fence(u32::MAX, LARGE), expected: LARGE },
        DriverFinding::PreemptedUnasked { engine: u32::MAX, preemption_fence_id: LARGE },
        DriverFinding::ResetUnasked { engine: u32::MAX },
        DriverFinding::AdapterResetUnasked,
        DriverFinding::FaultData { engine: u32::MAX, fence_id: LARGE },
    ];
    let kinds = operations().into_iter().map(|operation| operation.kind());
    findings.extend(kinds.map(|operation| DriverFinding::BusyUndocumented { operation }));
    findings
}

fn violations(found: EngineFence) -> Vec<Violation> {
    let rules = [
        AllocationInfoRule::Size(LARGE),
        AllocationInfoRule::Alignment(3),
        AllocationInfoRule::SegmentSet(u32::MAX),
        AllocationInfoRule::PreferredSegment(9),
        AllocationInfoRule::Priority,
    ];
    let mut violations = vec![
        Violation::BufferOverrun { operation: None, dma_bytes: usize::MAX, private_bytes: 0 },
        Violation::IllegalStatus { operation: PagingOperationKind::Transfer, status: i32::MIN },
        Violation::NoProgress { operation: PagingOperationKind::FlushTlb, allocation: None },
        Violation::TooManyPasses {
            operation: PagingOperationKind::Fill,
            allocation: Some(KmdAllocationHandle(LARGE)),
            passes: LARGE,
        },
        Violation::BusyWhileIdle {
            operation: PagingOperationKind::Transfer,
            allocation: Some(KmdAllocationHandle(LARGE)),
        },
        Violation::NotAtOnce {
            operation: PagingOperationKind::UpdatePageTable,
            status: BuildStatus::InsufficientDmaBuffer,
            dma_bytes: usize::MAX,
            private_bytes: 0,
        },
        Violation::AbortedFence { engine: u32::MAX, last_aborted: LARGE, last_completed: u64::MAX, last_submitted: 0 },
        Violation::PacketNotReturned { missing: found },
        Violation::ResetDoesNotReturn,
        Violation::RestartFailed,
        Violation::PurgeRefused,
        Violation::TooManyResets { resets: u32::MAX, seconds: LARGE },
        Violation::FatalHardwareError,
    ];
    violations.extend(rules.map(|rule| Violation::AllocationInfo { rule }));
    violations
}

fn operations() -> Vec<PagingOperation> {
    let (handle, address) = (KmdAllocationHandle(LARGE), GpuVirtualAddress(LARGE));
    let directions = [
        MemoryTransferDirection::LocalToSystem,
        MemoryTransferDirection::SystemToLocal,
        MemoryTransferDirection::LocalToLocal,
    ];
    let transfer = |transfer_direction| {
        PagingOperation::VirtualTransfer(TransferVirtual {
            allocation: handle,
            allocation_offset_in_bytes: LARGE,
            transfer_size_in_bytes: LARGE,
            source_virtual_address: address,
            destination_virtual_address: address,
            transfer_direction,
            flags: TransferVirtualFlags::all(),
        })
    };
    let update = |allocation, first: Pte, first_64kb, flags, update_mode| {
        PagingOperation::UpdatePageTable(UpdatePageTable {
            page_table_level: 5,
            allocation,
            page_table_address: system(LARGE),
            page_table_entries: PteRun { first, first_64kb, num_page_table_entries: u32::MAX },
            start_index: u32::MAX,
            flags,
            driver_protection: LARGE,
            allocation_offset_in_bytes: LARGE,
            process: KmdProcessHandle(LARGE),
            update_mode,
            first_pte_virtual_address: address,
        })
    };
    let valid = Pte { flags: PteFlags::all(), address: local(LARGE) };
    let mut operations = Vec::from(directions.map(transfer));
    operations.extend([
        PagingOperation::Transfer(Transfer {
            allocation: handle,
            transfer_offset: LARGE,
            transfer_size: 0,
            source: local(LARGE),
            destination: local(0),
            flags: TransferFlags::TRANSFER_START | TransferFlags::TRANSFER_END,
            mdl_offset: 0,
        }),
        PagingOperation::Transfer(Transfer {
            allocation: handle,
            transfer_offset: LARGE,
            transfer_size: LARGE,
            source: local(LARGE),
            destination: system(LARGE),
            flags: TransferFlags::all(),
            mdl_offset: u32::MAX,
        }),
        PagingOperation::Fill(Fill {
            allocation: handle,
            fill_size: LARGE,
            fill_pattern: u32::MAX,
            destination: local(LARGE),
        }),
        PagingOperation::DiscardContent(DiscardContent {
            allocation: handle,
            flags: DiscardContentFlags::all(),
            address: local(LARGE),
        }),
        PagingOperation::VirtualFill(FillVirtual {
            allocation: handle,
            allocation_offset_in_bytes: LARGE,
            fill_size_in_bytes: LARGE,
            fill_pattern: u32::MAX,
            destination_virtual_address: address,
        }),
        update(Some(handle), valid, Some(Pte::INVALID), UpdatePageTableFlags::all(), UpdateMode::GpuPhysical),
        update(Some(handle), valid, None, UpdatePageTableFlags::all(), UpdateMode::GpuVirtual(address)),
        update(
            None,
            Pte::INVALID,
            None,
            UpdatePageTableFlags::empty(),
            UpdateMode::CpuVirtual(CpuVirtualAddress(LARGE)),
        ),
        PagingOperation::FlushTlb(FlushTlb {
            root_page_table_address: local(0),
            process: KmdProcessHandle(LARGE),
            start_virtual_address: address,
            end_virtual_address: GpuVirtualAddress(0),
        }),
        PagingOperation::MapApertureSegment(MapApertureSegment {
            allocation: handle,
            segment_id: SegmentId(255),
            offset_in_pages: LARGE,
            number_of_pages: LARGE,
            mdl: system(LARGE),
            flags: MapApertureFlags::all(),
        }),
        PagingOperation::MapApertureSegment2(MapApertureSegment2 {
            allocation: handle,
            segment_id: SegmentId(255),
            offset_in_pages: LARGE,
            number_of_pages: LARGE,
            adl: Adl { base_page_number: LARGE },
            flags: MapApertureFlags::all(),
        }),
        PagingOperation::UnmapApertureSegment(UnmapApertureSegment {
            allocation: handle,
            segment_id: SegmentId(255),
            offset_in_pages: LARGE,
            number_of_pages: LARGE,
            dummy_page: system(LARGE),
        }),
    ]);
    for (process, flags) in [
        (None, NotifyAllocFlags::EVICTION),
        (Some(KmdProcessHandle(LARGE)), NotifyAllocFlags::IO_MMU_UNMAP),
        (None, NotifyAllocFlags::all()),
    ] {
        operations.push(PagingOperation::NotifyAlloc(NotifyAlloc {
            allocation: handle,
            process,
            flags,
            offset_in_bytes: LARGE,
            size_in_bytes: LARGE,
            gpu_virtual_address_at_offset: address,
        }));
    }
    operations
}

fn header() -> LogHeader {
    let mut header = LogHeader::new("a \"scenario\"\nof two lines", u64::MAX);
    header.settings.insert("gpu".into(), "soft".into());
    header
}

fn write(events: &[NumberedEvent]) -> Vec<u8> {
    let mut writer = LogWriter::new(Vec::new(), &header());
    events.iter().for_each(|event| writer.event(event));
    writer.finish().expect("memory can be written")
}

fn read(bytes: &[u8]) -> Result<Vec<NumberedEvent>, LogError> {
    LogReader::new(bytes)?.collect()
}

/// The lines between the header and the trailer.
fn event_lines(bytes: &[u8]) -> Vec<String> {
    let mut lines = lines(bytes);
    lines.pop();
    lines.split_off(1)
}

/// A log of these lines, with the trailer that belongs to them.
fn ended(lines: &[String]) -> Vec<u8> {
    let text: String = lines.iter().map(|line| line.clone() + "\n").collect();
    let (events, crc32) = (lines.len() - 1, crc32fast::hash(text.as_bytes()));
    format!("{text}{{\"vidmm_events_end\":{events},\"crc32\":{crc32}}}\n").into_bytes()
}

fn lines(bytes: &[u8]) -> Vec<String> {
    String::from_utf8(bytes.to_vec()).expect("logs are text").lines().map(str::to_owned).collect()
}

/// The values of the field `event` in the lines of a log.
fn names(bytes: &[u8]) -> BTreeSet<String> {
    let name = |line: &String| {
        let value: serde_json::Value = serde_json::from_str(line).expect("lines are JSON");
        value["event"].as_str().expect("events have names").to_owned()
    };
    event_lines(bytes).iter().map(name).collect()
}

/// The kinds of events in the source of the enum, as the log names them.
pub fn kinds_in_source() -> BTreeSet<String> {
    let (_, body) = EVENT_RS.split_once("pub enum Event {").expect("the enum is there");
    let (body, _) = body.split_once("\n}\n").expect("the enum ends");
    let lines = body.lines().filter_map(|line| line.strip_prefix("    "));
    let variants = lines.filter_map(|line| line.strip_suffix(" {").or(line.strip_suffix(',')));
    variants.filter(|name| name.starts_with(char::is_uppercase)).map(snake_case).collect()
}

fn snake_case(name: &str) -> String {
    let mut snake = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !snake.is_empty() {
            snake.push('_');
        }
        snake.push(letter.to_ascii_lowercase());
    }
    snake
}

#[test]
fn every_kind_of_event_is_read_back_as_it_was_written() {
    let events = counted(all_events());
    let bytes = write(&events);
    assert_eq!(read(&bytes).unwrap(), events);
    assert_eq!(write(&read(&bytes).unwrap()), bytes, "equal events give equal bytes");
    assert_eq!(names(&bytes), kinds_in_source(), "all_events() has every kind");
}

#[test]
fn the_header_of_the_guide_is_read() {
    let header = GUIDE.lines().find(|line| line.starts_with("{\"vidmm_events\"")).expect("the header has an example");
    let read: LogHeader = serde_json::from_str(header).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), header);
}

#[test]
fn the_header_is_read_back() {
    assert_eq!(LogReader::new(&write(&[])[..]).unwrap().header(), &header());
    assert!(write(&[]).starts_with(b"{\"vidmm_events\":10,"));
}

#[test]
fn a_log_without_events_is_whole() {
    assert_eq!(read(&write(&[])).unwrap(), []);
}

#[test]
fn fields_that_a_later_version_adds_are_ignored() {
    let lines = [
        "{\"vidmm_events\":10,\"new\":[],\"vidmm_version\":\"9\",\"seed\":1,\"scenario\":\"x\",\"level\":\"full\"}",
        "{\"number\":1,\"at\":0,\"event\":\"plan_entered\",\"why\":{\"new\":1},\"plan\":3}",
    ];
    let log = ended(&lines.map(str::to_owned));
    assert_eq!(read(&log).unwrap()[0].event, Event::PlanEntered { plan: 3 });
}

/// The error of a log of three events, after a change.
fn error(change: impl FnOnce(&mut Vec<String>)) -> LogError {
    let events = (1..=3).map(|plan| Event::PlanEntered { plan }).collect();
    let mut lines = lines(&write(&counted(events)));
    change(&mut lines);
    read((lines.join("\n") + "\n").as_bytes()).expect_err("the log is damaged")
}

#[test]
fn a_missing_header_is_refused() {
    let found = error(|lines| drop(lines.remove(0)));
    assert!(matches!(found, LogError::NoHeader { .. }), "{found:?}");
    assert!(
        found.to_string().starts_with("line 1 is `{\"number\":1,") && found.to_string().contains("vidmm run --events")
    );
    for garbage in [&b""[..], b"\n", b"\xff\xfe\x00", b"{}", b"5 | 0:0:64 | 1:0:64\n"] {
        assert!(matches!(read(garbage), Err(LogError::NoHeader { .. })));
    }
}

#[test]
fn a_damaged_header_is_refused() {
    let found = error(|lines| lines[0] = lines[0].replace("\"seed\"", "\"sead\""));
    assert!(matches!(found, LogError::Header { .. }) && found.to_string().contains("missing field `seed`"), "{found}");
}

#[test]
fn another_version_is_refused() {
    let found = error(|lines| lines[0] = lines[0].replace("\"vidmm_events\":10", "\"vidmm_events\":1"));
    assert!(matches!(found, LogError::Version { found: 1 }), "{found:?}");
    assert!(found.to_string().contains("version 10") && found.to_string().contains("version 1"), "{found}");
    let other = read(b"{\"vidmm_events\":9,\"everything else\":\"is different\"}\n").unwrap_err();
    assert!(matches!(other, LogError::Version { found: 9 }), "{other:?}");
}

#[test]
fn garbage_is_refused_with_its_line() {
    for garbage in ["", "{", "null", "{\"number\":2,\"at\":0,\"event\":\"no_such_event\"}", "\u{1F525}"] {
        let found = error(|lines| lines[2] = garbage.to_owned());
        assert!(matches!(found, LogError::Line { line: 3, .. }), "{garbage}: {found:?}");
        assert!(found.to_string().starts_with("line 3: ") && found.to_string().contains("write it again"), "{found}");
    }
}

#[test]
fn a_field_of_the_wrong_type_is_refused() {
    for value in ["-1", "1.5", "\"1\"", "18446744073709551616"] {
        let found = error(|lines| lines[2] = lines[2].replace("\"plan\":2", &format!("\"plan\":{value}")));
        assert!(matches!(found, LogError::Line { line: 3, .. }), "{value}: {found:?}");
    }
}

#[test]
fn gaps_in_the_numbers_are_refused() {
    let missing = error(|lines| drop(lines.remove(2)));
    assert!(matches!(missing, LogError::Gap { line: 3, found: 3, expected: 2 }), "{missing:?}");
    let first = error(|lines| drop(lines.remove(1)));
    assert!(matches!(first, LogError::Gap { line: 2, found: 2, expected: 1 }), "{first:?}");
    let twice = error(|lines| lines.insert(2, lines[2].clone()));
    assert!(matches!(twice, LogError::Gap { line: 4, found: 2, expected: 3 }), "{twice:?}");
    let swapped = error(|lines| lines.swap(1, 2));
    assert!(matches!(swapped, LogError::Gap { line: 2, found: 2, expected: 1 }), "{swapped:?}");
}

#[test]
fn a_log_that_was_cut_is_refused_wherever_that_was() {
    let bytes = write(&counted(all_events()));
    assert!(read(&bytes[..bytes.len() - 1]).is_ok(), "only the last line end is missing");
    let ends: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at] == b'\n').map(|at| at + 1).collect();
    for (events, &end) in ends[..ends.len() - 1].iter().enumerate() {
        let found = read(&bytes[..end]).expect_err("it has no trailer");
        assert!(matches!(found, LogError::NoTrailer { events: of } if of == events as u64), "{found}");
    }
    let last = ends[ends.len() - 2];
    for end in last + 1..bytes.len() - 1 {
        assert!(matches!(read(&bytes[..end]), Err(LogError::Line { .. } | LogError::Trailer { .. })), "{end}");
    }
}

#[test]
fn a_log_that_was_changed_is_refused() {
    let bytes = write(&counted(vec![Event::PlanEntered { plan: 1 }; 3]));
    let changed = String::from_utf8(bytes.clone()).unwrap().replacen("\"plan\":1", "\"plan\":2", 1);
    assert!(matches!(read(changed.as_bytes()), Err(LogError::Trailer { line: 5 })));
    let mut lines = lines(&bytes);
    let last_event = lines.remove(3);
    assert!(matches!(read((lines.join("\n") + "\n").as_bytes()), Err(LogError::Trailer { line: 4 })));
    lines.push(last_event);
    assert!(matches!(read((lines.join("\n") + "\n").as_bytes()), Err(LogError::Trailer { line: 4 })));
    let twice = [&bytes[..], b"{}\n"].concat();
    assert!(matches!(read(&twice), Err(LogError::AfterTrailer { line: 6 })));
}

#[test]
fn a_damaged_log_is_read_up_to_its_damage_where_that_is_asked_for() {
    let bytes = write(&counted((1..=3).map(|plan| Event::PlanEntered { plan }).collect()));
    let kept = |bytes: &[u8]| {
        let mut reader = LogReader::new(bytes).unwrap().damaged();
        let events: Vec<_> = reader.by_ref().collect::<Result<_, _>>().expect("damage is no error");
        (events.len(), reader.damage().map(ToString::to_string))
    };
    assert_eq!(kept(&bytes), (3, None));
    let (events, damage) = kept(&bytes[..bytes.len() - 10]);
    assert!(events == 3 && damage.is_some(), "{damage:?}");
    let text = String::from_utf8(bytes).unwrap().replace("\"number\":2", "\"number\":x");
    let (events, damage) = kept(text.as_bytes());
    assert!(events == 1 && damage.as_ref().is_some_and(|damage| damage.starts_with("line 3: ")), "{damage:?}");
}

#[test]
fn nothing_comes_after_an_error() {
    let mut text = write(&counted(vec![Event::PlanEntered { plan: 1 }]));
    text.truncate(
        text.iter()
            .rposition(|&byte| byte == b'}')
            .and_then(|end| text[..end].iter().rposition(|&byte| byte == b'\n'))
            .expect("there is a trailer")
            + 1,
    );
    text.extend(b"garbage\n{\"number\":2,\"at\":2000,\"event\":\"plan_entered\",\"plan\":2}\n");
    let mut reader = LogReader::new(&text[..]).unwrap();
    assert!(reader.next().is_some_and(|event| event.is_ok()));
    assert!(reader.next().is_some_and(|event| event.is_err()));
    assert!(reader.next().is_none() && reader.next().is_none());
}

/// A disk with room for a few bytes.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(bytes.len()).ok_or(io::ErrorKind::StorageFull)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_first_error_of_writing_is_kept() {
    for room in [0, 100, 20_000] {
        let mut writer = LogWriter::new(Full(room), &header());
        counted(all_events()).iter().cycle().take(500).for_each(|event| writer.event(event));
        let error = writer.finish().map(|_| ()).expect_err("the disk is full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}

/// Reads a log and audits the events up to the first error.
fn read_and_audit(bytes: &[u8]) {
    let Ok(reader) = LogReader::new(bytes) else { return };
    let mut audit = Audit::new();
    reader.map_while(Result::ok).for_each(|event| audit.event(&event));
    audit.finish();
}

/// An event of the story with one of its numbers changed.
fn with_another_number(event: &NumberedEvent, which: usize, by: u64) -> Option<NumberedEvent> {
    fn numbers<'a>(value: &'a mut serde_json::Value, found: &mut Vec<&'a mut serde_json::Value>) {
        match value {
            serde_json::Value::Number(_) => found.push(value),
            serde_json::Value::Array(values) => values.iter_mut().for_each(|value| numbers(value, found)),
            serde_json::Value::Object(fields) => fields.values_mut().for_each(|value| numbers(value, found)),
            _ => {}
        }
    }
    let mut value = serde_json::to_value(event).ok()?;
    let mut found = Vec::new();
    numbers(&mut value, &mut found);
    let count = found.len();
    *found[which % count] = by.into();
    serde_json::from_value(value).ok()
}

proptest! {
    #[test]
    fn nothing_that_is_read_panics(bytes in proptest::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>()) {
        read_and_audit(&bytes);
        let mut log = write(&counted(story()));
        let at = at.index(log.len());
        log.splice(at..at, bytes);
        read_and_audit(&log);
    }

    #[test]
    fn no_sequence_of_events_makes_the_audit_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4, any::<usize>(), any::<u64>()), 1..8),
        large in any::<bool>(),
        which in 0..5usize,
    ) {
        let runs = [notified::IN_APERTURE, notified::BY_PROCESS, notified::GLOBAL, notified::AUGUST];
        let mut events = counted(which.checked_sub(1).map_or_else(story, |run| runs[run].story().0));
        for (at, other, what, which, by) in changes {
            let (at, other) = (at.index(events.len()), other.index(events.len()));
            match what {
                0 => events.swap(at, other),
                1 => drop(events.remove(at)),
                2 => events.insert(other, events[at].clone()),
                _ => {
                    let by = if large { u64::MAX - by % 8192 } else { by % 16 };
                    if let Some(changed) = with_another_number(&events[at], which, by) {
                        events[at] = changed;
                    }
                }
            }
        }
        audit(&events);
    }

    #[test]
    fn the_kinds_of_events_in_any_order_do_not_make_the_audit_panic(order in proptest::collection::vec(any::<prop::sample::Index>(), 0..100)) {
        let all = all_events();
        let events = order.iter().map(|at| all[at.index(all.len())].clone()).collect();
        audit(&counted(events));
    }
}
