//! S3-FIFO (Yang, Zhang, Qiu, Yue, Rashmi: "FIFO Queues are All You Need for Cache Eviction", SOSP 2023). Newcomers pass through a small
//! queue. A newcomer with two uses there moves to the main queue; any other newcomer leaves, and is a ghost for a while. A ghost that
//! comes back goes to the main queue. The ghost queue has the capacity of the main queue, nine tenths of the memory.
//!
//! The capacity of a memory is the most bytes that were resident at once. Until the first victim, the capacity is unknown, and newcomers
//! beyond a tenth would only wait in the small queue: the first victim's decision moves such newcomers to the main queue, as the
//! authors' own program does.

use alloc::{collections::BTreeMap, vec::Vec};

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
}

/// The bytes of the queues of a memory.
#[derive(Clone, Debug, Default)]
struct Queues {
    small: u64,
    main: u64,
    /// The most bytes that were resident at once.
    capacity: u64,
    has_evicted: bool,
    /// The sizes of ghosts by the order of their departure, and the sum of the sizes.
    ghosts: BTreeMap<u64, u64>,
    ghost_bytes: u64,
}

impl Queues {
    fn small_capacity(&self) -> u64 {
        self.capacity / SMALL_SHARE
    }

    fn main_capacity(&self) -> u64 {
        self.capacity - self.small_capacity()
    }

    /// Removes a ghost. Returns whether the ghost was there.
    fn forget(&mut self, ghost: u64) -> bool {
        let removed = self.ghosts.remove(&ghost);
        self.ghost_bytes -= removed.unwrap_or(0);
        removed.is_some()
    }

    /// Adds a ghost, and removes the oldest ghosts that have no room beside the new ghost.
    fn remember(&mut self, ghost: u64, size: u64) {
        if size > self.main_capacity() {
            return;
        }
        while self.ghost_bytes + size > self.main_capacity() {
            let (_, oldest) = self.ghosts.pop_first().expect("bytes of ghosts are of ghosts");
            self.ghost_bytes -= oldest;
        }
        self.ghosts.insert(ghost, size);
        self.ghost_bytes += size;
    }
}

#[derive(Clone, Debug, Default)]
struct Known {
    /// The position in a queue, or among ghosts; 0 is none.
    position: u64,
    size: u64,
    /// The segment of the position.
    memory: u8,
    uses: u8,
    is_ghost: bool,
    /// The last use was that of a ghost.
    is_returning: bool,
}

impl S3Fifo {
    fn queues(&mut self, memory: u8) -> &mut Queues {
        let number = memory as usize;
        if self.queues.len() <= number {
            self.queues.resize(number + 1, Queues::default());
        }
        &mut self.queues[number]
    }

    /// Lowers the capacity of a memory to `capacity`, or to the resident bytes.
    pub fn resize(&mut self, memory: SegmentId, capacity: u64) {
        let queues = self.queues(memory.0);
        queues.capacity = queues.capacity.min(capacity).max(queues.small + queues.main);
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    /// Moves an allocation of the small queue behind all others of the main queue.
    fn promote(&mut self, slot: usize, candidates: &mut dyn Candidates) {
        let rank = MAIN + self.next();
        let known = self.known.entry(slot);
        (known.position, known.uses) = (rank, 0);
        let (size, memory) = (known.size, known.memory);
        candidates.set_rank(slot, rank);
        let queues = self.queues(memory);
        queues.small -= size;
        queues.main += size;
    }

    /// Any policy is about to choose a victim. Before the first victim of a memory, newcomers move to the main queue.
    pub fn begin(&mut self, candidates: &mut dyn Candidates) {
        let memory = candidates.memory().0;
        if !core::mem::replace(&mut self.queues(memory).has_evicted, true) {
            self.spill(memory, candidates);
        }
    }

    /// Moves newcomers beyond the small queue's capacity to the main queue, with their uses.
    fn spill(&mut self, memory: u8, candidates: &mut dyn Candidates) {
        let is_small = |known: &Known| !known.is_ghost && (1..MAIN).contains(&known.position) && known.memory == memory;
        let newcomers = self.known.iter().filter(|(_, known)| is_small(known));
        let mut newcomers =
            Vec::from_iter(newcomers.map(|(slot, known)| (known.position, slot, known.size, known.uses)));
        newcomers.sort_unstable();
        let (limit, mut small) = (self.queues(memory).small_capacity(), 0);
        for (_, slot, size, uses) in newcomers {
            if small >= limit {
                self.promote(slot, candidates);
                self.known.entry(slot).uses = uses;
            } else {
                small += size;
            }
        }
    }
}

impl Policy for S3Fifo {
    /// A use ends a ghost before any victim is chosen for the return.
    fn used(&mut self, subject: Subject, _time: u64) {
        let known = self.known.entry(subject.slot);
        known.uses = (known.uses + 1).min(USES_MAX);
        if core::mem::take(&mut known.is_ghost) {
            let (ghost, memory) = (core::mem::take(&mut known.position), known.memory);
            self.known.entry(subject.slot).is_returning = self.queues(memory).forget(ghost);
        }
    }

    fn brought_in(&mut self, subject: Subject, memory: SegmentId) {
        let position = self.next();
        let known = self.known.entry(subject.slot);
        let is_ghost = known.is_returning && known.memory == memory.0;
        let position = if is_ghost { MAIN + position } else { position };
        *known = Known { position, size: subject.size, memory: memory.0, ..Known::default() };
        let queues = self.queues(memory.0);
        *if is_ghost { &mut queues.main } else { &mut queues.small } += subject.size;
        queues.capacity = queues.capacity.max(queues.small + queues.main);
    }

    fn rank(&self, slot: usize) -> u64 {
        self.known.get(slot).position
    }

    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        let memory = candidates.memory().0;
        self.begin(candidates);
        let queues = self.queues(memory);
        let is_main_full = queues.main > queues.main_capacity();
        loop {
            let first = candidates.first_from(0).expect("there is a candidate");
            let of_main = candidates.first_from(MAIN);
            let candidate = match of_main {
                Some(of_main) if is_main_full || first.rank >= MAIN => of_main,
                _ => first,
            };
            let Known { position: rank, uses, .. } = self.known.get(candidate.slot);
            if rank != candidate.rank {
                // The spill gave a rank to an allocation of a higher priority, which was no candidate at that moment.
                candidates.set_rank(candidate.slot, rank);
                continue;
            }
            match (rank < MAIN, uses) {
                (true, 0..=1) | (false, 0) => return candidate.slot,
                (true, _) => self.promote(candidate.slot, candidates),
                (false, _) => {
                    let rank = MAIN + self.next();
                    let known = self.known.entry(candidate.slot);
                    (known.position, known.uses) = (rank, uses - 1);
                    candidates.set_rank(candidate.slot, rank);
                }
            }
        }
    }

    fn left(&mut self, subject: Subject, memory: SegmentId) {
        let ghost = self.next();
        let known = self.known.entry(subject.slot);
        let rank = core::mem::take(&mut known.position);
        if rank < MAIN {
            (known.position, known.is_ghost) = (ghost, true);
        }
        let queues = self.queues(memory.0);
        if rank < MAIN {
            queues.small -= subject.size;
            queues.remember(ghost, subject.size);
        } else {
            queues.main -= subject.size;
        }
    }

    fn gone(&mut self, subject: Subject) {
        let Known { position, memory, is_ghost, .. } = core::mem::take(self.known.entry(subject.slot));
        if is_ghost {
            self.queues(memory).forget(position);
        }
    }
}
