//! A device's residency requirement list (RES-01): what each submission requires, as the list stood when it was made (D2).
//!
//! MakeResident and Evict take effect between two submissions of their device. From the MakeResident that raises the count
//! from 0 to the Evict that lowers it to 0 again is a *span*; a submission requires the allocations whose spans it was made
//! in. A client may run far ahead of the GPU, so several spans of one allocation can be known before the first is granted;
//! those wait in a queue, nearly always empty. Once granted, a span holds its allocation in place until the last submission
//! made in it has been dispatched; then the allocation may be planned out, and that plan waits until the submission retired.

use alloc::{boxed::Box, collections::VecDeque};

use bitflags::bitflags;

use crate::id::SubmissionNo;

/// An allocation on its device's list.
#[derive(Debug)]
pub(crate) struct ListEntry {
    /// MakeResident less Evict, as the caller counts (RES-02).
    pub count: u32,
    /// A granted span is open: it holds the allocation in place for ever.
    pub open: bool,
    /// The entry holds the allocation in place.
    pub holding: bool,
    /// It held the allocation when its device was suspended, and is to hold it again.
    pub owed: bool,
    /// Its device has noted that it holds the allocation, or did.
    pub in_holdings: bool,
    /// The last submission before an Evict of the present span said that nothing was written (RES-22). It is said of what was
    /// submitted by then, and holds for the span only if nothing was submitted since.
    not_written_until: SubmissionNo,
    /// The last submission made in a granted span that has ended.
    pub until: SubmissionNo,
    /// Spans that a request not yet granted is to bring in.
    spans: Option<Box<Spans>>,
}

#[derive(Debug, Default)]
struct Spans {
    /// The number of the first in the queue.
    base: u32,
    queue: VecDeque<Span>,
}

#[derive(Debug)]
struct Span {
    /// The last submission made in it, once it has ended, and what its Evicts asked for.
    ended: Option<(SubmissionNo, EvictFlags)>,
    /// Requests that name it and are not granted yet.
    ungranted: u32,
    /// The first of its requests has been granted.
    granted: bool,
}

/// No submission: nobody said that nothing was written.
const NEVER: SubmissionNo = SubmissionNo::MAX;

impl Default for ListEntry {
    fn default() -> Self {
        Self {
            count: 0,
            open: false,
            holding: false,
            owed: false,
            in_holdings: false,
            not_written_until: NEVER,
            until: 0,
            spans: None,
        }
    }
}

/// What an ungranted request remembers of an entry that it is to bring in.
pub(crate) type SpanNo = u32;

/// What a grant or an Evict does to an entry.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Effect {
    /// The allocation stays as it is.
    Nothing,
    /// The entry holds the allocation until further notice.
    Open,
    /// The entry holds the allocation until this submission has been dispatched.
    Until(SubmissionNo, EvictFlags),
}

bitflags! {
    /// How an allocation is to be evicted.
    #[doc(alias = "D3DDDI_EVICT_FLAGS")]
    #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct EvictFlags: u32 {
        /// Only when memory is wanted; otherwise at the earliest opportunity (RES-21).
        const EVICT_ONLY_IF_NECESSARY = 1 << 0;
        /// The GPU wrote nothing since the allocation was made resident: its content need not be copied out (RES-22).
        const NOT_WRITTEN_TO = 1 << 1;
    }
}

bitflags! {
    /// How a MakeResident is to be judged (RES-14, RES-15).
    #[doc(alias = "D3DDDI_MAKERESIDENT_FLAGS")]
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct MakeResidentFlags: u32 {
        /// Nothing is left to trim: it succeeds above the current budget, up to the maximum budget (U-24).
        const CANT_TRIM_FURTHER = 1 << 0;
        /// A failure puts the device in error. Only with `CANT_TRIM_FURTHER`.
        const MUST_SUCCEED = 1 << 1;
    }
}

impl ListEntry {
    /// A MakeResident that was granted at once, and has been counted.
    pub fn join_granted(&mut self) -> Effect {
        debug_assert!(!self.has_ungranted_span(), "nothing is granted before what came earlier");
        if self.open {
            return Effect::Nothing;
        }
        (self.open, self.not_written_until) = (true, NEVER);
        Effect::Open
    }

    /// A MakeResident that waits for its grant, and has been counted. Returns the span that the grant is for; none if it is
    /// held already.
    pub fn join_ungranted(&mut self) -> Option<SpanNo> {
        if self.open {
            return None;
        }
        let spans = self.spans.get_or_insert_default();
        match spans.queue.back_mut() {
            Some(span) if span.ended.is_none() => span.ungranted += 1,
            _ => {
                self.not_written_until = NEVER;
                spans.queue.push_back(Span { ended: None, ungranted: 1, granted: false });
            }
        }
        Some(spans.base + spans.queue.len() as u32 - 1)
    }

    /// A request for `span` is granted.
    pub fn grant(&mut self, span: SpanNo) -> Effect {
        let spans = self.spans.as_mut().expect("a granted span is queued");
        let entry = &mut spans.queue[(span - spans.base) as usize];
        entry.ungranted -= 1;
        let effect = match (core::mem::replace(&mut entry.granted, true), entry.ended) {
            (true, None) => Effect::Nothing,
            (false, None) => {
                self.open = true;
                Effect::Open
            }
            // Again for each request of an ended span: without a submission in it, it may have lapsed since the last one.
            (_, Some((last, flags))) => {
                self.until = self.until.max(last);
                Effect::Until(last, flags)
            }
        };
        while spans.queue.front().is_some_and(|span| span.granted && span.ungranted == 0) {
            spans.queue.pop_front();
            spans.base += 1;
        }
        if spans.queue.is_empty() {
            self.spans = None;
        }
        effect
    }

    /// An Evict after submission `last`; the count must be above 0. Its flags count when the span ends with it; that nothing
    /// was written may have been said by an earlier one, if nothing was submitted since.
    pub fn leave(&mut self, last: SubmissionNo, flags: EvictFlags) -> Effect {
        self.count -= 1;
        if flags.contains(EvictFlags::NOT_WRITTEN_TO) {
            self.not_written_until = last;
        }
        if self.count > 0 {
            return Effect::Nothing;
        }
        let mut flags = flags;
        flags.set(EvictFlags::NOT_WRITTEN_TO, self.not_written_until == last);
        if let Some(span) = self.spans.as_mut().and_then(|spans| spans.queue.back_mut())
            && span.ended.is_none()
        {
            span.ended = Some((last, flags));
            if !span.granted {
                return Effect::Nothing;
            }
        }
        self.open = false;
        self.until = self.until.max(last);
        Effect::Until(last, flags)
    }

    /// No work uses the allocation, and no request brings it in. Nothing holds it, and its count is 0.
    pub fn forget_uses(&mut self) {
        debug_assert!(!self.holding && self.count == 0, "it has left the list, and was let go");
        *self = Self { in_holdings: self.in_holdings, ..Self::default() };
    }

    /// Whether a request that is not granted yet names the allocation.
    pub fn has_ungranted_span(&self) -> bool {
        self.spans.is_some()
    }
}

/// What a device's list weighs, and weighed for what is still outstanding.
///
/// Admission compares lists by the largest that any outstanding request or submission was made under: whatever moments the
/// devices' grants have reached, the lists of those moments fit together.
#[derive(Debug, Default)]
pub(crate) struct ListBytes {
    /// Bytes of allocations with a count above 0.
    now: u64,
    /// Earlier weights that outweigh all later ones, oldest first.
    earlier: VecDeque<Weight>,
}

#[derive(Debug)]
struct Weight {
    bytes: u64,
    /// The last submission and the last request made under it.
    last_submission: SubmissionNo,
    last_request: u64,
}

impl ListBytes {
    /// Bytes of the list as it stands.
    pub fn now(&self) -> u64 {
        self.now
    }

    /// The largest weight that anything outstanding was made under.
    pub fn peak(&self) -> u64 {
        self.earlier.front().map_or(self.now, |earliest| earliest.bytes.max(self.now))
    }

    /// The list changes to `bytes` after submission `last_submission` and request `last_request` of its device.
    pub fn set(&mut self, bytes: u64, last_submission: SubmissionNo, last_request: u64) {
        while self.earlier.back().is_some_and(|weight| weight.bytes <= self.now) {
            self.earlier.pop_back();
        }
        if self.now > bytes {
            self.earlier.push_back(Weight { bytes: self.now, last_submission, last_request });
        }
        self.now = bytes;
    }

    /// What is outstanding weighs what the list weighs now: part of it is counted in another pool.
    pub fn recount(&mut self) {
        self.earlier.clear();
    }

    /// Whether an earlier weight is remembered.
    pub fn remembers(&self) -> bool {
        !self.earlier.is_empty()
    }

    /// All submissions up to `retired` have retired, and all requests up to `granted` are granted.
    pub fn forget(&mut self, retired: SubmissionNo, granted: u64) {
        while self.earlier.front().is_some_and(|w| w.last_submission <= retired && w.last_request <= granted) {
            self.earlier.pop_front();
        }
    }
}

/// Holds that end when a submission has been dispatched, soonest first; of one submission in the order of the Evicts.
#[derive(Debug, Default)]
pub(crate) struct Lapsing(VecDeque<Lapse>);

#[derive(Debug)]
struct Lapse {
    last: SubmissionNo,
    /// The allocations, never none.
    holds: VecDeque<(u32, EvictFlags)>,
}

impl Lapsing {
    /// The hold of the device's entry on allocation `index` ends with `last`.
    pub fn insert(&mut self, last: SubmissionNo, index: u32, flags: EvictFlags) {
        let at = match self.0.back() {
            Some(back) if back.last >= last => self.0.partition_point(|lapse| lapse.last < last),
            _ => self.0.len(),
        };
        if self.0.get(at).is_none_or(|lapse| lapse.last != last) {
            self.0.insert(at, Lapse { last, holds: VecDeque::new() });
        }
        self.0[at].holds.push_back((index, flags));
    }

    /// No hold on allocation `index` ends any more.
    pub fn forget(&mut self, index: u32) {
        self.0.retain_mut(|lapse| {
            lapse.holds.retain(|&(held, _)| held != index);
            !lapse.holds.is_empty()
        });
    }

    /// Holds that end with a submission up to `last`: the submission and the allocation.
    pub fn up_to(&self, last: SubmissionNo) -> impl Iterator<Item = (SubmissionNo, u32)> {
        let lapses = self.0.iter().take_while(move |lapse| lapse.last <= last);
        lapses.flat_map(|lapse| lapse.holds.iter().map(|&(index, _)| (lapse.last, index)))
    }

    /// The next hold that ends with a submission up to `dispatched`.
    pub fn pop(&mut self, dispatched: SubmissionNo) -> Option<(u32, EvictFlags)> {
        let first = self.0.front_mut().filter(|first| first.last <= dispatched)?;
        let hold = first.holds.pop_front();
        if first.holds.is_empty() {
            self.0.pop_front();
        }
        hold
    }
}
