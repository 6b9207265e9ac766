//! GPU virtual addresses: where mappings and reservations of the process are. The caller may give a range of addresses to choose from
//! (GVA-50), and the manager chooses among all.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{self, Excluded, Included, Unbounded};

/// The unit of a choice: pages of 64 KiB are possible there.
const UNIT: u64 = 64 << 10;

/// Mappings and reservations by the first address.
#[derive(Debug)]
pub(crate) struct Addresses {
    mapped: BTreeMap<u64, Mapping>,
    /// The first addresses of each allocation's mappings.
    of_allocations: BTreeMap<u32, BTreeSet<u64>>,
    /// The sizes of reservations.
    reserved: BTreeMap<u64, u64>,
    /// The ranges that are neither mapped nor reserved, and have an address to choose: the first address, and the end.
    gaps: BTreeMap<u64, u64>,
    /// Mappings that were freed, by the first address: the end, the allocation, and the number of the call.
    was: BTreeMap<u64, (u64, u32, u64)>,
}

impl Default for Addresses {
    fn default() -> Self {
        Self {
            mapped: BTreeMap::new(),
            of_allocations: BTreeMap::new(),
            reserved: BTreeMap::new(),
            gaps: BTreeMap::from([(0, u64::MAX)]),
            was: BTreeMap::new(),
        }
    }
}

/// A mapping.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mapping {
    pub size: u64,
    pub allocation: u32,
    /// The offset of the part in the allocation.
    pub offset: u64,
    pub access: Access,
}

/// The accesses that a mapping allows the GPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Access {
    pub write: bool,
    pub execute: bool,
    pub driver_protection: u64,
}

impl Mapping {
    /// The part from `skip` bytes on, with `size` bytes.
    fn part(self, skip: u64, size: u64) -> Self {
        Self { size, offset: self.offset + skip, ..self }
    }
}

impl Addresses {
    /// The first free range of a size between two addresses. None if there is no such range.
    pub fn choose(&self, minimum: u64, maximum: u64, size: u64) -> Option<u64> {
        let minimum = minimum.max(UNIT);
        let limit = if maximum == 0 { u64::MAX } else { maximum };
        let before = self.gaps.range(..minimum).next_back();
        before
            .into_iter()
            .chain(self.gaps.range(minimum..))
            .map_while(|(&first, &end)| {
                let from = first.max(minimum).checked_next_multiple_of(UNIT)?;
                let behind = from.checked_add(size).filter(|&behind| behind - 1 <= limit)?;
                Some((from, behind <= end))
            })
            .find_map(|(from, fits)| fits.then_some(from))
    }

    /// A mapping was made.
    pub fn map(&mut self, base: u64, mapping: Mapping) {
        self.mapped.insert(base, mapping);
        self.of_allocations.entry(mapping.allocation).or_default().insert(base);
        let end = base + mapping.size;
        while let Some((&first, _)) = self.was.range(..end).next_back().filter(|(_, was)| was.0 > base) {
            self.was.remove(&first);
        }
        self.find_gaps(base, end);
    }

    /// A reservation was made.
    pub fn reserve(&mut self, base: u64, size: u64) {
        self.reserved.insert(base, size);
        self.find_gaps(base, base + size);
    }

    /// A part of a mapping or of a reservation was freed, by the call of a number.
    pub fn free(&mut self, base: u64, size: u64, call: u64) {
        let end = base + size;
        if let Some((&first, &mapping)) =
            self.mapped.range(..=base).next_back().filter(|(first, of)| *first + of.size > base)
        {
            self.unmap(first, call);
            self.was.remove(&first);
            let rest = [(first, base - first), (end, (first + mapping.size).saturating_sub(end))];
            for (at, size) in rest.into_iter().filter(|&(_, size)| size > 0) {
                self.map(at, mapping.part(at - first, size));
            }
            self.was.insert(base, (end, mapping.allocation, call));
        } else if let Some((&first, &whole)) = self.reserved.range(..=base).next_back() {
            self.reserved.remove(&first);
            let rest = [(first, base - first), (end, (first + whole).saturating_sub(end))];
            self.reserved.extend(rest.into_iter().filter(|&(_, size)| size > 0));
        }
        self.find_gaps(base, end);
    }

    /// A mapping is gone, by the call of a number.
    fn unmap(&mut self, base: u64, call: u64) -> Option<Mapping> {
        let mapping = self.mapped.remove(&base)?;
        self.of_allocations.entry(mapping.allocation).or_default().remove(&base);
        let end = base + mapping.size;
        self.was.insert(base, (end, mapping.allocation, call));
        self.find_gaps(base, end);
        Some(mapping)
    }

    /// Finds the gaps again that touch a range.
    fn find_gaps(&mut self, base: u64, end: u64) {
        let taken = |from: Bound<u64>, to: Bound<u64>| {
            let mapped = self.mapped.range((from, to)).map(|(&first, mapping)| (first, first + mapping.size));
            let reserved = self.reserved.range((from, to)).map(|(&first, size)| (first, first + size));
            (mapped, reserved)
        };
        let (mut mapped, mut reserved) = taken(Unbounded, Excluded(base));
        let behind = [mapped.next_back(), reserved.next_back()].into_iter().flatten().map(|(_, behind)| behind).max();
        let (mut mapped, mut reserved) = taken(Included(end), Unbounded);
        let next = [mapped.next(), reserved.next()].into_iter().flatten().map(|(first, _)| first).min();
        let (mut from, next) = (behind.unwrap_or(0), next.unwrap_or(u64::MAX));
        if from >= next {
            return;
        }
        let (mapped, reserved) = taken(Included(base), Excluded(end));
        let mut inside = Vec::from_iter(mapped.chain(reserved).chain([(next, next)]));
        inside.sort_unstable();
        let old = Vec::from_iter(self.gaps.range(from..next).map(|(&first, _)| first));
        old.iter().for_each(|first| _ = self.gaps.remove(first));
        for (first, behind) in inside {
            if from.checked_next_multiple_of(UNIT).is_some_and(|chosen| chosen < first) {
                self.gaps.insert(from, first);
            }
            from = from.max(behind);
        }
    }

    /// Whether anything is mapped in a range.
    pub fn has_mappings(&self, base: u64, size: u64) -> bool {
        let last = self.mapped.range(..base.saturating_add(size)).next_back();
        last.is_some_and(|(&first, mapping)| first + mapping.size > base)
    }

    /// The parts of mappings in a range, by the first address.
    pub fn parts_in(&self, base: u64, size: u64) -> Vec<(u64, Mapping)> {
        let end = base.saturating_add(size);
        let before = self.mapped.range(..base).next_back().filter(|(first, of)| *first + of.size > base);
        let parts = before.into_iter().chain(self.mapped.range(base..end)).map(|(&first, mapping)| {
            let (from, to) = (first.max(base), (first + mapping.size).min(end));
            (from, mapping.part(from - first, to - from))
        });
        parts.collect()
    }

    /// Whether a range is inside one reservation.
    pub fn is_reserved(&self, base: u64, size: u64) -> bool {
        let around = self.reserved.range(..=base).next_back();
        around.is_some_and(|(&first, &whole)| base.checked_add(size).is_some_and(|end| end <= first + whole))
    }

    /// The allocation that is mapped at an address.
    pub fn allocation_at(&self, address: u64) -> Option<u32> {
        let (first, mapping) = self.mapped.range(..=address).next_back()?;
        (address < first + mapping.size).then_some(mapping.allocation)
    }

    /// The allocation that was mapped last at an address where nothing is mapped, and the call that freed the address.
    pub fn was_at(&self, address: u64) -> Option<(u32, u64)> {
        let (_, &(end, allocation, call)) = self.was.range(..=address).next_back()?;
        (address < end).then_some((allocation, call))
    }

    /// An allocation is gone, with all its mappings, by the call of a number.
    pub fn forget(&mut self, allocation: u32, call: u64) {
        for base in self.of_allocations.remove(&allocation).unwrap_or_default() {
            self.unmap(base, call);
        }
        self.of_allocations.remove(&allocation);
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, Addresses, Mapping, UNIT};

    fn mapping(size: u64, allocation: u32) -> Mapping {
        Mapping { size, allocation, offset: 0, access: Access::default() }
    }

    #[test]
    fn a_range_is_chosen_beside_mappings_and_reservations() {
        let mut addresses = Addresses::default();
        addresses.reserve(0x10_0000, 0x10_0000);
        addresses.map(0x20_0000, mapping(0x1000, 1));
        assert_eq!(addresses.choose(0x10_0000, 0, 0x1_0000), Some(0x21_0000));
        assert_eq!(addresses.choose(0, 0, 0x1_0000), Some(0x1_0000));
        assert_eq!(addresses.choose(0x10_0000, 0x21_ffff, 0x1_0000), Some(0x21_0000));
        assert_eq!(addresses.choose(0x10_0000, 0x21_fffe, 0x1_0000), None);
    }

    #[test]
    fn a_freed_part_leaves_the_rest_on_both_sides() {
        let mut addresses = Addresses::default();
        addresses.map(0x1_0000, mapping(0x3000, 5));
        addresses.free(0x1_1000, 0x1000, 7);
        assert_eq!([0x1_0fff, 0x1_1000, 0x1_2000].map(|at| addresses.allocation_at(at)), [Some(5), None, Some(5)]);
        let parts = addresses.parts_in(0x1_0800, 0x2000);
        assert_eq!(
            parts.iter().map(|&(at, of)| (at, of.offset, of.size)).collect::<Vec<_>>(),
            [(0x1_0800, 0x800, 0x800), (0x1_2000, 0x2000, 0x800)]
        );
        assert_eq!([0x1_1000, 0x1_2000].map(|at| addresses.was_at(at)), [Some((5, 7)), None]);
        addresses.forget(5, 9);
        assert_eq!((addresses.allocation_at(0x1_0000), addresses.was_at(0x1_0000)), (None, Some((5, 9))));
        assert_eq!(addresses.choose(0, 0, 1 << 40), Some(0x1_0000));
    }

    /// The gaps are those that a walk over all mappings and reservations finds.
    #[test]
    fn a_chosen_range_is_the_first_free_one_after_any_changes() {
        const PAGE: u64 = 4096;
        let mut addresses = Addresses::default();
        let mut draws = 0;
        let mut draw = |below| {
            draws += 1;
            vidmm_runtime::mixed(draws) % below
        };
        let mut taken = Vec::<(u64, u64, bool)>::new();
        for number in 0..3_000 {
            let (minimum, size) = (draw(64) * UNIT, (1 + draw(40)) * PAGE);
            let is_free = |from: u64| taken.iter().all(|&(at, size_of, _)| at + size_of <= from || from + size <= at);
            let expected = (minimum.max(UNIT)..).step_by(UNIT as usize).find(|&from| is_free(from));
            assert_eq!(addresses.choose(minimum, 0, size), expected, "change {number}");
            let base = expected.expect("addresses do not end") + draw(3) * PAGE;
            match draw(5) {
                0 | 1 if is_free(base) => {
                    addresses.map(base, mapping(size, 1 + draw(9) as u32));
                    taken.push((base, size, true));
                }
                2 if is_free(base) => {
                    addresses.reserve(base, size);
                    addresses.map(base, mapping(PAGE, 10));
                    addresses.free(base, PAGE, 1);
                    taken.push((base, size, false));
                }
                3 | 4 if !taken.is_empty() => {
                    // The first half of a mapping or of a reservation is freed.
                    let (at, size, is_mapped) = taken.swap_remove(draw(taken.len() as u64) as usize);
                    let half = (size / 2).next_multiple_of(PAGE);
                    addresses.free(at, half, 1);
                    taken.extend((size > half).then_some((at + half, size - half, is_mapped)));
                }
                _ => {}
            }
        }
        assert!(taken.len() > 20, "{}", taken.len());
    }
}
