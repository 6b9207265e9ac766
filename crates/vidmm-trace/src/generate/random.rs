//! A small seeded random generator.

/// SplitMix64: fast, tiny, and the same on every machine.
#[derive(Clone, Debug)]
pub struct SplitMix64 {
    state: u64,
}

impl SplitMix64 {
    /// Starts the sequence of a seed.
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Starts one of many independent sequences of a seed.
    pub fn stream(seed: u64, stream: u32) -> Self {
        let mut root = Self::new(seed);
        let base = root.draw();
        Self::new(base ^ Self::new(u64::from(stream)).draw())
    }

    /// Draws 64 bits.
    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Draws a number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        let product = u128::from(self.draw()) * u128::from(bound);
        (product >> 64) as u64
    }

    /// Draws a number from `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        let width = high.saturating_sub(low).saturating_add(1);
        low.saturating_add(self.below(width))
    }
}

#[cfg(test)]
mod tests {
    use super::SplitMix64;

    #[test]
    fn matches_the_published_sequence() {
        let mut random = SplitMix64::new(1_234_567);
        assert_eq!(random.draw(), 6_457_827_717_110_365_317);
        assert_eq!(random.draw(), 3_203_168_211_198_807_973);
    }

    #[test]
    fn draws_stay_in_range() {
        let mut random = SplitMix64::new(7);
        for _ in 0..1000 {
            assert!(random.below(3) < 3);
            assert!((5..=9).contains(&random.within(5, 9)));
        }
        assert_eq!(random.below(0), 0);
        assert_eq!(random.within(4, 4), 4);
    }
}
