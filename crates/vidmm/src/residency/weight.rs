//! Packing: whether the allocations of a device that are one range each fit together (RES-19).
//!
//! Without GPU virtual addresses every allocation is one range; with them, one that engines address physically is
//! (SEG-13), and everything else is pages, which always fit if their bytes do (D10). A range *weighs* its size, rounded
//! up to its alignment. Ranges that lie one behind the other, those with the larger alignment first, take no more than
//! they weigh: each begins where those before it end. So ranges that weigh no more than their segment fit into it when
//! nothing else is there, and so does any part of them. That is what a device's list is admitted by.

use alloc::{collections::BTreeSet, vec::Vec};

use crate::{
    adapter::patching::Hint,
    budget::account::{Account, Home, PerHome},
    id::{AllocationIx, DeviceIx},
    memory::Memory,
    objects::{Objects, allocation::AllocationState, list::ListEntry},
    residency::{Residents, pins},
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
    objects.patched.get(&index).map_or(Hint::default().alignment, |known| known.hint.alignment)
}

/// Whether an allocation is one range wherever it is, and not pages: engines address it physically (SEG-13).
pub(crate) fn is_one_range(objects: &Objects, index: AllocationIx) -> bool {
    objects[index].state.contains(AllocationState::ACCESSED_PHYSICALLY)
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
        let Some(alignment) = self.alignment else { return Footprint { weight: 0, tail: 0 } };
        // In an aperture all ranges have the same alignment, so that any of them can lie last.
        let is_shown = home.account() == Account::SYSTEM;
        let weight = self.size.next_multiple_of(if is_shown { PAGE_SIZE_64K } else { alignment });
        Footprint { weight, tail: if is_shown { weight - self.size } else { 0 } }
    }
}

/// The bytes that a home's allocations have ranges of.
fn range_capacity(memory: &Memory, home: Home) -> u64 {
    match home.account() {
        Account::SYSTEM => memory.aperture.part(home).size,
        account => memory.placers[account].size(),
    }
}

/// The room that the ranges of a device's list leave in a home, with nobody else there.
#[derive(Clone, Copy)]
pub(crate) struct PackingRoom {
    /// The bytes that no range weighs; below 0 where they weigh more than there is.
    left: i128,
    /// The bytes that the range with the largest rest weighs and does not take, if it lies last.
    tail: i128,
}

impl PackingRoom {
    /// The room of an empty home.
    pub(crate) fn empty(memory: &Memory, home: Home) -> Self {
        Self { left: i128::from(range_capacity(memory, home)), tail: 0 }
    }

    /// The bytes that are missing for another range; 0 or less if it fits.
    pub(crate) fn missing_for(self, footprint: Footprint) -> i128 {
        let with = self.with(footprint);
        -(with.left + with.tail)
    }

    /// The bytes that another range leaves.
    pub(crate) fn with(self, Footprint { weight, tail }: Footprint) -> Self {
        Self { left: self.left - i128::from(weight), tail: self.tail.max(i128::from(tail)) }
    }

    /// The room after several more ranges.
    pub(crate) fn with_many(self, Footprint { weight, tail }: Footprint, number: u64) -> Self {
        match number {
            0 => self,
            _ => Self {
                left: self.left - i128::from(weight) * i128::from(number),
                tail: self.tail.max(i128::from(tail)),
            },
        }
    }

    /// How many more ranges fit.
    pub(crate) fn number_of(self, Footprint { weight, tail }: Footprint) -> u64 {
        let room = (self.left + self.tail.max(i128::from(tail))).max(0);
        let number = room.checked_div(i128::from(weight)).unwrap_or(i128::MAX);
        u64::try_from(number).unwrap_or(u64::MAX)
    }

    /// The room after a trim of ranges.
    pub(crate) fn after_trimming(self, bytes: u64) -> Self {
        Self { left: self.left + i128::from(bytes), ..self }
    }

    fn is_enough(self) -> bool {
        self.left + self.tail >= 0
    }
}

/// The bytes that an allocation takes of a home's ranges.
#[derive(Clone, Copy)]
pub(crate) struct Footprint {
    weight: u64,
    /// The bytes that it weighs and does not take, if it lies last.
    tail: u64,
}

/// The bytes that an allocation takes of a home's ranges: none where it is pages.
pub(crate) fn footprint(objects: &Objects, index: AllocationIx, home: Home) -> Footprint {
    Weight::of(objects, index).footprint(home)
}

/// The room for more ranges on a device's list.
fn packing_room(
    objects: &Objects,
    memory: &Memory,
    allocations: BTreeSet<AllocationIx>,
    home_of: impl Fn(AllocationIx) -> Home,
) -> PerHome<PackingRoom> {
    let mut room = memory.homes().per(|home| PackingRoom::empty(memory, home));
    for index in allocations {
        let home = home_of(index);
        room[home] = room[home].with(footprint(objects, index, home));
    }
    room
}

fn are_enough(memory: &Memory, room: &PerHome<PackingRoom>) -> bool {
    memory.homes().iter().all(|home| room[home].is_enough())
}

/// The room on a device's list for the ranges of allocations that are to join it; none if all of them are pages.
pub(crate) fn packing_room_for(
    objects: &Objects,
    memory: &Memory,
    residency: &Residents,
    device: DeviceIx,
    joining: impl Iterator<Item = AllocationIx>,
) -> Option<PerHome<PackingRoom>> {
    may_be_ranges(objects, joining).then(|| room_on_list(objects, memory, residency, device))
}

/// The room for ranges on a device's list without some allocations.
pub(crate) fn packing_room_without(
    objects: &Objects,
    memory: &Memory,
    residency: &Residents,
    device: DeviceIx,
    without: &BTreeSet<AllocationIx>,
) -> PerHome<PackingRoom> {
    let mut listed = on_list(objects, device, |entry| entry.count > 0);
    listed.retain(|index| !without.contains(index));
    packing_room(objects, memory, listed, |index| residency.home_on_list(objects, index))
}

fn room_on_list(objects: &Objects, memory: &Memory, residency: &Residents, device: DeviceIx) -> PerHome<PackingRoom> {
    let listed = on_list(objects, device, |entry| entry.count > 0);
    packing_room(objects, memory, listed, |index| residency.home_on_list(objects, index))
}

fn may_be_ranges(objects: &Objects, mut indices: impl Iterator<Item = AllocationIx>) -> bool {
    indices.any(|index| is_one_range(objects, index))
}

/// Whether what a device's list names, now or for outstanding work and requests, still fits together when these of its allocations
/// have other homes.
pub(crate) fn packs_if_moved(
    objects: &Objects,
    memory: &Memory,
    device: DeviceIx,
    moved: &[(AllocationIx, Home)],
) -> bool {
    let indices = moved.iter().map(|&(index, _)| index);
    if !may_be_ranges(objects, indices.clone()) {
        return true;
    }
    let mut others = on_list(objects, device, |entry| entry.count > 0 || entry.is_outstanding());
    for index in indices {
        others.remove(&index);
    }
    let mut room = packing_room(objects, memory, others, |index| objects[index].home());
    for &(index, to) in moved {
        room[to] = room[to].with(footprint(objects, index, to));
    }
    are_enough(memory, &room)
}

/// Whether what a device pins, or is to pin again, fits together with `joining`, if nothing else is there.
pub(crate) fn packs_with(
    objects: &Objects,
    memory: &Memory,
    device: DeviceIx,
    joining: impl Iterator<Item = AllocationIx> + Clone,
) -> bool {
    if !may_be_ranges(objects, joining.clone()) {
        return true;
    }
    let mut all = on_list(objects, device, |entry| entry.is_pinning() || entry.is_to_restore());
    all.extend(joining);
    let room = packing_room(objects, memory, all, |index| objects[index].home());
    are_enough(memory, &room)
}

/// The allocations that a device's list names so that `is_so`.
pub(crate) fn on_list(
    objects: &Objects,
    device: DeviceIx,
    is_so: impl Fn(&ListEntry) -> bool,
) -> BTreeSet<AllocationIx> {
    let is_listed = |index: &AllocationIx| objects[*index].entry(device).is_some_and(&is_so);
    pins::named_by_list(objects, device).filter(is_listed).collect()
}

/// Allocations in the order in which their ranges lie one behind the other, and waste nothing but what their weights say.
pub(crate) fn sort_for_packing(objects: &Objects, allocations: &mut [AllocationIx], home: Home) {
    allocations.sort_unstable_by_key(|&index| {
        let (alignment, size) = (alignment(objects, index, home), objects[index].size);
        (core::cmp::Reverse((alignment, size)), index)
    });
}

/// Devices with device lists whose ranges do not fit together, for the audit.
pub(crate) fn overweight(objects: &Objects, memory: &Memory, residency: &Residents) -> Vec<DeviceIx> {
    let is_over = |&device: &DeviceIx| !are_enough(memory, &room_on_list(objects, memory, residency, device));
    let devices = objects.devices.iter().filter(|(_, record)| !record.has_reference_lists());
    devices.map(|(index, _)| index).filter(is_over).collect()
}
