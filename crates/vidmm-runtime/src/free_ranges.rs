//! Free ranges: the backing store of hosts.

use std::collections::{BTreeMap, BTreeSet};

/// Free ranges of numbers, by start to join neighbours and by size to find a fit. All calls take logarithmic time.
#[derive(Debug)]
pub struct FreeRanges {
    by_start: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
}

impl FreeRanges {
    /// All numbers from `start` up to `end` are free.
    pub fn new(start: u64, end: u64) -> Self {
        let mut ranges = Self { by_start: BTreeMap::new(), by_size: BTreeSet::new() };
        ranges.insert(start, end - start);
        ranges
    }

    fn insert(&mut self, start: u64, size: u64) {
        self.by_start.insert(start, size);
        self.by_size.insert((size, start));
    }

    fn remove(&mut self, start: u64, size: u64) {
        self.by_start.remove(&start);
        self.by_size.remove(&(size, start));
    }

    /// Takes the start of the smallest free range of at least `size` numbers, the lowest of several.
    pub fn take(&mut self, size: u64) -> Option<u64> {
        let &(found, start) = self.by_size.range((size, 0)..).next()?;
        self.remove(start, found);
        if found > size {
            self.insert(start + size, found - size);
        }
        Some(start)
    }

    /// Frees a range that was taken.
    pub fn give(&mut self, mut start: u64, mut size: u64) {
        if let Some((&before, &bytes)) = self.by_start.range(..start).next_back()
            && before + bytes == start
        {
            self.remove(before, bytes);
            (start, size) = (before, size + bytes);
        }
        if let Some(&bytes) = self.by_start.get(&(start + size)) {
            self.remove(start + size, bytes);
            size += bytes;
        }
        self.insert(start, size);
    }
}
