//! The weight of an allocation in one range. The sums of a device's ranges follow the device's list (RES-19).

use alloc::vec::Vec;

use crate::{
    adapter::patching::Hint,
    budget::account::{Account, Home, PerHome},
    id::AllocationIx,
    objects::{
        Objects,
        allocation::{Allocation, AllocationState},
        device::Device,
        ranges::{Footprint, Footprints, ListRanges},
    },
    units::PAGE_SIZE_64K,
};

/// The alignment of an allocation's ranges in a home, in bytes.
pub(crate) fn alignment(allocation: &Allocation, home: Home) -> u64 {
    match home.account() {
        Account::SYSTEM => PAGE_SIZE_64K,
        _ => alignment_in_memory(allocation),
    }
}

fn alignment_in_memory(allocation: &Allocation) -> u64 {
    allocation.patched().map_or(Hint::default().alignment, |known| known.hint.alignment)
}

/// Whether an allocation is one range wherever it is, and not pages: engines address it physically (SEG-13).
#[inline]
pub(crate) fn is_one_range(allocation: &Allocation) -> bool {
    allocation.is(AllocationState::ACCESSED_PHYSICALLY)
}

/// The bytes of an allocation, and the alignment of a range.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Weight {
    /// In bytes.
    pub size: u64,
    /// The alignment of a range in a memory segment; none for pages.
    alignment: Option<u64>,
}

impl Weight {
    /// The weight of an allocation.
    #[inline(always)]
    pub(crate) fn of(allocation: &Allocation) -> Self {
        let alignment = is_one_range(allocation).then(|| alignment_in_memory(allocation));
        Self { size: allocation.size, alignment }
    }

    /// The bytes taken of a home's ranges: none for pages.
    #[inline(always)]
    pub(crate) fn footprint(self, home: Home) -> Footprint {
        let Some(alignment) = self.alignment else { return Footprint::NONE };
        // In an aperture all ranges have the same alignment, so that any of them can lie last.
        let is_shown = home.account() == Account::SYSTEM;
        let weight = self.size.next_multiple_of(if is_shown { PAGE_SIZE_64K } else { alignment });
        Footprint { weight, tail: if is_shown { weight - self.size } else { 0 } }
    }
}

/// The bytes that an allocation takes of a home's ranges: none where it is pages.
pub(crate) fn footprint(allocation: &Allocation, home: Home) -> Footprint {
    Weight::of(allocation).footprint(home)
}

/// The list of a device names an allocation from now on, or no longer.
#[inline]
pub(crate) fn note_listed(record: &mut Device, allocation: &Allocation, is_listed: bool) {
    if is_one_range(allocation) {
        note(&mut record.ranges.listed, allocation, is_listed);
    }
}

/// An entry of a device pins an allocation from now on, or is to pin the allocation again; or neither.
#[inline]
pub(crate) fn note_pinned(record: &mut Device, allocation: &Allocation, is_pinned: bool) {
    if is_one_range(allocation) {
        note(&mut record.ranges.pinned, allocation, is_pinned);
    }
}

/// Adds a range to the sums of a device, or removes the range.
fn note(sums: &mut PerHome<Footprints>, allocation: &Allocation, is_added: bool) {
    let home = allocation.home();
    let (sum, footprint) = (&mut sums[home], footprint(allocation, home));
    if is_added { sum.add(footprint) } else { sum.remove(footprint) }
}

/// Lists count an allocation in `home` from now on, and so do the sums of ranges.
pub(crate) fn set_home(objects: &mut Objects, index: AllocationIx, home: Home) {
    let allocation = &mut objects.allocations[index];
    let before = allocation.home();
    if before == home || !is_one_range(allocation) {
        return allocation.set_home(home);
    }
    let entries = allocation.entries().map(|(device, entry)| (device, entry.count > 0, entry.is_pinned()));
    let entries = Vec::from_iter(entries);
    let [from, to] = [before, home].map(|home| footprint(allocation, home));
    allocation.set_home(home);
    for (device, is_listed, is_pinned) in entries {
        let ListRanges { listed, pinned } = &mut objects[device].ranges;
        for (sums, has_it) in [(listed, is_listed), (pinned, is_pinned)] {
            if has_it {
                sums[before].remove(from);
                sums[home].add(to);
            }
        }
    }
}
