//! Predicts the results of kernels: the specification of `vidmm_runtime::kernel`, written a second time.
//!
//! It shares no code with the GPU, the driver or the manager, and keeps no page: the output of a kernel follows from
//! its state, and a page's digest follows from that in a few operations.

use serde::{Deserialize, Serialize};
use vidmm_runtime::Content as KernelContent;

/// Bytes in a page that kernels read and write.
pub(crate) const PAGE_BYTES: u64 = 4096;

/// Words of 64 bits in a page.
const PAGE_WORDS: u64 = 512;

/// The multiplier of the digest.
const DIGEST_MULTIPLIER: u64 = 0xD6E8_FEB8_6659_FD93;

/// The difference of neighbouring words of a page with ramp content.
const RAMP_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// The state for `mix` of a kernel that has read nothing yet: "vidmm".
const STATE_SEED: u64 = 0x76_69_64_6D_6D;

/// The digest of a page whose words are all 1: a uniform page of word `w` has `w` times this.
const DIGEST_OF_ONES: u64 = digest_of_line(1, 0);

/// The digest of a page whose word `i` is `i` ramp steps: the share of ramp content beside a uniform page.
const DIGEST_OF_RAMP: u64 = digest_of_line(0, RAMP_STEP);

/// The fill of the pages that kernels write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// All words of a page are equal, which a model GPU can store in a few bytes. Large runs need it.
    #[default]
    Uniform,
    /// All words of a page differ, so that a page that is shifted or mixed inside is found as well.
    Ramp,
}

impl Content {
    /// The number of the fill in a kernel's command.
    pub(crate) fn of_kernels(self) -> KernelContent {
        match self {
            Self::Uniform => KernelContent::Uniform,
            Self::Ramp => KernelContent::Ramp,
        }
    }

    /// The digest of the page that is filled from `seed`.
    fn digest(self, seed: u64) -> u64 {
        let uniform = seed.wrapping_mul(DIGEST_OF_ONES);
        match self {
            Self::Uniform => uniform,
            Self::Ramp => uniform.wrapping_add(DIGEST_OF_RAMP),
        }
    }
}

/// The digest of all pages that a kernel has read so far.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelState(u64);

impl KernelState {
    /// The state of the kernel of that number before it has read a page.
    pub fn new(kernel: u64) -> Self {
        Self(mix(STATE_SEED, kernel))
    }

    /// Reads a page of that digest.
    pub fn read(&mut self, digest: u64) {
        self.0 = mix(self.0, digest);
    }

    /// The seed of the kernel's output of that number, counted from 0.
    pub fn output(self, number: u64) -> OutputSeed {
        OutputSeed(mix(self.0, number + 1))
    }
}

/// The seed of the pages of one output of a kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutputSeed(u64);

impl OutputSeed {
    /// The digest of a page of the output.
    pub fn digest(self, content: Content, page: u64) -> u64 {
        content.digest(self.of_page(page))
    }

    /// The seed of one page of the output.
    pub fn of_page(self, page: u64) -> u64 {
        mix(self.0, page)
    }
}

/// The specification's `mix`.
const fn mix(a: u64, b: u64) -> u64 {
    let mut x = (a ^ b.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x ^= x >> 29;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^= x >> 32;
    x.wrapping_add(b)
}

/// The digest of the page whose word `i` is `first + i * step`, by Horner's rule.
///
/// The digest is linear in the words, so two such pages are enough for the digest of every page that kernels write.
const fn digest_of_line(first: u64, step: u64) -> u64 {
    let mut digest = 0_u64;
    let mut word = first;
    let mut i = 0;
    while i < PAGE_WORDS {
        digest = digest.wrapping_mul(DIGEST_MULTIPLIER).wrapping_add(word);
        word = word.wrapping_add(step);
        i += 1;
    }
    digest
}

#[cfg(test)]
mod tests {
    use super::{Content, DIGEST_MULTIPLIER, RAMP_STEP, digest_of_line};

    /// The digest as the specification words it: the sum of `w[i] * M^(511 - i)`.
    fn sum_of_powers(words: &[u64]) -> u64 {
        let term = |i: usize| words[i].wrapping_mul(DIGEST_MULTIPLIER.wrapping_pow(511 - i as u32));
        (0..512).map(term).fold(0, u64::wrapping_add)
    }

    #[test]
    fn closed_forms_are_the_sums_of_powers() {
        for seed in [0, 1, 2, u64::MAX, 0x0123_4567_89AB_CDEF, DIGEST_MULTIPLIER] {
            let ramp: Vec<u64> = (0..512).map(|i: u64| seed.wrapping_add(i.wrapping_mul(RAMP_STEP))).collect();
            assert_eq!(Content::Uniform.digest(seed), sum_of_powers(&[seed; 512]));
            assert_eq!(Content::Ramp.digest(seed), sum_of_powers(&ramp));
            assert_eq!(digest_of_line(seed, RAMP_STEP), sum_of_powers(&ramp));
        }
    }

    #[test]
    fn zero_pages_have_digest_zero() {
        assert_eq!(Content::Uniform.digest(0), 0);
        assert_eq!(digest_of_line(0, 0), 0);
    }
}
