//! Packing: whether the allocations of a device that are one range each fit together (RES-19).
//!
//! Without GPU virtual addresses every allocation is one range. With GPU virtual addresses, an allocation that engines address
//! physically is one range (SEG-13). All others are pages: pages fit if their bytes fit (D10). A range *weighs* its size, rounded up to
//! its alignment. Ranges in the order of falling alignments, without gaps, take no more than the sum of their weights: each begins at the
//! end of the range before. Ranges with a sum of weights up to the size of an empty segment fit into the segment, and fewer of these ranges
//! fit too. A device's list is admitted by this sum.

use alloc::collections::BTreeSet;

use crate::{
    budget::account::{Account, Home, Homes, PerHome},
    id::{AllocationIx, DeviceIx},
    memory::Memory,
    objects::{
        Objects,
        list::ListEntry,
        ranges::{Footprint, Footprints, ListRanges},
    },
    residency::{pins, weight},
};

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

/// The room that summed ranges leave in each home.
fn room_beside(memory: &Memory, sums: &PerHome<Footprints>) -> PerHome<PackingRoom> {
    let room = |home| {
        let (capacity, sum) = (i128::from(range_capacity(memory, home)), &sums[home]);
        // Weights of lists are below 2^64.
        PackingRoom { left: capacity - sum.weight() as i128, tail: sum.tail().into() }
    };
    memory.homes().per(room)
}

fn are_enough(memory: &Memory, room: &PerHome<PackingRoom>) -> bool {
    memory.homes().iter().all(|home| room[home].is_enough())
}

/// The room on a device's list for more ranges.
pub(crate) fn packing_room(objects: &Objects, memory: &Memory, device: DeviceIx) -> PerHome<PackingRoom> {
    room_beside(memory, &objects[device].ranges.listed)
}

/// The room for ranges on a device's list without some listed allocations.
pub(crate) fn packing_room_without(
    objects: &Objects,
    memory: &Memory,
    device: DeviceIx,
    without: impl Iterator<Item = AllocationIx>,
) -> PerHome<PackingRoom> {
    let mut listed = objects[device].ranges.listed.clone();
    for index in without.filter(|&index| weight::is_one_range(&objects[index])) {
        let home = objects[index].home();
        listed[home].remove(weight::footprint(&objects[index], home));
    }
    room_beside(memory, &listed)
}

fn may_be_ranges(objects: &Objects, mut indices: impl Iterator<Item = AllocationIx>) -> bool {
    indices.any(|index| weight::is_one_range(&objects[index]))
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
    let mut room = room_beside(memory, &summed(objects, memory.homes(), others));
    for &(index, to) in moved {
        room[to] = room[to].with(weight::footprint(&objects[index], to));
    }
    are_enough(memory, &room)
}

/// Whether what a device pins, or is to pin again, fits together with `joining`, if nothing else is there.
pub(crate) fn packs_with(
    objects: &Objects,
    memory: &Memory,
    device: DeviceIx,
    joining: impl Iterator<Item = AllocationIx>,
) -> bool {
    let joining = BTreeSet::from_iter(joining.filter(|&index| weight::is_one_range(&objects[index])));
    if joining.is_empty() {
        return true;
    }
    let mut room = room_beside(memory, &objects[device].ranges.pinned);
    let is_pinned = |&index: &AllocationIx| objects[index].entry(device).is_some_and(ListEntry::is_pinned);
    for index in joining.into_iter().filter(|index| !is_pinned(index)) {
        let home = objects[index].home();
        room[home] = room[home].with(weight::footprint(&objects[index], home));
    }
    are_enough(memory, &room)
}

/// The allocations on a device's list whose entries are so.
pub(crate) fn on_list(
    objects: &Objects,
    device: DeviceIx,
    is_so: impl Fn(&ListEntry) -> bool,
) -> BTreeSet<AllocationIx> {
    let is_listed = |index: &AllocationIx| objects[*index].entry(device).is_some_and(&is_so);
    pins::named_by_list(objects, device).filter(is_listed).collect()
}

/// Sorts allocations by falling alignment and size: in this order ranges without gaps take no more than the sum of their weights.
pub(crate) fn sort_for_packing(objects: &Objects, allocations: &mut [AllocationIx], home: Home) {
    allocations.sort_unstable_by_key(|&index| {
        let (alignment, size) = (weight::alignment(&objects[index], home), objects[index].size);
        (core::cmp::Reverse((alignment, size)), index)
    });
}

/// The sums of allocations' ranges.
fn summed(objects: &Objects, homes: Homes, allocations: BTreeSet<AllocationIx>) -> PerHome<Footprints> {
    let mut sums = ListRanges::none(homes).listed;
    for index in allocations.into_iter().filter(|&index| weight::is_one_range(&objects[index])) {
        let home = objects[index].home();
        sums[home].add(weight::footprint(&objects[index], home));
    }
    sums
}

/// For the audit: whether the sums of a device's ranges are right, and the listed ranges of a device list fit together.
pub(crate) fn has_right_sums(objects: &Objects, memory: &Memory, device: DeviceIx) -> (bool, bool) {
    let record = &objects[device];
    let is_sum = |sums: &PerHome<Footprints>, of: fn(&ListEntry) -> bool| {
        *sums == summed(objects, memory.homes(), on_list(objects, device, of))
    };
    let are_right =
        is_sum(&record.ranges.listed, |entry| entry.count > 0) && is_sum(&record.ranges.pinned, ListEntry::is_pinned);
    let are_enough = are_enough(memory, &room_beside(memory, &record.ranges.listed));
    (are_right, are_enough || record.has_reference_lists())
}
