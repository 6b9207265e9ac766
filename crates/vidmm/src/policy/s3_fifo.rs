//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO Queues are All You Need for Cache Eviction", SOSP 2023): newcomers pass through
//! a small queue, and only those that are used there again come into the main one.

use alloc::vec::Vec;

use super::{Candidates, Policy, Subject, slots::Slots};
use crate::units::SegmentId;

/// Ranks of the main queue begin here; those of the small one lie below.
const MAIN: u64 = 1 << 55;

/// The small queue has at most a tenth of the bytes.
const SMALL_SHARE: u64 = 10;

/// Uses are counted up to here.
const USES_MAX: u8 = 3;

/// The policy.
#[derive(Debug, Default)]
pub(super) struct S3Fifo {
    known: Slots<Known>,
    /// By the numbers of the segments.
    queues: Vec<Queues>,
    /// The position of the last arrival in any queue.
    last: u64,
    /// Bytes of all that the small queues have pushed out so far.
    ghost_bytes: u64,
}

/// The bytes of the queues of a memory.
#[derive(Clone, Debug, Default)]
struct Queues {
    small: u64,
    main: u64,
}

#[derive(Clone, Debug, Default)]
struct Known {
    rank: u64,
    uses: u8,
    /// Where the bytes of ghosts were when the small queue pushed it out; 0 if it did not.
    ghost: u64,
}

impl S3Fifo {
    fn queues(&mut self, memory: SegmentId) -> &mut Queues {
        let number = memory.0 as usize;
        if self.queues.len() <= number {
            self.queues.resize(number + 1, Queues::default());
        }
        &mut self.queues[number]
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }
}

impl Policy for S3Fifo {
    fn used(&mut self, subject: Subject, _time: u64) {
        let known = self.known.entry(subject.slot);
        known.uses = (known.uses + 1).min(USES_MAX);
    }

    /// An allocation that the small queue pushed out a short while ago belongs to the main one.
    fn brought_in(&mut self, subject: Subject, memory: SegmentId) {
        let position = self.next();
        let ghost_bytes = self.ghost_bytes;
        let main = self.queues(memory).main;
        let known = self.known.entry(subject.slot);
        let is_ghost = known.ghost > 0 && ghost_bytes - known.ghost <= main;
        let rank = if is_ghost { MAIN + position } else { position };
        *known = Known { rank, uses: 0, ghost: 0 };
        let queues = self.queues(memory);
        *if is_ghost { &mut queues.main } else { &mut queues.small } += subject.size;
    }

    fn released(&mut self, _subject: Subject, _last_use: u64) {}

    fn rank(&self, slot: usize) -> u64 {
        self.known.get(slot).rank
    }

    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        loop {
            let memory = candidates.memory();
            let first = candidates.first_from(0).expect("there is a candidate");
            let of_main = candidates.first_from(MAIN);
            let &mut Queues { small, main } = self.queues(memory);
            let is_small_full = small >= (small + main) / SMALL_SHARE;
            let candidate = match of_main {
                Some(of_main) if first.rank >= MAIN || !is_small_full => of_main,
                _ => first,
            };
            let position = self.next();
            let is_of_small = candidate.rank < MAIN;
            let known = self.known.entry(candidate.slot);
            match (is_of_small, known.uses) {
                (true, 0..=1) | (false, 0) => return candidate.slot,
                (true, _) => known.uses = 0,
                (false, _) => known.uses -= 1,
            }
            known.rank = MAIN + position;
            let size = candidate.size;
            candidates.set_rank(candidate.slot, MAIN + position);
            if is_of_small {
                let queues = self.queues(memory);
                queues.small -= size;
                queues.main += size;
            }
        }
    }

    fn left(&mut self, subject: Subject, memory: SegmentId) {
        let rank = self.known.get(subject.slot).rank;
        let queues = self.queues(memory);
        if rank >= MAIN {
            queues.main -= subject.size;
            return;
        }
        queues.small -= subject.size;
        self.ghost_bytes += subject.size;
        self.known.entry(subject.slot).ghost = self.ghost_bytes;
    }

    fn gone(&mut self, subject: Subject) {
        *self.known.entry(subject.slot) = Known::default();
    }
}
