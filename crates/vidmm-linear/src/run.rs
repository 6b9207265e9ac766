//! Runs of pages, and where in one a request fits.

use super::Direction;
use crate::{Extent, PAGE_SIZE};

/// How many holes that may miss an alignment are looked at before one that cannot is taken.
const LOOKED_AT: usize = 32;

/// A run of pages. An offset below 2^40 bytes is a page below 2^28, so that sums of a few stay below 2^32.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Run {
    pub start: u32,
    pub len: u32,
}

impl Run {
    /// The pages of an extent; `None` unless it has some, whole ones, all below 2^40 bytes.
    pub fn of(extent: Extent) -> Option<Self> {
        let Extent { offset, size } = extent;
        let is_whole = offset.is_multiple_of(PAGE_SIZE) && size.is_multiple_of(PAGE_SIZE);
        let is_below = size > 0 && offset.checked_add(size).is_some_and(|end| end <= super::MAX_SEGMENT_SIZE);
        (is_whole && is_below).then_some(Self { start: (offset / PAGE_SIZE) as u32, len: (size / PAGE_SIZE) as u32 })
    }

    pub fn between(start: u32, end: u32) -> Self {
        Self { start, len: end - start }
    }

    pub fn end(self) -> u32 {
        self.start + self.len
    }

    pub fn extent(self) -> Extent {
        Extent { offset: u64::from(self.start) * PAGE_SIZE, size: u64::from(self.len) * PAGE_SIZE }
    }

    pub fn contains(self, other: Run) -> bool {
        self.start <= other.start && other.end() <= self.end()
    }

    pub fn part_inside(self, window: Run) -> Option<Run> {
        let (start, end) = (self.start.max(window.start), self.end().min(window.end()));
        (start < end).then(|| Run::between(start, end))
    }
}

/// A request for a range, in pages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Want {
    pub len: u32,
    /// A power of two; 1 is any page.
    pub alignment: u32,
    pub direction: Direction,
}

impl Want {
    /// `None` if it is larger than any segment.
    ///
    /// # Panics
    ///
    /// Unless `size` is a positive multiple of the page size and `alignment` a power of two.
    pub fn new(size: u64, alignment: u64, direction: Direction) -> Option<Self> {
        assert!(size > 0 && size.is_multiple_of(PAGE_SIZE), "a size is a positive multiple of the page size");
        assert!(alignment.is_power_of_two(), "an alignment is a power of two");
        let len = u32::try_from(size / PAGE_SIZE).ok().filter(|&len| len <= super::MAX_PAGES)?;
        // Every alignment beyond the largest segment leaves its start alone, like this one.
        let alignment = (alignment / PAGE_SIZE).clamp(1, 1 << 31) as u32;
        Some(Self { len, alignment, direction })
    }

    pub fn alignment_bytes(self) -> u64 {
        u64::from(self.alignment) * PAGE_SIZE
    }

    /// The length of a run in which it fits wherever the run starts.
    pub fn surely(self) -> u32 {
        self.len.saturating_add(self.alignment - 1)
    }

    /// Chooses a hole from `at_least`, which names the holes of at least so many pages, smaller ones first: the smallest in
    /// which the want fits, but for an alignment that many holes miss. Then, after [`LOOKED_AT`] of them, it is the smallest
    /// that cannot miss it. Only if there is none such are all the others looked at. `None` is that it fits nowhere.
    pub fn choose<T: Copy, I: Iterator<Item = T>>(
        self,
        at_least: impl Fn(u32) -> I,
        run: impl Fn(T) -> Run,
    ) -> Option<(T, Run)> {
        let fit = |hole: T| Some((hole, self.fit(run(hole))?));
        let near = at_least(self.len).take(LOOKED_AT).find_map(fit);
        let sure = || at_least(self.surely()).find_map(fit);
        near.or_else(sure).or_else(|| at_least(self.len).skip(LOOKED_AT).find_map(fit))
    }

    /// Its place in `hole`, as near as can be to the end that its direction names.
    pub fn fit(self, hole: Run) -> Option<Run> {
        let start = match self.direction {
            Direction::FromStart => hole.start.next_multiple_of(self.alignment),
            Direction::FromEnd => hole.end().checked_sub(self.len)? & !(self.alignment - 1),
        };
        let run = Run { start, len: self.len };
        hole.contains(run).then_some(run)
    }
}
