//! Where the paging process sees the page tables that the paging engine writes by their virtual addresses (GVA-10, GVA-61).
//!
//! Behind its windows come the leaf tables of its own, mapped for ever, and a ring of addresses for tables of all processes, which
//! are mapped as long as an update takes. The entries of that ring are written through the first part: so nothing is missing.

use alloc::vec::Vec;

use crate::{
    adapter::Adapter,
    contract::PageTableUpdateMode,
    gpu_va::{PageTables, TableKey},
    units::{Extent, PAGE_SIZE, PhysicalAddress},
};

/// The addresses of the views, all of whole leaf tables, once the size of the windows is known: see [`Adapter::table_views`]. None in
/// other modes.
///
/// `end` is the end of the windows, and `tables` are the tables of the windows.
pub(super) fn addresses(adapter: &Adapter, end: u64, tables: Vec<TableKey>) -> Option<Extent> {
    if !adapter.has_page_tables() || adapter.page_table_update_mode != PageTableUpdateMode::GpuVirtual {
        return None;
    }
    let mut leaves = tables;
    leaves.retain(|key| key.level == 0);
    leaves.sort_unstable();
    leaves.dedup();
    // One more leaf table is the ring's; and those of the own views are seen there, too.
    let others = leaves.len() as u64 + 1;
    let coverage = adapter.coverage(0);
    let is_enough = |own: &u64| (others + own) * span(adapter) <= own * coverage;
    let own = (1..).find(is_enough).expect("a leaf table covers more than itself");
    Some(Extent { offset: end, size: (own + 1) * coverage })
}

/// The addresses of the ring, which are those of the last leaf table.
pub(super) fn ring(adapter: &Adapter) -> Option<Extent> {
    let (end, size) = (adapter.table_views?.end(), adapter.coverage(0));
    Some(Extent { offset: end - size, size })
}

/// The paging process's own leaf tables: where each lies, where it is seen, and its bytes in whole pages.
pub(super) fn own_tables(adapter: &Adapter, tables: &PageTables) -> impl Iterator<Item = (PhysicalAddress, u64, u64)> {
    let base = adapter.table_views.expect("tables are seen only where there are views").offset;
    let leaves = tables.iter().take_while(|(key, _)| key.level == 0);
    leaves.zip(0..).map(move |((key, table), number)| {
        let address = table.address.expect("the paging process's tables are placed first");
        (address, base + number * span(adapter), key.bytes(adapter).next_multiple_of(PAGE_SIZE))
    })
}

/// Where the paging process sees a leaf table of its own.
///
/// # Panics
///
/// If it is none of those: the CPU alone writes the tables above them.
pub(super) fn address_of(adapter: &Adapter, tables: &PageTables, table: PhysicalAddress) -> u64 {
    let mut own = own_tables(adapter, tables);
    own.find(|&(at, ..)| at == table).expect("all leaf tables of the paging process are mapped").1
}

/// Bytes of addresses that each leaf table has.
fn span(adapter: &Adapter) -> u64 {
    adapter.levels[0].table_bytes.max(adapter.leaf_table_64kb.unwrap_or(0)).next_multiple_of(PAGE_SIZE)
}
