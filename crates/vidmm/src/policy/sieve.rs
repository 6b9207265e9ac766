//! SIEVE (Zhang, Yang, Yue, Vigfusson, Rashmi: "SIEVE is Simpler than LRU", NSDI 2024). A hand moves over the order of arrival, from old to
//! new. An allocation with a use since the hand's last pass stays in place; the first allocation without a use leaves.

use alloc::vec::Vec;

use super::{Candidates, Policy, Subject, slots::Slots};
use crate::units::SegmentId;

/// The policy.
#[derive(Debug, Default)]
pub(super) struct Sieve {
    known: Slots<Known>,
    /// The position of the last arrival.
    last: u64,
    /// The position from which the hand looks on, by the numbers of the segments.
    hands: Vec<u64>,
}

#[derive(Clone, Debug, Default)]
struct Known {
    position: u64,
    is_used: bool,
}

impl Policy for Sieve {
    fn used(&mut self, subject: Subject, _time: u64) {
        self.known.entry(subject.slot).is_used = true;
    }

    /// The use that brings an allocation in does not save the allocation.
    fn brought_in(&mut self, subject: Subject, _memory: SegmentId) {
        self.last += 1;
        *self.known.entry(subject.slot) = Known { position: self.last, is_used: false };
    }

    fn released(&mut self, _subject: Subject, _last_use: u64) {}

    fn rank(&self, slot: usize) -> u64 {
        self.known.get(slot).position
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
            if !core::mem::take(&mut self.known.entry(candidate.slot).is_used) {
                return candidate.slot;
            }
        }
    }

    fn left(&mut self, _subject: Subject, _memory: SegmentId) {}

    fn gone(&mut self, subject: Subject) {
        *self.known.entry(subject.slot) = Known::default();
    }
}
