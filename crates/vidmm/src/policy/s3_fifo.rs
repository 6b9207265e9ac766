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
    /// The slots and sizes of ghosts by the order of their departure, and the sum of the sizes.
    ghosts: BTreeMap<u64, (usize, u64)>,
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
        self.ghost_bytes -= removed.map_or(0, |(_, size)| size);
        removed.is_some()
    }

    /// Adds a ghost, and removes the oldest ghosts that have no room beside the new ghost.
    fn remember(&mut self, ghost: u64, slot: usize, size: u64) {
        if size > self.main_capacity() {
            return;
        }
        while self.ghost_bytes + size > self.main_capacity() {
            let (_, (_, oldest)) = self.ghosts.pop_first().expect("bytes of ghosts are of ghosts");
            self.ghost_bytes -= oldest;
        }
        self.ghosts.insert(ghost, (slot, size));
        self.ghost_bytes += size;
    }
}

#[derive(Clone, Debug, Default)]
struct Known {
    /// The position in a queue; 0 if the allocation is in no memory.
    rank: u64,
    size: u64,
    /// The position among ghosts; 0 if there was none.
    ghost: u64,
    /// The segment of the rank or of the ghost.
    memory: u8,
    uses: u8,
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
        (known.rank, known.uses) = (rank, 0);
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
        let is_small = |known: &Known| (1..MAIN).contains(&known.rank) && known.memory == memory;
        let newcomers = self.known.iter().filter(|(_, known)| is_small(known));
        let mut newcomers = Vec::from_iter(newcomers.map(|(slot, known)| (known.rank, slot, known.size, known.uses)));
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
        let (ghost, memory) = (core::mem::take(&mut known.ghost), known.memory);
        if ghost > 0 {
            self.known.entry(subject.slot).is_returning = self.queues(memory).forget(ghost);
        }
    }

    fn brought_in(&mut self, subject: Subject, memory: SegmentId) {
        let position = self.next();
        let known = self.known.entry(subject.slot);
        let is_ghost = known.is_returning && known.memory == memory.0;
        let rank = if is_ghost { MAIN + position } else { position };
        *known = Known { rank, size: subject.size, memory: memory.0, ..Known::default() };
        let queues = self.queues(memory.0);
        *if is_ghost { &mut queues.main } else { &mut queues.small } += subject.size;
        queues.capacity = queues.capacity.max(queues.small + queues.main);
    }

    fn rank(&self, slot: usize) -> u64 {
        self.known.get(slot).rank
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
            let Known { rank, uses, .. } = self.known.get(candidate.slot);
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
                    (known.rank, known.uses) = (rank, uses - 1);
                    candidates.set_rank(candidate.slot, rank);
                }
            }
        }
    }

    fn left(&mut self, subject: Subject, memory: SegmentId) {
        let ghost = self.next();
        let known = self.known.entry(subject.slot);
        let rank = core::mem::take(&mut known.rank);
        if rank < MAIN {
            known.ghost = ghost;
        }
        let queues = self.queues(memory.0);
        if rank < MAIN {
            queues.small -= subject.size;
            queues.remember(ghost, subject.slot, subject.size);
        } else {
            queues.main -= subject.size;
        }
    }

    fn gone(&mut self, subject: Subject) {
        let Known { ghost, memory, .. } = core::mem::take(self.known.entry(subject.slot));
        if ghost > 0 {
            self.queues(memory).forget(ghost);
        }
    }
}
