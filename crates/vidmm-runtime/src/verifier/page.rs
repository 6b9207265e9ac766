//! Pages of memory.

use std::ops::Range;

use vidmm::{GpuVirtualAddress, PAGE_SIZE, PhysicalAddress, SegmentId};

/// A page of memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Page {
    pub segment: SegmentId,
    /// The number of the page in the segment.
    pub number: u64,
}

impl Page {
    pub fn address(self) -> PhysicalAddress {
        PhysicalAddress { segment: self.segment, offset: self.number * PAGE_SIZE }
    }

    /// The page at an address, which is in no aperture.
    pub fn of(address: PhysicalAddress) -> Self {
        Self { segment: address.segment, number: address.offset / PAGE_SIZE }
    }

    /// So many pages from this one on.
    pub fn run(self, num_pages: u64) -> impl Iterator<Item = Self> {
        (self.number..self.number + num_pages).map(move |number| Self { number, ..self })
    }

    pub fn is_in_run(self, first: Self, num_pages: u64) -> bool {
        self.segment == first.segment && (first.number..first.number + num_pages).contains(&self.number)
    }

    pub fn is_before(self, next: Self) -> bool {
        self.segment == next.segment && self.number + 1 == next.number
    }
}

/// The range of a process's addresses, in pages.
pub(super) fn in_pages(addresses: &Range<GpuVirtualAddress>) -> Range<u64> {
    addresses.start.0 / PAGE_SIZE..addresses.end.0.div_ceil(PAGE_SIZE)
}
