//! Events: the history of a run, as whole facts.
//!
//! Every event has a number, counted whether or not events are kept, so that a number means the same in a run with a
//! log and in one without. Events are complete: a reader of the log alone can rebuild the place of every allocation.

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
    /// Its packet has run for a quantum.
    Quantum,
    /// It depends on an engine that is to be reset (FLT-26).
    Dependent,
    /// It has packets that wait for an engine which gives its own back.
    WaitsForReset,
    /// It was reset, and is to show that it runs.
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
        /// Slots of a DMA buffer's resource table (SPL-02), with that which only a knob allows (U-44); 0 with GPU virtual addresses.
        num_slots: u32,
        /// Whether engines keep their state between packets, so that others may run between two portions (SPL-07).
        preemption_aware: bool,
        /// The revision of the notification documents that is followed (C-16).
        notification_revision: NotificationRevision,
        /// The memory segments, as the driver reports them.
        memory: Vec<MemorySegmentFacts>,
        /// The aperture segments, as the driver reports them.
        apertures: Vec<ApertureSegmentFacts>,
        /// The group in which allocations in system memory count.
        system_group: MemorySegmentGroup,
        /// The most that may be resident in the apertures and in implicit system memory together, in bytes (SEG-50, U-6).
        system_commit_limit: u64,
        /// The page of system memory that unmapped aperture pages show (BPB-33).
        dummy_page: PhysicalAddress,
        /// Its engines, by ordinal.
        engines: Vec<EngineKind>,
        /// Index bits of the page-table levels, leaf first; the root's are the remaining bits of the address.
        level_bits: Vec<u32>,
        /// Bytes of a table of each level, leaf first.
        table_bytes: Vec<u64>,
        /// Bytes of a leaf table of 64 KiB entries; none if level-1 entries are not dual (GVA-43).
        leaf_table_64kb_bytes: Option<u64>,
        /// How page tables are written.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "PageTableUpdateMode::is_default"))]
        page_table_update_mode: PageTableUpdateMode,
        /// Whether a valid entry that replaces an invalid one needs no flush.
        invalid_tlb_entries_not_cached: bool,
        /// Whether the CPU writes the paging process's tables however others are written (GVA-33).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        paging_tables_by_cpu: bool,
        /// Whether entries can say that the CPU's caches are snooped (4.2).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        cache_coherent_memory_supported: bool,
        /// Whether entries can read as zero, as those of reserved addresses do (GVA-20, GVA-52).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        zero_in_pte_supported: bool,
        /// Whether entries of level 1 can point to memory (GVA-21).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        large_page_supported: bool,
        /// Whether that memory may begin at any page, and not only at a multiple of what a leaf table covers.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        allow_non_aligned_large_page_address: bool,
        /// Whether it can be system memory.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        sys_mem_large_page_supported: bool,
        /// The most bytes of each memory of the local group that budgets are for; none is all (RES-25).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        restrict_budget_local: Option<u64>,
        /// The same of the non-local group.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        restrict_budget_non_local: Option<u64>,
        /// Bytes of a paging buffer.
        paging_buffer_bytes: u64,
        /// Bits of a GPU virtual address.
        va_bits: u32,
        /// Bytes of a scratch window of the paging process, one on each side of a transfer (U-16); 0 if it has no address
        /// space (PGV-03).
        paging_va_size: u64,
        /// The paging process, as the driver calls it.
        paging_process: KmdProcessHandle,
        /// The addresses of the paging process's tables in the segment: always resident (PGV-04).
        paging_tables: Vec<Extent>,
        /// The segment in which they are.
        paging_tables_segment: SegmentId,
        /// Bytes of all its tables, wherever they live.
        paging_table_bytes: u64,
        /// The number of resets of the adapter that may be remembered; one more stops it (FLT-31).
        tdr_limit_count: u32,
        /// The time for which a reset is remembered, in nanoseconds.
        tdr_limit_time: Nanoseconds,
        /// The time that a packet runs before it is asked to yield (6.4).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        tdr_quantum: Option<Nanoseconds>,
        /// The time that an engine has to yield if another's reset would harm it (FLT-26).
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
        /// The driver's answer in MiB; none if it failed the query.
        answer_mib: Option<u32>,
        /// The size of a window that follows, in bytes; 0 is no address space (PGV-02, PGV-03).
        paging_va_size: u64,
    },
    /// A finding for the driver's author; nothing is refused for it.
    DriverFinding {
        /// The finding.
        finding: DriverFinding,
    },
    /// A process was created.
    ProcessCreated {
        /// Its name.
        process: ProcessId,
        /// The driver's handle.
        handle: KmdProcessHandle,
    },
    /// A process ends: its owner has destroyed it. Its devices end next.
    ProcessTerminated {
        /// Its name.
        process: ProcessId,
    },
    /// A process is gone; its tables are free.
    ProcessDestroyed {
        /// Its name.
        process: ProcessId,
    },
    /// A device was created.
    DeviceCreated {
        /// Its name.
        device: DeviceId,
        /// Its process.
        process: ProcessId,
        /// The lists that drive its residency.
        #[cfg_attr(feature = "serde", serde(default))]
        residency: DeviceResidency,
    },
    /// A device ends: its owner has destroyed it, or its process ends. Its queued work is dropped.
    DeviceTerminated {
        /// Its name.
        device: DeviceId,
    },
    /// A device is gone, with all that it had.
    DeviceDestroyed {
        /// Its name.
        device: DeviceId,
    },
    /// A context was created.
    ContextCreated {
        /// Its name.
        context: ContextId,
        /// Its device.
        device: DeviceId,
        /// The engine that runs its work.
        engine: u32,
    },
    /// A context was destroyed.
    ContextDestroyed {
        /// Its name.
        context: ContextId,
    },
    /// A paging queue was created.
    PagingQueueCreated {
        /// Its name.
        queue: PagingQueueId,
        /// Its device.
        device: DeviceId,
        /// Larger is granted first, between devices.
        priority: i32,
    },
    /// A paging queue was destroyed.
    PagingQueueDestroyed {
        /// Its name.
        queue: PagingQueueId,
    },
    /// A monitored fence was created.
    MonitoredFenceCreated {
        /// Its name.
        fence: MonitoredFenceId,
        /// Its value.
        value: u64,
        /// The device that it ends with, if there is one.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        device: Option<DeviceId>,
    },
    /// A monitored fence was destroyed.
    MonitoredFenceDestroyed {
        /// Its name.
        fence: MonitoredFenceId,
    },
    /// An allocation was created. It is nowhere but in its backing store, and reads as zero (CRE-42).
    AllocationCreated {
        /// Its name.
        allocation: AllocationId,
        /// Its device.
        device: DeviceId,
        /// Its process.
        process: ProcessId,
        /// The driver's handle.
        handle: KmdAllocationHandle,
        /// Its size in bytes, rounded up.
        size: u64,
        /// Its priority.
        priority: u32,
        /// The offset of its backing store in system memory, in bytes.
        backing_store: u64,
        /// The segments where it may be resident: the driver's set, bit n is segment n + 1.
        supported_segment_set: u32,
        /// The segment that the driver prefers most, if it prefers one (SEG-42).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        preferred_segment: Option<SegmentId>,
        /// Whether it is mapped in the aperture while it is resident in system memory (SEG-13).
        accessed_physically: bool,
        /// The notifications that the driver asked for and will get.
        notify: AllocationFlags2,
        /// Whether other devices may open it.
        shared: bool,
        /// Whether its backing store is the caller's memory (EXISTING_SYS_MEM).
        existing_sys_mem: bool,
        /// Whether its content in system memory is kept while it is in the memory segment (2.2).
        permanent_sys_mem: bool,
        /// Whether its backing store is in cacheable memory (2.2).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        cached: bool,
        /// Whether no entry above the leaves may show it (GVA-21).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        disable_large_page_mapping: bool,
        /// Whether the driver is told when it comes into a memory segment and when it leaves it (BPB-51).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        explicit_residency_notification: bool,
    },
    /// The caller destroyed an allocation; it lives until its last use has ended.
    AllocationDestroyed {
        /// Its name.
        allocation: AllocationId,
        /// The flags.
        flags: DestroyFlags,
    },
    /// Nothing names the allocation any more; its backing store was returned.
    AllocationReclaimed {
        /// Its name.
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
        /// The value of the queue's fence after which they read as zero; 0 if access there faults.
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
        /// Page size of its entries.
        page_size: PageSize,
        /// Whether writes through it fault.
        read_only: bool,
        /// Whether what it shows is not executed.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        no_execute: bool,
        /// The protection that the driver gets back in its entries (GVA-57).
        driver_protection: u64,
        /// The paging queue.
        queue: PagingQueueId,
        /// The value of the queue's fence after which it can be used; 0 is at once.
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
    /// The work that could use a freed mapping has ended, and its entries are invalid, or reserved addresses that were given back
    /// read as zero no longer: the addresses are free.
    GpuVirtualAddressReclaimed {
        /// The process.
        process: ProcessId,
        /// First address.
        virtual_address: GpuVirtualAddress,
        /// Size in bytes.
        size: u64,
        /// The reason why it had to go.
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
        /// The last submission made before it.
        after_submission: u64,
        /// The value of the queue's fence from which on they can be used; 0 is at once.
        paging_fence_value: u64,
        /// Those of them that a request is made for. The others are in place, and have joined the list with the call (RES-16).
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
        /// The memory that is missing, of which these bytes are the sum.
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
        /// The last submission that still requires them.
        after_submission: u64,
        /// The bytes that the process should still trim to meet its budget (RES-23); 0 is none.
        num_bytes_to_trim: u64,
    },
    /// Allocations were offered: from `after_submission` on they are not used until they are reclaimed (RES-61). They stay on
    /// their device's list, which does not require them meanwhile.
    Offered {
        /// The device.
        device: DeviceId,
        /// The allocations.
        allocations: Vec<AllocationId>,
        /// The priority of the offer.
        priority: OfferPriority,
        /// The flags.
        flags: OfferFlags,
        /// The last submission that still uses them.
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
        /// The state of their content, in the same order.
        results: Vec<ReclaimResult>,
        /// The addresses of their backing stores now, in the same order: a new one was committed for each that had been
        /// decommitted.
        backing_stores: Vec<u64>,
        /// The last submission made before it.
        after_submission: u64,
        /// The value of the queue's fence from which on the GPU can use those on the list; 0 is at once (RES-65).
        paging_fence_value: u64,
    },
    /// The host has no backing store for an allocation, so offered ones that allow it are decommitted next, and lose their content
    /// (RES-66).
    BackingStoreRefused {
        /// Bytes that were asked for.
        size: u64,
    },
    /// The content of an offered allocation is lost from now on (RES-63). Each discard has one such event.
    ContentDiscarded {
        /// The allocation.
        allocation: AllocationId,
        /// The plan with which it goes; none if it was in its backing store alone, and goes at once.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        plan: Option<PlanNo>,
    },
    /// The backing store of an offered allocation was returned: its content is discarded, or the host has refused another (RES-66).
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
        /// The segment that is seen there; 0 is system memory.
        segment: SegmentId,
        /// The ranges of the segment.
        extents: Vec<Extent>,
    },
    /// A locked allocation has moved, and is seen at the same address (RES-86).
    Rotated {
        /// The plan that moved it.
        plan: PlanNo,
        /// The allocation.
        allocation: AllocationId,
        /// The address where the CPU sees it.
        address: CpuVirtualAddress,
        /// The segment that is seen there now; 0 is system memory.
        segment: SegmentId,
        /// The ranges of the segment.
        extents: Vec<Extent>,
    },
    /// One lock of an allocation ended.
    Unlocked {
        /// The allocation.
        allocation: AllocationId,
        /// Locks that are left; with 0 the CPU no longer sees it.
        locks: u32,
    },
    /// A device opened an allocation that another one created (CRE-06).
    AllocationOpened {
        /// The allocation.
        allocation: AllocationId,
        /// The device.
        device: DeviceId,
        /// Its process.
        process: ProcessId,
    },
    /// A device closed an allocation: it leaves the device's list, and its mappings end with the work submitted before.
    AllocationClosed {
        /// The allocation.
        allocation: AllocationId,
        /// The device.
        device: DeviceId,
    },
    /// The owner of a shared allocation destroyed it, and others have it open: it is theirs now (U-34).
    AllocationOwnershipTransferred {
        /// The allocation.
        allocation: AllocationId,
        /// The device that it belongs to now.
        device: DeviceId,
        /// Its process, which is charged for it.
        process: ProcessId,
    },
    /// The priority of an allocation changed (CRE-31).
    AllocationPriorityChanged {
        /// The allocation.
        allocation: AllocationId,
        /// Its priority now.
        priority: u32,
    },
    /// The memory in which a list counts an allocation that may be in several, from now on (D19).
    AllocationCounted {
        /// The allocation.
        allocation: AllocationId,
        /// The memory segment, or [`SegmentId::SYSTEM`] for system memory.
        segment: SegmentId,
        /// Whether the lists there and where it was counted before weigh what they name now, whatever they named earlier.
        anew: bool,
    },
    /// The segments where an allocation may be resident changed (CRE-50).
    AllocationPropertyUpdated {
        /// The allocation.
        allocation: AllocationId,
        /// The segments where it may be now: bit n is segment n + 1.
        supported_segment_set: u32,
        /// The queue.
        queue: PagingQueueId,
        /// The value of the queue's fence from which on it is there; 0 is at once.
        paging_fence_value: u64,
    },
    /// The weight of a process in the sharing of memory changed (RES-53).
    ProcessPriorityChanged {
        /// The process.
        process: ProcessId,
        /// Its band.
        band: PriorityBand,
        /// Its visibility to the user.
        visibility: Visibility,
    },
    /// A process changed its reservation (RES-52).
    ReservationChanged {
        /// The process.
        process: ProcessId,
        /// The group.
        group: MemorySegmentGroup,
        /// Its reservation now, in bytes.
        reservation: u64,
    },
    /// The budgets of a group are those of one with no more than so many bytes in each of its memories from now on.
    BudgetRestricted {
        /// The group.
        group: MemorySegmentGroup,
        /// The bytes; none lifts that.
        bytes: Option<u64>,
    },
    /// The budget of a process that asked for it, or that is above it, was published anew (RES-53).
    BudgetChanged {
        /// The process.
        process: ProcessId,
        /// The group.
        group: MemorySegmentGroup,
        /// Its budget in bytes.
        budget: u64,
        /// The bytes that its lists name.
        requested: u64,
    },
    /// The intervals at which devices are asked to trim were set (RES-43).
    TrimIntervalsSet {
        /// Between two periodic trims while memory is short, and between two requests to trim to a budget that has not moved.
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
        /// The group whose budget its process is above; none if it is not asked to trim to a budget, or if the segment counts
        /// toward no group.
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
        group: Option<MemorySegmentGroup>,
        /// The bytes by which it is above that.
        num_bytes_to_trim: u64,
    },
    /// A device's work is no longer dispatched: its memory is wanted, or it must wait for memory (RES-71). Its list
    /// stays in place until its work in flight has retired.
    DeviceYielded {
        /// The device.
        device: DeviceId,
        /// The reason.
        reason: SuspendReason,
        /// The other device that needs the memory, if there is one.
        wanted_by: Option<DeviceId>,
    },
    /// A device that yielded has nothing in flight any more: its list is not required until it is resumed.
    DeviceSuspended {
        /// The device.
        device: DeviceId,
    },
    /// A device's turn has come: its list is required again, and these plans bring it back (RES-71).
    DeviceResumed {
        /// The device.
        device: DeviceId,
        /// The reason.
        reason: ResumeReason,
        /// The plans that must retire before its work runs.
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
    /// A process was suspended by a call: none of its devices runs.
    ProcessSuspended {
        /// The process.
        process: ProcessId,
        /// Whether a submission of it resumes it.
        allow_wake_on_submission: bool,
    },
    /// A process was resumed by a call, or by a submission.
    ProcessResumed {
        /// The process.
        process: ProcessId,
        /// Whether a submission woke it.
        by_submission: bool,
    },
    /// Everything is in system memory, and the adapter may lose power.
    PoweredDown,
    /// The adapter has power again; its memory segment holds nothing.
    PoweredUp,
    /// Work was submitted; it requires the list as it stands now. Where the references of DMA buffers drive residency, work
    /// without any is logged when it is handed out.
    Submitted {
        /// The device.
        device: DeviceId,
        /// The context.
        context: ContextId,
        /// Its number within the device.
        submission: u64,
        /// Monitored fences that must have reached their values before it runs.
        waits: Vec<(MonitoredFenceId, u64)>,
        /// Monitored fences that its end signals.
        signals: Vec<(MonitoredFenceId, u64)>,
    },
    /// A driver translated commands into a DMA buffer that refers to allocations by patch locations; it is queued.
    Rendered {
        /// The device.
        device: DeviceId,
        /// The context.
        context: ContextId,
        /// Its number among the adapter's DMA buffers.
        dma_buffer: u64,
        /// Its size.
        bytes: u32,
        /// The allocation list; none unbinds a slot.
        allocations: Vec<Option<AllocationId>>,
        /// The driver's patch-location list.
        patch_locations: Vec<PatchLocation>,
        /// Monitored fences that must have reached their values before its first portion runs.
        waits: Vec<(MonitoredFenceId, u64)>,
        /// Monitored fences that the end of its last portion signals.
        signals: Vec<(MonitoredFenceId, u64)>,
    },
    /// A portion of such a DMA buffer is handed to its engine, as the event that follows says (SPL-05).
    Portion {
        /// The device.
        device: DeviceId,
        /// The DMA buffer.
        dma_buffer: u64,
        /// Its number in the DMA buffer, from 0.
        portion: u32,
        /// The number that it has within the device.
        submission: u64,
        /// Its first byte, and the first that is not in it.
        start_offset: u32,
        /// The first byte that is not in it.
        end_offset: u32,
        /// Whether the DMA buffer ends with it.
        is_last: bool,
        /// The first of its patch locations (U-47).
        patch_location_start: u32,
        /// The number of its patch locations.
        patch_location_length: u32,
        /// The bindings that it requires: those that stay at its first byte, then those of its patch locations.
        bindings: Vec<PortionBinding>,
        /// The reason why it ends there.
        cut: PortionEnd,
        /// Whether the driver was asked to patch it.
        patched: bool,
    },
    /// A DMA buffer is dropped, as was expected: its needs at one split point do not fit (SPL-10, SPL-13). A submission without
    /// commands follows in its place in the context, and signals its fences.
    PreparationFailed {
        /// The device.
        device: DeviceId,
        /// The DMA buffer.
        dma_buffer: u64,
        /// The split offset of the group that does not fit.
        offset: u32,
        /// Bytes that are bound together there.
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
        /// The entries that it has by now; addresses beyond them fault. In a log of an earlier version 0.
        #[cfg_attr(feature = "serde", serde(default))]
        num_entries: u32,
    },
    /// Work was handed to its engine.
    Dispatched {
        /// The device.
        device: DeviceId,
        /// Its number within the device.
        submission: u64,
        /// The fence that its end signals.
        signal: EngineFence,
        /// The fences that it waits for.
        waits: Vec<EngineFence>,
    },
    /// A request was granted: its plans are decided.
    Granted {
        /// The device.
        device: DeviceId,
        /// Its paging queue.
        queue: PagingQueueId,
        /// Its fence value.
        paging_fence_value: u64,
        /// The plans that must retire first.
        plans: Vec<PlanNo>,
    },
    /// A victim was chosen.
    Evicted {
        /// The plan that takes it out.
        plan: PlanNo,
        /// The victim.
        allocation: AllocationId,
        /// The segment that it leaves; 0 is implicit system memory.
        segment: SegmentId,
        /// The ranges that it leaves there; of implicit system memory its backing store.
        extents: Vec<Extent>,
        /// Whether its content is copied out.
        copied: bool,
        /// The reason.
        reason: EvictReason,
        /// Whether its content is lost: it was offered (RES-61).
        discarded: bool,
        /// The device for which room is made, if it is made for one, and what it wants the room for.
        wanted_by: Option<WantedBy>,
    },
    /// A place was chosen.
    Placed {
        /// The plan that brings it in.
        plan: PlanNo,
        /// The allocation.
        allocation: AllocationId,
        /// The segment that it goes to; 0 is implicit system memory.
        segment: SegmentId,
        /// The ranges that it gets there; of implicit system memory its backing store.
        extents: Vec<Extent>,
        /// The source of its content.
        content: ContentSource,
    },
    /// The content in the memory segment of an allocation that keeps a copy in system memory is brought up to date from
    /// that copy, which the CPU may have written (2.2).
    Refreshed {
        /// The plan that copies it in.
        plan: PlanNo,
        /// The allocation, which keeps its place.
        allocation: AllocationId,
    },
    /// A page table was placed.
    PageTablePlaced {
        /// The plan that initialises it.
        plan: PlanNo,
        /// The process.
        process: ProcessId,
        /// Its level; 0 is the leaf.
        level: u32,
        /// The size of the pages that its entries map.
        page_size: PageSize,
        /// The first address that it covers.
        virtual_address: GpuVirtualAddress,
        /// Its address.
        address: PhysicalAddress,
        /// Its size in bytes.
        size: u64,
    },
    /// No mapping needs a page table any more: its memory is free.
    PageTableFreed {
        /// The plan after which no entry points to it.
        plan: PlanNo,
        /// The process.
        process: ProcessId,
        /// Its level; 0 is the leaf.
        level: u32,
        /// The size of the pages that its entries map.
        page_size: PageSize,
        /// The first address that it covered.
        virtual_address: GpuVirtualAddress,
        /// Its address.
        address: PhysicalAddress,
        /// Its size in bytes.
        size: u64,
    },
    /// A plan was decided, and is parked until its waits are over.
    PlanDecided {
        /// Its number.
        plan: PlanNo,
        /// Submissions that must retire before it enters the stream.
        waits: Vec<(DeviceId, u64)>,
        /// Plans that must enter before it.
        after: Vec<PlanNo>,
    },
    /// A plan entered the stream: the ranges that it empties are free for later plans.
    PlanEntered {
        /// Its number.
        plan: PlanNo,
    },
    /// A plan is built to its end: it is carried out once a packet of the paging engine has ended.
    PlanBuilt {
        /// Its number.
        plan: PlanNo,
        /// The packet, which may not have been handed out yet; its number is 0 if nothing was ever built before the plan's end.
        signal: EngineFence,
    },
    /// A plan's last operation has completed.
    PlanRetired {
        /// Its number.
        plan: PlanNo,
    },
    /// The driver was asked to encode an operation.
    PagingOperation {
        /// The plan that it belongs to; 0 is adapter start.
        plan: PlanNo,
        /// The operation.
        operation: PagingOperation,
        /// The driver's answer.
        status: BuildStatus,
        /// The offset of its commands in the buffer.
        offset: u32,
        /// Bytes that it wrote.
        bytes: u32,
        /// Its progress afterwards.
        multipass_offset: u32,
    },
    /// The host mapped a range in the IOMMU.
    IoMmuMapped {
        /// The plan that needs it.
        plan: PlanNo,
        /// The domain: one process's, or that of all.
        domain: IoMmuDomain,
        /// First address.
        virtual_address: GpuVirtualAddress,
        /// The allocation.
        allocation: AllocationId,
        /// The offset of the part in the allocation, in bytes.
        allocation_offset: u64,
        /// Size in bytes.
        size: u64,
        /// Whether it is a window of the paging process.
        window: bool,
    },
    /// The host unmapped a range from the IOMMU.
    IoMmuUnmapped {
        /// The plan that needs it.
        plan: PlanNo,
        /// The domain: one process's, or that of all.
        domain: IoMmuDomain,
        /// First address.
        virtual_address: GpuVirtualAddress,
        /// Size in bytes.
        size: u64,
        /// Whether it is a window of the paging process.
        window: bool,
    },
    /// A paging buffer was handed to the paging engine.
    PagingBufferSubmitted {
        /// The fence that its end signals.
        signal: EngineFence,
        /// Bytes of commands in it.
        bytes: u32,
    },
    /// An engine has ended a packet.
    Completed {
        /// The fence that it signalled.
        signal: EngineFence,
    },
    /// A paging fence was signalled.
    PagingFenceSignaled {
        /// Its queue.
        queue: PagingQueueId,
        /// Its value now.
        value: u64,
    },
    /// A monitored fence was signalled.
    MonitoredFenceSignaled {
        /// The fence.
        fence: MonitoredFenceId,
        /// Its value now.
        value: u64,
    },
    /// A packet accessed an address where nothing is resident (FLT-03).
    PageFault {
        /// The packet.
        signal: EngineFence,
        /// The address.
        virtual_address: GpuVirtualAddress,
        /// Whether it was a write.
        write: bool,
        /// The allocation that is mapped there, if there is one.
        allocation: Option<AllocationId>,
        /// The driver's flags for it (FLT-10).
        flags: PageFaultFlags,
        /// The level of the page tables at which the walk ended.
        page_table_level: u32,
        /// The error code (FLT-12).
        fault_error_code: FaultErrorCode,
        /// The nearest mapping before the address.
        below: Option<Neighbour>,
        /// The nearest mapping after it.
        above: Option<Neighbour>,
        /// All packets that were under way.
        in_flight: Vec<EngineFence>,
    },
    /// A packet holds a command that means nothing to the GPU; its engine has stopped.
    IllegalCommand {
        /// The packet.
        signal: EngineFence,
    },
    /// A packet will not end: its engine was reset before it did, or its work was dropped.
    Aborted {
        /// The packet.
        signal: EngineFence,
    },
    /// An engine was asked to end the packet under way and give the others back.
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
        /// The last packet that has ended.
        last_completed_fence_id: u64,
        /// The packets that came back.
        returned: Vec<u64>,
    },
    /// An engine has not answered in time: the request is over, and the engine is reset if its packet has not ended (FLT-22).
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
        /// The engines that its driver says the reset harms (FLT-26).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Vec::is_empty"))]
        dependent_engines: Vec<u32>,
    },
    /// The driver has reset an engine.
    EngineReset {
        /// The engine.
        engine: u32,
        /// The last packet that was aborted; none if the reset failed.
        last_aborted_fence_id: Option<u64>,
        /// The packets that came back.
        returned: Vec<u64>,
    },
    /// A packet that an engine gave back was handed to it again: a paging buffer with its old fence, others with a new one
    /// (FLT-23).
    Resubmitted {
        /// The fence that it was to signal before.
        before: EngineFence,
        /// The fence that it signals now.
        signal: EngineFence,
        /// The fences that it waits for.
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
    /// Between reset and restart the driver was told that an allocation is not resident any more (BPB-27).
    PurgeOperation {
        /// The allocation.
        allocation: AllocationId,
        /// The operation.
        operation: PagingOperation,
        /// The driver's answer.
        status: BuildStatus,
    },
    /// The adapter was reset before a plan had retired: it will not be carried out to its end.
    PlanAbandoned {
        /// The plan.
        plan: PlanNo,
    },
    /// The right content of an allocation was lost with a reset (FLT-34): its one copy was in a memory segment, and it reads as zero;
    /// or its bytes are kept.
    ContentLost {
        /// The allocation.
        allocation: AllocationId,
        /// Its bytes in system memory are kept: those that the GPU left there, and that its driver, which was to put them right
        /// (NTF-02), could not; or the copy that the CPU sees wherever the allocation is (2.2).
        #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
        is_kept: bool,
    },
    /// The GPU runs again: nothing is resident, nothing is under way.
    AdapterRestarted,
    /// A device was put in error; its work is dropped, and its list is empty (FLT-04).
    DeviceInError {
        /// The device.
        device: DeviceId,
        /// The reason.
        reason: DeviceErrorReason,
    },
    /// The adapter was put in error.
    AdapterInError {
        /// The rule that was broken.
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
    /// A check did not hold. Recorded by the checker.
    Finding {
        /// The kernel that read it.
        kernel: u64,
        /// The allocation.
        allocation: AllocationId,
        /// The page of it, counted from 0.
        page: u64,
        /// The digest that the page must have.
        expected: u64,
        /// The digest that it had.
        found: u64,
    },
}

/// A memory segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct MemorySegmentFacts {
    /// Its number.
    pub segment: SegmentId,
    /// Its size in bytes.
    pub size: u64,
    /// The size of its pages.
    pub page_size: PageSize,
    /// Whether the CPU sees all of it.
    pub cpu_visible: bool,
    /// The group in which its bytes count; none if they count toward no budget.
    pub group: Option<MemorySegmentGroup>,
    /// Bytes at its end that hold nothing but page tables; 0 where these lie anywhere (D19).
    pub page_table_area: u64,
}

/// An aperture segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct ApertureSegmentFacts {
    /// Its number.
    pub segment: SegmentId,
    /// The bytes of it that are used: of several apertures no more than may be mapped in each (SEG-50).
    pub size: u64,
    /// Whether engines that read through it snoop the CPU's caches.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "core::ops::Not::not"))]
    pub cache_coherent: bool,
}

/// The reason why an allocation is taken out of its segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
pub enum EvictReason {
    /// Its room is wanted, and it was next in the documented order (CRE-31a).
    RoomWanted,
    /// Its last Evict asked for it (RES-21).
    EvictRequested,
    /// It is required in the memory segment, and leaves system memory for it.
    Promoted,
    /// Its range of the aperture is wanted.
    RangeWanted,
    /// It was destroyed (RES-91).
    Destroyed,
    /// Its room is wanted and it is offered (RES-61); or it was to be discarded at once.
    Offered,
    /// The device that requires it is suspended, and its room is wanted (RES-71) or the suspension was a call's.
    DeviceSuspended,
    /// The CPU is to see it, and cannot in its present place (RES-82).
    Locked,
    /// It may not be in its place any more (CRE-50).
    PropertyUpdated,
    /// The adapter is about to lose power.
    PoweredDown,
    /// It comes back at another place, so that there is room for the rest of its list or of a portion (D19, SPL-08).
    Moved,
    /// Others, of whom the manager knows nothing, have left less of its memory than is in use.
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

    /// Whether an allocation goes to make room for one of another device.
    pub(crate) const fn is_for_room(self) -> bool {
        matches!(
            self,
            EvictReason::RoomWanted | EvictReason::RangeWanted | EvictReason::Offered | EvictReason::DeviceSuspended
        )
    }
}

/// The request or allocation that room is made for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct WantedBy {
    /// The device that needs the room.
    pub device: DeviceId,
    /// Its request that is granted with it; none if the device comes back or is to run.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub request: Option<RequestName>,
    /// The allocation that comes into the room; none if the room is for several.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "Option::is_none"))]
    pub allocation: Option<AllocationId>,
}

/// A request, as its answer named it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct RequestName {
    /// The queue that it was made on.
    pub queue: PagingQueueId,
    /// The value of the queue's fence that it was answered with.
    pub paging_fence_value: u64,
}

/// The reason why addresses that were mapped are free again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
pub enum ReclaimReason {
    /// A call freed them (GVA-53).
    Freed,
    /// A device closed the allocation that they showed: its mappings end with that.
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
    /// The allocation that is bound to it; none if the patch location unbinds it.
    pub allocation: Option<AllocationId>,
    /// The address of the allocation.
    pub address: PhysicalAddress,
    /// It stays bound from the portion before, and so keeps its place (SPL-08).
    pub fixed: bool,
}

/// The reason why a portion ends where it does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
pub enum PortionEnd {
    /// The DMA buffer ends there.
    EndOfDmaBuffer,
    /// The allocations that are bound next do not fit beside those that the portion requires (SPL-05).
    NoRoom {
        /// The first that does not.
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
    /// Its process is above its budget, it has nothing to run, and its memory is wanted.
    IdleOverBudget,
    /// Its process is above its budget, its time slice is over, and its memory is wanted.
    SliceOver,
    /// It has nothing to run, and another device has waited for memory for a long time.
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
    /// Its own list has grown, and must wait for room beside others.
    WaitsForRoom,
    /// Its allocations can have better places now, or must leave their present ones.
    Replace,
    /// Its process was suspended by a call.
    ProcessSuspended,
    /// The adapter is about to lose power.
    PowerDown,
}

/// The reason why a device is resumed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(tag = "kind", rename_all = "snake_case"))]
pub enum ResumeReason {
    /// It has work, and there is room.
    HasWork,
    /// It has nothing to run, but there is room again: its allocations that were pushed out come back.
    PressureFell,
}

/// The source of the content of an allocation that is brought in (RES-18).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum ContentSource {
    /// It never had any: it is filled with zeros (CRE-42).
    Fill,
    /// Its backing store.
    BackingStore,
    /// Nothing moves: it is resident in its backing store.
    InPlace,
}

/// Collects events until they are drained. When off, an event costs nothing but its count.
#[derive(Debug, Default)]
pub struct EventLog {
    enabled: bool,
    number: u64,
    at: Nanoseconds,
    occurred_at: Option<Nanoseconds>,
    pending: Vec<NumberedEvent>,
}

impl EventLog {
    /// A log that keeps events until they are drained, or only counts them.
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

    // Events are large: one that is only counted takes no room on the stack.
    #[inline(never)]
    fn keep(&mut self, event: impl FnOnce() -> Event) {
        let Self { number, at, occurred_at, .. } = *self;
        self.pending.push(NumberedEvent { number, at, occurred_at, event: event() });
    }

    /// Takes the events that came since the last call.
    pub fn drain(&mut self) -> impl Iterator<Item = NumberedEvent> {
        self.pending.drain(..)
    }

    /// The number of the last event.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The events that are recorded until the next call belong to a report of the GPU, of what it did at this time by its
    /// clock; with `None` they belong to none.
    pub fn set_occurred_at(&mut self, occurred_at: Option<Nanoseconds>) {
        self.occurred_at = occurred_at;
    }

    pub(crate) fn set_time(&mut self, at: Nanoseconds) {
        self.at = at;
    }
}
