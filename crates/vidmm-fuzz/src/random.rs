//! Random numbers that are the same on every machine.

use vidmm_trace::generate::SplitMix64;

/// A generator for the fuzzer's draws.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::new(seed))
    }

    pub fn next(&mut self) -> u64 {
        self.0.draw()
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }

    /// So many random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut bytes: Vec<u8> = (0..len.div_ceil(8)).flat_map(|_| self.next().to_le_bytes()).collect();
        bytes.truncate(len);
        bytes
    }

    /// A range of `len` bytes, which may be empty.
    pub fn range(&mut self, len: usize) -> std::ops::Range<usize> {
        let start = self.below(len + 1);
        let longest = if self.below(2) == 0 { 8 } else { len };
        start..start + self.below((len - start).min(longest) + 1)
    }
}
