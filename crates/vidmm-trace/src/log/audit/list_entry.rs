//! How the list of a device names an allocation.

use std::collections::VecDeque;

use vidmm::EvictFlags;

/// A *span* lasts from the MakeResident that raises the count from 0 to the Evict that lowers it to 0; the submissions made in
/// it require the allocation (D2). Offer ends a span and Reclaim begins one, whatever the count.
#[derive(Debug, Default)]
pub(super) struct ListEntry {
    pub count: u64,
    offered: bool,
    spans: VecDeque<Span>,
    last_number: u64,
    /// The last submission that an ended span required; 0 if none did.
    last_use: u64,
}

/// One span.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub number: u64,
    /// The last submission before it.
    pub from: u64,
    /// The last submission in it, once it has ended.
    pub to: Option<u64>,
    pub granted: bool,
    pub not_written_to: bool,
    /// No submission of the span up to this number writes, as an Evict said (RES-22).
    pub unwritten_to: u64,
    /// Its Evict asks that the allocation goes, whether its room is wanted or not (RES-21).
    pub is_to_go: bool,
}

/// Writes to an allocation that its backing store lacks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Writes {
    /// Some are certain.
    pub certain: bool,
    /// Some are possible.
    pub possible: bool,
}

impl Writes {
    /// No writes, as after a copy.
    pub const NONE: Self = Self { certain: false, possible: false };
    /// Writes of the CPU to memory in its sight.
    pub const BY_CPU: Self = Self { certain: true, possible: true };

    /// Adds further writes.
    pub fn add(&mut self, other: Self) {
        self.certain |= other.certain;
        self.possible |= other.possible;
    }
}

impl Span {
    /// Whether a submission was made in it.
    pub fn requires(&self, submission: u64) -> bool {
        self.from < submission && self.to.is_none_or(|to| submission <= to)
    }

    /// The submissions that were made in it, as bounds of a range that is well formed.
    pub fn submissions(&self) -> std::ops::RangeInclusive<u64> {
        let to = self.to.unwrap_or(u64::MAX);
        self.from.saturating_add(1).min(to)..=to
    }
}

impl ListEntry {
    /// A MakeResident after submission `from`. Returns the number of the span that it is for.
    pub fn join(&mut self, from: u64) -> u64 {
        self.count += 1;
        if self.count == 1 && !self.offered {
            self.begin(from);
        }
        self.last_number
    }

    /// An Evict after submission `to`; `false` if the allocation is not on the list.
    pub fn leave(&mut self, to: u64, flags: EvictFlags) -> bool {
        let Some(count) = self.count.checked_sub(1) else { return false };
        self.count = count;
        if let Some(span) = self.spans.back_mut() {
            let is_unwritten = flags.contains(EvictFlags::NOT_WRITTEN_TO);
            span.not_written_to |= is_unwritten;
            span.unwritten_to = if is_unwritten && span.to.is_none() { to } else { span.unwritten_to };
            span.is_to_go |= !flags.contains(EvictFlags::EVICT_ONLY_IF_NECESSARY);
        }
        if count == 0 {
            self.end(to);
        }
        true
    }

    /// The allocation leaves the list, however often it is on it.
    pub fn leave_for_good(&mut self, to: u64) {
        self.count = self.count.min(1);
        self.leave_unsaid(to);
    }

    /// The allocation leaves the list after submission `to`. The log does not say whether the work wrote.
    pub fn leave_unsaid(&mut self, to: u64) {
        self.leave(to, EvictFlags::EVICT_ONLY_IF_NECESSARY);
        self.spans.back_mut().into_iter().for_each(|span| span.not_written_to = true);
    }

    /// An Offer after submission `to`: the list requires it no longer.
    pub fn offer(&mut self, to: u64) {
        self.offered = true;
        self.end(to);
    }

    /// A Reclaim after submission `from`. Returns the span that it begins, if the allocation is on the list.
    pub fn reclaim(&mut self, from: u64) -> Option<u64> {
        self.offered = false;
        (self.count > 0).then(|| {
            self.begin(from);
            self.last_number
        })
    }

    /// A Reclaim of an allocation that has no backing store any more: the allocation leaves the list.
    pub fn reclaim_in_vain(&mut self) {
        (self.offered, self.count) = (false, 0);
    }

    /// Whether the list demands memory for the allocation.
    pub fn demands(&self) -> bool {
        self.count > 0 && !self.offered
    }

    /// No work uses it any more, as its caller says.
    pub fn forget_all(&mut self) {
        self.spans.clear();
    }

    fn begin(&mut self, from: u64) {
        self.last_number += 1;
        self.spans.push_back(Span {
            number: self.last_number,
            from,
            to: None,
            granted: false,
            not_written_to: false,
            unwritten_to: from,
            is_to_go: false,
        });
    }

    fn end(&mut self, to: u64) {
        if let Some(span) = self.spans.back_mut().filter(|span| span.to.is_none()) {
            span.to = Some(to.max(span.from));
            self.last_use = if to > span.from { to } else { self.last_use };
        }
    }

    /// The last submission that a span required which has ended.
    pub fn last_use(&self) -> Option<u64> {
        (self.last_use > 0).then_some(self.last_use)
    }

    /// A request for a span is granted.
    pub fn grant(&mut self, number: u64) {
        if let Some(span) = self.spans.iter_mut().find(|span| span.number == number) {
            span.granted = true;
        }
    }

    pub fn span(&self, number: u64) -> Option<&Span> {
        self.spans.iter().find(|span| span.number == number)
    }

    pub fn spans(&self) -> impl Iterator<Item = &Span> {
        self.spans.iter()
    }

    /// Forgets granted spans that have ended and of which `is_over` says that nothing is left to do in them. Returns the sum of
    /// their `writes`.
    pub fn forget(&mut self, is_over: impl Fn(&Span) -> bool, writes: impl Fn(&Span) -> Writes) -> Writes {
        let mut all = Writes::NONE;
        self.spans.retain(|span| {
            let over = span.granted && span.to.is_some() && is_over(span);
            if over {
                all.add(writes(span));
            }
            !over
        });
        all
    }
}
