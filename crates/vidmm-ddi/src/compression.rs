//! Pages that the driver's GPU holds compressed: the marks, and the allocations that they are of.

use std::collections::{BTreeMap, BTreeSet};

use vidmm::contract::KmdAllocationHandle;
use vidmm_soft::page_key;

/// The marks of all surfaces. A surface is numbered from 1 for the driver, since 0 is none.
#[derive(Debug, Default)]
pub(crate) struct Compression {
    /// The pages that hold compressed bytes: by surface, and as pages of the allocation.
    marks: BTreeSet<(u32, u64)>,
    surfaces: BTreeMap<KmdAllocationHandle, u32>,
}

impl Compression {
    /// An allocation has a surface.
    pub fn add(&mut self, allocation: KmdAllocationHandle, surface: u32) {
        self.surfaces.insert(allocation, surface);
    }

    /// An allocation is no more.
    pub fn remove(&mut self, allocation: KmdAllocationHandle) {
        if let Some(surface) = self.surfaces.remove(&allocation) {
            self.marks.retain(|&(of, _)| of != surface);
        }
    }

    /// The allocation of a surface.
    pub fn allocation_of(&self, surface: u32) -> Option<KmdAllocationHandle> {
        self.surfaces.iter().find(|&(_, &of)| of == surface).map(|(&allocation, _)| allocation)
    }

    /// A page was written compressed. Returns the key that its words are combined with.
    pub fn mark(&mut self, surface: u32, page: u64) -> u64 {
        self.marks.insert((surface, page));
        page_key(surface, page)
    }

    /// The key of a page's words; none if the page is plain.
    pub fn key(&self, surface: u32, page: u64) -> Option<u64> {
        self.marks.contains(&(surface, page)).then(|| page_key(surface, page))
    }

    /// A page becomes plain. Returns the key that its words were combined with; none if it was plain.
    pub fn clear(&mut self, surface: u32, page: u64) -> Option<u64> {
        self.marks.remove(&(surface, page)).then(|| page_key(surface, page))
    }

    /// The key of a page of an allocation; none if it is plain.
    pub fn key_of(&self, allocation: KmdAllocationHandle, page: u64) -> Option<u64> {
        self.key(*self.surfaces.get(&allocation)?, page)
    }

    /// The first of some pages of an allocation that is compressed.
    pub fn first(&self, allocation: KmdAllocationHandle, pages: std::ops::Range<u64>) -> Option<u64> {
        let surface = *self.surfaces.get(&allocation)?;
        self.marks.range((surface, pages.start)..(surface, pages.end.max(pages.start))).next().map(|&(_, page)| page)
    }

    /// The content of the memory is lost, and the marks with it.
    pub fn lose(&mut self) {
        self.marks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_compressed_until_it_is_cleared_or_its_allocation_goes() {
        let (mut compression, allocation) = (Compression::default(), KmdAllocationHandle(7));
        compression.add(allocation, 1);
        let key = compression.mark(1, 3);
        assert_eq!(compression.first(allocation, 0..8), Some(3));
        assert_eq!(compression.first(allocation, 4..8), None);
        assert_eq!(compression.key_of(allocation, 3), Some(key));
        assert_eq!(compression.clear(1, 3), Some(key));
        assert_eq!(compression.clear(1, 3), None);
        compression.mark(1, 4);
        compression.remove(allocation);
        assert_eq!(compression.key(1, 4), None);
    }
}
