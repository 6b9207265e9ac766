//! The memory of a machine on a Vulkan device: its segments, and the address spaces of its processes.

#[cfg(feature = "lockstep")]
mod lockstep;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use vidmm::contract::KmdProcessHandle;
use vidmm::{PAGE_SIZE, SegmentId};

use crate::block::{Block, Purpose};
use crate::device::{BindOrder, VulkanDevice};
use crate::error::VulkanError;
use crate::foreign::ForeignCommands;
use crate::mapped::{Run, Target};
use crate::operation::Operation;
use crate::recorder::{Place, Recorder};
use crate::report::Rules;
use crate::segment::{PAGES_PER_BLOCK, Segment, pieces};
use crate::space::{CHUNK_BYTES, PAGES_PER_CHUNK, Space};
use crate::sparse::{self, Binding, SparseResource};

/// A machine's memory and addresses on the device. Fields are dropped in their order: addresses before the memory that is bound to them.
pub(crate) struct VulkanMemory {
    spaces: BTreeMap<KmdProcessHandle, Space>,
    segments: BTreeMap<SegmentId, Segment>,
    foreign: ForeignCommands,
    #[cfg(feature = "lockstep")]
    beside: lockstep::Beside,
    pub(crate) recorder: Recorder,
    device: Arc<VulkanDevice>,
    rules: Rules,
    chunks: Chunks,
    /// The most bytes that its blocks may have together.
    limit: u64,
}

#[cfg(feature = "lockstep")]
pub(crate) use lockstep::Reach;

/// How addresses get a sparse buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Chunks {
    /// When something is first mapped near them.
    AsMapped,
    /// By [`VulkanMemory::reserve`].
    Reserved,
}

impl VulkanMemory {
    /// Memory without content for an adapter with these memory segments, which binds what `rules` allow.
    pub(crate) fn new(
        device: Arc<VulkanDevice>,
        segments: impl IntoIterator<Item = SegmentId>,
        rules: Rules,
        chunks: Chunks,
    ) -> Result<Self, VulkanError> {
        // In real time segments and backing store are bounded by the adapter's options, and Vulkan refuses what it has not.
        let limit = if chunks == Chunks::AsMapped { device.report().usable_bytes() } else { u64::MAX };
        let local = segments.into_iter().map(|segment| (segment, Segment::new(Purpose::Local)));
        let mut segments: BTreeMap<_, _> = local.collect();
        segments.insert(SegmentId::SYSTEM, Segment::new(Purpose::System));
        Ok(Self {
            spaces: BTreeMap::new(),
            segments,
            foreign: ForeignCommands::default(),
            #[cfg(feature = "lockstep")]
            beside: lockstep::Beside::default(),
            recorder: Recorder::new(&device)?,
            device,
            rules,
            chunks,
            limit,
        })
    }

    /// The address space of a process.
    pub(crate) fn space(&mut self, process: KmdProcessHandle) -> &mut Space {
        self.spaces.entry(process).or_default()
    }

    /// The address space of a process, if what is mapped there is bound.
    fn bound_space(&mut self, process: KmdProcessHandle) -> Option<&mut Space> {
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

    /// Records an operation. What it maps is bound by the next [`bind`](Self::bind).
    pub(crate) fn execute(&mut self, operation: Operation) -> Result<(), VulkanError> {
        match operation {
            Operation::Map { process, pages, to } => {
                let to = to.filter(|to| self.rules.binds(to.segment));
                if let Some(space) = self.bound_space(process) {
                    space.map(pages, to);
                }
                Ok(())
            }
            Operation::Copy { from, to, pages } => self.copy_run(from, to, pages),
            Operation::Fill { to, pages, pattern } => self.fill_pages(to.segment, to.page, pages, pattern),
            Operation::Foreign { token, at, pages, offset } => self.run_foreign(token, at, pages, offset),
        }
    }

    /// Binds what has changed since the last time.
    pub(crate) fn bind(&mut self) -> Result<(), VulkanError> {
        let mut changes = Vec::new();
        for (&process, space) in &mut self.spaces {
            let changed = space.changes(self.rules.unbinding);
            changes.extend(changed.into_iter().map(|run| (process, run)));
        }
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
            self.space(process).cut(&run, |piece| cut.push((process, piece)));
        }
        for target in cut.iter().filter_map(|(_, piece)| piece.target) {
            self.make(target.segment, target.page)?;
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

    /// Lets an application record the commands that `token` names, for the bytes of its range of the buffer from `offset` on.
    pub(crate) fn run_foreign(&mut self, token: u32, at: Target, pages: u64, offset: u64) -> Result<(), VulkanError> {
        for piece in pieces(at.page, pages) {
            self.make(at.segment, piece.page)?;
            let Self { segments, recorder, foreign, .. } = self;
            let place = segments.get(&at.segment).and_then(|segment| segment.find(piece.page));
            if let (Some(place), Some((record, start))) = (place, foreign.get_mut(token)) {
                let offset = start + offset + (piece.page - at.page) * PAGE_SIZE;
                let bytes = piece.pages * PAGE_SIZE;
                recorder.record_foreign(|commands| record(&place.evicted(commands, offset, bytes)))?;
            }
        }
        Ok(())
    }

    /// The commands of applications.
    pub(crate) fn foreign(&mut self) -> &mut ForeignCommands {
        &mut self.foreign
    }

    /// Copies consecutive pages, which do not overlap.
    fn copy_run(&mut self, mut from: Target, mut to: Target, mut pages: u64) -> Result<(), VulkanError> {
        let in_block = |at: Target| PAGES_PER_BLOCK - at.page % PAGES_PER_BLOCK;
        while pages > 0 {
            let count = pages.min(in_block(from)).min(in_block(to));
            self.make(from.segment, from.page)?;
            self.make(to.segment, to.page)?;
            let find = |at: Target| self.segments.get(&at.segment).and_then(|segment: &Segment| segment.find(at.page));
            if let (Some(here), Some(there)) = (find(from), find(to)) {
                self.recorder.copy(here, there, count * PAGE_SIZE)?;
            }
            (from, to, pages) = (from.later(count), to.later(count), pages - count);
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
}
