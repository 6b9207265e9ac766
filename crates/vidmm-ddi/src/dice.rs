//! Draws, by a seed.

use std::cell::Cell;

/// Draws that depend on a seed alone.
#[derive(Clone, Debug, Default)]
pub(crate) struct Dice(Cell<u64>);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(Cell::new(seed ^ 0x7664_6D6D_2D64_6469))
    }

    fn next(&self) -> u64 {
        let state = self.0.get().wrapping_add(0x9E37_79B9_7F4A_7C15);
        self.0.set(state);
        let mixed = (state ^ (state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`; 0 if that is 0.
    pub fn below(&self, end: u64) -> u64 {
        self.next().checked_rem(end).unwrap_or_default()
    }
}
