//! Placement in a segment where each allocation is one range: which ranges are free, and whom a taker must follow.
//!
//! A range is free as soon as the plan that empties it is decided. Whoever takes it before that plan has entered the stream
//! follows it.

use alloc::{collections::BTreeMap, vec::Vec};

use crate::{contract::Direction, free_ranges::FreeRanges, id::PlanNo, patching::Wish, units::Extent};

/// The free ranges of a linear segment.
#[derive(Debug)]
pub(crate) struct LinearPlacer {
    size: u64,
    free: FreeRanges,
    /// What plans empty that have not entered the stream.
    emptied: BTreeMap<PlanNo, Vec<Extent>>,
    available: u64,
}

impl LinearPlacer {
    pub fn new(size: u64) -> Self {
        let mut free = FreeRanges::default();
        free.insert(Extent { offset: 0, size });
        Self { size, free, emptied: BTreeMap::new(), available: size }
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// Bytes that nothing is placed in.
    pub fn available(&self) -> u64 {
        self.available
    }

    pub fn holes(&self) -> impl Iterator<Item = Extent> {
        self.free.iter()
    }

    /// A free range of `size` bytes: in a bank that is wished for, if one has room, and else where it fits best.
    pub fn find(&self, size: u64, wish: &Wish) -> Option<Extent> {
        let in_bank = |&(bank, direction): &(Extent, Direction)| {
            let holes = self.free.inside(bank).filter_map(|hole| fit(hole, size, wish.alignment, direction));
            match direction {
                Direction::FromStart => holes.min_by_key(|range| range.offset),
                Direction::FromEnd => holes.max_by_key(|range| range.offset),
            }
        };
        let anywhere = || self.free.at_least(size).find_map(|hole| fit(hole, size, wish.alignment, wish.direction));
        wish.banks.iter().find_map(in_bank).or_else(anywhere)
    }

    /// Takes a range; `None`, and nothing changes, unless all of it is free.
    pub fn take(&mut self, range: Extent) -> Option<()> {
        self.free.take(range)?;
        self.available -= range.size;
        Some(())
    }

    /// Gives a range back that is taken.
    pub fn release(&mut self, range: Extent) {
        self.available += range.size;
        self.free.insert(range);
    }

    /// Names the plans in `after` that whoever has taken `range` must follow.
    pub fn follow(&self, range: Extent, after: &mut Vec<PlanNo>) {
        let overlaps = |emptied: &Extent| emptied.offset < range.end() && range.offset < emptied.end();
        after.extend(self.emptied.iter().filter(|(_, ranges)| ranges.iter().any(overlaps)).map(|(&plan, _)| plan));
    }

    /// `plan` empties `ranges`.
    pub fn promise(&mut self, plan: PlanNo, ranges: impl IntoIterator<Item = Extent>) {
        for range in ranges {
            self.release(range);
            self.emptied.entry(plan).or_default().push(range);
        }
    }

    /// `plan` has entered the stream.
    pub fn entered(&mut self, plan: PlanNo) {
        self.emptied.remove(&plan);
    }

    /// All plans are over.
    pub fn settle(&mut self) {
        self.emptied.clear();
    }
}

/// The range of `size` bytes at one end of a hole, if it fits.
fn fit(hole: Extent, size: u64, alignment: u64, direction: Direction) -> Option<Extent> {
    let alignment = alignment.max(1);
    let offset = match direction {
        Direction::FromStart => hole.offset.next_multiple_of(alignment),
        Direction::FromEnd => hole.end().checked_sub(size)? / alignment * alignment,
    };
    (offset >= hole.offset && offset + size <= hole.end()).then_some(Extent { offset, size })
}
