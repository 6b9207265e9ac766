//! The first evictable allocation of each process. The victim is the first allocation among these that no process keeps.
//!
//! Processes keep memory up to an entitlement (RES-53), and the entitlement follows from the share of the process and from the level of
//! all processes. The processes of a weight stand in a tree, in the order of the evictions. The tree knows the most that any part of the
//! tree has to lose. A search for a victim passes by all processes with less to lose than the level says.

use alloc::vec::Vec;
use core::{cmp::Ordering, ops::Bound};

use crate::{
    budget::{AccountShares, ToLose},
    data::tree::{Ranked, Tree},
    id::ProcessIx,
    objects::allocation::worth::{Class, Worth},
};

/// The first evictable allocation of a process.
#[derive(Clone, Copy, Debug)]
struct First {
    /// Of the process, when it was looked at last; 0 before.
    weight: u32,
    worth: Worth,
    to_lose: Lose,
}

/// The bytes that a process has to lose; of several processes, the most.
#[derive(Clone, Copy, Debug)]
struct Lose {
    all: ToLose,
    /// Without the first allocation.
    behind: ToLose,
}

impl Default for Lose {
    fn default() -> Self {
        Self { all: ToLose::NOTHING, behind: ToLose::NOTHING }
    }
}

impl core::ops::Add for Lose {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { all: self.all.max(other.all), behind: self.behind.max(other.behind) }
    }
}

impl Ranked for First {
    type Sum = Lose;

    fn compare(&self, other: &Self) -> Ordering {
        (self.weight, self.worth).cmp(&(other.weight, other.worth))
    }

    fn sum(&self) -> Lose {
        self.to_lose
    }
}

impl First {
    /// The first of a new process, perhaps with everything to lose.
    const fn new(weight: u32, worth: Worth) -> Self {
        Self { weight, worth, to_lose: Lose { all: ToLose::EVERYTHING, behind: ToLose::EVERYTHING } }
    }

    fn is_new(&self) -> bool {
        self.to_lose.all == ToLose::EVERYTHING
    }
}

/// The first of each process.
#[derive(Debug, Default)]
pub(super) struct Firsts {
    tree: Tree<First>,
    /// The first of all: nearly each search for a victim begins there.
    first: Option<(Worth, ProcessIx)>,
}

impl Firsts {
    /// The first of a process is worth so much from now on; or the process has none.
    pub fn set(&mut self, process: ProcessIx, worth: Option<Worth>) {
        let weight = self.tree.get(process.get()).map_or(0, |before| before.weight);
        self.tree.remove(process.get());
        if let Some(worth) = worth {
            self.tree.insert(process.get(), First::new(weight, worth));
        }
        match worth {
            Some(worth) if self.first.is_none_or(|first| (worth, process) <= first) => {
                self.first = Some((worth, process));
            }
            _ if self.first.is_some_and(|(_, first)| first == process) => {
                self.first = self.first_of_weights().map(|(process, first)| (first.worth, process)).min();
            }
            _ => {}
        }
    }

    /// All, in no order.
    pub fn iter(&self) -> impl Iterator<Item = (Worth, ProcessIx)> {
        let worth = |process| self.tree.get(process).map(|first| (first.worth, ProcessIx::new(process)));
        self.tree.descending().filter_map(worth)
    }

    /// The first of all.
    pub fn first(&self) -> Option<(Worth, ProcessIx)> {
        self.first
    }

    /// The first that no process keeps from another. `size_of` is the size of the first allocation of a process.
    pub fn first_not_kept(
        &mut self,
        shares: &mut AccountShares,
        other: ProcessIx,
        size_of: impl Fn(Worth, ProcessIx) -> u64,
    ) -> Option<(Worth, ProcessIx)> {
        while let Some(process) = shares.next_changed() {
            self.look_at(shares, process, &size_of);
        }
        let mut best = self.tree.get(other.get()).map(|first| (first.worth, other));
        let mut new = Vec::new();
        for weight in self.weights() {
            let least = shares.least_to_lose(weight, other);
            let found = self.search(weight, &|lose| lose.behind.is_at_least(least), &mut |process, first| {
                if first.worth.0.is_worthless() || best.is_some_and(|best| best < (first.worth, process)) {
                    return true;
                }
                new.extend(first.is_new().then_some(process));
                first.to_lose.behind.is_at_least(least) && !shares.keeps(process, other, size_of(first.worth, process))
            });
            best = best.into_iter().chain(found).min();
        }
        new.into_iter().for_each(|process| self.look_at(shares, process, &size_of));
        best
    }

    /// Whether any process can lose something for another.
    pub fn can_lose(&self, shares: &AccountShares, other: ProcessIx) -> bool {
        self.weights().any(|weight| {
            let least = shares.least_to_lose(weight, other);
            let can_lose = |process| shares.spare(process, other).is_none_or(|bytes| bytes > 0);
            self.search(weight, &|lose| lose.all.is_at_least(least), &mut |process, _| can_lose(process)).is_some()
        })
    }

    /// Notes what a process has to lose, if it has a first.
    fn look_at(&mut self, shares: &AccountShares, process: ProcessIx, size_of: impl Fn(Worth, ProcessIx) -> u64) {
        let Some(First { weight, worth, .. }) = self.tree.get(process.get()) else { return };
        let all = match worth.0.is_worthless() {
            true => ToLose::EVERYTHING,
            false => shares.to_lose(process),
        };
        let to_lose = Lose { all, behind: all.less(size_of(worth, process)) };
        let first = First { weight: shares.get(process).weight, worth, to_lose };
        if first.weight == weight {
            self.tree.update(process.get(), first);
        } else {
            self.tree.remove(process.get());
            self.tree.insert(process.get(), first);
        }
    }

    /// The first of the processes of each weight.
    fn first_of_weights(&self) -> impl Iterator<Item = (ProcessIx, First)> {
        let next = |from: u32| self.search_from(from, &|_| true, &mut |_, _| true);
        core::iter::successors(next(0), move |(_, first)| next(first.weight + 1))
    }

    /// The weights of the processes.
    fn weights(&self) -> impl Iterator<Item = u32> {
        self.first_of_weights().map(|(_, first)| first.weight)
    }

    /// The first process of a weight for which `is_so`. What is known of several processes `may_have` such a process.
    fn search(
        &self,
        weight: u32,
        may_have: &impl Fn(Lose) -> bool,
        is_so: &mut impl FnMut(ProcessIx, First) -> bool,
    ) -> Option<(Worth, ProcessIx)> {
        let mut is_so_or_behind = |process, first: First| first.weight != weight || is_so(process, first);
        let found = self.search_from(weight, may_have, &mut is_so_or_behind);
        found.filter(|(_, first)| first.weight == weight).map(|(process, first)| (first.worth, process))
    }

    /// The same among the processes of a weight and of larger weights.
    fn search_from(
        &self,
        weight: u32,
        may_have: &impl Fn(Lose) -> bool,
        is_so: &mut impl FnMut(ProcessIx, First) -> bool,
    ) -> Option<(ProcessIx, First)> {
        let from = Bound::Included((0, First::new(weight, (Class::Dead, 0, 0))));
        let found = self.tree.first(from, may_have, &mut |process, first| is_so(ProcessIx::new(process), first));
        found.map(|(process, first)| (ProcessIx::new(process), first))
    }
}

#[cfg(test)]
mod tests;
