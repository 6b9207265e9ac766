//! SIEVE (Zhang, Yang, Yue, Vigfusson, Rashmi: "SIEVE is Simpler than LRU", NSDI 2024). A hand moves over the order of arrival, from old to
//! new. An allocation with a use since the hand's last pass stays in place; the first allocation without a use leaves.

use alloc::vec::Vec;

use super::{Candidates, Policy, Subject, arrivals::Arrivals};
use crate::units::SegmentId;

/// The policy.
#[derive(Debug, Default)]
pub(super) struct Sieve {
    arrivals: Arrivals,
    /// The position from which the hand looks on, by the numbers of the segments.
    hands: Vec<u64>,
}

impl Policy for Sieve {
    fn used(&mut self, subject: Subject, _time: u64) {
        self.arrivals.note_use(subject);
    }

    fn brought_in(&mut self, subject: Subject, _memory: SegmentId) {
        self.arrivals.arrive(subject);
    }

    fn rank(&self, slot: usize) -> u64 {
        self.arrivals.position(slot)
    }

    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        let memory = candidates.memory().0 as usize;
        if self.hands.len() <= memory {
            self.hands.resize(memory + 1, 0);
        }
        loop {
            let hand = self.hands[memory];
            let candidate = candidates.first_from(hand).or_else(|| candidates.first_from(0));
            let candidate = candidate.expect("there is a candidate");
            // Behind the newest, the hand begins with the oldest.
            let next = candidate.rank + 1;
            self.hands[memory] = if candidates.first_from(next).is_some() { next } else { 0 };
            if !self.arrivals.take_use(candidate.slot) {
                return candidate.slot;
            }
        }
    }

    fn gone(&mut self, subject: Subject) {
        self.arrivals.forget(subject);
    }
}
