//! The memory of a machine on a Vulkan device: its segments, and the address spaces of its processes.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use vidmm::contract::KmdProcessHandle;
use vidmm::{PAGE_SIZE, PhysicalAddress, SegmentId};
use vidmm_soft::{Memories, PhysicalRun, Place as MemoryPlace, SoftAdapterConfig, Translation, View, uniform_digest};

use crate::block::{Block, Purpose};
use crate::device::{BindOrder, VulkanDevice};
use crate::error::VulkanError;
use crate::foreign::ForeignCommands;
use crate::kernels::{Arguments, FLAG_KEY, Kernel};
use crate::mapped::Run;
use crate::recorder::{Place, Recorder};
use crate::report::Rules;
use crate::runs::{overlap, side_by_side};
use crate::segment::{PAGES_PER_BLOCK, Segment, pieces};
use crate::space::{CHUNK_BYTES, PAGES_PER_CHUNK, Space};
use crate::sparse::{self, Binding, SparseResource};

/// A machine's memory and addresses on the device. Fields are dropped in their order: addresses before the memory that is bound to them.
pub(crate) struct VulkanMemory {
    spaces: BTreeMap<KmdProcessHandle, Space>,
    segments: BTreeMap<SegmentId, Segment>,
    foreign: ForeignCommands,
    read_back: Option<Block>,
    scratch: Option<Block>,
    pub(crate) recorder: Recorder,
    device: Arc<VulkanDevice>,
    rules: Rules,
    /// Pages that an address space has.
    num_pages: u64,
    chunks: Chunks,
    /// The most bytes that its blocks may have together.
    limit: u64,
}

/// How addresses get a sparse buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Chunks {
    /// When something is first mapped near them.
    AsMapped,
    /// By [`VulkanMemory::reserve`]. A process without any is not looked at: the paging process's windows are translated, and
    /// never bound.
    Reserved,
}

/// Pages of a view that lie together, as the device addresses them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reach {
    /// The first of them, counted from the first page of the view.
    pub(crate) first: u64,
    /// How many.
    pub(crate) pages: u64,
    /// The device's address of the first.
    pub(crate) address: u64,
}

impl VulkanMemory {
    /// Memory without content for the adapter that `config` describes, which binds what `rules` allow.
    pub(crate) fn new(
        device: Arc<VulkanDevice>,
        config: &SoftAdapterConfig,
        rules: Rules,
        chunks: Chunks,
    ) -> Result<Self, VulkanError> {
        // In real time segments and backing store are bounded by the adapter's options, and Vulkan refuses what it has not.
        let limit = if chunks == Chunks::AsMapped { device.report().usable_bytes() } else { u64::MAX };
        let local = config.memory_segments().map(|(segment, ..)| (segment, Segment::new(Purpose::Local)));
        let mut segments: BTreeMap<_, _> = local.collect();
        segments.insert(SegmentId::SYSTEM, Segment::new(Purpose::System));
        Ok(Self {
            spaces: BTreeMap::new(),
            segments,
            foreign: ForeignCommands::default(),
            read_back: None,
            scratch: None,
            recorder: Recorder::new(&device)?,
            device,
            rules,
            num_pages: 1 << (config.virtual_address_bit_count - PAGE_SIZE.trailing_zeros()),
            chunks,
            limit,
        })
    }

    /// The address space of a process.
    pub(crate) fn space(&mut self, process: KmdProcessHandle) -> &mut Space {
        self.spaces.entry(process).or_default()
    }

    /// The address space of a process, if what is mapped there is bound.
    pub(crate) fn bound_space(&mut self, process: KmdProcessHandle) -> Option<&mut Space> {
        match self.chunks {
            Chunks::AsMapped => Some(self.space(process)),
            Chunks::Reserved => self.spaces.get_mut(&process),
        }
    }

    /// Gives `resource` to the `pages` pages from `first` on of a process.
    ///
    /// # Errors
    ///
    /// If that is more than the device has addresses for.
    pub(crate) fn reserve(
        &mut self,
        process: KmdProcessHandle,
        first: u64,
        pages: u64,
        resource: SparseResource,
    ) -> Result<(), VulkanError> {
        let limit = self.device.report().limits.sparse_address_space_bytes;
        let taken: u64 = self.spaces.values().map(Space::address_bytes).sum();
        if taken + pages * PAGE_SIZE > limit {
            return Err(VulkanError::OutOfAddresses { limit: limit >> 20 });
        }
        self.space(process).insert_chunk(first, pages, resource);
        Ok(())
    }

    /// Bytes of the blocks of a segment.
    pub(crate) fn allocated_bytes(&self, segment: SegmentId) -> u64 {
        self.segments.get(&segment).map_or(0, Segment::allocated_bytes)
    }

    /// Takes the blocks of a segment in which nothing is: while no paging is under way, all that is there is mapped. Addresses of evicted
    /// allocations are unbound from these blocks. A later use of the pages makes new blocks.
    pub(crate) fn take_unused(&mut self, segment: SegmentId) -> Result<Vec<Block>, VulkanError> {
        let in_use: BTreeSet<u64> = self.spaces.values().flat_map(|space| space.blocks_of(segment)).collect();
        let mut leftovers = Vec::new();
        for (&process, space) in &mut self.spaces {
            leftovers.extend(space.unbind_leftovers(segment, &in_use).into_iter().map(|run| (process, run)));
        }
        self.bind_runs(leftovers)?;
        Ok(self.segments.get_mut(&segment).map_or_else(Vec::new, |segment| segment.take_unused(&in_use)))
    }

    /// Ends a process, whose addresses have been given back.
    pub(crate) fn forget_process(&mut self, process: KmdProcessHandle) {
        self.spaces.remove(&process);
    }

    /// All address spaces.
    pub(crate) fn spaces(&mut self) -> impl Iterator<Item = &mut Space> {
        self.spaces.values_mut()
    }

    /// All pages that an address space has.
    pub(crate) fn all_pages(&self) -> Range<u64> {
        0..self.num_pages
    }

    /// The memory at `page` of `segment`, made if it has no block yet.
    fn make(&mut self, segment: SegmentId, page: u64) -> Result<(), VulkanError> {
        if !self.segments.get(&segment).is_some_and(|segment| segment.is_fresh(page)) {
            return Ok(());
        }
        let allocated: u64 = self.segments.values().map(Segment::allocated_bytes).sum();
        let limit = self.limit;
        if allocated + PAGES_PER_BLOCK * PAGE_SIZE > limit {
            return Err(VulkanError::OutOfMemory { limit: limit >> 20 });
        }
        match self.segments.get_mut(&segment) {
            Some(segment) => segment.make(&self.device, &mut self.recorder, page),
            None => Ok(()),
        }
    }

    /// Binds what has changed since the last time.
    pub(crate) fn bind(&mut self, tables: &mut Memories, translation: &Translation) -> Result<(), VulkanError> {
        let memory = tables.lock();
        let mut changes = Vec::new();
        for (&process, space) in &mut self.spaces {
            let changed = space.changes(process, translation, &memory, self.rules);
            changes.extend(changed.into_iter().map(|run| (process, run)));
        }
        drop(memory);
        self.bind_runs(changes)
    }

    /// Binds and unbinds runs of addresses.
    fn bind_runs(&mut self, changes: Vec<(KmdProcessHandle, Run)>) -> Result<(), VulkanError> {
        if changes.is_empty() {
            return Ok(());
        }
        let limit = self.device.report().max_mapped_ranges();
        if self.spaces.values().map(Space::num_runs).sum::<usize>() > limit {
            return Err(VulkanError::TooManyRanges { limit });
        }
        let mut cut = Vec::new();
        for (process, run) in changes {
            if run.target.is_some() && self.chunks == Chunks::AsMapped {
                self.make_chunks(process, &run.pages)?;
            }
            for piece in self.space(process).cut(&run) {
                if let Some(target) = piece.target {
                    self.make(target.segment, target.page)?;
                }
                cut.push((process, piece));
            }
        }
        self.recorder.submit()?;
        let bindings = cut.iter().filter_map(|(process, Run { pages, target })| {
            let memory = match *target {
                None => None,
                Some(target) => {
                    let place = self.segments.get(&target.segment)?.find(target.page)?;
                    Some((place.block, place.offset))
                }
            };
            let (resource, offset) = self.spaces.get(process)?.resource(pages.start)?;
            Some(Binding { resource, offset, bytes: (pages.end - pages.start) * PAGE_SIZE, memory })
        });
        // In real time whatever is mapped anew is in no use, and an evicted buffer's uses have ended before its paging is submitted.
        let order = if self.chunks == Chunks::AsMapped { BindOrder::Last } else { BindOrder::Beside };
        sparse::bind(&self.device, &bindings.collect::<Vec<_>>(), order)
    }

    fn make_chunks(&mut self, process: KmdProcessHandle, pages: &Range<u64>) -> Result<(), VulkanError> {
        for chunk in self.space(process).missing_chunks(pages) {
            let limit = self.device.report().limits.sparse_address_space_bytes;
            let taken = |spaces: &BTreeMap<_, Space>| spaces.values().map(Space::address_bytes).sum::<u64>();
            if taken(&self.spaces) + CHUNK_BYTES > limit {
                self.recorder.finish()?;
                self.spaces.values_mut().for_each(Space::drop_empty_chunks);
            }
            if taken(&self.spaces) + CHUNK_BYTES > limit {
                return Err(VulkanError::OutOfAddresses { limit: limit >> 20 });
            }
            let buffer = SparseResource::new(&self.device, CHUNK_BYTES)?;
            self.space(process).insert_chunk(chunk, PAGES_PER_CHUNK, buffer);
        }
        Ok(())
    }

    /// How the device reaches the pages of `view` that are somewhere: through the process's addresses, or where they cannot be
    /// bound, through the memory's own.
    pub(crate) fn reach(&mut self, view: &View<'_>) -> Result<Vec<Reach>, VulkanError> {
        let first_page = view.range.virtual_address.0 / PAGE_SIZE;
        let mut reached: Vec<Reach> = Vec::new();
        let mut first = 0;
        for run in view.runs {
            if let MemoryPlace::Segment { segment, page } = run.place {
                let pages = first_page + first..first_page + first + run.pages;
                for (part, process) in self.parts(view.process, pages.clone(), segment, page) {
                    let from = part.start - pages.start;
                    let count = part.end - part.start;
                    match process {
                        Some(process) => self.reach_mapped(process, part.start, first + from, count, &mut reached),
                        None => self.reach_memory((segment, page + from), first + from, count, &mut reached)?,
                    }
                }
            }
            first += run.pages;
        }
        Ok(reached)
    }

    /// The parts of `pages`, which lead to the memory from `page` of `segment` on: with the process through whose addresses
    /// that is reached, or with none where it cannot be bound.
    fn parts(
        &self,
        process: Option<KmdProcessHandle>,
        pages: Range<u64>,
        segment: SegmentId,
        page: u64,
    ) -> Vec<(Range<u64>, Option<KmdProcessHandle>)> {
        let process = process.filter(|_| self.rules.binds(segment));
        match process.and_then(|process| self.spaces.get(&process)) {
            Some(space) if !self.rules.binds_every_page() => {
                let parts = space.bound(pages, segment, page).into_iter();
                parts.map(|(part, is_bound)| (part, process.filter(|_| is_bound))).collect()
            }
            _ => vec![(pages, process)],
        }
    }

    fn reach_mapped(
        &self,
        process: KmdProcessHandle,
        mut page: u64,
        mut first: u64,
        mut left: u64,
        to: &mut Vec<Reach>,
    ) {
        while left > 0 {
            let Some(space) = self.spaces.get(&process) else { return };
            let pages = space.pages_together(page, left);
            if let Some(address) = space.address(page) {
                push_reach(to, Reach { first, pages, address });
            }
            (page, first, left) = (page + pages, first + pages, left - pages);
        }
    }

    fn reach_memory(
        &mut self,
        (segment, page): (SegmentId, u64),
        first: u64,
        pages: u64,
        to: &mut Vec<Reach>,
    ) -> Result<(), VulkanError> {
        for piece in pieces(page, pages) {
            self.make(segment, piece.page)?;
            if let Some(place) = self.segments.get(&segment).and_then(|segment| segment.find(piece.page)) {
                let address = place.block.address + place.offset;
                push_reach(to, Reach { first: first + (piece.page - page), pages: piece.pages, address });
            }
        }
        Ok(())
    }

    /// Lets an application record the commands that `token` names, for `runs`: the bytes of its range of the buffer from `offset` on.
    pub(crate) fn run_foreign(&mut self, token: u32, runs: &[PhysicalRun], mut offset: u64) -> Result<(), VulkanError> {
        for run in runs {
            if let MemoryPlace::Segment { segment, page } = run.place {
                for piece in pieces(page, run.pages) {
                    self.make(segment, piece.page)?;
                    let Self { segments, recorder, foreign, .. } = self;
                    let place = segments.get(&segment).and_then(|segment| segment.find(piece.page));
                    if let (Some(place), Some((record, start))) = (place, foreign.get_mut(token)) {
                        let offset = start + offset + (piece.page - page) * PAGE_SIZE;
                        let bytes = piece.pages * PAGE_SIZE;
                        recorder.record_foreign(|commands| record(&place.evicted(commands, offset, bytes)))?;
                    }
                }
            }
            offset += run.pages * PAGE_SIZE;
        }
        Ok(())
    }

    /// The commands of applications.
    pub(crate) fn foreign(&mut self) -> &mut ForeignCommands {
        &mut self.foreign
    }

    /// The device's own address of the page at `address`, which exists.
    pub(crate) fn page_address(&mut self, address: PhysicalAddress) -> Result<Option<u64>, VulkanError> {
        let mut reached = Vec::new();
        self.reach_memory((address.segment, address.offset / PAGE_SIZE), 0, 1, &mut reached)?;
        Ok(reached.first().map(|reach| reach.address))
    }

    /// The digest of the page at `address`, which exists, with its words combined with `key`.
    pub(crate) fn page_digest(&mut self, address: PhysicalAddress, key: u64) -> Result<Option<u64>, VulkanError> {
        let Some(segment) = self.segments.get(&address.segment) else { return Ok(None) };
        if segment.is_fresh(address.offset / PAGE_SIZE) {
            let pattern = u64::from(segment.fresh());
            return Ok(Some(uniform_digest((pattern << 32 | pattern) ^ key)));
        }
        let Some(pages) = self.page_address(address)? else { return Ok(None) };
        let to = self.read_back(1)?;
        let arguments = Arguments { pages, first: to, surface: key, flags: FLAG_KEY, ..Arguments::default() };
        self.recorder.dispatch(Kernel::Digest, arguments, 1)?;
        Ok(self.read(1)?.pop())
    }

    /// The address of a block for `count` words that the host is to read.
    pub(crate) fn read_back(&mut self, count: u64) -> Result<u64, VulkanError> {
        self.read_back = Some(grown(self.read_back.take(), &self.device, &mut self.recorder, count * 8)?);
        Ok(self.read_back.as_ref().map_or(0, |block| block.address))
    }

    /// Waits for all that was recorded, and reads the first `count` words of that block.
    pub(crate) fn read(&mut self, count: u64) -> Result<Vec<u64>, VulkanError> {
        self.recorder.finish()?;
        Ok(self.read_back.as_ref().map_or_else(Vec::new, |block| block.words(count as usize)))
    }

    /// Copies from `from` to `to`, which are no longer.
    pub(crate) fn copy(&mut self, from: &[PhysicalRun], to: &[PhysicalRun]) -> Result<(), VulkanError> {
        if !overlap(from, to) {
            return self.copy_pages(from, to);
        }
        // The bytes are read before any of them is written.
        let bytes = to.iter().map(|run| run.pages * PAGE_SIZE).sum();
        self.recorder.submit()?;
        let scratch = grown(self.scratch.take(), &self.device, &mut self.recorder, bytes)?;
        let moved = self.copy_through(&scratch, from, to);
        self.scratch = Some(scratch);
        moved
    }

    fn copy_pages(&mut self, from: &[PhysicalRun], to: &[PhysicalRun]) -> Result<(), VulkanError> {
        for (from, to, pages) in side_by_side(from, to) {
            let MemoryPlace::Segment { segment, page } = to else { continue };
            match from {
                MemoryPlace::Zero => self.fill_pages(segment, page, pages, 0)?,
                MemoryPlace::Segment { segment: source, page: from } => {
                    self.make(source, from)?;
                    self.make(segment, page)?;
                    let find =
                        |segment, page| self.segments.get(&segment).and_then(|segment: &Segment| segment.find(page));
                    if let (Some(from), Some(to)) = (find(source, from), find(segment, page)) {
                        self.recorder.copy(from, to, pages * PAGE_SIZE)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Copies by way of `scratch`, which is as large.
    fn copy_through(&mut self, scratch: &Block, from: &[PhysicalRun], to: &[PhysicalRun]) -> Result<(), VulkanError> {
        for is_first in [true, false] {
            let mut offset = 0;
            for (from, to, pages) in side_by_side(from, to) {
                let place = if is_first { from } else { to };
                let there = Place { block: scratch, offset };
                let bytes = pages * PAGE_SIZE;
                offset += bytes;
                let MemoryPlace::Segment { segment, page } = place else {
                    if is_first {
                        self.recorder.fill(there, bytes, 0)?;
                    }
                    continue;
                };
                self.make(segment, page)?;
                if let Some(here) = self.segments.get(&segment).and_then(|segment| segment.find(page)) {
                    let (from, to) = if is_first { (here, there) } else { (there, here) };
                    self.recorder.copy(from, to, bytes)?;
                }
            }
        }
        Ok(())
    }

    /// Copies between `block`, from its start on, and the memory that the `bytes` bytes from `address` of a process lead to. Returns
    /// the bytes that lead to memory: fewer if some do not.
    pub(crate) fn copy_mapped(
        &mut self,
        process: KmdProcessHandle,
        address: u64,
        bytes: u64,
        block: &Block,
        is_write: bool,
    ) -> Result<u64, VulkanError> {
        let (end, mut copied) = (address + bytes, 0);
        let Some(space) = self.spaces.get(&process) else { return Ok(0) };
        for Run { pages, target } in space.parts(address / PAGE_SIZE..end.div_ceil(PAGE_SIZE)) {
            let Some(target) = target else { continue };
            let Some(place) = self.segments.get(&target.segment).and_then(|segment| segment.find(target.page)) else {
                continue;
            };
            let (first, last) = ((pages.start * PAGE_SIZE).max(address), (pages.end * PAGE_SIZE).min(end));
            let here = Place { offset: place.offset + (first - pages.start * PAGE_SIZE), ..place };
            let there = Place { block, offset: first - address };
            let (from, to) = if is_write { (there, here) } else { (here, there) };
            self.recorder.copy(from, to, last - first)?;
            copied += last - first;
        }
        Ok(copied)
    }

    /// Fills `runs` with `pattern`.
    pub(crate) fn fill(&mut self, runs: &[PhysicalRun], pattern: u32) -> Result<(), VulkanError> {
        for run in runs {
            if let MemoryPlace::Segment { segment, page } = run.place {
                self.fill_pages(segment, page, run.pages, pattern)?;
            }
        }
        Ok(())
    }

    /// Fills pages of a segment. A block that is still to be made and would hold the same anyway is not made.
    fn fill_pages(&mut self, segment: SegmentId, page: u64, pages: u64, pattern: u32) -> Result<(), VulkanError> {
        for piece in pieces(page, pages) {
            let Some(found) = self.segments.get(&segment) else { return Ok(()) };
            if found.is_fresh(piece.page) && found.fresh() == pattern {
                continue;
            }
            self.make(segment, piece.page)?;
            if let Some(place) = self.segments.get(&segment).and_then(|segment| segment.find(piece.page)) {
                self.recorder.fill(place, piece.pages * PAGE_SIZE, pattern)?;
            }
        }
        Ok(())
    }

    /// System memory of `bytes` bytes from `offset` on reads as zero: it is handed out.
    pub(crate) fn clear_system(&mut self, offset: u64, bytes: u64) -> Result<(), VulkanError> {
        self.fill_pages(SegmentId::SYSTEM, offset / PAGE_SIZE, bytes.div_ceil(PAGE_SIZE), 0)
    }

    /// Inverts a bit of the page at `address`.
    pub(crate) fn flip_bit(&mut self, address: PhysicalAddress, bit: u32) -> Result<(), VulkanError> {
        let (segment, page) = (address.segment, address.offset / PAGE_SIZE);
        self.make(segment, page)?;
        self.read_back(1)?;
        let Some(place) = self.segments.get(&segment).and_then(|segment| segment.find(page)) else { return Ok(()) };
        let word = Place { offset: place.offset + u64::from(bit / 64) * 8, ..place };
        if let Some(block) = &self.read_back {
            self.recorder.copy(word, Place { block, offset: 0 }, 8)?;
        }
        self.recorder.finish()?;
        let held = self.read_back.as_ref().map_or(0, |block| block.words(1)[0]);
        self.recorder.write_word(word, held ^ 1 << (bit % 64))
    }

    /// Memory segments lose what they hold.
    pub(crate) fn spoil(&mut self) -> Result<(), VulkanError> {
        for (segment, memory) in &mut self.segments {
            if !segment.is_system() {
                memory.spoil(&mut self.recorder, 0xDEAD_BEEF)?;
            }
        }
        self.spaces.values_mut().for_each(Space::forget_root);
        Ok(())
    }
}

/// A block of at least `bytes` bytes that the host can read: `block`, or a larger one in its place.
fn grown(
    block: Option<Block>,
    device: &Arc<VulkanDevice>,
    recorder: &mut Recorder,
    bytes: u64,
) -> Result<Block, VulkanError> {
    match block {
        Some(block) if block.bytes() >= bytes => Ok(block),
        smaller => {
            // Commands that were recorded may name the smaller one.
            recorder.finish()?;
            drop(smaller);
            Block::new(device, Purpose::Staging, bytes.next_power_of_two().max(64 << 10))
        }
    }
}

fn push_reach(to: &mut Vec<Reach>, next: Reach) {
    match to.last_mut() {
        Some(last)
            if last.first + last.pages == next.first && last.address + last.pages * PAGE_SIZE == next.address =>
        {
            last.pages += next.pages;
        }
        _ => to.push(next),
    }
}
