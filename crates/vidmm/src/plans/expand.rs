//! Expanding a plan: its operations, in the order of the grammar (D6). It decides nothing.

use alloc::vec::Vec;

use crate::{
    adapter::Adapter,
    addresses::IoMmuRange,
    budget::account::Account,
    buggify::{Buggify, Unlikely},
    contract::{
        DiscardContent, DiscardContentFlags, Fill, FillVirtual, FlushTlb, KmdAllocationHandle, MapApertureFlags,
        MapApertureSegment, MemoryTransferDirection, NotifyAlloc, NotifyAllocFlags, PagingOperation, Pte, Transfer,
        TransferFlags, TransferVirtual, TransferVirtualFlags,
    },
    gpu_va::Mapping,
    id::{PlanNo, ProcessIx},
    objects::{allocation::Store, process::Processes},
    plans::{
        ApertureRange, CleanPart, Coming, InMemory, Leaving, Notice, PageIn, PageOut, Plan, ProcessTable, PteRange,
        Step, Steps, UnmapNotice, Windows, ZeroRange, large_pages,
        table::{self, PteTarget, TableWriter, write_zero},
    },
    units::{Extent, GpuVirtualAddress, PAGE_SIZE, PAGE_SIZE_64K, PhysicalAddress, SegmentId},
};

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
    Notify,
    Invalidate,
    Unlink,
    Out,
    Clean,
    NotifyUnmap,
    Tables,
    In,
    Validate,
    Zero,
    Done,
}

/// The state that building looks at.
pub(crate) struct BuildEnv<'a> {
    pub adapter: &'a Adapter,
    pub windows: &'a mut Windows,
    pub buggify: Buggify,
    /// The number of the plan.
    pub plan: PlanNo,
    pub processes: &'a mut Processes,
}

impl BuildEnv<'_> {
    /// The bytes of an allocation that a window shows, from byte `offset` on.
    fn chunk(&self, store: Store, offset: u64) -> u64 {
        self.part(Unlikely::CutWindow, store, offset, self.windows.size())
    }

    /// The bytes of an allocation that one physical TRANSFER moves, from byte `offset` on.
    fn part_of_transfer(&self, store: Store, offset: u64) -> u64 {
        self.part(Unlikely::CutTransfer, store, offset, TRANSFER_BYTES_MAX)
    }

    /// Adds an operation: to those of the open windows, if windows are open.
    fn push(&mut self, operation: PagingOperation, steps: &mut Steps) {
        match self.windows.is_open() {
            true => self.windows.operate(Step::Operation(operation)),
            false => steps.push_back(Step::Operation(operation)),
        }
    }

    /// Whether windows of `size` bytes can be opened beside those that are open. If not, those are closed.
    fn has_room(&mut self, size: u64, steps: &mut Steps) -> bool {
        let has_room = self.windows.has_room(size);
        if !has_room {
            self.windows.close(self.adapter, steps);
        }
        has_room
    }

    fn part(&self, cut: Unlikely, store: Store, offset: u64, most: u64) -> u64 {
        let is_cut = self.buggify.makes(cut, self.plan, store.address + offset);
        let most = if is_cut { most.min(PAGE_SIZE_64K) } else { most };
        most.min(store.size - offset)
    }
}

/// How many ranges are flushed one by one before one flush covers them all.
const FLUSH_RANGES_MAX: usize = 16;

/// Appends the next operations of `plan`; `false` when there are none left. Chunks that are copied or filled come in batches: as many as
/// have windows beside each other.
pub(crate) fn expand(plan: &Plan, cursor: &mut Cursor, env: &mut BuildEnv<'_>, steps: &mut Steps) -> bool {
    let before = steps.len();
    while steps.len() == before || env.windows.is_open() {
        match cursor.phase {
            Phase::Notify => match plan.notify.get(cursor.item) {
                Some(notice) => cursor.advance(notify(notice, cursor.offset, env, steps), notice.store.size),
                None => cursor.enter(Phase::Invalidate),
            },
            Phase::Invalidate => {
                large_pages::split(&plan.invalidate, env, steps);
                write_entries(&plan.invalidate, false, env, steps);
                flush(spans(&plan.invalidate), env, steps);
                cursor.enter(Phase::Unlink);
            }
            Phase::Unlink => {
                plan.unlink.iter().for_each(|unlinked| unlink(unlinked, env, steps));
                flush(plan.unlink.iter().map(|unlinked| span_of(unlinked, env.adapter)).collect(), env, steps);
                cursor.enter(Phase::Out);
            }
            Phase::Out => match plan.out.get(cursor.item) {
                Some(Leaving::Memory(out)) => {
                    cursor.advance(page_out(out, cursor.offset, env, steps), out.from.store.size)
                }
                Some(&Leaving::Discarded { account, handle, offset }) => {
                    steps.push_back(discard(account, handle, offset, env));
                    cursor.item += 1;
                }
                Some(Leaving::Aperture(range)) => {
                    env.push(range.unmap(env.adapter), steps);
                    cursor.item += 1;
                }
                Some(&Leaving::Told(notice)) => {
                    env.push(PagingOperation::NotifyResidency(notice), steps);
                    cursor.item += 1;
                }
                None => cursor.leave_windows(Phase::Clean, env, steps),
            },
            Phase::Clean => match plan.clean.as_ref().filter(|_| cursor.item == 0) {
                Some(part) => cursor.advance(clean(part, cursor.offset, env, steps), part.size),
                None => cursor.leave_windows(Phase::NotifyUnmap, env, steps),
            },
            Phase::NotifyUnmap => {
                steps.extend(plan.notify_unmap.iter().map(notify_unmap));
                cursor.enter(Phase::Tables);
            }
            Phase::Tables => match plan.tables.get(cursor.item) {
                Some(table) => {
                    let process = &mut env.processes[table.process];
                    let tables = &mut process.tables;
                    table::initialise(env.adapter, process.handle, tables, table.key, false, steps);
                    cursor.item += 1;
                }
                None => cursor.enter(Phase::In),
            },
            Phase::In => match plan.page_in.get(cursor.item) {
                Some(Coming::Memory(page_in)) => {
                    cursor.advance(bring_in(page_in, cursor.offset, env, steps), page_in.to.store.size);
                }
                Some(Coming::Aperture(range)) => {
                    env.push(map_aperture(range, env.adapter), steps);
                    cursor.item += 1;
                }
                Some(&Coming::Told(notice)) => {
                    env.push(PagingOperation::NotifyResidency(notice), steps);
                    cursor.item += 1;
                }
                None => cursor.leave_windows(Phase::Validate, env, steps),
            },
            Phase::Validate => {
                write_entries(&plan.validate, true, env, steps);
                large_pages::join(&plan.validate, env, steps);
                if !env.adapter.invalid_not_cached {
                    flush(spans(&plan.validate), env, steps);
                } else if env.adapter.has_zero {
                    // Zeros are cached, whatever is not.
                    let was_zero = |&(process, start, end): &Span| {
                        env.processes[process].tables.reads_zero(Extent { offset: start, size: end - start })
                    };
                    let zero = spans(&plan.validate).into_iter().filter(was_zero).collect();
                    flush(zero, env, steps);
                }
                cursor.enter(Phase::Zero);
            }
            Phase::Zero => {
                for &ZeroRange { process, range, reads_zero } in &plan.reserved {
                    env.processes[process].tables.let_read_zero(range, reads_zero);
                }
                plan.zero.iter().for_each(|range| write_zero(range, env, steps));
                let span = |of: &ZeroRange| (of.process, of.range.offset, of.range.end());
                flush(plan.zero.iter().map(span).collect(), env, steps);
                cursor.enter(Phase::Done);
            }
            Phase::Done => return false,
        }
    }
    true
}

/// The range of an aperture in which content that leaves is mapped, as far as the driver has been told, while `steps` are the next of
/// the plan (SEG-45).
pub(crate) fn lent(plan: &Plan, cursor: &Cursor, steps: &Steps) -> Option<ApertureRange> {
    let is_ending = cursor.offset == 0 && !steps.is_empty();
    let item = if is_ending { cursor.item.checked_sub(1)? } else { cursor.item };
    let leaving = plan.out.get(item).filter(|_| cursor.phase == Phase::Out && (is_ending || cursor.offset > 0));
    let Leaving::Memory(PageOut { from, through_aperture: Some(offset) }) = leaving? else { return None };
    let is_to_be_mapped = steps.iter().any(|step| {
        matches!(
            step,
            Step::Operation(PagingOperation::MapApertureSegment(_) | PagingOperation::MapApertureSegment2(_))
        )
    });
    (!is_to_be_mapped).then_some(ApertureRange { store: from.store, offset: *offset })
}

impl Cursor {
    fn enter(&mut self, phase: Phase) {
        *self = Cursor { phase, item: 0, offset: 0 };
    }

    /// The windows of a phase are closed before the next.
    fn leave_windows(&mut self, next: Phase, env: &mut BuildEnv<'_>, steps: &mut Steps) {
        env.windows.close(env.adapter, steps);
        self.enter(next);
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

/// Writes the next chunk of a notification, from its byte `offset` on. Returns the chunk's bytes.
fn notify(notice: &Notice, offset: u64, env: &mut BuildEnv<'_>, steps: &mut Steps) -> u64 {
    let &Notice { allocation, store, flags, .. } = notice;
    let chunk = env.chunk(store, offset);
    let window = match env.adapter.io_mmu_domain(env.windows.process) {
        None => env.windows.map_system(env.adapter, store, offset, chunk, steps),
        Some(domain) => {
            let range = IoMmuRange {
                domain,
                allocation,
                allocation_offset: offset,
                system_offset: store.address + offset,
                size: chunk,
                read_only: false,
                window: true,
                virtual_address: GpuVirtualAddress(0),
            };
            env.windows.map_io_mmu(range, steps)
        }
    };
    env.windows.operate(Step::Operation(PagingOperation::NotifyAlloc(NotifyAlloc {
        allocation: store.handle,
        process: None,
        flags,
        offset_in_bytes: offset,
        size_in_bytes: chunk,
        gpu_virtual_address_at_offset: window,
    })));
    env.windows.close(env.adapter, steps);
    chunk
}

fn notify_unmap(notice: &UnmapNotice) -> Step {
    let Mapping { virtual_address, size, allocation_offset, .. } = notice.mapping;
    Step::Operation(PagingOperation::NotifyAlloc(NotifyAlloc {
        allocation: notice.handle,
        process: Some(notice.process),
        flags: NotifyAllocFlags::IO_MMU_UNMAP,
        offset_in_bytes: allocation_offset,
        size_in_bytes: size,
        gpu_virtual_address_at_offset: GpuVirtualAddress(virtual_address),
    }))
}

fn map_aperture(range: &ApertureRange, adapter: &Adapter) -> PagingOperation {
    let &ApertureRange { store, offset } = range;
    let (aperture, offset) = adapter.aperture_at(offset);
    let mut flags = MapApertureFlags::empty();
    flags.set(MapApertureFlags::CACHE_COHERENT, aperture.cache_coherent && store.is_cached);
    let map = MapApertureSegment {
        allocation: store.handle,
        segment_id: aperture.id,
        offset_in_pages: offset / PAGE_SIZE,
        number_of_pages: store.size / PAGE_SIZE,
        mdl: in_system(store),
        flags,
    };
    match adapter.map_aperture2 {
        true => PagingOperation::MapApertureSegment2(map.into()),
        false => PagingOperation::MapApertureSegment(map),
    }
}

/// The entry of the parent of a table that was freed says what is there now: nothing, or only the table for pages of the other
/// size.
fn unlink(table: &ProcessTable, env: &BuildEnv<'_>, steps: &mut Steps) {
    let mut writer = TableWriter::of(env.adapter, &env.processes[table.process], steps);
    writer.push(writer.link(table.key));
}

fn write_entries(ranges: &[PteRange], valid: bool, env: &mut BuildEnv<'_>, steps: &mut Steps) {
    for range in ranges {
        let process = &env.processes[range.mapping.process];
        let mut writer = TableWriter::of(env.adapter, process, steps);
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
            writer.write(whole, Pte::INVALID);
            continue;
        }
        for (start, run) in range.extents.runs(allocation_offset, size) {
            let pte = range.entry(env.adapter, run.offset);
            let address = virtual_address + (start - allocation_offset);
            let target = PteTarget { address, size: run.size, allocation_offset: start, ..whole };
            writer.write(target, pte);
        }
    }
}

/// Addresses of a process, from the first up to the end.
type Span = (ProcessIx, u64, u64);

fn spans(ranges: &[PteRange]) -> Vec<Span> {
    let span = |PteRange { mapping, .. }: &PteRange| (mapping.process, mapping.virtual_address, mapping.end());
    ranges.iter().map(span).collect()
}

/// The addresses that a table covers.
fn span_of(table: &ProcessTable, adapter: &Adapter) -> Span {
    let start = table.key.first_address(adapter);
    (table.process, start, start + adapter.coverage(table.key.level))
}

/// One flush for each run of adjoining spans of a process, or one for the whole span where there are too many.
fn flush(mut spans: Vec<Span>, env: &mut BuildEnv<'_>, steps: &mut Steps) {
    spans.sort_unstable();
    merge(&mut spans, |before, next| before.2 >= next.1);
    if spans.len() > FLUSH_RANGES_MAX {
        merge(&mut spans, |_, _| true);
    }
    for (process, start, end) in spans {
        let process = &env.processes[process];
        let root = process.tables.root(env.adapter).expect("a mapping has its root table");
        steps.push_back(Step::Operation(PagingOperation::FlushTlb(FlushTlb {
            root_page_table_address: root,
            process: process.handle,
            start_virtual_address: GpuVirtualAddress(start),
            end_virtual_address: GpuVirtualAddress(end),
        })));
    }
}

/// Joins neighbours of one process that `joins` says belong together.
fn merge(spans: &mut Vec<Span>, joins: impl Fn(&Span, &Span) -> bool) {
    spans.dedup_by(|next, before| {
        let join = before.0 == next.0 && joins(before, next);
        if join {
            before.2 = before.2.max(next.2);
        }
        join
    });
}

/// Writes the next chunk of `out`, from its byte `offset` on. Returns the chunk's bytes: none if it is left for the next batch.
fn page_out(out: &PageOut, offset: u64, env: &mut BuildEnv<'_>, steps: &mut Steps) -> u64 {
    if env.adapter.is_physical() {
        return page_out_physically(out, offset, env, steps);
    }
    let size = env.chunk(out.from.store, offset);
    transfer(&out.from, (offset, size), MemoryTransferDirection::LocalToSystem, env, steps)
}

/// The same for `part`, from byte `done` of the part on.
fn clean(part: &CleanPart, done: u64, env: &mut BuildEnv<'_>, steps: &mut Steps) -> u64 {
    let offset = part.offset + done;
    let size = env.chunk(part.of.store, offset).min(part.size - done);
    transfer(&part.of, (offset, size), MemoryTransferDirection::LocalToSystem, env, steps)
}

/// The same for `page_in`.
fn bring_in(page_in: &PageIn, offset: u64, env: &mut BuildEnv<'_>, steps: &mut Steps) -> u64 {
    if env.adapter.is_physical() {
        return bring_in_physically(page_in, offset, env, steps);
    }
    let size = env.chunk(page_in.to.store, offset);
    match page_in.is_backed {
        true => transfer(&page_in.to, (offset, size), MemoryTransferDirection::SystemToLocal, env, steps),
        false => fill(&page_in.to, (offset, size), env, steps),
    }
}

fn page_out_physically(out: &PageOut, offset: u64, env: &mut BuildEnv<'_>, steps: &mut Steps) -> u64 {
    let &PageOut { from: InMemory { store, .. }, through_aperture } = out;
    let through = through_aperture.map(|offset| ApertureRange { store, offset });
    if let Some(range) = through.as_ref().filter(|_| offset == 0) {
        env.push(map_aperture(range, env.adapter), steps);
    }
    let destination = through_aperture.map_or(in_system(store), |at| env.adapter.in_aperture(at));
    let size = env.part_of_transfer(store, offset);
    physical_transfer(store, (offset, size), out.from.address(env.adapter), destination, steps);
    if let Some(range) = through.as_ref().filter(|_| offset + size == store.size) {
        env.push(range.unmap(env.adapter), steps);
    }
    size
}

/// Without GPU virtual addresses one operation fills an allocation, and the next part of a transfer follows.
fn bring_in_physically(page_in: &PageIn, offset: u64, env: &mut BuildEnv<'_>, steps: &mut Steps) -> u64 {
    let store = page_in.to.store;
    let destination = page_in.to.address(env.adapter);
    if !page_in.is_backed {
        let fill = Fill { allocation: store.handle, fill_size: store.size, fill_pattern: 0, destination };
        steps.push_back(Step::Operation(PagingOperation::Fill(fill)));
        return store.size;
    }
    let size = env.part_of_transfer(store, offset);
    physical_transfer(store, (offset, size), in_system(store), destination, steps);
    size
}

/// The most that one physical TRANSFER moves (BPB-20).
const TRANSFER_BYTES_MAX: u64 = 64 << 20;

/// The part of a transfer of an allocation that begins at an offset, and has so many bytes.
fn physical_transfer(
    store: Store,
    (offset, transfer_size): (u64, u64),
    source: PhysicalAddress,
    destination: PhysicalAddress,
    steps: &mut Steps,
) {
    let mut flags = TransferFlags::empty();
    flags.set(TransferFlags::TRANSFER_START, offset == 0);
    flags.set(TransferFlags::TRANSFER_END, offset + transfer_size == store.size);
    steps.push_back(Step::Operation(PagingOperation::Transfer(Transfer {
        allocation: store.handle,
        transfer_offset: offset,
        transfer_size,
        source,
        destination,
        flags,
        mdl_offset: (offset / PAGE_SIZE) as u32,
    })));
}

fn discard(account: Account, allocation: KmdAllocationHandle, offset: u64, env: &BuildEnv<'_>) -> Step {
    let address = PhysicalAddress { segment: env.adapter.memory_id(account), offset };
    let flags = DiscardContentFlags::empty();
    Step::Operation(PagingOperation::DiscardContent(DiscardContent { allocation, flags, address }))
}

fn in_system(store: Store) -> PhysicalAddress {
    PhysicalAddress { segment: SegmentId::SYSTEM, offset: store.address }
}

/// Fills the part of an allocation that begins at an offset, and has so many bytes, in a window. Returns the bytes: none without room for
/// the window.
fn fill(to: &InMemory, (offset, size): (u64, u64), env: &mut BuildEnv<'_>, steps: &mut Steps) -> u64 {
    if !env.has_room(size, steps) {
        return 0;
    }
    let destination_virtual_address = env.windows.map_local(env.adapter, to, offset, size, steps);
    env.windows.operate(Step::Operation(PagingOperation::VirtualFill(FillVirtual {
        allocation: to.store.handle,
        allocation_offset_in_bytes: offset,
        fill_size_in_bytes: size,
        fill_pattern: 0,
        destination_virtual_address,
    })));
    size
}

/// The same for a copy between its extents and its backing store.
fn transfer(
    of: &InMemory,
    (offset, size): (u64, u64),
    transfer_direction: MemoryTransferDirection,
    env: &mut BuildEnv<'_>,
    steps: &mut Steps,
) -> u64 {
    if !env.has_room(size, steps) {
        return 0;
    }
    let local = env.windows.map_local(env.adapter, of, offset, size, steps);
    let system = env.windows.map_system(env.adapter, of.store, offset, size, steps);
    let (source, destination, local_side) = match transfer_direction {
        MemoryTransferDirection::LocalToSystem => (local, system, TransferVirtualFlags::SRC_64KB_PAGES),
        _ => (system, local, TransferVirtualFlags::DST_64KB_PAGES),
    };
    let mut flags = TransferVirtualFlags::empty();
    flags.set(local_side, env.windows.local_has_64kb_pages());
    env.windows.operate(Step::Operation(PagingOperation::VirtualTransfer(TransferVirtual {
        allocation: of.store.handle,
        allocation_offset_in_bytes: offset,
        transfer_size_in_bytes: size,
        source_virtual_address: source,
        destination_virtual_address: destination,
        transfer_direction,
        flags,
    })));
    size
}
