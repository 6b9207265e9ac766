//! From GPU virtual addresses to physical memory: the walk through page tables.

use std::collections::BTreeMap;
use std::ops::Range;

use vidmm::contract::KmdProcessHandle;
use vidmm::{GpuVirtualAddress, PAGE_SIZE, PageSize, PhysicalAddress};

use crate::encoding::{FlushRange, SetRootPageTable};
use crate::layout::{HardwareEntry, PageTableLayout};
use crate::physical::{PhysicalMemory, PhysicalRun, Place};
use crate::tlb::{Access, Cached, PageFault, Tlb};

/// The GPU's memory management unit.
///
/// Page tables are walked where they are, in local or in system memory. Every translation goes through the process's
/// [`Tlb`], and stays there until it is flushed.
#[derive(Debug)]
pub struct Mmu {
    layout: PageTableLayout,
    caches_invalid_entries: bool,
    spaces: BTreeMap<KmdProcessHandle, PageTables>,
}

/// The page tables of a process, as the GPU knows them.
#[derive(Debug)]
struct PageTables {
    last_root: SetRootPageTable,
    tlb: Tlb,
}

impl Mmu {
    /// An MMU for page tables of `layout`. `caches_invalid_entries`: that an address is not mapped is remembered too.
    pub fn new(layout: PageTableLayout, caches_invalid_entries: bool) -> Self {
        Self { layout, caches_invalid_entries, spaces: BTreeMap::new() }
    }

    /// The layout of the page tables.
    pub fn layout(&self) -> &PageTableLayout {
        &self.layout
    }

    /// How many entries went into a TLB so far.
    pub fn tlb_fills(&self) -> u64 {
        self.spaces.values().map(|space| space.tlb.fills()).sum()
    }

    /// An engine begins to use `root`. Nothing is flushed.
    pub fn use_root(&mut self, root: SetRootPageTable) {
        let tlb = || Tlb::new(self.caches_invalid_entries);
        self.spaces
            .entry(root.process)
            .and_modify(|space| space.last_root = root)
            .or_insert_with(|| PageTables { last_root: root, tlb: tlb() });
    }

    /// Forgets what is cached of a range (GVA-34).
    pub fn flush(&mut self, range: FlushRange) {
        let flushed = |process| range.process.is_none_or(|only| only == process);
        for (_, space) in self.spaces.iter_mut().filter(|(process, _)| flushed(**process)) {
            space.tlb.flush(range);
        }
    }

    /// Translates `access` in the address space of `root`, and appends where its pages are to `runs`.
    ///
    /// # Errors
    ///
    /// The first page that cannot be accessed. Pages that were translated before it are cached all the same.
    pub fn translate(
        &mut self,
        memory: &PhysicalMemory<'_>,
        root: &SetRootPageTable,
        access: Access,
        runs: &mut Vec<PhysicalRun>,
    ) -> Result<(), PageFault> {
        let Some(space) = self.spaces.get_mut(&root.process) else { return Err(access.fault_at(access.first_page)) };
        let mut walker = Walker::new(&self.layout, memory, root);
        space.tlb.translate(memory, access, |page| walker.walk(page), runs).map_err(|fault| PageFault {
            level: Walker::new(&self.layout, memory, root).last_level(fault.virtual_address.0),
            ..fault
        })
    }

    /// Hands every piece of `pages` of `process` that its page tables map to `each`: its first page, where that is, and
    /// how many pages follow each other there. Whatever is cached; what is mapped nowhere or to zeros is left out. It
    /// takes time for the tables that there are, and not for the addresses.
    pub fn for_each_mapped(
        &self,
        memory: &PhysicalMemory<'_>,
        process: KmdProcessHandle,
        pages: Range<u64>,
        mut each: impl FnMut(u64, Place, u64),
    ) {
        let Some(space) = self.spaces.get(&process) else { return };
        let mut walker = Walker::new(&self.layout, memory, &space.last_root);
        let mut page = pages.start;
        while page < pages.end {
            let cached = walker.walk(page);
            let count = match cached.place(false) {
                Some(place @ Place::Segment { .. }) => {
                    let count = cached.pages_left.min(pages.end - page);
                    each(page, place, count);
                    count
                }
                _ => walker.pages_unmapped(page, cached),
            };
            page += count;
        }
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
        Walker::new(&self.layout, memory, &root).walk(virtual_address.0 / PAGE_SIZE).place(false)
    }
}

/// Walks page tables, page after page. It keeps the leaf tables that it found last: the next page is mostly in them too.
struct Walker<'a> {
    layout: &'a PageTableLayout,
    memory: &'a PhysicalMemory<'a>,
    root: &'a SetRootPageTable,
    leaf: Option<LeafTables>,
}

/// The level-1 entry of an address, decoded: where its leaf tables are.
#[derive(Clone, Copy)]
struct LeafTables {
    number: u64,
    small: HardwareEntry,
    large: HardwareEntry,
}

impl LeafTables {
    /// The entry that points to memory in place of a leaf table (GVA-21).
    fn large_page(self) -> Option<HardwareEntry> {
        [self.small, self.large].into_iter().find(|entry| entry.is_valid() && entry.is_large_page())
    }
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
        if let Some(entry) = leaf.large_page() {
            return Cached::small(entry.within_large_page(address % self.layout.coverage(1, PageSize::Kib4)));
        }
        let index = self.layout.index(0, address);
        let large = self.leaf_entry(leaf.large, index / (PageSize::Kib64.bytes() / PAGE_SIZE)).for_64kib();
        if large.is_valid() {
            return Cached::large(large, page);
        }
        let small = self.leaf_entry(leaf.small, index);
        if small.is_mapped() || !large.is_zero() { Cached::small(small) } else { Cached::large(large, page) }
    }

    /// Entry `index` of the leaf table that `table` points to. An entry that points nowhere speaks for all below it.
    fn leaf_entry(&self, table: HardwareEntry, index: u64) -> HardwareEntry {
        if table.is_valid() { self.entry(table.address().offset_by(index * 8)) } else { unmapped(table) }
    }

    fn entry(&self, address: PhysicalAddress) -> HardwareEntry {
        self.memory.read_word(address).map_or(HardwareEntry::INVALID, HardwareEntry)
    }

    /// The table of level 1 that `address` is in; if there is none, the level at which the walk ends, and the entry there.
    fn find_table(&self, address: u64) -> Result<PhysicalAddress, (u32, HardwareEntry)> {
        let top = self.layout.levels() - 1;
        if self.layout.index(top, address) >= u64::from(self.root.num_entries) {
            return Err((top, HardwareEntry::INVALID));
        }
        let mut table = self.root.root;
        for level in (2..=top).rev() {
            let entry = self.entry(table.offset_by(self.layout.index(level, address) * self.layout.entry_bytes(level)));
            if !entry.is_valid() {
                return Err((level, entry));
            }
            table = entry.address();
        }
        Ok(table)
    }

    /// The level of the table whose entry ends the walk for `address`.
    fn last_level(&self, address: u64) -> u32 {
        if let Err((level, _)) = self.find_table(address) {
            return level;
        }
        let leaf = self.find_leaf(0, address);
        u32::from(!leaf.small.is_valid() && !leaf.large.is_valid())
    }

    /// How many pages from `page` on are certainly not mapped: `cached` is what was just found there.
    fn pages_unmapped(&self, page: u64, cached: Cached) -> u64 {
        let of_leaf = self.leaf.map(|leaf| (leaf.small.is_valid(), leaf.large.is_valid()));
        let covered = match of_leaf {
            // An entry of 4 KiB says nothing of the next page.
            Some((true, _)) | None => return cached.pages_left,
            Some((false, true)) => PageSize::Kib64.bytes() / PAGE_SIZE,
            Some((false, false)) => {
                let level = self.last_level(page * PAGE_SIZE);
                self.layout.coverage(level.max(1), PageSize::Kib4) / PAGE_SIZE
            }
        };
        covered - page % covered
    }

    fn find_leaf(&self, number: u64, address: u64) -> LeafTables {
        let nowhere = |entry| LeafTables { number, small: unmapped(entry), large: HardwareEntry::INVALID };
        let table = match self.find_table(address) {
            Ok(table) => table,
            Err((_, entry)) => return nowhere(entry),
        };
        let entry = table.offset_by(self.layout.index(1, address) * self.layout.entry_bytes(1));
        let large =
            if self.layout.has_dual_entries() { self.entry(entry.offset_by(8)) } else { HardwareEntry::INVALID };
        LeafTables { number, small: self.entry(entry), large }
    }
}

/// The mapping of an entry that points to no table: zeros or nothing.
fn unmapped(entry: HardwareEntry) -> HardwareEntry {
    if entry.is_zero() { HardwareEntry::ZERO } else { HardwareEntry::INVALID }
}
