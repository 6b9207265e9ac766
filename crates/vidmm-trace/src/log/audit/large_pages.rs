//! Large pages: entries of level 1 that show memory, and say what the leaf tables in whose place they are say (GVA-21).

use vidmm::PageSize;
use vidmm::contract::{KmdAllocationHandle, Pte, PteFlags, UpdatePageTable};

use super::Audit;
use super::finding::Invariant;

/// The large pages that entries can show.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LargePageCaps {
    pub supported: bool,
    /// They may begin at any page.
    pub begin_anywhere: bool,
    /// They may be system memory.
    pub in_system_memory: bool,
}

impl Audit {
    /// Entries of a user's process are written: a leaf table in whose place a large page is stays as it is.
    pub(super) fn check_large_pages(&mut self, op: &UpdatePageTable) {
        let entries = op.page_table_entries;
        if op.page_table_level == 0 {
            let table = self.tables.at(op.process, op.page_table_address);
            let is_replaced = table.is_some_and(|table| self.tables.is_replaced(op.process, table));
            self.findings.check(!is_replaced, Invariant::Gva21, || {
                format!(
                    "{} is written in a leaf table in whose place there is a large page",
                    op.first_pte_virtual_address
                )
            });
        }
        let sides = [(PageSize::Kib4, Some(entries.first)), (PageSize::Kib64, entries.first_64kb)];
        for (side, entry) in sides {
            let is_large = entry.is_some_and(|entry| entry.flags.contains(PteFlags::LARGE_PAGE));
            if let Some(entry) = entry.filter(|_| is_large) {
                self.check_large_page(op, side, entry);
            }
            if op.page_table_level == 1 {
                self.tables.replace(op, side, is_large);
            }
        }
    }

    fn check_large_page(&mut self, op: &UpdatePageTable, side: PageSize, entry: Pte) {
        let caps = self.adapter.large_pages;
        let (start, bytes) = (op.first_pte_virtual_address.0, self.tables.leaf_coverage());
        let is_one = op.page_table_level == 1 && op.page_table_entries.num_page_table_entries == 1;
        self.findings.check(caps.supported && is_one, Invariant::Gva21, || {
            let (level, count) = (op.page_table_level, op.page_table_entries.num_page_table_entries);
            format!("{count} entries of level {level} show large pages at {start:#x}, whatever the GPU can")
        });
        let is_aligned = caps.begin_anywhere || entry.address.offset.is_multiple_of(bytes.max(1));
        let is_there = caps.in_system_memory || !entry.address.segment.is_system();
        self.findings.check(is_aligned && is_there, Invariant::Gva21, || {
            format!("a large page cannot be at {:?}, as {start:#x} says", entry.address)
        });
        let is_never_large = |handle: KmdAllocationHandle| {
            let allocation = self.by_handle.get(&handle).and_then(|id| self.allocations.get(id));
            allocation.is_some_and(|allocation| allocation.never_large)
        };
        self.findings.check(!op.allocation.is_some_and(is_never_large), Invariant::Gva21, || {
            format!("{start:#x} shows an allocation as a large page that must never be one")
        });
        let shown = self.shadow.shown_as_one(op.process, side, start, start.saturating_add(bytes));
        let said = (op.allocation, entry.address, entry.flags - PteFlags::LARGE_PAGE);
        let is_same = shown.is_some_and(|shown| (shown.allocation, shown.address, shown.flags) == said);
        self.findings.check(is_same, Invariant::Gva21, || {
            format!("a large page at {start:#x} shows {said:?}, but its leaf table shows {shown:?}")
        });
    }
}
