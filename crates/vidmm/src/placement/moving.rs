//! Room that is made by moving: members go elsewhere within their memory, or to the other one (SPL-08); and what lists keep in
//! place moves too while nothing uses it.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use vidmm_linear::Movable;

use crate::{
    budget::account::{Account, Home},
    id::{AllocationIx, DeviceIx},
    memory::Memory,
    objects::{Objects, place::Place},
    placement::{self, Done, Target, Transaction},
    residency::{place, weight},
    state::State,
    units::{Extent, PAGE_SIZE_64K},
};
/// Lets those move that need not stay where they are, the largest first, until there is a place for all.
pub(crate) fn try_by_moving(
    objects: &Objects,
    memory: &mut Memory,
    transaction: &mut Transaction,
    account: Account,
    index: AllocationIx,
) -> bool {
    let members = movable_in(objects, memory, transaction, account.into());
    let alignment = |index: AllocationIx| weight::alignment(&objects[index], account.into());
    let movable = members.iter().map(|&(member, range)| Movable { range, alignment: alignment(member) });
    let (movable, size) = (Vec::from_iter(movable), objects[index].size);
    let alignment = alignment(index);
    let Some(plan) = transaction.ranges(memory, account).plan_compaction(&movable, size, alignment) else {
        return false;
    };
    for moved in &plan.moves {
        placement::free_for(memory, transaction, account, moved.range);
    }
    let member_at = |at: Extent| members.iter().find(|&&(_, range)| range == at).expect("members move").0;
    let moves = plan.moves.iter().map(|moved| (member_at(moved.range), moved.destination()));
    for (member, range) in Vec::from_iter(moves.chain([(index, plan.hole)])) {
        transaction.ranges(memory, account).take(range).expect("the plan of moves says that it is free");
        transaction.done.push(Done::Taken(account, range));
        let stays = place::memory_place(objects, member) == Some((account, range));
        placement::note_member(transaction, member, (!stays).then_some(Target::Memory(account, range)));
    }
    true
}

/// Lets members that may be elsewhere go there, the largest first, until there is a place in `home` for one that may not.
pub(crate) fn try_by_resettling(
    state: &mut State,
    transaction: &mut Transaction,
    index: AllocationIx,
    home: Home,
) -> bool {
    let start = transaction.mark();
    for (member, range) in movable_members(&state.objects, &state.memory, transaction, home) {
        let mark = transaction.mark();
        vacate(&state.objects, &mut state.memory, transaction, member, range, home.account());
        let mut others = placement::homes_of(&state.objects, member).into_iter().filter(|&other| other != home);
        if !others.any(|other| placement::try_in(state, transaction, member, other)) {
            placement::undo(&mut state.memory, transaction, mark);
        } else if placement::try_in(state, transaction, index, home) {
            return true;
        }
    }
    placement::undo(&mut state.memory, transaction, start);
    false
}

/// Members in a home that need not stay where they are, and their ranges; the largest first.
fn movable_members(
    objects: &Objects,
    memory: &Memory,
    transaction: &Transaction,
    home: Home,
) -> Vec<(AllocationIx, Extent)> {
    let range = |(&member, target): (&AllocationIx, &Option<Target>)| {
        let range = match *target {
            Some(Target::Memory(account, range)) => (home == account.into()).then_some(range),
            Some(Target::Aperture) => assigned_in(memory, home, member),
            Some(Target::Pages) => None,
            None => range_in(objects, memory, home, member),
        };
        Some((member, range?))
    };
    let mut movable: Vec<(AllocationIx, Extent)> = transaction.members.iter().filter_map(range).collect();
    movable.retain(|&(member, _)| may_move(objects, member));
    movable.sort_by_key(|&(member, range)| (core::cmp::Reverse(range.size), member));
    movable
}

/// The range of a home that is assigned to an allocation; none if that is a memory segment.
fn assigned_in(memory: &Memory, home: Home, index: AllocationIx) -> Option<Extent> {
    memory.aperture.assigned(index).filter(|&range| memory.aperture.part(home).contains(range))
}

/// The range that an allocation has in a home; none if it is pages.
fn range_in(objects: &Objects, memory: &Memory, home: Home, index: AllocationIx) -> Option<Extent> {
    let in_memory = place::memory_place(objects, index).filter(|_| weight::is_one_range(&objects[index]));
    let in_memory = in_memory.filter(|&(account, _)| home == account.into());
    in_memory.map(|(_, range)| range).or_else(|| assigned_in(memory, home, index))
}

/// Members in a home that need not stay where they are, and what else lists keep there while nothing uses it.
fn movable_in(
    objects: &Objects,
    memory: &Memory,
    transaction: &Transaction,
    home: Home,
) -> Vec<(AllocationIx, Extent)> {
    let mut movable = movable_members(objects, memory, transaction, home);
    let still = objects.devices.iter().filter(|&(device, _)| is_still(objects, device));
    let pinned = still.flat_map(|(_, record)| record.pinned_allocations.iter().copied());
    let is_bystander = |&index: &AllocationIx| {
        let is_there = objects.allocations.contains(index);
        is_there && objects[index].is_pinned() && !transaction.members.contains_key(&index)
    };
    let range = |index: AllocationIx| Some((index, range_in(objects, memory, home, index)?));
    let bystanders: BTreeMap<AllocationIx, Extent> = pinned.filter(is_bystander).filter_map(range).collect();
    movable.extend(bystanders.into_iter().filter(|&(index, _)| may_move(objects, index)));
    movable.sort_by_key(|&(index, range)| (core::cmp::Reverse(range.size), index));
    movable
}

/// Lets pages that lists keep in a memory segment make room for ranges while nothing uses them: they go wherever there is room. Returns
/// whether there were any.
pub(crate) fn displace_pages(
    objects: &Objects,
    memory: &mut Memory,
    transaction: &mut Transaction,
    account: Account,
) -> bool {
    let still = objects.devices.iter().filter(|&(device, _)| is_still(objects, device));
    let pinned = still.flat_map(|(_, record)| record.pinned_allocations.iter().copied());
    let named = transaction.members.keys().copied();
    let is_there = |&index: &AllocationIx| {
        let is_in = |place: Place| matches!(place, Place::Memory(there, _) if there == account);
        objects.allocations.contains(index)
            && objects[index].place.is_some_and(is_in)
            && objects[index].account() == account
            && !weight::is_one_range(&objects[index])
            && transaction.members.get(&index).is_none_or(Option::is_none)
            && (objects[index].is_pinned() || transaction.members.contains_key(&index))
    };
    let pages = BTreeSet::from_iter(pinned.chain(named).filter(is_there));
    let pages = Vec::from_iter(pages.into_iter().filter(|&index| may_move(objects, index)));
    for &index in &pages {
        placement::free_all_of(objects, memory, transaction, index);
        placement::note_member(transaction, index, Some(Target::Pages));
    }
    !pages.is_empty()
}

/// A member leaves the range that it has in an account.
pub(crate) fn vacate(
    objects: &Objects,
    memory: &mut Memory,
    transaction: &mut Transaction,
    member: AllocationIx,
    range: Extent,
    account: Account,
) {
    match account {
        Account::SYSTEM => {
            unassign(memory, transaction, member, range);
            let (wanted, kept) = placement::bytes_in_system(objects, member, transaction.members[&member]);
            transaction
                .done
                .push(Done::System { wanted: transaction.wanted_in_system, kept: transaction.kept_in_system });
            transaction.wanted_in_system -= wanted;
            transaction.kept_in_system -= kept;
        }
        _ => placement::free_for(memory, transaction, account, range),
    }
}

/// A member that is elsewhere than in its next home leaves the range that it has there: also where nothing pins it, for a member
/// is no victim.
pub(crate) fn leave_for_home(
    objects: &Objects,
    memory: &mut Memory,
    transaction: &mut Transaction,
    index: AllocationIx,
) {
    let home = objects[index].home();
    if place::memory_place(objects, index).is_some_and(|(account, _)| home != account.into()) {
        placement::free_all_of(objects, memory, transaction, index);
        transaction.leaving.insert(index);
    }
    if let Some(range) = memory.aperture.assigned(index).filter(|range| memory.aperture.home_at(range.offset) != home) {
        unassign(memory, transaction, index, range);
    }
}

/// A range of an aperture is an allocation's no more.
pub(crate) fn unassign(memory: &mut Memory, transaction: &mut Transaction, index: AllocationIx, range: Extent) {
    memory.aperture.release(index);
    transaction.done.push(Done::Unassigned { index, range });
}

/// Whether an allocation may be given another place.
pub(crate) fn may_move(objects: &Objects, index: AllocationIx) -> bool {
    // An allocation that a decided portion relies on, of this DMA buffer or another, stays.
    !objects[index].any_entry(|device, entry| entry.is_pinning() && !is_still(objects, device))
}

/// Whether what a device's list pins may move: nothing of the device is in flight, and what it hands out next is patched then.
fn is_still(objects: &Objects, device: DeviceIx) -> bool {
    let record = &objects[device];
    !record.has_reference_lists() && !record.is_in_flight()
}

/// Assigns a range of an aperture to an allocation by giving others, which need not stay where they are, other ranges.
pub(crate) fn assign_by_moving(
    objects: &Objects,
    memory: &mut Memory,
    transaction: &mut Transaction,
    home: Home,
    index: AllocationIx,
) -> bool {
    // A plan of moves counts from the start of the aperture.
    let start = memory.aperture.part(home).offset;
    let members = movable_in(objects, memory, transaction, home);
    let from_start = |range: Extent| Extent { offset: range.offset - start, ..range };
    let on_line = |range: Extent| Extent { offset: range.offset + start, ..range };
    let movable = members.iter().map(|&(_, range)| Movable { range: from_start(range), alignment: PAGE_SIZE_64K });
    let (movable, size) = (Vec::from_iter(movable), objects[index].size);
    let Some(plan) = memory.aperture.plan_compaction(&movable, size, home) else { return false };
    let member_at = |at: Extent| members.iter().find(|&&(_, range)| range == on_line(at)).expect("members move").0;
    let moves = plan.moves.iter().map(|moved| (member_at(moved.range), on_line(moved.destination())));
    let moves = Vec::from_iter(moves);
    for moved in &plan.moves {
        let member = member_at(moved.range);
        if !transaction.members.contains_key(&member) {
            placement::note_member(transaction, member, None);
        }
        vacate(objects, memory, transaction, member, on_line(moved.range), Account::SYSTEM);
    }
    for &(member, range) in &moves {
        assign_at(memory, transaction, member, range);
        note_in_aperture(objects, transaction, member, range);
    }
    assign_at(memory, transaction, index, on_line(plan.hole));
    true
}

/// A member is in the aperture from now on, at `range`; unless it is there already.
pub(crate) fn note_in_aperture(objects: &Objects, transaction: &mut Transaction, member: AllocationIx, range: Extent) {
    let is_shown_there = |place| matches!(place, Place::Aperture(page) if page.bytes() == range.offset);
    let stays = objects[member].place.is_some_and(is_shown_there);
    let target = (!stays).then_some(Target::Aperture);
    placement::note_in_system(objects, transaction, member, target);
    placement::note_member(transaction, member, target);
}

fn assign_at(memory: &mut Memory, transaction: &mut Transaction, index: AllocationIx, range: Extent) {
    memory.aperture.assign_at(index, range).expect("the plan of moves says that it is unassigned");
    transaction.done.push(Done::Assigned(index));
}
