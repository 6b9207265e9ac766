//! The order of arrival, and the uses since a look: the ground of second chance and SIEVE.

use super::{Subject, slots::Slots};

/// Allocations by their positions in the order of arrival.
#[derive(Debug, Default)]
pub(super) struct Arrivals {
    known: Slots<Known>,
    /// The last position.
    last: u64,
}

#[derive(Clone, Debug, Default)]
struct Known {
    position: u64,
    is_used: bool,
}

impl Arrivals {
    /// Notes a use.
    pub fn note_use(&mut self, subject: Subject) {
        self.known.entry(subject.slot).is_used = true;
    }

    /// Adds an allocation at the end. The use that brings an allocation in is not noted.
    pub fn arrive(&mut self, subject: Subject) {
        self.last += 1;
        *self.known.entry(subject.slot) = Known { position: self.last, is_used: false };
    }

    /// The position of an allocation.
    pub fn position(&self, slot: usize) -> u64 {
        self.known.get(slot).position
    }

    /// Whether a use was noted since the last look.
    pub fn take_use(&mut self, slot: usize) -> bool {
        core::mem::take(&mut self.known.entry(slot).is_used)
    }

    /// Moves an allocation to the end. Returns the position.
    pub fn move_to_end(&mut self, slot: usize) -> u64 {
        self.last += 1;
        self.known.entry(slot).position = self.last;
        self.last
    }

    /// Forgets an allocation.
    pub fn forget(&mut self, subject: Subject) {
        *self.known.entry(subject.slot) = Known::default();
    }
}
