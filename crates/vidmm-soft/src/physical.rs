//! The memories that the GPU reaches: local and system, and system memory through the aperture.

use std::sync::MutexGuard;

use vidmm::{PAGE_SIZE, PhysicalAddress, SegmentId};

use crate::aperture::Aperture;
use crate::config::SoftAdapterConfig;
use crate::memory::SparseMemory;
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

    pub(crate) fn append(runs: &mut Vec<PhysicalRun>, place: Place, pages: u64) {
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

    /// The page of system memory that a page of an aperture shows.
    pub fn aperture_page(&self, segment: SegmentId, page: u64) -> Option<u64> {
        self.apertures.iter().find(|aperture| aperture.is(segment))?.shown(page)
    }

    /// The word at `address`, which is in no aperture; `None` outside of all memory.
    pub fn read_word(&self, address: PhysicalAddress) -> Option<u64> {
        let is_inside = |memory: &SparseMemory| memory.contains(address.offset / PAGE_SIZE, 1);
        self.look(address.segment, |memory| is_inside(memory).then(|| memory.read_word(address.offset)))?
    }

    /// Bytes that the content of memory segments costs.
    pub fn local_resident_bytes(&self) -> u64 {
        self.local.iter().map(|(_, memory)| memory.resident_bytes()).sum()
    }

    /// Where the bytes of the page at `address` are, through the aperture if it is there; `None` if there is no such page.
    pub fn page_of(&self, address: PhysicalAddress) -> Option<PhysicalAddress> {
        let page = address.offset / PAGE_SIZE;
        let aperture = self.apertures.iter().find(|aperture| aperture.is(address.segment));
        let (segment, page) = match aperture {
            Some(aperture) => (SegmentId::SYSTEM, aperture.shown(page)?),
            None => (address.segment, page),
        };
        let is_inside = self.look(segment, |memory| memory.contains(page, 1))?;
        is_inside.then_some(PhysicalAddress { segment, offset: page * PAGE_SIZE })
    }

    /// Every page of an aperture shows nothing.
    pub fn forget_apertures(&mut self) {
        self.apertures.iter_mut().for_each(Aperture::forget);
    }

    /// The memory segments, and the content of each.
    pub(crate) fn local_mut(&mut self) -> impl Iterator<Item = &mut SparseMemory> {
        self.local.iter_mut().map(|(_, memory)| memory)
    }

    /// Lets `look` look at the memory of `segment`, which is no aperture.
    pub(crate) fn look<T>(&self, segment: SegmentId, look: impl FnOnce(&SparseMemory) -> T) -> Option<T> {
        match segment {
            SegmentId::SYSTEM => Some(look(&self.system.lock())),
            _ => self.local.iter().find(|&&(of, _)| of == segment).map(|(_, memory)| look(memory)),
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
