//! Page tables of one address space: derived state (D9). Their content follows from mappings and places; only where each
//! table lies is kept.

use alloc::{collections::BTreeMap, vec::Vec};
use core::cmp::Ordering;

use crate::{
    adapter::Adapter,
    contract::Pte,
    data::free_ranges::FreeRanges,
    id::PlanNo,
    units::{Extent, PageSize, PhysicalAddress},
};

/// Which table: its level, its side (leaf tables of dual entries, GVA-43), and its number at that level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct TableKey {
    pub level: u32,
    /// The size of the pages that its entries map; 4 KiB above the leaves.
    pub page_size: PageSize,
    /// The virtual address that it begins at, divided by what it covers.
    pub number: u64,
}

/// One table.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    /// Where it lies; none until a plan places it.
    pub address: Option<PhysicalAddress>,
    /// The plan that initialises it and links it to its parent.
    pub plan: PlanNo,
    /// Its initialisation has been built: its parent's entry may point to it.
    pub initialised: bool,
    /// The entry of its parent that stands for it, as all that it shows is one large page (GVA-21), by the entries that are built.
    pub large_page: Option<Pte>,
    /// The last plan that takes a table that it pointed to away.
    pub unlinked: PlanNo,
    /// Mappings that need it, from their calls on until nothing shows them any more. Without any it is freed, but for the root.
    pub users: u32,
}

impl Table {
    /// A table that no plan has initialised yet, and that nothing needs; without an address a plan is to place it.
    pub fn new(address: Option<PhysicalAddress>) -> Self {
        Self { address, plan: 0, initialised: false, large_page: None, unlinked: 0, users: 0 }
    }
}

/// The tables of one address space. Pinned while something is mapped through them (D9).
#[derive(Debug, Default)]
pub(crate) struct PageTables {
    /// By packed keys.
    tables: BTreeMap<u64, Table>,
    /// The entries of the root for the addresses that were in use so far. Those beyond are invalid, and no context is told of them.
    root_entries: u32,
    /// Addresses that read as zero where nothing is mapped, by the entries that are built.
    zero: FreeRanges,
}

impl PartialOrd for TableKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for TableKey {
    fn cmp(&self, other: &Self) -> Ordering {
        self.packed().cmp(&other.packed())
    }
}

impl TableKey {
    /// Comes before all others.
    pub const FIRST: Self = Self { level: 0, page_size: PageSize::Kib4, number: 0 };

    /// Level, page size and number in one word, in the order of the keys: a table has fewer than 2^48 neighbours.
    #[inline(always)]
    fn packed(self) -> u64 {
        u64::from(self.level) << 56 | (self.page_size as u64) << 48 | self.number
    }

    fn unpacked(packed: u64) -> Self {
        let page_size = if packed >> 48 & 1 == 0 { PageSize::Kib4 } else { PageSize::Kib64 };
        Self { level: (packed >> 56) as u32, page_size, number: packed & ((1 << 48) - 1) }
    }

    /// The root of an address space.
    ///
    /// # Panics
    ///
    /// If the GPU has no page tables.
    pub fn root(adapter: &Adapter) -> Self {
        Self { level: adapter.root_level(), page_size: PageSize::Kib4, number: 0 }
    }

    /// The table of `level` that covers `address`.
    pub fn covering(adapter: &Adapter, level: u32, page_size: PageSize, address: u64) -> Self {
        let page_size = if level == 0 { page_size } else { PageSize::Kib4 };
        Self { level, page_size, number: address >> adapter.coverage_bits(level) }
    }

    /// The first address that the table covers.
    pub fn first_address(self, adapter: &Adapter) -> u64 {
        self.number << adapter.coverage_bits(self.level)
    }

    /// Its parent; none for the root.
    pub fn parent(self, adapter: &Adapter) -> Option<TableKey> {
        if self.level == adapter.root_level() {
            return None;
        }
        let number = self.number >> adapter.levels[self.level as usize + 1].index_bits;
        Some(TableKey { level: self.level + 1, page_size: PageSize::Kib4, number })
    }

    /// Bytes that the table needs; where it lives it may take more, see [`Adapter::table_bytes_in`].
    pub fn bytes(self, adapter: &Adapter) -> u64 {
        match (self.level, self.page_size, adapter.leaf_table_64kb) {
            (0, PageSize::Kib64, Some(bytes)) => bytes,
            _ => adapter.levels[self.level as usize].table_bytes,
        }
    }

    /// Entries in the table.
    pub fn entries(self, adapter: &Adapter) -> u32 {
        let entries = 1u64 << adapter.levels[self.level as usize].index_bits;
        let pages_per_entry = if self.level == 0 { self.page_size.bytes() / PageSize::Kib4.bytes() } else { 1 };
        (entries / pages_per_entry) as u32
    }

    /// Bytes of addresses that each of its entries covers.
    pub fn entry_bytes(self, adapter: &Adapter) -> u64 {
        match self.level {
            0 => self.page_size.bytes(),
            level => 1 << adapter.levels[level as usize].shift,
        }
    }
}

impl PageTables {
    /// The tables of a process, with the root that it has at first.
    pub fn new(adapter: &Adapter) -> Self {
        Self { root_entries: adapter.first_root_entries, ..Self::default() }
    }

    /// The tables that a mapping of a range needs, roots first.
    pub fn needed(
        adapter: &Adapter,
        address: u64,
        size: u64,
        page_size: PageSize,
    ) -> impl Iterator<Item = TableKey> + use<> {
        let last = address + size - 1;
        let spans: Vec<(TableKey, u64)> = (0..=adapter.root_level())
            .rev()
            .map(|level| {
                let end = TableKey::covering(adapter, level, page_size, last).number;
                (TableKey::covering(adapter, level, page_size, address), end)
            })
            .collect();
        spans.into_iter().flat_map(|(first, end)| (first.number..=end).map(move |number| TableKey { number, ..first }))
    }

    /// The tables that say where a range ends, roots first: those of which it has a part. Tables of 4 KiB pages, on the side that
    /// says what reads as zero.
    pub fn cut_by(adapter: &Adapter, range: Extent) -> impl Iterator<Item = TableKey> + use<'_> {
        let is_cut = move |key: &TableKey| {
            let first = key.first_address(adapter);
            range.offset > first || range.end() < first + adapter.coverage(key.level)
        };
        let (first, last) = (range.offset, range.end() - 1);
        let at = move |level| {
            let [first, last] =
                [first, last].map(|address| TableKey::covering(adapter, level, PageSize::Kib4, address));
            [Some(first), Some(last).filter(|&last| last != first)].into_iter().flatten()
        };
        (0..=adapter.root_level()).rev().flat_map(at).filter(is_cut)
    }

    /// Whether all of a range reads as zero where nothing is mapped, by the entries that are built.
    pub fn reads_zero(&self, range: Extent) -> bool {
        self.zero.inside(range).next() == Some(range)
    }

    /// Addresses read as zero from now on where nothing is mapped, or fault.
    pub fn let_read_zero(&mut self, range: Extent, reads_zero: bool) {
        match reads_zero {
            true => self.zero.insert(range),
            false => self.zero.take_all_of(range),
        }
    }

    /// The tables are written again: these ranges read as zero where nothing is mapped, and no others.
    pub fn let_read_zero_again(&mut self, ranges: impl Iterator<Item = Extent>) {
        self.zero = FreeRanges::default();
        ranges.for_each(|range| self.zero.insert(range));
    }

    /// The parts of a range that read as zero where nothing is mapped.
    pub fn zero_in(&self, range: Extent) -> impl Iterator<Item = Extent> {
        self.zero.inside(range)
    }

    /// The tables of a level that begin in a range of addresses, and that its parents point to.
    pub fn initialised_in(&self, level: u32, numbers: core::ops::Range<u64>) -> impl Iterator<Item = TableKey> {
        let keys = [PageSize::Kib4, PageSize::Kib64].into_iter().flat_map(move |page_size| {
            let key = |number| TableKey { level, page_size, number };
            self.tables.range(key(numbers.start).packed()..key(numbers.end).packed())
        });
        keys.filter(|(_, table)| table.initialised).map(|(&key, _)| TableKey::unpacked(key))
    }

    pub fn insert(&mut self, key: TableKey, table: Table) {
        self.tables.insert(key.packed(), table);
    }

    /// # Panics
    ///
    /// If there is no such table.
    pub fn remove(&mut self, key: TableKey) -> Table {
        self.tables.remove(&key.packed()).expect("what is freed is there")
    }

    pub fn get(&self, key: TableKey) -> Option<&Table> {
        self.tables.get(&key.packed())
    }

    pub fn get_mut(&mut self, key: TableKey) -> &mut Table {
        self.tables.get_mut(&key.packed()).expect("a mapping has its tables")
    }

    /// Addresses up to `end` are in use: the root grows to twice its entries, and again, until it has one for each of them (GVA-18).
    pub fn let_root_reach(&mut self, adapter: &Adapter, end: u64) {
        let needed = end.div_ceil(adapter.coverage(adapter.root_level() - 1));
        self.root_entries = self.root_entries.max(needed.next_power_of_two() as u32);
    }

    /// The entries of the root that contexts are told of.
    pub fn root_entries(&self) -> u32 {
        self.root_entries
    }

    /// The root, once it is placed; none if the GPU has no page tables.
    pub fn root(&self, adapter: &Adapter) -> Option<PhysicalAddress> {
        if self.tables.is_empty() {
            return None;
        }
        self.tables.get(&TableKey::root(adapter).packed())?.address
    }

    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = (TableKey, &Table)> {
        self.tables.iter().map(|(&key, table)| (TableKey::unpacked(key), table))
    }
}

/// Cuts a range where leaf tables meet: first address and size of each part.
pub(crate) fn leaf_runs(adapter: &Adapter, address: u64, size: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
    let last_in_table = adapter.coverage(0) - 1;
    let end = address + size;
    let mut at = address;
    core::iter::from_fn(move || {
        if at == end {
            return None;
        }
        let next = ((at | last_in_table) + 1).min(end);
        let run = (at, next - at);
        at = next;
        Some(run)
    })
}
