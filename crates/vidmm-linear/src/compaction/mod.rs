//! Compaction: which ranges to move so that a hole comes to be.

mod layout;
mod search;
mod slides;
mod windows;

use crate::Direction;
use alloc::vec::Vec;

use super::{
    moves::{Movable, Move},
    run::Want,
    segment::LinearSegment,
};
use crate::Extent;
use layout::Layout;

/// How many of the cheapest places are tried, for windows and for slides.
const TRIES: usize = 32;

/// Moves after which a hole exists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compaction {
    /// The moves. Afterwards no two ranges overlap, those that did not move included.
    pub moves: Vec<Move>,
    /// Whether each destination is free of all but the range itself once the moves before it are made. A driver that moves
    /// within a segment (BPB-29) can make such moves one by one; else all must leave before the first returns.
    pub in_order: bool,
    /// The range that is free then, as long as was asked for.
    pub hole: Extent,
}

impl Compaction {
    /// A plan of which it is not known yet whether its moves can be made one by one.
    fn new(moves: Vec<Move>, hole: Extent) -> Self {
        Self { moves, in_order: false, hole }
    }

    fn finish(self, scratch: &mut LinearSegment) -> Self {
        let mut transaction = scratch.transaction();
        let mut moves = self.moves.iter();
        let in_order = moves.all(|one| transaction.make_moves(core::slice::from_ref(one)).is_some());
        Self { in_order, ..self }
    }

    /// Bytes that move.
    pub fn bytes_moved(&self) -> u64 {
        self.moves.iter().map(|one| one.range.size).sum()
    }
}

/// Why there is no plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CompactionError {
    /// No moves of what may be moved make the hole. This is proven.
    #[error("no moves make the hole")]
    Impossible,
    /// Nothing was found in the time that a plan may take. Moves may exist.
    #[error("no moves were found that make the hole")]
    NotFound,
}

impl LinearSegment {
    /// Plans moves after which `size` bytes at a multiple of `alignment` are free. Changes nothing.
    ///
    /// If there is such a hole already, nothing moves. Else three ways are tried. *Windows*: what is in the way of the
    /// hole goes to other holes, the largest first. *Slides*: neighbours move towards the start, so that the holes
    /// between them become one. Of the cheapest plans that these find, the one that moves fewer bytes is returned. Only
    /// if both find none, up to 256 ranges are packed anew from nothing, and if no packing exists, that is the proof.
    ///
    /// Takes O(n log n) time for n holes and movable ranges, beside a limited number of tries.
    ///
    /// # Errors
    ///
    /// If it cannot be done, or no way was found.
    ///
    /// # Panics
    ///
    /// If ranges of `movable` overlap, are not all placed and aligned, or are not whole pages; or as
    /// [`allocate`](Self::allocate).
    pub fn plan_compaction(
        &self,
        movable: &[Movable],
        size: u64,
        alignment: u64,
    ) -> Result<Compaction, CompactionError> {
        let want = Want::new(size, alignment, Direction::FromStart).ok_or(CompactionError::Impossible)?;
        if self.free_bytes() < size {
            return Err(CompactionError::Impossible);
        }
        if let Some((_, place)) = self.find(want) {
            return Ok(Compaction { moves: Vec::new(), in_order: true, hole: place.extent() });
        }
        let layout = Layout::new(self, movable);
        if !layout.gaps().any(|gap| want.fit(layout.span(&gap)).is_some()) {
            return Err(CompactionError::Impossible);
        }
        let mut scratch = self.clone();
        let found = [windows::plan(&layout, want, &mut scratch), slides::plan(&layout, want)];
        let cheapest = found.into_iter().flatten().min_by_key(Compaction::bytes_moved);
        let compaction = cheapest.map_or_else(|| search::plan(&layout, want), Ok)?;
        Ok(compaction.finish(&mut scratch))
    }
}
