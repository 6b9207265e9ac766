//! The oracle: what each kernel must read, worked out from the workload alone.
//!
//! It shares no code with the GPU, the driver or the manager: `mix` and the digest are written here a second time, from
//! the words of the kernel's specification (`vidmm_runtime::kernel`). It keeps no page. A buffer's content follows from
//! the state of the kernel that wrote it last, and a page's digest follows from that in a few operations.

use serde::Deserialize;
use vidmm_trace::Workload;

/// Bytes in a page that kernels read and write.
const PAGE_BYTES: u64 = 4096;

/// Words of 64 bits in a page.
const PAGE_WORDS: u64 = 512;

/// The multiplier of the digest.
const DIGEST_MULTIPLIER: u64 = 0xD6E8_FEB8_6659_FD93;

/// By how much the words of a page with ramp content rise.
const RAMP_STEP: u64 = 0x9E37_79B9_7F4A_7C15;

/// What `mix` takes for the state of a kernel that has read nothing yet: "vidmm".
const STATE_SEED: u64 = 0x76_69_64_6D_6D;

/// The digest of a page whose words are all 1: a uniform page of word `w` has `w` times this.
const DIGEST_OF_ONES: u64 = digest_of_line(1, 0);

/// The digest of a page whose word `i` is `i` ramp steps: what ramp content adds to a uniform page.
const DIGEST_OF_RAMP: u64 = digest_of_line(0, RAMP_STEP);

/// What fills the pages that kernels write.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// All words of a page are equal, which a model GPU can store in a few bytes. Large runs need it.
    #[default]
    Uniform,
    /// All words of a page differ, so that a page that is shifted or mixed inside is found as well.
    Ramp,
}

impl Content {
    /// The digest of the page that is filled from `seed`.
    fn digest(self, seed: u64) -> u64 {
        let uniform = seed.wrapping_mul(DIGEST_OF_ONES);
        match self {
            Self::Uniform => uniform,
            Self::Ramp => uniform.wrapping_add(DIGEST_OF_RAMP),
        }
    }
}

/// Judges what kernels read against what they must read.
///
/// Kernels that use one buffer must be judged in the order of the workload, each once: a kernel's inputs are what the
/// kernels before it must have written. A buffer belongs to one process, so it is enough that the kernels of each
/// process are judged in order; processes may interleave in any way. The runner guarantees that, because the kernels of
/// a process complete in the workload's order. Where it breaks its word, right pages are reported as wrong.
#[derive(Clone, Debug)]
pub struct Oracle {
    content: Content,
    buffers: Vec<BufferState>,
    kernels: Vec<KernelUses>,
}

/// What a buffer must hold.
#[derive(Clone, Copy, Debug)]
struct BufferState {
    /// How many pages kernels touch: all that its bytes reach into.
    pages: u64,
    /// From what the seeds of its pages follow; none while no kernel has written it, when every page is zero.
    written: Option<OutputSeed>,
}

/// The buffers that a kernel uses, in the workload's order.
#[derive(Clone, Debug)]
struct KernelUses {
    reads: Vec<u32>,
    writes: Vec<u32>,
}

/// The state of a kernel mixed with the number of one of its outputs.
#[derive(Clone, Copy, Debug)]
struct OutputSeed(u64);

/// What the oracle says of one kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Verdict {
    /// The pages that the kernel had to read.
    pub pages: u64,
    /// The pages that are wrong: those with another digest than they must have, and the `miscounted`.
    pub wrong: u64,
    /// The pages that the kernel had to read and did not, or read and should not have. Each input too many counts as
    /// one page at least. They mean a mistake in the runner or in a command, rather than in memory.
    pub miscounted: u64,
    /// The first page with a wrong digest, in the order of reading; none if all wrong pages are miscounted.
    pub first: Option<WrongPage>,
}

/// A page that had another digest than it must have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WrongPage {
    /// The buffer, by its index in the workload.
    pub buffer: u32,
    /// The page in the buffer, counted from 0.
    pub page: u64,
    /// The digest that it must have.
    pub expected: u64,
    /// The digest that the kernel found.
    pub found: u64,
}

impl Oracle {
    /// Starts with buffers that nothing has written, for a run that fills pages with `content`.
    pub fn new(workload: &Workload, content: Content) -> Self {
        let pages = workload.buffers.iter().map(|buffer| buffer.bytes.div_ceil(PAGE_BYTES));
        let kernels = workload.kernels.iter();
        Self {
            content,
            buffers: pages.map(|pages| BufferState { pages, written: None }).collect(),
            kernels: kernels.map(|k| KernelUses { reads: k.reads.clone(), writes: k.writes.clone() }).collect(),
        }
    }

    /// How many pages of `buffer` kernels touch; 0 for a buffer that the workload does not have.
    pub fn pages(&self, buffer: u32) -> u64 {
        self.buffers.get(buffer as usize).map_or(0, |state| state.pages)
    }

    /// Judges what kernel number `kernel` of the workload read, and goes on to what it must have written.
    ///
    /// `inputs` has the digest of each page of each input, inputs in the order of the kernel's `reads`. What the kernel
    /// must have written follows from what it must have read, not from `inputs`. So each verdict stands for itself: one
    /// wrong page is reported by every kernel that reads it or what a GPU computed from it. For a kernel that the
    /// workload does not have, all inputs are too many.
    pub fn judge(&mut self, kernel: usize, inputs: &[Vec<u64>]) -> Verdict {
        let Some(uses) = self.kernels.get(kernel) else {
            return Verdict::of_miscounted(surplus(inputs).max(1));
        };
        let mut state = mix(STATE_SEED, kernel as u64);
        let mut verdict = Verdict::default();
        for (at, &buffer) in uses.reads.iter().enumerate() {
            let found = inputs.get(at).map_or(&[][..], Vec::as_slice);
            let Some(&expected) = self.buffers.get(buffer as usize) else { continue };
            verdict.add(&expected.judge(self.content, buffer, found, &mut state));
        }
        let unexpected = inputs.get(uses.reads.len()..).unwrap_or_default();
        verdict.add(&Verdict::of_miscounted(surplus(unexpected)));
        for (output, &buffer) in (1..).zip(&uses.writes) {
            if let Some(buffer) = self.buffers.get_mut(buffer as usize) {
                buffer.written = Some(OutputSeed(mix(state, output)));
            }
        }
        verdict
    }
}

impl BufferState {
    /// Judges one input, and mixes the digests that its pages must have into the kernel's state.
    fn judge(&self, content: Content, buffer: u32, found: &[u64], state: &mut u64) -> Verdict {
        let mut verdict = Verdict { pages: self.pages, ..Verdict::default() };
        let compared = self.pages.min(found.len() as u64);
        for (page, &found) in (0..compared).zip(found) {
            let expected = self.digest(content, page);
            *state = mix(*state, expected);
            if expected != found {
                verdict.wrong += 1;
                verdict.first.get_or_insert(WrongPage { buffer, page, expected, found });
            }
        }
        for page in compared..self.pages {
            *state = mix(*state, self.digest(content, page));
        }
        verdict.miscounted = self.pages.abs_diff(found.len() as u64);
        verdict.wrong += verdict.miscounted;
        verdict
    }

    /// The digest that a page must have. A page that nothing wrote is zero, and so is its digest.
    fn digest(&self, content: Content, page: u64) -> u64 {
        self.written.map_or(0, |seed| content.digest(mix(seed.0, page)))
    }
}

impl Verdict {
    /// The verdict on that many pages too many or too few.
    fn of_miscounted(pages: u64) -> Self {
        Self { wrong: pages, miscounted: pages, ..Self::default() }
    }

    /// Says whether every page was what it must be.
    pub fn is_right(&self) -> bool {
        self.wrong == 0
    }

    /// Adds a later verdict to this one. The first wrong page is that of the earlier verdict, if it has one.
    pub fn add(&mut self, later: &Verdict) {
        self.pages = self.pages.saturating_add(later.pages);
        self.wrong = self.wrong.saturating_add(later.wrong);
        self.miscounted = self.miscounted.saturating_add(later.miscounted);
        self.first = self.first.or(later.first);
    }
}

/// How many pages inputs count as that the kernel does not have.
fn surplus(inputs: &[Vec<u64>]) -> u64 {
    inputs.iter().map(|input| input.len().max(1) as u64).sum()
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
