//! Ours: of a few allocations drawn at random, the one goes whose next use is expected last, or else the least recently used one.
//!
//! An allocation that is used at regular intervals is expected after one more of them. For any other both its mean interval (the
//! frequent are wanted back soonest) and the time since its last use (the recent are) are worth something: three and two parts.
//!
//! Where the past says nothing of the future, that is worse than the order of least recent use. So the two duel: each victim is noted
//! as the choice of one of them, and those that come back at once speak against it. The better one chooses, and now and then the
//! other, so that it is known how that would do.

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
    duel: Duel,
}

/// The past of an allocation. It outlives an eviction.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The time of the last use.
    last: u32,
    /// The mean of the intervals between uses, and by how much the last ones differed from it: in [`PARTS`] of a submission.
    mean: u32,
    deviation: u32,
    /// The number of intervals, up to [`MEMORY`].
    intervals: u16,
    /// Its place among the residents of its memory, from 1; 0 is none.
    position: u32,
    /// The time at which it was chosen to go, and by whom, if it was and was not used since.
    chosen_at: u32,
    chosen_by: Option<Chooser>,
}

/// One of the two that duel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Chooser {
    Prediction,
    Recency,
}

/// The choices of both, and how many came back too soon: while a resident stays that nobody uses.
#[derive(Debug, Default)]
struct Duel {
    turns: u64,
    prediction: Tally,
    recency: Tally,
    /// 256 times the mean time for which the last victims had been idle, in submissions.
    idle: u64,
}

#[derive(Debug, Default)]
struct Tally {
    choices: u32,
    mistakes: u32,
}

impl Tally {
    /// The share of mistakes as a fraction, as if four of eight choices had been mistakes before the first.
    fn mistakes(&self) -> (u64, u64) {
        (u64::from(self.mistakes) + 4, u64::from(self.choices) + 8)
    }

    fn fade(&mut self) {
        self.choices -= self.choices / 10;
        self.mistakes -= self.mistakes / 10;
    }
}

impl Duel {
    /// The one that chooses the next victim. Every 16th is the other's.
    fn next(&mut self) -> Chooser {
        self.turns += 1;
        if self.turns.is_multiple_of(256) {
            // Programs change: what was long ago counts less.
            self.prediction.fade();
            self.recency.fade();
        }
        let (predicted, recent) = (self.prediction.mistakes(), self.recency.mistakes());
        // Prediction must be clearly worse, for it gains more where it is right.
        let is_better = 2 * predicted.0 * recent.1 <= 3 * recent.0 * predicted.1;
        let chooser = if is_better != self.turns.is_multiple_of(16) { Chooser::Prediction } else { Chooser::Recency };
        self.tally(chooser).choices += 1;
        chooser
    }

    fn tally(&mut self, chooser: Chooser) -> &mut Tally {
        match chooser {
            Chooser::Prediction => &mut self.prediction,
            Chooser::Recency => &mut self.recency,
        }
    }
}

/// Parts of a submission, in which means are kept.
const PARTS: u32 = 16;

/// The number of intervals of which a mean is: later ones weigh as much as one of so many.
const MEMORY: u16 = 20;

/// The part of the mean by which the intervals of an allocation differ at most that is used at regular ones.
const REGULAR: u32 = 4;

impl Known {
    /// Notes an interval between two uses, in submissions.
    fn note(&mut self, interval: u32) {
        let interval = interval.min(u32::MAX / PARTS) * PARTS;
        if self.intervals == 0 {
            // The first is taken for the rule.
            (self.mean, self.deviation) = (interval, 0);
        } else {
            self.deviation = toward(self.deviation, interval.abs_diff(self.mean), 2);
            self.mean = toward(self.mean, interval, u32::from(self.intervals) + 1);
        }
        self.intervals = MEMORY.min(self.intervals + 1);
    }

    /// The time until the next use, as far as that can be told, in [`PARTS`] of a submission.
    fn time_to_next_use(&self, now: u32) -> u32 {
        let idle = now.wrapping_sub(self.last).saturating_mul(PARTS);
        if self.intervals == 0 {
            return idle.saturating_mul(2).saturating_add(PARTS);
        }
        if self.deviation > self.mean / REGULAR {
            return self.mean / 5 * 3 + idle / 5 * 2;
        }
        let is_overdue = idle > self.mean.saturating_add(self.deviation.saturating_mul(2));
        if is_overdue { idle } else { self.mean.saturating_sub(idle) }
    }
}

/// A number that is nearer to `to` than `from` is, by one of so many parts of the way.
fn toward(from: u32, to: u32, parts: u32) -> u32 {
    let step = from.abs_diff(to) / parts;
    if to > from { from + step } else { from - step }
}

/// The later of two times, which are less than 2^31 apart.
fn later(one: u32, other: u32) -> u32 {
    if other.wrapping_sub(one) < 1 << 31 { other } else { one }
}

impl Predict {
    pub fn new(sample: u32, seed: u64) -> Self {
        Self { known: Slots::default(), residents: Vec::new(), now: 0, draws: seed, sample, duel: Duel::default() }
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

    /// Time goes on to `time` if that is later. Returns it, in the bits that are kept.
    fn advance(&mut self, time: u64) -> u32 {
        self.now = later(self.now, time as u32);
        time as u32
    }

    /// Of the first candidate and some drawn ones, the one that is expected last.
    fn expected_last(&mut self, candidates: &dyn Candidates, first: usize) -> usize {
        let expected = |known: &Slots<Known>, slot, now| known.get(slot).time_to_next_use(now);
        let mut last = (expected(&self.known, first, self.now), first);
        let memory = candidates.memory();
        let count = self.residents(memory).len();
        for _ in 0..self.sample {
            let drawn = self.draw(count);
            let slot = self.residents(memory)[drawn] as usize;
            let expected = expected(&self.known, slot, self.now);
            if expected > last.0 && candidates.get(slot).is_some() {
                last = (expected, slot);
            }
        }
        last.1
    }
}

impl Policy for Predict {
    fn used(&mut self, subject: Subject, time: u64) {
        let time = self.advance(time);
        let known = self.known.entry(subject.slot);
        if let Some(chooser) = known.chosen_by.take() {
            let away = u64::from(time.wrapping_sub(known.chosen_at));
            self.duel.tally(chooser).mistakes += u32::from(away < self.duel.idle / 256);
        }
        let interval = time.wrapping_sub(known.last);
        // A use by the next submission is the same use, as of an allocation that stays on a list.
        if known.last > 0 && interval > 1 {
            known.note(interval);
        }
        known.last = time;
    }

    fn brought_in(&mut self, subject: Subject, memory: SegmentId) {
        let residents = self.residents(memory);
        residents.push(subject.slot as u32);
        let position = residents.len() as u32;
        self.known.entry(subject.slot).position = position;
    }

    fn released(&mut self, subject: Subject, last_use: u64) {
        let last_use = self.advance(last_use);
        let known = self.known.entry(subject.slot);
        known.last = later(known.last, last_use);
    }

    fn rank(&self, slot: usize) -> u64 {
        u64::from(self.known.get(slot).last)
    }

    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        let first = candidates.first_from(0).expect("there is a candidate").slot;
        let chooser = self.duel.next();
        let victim = match chooser {
            Chooser::Prediction => self.expected_last(candidates, first),
            Chooser::Recency => first,
        };
        let known = self.known.entry(victim);
        (known.chosen_at, known.chosen_by) = (self.now, Some(chooser));
        self.duel.idle = self.duel.idle - self.duel.idle / 256 + u64::from(self.now.wrapping_sub(known.last));
        victim
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

#[cfg(test)]
mod tests {
    use super::toward;

    #[test]
    fn a_mean_goes_one_part_of_the_way_to_the_interval_that_is_seen() {
        assert_eq!([toward(100, 200, 4), toward(200, 100, 4), toward(7, 7, 20)], [125, 175, 7]);
    }
}
