//! What the events say of a device: its work and its requests.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use vidmm::{AllocationId, ContextId, DeviceId, MonitoredFenceId, PagingQueueId, PhysicalAddress, PlanNo, ProcessId};

use super::allocation::Span;
use super::monitored::FenceValue;

/// What is known of a device.
#[derive(Debug)]
pub(super) struct Device {
    pub process: ProcessId,
    /// The last submission.
    pub submitted: u64,
    /// Submissions that are not dispatched.
    pub undispatched: BTreeMap<u64, Submission>,
    /// Submissions that have not retired.
    pub unretired: BTreeSet<u64>,
    /// Requests whose fence is not signalled, oldest first.
    pub requests: VecDeque<Request>,
    /// Spans of which later submissions must be checked: allocation and number.
    pub spans: BTreeSet<(AllocationId, u64)>,
}

/// What is known of a context.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    pub device: DeviceId,
    pub engine: u32,
    /// Where the driver was told that its root table is.
    pub root: Option<PhysicalAddress>,
}

/// Work that is not dispatched.
#[derive(Debug)]
pub(super) struct Submission {
    pub context: ContextId,
    pub waits: Vec<FenceValue>,
    pub signals: Vec<FenceValue>,
}

/// A call that was answered with a paging fence value.
#[derive(Debug)]
pub(super) struct Request {
    pub queue: PagingQueueId,
    pub fence_value: u64,
    /// The event that made it.
    pub arrival: u64,
    /// The last submission made before it.
    pub after_submission: u64,
    pub kind: RequestKind,
    /// Its plans, once it is granted.
    pub granted: Option<Vec<PlanNo>>,
}

/// What was asked for.
#[derive(Clone, Debug)]
pub(super) enum RequestKind {
    /// Allocations and their spans.
    MakeResident(Vec<(AllocationId, u64)>),
    /// A mapping.
    Map(ProcessId, u64),
}

impl Device {
    pub fn new(process: ProcessId) -> Self {
        Self {
            process,
            submitted: 0,
            undispatched: BTreeMap::new(),
            unretired: BTreeSet::new(),
            requests: VecDeque::new(),
            spans: BTreeSet::new(),
        }
    }

    /// Whether all submissions up to this one have retired.
    pub fn has_retired(&self, submission: u64) -> bool {
        self.unretired.first().is_none_or(|&first| submission < first)
    }

    /// A submission that was made in the span and is not dispatched.
    pub fn undispatched_in(&self, span: &Span) -> Option<u64> {
        self.undispatched.range(span.submissions()).map(|(&submission, _)| submission).find(|&s| span.requires(s))
    }

    /// A submission that was made in the span and has not retired.
    pub fn unretired_in(&self, span: &Span) -> Option<u64> {
        self.unretired.range(span.submissions()).copied().find(|&s| span.requires(s))
    }

    /// The request that is the next to be granted.
    pub fn next_request(&self) -> Option<&Request> {
        self.requests.iter().find(|request| request.granted.is_none())
    }

    /// Whether work of a context is not dispatched.
    pub fn has_work_of(&self, context: ContextId) -> bool {
        self.undispatched.values().any(|work| work.context == context)
    }

    /// Whether work that is not dispatched waits for a fence or signals it.
    pub fn has_work_that_names(&self, fence: MonitoredFenceId) -> bool {
        self.undispatched.values().flat_map(|work| work.waits.iter().chain(&work.signals)).any(|named| named.0 == fence)
    }

    /// Work that was not dispatched never will be. Returns the fences that it would have signalled.
    pub fn drop_undispatched(&mut self) -> Vec<MonitoredFenceId> {
        let dropped = std::mem::take(&mut self.undispatched);
        self.unretired.retain(|submission| !dropped.contains_key(submission));
        dropped.values().flat_map(|work| &work.signals).map(|&(fence, _)| fence).collect()
    }
}
