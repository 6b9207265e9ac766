//! The segment: what is free of it, and where a request is placed.

use super::{
    MAX_SEGMENT_SIZE,
    banks::{BankRangeTableError, Banks, HintedBank},
    hole::HoleIndex,
    holes::Holes,
    run::{Run, Want},
};
use crate::Direction;
use crate::{Extent, PAGE_SIZE};

/// The free ranges of a linear segment (SEG-13). It keeps nothing about what is placed: the caller does.
#[derive(Clone, Debug)]
pub struct LinearSegment {
    holes: Holes,
}

impl LinearSegment {
    /// A segment of `size` bytes without banks. All of it is free.
    ///
    /// # Panics
    ///
    /// Unless `size` is a positive multiple of the page size and at most [`MAX_SEGMENT_SIZE`].
    pub fn new(size: u64) -> Self {
        Self { holes: Holes::new(pages(size), Banks::default()) }
    }

    /// A segment of `size` bytes whose banks end at the given offsets; the last may be left out (SEG-31).
    ///
    /// # Errors
    ///
    /// If the table does not divide the segment.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new).
    pub fn with_banks(size: u64, bank_ends: &[u64]) -> Result<Self, BankRangeTableError> {
        let pages = pages(size);
        Ok(Self { holes: Holes::new(pages, Banks::new(pages, bank_ends)?) })
    }

    /// Takes `size` bytes at a multiple of `alignment`: in the first of the hinted banks that has room, else anywhere
    /// (SEG-43, SEG-44). An alignment below the page size is that of a page. Returns `None` if it fits nowhere.
    ///
    /// Takes logarithmic time, unless more holes than 32 are long enough but miss the alignment, and none is so long that it
    /// cannot: then all that are long enough are looked at.
    ///
    /// # Panics
    ///
    /// Unless `size` is a positive multiple of the page size and `alignment` a power of two.
    pub fn allocate(
        &mut self,
        size: u64,
        alignment: u64,
        direction: Direction,
        hints: &[HintedBank],
    ) -> Option<Extent> {
        let want = Want::new(size, alignment, direction)?;
        if let Some(place) = hints.iter().find_map(|&hint| self.holes.banks.find(hint, want)) {
            let hole = self.holes.around(place).expect("a part of a hole is free");
            self.holes.take(hole, place);
            return Some(place.extent());
        }
        let (hole, place) = self.find(want)?;
        self.holes.take(hole, place);
        Some(place.extent())
    }

    /// Takes exactly `range`; `None`, and nothing changes, unless it is in the segment and all of it is free.
    ///
    /// # Panics
    ///
    /// Unless offset and size are multiples of the page size, and the size is not 0.
    pub fn allocate_at(&mut self, range: Extent) -> Option<()> {
        let run = self.run(range)?;
        let hole = self.holes.around(run)?;
        self.holes.take(hole, run);
        Some(())
    }

    /// Gives `range` back. It may be a part of what was taken at once, or several neighbours together.
    ///
    /// # Panics
    ///
    /// If some of it is free already or beyond the segment, or its offset or size is no multiple of the page size.
    pub fn free(&mut self, range: Extent) {
        let freed = self.run(range).and_then(|run| self.holes.give(run));
        assert!(freed.is_some(), "{range:?} is given back, but was not all taken");
    }

    /// Whether all of `range` is free.
    ///
    /// # Panics
    ///
    /// As [`allocate_at`](Self::allocate_at).
    pub fn is_free(&self, range: Extent) -> bool {
        self.run(range).is_some_and(|run| self.holes.around(run).is_some())
    }

    /// Bytes of the segment.
    pub fn size(&self) -> u64 {
        u64::from(self.holes.pages()) * PAGE_SIZE
    }

    /// Bytes that are free.
    pub fn free_bytes(&self) -> u64 {
        u64::from(self.holes.free()) * PAGE_SIZE
    }

    /// Bytes of the largest hole; 0 if all is taken.
    pub fn largest_hole(&self) -> u64 {
        u64::from(self.holes.largest()) * PAGE_SIZE
    }

    /// The holes by place. No two of them touch.
    pub fn holes(&self) -> impl Iterator<Item = Extent> + Clone {
        self.holes.iter().map(Run::extent)
    }

    /// Audits the books, in time proportional to all holes.
    ///
    /// # Errors
    ///
    /// If an invariant does not hold, which it names: that is a bug of this module.
    pub fn check(&self) -> Result<(), &'static str> {
        self.holes.check()?;
        let largest = self.holes().map(|hole| hole.size).max().unwrap_or(0);
        if largest == self.largest_hole() { Ok(()) } else { Err("the largest hole is another") }
    }

    /// The best place anywhere, and the hole in which it is.
    pub(super) fn find(&self, want: Want) -> Option<(HoleIndex, Run)> {
        let smallest = self.holes.smallest(want.len, want.direction)?;
        match want.fit(self.holes.run(smallest)) {
            Some(place) => Some((smallest, place)),
            None => want.choose(|len| self.holes.at_least(len, want.direction), |hole| self.holes.run(hole)),
        }
    }

    /// The pages of `range`; `None` if it reaches beyond the segment.
    fn run(&self, range: Extent) -> Option<Run> {
        assert!(
            (range.offset | range.size).is_multiple_of(PAGE_SIZE) && range.size > 0,
            "{range:?} is not whole pages"
        );
        Run::of(range).filter(|run| run.end() <= self.holes.pages())
    }
}

fn pages(size: u64) -> u32 {
    let is_some = size > 0 && size <= MAX_SEGMENT_SIZE && size.is_multiple_of(PAGE_SIZE);
    assert!(is_some, "a linear segment cannot have {size} bytes");
    (size / PAGE_SIZE) as u32
}
