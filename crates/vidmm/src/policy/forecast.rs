//! Ours: of some allocations drawn at random, the allocation goes whose next use is expected last. What is expected is learned.
//!
//! The past of an allocation falls into one of some thousand *cells*: by the time since the last use, the regularity, the number of
//! uses and the last interval, all relative to the mean interval. A cell knows how long allocations of that kind were away, as the
//! logarithm of a multiple of the mean interval. A cell that knows little follows a rule: what is used at regular intervals comes back
//! after one more, and for anything else the mean interval and the time since the last use count three and two parts.

use alloc::{vec, vec::Vec};

use super::{Candidates, Policy, Subject, slots::Slots};
use crate::units::SegmentId;

/// Parts of a submission, in which means are kept.
const PARTS: u32 = 16;

/// The number of intervals of which a mean is: later intervals weigh as much as one of so many.
const MEMORY: u8 = 20;

/// A doubling, in the unit of logarithms.
const ONE: i32 = 1 << 16;

/// Cells of allocations without an interval, two for each doubling of the time since the use.
const FIRST_CELLS: usize = 64;
/// Steps of age, and the kinds of regularity, of the number of uses, and of the last interval.
const AGES: usize = 16;
const KINDS: usize = 4;

/// The observations that a cell remembers, and the weight of the rule in observations.
const OBSERVED_MOST: i32 = 50;
const OBSERVED_BY_RULE: i32 = 4;

/// Drawn allocations from which the cells learn, for each victim.
const LEARNED: u32 = 4;

/// The aim of the draw.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Search {
    /// The longest time since the last use.
    Oldest,
    /// The longest time to the next use.
    Farthest,
}

/// The policy.
#[derive(Debug)]
pub(super) struct Forecast {
    known: Slots<Known>,
    /// The allocations in each memory, by the numbers of the segments.
    residents: Vec<Vec<u32>>,
    cells: Vec<Cell>,
    /// The time of the last use of any allocation.
    now: u32,
    draws: u64,
    sample: u32,
}

/// The past of an allocation. The past outlives an eviction.
#[derive(Clone, Debug, Default)]
struct Known {
    /// The time of the last use.
    last: u32,
    /// The mean of the intervals between uses, and the mean difference of the last intervals from the mean: in [`PARTS`] of a submission.
    mean: u32,
    deviation: u32,
    /// The last interval, in submissions.
    interval: u32,
    /// The number of intervals, up to [`MEMORY`].
    intervals: u8,
    /// The kinds of the intervals together, below [`KINDS`] cubed.
    kind: u8,
    /// The logarithm of the unit of time of the cell: of the mean interval in submissions.
    unit: i32,
    /// The cell that learns from the next use, and the time of the look; 0 is none.
    cell: u16,
    looked_at: u32,
    /// The place among the residents of the memory, from 1; 0 is none.
    position: u32,
}

/// The mean logarithm of the time to the next use, and the number of observations.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    mean: i32,
    observed: i32,
}

impl Cell {
    fn learn(&mut self, seen: i32) {
        self.observed = OBSERVED_MOST.min(self.observed + 1);
        self.mean += (seen - self.mean) / self.observed;
    }
}

impl Known {
    /// Notes an interval between two uses, in submissions.
    fn note(&mut self, interval: u32) {
        self.interval = interval;
        let interval = interval.saturating_mul(PARTS);
        if self.intervals == 0 {
            // The first is taken for the rule.
            (self.mean, self.deviation) = (interval, 0);
        } else {
            self.deviation = toward(self.deviation, interval.abs_diff(self.mean), 2);
            self.mean = toward(self.mean, interval, u32::from(self.intervals) + 1);
        }
        self.intervals = MEMORY.min(self.intervals + 1);
        self.unit = log2(self.mean) - log2(PARTS);
        let [mean, deviation, interval] =
            [self.mean, self.deviation, self.interval.saturating_mul(PARTS)].map(u64::from);
        let kind = |borders: [bool; KINDS - 1]| borders.into_iter().filter(|&is_above| is_above).count();
        let regularity = kind([deviation * 16 >= mean, deviation * 4 >= mean, deviation * 4 >= mean * 3]);
        let uses = kind([self.intervals > 1, self.intervals > 3, self.intervals > 9]);
        let last = kind([interval * 4 >= mean, interval * 10 >= mean * 9, interval * 2 >= mean * 3]);
        self.kind = ((regularity * KINDS + uses) * KINDS + last) as u8;
    }

    /// The time to the next use by the rule, in [`PARTS`] of a submission.
    fn by_rule(&self, now: u32) -> u32 {
        let idle = elapsed(self.last, now).saturating_mul(PARTS);
        if self.intervals == 0 {
            return idle.saturating_mul(2).saturating_add(PARTS);
        }
        if self.deviation > self.mean / 4 {
            return self.mean / 5 * 3 + idle / 5 * 2;
        }
        let is_overdue = idle > self.mean.saturating_add(self.deviation.saturating_mul(2));
        if is_overdue { idle } else { self.mean.saturating_sub(idle) }
    }

    /// The number of the cell.
    fn cell(&self, now: u32) -> usize {
        let age = 2 * (log2(elapsed(self.last, now)) - self.unit) / ONE;
        if self.intervals == 0 {
            return age as usize;
        }
        let age = (age + 6).clamp(0, AGES as i32 - 1) as usize;
        FIRST_CELLS + age * KINDS.pow(3) + usize::from(self.kind)
    }
}

/// The logarithm of a number to the base of 2, straight between powers of 2. That of 0 counts as that of 1.
fn log2(of: u32) -> i32 {
    let of = of.max(1);
    let whole = of.ilog2();
    whole as i32 * ONE + ((u64::from(of) << 16 >> whole) as i32 - ONE)
}

/// A number that is nearer to `to` than `from` is, by one of so many parts of the way.
fn toward(from: u32, to: u32, parts: u32) -> u32 {
    let step = from.abs_diff(to) / parts;
    if to > from { from + step } else { from - step }
}

/// The time from one moment to another, which is less than 2^31; 0 if the other came first.
fn elapsed(from: u32, to: u32) -> u32 {
    let time = to.wrapping_sub(from);
    if time < 1 << 31 { time } else { 0 }
}

/// The bits of a number, mixed (splitmix64).
pub(super) fn mix(number: u64) -> u64 {
    let mut mixed = number;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ (mixed >> 31)
}

impl Forecast {
    pub fn new(sample: u32, seed: u64) -> Self {
        let cells = vec![Cell::default(); FIRST_CELLS + AGES * KINDS * KINDS * KINDS];
        Self { known: Slots::default(), residents: Vec::new(), cells, now: 0, draws: seed, sample }
    }

    /// A number below `bound`.
    fn draw(&mut self, bound: usize) -> usize {
        self.draws = self.draws.wrapping_add(0x9E37_79B9_7F4A_7C15);
        ((u128::from(mix(self.draws)) * bound as u128) >> 64) as usize
    }

    fn residents(&mut self, memory: SegmentId) -> &mut Vec<u32> {
        let number = memory.0 as usize;
        if self.residents.len() <= number {
            self.residents.resize(number + 1, Vec::new());
        }
        &mut self.residents[number]
    }

    /// The logarithm of the time to the next use, by the cell and the rule.
    fn expected(&self, known: &Known) -> i32 {
        let Cell { mean, observed } = self.cells[known.cell(self.now)];
        let by_rule = log2(known.by_rule(self.now)) - log2(PARTS) - known.unit;
        let sum = i64::from(mean) * i64::from(observed) + i64::from(by_rule) * i64::from(OBSERVED_BY_RULE);
        (sum / i64::from(observed + OBSERVED_BY_RULE)) as i32 + known.unit
    }

    /// From now on the next use of an allocation is awaited. If it was awaited before, it takes twice the time so far, or longer.
    fn look(&mut self, slot: usize) {
        let now = self.now;
        let known = self.known.entry(slot);
        if known.looked_at > 0 {
            let seen = log2(elapsed(known.looked_at, now)) + ONE - known.unit;
            let cell = &mut self.cells[known.cell as usize];
            if cell.observed == 0 || seen > cell.mean {
                cell.learn(seen);
            }
        }
        (known.cell, known.looked_at) = (known.cell(now) as u16, now);
    }

    /// Of some drawn candidates, the candidate that is searched for; `first` if no candidate is drawn.
    pub fn search(&mut self, search: Search, candidates: &dyn Candidates, first: usize) -> usize {
        let memory = candidates.memory();
        let count = self.residents(memory).len();
        let mut best = (i32::MIN, first);
        for number in 0..self.sample {
            let drawn = self.draw(count);
            let slot = self.residents[memory.0 as usize][drawn] as usize;
            if number < LEARNED && search == Search::Farthest {
                self.look(slot);
            }
            let known = self.known.entry(slot).clone();
            let worth = match search {
                Search::Oldest => elapsed(known.last, self.now) as i32,
                Search::Farthest => self.expected(&known),
            };
            if worth > best.0 && candidates.get(slot).is_some() {
                best = (worth, slot);
            }
        }
        if search == Search::Farthest {
            self.look(best.1);
        }
        best.1
    }
}

impl Policy for Forecast {
    fn used(&mut self, subject: Subject, time: u64) {
        let time = time as u32;
        self.now = self.now.wrapping_add(elapsed(self.now, time));
        let known = self.known.entry(subject.slot);
        if known.looked_at > 0 {
            let seen = log2(elapsed(known.looked_at, time)) - known.unit;
            self.cells[known.cell as usize].learn(seen);
            known.looked_at = 0;
        }
        let interval = elapsed(known.last, time);
        // A use by the next submission is the same use, as of an allocation that stays on a list.
        if known.last > 0 && interval > 1 {
            known.note(interval);
        }
        known.last = time;
    }

    fn brought_in(&mut self, subject: Subject, memory: SegmentId) {
        let residents = self.residents(memory);
        residents.push(subject.slot as u32);
        self.known.entry(subject.slot).position = residents.len() as u32;
    }

    fn released(&mut self, subject: Subject, last_use: u64) {
        let last_use = last_use as u32;
        self.now = self.now.wrapping_add(elapsed(self.now, last_use));
        let known = self.known.entry(subject.slot);
        known.last = known.last.wrapping_add(elapsed(known.last, last_use));
    }

    fn rank(&self, slot: usize) -> u64 {
        u64::from(self.known.get(slot).last)
    }

    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        let first = candidates.first_from(0).expect("there is a candidate").slot;
        self.search(Search::Farthest, candidates, first)
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
    use super::{Cell, ONE, log2, toward};

    #[test]
    fn a_mean_goes_one_part_of_the_way_to_the_interval_that_is_seen() {
        assert_eq!([toward(100, 200, 4), toward(200, 100, 4), toward(7, 7, 20)], [125, 175, 7]);
    }

    #[test]
    fn logarithms_are_straight_between_powers() {
        assert_eq!([0, 1, 2, 3, 4, 1 << 31].map(log2), [0, 0, ONE, ONE + ONE / 2, 2 * ONE, 31 * ONE]);
    }

    #[test]
    fn a_cell_has_the_mean_of_what_was_seen() {
        let mut cell = Cell::default();
        [4 * ONE, 2 * ONE, 3 * ONE].into_iter().for_each(|seen| cell.learn(seen));
        assert_eq!((cell.mean, cell.observed), (3 * ONE, 3));
    }
}
