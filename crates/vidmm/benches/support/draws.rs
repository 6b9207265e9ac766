//! Randomness, drawn before anything is timed. The same seed gives the same draws everywhere.

/// Sebastiano Vigna's SplitMix64.
pub struct SplitMix64(pub u64);

impl SplitMix64 {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// A number from 0 to 1, without 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// The numbers below `n` in random order.
    pub fn permutation(&mut self, n: usize) -> Vec<u32> {
        let mut numbers: Vec<u32> = (0..n as u32).collect();
        for last in (1..n).rev() {
            numbers.swap(last, self.below(last + 1));
        }
        numbers
    }
}

/// The distribution of draws.
pub enum Popularity {
    /// All alike.
    Uniform(usize),
    /// The r-th most popular in proportion to r^-s: cumulated weights, and who has which rank.
    Zipf { cumulated: Vec<f64>, by_rank: Vec<u32> },
}

impl Popularity {
    /// Zipf's law with exponent `s`; ranks are spread at random, so that the popular are not neighbours in memory.
    pub fn zipf(n: usize, s: f64, random: &mut SplitMix64) -> Self {
        let mut sum = 0.0;
        let weights = (1..=n).map(|rank| (rank as f64).powf(-s));
        let cumulated = weights.map(|weight| (sum += weight, sum).1).collect();
        Popularity::Zipf { cumulated, by_rank: random.permutation(n) }
    }

    fn len(&self) -> usize {
        match self {
            Popularity::Uniform(n) => *n,
            Popularity::Zipf { by_rank, .. } => by_rank.len(),
        }
    }

    pub fn draw(&self, random: &mut SplitMix64) -> u32 {
        match self {
            Popularity::Uniform(n) => random.below(*n) as u32,
            Popularity::Zipf { cumulated, by_rank } => {
                let at = random.unit() * cumulated[cumulated.len() - 1];
                by_rank[cumulated.partition_point(|&sum| sum <= at)]
            }
        }
    }
}

/// Lists of `k` distinct numbers each, one after another.
pub struct Lists<T> {
    pub k: usize,
    items: Vec<T>,
}

impl Lists<u32> {
    pub fn draw(count: usize, k: usize, popularity: &Popularity, random: &mut SplitMix64) -> Self {
        let mut drawn_in = vec![usize::MAX; popularity.len()];
        let mut items = Vec::with_capacity(count * k);
        for list in 0..count {
            while items.len() < (list + 1) * k {
                let item = popularity.draw(random);
                if core::mem::replace(&mut drawn_in[item as usize], list) != list {
                    items.push(item);
                }
            }
        }
        Self { k, items }
    }

    /// The same lists under other names.
    pub fn named<T: Copy>(&self, names: &[T]) -> Lists<T> {
        Lists { k: self.k, items: self.items.iter().map(|&item| names[item as usize]).collect() }
    }
}

impl<T> Lists<T> {
    pub fn len(&self) -> usize {
        self.items.len() / self.k
    }

    /// The part of the lists that is round `round` of `rounds`.
    pub fn round(&self, round: usize, rounds: usize) -> impl Iterator<Item = &[T]> {
        let per_round = self.len() / rounds;
        self.items[round * per_round * self.k..(round + 1) * per_round * self.k].chunks_exact(self.k)
    }
}
