//! An aperture: a range of addresses whose pages show pages of system memory.

use vidmm::{PAGE_SIZE, SegmentId};

const PAGES_PER_CHUNK: u64 = 512;

/// The memory behind each page of an aperture segment. A page that nothing was ever shown at cannot be accessed.
#[derive(Debug)]
pub struct Aperture {
    segment: SegmentId,
    num_pages: u64,
    chunks: Vec<Option<Box<Chunk>>>,
}

/// For each of 512 pages, the number of the page of system memory that it shows.
type Chunk = [Option<u64>; PAGES_PER_CHUNK as usize];

impl Aperture {
    /// An aperture of `bytes` bytes, which is `segment`.
    pub fn new(segment: SegmentId, bytes: u64) -> Self {
        let num_pages = bytes / PAGE_SIZE;
        let chunks = std::iter::repeat_with(|| None).take(num_pages.div_ceil(PAGES_PER_CHUNK) as usize).collect();
        Self { segment, num_pages, chunks }
    }

    /// Whether it is this segment.
    pub fn is(&self, segment: SegmentId) -> bool {
        self.segment == segment
    }

    /// Whether `count` pages from `first` on are inside.
    pub fn contains(&self, first: u64, count: u64) -> bool {
        first.checked_add(count).is_some_and(|end| end <= self.num_pages)
    }

    /// Every page shows nothing, as at first.
    pub fn forget(&mut self) {
        self.chunks.fill_with(|| None);
    }

    /// The page of system memory that `page` shows.
    pub fn shown(&self, page: u64) -> Option<u64> {
        let chunk = self.chunks.get((page / PAGES_PER_CHUNK) as usize)?.as_ref()?;
        chunk[(page % PAGES_PER_CHUNK) as usize]
    }

    /// Lets `count` pages from `first` on show what `system_page` says of each, counted from 0.
    ///
    /// # Panics
    ///
    /// If they are not [inside](Self::contains).
    pub fn show(&mut self, first: u64, count: u64, system_page: impl Fn(u64) -> u64) {
        for number in 0..count {
            let page = first + number;
            let chunk = &mut self.chunks[(page / PAGES_PER_CHUNK) as usize];
            let chunk = chunk.get_or_insert_with(|| Box::new([None; PAGES_PER_CHUNK as usize]));
            chunk[(page % PAGES_PER_CHUNK) as usize] = Some(system_page(number));
        }
    }
}
