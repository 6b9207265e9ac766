//! Where the paging process sees the page tables that the paging engine writes by their virtual addresses (GVA-10, GVA-61).
//!
//! Behind its windows come the leaf tables of its own, mapped for ever, and a ring of addresses for tables of all processes, which
//! are mapped as long as an update takes. The entries of that ring are written through the first part: so nothing is missing.

use alloc::{collections::BTreeMap, vec::Vec};

use crate::{
    adapter::Adapter,
    contract::PageTableUpdateMode,
    gpu_va::{PageTables, TableKey},
    plans::window::{Ring, Windows},
    units::{PAGE_SIZE, PageSize, PhysicalAddress, SegmentId},
};

/// The views of tables.
#[derive(Debug)]
pub(super) struct TableViews {
    /// The addresses of its own leaf tables, which follow one another there.
    pub own: Ring,
    /// The addresses of other tables, for as long as an update takes.
    pub ring: Ring,
    /// Where each of its own leaf tables is seen, and how many bytes of it, by its offset in system memory.
    places: BTreeMap<u64, (u64, u64)>,
}

impl TableViews {
    /// The views over `tables`, the paging process's own; none in other modes.
    pub fn new(adapter: &Adapter, tables: &PageTables) -> Option<Self> {
        let (base, size) = adapter.table_views?;
        let coverage = adapter.coverage(0);
        let span = span(adapter);
        let leaves = tables.iter().filter(|(key, _)| key.level == 0);
        let places = leaves.zip(0..).map(|((key, table), number)| {
            let address = table.address.expect("the paging process's tables are placed first");
            let bytes = key.bytes(adapter).next_multiple_of(PAGE_SIZE);
            (address.offset, (base + number * span, bytes))
        });
        Some(Self {
            places: places.collect(),
            own: Ring::new(adapter, tables, base, size - coverage, PageSize::Kib4),
            ring: Ring::new(adapter, tables, base + size - coverage, coverage, PageSize::Kib4),
        })
    }

    /// The first address of the views, and their bytes, all whole leaf tables; none in other modes.
    pub fn addresses(adapter: &Adapter) -> Option<(u64, u64)> {
        if !adapter.has_page_tables() || adapter.page_table_update_mode != PageTableUpdateMode::GpuVirtual {
            return None;
        }
        let (_, local) = Windows::bases(adapter);
        let mut leaves: Vec<TableKey> = Windows::tables_of_rings(adapter);
        leaves.retain(|key| key.level == 0);
        leaves.sort_unstable();
        leaves.dedup();
        // One more leaf table is the ring's; and those of the own views are seen there, too.
        let others = leaves.len() as u64 + 1;
        let coverage = adapter.coverage(0);
        let is_enough = |own: &u64| (others + own) * span(adapter) <= own * coverage;
        let own = (1..).find(is_enough).expect("a leaf table covers more than itself");
        Some((local + adapter.paging_va_size, (own + 1) * coverage))
    }

    /// The paging process's own leaf tables: where each lies, where it is seen, and its bytes in whole pages.
    pub fn own_tables(&self) -> impl Iterator<Item = (PhysicalAddress, u64, u64)> {
        let in_system = |offset| PhysicalAddress { segment: SegmentId::SYSTEM, offset };
        self.places.iter().map(move |(&offset, &(address, size))| (in_system(offset), address, size))
    }

    /// Where the paging process sees a leaf table of its own.
    ///
    /// # Panics
    ///
    /// If it is none of those: the CPU alone writes the tables above them.
    pub fn address_of(&self, table: PhysicalAddress) -> u64 {
        self.places.get(&table.offset).expect("all leaf tables of the paging process are mapped").0
    }

    /// The addresses of the two that an address lies in.
    pub fn around(&self, address: u64) -> Option<&Ring> {
        [&self.ring, &self.own].into_iter().find(|ring| ring.base <= address)
    }
}

/// Bytes of addresses that each leaf table has.
fn span(adapter: &Adapter) -> u64 {
    adapter.levels[0].table_bytes.max(adapter.leaf_table_64kb.unwrap_or(0)).next_multiple_of(PAGE_SIZE)
}
