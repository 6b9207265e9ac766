//! A device's list placed anew: all that it requires leaves its place in thought, and gets one in the order that admission has
//! proved (`residency/weight.rs`). So whatever pieces the free ranges are in, a device with nobody beside it always finds its places.

use alloc::vec::Vec;

use crate::{
    adapter::patching::Wish,
    budget::account::Account,
    id::{AllocationIx, DeviceIx},
    placement::{self, Done, Target, Trial, moving},
    residency::{place, weight},
    state::State,
    units::{Extent, PAGE_SIZE_64K},
};

/// Gives all that `device` requires in an account new places: what it holds, and `members`. Returns whether all have one; if
/// not, some steps are to be taken back.
pub(crate) fn try_anew(
    state: &mut State,
    trial: &mut Trial,
    device: DeviceIx,
    members: &[AllocationIx],
    account: Account,
) -> bool {
    let mut required = weight::on_list(&state.objects, device, |entry| entry.is_holding());
    required.extend(members);
    let mut required = Vec::from_iter(required);
    required.retain(|&index| {
        state.objects[index].account() == account
            && weight::is_one_range(&state.adapter, &state.objects, index, account)
    });
    if !required.iter().all(|&index| moving::may_move(&state.objects, index)) {
        return false;
    }
    weight::sort_for_packing(&state.objects, &mut required, account);
    match account {
        Account::SYSTEM => try_anew_in_aperture(state, trial, &required),
        _ => try_anew_in_memory(state, trial, account, &required),
    }
}

fn try_anew_in_memory(state: &mut State, trial: &mut Trial, account: Account, required: &[AllocationIx]) -> bool {
    for &index in required {
        if let Some((account, range)) = place::memory_place(&state.objects, index) {
            placement::free_for(&mut state.memory, trial, account, range);
        }
        placement::note_member(trial, index, None);
    }
    while let Some(victim) = placement::next_candidate(&state.objects, &state.residency, trial, account) {
        placement::free_victim(&state.objects, &mut state.memory, trial, account, victim);
    }
    for &index in required {
        let wish = Wish { alignment: weight::alignment(&state.objects, index, account), ..Wish::default() };
        let size = state.objects[index].size;
        let Some(range) = state.memory.linear(account).allocate(size, &wish) else { return false };
        trial.done.push(Done::Taken(account, range));
        let stays = place::memory_place(&state.objects, index) == Some((account, range));
        placement::note_member(trial, index, (!stays).then_some(Target::Memory(account, range)));
    }
    true
}

fn try_anew_in_aperture(state: &mut State, trial: &mut Trial, required: &[AllocationIx]) -> bool {
    for &index in required {
        if let Some(range) = state.memory.aperture.assigned(index) {
            state.memory.aperture.release(index);
            trial.done.push(Done::Unassigned { index, range });
        }
    }
    // With nobody else there the ranges lie one behind the other, the one with the largest rest last.
    let has_all = state.memory.aperture.is_unassigned(Extent { offset: 0, size: state.memory.aperture.size() });
    let rest = |&&index: &&AllocationIx| state.objects[index].size.wrapping_neg() % PAGE_SIZE_64K;
    let last = required.iter().max_by_key(rest).copied();
    let in_order = required.iter().copied().filter(|&index| Some(index) != last).chain(last);
    let mut end: u64 = 0;
    for index in Vec::from_iter(in_order) {
        let at = has_all.then_some(end.next_multiple_of(PAGE_SIZE_64K));
        let size = state.objects[index].size;
        let Some(range) = state.memory.aperture.assign(index, size, at) else { return false };
        end = range.end();
        trial.done.push(Done::Assigned(index));
        moving::note_in_aperture(&state.objects, trial, index, range);
    }
    placement::fits_in_system(&state.memory, &state.residency, trial, 0, 0)
}
