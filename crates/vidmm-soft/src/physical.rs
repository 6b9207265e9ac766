//! The memories that the GPU reaches: local and system, and system memory through the aperture.

use std::sync::MutexGuard;

use vidmm::{PAGE_SIZE, PhysicalAddress, SegmentId};
use vidmm_runtime::Content;

use crate::aperture::Aperture;
use crate::config::SoftAdapterConfig;
use crate::memory::{PageContents, SparseMemory};
use crate::system::SystemMemory;

/// Consecutive pages of one memory, or nothing at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PhysicalRun {
    /// Where the first page is.
    pub place: Place,
    /// How many pages of 4 KiB.
    pub pages: u64,
}

/// Where a page is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// Nowhere: reads give 0, writes are dropped (GVA-20).
    Zero,
    /// In a segment.
    Segment {
        /// The segment.
        segment: SegmentId,
        /// The number of the page in the segment.
        page: u64,
    },
}

impl PhysicalRun {
    /// Whether `next` continues this run.
    fn is_continued_by(&self, next: Place) -> bool {
        match (self.place, next) {
            (Place::Zero, Place::Zero) => true,
            (Place::Segment { segment, page }, Place::Segment { segment: next_segment, page: next_page }) => {
                segment == next_segment && page + self.pages == next_page
            }
            _ => false,
        }
    }

    fn append(runs: &mut Vec<PhysicalRun>, place: Place, pages: u64) {
        match runs.last_mut() {
            Some(last) if last.is_continued_by(place) => last.pages += pages,
            _ => runs.push(PhysicalRun { place, pages }),
        }
    }
}

/// The memories of a GPU.
#[derive(Debug)]
pub struct Memories {
    /// Those of the memory segments, and which each is.
    local: Vec<(SegmentId, SparseMemory)>,
    apertures: Vec<Aperture>,
    system: SystemMemory,
}

impl Memories {
    /// The memories of the adapter that `config` describes.
    pub fn new(config: &SoftAdapterConfig, system: SystemMemory) -> Self {
        Self {
            local: config
                .memory_segments()
                .map(|(segment, _, memory)| (segment, SparseMemory::new(memory.bytes)))
                .collect(),
            apertures: config
                .aperture_segments()
                .map(|(segment, _, aperture)| Aperture::new(segment, aperture.bytes))
                .collect(),
            system,
        }
    }

    /// The memories to work with, system memory locked.
    pub fn lock(&mut self) -> PhysicalMemory<'_> {
        PhysicalMemory { local: &mut self.local, apertures: &mut self.apertures, system: self.system.lock() }
    }

    /// Memory segments and apertures lose what they hold; system memory keeps it.
    pub fn lose_power(&mut self) {
        self.local.iter_mut().for_each(|(_, memory)| memory.spoil());
        self.apertures.iter_mut().for_each(Aperture::forget);
    }

    /// Writes the page at `address` with `content`; `false` if the CPU reaches no page there.
    pub fn write_page(&mut self, address: PhysicalAddress, content: Content, seed: u64) -> bool {
        let page = address.offset / PAGE_SIZE;
        let mut memory = self.lock();
        let there = memory.contains(address.segment, page, 1);
        if let Some(memory) = memory.segment_mut(address.segment).filter(|_| there) {
            memory.write_pages(page, 1, content, |_| seed);
        }
        there
    }

    /// The page of system memory that a page of an aperture shows.
    pub fn aperture_page(&self, segment: SegmentId, page: u64) -> Option<u64> {
        self.apertures.iter().find(|aperture| aperture.is(segment))?.shown(page)
    }

    /// The word at `address`, which is in no aperture; `None` outside of all memory.
    pub fn read_word(&self, address: PhysicalAddress) -> Option<u64> {
        let word = |memory: &SparseMemory| {
            memory.contains(address.offset / PAGE_SIZE, 1).then(|| memory.read_word(address.offset))
        };
        match address.segment {
            SegmentId::SYSTEM => word(&self.system.lock()),
            segment => self.local.iter().find(|&&(of, _)| of == segment).and_then(|(_, memory)| word(memory)),
        }
    }

    /// The content of the page at `address`; `None` if no memory is there.
    pub fn page_contents(&self, address: PhysicalAddress) -> Option<PageContents> {
        let page = address.offset / PAGE_SIZE;
        let read = |memory: &SparseMemory| {
            let mut contents = PageContents::default();
            memory.contains(page, 1).then(|| memory.read_contents(page, 1, &mut contents))?;
            Some(contents)
        };
        match address.segment {
            SegmentId::SYSTEM => read(&self.system.lock()),
            segment => self.local.iter().find(|&&(of, _)| of == segment).and_then(|(_, memory)| read(memory)),
        }
    }

    /// Bytes that the content of memory segments costs.
    pub fn local_resident_bytes(&self) -> u64 {
        self.local.iter().map(|(_, memory)| memory.resident_bytes()).sum()
    }

    /// The digest of the page at `address`, through the aperture if it is there; `None` if there is no such page.
    pub fn page_digest(&self, address: PhysicalAddress) -> Option<u64> {
        let page = address.offset / PAGE_SIZE;
        let digest = |memory: &SparseMemory, page| memory.contains(page, 1).then(|| memory.page_digest(page));
        if let Some(aperture) = self.apertures.iter().find(|aperture| aperture.is(address.segment)) {
            return digest(&self.system.lock(), aperture.shown(page)?);
        }
        match address.segment {
            SegmentId::SYSTEM => digest(&self.system.lock(), page),
            segment => self.local.iter().find(|&&(of, _)| of == segment).and_then(|(_, memory)| digest(memory, page)),
        }
    }
}

/// The memories, system memory locked.
pub struct PhysicalMemory<'a> {
    local: &'a mut [(SegmentId, SparseMemory)],
    apertures: &'a mut [Aperture],
    system: MutexGuard<'a, SparseMemory>,
}

impl PhysicalMemory<'_> {
    /// The memory of `segment`; an aperture has none.
    #[inline]
    pub fn segment(&self, segment: SegmentId) -> Option<&SparseMemory> {
        match segment {
            SegmentId::SYSTEM => Some(&self.system),
            _ => self.local.iter().find(|&&(of, _)| of == segment).map(|(_, memory)| memory),
        }
    }

    /// The memory of `segment`, to be written.
    pub fn segment_mut(&mut self, segment: SegmentId) -> Option<&mut SparseMemory> {
        match segment {
            SegmentId::SYSTEM => Some(&mut self.system),
            _ => self.local.iter_mut().find(|&&mut (of, _)| of == segment).map(|(_, memory)| memory),
        }
    }

    /// The aperture that is `segment`.
    fn aperture(&self, segment: SegmentId) -> Option<&Aperture> {
        self.apertures.iter().find(|aperture| aperture.is(segment))
    }

    /// The aperture that is `segment`, to be written.
    pub fn aperture_mut(&mut self, segment: SegmentId) -> Option<&mut Aperture> {
        self.apertures.iter_mut().find(|aperture| aperture.is(segment))
    }

    /// Whether `pages` pages from `page` on are inside the memory of `segment`.
    pub fn contains(&self, segment: SegmentId, page: u64, pages: u64) -> bool {
        self.segment(segment).is_some_and(|memory| memory.contains(page, pages))
    }

    /// The word at `address`; `None` outside of all memory.
    #[inline]
    pub fn read_word(&self, address: PhysicalAddress) -> Option<u64> {
        let memory = self.segment(address.segment)?;
        memory.contains(address.offset / PAGE_SIZE, 1).then(|| memory.read_word(address.offset))
    }

    /// Appends to `runs` where the bytes of `pages` pages from `place` on are: those of an aperture in the system memory that
    /// it shows.
    ///
    /// # Errors
    ///
    /// How many pages were appended before one that is nowhere.
    #[inline]
    pub fn append_runs(&self, place: Place, pages: u64, runs: &mut Vec<PhysicalRun>) -> Result<(), u64> {
        if let Place::Segment { segment, page } = place
            && let Some(aperture) = self.aperture(segment)
        {
            for number in 0..pages {
                let shown = aperture.shown(page + number).filter(|&shown| self.system.contains(shown, 1));
                let shown = shown.ok_or(number)?;
                PhysicalRun::append(runs, Place::Segment { segment: SegmentId::SYSTEM, page: shown }, 1);
            }
            return Ok(());
        }
        match place {
            Place::Segment { segment, page } if !self.contains(segment, page, pages) => return Err(0),
            Place::Zero | Place::Segment { .. } => PhysicalRun::append(runs, place, pages),
        }
        Ok(())
    }
}
