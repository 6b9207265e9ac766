//! The digest of a page, and the function that a kernel computes, as `vidmm_runtime` defines them.

use vidmm::PAGE_SIZE;

/// Words of 64 bits in a page.
pub const WORDS_PER_PAGE: usize = (PAGE_SIZE / 8) as usize;

/// The words of one page.
pub type PageWords = [u64; WORDS_PER_PAGE];

const MULTIPLIER: u64 = 0xD6E8_FEB8_6659_FD93;

/// The difference between a word of a ramp page and the word before it.
pub const RAMP_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The weight of each word in the digest: `MULTIPLIER` to the power of `511 - i`.
static WEIGHTS: PageWords = weights();

/// The digest of a page of ones: that of a uniform page is a multiple of it.
const SUM_OF_WEIGHTS: u64 = {
    let (weights, mut sum, mut i) = (weights(), 0u64, 0);
    while i < WORDS_PER_PAGE {
        sum = sum.wrapping_add(weights[i]);
        i += 1;
    }
    sum
};

const fn weights() -> PageWords {
    let mut weights = [1u64; WORDS_PER_PAGE];
    let mut i = WORDS_PER_PAGE - 1;
    while i > 0 {
        weights[i - 1] = weights[i].wrapping_mul(MULTIPLIER);
        i -= 1;
    }
    weights
}

/// The digest of a page whose words all are `word`.
pub const fn uniform_digest(word: u64) -> u64 {
    word.wrapping_mul(SUM_OF_WEIGHTS)
}

/// The digest of a page of `words`.
pub fn words_digest(words: &PageWords) -> u64 {
    // Weighted words add up in any order, and so faster than Horner's rule, in which each step waits for the last.
    words.iter().zip(&WEIGHTS).fold(0, |sum, (word, weight)| sum.wrapping_add(word.wrapping_mul(*weight)))
}

/// The words of the ramp page with `seed`.
pub fn ramp_words(seed: u64) -> PageWords {
    std::array::from_fn(|i| seed.wrapping_add((i as u64).wrapping_mul(RAMP_STEP)))
}

/// The mixing function of kernels.
pub const fn mix(a: u64, b: u64) -> u64 {
    let mut x = (a ^ b.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x ^= x >> 29;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^= x >> 32;
    x.wrapping_add(b)
}

/// The state of a kernel while it reads its inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelState(u64);

impl KernelState {
    /// The state of kernel number `kernel` before its first page.
    pub const fn new(kernel: u64) -> Self {
        Self(mix(0x76_69_64_6D_6D, kernel))
    }

    /// The state as a word.
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Takes in the digest of the next input page.
    pub const fn absorb(&mut self, digest: u64) {
        self.0 = mix(self.0, digest);
    }

    /// The seed of page `page` of output `output`, both counted from 0.
    pub const fn seed(self, output: u64, page: u64) -> u64 {
        mix(mix(self.0, output + 1), page)
    }
}
