//! A list of extents that costs two words when it holds one, as nearly always.

use alloc::{boxed::Box, vec::Vec};

use crate::units::{Extent, PAGE_SIZE};

/// The extents of an allocation, in the order of its bytes. All are whole pages of 4 KiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Extents {
    One {
        pages: u32,
        offset: u64,
    },
    #[expect(clippy::box_collection, reason = "a thin pointer keeps the common case at two words")]
    Many(Box<Vec<Extent>>),
}

impl Extents {
    /// One extent.
    pub fn one(extent: Extent) -> Self {
        match u32::try_from(extent.size / PAGE_SIZE) {
            Ok(pages) => Extents::One { pages, offset: extent.offset },
            Err(_) => Extents::Many(Box::new(Vec::from([extent]))),
        }
    }

    /// The extents.
    pub fn iter(&self) -> impl Iterator<Item = Extent> {
        let (one, many) = match self {
            &Extents::One { pages, offset } => (Some(Extent { offset, size: u64::from(pages) * PAGE_SIZE }), &[][..]),
            Extents::Many(extents) => (None, extents.as_slice()),
        };
        one.into_iter().chain(many.iter().copied())
    }

    /// The first extent: there is one.
    pub fn first(&self) -> Extent {
        self.iter().next().expect("a placed allocation has at least one extent")
    }

    /// The sum of their sizes.
    pub fn bytes(&self) -> u64 {
        self.iter().map(|extent| extent.size).sum()
    }

    /// The runs of memory that hold `size` bytes from `offset` on: where each begins in the allocation, and where it lies.
    pub fn runs(&self, offset: u64, size: u64) -> impl Iterator<Item = (u64, Extent)> {
        let end = offset + size;
        let mut start = 0;
        self.iter().filter_map(move |extent| {
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
        if let [only] = extents[..] { Extents::one(only) } else { Extents::Many(Box::new(extents)) }
    }
}
