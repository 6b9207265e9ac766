//! The holes of a segment: by place and by size.
//!
//! Only what is free has an entry, so that what is placed costs nothing. Holes are chained in the order of their place. A
//! table names the first hole that starts in each block of the segment, and a set the blocks that have one; so the hole at or
//! after a page is found by looking at one block. Blocks become smaller as holes become more.

use alloc::{vec, vec::Vec};
use core::iter;

use super::{
    banks::Banks,
    by_size::{BySize, HoleIndex, Link, Linked},
    number_set::NumberSet,
    run::{Direction, Run},
};

/// Blocks have at least so many pages (256 KiB).
const LEAST_BLOCK_SHIFT: u32 = 6;

/// A segment has so many blocks at first, or fewer.
const FIRST_BLOCKS: u32 = 256;

/// The end of the chain, in both directions. Its place is the end of the segment.
const END: HoleIndex = 0;

#[derive(Clone, Debug)]
struct Hole {
    run: Run,
    before: HoleIndex,
    after: HoleIndex,
    link: Link,
}

impl Linked for Hole {
    fn run(&self) -> Run {
        self.run
    }

    fn link(&self) -> Link {
        self.link
    }

    fn link_mut(&mut self) -> &mut Link {
        &mut self.link
    }
}

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
            by_size: BySize::new(pages / 2),
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
        let after = self.at_or_after(run.start);
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
        let after = self.at_or_after(run.start);
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

    /// The first hole that does not start before `page`, or `END`.
    fn at_or_after(&self, page: u32) -> HoleIndex {
        let block = (page >> self.block_shift) as usize;
        let Some(first) = self.used_blocks.next(block) else { return END };
        let mut hole = self.first_in_block[first];
        // Beyond the first block that is looked at there is nothing before the page.
        while hole != END && self.run(hole).start < page {
            hole = self.holes[hole as usize].after;
        }
        hole
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
                if self.holes.len() > 1 * self.first_in_block.len() && self.block_shift > LEAST_BLOCK_SHIFT {
                    self.divide(self.block_shift - 1);
                }
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

    /// What of the books is wrong.
    pub fn check(&self) -> Result<(), &'static str> {
        let mut before = END;
        let mut free = 0;
        let mut in_size_order: Vec<(u32, HoleIndex)> = Vec::new();
        loop {
            let hole = self.holes[before as usize].after;
            let (ahead, run) = (self.run(before), self.run(hole));
            if self.holes[hole as usize].before != before {
                return Err("the chain of holes differs by direction");
            }
            if hole == END {
                break;
            }
            if run.len == 0 || run.end() > self.pages() || (before != END && run.start <= ahead.end()) {
                return Err("a hole is empty, out of place, or touches the one before it");
            }
            if before == END || self.block_of(before) != self.block_of(hole) {
                let blocks = if before == END { 0 } else { self.block_of(before) + 1 }..self.block_of(hole);
                if self.first_in_block[self.block_of(hole)] != hole
                    || self.used_blocks.next(blocks.start) != Some(blocks.end)
                {
                    return Err("a block names a hole that is not its first, or none");
                }
            }
            free += run.len;
            in_size_order.push((run.len, hole));
            before = hole;
        }
        if before == END && self.used_blocks.next(0).is_some() {
            return Err("a block has a hole although there is none");
        }
        if free != self.free {
            return Err("what is free is not the sum of the holes");
        }
        in_size_order.sort_unstable();
        for direction in [Direction::FromStart, Direction::FromEnd] {
            let mut kept: Vec<(u32, HoleIndex)> =
                self.at_least(1, direction).map(|hole| (self.run(hole).len, hole)).collect();
            if !kept.is_sorted_by_key(|&(len, _)| len) {
                return Err("holes are not in the order of their sizes");
            }
            kept.sort_unstable();
            if kept != in_size_order {
                return Err("holes by place and holes by size differ");
            }
        }
        if !self.banks.check(self.iter()) {
            return Err("holes by place and holes by bank differ");
        }
        Ok(())
    }
}
