//! Homes: which allocations of a device may be counted in another home than now (D19).

use alloc::vec::Vec;

use crate::{
    adapter::Adapter,
    budget::account::{Choices, Home},
    id::{AllocationIx, DeviceIx},
    objects::{Objects, allocation::AllocationState, list::ListEntry},
    residency::packing,
    state::State,
};

/// The memory segment in which an allocation on a device's list would rather be than in its home; none if it is there.
pub(crate) fn prefers_elsewhere(objects: &Objects, device: DeviceIx, index: AllocationIx) -> Option<Home> {
    let allocation = objects.allocations.contains(index).then(|| &objects[index])?;
    let is_listed = allocation.device == device && allocation.entry(device).is_some_and(|entry| entry.count > 0);
    let home = allocation.choices.first().filter(|home| is_listed && home.account().is_memory())?;
    (home.account() != allocation.account()).then_some(home)
}

/// The memory segments in which an allocation would rather be than in its home, first choice first.
pub(crate) fn better_homes(objects: &Objects, index: AllocationIx) -> impl Iterator<Item = Home> + use<> {
    let present = objects[index].account();
    let better = objects[index].choices.into_iter().take_while(move |home| home.account() != present);
    better.filter(|home| home.account().is_memory())
}

/// Whether an allocation on a device's list may go to another home now: the CPU does not see it, and no request is to bring it in.
pub(crate) fn may_come_home(state: &State, device: DeviceIx, index: AllocationIx) -> bool {
    let allocation = &state.objects[index];
    let is_seen = allocation.is_any(AllocationState::LOCKED | AllocationState::LOCK_PENDING);
    let is_granted = allocation.entry(device).is_some_and(|entry| entry.is_open() && !entry.has_ungranted_span());
    let is_free = is_granted && !is_seen && allocation.rehoming().is_none();
    is_free && choices_if_movable(&state.adapter, &state.objects, device, index).is_some()
}

/// The homes that an allocation of a device may have, first choice first; none if it may not be elsewhere than it is, or another device
/// has opened it.
fn choices_if_movable(
    adapter: &Adapter,
    objects: &Objects,
    device: DeviceIx,
    index: AllocationIx,
) -> Option<(AllocationIx, Choices)> {
    let allocation = objects.allocations.contains(index).then(|| &objects[index])?;
    let is_only_here = allocation.openings().next().is_none() && allocation.device == device;
    let is_listed = allocation.entry(device).is_some_and(|entry| entry.count > 0);
    let choices = allocation.allowed_homes();
    let may_move = is_only_here && is_listed && choices != Choices::only(allocation.home());
    // An allocation that engines address physically stays in the home that it was admitted to, unless the CPU is to see it.
    let is_to_be_seen = allocation.is_any(AllocationState::LOCKED | AllocationState::LOCK_PENDING);
    let is_free = !allocation.is(AllocationState::ACCESSED_PHYSICALLY) || (adapter.is_physical() && is_to_be_seen);
    (may_move && is_free).then_some((index, choices))
}

/// Allocations of a device that is to run no work before all of its list is there, and may be elsewhere than they are; those among them
/// that its requests are to bring in. None while work or a request requires an allocation that has left the list: the list does not
/// say what must fit together then.
pub(crate) fn movable_with_requests(state: &State, device: DeviceIx) -> Option<Vec<(AllocationIx, Choices)>> {
    let (objects, record) = (&state.objects, &state.objects[device]);
    let has_left = |entry: &ListEntry| entry.count == 0 && entry.is_outstanding();
    if record.granted < record.requests.len() && !packing::on_list(objects, device, has_left).is_empty() {
        return None;
    }
    let named = packing::on_list(objects, device, |entry| entry.count > 0).into_iter();
    let movable = named.filter_map(|index| choices_if_movable(&state.adapter, objects, device, index));
    Some(movable.filter(|(index, _)| state.objects[*index].rehoming().is_none()).collect())
}
