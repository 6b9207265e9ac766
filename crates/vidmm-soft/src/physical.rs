//! The memories that the GPU reaches: local and system.

use std::sync::MutexGuard;

use vidmm::{PAGE_SIZE, PhysicalAddress, SegmentId};

use crate::driver::LOCAL_SEGMENT;
use crate::memory::SparseMemory;

/// Consecutive pages of one segment, or nothing at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PhysicalRun {
    /// Where the first page is.
    pub place: Place,
    /// How many pages of 4 KiB.
    pub pages: u64,
}

/// Where a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Nowhere: reads give 0, writes are dropped (GVA-20).
    Zero,
    /// In memory.
    Memory {
        /// The segment.
        segment: SegmentId,
        /// The number of the page in the segment.
        page: u64,
    },
}

impl PhysicalRun {
    /// Whether `next` continues this run.
    fn is_continued_by(&self, next: Place) -> bool {
        match (self.place, next) {
            (Place::Zero, Place::Zero) => true,
            (Place::Memory { segment, page }, Place::Memory { segment: next_segment, page: next_page }) => {
                segment == next_segment && page + self.pages == next_page
            }
            _ => false,
        }
    }

    /// Appends `pages` pages at `place` to `runs`.
    pub fn append(runs: &mut Vec<PhysicalRun>, place: Place, pages: u64) {
        match runs.last_mut() {
            Some(last) if last.is_continued_by(place) => last.pages += pages,
            _ => runs.push(PhysicalRun { place, pages }),
        }
    }
}

/// Both memories, system memory locked.
pub struct PhysicalMemory<'a> {
    /// Segment 1.
    pub local: &'a mut SparseMemory,
    /// Segment 0.
    pub system: MutexGuard<'a, SparseMemory>,
}

impl PhysicalMemory<'_> {
    /// The memory of `segment`; the aperture has none.
    #[inline]
    pub fn segment(&self, segment: SegmentId) -> Option<&SparseMemory> {
        match segment {
            SegmentId::SYSTEM => Some(&self.system),
            LOCAL_SEGMENT => Some(self.local),
            _ => None,
        }
    }

    /// The memory of `segment`, to be written.
    pub fn segment_mut(&mut self, segment: SegmentId) -> Option<&mut SparseMemory> {
        match segment {
            SegmentId::SYSTEM => Some(&mut self.system),
            LOCAL_SEGMENT => Some(self.local),
            _ => None,
        }
    }

    /// Whether `pages` pages from `page` on are inside `segment`.
    pub fn contains(&self, segment: SegmentId, page: u64, pages: u64) -> bool {
        self.segment(segment).is_some_and(|memory| memory.contains(page, pages))
    }

    /// The word at `address`; `None` outside of all memory.
    #[inline]
    pub fn read_word(&self, address: PhysicalAddress) -> Option<u64> {
        let memory = self.segment(address.segment)?;
        memory.contains(address.offset / PAGE_SIZE, 1).then(|| memory.read_word(address.offset))
    }
}
