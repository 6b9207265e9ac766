//! The order of arrival, and the uses since a look: the ground of second chance and SIEVE.

use super::{Subject, slots::Slots};

/// Allocations by their positions in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    /// The positions, each with [`USED`] if a use was noted.
    known: Slots<u64>,
    /// The last position.
    last: u64,
}

/// A bit above all positions.
const USED: u64 = 1 << 63;

impl Arrivals {
    /// Notes a use.
    pub fn note_use(&mut self, subject: Subject) {
        *self.known.entry(subject.slot) |= USED;
    }

    /// Adds an allocation at the end. The use that brings an allocation in is not noted.
    pub fn arrive(&mut self, subject: Subject) {
        self.last += 1;
        *self.known.entry(subject.slot) = self.last;
    }

    /// The position of an allocation.
    pub fn position(&self, slot: usize) -> u64 {
        self.known.get(slot) & !USED
    }

    /// Whether a use was noted since the last look.
    pub fn take_use(&mut self, slot: usize) -> bool {
        let known = self.known.entry(slot);
        core::mem::replace(known, *known & !USED) & USED != 0
    }

    /// Moves an allocation to the end. Returns the position.
    pub fn move_to_end(&mut self, slot: usize) -> u64 {
        self.last += 1;
        let known = self.known.entry(slot);
        *known = *known & USED | self.last;
        self.last
    }

    /// Forgets an allocation.
    pub fn forget(&mut self, subject: Subject) {
        *self.known.entry(subject.slot) = 0;
    }
}
