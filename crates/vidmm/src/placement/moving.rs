//! Room that is made by moving: members go elsewhere within their memory, or to the other one (SPL-08); and what lists keep in
//! place moves too while nothing uses it.

use alloc::{collections::BTreeMap, vec::Vec};

use crate::{
    budget::account::Account,
    id::{AllocationIx, DeviceIx},
    linear::Movable,
    memory::Memory,
    objects::{Objects, place::Place},
    placement::{self, Done, Target, Trial},
    residency::{place, weight},
    state::State,
    units::{Extent, PAGE_SIZE_64K},
};
/// Lets those move that need not stay where they are, the largest first, until there is a place for all.
pub(crate) fn try_by_moving(
    objects: &Objects,
    memory: &mut Memory,
    trial: &mut Trial,
    account: Account,
    index: AllocationIx,
) -> bool {
    let members = movable_in(objects, memory, trial, account);
    let alignment = |index: AllocationIx| weight::alignment(objects, index, account);
    let movable = members.iter().map(|&(member, range)| Movable { range, alignment: alignment(member) });
    let (movable, size) = (Vec::from_iter(movable), objects[index].size);
    let alignment = alignment(index);
    let Some(plan) = memory.linear(account).plan_compaction(&movable, size, alignment) else { return false };
    for moved in &plan.moves {
        placement::free_for(memory, trial, account, moved.range);
    }
    let member_at = |at: Extent| members.iter().find(|&&(_, range)| range == at).expect("members move").0;
    let moves = plan.moves.iter().map(|moved| (member_at(moved.range), moved.destination()));
    for (member, range) in Vec::from_iter(moves.chain([(index, plan.hole)])) {
        memory.linear(account).take(range).expect("the plan of moves says that it is free");
        trial.done.push(Done::Taken(account, range));
        let stays = place::memory_place(objects, member) == Some((account, range));
        placement::note_member(trial, member, (!stays).then_some(Target::Memory(account, range)));
    }
    true
}

/// Lets members that may be elsewhere go there, the largest first, until there is a place in `account` for one that may not.
pub(crate) fn try_by_resettling(state: &mut State, trial: &mut Trial, index: AllocationIx, account: Account) -> bool {
    let start = trial.mark();
    for (member, range) in movable_members(&state.objects, &state.memory, trial, account) {
        let mark = trial.mark();
        vacate(&state.objects, &mut state.memory, trial, member, range, account);
        let mut others = placement::accounts_of(&state.objects, member).into_iter().filter(|&other| other != account);
        if !others.any(|other| placement::try_in(state, trial, member, other)) {
            placement::undo(&mut state.memory, trial, mark);
        } else if placement::try_in(state, trial, index, account) {
            return true;
        }
    }
    placement::undo(&mut state.memory, trial, start);
    false
}

/// Members in an account that need not stay where they are, and their ranges; the largest first.
fn movable_members(objects: &Objects, memory: &Memory, trial: &Trial, account: Account) -> Vec<(AllocationIx, Extent)> {
    let in_memory = |member, target: &Option<Target>| match *target {
        Some(Target::Memory(account, range)) => Some((account, range)),
        Some(Target::Aperture) => None,
        None => place::memory_place(objects, member),
    };
    let is_there = |&(there, _): &(Account, Extent)| there == account;
    let range = |(&member, target): (&AllocationIx, &Option<Target>)| match account {
        Account::SYSTEM => Some((member, memory.aperture.assigned(member)?)),
        _ => Some((member, in_memory(member, target).filter(is_there)?.1)),
    };
    let mut movable: Vec<(AllocationIx, Extent)> = trial.members.iter().filter_map(range).collect();
    movable.retain(|&(member, _)| may_move(objects, member));
    movable.sort_by_key(|&(member, range)| (core::cmp::Reverse(range.size), member));
    movable
}

/// Members in an account that need not stay where they are, and what else lists keep there while nothing uses it.
fn movable_in(objects: &Objects, memory: &Memory, trial: &Trial, account: Account) -> Vec<(AllocationIx, Extent)> {
    let mut movable = movable_members(objects, memory, trial, account);
    let still = objects.devices.iter().filter(|&(device, _)| is_still(objects, device));
    let held = still.flat_map(|(_, books)| books.holdings.iter().copied());
    let is_bystander = |&index: &AllocationIx| {
        let is_there = objects.allocations.contains(index);
        is_there && objects[index].is_held() && !trial.members.contains_key(&index)
    };
    let range = |index: AllocationIx| match account {
        Account::SYSTEM => Some((index, memory.aperture.assigned(index)?)),
        _ => Some((index, place::memory_place(objects, index).filter(|&(there, _)| there == account)?.1)),
    };
    let bystanders: BTreeMap<AllocationIx, Extent> = held.filter(is_bystander).filter_map(range).collect();
    movable.extend(bystanders.into_iter().filter(|&(index, _)| may_move(objects, index)));
    movable.sort_by_key(|&(index, range)| (core::cmp::Reverse(range.size), index));
    movable
}

/// A member leaves the range that it has in an account.
pub(crate) fn vacate(
    objects: &Objects,
    memory: &mut Memory,
    trial: &mut Trial,
    member: AllocationIx,
    range: Extent,
    account: Account,
) {
    match account {
        Account::SYSTEM => {
            memory.aperture.release(member);
            trial.done.push(Done::Unassigned { index: member, range });
            let (wanted, kept) = placement::bytes_in_system(objects, member, trial.members[&member]);
            trial.done.push(Done::System { wanted: trial.wanted_in_system, kept: trial.kept_in_system });
            trial.wanted_in_system -= wanted;
            trial.kept_in_system -= kept;
        }
        _ => placement::free_for(memory, trial, account, range),
    }
}

/// An allocation that its device holds in another account than its next home leaves the range that it has there.
pub(crate) fn leave_for_home(objects: &Objects, memory: &mut Memory, trial: &mut Trial, index: AllocationIx) {
    match place::memory_place(objects, index) {
        Some((account, range)) if account != objects[index].account() && objects[index].is_held() => {
            placement::free_for(memory, trial, account, range);
        }
        _ => {}
    }
}

/// Whether an allocation may be given another place.
pub(crate) fn may_move(objects: &Objects, index: AllocationIx) -> bool {
    // An allocation that a decided portion relies on, of this DMA buffer or another, stays.
    !objects[index].any_entry(|device, entry| entry.is_holding() && !is_still(objects, device))
}

/// Whether what a device's list holds may move: nothing of the device is in flight, and what it hands out next is patched then.
fn is_still(objects: &Objects, device: DeviceIx) -> bool {
    let books = &objects[device];
    !books.has_reference_lists() && !books.is_in_flight()
}

/// Assigns a range of the aperture to an allocation by giving others, which need not stay where they are, other ranges.
pub(crate) fn assign_by_moving(objects: &Objects, memory: &mut Memory, trial: &mut Trial, index: AllocationIx) -> bool {
    let members = movable_in(objects, memory, trial, Account::SYSTEM);
    let movable = members.iter().map(|&(_, range)| Movable { range, alignment: PAGE_SIZE_64K });
    let (movable, size) = (Vec::from_iter(movable), objects[index].size);
    let Some(plan) = memory.aperture.plan_compaction(&movable, size) else { return false };
    let member_at = |at: Extent| members.iter().find(|&&(_, range)| range == at).expect("members move").0;
    let moves = plan.moves.iter().map(|moved| (member_at(moved.range), moved.destination()));
    let moves = Vec::from_iter(moves);
    for moved in &plan.moves {
        let member = member_at(moved.range);
        if !trial.members.contains_key(&member) {
            placement::note_member(trial, member, None);
        }
        vacate(objects, memory, trial, member, moved.range, Account::SYSTEM);
    }
    for &(member, range) in &moves {
        assign_at(memory, trial, member, range);
        note_in_aperture(objects, trial, member, range);
    }
    assign_at(memory, trial, index, plan.hole);
    true
}

/// A member is in the aperture from now on, at `range`; unless it is there already.
pub(crate) fn note_in_aperture(objects: &Objects, trial: &mut Trial, member: AllocationIx, range: Extent) {
    let is_shown_there = |place| matches!(place, Place::Aperture(page) if page.bytes() == range.offset);
    let stays = objects[member].place.is_some_and(is_shown_there);
    let target = (!stays).then_some(Target::Aperture);
    placement::note_in_system(objects, trial, member, target);
    placement::note_member(trial, member, target);
}

fn assign_at(memory: &mut Memory, trial: &mut Trial, index: AllocationIx, range: Extent) {
    let assigned = memory.aperture.assign(index, range.size, Some(range.offset));
    debug_assert_eq!(assigned, Some(range), "the plan of moves says that it is unassigned");
    trial.done.push(Done::Assigned(index));
}
