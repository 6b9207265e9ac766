//! A device's list placed anew: all that it requires leaves its place in thought, and gets one in the order that admission has
//! proved (`residency/weight.rs`). So whatever pieces the free ranges are in, a device with nobody beside it always finds its places.

use alloc::vec::Vec;

use crate::{
    adapter::patching::Hint,
    budget::account::{Account, Home},
    id::{AllocationIx, DeviceIx},
    placement::{self, Done, Target, Transaction, moving},
    residency::{packing, place, weight},
    state::State,
    units::{Extent, PAGE_SIZE_64K},
};

/// Gives all that `device` requires in a home new places: what it pins, and `members`. Returns whether all have one; if
/// not, some steps are to be taken back.
pub(crate) fn try_anew(
    state: &mut State,
    transaction: &mut Transaction,
    device: DeviceIx,
    members: &[AllocationIx],
    home: Home,
) -> bool {
    let mut required = packing::on_list(&state.objects, device, |entry| entry.is_pinning());
    required.extend(members);
    let mut required = Vec::from_iter(required);
    required.retain(|&index| state.objects[index].home() == home && weight::is_one_range(&state.objects[index]));
    if !required.iter().all(|&index| moving::may_move(&state.objects, index)) {
        return false;
    }
    packing::sort_for_packing(&state.objects, &mut required, home);
    match home.account() {
        Account::SYSTEM => try_anew_in_aperture(state, transaction, home, &required),
        account => try_anew_in_memory(state, transaction, account, &required),
    }
}

fn try_anew_in_memory(
    state: &mut State,
    transaction: &mut Transaction,
    account: Account,
    required: &[AllocationIx],
) -> bool {
    for &index in required {
        if place::memory_place(&state.objects, index).is_some_and(|(there, _)| there == account) {
            placement::free_all_of(&state.objects, &mut state.memory, transaction, index);
        }
        placement::note_member(transaction, index, None);
    }
    while let Some(victim) = placement::next_candidate(state, transaction, account) {
        placement::free_victim(&state.objects, &mut state.memory, transaction, victim);
    }
    moving::displace_pages(&state.objects, &mut state.memory, transaction, account);
    for &index in required {
        let hint = Hint { alignment: weight::alignment(&state.objects[index], account.into()), ..Hint::default() };
        let size = state.objects[index].size;
        let Some(range) = transaction.ranges(&mut state.memory, account).allocate(size, &hint) else { return false };
        transaction.done.push(Done::Taken(account, range));
        let stays = place::memory_place(&state.objects, index) == Some((account, range));
        placement::note_member(transaction, index, (!stays).then_some(Target::Memory(account, range)));
    }
    true
}

fn try_anew_in_aperture(
    state: &mut State,
    transaction: &mut Transaction,
    home: Home,
    required: &[AllocationIx],
) -> bool {
    for &index in required {
        if let Some(range) = state.memory.aperture.assigned(index) {
            moving::unassign(&mut state.memory, transaction, index, range);
        }
    }
    // With nobody else there the ranges lie one behind the other, the one with the largest rest last.
    let part = state.memory.aperture.part(home);
    let has_all = state.memory.aperture.is_unassigned(part);
    let rest = |&&index: &&AllocationIx| state.objects[index].size.wrapping_neg() % PAGE_SIZE_64K;
    let last = required.iter().max_by_key(rest).copied();
    let in_order = required.iter().copied().filter(|&index| Some(index) != last).chain(last);
    let mut end = part.offset;
    for index in Vec::from_iter(in_order) {
        let (offset, size) = (end.next_multiple_of(PAGE_SIZE_64K), state.objects[index].size);
        let assigned = match has_all {
            true => state.memory.aperture.assign_at(index, Extent { offset, size }),
            false => state.memory.aperture.assign(index, size, home),
        };
        let Some(range) = assigned else { return false };
        end = range.end();
        transaction.done.push(Done::Assigned(index));
        moving::note_in_aperture(&state.objects, transaction, index, range);
    }
    placement::fits_in_system(&state.memory, &state.residency, transaction, 0, 0)
}
