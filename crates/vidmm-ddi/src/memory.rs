//! Memory as the driver and its GPU's model address it.

use std::cell::RefCell;

use vidmm::contract::{AdapterInfo, SegmentFlags};
use vidmm::{PAGE_SIZE, PhysicalAddress, SegmentId};
use vidmm_runtime::Content;
use vidmm_soft::{PageContents, SparseMemory, SystemMemory};

/// Neighbouring pages of system memory do not follow one another for a driver: a driver that takes the first page of a list and
/// counts on goes to a wrong one.
///
/// The permutation is its own inverse, moves every page, and keeps no two neighbours together.
fn permuted(page: u64) -> u64 {
    page ^ 0b101
}

/// The number of a page that no memory has. It stands behind the last page of a list.
pub(crate) const NO_PAGE: u64 = 0x000D_EAD0_0000;

/// The number of a page that no memory has. It stands in a list whose operation is over (DRV-03).
pub(crate) const RETIRED_PAGE: u64 = 0x000D_EAD1_0000;

/// A place as the driver sees it: of system memory, a permuted page.
pub(crate) fn to_driver(address: PhysicalAddress) -> (u32, u64) {
    let offset = match address.segment.is_system() {
        true => permuted(address.offset / PAGE_SIZE) * PAGE_SIZE + address.offset % PAGE_SIZE,
        false => address.offset,
    };
    (address.segment.0.into(), offset)
}

/// The number of the page at `address`, as the driver sees it.
pub(crate) fn page_to_driver(address: PhysicalAddress) -> u64 {
    to_driver(address).1 / PAGE_SIZE
}

/// A place that the driver has named; none if there is no such segment.
pub(crate) fn from_driver(segment: u32, offset: u64) -> Option<PhysicalAddress> {
    let segment = SegmentId(u8::try_from(segment).ok()?);
    let (_, offset) = to_driver(PhysicalAddress { segment, offset });
    Some(PhysicalAddress { segment, offset })
}

/// Where the segments of an adapter begin in what its engines address.
#[derive(Clone, Default)]
pub(crate) struct SegmentBases(Vec<u64>);

impl SegmentBases {
    pub fn new(info: &AdapterInfo) -> Self {
        Self(info.segments.iter().map(|segment| segment.base_address).collect())
    }

    /// The address of a place in a segment, from the segment's BaseAddress on: as physical operations and allocation lists name it.
    pub fn address(&self, place: PhysicalAddress) -> u64 {
        let base = usize::from(place.segment.0).checked_sub(1).and_then(|index| self.0.get(index));
        base.map_or(place.offset, |base| base.wrapping_add(place.offset))
    }
}

/// The memory of one machine: system memory, and the memory segments.
pub(crate) struct Memory {
    system: SystemMemory,
    /// By id from 1; an aperture has none.
    segments: RefCell<Vec<Option<SparseMemory>>>,
}

impl Memory {
    /// The memory of the adapter that `info` describes.
    pub fn new(info: &AdapterInfo, system: SystemMemory) -> Self {
        let segments = info.segments.iter().map(|segment| {
            let has_memory = !segment.flags.contains(SegmentFlags::APERTURE);
            has_memory.then(|| SparseMemory::new(segment.size))
        });
        Self { system, segments: RefCell::new(segments.collect()) }
    }

    /// Whether a segment that the driver has named is an aperture.
    pub fn is_aperture(&self, segment: u32) -> bool {
        let index = (segment as usize).checked_sub(1);
        index.is_some_and(|index| self.segments.borrow().get(index).is_some_and(Option::is_none))
    }

    /// Lets `action` work on the page at a place of the manager's; none if there is no memory.
    pub fn with_page<T>(
        &self,
        address: PhysicalAddress,
        action: impl FnOnce(&mut SparseMemory, u64) -> T,
    ) -> Option<T> {
        let page = address.offset / PAGE_SIZE;
        if address.segment.is_system() {
            let mut memory = self.system.lock();
            return memory.contains(page, 1).then(|| action(&mut memory, page));
        }
        let mut segments = self.segments.borrow_mut();
        let memory = segments.get_mut(usize::from(address.segment.0) - 1)?.as_mut()?;
        memory.contains(page, 1).then(|| action(memory, page))
    }

    /// The same at a place that the driver has named.
    fn with_driver_page<T>(
        &self,
        segment: u32,
        offset: u64,
        action: impl FnOnce(&mut SparseMemory, u64) -> T,
    ) -> Option<T> {
        self.with_page(from_driver(segment, offset)?, action)
    }

    /// Reads bytes at a place that the driver has named. Returns whether there is memory.
    pub fn read(&self, segment: u32, offset: u64, data: &mut [u8]) -> bool {
        for_each_page(offset, data.len(), |at, range| {
            let data = &mut data[range];
            let read = |memory: &mut SparseMemory, page: u64| {
                let (mut at, mut done) = (at % PAGE_SIZE, 0);
                while done < data.len() {
                    let word = memory.read_word(page * PAGE_SIZE + (at & !7)).to_le_bytes();
                    let first = (at % 8) as usize;
                    let count = (8 - first).min(data.len() - done);
                    data[done..done + count].copy_from_slice(&word[first..first + count]);
                    (at, done) = (at + count as u64, done + count);
                }
            };
            self.with_driver_page(segment, at, read).is_some()
        })
    }

    /// Writes bytes at a place that the driver has named. Returns whether there is memory.
    pub fn write(&self, segment: u32, offset: u64, data: &[u8]) -> bool {
        for_each_page(offset, data.len(), |at, range| {
            let data = &data[range];
            let write = |memory: &mut SparseMemory, page: u64| {
                let words = memory.words_mut(page);
                for (&byte, at) in data.iter().zip((at % PAGE_SIZE) as usize..) {
                    let shift = at % 8 * 8;
                    words[at / 8] = words[at / 8] & !(0xFF << shift) | u64::from(byte) << shift;
                }
            };
            self.with_driver_page(segment, at, write).is_some()
        })
    }

    /// Reads the bytes of a place of the manager's, page by page. What there is no memory for reads as zeros.
    pub fn read_place(&self, place: PhysicalAddress, data: &mut [u8]) {
        for (page, data) in (0..).zip(data.chunks_mut(PAGE_SIZE as usize)) {
            let (segment, offset) = to_driver(place.offset_by(page * PAGE_SIZE));
            self.read(segment, offset, data);
        }
    }

    /// Writes the bytes of a place of the manager's, page by page.
    pub fn write_place(&self, place: PhysicalAddress, data: &[u8]) {
        for (page, data) in (0..).zip(data.chunks(PAGE_SIZE as usize)) {
            let (segment, offset) = to_driver(place.offset_by(page * PAGE_SIZE));
            self.write(segment, offset, data);
        }
    }

    /// Copies a page between places that the driver has named. Returns whether there is memory.
    pub fn copy_page(&self, to: (u32, u64), from: (u32, u64)) -> bool {
        let mut contents = PageContents::default();
        let read = |memory: &mut SparseMemory, page| memory.read_contents(page, 1, &mut contents);
        self.with_driver_page(from.0, from.1, read).is_some()
            && self.with_driver_page(to.0, to.1, |memory, page| memory.write_contents(page, 1, &contents, 0)).is_some()
    }

    /// Fills a page at a place that the driver has named. Returns whether there is memory.
    pub fn fill_page(&self, to: (u32, u64), pattern: u32) -> bool {
        self.with_driver_page(to.0, to.1, |memory, page| memory.fill(page, 1, pattern)).is_some()
    }

    /// The digest of a page.
    pub fn page_digest(&self, address: PhysicalAddress) -> Option<u64> {
        self.with_page(address, |memory, page| memory.page_digest(page))
    }

    /// The digest of a page as it is when its words are combined with `key`.
    pub fn plain_digest(&self, address: PhysicalAddress, key: u64) -> Option<u64> {
        self.with_page(address, |memory, page| {
            let mut contents = PageContents::default();
            memory.read_contents(page, 1, &mut contents);
            contents.xor(0, key);
            contents.digest(0)
        })
    }

    /// Combines the words of a page with `key`. Returns whether there is memory.
    pub fn xor_page(&self, address: PhysicalAddress, key: u64) -> bool {
        self.with_page(address, |memory, page| memory.xor_pages(page, 1, |_| key)).is_some()
    }

    /// Writes a page with the words of a kernel. Returns whether there is memory.
    pub fn write_page(&self, address: PhysicalAddress, content: Content, seed: u64) -> bool {
        self.with_page(address, |memory, page| memory.write_pages(page, 1, content, |_| seed)).is_some()
    }

    /// The content of the memory segments is lost.
    pub fn lose_content(&self) {
        self.segments.borrow_mut().iter_mut().flatten().for_each(SparseMemory::spoil);
    }
}

/// Cuts a range of bytes at the borders of pages, as long as `action` returns true.
fn for_each_page(offset: u64, size: usize, mut action: impl FnMut(u64, std::ops::Range<usize>) -> bool) -> bool {
    let mut done = 0;
    while done < size {
        let Some(at) = offset.checked_add(done as u64) else { return false };
        let part = (size - done).min((PAGE_SIZE - at % PAGE_SIZE) as usize);
        if !action(at, done..done + part) {
            return false;
        }
        done += part;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_neighbouring_pages_follow_one_another() {
        for page in 0..1000 {
            assert_eq!(permuted(permuted(page)), page);
            assert_ne!(permuted(page), page);
            assert_ne!(permuted(page) + 1, permuted(page + 1), "pages {page} and {}", page + 1);
        }
    }
}
