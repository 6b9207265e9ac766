//! LRU-2 (O'Neil, O'Neil, Weikum: "The LRU-K Page Replacement Algorithm for Database Disk Buffering", SIGMOD 1993). The victim is the
//! allocation whose last use but one is oldest. Allocations with a single use go first, in the order of that use. An eviction forgets
//! the uses, as in libCacheSim; the paper remembers the uses for a time.

use super::{Policy, Subject, slots::Slots};
use crate::units::SegmentId;

/// Ranks of allocations with two uses begin here.
const TWICE: u64 = 1 << 55;

/// The policy.
#[derive(Debug, Default)]
pub(super) struct Lru2 {
    known: Slots<Known>,
    /// The number of uses so far.
    last: u64,
}

/// The numbers of the last use and of the use before; 0 is none.
#[derive(Clone, Debug, Default)]
struct Known {
    last: u64,
    before: u64,
}

impl Policy for Lru2 {
    fn used(&mut self, subject: Subject, _time: u64) {
        self.last += 1;
        let known = self.known.entry(subject.slot);
        known.before = core::mem::replace(&mut known.last, self.last);
    }

    fn rank(&self, slot: usize) -> u64 {
        match self.known.get(slot) {
            Known { last, before: 0 } => last,
            Known { before, .. } => TWICE + before,
        }
    }

    fn left(&mut self, subject: Subject, _memory: SegmentId) {
        *self.known.entry(subject.slot) = Known::default();
    }

    fn gone(&mut self, subject: Subject) {
        *self.known.entry(subject.slot) = Known::default();
    }
}
