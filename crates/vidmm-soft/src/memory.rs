//! Memory with real content, of which only what is not zero costs anything.

use vidmm::PAGE_SIZE;
use vidmm_runtime::Content;

use crate::digest::{self, PageWords, WORDS_PER_PAGE};

const PAGES_PER_CHUNK: usize = 512;
const CHUNKS_PER_DIRECTORY: usize = 4096;
const PAGES_PER_DIRECTORY: u64 = (PAGES_PER_CHUNK * CHUNKS_PER_DIRECTORY) as u64;

/// A memory of 4 KiB pages, named by their numbers, that reads as zero at first.
///
/// A page whose words are all equal costs 8 bytes, whatever the words are; another costs its 4 KiB. A chunk of 512 pages
/// that was never written costs nothing. So hundreds of GiB fit into a few, as long as their pages are uniform (D13).
///
/// Pages beyond the end are the caller's error: see [`contains`](Self::contains). Every method that takes pages panics for
/// pages far beyond it.
#[derive(Debug)]
pub struct SparseMemory {
    directories: Vec<Option<Box<Directory>>>,
    num_pages: u64,
}

type Directory = [Option<Box<Chunk>>; CHUNKS_PER_DIRECTORY];

/// 512 pages. `words` holds a word for each page; it is the page's content unless `mixed` has the page.
#[derive(Debug)]
struct Chunk {
    words: [u64; PAGES_PER_CHUNK],
    mixed: Option<Box<MixedPages>>,
}

/// The pages of a chunk that are not uniform.
#[derive(Debug)]
struct MixedPages {
    pages: [Option<Box<PageWords>>; PAGES_PER_CHUNK],
    count: usize,
}

/// The content of consecutive pages, taken out of a memory.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PageContents {
    words: Vec<u64>,
    mixed: Vec<(usize, Box<PageWords>)>,
}

impl PageContents {
    /// How many pages it holds.
    pub fn num_pages(&self) -> u64 {
        self.words.len() as u64
    }

    /// Keeps the first `count` pages, if there are more.
    pub fn truncate(&mut self, count: u64) {
        let count = usize::try_from(count).unwrap_or(usize::MAX);
        self.words.truncate(count);
        self.mixed.retain(|&(page, _)| page < count);
    }

    /// Appends `count` pages that read as zero.
    pub fn push_zeros(&mut self, count: u64) {
        self.words.resize(self.words.len() + count as usize, 0);
    }

    /// The digest of page `index`.
    pub fn digest(&self, index: u64) -> u64 {
        match self.mixed_in(index as usize, index as usize + 1) {
            [(_, words)] => digest::words_digest(words),
            _ => digest::uniform_digest(self.words[index as usize]),
        }
    }

    /// Combines every word of page `index` with `key` by exclusive or.
    pub fn xor(&mut self, index: u64, key: u64) {
        let index = index as usize;
        match self.mixed.binary_search_by_key(&index, |(mixed, _)| *mixed) {
            Ok(found) => self.mixed[found].1.iter_mut().for_each(|word| *word ^= key),
            Err(_) => self.words[index] ^= key,
        }
    }

    /// The pages of `range` that are not uniform, in order.
    fn mixed_in(&self, first: usize, end: usize) -> &[(usize, Box<PageWords>)] {
        let position = |page| self.mixed.partition_point(|(index, _)| *index < page);
        if self.mixed.is_empty() { &[] } else { &self.mixed[position(first)..position(end)] }
    }
}

impl Chunk {
    fn empty() -> Box<Self> {
        Box::new(Self { words: [0; PAGES_PER_CHUNK], mixed: None })
    }

    fn mixed_page(&self, slot: usize) -> Option<&PageWords> {
        self.mixed.as_ref().and_then(|mixed| mixed.pages[slot].as_deref())
    }

    fn digest(&self, slot: usize) -> u64 {
        match self.mixed_page(slot) {
            Some(words) => digest::words_digest(words),
            None => digest::uniform_digest(self.words[slot]),
        }
    }

    fn set_uniform(&mut self, slot: usize, word: u64) {
        self.words[slot] = word;
        if self.mixed.is_some() {
            self.drop_mixed(slot);
        }
    }

    fn drop_mixed(&mut self, slot: usize) {
        let Some(mixed) = &mut self.mixed else { return };
        if mixed.pages[slot].take().is_some() {
            mixed.count -= 1;
            if mixed.count == 0 {
                self.mixed = None;
            }
        }
    }

    fn xor(&mut self, slot: usize, key: u64) {
        match self.mixed.as_mut().and_then(|mixed| mixed.pages[slot].as_deref_mut()) {
            Some(words) => words.iter_mut().for_each(|word| *word ^= key),
            None => self.words[slot] ^= key,
        }
    }

    fn words_mut(&mut self, slot: usize) -> &mut PageWords {
        let uniform = self.words[slot];
        let mixed = self
            .mixed
            .get_or_insert_with(|| Box::new(MixedPages { pages: [const { None }; PAGES_PER_CHUNK], count: 0 }));
        let MixedPages { pages, count } = &mut **mixed;
        pages[slot].get_or_insert_with(|| {
            *count += 1;
            Box::new([uniform; WORDS_PER_PAGE])
        })
    }

    fn is_zero(&self) -> bool {
        self.mixed.is_none() && self.words.iter().all(|&word| word == 0)
    }
}

/// Consecutive pages of one chunk.
struct Piece {
    page: u64,
    first_slot: usize,
    count: usize,
}

impl Piece {
    fn slots(&self) -> std::ops::Range<usize> {
        self.first_slot..self.first_slot + self.count
    }
}

/// Cuts a run of pages at the borders of chunks.
fn pieces(first: u64, count: u64) -> impl Iterator<Item = Piece> {
    let (mut page, end) = (first, first + count);
    std::iter::from_fn(move || {
        let first_slot = slot_of(page);
        let count = (end - page).min((PAGES_PER_CHUNK - first_slot) as u64);
        let piece = Piece { page, first_slot, count: count as usize };
        page += count;
        (count > 0).then_some(piece)
    })
}

fn slot_of(page: u64) -> usize {
    (page % PAGES_PER_CHUNK as u64) as usize
}

fn directory_of(page: u64) -> (usize, usize) {
    ((page / PAGES_PER_DIRECTORY) as usize, (page % PAGES_PER_DIRECTORY) as usize / PAGES_PER_CHUNK)
}

impl SparseMemory {
    /// A memory of `bytes` bytes, rounded down to whole pages.
    pub fn new(bytes: u64) -> Self {
        let num_pages = bytes / PAGE_SIZE;
        let directories = num_pages.div_ceil(PAGES_PER_DIRECTORY) as usize;
        Self { directories: std::iter::repeat_with(|| None).take(directories).collect(), num_pages }
    }

    /// Whether `count` pages from `first` on are inside the memory.
    pub fn contains(&self, first: u64, count: u64) -> bool {
        first.checked_add(count).is_some_and(|end| end <= self.num_pages)
    }

    /// Bytes that the content costs now: chunks and the pages in them that are not uniform.
    pub fn resident_bytes(&self) -> u64 {
        let chunks = self.directories.iter().flatten().flat_map(|directory| directory.iter().flatten());
        chunks.map(|chunk| chunk.resident_bytes()).sum()
    }

    /// The 64-bit word at byte `address`, a multiple of 8.
    #[inline]
    pub fn read_word(&self, address: u64) -> u64 {
        let (page, index) = (address / PAGE_SIZE, (address % PAGE_SIZE / 8) as usize);
        let Some(chunk) = self.chunk(page) else { return 0 };
        match chunk.mixed_page(slot_of(page)) {
            Some(words) => words[index],
            None => chunk.words[slot_of(page)],
        }
    }

    /// Writes the 64-bit word at byte `address`, a multiple of 8.
    pub fn write_word(&mut self, address: u64, word: u64) {
        if self.read_word(address) != word {
            self.words_mut(address / PAGE_SIZE)[(address % PAGE_SIZE / 8) as usize] = word;
        }
    }

    /// The words of a page, to be changed. From now on the page costs 4 KiB, until it is overwritten as a whole.
    pub fn words_mut(&mut self, page: u64) -> &mut PageWords {
        self.touch(page).words_mut(slot_of(page))
    }

    /// The digest of a page.
    pub fn page_digest(&self, page: u64) -> u64 {
        self.chunk(page).map_or(0, |chunk| chunk.digest(slot_of(page)))
    }

    /// Hands the digests of `count` pages from `first` on to `sink`, in order.
    pub fn for_each_digest(&self, first: u64, count: u64, mut sink: impl FnMut(u64)) {
        for piece in pieces(first, count) {
            match self.chunk(piece.page) {
                None => (0..piece.count).for_each(|_| sink(0)),
                Some(chunk) if chunk.mixed.is_none() => {
                    chunk.words[piece.slots()].iter().for_each(|&word| sink(digest::uniform_digest(word)));
                }
                Some(chunk) => piece.slots().for_each(|slot| sink(chunk.digest(slot))),
            }
        }
    }

    /// Writes the pages from `first` on, one for each seed, with `content`.
    pub fn write_pages(&mut self, first: u64, count: u64, content: Content, mut seed: impl FnMut(u64) -> u64) {
        for piece in pieces(first, count) {
            let chunk = self.touch(piece.page);
            for (slot, page) in piece.slots().zip(piece.page - first..) {
                match content {
                    Content::Uniform => chunk.set_uniform(slot, seed(page)),
                    Content::Ramp => *chunk.words_mut(slot) = digest::ramp_words(seed(page)),
                }
            }
        }
    }

    /// Fills `count` pages from `first` on with `pattern`, little-endian, repeated (U-12).
    pub fn fill(&mut self, first: u64, count: u64, pattern: u32) {
        if pattern == 0 {
            return self.release(first, count);
        }
        let word = u64::from(pattern) << 32 | u64::from(pattern);
        self.write_pages(first, count, Content::Uniform, |_| word);
    }

    /// Fills all of the memory with a pattern that nobody wrote: its content is lost.
    pub fn spoil(&mut self) {
        self.fill(0, self.num_pages, 0xDEAD_BEEF);
    }

    /// Forgets `count` pages from `first` on: they read as zero again, and cost nothing where whole chunks are zero.
    pub fn release(&mut self, first: u64, count: u64) {
        for piece in pieces(first, count) {
            let Some(holder) = self.chunk_holder(piece.page) else { continue };
            let Some(chunk) = holder else { continue };
            if piece.count < PAGES_PER_CHUNK {
                piece.slots().for_each(|slot| chunk.set_uniform(slot, 0));
            }
            if piece.count == PAGES_PER_CHUNK || chunk.is_zero() {
                *holder = None;
            }
        }
    }

    /// Appends `count` pages from `first` on to `contents`.
    pub fn read_contents(&self, first: u64, count: u64, contents: &mut PageContents) {
        for piece in pieces(first, count) {
            let Some(chunk) = self.chunk(piece.page) else {
                contents.push_zeros(piece.count as u64);
                continue;
            };
            let base = contents.words.len();
            contents.words.extend_from_slice(&chunk.words[piece.slots()]);
            if let Some(mixed) = &chunk.mixed {
                let pages = mixed.pages[piece.slots()].iter().enumerate();
                let pages = pages.filter_map(|(index, page)| Some((base + index, page.clone()?)));
                contents.mixed.extend(pages);
            }
        }
    }

    /// Writes `count` pages from `first` on with the pages of `contents` from `skip` on.
    ///
    /// # Panics
    ///
    /// If `contents` has fewer than `skip + count` pages.
    pub fn write_contents(&mut self, first: u64, count: u64, contents: &PageContents, skip: u64) {
        for piece in pieces(first, count) {
            let from = (skip + (piece.page - first)) as usize;
            let words = &contents.words[from..from + piece.count];
            let mixed = contents.mixed_in(from, from + piece.count);
            if mixed.is_empty() && words.iter().all(|&word| word == 0) {
                self.release(piece.page, piece.count as u64);
                continue;
            }
            let chunk = self.touch(piece.page);
            if chunk.mixed.is_some() {
                piece.slots().for_each(|slot| chunk.drop_mixed(slot));
            }
            chunk.words[piece.slots()].copy_from_slice(words);
            for (index, page) in mixed {
                *chunk.words_mut(piece.first_slot + index - from) = **page;
            }
        }
    }

    /// Combines every word of `count` pages from `first` on with the key of its page, counted from `first`, by exclusive or.
    pub fn xor_pages(&mut self, first: u64, count: u64, key: impl Fn(u64) -> u64) {
        for piece in pieces(first, count) {
            let chunk = self.touch(piece.page);
            for (slot, page) in piece.slots().zip(piece.page - first..) {
                chunk.xor(slot, key(page));
            }
        }
    }

    /// Inverts one bit of a page; `bit` is below 32768.
    pub fn flip_bit(&mut self, page: u64, bit: u32) {
        self.words_mut(page)[(bit / 64) as usize] ^= 1 << (bit % 64);
    }

    #[inline]
    fn chunk(&self, page: u64) -> Option<&Chunk> {
        let (directory, index) = directory_of(page);
        self.directories[directory].as_ref()?[index].as_deref()
    }

    fn chunk_holder(&mut self, page: u64) -> Option<&mut Option<Box<Chunk>>> {
        let (directory, index) = directory_of(page);
        Some(&mut self.directories[directory].as_mut()?[index])
    }

    fn touch(&mut self, page: u64) -> &mut Chunk {
        debug_assert!(self.contains(page, 1));
        let (directory, index) = directory_of(page);
        let directory =
            self.directories[directory].get_or_insert_with(|| Box::new([const { None }; CHUNKS_PER_DIRECTORY]));
        directory[index].get_or_insert_with(Chunk::empty)
    }
}

impl Chunk {
    fn resident_bytes(&self) -> u64 {
        let mixed =
            self.mixed.as_ref().map_or(0, |mixed| size_of::<MixedPages>() + mixed.count * size_of::<PageWords>());
        (size_of::<Chunk>() + mixed) as u64
    }
}
