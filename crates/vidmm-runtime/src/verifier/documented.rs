//! The state that the operations so far leave, as documented: page tables, apertures.

use std::collections::{BTreeMap, HashMap};

use vidmm::contract::{
    AdapterInfo, FlushTlb, KmdAllocationHandle, KmdContextHandle, KmdProcessHandle, MapApertureSegment, NotifyAlloc,
    PagingOperation, Pte, RootPageTable, Transfer, UnmapApertureSegment, UpdatePageTable, UpdatePageTableFlags,
};
use vidmm::{GpuVirtualAddress, PAGE_SIZE, PAGE_SIZE_64K, PageSize, PhysicalAddress, SegmentId};

use super::effect::{Content, Effect, Entries, Moved};
use super::page::Page;
use crate::probe::{TableEntry, leads_somewhere};

/// The digest of a page whose words all are 1, by [`kernel`](crate::kernel): that of a uniform page is a multiple of it.
const DIGEST_OF_ONES: u64 = {
    let (mut digest, mut word) = (0u64, 0);
    while word < PAGE_SIZE / 8 {
        digest = digest.wrapping_mul(0xD6E8_FEB8_6659_FD93).wrapping_add(1);
        word += 1;
    }
    digest
};

const PAGES_IN_64K: u64 = PAGE_SIZE_64K / PAGE_SIZE;

/// The documented state of page tables and apertures behind the operations that were built so far.
#[derive(Debug, Default)]
pub(super) struct Documented {
    /// The index bits of each level but the root's, leaf first.
    index_bits: Vec<u32>,
    va_bits: u32,
    has_dual_entries: bool,
    uses_io_mmu: bool,
    roots: HashMap<KmdContextHandle, RootPageTable>,
    tables: HashMap<PhysicalAddress, Vec<Option<TableEntry>>>,
    paging_process: Option<KmdProcessHandle>,
    /// For each aperture segment, the page of system memory that each page of it shows.
    apertures: BTreeMap<SegmentId, Vec<Option<u64>>>,
}

impl Documented {
    /// The driver has described the adapter.
    pub fn describe(&mut self, info: &AdapterInfo) {
        use vidmm::contract::{AddressingModel, GpuMmuFlags, SegmentFlags};
        let below_root = info.page_table_levels.len().saturating_sub(1);
        self.index_bits =
            info.page_table_levels[..below_root].iter().map(|level| level.page_table_index_bit_count).collect();
        self.va_bits = info.gpu_mmu.virtual_address_bit_count;
        self.has_dual_entries = info.gpu_mmu.flags.contains(GpuMmuFlags::DUAL_PTE_SUPPORTED);
        self.uses_io_mmu =
            matches!(info.addressing_model, AddressingModel::GpuVaIoMmu | AddressingModel::GpuVaIoMmuGlobal);
        let segments = (1..).map(SegmentId).zip(&info.segments);
        let apertures = segments.filter(|(_, segment)| segment.flags.contains(SegmentFlags::APERTURE));
        self.apertures = apertures.map(|(segment, _)| (segment, Vec::new())).collect();
    }

    /// The driver has created the paging process.
    pub fn set_paging_process(&mut self, process: KmdProcessHandle) {
        self.paging_process = Some(process);
    }

    /// A context has another root table.
    pub fn set_root(&mut self, context: KmdContextHandle, root: RootPageTable) {
        self.roots.insert(context, root);
    }

    /// The content of memory segments, and the mappings of apertures, are lost.
    pub fn lose_memory(&mut self) {
        self.tables.retain(|table, _| table.segment.is_system());
        self.apertures.values_mut().for_each(Vec::clear);
    }

    /// The effect of `operation`, which runs in `context` behind all that were built before it. None can be seen of an
    /// operation that only tells the driver something.
    pub fn apply(&mut self, operation: &PagingOperation, context: KmdContextHandle) -> Option<Effect> {
        match operation {
            PagingOperation::VirtualTransfer(op) => {
                let pages = op.transfer_size_in_bytes / PAGE_SIZE;
                let sources = self.walk(context, op.source_virtual_address, pages);
                let destinations = self.walk(context, op.destination_virtual_address, pages);
                let sources = sources.into_iter().map(|source| source.map(of));
                Some(moved(op.allocation, op.allocation_offset_in_bytes, sources.zip(destinations)))
            }
            PagingOperation::VirtualFill(op) => {
                let pages = op.fill_size_in_bytes / PAGE_SIZE;
                let destinations = self.walk(context, op.destination_virtual_address, pages);
                let pattern = Some(pattern(op.fill_pattern));
                Some(moved(
                    op.allocation,
                    op.allocation_offset_in_bytes,
                    destinations.into_iter().map(|page| (pattern, page)),
                ))
            }
            PagingOperation::UpdatePageTable(op) => Some(Effect::Entries(self.write_entries(op))),
            PagingOperation::FlushTlb(op) => Some(flushed(op)),
            PagingOperation::MapApertureSegment(op) => Some(self.map_aperture(op)),
            PagingOperation::MapApertureSegment2(op) => Some(self.map_aperture(&(*op).into())),
            PagingOperation::UnmapApertureSegment(op) => Some(self.unmap_aperture(op)),
            PagingOperation::NotifyAlloc(op) => self.notified(op),
            PagingOperation::Transfer(op) if op.transfer_size == 0 => None,
            PagingOperation::Transfer(op) => Some(self.transferred(op)),
            PagingOperation::Fill(op) => {
                let destinations = (0..op.fill_size / PAGE_SIZE).map(|page| self.page(op.destination, page));
                Some(moved(op.allocation, 0, destinations.map(|page| (Some(pattern(op.fill_pattern)), page))))
            }
            PagingOperation::DiscardContent(_) | PagingOperation::NotifyResidency(_) => None,
        }
    }

    fn transferred(&self, op: &Transfer) -> Effect {
        let (source, destination) = (op.first_source(), op.first_destination());
        let pages = (0..op.transfer_size / PAGE_SIZE)
            .map(|page| (self.page(source, page).map(of), self.page(destination, page)));
        moved(op.allocation, op.transfer_offset, pages)
    }

    /// The page `number` pages behind `start`: of an aperture, the one that it shows.
    pub fn page(&self, start: PhysicalAddress, number: u64) -> Option<Page> {
        let page = Page { segment: start.segment, number: start.offset / PAGE_SIZE + number };
        match self.apertures.get(&page.segment) {
            Some(shown) => Some(Page { segment: SegmentId::SYSTEM, number: (*shown.get(page.number as usize)?)? }),
            None => Some(page),
        }
    }

    fn map_aperture(&mut self, op: &MapApertureSegment) -> Effect {
        let first = op.mdl.offset / PAGE_SIZE;
        self.show(op.segment_id, op.offset_in_pages, op.number_of_pages, |page| first + page)
    }

    fn unmap_aperture(&mut self, op: &UnmapApertureSegment) -> Effect {
        let dummy_page = op.dummy_page.offset / PAGE_SIZE;
        self.show(op.segment_id, op.offset_in_pages, op.number_of_pages, |_| dummy_page)
    }

    fn show(&mut self, segment: SegmentId, first: u64, count: u64, system_page: impl Fn(u64) -> u64) -> Effect {
        let pages: Vec<(u64, u64)> = (0..count).map(|page| (first + page, system_page(page))).collect();
        let shown = self.apertures.entry(segment).or_default();
        shown.resize(shown.len().max((first + count) as usize), None);
        pages.iter().for_each(|&(page, shows)| shown[page as usize] = Some(shows));
        Effect::Aperture { segment, pages }
    }

    fn notified(&self, op: &NotifyAlloc) -> Option<Effect> {
        let address = op.gpu_virtual_address_at_offset;
        let addresses = address..address.offset(op.size_in_bytes);
        if !super::finding::is_eviction(&PagingOperation::NotifyAlloc(*op)) {
            // The revision of August 2024 sends it to adapters with page tables, too, where the device has cached nothing (NTF-06).
            return self.uses_io_mmu.then_some(Effect::Unmapped { process: op.process, addresses });
        }
        let first = op.offset_in_bytes / PAGE_SIZE;
        Some(Effect::Plain {
            allocation: op.allocation,
            pages: (first..first + op.size_in_bytes / PAGE_SIZE).collect(),
            window: self.paging_process.filter(|_| self.uses_io_mmu).map(|process| (process, addresses)),
        })
    }

    fn write_entries(&mut self, op: &UpdatePageTable) -> Entries {
        let page_size = op.page_size();
        let run = op.page_table_entries;
        let is_dual = self.has_dual_entries && op.page_table_level == 1;
        let advance = |pte: Pte, number| match op.flags.contains(UpdatePageTableFlags::REPEAT) {
            true => pte,
            false => pte.advanced(number, page_size),
        };
        let entry = |number| TableEntry {
            pte: advance(run.first, number),
            pte_64kb: is_dual.then(|| run.first_64kb.map_or(Pte::INVALID, |pte| advance(pte, number))),
        };
        let entries: Vec<TableEntry> = (0..run.num_page_table_entries.into()).map(entry).collect();
        let table = self.tables.entry(op.page_table_address).or_default();
        let (start, end) = (op.start_index as usize, op.start_index as usize + entries.len());
        if table.len() < end {
            table.resize(end, None);
        }
        table[start..end].iter_mut().zip(&entries).for_each(|(slot, entry)| *slot = Some(*entry));
        Entries {
            table: op.page_table_address,
            level: op.page_table_level,
            page_size,
            num_entries: self.entries_of(op.page_table_level, page_size),
            start_index: op.start_index,
            entries,
            beside: Vec::new(),
        }
    }

    /// How many entries a table of a level has. The root takes the bits that the others leave (GVA-12).
    fn entries_of(&self, level: u32, page_size: PageSize) -> u64 {
        let below_root: u32 = self.index_bits.iter().sum();
        let of_root = self.va_bits.saturating_sub(PAGE_SIZE.trailing_zeros() + below_root);
        let bits = self.index_bits.get(level as usize).copied().unwrap_or(of_root);
        let pages_per_entry = if level == 0 { page_size.bytes() / PAGE_SIZE } else { 1 };
        (1 << bits.min(63)) / pages_per_entry
    }

    /// The places of `pages` pages from an address of a context on, each none if it is mapped nowhere.
    fn walk(&self, context: KmdContextHandle, address: GpuVirtualAddress, pages: u64) -> Vec<Option<Page>> {
        let first = address.0 / PAGE_SIZE;
        let Some(root) = self.roots.get(&context) else { return vec![None; pages as usize] };
        let leaf_bits = self.index_bits.first().copied().unwrap_or(0);
        let mut leaf = None;
        let place = |page: u64| {
            let number = page >> leaf_bits;
            let (small, large) = match leaf {
                Some((known, tables)) if known == number => tables,
                _ => {
                    let (small, large) = self.leaf_tables(root, page);
                    leaf.insert((number, (self.table(small), self.table(large)))).1
                }
            };
            let index = page & ((1 << leaf_bits) - 1);
            let pte = |table: &[Option<TableEntry>], index: u64| Some((*table.get(index as usize)?)?.pte);
            if let Some(pte) = pte(large, index / PAGES_IN_64K).filter(|&pte| leads_somewhere(pte)) {
                let start = PhysicalAddress { offset: pte.address.offset & !(PAGE_SIZE_64K - 1), ..pte.address };
                return self.page(start, index % PAGES_IN_64K);
            }
            self.page(pte(small, index).filter(|&pte| leads_somewhere(pte))?.address, 0)
        };
        (first..first + pages).map(place).collect()
    }

    /// The entries of a table; of none, no entries.
    fn table(&self, table: Option<PhysicalAddress>) -> &[Option<TableEntry>] {
        table.and_then(|table| self.tables.get(&table)).map_or(&[], Vec::as_slice)
    }

    /// The leaf tables of a page of address: that of 4 KiB pages, and that of 64 KiB pages.
    fn leaf_tables(&self, root: &RootPageTable, page: u64) -> (Option<PhysicalAddress>, Option<PhysicalAddress>) {
        let mut shift: u32 = self.index_bits.iter().sum();
        let mut table = root.address;
        let mut index = page >> shift;
        for &bits in self.index_bits[1..].iter().rev() {
            let Some(entry) = self.entry(table, index).filter(|entry| leads_somewhere(entry.pte)) else {
                return (None, None);
            };
            table = entry.pte.address;
            shift -= bits;
            index = (page >> shift) & ((1 << bits) - 1);
        }
        let entry = self.entry(table, index);
        let leads_to = |pte: Pte| leads_somewhere(pte).then_some(pte.address);
        (entry.and_then(|entry| leads_to(entry.pte)), entry.and_then(|entry| leads_to(entry.pte_64kb?)))
    }

    fn entry(&self, table: PhysicalAddress, index: u64) -> Option<TableEntry> {
        *self.tables.get(&table)?.get(index as usize)?
    }
}

fn of(page: Page) -> Content {
    Content::Of(page, None)
}

fn pattern(pattern: u32) -> Content {
    let word = u64::from(pattern) << 32 | u64::from(pattern);
    Content::Fill(word.wrapping_mul(DIGEST_OF_ONES))
}

fn flushed(op: &FlushTlb) -> Effect {
    let addresses = op.start_virtual_address..op.end_virtual_address;
    Effect::Flushed { process: Some(op.process), addresses }
}

/// The pages of an allocation from `offset` on get the content of others. A page that is mapped nowhere cannot be seen.
fn moved(
    allocation: KmdAllocationHandle,
    offset: u64,
    pages: impl Iterator<Item = (Option<Content>, Option<Page>)>,
) -> Effect {
    let pages = (offset / PAGE_SIZE..).zip(pages);
    let seen = pages.filter_map(|(page, (content, to))| Some(Moved { page, content: content?, to: to?, before: None }));
    Effect::Moved(allocation, seen.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// GVA-12, GVA-44: the verifier asks for no entry behind a table, where another table may lie.
    #[test]
    fn a_table_ends_with_its_last_entry() {
        let documented = Documented { index_bits: vec![9, 8], va_bits: 40, ..Documented::default() };
        let sizes = [(0, PageSize::Kib4), (0, PageSize::Kib64), (1, PageSize::Kib4), (2, PageSize::Kib4)];
        assert_eq!(sizes.map(|(level, page_size)| documented.entries_of(level, page_size)), [512, 32, 256, 2048]);
    }
}
