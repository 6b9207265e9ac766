//! Where an allocation is resident, in one word.

use crate::{budget::account::Account, data::u56::U56, units::PAGE_SIZE};
/// Where an allocation is resident (1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the memory segment.
    Memory(MemoryPlace),
    /// In the implicit system memory segment: where its backing store is (SEG-12).
    System,
    /// There too, and in the aperture segment from this page on (SEG-13).
    Aperture(PageOffset),
}

/// Where in the memory segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryPlace {
    /// All of it from this page on.
    Whole(PageOffset),
    /// In parts, which the allocation lists apart.
    Parts,
}

/// A multiple of 4 KiB from the start of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageOffset(U56);

const _: () = assert!(size_of::<Option<Place>>() == 8);

impl Place {
    /// What it takes there.
    pub fn account(self) -> Account {
        match self {
            Place::Memory(_) => Account::Memory,
            Place::System | Place::Aperture(_) => Account::System,
        }
    }
}

impl PageOffset {
    /// The page that begins after `bytes`.
    pub fn of_bytes(bytes: u64) -> Self {
        debug_assert!(bytes.is_multiple_of(PAGE_SIZE), "segments are handed out in pages");
        Self(U56::new(bytes / PAGE_SIZE))
    }

    /// In bytes.
    pub fn bytes(self) -> u64 {
        self.0.get() * PAGE_SIZE
    }
}
