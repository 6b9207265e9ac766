//! Random draws.

use vidmm_trace::SplitMix64;

/// Draws from a seed.
#[derive(Clone, Debug)]
pub(super) struct Dice(SplitMix64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::stream(seed, 0))
    }

    /// Begins a second row of draws for new kinds of worlds, so that the first row stays as it was.
    pub fn aside(seed: u64) -> Self {
        Self(SplitMix64::stream(seed, 1))
    }

    /// The row of draws of the policy of eviction.
    pub fn of_policy(seed: u64) -> Self {
        Self(SplitMix64::stream(seed, 2))
    }

    /// The row of draws of programs that run queues of their own.
    pub fn of_owners(seed: u64) -> Self {
        Self(SplitMix64::stream(seed, 3))
    }

    /// The row of draws of programs that reserve addresses.
    pub fn of_reservations(seed: u64) -> Self {
        Self(SplitMix64::stream(seed, 4))
    }

    /// The row of draws of the habits of programs.
    pub fn of_habits(seed: u64) -> Self {
        Self(SplitMix64::stream(seed, 5))
    }

    /// The row of draws of whole sets of habits.
    pub fn of_kinds(seed: u64) -> Self {
        Self(SplitMix64::stream(seed, 6))
    }

    /// The row of draws of lazy evictions.
    pub fn of_laziness(seed: u64) -> Self {
        Self(SplitMix64::stream(seed, 7))
    }

    /// The row of draws of announcements.
    pub fn of_announcements(seed: u64) -> Self {
        Self(SplitMix64::stream(seed, 8))
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0.below(bound as u64) as usize
    }

    /// A number from `low` to `high`, both included.
    pub fn within(&mut self, low: u64, high: u64) -> u64 {
        self.0.within(low, high)
    }

    /// Returns true in `percent` of the cases.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.0.below(100) < percent
    }

    /// One of several, or none if there are none.
    pub fn pick<T: Copy>(&mut self, of: &[T]) -> Option<T> {
        if of.is_empty() { None } else { Some(of[self.below(of.len())]) }
    }

    /// One of several, each as often as its weight says.
    pub fn weighted<T: Copy>(&mut self, of: &[(u32, T)]) -> T {
        let total: u32 = of.iter().map(|(weight, _)| weight).sum();
        let mut drawn = self.0.below(u64::from(total)) as u32;
        for &(weight, what) in of {
            if drawn < weight {
                return what;
            }
            drawn -= weight;
        }
        unreachable!("it is below the total")
    }

    /// Up to `most` of several, each at most once; at least one if there is any.
    pub fn some<T: Copy>(&mut self, of: &[T], most: usize) -> Vec<T> {
        let mut left = of.to_vec();
        let count = 1 + self.below(most.max(1));
        let mut drawn = Vec::new();
        while drawn.len() < count && !left.is_empty() {
            drawn.push(left.swap_remove(self.below(left.len())));
        }
        drawn
    }

    /// A size whose logarithm is drawn, from `low` to `high`.
    pub fn log_within(&mut self, low: u64, high: u64) -> u64 {
        let bits = |n: u64| u64::from(63 - n.max(1).leading_zeros());
        let exponent = self.within(bits(low), bits(high));
        self.within(1 << exponent, (2 << exponent) - 1).clamp(low, high)
    }
}
