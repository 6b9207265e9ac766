//! A device as the events tell of it: its work and its requests.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use vidmm::contract::RootPageTable;
use vidmm::{AllocationId, ContextId, DeviceId, DeviceResidency, MonitoredFenceId, PagingQueueId, PlanNo, ProcessId};

use super::list_entry::{Span, Writes};
use super::monitored::FenceValue;

/// The record of a device.
#[derive(Debug)]
pub(super) struct Device {
    pub process: ProcessId,
    pub residency: DeviceResidency,
    /// The last submission.
    pub submitted: u64,
    /// The event of the last submission.
    pub submitted_at: u64,
    /// Submissions that are not dispatched.
    pub undispatched: BTreeMap<u64, Submission>,
    /// Submissions that have not retired, with the events that made them.
    pub unretired: BTreeMap<u64, u64>,
    /// When each submission was dispatched: the number of the event.
    pub dispatched: BTreeMap<u64, u64>,
    /// Requests whose fence is not signalled, oldest first.
    pub requests: VecDeque<Request>,
    /// Spans of which later submissions must be checked: allocation and number.
    pub spans: BTreeSet<(AllocationId, u64)>,
    pub activity: Activity,
    pub in_error: bool,
    /// Its owner has destroyed it.
    pub has_ended: bool,
    /// The fences that its dropped and aborted work would have signalled: they are at the maximum when nothing of it is in flight.
    pub dropped_signals: Vec<MonitoredFenceId>,
    /// It has closed allocations.
    pub has_closed: bool,
    /// Plans of its last resumption that work must wait for.
    pub resumed_by: Vec<PlanNo>,
    /// When its turn came, and when its list was there for it: its slice runs from then on.
    pub resumed_at: u64,
    pub began_at: u64,
    /// Its period, which ends with a notification.
    pub period: Period,
}

/// The period of a device that listens, from its first submission on (RES-42).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Period {
    /// None runs.
    #[default]
    None,
    /// One runs.
    Runs {
        /// The device was suspended in it.
        was_suspended: bool,
        /// When it ends at the earliest and at the latest.
        earliest: u64,
        latest: u64,
    },
    /// One may run, of which the log does not say when it began.
    Unknown,
}

/// Whether a device's work runs (RES-71).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Activity {
    /// Its list is required.
    #[default]
    Active,
    /// Nothing of it is dispatched any more, since this time; its list is required as long as work is in flight.
    Yielded(u64),
    /// Its list is not required; it yielded at this time.
    Suspended(u64),
}

/// The record of a context.
#[derive(Clone, Copy, Debug)]
pub(super) struct Context {
    pub device: DeviceId,
    pub engine: u32,
    /// How urgent its work is.
    pub priority: i32,
    /// The root table that the driver was told of.
    pub root: Option<RootPageTable>,
}

/// Work that is not dispatched.
#[derive(Debug)]
pub(super) struct Submission {
    pub context: ContextId,
    pub waits: Vec<FenceValue>,
    pub signals: Vec<FenceValue>,
    /// Which portion of a DMA buffer it is, from 0.
    pub portion: Option<u32>,
    /// How often its engine had been asked to yield when it was submitted.
    pub preemptions: u64,
}

/// A call that was answered with a paging fence value.
#[derive(Debug)]
pub(super) struct Request {
    pub queue: PagingQueueId,
    pub fence_value: u64,
    /// The event that made it, and its time.
    pub arrival: u64,
    pub at: u64,
    /// The last submission made before it.
    pub after_submission: u64,
    pub kind: RequestKind,
    /// Its plans, once it is granted.
    pub granted: Option<Vec<PlanNo>>,
}

/// The kind of a request.
#[derive(Clone, Debug)]
pub(super) enum RequestKind {
    /// Allocations and their spans.
    MakeResident(Vec<(AllocationId, u64)>),
    /// A mapping: first address and end.
    Map(ProcessId, u64, u64),
    /// That reserved addresses read as zero.
    Reserve,
    /// That an allocation is where it may be.
    Move,
}

impl Device {
    pub fn new(process: ProcessId, residency: DeviceResidency, at: u64) -> Self {
        Self {
            process,
            residency,
            submitted: 0,
            submitted_at: 0,
            undispatched: BTreeMap::new(),
            unretired: BTreeMap::new(),
            dispatched: BTreeMap::new(),
            requests: VecDeque::new(),
            spans: BTreeSet::new(),
            activity: Activity::Active,
            in_error: false,
            has_ended: false,
            dropped_signals: Vec::new(),
            has_closed: false,
            resumed_by: Vec::new(),
            resumed_at: at,
            began_at: at,
            period: Period::None,
        }
    }

    /// Whether its work is let go.
    pub fn is_active(&self) -> bool {
        self.activity == Activity::Active
    }

    /// Whether its list is required: until nothing of it is in flight after it yielded.
    pub fn requires_its_list(&self) -> bool {
        !matches!(self.activity, Activity::Suspended(_))
    }

    /// Since when it has waited for memory, at the most: for a grant, or for its turn.
    pub fn waits_since(&self) -> Option<u64> {
        let turn = match self.activity {
            Activity::Active => None,
            Activity::Yielded(at) | Activity::Suspended(at) => Some(at),
        };
        self.next_request().map(|request| request.at).into_iter().chain(turn).min()
    }

    /// Writes of the span's work that was dispatched after an event.
    pub fn writes_in(&self, span: &Span, since: u64) -> Writes {
        let dispatched = |span: &Span| {
            let mut made = self.dispatched.range(span.submissions()).rev();
            made.any(|(&submission, &at)| at > since && span.requires(submission))
        };
        let unsaid = Span { from: span.from.max(span.unwritten_to), ..*span };
        Writes { certain: !span.not_written_to && dispatched(span), possible: dispatched(&unsaid) }
    }

    /// Whether all submissions up to this one have retired.
    pub fn has_retired(&self, submission: u64) -> bool {
        self.unretired.keys().next().is_none_or(|&first| submission < first)
    }

    /// A submission that was made in the span and is not dispatched.
    pub fn undispatched_in(&self, span: &Span) -> Option<u64> {
        self.undispatched.range(span.submissions()).map(|(&submission, _)| submission).find(|&s| span.requires(s))
    }

    /// Whether what a span named is held although the span has ended: an Evict waits for all that was submitted before it, also
    /// where that had no use for the allocation.
    pub fn still_holds(&self, span: &Span) -> bool {
        span.to.is_some_and(|to| self.undispatched.range(..=to).next().is_some())
    }

    /// A submission that was made in the span and has not retired.
    pub fn unretired_in(&self, span: &Span) -> Option<u64> {
        self.unretired.range(span.submissions()).map(|(&submission, _)| submission).find(|&s| span.requires(s))
    }

    /// A submission that was made in the span, and was dispatched and has not retired.
    pub fn in_flight_in(&self, span: &Span) -> Option<u64> {
        let is_in_flight = |&s: &u64| span.requires(s) && !self.undispatched.contains_key(&s);
        self.unretired.range(span.submissions()).map(|(&submission, _)| submission).find(is_in_flight)
    }

    /// Whether no work of it is handed out any more.
    pub fn is_over(&self) -> bool {
        self.in_error || self.has_ended
    }

    /// The request that is the next to be granted.
    pub fn next_request(&self) -> Option<&Request> {
        self.requests.iter().find(|request| request.granted.is_none())
    }

    /// The event that made the oldest of its submissions that have not retired, and of its requests that are not granted.
    pub fn oldest_outstanding(&self) -> Option<u64> {
        let submitted = self.unretired.values().next().copied();
        submitted.into_iter().chain(self.next_request().map(|request| request.arrival)).min()
    }

    /// Whether work of a context is not dispatched.
    pub fn has_work_of(&self, context: ContextId) -> bool {
        self.undispatched.values().any(|work| work.context == context)
    }

    /// Whether work that is not dispatched waits for a fence or signals it.
    pub fn has_work_that_names(&self, fence: MonitoredFenceId) -> bool {
        self.undispatched.values().flat_map(|work| work.waits.iter().chain(&work.signals)).any(|named| named.0 == fence)
    }

    /// Whether nothing of it is in flight.
    pub fn is_still(&self) -> bool {
        self.unretired.len() == self.undispatched.len()
    }

    /// Whether it has work, and nothing of it runs: it waits for work of others, who may need its memory.
    pub fn is_blocked(&self) -> bool {
        !self.undispatched.is_empty() && self.is_still()
    }

    /// Work that was not dispatched never will be. Returns the fences that it would have signalled.
    pub fn drop_undispatched(&mut self) -> Vec<MonitoredFenceId> {
        let dropped = std::mem::take(&mut self.undispatched);
        self.unretired.retain(|submission, _| !dropped.contains_key(submission));
        dropped.values().flat_map(|work| &work.signals).map(|&(fence, _)| fence).collect()
    }
}
