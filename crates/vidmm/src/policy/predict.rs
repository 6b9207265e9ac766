//! Ours: of a few allocations drawn at random, the one goes whose next use is expected last.
//!
//! An allocation that is used at regular intervals is expected after one more of them; any other after as long as it has been
//! idle, which is the order of least recent use.

use alloc::vec::Vec;

use super::{Candidates, Policy, Subject, slots::Slots};
use crate::units::SegmentId;

/// The policy.
#[derive(Debug)]
pub(super) struct Predict {
    known: Slots<Known>,
    /// The allocations in each memory, by the numbers of the segments.
    residents: Vec<Vec<u32>>,
    /// The time of the last use of any allocation.
    now: u32,
    draws: u64,
    sample: u32,
}

#[derive(Clone, Debug, Default)]
struct Known {
    last: u32,
    /// The last interval between two uses, and the one before; 0 is none.
    interval: u32,
    before: u32,
    /// Its place among the residents of its memory, from 1; 0 is none.
    position: u32,
}

impl Predict {
    pub fn new(sample: u32, seed: u64) -> Self {
        Self { known: Slots::default(), residents: Vec::new(), now: 0, draws: seed, sample }
    }

    /// A number below `bound` (splitmix64).
    fn draw(&mut self, bound: usize) -> usize {
        self.draws = self.draws.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.draws;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * bound as u128) >> 64) as usize
    }

    fn residents(&mut self, memory: SegmentId) -> &mut Vec<u32> {
        let number = memory.0 as usize;
        if self.residents.len() <= number {
            self.residents.resize(number + 1, Vec::new());
        }
        &mut self.residents[number]
    }

    /// The number of submissions until the next use of an allocation, as far as that can be told.
    fn time_to_next_use(&self, slot: usize) -> u32 {
        let known = self.known.get(slot);
        let idle = self.now.wrapping_sub(known.last);
        match known.interval {
            0 => idle.saturating_mul(2).saturating_add(1),
            interval if idle <= interval => interval - idle,
            _ => idle,
        }
    }
}

impl Policy for Predict {
    fn used(&mut self, subject: Subject, time: u64) {
        let time = time as u32;
        self.now = time;
        let known = self.known.entry(subject.slot);
        let interval = time.wrapping_sub(known.last);
        if interval > 0 {
            if known.last > 0 {
                (known.before, known.interval) = (known.interval, interval);
            }
            known.last = time;
        }
    }

    fn brought_in(&mut self, subject: Subject, memory: SegmentId) {
        let residents = self.residents(memory);
        residents.push(subject.slot as u32);
        let position = residents.len() as u32;
        self.known.entry(subject.slot).position = position;
    }

    fn released(&mut self, _subject: Subject, _last_use: u64) {}

    fn rank(&self, slot: usize) -> u64 {
        u64::from(self.known.get(slot).last)
    }

    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        let first = candidates.first_from(0).expect("there is a candidate").slot;
        let mut victim = (self.time_to_next_use(first), first);
        let memory = candidates.memory();
        let count = self.residents(memory).len();
        for _ in 0..self.sample {
            let drawn = self.draw(count);
            let slot = self.residents(memory)[drawn] as usize;
            let expected = self.time_to_next_use(slot);
            if expected > victim.0 && candidates.get(slot).is_some() {
                victim = (expected, slot);
            }
        }
        victim.1
    }

    fn left(&mut self, subject: Subject, memory: SegmentId) {
        let position = core::mem::take(&mut self.known.entry(subject.slot).position);
        let residents = self.residents(memory);
        residents.swap_remove(position as usize - 1);
        if let Some(&moved) = residents.get(position as usize - 1) {
            self.known.entry(moved as usize).position = position;
        }
    }

    fn gone(&mut self, subject: Subject) {
        *self.known.entry(subject.slot) = Known::default();
    }
}
