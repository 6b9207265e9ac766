//! How much memory the workload would need: the bytes of other allocations between two uses of one.
//!
//! A list that begins to name an allocation uses it. Between two uses of an allocation lie uses of others; if their bytes and its
//! own fit into memory, an order of eviction by age still has it there. So one pass tells how many bytes are copied in with any
//! size of memory. Uses by lists that keep an allocation are not seen: for them the sum of what lists name is the answer.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use vidmm::{AllocationId, Event};

/// The points of the curve that a page has.
const POINTS: usize = 512;

/// Uses so far.
#[derive(Debug, Default)]
pub(super) struct Reuse {
    sizes: BTreeMap<AllocationId, u64>,
    /// The place of the last use of each allocation in the order of all uses.
    last: BTreeMap<AllocationId, usize>,
    order: SumTree,
    /// Bytes that are used again, by the bytes that memory must have for that.
    again: BTreeMap<u64, u64>,
    /// Bytes that were used for the first time.
    first: u64,
}

impl Reuse {
    pub fn event(&mut self, event: &Event) {
        match *event {
            Event::AllocationCreated { allocation, size, .. } => drop(self.sizes.insert(allocation, size)),
            Event::MakeResident { ref allocations, .. } => {
                // The allocations that one call names are there at the same time, in any order.
                let mut named: Vec<AllocationId> = allocations.clone();
                named.sort_unstable();
                named.dedup();
                let distances: Vec<_> = named.iter().map(|&allocation| self.distance(allocation)).collect();
                for (allocation, distance) in named.into_iter().zip(distances) {
                    self.used(allocation, distance);
                }
            }
            Event::AllocationDestroyed { allocation, .. } => {
                if let (Some(size), Some(place)) = (self.sizes.remove(&allocation), self.last.remove(&allocation)) {
                    self.order.subtract(place, size);
                }
            }
            _ => {}
        }
    }

    /// The bytes that memory must have for an allocation to be there since its last use; none if it had no use.
    fn distance(&self, allocation: AllocationId) -> Option<u64> {
        self.last.get(&allocation).map(|&place| self.order.sum_from(place))
    }

    fn used(&mut self, allocation: AllocationId, distance: Option<u64>) {
        let Some(&size) = self.sizes.get(&allocation) else { return };
        match distance {
            Some(bytes) => *self.again.entry(bytes).or_default() += size,
            None => self.first += size,
        }
        let place = self.order.push(size);
        if let Some(before) = self.last.insert(allocation, place) {
            self.order.subtract(before, size);
        }
        if self.order.len() > 64 && self.order.len() > 4 * self.last.len() {
            self.compact();
        }
    }

    /// Numbers the last uses anew, without the places of uses that others have followed.
    fn compact(&mut self) {
        let mut uses: Vec<(usize, AllocationId)> =
            self.last.iter().map(|(&allocation, &place)| (place, allocation)).collect();
        uses.sort_unstable();
        self.order = SumTree::default();
        for (_, allocation) in uses {
            let place = self.order.push(self.sizes.get(&allocation).copied().unwrap_or(0));
            self.last.insert(allocation, place);
        }
    }

    /// The curve: sizes of memory, and the bytes that are copied in with less than each.
    pub fn into_value(self) -> Value {
        let all: u64 = self.again.values().sum();
        let every = self.again.len().div_ceil(POINTS).max(1);
        let mut missed = all;
        let mut points = vec![json!([0, all])];
        let count = self.again.len();
        for (number, (distance, bytes)) in self.again.into_iter().enumerate() {
            missed -= bytes;
            if (number + 1) % every == 0 || number + 1 == count {
                points.push(json!([distance, missed]));
            }
        }
        json!({ "first": self.first, "points": points })
    }
}

/// Numbers in a row, of which any end can be added up in logarithmic time.
#[derive(Debug, Default)]
struct SumTree {
    /// Element `i` is the sum of the `i & -i` numbers before place `i`, counted from 1.
    sums: Vec<u64>,
    all: u64,
}

impl SumTree {
    fn len(&self) -> usize {
        self.sums.len()
    }

    /// Appends a number, and returns its place.
    fn push(&mut self, value: u64) -> usize {
        let index = self.sums.len() + 1;
        let mut sum = value;
        let mut below = index - 1;
        while below > index - (index & index.wrapping_neg()) {
            sum += self.sums[below - 1];
            below -= below & below.wrapping_neg();
        }
        self.sums.push(sum);
        self.all += value;
        index - 1
    }

    /// Takes a part of the number at a place away.
    fn subtract(&mut self, place: usize, value: u64) {
        let mut index = place + 1;
        while let Some(sum) = self.sums.get_mut(index - 1) {
            *sum -= value;
            index += index & index.wrapping_neg();
        }
        self.all -= value;
    }

    /// The sum of the numbers from a place on.
    fn sum_from(&self, place: usize) -> u64 {
        let (mut before, mut index) = (0, place);
        while index > 0 {
            before += self.sums[index - 1];
            index -= index & index.wrapping_neg();
        }
        self.all - before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_ends_are_those_of_the_numbers() {
        let mut tree = SumTree::default();
        let mut numbers: Vec<u64> = Vec::new();
        for value in 0..100 {
            assert_eq!(tree.push(value), numbers.len());
            numbers.push(value);
            if value % 3 == 0 {
                let place = (value / 2) as usize;
                tree.subtract(place, numbers[place]);
                numbers[place] = 0;
            }
            for place in 0..numbers.len() {
                assert_eq!(tree.sum_from(place), numbers[place..].iter().sum::<u64>());
            }
        }
    }
}
