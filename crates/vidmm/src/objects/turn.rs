//! Turns: which devices run while the lists of all do not fit together (RES-71, U-38, U-39).

use alloc::{collections::VecDeque, vec::Vec};

use crate::{
    id::{DeviceIx, PlanNo, SubmissionNo},
    units::Nanoseconds,
};

const MILLISECOND: Nanoseconds = 1_000_000;

/// The time that a busy device runs at least before it yields to another (U-39).
pub(crate) const SLICE_MIN: Nanoseconds = 100 * MILLISECOND;

/// Its slice is also so many times as long as its paging took: then most of the time is useful work.
pub(crate) const SLICE_PER_PAGING: u64 = 4;

/// The wait after which a device goes first, and others yield to it even within their budget.
pub(crate) const STARVATION: Nanoseconds = 1000 * MILLISECOND;

/// A process with nothing in flight is awake for so long at least (D36).
pub(crate) const ASLEEP_MIN: Nanoseconds = 250 * MILLISECOND;

/// It is awake for so many times its longest gap.
const ASLEEP_PER_GAP: u64 = 4;

/// The time for which a gap is remembered, from its end on.
const GAP_MEMORY: Nanoseconds = 2000 * MILLISECOND;

/// The time that a device which is asked to trim has for it before it yields.
pub(crate) const TRIM_GRACE: Nanoseconds = 10 * MILLISECOND;

/// The time without any yield after which an idle device that was pushed out comes back by itself; and the time without work after which
/// a gap between two packets is a pause.
pub(crate) const CALM: Nanoseconds = 100 * MILLISECOND;

/// An allocation that was demoted stays away for so long. A device that is never still drains as often, to bring one home.
pub(crate) const RETURN_MIN: Nanoseconds = 1000 * MILLISECOND;

/// A process that has slept for so long gives its memory away, unless the adapter has another setting.
pub(crate) const EXCHANGE_AFTER: Nanoseconds = 10_000 * MILLISECOND;

/// The longest pause between two exchanges of a device: an hour.
pub(crate) const EXCHANGE_MAX: Nanoseconds = 3_600_000 * MILLISECOND;

/// The doublings of the pause between two exchanges, at the most.
pub(crate) const EXCHANGES_MAX: u32 = 16;

/// The bytes that come home in a gap between two packets, if one allocation is no more: 8 MiB take less than a millisecond on a bus of
/// 12 GB/s.
pub(crate) const HOME_BATCH: u64 = 8 << 20;

/// Whether a device's work runs (RES-71).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Activity {
    /// It is promised the memory for its list.
    #[default]
    Active,
    /// None of its work is dispatched and no request granted any more. Packets in flight go on, and pinned allocations
    /// stay in place.
    Yielding,
    /// Nothing is in flight: its list is not required.
    Suspended,
}

/// A device's turn.
#[derive(Debug, Default)]
pub(crate) struct Turn {
    pub activity: Activity,
    /// Whether it yields for others, and is suspended as soon as nothing of it is in flight. Otherwise it yields
    /// because its own list has grown, and is suspended only if that makes room for the device before it.
    pub gives_way: bool,
    /// Whether it waits for all memory, because it finds no place beside the others' allocations, without GPU virtual
    /// addresses. If it has reference lists, devices with device lists then wait until its slice is over or none of its
    /// work is left.
    pub takes_all: bool,
    /// Whether a call has stopped it; it gets no turn before that ends.
    pub is_halted: bool,
    /// The time since which it has had work and no turn.
    pub waits_since: Option<Nanoseconds>,
    /// The device behind which it waits, if that was told: one that does not yield to it.
    pub behind: Option<DeviceIx>,
    /// The time at which its list was brought back, and the plans for that which have not retired.
    pub resumed_at: Nanoseconds,
    /// The last submission that was dispatched before that.
    pub resumed_after: SubmissionNo,
    pub plans: Vec<PlanNo>,
    /// The paging engine's fence that completes these plans; none until they are built.
    pub unbuilt: bool,
    pub paging_fence: u64,
    /// The time at which its list was there, and the time for which it may run from then on.
    pub began_at: Nanoseconds,
    pub slice: Nanoseconds,
    /// The time at which it last submitted or ended work.
    pub last_busy: Nanoseconds,
    /// Whether it yields only until nothing of it is in flight, so that one allocation can come home.
    pub drains_for_home: bool,
    /// The time since which there has been room for one that is away while the device was not still, and the time at which one came.
    pub owes_since: Option<Nanoseconds>,
    pub paid_at: Nanoseconds,
    /// The bytes that came home behind so many dispatches, and the last plan for that.
    pub paid_in_gap: (u64, u64),
    pub home_plan: PlanNo,
    /// The time until which an exchange keeps the device from coming back by itself.
    pub out_until: Nanoseconds,
    /// Whether it was suspended for an exchange, and had no turn since.
    pub is_exchanged: bool,
    /// The number of its exchanges, up to [`EXCHANGES_MAX`], and the earliest time of the next.
    pub given: u32,
    pub gives_at: Nanoseconds,
}

impl Turn {
    /// The first turn of a device that is created at `now`.
    pub fn new(now: Nanoseconds) -> Self {
        Self { last_busy: now, began_at: now, slice: SLICE_MIN, ..Self::default() }
    }

    /// The time at which it has waited for so long that it goes first; of a device that does not wait, if it began to now (U-38).
    pub fn starves_at(&self, now: Nanoseconds) -> Nanoseconds {
        self.waits_since.unwrap_or(now).saturating_add(STARVATION)
    }

    /// Work is submitted, or has ended.
    pub fn note_busy(&mut self, now: Nanoseconds) {
        self.last_busy = now;
    }

    /// Whether the device waits for all memory.
    pub fn set_takes_all(&mut self, takes_all: bool) {
        self.takes_all = takes_all;
    }

    /// The paging fence that work waits for; none while that is not known.
    pub fn fence(&self) -> Option<u64> {
        (!self.unbuilt).then_some(self.paging_fence)
    }
}

/// The times at which nothing of a process is in flight (D36).
#[derive(Debug, Default)]
pub(crate) struct Stillness {
    /// Its packets in flight.
    in_flight: u32,
    /// The end of its last packet, or the time at which it was created.
    since: Nanoseconds,
    /// Lengths and ends of the gaps between its packets that keep it awake for longer than the least; longer ones first, as a later
    /// one outweighs all that are shorter.
    gaps: VecDeque<(Nanoseconds, Nanoseconds)>,
}

impl Stillness {
    /// A process that is created at `now`.
    pub fn new(now: Nanoseconds) -> Self {
        Self { since: now, ..Self::default() }
    }

    /// A packet is dispatched: a gap ends with the first.
    #[inline]
    pub fn begin(&mut self, now: Nanoseconds) {
        let gap = now - self.since;
        if self.in_flight == 0 && gap > ASLEEP_MIN / ASLEEP_PER_GAP {
            while self.gaps.back().is_some_and(|&(length, _)| length <= gap) {
                self.gaps.pop_back();
            }
            while self.gaps.front().is_some_and(|&(_, end)| end.saturating_add(GAP_MEMORY) <= now) {
                self.gaps.pop_front();
            }
            self.gaps.push_back((gap, now));
        }
        self.in_flight += 1;
    }

    /// A packet has left its engine.
    #[inline]
    pub fn end(&mut self, now: Nanoseconds) {
        self.in_flight -= 1;
        self.since = now;
    }

    /// The time at which it is asleep and has been still for so long, if nothing of it is dispatched before.
    pub fn slept_at(&self, time: Nanoseconds) -> Option<Nanoseconds> {
        self.asleep_at().map(|at| at.max(self.since.saturating_add(time)))
    }

    /// A request of it is granted: a program that loads is awake.
    pub fn touch(&mut self, now: Nanoseconds) {
        self.begin(now);
        self.end(now);
    }

    /// The time from which on the process is asleep, if nothing of it is dispatched before: nothing has been in flight for the longest
    /// of 250 ms and four times its longest gap of the last 2 s. None while anything is in flight.
    pub fn asleep_at(&self) -> Option<Nanoseconds> {
        if self.in_flight > 0 {
            return None;
        }
        let mut forgotten = 0;
        for &(length, end) in &self.gaps {
            let at = self.since.saturating_add(length.saturating_mul(ASLEEP_PER_GAP)).max(forgotten);
            forgotten = end.saturating_add(GAP_MEMORY);
            if at < forgotten {
                return Some(at);
            }
        }
        Some(self.since.saturating_add(ASLEEP_MIN).max(forgotten))
    }
}
