//! Second chance (Corbato, 1968): a queue in the order of arrival, in which a use since the last look saves an allocation once.

use super::{Candidates, Policy, Subject, slots::Slots};
use crate::units::SegmentId;

/// The policy.
#[derive(Debug, Default)]
pub(super) struct Clock {
    known: Slots<Known>,
    /// The position of the last arrival.
    last: u64,
}

#[derive(Clone, Debug, Default)]
struct Known {
    position: u64,
    is_used: bool,
}

impl Policy for Clock {
    fn used(&mut self, subject: Subject, _time: u64) {
        self.known.entry(subject.slot).is_used = true;
    }

    /// The use that brings it in is none that saves it.
    fn brought_in(&mut self, subject: Subject, _memory: SegmentId) {
        self.last += 1;
        *self.known.entry(subject.slot) = Known { position: self.last, is_used: false };
    }

    fn released(&mut self, _subject: Subject, _last_use: u64) {}

    fn rank(&self, slot: usize) -> u64 {
        self.known.get(slot).position
    }

    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        loop {
            let candidate = candidates.first_from(0).expect("there is a candidate");
            let known = self.known.entry(candidate.slot);
            if !core::mem::take(&mut known.is_used) {
                return candidate.slot;
            }
            self.last += 1;
            known.position = self.last;
            candidates.set_rank(candidate.slot, self.last);
        }
    }

    fn left(&mut self, _subject: Subject, _memory: SegmentId) {}

    fn gone(&mut self, subject: Subject) {
        *self.known.entry(subject.slot) = Known::default();
    }
}
