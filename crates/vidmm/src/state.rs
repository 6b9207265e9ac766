//! The manager's books. What changes them is in the files that build on this one: `calls` admit, `grant`, `build` and
//! `dispatch` are the steps of `poll`, `retire` takes what engines report.

use alloc::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    vec::Vec,
};

use crate::{
    adapter::Adapter,
    allocation::{AllocationState, Allocations},
    aperture::ApertureRanges,
    budget::{MemorySegmentGroup, Shares},
    buggify::Buggify,
    commit::CommitLimit,
    contract::{EngineFence, EngineKind, KmdContextHandle, Packet, PagingBuffer},
    cpu_view::Lock,
    device_residency::DeviceResidency,
    engine::Engine,
    error::{DeviceErrorReason, DeviceInError, DriverFinding, Violation},
    event::{Event, EventLog},
    evictable::Evictable,
    gpu_va::{Mapping, Processes, TableKey},
    id::{
        AllocationId, AllocationIx, ContextIx, DeviceId, DeviceIx, InvalidHandle, MonitoredFenceId, PagingQueueId,
        PlanNo, ProcessId, ProcessIx, Slots, SubmissionNo, TrimNotificationId, TrimNotificationIx, kind,
    },
    offer::Offer,
    ordered_set::OrderedSet,
    paging::{Step, Stream, Windows},
    patching::{Patched, Patching},
    placer::Placer,
    planted::PlantedBug,
    pool::{PerPool, Pool},
    progress::Progress,
    recovery::{Recovery, TdrOptions},
    request::Request,
    residency::{Lapsing, ListBytes},
    spans::Spans,
    split::Portion,
    submission::Submission,
    trim::{TrimFlags, TrimIntervals},
    turn::{Activity, Turn, Turns},
    units::{Nanoseconds, PhysicalAddress, SegmentId},
};

/// The video memory manager of one adapter.
///
/// It owns no driver, no GPU, no host and no clock. Its methods are of three kinds:
///
/// - *Calls* admit: `create_*`, `destroy_*`, [`make_resident`](Self::make_resident), [`evict`](Self::evict),
///   [`map_gpu_virtual_address`](Self::map_gpu_virtual_address), [`submit`](Self::submit), ... They validate, answer at once,
///   and never wait. A refused call changes nothing.
/// - [`poll`](Self::poll) grants and builds, and hands out what is to be done. Call it until it returns `None`, after calls and
///   after events.
/// - *Events* retire: [`handle_completed`](Self::handle_completed), [`handle_interrupt`](Self::handle_interrupt), and the ends
///   of resets.
///
/// The same calls with the same answers of the driver and the host give the same outputs.
pub struct VidMm {
    pub(crate) adapter: Adapter,
    pub(crate) placer: Placer,
    /// What an adapter without GPU virtual addresses adds.
    pub(crate) patching: Patching,
    /// What is known of allocations on such an adapter.
    pub(crate) patched: BTreeMap<AllocationIx, Patched>,
    pub(crate) commit: CommitLimit,
    pub(crate) aperture: ApertureRanges,
    pub(crate) evictable: PerPool<Evictable>,
    /// Bytes of page tables that live in the segment, placed or promised to a mapping that was admitted (D9).
    pub(crate) pinned_bytes: u64,
    /// The sum over all devices of [`Device::promised`].
    pub(crate) promised_bytes: PerPool<u64>,
    /// How processes share each pool.
    pub(crate) shares: PerPool<Shares>,
    /// Processes that want to be told their budgets.
    pub(crate) listeners: OrderedSet<ProcessIx>,
    pub(crate) trim_notifications: Slots<kind::TrimNotification, TrimRegistration>,
    pub(crate) trim_intervals: TrimIntervals,
    /// When the periods of devices that listen end.
    pub(crate) periods: BTreeSet<(Nanoseconds, DeviceIx)>,
    pub(crate) buggify: Buggify,
    pub(crate) turns: Turns,
    /// Devices that are not active.
    pub(crate) stopped: OrderedSet<DeviceIx>,
    /// The time of the last poll, and when the next one is wanted.
    pub(crate) now: Nanoseconds,
    pub(crate) wake: Option<Nanoseconds>,
    /// The page of system memory that unmapped pages of the aperture show (BPB-33).
    pub(crate) dummy_page: PhysicalAddress,
    pub(crate) driver_findings: Vec<DriverFinding>,
    pub(crate) processes: Processes,
    pub(crate) devices: Slots<kind::Device, Device>,
    pub(crate) contexts: Slots<kind::Context, Context>,
    pub(crate) paging_queues: Slots<kind::PagingQueue, PagingQueue>,
    pub(crate) monitored_fences: Slots<kind::MonitoredFence, MonitoredFence>,
    pub(crate) allocations: Allocations,
    /// What requests that are not granted are to bring in.
    pub(crate) spans: Spans,
    pub(crate) windows: Windows,
    pub(crate) stream: Stream,
    pub(crate) builder: Builder,
    pub(crate) engines: Vec<Engine>,
    /// Engines that are being recovered, and the adapter.
    pub(crate) recovery: Recovery,
    pub(crate) tdr: TdrOptions,
    /// Requests made so far, by all devices: their order of arrival.
    pub(crate) arrivals: u64,
    /// Devices that have requests which are not granted.
    pub(crate) requesting: OrderedSet<DeviceIx>,
    /// Devices that have requests which are granted and not signalled.
    pub(crate) granted: OrderedSet<DeviceIx>,
    /// Devices that have something to do once a submission is dispatched and a request granted.
    pub(crate) deferring: OrderedSet<DeviceIx>,
    /// Processes whose root table is still to be planned.
    pub(crate) rootless: OrderedSet<ProcessIx>,
    /// Tables that nothing is mapped through any more, by process.
    pub(crate) empty_tables: BTreeSet<(ProcessIx, TableKey)>,
    /// Contexts with queued work.
    pub(crate) queued: OrderedSet<Queued>,
    /// A context has another priority than most.
    pub(crate) has_priorities: bool,
    /// The allocations that are offered.
    pub(crate) offers: BTreeMap<AllocationIx, Offer>,
    /// The last plan that discards an allocation, while that has not retired: then the backing store is reset.
    pub(crate) discards: BTreeMap<AllocationIx, PlanNo>,
    /// The allocations that the CPU sees.
    pub(crate) locks: BTreeMap<AllocationIx, Lock>,
    /// Evictable allocations whose last Evict asked for eviction at the earliest opportunity.
    pub(crate) evict_soon: VecDeque<AllocationIx>,
    /// Allocations of which no trace is left; the driver and the host are still to be told.
    pub(crate) dead: Vec<AllocationIx>,
    /// Allocations and devices that have closed them and are done with them; the driver is still to be told.
    pub(crate) closed: Vec<(AllocationIx, DeviceIx)>,
    pub(crate) outputs: VecDeque<Output>,
    pub(crate) events: EventLog,
    pub(crate) statistics: Statistics,
    /// Something happened since the last poll came to its end.
    pub(crate) stirred: bool,
    pub(crate) failed: Option<Violation>,
}

/// What [`poll`](VidMm::poll) hands out.
#[derive(Debug)]
#[non_exhaustive]
pub enum Output {
    /// Hand this to its engine.
    Submit(Packet),
    /// A paging queue's fence has reached this value.
    PagingFenceSignaled {
        /// The queue.
        queue: PagingQueueId,
        /// Its value now.
        value: u64,
    },
    /// A monitored fence has reached this value.
    MonitoredFenceSignaled {
        /// The fence.
        fence: MonitoredFenceId,
        /// Its value now.
        value: u64,
    },
    /// A device is in error: its queued work is dropped, its fences are signalled to the maximum (FLT-33).
    DeviceInError(DeviceInError),
    /// The driver or the GPU broke a rule; the adapter takes no more calls.
    AdapterInError(Violation),
    /// A device that asked for it is to trim (RES-40). Whoever evicts `num_bytes_to_trim` bytes of its lists meets the budget;
    /// what happens to one who does not is told at [`VidMm::register_trim_notification`].
    #[doc(alias = "D3DKMT_TRIMNOTIFICATION")]
    TrimNotification {
        /// The registration.
        notification: TrimNotificationId,
        /// The device.
        device: DeviceId,
        /// Why.
        flags: TrimFlags,
        /// How many bytes its process is above its budget; 0 without TRIM_TO_BUDGET.
        num_bytes_to_trim: u64,
    },
    /// The budget of a process that listens has changed (RES-53).
    BudgetChanged {
        /// The process.
        process: ProcessId,
        /// The group.
        group: MemorySegmentGroup,
        /// Its budget now, in bytes.
        budget: u64,
    },
    /// An allocation destroyed with [`DestroyFlags::SYNCHRONOUS_DESTROY`](crate::DestroyFlags) is gone (RES-91).
    AllocationReclaimed {
        /// The allocation.
        allocation: AllocationId,
    },
    /// Everything is in system memory: the adapter may lose power.
    PoweredDown,
    /// Ask an engine to yield: it ends the packet under way, runs no other, and reports so to
    /// [`VidMm::handle_preempted`], with the buffers of the packets that it has not run.
    #[doc(alias = "DxgkDdiPreemptCommand")]
    PreemptCommand {
        /// The engine.
        engine: u32,
        /// The number of the request, which the answer repeats.
        preemption_fence_id: u64,
    },
    /// Let the driver reset an engine; the answer goes to [`VidMm::handle_engine_reset`]. From now on what the engine reports
    /// is ignored until then (FLT-22).
    #[doc(alias = "DxgkDdiResetEngine")]
    ResetEngine {
        /// The engine.
        engine: u32,
    },
    /// Let the driver stop the GPU; the answer goes to [`VidMm::handle_reset_from_timeout`] (FLT-32).
    #[doc(alias = "DxgkDdiResetFromTimeout")]
    ResetFromTimeout,
    /// Let the driver start the GPU again; the answer goes to [`VidMm::handle_restart_from_timeout`].
    #[doc(alias = "DxgkDdiRestartFromTimeout")]
    RestartFromTimeout,
}

/// What was done so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Statistics {
    /// Bytes copied from system memory into the segment.
    pub bytes_paged_in: u64,
    /// Bytes copied from the segment to system memory.
    pub bytes_paged_out: u64,
    /// Bytes filled because they had no content yet.
    pub bytes_filled: u64,
    /// Allocations taken out because room was wanted or an Evict asked for it.
    pub evictions: u64,
    /// Of those, with content that had to be copied out.
    pub evictions_copied: u64,
    /// Plans decided.
    pub plans: u64,
    /// Paging buffers handed to the paging engine.
    pub paging_buffers: u64,
    /// VIRTUAL_TRANSFER operations that drivers encoded.
    pub virtual_transfers: u64,
    /// VIRTUAL_FILL operations.
    pub virtual_fills: u64,
    /// TRANSFER operations.
    pub transfers: u64,
    /// FILL operations.
    pub fills: u64,
    /// DISCARD_CONTENT operations.
    pub discarded_contents: u64,
    /// UPDATE_PAGE_TABLE operations.
    pub update_page_tables: u64,
    /// FLUSH_TLB operations.
    pub flush_tlbs: u64,
    /// MAP_APERTURE_SEGMENT and UNMAP_APERTURE_SEGMENT operations.
    pub aperture_operations: u64,
    /// Allocations of which the driver was notified before they were evicted (NTF-02).
    pub eviction_notifications: u64,
    /// NOTIFY_ALLOC operations for eviction: the chunks of these notifications.
    pub eviction_notification_chunks: u64,
    /// Bytes of these chunks.
    pub eviction_notification_bytes: u64,
    /// NOTIFY_ALLOC operations for an IOMMU unmap (NTF-04).
    pub io_mmu_unmap_notifications: u64,
    /// Allocations that left local memory for implicit system memory and stayed resident.
    pub demotions: u64,
    /// Allocations that moved from system memory to local memory.
    pub promotions: u64,
    /// Calls of `build_paging_buffer`, repeated ones too.
    pub build_calls: u64,
    /// Values that paging fences were signalled with.
    pub paging_fences_signaled: u64,
    /// Submissions handed to engines, without paging buffers.
    pub submissions: u64,
    /// How often a device's work was no longer dispatched, for memory or by a call.
    pub yields: u64,
    /// How often a suspended device's list was brought back.
    pub resumes: u64,
    /// Engines that were asked to yield.
    pub preemptions: u64,
    /// Engines that were reset.
    pub engine_resets: u64,
    /// How often the adapter was reset.
    pub adapter_resets: u64,
}

/// A device: the unit that has a residency list.
#[derive(Debug)]
pub(crate) struct Device {
    pub process: ProcessIx,
    /// Which lists drive its residency.
    pub residency: DeviceResidency,
    pub error: Option<DeviceErrorReason>,
    pub contexts: u32,
    pub paging_queues: u32,
    pub allocations: u32,
    pub list: PerPool<ListBytes>,
    /// Whether its work runs.
    pub turn: Turn,
    /// Bytes that entries of the list hold in place, and how many entries do.
    pub held: PerPool<u64>,
    pub num_held: usize,
    /// Bytes that it held when it was suspended, and is to hold again.
    pub owed: PerPool<u64>,
    /// The allocations that entries hold, and some that they held.
    pub holdings: Vec<AllocationIx>,
    /// What entries held when the device was suspended, to be held again when it is resumed.
    pub to_bring_back: Vec<AllocationId>,
    /// Its registrations for trim notifications.
    pub notifications: Vec<TrimNotificationIx>,
    /// It has submitted work since the last period ended, and whether it was suspended since.
    pub period_runs: bool,
    pub suspended_in_period: bool,
    /// Plans that bring content up to date which the CPU has written: work waits for them.
    pub refreshes: Vec<PlanNo>,
    pub lapsing: Lapsing,
    /// Allocations still on its list of which an Evict has said, since the last submission, that nothing was written.
    pub not_written: Vec<AllocationIx>,
    /// Not signalled yet, oldest first: `ready` of them are granted and built, `granted` are granted.
    pub requests: VecDeque<Request>,
    pub ready: usize,
    pub granted: usize,
    pub last_request: u64,
    pub submitted: SubmissionNo,
    /// Of the submissions, those that have been dispatched, and those that have retired.
    pub dispatches: Progress,
    pub retirements: Progress,
    /// What was asked for and waits for earlier submissions and requests, oldest first.
    pub deferred: VecDeque<Deferred>,
}

/// Something that follows a submission and a request of its device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deferred {
    pub submission: SubmissionNo,
    pub request: u64,
    pub action: DeferredAction,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum DeferredAction {
    /// Take the last traces of a destroyed allocation away (RES-91).
    Purge(AllocationIx),
    /// Take the last traces of an allocation that the device has closed away.
    Close(AllocationIx),
    /// Discard an allocation that was offered with OFFER_IMMEDIATELY (RES-60).
    Discard(AllocationIx),
    /// Make what was freed of the mappings of an allocation invalid (GVA-53).
    Unmap { allocation: AllocationIx, freed: Freed },
}

/// Addresses of a process that were freed and still show something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Freed {
    pub process: ProcessIx,
    pub virtual_address: u64,
    pub size: u64,
    /// What is left of pages of 64 KiB that it cuts, as the call saw it: tables for them are set aside (GVA-42).
    pub rests: [Option<Mapping>; 2],
}

impl DeferredAction {
    /// The allocation that it is about.
    pub fn allocation(self) -> AllocationIx {
        match self {
            DeferredAction::Purge(allocation)
            | DeferredAction::Discard(allocation)
            | DeferredAction::Close(allocation)
            | DeferredAction::Unmap { allocation, .. } => allocation,
        }
    }
}

impl Device {
    /// Whether the references of its DMA buffers drive its residency.
    pub fn has_reference_lists(&self) -> bool {
        self.residency == DeviceResidency::ReferenceLists
    }

    /// All submissions up to this one have been dispatched.
    pub fn dispatched(&self) -> SubmissionNo {
        self.dispatches.up_to()
    }

    /// All submissions up to this one have retired.
    pub fn retired(&self) -> SubmissionNo {
        self.retirements.up_to()
    }

    /// All requests up to this one are granted.
    pub fn granted_request(&self) -> u64 {
        self.requests.get(self.granted).map_or(self.last_request, |request| request.number - 1)
    }

    /// Bytes that must be there for the device to run: what it holds or is to hold again, and what its outstanding requests
    /// were admitted with.
    pub fn needed(&self, pool: Pool) -> u64 {
        (self.held[pool] + self.owed[pool]).max(self.list[pool].peak())
    }

    /// Bytes that must be there for the device now.
    pub fn promised(&self, pool: Pool) -> u64 {
        match self.turn.activity {
            Activity::Active => self.needed(pool),
            Activity::Yielding | Activity::Suspended => self.held[pool],
        }
    }

    pub fn is_active(&self) -> bool {
        self.turn.activity == Activity::Active
    }

    pub fn is_suspended(&self) -> bool {
        self.turn.activity == Activity::Suspended
    }

    /// Whether a submission waits for its dispatch.
    pub fn has_undispatched(&self) -> bool {
        self.dispatched() < self.submitted
    }

    /// Whether a submission has been dispatched that has not retired.
    pub fn is_in_flight(&self) -> bool {
        self.dispatches.count() > self.retirements.count()
    }

    /// The schedule gate (D2, I06): none while a request made before `submission` is not ready; else the fence of the paging
    /// engine that completes all of them, 0 if it has.
    pub fn gate(&self, submission: SubmissionNo) -> Option<u64> {
        let made_before = self.requests.partition_point(|request| request.position < submission);
        match made_before.checked_sub(1) {
            None => Some(0),
            Some(last) => (last < self.ready).then(|| self.requests[last].paging_fence),
        }
    }
}

/// A registration for trim notifications.
#[derive(Debug)]
pub(crate) struct TrimRegistration {
    pub device: DeviceIx,
}

/// A context: a queue of work for one engine.
#[derive(Debug)]
pub(crate) struct Context {
    pub device: DeviceIx,
    pub engine: u32,
    pub handle: KmdContextHandle,
    /// Of higher priority goes first: -7 to 7.
    pub priority: i32,
    pub queue: VecDeque<Submission>,
    pub in_flight: usize,
    /// The next portion of the DMA buffer in front of the queue, if it is decided.
    pub portion: Option<Portion>,
    /// When it was served last, among the portions of all contexts.
    pub served: u64,
    /// The driver knows the root page table (GVA-17).
    pub root_is_set: bool,
}

/// A context with queued work. They are served in this order: of higher priority first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Queued {
    rank: i32,
    pub context: ContextIx,
}

impl Queued {
    /// Before all others.
    pub const FIRST: Self = Self { rank: i32::MIN, context: ContextIx::FIRST };

    pub fn new(priority: i32, context: ContextIx) -> Self {
        Self { rank: -priority, context }
    }

    /// Where those begin that come after it.
    pub fn next(self) -> Self {
        Self { context: self.context.next(), ..self }
    }
}

/// A paging queue (RES-30).
#[derive(Debug)]
pub(crate) struct PagingQueue {
    pub device: DeviceIx,
    pub priority: i32,
    pub pending: u32,
    pub last_value: u64,
    pub completed_value: u64,
}

/// A monitored fence (SYN-01).
#[derive(Debug)]
pub(crate) struct MonitoredFence {
    pub value: u64,
    /// Values that dispatched work will signal, and its own fence.
    pub dispatched: VecDeque<(u64, EngineFence)>,
    /// Queued submissions that name it.
    pub references: u32,
}

/// The paging buffer that is being built, and those that wait for use.
#[derive(Debug)]
pub(crate) struct Builder {
    pub pool: Vec<PagingBuffer>,
    /// Buffers that exist: in the pool, being built, submitted.
    pub buffers: usize,
    pub current: Option<PagingBuffer>,
    /// Steps that are not done yet, all of one plan.
    pub steps: VecDeque<Step>,
    /// That plan; 0 is adapter start.
    pub plan: PlanNo,
    /// The driver's progress in the first of them.
    pub multipass_offset: u32,
    /// The driver wants the allocation idle: wait for this fence of the paging engine, then say so.
    pub idle_at: Option<u64>,
    /// The host's next step waits for this fence of the paging engine.
    pub host_step_at: Option<u64>,
    pub system_context: KmdContextHandle,
}

impl Builder {
    /// What was being built or run is over, and no buffer comes back.
    pub fn forget_work(&mut self) {
        self.pool.clear();
        (self.current, self.buffers, self.multipass_offset) = (None, 0, 0);
        (self.idle_at, self.host_step_at) = (None, None);
    }

    /// Whether steps are left to do, or a buffer to hand out.
    pub fn has_work(&self) -> bool {
        !self.steps.is_empty() || self.current.is_some()
    }
}

impl VidMm {
    /// The log of events: drain it after each call if the adapter was started with events on.
    pub fn events(&mut self) -> &mut EventLog {
        &mut self.events
    }

    /// The adapter's engines, by ordinal.
    pub fn engines(&self) -> &[EngineKind] {
        &self.adapter.engines
    }

    /// What was done so far.
    pub fn statistics(&self) -> Statistics {
        self.statistics
    }

    /// What the driver's author should know, in the order in which it was found.
    pub fn driver_findings(&self) -> &[DriverFinding] {
        &self.driver_findings
    }

    /// The size of the paging process's address space in bytes, on each side of a transfer; 0 if it has none (PGV-03).
    pub fn paging_va_size(&self) -> u64 {
        self.adapter.paging_va_size
    }

    /// Where the content of an allocation is in system memory, as the CPU would read it; none while the allocation is
    /// resident, or anything is under way for it, or it has no backing store (RES-66).
    ///
    /// # Errors
    ///
    /// If the handle names nothing.
    pub fn system_copy(&self, allocation: AllocationId) -> Result<Option<PhysicalAddress>, InvalidHandle> {
        let books = &self.allocations[self.lookup_allocation(allocation)?];
        let is_committed = !books.state.contains(AllocationState::NOT_COMMITTED);
        let is_there = is_committed && books.place.is_none() && self.stream.is_retired(books.last_plan);
        let address = PhysicalAddress { segment: SegmentId::SYSTEM, offset: books.backing_store };
        Ok(is_there.then_some(address))
    }

    /// Tells the driver's author, once for each kind of finding.
    pub(crate) fn report(&mut self, finding: DriverFinding) {
        if self.driver_findings.iter().any(|known| known.is_of_kind(&finding)) {
            return;
        }
        self.driver_findings.push(finding);
        self.events.record(|| Event::DriverFinding { finding });
    }

    /// The index of an allocation that the caller has not destroyed.
    pub(crate) fn lookup_allocation(&self, id: AllocationId) -> Result<AllocationIx, InvalidHandle> {
        let is_reused = self.adapter.has_bug(PlantedBug::IgnoreGenerations) && self.allocations.contains(id.ix());
        let index = if is_reused { id.ix() } else { self.allocations.lookup(id)? };
        if self.allocations[index].state.contains(AllocationState::DESTROYED) {
            return Err(InvalidHandle { kind: "allocation", index: index.get() });
        }
        Ok(index)
    }

    /// Refuses calls on a device that is in error.
    pub(crate) fn check_device(&self, index: DeviceIx) -> Result<(), DeviceInError> {
        let adapter = self.failed.as_ref().map(|_| DeviceErrorReason::AdapterInError);
        match adapter.or(self.devices[index].error) {
            Some(reason) => Err(DeviceInError { device: self.devices.id(index), reason }),
            None => Ok(()),
        }
    }

    /// Bytes of a pool that lists may use: of the memory segment all but page tables.
    pub(crate) fn list_capacity(&self, pool: Pool) -> u64 {
        match pool {
            Pool::Memory => self.placer.size() - self.pinned_bytes,
            Pool::System => self.commit.limit(),
        }
    }

    /// Bytes of a pool that are promised to nobody but the device.
    pub(crate) fn not_promised_to_others(&self, device: DeviceIx, pool: Pool) -> u64 {
        let others = self.promised_bytes[pool] - self.devices[device].promised(pool);
        self.list_capacity(pool) - others
    }

    /// Bytes of the memory segment that can be pinned for page tables, so that every list still fits: those of active devices
    /// together, every other alone.
    pub(crate) fn not_promised(&self) -> u64 {
        let capacity = self.list_capacity(Pool::Memory);
        let stopped = self.stopped.iter().map(|&device| self.devices[device].needed(Pool::Memory));
        capacity - stopped.max().unwrap_or(0).max(self.promised_bytes[Pool::Memory]).min(capacity)
    }

    /// Changes how many bytes page tables take of the memory segment.
    pub(crate) fn set_pinned(&mut self, bytes: u64) {
        self.pinned_bytes = bytes;
        let capacity = self.list_capacity(Pool::Memory);
        self.shares[Pool::Memory].set_capacity(capacity);
    }

    /// Bytes that can be taken in a pool without a victim.
    pub(crate) fn available(&self, pool: Pool) -> u64 {
        match pool {
            Pool::Memory => self.placer.available(),
            Pool::System => self.commit.available(),
        }
    }

    /// The device's list weighs `bytes` in a pool from now on.
    pub(crate) fn set_list_bytes(&mut self, device: DeviceIx, pool: Pool, bytes: u64) {
        self.change_list(device, pool, |books| {
            let (retired, granted) = (books.retired(), books.granted_request());
            books.list[pool].set(bytes, books.submitted, books.last_request);
            books.list[pool].forget(retired, granted);
        });
    }

    /// Takes bytes off a device's list that a portion required and that need not be there for the device any more.
    pub(crate) fn lighten_list(&mut self, device: DeviceIx, pool: Pool, bytes: u64) {
        self.change_list(device, pool, |books| books.list[pool].lighten(bytes));
    }

    fn change_list(&mut self, device: DeviceIx, pool: Pool, change: impl FnOnce(&mut Device)) {
        let before = self.devices[device].list[pool].now();
        self.account(device, pool, change);
        let bytes = self.devices[device].list[pool].now();
        let process = self.devices[device].process;
        let demand = self.shares[pool].get(process).demand;
        self.shares[pool].set_demand(process, demand - before + bytes);
        // Whoever is above its budget, and whoever listens, is to hear of it.
        self.stirred |= self.shares[pool].is_pressed() || !self.listeners.is_empty();
    }

    /// Forgets what the device's list weighed for what is no longer outstanding: others may have the room.
    pub(crate) fn settle_list(&mut self, device: DeviceIx) {
        for pool in Pool::ALL {
            if self.devices[device].list[pool].remembers() {
                self.account(device, pool, |books| {
                    let (retired, granted) = (books.retired(), books.granted_request());
                    books.list[pool].forget(retired, granted);
                });
            }
        }
    }

    /// Changes what a device is promised in a pool.
    pub(crate) fn account(&mut self, device: DeviceIx, pool: Pool, change: impl FnOnce(&mut Device)) {
        let books = &mut self.devices[device];
        self.promised_bytes[pool] -= books.promised(pool);
        change(books);
        self.promised_bytes[pool] += books.promised(pool);
    }

    /// Whether a device may hold so much more: a device that runs ahead never holds what another one was admitted with.
    pub(crate) fn may_hold(&self, device: DeviceIx, bytes: PerPool<u64>) -> bool {
        let books = &self.devices[device];
        Pool::ALL.into_iter().all(|pool| {
            let held = (books.held[pool] + books.owed[pool]).saturating_add(bytes[pool]).max(books.list[pool].peak());
            held <= self.not_promised_to_others(device, pool)
        })
    }

    /// The manager's allocation by its number in requests and plans.
    pub(crate) fn allocation_id(&self, index: AllocationIx) -> AllocationId {
        self.allocations.id(index)
    }

    pub(crate) fn device_id(&self, index: DeviceIx) -> DeviceId {
        self.devices.id(index)
    }

    /// Puts the adapter in error: nothing is built or dispatched from now on.
    pub(crate) fn fail(&mut self, violation: Violation) {
        if self.failed.is_some() {
            return;
        }
        self.events.record(|| Event::AdapterInError { violation: violation.clone() });
        self.outputs.push_back(Output::AdapterInError(violation.clone()));
        self.failed = Some(violation);
    }

    /// Whether nothing is under way or waiting.
    pub fn is_idle(&self) -> bool {
        self.stream.is_empty()
            && self.queued.is_empty()
            && self.requesting.is_empty()
            && self.granted.is_empty()
            && self.deferring.is_empty()
            && self.rootless.is_empty()
            && self.empty_tables.is_empty()
            && self.engines.iter().all(|engine| engine.in_flight.is_empty())
            && self.recovery.is_over()
    }
}
