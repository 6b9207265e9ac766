//! Room for a device's list where each allocation is one range: the same trials as for portions, with other members (D3).
//!
//! A list finds its places beside what others require, or by moving what nothing uses; or, with nobody beside it, placed anew.
//! A list that finds none waits for its device's turn, and other devices yield to that (`turns.rs`).

use alloc::{collections::BTreeSet, vec::Vec};
use core::cmp::Reverse;

use crate::{
    adapter::Adapter,
    budget::account::{Choices, PerAccount},
    id::{AllocationIx, DeviceIx},
    objects::{Objects, allocation::AllocationState, request::RequestKind, spans::SpanNo, turn::CALM_SHARE},
    placement::{self, Mark, Trial, anew},
    residency::{holds, views, weight},
    state::State,
};
/// The allocations that a request names, or that are to be brought back.
pub(crate) type Items = [(AllocationIx, Option<SpanNo>)];

/// Whether a device that waits for its turn would find its places now, if it had the turn.
pub(crate) fn would_be_placed(state: &mut State, device: DeviceIx) -> bool {
    if state.objects[device].is_in_flight() {
        // The work that it runs keeps its places, and ends.
        return true;
    }
    let mut items = holds::items_to_bring_back(&state.objects, device);
    items.extend(next_with_turn(state, device).iter().flatten());
    if items.iter().any(|&(index, _)| views::waits_for_unlock(&state.objects, index)) {
        return true;
    }
    let mut trial = Trial::default();
    let members = members_of(&state.objects, &items);
    let is_placed = try_list(state, &mut trial, device, &members);
    placement::undo(&mut state.memory, &mut trial, Mark::START);
    is_placed
}

/// The allocations that the next ungranted request of a device names, if the device may hold them beside those that it held.
pub(crate) fn next_with_turn(state: &State, device: DeviceIx) -> Option<Vec<(AllocationIx, Option<SpanNo>)>> {
    let books = &state.objects[device];
    let RequestKind::MakeResident(items) = &books.requests.get(books.granted)?.kind else { return None };
    let items = holds::still_wanted(&state.objects, device, items);
    let indices: BTreeSet<AllocationIx> = items.iter().map(|&(index, _)| index).collect();
    let mut added: PerAccount<u64> = state.memory.accounts().none();
    for &index in &indices {
        let allocation = &state.objects[index];
        let is_counted = allocation.entry(device).is_some_and(|entry| entry.is_holding() || entry.is_owed());
        added[allocation.account()] += if is_counted { 0 } else { allocation.size };
    }
    let is_visible = !items.iter().any(|&(index, _)| views::waits_for_unlock(&state.objects, index));
    let may_be_held = state.shares.may_hold(&state.objects, &state.memory, device, &added)
        && weight::packs_with(&state.adapter, &state.objects, &state.memory, device, indices.into_iter());
    (is_visible && may_be_held).then_some(items)
}

/// The allocations of `items`, each once: first what is somewhere already, then the largest.
pub(crate) fn members_of(objects: &Objects, items: &Items) -> Vec<AllocationIx> {
    let mut members: Vec<AllocationIx> = items.iter().map(|&(index, _)| index).collect();
    members.sort_unstable_by_key(|&index| {
        let allocation = &objects[index];
        (allocation.place.is_none(), Reverse(allocation.size), index)
    });
    members.dedup();
    members
}

/// Gives members of a device's list their places. Where the free ranges are in too small pieces, all that the device requires
/// is placed anew.
pub(crate) fn try_list(state: &mut State, trial: &mut Trial, device: DeviceIx, members: &[AllocationIx]) -> bool {
    for account in state.memory.accounts().iter() {
        let mark = trial.mark();
        let of_account = |index: &AllocationIx| state.objects[*index].account() == account;
        let of_account = Vec::from_iter(members.iter().copied().filter(of_account));
        if of_account.iter().all(|&index| placement::try_member(state, trial, index)) {
            continue;
        }
        placement::undo(&mut state.memory, trial, mark);
        if !anew::try_anew(state, trial, device, &of_account, account) {
            placement::undo(&mut state.memory, trial, Mark::START);
            return false;
        }
    }
    true
}

/// Whether all that a device would rather have in another memory segment fits there, with room to spare.
pub(crate) fn could_come_back(state: &State, device: DeviceIx) -> bool {
    let books = &state.objects[device];
    let mut demoted: PerAccount<u64> = state.memory.accounts().none();
    for (index, accounts) in movable(&state.adapter, &state.objects, device) {
        let (allocation, prefers) = (&state.objects[index], accounts.first());
        if let Some(prefers) = prefers.filter(|&prefers| prefers.is_memory() && prefers != allocation.account()) {
            demoted[prefers] += allocation.size;
        }
    }
    let mut wanted = state.memory.accounts().memory().filter(|&account| demoted[account] > 0).peekable();
    wanted.peek().is_some()
        && wanted.all(|account| {
            let spare = state.memory.list_capacity(account) / CALM_SHARE;
            let beside = state.shares.not_promised_to_others(&state.objects, &state.memory, device, account);
            books.needed(account).saturating_add(demoted[account]).saturating_add(spare) <= beside
        })
}

/// Allocations of a device that may be elsewhere than they are, and that no other device counts; with the accounts where they
/// may be, first choice first.
pub(crate) fn movable(
    adapter: &Adapter,
    objects: &Objects,
    device: DeviceIx,
) -> impl Iterator<Item = (AllocationIx, Choices)> {
    let books = &objects[device];
    let held = books.holdings.iter().copied();
    let to_bring_back = books.to_bring_back.iter().filter_map(|&id| objects.allocations.lookup(id).ok());
    held.chain(to_bring_back).filter_map(move |index| {
        if !objects.allocations.contains(index) {
            return None;
        }
        let allocation = &objects[index];
        let is_only_here = allocation.openings().next().is_none() && allocation.device == device;
        let is_listed = allocation.entry(device).is_some_and(|entry| entry.count > 0);
        let allocation_state = allocation.state;
        let accounts = allocation.allowed_accounts();
        let may_move = is_only_here && is_listed && accounts != Choices::only(allocation.account());
        // A range of the aperture is assigned at admission; without GPU virtual addresses with the grant, but what was admitted
        // to one account stays there unless the CPU is to see it.
        let is_to_be_seen = allocation_state.intersects(AllocationState::LOCKED | AllocationState::LOCK_PENDING);
        let is_free = !allocation_state.contains(AllocationState::ACCESSED_PHYSICALLY)
            || (adapter.is_physical() && is_to_be_seen);
        (may_move && is_free).then_some((index, accounts))
    })
}
