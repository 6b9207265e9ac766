//! Memory as the driver and its GPU's model address it.

use std::cell::{Cell, RefCell};

use vidmm::contract::{AdapterInfo, SegmentFlags};
use vidmm::{PAGE_SIZE, PhysicalAddress, SegmentId};
use vidmm_runtime::Content;
use vidmm_soft::{PageContents, SparseMemory, SystemMemory};

use crate::dice::Dice;

/// The numbers of pages of system memory, as the driver sees them. They are scattered over the upper half of the machine's memory:
/// no two neighbours stay together, and each number needs all bits of the machine's addresses.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PageNumbers {
    /// Pages in half of the machine's memory: a power of 2.
    half: u64,
    /// An odd number, and the number that undoes its multiplication.
    factor: u64,
    inverse: u64,
    first: u64,
}

impl PageNumbers {
    /// The bits of the smallest and of the largest machine's addresses. The largest is the processor's largest.
    pub const ADDRESS_BITS: std::ops::RangeInclusive<u32> = 34..=52;

    /// Numbers on a machine whose addresses have so many bits.
    pub fn new(dice: &Dice, address_bits: u32) -> Self {
        let half = 1 << (address_bits - 1 - PAGE_SIZE.ilog2());
        let factor = dice.below(half) << 5 | 0b10001;
        // Each step doubles the number of right bits.
        let inverse = (0..6)
            .fold(factor, |inverse: u64, _| inverse.wrapping_mul(2u64.wrapping_sub(factor.wrapping_mul(inverse))));
        Self { half, factor, inverse, first: dice.below(half) }
    }

    /// The machine's highest address.
    pub fn highest_address(self) -> u64 {
        self.half * 2 * PAGE_SIZE - 1
    }

    /// Pages that no machine has change places with the lower half.
    fn number_of(self, page: u64) -> u64 {
        match page / self.half {
            0 => self.half + (page.wrapping_mul(self.factor).wrapping_add(self.first) & (self.half - 1)),
            1 => page - self.half,
            _ => page,
        }
    }

    fn page_of(self, number: u64) -> u64 {
        match number / self.half {
            0 => number + self.half,
            1 => number.wrapping_sub(self.first).wrapping_mul(self.inverse) & (self.half - 1),
            _ => number,
        }
    }
}

thread_local! {
    /// The machine of this thread's adapter.
    static PAGE_NUMBERS: Cell<PageNumbers> = Cell::new(PageNumbers::new(&Dice::default(), *PageNumbers::ADDRESS_BITS.start()));
}

/// From now on this thread's adapter is in a machine with these page numbers.
pub(crate) fn set_page_numbers(numbers: PageNumbers) {
    PAGE_NUMBERS.set(numbers);
}

/// The highest address of this thread's machine.
pub(crate) fn highest_address() -> u64 {
    PAGE_NUMBERS.get().highest_address()
}

/// The number of a page that no memory has. It stands behind the last page of a list.
pub(crate) const NO_PAGE: u64 = 0xDEAD_0000_0000;

/// The number of a page that no memory has. It stands in a list whose operation is over (DRV-03).
pub(crate) const RETIRED_PAGE: u64 = 0xDEAD_1000_0000;

/// An offset whose page has another number.
fn with_page(offset: u64, number: impl FnOnce(u64) -> u64) -> u64 {
    number(offset / PAGE_SIZE) * PAGE_SIZE + offset % PAGE_SIZE
}

/// A place as the driver sees it: of system memory, a scattered page.
pub(crate) fn to_driver(address: PhysicalAddress) -> (u32, u64) {
    let offset = match address.segment.is_system() {
        true => with_page(address.offset, |page| PAGE_NUMBERS.get().number_of(page)),
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
    let offset = match segment.is_system() {
        true => with_page(offset, |number| PAGE_NUMBERS.get().page_of(number)),
        false => offset,
    };
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
    fn page_numbers_are_scattered_over_the_upper_half_of_a_machine() {
        for address_bits in [32].into_iter().chain(PageNumbers::ADDRESS_BITS) {
            let numbers = PageNumbers::new(&Dice::new(address_bits.into()), address_bits);
            assert_eq!(numbers.highest_address(), (1 << address_bits) - 1);
            for page in 0..1000 {
                let number = numbers.number_of(page);
                assert_eq!((number * PAGE_SIZE) >> (address_bits - 1), 1, "{number:#x} needs all bits");
                assert!(number.abs_diff(numbers.number_of(page + 1)) > 1, "pages {page} and {}", page + 1);
            }
            for page in (0..100).chain((0..64).map(|bits| u64::MAX >> bits)) {
                assert_eq!(numbers.page_of(numbers.number_of(page)), page);
            }
        }
    }
}
