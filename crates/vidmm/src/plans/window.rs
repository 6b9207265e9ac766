//! Scratch windows: where the paging process sees what it moves (GVA-61, BPB-40).
//!
//! There is one ring of addresses for system memory and one for the segment, each as large as the paging process's VA size
//! (U-16). The rings are used in stream order, so a window needs no waiting: the steps before it are over when its own
//! begin. Its page tables are pinned from adapter start (PGV-04). The [`table_views`] are where it sees tables that it writes.
//!
//! The windows of a batch of operations are *open* together: all are mapped, one flush covers them, the operations follow, and each ring's
//! windows are unmapped as one range. One update maps the windows of one allocation, because it names the allocation (GVA-31).

use alloc::vec::Vec;

use crate::{
    adapter::Adapter,
    addresses::IoMmuRange,
    contract::{
        FlushTlb, KmdAllocationHandle, KmdProcessHandle, PagingOperation, Pte, PteFlags, RootPageTable, UpdateMode,
        UpdatePageTable,
    },
    data::extents::Extents,
    gpu_va::{PageTables, TableKey},
    objects::allocation::Store,
    plans::{
        InMemory, Step, Steps,
        table::{PteTarget, TableWriter},
        table_views,
    },
    units::{Extent, GpuVirtualAddress, PageSize, PhysicalAddress, SegmentId},
};
/// The paging process: its address space, and who it is.
#[derive(Debug)]
pub(crate) struct Windows {
    pub process: KmdProcessHandle,
    /// Its root table; none without page tables.
    pub root: Option<RootPageTable>,
    pub tables: PageTables,
    system: Ring,
    local: Ring,
    /// Where it sees tables as long as an update takes; none where the paging engine does not write them by their virtual addresses.
    views: Option<Ring>,
    /// The range that the host maps in the open window; none if page-table entries map it.
    io_mmu: Option<IoMmuRange>,
    /// The steps for the time when the open windows are mapped.
    operations: Vec<Step>,
}

/// How many windows are open at most: a bound of the steps that are written at once.
const WINDOWS_MAX: usize = 256;

/// One ring of window addresses.
#[derive(Debug)]
struct Ring {
    base: u64,
    size: u64,
    /// Where the open windows begin, and where they end.
    open: u64,
    cursor: u64,
    page_size: PageSize,
}

impl Windows {
    /// The paging process with its two rings; `tables` holds the tables that [`needed_tables`](Self::needed_tables) names.
    pub fn new(adapter: &Adapter, process: KmdProcessHandle, tables: PageTables) -> Self {
        let (system, local) = Self::bases(adapter);
        let root = tables.root(adapter);
        let local_page_size = adapter.pte_page_size(adapter.smallest_page_size());
        Self {
            process,
            root: root.map(|address| RootPageTable { address, num_entries: adapter.root_entries() }),
            tables,
            system: Ring::new(system, adapter.paging_va_size, PageSize::Kib4),
            local: Ring::new(local, adapter.paging_va_size, local_page_size),
            views: table_views::ring(adapter).map(|views| Ring::new(views.offset, views.size, PageSize::Kib4)),
            io_mmu: None,
            operations: Vec::new(),
        }
    }

    /// The tables that the rings and the views of tables need, roots first; none if there are none. They stay resident for ever.
    pub fn needed_tables(adapter: &Adapter) -> Vec<TableKey> {
        let mut keys = Self::tables_of_rings(adapter);
        if let Some(Extent { offset, size }) = adapter.table_views {
            keys.extend(PageTables::needed(adapter, offset, size, PageSize::Kib4));
        }
        keys.sort_by_key(|&key| (core::cmp::Reverse(key.level), key));
        keys.dedup();
        keys
    }

    /// The addresses of the views of tables, once the size of the windows is known: see [`Adapter::table_views`].
    pub(crate) fn addresses_of_views(adapter: &Adapter) -> Option<Extent> {
        let (_, local) = Self::bases(adapter);
        table_views::addresses(adapter, local + adapter.paging_va_size, Self::tables_of_rings(adapter))
    }

    /// The tables that the rings need, some of them twice.
    fn tables_of_rings(adapter: &Adapter) -> Vec<TableKey> {
        let size = adapter.paging_va_size;
        if size == 0 || !adapter.has_page_tables() {
            return Vec::new();
        }
        let (system, local) = Self::bases(adapter);
        let mut keys: Vec<TableKey> = PageTables::needed(adapter, system, size, PageSize::Kib4).collect();
        if !adapter.memory.is_empty() {
            let page_size = adapter.pte_page_size(adapter.smallest_page_size());
            keys.extend(PageTables::needed(adapter, local, size, page_size));
        }
        keys
    }

    /// Bytes of addresses that the paging process needs: two windows, and the views of tables.
    pub fn needed_addresses(adapter: &Adapter) -> u64 {
        2 * adapter.paging_va_size + adapter.table_views.map_or(0, |views| views.size)
    }

    /// The paging process sees its own leaf tables from now on, where it writes tables by their virtual addresses (GVA-61).
    pub fn map_own_tables(&self, adapter: &Adapter, steps: &mut Steps) {
        let (Some(all), Some(ring)) = (adapter.table_views, &self.views) else { return };
        for (table, address, size) in table_views::own_tables(adapter, &self.tables) {
            let target = PteTarget::of_no_allocation(address, size, PageSize::Kib4);
            TableWriter { by_cpu: true, ..self.writer(adapter, steps) }.write(target, Pte::valid(table));
        }
        if !adapter.invalid_not_cached {
            steps.push_back(self.flush(all.offset, ring.base));
        }
    }

    /// The steps by which the paging engine writes entries at addresses of the paging process: its own tables are mapped for ever,
    /// any other for as long as that takes (GVA-10, GVA-61).
    pub fn write_in_view(&mut self, adapter: &Adapter, update: UpdatePageTable) -> Steps {
        let mut steps = Steps::default();
        let at = |address| {
            let update_mode = UpdateMode::GpuVirtual(GpuVirtualAddress(address));
            Step::Operation(PagingOperation::UpdatePageTable(UpdatePageTable { update_mode, ..update }))
        };
        if update.process == self.process {
            steps.push_back(at(table_views::address_of(adapter, &self.tables, update.page_table_address)));
            return steps;
        }
        let table = TableKey { level: update.page_table_level, page_size: update.page_size(), number: 0 };
        let size = table.bytes(adapter).next_multiple_of(PageSize::Kib4.bytes());
        let PhysicalAddress { segment, offset } = update.page_table_address;
        let views = self.views.as_mut().expect("entries are written in views only where there are some");
        let next = views.next(size);
        let unmapped = views.close();
        let place = (segment, PteFlags::empty());
        let view = self.show(adapter, next, None, place, &Extents::one(Extent { offset, size }), 0, &mut steps);
        self.flush_mapped(adapter, view.0, view.0 + size, &mut steps);
        steps.push_back(at(view.0));
        self.unmap(adapter, unmapped, &mut steps);
        steps
    }

    /// Where the rings begin: behind the addresses that are never used (GVA-58).
    fn bases(adapter: &Adapter) -> (u64, u64) {
        let (system, _) = adapter.paging_addresses();
        (system, system + adapter.paging_va_size)
    }

    /// Lets the host map a part of an allocation at the next window of system memory; where is decided here.
    pub fn map_io_mmu(&mut self, range: IoMmuRange, steps: &mut Steps) -> GpuVirtualAddress {
        let (window, _) = self.system.next(range.size);
        let virtual_address = GpuVirtualAddress(window.address);
        let range = self.io_mmu.insert(IoMmuRange { virtual_address, ..range });
        steps.push_back(Step::MapIoMmu(*range));
        virtual_address
    }

    /// Bytes that a window can show at most.
    pub fn size(&self) -> u64 {
        self.system.size
    }

    /// Whether the windows in the segment have pages of 64 KiB.
    pub fn local_has_64kb_pages(&self) -> bool {
        self.local.page_size == PageSize::Kib64
    }

    /// Whether windows are open for transfers and fills.
    pub fn is_open(&self) -> bool {
        self.local.is_open()
    }

    /// Whether windows of `size` bytes can be opened beside those that are open.
    pub fn has_room(&self, size: u64) -> bool {
        self.operations.len() < WINDOWS_MAX && self.system.has_room(size) && self.local.has_room(size)
    }

    /// Maps `size` bytes of an allocation's backing store, from its byte `offset` on.
    pub fn map_system(
        &mut self,
        adapter: &Adapter,
        store: Store,
        offset: u64,
        size: u64,
        steps: &mut Steps,
    ) -> GpuVirtualAddress {
        let extents = Extents::one(Extent { offset: store.address, size: store.size });
        let next = self.system.next(size);
        let at = (SegmentId::SYSTEM, adapter.coherence(store.is_cached, SegmentId::SYSTEM));
        self.show(adapter, next, Some(store.handle), at, &extents, offset, steps)
    }

    /// Maps `size` bytes of an allocation in a memory segment, from its byte `offset` on.
    pub fn map_local(
        &mut self,
        adapter: &Adapter,
        local: &InMemory,
        offset: u64,
        size: u64,
        steps: &mut Steps,
    ) -> GpuVirtualAddress {
        let next = self.local.next(size);
        let at = (adapter.memory_id(local.account), PteFlags::empty());
        self.show(adapter, next, Some(local.store.handle), at, &local.extents, offset, steps)
    }

    /// Writes the entries of the next window of a ring.
    #[expect(clippy::too_many_arguments, reason = "the callers above name what they pass")]
    fn show(
        &self,
        adapter: &Adapter,
        (window, anew): (PteTarget, Option<Extent>),
        handle: Option<KmdAllocationHandle>,
        (segment, flags): (SegmentId, PteFlags),
        extents: &Extents,
        offset: u64,
        steps: &mut Steps,
    ) -> GpuVirtualAddress {
        // Elsewhere windows are flushed when they are mapped.
        let anew = anew.filter(|_| adapter.invalid_not_cached);
        steps.extend(anew.map(|ring| self.flush(ring.offset, ring.end())));
        let mut writer = self.writer(adapter, steps);
        for (start, run) in extents.runs(offset, window.size) {
            let mut pte = Pte::valid(PhysicalAddress { segment, offset: run.offset });
            pte.flags |= flags;
            let address = window.address + (start - offset);
            let target = PteTarget { handle, address, size: run.size, allocation_offset: start, ..window };
            writer.write(target, pte);
        }
        GpuVirtualAddress(window.address)
    }

    /// Adds a step of the time when the open windows are mapped, in the order of the plan.
    pub fn operate(&mut self, operation: Step) {
        self.operations.push(operation);
    }

    /// Writes what belongs to the open windows: their flush, the operations, and that they are taken away. Their addresses are not used again
    /// before a flush: ours of their entries, or the driver's of what the device caches of the IOMMU.
    pub fn close(&mut self, adapter: &Adapter, steps: &mut Steps) {
        if self.operations.is_empty() {
            return;
        }
        let closed = [self.local.close(), self.system.close()];
        if let Some(range) = self.io_mmu.take() {
            steps.extend(self.operations.drain(..));
            return steps.push_back(Step::UnmapIoMmu(range));
        }
        let open = closed.iter().flatten().map(|window| (window.address, window.address + window.size));
        if let Some((start, end)) = open.reduce(|one, other| (one.0.min(other.0), one.1.max(other.1))) {
            self.flush_mapped(adapter, start, end, steps);
        }
        steps.extend(self.operations.drain(..));
        closed.into_iter().for_each(|windows| self.unmap(adapter, windows, steps));
    }

    fn unmap(&self, adapter: &Adapter, windows: Option<PteTarget>, steps: &mut Steps) {
        let mut writer = self.writer(adapter, steps);
        windows.into_iter().for_each(|windows| writer.write(windows, Pte::INVALID));
    }

    /// Windows have become valid: an engine may remember that their addresses were not.
    fn flush_mapped(&self, adapter: &Adapter, start: u64, end: u64, steps: &mut Steps) {
        if !adapter.invalid_not_cached {
            steps.push_back(self.flush(start, end));
        }
    }

    fn writer<'a>(&'a self, adapter: &'a Adapter, steps: &'a mut Steps) -> TableWriter<'a> {
        let by_cpu = adapter.paging_tables_by_cpu;
        TableWriter { adapter, process: self.process, tables: &self.tables, by_cpu, steps }
    }

    fn flush(&self, start: u64, end: u64) -> Step {
        let root = self.root.expect("a window of page-table entries has a root");
        Step::Operation(PagingOperation::FlushTlb(FlushTlb {
            root_page_table_address: root.address,
            process: self.process,
            start_virtual_address: GpuVirtualAddress(start),
            end_virtual_address: GpuVirtualAddress(end),
        }))
    }
}

impl Ring {
    fn new(base: u64, size: u64, page_size: PageSize) -> Self {
        Self { base, size, open: 0, cursor: 0, page_size }
    }

    fn is_open(&self) -> bool {
        self.open < self.cursor
    }

    /// Whether a window of `size` bytes can be opened: behind those that are open, or anywhere if none is.
    fn has_room(&self, size: u64) -> bool {
        !self.is_open() || self.aligned() + size <= self.size
    }

    /// Where the next window begins, if the ring does not begin anew.
    fn aligned(&self) -> u64 {
        self.cursor.next_multiple_of(self.page_size.bytes())
    }

    /// Opens the next window of `size` bytes. Returns the window, and the addresses of the ring if the ring begins anew: old entries may still be
    /// cached.
    fn next(&mut self, size: u64) -> (PteTarget, Option<Extent>) {
        assert!(size <= self.size && self.has_room(size), "chunks are cut to the window, and windows closed in time");
        let wrapped = self.aligned() + size > self.size;
        let start = if wrapped { 0 } else { self.aligned() };
        if !self.is_open() {
            self.open = start;
        }
        self.cursor = start + size;
        let window = PteTarget::of_no_allocation(self.base + start, size, self.page_size);
        (window, wrapped.then_some(Extent { offset: self.base, size: self.size }))
    }

    /// Closes the open windows. Returns all of them as one range; none if there are none.
    fn close(&mut self) -> Option<PteTarget> {
        let (start, end) = (core::mem::replace(&mut self.open, self.cursor), self.cursor);
        (start < end).then(|| PteTarget::of_no_allocation(self.base + start, end - start, self.page_size))
    }
}
