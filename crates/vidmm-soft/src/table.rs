//! The entries of a page table as they lie in memory. The GPU writes them, and so does the driver where the CPU is to (BPB-08).

use std::ops::Range;

use vidmm::{PAGE_SIZE, PageSize, PhysicalAddress};

use crate::encoding::{TableAddress, WritePtes};
use crate::layout::PageTableLayout;
use crate::memory::SparseMemory;

/// Whether an entry could point to `address`.
pub(crate) fn can_be_at(address: PhysicalAddress) -> bool {
    address.offset.is_multiple_of(PAGE_SIZE) && address.offset < 1 << 52
}

/// The pages of the table that `ptes` writes to; `None` if there are no such tables, or the entries are not inside.
pub(crate) fn pages_of(layout: &PageTableLayout, ptes: &WritePtes) -> Option<Range<u64>> {
    let end = u64::from(ptes.start_index) + u64::from(ptes.count);
    let exists = ptes.level < layout.levels()
        && (ptes.level > 0 || ptes.page_size == PageSize::Kib4 || layout.has_dual_entries())
        && match ptes.table {
            TableAddress::Physical(table) => can_be_at(table),
            TableAddress::Virtual(table) => table.0.is_multiple_of(PAGE_SIZE),
        };
    if !exists || end > layout.entries(ptes.level, ptes.page_size) {
        return None;
    }
    if ptes.first_64kb.is_some() && words_per_entry(layout, ptes) != 2 {
        return None;
    }
    let (start, end) = words(layout, ptes);
    Some(start * 8 / PAGE_SIZE..(end * 8).div_ceil(PAGE_SIZE))
}

/// Writes those of the entries that lie in `pages` of the table into `memory`, where the first of these pages is `first_page`.
pub(crate) fn write_entries(
    memory: &mut SparseMemory,
    first_page: u64,
    pages: Range<u64>,
    layout: &PageTableLayout,
    ptes: &WritePtes,
) {
    let words_in_page = PAGE_SIZE / 8;
    let (first_word, end) = words(layout, ptes);
    let (mut word, end) = (first_word.max(pages.start * words_in_page), end.min(pages.end * words_in_page));
    let words_per_entry = words_per_entry(layout, ptes);
    while word < end {
        let page_end = end.min((word / words_in_page + 1) * words_in_page);
        let words = memory.words_mut(first_page + (word / words_in_page - pages.start));
        let written = &mut words[(word % words_in_page) as usize..][..(page_end - word) as usize];
        for (slot, number) in written.iter_mut().zip(word - first_word..) {
            let (index, side) = (number / words_per_entry, number % words_per_entry);
            let first = if side == 0 { ptes.first } else { ptes.first_64kb.unwrap_or_default() };
            *slot = first.offset_by(index.wrapping_mul(ptes.stride)).0;
        }
        word = page_end;
    }
}

fn words_per_entry(layout: &PageTableLayout, ptes: &WritePtes) -> u64 {
    layout.entry_bytes(ptes.level) / 8
}

/// The first word of the table that is written, and the first after those.
fn words(layout: &PageTableLayout, ptes: &WritePtes) -> (u64, u64) {
    let start = u64::from(ptes.start_index) * words_per_entry(layout, ptes);
    (start, start + u64::from(ptes.count) * words_per_entry(layout, ptes))
}
