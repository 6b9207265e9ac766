//! Least frequently used with dynamic aging (Arlitt, Friedrich, Jin: "Performance Evaluation of Web Proxy Cache Replacement
//! Policies", 1999): the key is the number of uses plus the key of the last victim, so that what was popular once goes in the end.

use super::{Candidates, Policy, Subject, slots::Slots};
use crate::units::SegmentId;

/// The policy.
#[derive(Debug, Default)]
pub(super) struct LfuDa {
    known: Slots<Known>,
    /// The key of the last victim.
    age: u64,
}

#[derive(Clone, Debug, Default)]
struct Known {
    uses: u64,
    key: u64,
}

impl Policy for LfuDa {
    fn used(&mut self, subject: Subject, _time: u64) {
        let age = self.age;
        let known = self.known.entry(subject.slot);
        known.uses += 1;
        known.key = known.uses + age;
    }

    /// The key of a newcomer follows from the victim that made room for it.
    fn brought_in(&mut self, subject: Subject, _memory: SegmentId) {
        let age = self.age;
        let known = self.known.entry(subject.slot);
        known.key = known.uses + age;
    }

    fn released(&mut self, _subject: Subject, _last_use: u64) {}

    fn rank(&self, slot: usize) -> u64 {
        self.known.get(slot).key
    }

    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        let candidate = candidates.first_from(0).expect("there is a candidate");
        self.age = self.age.max(candidate.rank);
        candidate.slot
    }

    /// Uses are counted anew when it comes again.
    fn left(&mut self, subject: Subject, _memory: SegmentId) {
        self.known.entry(subject.slot).uses = 0;
    }

    fn gone(&mut self, subject: Subject) {
        *self.known.entry(subject.slot) = Known::default();
    }
}
