//! The ranges that may be moved, and where they go.

use crate::Extent;

/// A range that is placed and may be moved. All else that is placed is fixed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Movable {
    /// Where it is.
    pub range: Extent,
    /// Of its offset, in bytes: a power of two. Below the page size it is that of a page.
    pub alignment: u64,
}

/// A range that gets another place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// Where it is.
    pub range: Extent,
    /// Its new offset in bytes. Old and new place may overlap.
    pub offset: u64,
}

impl Move {
    /// Where it will be.
    pub const fn destination(&self) -> Extent {
        Extent { offset: self.offset, size: self.range.size }
    }
}
