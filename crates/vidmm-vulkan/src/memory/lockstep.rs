//! The memory for kernels, transfers and observers of the model GPU.

use std::ops::Range;
use std::sync::Arc;

use vidmm::contract::KmdProcessHandle;
use vidmm::{PAGE_SIZE, PhysicalAddress, SegmentId};
use vidmm_soft::{PhysicalRun, Place as MemoryPlace, View, uniform_digest};

use super::VulkanMemory;
use crate::block::{Block, Purpose};
use crate::device::VulkanDevice;
use crate::error::VulkanError;
use crate::kernels::{Arguments, FLAG_KEY, Kernel};
use crate::mapped::Target;
use crate::recorder::{Place, Recorder};
use crate::report::Rules;
use crate::runs::{overlap, side_by_side};
use crate::segment::pieces;

/// Blocks beside the memory.
#[derive(Default)]
pub(super) struct Beside {
    /// For words on the way to the host.
    read_back: Option<Block>,
    /// For copies onto themselves.
    scratch: Option<Block>,
}

/// Consecutive pages of a view, by the device's addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reach {
    /// The first page, counted from the first page of the view.
    pub(crate) first: u64,
    /// How many.
    pub(crate) pages: u64,
    /// The device's address of the first.
    pub(crate) address: u64,
}

impl VulkanMemory {
    /// The addresses of a process that lead through pages of an aperture.
    pub(crate) fn through_aperture(
        &self,
        process: KmdProcessHandle,
        segment: SegmentId,
        pages: &Range<u64>,
    ) -> Vec<Range<u64>> {
        let shown = |(run, target): &(Range<u64>, Target)| {
            let through = target.aperture.filter(|&(of, _)| of == segment);
            through.is_some_and(|(_, first)| first < pages.end && pages.start < first + (run.end - run.start))
        };
        let runs = self.spaces.get(&process).into_iter().flat_map(|space| space.mapped().runs());
        runs.filter(shown).map(|(run, _)| run).collect()
    }

    /// The rules of its bindings.
    pub(crate) fn rules(&self) -> Rules {
        self.rules
    }

    /// The commands of an application run for `runs`: the bytes of a range of a buffer from `offset` on.
    pub(crate) fn run_foreign_on(
        &mut self,
        token: u32,
        runs: &[PhysicalRun],
        mut offset: u64,
    ) -> Result<(), VulkanError> {
        for run in runs {
            if let MemoryPlace::Segment { segment, page } = run.place {
                self.run_foreign(token, Target { segment, page, aperture: None }, run.pages, offset)?;
            }
            offset += run.pages * PAGE_SIZE;
        }
        Ok(())
    }

    /// The way of the device to the pages of `view`: through the process's addresses, or for unbound pages through addresses of the
    /// memory itself.
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

    /// The parts of `pages` of addresses, which lead to the memory from `page` of `segment` on. A bound part has the process for
    /// the way through the process's addresses.
    fn parts(
        &self,
        process: Option<KmdProcessHandle>,
        pages: Range<u64>,
        segment: SegmentId,
        page: u64,
    ) -> Vec<(Range<u64>, Option<KmdProcessHandle>)> {
        let process = process.filter(|process| self.rules.binds(segment) && self.spaces.contains_key(process));
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

    /// The address of a block for `count` words on the way to the host.
    pub(crate) fn read_back(&mut self, count: u64) -> Result<u64, VulkanError> {
        self.beside.read_back = Some(grown(self.beside.read_back.take(), &self.device, &mut self.recorder, count * 8)?);
        Ok(self.beside.read_back.as_ref().map_or(0, |block| block.address))
    }

    /// Waits for all recorded commands, and reads the first `count` words of the block.
    pub(crate) fn read(&mut self, count: u64) -> Result<Vec<u64>, VulkanError> {
        self.recorder.finish()?;
        Ok(self.beside.read_back.as_ref().map_or_else(Vec::new, |block| block.words(count as usize)))
    }

    /// Copies from `from` to `to`, with at most as many pages.
    pub(crate) fn copy(&mut self, from: &[PhysicalRun], to: &[PhysicalRun]) -> Result<(), VulkanError> {
        if !overlap(from, to) {
            return self.copy_pages(from, to);
        }
        // The bytes are read before any of them is written.
        let bytes = to.iter().map(|run| run.pages * PAGE_SIZE).sum();
        self.recorder.submit()?;
        let scratch = grown(self.beside.scratch.take(), &self.device, &mut self.recorder, bytes)?;
        let moved = self.copy_through(&scratch, from, to);
        self.beside.scratch = Some(scratch);
        moved
    }

    fn copy_pages(&mut self, from: &[PhysicalRun], to: &[PhysicalRun]) -> Result<(), VulkanError> {
        for (from, to, pages) in side_by_side(from, to) {
            let at = |place| match place {
                MemoryPlace::Zero => None,
                MemoryPlace::Segment { segment, page } => Some(Target { segment, page, aperture: None }),
            };
            match (at(from), at(to)) {
                (_, None) => {}
                (None, Some(to)) => self.fill_pages(to.segment, to.page, pages, 0)?,
                (Some(from), Some(to)) => self.copy_run(from, to, pages)?,
            }
        }
        Ok(())
    }

    /// Copies by way of `scratch`, a block of the same size.
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

    /// Fills `runs` with `pattern`.
    pub(crate) fn fill(&mut self, runs: &[PhysicalRun], pattern: u32) -> Result<(), VulkanError> {
        for run in runs {
            if let MemoryPlace::Segment { segment, page } = run.place {
                self.fill_pages(segment, page, run.pages, pattern)?;
            }
        }
        Ok(())
    }

    /// Inverts a bit of the page at `address`.
    pub(crate) fn flip_bit(&mut self, address: PhysicalAddress, bit: u32) -> Result<(), VulkanError> {
        let (segment, page) = (address.segment, address.offset / PAGE_SIZE);
        self.make(segment, page)?;
        self.read_back(1)?;
        let Some(place) = self.segments.get(&segment).and_then(|segment| segment.find(page)) else { return Ok(()) };
        let word = Place { offset: place.offset + u64::from(bit / 64) * 8, ..place };
        if let Some(block) = &self.beside.read_back {
            self.recorder.copy(word, Place { block, offset: 0 }, 8)?;
        }
        self.recorder.finish()?;
        let held = self.beside.read_back.as_ref().map_or(0, |block| block.words(1)[0]);
        self.recorder.write_word(word, held ^ 1 << (bit % 64))
    }

    /// Memory segments lose all content.
    pub(crate) fn spoil(&mut self) -> Result<(), VulkanError> {
        for (segment, memory) in &mut self.segments {
            if !segment.is_system() {
                memory.spoil(&mut self.recorder, 0xDEAD_BEEF)?;
            }
        }
        Ok(())
    }
}

/// A block of at least `bytes` bytes for the host to read: `block`, or a larger block.
fn grown(
    block: Option<Block>,
    device: &Arc<VulkanDevice>,
    recorder: &mut Recorder,
    bytes: u64,
) -> Result<Block, VulkanError> {
    match block {
        Some(block) if block.bytes() >= bytes => Ok(block),
        smaller => {
            // Recorded commands may name the smaller block.
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
