//! The order in which a manager keeps its candidates, for a study of policies without a manager.

use alloc::vec::Vec;

use super::{Candidate, RANK_MAX};
use crate::data::rank_queue::{RankQueue, Standing};

/// A rank of no candidate.
const NONE: u64 = u64::MAX;

/// Candidates of one process and one priority in one memory, by their slots, in ascending order of rank. Of candidates with equal ranks
/// the candidate that has the rank for longest comes first. The manager's candidates are in the same order.
#[derive(Debug, Default)]
pub struct Order {
    queue: RankQueue<u32>,
    members: Vec<Member>,
}

/// The rank of a slot, and the place in the queue.
#[derive(Clone, Copy, Debug)]
struct Member {
    rank: u64,
    standing: Standing,
}

impl Order {
    /// Adds a candidate behind all candidates of this rank or of lower ranks. The slot is below 2^32, and no candidate yet.
    pub fn push(&mut self, slot: usize, rank: u64) {
        let Self { queue, members } = self;
        if members.len() <= slot {
            members.resize(slot + 1, Member { rank: NONE, standing: Standing::InOrder(0) });
        }
        let rank = rank.min(RANK_MAX);
        let standing = queue.push(rank, slot as u32, |slot, standing| members[slot as usize].standing = standing);
        members[slot] = Member { rank, standing };
    }

    /// Removes a candidate. Does nothing if the slot is no candidate.
    pub fn remove(&mut self, slot: usize) {
        let Self { queue, members } = self;
        let Some(&Member { rank, standing }) = members.get(slot).filter(|member| member.rank != NONE) else { return };
        members[slot].rank = NONE;
        queue.remove(slot as u32, rank, standing, |slot, standing| members[slot as usize].standing = standing);
    }

    /// The rank of a candidate.
    pub fn rank(&self, slot: usize) -> Option<u64> {
        self.members.get(slot).map(|member| member.rank).filter(|&rank| rank != NONE)
    }

    /// The candidate of the lowest rank from `rank` on, with a size that `size` tells.
    pub fn first_from(&self, rank: u64, size: impl FnOnce(usize) -> u64) -> Option<Candidate> {
        let (rank, slot) = self.queue.first_from(rank)?;
        Some(Candidate { slot: slot as usize, rank, size: size(slot as usize) })
    }
}
