//! Least frequently used with dynamic aging (Arlitt, Friedrich, Jin: "Performance Evaluation of Web Proxy Cache Replacement
//! Policies", 1999). The age is the key of the last victim. A newcomer's key is the age plus one, and each further use adds the age of
//! the moment, so that a key grows by uses, and popularity of the past goes in the end. libCacheSim counts so too.

use super::{Candidates, Policy, Subject, slots::Slots};
use crate::units::SegmentId;

/// Keys stay below; a rank is below 2^56.
const KEY_MAX: u64 = 1 << 55;

/// The bits that all keys lose once the age comes near the largest key.
const LOST_BITS: u32 = 32;

/// The policy.
#[derive(Debug, Default)]
pub(super) struct LfuDa {
    known: Slots<Known>,
    /// The key of the last victim.
    age: u64,
}

#[derive(Clone, Debug, Default)]
struct Known {
    key: u64,
}

impl LfuDa {
    /// Makes all keys small again. Allocations that are no candidates have the new rank once they are.
    fn renew(&mut self, candidates: &mut dyn Candidates) {
        self.age >>= LOST_BITS;
        self.known.for_each(|slot, known| {
            known.key >>= LOST_BITS;
            candidates.set_rank(slot, known.key);
        });
    }
}

impl Policy for LfuDa {
    fn used(&mut self, subject: Subject, _time: u64) {
        let known = self.known.entry(subject.slot);
        known.key = (known.key + self.age).min(KEY_MAX);
    }

    /// The key of a newcomer follows from the victim that made room for it.
    fn brought_in(&mut self, subject: Subject, _memory: SegmentId) {
        self.known.entry(subject.slot).key = self.age + 1;
    }

    fn rank(&self, slot: usize) -> u64 {
        self.known.get(slot).key
    }

    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        let candidate = candidates.first_from(0).expect("there is a candidate");
        self.age = self.age.max(candidate.rank);
        if self.age >= KEY_MAX / 2 {
            self.renew(candidates);
        }
        candidate.slot
    }

    fn gone(&mut self, subject: Subject) {
        *self.known.entry(subject.slot) = Known::default();
    }
}
