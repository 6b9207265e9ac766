//! The place of a resident allocation, in one word.

use crate::{budget::account::Account, data::packed::U48, units::PAGE_SIZE};

/// The place of a resident allocation (1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the memory segment that this account counts.
    Memory(Account, MemoryPlace),
    /// In the implicit system memory segment, in its backing store (SEG-12).
    System,
    /// In its backing store, and mapped in the aperture segment from this page on (SEG-13).
    Aperture(PageOffset),
}

/// The position in a memory segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MemoryPlace {
    /// All of it from this page on.
    Whole(PageOffset),
    /// In parts, which the allocation lists apart.
    Parts,
}

/// A multiple of 4 KiB from the start of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageOffset(U48);

const _: () = assert!(size_of::<Option<Place>>() == 8);

impl Place {
    /// The account that counts it in this place.
    pub fn account(self) -> Account {
        match self {
            Place::Memory(account, _) => account,
            Place::System | Place::Aperture(_) => Account::SYSTEM,
        }
    }
}

impl PageOffset {
    /// The page that begins after `bytes`.
    pub fn of_bytes(bytes: u64) -> Self {
        debug_assert!(bytes.is_multiple_of(PAGE_SIZE), "segments are handed out in pages");
        Self(U48::new(bytes / PAGE_SIZE))
    }

    /// The offset in bytes.
    pub fn bytes(self) -> u64 {
        self.0.get() * PAGE_SIZE
    }
}
