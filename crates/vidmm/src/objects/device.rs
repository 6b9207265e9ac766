//! A device: the unit that has a residency list.

use alloc::{collections::VecDeque, vec::Vec};

use crate::{
    budget::account::{Account, PerAccount},
    data::{ordered_set::OrderedSet, progress::Progress},
    event::{device_residency::DeviceResidency, error::DeviceErrorReason},
    gpu_va::Mapping,
    id::{AllocationId, AllocationIx, MonitoredFenceId, PlanNo, ProcessIx, SubmissionNo, TrimNotificationIx},
    objects::{
        list::{EvictFlags, Expiries, ListBytes, Pin},
        ranges::ListRanges,
        request::Request,
        turn::{Activity, Turn},
    },
};
/// A device: the unit that has a residency list.
#[derive(Debug)]
pub(crate) struct Device {
    pub process: ProcessIx,
    /// The lists that drive its residency.
    pub residency: DeviceResidency,
    pub error: Option<DeviceErrorReason>,
    /// Whether its owner has destroyed it: it lives on until nothing of it is under way.
    pub has_ended: bool,
    /// The fences that its dropped and aborted work would have signalled, and that are not signalled yet.
    pub dropped_signals: Vec<MonitoredFenceId>,
    pub allocations: u32,
    pub list: PerAccount<ListBytes>,
    pub ranges: ListRanges,
    /// Whether its work runs.
    pub turn: Turn,
    /// The pinned bytes of its list, and the number of entries that pin them.
    pub pinned: PerAccount<u64>,
    pub num_pins: usize,
    /// The bytes that are promised to it: those that it needed now when they were last counted.
    pub promised: PerAccount<u64>,
    /// The bytes that it had pinned when it was suspended, and is to pin again.
    pub to_restore: PerAccount<u64>,
    /// The allocations that its entries pin, and some that they have unpinned.
    pub pinned_allocations: Vec<AllocationIx>,
    /// The listed allocations with several homes, and some former ones.
    pub with_choice: Vec<AllocationIx>,
    /// The allocations with a move to another home by an ungranted request.
    pub rehomed: OrderedSet<AllocationIx>,
    /// The allocations that its entries pinned when the device was suspended, to be pinned again when it is resumed.
    pub to_bring_back: Vec<AllocationId>,
    /// Its registrations for trim notifications.
    pub notifications: Vec<TrimNotificationIx>,
    /// Whether it has submitted work since the last period ended, and whether it was suspended since.
    pub period_runs: bool,
    pub suspended_in_period: bool,
    /// Plans that bring content up to date after writes of the CPU: work waits for them.
    pub refreshes: Vec<PlanNo>,
    pub expiring: Expiries,
    /// Not signalled yet, oldest first: `ready` of them are granted and built, `granted` are granted.
    pub requests: VecDeque<Request>,
    pub ready: usize,
    pub granted: usize,
    pub last_request: u64,
    pub submitted: SubmissionNo,
    /// The last submission's number among those of all devices.
    pub last_use: u64,
    /// Of the submissions, those that have been dispatched, and those that have retired.
    pub dispatches: Progress,
    pub retirements: Progress,
    /// Actions that wait for earlier submissions and requests, oldest first.
    pub deferred: VecDeque<Deferred>,
}

/// An action that follows a submission and a request of its device.
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
    /// Make the entries of mappings that were freed invalid (GVA-53).
    Unmap { allocation: AllocationIx, freed: Freed },
}

/// Addresses of a process that were freed and still have valid entries.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Freed {
    pub process: ProcessIx,
    pub virtual_address: u64,
    pub size: u64,
    /// The rests of pages of 64 KiB that it cuts, as the call saw them: tables for them are set aside (GVA-42).
    pub rests: [Option<Mapping>; 2],
}

impl Freed {
    /// Whether a mapping has any of these addresses.
    pub fn meets(&self, mapping: &Mapping) -> bool {
        mapping.process == self.process
            && mapping.virtual_address < self.virtual_address + self.size
            && self.virtual_address < mapping.end()
    }
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
    /// Whether an action may be carried out: all that was submitted and requested before is dispatched and granted.
    pub fn is_due(&self, deferred: &Deferred) -> bool {
        deferred.submission <= self.dispatched() && deferred.request <= self.granted_request()
    }

    /// Whether the references of its DMA buffers drive its residency.
    pub fn has_reference_lists(&self) -> bool {
        self.residency == DeviceResidency::ReferenceLists
    }

    /// Work that would have signalled these fences is dropped or aborted.
    pub fn drop_signals(&mut self, fences: impl IntoIterator<Item = MonitoredFenceId>) {
        self.dropped_signals.extend(fences);
    }

    /// Whether no work of it is handed out any more.
    pub fn is_over(&self) -> bool {
        self.has_ended || self.error.is_some()
    }

    /// The last submission up to which all have been dispatched.
    pub fn dispatched(&self) -> SubmissionNo {
        self.dispatches.up_to()
    }

    /// The last submission up to which all have retired.
    pub fn retired(&self) -> SubmissionNo {
        self.retirements.up_to()
    }

    /// The last request up to which all are granted.
    pub fn granted_request(&self) -> u64 {
        self.requests.get(self.granted).map_or(self.last_request, |request| request.number - 1)
    }

    /// Bytes that must be there for the device to run: its pinned allocations or those that are to be pinned again, and
    /// the footprint of its outstanding requests.
    #[inline]
    pub fn needed(&self, account: Account) -> u64 {
        (self.pinned[account] + self.to_restore[account]).max(self.list[account].peak())
    }

    /// Bytes that count as the device's demand: what its list names, and what it named for outstanding work and requests. The
    /// portions of DMA buffers are listed one by one, and not before they are decided.
    pub fn demand(&self, account: Account) -> u64 {
        let list = &self.list[account];
        if self.has_reference_lists() { list.now() } else { list.peak() }
    }

    /// Bytes that must be there for the device now.
    #[inline]
    pub fn needed_now(&self, account: Account) -> u64 {
        match self.turn.activity {
            Activity::Active => self.needed(account),
            Activity::Yielding | Activity::Suspended => self.pinned[account],
        }
    }

    /// Whether any bytes must be there for the device now.
    pub fn is_promised_anything(&self) -> bool {
        self.pinned.accounts().iter().any(|account| self.promised[account] > 0)
    }

    pub fn is_active(&self) -> bool {
        self.turn.activity == Activity::Active
    }

    pub fn is_suspended(&self) -> bool {
        self.turn.activity == Activity::Suspended
    }

    /// The flags of the Evict at the end of a pin, after submission `last`: with NOT_WRITTEN_TO if no write is without a note. A device at
    /// its end has all writes noted, and dropped work writes nothing.
    pub fn flags_of(&self, pin: Pin, last: SubmissionNo) -> EvictFlags {
        match self.is_over() {
            true => pin.end(0, &self.dispatches),
            false => pin.end(last, &self.dispatches),
        }
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
