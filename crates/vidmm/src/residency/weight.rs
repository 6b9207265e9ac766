//! The weight of an allocation in one range. The sums of a device's ranges follow the device's list (RES-19).

use alloc::vec::Vec;

use crate::{
    adapter::patching::Hint,
    budget::account::{Account, Home, PerHome},
    id::{AllocationIx, DeviceIx},
    objects::{
        Objects,
        allocation::AllocationState,
        ranges::{Footprint, Footprints, ListRanges},
    },
    units::PAGE_SIZE_64K,
};

/// The alignment of an allocation's ranges in a home, in bytes.
pub(crate) fn alignment(objects: &Objects, index: AllocationIx, home: Home) -> u64 {
    match home.account() {
        Account::SYSTEM => PAGE_SIZE_64K,
        _ => alignment_in_memory(objects, index),
    }
}

fn alignment_in_memory(objects: &Objects, index: AllocationIx) -> u64 {
    objects[index].patched().map_or(Hint::default().alignment, |known| known.hint.alignment)
}

/// Whether an allocation is one range wherever it is, and not pages: engines address it physically (SEG-13).
pub(crate) fn is_one_range(objects: &Objects, index: AllocationIx) -> bool {
    objects[index].is(AllocationState::ACCESSED_PHYSICALLY)
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
    pub(crate) fn of(objects: &Objects, index: AllocationIx) -> Self {
        let alignment = is_one_range(objects, index).then(|| alignment_in_memory(objects, index));
        Self { size: objects[index].size, alignment }
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
pub(crate) fn footprint(objects: &Objects, index: AllocationIx, home: Home) -> Footprint {
    Weight::of(objects, index).footprint(home)
}

/// The list of a device names an allocation from now on, or no longer.
#[inline]
pub(crate) fn note_listed(objects: &mut Objects, device: DeviceIx, index: AllocationIx, is_listed: bool) {
    if is_one_range(objects, index) {
        note(objects, device, index, |ranges| &mut ranges.listed, is_listed);
    }
}

/// An entry of a device pins an allocation from now on, or is to pin the allocation again; or neither.
#[inline]
pub(crate) fn note_pinned(objects: &mut Objects, device: DeviceIx, index: AllocationIx, is_pinned: bool) {
    if is_one_range(objects, index) {
        note(objects, device, index, |ranges| &mut ranges.pinned, is_pinned);
    }
}

/// Adds a range to sums of a device, or removes the range.
fn note(
    objects: &mut Objects,
    device: DeviceIx,
    index: AllocationIx,
    sums: fn(&mut ListRanges) -> &mut PerHome<Footprints>,
    is_added: bool,
) {
    let home = objects[index].home();
    let footprint = footprint(objects, index, home);
    let sum = &mut sums(&mut objects[device].ranges)[home];
    if is_added { sum.add(footprint) } else { sum.remove(footprint) }
}

/// Lists count an allocation in `home` from now on, and so do the sums of ranges.
pub(crate) fn set_home(objects: &mut Objects, index: AllocationIx, home: Home) {
    let before = objects[index].home();
    if before == home || !is_one_range(objects, index) {
        return objects[index].set_home(home);
    }
    let entries = objects[index].entries().map(|(device, entry)| (device, entry.count > 0, entry.is_pinned()));
    let entries = Vec::from_iter(entries);
    let [from, to] = [before, home].map(|home| footprint(objects, index, home));
    for (device, is_listed, is_pinned) in entries {
        let ListRanges { listed, pinned } = &mut objects[device].ranges;
        for (sums, has_it) in [(listed, is_listed), (pinned, is_pinned)] {
            if has_it {
                sums[before].remove(from);
                sums[home].add(to);
            }
        }
    }
    objects[index].set_home(home);
}
