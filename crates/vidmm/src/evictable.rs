//! Who may be evicted, in the order in which they go.
//!
//! The documented order (CRE-31a): lower priority first, at equal priority the less recently used. An allocation enters when
//! the last submission that requires it has been dispatched, so the order of entering is the order of last use, and each
//! priority needs only a queue. The queues are linked through the allocations: entering and leaving touch at most three of
//! them, however many there are.

use alloc::collections::BTreeMap;

use crate::allocation::{AllocationState, Allocations, Links};

const NONE: u32 = Links::NONE;

/// The priority of destroyed allocations that nothing will use any more: below every other (CRE-05).
pub(crate) const DEAD_PRIORITY: u32 = 0;

/// Resident allocations that nobody requires.
#[derive(Debug, Default)]
pub(crate) struct Evictable {
    /// First and last of each priority's queue.
    queues: BTreeMap<u32, (u32, u32)>,
    bytes: u64,
}

impl Evictable {
    /// The sum of their sizes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Appends `index` as the most recently used of its priority. Does nothing if it is in already.
    pub fn push(&mut self, allocations: &mut Allocations, index: u32) {
        let allocation = &mut allocations[index as usize];
        if allocation.state.contains(AllocationState::EVICTABLE) {
            return;
        }
        allocation.state |= AllocationState::EVICTABLE;
        self.bytes += allocation.size;
        let (_, last) = self.queues.entry(allocation.priority).or_insert((index, NONE));
        let before = core::mem::replace(last, index);
        allocation.links = Links { before, after: NONE };
        if before != NONE {
            allocations[before as usize].links.after = index;
        }
    }

    /// Takes `index` out. Does nothing if it is not in.
    pub fn remove(&mut self, allocations: &mut Allocations, index: u32) {
        let allocation = &mut allocations[index as usize];
        if !allocation.state.contains(AllocationState::EVICTABLE) {
            return;
        }
        allocation.state -= AllocationState::EVICTABLE;
        self.bytes -= allocation.size;
        let priority = allocation.priority;
        let Links { before, after } = core::mem::replace(&mut allocation.links, Links::UNLINKED);
        if before == NONE && after == NONE {
            self.queues.remove(&priority);
            return;
        }
        let (first, last) = self.queues.get_mut(&priority).expect("a linked allocation is in a queue");
        match before {
            NONE => *first = after,
            _ => allocations[before as usize].links.after = after,
        }
        match after {
            NONE => *last = before,
            _ => allocations[after as usize].links.before = before,
        }
    }

    /// All of them in the order in which they go.
    pub fn iter(&self, allocations: &Allocations) -> impl Iterator<Item = u32> {
        self.queues.values().flat_map(move |&(first, _)| queue(allocations, first))
    }

    /// The sum of the sizes of the dead, which are few at any time: they are the first to go.
    pub fn dead_bytes(&self, allocations: &Allocations) -> u64 {
        let first = self.queues.get(&DEAD_PRIORITY).map(|&(first, _)| first);
        let dead = first.into_iter().flat_map(|first| queue(allocations, first));
        dead.map(|index| allocations[index as usize].size).sum()
    }
}

/// A queue from `first` on.
fn queue(allocations: &Allocations, first: u32) -> impl Iterator<Item = u32> {
    core::iter::successors(Some(first), move |&index| {
        let after = allocations[index as usize].links.after;
        (after != NONE).then_some(after)
    })
}
