//! Greedy dual with size and frequency (Cherkasova: "Improving WWW Proxies Performance with Greedy-Dual-Size-Frequency Caching Policy",
//! 1998). The key is the age plus the uses divided by the size; the age is the key of the last victim. Small allocations stay longest,
//! so the policy is good for misses, and bad for bytes.

use super::{Candidates, Policy, RANK_MAX, Subject, slots::Slots};
use crate::units::SegmentId;

/// A use of one byte in a key: quotients of bytes are integers.
const ONE: u64 = 1 << 40;

/// The policy.
#[derive(Debug, Default)]
pub(super) struct Gdsf {
    known: Slots<Known>,
    /// The key of the last victim.
    age: u64,
}

#[derive(Clone, Debug, Default)]
struct Known {
    uses: u64,
    key: u64,
}

impl Gdsf {
    fn key(&self, uses: u64, size: u64) -> u64 {
        uses.saturating_mul(ONE / size.max(1)).saturating_add(self.age).min(RANK_MAX)
    }
}

impl Policy for Gdsf {
    fn used(&mut self, subject: Subject, _time: u64) {
        let uses = self.known.get(subject.slot).uses + 1;
        *self.known.entry(subject.slot) = Known { uses, key: self.key(uses, subject.size) };
    }

    /// The key of a newcomer follows from the victim that made room.
    fn brought_in(&mut self, subject: Subject, _memory: SegmentId) {
        let uses = self.known.get(subject.slot).uses;
        self.known.entry(subject.slot).key = self.key(uses, subject.size);
    }

    fn rank(&self, slot: usize) -> u64 {
        self.known.get(slot).key
    }

    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        let candidate = candidates.first_from(0).expect("there is a candidate");
        self.age = self.age.max(candidate.rank);
        candidate.slot
    }

    /// Uses are counted anew when the allocation comes again.
    fn left(&mut self, subject: Subject, _memory: SegmentId) {
        self.known.entry(subject.slot).uses = 0;
    }

    fn gone(&mut self, subject: Subject) {
        *self.known.entry(subject.slot) = Known::default();
    }
}
