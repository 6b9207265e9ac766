//! The TLB: how the GPU remembers the translation of addresses, by page tables or by the IOMMU.
//!
//! This TLB is *endless*: it never forgets by itself, only when it is told to. A real one forgets by chance, and so a missing
//! flush goes unnoticed most of the time; here it always shows, as bytes of the page that was there before.

use std::collections::BTreeMap;
use std::ops::Range;

use vidmm::{GpuVirtualAddress, PAGE_SIZE};

use crate::encoding::FlushRange;
use crate::layout::HardwareEntry;
use crate::physical::{PhysicalMemory, PhysicalRun, Place};

const SLOT_SHIFT: u32 = 4;
const PAGES_PER_SLOT: usize = 1 << SLOT_SHIFT;
const SLOTS_PER_CHUNK: usize = 512;
/// Pages of address in a chunk: 32 MiB.
const PAGES_PER_CHUNK: u64 = (SLOTS_PER_CHUNK * PAGES_PER_SLOT) as u64;

/// An access at an address that nothing is mapped at, or a write to what must not be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageFault {
    /// The address: that of the page.
    pub virtual_address: GpuVirtualAddress,
    /// Whether it was a write.
    pub write: bool,
    /// The level of the page tables at which the walk ended; 0 without page tables.
    pub level: u32,
}

/// A range that is translated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The first page's address, in pages.
    pub first_page: u64,
    /// How many pages.
    pub pages: u64,
    /// Whether they are written.
    pub write: bool,
}

impl Access {
    /// The fault that accessing `page` is.
    pub fn fault_at(&self, page: u64) -> PageFault {
        PageFault { virtual_address: GpuVirtualAddress(page * PAGE_SIZE), write: self.write, level: 0 }
    }
}

impl FlushRange {
    /// The pages that it names; none if those are all (U-20).
    pub(crate) fn pages(&self) -> Option<Range<u64>> {
        let is_all = self.start.0 == 0 && self.end.0 == 0;
        (!is_all).then(|| self.start.0 / PAGE_SIZE..self.end.0.div_ceil(PAGE_SIZE))
    }
}

/// The cached entries of one address space. Addresses are in pages of 4 KiB.
#[derive(Debug)]
pub struct Tlb {
    chunks: BTreeMap<u64, TlbChunk>,
    caches_invalid_entries: bool,
    fills: u64,
}

/// The cached entries of 32 MiB of address.
#[derive(Debug)]
struct TlbChunk(Box<[Slot; SLOTS_PER_CHUNK]>);

/// The cached entries of 64 KiB of address.
#[derive(Debug)]
enum Slot {
    Empty,
    Large(HardwareEntry),
    Small(Box<[Option<HardwareEntry>; PAGES_PER_SLOT]>),
}

/// A cached entry, seen from one page that it maps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cached {
    entry: HardwareEntry,
    /// How many pages the page is from the first that the entry maps.
    page_in_entry: u64,
    /// How many pages the entry maps from the page on.
    pub(crate) pages_left: u64,
}

impl Cached {
    /// An entry that maps `page` and no other.
    pub fn small(entry: HardwareEntry) -> Self {
        Self { entry, page_in_entry: 0, pages_left: 1 }
    }

    /// An entry that maps the 64 KiB around `page`.
    pub fn large(entry: HardwareEntry, page: u64) -> Self {
        let page_in_entry = page_in_slot(page) as u64;
        Self { entry, page_in_entry, pages_left: PAGES_PER_SLOT as u64 - page_in_entry }
    }

    /// Where the page is; `None` if it cannot be accessed.
    #[inline]
    pub fn place(self, write: bool) -> Option<Place> {
        let entry = self.entry;
        if entry.is_zero() {
            return Some(Place::Zero);
        }
        if !entry.is_valid() || (write && entry.is_read_only()) {
            return None;
        }
        let address = entry.address();
        Some(Place::Segment { segment: address.segment, page: address.offset / PAGE_SIZE + self.page_in_entry })
    }
}

fn page_in_slot(page: u64) -> usize {
    (page % PAGES_PER_SLOT as u64) as usize
}

fn slot_in_chunk(page: u64) -> usize {
    ((page >> SLOT_SHIFT) % SLOTS_PER_CHUNK as u64) as usize
}

impl Tlb {
    /// A TLB without entries. `caches_invalid_entries`: that an address is not mapped is remembered too.
    pub fn new(caches_invalid_entries: bool) -> Self {
        Self { chunks: BTreeMap::new(), caches_invalid_entries, fills: 0 }
    }

    /// How many entries went into it so far.
    pub fn fills(&self) -> u64 {
        self.fills
    }

    /// Translates `access`, and appends where its pages are to `runs`. `walk` finds the entry of a page that is not cached.
    ///
    /// # Errors
    ///
    /// The first page that cannot be accessed. Pages that were translated before it are cached all the same.
    pub fn translate(
        &mut self,
        memory: &PhysicalMemory<'_>,
        access: Access,
        mut walk: impl FnMut(u64) -> Cached,
        runs: &mut Vec<PhysicalRun>,
    ) -> Result<(), PageFault> {
        let (mut page, end) = (access.first_page, access.first_page + access.pages);
        while page < end {
            let chunk_end = end.min((page / PAGES_PER_CHUNK + 1) * PAGES_PER_CHUNK);
            let chunk = self.chunks.entry(page / PAGES_PER_CHUNK).or_insert_with(TlbChunk::empty);
            while page < chunk_end {
                let cached = match chunk.lookup(page) {
                    Some(cached) => cached,
                    None => {
                        let walked = walk(page);
                        if walked.entry.is_mapped() || self.caches_invalid_entries {
                            chunk.fill(page, walked);
                            self.fills += 1;
                        }
                        walked
                    }
                };
                let pages = cached.pages_left.min(chunk_end - page);
                let place = cached.place(access.write).ok_or_else(|| access.fault_at(page))?;
                memory.append_runs(place, pages, runs).map_err(|found| access.fault_at(page + found))?;
                page += pages;
            }
        }
        Ok(())
    }

    /// The cached translation of `page`.
    pub fn cached(&self, page: u64) -> Option<Cached> {
        self.chunks.get(&(page / PAGES_PER_CHUNK))?.lookup(page)
    }

    /// Forgets a range: everything if it begins and ends at 0 (U-20).
    pub fn flush(&mut self, range: FlushRange) {
        match range.pages() {
            None => self.chunks.clear(),
            Some(pages) => self.forget(pages),
        }
    }

    /// Forgets pages.
    pub fn forget(&mut self, Range { start: first, end }: Range<u64>) {
        if first >= end {
            return;
        }
        let touched: Vec<u64> =
            self.chunks.range(first / PAGES_PER_CHUNK..=(end - 1) / PAGES_PER_CHUNK).map(|(&chunk, _)| chunk).collect();
        for chunk in touched {
            let (chunk_first, chunk_end) = (chunk * PAGES_PER_CHUNK, (chunk + 1) * PAGES_PER_CHUNK);
            if first <= chunk_first && chunk_end <= end {
                self.chunks.remove(&chunk);
            } else if let Some(entries) = self.chunks.get_mut(&chunk) {
                entries.forget(first.max(chunk_first), end.min(chunk_end));
            }
        }
    }
}

impl TlbChunk {
    fn empty() -> Self {
        Self(Box::new([const { Slot::Empty }; SLOTS_PER_CHUNK]))
    }

    /// The cached translation of `page`.
    #[inline]
    fn lookup(&self, page: u64) -> Option<Cached> {
        match &self.0[slot_in_chunk(page)] {
            Slot::Empty => None,
            Slot::Large(entry) => Some(Cached::large(*entry, page)),
            Slot::Small(entries) => entries[page_in_slot(page)].map(Cached::small),
        }
    }

    /// Remembers `cached` as the entry that maps `page`.
    fn fill(&mut self, page: u64, cached: Cached) {
        let slot = &mut self.0[slot_in_chunk(page)];
        let is_large = cached.page_in_entry + cached.pages_left == PAGES_PER_SLOT as u64;
        match slot {
            Slot::Empty if is_large => *slot = Slot::Large(cached.entry),
            Slot::Empty => {
                let mut entries = Box::new([None; PAGES_PER_SLOT]);
                entries[page_in_slot(page)] = Some(cached.entry);
                *slot = Slot::Small(entries);
            }
            // Pages of 4 KiB that were cached before stay, stale or not: only this page is new.
            Slot::Small(entries) => {
                entries[page_in_slot(page)] = Some(cached.entry.offset_by(cached.page_in_entry * PAGE_SIZE));
            }
            Slot::Large(entry) => *entry = cached.entry,
        }
    }

    fn forget(&mut self, first: u64, end: u64) {
        let mut page = first;
        while page < end {
            let slot_end = (page | (PAGES_PER_SLOT as u64 - 1)) + 1;
            let slot = &mut self.0[slot_in_chunk(page)];
            match slot {
                Slot::Small(entries) if page_in_slot(page) != 0 || end < slot_end => {
                    entries[page_in_slot(page)..][..(end.min(slot_end) - page) as usize].fill(None);
                }
                // An entry of 64 KiB goes as a whole, even if only a part of it was named.
                _ => *slot = Slot::Empty,
            }
            page = slot_end;
        }
    }
}
