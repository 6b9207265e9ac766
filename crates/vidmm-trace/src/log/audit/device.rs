//! What the events say of a device: its work and its requests.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use vidmm::{AllocationId, ContextId, PagingQueueId, PlanNo, ProcessId};

use super::allocation::Span;

/// What is known of a device.
#[derive(Debug)]
pub(super) struct Device {
    /// The last submission.
    pub submitted: u64,
    /// Submissions that are not dispatched, and their contexts.
    pub undispatched: BTreeMap<u64, ContextId>,
    /// Submissions that have not retired.
    pub unretired: BTreeSet<u64>,
    /// Requests whose fence is not signalled, oldest first.
    pub requests: VecDeque<Request>,
    /// Spans of which later submissions must be checked: allocation and number.
    pub spans: BTreeSet<(AllocationId, u64)>,
}

/// A call that was answered with a paging fence value.
#[derive(Debug)]
pub(super) struct Request {
    pub fence_value: u64,
    /// The last submission made before it.
    pub after_submission: u64,
    pub kind: RequestKind,
    /// Its queue and its plans, once it is granted.
    pub granted: Option<(PagingQueueId, Vec<PlanNo>)>,
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
    pub fn new() -> Self {
        Self {
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

    /// Work that was not dispatched never will be.
    pub fn drop_undispatched(&mut self) {
        for (submission, _) in std::mem::take(&mut self.undispatched) {
            self.unretired.remove(&submission);
        }
    }
}
