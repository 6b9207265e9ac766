//! Transactions: several changes that count together or not at all.

use alloc::vec::Vec;

use super::{banks::HintedBank, direction::Direction, moves::Move, segment::LinearSegment};
use crate::Extent;

/// Changes of a segment that are undone when it is dropped, unless it is [committed](Self::commit). Both cost time in
/// proportion to the changes.
///
/// Undone, the same ranges are free as before. Among holes of one size another may be the next that is taken.
#[derive(Debug)]
#[must_use = "a transaction that is not committed changes nothing"]
pub struct Transaction<'a> {
    segment: &'a mut LinearSegment,
    changes: Vec<Change>,
}

#[derive(Clone, Copy, Debug)]
enum Change {
    Taken(Extent),
    Freed(Extent),
}

impl LinearSegment {
    /// Begins a transaction: what it takes and gives back counts only when it is committed.
    pub fn transaction(&mut self) -> Transaction<'_> {
        Transaction { segment: self, changes: Vec::new() }
    }
}

impl Transaction<'_> {
    /// As [`LinearSegment::allocate`].
    pub fn allocate(
        &mut self,
        size: u64,
        alignment: u64,
        direction: Direction,
        hints: &[HintedBank],
    ) -> Option<Extent> {
        let taken = self.segment.allocate(size, alignment, direction, hints)?;
        self.changes.push(Change::Taken(taken));
        Some(taken)
    }

    /// As [`LinearSegment::allocate_at`].
    pub fn allocate_at(&mut self, range: Extent) -> Option<()> {
        self.segment.allocate_at(range)?;
        self.changes.push(Change::Taken(range));
        Some(())
    }

    /// As [`LinearSegment::free`].
    pub fn free(&mut self, range: Extent) {
        self.segment.free(range);
        self.changes.push(Change::Freed(range));
    }

    /// Moves ranges, all at once: what one leaves, another may take, whatever their order. `None`, and nothing changes, if a
    /// destination is not free then.
    ///
    /// # Panics
    ///
    /// If some of what is to move is free.
    pub fn make_moves(&mut self, moves: &[Move]) -> Option<()> {
        let before = self.changes.len();
        moves.iter().for_each(|one| self.free(one.range));
        let moved = moves.iter().try_for_each(|one| self.allocate_at(one.destination()));
        if moved.is_none() {
            self.undo_since(before);
        }
        moved
    }

    /// The segment as it is now, changes included.
    pub fn segment(&self) -> &LinearSegment {
        self.segment
    }

    /// Keeps the changes.
    pub fn commit(mut self) {
        self.changes.clear();
    }

    /// Undoes the changes, as dropping it does.
    pub fn roll_back(self) {}

    fn undo_since(&mut self, count: usize) {
        for change in self.changes.drain(count..).rev() {
            match change {
                Change::Taken(range) => self.segment.free(range),
                Change::Freed(range) => self.segment.allocate_at(range).expect("what was freed is free"),
            }
        }
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        self.undo_since(0);
    }
}
