//! GPU virtual addresses: where mappings and reservations of the process are. The caller may give a range of addresses to choose from
//! (GVA-50), and the manager chooses among all.

use std::collections::{BTreeMap, BTreeSet};

/// The unit of a choice: pages of 64 KiB are possible there.
const UNIT: u64 = 64 << 10;

/// Mappings and reservations by the first address.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    mapped: BTreeMap<u64, Mapping>,
    /// The first addresses of each allocation's mappings.
    of_allocations: BTreeMap<u32, BTreeSet<u64>>,
    /// The sizes of reservations.
    reserved: BTreeMap<u64, u64>,
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
        let mut from = minimum.max(UNIT).checked_next_multiple_of(UNIT)?;
        let limit = if maximum == 0 { u64::MAX } else { maximum };
        loop {
            let end = from.checked_add(size).filter(|&end| end - 1 <= limit)?;
            let mapped = self.mapped.range(..end).next_back().map(|(&first, mapping)| first + mapping.size);
            let reserved = self.reserved.range(..end).next_back().map(|(&first, size)| first + size);
            match mapped.max(reserved).filter(|&behind| behind > from) {
                None => return Some(from),
                Some(behind) => from = behind.checked_next_multiple_of(UNIT)?,
            }
        }
    }

    /// A mapping was made.
    pub fn map(&mut self, base: u64, mapping: Mapping) {
        self.mapped.insert(base, mapping);
        self.of_allocations.entry(mapping.allocation).or_default().insert(base);
    }

    /// A reservation was made.
    pub fn reserve(&mut self, base: u64, size: u64) {
        self.reserved.insert(base, size);
    }

    /// A part of a mapping or of a reservation was freed.
    pub fn free(&mut self, base: u64, size: u64) {
        let end = base + size;
        if let Some((&first, &mapping)) =
            self.mapped.range(..=base).next_back().filter(|(first, of)| *first + of.size > base)
        {
            self.mapped.remove(&first);
            self.of_allocations.entry(mapping.allocation).or_default().remove(&first);
            let rest = [(first, base - first), (end, (first + mapping.size).saturating_sub(end))];
            for (at, size) in rest.into_iter().filter(|&(_, size)| size > 0) {
                self.map(at, mapping.part(at - first, size));
            }
        } else if let Some((&first, &whole)) = self.reserved.range(..=base).next_back() {
            self.reserved.remove(&first);
            let rest = [(first, base - first), (end, (first + whole).saturating_sub(end))];
            self.reserved.extend(rest.into_iter().filter(|&(_, size)| size > 0));
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

    /// An allocation is gone, with all its mappings.
    pub fn forget(&mut self, allocation: u32) {
        for base in self.of_allocations.remove(&allocation).unwrap_or_default() {
            self.mapped.remove(&base);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, Addresses, Mapping};

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
        addresses.free(0x1_1000, 0x1000);
        assert_eq!([0x1_0fff, 0x1_1000, 0x1_2000].map(|at| addresses.allocation_at(at)), [Some(5), None, Some(5)]);
        let parts = addresses.parts_in(0x1_0800, 0x2000);
        assert_eq!(
            parts.iter().map(|&(at, of)| (at, of.offset, of.size)).collect::<Vec<_>>(),
            [(0x1_0800, 0x800, 0x800), (0x1_2000, 0x2000, 0x800)]
        );
        addresses.forget(5);
        assert_eq!(addresses.allocation_at(0x1_0000), None);
    }
}
