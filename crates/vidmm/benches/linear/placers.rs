//! The placers: all count in units of one size.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
};

use vidmm::{Extent, PAGE_SIZE};
use vidmm_linear::{Direction, LinearSegment};

/// Places ranges in a segment.
pub trait Placer {
    /// The name of a range that was taken.
    type Range;

    /// A segment of `size` units of `unit` bytes, in which at most `ranges` are taken at once.
    fn new(size: u32, unit: u64, ranges: usize) -> Self;
    fn take(&mut self, units: u32) -> Option<Self::Range>;
    fn give(&mut self, range: Self::Range);
}

/// A placer that is measured. Ranges are aligned to their unit.
pub struct Vidmm {
    segment: LinearSegment,
    unit: u64,
}

impl Placer for Vidmm {
    /// First page and pages: like the others', it has eight bytes.
    type Range = (u32, NonZeroU32);

    fn new(size: u32, unit: u64, _ranges: usize) -> Self {
        Self { segment: LinearSegment::new(u64::from(size) * unit), unit }
    }

    fn take(&mut self, units: u32) -> Option<Self::Range> {
        let taken = self.segment.allocate(u64::from(units) * self.unit, self.unit, Direction::FromStart, &[])?;
        Some(((taken.offset / PAGE_SIZE) as u32, NonZeroU32::new((taken.size / PAGE_SIZE) as u32)?))
    }

    fn give(&mut self, (start, len): Self::Range) {
        self.segment.free(Extent { offset: u64::from(start) * PAGE_SIZE, size: u64::from(len.get()) * PAGE_SIZE });
    }
}

/// Best fit: the smallest hole that is long enough, the one nearest to the start among equal ones.
pub struct BestFit {
    by_place: BTreeMap<u32, u32>,
    by_size: BTreeSet<(u32, u32)>,
}

impl BestFit {
    fn insert(&mut self, start: u32, len: u32) {
        self.by_place.insert(start, len);
        self.by_size.insert((len, start));
    }

    fn remove(&mut self, start: u32, len: u32) {
        self.by_place.remove(&start);
        self.by_size.remove(&(len, start));
    }
}

impl Placer for BestFit {
    /// Start and length.
    type Range = (u32, u32);

    fn new(size: u32, _unit: u64, _ranges: usize) -> Self {
        let mut all = Self { by_place: BTreeMap::new(), by_size: BTreeSet::new() };
        all.insert(0, size);
        all
    }

    fn take(&mut self, units: u32) -> Option<(u32, u32)> {
        let &(len, start) = self.by_size.range((units, 0)..).next()?;
        self.remove(start, len);
        if len > units {
            self.insert(start + units, len - units);
        }
        Some((start, units))
    }

    fn give(&mut self, (mut start, mut len): (u32, u32)) {
        if let Some(&after) = self.by_place.get(&(start + len)) {
            self.remove(start + len, after);
            len += after;
        }
        if let Some((&before, &before_len)) = self.by_place.range(..start).next_back()
            && before + before_len == start
        {
            self.remove(before, before_len);
            (start, len) = (before, before_len + len);
        }
        self.insert(start, len);
    }
}

/// The crate `offset-allocator`, a port of Sebastian Aaltonen's.
pub struct OffsetAllocator(offset_allocator::Allocator<u32>);

impl Placer for OffsetAllocator {
    type Range = offset_allocator::Allocation<u32>;

    fn new(size: u32, _unit: u64, ranges: usize) -> Self {
        // It has a node for each hole, too: there can be one more than ranges.
        Self(offset_allocator::Allocator::with_max_allocs(size, 2 * ranges as u32 + 2))
    }

    fn take(&mut self, units: u32) -> Option<Self::Range> {
        self.0.allocate(units)
    }

    fn give(&mut self, range: Self::Range) {
        self.0.free(range);
    }
}
