//! The order in which a manager keeps its candidates, for a study of policies without a manager.

use alloc::vec::Vec;

use super::{Candidate, RANK_MAX};
use crate::data::rank_queue::{RankQueue, Standing};

/// The rank of a slot that is in no queue.
const NONE: u64 = u64::MAX;

/// A bit of the rank of a slot that is set aside.
const ASIDE: u64 = 1 << 63;

/// Larger ranks have a second queue, so both queues of S3-FIFO grow at the end.
const UPPER: u64 = 1 << 55;

/// Candidates of one process and one priority in one memory, by their slots, in ascending order of rank. Of candidates with equal ranks
/// the candidate that has the rank for longest comes first. The manager's candidates are in the same order.
#[derive(Debug, Default)]
pub struct Order {
    /// Candidates with ranks below [`UPPER`], and candidates above.
    queues: [RankQueue<u32>; 2],
    members: Vec<Member>,
    /// All slots set aside, and some former slots.
    aside: Vec<u32>,
    /// The number of slots in the queues.
    count: usize,
}

/// The rank of a slot, and the place in the queue.
#[derive(Clone, Copy, Debug)]
struct Member {
    rank: u64,
    standing: Standing,
}

impl Member {
    const NONE: Self = Self { rank: NONE, standing: Standing::InOrder(0) };

    fn is_aside(self) -> bool {
        self.rank != NONE && self.rank & ASIDE != 0
    }
}

impl Order {
    /// No candidate, and memory for so many slots.
    pub fn with_capacity(slots: usize) -> Self {
        Self { members: Vec::with_capacity(slots), ..Self::default() }
    }

    /// Adds a candidate behind all candidates of this rank or of lower ranks. The slot is below 2^32, and no candidate yet.
    pub fn push(&mut self, slot: usize, rank: u64) {
        if self.members.len() <= slot {
            self.members.resize(slot + 1, Member::NONE);
        }
        let rank = rank.min(RANK_MAX);
        if self.members[slot].is_aside() {
            let Member { rank: before, standing } = self.members[slot];
            let is_last = || self.queues[half(rank)].after(rank, standing).is_none_or(|(next, _)| next > rank);
            if before & !ASIDE == rank && is_last() {
                self.members[slot].rank = rank;
                return;
            }
            self.remove(slot);
        }
        let Self { queues, members, .. } = self;
        let tell = |slot: u32, standing| members[slot as usize].standing = standing;
        let standing = queues[half(rank)].push(rank, slot as u32, tell);
        members[slot] = Member { rank, standing };
        self.count += 1;
    }

    /// Removes a candidate. Does nothing if the slot is no candidate.
    pub fn remove(&mut self, slot: usize) {
        let Self { queues, members, .. } = self;
        let Some(&Member { rank, standing }) = members.get(slot).filter(|member| member.rank != NONE) else { return };
        let rank = rank & !ASIDE;
        members[slot].rank = NONE;
        let tell = |slot: u32, standing| members[slot as usize].standing = standing;
        queues[half(rank)].remove(slot as u32, rank, standing, tell);
        self.count -= 1;
    }

    /// Removes a candidate that probably comes back soon, with the same rank. Does nothing if the slot is no candidate.
    pub fn set_aside(&mut self, slot: usize) {
        let Self { members, aside, .. } = self;
        let Some(member) = members.get_mut(slot).filter(|member| member.rank & ASIDE == 0) else { return };
        member.rank |= ASIDE;
        if aside.len() == aside.capacity() {
            aside.sort_unstable();
            aside.dedup();
            aside.retain(|&slot| members[slot as usize].is_aside());
        }
        aside.push(slot as u32);
    }

    /// Gives up the places of all that is set aside. Call this before you look for the first candidate, or for their number.
    pub fn settle(&mut self) {
        while let Some(slot) = self.aside.pop() {
            if self.members[slot as usize].is_aside() {
                self.remove(slot as usize);
            }
        }
    }

    /// Gives a candidate another rank. Does nothing if the slot is no candidate.
    pub fn set_rank(&mut self, slot: usize, rank: u64) {
        if self.rank(slot).is_some() {
            self.remove(slot);
            self.push(slot, rank);
        }
    }

    /// The number of candidates.
    pub fn len(&self) -> usize {
        debug_assert!(self.aside.is_empty(), "what is set aside is no candidate");
        self.count
    }

    /// Whether there is no candidate.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The rank of a candidate.
    pub fn rank(&self, slot: usize) -> Option<u64> {
        self.members.get(slot).map(|member| member.rank).filter(|&rank| rank & ASIDE == 0)
    }

    /// The candidate of the lowest rank from `rank` on, with a size that `size` tells.
    pub fn first_from(&self, rank: u64, size: impl FnOnce(usize) -> u64) -> Option<Candidate> {
        debug_assert!(self.aside.is_empty(), "what is set aside is no candidate");
        let rank = rank.min(RANK_MAX);
        let (rank, slot) = self.queues[half(rank)..].iter().find_map(|queue| queue.first_from(rank))?;
        Some(Candidate { slot: slot as usize, rank, size: size(slot as usize) })
    }
}

/// The index of the queue of a rank.
fn half(rank: u64) -> usize {
    usize::from(rank >= UPPER)
}

#[cfg(test)]
mod tests {
    use alloc::{vec, vec::Vec};

    use proptest::prelude::*;

    use super::{Order, UPPER};

    #[derive(Clone, Copy, Debug)]
    enum Call {
        Push(usize, u64),
        Remove(usize),
        SetAside(usize),
        SetRank(usize, u64),
        FirstFrom(u64),
    }

    fn calls() -> impl Strategy<Value = Vec<Call>> {
        let slot = || 0..12_usize;
        let rank = || (0..6_u64, any::<bool>()).prop_map(|(rank, is_upper)| if is_upper { UPPER + rank } else { rank });
        let call = prop_oneof![
            4 => (slot(), rank()).prop_map(|(slot, rank)| Call::Push(slot, rank)),
            1 => slot().prop_map(Call::Remove),
            4 => slot().prop_map(Call::SetAside),
            2 => (slot(), rank()).prop_map(|(slot, rank)| Call::SetRank(slot, rank)),
            2 => rank().prop_map(Call::FirstFrom),
        ];
        prop::collection::vec(call, 0..200)
    }

    proptest! {
        #[test]
        fn it_has_the_order_of_a_sorted_list(calls in calls()) {
            let mut order = Order::default();
            // Ranks, arrivals, slots.
            let mut sorted: Vec<(u64, usize, usize)> = vec![];
            for (number, call) in calls.into_iter().enumerate() {
                let rank_of = |sorted: &[(u64, usize, usize)], slot| {
                    sorted.iter().find(|member| member.2 == slot).map(|&(rank, ..)| rank)
                };
                match call {
                    Call::Push(slot, rank) if rank_of(&sorted, slot).is_none() => {
                        order.push(slot, rank);
                        sorted.push((rank, number, slot));
                    }
                    Call::Push(..) => {}
                    Call::Remove(slot) => {
                        order.remove(slot);
                        sorted.retain(|member| member.2 != slot);
                    }
                    Call::SetAside(slot) => {
                        order.set_aside(slot);
                        sorted.retain(|member| member.2 != slot);
                    }
                    Call::SetRank(slot, rank) => {
                        order.set_rank(slot, rank);
                        if rank_of(&sorted, slot).is_some() {
                            sorted.retain(|member| member.2 != slot);
                            sorted.push((rank, number, slot));
                        }
                    }
                    Call::FirstFrom(rank) => {
                        order.settle();
                        let first = order.first_from(rank, |_| 0).map(|first| (first.rank, first.slot));
                        let expected = sorted.iter().find(|member| member.0 >= rank).map(|&(rank, _, slot)| (rank, slot));
                        prop_assert_eq!(first, expected);
                        prop_assert_eq!(order.len(), sorted.len());
                    }
                }
                sorted.sort_unstable();
                prop_assert!((0..12).all(|slot| order.rank(slot) == rank_of(&sorted, slot)));
            }
        }
    }
}
