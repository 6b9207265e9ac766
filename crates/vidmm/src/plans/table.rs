//! Tables: how a new one is initialised and linked to its parent (GVA-25).

use alloc::collections::VecDeque;

use crate::{
    adapter::Adapter,
    contract::{KmdProcessHandle, Pte, PteRun, RootPageTable, UpdateMode, UpdatePageTable, UpdatePageTableFlags},
    gpu_va::{PageTables, TableKey},
    plans::{BuildEnv, PlannedTable, Step, UnlinkedTable, window::root_entries},
    units::{GpuVirtualAddress, PageSize, PhysicalAddress},
};

pub(super) fn initialise(table: &PlannedTable, env: &mut BuildEnv<'_>, steps: &mut VecDeque<Step>) {
    let process = &mut env.processes[table.process];
    initialise_table(env.adapter, process.handle, &mut process.tables, table.key, steps);
}

/// The entry of the parent of a table that was freed says what is there now: nothing, or only the table for pages of the other
/// size.
pub(super) fn unlink(table: &UnlinkedTable, env: &BuildEnv<'_>, steps: &mut VecDeque<Step>) {
    let process = &env.processes[table.process];
    steps.push_back(link(env.adapter, process.handle, &process.tables, table.child, table.parent));
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
    table.initialised = true;
    let address = table.address.expect("a table is placed before it is initialised");
    let mut flags = UpdatePageTableFlags::REPEAT | UpdatePageTableFlags::INITIAL_UPDATE;
    flags.set(UpdatePageTableFlags::USE_64KB_PAGES, key.page_size == PageSize::Kib64);
    let invalid = PteRun {
        first: Pte::INVALID,
        first_64kb: has_two_sides(adapter, key).then_some(Pte::INVALID),
        num_page_table_entries: key.entries(adapter),
    };
    steps.push_back(update(adapter, process, key, address, 0, flags, invalid));
    let Some((parent, _)) = key.parent(adapter) else { return };
    let parent = tables.get(parent).and_then(|table| table.address);
    let parent = parent.expect("a table is linked after its parent is placed");
    steps.push_back(link(adapter, process, tables, key, parent));
}

/// Whether the entries of a table point to two tables each: of pages of 4 KiB and of 64 KiB (GVA-43).
fn has_two_sides(adapter: &Adapter, key: TableKey) -> bool {
    adapter.leaf_table_64kb.is_some() && key.level == 1
}

/// Writes the entry of the table at `parent_address` for its child `key`, from what is there of that: on both sides.
fn link(
    adapter: &Adapter,
    process: KmdProcessHandle,
    tables: &PageTables,
    key: TableKey,
    parent_address: PhysicalAddress,
) -> Step {
    let (parent, index) = key.parent(adapter).expect("nothing points to a root");
    let entry = |page_size| {
        let side = tables.get(TableKey { page_size, ..key }).filter(|table| table.initialised);
        side.and_then(|table| table.address).map_or(Pte::INVALID, Pte::valid)
    };
    let link = PteRun {
        first: entry(PageSize::Kib4),
        first_64kb: has_two_sides(adapter, parent).then(|| entry(PageSize::Kib64)),
        num_page_table_entries: 1,
    };
    update(adapter, process, parent, parent_address, index, UpdatePageTableFlags::empty(), link)
}

fn update(
    adapter: &Adapter,
    process: KmdProcessHandle,
    key: TableKey,
    address: PhysicalAddress,
    start_index: u32,
    flags: UpdatePageTableFlags,
    entries: PteRun,
) -> Step {
    let coverage = adapter.coverage(key.level) / u64::from(key.entries(adapter));
    let update = UpdatePageTable {
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
        first_pte_virtual_address: GpuVirtualAddress(key.first_address(adapter) + u64::from(start_index) * coverage),
    };
    Step::update(adapter, update)
}

/// Where a process's contexts find their tables.
pub(crate) fn root_page_table(adapter: &Adapter, tables: &PageTables) -> Option<RootPageTable> {
    Some(RootPageTable { address: tables.root(adapter)?, num_entries: root_entries(adapter) })
}
