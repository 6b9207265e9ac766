//! Processes in the order in which a rising level satisfies them, with sums over any part of the order.
//!
//! A process asks for its *excess*, the part of its demand that its reservation does not cover; a level gives it `weight` bytes
//! for each unit. So the process with the smallest excess by weight is satisfied first. The order is a binary search tree in
//! which each node knows the sums of its subtree: changing one process, and finding the place in the order where a condition
//! on such sums begins to fail, both take O(log n), whatever else the change does to the others.
//!
//! The tree is a treap: a node is above those whose scrambled number is smaller, which keeps it shallow and makes its shape a
//! function of what is in it.

use alloc::{vec, vec::Vec};

use crate::id::ProcessIx;

const NONE: ProcessIx = ProcessIx::new(u32::MAX);

/// The demand of a process beyond its reservation, and its weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Rank {
    /// Bytes.
    pub excess: u64,
    /// At least 1.
    pub weight: u32,
}

impl Rank {
    /// The sum over one process alone.
    fn sum(self) -> Sum {
        Sum { excess: self.excess.into(), weight: self.weight.into() }
    }
}

/// Sums over several processes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sum {
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

/// The order.
#[derive(Debug)]
pub(super) struct Ranking {
    root: ProcessIx,
    /// By process.
    nodes: Vec<Node>,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    rank: Rank,
    left: ProcessIx,
    right: ProcessIx,
    /// Of the subtree.
    sum: Sum,
}

const UNLINKED: Node =
    Node { rank: Rank { excess: 0, weight: 1 }, left: NONE, right: NONE, sum: Sum { excess: 0, weight: 0 } };

impl Default for Ranking {
    fn default() -> Self {
        Self { root: NONE, nodes: Vec::new() }
    }
}

impl Ranking {
    /// Puts a process in that is not in.
    pub fn insert(&mut self, process: ProcessIx, rank: Rank) {
        let index = process.at();
        if self.nodes.len() <= index {
            self.nodes.resize(index + 1, UNLINKED);
        }
        self.nodes[index] = Node { rank, ..UNLINKED };
        self.root = self.with(self.root, process);
    }

    /// Takes a process out that is in.
    pub fn remove(&mut self, process: ProcessIx) {
        self.root = self.without(self.root, process);
    }

    /// Finds how many from the first on satisfy a condition that holds for nobody after one for whom it fails. It is asked of
    /// a rank with the sums of a partition right after it; `left_out` counts in none of them.
    pub fn part(&self, left_out: Option<ProcessIx>, is_satisfied: impl Fn(Rank, Parted) -> bool) -> Parted {
        let out = left_out.map_or(Sum::default(), |process| self.node(process).rank.sum());
        let less_the_left_out = |satisfied: Sum, capped: Sum, last_satisfied, is_in_satisfied: bool| {
            let (of_satisfied, of_capped) = if is_in_satisfied { (out.excess, 0) } else { (0, out.weight) };
            let satisfied_excess = satisfied.excess - of_satisfied;
            Parted { satisfied_excess, capped_weight: capped.weight - of_capped, last_satisfied }
        };
        let (mut satisfied, mut capped) = (Sum::default(), Sum::default());
        let (mut last_satisfied, mut left_out_is_satisfied) = (Rank::default(), false);
        let mut at = self.root;
        while at != NONE {
            let Node { rank, left, right, .. } = *self.node(at);
            let up_to_here = satisfied + self.sum(left) + rank.sum();
            let after = capped + self.sum(right);
            let is_here_or_before = left_out.is_some_and(|process| process == at || self.precedes(process, at));
            if is_satisfied(rank, less_the_left_out(up_to_here, after, rank, is_here_or_before)) {
                (satisfied, last_satisfied, at) = (up_to_here, rank, right);
                left_out_is_satisfied |= is_here_or_before;
            } else {
                (capped, at) = (after + rank.sum(), left);
            }
        }
        less_the_left_out(satisfied, capped, last_satisfied, left_out_is_satisfied)
    }

    /// All processes, the last to be satisfied first.
    pub fn descending(&self) -> impl Iterator<Item = ProcessIx> {
        let (mut above, mut at) = (vec![], self.root);
        core::iter::from_fn(move || {
            while at != NONE {
                above.push(at);
                at = self.node(at).right;
            }
            let process = above.pop()?;
            at = self.node(process).left;
            Some(process)
        })
    }

    fn node(&self, process: ProcessIx) -> &Node {
        &self.nodes[process.at()]
    }

    fn sum(&self, subtree: ProcessIx) -> Sum {
        if subtree == NONE { Sum::default() } else { self.node(subtree).sum }
    }

    /// Whether `one` comes before `other`: by excess by weight, compared as fractions; among equals by number.
    fn precedes(&self, one: ProcessIx, other: ProcessIx) -> bool {
        let (a, b) = (self.node(one).rank, self.node(other).rank);
        let (a, b) = (u128::from(a.excess) * u128::from(b.weight), u128::from(b.excess) * u128::from(a.weight));
        (a, one) < (b, other)
    }

    /// Links two subtrees below a node.
    fn link(&mut self, process: ProcessIx, left: ProcessIx, right: ProcessIx) -> ProcessIx {
        let sum = self.sum(left) + self.node(process).rank.sum() + self.sum(right);
        let node = &mut self.nodes[process.at()];
        *node = Node { rank: node.rank, left, right, sum };
        process
    }

    /// The subtree with a node added.
    fn with(&mut self, root: ProcessIx, process: ProcessIx) -> ProcessIx {
        if root == NONE || is_above(process, root) {
            let (before, after) = self.split(root, process);
            return self.link(process, before, after);
        }
        let Node { left, right, .. } = *self.node(root);
        if self.precedes(process, root) {
            let left = self.with(left, process);
            self.link(root, left, right)
        } else {
            let right = self.with(right, process);
            self.link(root, left, right)
        }
    }

    /// The subtree with a node taken out.
    fn without(&mut self, root: ProcessIx, process: ProcessIx) -> ProcessIx {
        debug_assert_ne!(root, NONE, "what is taken out is in");
        let Node { left, right, .. } = *self.node(root);
        if root == process {
            self.join(left, right)
        } else if self.precedes(process, root) {
            let left = self.without(left, process);
            self.link(root, left, right)
        } else {
            let right = self.without(right, process);
            self.link(root, left, right)
        }
    }

    /// A subtree as two: what comes before `process`, and what comes after it.
    fn split(&mut self, root: ProcessIx, process: ProcessIx) -> (ProcessIx, ProcessIx) {
        if root == NONE {
            return (NONE, NONE);
        }
        let Node { left, right, .. } = *self.node(root);
        if self.precedes(process, root) {
            let (before, after) = self.split(left, process);
            (before, self.link(root, after, right))
        } else {
            let (before, after) = self.split(right, process);
            (self.link(root, left, before), after)
        }
    }

    /// Two subtrees as one; all of `before` comes before all of `after`.
    fn join(&mut self, before: ProcessIx, after: ProcessIx) -> ProcessIx {
        match (before, after) {
            (empty, subtree) | (subtree, empty) if empty == NONE => subtree,
            _ if is_above(before, after) => {
                let Node { left, right, .. } = *self.node(before);
                let right = self.join(right, after);
                self.link(before, left, right)
            }
            _ => {
                let Node { left, right, .. } = *self.node(after);
                let left = self.join(before, left);
                self.link(after, left, right)
            }
        }
    }
}

/// Whether one node is above the other: their numbers, scrambled one to one.
fn is_above(one: ProcessIx, other: ProcessIx) -> bool {
    let scrambled = |process: ProcessIx| {
        let process = process.get();
        let mixed = (process ^ process >> 16).wrapping_mul(0x7FEB_352D);
        let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x846C_A68B);
        mixed ^ mixed >> 16
    };
    scrambled(one) > scrambled(other)
}
