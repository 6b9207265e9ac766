//! Tables: how their entries are written, and how a new one is initialised and linked to its parent (GVA-25).

use alloc::vec::Vec;
use core::ops::Range;

use crate::{
    adapter::Adapter,
    contract::{
        KmdAllocationHandle, KmdProcessHandle, PageTableUpdateMode, PagingOperation, Pte, PteFlags, PteRun,
        RootPageTable, UpdateMode, UpdatePageTable, UpdatePageTableFlags,
    },
    gpu_va::{PageTables, TableKey, leaf_runs},
    objects::process::Process,
    plans::{BuildEnv, Step, Steps, ZeroRange},
    units::{Extent, GpuVirtualAddress, PageSize},
};

/// Makes all entries of a new table invalid, then lets its parent point to it. The CPU may be told to write these entries.
pub(super) fn initialise(
    adapter: &Adapter,
    process: KmdProcessHandle,
    tables: &mut PageTables,
    key: TableKey,
    by_cpu: bool,
    steps: &mut Steps,
) {
    let table = tables.get_mut(key);
    (table.initialised, table.large_page) = (true, None);
    let mut writer = TableWriter { adapter, process, tables, by_cpu, steps };
    let mut flags = UpdatePageTableFlags::REPEAT | UpdatePageTableFlags::INITIAL_UPDATE;
    flags.set(UpdatePageTableFlags::USE_64KB_PAGES, key.page_size == PageSize::Kib64);
    let invalid = PteRun {
        first: Pte::INVALID,
        first_64kb: has_two_sides(adapter, key).then_some(Pte::INVALID),
        num_page_table_entries: key.entries(adapter),
    };
    let start = key.first_address(adapter);
    writer.push(writer.update(key, start, flags, invalid));
    let covered = Extent { offset: start, size: adapter.coverage(key.level) };
    let entry_bytes = key.entry_bytes(adapter);
    for part in tables.zero_in(covered).filter(|_| key.page_size == PageSize::Kib4) {
        // An entry that has a part of it alone has a table below it, which is to come.
        let (start, end) = (part.offset.next_multiple_of(entry_bytes), part.end() / entry_bytes * entry_bytes);
        writer.repeat(key, start..end, Pte::ZERO);
    }
    if key.parent(adapter).is_some() {
        writer.push(writer.link(key));
    }
}

/// Says in the tables of a process that addresses read as zero, or fault: in the highest entries that are wholly among them. An
/// entry that points to a table stays, and that table says so. What reads as zero is said on the side of 4 KiB pages.
pub(super) fn write_zero(zero: &ZeroRange, env: &BuildEnv<'_>, steps: &mut Steps) {
    let pte = if zero.reads_zero { Pte::ZERO } else { Pte::INVALID };
    let mut writer = TableWriter::of(env.adapter, &env.processes[zero.process], steps);
    writer.write_below(TableKey::root(env.adapter), zero.range, pte);
}

/// Whether the entries of a table point to two tables each: of pages of 4 KiB and of 64 KiB (GVA-43).
fn has_two_sides(adapter: &Adapter, key: TableKey) -> bool {
    adapter.leaf_table_64kb.is_some() && key.level == 1
}

/// Writes entries of the tables of a process.
pub(super) struct TableWriter<'a> {
    pub adapter: &'a Adapter,
    pub process: KmdProcessHandle,
    pub tables: &'a PageTables,
    /// The CPU writes them, however the driver has reported.
    pub by_cpu: bool,
    pub steps: &'a mut Steps,
}

/// The target of a run of leaf entries.
#[derive(Clone, Copy, Debug)]
pub(super) struct PteTarget {
    pub handle: Option<KmdAllocationHandle>,
    pub address: u64,
    pub size: u64,
    pub page_size: PageSize,
    pub allocation_offset: u64,
    pub driver_protection: u64,
}

impl PteTarget {
    /// Entries that map nothing, or a table.
    pub fn of_no_allocation(address: u64, size: u64, page_size: PageSize) -> Self {
        Self { handle: None, address, size, page_size, allocation_offset: 0, driver_protection: 0 }
    }
}

impl<'a> TableWriter<'a> {
    /// Writes as the driver has reported (GVA-33).
    pub fn of(adapter: &'a Adapter, process: &'a Process, steps: &'a mut Steps) -> Self {
        Self { adapter, process: process.handle, tables: &process.tables, by_cpu: false, steps }
    }

    /// Writes the entries of `target`, of which `first` is the first: each further one is a page on, unless it is invalid.
    pub fn write(&mut self, target: PteTarget, first: Pte) {
        let valid = first.flags.contains(PteFlags::VALID);
        let mut flags = UpdatePageTableFlags::empty();
        flags.set(UpdatePageTableFlags::REPEAT, !valid);
        flags.set(UpdatePageTableFlags::USE_64KB_PAGES, target.page_size == PageSize::Kib64);
        for (start, size) in leaf_runs(self.adapter, target.address, target.size) {
            let key = TableKey::covering(self.adapter, 0, target.page_size, start);
            let done = start - target.address;
            let pages = |bytes: u64| bytes / target.page_size.bytes();
            let run = PteRun {
                first: first.advanced(pages(done), target.page_size),
                first_64kb: None,
                num_page_table_entries: pages(size) as u32,
            };
            let mut update = self.update(key, start, flags, run);
            update.allocation = target.handle;
            update.driver_protection = target.driver_protection;
            update.allocation_offset_in_bytes = if valid { target.allocation_offset + done } else { 0 };
            self.push(update);
        }
    }

    /// The entry of the parent of a table, from what is there: on both sides.
    pub fn link(&self, key: TableKey) -> UpdatePageTable {
        let parent = key.parent(self.adapter).expect("nothing points to a root");
        let covered = Extent { offset: key.first_address(self.adapter), size: self.adapter.coverage(key.level) };
        let entry = |page_size| {
            let side = self.tables.get(TableKey { page_size, ..key }).filter(|table| table.initialised);
            let is_zero = page_size == PageSize::Kib4 && self.tables.reads_zero(covered);
            let without = if is_zero { Pte::ZERO } else { Pte::INVALID };
            side.and_then(|table| table.large_page.or(table.address.map(Pte::valid))).unwrap_or(without)
        };
        let link = PteRun {
            first: entry(PageSize::Kib4),
            first_64kb: has_two_sides(self.adapter, parent).then(|| entry(PageSize::Kib64)),
            num_page_table_entries: 1,
        };
        self.update(parent, covered.offset, UpdatePageTableFlags::empty(), link)
    }

    /// Adds a step that updates entries.
    #[inline(always)]
    pub fn push(&mut self, update: UpdatePageTable) {
        self.steps.push_back(match self.adapter.page_table_update_mode {
            PageTableUpdateMode::GpuVirtual if !self.by_cpu => Step::UpdateInView(update),
            PageTableUpdateMode::GpuPhysical if !self.by_cpu => {
                Step::Operation(PagingOperation::UpdatePageTable(update))
            }
            _ => Step::UpdateByCpu(update),
        });
    }

    fn write_below(&mut self, key: TableKey, range: Extent, pte: Pte) {
        let entry_bytes = key.entry_bytes(self.adapter);
        let first = key.first_address(self.adapter);
        let (mut at, end) = (range.offset.max(first), range.end().min(first + self.adapter.coverage(key.level)));
        let mut children = Vec::new();
        if key.level > 0 {
            children.extend(self.tables.initialised_in(key.level - 1, at / entry_bytes..end.div_ceil(entry_bytes)));
            // One of 4 KiB pages comes before one of 64 KiB pages at the same place, and stands for both.
            children.sort_by_key(|child| (child.number, child.page_size == PageSize::Kib64));
            children.dedup_by_key(|child| child.number);
        }
        for child in children {
            let start = child.first_address(self.adapter);
            self.repeat(key, at..start, pte);
            match child.page_size {
                PageSize::Kib4 => self.write_below(child, range, pte),
                PageSize::Kib64 => self.push(self.link(child)),
            }
            at = start + entry_bytes;
        }
        self.repeat(key, at..end, pte);
    }

    /// Writes one value into all entries of a table for some addresses; nothing if there are none.
    fn repeat(&mut self, key: TableKey, addresses: Range<u64>, pte: Pte) {
        let entry_bytes = key.entry_bytes(self.adapter);
        let Range { start, end } = addresses;
        if start >= end {
            return;
        }
        debug_assert!((start | end).is_multiple_of(entry_bytes), "an entry that is cut points to a table");
        let run = PteRun {
            first: pte,
            first_64kb: has_two_sides(self.adapter, key).then_some(Pte::INVALID),
            num_page_table_entries: ((end - start) / entry_bytes) as u32,
        };
        self.push(self.update(key, start, UpdatePageTableFlags::REPEAT, run));
    }

    /// The update of entries of a table, from that for the address `start` on.
    #[inline(always)]
    fn update(&self, key: TableKey, start: u64, flags: UpdatePageTableFlags, entries: PteRun) -> UpdatePageTable {
        let table = self.tables.get(key).and_then(|table| table.address);
        UpdatePageTable {
            page_table_level: key.level,
            allocation: None,
            page_table_address: table.expect("a table is placed before its entries are written"),
            page_table_entries: entries,
            start_index: ((start - key.first_address(self.adapter)) >> key.entry_bytes(self.adapter).trailing_zeros())
                as u32,
            flags,
            driver_protection: 0,
            allocation_offset_in_bytes: 0,
            process: self.process,
            update_mode: UpdateMode::default(),
            first_pte_virtual_address: GpuVirtualAddress(start),
        }
    }
}

/// Where a process's contexts find their tables.
pub(crate) fn root_page_table(adapter: &Adapter, tables: &PageTables) -> Option<RootPageTable> {
    Some(RootPageTable { address: tables.root(adapter)?, num_entries: tables.root_entries() })
}
