//! A list of extents that costs nothing extra when it holds one, as nearly always.

use alloc::{boxed::Box, vec::Vec};

use crate::units::Extent;

/// The extents of an allocation, in the order of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Extents {
    One(Extent),
    Many(Box<[Extent]>),
}

impl Extents {
    pub fn as_slice(&self) -> &[Extent] {
        match self {
            Extents::One(extent) => core::slice::from_ref(extent),
            Extents::Many(extents) => extents,
        }
    }

    pub fn bytes(&self) -> u64 {
        self.as_slice().iter().map(|extent| extent.size).sum()
    }

    /// The runs of memory that hold `size` bytes from `offset` on: where each begins in the allocation, and where it lies.
    pub fn runs(&self, offset: u64, size: u64) -> impl Iterator<Item = (u64, Extent)> {
        let end = offset + size;
        let mut start = 0;
        self.as_slice().iter().filter_map(move |extent| {
            let (from, to) = (start.max(offset), (start + extent.size).min(end));
            let run = (from < to).then(|| (from, Extent { offset: extent.offset + (from - start), size: to - from }));
            start += extent.size;
            run
        })
    }
}

impl From<Vec<Extent>> for Extents {
    /// # Panics
    ///
    /// If there is none.
    fn from(extents: Vec<Extent>) -> Self {
        assert!(!extents.is_empty(), "a placed allocation has at least one extent");
        if let [only] = extents[..] { Extents::One(only) } else { Extents::Many(extents.into()) }
    }
}
