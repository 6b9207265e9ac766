//! Tables: how a new one is initialised and linked to its parent (GVA-25).

use alloc::{collections::VecDeque, vec::Vec};
use core::ops::Range;

use crate::{
    adapter::Adapter,
    contract::{KmdProcessHandle, Pte, PteRun, RootPageTable, UpdateMode, UpdatePageTable, UpdatePageTableFlags},
    gpu_va::{PageTables, TableKey},
    plans::{BuildEnv, PlannedTable, Step, UnlinkedTable, ZeroRange},
    units::{Extent, GpuVirtualAddress, PageSize, PhysicalAddress},
};

pub(super) fn initialise(table: &PlannedTable, env: &mut BuildEnv<'_>, steps: &mut VecDeque<Step>) {
    let process = &mut env.processes[table.process];
    initialise_table(env.adapter, process.handle, &mut process.tables, table.key, steps);
}

/// The entry of the parent of a table that was freed says what is there now: nothing, or only the table for pages of the other
/// size.
pub(super) fn unlink(table: &UnlinkedTable, env: &BuildEnv<'_>, steps: &mut VecDeque<Step>) {
    let process = &env.processes[table.process];
    let link = link_at(env.adapter, process.handle, &process.tables, table.child, table.parent);
    steps.push_back(Step::update(env.adapter, link));
}

/// Makes all entries of a new table invalid, then lets its parent point to it.
pub(crate) fn initialise_table(
    adapter: &Adapter,
    process: KmdProcessHandle,
    tables: &mut PageTables,
    key: TableKey,
    steps: &mut VecDeque<Step>,
) {
    let table = tables.get_mut(key);
    (table.initialised, table.large_page) = (true, None);
    let address = table.address.expect("a table is placed before it is initialised");
    let mut flags = UpdatePageTableFlags::REPEAT | UpdatePageTableFlags::INITIAL_UPDATE;
    flags.set(UpdatePageTableFlags::USE_64KB_PAGES, key.page_size == PageSize::Kib64);
    let invalid = PteRun {
        first: Pte::INVALID,
        first_64kb: has_two_sides(adapter, key).then_some(Pte::INVALID),
        num_page_table_entries: key.entries(adapter),
    };
    steps.push_back(Step::update(adapter, update(adapter, process, key, address, 0, flags, invalid)));
    let covered = Extent { offset: key.first_address(adapter), size: adapter.coverage(key.level) };
    let entry_bytes = entry_bytes(adapter, key);
    for part in tables.zero_in(covered).filter(|_| key.page_size == PageSize::Kib4) {
        // An entry that has a part of it alone has a table below it, which is to come.
        let (start, end) = (part.offset.next_multiple_of(entry_bytes), part.end() / entry_bytes * entry_bytes);
        steps.extend(write_run(adapter, process, key, address, start..end, Pte::ZERO));
    }
    if key.parent(adapter).is_some() {
        steps.push_back(Step::update(adapter, link(adapter, process, tables, key)));
    }
}

/// Whether the entries of a table point to two tables each: of pages of 4 KiB and of 64 KiB (GVA-43).
fn has_two_sides(adapter: &Adapter, key: TableKey) -> bool {
    adapter.leaf_table_64kb.is_some() && key.level == 1
}

/// The entry of the parent of a table, from what is there: on both sides.
pub(super) fn link(
    adapter: &Adapter,
    process: KmdProcessHandle,
    tables: &PageTables,
    key: TableKey,
) -> UpdatePageTable {
    let parent = key.parent(adapter).and_then(|(parent, _)| tables.get(parent)?.address);
    link_at(adapter, process, tables, key, parent.expect("a table is linked after its parent is placed"))
}

/// The same, of a parent that lies at `parent_address`.
fn link_at(
    adapter: &Adapter,
    process: KmdProcessHandle,
    tables: &PageTables,
    key: TableKey,
    parent_address: PhysicalAddress,
) -> UpdatePageTable {
    let (parent, index) = key.parent(adapter).expect("nothing points to a root");
    let covered = Extent { offset: key.first_address(adapter), size: adapter.coverage(key.level) };
    let entry = |page_size| {
        let side = tables.get(TableKey { page_size, ..key }).filter(|table| table.initialised);
        let without = if page_size == PageSize::Kib4 && tables.reads_zero(covered) { Pte::ZERO } else { Pte::INVALID };
        side.and_then(|table| table.large_page.or(table.address.map(Pte::valid))).unwrap_or(without)
    };
    let link = PteRun {
        first: entry(PageSize::Kib4),
        first_64kb: has_two_sides(adapter, parent).then(|| entry(PageSize::Kib64)),
        num_page_table_entries: 1,
    };
    update(adapter, process, parent, parent_address, index, UpdatePageTableFlags::empty(), link)
}

/// Says in the tables of a process that addresses read as zero, or fault: in the highest entries that are wholly among them. An
/// entry that points to a table stays, and that table says so. What reads as zero is said on the side of 4 KiB pages.
pub(super) fn write_zero(zero: &ZeroRange, env: &BuildEnv<'_>, steps: &mut VecDeque<Step>) {
    let process = &env.processes[zero.process];
    let pte = if zero.reads_zero { Pte::ZERO } else { Pte::INVALID };
    let root = TableKey::root(env.adapter);
    write_below(env.adapter, process.handle, &process.tables, root, zero.range, pte, steps);
}

fn write_below(
    adapter: &Adapter,
    process: KmdProcessHandle,
    tables: &PageTables,
    key: TableKey,
    range: Extent,
    pte: Pte,
    steps: &mut VecDeque<Step>,
) {
    let entry_bytes = entry_bytes(adapter, key);
    let first = key.first_address(adapter);
    let (mut at, end) = (range.offset.max(first), range.end().min(first + adapter.coverage(key.level)));
    let address = tables.get(key).and_then(|table| table.address).expect("a table that is pointed to is placed");
    let mut children = Vec::new();
    if key.level > 0 {
        children.extend(tables.initialised_in(key.level - 1, at / entry_bytes..end.div_ceil(entry_bytes)));
        // One of 4 KiB pages comes before one of 64 KiB pages at the same place, and stands for both.
        children.sort_by_key(|child| (child.number, child.page_size == PageSize::Kib64));
        children.dedup_by_key(|child| child.number);
    }
    for child in children {
        let start = child.first_address(adapter);
        steps.extend(write_run(adapter, process, key, address, at..start, pte));
        match child.page_size {
            PageSize::Kib4 => write_below(adapter, process, tables, child, range, pte, steps),
            PageSize::Kib64 => {
                let link = link_at(adapter, process, tables, child, address);
                steps.push_back(Step::update(adapter, link));
            }
        }
        at = start + entry_bytes;
    }
    steps.extend(write_run(adapter, process, key, address, at..end, pte));
}

/// Writes one value into all entries of a table for some addresses; nothing if there are none.
fn write_run(
    adapter: &Adapter,
    process: KmdProcessHandle,
    key: TableKey,
    address: PhysicalAddress,
    addresses: Range<u64>,
    pte: Pte,
) -> Option<Step> {
    let entry_bytes = entry_bytes(adapter, key);
    let Range { start, end } = addresses;
    if start >= end {
        return None;
    }
    debug_assert!((start | end).is_multiple_of(entry_bytes), "an entry that is cut points to a table");
    let run = PteRun {
        first: pte,
        first_64kb: has_two_sides(adapter, key).then_some(Pte::INVALID),
        num_page_table_entries: ((end - start) / entry_bytes) as u32,
    };
    let index = ((start - key.first_address(adapter)) / entry_bytes) as u32;
    let update = update(adapter, process, key, address, index, UpdatePageTableFlags::REPEAT, run);
    Some(Step::update(adapter, update))
}

/// Bytes of addresses that an entry of a table covers.
fn entry_bytes(adapter: &Adapter, key: TableKey) -> u64 {
    adapter.coverage(key.level) / u64::from(key.entries(adapter))
}

fn update(
    adapter: &Adapter,
    process: KmdProcessHandle,
    key: TableKey,
    address: PhysicalAddress,
    start_index: u32,
    flags: UpdatePageTableFlags,
    entries: PteRun,
) -> UpdatePageTable {
    UpdatePageTable {
        page_table_level: key.level,
        allocation: None,
        page_table_address: address,
        page_table_entries: entries,
        start_index,
        flags,
        driver_protection: 0,
        allocation_offset_in_bytes: 0,
        process,
        update_mode: UpdateMode::default(),
        first_pte_virtual_address: GpuVirtualAddress(
            key.first_address(adapter) + u64::from(start_index) * entry_bytes(adapter, key),
        ),
    }
}

/// Where a process's contexts find their tables.
pub(crate) fn root_page_table(adapter: &Adapter, tables: &PageTables) -> Option<RootPageTable> {
    Some(RootPageTable { address: tables.root(adapter)?, num_entries: tables.root_entries() })
}
