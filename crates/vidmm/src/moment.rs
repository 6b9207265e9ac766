//! The moment: the time, outputs, events.

use alloc::{collections::VecDeque, vec::Vec};

use crate::{
    budget::MemorySegmentGroup,
    buggify::{Buggify, Unlikely},
    contract::{EngineFence, Packet, PagingOperationCounts},
    event::{
        Event, EventLog,
        error::{DeviceInError, DriverFinding, Violation},
        trim::TrimFlags,
    },
    id::{AllocationId, ContextId, DeviceId, MonitoredFenceId, PagingQueueId, ProcessId, TrimNotificationId},
    units::Nanoseconds,
};

/// The sink that is passed down to every part: the time, outputs, and events.
pub(crate) struct Moment {
    /// The time of the last poll.
    now: Nanoseconds,
    /// The time at which the next poll is wanted.
    wake: Option<Nanoseconds>,
    outputs: VecDeque<Output>,
    events: EventLog,
    statistics: Statistics,
    driver_findings: Vec<DriverFinding>,
    buggify: Buggify,
    /// Whether anything has happened since the last step began.
    needs_poll: bool,
    /// The rule that the driver or the GPU broke: nothing is built or dispatched any more.
    failed: Option<Violation>,
}

/// The outputs of [`poll`](crate::VidMm::poll).
#[derive(Debug)]
pub enum Output {
    /// Hand this packet to its engine.
    Submit(Packet),
    /// A use of a self-scheduled context may begin, once engines have reached these fences: all that it requires is in place then, and
    /// stays until [`VidMm::end_use`](crate::VidMm::end_use) (D25).
    UseBegun {
        /// The context.
        context: ContextId,
        /// The number that [`VidMm::begin_use`](crate::VidMm::begin_use) has returned.
        number: u64,
        /// Fences of the paging engine; their completions have been handed in, or will be.
        waits: Vec<EngineFence>,
    },
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
    /// A device is in error: its queued work is dropped, whose fences are signalled to the maximum once nothing of the device is in
    /// flight (FLT-33).
    DeviceInError(DeviceInError),
    /// The driver or the GPU broke a rule; the adapter takes no more calls.
    AdapterInError(Violation),
    /// A device that asked for it is to trim (RES-40). A process that evicts `num_bytes_to_trim` bytes of what its lists have in the
    /// group meets the budget; [`VidMm::register_trim_notification`](crate::VidMm::register_trim_notification) tells what
    /// follows otherwise.
    #[doc(alias = "D3DKMT_TRIMNOTIFICATION")]
    TrimNotification {
        /// The registration.
        notification: TrimNotificationId,
        /// The device.
        device: DeviceId,
        /// The reasons.
        flags: TrimFlags,
        /// The group whose budget its process is above; none without TRIM_TO_BUDGET, and of a segment that counts toward no group.
        group: Option<MemorySegmentGroup>,
        /// The bytes by which its process is above that budget; 0 without TRIM_TO_BUDGET.
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
    /// [`VidMm::handle_preempted`](crate::VidMm::handle_preempted), with the buffers of the packets that it has not run.
    #[doc(alias = "DxgkDdiPreemptCommand")]
    PreemptCommand {
        /// The engine.
        engine: u32,
        /// The number of the request, which the answer repeats.
        preemption_fence_id: u64,
    },
    /// Let the driver reset an engine; the answer goes to
    /// [`VidMm::handle_engine_reset`](crate::VidMm::handle_engine_reset). Until then the engine's reports are ignored
    /// (FLT-22).
    #[doc(alias = "DxgkDdiResetEngine")]
    ResetEngine {
        /// The engine.
        engine: u32,
    },
    /// Let the driver stop the GPU; the answer goes to [`VidMm::handle_reset_from_timeout`](crate::VidMm::handle_reset_from_timeout) (FLT-32).
    #[doc(alias = "DxgkDdiResetFromTimeout")]
    ResetFromTimeout,
    /// Let the driver start the GPU again; the answer goes to [`VidMm::handle_restart_from_timeout`](crate::VidMm::handle_restart_from_timeout).
    #[doc(alias = "DxgkDdiRestartFromTimeout")]
    RestartFromTimeout,
}

/// The counters of the manager's work so far.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Statistics {
    /// Bytes copied from system memory into the segment.
    pub bytes_paged_in: u64,
    /// Bytes copied from the segment to system memory.
    pub bytes_paged_out: u64,
    /// Of those, bytes copied out ahead of an eviction (D37).
    pub bytes_cleaned: u64,
    /// Bytes filled because they had no content yet.
    pub bytes_filled: u64,
    /// Allocations whose content was copied in, or filled because they had none yet.
    pub page_ins: u64,
    /// The prefetches among the page-ins (D37).
    pub prefetches: u64,
    /// The bytes of prefetches among the bytes copied in or filled.
    pub bytes_prefetched: u64,
    /// Allocations taken out because room was wanted or an Evict asked for it.
    pub evictions: u64,
    /// Of those, with content that had to be copied out.
    pub evictions_copied: u64,
    /// Plans decided.
    pub plans: u64,
    /// Paging buffers handed to the paging engine.
    pub paging_buffers: u64,
    /// Operations that drivers encoded, by kind. NOTIFY_ALLOC counts every chunk of a notification.
    pub operations: PagingOperationCounts,
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
    /// The number of times that a device's work was no longer dispatched, for memory or by a call.
    pub yields: u64,
    /// Engines that were asked to yield.
    pub preemptions: u64,
    /// Engines that were reset.
    pub engine_resets: u64,
    /// The number of resets of the adapter.
    pub adapter_resets: u64,
}

impl Moment {
    /// The moment at which an adapter starts.
    pub(crate) fn new(events: EventLog, buggify: Buggify) -> Self {
        Self {
            now: 0,
            wake: None,
            outputs: VecDeque::new(),
            events,
            statistics: Statistics::default(),
            driver_findings: Vec::new(),
            buggify,
            needs_poll: true,
            failed: None,
        }
    }

    /// The time of the last poll.
    #[inline]
    pub(crate) fn now(&self) -> Nanoseconds {
        self.now
    }

    /// The time at which the next poll is wanted, if nothing else happens before.
    pub(crate) fn wake(&self) -> Option<Nanoseconds> {
        self.wake
    }

    /// Begins a poll.
    pub(crate) fn advance(&mut self, now: Nanoseconds) {
        self.events.set_time(now);
        self.now = self.now.max(now);
        if self.wake.is_some_and(|wake| wake <= now) {
            self.wake = None;
            self.needs_poll = true;
        }
    }

    /// Asks for a step, for what happened without an event: a step may find more to do.
    #[inline]
    pub(crate) fn request_poll(&mut self) {
        self.needs_poll = true;
    }

    /// Asks for a step if something happened.
    #[inline]
    pub(crate) fn request_poll_if(&mut self, has_happened: bool) {
        self.needs_poll |= has_happened;
    }

    /// Whether something happened since the last step began.
    #[inline]
    pub(crate) fn needs_poll(&self) -> bool {
        self.needs_poll
    }

    /// Begins a step, if something happened since the last one began and nothing is broken.
    pub(crate) fn begin_step(&mut self) -> bool {
        self.failed.is_none() && core::mem::take(&mut self.needs_poll)
    }

    /// Records an event: whatever happens asks for a step.
    #[inline]
    pub(crate) fn record(&mut self, event: impl FnOnce() -> Event) {
        self.needs_poll = true;
        self.events.record(event);
    }

    pub(crate) fn keeps_events(&self) -> bool {
        self.events.is_kept()
    }

    /// The number of the last event.
    #[inline]
    pub(crate) fn event_number(&self) -> u64 {
        self.events.number()
    }

    pub(crate) fn events(&mut self) -> &mut EventLog {
        &mut self.events
    }

    /// Adds an output.
    pub(crate) fn hand_out(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    /// The next output.
    pub(crate) fn next_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    pub(crate) fn statistics(&self) -> Statistics {
        self.statistics
    }

    pub(crate) fn statistics_mut(&mut self) -> &mut Statistics {
        &mut self.statistics
    }

    pub(crate) fn driver_findings(&self) -> &[DriverFinding] {
        &self.driver_findings
    }

    /// Whether an unlikely choice is made for an object at an occasion.
    pub(crate) fn makes(&self, choice: Unlikely, object: u64, occasion: u64) -> bool {
        self.buggify.makes(choice, object, occasion)
    }

    /// The source of unlikely choices, for a caller that makes many.
    pub(crate) fn buggify(&self) -> Buggify {
        self.buggify
    }

    /// Whether the driver or the GPU has broken a rule: nothing is built or dispatched any more.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.failed.is_some()
    }

    /// Asks for a poll at this time.
    pub(crate) fn wake_at(&mut self, time: Nanoseconds) {
        let later = time.max(self.now.saturating_add(1));
        self.wake = Some(self.wake.map_or(later, |wake| wake.min(later)));
    }

    /// Tells the driver's author, once for each kind of finding.
    pub(crate) fn report(&mut self, finding: DriverFinding) {
        if self.driver_findings.iter().any(|known| known.is_of_kind(&finding)) {
            return;
        }
        self.driver_findings.push(finding);
        self.events.record(|| Event::DriverFinding { finding });
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
}
