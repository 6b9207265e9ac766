use alloc::collections::BTreeSet;

use crate::{
    addresses,
    budget::account::{Account, Accounts, PerAccount},
    gpu_va::{Mapping, TableKey},
    id::{AllocationIx, DeviceIx, SubmissionNo},
    objects::{Objects, allocation::AllocationState, spans::SpanNo},
    residency::views,
    state::State,
};
/// The bytes that it takes to bring allocations in for a device.
pub(crate) struct Needs {
    /// The CPU sees what would leave its sight.
    pub unlock: bool,
    /// Bytes that the device does not hold.
    pub not_held: PerAccount<u64>,
    /// Bytes that are not where they are counted.
    pub missing: PerAccount<u64>,
    /// Bytes that are there, and would be evictable otherwise.
    pub kept: PerAccount<u64>,
}

/// Whether there is room for a device's list to be brought back.
pub(crate) fn can_bring_in(state: &mut State, device: DeviceIx, items: &[(AllocationIx, Option<SpanNo>)]) -> bool {
    let needs = needs(state.memory.accounts(), &mut state.objects, device, items);
    !needs.unlock && has_room_for(state, device, state.objects[device].dispatched(), &needs)
}

/// The bytes that it takes to bring `items` in. Each allocation counts once, however often it is named.
pub(crate) fn needs(
    accounts: Accounts,
    objects: &mut Objects,
    device: DeviceIx,
    items: &[(AllocationIx, Option<SpanNo>)],
) -> Needs {
    let (not_held, missing, kept) = (accounts.none(), accounts.none(), accounts.none());
    let mut needs = Needs { unlock: false, not_held, missing, kept };
    for &(index, _) in items {
        needs.unlock |= views::waits_for_unlock(objects, index);
        let allocation = &mut objects[index];
        if allocation.state.contains(AllocationState::SEEN) {
            continue;
        }
        allocation.state |= AllocationState::SEEN;
        let (account, size) = (allocation.account(), allocation.size);
        if !allocation.is_held_by(device) {
            needs.not_held[account] += size;
        }
        // An allocation that is elsewhere and is wanted here makes room there as any victim does.
        if allocation.place.is_none_or(|place| place.account() != account) {
            needs.missing[account] += size;
        } else if allocation.state.contains(AllocationState::EVICTABLE) {
            needs.kept[account] += size;
        }
    }
    items.iter().for_each(|&(index, _)| objects[index].state -= AllocationState::SEEN);
    needs
}

pub(crate) fn has_room_for(state: &State, device: DeviceIx, position: SubmissionNo, needs: &Needs) -> bool {
    state.memory.accounts().iter().all(|account| has_room_in(state, account, device, position, needs))
}

/// Whether all that is missing in an account fits into what is free and what is evictable there, without what the request
/// itself keeps.
///
/// Where it fits without a victim once the dead and the offered are gone, that is waited for while work of the device runs:
/// copying living content out and in again costs more. When nothing runs any more, what dies may itself wait for this
/// request.
fn has_room_in(state: &State, account: Account, device: DeviceIx, position: SubmissionNo, needs: &Needs) -> bool {
    let (missing, kept) = (needs.missing[account], needs.kept[account]);
    let (available, evictable) = (state.memory.available(account), &state.residency.evictable[account]);
    if missing <= available {
        return true;
    }
    if missing > available + evictable.bytes() - kept {
        return false;
    }
    let books = &state.objects[device];
    let nothing_runs = books.retired() >= books.dispatched();
    let worthless = evictable.worthless_bytes();
    nothing_runs
        || missing <= available + worthless
        || missing > available + worthless + dying_bytes(&state.objects, account, device, position)
}

/// Bytes of destroyed allocations that are held only for submissions of the device up to `position`.
fn dying_bytes(objects: &Objects, account: Account, device: DeviceIx, position: SubmissionNo) -> u64 {
    let lapsing = objects[device].lapsing.up_to(position);
    let dying = lapsing.filter(|&(last, index)| {
        let allocation = &objects[index];
        allocation.state.contains(AllocationState::DESTROYED)
            && allocation.account() == account
            && allocation.entries().all(|(user, entry)| {
                !entry.has_ungranted_span()
                    && (if user == device { entry.until() == last } else { !entry.is_holding() })
            })
    });
    // An Evict names an allocation more than once if it ends more than one span of it.
    let dying = BTreeSet::from_iter(dying.map(|(_, index)| index));
    dying.into_iter().map(|index| objects[index].size).sum()
}

/// Whether there is room for the tables that are set aside for a mapping, and not placed yet.
pub(crate) fn has_room_for_tables(state: &State, mapping: &Mapping) -> bool {
    let tables = &state.objects[mapping.process].tables;
    let unplaced = |key: &TableKey| tables.get(*key).is_some_and(|table| table.address.is_none());
    let account = state.adapter.tables_in;
    let bytes: u64 = addresses::tables_of(&state.adapter, mapping)
        .filter(unplaced)
        .map(|key| key.bytes_in(&state.adapter, account))
        .sum();
    // Those in system memory have their place already.
    bytes == 0 || bytes <= state.memory.available(account) + state.residency.evictable[account].bytes()
}
