//! Re-homings: allocations that move their home for a request of their device, once that is granted (D19).
//!
//! A device's list counts such an allocation in its next home from the call on. A device that pins it, or is to pin it again,
//! counts it where it is until the grant; so a request that was made before finds it there. It may leave the list and join it
//! again meanwhile: work that was submitted after the call requires it in its next home.

use alloc::vec::Vec;

use crate::{
    budget::account::{Choices, Home},
    id::{AllocationIx, DeviceIx},
    objects::{Objects, allocation::Rehoming, list::ListEntry},
    residency::{Residents, weight},
    shares::Shares,
};

impl Residents {
    /// The possible homes of an allocation that joins the list of `device`. A span without a submission fixes no home: a lock may have moved
    /// the allocation.
    pub(crate) fn choices(&self, objects: &Objects, index: AllocationIx, device: DeviceIx) -> Choices {
        let allocation = &objects[index];
        match allocation.rehoming() {
            Some(rehoming) => Choices::only(rehoming.to),
            None if !allocation.is_required() || !self.is_wanted(objects, index) => allocation.allowed_homes(),
            None => allocation.homes(device),
        }
    }

    /// Gives the allocations that are re-homed for a request, and are required still, their next homes. Returns the homes that they
    /// leave.
    pub(crate) fn begin_rehoming(
        &self,
        objects: &mut Objects,
        shares: &mut Shares,
        device: DeviceIx,
        request: u64,
    ) -> Vec<(AllocationIx, Home)> {
        let mut left = Vec::new();
        for (index, rehoming) in rehomed(objects, device, request) {
            if objects[index].is_required() {
                left.push((index, objects[index].home()));
                move_home(objects, shares, device, index, rehoming.to);
            }
        }
        left
    }

    /// The request was granted: the next homes of its allocations are theirs. Returns those that keep their own, as they were not
    /// required any more.
    pub(crate) fn end_rehoming(&self, objects: &mut Objects, device: DeviceIx, request: u64) -> Vec<AllocationIx> {
        let over = rehomed(objects, device, request);
        over.iter().for_each(|&(index, _)| objects.end_rehoming(index));
        let unmoved = over.into_iter().filter(|(index, rehoming)| objects[*index].home() != rehoming.to);
        unmoved.map(|(index, _)| index).collect()
    }
}

/// The allocations that a request of a device moves to other homes.
fn rehomed(objects: &Objects, device: DeviceIx, request: u64) -> Vec<(AllocationIx, Rehoming)> {
    let of_device = objects[device].rehomed.iter();
    let rehomings = of_device.filter_map(|&index| Some((index, objects[index].rehoming()?)));
    rehomings.filter(|(_, rehoming)| rehoming.request == request).collect()
}

/// The request was not granted: its allocations have their homes again.
pub(crate) fn undo_rehoming(
    objects: &mut Objects,
    shares: &mut Shares,
    device: DeviceIx,
    left: &[(AllocationIx, Home)],
) {
    left.iter().for_each(|&(index, home)| move_home(objects, shares, device, index, home));
}

/// Changes the home of an allocation that only this device has, with the bytes that the device pins or is to pin again.
pub(crate) fn move_home(objects: &mut Objects, shares: &mut Shares, device: DeviceIx, index: AllocationIx, home: Home) {
    let (from, to) = (objects[index].account(), home.account());
    weight::set_home(objects, index, home);
    let (allocation, record) = (&objects.allocations[index], &mut objects.devices[device]);
    let size = allocation.size;
    let entry = allocation.entry(device);
    if entry.is_some_and(ListEntry::is_to_restore) {
        record.to_restore[from] -= size;
        record.to_restore[to] += size;
    } else if entry.is_some_and(ListEntry::is_pinning) {
        record.pinned[from] -= size;
        record.pinned[to] += size;
    }
    shares.renew_promise(objects, device);
}

/// Notes a listed allocation with several homes.
#[inline(always)]
pub(crate) fn note_choice(objects: &mut Objects, device: DeviceIx, index: AllocationIx) {
    if objects[index].choices.are_several() {
        note_several_homes(objects, device, index);
    }
}

fn note_several_homes(objects: &mut Objects, device: DeviceIx, index: AllocationIx) {
    if objects[index].entry_mut(device).set_with_choice(true) {
        return;
    }
    let with_choice = &objects[device].with_choice;
    if with_choice.len() == with_choice.capacity() {
        strike_out_unlisted(objects, device);
        let with_choice = &mut objects[device].with_choice;
        with_choice.reserve(with_choice.len() + 1);
    }
    objects[device].with_choice.push(index);
}

/// Strikes unlisted allocations out of a device's set of allocations with several homes.
pub(crate) fn strike_out_unlisted(objects: &mut Objects, device: DeviceIx) {
    let Objects { allocations, devices, .. } = objects;
    let with_choice = &mut devices[device].with_choice;
    // A reused index may be in the set twice; only the first finds the note of the entry.
    with_choice.retain(|&index| {
        let is_open = allocations.contains(index) && allocations[index].entry(device).is_some();
        is_open && {
            let entry = allocations[index].entry_mut(device);
            entry.set_with_choice(false) && entry.count > 0
        }
    });
    for &index in &*with_choice {
        _ = allocations[index].entry_mut(device).set_with_choice(true);
    }
}
