//! Processes in the order in which a rising level satisfies them, with sums over any part of the order.
//!
//! A process asks for its *excess*, the part of its demand that its reservation does not cover; a level gives it `weight` bytes
//! for each unit. So the process with the smallest excess by weight is satisfied first.

use core::cmp::Ordering;

use crate::{
    data::tree::{Ranked, Tree},
    id::ProcessIx,
};

/// The demand of a process beyond its reservation, and its weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Rank {
    /// Bytes.
    pub excess: u64,
    /// At least 1.
    pub weight: u32,
}

impl Ranked for Rank {
    type Sum = Sum;

    /// By excess by weight, compared as fractions.
    fn compare(&self, other: &Self) -> Ordering {
        let fraction = |a: &Self, b: &Self| u128::from(a.excess) * u128::from(b.weight);
        fraction(self, other).cmp(&fraction(other, self))
    }

    fn sum(&self) -> Sum {
        Sum { excess: self.excess.into(), weight: self.weight.into() }
    }
}

/// Sums over several processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Sum {
    excess: u128,
    weight: u64,
}

impl core::ops::Add for Sum {
    type Output = Sum;

    fn add(self, other: Sum) -> Sum {
        Sum { excess: self.excess + other.excess, weight: self.weight + other.weight }
    }
}

/// The order in two parts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Parted {
    /// The sum of the excesses of the first part, which is satisfied.
    pub satisfied_excess: u128,
    /// The sum of the weights of the others.
    pub capped_weight: u64,
    /// The last that is satisfied, who may be the one left out; who asks for nothing if nobody is.
    pub last_satisfied: Rank,
}

/// The order, by process.
pub(super) type Ranking = Tree<Rank>;

/// Finds how many from the first on satisfy a condition that holds for nobody after one for whom it fails. It is asked of a rank with the
/// sums of a partition right after it; `left_out` counts in none of them.
pub(super) fn part(
    ranking: &Ranking,
    left_out: Option<ProcessIx>,
    is_satisfied: impl Fn(Rank, Parted) -> bool,
) -> Parted {
    let left_out = left_out.map(ProcessIx::get);
    let out = left_out.and_then(|process| ranking.get(process)).map_or(Sum::default(), |rank| rank.sum());
    let less_the_left_out = |satisfied: Sum, capped: Sum, last_satisfied, is_in_satisfied: bool| {
        let (of_satisfied, of_capped) = if is_in_satisfied { (out.excess, 0) } else { (0, out.weight) };
        let satisfied_excess = satisfied.excess - of_satisfied;
        Parted { satisfied_excess, capped_weight: capped.weight - of_capped, last_satisfied }
    };
    let (mut last_satisfied, mut left_out_is_satisfied) = (Rank::default(), false);
    let (satisfied, capped) = ranking.part(|process, rank, up_to_here, after| {
        let is_here_or_before = left_out.is_some_and(|out| out == process || ranking.precedes(out, process));
        let is_one = is_satisfied(rank, less_the_left_out(up_to_here, after, rank, is_here_or_before));
        if is_one {
            last_satisfied = rank;
            left_out_is_satisfied |= is_here_or_before;
        }
        is_one
    });
    less_the_left_out(satisfied, capped, last_satisfied, left_out_is_satisfied)
}
