//! Ours: three experts. The expert with the fewest bytes brought in of late decides.
//!
//! The experts are recency, S3-FIFO and a forecast ([`Forecast`]). Each is right for some programs and wrong for others. For each
//! memory, each expert has a shadow ([`Shadow`]): a memory that only counts, in which all decisions are the expert's. Shadows hold all
//! allocations of a memory, or a sample of them with as large a share of the memory.

use alloc::vec::Vec;

use super::{
    Candidates, Policy, Subject,
    forecast::{Forecast, Search, mix},
    s3_fifo::S3Fifo,
    shadow::{Expert, Shadow},
    slots::Slots,
};
use crate::units::SegmentId;

/// The allocations in a sample, at most.
const SAMPLE_MOST: u32 = 1 << 16;

/// Missed bytes count half after the program has used so many times the memory.
const HALF_LIFE: u64 = 8;

/// The number of experts.
pub(super) const EXPERTS: usize = 3;

/// The policy.
#[derive(Debug)]
pub(super) struct Predict {
    s3_fifo: S3Fifo,
    forecast: Forecast,
    /// By the numbers of the segments.
    contests: Vec<Contest>,
    /// The memory of each allocation, from the first arrival on.
    homes: Slots<Option<SegmentId>>,
    /// The time of the last use.
    now: u64,
    sample: u32,
    seed: u64,
    /// So many of the experts contend.
    experts: usize,
}

/// The experts for a memory.
#[derive(Debug)]
struct Contest {
    /// The forecast comes first: it decides until another expert has done better.
    shadows: Vec<Shadow>,
    /// The index of the expert that decides.
    best: usize,
    /// Bytes that are resident, and the most so far.
    used: u64,
    capacity: u64,
    /// A victim was chosen already, so the capacity is known.
    is_full: bool,
    /// The numbers in the shadows of the allocations in the sample, from 1; 0 for an allocation outside.
    members: Slots<u32>,
    /// The number of members, and the numbers of former members.
    count: u32,
    free: Vec<u32>,
    /// The sample has one of so many allocations, as a power of 2.
    halvings: u32,
    /// Bytes by which another expert must be better, after changes of late.
    inertia: u64,
    /// Bytes used since missed bytes were halved.
    bytes_used: u64,
}

impl Contest {
    fn new(sample: u32, seed: u64, experts: usize) -> Self {
        let all: [_; EXPERTS] =
            [Expert::Forecast(Forecast::new(sample, seed)), Expert::S3Fifo(S3Fifo::default()), Expert::Recency];
        let shadows = all.into_iter().take(experts).map(Shadow::new).collect();
        let (members, free) = (Slots::default(), Vec::new());
        Self {
            shadows,
            best: 0,
            inertia: 0,
            used: 0,
            capacity: 0,
            is_full: false,
            members,
            count: 0,
            free,
            halvings: 0,
            bytes_used: 0,
        }
    }

    fn is_in_sample(slot: usize, halvings: u32) -> bool {
        mix(slot as u64).trailing_zeros() >= halvings
    }

    /// The bytes of a shadow's memory.
    fn share(&self) -> u64 {
        if self.is_full { self.capacity >> self.halvings } else { u64::MAX }
    }

    /// A use.
    fn access(&mut self, subject: Subject, time: u64) {
        if !Self::is_in_sample(subject.slot, self.halvings) {
            return;
        }
        let member = self.members.entry(subject.slot);
        if *member == 0 {
            self.count += 1;
            // As many numbers were given as there are members and former members.
            *member = self.free.pop().unwrap_or(self.count);
        }
        let (member, share) = (*member - 1, self.share());
        self.shadows.iter_mut().for_each(|shadow| shadow.access(member, subject, time, share));
        if self.count > SAMPLE_MOST {
            self.halve();
        }
        if !self.is_full {
            return;
        }
        self.bytes_used += subject.size;
        if self.bytes_used / HALF_LIFE > self.share() {
            self.bytes_used = 0;
            self.shadows.iter_mut().for_each(|shadow| shadow.missed /= 2);
            self.inertia /= 2;
        }
        let missed = |at: usize| self.shadows[at].missed;
        let least = (0..self.shadows.len()).min_by_key(|&at| missed(at)).expect("there are experts");
        // Another expert must be better by a hundredth, and by more after each change, so that two equals do not take turns.
        if missed(least) + missed(least) / 100 + self.inertia < missed(self.best) {
            self.best = least;
            self.inertia = (2 * self.inertia).max(self.share() / 64);
        }
    }

    /// Makes the sample, and the shadows' memories, half as large.
    fn halve(&mut self) {
        self.halvings += 1;
        let is_out = |&(slot, &member): &(usize, &u32)| member > 0 && !Self::is_in_sample(slot, self.halvings);
        let slots = Vec::from_iter(self.members.iter().filter(is_out).map(|(slot, _)| slot));
        slots.into_iter().for_each(|slot| self.forget(slot));
        let share = self.share();
        for shadow in &mut self.shadows {
            shadow.resize(share);
            shadow.missed /= 2;
        }
    }

    /// An allocation is no more, or is not in the sample any more.
    fn forget(&mut self, slot: usize) {
        let member = core::mem::take(self.members.entry(slot));
        if member > 0 {
            self.shadows.iter_mut().for_each(|shadow| shadow.forget(member - 1));
            self.free.push(member);
            self.count -= 1;
        }
    }
}

impl Predict {
    pub fn new(sample: u32, seed: u64, experts: usize) -> Self {
        let (s3_fifo, forecast) = (S3Fifo::default(), Forecast::new(sample, seed));
        Self { s3_fifo, forecast, contests: Vec::new(), homes: Slots::default(), now: 0, sample, seed, experts }
    }

    fn contest(&mut self, memory: SegmentId) -> &mut Contest {
        let number = memory.0 as usize;
        while self.contests.len() <= number {
            self.contests.push(Contest::new(self.sample, self.seed, self.experts));
        }
        &mut self.contests[number]
    }

    /// The contest of the memory of an allocation.
    fn home(&mut self, slot: usize) -> Option<&mut Contest> {
        let home = self.homes.get(slot)?;
        Some(self.contest(home))
    }
}

impl Policy for Predict {
    fn used(&mut self, subject: Subject, time: u64) {
        self.now = self.now.max(time);
        self.s3_fifo.used(subject, time);
        self.forecast.used(subject, time);
        if let Some(contest) = self.home(subject.slot) {
            contest.access(subject, time);
        }
    }

    fn brought_in(&mut self, subject: Subject, memory: SegmentId) {
        self.s3_fifo.brought_in(subject, memory);
        self.forecast.brought_in(subject, memory);
        let now = self.now;
        if self.homes.get(subject.slot) != Some(memory) {
            if let Some(contest) = self.home(subject.slot) {
                contest.forget(subject.slot);
            }
            *self.homes.entry(subject.slot) = Some(memory);
            self.contest(memory).access(subject, now);
        }
        let contest = self.contest(memory);
        contest.used += subject.size;
        contest.capacity = contest.capacity.max(contest.used);
    }

    fn released(&mut self, subject: Subject, last_use: u64) {
        self.s3_fifo.released(subject, last_use);
        self.forecast.released(subject, last_use);
        if let Some(contest) = self.home(subject.slot)
            && let member @ 1.. = contest.members.get(subject.slot)
        {
            contest.shadows.iter_mut().for_each(|shadow| shadow.release(member - 1, last_use));
        }
    }

    /// Ranks are those of S3-FIFO; the other experts draw.
    fn rank(&self, slot: usize) -> u64 {
        self.s3_fifo.rank(slot)
    }

    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        self.s3_fifo.begin(candidates);
        let contest = self.contest(candidates.memory());
        contest.is_full = true;
        let shadow = &mut contest.shadows[contest.best];
        if let Some(overdue) = shadow.overdue(candidates) {
            return overdue;
        }
        let search = match shadow.expert {
            Expert::S3Fifo(_) => return self.s3_fifo.victim(candidates),
            Expert::Recency => Search::Oldest,
            Expert::Forecast(_) => Search::Farthest,
        };
        let first = candidates.first_from(0).expect("there is a candidate").slot;
        self.forecast.search(search, candidates, first)
    }

    fn left(&mut self, subject: Subject, memory: SegmentId) {
        self.s3_fifo.left(subject, memory);
        self.forecast.left(subject, memory);
        self.contest(memory).used -= subject.size;
    }

    fn gone(&mut self, subject: Subject) {
        self.s3_fifo.gone(subject);
        self.forecast.gone(subject);
        if let Some(contest) = self.home(subject.slot) {
            contest.forget(subject.slot);
        }
        *self.homes.entry(subject.slot) = None;
    }
}
