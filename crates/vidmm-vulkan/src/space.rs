//! The address space of a process: sparse resources, and what they are bound to.
//!
//! The manager may give a process any address of 48 bits, and a device has far fewer for sparse buffers. So only *chunks* (ours) of
//! an address space have a sparse buffer each. In lockstep a chunk is 16 MiB, made when something is first mapped in it. In real
//! time it is what an application has as one buffer or image, and must be there before something is mapped in it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use vidmm::contract::{KmdProcessHandle, RootPageTable};
use vidmm::{PAGE_SIZE, SegmentId};
use vidmm_soft::{PhysicalMemory, Place, Translation};

use crate::mapped::{Mapped, Run, Target};
use crate::report::{Rules, Unbinding};
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
    /// The bindings, where they may be more: under [`Unbinding::Lazy`].
    bound: Mapped,
    /// Pages of address whose entries were written since the last look.
    changed: Vec<Range<u64>>,
    /// Pages whose entries lead to pages of an aperture that show nothing yet.
    unshown: Vec<Range<u64>>,
    root: Option<RootPageTable>,
}

impl Space {
    /// The entries of `pages` were written.
    pub(crate) fn entries_written(&mut self, pages: Range<u64>) {
        self.changed.push(pages);
    }

    /// An engine enters the space, with this root table; `pages` are all that it can address. Another root may lead anywhere, and
    /// one that has grown leads where its entries beyond its end did not.
    pub(crate) fn entered(&mut self, root: RootPageTable, pages: Range<u64>) {
        if self.root != Some(root) {
            self.root = Some(root);
            self.changed.push(pages);
        }
    }

    /// The page tables are lost.
    pub(crate) fn forget_root(&mut self) {
        self.root = None;
    }

    /// `pages` of an aperture show other memory.
    pub(crate) fn aperture_changed(&mut self, segment: SegmentId, pages: &Range<u64>) {
        let through = self.mapped.runs().filter(|(run, target)| {
            let shown = target.aperture.filter(|&(of, _)| of == segment);
            shown.is_some_and(|(_, first)| first < pages.end && pages.start < first + (run.end - run.start))
        });
        let through: Vec<_> = through.map(|(run, _)| run).collect();
        self.changed.extend(through);
        self.changed.append(&mut self.unshown);
    }

    /// How many runs are bound.
    pub(crate) fn num_runs(&self) -> usize {
        self.mapped.num_runs().max(self.bound.num_runs())
    }

    /// Looks at the entries that were written, and returns what is to be bound: the last entry of an address wins, since
    /// the tables hold no other.
    pub(crate) fn changes(
        &mut self,
        process: KmdProcessHandle,
        translation: &Translation,
        memory: &PhysicalMemory<'_>,
        rules: Rules,
    ) -> Vec<Run> {
        let mut changes = Vec::new();
        for pages in joined(std::mem::take(&mut self.changed), rules.granule_pages()) {
            let mut targets = Targets::new(rules);
            translation.for_each_mapped(memory, process, pages.clone(), |page, place, count| {
                targets.add(memory, page, place, count);
            });
            let Targets { found, unshown, .. } = targets;
            self.unshown.extend(unshown);
            let mapped = self.mapped.replace(pages, &found);
            match rules.unbinding {
                Unbinding::Strict => changes.extend(mapped),
                Unbinding::Lazy => {
                    let bind = |run: (Range<u64>, Target)| self.bound.replace(run.0.clone(), &[run]);
                    changes.extend(found.into_iter().flat_map(bind));
                }
            }
        }
        changes
    }

    /// The parts of `pages` that are bound to the memory from `page` of `segment` on, and those that are not.
    pub(crate) fn bound(&self, pages: Range<u64>, segment: SegmentId, page: u64) -> Vec<(Range<u64>, bool)> {
        self.mapped.bound(pages, Target { segment, page, aperture: None })
    }

    /// The parts of `pages` that lead to memory, in order, each in one block.
    pub(crate) fn parts(&self, pages: Range<u64>) -> Vec<Run> {
        let runs = self.mapped.parts(pages).map(|(pages, target)| Run { pages, target: Some(target) });
        runs.flat_map(|run| self.cut(&run)).collect()
    }

    /// Forgets the bindings of unmapped addresses to blocks of a segment, except blocks `in_use`. Returns the runs to unbind.
    pub(crate) fn unbind_leftovers(&mut self, segment: SegmentId, in_use: &BTreeSet<u64>) -> Vec<Run> {
        let runs = self.bound.runs().filter(|(_, target)| target.segment == segment);
        let runs = runs.flat_map(|(pages, target)| self.cut(&Run { pages, target: Some(target) }));
        let is_leftover = |run: &Run| run.target.is_some_and(|to| !in_use.contains(&(to.page / PAGES_PER_BLOCK)));
        let leftovers = Vec::from_iter(runs.filter(is_leftover));
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

    /// A run of addresses, cut at the borders of chunks and of blocks. What is in no chunk is left out: nothing was ever mapped
    /// there, and nothing is to be unbound.
    pub(crate) fn cut(&self, run: &Run) -> Vec<Run> {
        let (mut page, mut target, mut cut) = (run.pages.start, run.target, Vec::new());
        while page < run.pages.end {
            let in_block = target.map_or(u64::MAX, |there| PAGES_PER_BLOCK - there.page % PAGES_PER_BLOCK);
            let count = self.pages_together(page, (run.pages.end - page).min(in_block));
            if self.chunk_of(page).is_some() {
                cut.push(Run { pages: page..page + count, target });
            }
            target = target.map(|there| there.later(count));
            page += count;
        }
        cut
    }

    /// The device's address of `page`; none if nothing was ever mapped near it.
    pub(crate) fn address(&self, page: u64) -> Option<u64> {
        let (resource, offset) = self.resource(page)?;
        Some(resource.address + offset)
    }
}

/// The targets of a range, as they are found.
struct Targets {
    rules: Rules,
    found: Vec<(Range<u64>, Target)>,
    unshown: Vec<Range<u64>>,
}

impl Targets {
    fn new(rules: Rules) -> Self {
        Self { rules, found: Vec::new(), unshown: Vec::new() }
    }

    /// `count` pages from `page` on lead to `place`, which may be in an aperture.
    fn add(&mut self, memory: &PhysicalMemory<'_>, page: u64, place: Place, count: u64) {
        let Place::Segment { segment: named, page: first } = place else { return };
        let mut runs = Vec::new();
        if let Err(shown) = memory.append_runs(place, count, &mut runs) {
            self.unshown.push(page + shown..page + count);
        }
        let mut done = 0;
        for run in runs {
            if let Place::Segment { segment, page: there } = run.place
                && self.rules.binds(segment)
            {
                let aperture = (segment != named).then_some((named, first + done));
                self.push(page + done..page + done + run.pages, Target { segment, page: there, aperture });
            }
            done += run.pages;
        }
    }

    /// Adds a run, widened to whole units of the device. The memory beside it in its first and last unit is never accessed
    /// there: an access is checked against the page tables before. A run that does not lie in the units of its memory, or
    /// whose first unit is another's, is left out as far as that.
    fn push(&mut self, pages: Range<u64>, target: Target) {
        let granule = self.rules.granule_pages();
        let skew = pages.start % granule;
        if target.page < skew || !(target.page - skew).is_multiple_of(granule) {
            return;
        }
        let aperture = target.aperture.map(|(segment, page)| (segment, page.saturating_sub(skew)));
        let first = Target { page: target.page - skew, aperture, ..target };
        let wide = pages.start - skew..pages.end.next_multiple_of(granule);
        let Some((last, led)) = self.found.last_mut() else { return self.found.push((wide, first)) };
        let taken = last.end.saturating_sub(wide.start);
        let continued = led.later(wide.start - last.start);
        if taken > 0 && continued.segment == first.segment && continued.page == first.page {
            last.end = last.end.max(wide.end);
        } else if taken == 0 && last.end == wide.start && continued == first {
            last.end = wide.end;
        } else if last.end < wide.end {
            self.found.push((wide.start + taken..wide.end, first.later(taken)));
        }
    }
}

/// The ranges in order, widened to whole units, those that touch as one.
fn joined(mut ranges: Vec<Range<u64>>, granule: u64) -> Vec<Range<u64>> {
    for range in &mut ranges {
        *range = range.start - range.start % granule..range.end.next_multiple_of(granule);
    }
    ranges.sort_unstable_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::with_capacity(ranges.len());
    for range in ranges {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}
