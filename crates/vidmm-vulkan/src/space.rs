//! The address space of a process: sparse resources, and what they are bound to.
//!
//! The manager may give a process any address of 48 bits, and a device has far fewer for sparse buffers. So only *chunks* (ours) of
//! an address space have a sparse buffer each. In lockstep a chunk is 16 MiB, made when something is first mapped in it. In real
//! time it is what an application has as one buffer or image, and must be there before something is mapped in it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use vidmm::{PAGE_SIZE, SegmentId};

use crate::mapped::{Mapped, Run, Target};
use crate::report::Unbinding;
use crate::segment::PAGES_PER_BLOCK;
use crate::sparse::SparseResource;

/// Pages of a chunk that is made when something is mapped in it: 16 MiB.
pub(crate) const PAGES_PER_CHUNK: u64 = 4096;

/// Bytes of addresses of such a chunk.
pub(crate) const CHUNK_BYTES: u64 = PAGES_PER_CHUNK * PAGE_SIZE;

/// Addresses with a sparse resource.
struct Chunk {
    pages: u64,
    resource: SparseResource,
}

/// The address space of a process.
#[derive(Default)]
pub(crate) struct Space {
    /// By their first page.
    chunks: BTreeMap<u64, Chunk>,
    /// The mappings by the page tables.
    mapped: Mapped,
    /// The bindings: others until the next look at what has changed, and more under [`Unbinding::Lazy`].
    bound: Mapped,
    /// Pages of addresses that may lead elsewhere since the last look.
    changed: Vec<Range<u64>>,
}

impl Space {
    /// `pages` lead to the memory from a target on, or nowhere.
    pub(crate) fn map(&mut self, pages: Range<u64>, to: Option<Target>) {
        self.mapped.set(pages.clone(), to);
        self.changed.push(pages);
    }

    /// `pages` lead where `targets` say, and nowhere else.
    #[cfg(feature = "lockstep")]
    pub(crate) fn map_all(&mut self, pages: Range<u64>, targets: &[(Range<u64>, Target)]) {
        self.mapped.replace(pages.clone(), targets);
        self.changed.push(pages);
    }

    /// The mappings.
    #[cfg(feature = "lockstep")]
    pub(crate) fn mapped(&self) -> &Mapped {
        &self.mapped
    }

    /// How many runs are bound.
    pub(crate) fn num_runs(&self) -> usize {
        self.bound.num_runs()
    }

    /// The bindings to be made: the last mapping of an address wins.
    pub(crate) fn changes(&mut self, unbinding: Unbinding) -> Vec<Run> {
        let mut changes = Vec::new();
        let mut changed = joined(std::mem::take(&mut self.changed));
        for pages in changed.drain(..) {
            let now = Vec::from_iter(self.mapped.parts(pages.clone()));
            match unbinding {
                Unbinding::Strict => changes.extend(self.bound.replace(pages, &now)),
                Unbinding::Lazy => {
                    let bind = |run: (Range<u64>, Target)| self.bound.replace(run.0.clone(), &[run]);
                    changes.extend(now.into_iter().flat_map(bind));
                }
            }
        }
        // It keeps its room.
        self.changed = changed;
        changes
    }

    /// The parts of `pages` that are bound to the memory from `page` of `segment` on, and those that are not.
    #[cfg(feature = "lockstep")]
    pub(crate) fn bound(&self, pages: Range<u64>, segment: SegmentId, page: u64) -> Vec<(Range<u64>, bool)> {
        self.mapped.bound(pages, Target { segment, page, aperture: None })
    }

    /// The parts of `pages` that lead to memory, in order, each in one block.
    pub(crate) fn parts(&self, pages: Range<u64>) -> Vec<Run> {
        let mut parts = Vec::new();
        let runs = self.mapped.parts(pages).map(|(pages, target)| Run { pages, target: Some(target) });
        runs.for_each(|run| self.cut(&run, |part| parts.push(part)));
        parts
    }

    /// Forgets the bindings of unmapped addresses to blocks of a segment, except blocks `in_use`. Returns the runs to unbind.
    pub(crate) fn unbind_leftovers(&mut self, segment: SegmentId, in_use: &BTreeSet<u64>) -> Vec<Run> {
        let mut leftovers = Vec::new();
        for (pages, target) in self.bound.runs().filter(|(_, target)| target.segment == segment) {
            self.cut(&Run { pages, target: Some(target) }, |run| {
                let is_used = run.target.is_none_or(|to| in_use.contains(&(to.page / PAGES_PER_BLOCK)));
                leftovers.extend((!is_used).then_some(run));
            });
        }
        leftovers.into_iter().flat_map(|run| self.bound.replace(run.pages, &[])).collect()
    }

    /// The blocks of a segment to which its addresses lead.
    pub(crate) fn blocks_of(&self, segment: SegmentId) -> impl Iterator<Item = u64> {
        let runs = self.mapped.runs().filter(move |(_, target)| target.segment == segment);
        runs.flat_map(|(pages, target)| {
            let last = target.page + (pages.end - pages.start) - 1;
            target.page / PAGES_PER_BLOCK..=last / PAGES_PER_BLOCK
        })
    }

    /// The first pages of the chunks of 16 MiB that `pages` are in and that have no resource yet.
    pub(crate) fn missing_chunks(&self, pages: &Range<u64>) -> Vec<u64> {
        let chunks = pages.start / PAGES_PER_CHUNK..pages.end.div_ceil(PAGES_PER_CHUNK);
        chunks.map(|chunk| chunk * PAGES_PER_CHUNK).filter(|first| !self.chunks.contains_key(first)).collect()
    }

    /// Makes `resource` that of the `pages` pages from `first` on, none of which has one.
    pub(crate) fn insert_chunk(&mut self, first: u64, pages: u64, resource: SparseResource) {
        self.chunks.insert(first, Chunk { pages, resource });
    }

    /// Takes the resource of the chunk that begins with page `first`, and forgets what is mapped there.
    pub(crate) fn take_chunk(&mut self, first: u64) -> Option<SparseResource> {
        let Chunk { pages, resource } = self.chunks.remove(&first)?;
        self.mapped.replace(first..first + pages, &[]);
        self.bound.replace(first..first + pages, &[]);
        Some(resource)
    }

    /// Bytes of addresses that it takes.
    pub(crate) fn address_bytes(&self) -> u64 {
        self.chunks.values().map(|chunk| chunk.pages * PAGE_SIZE).sum()
    }

    /// Gives back the addresses of chunks in which nothing is mapped.
    pub(crate) fn drop_empty_chunks(&mut self) {
        let Self { chunks, mapped, bound, .. } = self;
        chunks.retain(|&first, chunk| {
            let pages = first..first + chunk.pages;
            let is_used = mapped.has_any(pages.clone());
            if !is_used {
                bound.replace(pages, &[]);
            }
            is_used
        });
    }

    /// The chunk that `page` is in: its first page, and what it is.
    fn chunk_of(&self, page: u64) -> Option<(u64, &Chunk)> {
        let (&first, chunk) = self.chunks.range(..=page).next_back()?;
        (page < first + chunk.pages).then_some((first, chunk))
    }

    /// The resource of the chunk that `page` is in, and the page's offset there in bytes.
    pub(crate) fn resource(&self, page: u64) -> Option<(&SparseResource, u64)> {
        let (first, chunk) = self.chunk_of(page)?;
        Some((&chunk.resource, (page - first) * PAGE_SIZE))
    }

    /// The number of pages from `page` on, at most `pages`, that are in one chunk, or in none.
    pub(crate) fn pages_together(&self, page: u64, pages: u64) -> u64 {
        let end = match self.chunk_of(page) {
            Some((first, chunk)) => first + chunk.pages,
            None => self.chunks.range(page..).next().map_or(u64::MAX, |(&first, _)| first),
        };
        pages.min(end - page)
    }

    /// Hands the parts of a run of addresses to `part`, cut at the borders of chunks and of blocks. What is in no chunk is left out: nothing was ever mapped
    /// there, and nothing is to be unbound.
    pub(crate) fn cut(&self, run: &Run, mut part: impl FnMut(Run)) {
        let (mut page, mut target) = (run.pages.start, run.target);
        while page < run.pages.end {
            let in_block = target.map_or(u64::MAX, |there| PAGES_PER_BLOCK - there.page % PAGES_PER_BLOCK);
            let count = self.pages_together(page, (run.pages.end - page).min(in_block));
            if self.chunk_of(page).is_some() {
                part(Run { pages: page..page + count, target });
            }
            target = target.map(|there| there.later(count));
            page += count;
        }
    }

    /// The device's address of `page`; none if nothing was ever mapped near it.
    #[cfg(feature = "lockstep")]
    pub(crate) fn address(&self, page: u64) -> Option<u64> {
        let (resource, offset) = self.resource(page)?;
        Some(resource.address + offset)
    }
}

/// The ranges in order, those that touch as one.
pub(crate) fn joined(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_unstable_by_key(|range| range.start);
    ranges.dedup_by(|next, last| {
        let touch = next.start <= last.end;
        if touch {
            last.end = last.end.max(next.end);
        }
        touch
    });
    ranges
}
