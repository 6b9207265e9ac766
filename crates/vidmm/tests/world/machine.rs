//! What the GPU of the test world sees: page tables as they were written, and a token for the content of each page.

use std::collections::{BTreeMap, BTreeSet};

use vidmm::contract::*;
use vidmm::{PAGE_SIZE, PageSize, PhysicalAddress, SegmentId};

use super::{Config, host::Ledger};

/// What a page of the segment holds before anything was written there.
pub const GARBAGE: u64 = 0xBAD_BAD;

/// How an access finds its page tables.
#[derive(Clone, Copy, Debug)]
pub struct Root {
    pub process: KmdProcessHandle,
    pub table: PhysicalAddress,
    pub num_entries: u64,
}

/// Memory and a memory management unit that is as unkind as it may be: an entry that changed and was not flushed must not
/// be used, and memory that such an entry still shows must not be written (I05).
pub struct Machine {
    level_bits: Vec<u32>,
    dual: bool,
    invalid_not_cached: bool,
    paging_process: KmdProcessHandle,
    entries: BTreeMap<(PhysicalAddress, bool, u32), Pte>,
    initialised: BTreeSet<PhysicalAddress>,
    pages: BTreeMap<PhysicalAddress, u64>,
    /// Addresses whose entries changed and were not flushed, and what they showed.
    stale: BTreeMap<(KmdProcessHandle, u64), Pte>,
    roots: BTreeMap<KmdProcessHandle, PhysicalAddress>,
}

impl Machine {
    pub fn new(config: &Config) -> Self {
        Self {
            level_bits: config.level_bits.clone(),
            dual: config.dual,
            invalid_not_cached: config.invalid_not_cached,
            paging_process: KmdProcessHandle(1),
            entries: BTreeMap::new(),
            initialised: BTreeSet::new(),
            pages: BTreeMap::new(),
            stale: BTreeMap::new(),
            roots: BTreeMap::new(),
        }
    }

    /// The root of a process as the operations wrote it.
    pub fn root_of(&self, process: KmdProcessHandle) -> Option<Root> {
        let num_entries = 1 << self.level_bits.last().unwrap();
        self.roots.get(&process).map(|&table| Root { process, table, num_entries })
    }

    pub fn execute(&mut self, operation: &PagingOperation, root: Root, host: &Ledger) {
        match operation {
            PagingOperation::UpdatePageTable(op) => self.update_page_table(op),
            PagingOperation::FlushTlb(op) => {
                let (start, end) = (op.start_virtual_address.0, op.end_virtual_address.0);
                let covers = |page: u64| (start == 0 && end == 0) || (start..end).contains(&page);
                self.stale.retain(|&(process, page), _| process != op.process || !covers(page));
            }
            PagingOperation::VirtualFill(op) => {
                for offset in (0..op.fill_size_in_bytes).step_by(PAGE_SIZE as usize) {
                    let to = self.window(root, op.destination_virtual_address.0 + offset);
                    self.page(to, u64::from(op.fill_pattern), host);
                }
            }
            PagingOperation::VirtualTransfer(op) => {
                for offset in (0..op.transfer_size_in_bytes).step_by(PAGE_SIZE as usize) {
                    let from = self.window(root, op.source_virtual_address.0 + offset);
                    let to = self.window(root, op.destination_virtual_address.0 + offset);
                    let token = self.read(from, host);
                    self.page(to, token, host);
                }
            }
            other => panic!("I23: {other:?} is newer than this driver"),
        }
    }

    fn window(&self, root: Root, address: u64) -> PhysicalAddress {
        self.translate(root, address).unwrap_or_else(|| panic!("a paging buffer faults at {address:#x}")).address
    }

    pub fn read(&self, page: PhysicalAddress, host: &Ledger) -> u64 {
        assert!(!page.segment.is_system() || host.holds(page.offset), "{page:?} was given back to the system");
        let fresh = if page.segment.is_system() { 0 } else { GARBAGE };
        *self.pages.get(&page).unwrap_or(&fresh)
    }

    pub fn write(&mut self, page: PhysicalAddress, token: u64, host: &Ledger) {
        assert!(!page.segment.is_system() || host.holds(page.offset), "{page:?} was given back to the system");
        self.pages.insert(page, token);
    }

    /// Paging writes the page.
    fn page(&mut self, page: PhysicalAddress, token: u64, host: &Ledger) {
        self.overwrite(page);
        self.write(page, token, host);
    }

    /// The page gets another use: no table is there any more, and no stale entry may show it.
    fn overwrite(&mut self, page: PhysicalAddress) {
        let shows = |pte: &Pte| pte.flags.contains(PteFlags::VALID) && pte.address == page;
        let shown = self.stale.iter().find(|((process, _), pte)| *process != self.paging_process && shows(pte));
        assert!(shown.is_none(), "I05: {page:?} is reused, but was not flushed: {shown:?}");
        if self.initialised.remove(&page) {
            let table = (page, false, 0)..=(page, true, u32::MAX);
            let keys: Vec<_> = self.entries.range(table).map(|(&key, _)| key).collect();
            keys.iter().for_each(|key| _ = self.entries.remove(key));
        }
    }

    fn update_page_table(&mut self, op: &UpdatePageTable) {
        let table = op.page_table_address;
        if op.flags.contains(UpdatePageTableFlags::INITIAL_UPDATE) {
            self.overwrite(table);
            self.initialised.insert(table);
        }
        assert!(self.initialised.contains(&table), "GVA-25: a table is used before it is initialised: {op:?}");
        if op.page_table_level as usize + 1 == self.level_bits.len() {
            self.roots.insert(op.process, table);
        }
        let big = op.flags.contains(UpdatePageTableFlags::USE_64KB_PAGES);
        let page_size = if big { PageSize::Kib64 } else { PageSize::Kib4 };
        let PteRun { first, first_64kb, num_page_table_entries } = op.page_table_entries;
        for done in 0..num_page_table_entries {
            let step = if op.flags.contains(UpdatePageTableFlags::REPEAT) { 0 } else { u64::from(done) };
            let pte = first.advanced(step, page_size);
            if op.page_table_level == 0 {
                let address = op.first_pte_virtual_address.0 + u64::from(done) * page_size.bytes();
                self.note_stale(op.process, address, page_size, (table, false, op.start_index + done), pte);
            }
            self.set((table, false, op.start_index + done), pte, op.page_table_level);
            if let Some(first_64kb) = first_64kb {
                self.set((table, true, op.start_index + done), first_64kb, op.page_table_level);
            }
        }
    }

    fn set(&mut self, key: (PhysicalAddress, bool, u32), pte: Pte, level: u32) {
        if pte.flags.contains(PteFlags::VALID) {
            let ready = level == 0 || self.initialised.contains(&pte.address);
            assert!(ready, "GVA-25: a table is linked before it is initialised: {pte:?}");
            self.entries.insert(key, pte);
        } else {
            self.entries.remove(&key);
        }
    }

    fn note_stale(
        &mut self,
        process: KmdProcessHandle,
        address: u64,
        page_size: PageSize,
        key: (PhysicalAddress, bool, u32),
        new: Pte,
    ) {
        let old = self.entries.get(&key).copied();
        if old == Some(new) || (old.is_none() && (self.invalid_not_cached || !new.flags.contains(PteFlags::VALID))) {
            return;
        }
        for page in 0..page_size.bytes() / PAGE_SIZE {
            let old = old.unwrap_or(Pte::INVALID).advanced(page, PageSize::Kib4);
            self.stale.entry((process, address + page * PAGE_SIZE)).or_insert(old);
        }
    }

    /// The entry that maps the page of `address`; none if access faults.
    pub fn translate(&self, root: Root, address: u64) -> Option<Pte> {
        let page = address & !(PAGE_SIZE - 1);
        let is_stale = self.stale.contains_key(&(root.process, page));
        assert!(!is_stale, "GVA-34: {page:#x} of {:?} is used, but was not flushed", root.process);
        let shift = |level: usize| 12 + self.level_bits[..level].iter().sum::<u32>();
        let top = self.level_bits.len() - 1;
        if address >> shift(top) >= root.num_entries {
            return None;
        }
        let mut table = root.table;
        for level in (1..=top).rev() {
            let index = (address >> shift(level)) as u32 & ((1 << self.level_bits[level]) - 1);
            if level == 1 && self.dual {
                let big = self.entry(table, true, index).and_then(|leaf| self.leaf(leaf.address, address, 16));
                let small = self.entry(table, false, index).and_then(|leaf| self.leaf(leaf.address, address, 12));
                assert!(big.is_none() || small.is_none(), "GVA-43: {page:#x} is mapped on both sides");
                return big.or(small);
            }
            table = self.entry(table, false, index)?.address;
        }
        self.leaf(table, address, 12)
    }

    fn leaf(&self, table: PhysicalAddress, address: u64, page_shift: u32) -> Option<Pte> {
        let in_table = address & ((1 << (12 + self.level_bits[0])) - 1);
        let pte = self.entry(table, false, (in_table >> page_shift) as u32)?;
        let in_page = (in_table & ((1 << page_shift) - 1)) / PAGE_SIZE;
        Some(pte.advanced(in_page, PageSize::Kib4))
    }

    fn entry(&self, table: PhysicalAddress, side_64kb: bool, index: u32) -> Option<Pte> {
        assert!(self.initialised.contains(&table), "GVA-25: the GPU walks a table that was not initialised: {table:?}");
        self.entries.get(&(table, side_64kb, index)).copied()
    }
}

pub const fn local(page: u64) -> PhysicalAddress {
    PhysicalAddress { segment: SegmentId(1), offset: page * PAGE_SIZE }
}
