//! Sparse memory holds what was written, and costs little.

use proptest::prelude::*;
use vidmm_runtime::Content;
use vidmm_soft::{PageContents, SparseMemory, ramp_words, words_digest};

const PAGES: u64 = 1100; // More than two chunks.

/// The same memory, plain.
struct Plain(Vec<u8>);

impl Plain {
    fn page(&mut self, page: u64) -> &mut [u8] {
        &mut self.0[(page * 4096) as usize..][..4096]
    }

    fn write_words(&mut self, page: u64, words: &[u64; 512]) {
        for (bytes, word) in self.page(page).chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }

    fn words(&self, page: u64) -> [u64; 512] {
        let word = |i: usize| u64::from_le_bytes(self.0[page as usize * 4096 + i * 8..][..8].try_into().unwrap());
        std::array::from_fn(word)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Word { address: u64, word: u64 },
    Write { first: u64, count: u64, ramp: bool, seed: u64 },
    Fill { first: u64, count: u64, pattern: u32 },
    Copy { from: u64, to: u64, count: u64 },
    Release { first: u64, count: u64 },
    Flip { page: u64, bit: u32 },
}

fn pages() -> impl Strategy<Value = (u64, u64)> {
    // Mostly few pages, some runs over whole chunks; most of them near each other, so that they meet.
    (prop_oneof![Just(0), Just(500), Just(512), 0..PAGES - 1], prop_oneof![1u64..20, 500u64..600])
        .prop_map(|(first, count)| (first, count.min(PAGES - first)))
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0..PAGES * 512, 0u64..3).prop_map(|(index, word)| Step::Word { address: index * 8, word }),
        (pages(), any::<bool>(), 0u64..4).prop_map(|((first, count), ramp, seed)| Step::Write {
            first,
            count,
            ramp,
            seed
        }),
        (pages(), prop_oneof![Just(0), any::<u32>()]).prop_map(|((first, count), pattern)| Step::Fill {
            first,
            count,
            pattern
        }),
        (pages(), pages()).prop_map(|((from, a), (to, b))| Step::Copy { from, to, count: a.min(b) }),
        pages().prop_map(|(first, count)| Step::Release { first, count }),
        (0..PAGES, 0u32..32768).prop_map(|(page, bit)| Step::Flip { page, bit }),
    ]
}

fn apply(memory: &mut SparseMemory, plain: &mut Plain, step: &Step) {
    match *step {
        Step::Word { address, word } => {
            memory.write_word(address, word);
            plain.0[address as usize..][..8].copy_from_slice(&word.to_le_bytes());
        }
        Step::Write { first, count, ramp, seed } => {
            let content = if ramp { Content::Ramp } else { Content::Uniform };
            memory.write_pages(first, count, content, |page| seed + page);
            for page in 0..count {
                let words = if ramp { ramp_words(seed + page) } else { [seed + page; 512] };
                plain.write_words(first + page, &words);
            }
        }
        Step::Fill { first, count, pattern } => {
            memory.fill(first, count, pattern);
            for bytes in plain.0[first as usize * 4096..][..count as usize * 4096].chunks_exact_mut(4) {
                bytes.copy_from_slice(&pattern.to_le_bytes());
            }
        }
        Step::Copy { from, to, count } => {
            let mut contents = PageContents::default();
            memory.read_contents(from, count, &mut contents);
            // In two parts, as when the destination is in two places.
            memory.write_contents(to, count / 2, &contents, 0);
            memory.write_contents(to + count / 2, count - count / 2, &contents, count / 2);
            plain.0.copy_within(from as usize * 4096..(from + count) as usize * 4096, to as usize * 4096);
        }
        Step::Release { first, count } => {
            memory.release(first, count);
            plain.0[first as usize * 4096..][..count as usize * 4096].fill(0);
        }
        Step::Flip { page, bit } => {
            memory.flip_bit(page, bit);
            plain.page(page)[bit as usize / 8] ^= 1 << (bit % 8);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn equals_a_plain_memory(steps in prop::collection::vec(step(), 1..25)) {
        let (mut memory, mut plain) = (SparseMemory::new(PAGES * 4096), Plain(vec![0; PAGES as usize * 4096]));
        for step in &steps {
            apply(&mut memory, &mut plain, step);
        }
        let mut digests = Vec::new();
        memory.for_each_digest(0, PAGES, |digest| digests.push(digest));
        for page in 0..PAGES {
            let words = plain.words(page);
            prop_assert_eq!(digests[page as usize], words_digest(&words), "page {}", page);
            prop_assert_eq!(memory.page_digest(page), digests[page as usize]);
            for index in [0, 1, 511] {
                prop_assert_eq!(memory.read_word(page * 4096 + index * 8), words[index as usize]);
            }
        }
        memory.release(0, PAGES);
        prop_assert_eq!(memory.resident_bytes(), 0);
    }
}

#[test]
fn a_uniform_page_costs_about_8_bytes() {
    let mut memory = SparseMemory::new(1 << 40);
    let pages = 1 << 18;
    memory.write_pages(1 << 20, pages, Content::Uniform, |page| page | 1 << 40);
    assert!(memory.resident_bytes() <= pages * 9, "{}", memory.resident_bytes());
}

#[test]
fn untouched_memory_costs_nothing_even_when_it_is_read_or_zeroed() {
    let mut memory = SparseMemory::new(1 << 44);
    assert_eq!((memory.read_word(1 << 43), memory.page_digest(7)), (0, 0));
    memory.fill(0, 100_000, 0);
    let mut contents = PageContents::default();
    memory.read_contents(0, 5_000, &mut contents);
    memory.write_contents(1 << 30, 5_000, &contents, 0);
    assert_eq!(memory.resident_bytes(), 0);
}

#[test]
fn a_page_overwritten_with_a_uniform_one_gives_its_4_kib_back() {
    let mut memory = SparseMemory::new(1 << 30);
    memory.write_pages(0, 1, Content::Uniform, |_| 5);
    let uniform = memory.resident_bytes();
    memory.write_pages(0, 1, Content::Ramp, |_| 5);
    assert!(memory.resident_bytes() >= uniform + 4096);
    memory.write_pages(0, 1, Content::Uniform, |_| 6);
    assert_eq!(memory.resident_bytes(), uniform);
}

#[test]
fn contents_go_from_one_memory_to_another() {
    let (mut one, mut two) = (SparseMemory::new(1 << 30), SparseMemory::new(1 << 30));
    one.write_pages(510, 4, Content::Ramp, |page| page);
    one.write_pages(511, 1, Content::Uniform, |_| 9);
    let mut contents = PageContents::default();
    one.read_contents(510, 4, &mut contents);
    two.write_contents(1023, 4, &contents, 0);
    assert_eq!(contents.num_pages(), 4);
    for page in 0..4 {
        assert_eq!(two.page_digest(1023 + page), one.page_digest(510 + page));
    }
}
