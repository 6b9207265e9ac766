//! The aperture segment of the test world: a table of what its pages show.

use std::collections::BTreeMap;

use vidmm::contract::*;
use vidmm::{PAGE_SIZE, PhysicalAddress, SegmentId};

use super::host::Ledger;

#[derive(Debug)]
pub struct Aperture {
    segment: SegmentId,
    pages: u64,
    is_coherent: bool,
    shown: BTreeMap<u64, (KmdAllocationHandle, PhysicalAddress)>,
    /// The memory that a page shows which was mapped once.
    unmapped: BTreeMap<u64, PhysicalAddress>,
}

impl Aperture {
    pub fn new(segment: SegmentId, pages: u64, is_coherent: bool) -> Self {
        Self { segment, pages, is_coherent, shown: BTreeMap::new(), unmapped: BTreeMap::new() }
    }

    /// Nothing is shown any more.
    pub fn lose_power(&mut self) {
        (self.shown, self.unmapped) = (BTreeMap::new(), BTreeMap::new());
    }

    fn range(&self, segment: SegmentId, first: u64, count: u64) -> std::ops::Range<u64> {
        assert_eq!(segment, self.segment, "SEG-10: there is one aperture segment");
        assert!(
            count > 0 && first + count <= self.pages,
            "BPB-30: {count} pages from {first} on are not in the aperture"
        );
        first..first + count
    }

    pub fn map(&mut self, op: &MapApertureSegment, host: &Ledger) {
        let range = self.range(op.segment_id, op.offset_in_pages, op.number_of_pages);
        assert!(op.mdl.segment.is_system() && op.mdl.offset.is_multiple_of(PAGE_SIZE), "BPB-30: {op:?}");
        let coherent = op.flags.contains(MapApertureFlags::CACHE_COHERENT);
        assert!(self.is_coherent || !coherent, "BPB-30: this aperture is not cache-coherent: {op:?}");
        for (page, at) in range.zip((op.mdl.offset..).step_by(PAGE_SIZE as usize)) {
            assert!(host.holds(at), "BPB-30: {at:#x} is not committed: {op:?}");
            let before = self.shown.insert(page, (op.allocation, PhysicalAddress { offset: at, ..op.mdl }));
            assert!(before.is_none(), "I01: page {page} of the aperture shows {before:?} and then {op:?}");
            self.unmapped.remove(&page);
        }
    }

    pub fn unmap(&mut self, op: &UnmapApertureSegment, host: &Ledger) {
        let dummy = op.dummy_page;
        assert!(dummy.segment.is_system() && host.holds(dummy.offset), "BPB-33: no dummy page: {op:?}");
        for page in self.range(op.segment_id, op.offset_in_pages, op.number_of_pages) {
            let before = self.shown.remove(&page);
            let own = before.is_some_and(|(allocation, _)| allocation == op.allocation);
            assert!(own, "BPB-33: page {page} shows {before:?}, not what is unmapped: {op:?}");
            self.unmapped.insert(page, dummy);
        }
    }

    /// The pages of the aperture that show `allocation`, lowest first.
    pub fn pages_of(&self, allocation: KmdAllocationHandle) -> Vec<u64> {
        self.shown.iter().filter(|(_, shown)| shown.0 == allocation).map(|(&page, _)| page).collect()
    }

    /// The memory that a page shows now; none if it was never mapped.
    pub fn shows(&self, page: u64) -> Option<PhysicalAddress> {
        self.shown.get(&page).map(|shown| shown.1).or_else(|| self.unmapped.get(&page).copied())
    }

    /// The memory behind an address: of the aperture what it shows, and else the address itself.
    pub fn resolve(&self, address: PhysicalAddress) -> PhysicalAddress {
        if address.segment != self.segment {
            return address;
        }
        let page = address.offset / PAGE_SIZE;
        let shown = self.shown.get(&page);
        shown.unwrap_or_else(|| panic!("I24: an access finds the dummy page at page {page} of the aperture")).1
    }

    pub fn contains(&self, address: PhysicalAddress, first: u64, count: u64) -> bool {
        address.segment == self.segment && (first..first + count).contains(&(address.offset / PAGE_SIZE))
    }

    /// No page may show memory that the system has got back.
    pub fn check(&self, host: &Ledger) {
        for (page, (allocation, at)) in &self.shown {
            assert!(
                host.holds(at.offset),
                "I28: page {page} of the aperture shows {allocation:?}, whose memory is gone"
            );
        }
    }

    pub fn is_empty(&self) -> bool {
        self.shown.is_empty()
    }
}
