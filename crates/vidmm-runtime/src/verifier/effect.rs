//! The documented effect of an operation, and whether a GPU shows it.

use std::ops::Range;

use vidmm::contract::{KmdAllocationHandle, KmdProcessHandle};
use vidmm::{GpuVirtualAddress, PageSize, PhysicalAddress, SegmentId};

use super::finding::{Offsets, PageContent, Wrong};
use super::page::{Page, in_pages};
use super::under_way::{Space, UnderWay, Values};
use crate::Gpu;
use crate::probe::{Probe, Sees, TableEntry};

/// The content that a page gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    /// That of another page before the operation; the digest, if it is known.
    Of(Page, Option<u64>),
    /// That of a fill.
    Fill(u64),
}

impl Content {
    fn digest(self) -> Option<u64> {
        match self {
            Content::Of(_, digest) => digest,
            Content::Fill(digest) => Some(digest),
        }
    }
}

/// A page of an allocation that gets content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Moved {
    /// The page of the allocation.
    pub page: u64,
    pub content: Content,
    pub to: Page,
    /// The digest of what is there before; none if it is not known.
    pub before: Option<u64>,
}

impl Moved {
    /// The content that it is to get.
    fn expected(&self) -> PageContent {
        match self.content {
            Content::Of(_, Some(0)) | Content::Fill(0) => PageContent::Zeros,
            Content::Of(source, _) => PageContent::Of(source.address()),
            Content::Fill(_) => PageContent::Pattern,
        }
    }

    /// The name of the content with a digest that is there in place of that. Only zeros have the digest 0.
    fn name(&self, found: u64, pages: &[Moved]) -> PageContent {
        let is_its = |moved: &&Moved| matches!(moved.content, Content::Of(_, digest) if digest == Some(found));
        if found == 0 {
            PageContent::Zeros
        } else if self.before == Some(found) {
            PageContent::AsBefore
        } else {
            pages.iter().find(is_its).map_or(PageContent::Other, |moved| PageContent::OfPage(moved.page))
        }
    }
}

/// Entries of a page table that are written.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Entries {
    pub table: PhysicalAddress,
    pub level: u32,
    pub page_size: PageSize,
    /// The entries of the whole table: what lies behind is another's.
    pub num_entries: u64,
    pub start_index: u32,
    pub entries: Vec<TableEntry>,
    /// The entries beside them that the GPU had before, and their indices.
    pub beside: Vec<(u32, TableEntry)>,
}

/// The effect of an operation.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Effect {
    /// Pages of an allocation get content.
    Moved(KmdAllocationHandle, Vec<Moved>),
    /// Entries are written.
    Entries(Entries),
    /// Cached translations of a process are forgotten; of all its addresses, if the range is from 0 to 0 (U-20).
    Flushed { process: Option<KmdProcessHandle>, addresses: Range<GpuVirtualAddress> },
    /// Pages of an aperture show pages of system memory.
    Aperture { segment: SegmentId, pages: Vec<(u64, u64)> },
    /// Pages of an allocation, by their numbers, are plain. Behind an IOMMU the device sees them in a window of the paging process.
    Plain {
        allocation: KmdAllocationHandle,
        pages: Vec<u64>,
        window: Option<(KmdProcessHandle, Range<GpuVirtualAddress>)>,
    },
    /// The device has forgotten what it had cached of a range that is still mapped. Without a process, of everything (NTF-06).
    Unmapped { process: Option<KmdProcessHandle>, addresses: Range<GpuVirtualAddress> },
}

/// A flush that the GPU has reported.
#[derive(Clone, Debug)]
pub(super) struct Flush {
    pub process: Option<KmdProcessHandle>,
    pub addresses: Range<GpuVirtualAddress>,
}

impl Flush {
    /// Whether all addresses are meant (U-20).
    fn is_of_everything(addresses: &Range<GpuVirtualAddress>) -> bool {
        addresses.start.0 == 0 && addresses.end.0 == 0
    }
}

impl Effect {
    /// Takes down what the operation will find, which is about to begin as number `operation`.
    pub fn prepare(&mut self, operation: u64, gpu: &dyn Gpu, under_way: &mut UnderWay) {
        match self {
            Effect::Moved(allocation, pages) => {
                // It reads everything before it writes.
                for moved in pages.iter_mut() {
                    let now = |place| digest_when_begun(under_way, gpu, *allocation, moved.page, place);
                    moved.before = now(moved.to);
                    if let Content::Of(source, _) = moved.content {
                        moved.content = Content::Of(source, now(source));
                    }
                }
                for run in pages.chunk_by(|one, next| one.to.is_before(next.to)) {
                    let digests = run.iter().map(|moved| moved.content.digest()).collect();
                    under_way.add(
                        operation,
                        Space::Pages(run[0].to.segment),
                        run[0].to.number,
                        Values::Digests(digests),
                    );
                }
            }
            Effect::Entries(entries) => entries.prepare(operation, gpu.probe(), under_way),
            Effect::Aperture { segment, pages } => {
                if let Some(&(first, _)) = pages.first() {
                    under_way.add(operation, Space::Aperture(*segment), first, Values::Other(pages.len() as u64));
                }
            }
            Effect::Plain { .. } | Effect::Flushed { .. } | Effect::Unmapped { .. } => {}
        }
    }

    /// The CPU or a kernel has written so many pages from `first` on, which the operation may have read or written before or after
    /// that.
    pub fn written(&mut self, first: Page, num_pages: u64) {
        let Effect::Moved(_, pages) = self else { return };
        for moved in pages {
            if let Content::Of(source, digest) = &mut moved.content
                && source.is_in_run(first, num_pages)
            {
                *digest = None;
            }
        }
    }

    /// A kernel has written pages of an allocation, which are compressed now: the GPU keeps one mark for a page, wherever it lies.
    pub fn compressed(&mut self, of: KmdAllocationHandle, written: &Range<u64>) {
        match self {
            Effect::Plain { allocation, pages, .. } if *allocation == of => {
                pages.retain(|page| !written.contains(page));
            }
            Effect::Moved(allocation, pages) if *allocation == of => {
                pages.retain(|moved| !written.contains(&moved.page));
            }
            _ => {}
        }
    }

    /// The offsets that the driver has added to the addresses of a later part with wrong pages; none if these offsets do not explain the
    /// content of all pages, or explain zeros alone. `from_start` says where a page lies from which one counts and to which, without any
    /// offset.
    pub fn offsets(&self, from_start: impl Fn(u64) -> [Option<Page>; 2], gpu: &dyn Gpu) -> Option<Offsets> {
        let Effect::Moved(allocation, pages) = self else { return None };
        // Pages with equal content leave a choice; the commonest reading comes first.
        let readings = [Offsets::None, Offsets::OfDestination, Offsets::OfSource];
        let explained_by = |(at, moved): (u64, &Moved)| {
            let digest = |place| plain_digest(gpu, *allocation, moved.page, place);
            let [source, destination] = from_start(at);
            let (start_of_source, start_of_destination) = (digest(source?)?, digest(destination?)?);
            let (expected, found) = (moved.content.digest()?, digest(moved.to)?);
            // Without its offset a long part is written over its own pages, too.
            let over = pages.get(moved.page as usize);
            let is_left = |over_it| Some(found) == if over.is_some() { over_it } else { moved.before };
            // Zeros are everywhere, and have no source. Only zeros have the digest 0.
            let tells = readings.map(|adds| {
                let moved = if adds == Offsets::OfDestination { found } else { start_of_destination };
                found != expected && moved != 0
            });
            let explains = readings.map(|adds| match adds {
                Offsets::None => is_left(Some(expected)) && start_of_destination == start_of_source,
                Offsets::OfDestination => found == start_of_source,
                Offsets::OfSource => {
                    is_left(over.and_then(|over| over.content.digest())) && start_of_destination == expected
                }
            });
            Some((explains, tells))
        };
        // A page that nobody can read says nothing, and there must be one that does.
        let (explained, told): (Vec<_>, Vec<_>) = (0..).zip(pages).filter_map(explained_by).unzip();
        let is_it = |at: &usize| explained.iter().all(|page| page[*at]) && told.iter().any(|page| page[*at]);
        (0..readings.len()).find(is_it).map(|at| readings[at])
    }

    /// The first thing that is wrong, now that operation number `operation` has ended. All flushes since its packet began are
    /// `flushes`.
    pub fn check(&self, operation: u64, gpu: &dyn Gpu, flushes: &[Flush], under_way: &UnderWay) -> Option<Wrong> {
        let seen = |what| gpu.probe().filter(|probe| probe.sees().contains(what));
        match self {
            Effect::Moved(allocation, pages) => {
                let later = under_way.later(operation);
                let compressed = seen(Sees::COMPRESSION);
                pages.iter().find_map(|moved| {
                    let &Moved { page, content, to, .. } = moved;
                    let expected = content.digest().filter(|_| !later.writes(Space::Pages(to.segment), to.number))?;
                    let now = |place| plain_digest(gpu, *allocation, page, place);
                    let found = now(to);
                    if found != Some(expected) {
                        let found = found.map(|found| moved.name(found, pages));
                        return Some(Wrong::Page { page, address: to.address(), expected: moved.expected(), found });
                    }
                    // The CPU reads it there.
                    let probe = compressed.filter(|_| to.segment.is_system())?;
                    let page = probe.first_compressed(*allocation, page..page + 1)?;
                    Some(Wrong::Compressed { page })
                })
            }
            Effect::Entries(entries) => entries.check(operation, seen(Sees::ENTRIES)?, under_way),
            Effect::Flushed { process, addresses } => {
                seen(Sees::FLUSHES)?;
                let virtual_address = first_kept(*process, addresses, flushes)?;
                Some(Wrong::NotFlushed { process: *process, virtual_address })
            }
            &Effect::Aperture { segment, ref pages } => {
                let (probe, later) = (seen(Sees::APERTURES)?, under_way.later(operation));
                let last = pages.iter().filter(|&&(page, _)| !later.writes(Space::Aperture(segment), page));
                last.map(|&(page, expected)| (page, expected, probe.aperture_page(segment, page)))
                    .find(|&(_, expected, found)| found != Some(expected))
                    .map(|(page, expected, found)| Wrong::AperturePage { segment, page, expected, found })
            }
            Effect::Plain { allocation, pages, window } => {
                let stale = window
                    .as_ref()
                    .and_then(|(process, addresses)| seen(Sees::IO_MMU)?.first_stale(*process, in_pages(addresses)));
                let stale = stale.map(|virtual_address| Wrong::Stale { virtual_address });
                stale.or_else(|| {
                    let probe = seen(Sees::COMPRESSION)?;
                    // Nearly always none is, and one look tells it.
                    let (first, last) = (*pages.first()?, *pages.last()?);
                    probe.first_compressed(*allocation, first..last + 1)?;
                    let is_compressed = |&&page: &&u64| probe.first_compressed(*allocation, page..page + 1).is_some();
                    pages.iter().find(is_compressed).map(|&page| Wrong::Compressed { page })
                })
            }
            Effect::Unmapped { process, addresses } => {
                if let Some(process) = *process
                    && let Some(probe) = seen(Sees::IO_MMU)
                    && let Some(virtual_address) = probe.first_stale(process, in_pages(addresses))
                {
                    return Some(Wrong::Stale { virtual_address });
                }
                seen(Sees::FLUSHES)?;
                let everything = GpuVirtualAddress(0)..GpuVirtualAddress(0);
                let addresses = process.map_or(&everything, |_| addresses);
                let virtual_address = first_kept(*process, addresses, flushes)?;
                Some(Wrong::NotFlushed { process: *process, virtual_address })
            }
        }
    }
}

/// The digest that a page of an allocation has at `place` when all that has begun has ended; none if it is not known.
fn digest_when_begun(
    under_way: &UnderWay,
    gpu: &dyn Gpu,
    allocation: KmdAllocationHandle,
    page: u64,
    place: Page,
) -> Option<u64> {
    under_way.digest(place).unwrap_or_else(|| plain_digest(gpu, allocation, page, place))
}

/// The digest of a page of an allocation that is at `place`, decompressed; none if no memory is there.
fn plain_digest(gpu: &dyn Gpu, allocation: KmdAllocationHandle, page: u64, place: Page) -> Option<u64> {
    match gpu.probe().filter(|probe| probe.sees().contains(Sees::COMPRESSION)) {
        Some(probe) => probe.plain_digest(allocation, page, place.address()),
        None => gpu.page_digest(place.address()),
    }
}

/// The first of `addresses` of a process that no flush was about.
fn first_kept(
    process: Option<KmdProcessHandle>,
    addresses: &Range<GpuVirtualAddress>,
    flushes: &[Flush],
) -> Option<GpuVirtualAddress> {
    let of_process = |flush: &&Flush| flush.process.is_none() || flush.process == process;
    let mut flushed: Vec<_> = flushes.iter().filter(of_process).map(|flush| flush.addresses.clone()).collect();
    if flushed.iter().any(Flush::is_of_everything) {
        return None;
    }
    flushed.sort_by_key(|range| range.start);
    let reached = flushed.iter().fold(addresses.start, |reached, range| match range.start <= reached {
        true => reached.max(range.end),
        false => reached,
    });
    (Flush::is_of_everything(addresses) || reached < addresses.end).then_some(reached)
}

impl Entries {
    fn prepare(&mut self, operation: u64, probe: Option<&dyn Probe>, under_way: &mut UnderWay) {
        let end = self.start_index + self.entries.len() as u32;
        if let Some(probe) = probe.filter(|probe| probe.sees().contains(Sees::ENTRIES)) {
            let before = |index| under_way.entry(self.table, index).or_else(|| self.found(probe, index));
            let after = Some(end).filter(|&end| u64::from(end) < self.num_entries);
            let beside = self.start_index.checked_sub(1).into_iter().chain(after);
            self.beside = beside.filter_map(|index| Some((index, before(index)?))).collect();
        }
        let entries = Values::Entries(self.entries.clone());
        under_way.add(operation, Space::Table(self.table), self.start_index.into(), entries);
    }

    fn found(&self, probe: &dyn Probe, index: u32) -> Option<TableEntry> {
        probe.page_table_entry(self.table, self.level, self.page_size, index)
    }

    fn check(&self, operation: u64, probe: &dyn Probe, under_way: &UnderWay) -> Option<Wrong> {
        let later = under_way.later(operation);
        let is_other = |index: u32, expected: &TableEntry| {
            !later.writes(Space::Table(self.table), index.into())
                && !self.found(probe, index).is_some_and(|found| found.is_same_as(expected))
        };
        let mut written = (self.start_index..).zip(&self.entries);
        if let Some((index, &expected)) = written.find(|&(index, expected)| is_other(index, expected)) {
            return Some(Wrong::Entry { index, expected, found: self.found(probe, index) });
        }
        let beside = self.beside.iter().find(|&&(index, ref before)| is_other(index, before));
        beside.map(|&(index, _)| Wrong::EntryBeside { index })
    }
}
