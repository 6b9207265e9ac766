//! The ranges of a device's list: the weights of allocations in one range (RES-19), as running sums by home.

use crate::{
    budget::account::{Home, Homes, PerHome},
    units::{PAGE_SIZE, PAGE_SIZE_64K},
};

/// The bytes that an allocation takes of a home's ranges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Footprint {
    /// In an aperture, a multiple of 64 KiB.
    pub weight: u64,
    /// The bytes of the weight beyond the size, in an aperture: the range that lies last does not take its tail.
    pub tail: u64,
}

impl Footprint {
    /// The footprint of pages.
    pub const NONE: Self = Self { weight: 0, tail: 0 };
}

/// The different tails: multiples of 4 KiB below 64 KiB.
const TAILS: usize = (PAGE_SIZE_64K / PAGE_SIZE) as usize;

/// The sum of footprints in a home.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Footprints {
    weight: u128,
    /// The number of footprints with each tail.
    tails: [u32; TAILS],
}

impl Footprints {
    /// The bytes that all ranges weigh.
    pub fn weight(&self) -> u128 {
        self.weight
    }

    /// The largest tail.
    pub fn tail(&self) -> u64 {
        self.tails.iter().rposition(|&number| number > 0).unwrap_or(0) as u64 * PAGE_SIZE
    }

    pub fn add(&mut self, Footprint { weight, tail }: Footprint) {
        self.weight += u128::from(weight);
        self.tails[(tail / PAGE_SIZE) as usize] += 1;
    }

    pub fn remove(&mut self, Footprint { weight, tail }: Footprint) {
        self.weight -= u128::from(weight);
        self.tails[(tail / PAGE_SIZE) as usize] -= 1;
    }
}

/// The ranges of a device's list.
#[derive(Debug)]
pub(crate) struct ListRanges {
    /// The ranges that the list names.
    pub listed: PerHome<Footprints>,
    /// The ranges that entries pin, or are to pin again.
    pub pinned: PerHome<Footprints>,
}

impl ListRanges {
    /// No range in any of these homes.
    pub fn none(homes: Homes) -> Self {
        let none = || homes.per(|_: Home| Footprints::default());
        Self { listed: none(), pinned: none() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_tail_is_known_after_ranges_leave() {
        let mut sum = Footprints::default();
        let of = |size: u64| Footprint {
            weight: size.next_multiple_of(PAGE_SIZE_64K),
            tail: size.wrapping_neg() % PAGE_SIZE_64K,
        };
        let sizes = [3 * PAGE_SIZE, 15 * PAGE_SIZE, 16 * PAGE_SIZE, 3 * PAGE_SIZE];
        sizes.iter().for_each(|&size| sum.add(of(size)));
        assert_eq!((sum.weight(), sum.tail()), (4 * u128::from(PAGE_SIZE_64K), 13 * PAGE_SIZE));
        for (size, tail) in [(3, 13), (3, 1), (15, 0), (16, 0)] {
            sum.remove(of(size * PAGE_SIZE));
            assert_eq!(sum.tail(), tail * PAGE_SIZE);
        }
        assert_eq!(sum, Footprints::default());
    }
}
