//! A device's residency requirement list (RES-01): each submission requires the allocations on the list at its call
//! (D2).
//!
//! MakeResident and Evict take effect between two submissions of their device. From the MakeResident that raises the
//! count from 0 to the Evict that lowers it to 0 again is a *span*; a submission requires the allocations in whose
//! spans it was made. A client may run far ahead of the GPU, so several spans of one allocation can be known before the
//! first is granted; those wait in a queue, nearly always empty. Once granted, a span pins its allocation until the
//! last submission made in it has been dispatched. Then the allocation may be planned out, and that plan waits until
//! the submission has retired.

use alloc::collections::{BTreeMap, VecDeque};
use bitflags::bitflags;

pub use crate::event::list_flags::EvictFlags;
use crate::{
    data::{packed::Tagged, progress::Progress},
    id::{AllocationIx, SubmissionNo},
    objects::spans::{SpanNo, SpanQueue, Spans},
};

/// An allocation on its device's list.
#[derive(Debug)]
pub(crate) struct ListEntry {
    /// MakeResident less Evict, as the caller counts (RES-02).
    pub count: u32,
    /// Spans that requests not yet granted are to bring in.
    pub spans: SpanQueue,
    /// While a granted span is open, the last submission that is known not to write in it; then the last submission that
    /// was made in a granted span. The byte is the flags.
    until: Tagged,
}

bitflags! {
    /// The state of an entry, besides being listed.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub(crate) struct EntryFlags: u8 {
        /// A granted span is open: it pins the allocation until further notice.
        const OPEN = 1 << 0;
        /// The entry pins the allocation.
        const PINNING = 1 << 1;
        /// The entry pinned the allocation when its device was suspended, and is to pin it again.
        const TO_RESTORE = 1 << 2;
        /// The device's record of pinned allocations has this entry; it may have been unpinned since.
        const IN_PINNED = 1 << 3;
        /// Work was submitted in the open span that is known not to write, or whose writes are noted.
        const READ = 1 << 4;
        /// The entry pinned the allocation for an earlier span when the open one was granted.
        const PINNED_BEFORE = 1 << 5;
        /// The device's set of allocations with several homes has this entry, perhaps no longer listed.
        const WITH_CHOICE = 1 << 6;
    }
}

impl Default for ListEntry {
    fn default() -> Self {
        Self { count: 0, spans: SpanQueue::EMPTY, until: Tagged::default() }
    }
}

/// An Evict after submission `last` of the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leave {
    /// The count of the entry after the Evict.
    pub left: u32,
    pub last: SubmissionNo,
    pub flags: EvictFlags,
}

/// The effect of a grant or an Evict on an entry.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub(crate) enum Effect {
    /// The allocation stays as it is.
    Nothing,
    /// The entry pins the allocation until further notice.
    Open,
    /// The entry pins the allocation until submission `last` has been dispatched. The submissions up to `unwritten` write nothing, or
    /// their writes are noted.
    Until { last: SubmissionNo, unwritten: SubmissionNo, flags: EvictFlags },
    /// The span ended without a submission: the entry pins the allocation for earlier spans only, if it did.
    InVain { flags: EvictFlags, was_pinned: bool },
}

impl ListEntry {
    #[inline(always)]
    fn flags(&self) -> EntryFlags {
        EntryFlags::from_bits_retain(self.until.byte())
    }

    #[inline(always)]
    fn is(&self, flag: EntryFlags) -> bool {
        self.flags().contains(flag)
    }

    #[inline(always)]
    fn set(&mut self, flags: EntryFlags, are_set: bool) {
        let mut all = self.flags();
        all.set(flags, are_set);
        self.until.set_byte(all.bits());
    }

    /// The last submission made in a granted span that has ended.
    pub fn until(&self) -> SubmissionNo {
        self.until.number()
    }

    /// Shortens the pin of a span that ended without a submission: it lasts until `last` for what was before.
    pub fn shorten(&mut self, last: SubmissionNo) {
        self.until.set_number(last);
    }

    fn extend(&mut self, last: SubmissionNo) {
        self.until.set_number(self.until().max(last));
    }

    /// Whether the pinning entry pins for ended spans.
    pub fn pins_for_ended_spans(&self) -> bool {
        !self.is_open() || self.is(EntryFlags::PINNED_BEFORE)
    }

    pub fn is_open(&self) -> bool {
        self.is(EntryFlags::OPEN)
    }

    pub fn is_pinning(&self) -> bool {
        self.is(EntryFlags::PINNING)
    }

    pub fn is_to_restore(&self) -> bool {
        self.is(EntryFlags::TO_RESTORE)
    }

    /// Whether the entry pins the allocation, or did so when its device was suspended and is to again.
    pub fn is_pinned(&self) -> bool {
        self.flags().intersects(EntryFlags::PINNING | EntryFlags::TO_RESTORE)
    }

    /// Whether anything outstanding is to bring the allocation in, or has.
    pub fn is_outstanding(&self) -> bool {
        self.is_pinned() || self.has_ungranted_span()
    }

    /// The entry pins the allocation from now on. Returns the flags before.
    pub fn pin(&mut self) -> EntryFlags {
        let before = self.flags();
        self.set(EntryFlags::TO_RESTORE, false);
        self.set(EntryFlags::PINNING | EntryFlags::IN_PINNED, true);
        before
    }

    /// The entry pins the allocation no more, and is not to pin the allocation again. Returns the flags before.
    pub fn release(&mut self) -> EntryFlags {
        let before = self.flags();
        self.set(EntryFlags::TO_RESTORE | EntryFlags::PINNING, false);
        before
    }

    /// The entry is to pin the allocation again.
    pub fn hold_for_resume(&mut self) {
        self.set(EntryFlags::TO_RESTORE, true);
    }

    /// The device's record of pinned allocations keeps this entry if the entry pins. Returns whether that is so.
    pub fn keep_pinned(&mut self) -> bool {
        self.set(EntryFlags::IN_PINNED, self.is_pinning());
        self.is_pinning()
    }

    /// The device's record of pinned allocations is emptied.
    pub fn forget_pinned(&mut self) {
        self.set(EntryFlags::IN_PINNED, false);
    }

    /// Whether the device's record of pinned allocations has this entry.
    pub fn is_in_pinned(&self) -> bool {
        self.is(EntryFlags::IN_PINNED)
    }

    /// Notes whether the device's set of allocations with several homes has this entry. Returns the note before.
    pub fn set_with_choice(&mut self, is_in: bool) -> bool {
        let was_in = self.is(EntryFlags::WITH_CHOICE);
        self.set(EntryFlags::WITH_CHOICE, is_in);
        was_in
    }

    /// Begins the span of a MakeResident that was granted at once after submission `from`, and has been counted. Returns
    /// whether none was open: then the entry is to pin the allocation.
    pub fn join_granted(&mut self, from: SubmissionNo) -> bool {
        debug_assert!(!self.has_ungranted_span(), "nothing is granted before what came earlier");
        let is_first = !self.is_open();
        if is_first {
            self.open(from, from);
        }
        is_first
    }

    fn open(&mut self, from: SubmissionNo, unwritten: SubmissionNo) {
        self.set(EntryFlags::PINNED_BEFORE, self.is_pinned());
        self.set(EntryFlags::READ, unwritten > from);
        self.set(EntryFlags::OPEN, true);
        self.until.set_number(unwritten);
    }

    /// Begins the span of a MakeResident that waits for its grant, and has been counted after submission `from`. Returns
    /// the span that the grant is for; none if the allocation is pinned already.
    pub fn join_ungranted(&mut self, from: SubmissionNo, spans: &mut Spans) -> Option<SpanNo> {
        if self.is_open() {
            return None;
        }
        if let Some((number, last)) = spans.last_mut(self.spans)
            && last.ended.is_none()
        {
            last.ungranted += 1;
            return Some(number);
        }
        Some(spans.begin(&mut self.spans, from))
    }

    /// Grants a request for the span.
    pub fn grant(&mut self, number: SpanNo, spans: &mut Spans) -> Effect {
        if self.spans.is_empty() {
            // The allocation was destroyed, and its owner's uses are forgotten.
            return Effect::Nothing;
        }
        let is_last = spans.last_mut(self.spans).is_some_and(|(last, _)| last == number);
        let span = spans.get_mut(number);
        span.ungranted -= 1;
        let effect = match (core::mem::replace(&mut span.granted, true), span.ended) {
            (false, None) => {
                self.open(span.from, span.unwritten);
                Effect::Open
            }
            (false, Some((last, flags))) if last > span.from => {
                let unwritten = span.unwritten;
                self.extend(last);
                Effect::Until { last, unwritten, flags }
            }
            // A later request wants it again: then it is not to go.
            (false, Some((_, flags))) if is_last => Effect::InVain { flags, was_pinned: self.is_pinned() },
            _ => Effect::Nothing,
        };
        while spans.first(self.spans).is_some_and(|first| first.granted && first.ungranted == 0) {
            spans.pop_front(&mut self.spans);
        }
        effect
    }

    /// Whether any work up to submission `last` was submitted since the allocation joined the list, which it has not left.
    pub fn is_used(&self, last: SubmissionNo, spans: &Spans) -> bool {
        match spans.last(self.spans).filter(|span| span.ended.is_none() && !span.granted) {
            Some(span) => last > span.from,
            None => self.is_open() && (self.is(EntryFlags::READ) || last > self.until()),
        }
    }

    /// An Evict has lowered the count. The Evict that lowers the count to 0 ends the span, and the flags of that Evict count. Each Evict may
    /// say that nothing was written by the work submitted before (RES-22).
    #[inline]
    pub fn leave(&mut self, Leave { left, last, mut flags }: Leave, spans: &mut Spans) -> Effect {
        let is_unwritten = flags.contains(EvictFlags::NOT_WRITTEN_TO);
        let mut span = spans.last_mut(self.spans).map(|(_, span)| span).filter(|span| span.ended.is_none());
        if let Some(span) = span.as_mut().filter(|span| !span.granted) {
            if is_unwritten {
                span.unwritten = last;
            }
            flags.set(EvictFlags::NOT_WRITTEN_TO, span.unwritten == last);
            span.ended = (left == 0).then_some((last, flags));
            return Effect::Nothing;
        }
        if is_unwritten && last > self.until() {
            self.set(EntryFlags::READ, true);
            self.extend(last);
        }
        if left > 0 {
            return Effect::Nothing;
        }
        flags.set(EvictFlags::NOT_WRITTEN_TO, self.until() >= last);
        if let Some(span) = span {
            span.ended = Some((last, flags));
        }
        self.set(EntryFlags::OPEN, false);
        if flags.contains(EvictFlags::NOT_WRITTEN_TO) && !self.is(EntryFlags::READ) {
            let was_pinned = self.is(EntryFlags::PINNED_BEFORE);
            self.set(EntryFlags::PINNED_BEFORE, false);
            return Effect::InVain { flags, was_pinned };
        }
        let unwritten = self.until();
        self.extend(last);
        Effect::Until { last: self.until(), unwritten, flags }
    }

    /// Whether no work uses the allocation, and no request brings it in. No entry pins it, and its count is 0.
    pub fn forget_uses(&mut self, spans: &mut Spans) {
        debug_assert!(!self.is_pinning() && self.count == 0, "it has left the list, and was unpinned");
        while !self.spans.is_empty() {
            spans.pop_front(&mut self.spans);
        }
        let noted = EntryFlags::IN_PINNED | EntryFlags::WITH_CHOICE;
        *self = Self { until: Tagged::new(0, (self.flags() & noted).bits()), ..Self::default() };
    }

    /// Whether a request that is not granted yet names the allocation.
    pub fn has_ungranted_span(&self) -> bool {
        !self.spans.is_empty()
    }
}

/// The weight of a device's list, and its weights for outstanding work and requests.
///
/// Admission compares lists by the largest weight under which anything outstanding was made: whatever moments the
/// devices' grants have reached, the lists of those moments fit together.
#[derive(Debug, Default)]
pub(crate) struct ListBytes {
    /// Bytes of allocations with a count above 0.
    now: u64,
    /// Whether anything has left the list since its device was last asked to trim.
    has_shrunk: bool,
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

    /// The largest weight under which anything outstanding was made.
    #[inline]
    pub fn peak(&self) -> u64 {
        self.earlier.front().map_or(self.now, |earliest| earliest.bytes.max(self.now))
    }

    /// Changes the list to `bytes` after submission `last_submission` and request `last_request` of its device.
    pub fn set(&mut self, bytes: u64, last_submission: SubmissionNo, last_request: u64) {
        while self.earlier.back().is_some_and(|weight| weight.bytes <= self.now) {
            self.earlier.pop_back();
        }
        if self.now > bytes {
            self.earlier.push_back(Weight { bytes: self.now, last_submission, last_request });
            self.has_shrunk = true;
        }
        self.now = bytes;
    }

    /// Its device is asked to trim.
    pub fn expect_to_shrink(&mut self) {
        self.has_shrunk = false;
    }

    /// Whether the list has shrunk since its device was last asked to trim.
    pub fn has_shrunk(&self) -> bool {
        self.has_shrunk
    }

    /// Takes off a portion that has been handed out, without a memory of its weight. The plan that takes its room waits
    /// for it, and nothing outstanding is to find that room again.
    pub fn lighten(&mut self, bytes: u64) {
        self.now -= bytes;
    }

    /// Makes outstanding work and requests weigh as much as the list now: part of it is counted in another account.
    pub fn recount(&mut self) {
        self.earlier.clear();
    }

    /// Whether an earlier weight is remembered.
    pub fn remembers(&self) -> bool {
        !self.earlier.is_empty()
    }

    /// Forgets the weights of submissions up to `retired`, which have retired, and of requests up to `granted`, which
    /// are granted.
    pub fn forget(&mut self, retired: SubmissionNo, granted: u64) {
        while self.earlier.front().is_some_and(|w| w.last_submission <= retired && w.last_request <= granted) {
            self.earlier.pop_front();
        }
    }
}

/// Pins that end when a submission has been dispatched, soonest first; those of one submission in the order of the
/// Evicts.
#[derive(Debug, Default)]
pub(crate) struct Expiries {
    expiries: VecDeque<Expiry>,
    /// The room of an element that is over, for the next.
    spare: VecDeque<Pin>,
    /// For open spans, the number of noted submissions dispatched before an earlier submission.
    noted_early: BTreeMap<AllocationIx, u64>,
}

#[derive(Debug)]
struct Expiry {
    last: SubmissionNo,
    /// The pins, never none.
    pins: VecDeque<Pin>,
}

/// An ended span with a pin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pin {
    pub allocation: AllocationIx,
    flags: EvictFlags,
    /// Submissions up to this number write nothing, or are noted.
    unwritten: SubmissionNo,
    /// The number of later, noted submissions.
    noted: u64,
}

impl Pin {
    /// Whether dispatched work up to submission `last` may have written to the allocation, beyond the notes; notes these writes.
    fn take_writes(&mut self, last: SubmissionNo, dispatches: &Progress) -> bool {
        let dispatched = dispatches.count_between(self.unwritten, last);
        let noted = core::mem::replace(&mut self.noted, dispatched);
        !self.flags.contains(EvictFlags::NOT_WRITTEN_TO) && dispatched > noted
    }

    /// The flags of the Evict at the end of the span, with NOT_WRITTEN_TO if no write up to submission `last` is without a note.
    pub fn end(mut self, last: SubmissionNo, dispatches: &Progress) -> EvictFlags {
        let is_written = self.take_writes(last, dispatches);
        self.flags.set(EvictFlags::NOT_WRITTEN_TO, !is_written);
        self.flags
    }
}

impl Expiries {
    /// The pin of a span at the end of the span.
    pub fn pin(&mut self, allocation: AllocationIx, unwritten: SubmissionNo, flags: EvictFlags) -> Pin {
        Pin { allocation, flags, unwritten, noted: self.take_noted(allocation) }
    }

    /// Records the end of a pin with submission `last`.
    pub fn insert(&mut self, last: SubmissionNo, pin: Pin) {
        let at = match self.expiries.back() {
            Some(back) if back.last > last => self.expiries.partition_point(|expiry| expiry.last < last),
            Some(back) if back.last == last => self.expiries.len() - 1,
            _ => self.expiries.len(),
        };
        if self.expiries.get(at).is_none_or(|expiry| expiry.last != last) {
            self.expiries.insert(at, Expiry { last, pins: core::mem::take(&mut self.spare) });
        }
        self.expiries[at].pins.push_back(pin);
    }

    /// Forgets the end of the pin on an allocation.
    pub fn forget(&mut self, allocation: AllocationIx) {
        self.take_noted(allocation);
        self.expiries.retain_mut(|expiry| {
            expiry.pins.retain(|pin| pin.allocation != allocation);
            !expiry.pins.is_empty()
        });
    }

    /// Forgets notes of an open span: either submissions up to now write nothing, or no span is open yet.
    #[inline]
    pub fn forget_noted(&mut self, allocation: AllocationIx) {
        self.take_noted(allocation);
    }

    /// Takes the number of noted submissions of an open span. Nearly always there is no note.
    #[inline]
    fn take_noted(&mut self, allocation: AllocationIx) -> u64 {
        if self.noted_early.is_empty() { 0 } else { self.noted_early.remove(&allocation).unwrap_or(0) }
    }

    /// Whether dispatched work may have written to an allocation in the open span, beyond the notes; notes these writes.
    pub fn take_writes(&mut self, allocation: AllocationIx, entry: &mut ListEntry, dispatches: &Progress) -> bool {
        if !entry.is_open() {
            return false;
        }
        let dispatched = dispatches.count_between(entry.until(), SubmissionNo::MAX);
        let is_written = dispatched > self.take_noted(allocation);
        if dispatches.up_to() > entry.until() {
            entry.set(EntryFlags::READ, true);
            entry.extend(dispatches.up_to());
        }
        let early = dispatches.count_between(entry.until(), SubmissionNo::MAX);
        if early > 0 {
            self.noted_early.insert(allocation, early);
        }
        is_written
    }

    /// Allocations perhaps written by dispatched work in ended spans, beyond the notes, some twice; notes these writes.
    pub fn take_ended_writes(&mut self, dispatches: &Progress) -> impl Iterator<Item = AllocationIx> {
        let pins = self.expiries.iter_mut().flat_map(|expiry| expiry.pins.iter_mut().map(|pin| (expiry.last, pin)));
        pins.filter_map(|(last, pin)| pin.take_writes(last, dispatches).then_some(pin.allocation))
    }

    /// The last pin on an allocation that ends with a submission is as soon or as late to go as a later Evict said
    /// (RES-21). Returns that submission.
    pub fn hand_over(&mut self, allocation: AllocationIx, later: EvictFlags) -> Option<SubmissionNo> {
        let lazy = EvictFlags::EVICT_ONLY_IF_NECESSARY;
        self.expiries.iter_mut().rev().find_map(|expiry| {
            let pin = expiry.pins.iter_mut().rev().find(|pin| pin.allocation == allocation)?;
            pin.flags.set(lazy, later.contains(lazy));
            Some(expiry.last)
        })
    }

    /// The pins that end with a submission up to `last`: the submission and the allocation.
    pub fn up_to(&self, last: SubmissionNo) -> impl Iterator<Item = (SubmissionNo, AllocationIx)> {
        let expiries = self.expiries.iter().take_while(move |expiry| expiry.last <= last);
        expiries.flat_map(|expiry| expiry.pins.iter().map(|pin| (expiry.last, pin.allocation)))
    }

    /// Whether a pin ends with a submission up to `dispatched`.
    pub fn is_due(&self, dispatched: SubmissionNo) -> bool {
        self.expiries.front().is_some_and(|first| first.last <= dispatched)
    }

    /// The next pin with an end up to submission `dispatched`, and the submission at the end.
    pub fn pop(&mut self, dispatched: SubmissionNo) -> Option<(SubmissionNo, Pin)> {
        let first = self.expiries.front_mut().filter(|first| first.last <= dispatched)?;
        let (last, pin) = (first.last, first.pins.pop_front());
        if first.pins.is_empty() {
            self.spare = core::mem::take(&mut first.pins);
            self.expiries.pop_front();
        }
        pin.map(|pin| (last, pin))
    }
}
