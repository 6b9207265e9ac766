//! What commands do to memory, without the time that they take.
//!
//! A command is executed in two halves. It reads when it begins and writes when it ends. Two commands that overlap in time
//! and use the same memory, which the manager should have kept apart, therefore see each other's old bytes: the error shows
//! up as wrong content, whatever the order in which a simulator happens to execute them.

use std::ops::RangeInclusive;

use vidmm::contract::KmdProcessHandle;
use vidmm::{GpuVirtualAddress, PAGE_SIZE, PageSize, PhysicalAddress, SegmentId};
use vidmm_runtime::{GpuEvent, KernelCommand, PageRange};

use crate::digest::{self, KernelState};
use crate::encoding::{Command, Fill, SetRootPageTable, Transfer, WritePtes};
use crate::memory::{PageContents, SparseMemory};
use crate::mmu::{Access, Mmu, PageFault};
use crate::physical::{PhysicalMemory, PhysicalRun, Place};
use crate::system::SystemMemory;

/// Errors to be made on purpose, so that tests can see that they are found.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ModelGpuFaults {
    /// In these transfer commands, counted from 1, one bit of one destination page flips.
    pub flip_bit_in_transfer: Option<RangeInclusive<u64>>,
}

/// What the model GPU has done so far.
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
    /// Commands that ended, of each kind.
    pub commands: CommandCounts,
    /// Packets that were aborted by a page fault.
    pub page_faults: u64,
    /// Packets of which commands were dropped because they mean nothing. Their completion says nothing of it.
    pub illegal_commands: u64,
}

/// How many commands of each kind ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CommandCounts {
    /// Changes of the address space.
    pub set_root_page_table: u64,
    /// Transfers.
    pub transfer: u64,
    /// Fills.
    pub fill: u64,
    /// Runs of page-table entries.
    pub write_ptes: u64,
    /// Flushes.
    pub flush_tlb: u64,
    /// Kernels.
    pub kernel: u64,
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
pub enum Begun {
    /// A transfer, with what it read and how many of these bytes came from system memory.
    Transfer(Transfer, PageContents, u64),
    /// A kernel, with what became of its inputs.
    Kernel(KernelCommand, KernelState),
    /// A command that reads nothing.
    Other(Command),
}

/// The memories and the MMU.
#[derive(Debug)]
pub struct Device {
    mmu: Mmu,
    local: SparseMemory,
    system: SystemMemory,
    faults: ModelGpuFaults,
    counters: ModelGpuCounters,
}

impl Device {
    /// A device with `local_bytes` of local memory.
    pub fn new(mmu: Mmu, local_bytes: u64, system: SystemMemory, faults: ModelGpuFaults) -> Self {
        Self { mmu, local: SparseMemory::new(local_bytes), system, faults, counters: ModelGpuCounters::default() }
    }

    /// What was done so far.
    pub fn counters(&self) -> ModelGpuCounters {
        ModelGpuCounters { tlb_fills: self.mmu.tlb_fills(), ..self.counters }
    }

    /// Bytes that the content of local memory costs.
    pub fn local_resident_bytes(&self) -> u64 {
        self.local.resident_bytes()
    }

    /// The digest of the page at `virtual_address` of `process`, through its page tables.
    pub fn page_digest(&mut self, process: KmdProcessHandle, virtual_address: GpuVirtualAddress) -> Option<u64> {
        let memory = PhysicalMemory { local: &mut self.local, system: self.system.lock() };
        match self.mmu.walk(&memory, process, virtual_address)? {
            Place::Zero => Some(0),
            Place::Memory { segment, page } => Some(memory.segment(segment)?.page_digest(page)),
        }
    }

    /// The digest of the bytes of the page at `address`, as they are in memory.
    pub fn physical_page_digest(&self, address: PhysicalAddress) -> Option<u64> {
        let page = address.offset / PAGE_SIZE;
        match address.segment {
            SegmentId::SYSTEM => Some(self.system.lock().page_digest(page)),
            crate::driver::LOCAL_SEGMENT => Some(self.local.page_digest(page)),
            _ => None,
        }
    }

    /// Notes that commands were dropped.
    pub fn count_abort(&mut self, abort: Abort) {
        match abort {
            Abort::PageFault(_) => self.counters.page_faults += 1,
            Abort::IllegalCommand => self.counters.illegal_commands += 1,
        }
    }

    /// The first half of `command`: it reads, in the address space of `root`.
    ///
    /// # Errors
    ///
    /// If the packet is to be aborted.
    pub fn begin(
        &mut self,
        root: Option<&SetRootPageTable>,
        command: Command,
        events: &mut Vec<GpuEvent>,
    ) -> Result<Begun, Abort> {
        match command {
            Command::Transfer(transfer) => self.begin_transfer(root, transfer),
            Command::Kernel(kernel) => self.begin_kernel(root, kernel, events),
            other => Ok(Begun::Other(other)),
        }
    }

    /// The second half of a command: it writes. `root` changes when the command says so.
    ///
    /// # Errors
    ///
    /// If the packet is to be aborted; nothing was written to the range that could not be accessed.
    pub fn finish(&mut self, root: &mut Option<SetRootPageTable>, begun: Begun) -> Result<(), Abort> {
        match begun {
            Begun::Transfer(transfer, contents, from_system) => {
                self.finish_transfer(root.as_ref(), &transfer, &contents, from_system)
            }
            Begun::Kernel(kernel, state) => self.finish_kernel(root.as_ref(), &kernel, state),
            Begun::Other(Command::SetRootPageTable(command)) => self.set_root_page_table(root, command),
            Begun::Other(Command::Fill(fill)) => self.fill(root.as_ref(), &fill),
            Begun::Other(Command::WritePtes(ptes)) => self.write_ptes(&ptes),
            Begun::Other(Command::FlushTlb(range)) => {
                self.mmu.flush(range);
                self.counters.commands.flush_tlb += 1;
                Ok(())
            }
            Begun::Other(Command::Transfer(_) | Command::Kernel(_)) => unreachable!("these have a first half"),
        }
    }

    fn set_root_page_table(
        &mut self,
        root: &mut Option<SetRootPageTable>,
        command: SetRootPageTable,
    ) -> Result<(), Abort> {
        if !can_be_table(command.root) {
            return Err(Abort::IllegalCommand);
        }
        self.mmu.use_root(command);
        *root = Some(command);
        self.counters.commands.set_root_page_table += 1;
        Ok(())
    }

    fn translate(&mut self, root: Option<&SetRootPageTable>, access: Access) -> Result<Vec<PhysicalRun>, Abort> {
        let address = GpuVirtualAddress(access.first_page * PAGE_SIZE);
        let root = root.ok_or(PageFault { virtual_address: address, write: access.write })?;
        let memory = PhysicalMemory { local: &mut self.local, system: self.system.lock() };
        let mut runs = Vec::new();
        self.mmu.translate(&memory, root, access, &mut runs)?;
        Ok(runs)
    }

    fn begin_transfer(&mut self, root: Option<&SetRootPageTable>, transfer: Transfer) -> Result<Begun, Abort> {
        let access = whole_pages(transfer.source, transfer.bytes, false)?;
        whole_pages(transfer.destination, transfer.bytes, true)?;
        let runs = self.translate(root, access)?;
        let memory = PhysicalMemory { local: &mut self.local, system: self.system.lock() };
        let mut contents = PageContents::default();
        for run in &runs {
            match run.place {
                Place::Zero => contents.push_zeros(run.pages),
                Place::Memory { segment, page } => {
                    let memory = memory.segment(segment).ok_or(Abort::IllegalCommand)?;
                    memory.read_contents(page, run.pages, &mut contents);
                }
            }
        }
        Ok(Begun::Transfer(transfer, contents, bytes_in_system(&runs)))
    }

    fn finish_transfer(
        &mut self,
        root: Option<&SetRootPageTable>,
        transfer: &Transfer,
        contents: &PageContents,
        from_system: u64,
    ) -> Result<(), Abort> {
        let runs = self.translate(root, whole_pages(transfer.destination, transfer.bytes, true)?)?;
        let mut skip = 0;
        for run in &runs {
            self.write(run, |memory, page| memory.write_contents(page, run.pages, contents, skip));
            skip += run.pages;
        }
        let to_system = bytes_in_system(&runs);
        self.counters.bytes_from_system += from_system;
        self.counters.bytes_to_system += to_system;
        self.counters.bytes_local += transfer.bytes.saturating_sub(from_system + to_system);
        self.counters.commands.transfer += 1;
        let transfer = self.counters.commands.transfer;
        if self.faults.flip_bit_in_transfer.as_ref().is_some_and(|hit| hit.contains(&transfer)) {
            self.flip_bit(&runs, contents.num_pages());
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
                return self.write(run, |memory, page| memory.flip_bit(page + chosen, bit));
            }
            chosen -= run.pages;
        }
    }

    /// Lets `write` write to where `run` is, unless it is nowhere.
    fn write(&mut self, run: &PhysicalRun, write: impl FnOnce(&mut SparseMemory, u64)) {
        let mut memory = PhysicalMemory { local: &mut self.local, system: self.system.lock() };
        if let Place::Memory { segment, page } = run.place
            && let Some(memory) = memory.segment_mut(segment)
        {
            write(memory, page);
        }
    }

    fn begin_kernel(
        &mut self,
        root: Option<&SetRootPageTable>,
        kernel: KernelCommand,
        events: &mut Vec<GpuEvent>,
    ) -> Result<Begun, Abort> {
        for output in &kernel.outputs {
            range_access(output, true)?;
        }
        let mut state = KernelState::new(kernel.kernel);
        let mut inputs = Vec::with_capacity(kernel.inputs.len());
        for input in &kernel.inputs {
            inputs.push(self.read_input(root, input, &mut state)?);
        }
        self.counters.pages_read_by_kernels += inputs.iter().map(|digests| digests.len() as u64).sum::<u64>();
        events.push(GpuEvent::KernelRead { kernel: kernel.kernel, inputs });
        Ok(Begun::Kernel(kernel, state))
    }

    fn read_input(
        &mut self,
        root: Option<&SetRootPageTable>,
        input: &PageRange,
        state: &mut KernelState,
    ) -> Result<Vec<u64>, Abort> {
        let runs = self.translate(root, range_access(input, false)?)?;
        let memory = PhysicalMemory { local: &mut self.local, system: self.system.lock() };
        let mut digests = Vec::with_capacity(input.num_pages as usize);
        let mut absorb = |digest| {
            state.absorb(digest);
            digests.push(digest);
        };
        for run in &runs {
            match run.place {
                Place::Zero => (0..run.pages).for_each(|_| absorb(0)),
                Place::Memory { segment, page } => {
                    let memory = memory.segment(segment).ok_or(Abort::IllegalCommand)?;
                    memory.for_each_digest(page, run.pages, &mut absorb);
                }
            }
        }
        Ok(digests)
    }

    fn finish_kernel(
        &mut self,
        root: Option<&SetRootPageTable>,
        kernel: &KernelCommand,
        state: KernelState,
    ) -> Result<(), Abort> {
        for (output, range) in (0..).zip(&kernel.outputs) {
            let mut first = 0;
            for run in self.translate(root, range_access(range, true)?)? {
                let seed = |page| state.seed(output, first + page);
                self.write(&run, |memory, page| memory.write_pages(page, run.pages, kernel.content, seed));
                first += run.pages;
            }
            self.counters.pages_written_by_kernels += range.num_pages;
        }
        self.counters.commands.kernel += 1;
        Ok(())
    }

    fn fill(&mut self, root: Option<&SetRootPageTable>, fill: &Fill) -> Result<(), Abort> {
        for run in self.translate(root, whole_pages(fill.destination, fill.bytes, true)?)? {
            self.write(&run, |memory, page| memory.fill(page, run.pages, fill.pattern));
        }
        self.counters.bytes_filled += fill.bytes;
        self.counters.commands.fill += 1;
        Ok(())
    }

    fn write_ptes(&mut self, ptes: &WritePtes) -> Result<(), Abort> {
        let shape = TableShape::of(&self.mmu, ptes)?;
        let mut memory = PhysicalMemory { local: &mut self.local, system: self.system.lock() };
        let (start, end) = shape.words(ptes);
        let first_page = (ptes.table.offset + start * 8) / PAGE_SIZE;
        let end_page = (ptes.table.offset + end * 8).div_ceil(PAGE_SIZE);
        if !memory.contains(ptes.table.segment, first_page, end_page - first_page) {
            return Err(Abort::IllegalCommand);
        }
        let table = memory.segment_mut(ptes.table.segment).ok_or(Abort::IllegalCommand)?;
        write_entries(table, ptes, shape);
        self.counters.ptes_written += u64::from(ptes.count);
        self.counters.commands.write_ptes += 1;
        Ok(())
    }
}

/// Whether an entry could point to `address`.
fn can_be_table(address: PhysicalAddress) -> bool {
    address.offset.is_multiple_of(PAGE_SIZE) && address.offset < 1 << 52
}

/// How the entries of a table lie in memory.
#[derive(Clone, Copy)]
struct TableShape {
    words_per_entry: u64,
}

impl TableShape {
    /// The shape of the table that `ptes` writes to, if there are such tables and the entries are inside.
    fn of(mmu: &Mmu, ptes: &WritePtes) -> Result<Self, Abort> {
        let layout = mmu.layout();
        let end = u64::from(ptes.start_index) + u64::from(ptes.count);
        let exists = ptes.level < layout.levels()
            && (ptes.level > 0 || ptes.page_size == PageSize::Kib4 || layout.has_dual_entries())
            && can_be_table(ptes.table);
        if !exists || end > layout.entries(ptes.level, ptes.page_size) {
            return Err(Abort::IllegalCommand);
        }
        let words_per_entry = layout.entry_bytes(ptes.level) / 8;
        if ptes.first_64kb.is_some() && words_per_entry != 2 {
            return Err(Abort::IllegalCommand);
        }
        Ok(Self { words_per_entry })
    }

    /// The first word of the table that is written, and the first after those.
    fn words(self, ptes: &WritePtes) -> (u64, u64) {
        let start = u64::from(ptes.start_index) * self.words_per_entry;
        (start, start + u64::from(ptes.count) * self.words_per_entry)
    }
}

fn write_entries(table: &mut SparseMemory, ptes: &WritePtes, shape: TableShape) {
    let (mut word, end) = shape.words(ptes);
    let first_word = word;
    let words_in_page = PAGE_SIZE / 8;
    while word < end {
        let page_end = end.min((word / words_in_page + 1) * words_in_page);
        let words = table.words_mut(ptes.table.offset / PAGE_SIZE + word / words_in_page);
        let written = &mut words[(word % words_in_page) as usize..][..(page_end - word) as usize];
        for (slot, number) in written.iter_mut().zip(word - first_word..) {
            let (index, side) = (number / shape.words_per_entry, number % shape.words_per_entry);
            let first = if side == 0 { ptes.first } else { ptes.first_64kb.unwrap_or_default() };
            *slot = first.offset_by(index.wrapping_mul(ptes.stride)).0;
        }
        word = page_end;
    }
}

fn bytes_in_system(runs: &[PhysicalRun]) -> u64 {
    let in_system = |run: &&PhysicalRun| matches!(run.place, Place::Memory { segment: SegmentId::SYSTEM, .. });
    runs.iter().filter(in_system).map(|run| run.pages * PAGE_SIZE).sum()
}

fn range_access(range: &PageRange, write: bool) -> Result<Access, Abort> {
    let bytes = range.num_pages.checked_mul(PAGE_SIZE).ok_or(Abort::IllegalCommand)?;
    whole_pages(range.virtual_address, bytes, write)
}

/// The pages of a range, which must be whole ones.
fn whole_pages(address: GpuVirtualAddress, bytes: u64, write: bool) -> Result<Access, Abort> {
    let whole = address.0.is_multiple_of(PAGE_SIZE) && bytes.is_multiple_of(PAGE_SIZE);
    if !whole || address.0.checked_add(bytes).is_none() {
        return Err(Abort::IllegalCommand);
    }
    Ok(Access { first_page: address.0 / PAGE_SIZE, pages: bytes / PAGE_SIZE, write })
}
