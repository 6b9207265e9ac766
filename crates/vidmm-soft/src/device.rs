//! The effect of commands on memory, without the time that they take.
//!
//! A command is executed in two halves. It reads when it begins and writes when it ends. Two commands that overlap in time
//! and use the same memory, which the manager should have kept apart, therefore see each other's old bytes: the error shows
//! up as wrong content, whatever the order in which a simulator happens to execute them.

use std::collections::BTreeMap;
use std::ops::Range;

use vidmm::contract::{KmdAllocationHandle, KmdProcessHandle, RootPageTable};
use vidmm::{GpuVirtualAddress, PAGE_SIZE, PhysicalAddress, SegmentId};
use vidmm_runtime::{Content, GpuEvent, KernelCommand, PageRange, Surface};

use crate::digest::{self, KernelState};
use crate::encoding::{
    Command, Decompress, Fill, FlushRange, Foreign, MapAperture, NotifyResidency, TableAddress, Transfer,
    UnmapAperture, UseAllocation, WritePtes,
};
use crate::executor::{Executor, MappingChange, View};
use crate::faults::{ModelGpuFaults, strikes};
use crate::memory::SparseMemory;
use crate::physical::{Memories, PhysicalRun, Place};
use crate::surface::{SurfaceBook, Surfaces};
use crate::table;
use crate::tlb::{Access, PageFault};
use crate::translation::{AddressSpace, Translation};

/// The model GPU's counters so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ModelGpuCounters {
    /// Pages that kernels read.
    pub pages_read_by_kernels: u64,
    /// Pages that kernels wrote.
    pub pages_written_by_kernels: u64,
    /// Bytes that transfers read from system memory.
    pub bytes_from_system: u64,
    /// Bytes that transfers wrote to system memory.
    pub bytes_to_system: u64,
    /// Bytes of transfers of which neither side was system memory.
    pub bytes_local: u64,
    /// Bytes that fills wrote.
    pub bytes_filled: u64,
    /// Page-table entries that were written.
    pub ptes_written: u64,
    /// Entries that went into a TLB.
    pub tlb_fills: u64,
    /// Entries of the IOMMU that went into the device's cache.
    pub io_mmu_cache_fills: u64,
    /// Entries of the aperture that were written.
    pub aperture_entries_written: u64,
    /// Pages that kernels wrote compressed.
    pub pages_compressed: u64,
    /// Bytes of compressed pages that commands made plain; what a kernel reads is decompressed on the way, and not counted.
    pub bytes_decompressed: u64,
    /// Commands that ended, of each kind.
    pub commands: CommandCounts,
    /// Packets that were aborted by a page fault.
    pub page_faults: u64,
    /// Packets that were aborted by a command that means nothing.
    pub illegal_commands: u64,
}

/// How many commands of each kind ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CommandCounts {
    /// Transfers.
    pub transfer: u64,
    /// Fills.
    pub fill: u64,
    /// Flushes.
    pub flush_tlb: u64,
    /// Kernels.
    pub kernel: u64,
    /// Ranges of the aperture that were mapped.
    pub map_aperture: u64,
    /// Decompressions in place.
    pub decompress: u64,
    /// Words of where an allocation is.
    pub notify_residency: u64,
}

/// Why the rest of a packet is dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Abort {
    /// An address could not be accessed.
    PageFault(PageFault),
    /// A command has no meaning.
    IllegalCommand,
}

impl From<PageFault> for Abort {
    fn from(fault: PageFault) -> Self {
        Self::PageFault(fault)
    }
}

/// A command that has read and has not written yet.
#[derive(Debug)]
pub enum Begun<H> {
    /// A transfer, with what it read and how many of these bytes came from system memory.
    Transfer(Transfer, H, u64),
    /// A kernel, with what became of its inputs, and the bytes of each input that are in system memory.
    Kernel(KernelCommand, KernelState, Vec<u64>),
    /// A decompression, with the marked pages as they were: which part of the range each run of them is.
    Decompress(Decompress, Vec<(Range<u64>, H)>),
    /// A command that reads nothing.
    Other(Command),
}

/// The executor that moves bytes, the translation of addresses, and the marks of compression.
#[derive(Debug)]
pub struct Device<E> {
    pub(crate) translation: Translation,
    pub(crate) executor: E,
    pub(crate) surfaces: Surfaces,
    pub(crate) surface_book: SurfaceBook,
    /// Where the allocations are of which it was told that (BPB-51).
    residents: BTreeMap<KmdAllocationHandle, GpuVirtualAddress>,
    faults: ModelGpuFaults,
    counters: ModelGpuCounters,
    /// Where a kernel has found a page only because the device had it cached: the host had unmapped it.
    late: Option<GpuVirtualAddress>,
}

impl<E: Executor> Device<E> {
    /// A device whose memories have no content yet.
    pub fn new(translation: Translation, executor: E, faults: ModelGpuFaults) -> Self {
        let (surfaces, counters) = (Surfaces::default(), ModelGpuCounters::default());
        let surface_book = SurfaceBook::default();
        Self { translation, executor, surfaces, surface_book, residents: BTreeMap::new(), faults, counters, late: None }
    }

    /// Tells the surfaces of allocations.
    pub fn set_surface_book(&mut self, surfaces: SurfaceBook) {
        self.surface_book = surfaces;
    }

    /// The counters so far.
    pub fn counters(&self) -> ModelGpuCounters {
        ModelGpuCounters {
            tlb_fills: self.translation.tlb_fills(),
            io_mmu_cache_fills: self.translation.io_mmu_cache_fills(),
            ..self.counters
        }
    }

    /// The memories.
    pub fn memories(&self) -> &Memories {
        self.executor.memories()
    }

    /// Nothing of what the device itself holds remains: content, marks of compression, entries of the aperture and of caches,
    /// and what it was told of allocations.
    pub fn lose_power(&mut self) {
        self.executor.lose_power();
        self.surfaces = Surfaces::default();
        self.residents.clear();
        self.translation.flush(FlushRange { process: None, start: GpuVirtualAddress(0), end: GpuVirtualAddress(0) });
    }

    /// The CPU writes a page; `false` if it reaches none there.
    pub fn write_page(&mut self, address: PhysicalAddress, content: Content, seed: u64) -> bool {
        self.executor.write_page(address, content, seed)
    }

    /// The digest of the page at `virtual_address` of `process`, past every cache, as its bytes are in memory.
    pub fn page_digest(&mut self, process: KmdProcessHandle, virtual_address: GpuVirtualAddress) -> Option<u64> {
        let memory = self.executor.memories_mut().lock();
        let place = self.translation.walk(&memory, process, virtual_address)?.place;
        drop(memory);
        match place {
            Place::Zero => Some(0),
            Place::Segment { segment, page } => {
                self.executor.page_digest(PhysicalAddress { segment, offset: page * PAGE_SIZE }, 0)
            }
        }
    }

    /// Notes that commands were dropped.
    pub fn count_abort(&mut self, abort: Abort) {
        match abort {
            Abort::PageFault(_) => self.counters.page_faults += 1,
            Abort::IllegalCommand => self.counters.illegal_commands += 1,
        }
    }

    /// The first half of `command`: it reads, in the address space of `space`.
    ///
    /// # Errors
    ///
    /// If the packet is to be aborted.
    pub fn begin(
        &mut self,
        space: Option<AddressSpace>,
        command: Command,
        events: &mut Vec<GpuEvent>,
    ) -> Result<Begun<E::Bytes>, Abort> {
        match command {
            Command::Transfer(transfer) => self.begin_transfer(space, transfer),
            Command::Kernel(kernel) => self.begin_kernel(space, kernel, events),
            Command::Decompress(decompress) => self.begin_decompress(space, decompress),
            other => Ok(Begun::Other(other)),
        }
    }

    /// The second half of a command: it writes. `space` changes when the command says so. Returns the bytes in system memory
    /// of each output of a kernel, and nothing of other commands.
    ///
    /// # Errors
    ///
    /// If the packet is to be aborted; nothing was written to the range that could not be accessed.
    pub fn finish(
        &mut self,
        space: &mut Option<AddressSpace>,
        begun: Begun<E::Bytes>,
        events: &mut Vec<GpuEvent>,
    ) -> Result<Vec<u64>, Abort> {
        match begun {
            Begun::Transfer(transfer, bytes, from_system) => {
                self.finish_transfer(*space, &transfer, &bytes, from_system)?;
            }
            Begun::Kernel(kernel, state, _) => {
                let finished = self.finish_kernel(*space, &kernel, state, events);
                self.tell_late(kernel.kernel, true, events);
                return finished;
            }
            Begun::Decompress(decompress, marked) => self.finish_decompress(*space, &decompress, &marked)?,
            Begun::Other(command) => self.finish_other(space, command, events)?,
        }
        Ok(Vec::new())
    }

    /// A command that does not end: half of what it would have written is there, as with a GPU that is stopped at some moment. Returns
    /// what kernels have written.
    pub fn abandon(&mut self, mut space: Option<AddressSpace>, begun: Begun<E::Bytes>) -> Vec<GpuEvent> {
        let counters = self.counters;
        // Pages that cannot be accessed are not written: their engine is being reset anyway.
        let mut events = Vec::new();
        let _ = self.finish(&mut space, begun.first_half(), &mut events);
        self.counters = counters;
        events.retain(|event| matches!(event, GpuEvent::KernelWrote { .. }));
        events
    }

    fn finish_other(
        &mut self,
        space: &mut Option<AddressSpace>,
        command: Command,
        events: &mut Vec<GpuEvent>,
    ) -> Result<(), Abort> {
        match command {
            Command::SetRootPageTable(root) => {
                if !table::can_be_at(root.root) {
                    return Err(Abort::IllegalCommand);
                }
                *space = Some(self.enter(AddressSpace::PageTables(root))?);
                let table = RootPageTable { address: root.root, num_entries: root.num_entries };
                self.executor.note(MappingChange::Entered { process: root.process, root: table });
            }
            Command::SetAddressSpace(process) => {
                *space = Some(self.enter(AddressSpace::IoMmu(process))?);
            }
            Command::SetContext(context) => {
                *space = Some(self.enter(AddressSpace::Physical(context))?);
            }
            Command::SetState(_) => {
                if !matches!(self.translation, Translation::Physical(_)) {
                    return Err(Abort::IllegalCommand);
                }
            }
            Command::Fill(fill) => self.fill(*space, &fill)?,
            Command::WritePtes(ptes) => self.write_ptes(*space, &ptes)?,
            Command::FlushTlb(range) => {
                self.translation.flush(range);
                events.push(GpuEvent::Flushed { process: range.process, addresses: range.start..range.end });
                self.counters.commands.flush_tlb += 1;
            }
            Command::MapAperture(map) => self.map_aperture(&map)?,
            Command::UnmapAperture(unmap) => self.unmap_aperture(&unmap)?,
            Command::NotifyResidency(notice) => self.notify_residency(notice)?,
            Command::UseAllocation(used) => self.use_allocation(used)?,
            Command::Foreign(foreign) => self.run_foreign(*space, &foreign)?,
            Command::Transfer(_) | Command::Kernel(_) | Command::Decompress(_) => {
                unreachable!("these have a first half")
            }
        }
        Ok(())
    }

    fn enter(&mut self, space: AddressSpace) -> Result<AddressSpace, Abort> {
        if self.translation.enter(space) { Ok(space) } else { Err(Abort::IllegalCommand) }
    }

    fn translate(&mut self, space: Option<AddressSpace>, access: Access) -> Result<Vec<PhysicalRun>, Abort> {
        let mut runs = Vec::new();
        self.translation.translate(&self.executor.memories_mut().lock(), space, access, &mut runs)?;
        Ok(runs)
    }

    /// Where the pages of a kernel's `range` are.
    fn translate_range(
        &mut self,
        space: Option<AddressSpace>,
        range: &PageRange,
        write: bool,
    ) -> Result<Vec<PhysicalRun>, Abort> {
        let access = range_access(range, write)?;
        self.translation.check_kernel(access)?;
        let runs = self.translate(space, access)?;
        self.late = self.late.or_else(|| self.translation.first_unmapped(space?, access));
        Ok(runs)
    }

    fn begin_transfer(&mut self, space: Option<AddressSpace>, transfer: Transfer) -> Result<Begun<E::Bytes>, Abort> {
        let access = whole_pages(transfer.source, transfer.bytes, false)?;
        whole_pages(transfer.destination, transfer.bytes, true)?;
        let runs = self.translate(space, access)?;
        Ok(Begun::Transfer(transfer, self.executor.read(&runs), bytes_in_system(&runs)))
    }

    /// The pages that a transfer reads and writes, as far as these are mapped.
    pub fn pages_of(&mut self, space: Option<AddressSpace>, transfer: &Transfer) -> Vec<PhysicalRun> {
        let sides = [(transfer.source, false), (transfer.destination, true)];
        let access = sides.map(|(address, write)| whole_pages(address, transfer.bytes, write));
        access.into_iter().filter_map(|access| self.translate(space, access.ok()?).ok()).flatten().collect()
    }

    fn finish_transfer(
        &mut self,
        space: Option<AddressSpace>,
        transfer: &Transfer,
        bytes: &E::Bytes,
        from_system: u64,
    ) -> Result<(), Abort> {
        let runs = self.translate(space, whole_pages(transfer.destination, transfer.bytes, true)?)?;
        self.executor.write(bytes, &runs);
        let to_system = bytes_in_system(&runs);
        self.counters.bytes_from_system += from_system;
        self.counters.bytes_to_system += to_system;
        self.counters.bytes_local += transfer.bytes.saturating_sub(from_system + to_system);
        self.counters.commands.transfer += 1;
        if strikes(&mut self.faults.flip_bit_in_transfer) {
            self.flip_bit(&runs, transfer.bytes / PAGE_SIZE);
        }
        Ok(())
    }

    /// Flips one bit of the `num_pages` pages of `runs`. A page that is nowhere has none.
    fn flip_bit(&mut self, runs: &[PhysicalRun], num_pages: u64) {
        let hash = digest::mix(self.counters.commands.transfer, num_pages);
        let mut chosen = hash % num_pages.max(1);
        let bit = (hash >> 32) as u32 % (PAGE_SIZE * 8) as u32;
        for run in runs {
            if chosen < run.pages {
                if let Place::Segment { segment, page } = run.place {
                    let address = PhysicalAddress { segment, offset: (page + chosen) * PAGE_SIZE };
                    self.executor.flip_bit(address, bit);
                }
                return;
            }
            chosen -= run.pages;
        }
    }

    fn begin_kernel(
        &mut self,
        space: Option<AddressSpace>,
        kernel: KernelCommand,
        events: &mut Vec<GpuEvent>,
    ) -> Result<Begun<E::Bytes>, Abort> {
        for output in &kernel.outputs {
            range_access(output, true)?;
        }
        let mut state = KernelState::new(kernel.kernel);
        let mut inputs = Vec::with_capacity(kernel.inputs.len());
        let mut in_system = Vec::with_capacity(kernel.inputs.len());
        for input in &kernel.inputs {
            let (digests, bytes) = self.read_input(space, input)?;
            in_system.push(bytes);
            digests.iter().for_each(|&digest| state.absorb(digest));
            inputs.push(digests);
        }
        self.counters.pages_read_by_kernels += inputs.iter().map(|digests| digests.len() as u64).sum::<u64>();
        self.tell_late(kernel.kernel, false, events);
        events.push(GpuEvent::KernelRead { kernel: kernel.kernel, inputs });
        Ok(Begun::Kernel(kernel, state, in_system))
    }

    /// Tells of pages that a kernel found although the host had unmapped them.
    fn tell_late(&mut self, kernel: u64, write: bool, events: &mut Vec<GpuEvent>) {
        if let Some(virtual_address) = self.late.take() {
            events.push(GpuEvent::LateAccess { kernel, virtual_address, write });
        }
    }

    /// The digests of the pages of `input`, compressed pages decompressed on the way; and the bytes in system memory.
    fn read_input(&mut self, space: Option<AddressSpace>, input: &PageRange) -> Result<(Vec<u64>, u64), Abort> {
        let runs = self.translate_range(space, input, false)?;
        let marked = |surface| self.surfaces.marked(surface, input.num_pages).collect();
        let marked: Vec<_> = input.surface.map_or_else(Vec::new, marked);
        self.executor.bind(&self.translation);
        let digests = self.executor.digests(&View { process: process_of(space), range: input, runs: &runs }, &marked);
        Ok((digests, bytes_in_system(&runs)))
    }

    fn finish_kernel(
        &mut self,
        space: Option<AddressSpace>,
        kernel: &KernelCommand,
        state: KernelState,
        events: &mut Vec<GpuEvent>,
    ) -> Result<Vec<u64>, Abort> {
        let mut in_system = Vec::with_capacity(kernel.outputs.len());
        for (output, range) in (0..).zip(&kernel.outputs) {
            let runs = self.translate_range(space, range, true)?;
            self.executor.bind(&self.translation);
            let view = View { process: process_of(space), range, runs: &runs };
            self.executor.write_output(&view, kernel.content, state, output);
            self.tell_written(&runs, range.surface, events);
            if let Some(surface) = range.surface {
                self.surfaces.mark(surface, range.num_pages);
                self.counters.pages_compressed += range.num_pages;
            }
            self.counters.pages_written_by_kernels += range.num_pages;
            in_system.push(bytes_in_system(&runs));
        }
        self.counters.commands.kernel += 1;
        Ok(in_system)
    }

    /// Tells of the runs that a kernel has written, which are compressed pages of a surface if it has one.
    fn tell_written(&self, runs: &[PhysicalRun], surface: Option<Surface>, events: &mut Vec<GpuEvent>) {
        let allocation = surface.and_then(|surface| self.surface_book.allocation_of(surface.number));
        let mut compressed = allocation.zip(surface.map(|surface| surface.first_page));
        for run in runs {
            if let Place::Segment { segment, page } = run.place {
                let address = PhysicalAddress { segment, offset: page * PAGE_SIZE };
                events.push(GpuEvent::KernelWrote { address, num_pages: run.pages, compressed });
            }
            compressed = compressed.map(|(allocation, page)| (allocation, page + run.pages));
        }
    }

    fn begin_decompress(
        &mut self,
        space: Option<AddressSpace>,
        decompress: Decompress,
    ) -> Result<Begun<E::Bytes>, Abort> {
        // A page that is not marked is not touched, but it must be there: the driver was told that all are.
        self.translate(space, whole_pages(decompress.virtual_address, decompress.bytes, true)?)?;
        let range = decompressed_range(&decompress);
        range_access(&range, true)?;
        let marked: Vec<_> = self.surfaces.marked(decompress.surface, range.num_pages).collect();
        let mut read = Vec::with_capacity(marked.len());
        for part in marked {
            let runs = self.translate(space, part_access(&part_of(&range, &part))?)?;
            read.push((part, self.executor.read(&runs)));
        }
        Ok(Begun::Decompress(decompress, read))
    }

    fn finish_decompress(
        &mut self,
        space: Option<AddressSpace>,
        decompress: &Decompress,
        marked: &[(Range<u64>, E::Bytes)],
    ) -> Result<(), Abort> {
        let range = decompressed_range(decompress);
        for (part, bytes) in marked {
            let range = part_of(&range, part);
            let runs = self.translate(space, part_access(&range)?)?;
            self.executor.bind(&self.translation);
            self.executor.write_plain(bytes, &View { process: process_of(space), range: &range, runs: &runs });
            self.counters.bytes_decompressed += range.num_pages * PAGE_SIZE;
        }
        self.surfaces.clear(decompress.surface, range.num_pages);
        self.counters.commands.decompress += 1;
        Ok(())
    }

    fn fill(&mut self, space: Option<AddressSpace>, fill: &Fill) -> Result<(), Abort> {
        let runs = self.translate(space, whole_pages(fill.destination, fill.bytes, true)?)?;
        self.executor.fill(&runs, fill.pattern);
        self.counters.bytes_filled += fill.bytes;
        self.counters.commands.fill += 1;
        Ok(())
    }

    fn run_foreign(&mut self, space: Option<AddressSpace>, foreign: &Foreign) -> Result<(), Abort> {
        let &Foreign { token, virtual_address, bytes, allocation_offset, .. } = foreign;
        let runs = self.translate(space, whole_pages(virtual_address, bytes, true)?)?;
        self.executor.run_foreign(token, &runs, allocation_offset);
        Ok(())
    }

    fn write_ptes(&mut self, space: Option<AddressSpace>, ptes: &WritePtes) -> Result<(), Abort> {
        let layout = self.translation.layout().ok_or(Abort::IllegalCommand)?;
        let pages = table::pages_of(layout, ptes).ok_or(Abort::IllegalCommand)?;
        let num_pages = pages.end - pages.start;
        let (translated, placed);
        let runs: &[PhysicalRun] = match ptes.table {
            TableAddress::Virtual(table) => {
                let start = GpuVirtualAddress(table.0 + pages.start * PAGE_SIZE);
                translated = self.translate(space, whole_pages(start, num_pages * PAGE_SIZE, true)?)?;
                &translated
            }
            TableAddress::Physical(PhysicalAddress { segment, offset }) => {
                let page = offset / PAGE_SIZE + pages.start;
                if !self.executor.memories_mut().lock().contains(segment, page, num_pages) {
                    return Err(Abort::IllegalCommand);
                }
                placed = [PhysicalRun { place: Place::Segment { segment, page }, pages: num_pages }];
                &placed
            }
        };
        let layout = self.translation.layout().ok_or(Abort::IllegalCommand)?;
        let mut at = pages.start;
        for run in runs {
            let part = at..at + run.pages;
            at = part.end;
            write_run(self.executor.memories_mut(), run, |memory, page| {
                table::write_entries(memory, page, part, layout, ptes);
            });
        }
        let covered = u64::from(ptes.count).saturating_mul(layout.coverage(ptes.level, ptes.page_size));
        let addresses = ptes.virtual_address..GpuVirtualAddress(ptes.virtual_address.0.saturating_add(covered));
        self.executor.note(MappingChange::Entries { process: ptes.process, addresses });
        self.counters.ptes_written += u64::from(ptes.count);
        Ok(())
    }

    fn map_aperture(&mut self, map: &MapAperture) -> Result<(), Abort> {
        let first = map.system_memory.offset / PAGE_SIZE;
        self.show((map.segment, map.first_page), map.num_pages, map.system_memory, map.num_pages, |page| first + page)?;
        self.counters.commands.map_aperture += 1;
        Ok(())
    }

    fn unmap_aperture(&mut self, unmap: &UnmapAperture) -> Result<(), Abort> {
        let dummy_page = unmap.dummy_page.offset / PAGE_SIZE;
        self.show((unmap.segment, unmap.first_page), unmap.num_pages, unmap.dummy_page, 1, |_| dummy_page)?;
        Ok(())
    }

    /// An allocation that has come is to leave before it comes again.
    fn notify_residency(&mut self, notice: NotifyResidency) -> Result<(), Abort> {
        let was_there = match notice.address {
            Some(address) => self.residents.insert(notice.allocation, address).is_some(),
            None => self.residents.remove(&notice.allocation).is_some(),
        };
        if was_there == notice.address.is_some() {
            return Err(Abort::IllegalCommand);
        }
        self.counters.commands.notify_residency += 1;
        Ok(())
    }

    fn use_allocation(&mut self, used: UseAllocation) -> Result<(), Abort> {
        if self.residents.get(&used.allocation) != Some(&used.address) {
            return Err(Abort::IllegalCommand);
        }
        Ok(())
    }

    /// Lets `num_pages` pages of an aperture from `first_page` on show what `system_page` says, of the `shown_pages` pages of
    /// system memory at `shown`.
    fn show(
        &mut self,
        (segment, first_page): (SegmentId, u64),
        num_pages: u64,
        shown: PhysicalAddress,
        shown_pages: u64,
        system_page: impl Fn(u64) -> u64,
    ) -> Result<(), Abort> {
        let mut memory = self.executor.memories_mut().lock();
        let is_shown = shown.segment.is_system()
            && shown.offset.is_multiple_of(PAGE_SIZE)
            && memory.contains(shown.segment, shown.offset / PAGE_SIZE, shown_pages);
        let aperture = memory.aperture_mut(segment).filter(|aperture| aperture.contains(first_page, num_pages));
        let aperture = aperture.filter(|_| is_shown).ok_or(Abort::IllegalCommand)?;
        aperture.show(first_page, num_pages, system_page);
        drop(memory);
        self.executor.note(MappingChange::Aperture { segment, pages: first_page..first_page + num_pages });
        self.counters.aperture_entries_written += num_pages;
        Ok(())
    }
}

fn bytes_in_system(runs: &[PhysicalRun]) -> u64 {
    let in_system = |run: &&PhysicalRun| matches!(run.place, Place::Segment { segment: SegmentId::SYSTEM, .. });
    runs.iter().filter(in_system).map(|run| run.pages * PAGE_SIZE).sum()
}

/// The range of a kernel's, which must be one of its surface too.
fn range_access(range: &PageRange, write: bool) -> Result<Access, Abort> {
    let bytes = range.num_pages.checked_mul(PAGE_SIZE).ok_or(Abort::IllegalCommand)?;
    let first_page = range.surface.map_or(0, |surface| surface.first_page);
    first_page.checked_add(range.num_pages).ok_or(Abort::IllegalCommand)?;
    whole_pages(range.virtual_address, bytes, write)
}

fn decompressed_range(decompress: &Decompress) -> PageRange {
    let &Decompress { virtual_address, bytes, surface, .. } = decompress;
    PageRange { surface: Some(surface), ..PageRange::plain(virtual_address, bytes / PAGE_SIZE) }
}

/// The pages `part` of `range`.
fn part_of(range: &PageRange, part: &Range<u64>) -> PageRange {
    let surface = range.surface.map(|first| Surface { first_page: first.first_page + part.start, ..first });
    let virtual_address = range.virtual_address.offset(part.start * PAGE_SIZE);
    PageRange { virtual_address, num_pages: part.end - part.start, surface }
}

/// The pages of `range`, which is as it must be, to be written.
fn part_access(range: &PageRange) -> Result<Access, Abort> {
    whole_pages(range.virtual_address, range.num_pages * PAGE_SIZE, true)
}

/// The process whose addresses those of `space` are.
fn process_of(space: Option<AddressSpace>) -> Option<KmdProcessHandle> {
    match space? {
        AddressSpace::PageTables(root) => Some(root.process),
        AddressSpace::IoMmu(process) => Some(process),
        AddressSpace::Physical(_) => None,
    }
}

fn write_run(memories: &mut Memories, run: &PhysicalRun, write: impl FnOnce(&mut SparseMemory, u64)) {
    if let Place::Segment { segment, page } = run.place
        && let Some(memory) = memories.lock().segment_mut(segment)
    {
        write(memory, page);
    }
}

/// The pages of a range, which must be whole ones.
fn whole_pages(address: GpuVirtualAddress, bytes: u64, write: bool) -> Result<Access, Abort> {
    let whole = address.0.is_multiple_of(PAGE_SIZE) && bytes.is_multiple_of(PAGE_SIZE);
    if !whole || address.0.checked_add(bytes).is_none() {
        return Err(Abort::IllegalCommand);
    }
    Ok(Access { first_page: address.0 / PAGE_SIZE, pages: bytes / PAGE_SIZE, write })
}
