//! A plan, and the grammar of the operations that carry it out (D6).
//!
//! ```text
//! plan   := invalidate*  UPDATE_PAGE_TABLE(invalid) runs of what leaves or is unmapped; then FLUSH_TLB of those ranges   U-14 GVA-28
//!           out*         chunk(VIRTUAL_TRANSFER segment -> system) of what is dirty; nothing if clean                    RES-22
//!           table*       UPDATE_PAGE_TABLE(invalid, InitialUpdate) of a new table; then the entry of its parent          GVA-25
//!           in*          chunk(VIRTUAL_FILL | VIRTUAL_TRANSFER system -> segment)                                        RES-18 BPB-24
//!           validate*    UPDATE_PAGE_TABLE(valid) runs of what came in or is mapped; FLUSH_TLB unless invalid entries
//!                        are never cached                                                                                BPB-41
//! chunk(op) := map windows, op, unmap windows; at most the size of a window                                              BPB-40 PGV-05
//! ```
//!
//! A plan is decided once. What follows from places and mappings is written down then and does not change, so building it
//! decides nothing.

use alloc::{collections::VecDeque, vec::Vec};

use super::{PteTarget, PteWriter, Windows, window::root_entries};
use crate::{
    adapter::Adapter,
    contract::{
        FillVirtual, FlushTlb, KmdAllocationHandle, KmdProcessHandle, MemoryTransferDirection, PagingOperation, Pte,
        PteFlags, PteRun, RootPageTable, TransferVirtual, TransferVirtualFlags, UpdatePageTable, UpdatePageTableFlags,
    },
    extents::Extents,
    gpu_va::{Mapping, PageTables, Processes, TableKey},
    id::{PlanNo, SubmissionNo},
    units::{GpuVirtualAddress, PageSize, PhysicalAddress},
};

/// What is decided, and not yet carried out.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    /// Devices that must have retired a submission before the plan enters the stream. All are dispatched (D5).
    pub waits: Vec<(u32, SubmissionNo)>,
    /// Plans that must enter the stream before it: of the same allocation, or of a range that it was promised.
    pub after: Vec<PlanNo>,
    pub invalidate: Vec<PteRange>,
    pub out: Vec<PageOut>,
    pub tables: Vec<PlannedTable>,
    pub page_in: Vec<PageIn>,
    pub validate: Vec<PteRange>,
    /// What happens when its last operation has completed.
    pub retire: Vec<Retire>,
}

/// Entries of a mapping that become invalid, or valid.
#[derive(Debug)]
pub(crate) struct PteRange {
    pub handle: KmdAllocationHandle,
    pub mapping: Mapping,
    /// Where the allocation lies; not read when the entries become invalid.
    pub extents: Extents,
}

/// Content that leaves the segment.
#[derive(Debug)]
pub(crate) struct PageOut {
    pub handle: KmdAllocationHandle,
    pub size: u64,
    pub extents: Extents,
    pub backing_store: u64,
}

/// Content that comes into the segment.
#[derive(Debug)]
pub(crate) struct PageIn {
    pub handle: KmdAllocationHandle,
    pub size: u64,
    pub extents: Extents,
    /// The backing store to read; none is a fill with zeros.
    pub backing_store: Option<u64>,
}

/// A new table of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PlannedTable {
    pub process: u32,
    pub key: TableKey,
}

/// What follows when a plan has retired.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Retire {
    /// The last traces of an allocation are gone.
    Allocation(u32),
    /// A mapping is invalid everywhere: its addresses are free.
    Mapping { process: u32, virtual_address: u64 },
}

impl Plan {
    /// Adds a plan that must enter first.
    pub fn follow(&mut self, plan: PlanNo) {
        if !self.after.contains(&plan) {
            self.after.push(plan);
        }
    }

    /// Adds a submission that must retire first.
    pub fn wait_for(&mut self, device: u32, submission: SubmissionNo) {
        match self.waits.iter_mut().find(|(waited, _)| *waited == device) {
            Some((_, last)) => *last = submission.max(*last),
            None => self.waits.push((device, submission)),
        }
    }

    /// Bytes that it moves.
    pub fn bytes(&self) -> u64 {
        self.out.iter().map(|out| out.size).chain(self.page_in.iter().map(|page_in| page_in.size)).sum()
    }
}

/// How far a plan has been expanded into operations. Frozen with the first build.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Cursor {
    phase: Phase,
    item: usize,
    offset: u64,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Invalidate,
    Out,
    Tables,
    In,
    Validate,
    Done,
}

/// What building looks at.
pub(crate) struct BuildEnv<'a> {
    pub adapter: &'a Adapter,
    pub windows: &'a mut Windows,
    pub processes: &'a mut Processes,
}

/// How many ranges are flushed one by one before one flush covers them all.
const FLUSH_RANGES_MAX: usize = 16;

/// Appends the next operations of `plan`; `false` when there are none left.
pub(crate) fn expand(
    plan: &Plan,
    cursor: &mut Cursor,
    env: &mut BuildEnv<'_>,
    operations: &mut VecDeque<PagingOperation>,
) -> bool {
    let before = operations.len();
    while operations.len() == before {
        match cursor.phase {
            Phase::Invalidate => {
                write_entries(&plan.invalidate, false, env, operations);
                flush(&plan.invalidate, env, operations);
                cursor.phase = Phase::Out;
            }
            Phase::Out => match plan.out.get(cursor.item) {
                Some(out) => cursor.advance(page_out(out, cursor.offset, env, operations), out.size),
                None => cursor.enter(Phase::Tables),
            },
            Phase::Tables => match plan.tables.get(cursor.item) {
                Some(table) => {
                    initialise(table, env, operations);
                    cursor.item += 1;
                }
                None => cursor.enter(Phase::In),
            },
            Phase::In => match plan.page_in.get(cursor.item) {
                Some(page_in) => cursor.advance(bring_in(page_in, cursor.offset, env, operations), page_in.size),
                None => cursor.enter(Phase::Validate),
            },
            Phase::Validate => {
                write_entries(&plan.validate, true, env, operations);
                if !env.adapter.invalid_not_cached {
                    flush(&plan.validate, env, operations);
                }
                cursor.phase = Phase::Done;
            }
            Phase::Done => return false,
        }
    }
    true
}

impl Cursor {
    fn enter(&mut self, phase: Phase) {
        *self = Cursor { phase, item: 0, offset: 0 };
    }

    /// A chunk of the item's `size` bytes is done.
    fn advance(&mut self, chunk: u64, size: u64) {
        self.offset += chunk;
        if self.offset == size {
            self.item += 1;
            self.offset = 0;
        }
    }
}

fn write_entries(ranges: &[PteRange], valid: bool, env: &mut BuildEnv<'_>, operations: &mut VecDeque<PagingOperation>) {
    for range in ranges {
        let process = &env.processes[range.mapping.process as usize];
        let writer = PteWriter { adapter: env.adapter, tables: &process.tables, process: process.handle };
        let Mapping { virtual_address, size, allocation_offset, pte_page_size, driver_protection, .. } = range.mapping;
        let whole = PteTarget {
            handle: Some(range.handle),
            address: virtual_address,
            size,
            page_size: pte_page_size,
            allocation_offset,
            driver_protection,
        };
        if !valid {
            writer.write(whole, Pte::INVALID, operations);
            continue;
        }
        for (start, run) in range.extents.runs(allocation_offset, size) {
            let mut pte = Pte::valid(PhysicalAddress { segment: env.adapter.memory.id, offset: run.offset });
            pte.flags.set(PteFlags::READ_ONLY, range.mapping.read_only);
            let address = virtual_address + (start - allocation_offset);
            let target = PteTarget { address, size: run.size, allocation_offset: start, ..whole };
            writer.write(target, pte, operations);
        }
    }
}

/// One flush for each run of adjoining ranges of a process, or one for the whole span where there are too many.
fn flush(ranges: &[PteRange], env: &mut BuildEnv<'_>, operations: &mut VecDeque<PagingOperation>) {
    let mut spans: Vec<(u32, u64, u64)> = ranges
        .iter()
        .map(|PteRange { mapping, .. }| {
            (mapping.process, mapping.virtual_address, mapping.virtual_address + mapping.size)
        })
        .collect();
    spans.sort_unstable();
    merge(&mut spans, |before, next| before.2 >= next.1);
    if spans.len() > FLUSH_RANGES_MAX {
        merge(&mut spans, |_, _| true);
    }
    for (process, start, end) in spans {
        let process = &env.processes[process as usize];
        let root = process.tables.root(env.adapter).expect("a mapping has its root table");
        operations.push_back(PagingOperation::FlushTlb(FlushTlb {
            root_page_table_address: root,
            process: process.handle,
            start_virtual_address: GpuVirtualAddress(start),
            end_virtual_address: GpuVirtualAddress(end),
        }));
    }
}

/// Joins neighbours of one process that `joins` says belong together.
fn merge(spans: &mut Vec<(u32, u64, u64)>, joins: impl Fn(&(u32, u64, u64), &(u32, u64, u64)) -> bool) {
    spans.dedup_by(|next, before| {
        let join = before.0 == next.0 && joins(before, next);
        if join {
            before.2 = before.2.max(next.2);
        }
        join
    });
}

/// Writes the next chunk of `out`, from its byte `offset` on. Returns the chunk's bytes.
fn page_out(out: &PageOut, offset: u64, env: &mut BuildEnv<'_>, operations: &mut VecDeque<PagingOperation>) -> u64 {
    let part = Part::next(out.handle, &out.extents, out.size, offset, env);
    transfer(&part, out.backing_store, MemoryTransferDirection::LocalToSystem, env, operations);
    part.size
}

/// Writes the next chunk of `page_in`, from its byte `offset` on. Returns the chunk's bytes.
fn bring_in(page_in: &PageIn, offset: u64, env: &mut BuildEnv<'_>, operations: &mut VecDeque<PagingOperation>) -> u64 {
    let part = Part::next(page_in.handle, &page_in.extents, page_in.size, offset, env);
    match page_in.backing_store {
        Some(backing_store) => {
            transfer(&part, backing_store, MemoryTransferDirection::SystemToLocal, env, operations);
        }
        None => fill(&part, env, operations),
    }
    part.size
}

/// A part of an allocation that one window can show.
struct Part<'a> {
    handle: KmdAllocationHandle,
    extents: &'a Extents,
    offset: u64,
    size: u64,
}

impl<'a> Part<'a> {
    /// The part of an allocation of `size` bytes that begins at `offset`.
    fn next(handle: KmdAllocationHandle, extents: &'a Extents, size: u64, offset: u64, env: &BuildEnv<'_>) -> Self {
        Self { handle, extents, offset, size: (size - offset).min(env.windows.size()) }
    }
}

fn fill(part: &Part<'_>, env: &mut BuildEnv<'_>, operations: &mut VecDeque<PagingOperation>) {
    let &Part { handle, extents, offset, size } = part;
    let local = env.windows.map_local(env.adapter, handle, extents, offset, size, operations);
    operations.push_back(PagingOperation::VirtualFill(FillVirtual {
        allocation: handle,
        allocation_offset_in_bytes: offset,
        fill_size_in_bytes: size,
        fill_pattern: 0,
        destination_virtual_address: local.address(),
    }));
    env.windows.unmap(env.adapter, local, operations);
}

/// Copies a part between its extents and its backing store.
fn transfer(
    part: &Part<'_>,
    backing_store: u64,
    transfer_direction: MemoryTransferDirection,
    env: &mut BuildEnv<'_>,
    operations: &mut VecDeque<PagingOperation>,
) {
    let &Part { handle, extents, offset, size } = part;
    let local = env.windows.map_local(env.adapter, handle, extents, offset, size, operations);
    let system = env.windows.map_system(env.adapter, handle, offset, backing_store + offset, size, operations);
    let (source, destination, local_side) = match transfer_direction {
        MemoryTransferDirection::LocalToSystem => (local, system, TransferVirtualFlags::SRC_64KB_PAGES),
        _ => (system, local, TransferVirtualFlags::DST_64KB_PAGES),
    };
    let mut flags = TransferVirtualFlags::empty();
    flags.set(local_side, local.has_64kb_pages());
    operations.push_back(PagingOperation::VirtualTransfer(TransferVirtual {
        allocation: handle,
        allocation_offset_in_bytes: offset,
        transfer_size_in_bytes: size,
        source_virtual_address: source.address(),
        destination_virtual_address: destination.address(),
        transfer_direction,
        flags,
    }));
    env.windows.unmap(env.adapter, local, operations);
    env.windows.unmap(env.adapter, system, operations);
}

fn initialise(table: &PlannedTable, env: &mut BuildEnv<'_>, operations: &mut VecDeque<PagingOperation>) {
    let process = &mut env.processes[table.process as usize];
    initialise_table(env.adapter, process.handle, &mut process.tables, table.key, operations);
}

/// Makes all entries of a new table invalid, then lets its parent point to it.
pub(crate) fn initialise_table(
    adapter: &Adapter,
    process: KmdProcessHandle,
    tables: &mut PageTables,
    key: TableKey,
    operations: &mut VecDeque<PagingOperation>,
) {
    let dual = |key: TableKey| adapter.leaf_table_64kb.is_some() && key.level == 1;
    let update = |key: TableKey, address, start_index, flags, entries| {
        let coverage = adapter.coverage(key.level) / u64::from(key.entries(adapter));
        PagingOperation::UpdatePageTable(UpdatePageTable {
            page_table_level: key.level,
            allocation: None,
            page_table_address: address,
            page_table_entries: entries,
            start_index,
            flags,
            driver_protection: 0,
            allocation_offset_in_bytes: 0,
            process,
            first_pte_virtual_address: GpuVirtualAddress(
                key.first_address(adapter) + u64::from(start_index) * coverage,
            ),
        })
    };
    let table = tables.get_mut(key);
    table.initialised = true;
    let address = table.address.expect("a table is placed before it is initialised");
    let mut flags = UpdatePageTableFlags::REPEAT | UpdatePageTableFlags::INITIAL_UPDATE;
    flags.set(UpdatePageTableFlags::USE_64KB_PAGES, key.page_size == PageSize::Kib64);
    let invalid = PteRun {
        first: Pte::INVALID,
        first_64kb: dual(key).then_some(Pte::INVALID),
        num_page_table_entries: key.entries(adapter),
    };
    operations.push_back(update(key, address, 0, flags, invalid));

    let Some((parent, index)) = key.parent(adapter) else { return };
    let entry = |page_size| {
        let side = tables.get(TableKey { page_size, ..key }).filter(|table| table.initialised);
        side.and_then(|table| table.address).map_or(Pte::INVALID, Pte::valid)
    };
    let link = PteRun {
        first: entry(PageSize::Kib4),
        first_64kb: dual(parent).then(|| entry(PageSize::Kib64)),
        num_page_table_entries: 1,
    };
    let parent_address = tables.get(parent).and_then(|table| table.address);
    let parent_address = parent_address.expect("a table is linked after its parent is placed");
    operations.push_back(update(parent, parent_address, index, UpdatePageTableFlags::empty(), link));
}

/// Where a process's contexts find their tables.
pub(crate) fn root_page_table(adapter: &Adapter, tables: &PageTables) -> Option<RootPageTable> {
    Some(RootPageTable { address: tables.root(adapter)?, num_entries: root_entries(adapter) })
}
