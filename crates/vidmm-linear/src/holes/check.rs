//! The audit of the holes.

use alloc::vec::Vec;

use super::{
    super::{direction::Direction, hole::HoleIndex},
    END, Holes,
};

impl Holes {
    /// The mistakes in the records.
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
