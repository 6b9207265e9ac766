//! The gaps and ranges between the fixed ranges of a segment.

use crate::Direction;
use alloc::vec::Vec;
use core::{iter, ops::Range};

use super::{
    super::{
        run::{Run, Want},
        segment::LinearSegment,
    },
    Movable,
};

/// A hole, or a range that may move.
#[derive(Clone, Copy)]
pub struct Piece {
    pub run: Run,
    /// The movable range as something that wants a place; `None` is a hole.
    pub mover: Option<Want>,
}

/// Holes and movable ranges by place. Those that touch make up a gap: it ends at fixed ranges.
pub struct Layout {
    pub pieces: Vec<Piece>,
    /// The movable pages among the pieces before each, and among all.
    moving_before: Vec<u32>,
}

impl Layout {
    pub fn new(segment: &LinearSegment, movable: &[Movable]) -> Self {
        let run = |extent| Run::of(extent).expect("what is movable is whole pages of the segment");
        let is_aligned = |one: &Movable| one.range.offset.is_multiple_of(one.alignment);
        assert!(movable.iter().all(is_aligned), "what is movable is aligned where it is");
        let holes = segment.holes().map(|hole| Piece { run: run(hole), mover: None });
        let movers = movable.iter().map(|one| {
            let mover = Want::new(one.range.size, one.alignment, Direction::FromStart);
            Piece { run: run(one.range), mover }
        });
        let mut pieces: Vec<Piece> = holes.chain(movers).collect();
        pieces.sort_unstable_by_key(|piece| piece.run.start);
        let is_apart = pieces.is_sorted_by(|a, b| a.run.end() <= b.run.start);
        assert!(is_apart, "movable ranges are placed, and do not overlap");
        let moving = |piece: &Piece| if piece.mover.is_some() { piece.run.len } else { 0 };
        let sums = pieces.iter().scan(0, |sum, piece| {
            *sum += moving(piece);
            Some(*sum)
        });
        let moving_before = iter::once(0).chain(sums).collect();
        Self { pieces, moving_before }
    }

    /// The pieces of each gap, by place.
    pub fn gaps(&self) -> impl Iterator<Item = Range<usize>> {
        let mut start = 0;
        let bounds = self.pieces.chunk_by(|a, b| a.run.end() == b.run.start);
        bounds.map(move |chunk| {
            let gap = start..start + chunk.len();
            start = gap.end;
            gap
        })
    }

    /// The pages of a gap.
    pub fn span(&self, gap: &Range<usize>) -> Run {
        Run::between(self.pieces[gap.start].run.start, self.pieces[gap.end - 1].run.end())
    }

    /// Movable pages among these pieces.
    pub fn moving(&self, pieces: &Range<usize>) -> u32 {
        self.moving_before[pieces.end] - self.moving_before[pieces.start]
    }

    /// The pieces that reach into `window`.
    pub fn reaching_into(&self, window: Run) -> Range<usize> {
        let start = self.pieces.partition_point(|piece| piece.run.end() <= window.start);
        start..self.pieces.partition_point(|piece| piece.run.start < window.end())
    }
}
