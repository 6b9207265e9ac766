//! In which order managed allocations may go: least recently used first.

use alloc::vec::Vec;

use super::uses::{UNLISTED, UseNo};

/// The allocations on the device's list, in the order of their last use as far as it had to be known.
///
/// A use writes a stamp and does nothing here. Whoever's stamp has changed since it was sorted in was used since, hence after
/// all that have not: it is looked at again only when all those are gone. So a sorting is paid for by the uses and evictions
/// of those that it sorts.
#[derive(Default)]
pub(super) struct EvictionOrder {
    /// Stamps as they were when this was sorted, with whose they were; the oldest at the end.
    sorted: Vec<(UseNo, u32)>,
    /// The allocations that were used or joined since, in any order; perhaps more than once.
    later: Vec<u32>,
}

impl EvictionOrder {
    /// Someone has joined the list.
    pub fn join(&mut self, index: u32) {
        self.later.push(index);
    }

    /// Takes out who was used longest ago, if that was in use `last` or before. Of those used together, the lowest index.
    pub fn pop(&mut self, stamps: &[UseNo], last: UseNo) -> Option<u32> {
        loop {
            while let Some(&(stamp, index)) = self.sorted.last() {
                let now = stamps[index as usize];
                if now == stamp && stamp > last {
                    return None;
                }
                self.sorted.pop();
                if now == stamp {
                    return Some(index);
                }
                if now != UNLISTED {
                    self.later.push(index);
                }
            }
            self.sort(stamps, last);
            if self.sorted.is_empty() {
                return None;
            }
        }
    }

    /// Puts back those that were taken out and stay, the one that was used longest ago first.
    pub fn put_back(&mut self, stamps: &[UseNo], indices: &[u32]) {
        self.sorted.extend(indices.iter().rev().map(|&index| (stamps[index as usize], index)));
    }

    /// Stamps have been renumbered.
    pub fn forget_stamps(&mut self) {
        self.later.extend(self.sorted.drain(..).map(|(_, index)| index));
    }

    /// Sorts those that were last used in use `last` or before. The others were all used after them, and stay for later.
    fn sort(&mut self, stamps: &[UseNo], last: UseNo) {
        self.later.retain(|&index| {
            let stamp = stamps[index as usize];
            if stamp != UNLISTED && stamp <= last {
                self.sorted.push((stamp, index));
            }
            stamp > last
        });
        self.sorted.sort_unstable_by(|one, other| other.cmp(one));
        self.sorted.dedup();
    }
}
