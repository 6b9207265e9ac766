//! Runs of bytes in a segment.

/// Bytes in a page of the contract: MDL offsets, `OffsetInPages` and page-table entries count in these (0.3).
pub const PAGE_SIZE: u64 = 4 << 10;

/// A run of physical memory in one segment. Ours: WDDM has page lists.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Extent {
    /// Bytes from the start of the segment.
    pub offset: u64,
    /// Length in bytes, never 0.
    pub size: u64,
}

impl Extent {
    /// The first byte after the extent.
    pub const fn end(self) -> u64 {
        self.offset + self.size
    }

    /// The same for an extent from a file, perhaps out of range: `u64::MAX` if the sum is larger.
    pub const fn saturating_end(self) -> u64 {
        self.offset.saturating_add(self.size)
    }

    /// Whether the extent contains all of `other`.
    pub const fn contains(self, other: Extent) -> bool {
        self.offset <= other.offset && other.end() <= self.end()
    }

    /// The parts of the extent before and behind `other`.
    pub fn without(self, other: Self) -> impl Iterator<Item = Self> {
        let sides = [(self.offset, other.offset), (other.end(), self.end())];
        sides.into_iter().filter(|(start, end)| start < end).map(|(offset, end)| Self { offset, size: end - offset })
    }
}
