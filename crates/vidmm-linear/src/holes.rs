//! The holes of a segment: by place and by size.
//!
//! Only what is free has an entry, so that what is placed costs nothing. Holes are chained in the order of their place. A
//! table names the first hole that starts in each block of the segment, and a set the blocks that have one; so the hole at or
//! after a page is found by looking at one block. Where that meant to look at many holes, blocks are halved.

mod check;

use crate::{Direction, number_set::NumberSet};
use alloc::{vec, vec::Vec};
use core::iter;

use super::{
    banks::Banks,
    by_size::BySize,
    hole::{Hole, HoleIndex, Link},
    run::Run,
};

/// Blocks have at least so many pages (256 KiB).
const LEAST_BLOCK_SHIFT: u32 = 6;

/// A segment has so many blocks at first, or fewer.
const FIRST_BLOCKS: u32 = 256;

/// Blocks are halved when more of their holes have to be looked at.
const MAX_STEPS: u32 = 8;

/// The end of the chain, in both directions. Its place is the end of the segment.
const END: HoleIndex = 0;

#[derive(Clone, Debug)]
pub(super) struct Holes {
    holes: Vec<Hole>,
    unused: Vec<HoleIndex>,
    /// The first hole that starts in each block, or `END`.
    first_in_block: Vec<HoleIndex>,
    used_blocks: NumberSet,
    block_shift: u32,
    by_size: BySize,
    pub banks: Banks,
    free: u32,
}

impl Holes {
    /// One hole, from the start to the end.
    pub fn new(pages: u32, banks: Banks) -> Self {
        let end = Hole { run: Run { start: pages, len: 0 }, before: END, after: END, link: Link::default() };
        let block_shift = pages.div_ceil(FIRST_BLOCKS).next_power_of_two().trailing_zeros().max(LEAST_BLOCK_SHIFT);
        let mut holes = Self {
            holes: vec![end],
            unused: Vec::new(),
            first_in_block: Vec::new(),
            used_blocks: NumberSet::new(0),
            block_shift,
            by_size: BySize::new(pages),
            banks,
            free: 0,
        };
        holes.divide(block_shift);
        holes.insert_before(END, Run { start: 0, len: pages });
        holes
    }

    pub fn pages(&self) -> u32 {
        self.holes[END as usize].run.start
    }

    pub fn free(&self) -> u32 {
        self.free
    }

    pub fn largest(&self) -> u32 {
        self.by_size.largest()
    }

    pub fn run(&self, hole: HoleIndex) -> Run {
        self.holes[hole as usize].run
    }

    pub fn smallest(&self, len: u32, direction: Direction) -> Option<HoleIndex> {
        self.by_size.smallest(len, direction)
    }

    pub fn at_least(&self, len: u32, direction: Direction) -> impl Iterator<Item = HoleIndex> {
        self.by_size.at_least(&self.holes, len, direction)
    }

    /// By place.
    pub fn iter(&self) -> impl Iterator<Item = Run> + Clone {
        let next = |hole: HoleIndex| Some(self.holes[hole as usize].after).filter(|&after| after != END);
        iter::successors(next(END), move |&hole| next(hole)).map(|hole| self.run(hole))
    }

    /// The hole in which all of `run` is.
    pub fn around(&self, run: Run) -> Option<HoleIndex> {
        let (after, _) = self.at_or_after(run.start);
        [after, self.holes[after as usize].before].into_iter().find(|&hole| hole != END && self.run(hole).contains(run))
    }

    /// Takes `run`, which is in `hole`.
    pub fn take(&mut self, hole: HoleIndex, run: Run) {
        let around = self.run(hole);
        let left = Run::between(around.start, run.start);
        let right = Run::between(run.end(), around.end());
        match (left.len > 0, right.len > 0) {
            (false, false) => self.remove(hole),
            (true, false) => self.resize(hole, left),
            (false, true) => self.resize(hole, right),
            (true, true) => {
                self.resize(hole, left);
                self.insert_before(self.holes[hole as usize].after, right);
            }
        }
    }

    /// Makes `run` free and merges it with its neighbours; `None`, and nothing changes, if some of it is free.
    pub fn give(&mut self, run: Run) -> Option<()> {
        let (after, steps) = self.at_or_after(run.start);
        if steps > MAX_STEPS && self.block_shift > LEAST_BLOCK_SHIFT {
            self.divide(self.block_shift - 1);
        }
        let before = self.holes[after as usize].before;
        let (ahead, behind) = (self.run(before), self.run(after));
        if (before != END && ahead.end() > run.start) || behind.start < run.end() {
            return None;
        }
        let touches_before = before != END && ahead.end() == run.start;
        let touches_after = after != END && behind.start == run.end();
        match (touches_before, touches_after) {
            (false, false) => self.insert_before(after, run),
            (true, false) => self.resize(before, Run::between(ahead.start, run.end())),
            (false, true) => self.resize(after, Run::between(run.start, behind.end())),
            (true, true) => {
                self.remove(after);
                self.resize(before, Run::between(ahead.start, behind.end()));
            }
        }
        Some(())
    }

    /// The first hole that does not start before `page`, or `END`; and how many others were looked at.
    fn at_or_after(&self, page: u32) -> (HoleIndex, u32) {
        let block = (page >> self.block_shift) as usize;
        let mut hole = self.first_in_block[block];
        if hole == END {
            return (self.used_blocks.next(block).map_or(END, |next| self.first_in_block[next]), 0);
        }
        let mut steps = 0;
        while hole != END && self.run(hole).start < page {
            hole = self.holes[hole as usize].after;
            steps += 1;
        }
        (hole, steps)
    }

    fn insert_before(&mut self, after: HoleIndex, run: Run) {
        let before = self.holes[after as usize].before;
        let new = Hole { run, before, after, link: Link::default() };
        let hole = match self.unused.pop() {
            Some(unused) => {
                self.holes[unused as usize] = new;
                unused
            }
            None => {
                self.holes.push(new);
                (self.holes.len() - 1) as HoleIndex
            }
        };
        self.holes[before as usize].after = hole;
        self.holes[after as usize].before = hole;
        self.enter_block(hole);
        self.by_size.insert(&mut self.holes, hole);
        self.banks.replace(None, Some(run));
        self.free += run.len;
    }

    fn remove(&mut self, hole: HoleIndex) {
        let Hole { run, before, after, .. } = self.holes[hole as usize];
        self.by_size.remove(&mut self.holes, hole);
        self.leave_block(hole);
        self.holes[before as usize].after = after;
        self.holes[after as usize].before = before;
        self.unused.push(hole);
        self.banks.replace(Some(run), None);
        self.free -= run.len;
    }

    /// Its neighbours stay its neighbours.
    fn resize(&mut self, hole: HoleIndex, new: Run) {
        let old = self.run(hole);
        self.by_size.remove(&mut self.holes, hole);
        if old.start >> self.block_shift != new.start >> self.block_shift {
            self.leave_block(hole);
            self.holes[hole as usize].run = new;
            self.enter_block(hole);
        } else {
            self.holes[hole as usize].run = new;
        }
        self.by_size.insert(&mut self.holes, hole);
        self.banks.replace(Some(old), Some(new));
        self.free = self.free - old.len + new.len;
    }

    /// Divides the segment into blocks of 2^`block_shift` pages.
    fn divide(&mut self, block_shift: u32) {
        let blocks = self.pages().div_ceil(1 << block_shift) as usize;
        self.block_shift = block_shift;
        self.first_in_block = vec![END; blocks];
        self.used_blocks = NumberSet::new(blocks);
        let mut hole = self.holes[END as usize].after;
        while hole != END {
            self.enter_block(hole);
            hole = self.holes[hole as usize].after;
        }
    }

    fn block_of(&self, hole: HoleIndex) -> usize {
        (self.run(hole).start >> self.block_shift) as usize
    }

    /// It is the first of its block if none is there yet, or the one after it was the first.
    fn enter_block(&mut self, hole: HoleIndex) {
        let block = self.block_of(hole);
        let first = self.first_in_block[block];
        if first == END {
            self.used_blocks.insert(block);
        }
        if first == END || first == self.holes[hole as usize].after {
            self.first_in_block[block] = hole;
        }
    }

    fn leave_block(&mut self, hole: HoleIndex) {
        let block = self.block_of(hole);
        if self.first_in_block[block] != hole {
            return;
        }
        let after = self.holes[hole as usize].after;
        if after != END && self.block_of(after) == block {
            self.first_in_block[block] = after;
        } else {
            self.first_in_block[block] = END;
            self.used_blocks.remove(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_halved_where_holes_are_dense() {
        let mut holes = Holes::new(1 << 20, Banks::default());
        let block_shift = holes.block_shift;
        let all = holes.smallest(1, Direction::FromStart).expect("it is empty");
        holes.take(all, Run { start: 0, len: 1 << 20 });
        for start in (0..4000).step_by(2) {
            holes.give(Run { start, len: 1 }).expect("it is taken");
            holes.check().expect("the books are right");
        }
        assert!(holes.block_shift < block_shift);
        assert!((1..4000).step_by(2).all(|start| holes.around(Run { start, len: 1 }).is_none()));
        assert!((0..4000).step_by(2).all(|start| holes.around(Run { start, len: 1 }).is_some()));
    }
}
