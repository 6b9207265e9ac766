//! From GPU virtual addresses to physical memory: the walk through page tables, and what is cached of it.

use std::collections::BTreeMap;

use vidmm::contract::KmdProcessHandle;
use vidmm::{GpuVirtualAddress, PAGE_SIZE, PageSize, PhysicalAddress};

use crate::encoding::{FlushRange, SetRootPageTable};
use crate::layout::{HardwareEntry, PageTableLayout};
use crate::physical::{PhysicalMemory, PhysicalRun, Place};
use crate::tlb::{Cached, PAGES_PER_CHUNK, Tlb};

/// The GPU's memory management unit.
///
/// Page tables are walked where they are, in local or in system memory. Every translation goes through the process's
/// [`Tlb`], and stays there until it is flushed.
#[derive(Debug)]
pub struct Mmu {
    layout: PageTableLayout,
    caches_invalid_entries: bool,
    spaces: BTreeMap<KmdProcessHandle, AddressSpace>,
    tlb_fills: u64,
}

#[derive(Debug)]
struct AddressSpace {
    last_root: SetRootPageTable,
    tlb: Tlb,
}

/// An access at an address that nothing is mapped at, or a write to what must not be written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PageFault {
    /// The address: that of the page.
    pub virtual_address: GpuVirtualAddress,
    /// Whether it was a write.
    pub write: bool,
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

impl Mmu {
    /// An MMU for page tables of `layout`. `caches_invalid_entries`: that an address is not mapped is remembered too.
    pub fn new(layout: PageTableLayout, caches_invalid_entries: bool) -> Self {
        Self { layout, caches_invalid_entries, spaces: BTreeMap::new(), tlb_fills: 0 }
    }

    /// The layout of the page tables.
    pub fn layout(&self) -> &PageTableLayout {
        &self.layout
    }

    /// How many entries went into a TLB so far.
    pub fn tlb_fills(&self) -> u64 {
        self.tlb_fills
    }

    /// An engine begins to use `root`. Nothing is flushed.
    pub fn use_root(&mut self, root: SetRootPageTable) {
        self.spaces
            .entry(root.process)
            .and_modify(|space| space.last_root = root)
            .or_insert_with(|| AddressSpace { last_root: root, tlb: Tlb::default() });
    }

    /// Forgets what is cached of a range (GVA-34).
    pub fn flush(&mut self, range: FlushRange) {
        let Some(space) = self.spaces.get_mut(&range.process) else { return };
        if range.start.0 == 0 && range.end.0 == 0 {
            space.tlb.clear();
        } else {
            space.tlb.forget(range.start.0 / PAGE_SIZE, range.end.0.div_ceil(PAGE_SIZE));
        }
    }

    /// Translates `access` in the address space of `root`, and appends where its pages are to `runs`.
    ///
    /// # Errors
    ///
    /// The first page that cannot be accessed. What was translated before it is cached all the same.
    pub fn translate(
        &mut self,
        memory: &PhysicalMemory<'_>,
        root: &SetRootPageTable,
        access: Access,
        runs: &mut Vec<PhysicalRun>,
    ) -> Result<(), PageFault> {
        let fault = |page: u64| PageFault { virtual_address: GpuVirtualAddress(page * PAGE_SIZE), write: access.write };
        let (mut page, end) = (access.first_page, access.first_page + access.pages);
        let Some(space) = self.spaces.get_mut(&root.process) else { return Err(fault(page)) };
        let mut walker = Walker::new(&self.layout, memory, root);
        while page < end {
            let chunk_end = end.min((page / PAGES_PER_CHUNK + 1) * PAGES_PER_CHUNK);
            let chunk = space.tlb.chunk(page);
            while page < chunk_end {
                let cached = match chunk.lookup(page) {
                    Some(cached) => cached,
                    None => {
                        let walked = walker.walk(page);
                        if is_mapped(walked.entry) || self.caches_invalid_entries {
                            chunk.fill(page, walked);
                            self.tlb_fills += 1;
                        }
                        walked
                    }
                };
                let pages = cached.pages_left.min(chunk_end - page);
                let place = place(memory, cached, pages, access.write).ok_or_else(|| fault(page))?;
                PhysicalRun::append(runs, place, pages);
                page += pages;
            }
        }
        Ok(())
    }

    /// Where the page at `virtual_address` of `process` is according to its page tables, whatever is cached; `None` if it is
    /// not mapped.
    pub fn walk(
        &self,
        memory: &PhysicalMemory<'_>,
        process: KmdProcessHandle,
        virtual_address: GpuVirtualAddress,
    ) -> Option<Place> {
        let root = self.spaces.get(&process)?.last_root;
        let walked = Walker::new(&self.layout, memory, &root).walk(virtual_address.0 / PAGE_SIZE);
        place(memory, walked, 1, false)
    }
}

fn is_mapped(entry: HardwareEntry) -> bool {
    entry.is_valid() || entry.is_zero()
}

/// Where `pages` pages are that `cached` maps; `None` if they cannot be accessed.
#[inline]
fn place(memory: &PhysicalMemory<'_>, cached: Cached, pages: u64, write: bool) -> Option<Place> {
    let entry = cached.entry;
    if entry.is_zero() {
        return Some(Place::Zero);
    }
    if !entry.is_valid() || (write && entry.is_read_only()) {
        return None;
    }
    let PhysicalAddress { segment, offset } = entry.address();
    let page = offset / PAGE_SIZE + cached.page_in_entry;
    memory.contains(segment, page, pages).then_some(Place::Memory { segment, page })
}

/// Walks page tables, page after page. It keeps the leaf tables that it found last: the next page is mostly in them too.
struct Walker<'a> {
    layout: &'a PageTableLayout,
    memory: &'a PhysicalMemory<'a>,
    root: &'a SetRootPageTable,
    leaf: Option<LeafTables>,
}

/// What the level-1 entry of an address says: where its leaf tables are.
#[derive(Clone, Copy)]
struct LeafTables {
    number: u64,
    small: HardwareEntry,
    large: HardwareEntry,
}

impl<'a> Walker<'a> {
    fn new(layout: &'a PageTableLayout, memory: &'a PhysicalMemory<'a>, root: &'a SetRootPageTable) -> Self {
        Self { layout, memory, root, leaf: None }
    }

    /// The entry that maps `page`: whichever side has a valid one (GVA-43), else one that reads as zero.
    fn walk(&mut self, page: u64) -> Cached {
        let address = page * PAGE_SIZE;
        let number = address / self.layout.coverage(1, PageSize::Kib4);
        let leaf = match self.leaf {
            Some(leaf) if leaf.number == number => leaf,
            _ => *self.leaf.insert(self.find_leaf(number, address)),
        };
        let index = self.layout.index(0, address);
        let large = self.leaf_entry(leaf.large, index / (PageSize::Kib64.bytes() / PAGE_SIZE)).for_64kib();
        if large.is_valid() {
            return Cached::large(large, page);
        }
        let small = self.leaf_entry(leaf.small, index);
        if is_mapped(small) || !large.is_zero() { Cached::small(small) } else { Cached::large(large, page) }
    }

    /// Entry `index` of the leaf table that `table` points to. An entry that points nowhere speaks for all below it.
    fn leaf_entry(&self, table: HardwareEntry, index: u64) -> HardwareEntry {
        if table.is_valid() { self.entry(table.address().offset_by(index * 8)) } else { unmapped(table) }
    }

    fn entry(&self, address: PhysicalAddress) -> HardwareEntry {
        self.memory.read_word(address).map_or(HardwareEntry::INVALID, HardwareEntry)
    }

    fn find_leaf(&self, number: u64, address: u64) -> LeafTables {
        let nowhere = |entry| LeafTables { number, small: unmapped(entry), large: HardwareEntry::INVALID };
        let top = self.layout.levels() - 1;
        if self.layout.index(top, address) >= u64::from(self.root.num_entries) {
            return nowhere(HardwareEntry::INVALID);
        }
        let mut table = self.root.root;
        for level in (2..=top).rev() {
            let entry = self.entry(table.offset_by(self.layout.index(level, address) * self.layout.entry_bytes(level)));
            if !entry.is_valid() {
                return nowhere(entry);
            }
            table = entry.address();
        }
        let entry = table.offset_by(self.layout.index(1, address) * self.layout.entry_bytes(1));
        let large =
            if self.layout.has_dual_entries() { self.entry(entry.offset_by(8)) } else { HardwareEntry::INVALID };
        LeafTables { number, small: self.entry(entry), large }
    }
}

/// What an entry that points to no table maps: zeros or nothing.
fn unmapped(entry: HardwareEntry) -> HardwareEntry {
    if entry.is_zero() { HardwareEntry::ZERO } else { HardwareEntry::INVALID }
}
