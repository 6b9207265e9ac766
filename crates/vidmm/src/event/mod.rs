//! Events: the history of a run, as whole facts.
//!
//! Every event has a number, counted with or without a log: a number means the same in a run with a log and in a run without.
//! Events are complete: a reader of the log alone can rebuild the place of every allocation.

pub(crate) mod destroy_flags;
pub(crate) mod device_residency;
pub(crate) mod error;
pub(crate) mod list_flags;
mod numbered;
pub(crate) mod offer;
pub(crate) mod render_error;
pub(crate) mod trim;

use alloc::vec::Vec;

pub use numbered::NumberedEvent;

use crate::{
    adapter::NotificationRevision,
    budget::{MemorySegmentGroup, PriorityBand, Visibility},
    contract::{
        AddressingModel, AllocationFlags2, BuildStatus, CpuVirtualAddress, EngineFence, EngineKind, FaultErrorCode,
        IoMmuDomain, KmdAllocationHandle, KmdProcessHandle, PageFaultFlags, PageTableUpdateMode, PagingOperation,
        PatchLocation,
    },
    event::{
        destroy_flags::DestroyFlags,
        device_residency::DeviceResidency,
        error::{DeviceErrorReason, DriverFinding, NoMemoryReason, Shortage, Violation},
        list_flags::{EvictFlags, MakeResidentFlags},
        offer::{OfferFlags, OfferPriority, ReclaimResult},
        trim::TrimFlags,
    },
    id::{AllocationId, ContextId, DeviceId, MonitoredFenceId, PagingQueueId, PlanNo, ProcessId, TrimNotificationId},
    units::{Extent, GpuVirtualAddress, Nanoseconds, PageSize, PhysicalAddress, SegmentId},
};

/// A mapping near an address that faulted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Neighbour {
    /// The allocation.
    pub allocation: AllocationId,
    /// The first address of the mapping.
    pub virtual_address: GpuVirtualAddress,
    /// Bytes of the mapping.
    pub size: u64,
}

/// The reason why an engine is asked to yield.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
pub enum PreemptReason {
    /// The packet has run for a quantum.
    Quantum,
    /// A reset of another engine would harm the engine (FLT-26).
    Dependent,
    /// The engine has packets that wait for an engine that returns packets.
    WaitsForReset,
    /// The engine was reset, and must show progress.
    AfterReset,
    /// Work of higher priority is ready, and packets of lower priority are before it.
    Priority,
    /// Work is ready, and a packet of another context that waits for much paging is before it (D23).
    ReadyWork,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum Event {
    /// The adapter started.
    AdapterStarted {
        /// The interface version that the driver was written for.
        wddm_version: u32,
        /// How engines find memory.
        addressing_model: AddressingModel,
        /// Whether the driver is sent MAP_APERTURE_SEGMENT2 in place of MAP_APERTURE_SEGMENT (BPB-34).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        map_aperture2_supported: bool,
        /// Slots of a DMA buffer's resource table (SPL-02), including slots that only a knob allows (U-44); 0 with GPU virtual
        /// addresses.
        num_slots: u32,
        /// Whether engines keep state between packets, so that further packets may run between two portions (SPL-07).
        preemption_aware: bool,
        /// The revision of the notification documents (C-16).
        notification_revision: NotificationRevision,
        /// The memory segments, as the driver reports them.
        memory: Vec<MemorySegmentFacts>,
        /// The aperture segments, as the driver reports them.
        apertures: Vec<ApertureSegmentFacts>,
        /// The group in which allocations in system memory count.
        system_group: MemorySegmentGroup,
        /// The commit limit of the apertures and implicit system memory together, in bytes (SEG-50, U-6).
        system_commit_limit: u64,
        /// The page of system memory behind unmapped aperture pages (BPB-33).
        dummy_page: PhysicalAddress,
        /// The engines, by ordinal.
        engines: Vec<EngineKind>,
        /// Index bits of the page-table levels, leaf first; the root has the remaining bits of the address.
        level_bits: Vec<u32>,
        /// Bytes of a table of each level, leaf first.
        table_bytes: Vec<u64>,
        /// Bytes of a leaf table of 64 KiB entries; none if level-1 entries are not dual (GVA-43).
        leaf_table_64kb_bytes: Option<u64>,
        /// How page tables are written.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "PageTableUpdateMode::is_default"))]
        page_table_update_mode: PageTableUpdateMode,
        /// Whether a valid entry in place of an invalid entry needs no flush.
        invalid_tlb_entries_not_cached: bool,
        /// Whether the CPU writes the paging process's tables in every update mode (GVA-33).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        paging_tables_by_cpu: bool,
        /// Whether an entry can request snooping of the CPU's caches (4.2).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        cache_coherent_memory_supported: bool,
        /// Whether entries can read as zero, as entries of reserved addresses do (GVA-20, GVA-52).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        zero_in_pte_supported: bool,
        /// Whether entries of level 1 can point to memory (GVA-21).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        large_page_supported: bool,
        /// Whether large pages may begin at any page, and not only at a multiple of a leaf table's range.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        allow_non_aligned_large_page_address: bool,
        /// Whether a large page can be in system memory.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        sys_mem_large_page_supported: bool,
        /// The bytes of each memory of the local group that budgets share; none is all bytes (RES-25).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        restrict_budget_local: Option<u64>,
        /// The same of the non-local group.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        restrict_budget_non_local: Option<u64>,
        /// Bytes of a paging buffer.
        paging_buffer_bytes: u64,
        /// Bits of a GPU virtual address.
        va_bits: u32,
        /// Bytes of a scratch window of the paging process, for each side of a transfer (U-16); 0 without an address space
        /// (PGV-03).
        paging_va_size: u64,
        /// The driver's handle of the paging process.
        paging_process: KmdProcessHandle,
        /// The addresses of the paging process's tables in the segment: always resident (PGV-04).
        paging_tables: Vec<Extent>,
        /// The segment of the paging process's tables.
        paging_tables_segment: SegmentId,
        /// Bytes of all tables of the paging process, in any memory.
        paging_table_bytes: u64,
        /// The adapter resets within `tdr_limit_time` that the adapter survives; the next reset stops the adapter (FLT-31).
        tdr_limit_count: u32,
        /// The time for which a reset is remembered, in nanoseconds.
        tdr_limit_time: Nanoseconds,
        /// The time that a packet runs before the engine is asked to yield (6.4).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        tdr_quantum: Option<Nanoseconds>,
        /// The time to yield for an engine that the reset of another engine would harm (FLT-26).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        tdr_dependent_delay: Option<Nanoseconds>,
    },
    /// A driver was asked for the size of a physical adapter's paging process address space (PGV-01).
    PagingVaQueried {
        /// The type of the query: 48.
        query_type: u32,
        /// The input: the index of the physical adapter, 0 without a link.
        physical_adapter_index: u32,
        /// Bytes of the input.
        input_data_size: u32,
        /// Bytes of the output.
        output_data_size: u32,
        /// The driver's answer in MiB; none if the query failed.
        answer_mib: Option<u32>,
        /// The resulting size of a window, in bytes; 0 is no address space (PGV-02, PGV-03).
        paging_va_size: u64,
    },
    /// A finding for the driver's author; no call is refused.
    DriverFinding {
        /// The finding.
        finding: DriverFinding,
    },
    /// A process was created.
    ProcessCreated {
        /// The process.
        process: ProcessId,
        /// The driver's handle.
        handle: KmdProcessHandle,
    },
    /// A process ends: the owner has destroyed the process. The devices of the process end next.
    ProcessTerminated {
        /// The process.
        process: ProcessId,
    },
    /// A process is gone; the process's tables are free.
    ProcessDestroyed {
        /// The process.
        process: ProcessId,
    },
    /// A device was created.
    DeviceCreated {
        /// The device.
        device: DeviceId,
        /// The process.
        process: ProcessId,
        /// The lists that drive the device's residency.
        #[cfg_attr(feature = "serde", serde(default))]
        residency: DeviceResidency,
    },
    /// A device ends: the owner has destroyed the device, or the process ends. Queued work of the device is dropped.
    DeviceTerminated {
        /// The device.
        device: DeviceId,
    },
    /// A device is gone, with all objects of the device.
    DeviceDestroyed {
        /// The device.
        device: DeviceId,
    },
    /// A context was created.
    ContextCreated {
        /// The context.
        context: ContextId,
        /// The device.
        device: DeviceId,
        /// The engine that runs the context's work.
        engine: u32,
    },
    /// A context was destroyed.
    ContextDestroyed {
        /// The context.
        context: ContextId,
    },
    /// A paging queue was created.
    PagingQueueCreated {
        /// The paging queue.
        queue: PagingQueueId,
        /// The device.
        device: DeviceId,
        /// A request of a larger priority is granted first, between devices.
        priority: i32,
    },
    /// A paging queue was destroyed.
    PagingQueueDestroyed {
        /// The paging queue.
        queue: PagingQueueId,
    },
    /// A monitored fence was created.
    MonitoredFenceCreated {
        /// The monitored fence.
        fence: MonitoredFenceId,
        /// The value.
        value: u64,
        /// The device whose end is the fence's end, if any.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        device: Option<DeviceId>,
    },
    /// A monitored fence was destroyed.
    MonitoredFenceDestroyed {
        /// The monitored fence.
        fence: MonitoredFenceId,
    },
    /// An allocation was created. The allocation is only in the backing store, and reads as zero (CRE-42).
    AllocationCreated {
        /// The allocation.
        allocation: AllocationId,
        /// The device.
        device: DeviceId,
        /// The process.
        process: ProcessId,
        /// The driver's handle.
        handle: KmdAllocationHandle,
        /// The size in bytes, rounded up.
        size: u64,
        /// The priority.
        priority: u32,
        /// The offset of the backing store in system memory, in bytes.
        backing_store: u64,
        /// The segments where the allocation may be resident: the driver's set, bit n is segment n + 1.
        supported_segment_set: u32,
        /// The segment that the driver prefers most, if any (SEG-42).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        preferred_segment: Option<SegmentId>,
        /// Whether the allocation is mapped in the aperture while resident in system memory (SEG-13).
        accessed_physically: bool,
        /// The notifications that the driver asked for and will get.
        notify: AllocationFlags2,
        /// Whether further devices may open the allocation.
        shared: bool,
        /// Whether the backing store is the caller's memory (EXISTING_SYS_MEM).
        existing_sys_mem: bool,
        /// Whether the content in system memory is kept while the allocation is in the memory segment (2.2).
        permanent_sys_mem: bool,
        /// Whether the backing store is in cacheable memory (2.2).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        cached: bool,
        /// Whether no entry above the leaves may show the allocation (GVA-21).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        disable_large_page_mapping: bool,
        /// Whether the driver is told of each arrival in a memory segment and of each departure (BPB-51).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        explicit_residency_notification: bool,
    },
    /// The caller destroyed an allocation; the memory lives until the last use has ended.
    AllocationDestroyed {
        /// The allocation.
        allocation: AllocationId,
        /// The flags.
        flags: DestroyFlags,
    },
    /// Nothing names the allocation any more; the backing store was returned.
    AllocationReclaimed {
        /// The allocation.
        allocation: AllocationId,
    },
    /// Addresses were reserved.
    GpuVirtualAddressReserved {
        /// The process.
        process: ProcessId,
        /// First address.
        virtual_address: GpuVirtualAddress,
        /// Size in bytes.
        size: u64,
        /// The paging queue; none in logs of older versions.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        queue: Option<PagingQueueId>,
        /// The value of the queue's fence after which the addresses read as zero; 0 if an access faults.
        #[cfg_attr(feature = "serde", serde(default))]
        paging_fence_value: u64,
    },
    /// A mapping was admitted.
    GpuVirtualAddressMapped {
        /// The process.
        process: ProcessId,
        /// First address.
        virtual_address: GpuVirtualAddress,
        /// Size in bytes.
        size: u64,
        /// The allocation.
        allocation: AllocationId,
        /// The offset of the part in the allocation, in bytes.
        allocation_offset: u64,
        /// Page size of the entries.
        page_size: PageSize,
        /// Whether writes through the mapping fault.
        read_only: bool,
        /// Whether the mapped memory is not executed.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        no_execute: bool,
        /// The protection that the driver gets back in the entries (GVA-57).
        driver_protection: u64,
        /// The paging queue.
        queue: PagingQueueId,
        /// The value of the queue's fence after which the mapping can be used; 0 is at once.
        paging_fence_value: u64,
    },
    /// A mapping or reservation was given back.
    GpuVirtualAddressFreed {
        /// The process.
        process: ProcessId,
        /// First address.
        virtual_address: GpuVirtualAddress,
        /// Size in bytes.
        size: u64,
    },
    /// Addresses are free: all work that could use a freed mapping has ended and the entries are invalid, or returned reserved
    /// addresses no longer read as zero.
    GpuVirtualAddressReclaimed {
        /// The process.
        process: ProcessId,
        /// First address.
        virtual_address: GpuVirtualAddress,
        /// Size in bytes.
        size: u64,
        /// The reason for the end of the mapping or reservation.
        reason: ReclaimReason,
    },
    /// MakeResident was admitted.
    MakeResident {
        /// The device.
        device: DeviceId,
        /// The paging queue.
        queue: PagingQueueId,
        /// The allocations.
        allocations: Vec<AllocationId>,
        /// The flags.
        flags: MakeResidentFlags,
        /// The last submission before the call.
        after_submission: u64,
        /// The value of the queue's fence from which on the allocations can be used; 0 is at once.
        paging_fence_value: u64,
        /// The allocations of the request. Further allocations of the call are in place, and joined the list at once (RES-16).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
        waiting: Vec<AllocationId>,
    },
    /// MakeResident was refused; nothing changed.
    MakeResidentRefused {
        /// The device.
        device: DeviceId,
        /// The allocations.
        allocations: Vec<AllocationId>,
        /// The flags.
        flags: MakeResidentFlags,
        /// The bytes to trim (RES-13).
        num_bytes_to_trim: u64,
        /// The reason.
        reason: NoMemoryReason,
        /// The missing bytes in each memory; `num_bytes_to_trim` is the sum.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
        shortages: Vec<Shortage>,
    },
    /// Evict was accepted.
    Evict {
        /// The device.
        device: DeviceId,
        /// The allocations.
        allocations: Vec<AllocationId>,
        /// The flags.
        flags: EvictFlags,
        /// The last submission that still requires the allocations.
        after_submission: u64,
        /// The bytes that the process should still trim to meet the budget (RES-23); 0 is none.
        num_bytes_to_trim: u64,
    },
    /// Allocations were offered: from `after_submission` on no work uses the allocations until Reclaim (RES-61). Offered
    /// allocations stay on the device's list, but are not required.
    Offered {
        /// The device.
        device: DeviceId,
        /// The allocations.
        allocations: Vec<AllocationId>,
        /// The priority of the offer.
        priority: OfferPriority,
        /// The flags.
        flags: OfferFlags,
        /// The last submission that still uses the allocations.
        after_submission: u64,
    },
    /// Offered allocations were taken back (RES-64).
    Reclaimed {
        /// The device.
        device: DeviceId,
        /// The paging queue.
        queue: PagingQueueId,
        /// The allocations.
        allocations: Vec<AllocationId>,
        /// The state of each content, in the same order.
        results: Vec<ReclaimResult>,
        /// The present addresses of the backing stores, in the same order: each decommitted allocation got a new backing store.
        backing_stores: Vec<u64>,
        /// The last submission before the call.
        after_submission: u64,
        /// The value of the queue's fence from which on the GPU can use reclaimed allocations on the list; 0 is at once
        /// (RES-65).
        paging_fence_value: u64,
    },
    /// The host has no backing store for an allocation. Next, offered allocations that may be decommitted lose backing store
    /// and content (RES-66).
    BackingStoreRefused {
        /// The requested bytes.
        size: u64,
    },
    /// The content of an offered allocation is lost from now on (RES-63). Each discard is one event.
    ContentDiscarded {
        /// The allocation.
        allocation: AllocationId,
        /// The plan that discards the content; none if only the backing store had content, which goes at once.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        plan: Option<PlanNo>,
    },
    /// The backing store of an offered allocation was returned: the content is discarded, or the host has refused a backing
    /// store (RES-66).
    Decommitted {
        /// The allocation.
        allocation: AllocationId,
    },
    /// The CPU sees an allocation (RES-80).
    Locked {
        /// The device.
        device: DeviceId,
        /// The allocation.
        allocation: AllocationId,
        /// The first address.
        address: CpuVirtualAddress,
        /// The segment behind the address; 0 is system memory.
        segment: SegmentId,
        /// The ranges of the segment.
        extents: Vec<Extent>,
    },
    /// A locked allocation has moved, and keeps the CPU address (RES-86).
    Rotated {
        /// The plan of the move.
        plan: PlanNo,
        /// The allocation.
        allocation: AllocationId,
        /// The CPU address of the allocation.
        address: CpuVirtualAddress,
        /// The segment behind the address now; 0 is system memory.
        segment: SegmentId,
        /// The ranges of the segment.
        extents: Vec<Extent>,
    },
    /// One lock of an allocation ended.
    Unlocked {
        /// The allocation.
        allocation: AllocationId,
        /// Remaining locks; with 0 the CPU no longer sees the allocation.
        locks: u32,
    },
    /// A device opened an allocation of another device (CRE-06).
    AllocationOpened {
        /// The allocation.
        allocation: AllocationId,
        /// The device.
        device: DeviceId,
        /// The process.
        process: ProcessId,
    },
    /// A device closed an allocation: the allocation leaves the device's list, and the mappings end with the work submitted
    /// before.
    AllocationClosed {
        /// The allocation.
        allocation: AllocationId,
        /// The device.
        device: DeviceId,
    },
    /// The owner destroyed a shared allocation that further devices have open: the allocation has a new owner (U-34).
    AllocationOwnershipTransferred {
        /// The allocation.
        allocation: AllocationId,
        /// The new owner.
        device: DeviceId,
        /// The new owner's process, which is charged for the allocation.
        process: ProcessId,
    },
    /// The priority of an allocation changed (CRE-31).
    AllocationPriorityChanged {
        /// The allocation.
        allocation: AllocationId,
        /// The new priority.
        priority: u32,
    },
    /// The memory in which lists count an allocation with several possible memories, from now on (D19).
    AllocationCounted {
        /// The allocation.
        allocation: AllocationId,
        /// The memory segment, or [`SegmentId::SYSTEM`] for system memory.
        segment: SegmentId,
        /// Whether lists in the old and the new memory are weighed anew by their present allocations.
        anew: bool,
    },
    /// The segments where an allocation may be resident changed (CRE-50).
    AllocationPropertyUpdated {
        /// The allocation.
        allocation: AllocationId,
        /// The new set of segments: bit n is segment n + 1.
        supported_segment_set: u32,
        /// The queue.
        queue: PagingQueueId,
        /// The value of the queue's fence from which on the allocation is in the new segments; 0 is at once.
        paging_fence_value: u64,
    },
    /// The weight of a process in the sharing of memory changed (RES-53).
    ProcessPriorityChanged {
        /// The process.
        process: ProcessId,
        /// The band.
        band: PriorityBand,
        /// The visibility to the user.
        visibility: Visibility,
    },
    /// A process changed its reservation (RES-52).
    ReservationChanged {
        /// The process.
        process: ProcessId,
        /// The group.
        group: MemorySegmentGroup,
        /// The new reservation, in bytes.
        reservation: u64,
    },
    /// From now on each memory of a group has budgets as a memory of at most so many bytes.
    BudgetRestricted {
        /// The group.
        group: MemorySegmentGroup,
        /// The bytes; none lifts the restriction.
        bytes: Option<u64>,
    },
    /// A new budget was published, of a process that asked for the budget or is above the budget (RES-53).
    BudgetChanged {
        /// The process.
        process: ProcessId,
        /// The group.
        group: MemorySegmentGroup,
        /// The budget in bytes.
        budget: u64,
        /// The bytes on the process's lists.
        requested: u64,
    },
    /// The intervals of trim requests were set (RES-43).
    TrimIntervalsSet {
        /// Between two periodic trims while memory is short, and between two requests to trim to the same budget.
        min: Nanoseconds,
        /// Between two periodic trims while more than 70 % of the memory is on lists.
        max: Nanoseconds,
        /// Between two periodic trims otherwise.
        idle: Nanoseconds,
    },
    /// A device registered for trim notifications (RES-40).
    TrimNotificationRegistered {
        /// The registration.
        notification: TrimNotificationId,
        /// The device.
        device: DeviceId,
    },
    /// A registration ended.
    TrimNotificationUnregistered {
        /// The registration.
        notification: TrimNotificationId,
    },
    /// A device is asked to trim (RES-41).
    TrimNotified {
        /// The registration.
        notification: TrimNotificationId,
        /// The device.
        device: DeviceId,
        /// The reasons.
        flags: TrimFlags,
        /// The group whose budget the process exceeds; none for a request without a budget, or if the segment counts toward no
        /// group.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        group: Option<MemorySegmentGroup>,
        /// The bytes above the budget.
        num_bytes_to_trim: u64,
    },
    /// A device's work is no longer dispatched: the device's memory is wanted, or the device must wait for memory (RES-71). The
    /// list stays in place until the work in flight has retired.
    DeviceYielded {
        /// The device.
        device: DeviceId,
        /// The reason.
        reason: SuspendReason,
        /// The device that needs the memory, if any.
        wanted_by: Option<DeviceId>,
    },
    /// A yielding device has nothing in flight any more: the list is not required until the device is resumed.
    DeviceSuspended {
        /// The device.
        device: DeviceId,
    },
    /// A device's turn has come: the list is required again, and plans bring the list back (RES-71).
    DeviceResumed {
        /// The device.
        device: DeviceId,
        /// The reason.
        reason: ResumeReason,
        /// The plans that must retire before the device's work runs.
        plans: Vec<PlanNo>,
    },
    /// A device has waited for memory for a second behind one that does not yield to it: its process is in the foreground, within
    /// its budget and not asleep, or within its reservation (RES-44, RES-52). What the waiting device lists has no room elsewhere.
    DeviceHeldUp {
        /// The device that waits.
        device: DeviceId,
        /// The device that keeps the memory.
        behind: DeviceId,
        /// The time since which it waits.
        since: Nanoseconds,
    },
    /// A process was suspended by a call: no device of the process runs.
    ProcessSuspended {
        /// The process.
        process: ProcessId,
        /// Whether a submission of the process resumes the process.
        allow_wake_on_submission: bool,
    },
    /// A process was resumed by a call, or by a submission.
    ProcessResumed {
        /// The process.
        process: ProcessId,
        /// Whether a submission woke the process.
        by_submission: bool,
    },
    /// Everything is in system memory, and the adapter may lose power.
    PoweredDown,
    /// The adapter has power again; the memory segment is empty.
    PoweredUp,
    /// Work was submitted, and requires the device's present list. If references of DMA buffers drive residency, work without
    /// references is logged at the hand-out.
    Submitted {
        /// The device.
        device: DeviceId,
        /// The context.
        context: ContextId,
        /// The submission's number within the device.
        submission: u64,
        /// Monitored fences that must have reached their values before the work runs.
        waits: Vec<(MonitoredFenceId, u64)>,
        /// Monitored fences signalled by the end of the work.
        signals: Vec<(MonitoredFenceId, u64)>,
    },
    /// A driver translated commands into a DMA buffer with patch locations for allocations; the DMA buffer is queued.
    Rendered {
        /// The device.
        device: DeviceId,
        /// The context.
        context: ContextId,
        /// The number among the adapter's DMA buffers.
        dma_buffer: u64,
        /// Its size.
        bytes: u32,
        /// The allocation list; none unbinds a slot.
        allocations: Vec<Option<AllocationId>>,
        /// The driver's patch-location list.
        patch_locations: Vec<PatchLocation>,
        /// Monitored fences that must have reached their values before the first portion runs.
        waits: Vec<(MonitoredFenceId, u64)>,
        /// Monitored fences signalled by the end of the last portion.
        signals: Vec<(MonitoredFenceId, u64)>,
    },
    /// A portion of a DMA buffer is handed to the engine by the next event (SPL-05).
    Portion {
        /// The device.
        device: DeviceId,
        /// The DMA buffer.
        dma_buffer: u64,
        /// The portion's number in the DMA buffer, from 0.
        portion: u32,
        /// The portion's number within the device.
        submission: u64,
        /// The first byte of the portion.
        start_offset: u32,
        /// The first byte behind the portion.
        end_offset: u32,
        /// Whether the portion is the last of the DMA buffer.
        is_last: bool,
        /// The portion's first patch location (U-47).
        patch_location_start: u32,
        /// The number of the portion's patch locations.
        patch_location_length: u32,
        /// The required bindings: bindings that stay at the first byte, and next the bindings of the patch locations.
        bindings: Vec<PortionBinding>,
        /// The reason for the end of the portion.
        cut: PortionEnd,
        /// Whether the driver was asked to patch the portion.
        patched: bool,
    },
    /// A DMA buffer is dropped, as was expected: the needs at one split point do not fit (SPL-10, SPL-13). In the context a
    /// submission without commands takes the DMA buffer's place, and signals the fences.
    PreparationFailed {
        /// The device.
        device: DeviceId,
        /// The DMA buffer.
        dma_buffer: u64,
        /// The split offset of the group that does not fit.
        offset: u32,
        /// Bytes bound together at the split point.
        bytes: u64,
    },
    /// The priority of a context's work changed.
    ContextPriorityChanged {
        /// The context.
        context: ContextId,
        /// The priority, from -7 to 7.
        priority: i32,
    },
    /// The driver was told where a context finds its page tables (GVA-17).
    RootPageTableSet {
        /// The context.
        context: ContextId,
        /// The root table.
        address: PhysicalAddress,
        /// The present entries of the root table; addresses beyond the entries fault. 0 in a log of an earlier version.
        #[cfg_attr(feature = "serde", serde(default))]
        num_entries: u32,
    },
    /// Work was handed to its engine.
    Dispatched {
        /// The device.
        device: DeviceId,
        /// The submission's number within the device.
        submission: u64,
        /// The fence signalled by the end.
        signal: EngineFence,
        /// The fences to wait for.
        waits: Vec<EngineFence>,
    },
    /// A request was granted: the plans are decided.
    Granted {
        /// The device.
        device: DeviceId,
        /// The paging queue.
        queue: PagingQueueId,
        /// The fence value of the request.
        paging_fence_value: u64,
        /// The plans that must retire first.
        plans: Vec<PlanNo>,
    },
    /// A victim was chosen.
    Evicted {
        /// The plan of the eviction.
        plan: PlanNo,
        /// The victim.
        allocation: AllocationId,
        /// The segment that the victim leaves; 0 is implicit system memory.
        segment: SegmentId,
        /// The ranges that the victim leaves; in implicit system memory the backing store.
        extents: Vec<Extent>,
        /// Whether the content is copied out.
        copied: bool,
        /// The reason.
        reason: EvictReason,
        /// Whether the content is lost: an offered victim (RES-61).
        discarded: bool,
        /// The device that gets the room, if any, and the device's purpose.
        wanted_by: Option<WantedBy>,
    },
    /// A part of the content of an allocation is copied out ahead of an eviction, while engines leave the bus alone (D37). The
    /// allocation stays in place: less than `watermark` bytes of the memory go before the allocation, or are free beyond a half.
    Cleaned {
        /// The plan of the copy.
        plan: PlanNo,
        /// The allocation.
        allocation: AllocationId,
        /// The first byte of the part.
        offset: u64,
        /// The bytes of the part.
        size: u64,
        /// Whether the content ends with the part. If nothing writes between the first part and the end of this plan, an eviction before
        /// the next write copies nothing.
        is_last: bool,
        /// The bytes of the memory that go before the allocation, or are free beyond a half of the memory.
        ahead: u64,
        /// The bytes at the cold end of the memory that are to be clean.
        watermark: u64,
    },
    /// A device has announced which allocations it needs soon, the first need first; its last announcement is void (D37).
    Announced {
        /// The device.
        device: DeviceId,
        /// The allocations; none withdraw the announcement.
        allocations: Vec<AllocationId>,
    },
    /// An allocation comes into free memory ahead of its MakeResident, while engines leave the bus alone (D37). Nothing is evicted for it.
    Prefetched {
        /// The plan of the page-in.
        plan: PlanNo,
        /// The allocation.
        allocation: AllocationId,
        /// The reason.
        reason: PrefetchReason,
    },
    /// A place was chosen.
    Placed {
        /// The plan of the page-in.
        plan: PlanNo,
        /// The allocation.
        allocation: AllocationId,
        /// The segment of the place; 0 is implicit system memory.
        segment: SegmentId,
        /// The ranges of the place; in implicit system memory the backing store.
        extents: Vec<Extent>,
        /// The source of the content.
        content: ContentSource,
    },
    /// An allocation with a lasting copy in system memory gets the copy's content in the memory segment: the CPU may have
    /// written the copy (2.2).
    Refreshed {
        /// The plan of the copy.
        plan: PlanNo,
        /// The allocation, in the same place.
        allocation: AllocationId,
    },
    /// A page table was placed.
    PageTablePlaced {
        /// The plan that initialises the table.
        plan: PlanNo,
        /// The process.
        process: ProcessId,
        /// The level of the table; 0 is the leaf.
        level: u32,
        /// The size of the pages behind the entries.
        page_size: PageSize,
        /// The first address of the table's range.
        virtual_address: GpuVirtualAddress,
        /// The address of the table.
        address: PhysicalAddress,
        /// The size in bytes.
        size: u64,
    },
    /// No mapping needs a page table any more: the table's memory is free.
    PageTableFreed {
        /// The plan after which no entry points to the table.
        plan: PlanNo,
        /// The process.
        process: ProcessId,
        /// The level of the table; 0 is the leaf.
        level: u32,
        /// The size of the pages behind the entries.
        page_size: PageSize,
        /// The first address of the table's range.
        virtual_address: GpuVirtualAddress,
        /// The address of the table.
        address: PhysicalAddress,
        /// The size in bytes.
        size: u64,
    },
    /// A plan was decided, and is parked until the plan's waits are over.
    PlanDecided {
        /// The number of the plan.
        plan: PlanNo,
        /// Submissions that must retire before the plan enters the stream.
        waits: Vec<(DeviceId, u64)>,
        /// Plans that must enter the stream before.
        after: Vec<PlanNo>,
    },
    /// A plan entered the stream: ranges emptied by the plan are free for later plans.
    PlanEntered {
        /// The number of the plan.
        plan: PlanNo,
    },
    /// A plan is built to the end: the plan is carried out once a packet of the paging engine has ended.
    PlanBuilt {
        /// The number of the plan.
        plan: PlanNo,
        /// The packet, perhaps not handed out yet; 0 if nothing was ever built before the plan's end.
        signal: EngineFence,
    },
    /// A plan's last operation has completed.
    PlanRetired {
        /// The number of the plan.
        plan: PlanNo,
    },
    /// The driver was asked to encode an operation.
    PagingOperation {
        /// The plan of the operation; 0 is adapter start.
        plan: PlanNo,
        /// The operation.
        operation: PagingOperation,
        /// The driver's answer.
        status: BuildStatus,
        /// The offset of the commands in the buffer.
        offset: u32,
        /// The written bytes.
        bytes: u32,
        /// The progress afterwards.
        multipass_offset: u32,
    },
    /// The host mapped a range in the IOMMU.
    IoMmuMapped {
        /// The plan that needs the change.
        plan: PlanNo,
        /// The domain: of one process, or of all processes.
        domain: IoMmuDomain,
        /// First address.
        virtual_address: GpuVirtualAddress,
        /// The allocation.
        allocation: AllocationId,
        /// The offset of the part in the allocation, in bytes.
        allocation_offset: u64,
        /// Size in bytes.
        size: u64,
        /// Whether the range is a window of the paging process.
        window: bool,
    },
    /// The host unmapped a range from the IOMMU.
    IoMmuUnmapped {
        /// The plan that needs the change.
        plan: PlanNo,
        /// The domain: of one process, or of all processes.
        domain: IoMmuDomain,
        /// First address.
        virtual_address: GpuVirtualAddress,
        /// Size in bytes.
        size: u64,
        /// Whether the range is a window of the paging process.
        window: bool,
    },
    /// A paging buffer was handed to the paging engine.
    PagingBufferSubmitted {
        /// The fence signalled by the end.
        signal: EngineFence,
        /// Bytes of commands in the buffer.
        bytes: u32,
    },
    /// An engine has ended a packet.
    Completed {
        /// The signalled fence.
        signal: EngineFence,
    },
    /// A paging fence was signalled.
    PagingFenceSignaled {
        /// The queue.
        queue: PagingQueueId,
        /// The value now.
        value: u64,
    },
    /// A monitored fence was signalled.
    MonitoredFenceSignaled {
        /// The fence.
        fence: MonitoredFenceId,
        /// The value now.
        value: u64,
    },
    /// A packet accessed an address without resident memory (FLT-03).
    PageFault {
        /// The packet.
        signal: EngineFence,
        /// The address.
        virtual_address: GpuVirtualAddress,
        /// Whether it was a write.
        write: bool,
        /// The allocation mapped at the address, if any.
        allocation: Option<AllocationId>,
        /// The driver's flags for the fault (FLT-10).
        flags: PageFaultFlags,
        /// The level of the page tables at which the walk ended.
        page_table_level: u32,
        /// The error code (FLT-12).
        fault_error_code: FaultErrorCode,
        /// The nearest mapping before the address.
        below: Option<Neighbour>,
        /// The nearest mapping after the address.
        above: Option<Neighbour>,
        /// All packets under way.
        in_flight: Vec<EngineFence>,
    },
    /// A packet has a command unknown to the GPU; the engine has stopped.
    IllegalCommand {
        /// The packet.
        signal: EngineFence,
    },
    /// A packet will not end: the engine was reset before the end, or the work was dropped.
    Aborted {
        /// The packet.
        signal: EngineFence,
    },
    /// An engine was asked to end the packet under way and to return all further packets.
    PreemptRequested {
        /// The engine.
        engine: u32,
        /// The number of the request.
        preemption_fence_id: u64,
        /// The reason.
        reason: PreemptReason,
    },
    /// An engine has yielded.
    Preempted {
        /// The engine.
        engine: u32,
        /// The number of the request.
        preemption_fence_id: u64,
        /// The last ended packet.
        last_completed_fence_id: u64,
        /// The returned packets.
        returned: Vec<u64>,
    },
    /// An engine has not answered in time: the request is over, and the engine is reset if the packet has not ended (FLT-22).
    PreemptTimedOut {
        /// The engine.
        engine: u32,
        /// The number of the request.
        preemption_fence_id: u64,
    },
    /// The driver is to reset an engine (FLT-22).
    EngineResetBegun {
        /// The engine.
        engine: u32,
        /// The reason.
        reason: DeviceErrorReason,
        /// The engines that the reset harms, by the driver's answer (FLT-26).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
        dependent_engines: Vec<u32>,
    },
    /// The driver has reset an engine.
    EngineReset {
        /// The engine.
        engine: u32,
        /// The last aborted packet; none if the reset failed.
        last_aborted_fence_id: Option<u64>,
        /// The returned packets.
        returned: Vec<u64>,
    },
    /// A returned packet was handed to the engine again: a paging buffer with the old fence, users' work with a new fence
    /// (FLT-23).
    Resubmitted {
        /// The former fence of the packet.
        before: EngineFence,
        /// The present fence of the packet.
        signal: EngineFence,
        /// The fences to wait for.
        waits: Vec<EngineFence>,
    },
    /// A process has hung engines too often, and loses the GPU (FLT-31).
    ProcessBlocked {
        /// The process.
        process: ProcessId,
    },
    /// The driver is to stop the GPU: all engines stop, all packets are aborted, and the content of the memory segment
    /// is lost (FLT-32).
    AdapterResetBegun {
        /// The reason.
        cause: DeviceErrorReason,
    },
    /// Between reset and restart the driver was told of an allocation's end of residency (BPB-27).
    PurgeOperation {
        /// The allocation.
        allocation: AllocationId,
        /// The operation.
        operation: PagingOperation,
        /// The driver's answer.
        status: BuildStatus,
    },
    /// The adapter was reset before a plan had retired: the plan will not be carried out to the end.
    PlanAbandoned {
        /// The plan.
        plan: PlanNo,
    },
    /// The right content of an allocation was lost with a reset (FLT-34): the only copy was in a memory segment, and the
    /// allocation reads as zero; or the bytes are kept.
    ContentLost {
        /// The allocation.
        allocation: AllocationId,
        /// The bytes in system memory are kept: as the GPU left the bytes, because the driver had no chance to convert them
        /// (NTF-02); or the lasting copy for the CPU (2.2).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        is_kept: bool,
    },
    /// The GPU runs again: nothing is resident, nothing is under way.
    AdapterRestarted,
    /// A device was put in error; the work is dropped, and the list is empty (FLT-04).
    DeviceInError {
        /// The device.
        device: DeviceId,
        /// The reason.
        reason: DeviceErrorReason,
    },
    /// The adapter was put in error.
    AdapterInError {
        /// The broken rule.
        violation: Violation,
    },
    /// A kernel's inputs were compared with the expected ones. Recorded by the checker.
    ContentChecked {
        /// The kernel's number.
        kernel: u64,
        /// Pages compared.
        pages: u64,
        /// Pages that were wrong.
        wrong: u64,
    },
    /// A kernel took longer than the kernel computes, because of accesses to system memory. Recorded by the machine's owner (D35).
    AccessedOverBus {
        /// The device.
        device: DeviceId,
        /// The kernel's number.
        kernel: u64,
        /// The accesses, with the lost time of each.
        accesses: Vec<BusAccess>,
    },
    /// A check did not hold. Recorded by the checker.
    Finding {
        /// The reading kernel.
        kernel: u64,
        /// The allocation.
        allocation: AllocationId,
        /// The page of the allocation, counted from 0.
        page: u64,
        /// The right digest of the page.
        expected: u64,
        /// The digest of the page.
        found: u64,
    },
}

/// A kernel's access to an allocation in system memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct BusAccess {
    /// The allocation.
    pub allocation: AllocationId,
    /// The bytes in system memory that the kernel read or wrote.
    pub bytes: u64,
    /// The allocation's part of the lost time: by bytes.
    pub lost_ns: Nanoseconds,
}

/// A memory segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MemorySegmentFacts {
    /// The number of the segment.
    pub segment: SegmentId,
    /// The size in bytes.
    pub size: u64,
    /// The size of the pages.
    pub page_size: PageSize,
    /// Whether the CPU sees the whole segment.
    pub cpu_visible: bool,
    /// The group of the segment's bytes; none if the bytes count toward no budget.
    pub group: Option<MemorySegmentGroup>,
    /// Bytes at the segment's end for page tables only; 0 if page tables lie anywhere (D19).
    pub page_table_area: u64,
}

/// An aperture segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ApertureSegmentFacts {
    /// The number of the segment.
    pub segment: SegmentId,
    /// The used bytes: of several apertures at most the mappable bytes of each (SEG-50).
    pub size: u64,
    /// Whether reads through the aperture snoop the CPU's caches.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
    pub cache_coherent: bool,
}

/// The reason for an eviction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
pub enum EvictReason {
    /// The room is wanted, and the allocation was next in the documented order (CRE-31a).
    RoomWanted,
    /// The last Evict of the allocation asked for the eviction (RES-21).
    EvictRequested,
    /// The allocation is required in the memory segment, and leaves system memory.
    Promoted,
    /// The range of the aperture is wanted.
    RangeWanted,
    /// The allocation was destroyed (RES-91).
    Destroyed,
    /// The room of an offered allocation is wanted (RES-61); or the offer asked for an immediate discard.
    Offered,
    /// The requiring device is suspended, and the room is wanted (RES-71) or a call suspended the device.
    DeviceSuspended,
    /// The CPU needs the allocation, and cannot see the present place (RES-82).
    Locked,
    /// The allocation may no longer be in the present place (CRE-50).
    PropertyUpdated,
    /// The adapter is about to lose power.
    PoweredDown,
    /// The allocation comes back in another place, to make room for the rest of the list or of a portion (D19, SPL-08).
    Moved,
    /// Programs outside of the manager took memory, and less is left than is in use.
    BudgetRestricted,
}

impl EvictReason {
    /// All reasons, in their order.
    pub const ALL: [Self; 12] = [
        Self::RoomWanted,
        Self::EvictRequested,
        Self::Promoted,
        Self::RangeWanted,
        Self::Destroyed,
        Self::Offered,
        Self::DeviceSuspended,
        Self::Locked,
        Self::PropertyUpdated,
        Self::PoweredDown,
        Self::Moved,
        Self::BudgetRestricted,
    ];

    /// Whether an allocation leaves to make room for another device.
    pub(crate) const fn is_for_room(self) -> bool {
        matches!(
            self,
            EvictReason::RoomWanted | EvictReason::RangeWanted | EvictReason::Offered | EvictReason::DeviceSuspended
        )
    }
}

/// The reason why an allocation comes ahead of its MakeResident.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
pub enum PrefetchReason {
    /// The last announcement of a device names the allocation.
    Announced {
        /// The device.
        device: DeviceId,
    },
    /// The policy expects a use.
    Policy,
}

/// The request or allocation that gets the room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WantedBy {
    /// The device that needs the room.
    pub device: DeviceId,
    /// The request granted with the room; none if the device is resumed or is to run.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub request: Option<RequestName>,
    /// The allocation that gets the room; none if the room is for several allocations.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub allocation: Option<AllocationId>,
}

/// A request, as its answer named it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RequestName {
    /// The queue of the request.
    pub queue: PagingQueueId,
    /// The value of the queue's fence in the answer.
    pub paging_fence_value: u64,
}

/// The reason why mapped addresses are free again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
pub enum ReclaimReason {
    /// A call freed the addresses (GVA-53).
    Freed,
    /// A device closed the mapped allocation, which ends the device's mappings.
    Closed {
        /// The allocation.
        allocation: AllocationId,
        /// The device.
        device: DeviceId,
    },
}

/// A slot of a portion's resource table (SPL-02).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct PortionBinding {
    /// The slot.
    pub slot_id: u32,
    /// The bound allocation; none if the patch location unbinds the slot.
    pub allocation: Option<AllocationId>,
    /// The address of the allocation.
    pub address: PhysicalAddress,
    /// Whether the binding stays from the portion before, in the same place (SPL-08).
    pub fixed: bool,
}

/// The reason for the end of a portion.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
pub enum PortionEnd {
    /// The end of the DMA buffer.
    EndOfDmaBuffer,
    /// The next bindings do not fit beside the portion's allocations (SPL-05).
    NoRoom {
        /// The first allocation that does not fit.
        allocation: AllocationId,
    },
    /// Every split point is taken (SPL-13).
    TakeSplitPoint,
}

/// The reason why a device yields (RES-71, U-39).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
pub enum SuspendReason {
    /// The process is above the budget, the device has nothing to run, and the device's memory is wanted.
    IdleOverBudget,
    /// The process is above the budget, the device's time slice is over, and the device's memory is wanted.
    SliceOver,
    /// The device has nothing to run, and another device has waited for memory for a long time.
    Idle,
    /// Its process is asleep: nothing of it has been in flight for the longest of 250 ms and four times its longest gap of the last 2 s.
    Asleep,
    /// Its process has slept for ten seconds, or the setting of the adapter: it gives its memory to a device within its budget that has
    /// allocations away from home.
    Exchange,
    /// A process has woken that gave its memory to this device: it goes on as soon as the memory is given back.
    ExchangeEnds,
    /// Another device has waited for memory for too long.
    Starvation,
    /// The device's list has grown, and must wait for room beside active devices.
    WaitsForRoom,
    /// The device's allocations can have better places now, or must leave the present places.
    Replace,
    /// A call suspended the process.
    ProcessSuspended,
    /// The adapter is about to lose power.
    PowerDown,
}

/// The reason why a device is resumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
pub enum ResumeReason {
    /// The device has work, and memory has room.
    HasWork,
    /// The device has nothing to run, but memory has room again: evicted allocations come back.
    PressureFell,
}

/// The source of the content of a page-in (RES-18).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum ContentSource {
    /// No content yet: the place is filled with zeros (CRE-42).
    Fill,
    /// The backing store.
    BackingStore,
    /// Nothing moves: the allocation is resident in the backing store.
    InPlace,
}

/// Collects events until a drain. When off, an event costs nothing but a count.
#[derive(Debug, Default)]
pub struct EventLog {
    enabled: bool,
    number: u64,
    at: Nanoseconds,
    occurred_at: Option<Nanoseconds>,
    pending: Vec<NumberedEvent>,
}

impl EventLog {
    /// A log that keeps events until a drain, or only counts events.
    pub(crate) fn new(enabled: bool) -> Self {
        Self { enabled, ..Self::default() }
    }

    /// Whether events are kept.
    pub(crate) fn is_kept(&self) -> bool {
        self.enabled
    }

    /// Counts an event, and keeps it if events are kept. Returns its number.
    #[inline]
    pub fn record(&mut self, event: impl FnOnce() -> Event) -> u64 {
        self.number += 1;
        if self.enabled {
            self.keep(event);
        }
        self.number
    }

    // Events are large: a counted event takes no room on the stack.
    #[inline(never)]
    fn keep(&mut self, event: impl FnOnce() -> Event) {
        let Self { number, at, occurred_at, .. } = *self;
        self.pending.push(NumberedEvent { number, at, occurred_at, event: event() });
    }

    /// Takes the events since the last call.
    pub fn drain(&mut self) -> impl Iterator<Item = NumberedEvent> {
        self.pending.drain(..)
    }

    /// The number of the last event.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Events until the next call belong to a report of the GPU about this moment of the GPU's clock; with `None` to no report.
    pub fn set_occurred_at(&mut self, occurred_at: Option<Nanoseconds>) {
        self.occurred_at = occurred_at;
    }

    pub(crate) fn set_time(&mut self, at: Nanoseconds) {
        self.at = at;
    }
}
