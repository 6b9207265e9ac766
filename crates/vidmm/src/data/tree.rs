//! An order of numbered things, with sums over any part of the order.
//!
//! The order is a binary search tree. Each node knows the sum of the subtree. A change of a thing takes O(log n), and so does a search for
//! the first place in the order where a condition on sums fails.
//!
//! The tree is a treap: a node stands above nodes with smaller scrambled numbers. So the tree is shallow, and the same things always make
//! the same tree.

use alloc::vec::Vec;
use core::{
    cmp::Ordering,
    ops::{Add, Bound},
};

const NONE: u32 = u32::MAX;

/// The left link of a missing thing.
const OUT: u32 = u32::MAX - 1;

/// A thing in an order.
pub(crate) trait Ranked: Copy {
    /// The sum over several things. The default is the sum over no thing.
    type Sum: Copy + Default + core::fmt::Debug + Add<Output = Self::Sum>;

    /// The order of two things. Equal things stand in the order of the numbers.
    fn compare(&self, other: &Self) -> Ordering;

    /// The sum over one thing alone.
    fn sum(&self) -> Self::Sum;
}

/// The order.
#[derive(Debug)]
pub(crate) struct Tree<R: Ranked> {
    root: u32,
    /// By number.
    nodes: Vec<Node<R>>,
}

#[derive(Clone, Copy, Debug)]
struct Node<R: Ranked> {
    rank: R,
    left: u32,
    right: u32,
    /// Of the subtree.
    sum: R::Sum,
}

impl<R: Ranked> Default for Tree<R> {
    fn default() -> Self {
        Self { root: NONE, nodes: Vec::new() }
    }
}

impl<R: Ranked> Tree<R> {
    /// Puts a new thing in.
    pub fn insert(&mut self, number: u32, rank: R) {
        let at = number as usize;
        if self.nodes.len() <= at {
            let out = Node { rank, left: OUT, right: OUT, sum: R::Sum::default() };
            self.nodes.resize(at + 1, out);
        }
        debug_assert!(self.nodes[at].left == OUT, "a thing is in the order once");
        self.nodes[at] = Node { rank, left: NONE, right: NONE, sum: rank.sum() };
        self.root = self.with(self.root, number);
    }

    /// Takes a thing out, if there.
    pub fn remove(&mut self, number: u32) {
        if self.get(number).is_some() {
            self.root = self.without(self.root, number);
            self.nodes[number as usize].left = OUT;
        }
    }

    /// Changes a thing. The place in the order stays.
    pub fn update(&mut self, number: u32, rank: R) {
        debug_assert!(self.node(number).rank.compare(&rank).is_eq(), "the thing keeps its place");
        self.node_mut(number).rank = rank;
        self.add_up(self.root, number);
    }

    /// Adds up the sums anew from a thing up to the root of a subtree with the thing.
    fn add_up(&mut self, root: u32, number: u32) {
        let Node { left, right, .. } = *self.node(root);
        match self.node(number).rank.compare(&self.node(root).rank).then(number.cmp(&root)) {
            Ordering::Less => self.add_up(left, number),
            Ordering::Greater => self.add_up(right, number),
            Ordering::Equal => {}
        }
        self.link(root, left, right);
    }

    /// A thing, if there.
    pub fn get(&self, number: u32) -> Option<R> {
        self.nodes.get(number as usize).filter(|node| node.left != OUT).map(|node| node.rank)
    }

    /// The sum over the things with a condition, and the sum over the other things. Behind a thing without the condition, no thing has the
    /// condition. `holds` gets a thing, the sum up to and with the thing, and the sum behind the thing.
    pub fn part(&self, mut holds: impl FnMut(u32, R, R::Sum, R::Sum) -> bool) -> (R::Sum, R::Sum) {
        let (mut before, mut after) = (R::Sum::default(), R::Sum::default());
        let mut at = self.root;
        while at != NONE {
            let Node { rank, left, right, .. } = *self.node(at);
            let up_to_here = before + self.sum(left) + rank.sum();
            let behind = after + self.sum(right);
            match holds(at, rank, up_to_here, behind) {
                true => (before, at) = (up_to_here, right),
                false => (after, at) = (rank.sum() + behind, left),
            }
        }
        (before, after)
    }

    /// The first thing from `from` on with `is_so`. `may_have` holds for the sum of each part with such a thing, and may hold for other
    /// sums.
    pub fn first(
        &self,
        from: Bound<(u32, R)>,
        may_have: &impl Fn(R::Sum) -> bool,
        is_so: &mut impl FnMut(u32, R) -> bool,
    ) -> Option<(u32, R)> {
        self.first_in(self.root, from, may_have, is_so)
    }

    fn first_in(
        &self,
        root: u32,
        from: Bound<(u32, R)>,
        may_have: &impl Fn(R::Sum) -> bool,
        is_so: &mut impl FnMut(u32, R) -> bool,
    ) -> Option<(u32, R)> {
        if root == NONE || !may_have(self.node(root).sum) {
            return None;
        }
        let Node { rank, left, right, .. } = *self.node(root);
        let is_behind = match from {
            Bound::Unbounded => true,
            Bound::Included((number, from)) => (from.compare(&rank)).then(number.cmp(&root)).is_le(),
            Bound::Excluded((number, from)) => (from.compare(&rank)).then(number.cmp(&root)).is_lt(),
        };
        if !is_behind {
            return self.first_in(right, from, may_have, is_so);
        }
        self.first_in(left, from, may_have, is_so)
            .or_else(|| is_so(root, rank).then_some((root, rank)))
            .or_else(|| self.first_in(right, Bound::Unbounded, may_have, is_so))
    }

    /// All things, the last first.
    pub fn descending(&self) -> impl Iterator<Item = u32> {
        let (mut above, mut at) = (Vec::new(), self.root);
        core::iter::from_fn(move || {
            while at != NONE {
                above.push(at);
                at = self.node(at).right;
            }
            let number = above.pop()?;
            at = self.node(number).left;
            Some(number)
        })
    }

    /// Whether `one` comes before `other`.
    pub fn precedes(&self, one: u32, other: u32) -> bool {
        self.node(one).rank.compare(&self.node(other).rank).then(one.cmp(&other)).is_lt()
    }

    fn node(&self, number: u32) -> &Node<R> {
        &self.nodes[number as usize]
    }

    fn node_mut(&mut self, number: u32) -> &mut Node<R> {
        &mut self.nodes[number as usize]
    }

    fn sum(&self, subtree: u32) -> R::Sum {
        if subtree == NONE { R::Sum::default() } else { self.node(subtree).sum }
    }

    /// Links two subtrees below a node.
    fn link(&mut self, number: u32, left: u32, right: u32) -> u32 {
        let (before, after) = (self.sum(left), self.sum(right));
        let node = self.node_mut(number);
        *node = Node { rank: node.rank, left, right, sum: before + node.rank.sum() + after };
        number
    }

    /// The subtree with a node added.
    fn with(&mut self, root: u32, number: u32) -> u32 {
        if root == NONE || is_above(number, root) {
            let (before, after) = self.split(root, number);
            return self.link(number, before, after);
        }
        let Node { left, right, .. } = *self.node(root);
        if self.precedes(number, root) {
            let left = self.with(left, number);
            self.link(root, left, right)
        } else {
            let right = self.with(right, number);
            self.link(root, left, right)
        }
    }

    /// The subtree with a node taken out.
    fn without(&mut self, root: u32, number: u32) -> u32 {
        debug_assert_ne!(root, NONE, "what is taken out is in");
        let Node { left, right, .. } = *self.node(root);
        if root == number {
            self.join(left, right)
        } else if self.precedes(number, root) {
            let left = self.without(left, number);
            self.link(root, left, right)
        } else {
            let right = self.without(right, number);
            self.link(root, left, right)
        }
    }

    /// A subtree as two: what comes before a node, and what comes after it.
    fn split(&mut self, root: u32, number: u32) -> (u32, u32) {
        if root == NONE {
            return (NONE, NONE);
        }
        let Node { left, right, .. } = *self.node(root);
        if self.precedes(number, root) {
            let (before, after) = self.split(left, number);
            (before, self.link(root, after, right))
        } else {
            let (before, after) = self.split(right, number);
            (self.link(root, left, before), after)
        }
    }

    /// Two subtrees as one; all of `before` comes before all of `after`.
    fn join(&mut self, before: u32, after: u32) -> u32 {
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

/// Whether a node stands above another node. The scrambling is a bijection.
fn is_above(one: u32, other: u32) -> bool {
    let scrambled = |number: u32| {
        let mixed = (number ^ number >> 16).wrapping_mul(0x7FEB_352D);
        let mixed = (mixed ^ mixed >> 15).wrapping_mul(0x846C_A68B);
        mixed ^ mixed >> 16
    };
    scrambled(one) > scrambled(other)
}
