//! What the GPU remembers of a process's page tables.
//!
//! This TLB is *endless*: it never forgets by itself, only when it is told to. A real one forgets by chance, and so a missing
//! flush goes unnoticed most of the time; here it always shows, as bytes of the page that was there before.

use std::collections::BTreeMap;

use vidmm::PAGE_SIZE;

use crate::layout::HardwareEntry;

const SLOT_SHIFT: u32 = 4;
const PAGES_PER_SLOT: usize = 1 << SLOT_SHIFT;
const SLOTS_PER_CHUNK: usize = 512;
/// Pages of address in a chunk: 32 MiB.
pub const PAGES_PER_CHUNK: u64 = (SLOTS_PER_CHUNK * PAGES_PER_SLOT) as u64;

/// The cached entries of one process. Addresses are in pages of 4 KiB.
#[derive(Debug, Default)]
pub struct Tlb {
    chunks: BTreeMap<u64, TlbChunk>,
}

/// The cached entries of 32 MiB of address.
#[derive(Debug)]
pub struct TlbChunk(Box<[Slot; SLOTS_PER_CHUNK]>);

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
    /// The entry.
    pub entry: HardwareEntry,
    /// How many pages the page is from the first that the entry maps.
    pub page_in_entry: u64,
    /// How many pages the entry maps from the page on.
    pub pages_left: u64,
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
}

fn page_in_slot(page: u64) -> usize {
    (page % PAGES_PER_SLOT as u64) as usize
}

fn slot_in_chunk(page: u64) -> usize {
    ((page >> SLOT_SHIFT) % SLOTS_PER_CHUNK as u64) as usize
}

impl Tlb {
    /// The chunk that holds what is cached of `page`.
    pub fn chunk(&mut self, page: u64) -> &mut TlbChunk {
        self.chunks.entry(page / PAGES_PER_CHUNK).or_insert_with(TlbChunk::empty)
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.chunks.clear();
    }

    /// Forgets the pages from `first` to before `end`.
    pub fn forget(&mut self, first: u64, end: u64) {
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

    /// What is cached of `page`.
    #[inline]
    pub fn lookup(&self, page: u64) -> Option<Cached> {
        match &self.0[slot_in_chunk(page)] {
            Slot::Empty => None,
            Slot::Large(entry) => Some(Cached::large(*entry, page)),
            Slot::Small(entries) => entries[page_in_slot(page)].map(Cached::small),
        }
    }

    /// Remembers `cached` as the entry that maps `page`.
    pub fn fill(&mut self, page: u64, cached: Cached) {
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
