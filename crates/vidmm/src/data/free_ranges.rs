//! Ranges that are free, found by place and by size. Neighbours are merged; every operation is logarithmic.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use crate::units::Extent;

#[derive(Debug, Default)]
pub(crate) struct FreeRanges {
    by_offset: BTreeMap<u64, u64>,
    by_size: BTreeSet<(u64, u64)>,
}

impl FreeRanges {
    /// Makes `range` free and merges it with its neighbours.
    pub fn insert(&mut self, range: Extent) {
        let Extent { mut offset, mut size } = range;
        if let Some((&before, &before_size)) = self.by_offset.range(..offset).next_back()
            && before + before_size == offset
        {
            self.remove_whole(Extent { offset: before, size: before_size });
            (offset, size) = (before, size + before_size);
        }
        if let Some(&after_size) = self.by_offset.get(&range.end()) {
            self.remove_whole(Extent { offset: range.end(), size: after_size });
            size += after_size;
        }
        self.insert_whole(Extent { offset, size });
    }

    /// Takes exactly `range`; `None`, and nothing changes, unless all of it is free.
    pub fn take(&mut self, range: Extent) -> Option<()> {
        let (&offset, &size) = self.by_offset.range(..=range.offset).next_back()?;
        let around = Extent { offset, size };
        if range.end() > around.end() {
            return None;
        }
        self.remove_whole(around);
        if around.offset < range.offset {
            self.insert_whole(Extent { offset: around.offset, size: range.offset - around.offset });
        }
        if range.end() < around.end() {
            self.insert_whole(Extent { offset: range.end(), size: around.end() - range.end() });
        }
        Some(())
    }

    /// Takes whatever of `range` is free.
    pub fn take_all_of(&mut self, range: Extent) {
        for free in Vec::from_iter(self.inside(range)) {
            self.take(free).expect("it was found free");
        }
    }

    /// The free parts of `range`, by offset.
    pub fn inside(&self, range: Extent) -> impl Iterator<Item = Extent> {
        let before = self.by_offset.range(..range.offset).next_back();
        let overlapping = before.into_iter().chain(self.by_offset.range(range.offset..range.end()));
        overlapping.filter_map(move |(&offset, &size)| {
            let (start, end) = (offset.max(range.offset), (offset + size).min(range.end()));
            (start < end).then(|| Extent { offset: start, size: end - start })
        })
    }

    /// Ranges of at least `size` bytes, smallest first.
    pub fn at_least(&self, size: u64) -> impl Iterator<Item = Extent> {
        self.by_size.range((size, 0)..).map(|&(size, offset)| Extent { offset, size })
    }

    /// The largest range.
    pub fn largest(&self) -> Option<Extent> {
        self.by_size.last().map(|&(size, offset)| Extent { offset, size })
    }

    /// All ranges, by offset.
    pub fn iter(&self) -> impl Iterator<Item = Extent> {
        self.by_offset.iter().map(|(&offset, &size)| Extent { offset, size })
    }

    fn insert_whole(&mut self, range: Extent) {
        self.by_offset.insert(range.offset, range.size);
        self.by_size.insert((range.size, range.offset));
    }

    fn remove_whole(&mut self, range: Extent) {
        self.by_offset.remove(&range.offset);
        self.by_size.remove(&(range.size, range.offset));
    }
}
