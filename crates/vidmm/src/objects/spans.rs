//! Spans that requests not yet granted are to bring in: a queue for each entry, nearly always empty or of one.
//!
//! They lie in one vector that keeps its room, and those of an entry form a ring. So a list of a thousand entries that
//! waits for its grant allocates nothing.

use alloc::vec::Vec;

use crate::{event::list_flags::EvictFlags, id::SubmissionNo};

/// The span of an entry that an ungranted request is to bring in.
pub(crate) type SpanNo = u32;

#[derive(Debug, Default)]
pub(crate) struct Span {
    /// The last submission before it.
    pub from: SubmissionNo,
    /// The last submission that is known not to write in it.
    pub unwritten: SubmissionNo,
    /// The last submission made in it, once it has ended, and the flags of its Evicts.
    pub ended: Option<(SubmissionNo, EvictFlags)>,
    /// Requests that name it and are not granted yet.
    pub ungranted: u32,
    /// Whether the first of its requests has been granted.
    pub granted: bool,
    /// The span that began after it on its entry; after the last the first. While it is free, another free one.
    next: SpanNo,
}

/// The queue of an entry: its last span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SpanQueue(SpanNo);

impl SpanQueue {
    /// No span.
    pub const EMPTY: SpanQueue = SpanQueue(SpanNo::MAX);

    pub fn is_empty(self) -> bool {
        self == Self::EMPTY
    }
}

/// The spans of all entries.
#[derive(Debug)]
pub(crate) struct Spans {
    spans: Vec<Span>,
    /// The last that became free.
    free: SpanNo,
    used: usize,
}

impl Default for Spans {
    fn default() -> Self {
        Self { spans: Vec::new(), free: SpanNo::MAX, used: 0 }
    }
}

impl Spans {
    /// The span of a request.
    pub fn get_mut(&mut self, span: SpanNo) -> &mut Span {
        &mut self.spans[span as usize]
    }

    /// Whether work that is not dispatched, or may still be submitted, requires the allocation in the span (U-41).
    pub fn is_wanted(&self, span: SpanNo, dispatched: SubmissionNo) -> bool {
        let span = &self.spans[span as usize];
        span.ended.is_none_or(|(last, _)| last > span.from.max(dispatched))
    }

    /// Whether such work requires the allocation in any span of a queue.
    pub fn any_is_wanted(&self, queue: SpanQueue, dispatched: SubmissionNo) -> bool {
        self.of(queue).any(|span| self.is_wanted(span, dispatched))
    }

    /// The spans of a queue, the last first.
    fn of(&self, queue: SpanQueue) -> impl Iterator<Item = SpanNo> {
        let next = move |span: &SpanNo| Some(self.spans[*span as usize].next).filter(|&next| next != queue.0);
        core::iter::successors((!queue.is_empty()).then_some(queue.0), next)
    }

    /// Begins a span at the end of a queue, after submission `from`, for one request.
    pub fn begin(&mut self, queue: &mut SpanQueue, from: SubmissionNo) -> SpanNo {
        let number = self.push_back(queue);
        let span = self.get_mut(number);
        (span.ungranted, span.from, span.unwritten) = (1, from, from);
        number
    }

    /// The last span of a queue, to look at.
    pub fn last(&self, queue: SpanQueue) -> Option<&Span> {
        self.spans.get(queue.0 as usize).filter(|_| !queue.is_empty())
    }

    /// The last span of a queue.
    pub fn last_mut(&mut self, queue: SpanQueue) -> Option<(SpanNo, &mut Span)> {
        (!queue.is_empty()).then(|| (queue.0, &mut self.spans[queue.0 as usize]))
    }

    /// A new span at the end of a queue.
    fn push_back(&mut self, queue: &mut SpanQueue) -> SpanNo {
        let span = self.free;
        let span = match self.spans.get(span as usize) {
            Some(free) => {
                self.free = free.next;
                span
            }
            None => {
                self.spans.push(Span::default());
                self.spans.len() as SpanNo - 1
            }
        };
        let first = match queue.is_empty() {
            true => span,
            false => core::mem::replace(&mut self.spans[queue.0 as usize].next, span),
        };
        self.spans[span as usize] = Span { next: first, ..Span::default() };
        self.used += 1;
        *queue = SpanQueue(span);
        span
    }

    /// The first span of a queue.
    pub fn first(&self, queue: SpanQueue) -> Option<&Span> {
        let last = self.spans.get(queue.0 as usize)?;
        self.spans.get(last.next as usize)
    }

    /// Takes the first span off a queue that is not empty.
    pub fn pop_front(&mut self, queue: &mut SpanQueue) {
        let first = self.spans[queue.0 as usize].next;
        let after = core::mem::replace(&mut self.spans[first as usize].next, self.free);
        self.free = first;
        self.used -= 1;
        match first == queue.0 {
            true => *queue = SpanQueue::EMPTY,
            false => self.spans[queue.0 as usize].next = after,
        }
    }

    /// The number of spans, for the audit.
    pub fn used(&self) -> usize {
        self.used
    }

    /// The number of spans in a queue, for the audit.
    pub fn len(&self, queue: SpanQueue) -> usize {
        self.of(queue).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_leave_their_queue_in_the_order_in_which_they_began_and_make_room_for_others() {
        let mut spans = Spans::default();
        let (mut one, mut other) = (SpanQueue::EMPTY, SpanQueue::EMPTY);
        let of_one = [(); 3].map(|()| spans.push_back(&mut one));
        let of_other = spans.push_back(&mut other);
        for (at, &span) in of_one.iter().enumerate() {
            spans.get_mut(span).ungranted = at as u32;
        }
        assert_eq!((spans.len(one), spans.len(other), spans.used()), (3, 1, 4));
        assert_eq!(spans.last_mut(one).unwrap().0, of_one[2]);
        for at in 0..3 {
            assert_eq!(spans.first(one).unwrap().ungranted, at);
            spans.pop_front(&mut one);
        }
        assert!(one.is_empty() && spans.first(one).is_none());
        assert_eq!(spans.push_back(&mut other), of_one[2], "the last that became free is used first");
        assert_eq!((spans.len(other), spans.used()), (2, 2));
        spans.pop_front(&mut other);
        assert_ne!(spans.last_mut(other).unwrap().0, of_other);
    }
}
