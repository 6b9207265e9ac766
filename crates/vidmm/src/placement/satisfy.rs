//! Whether a requirement can be met now, and how: the one place where that is decided (D3, D20).
//!
//! Bytes are compared account by account; allocations that are one range each get their places in a transaction. A list finds its
//! ranges beside those of others, or by moving those that nothing uses; or, with nobody beside it, placed anew.

use alloc::{collections::BTreeSet, vec::Vec};
use core::cmp::Reverse;

use crate::{
    budget::account::{Account, Accounts, Home, PerAccount},
    gpu_va::TableKey,
    id::{AllocationIx, DeviceIx, ProcessIx, SubmissionNo},
    objects::{Objects, allocation::AllocationState, place::Place, spans::SpanNo},
    placement::{self, Mark, Placement, Transaction, anew, moving},
    residency::{packing, rehoming, views, weight},
    state::State,
};

/// The allocations that a request names, or that are to be brought back.
pub(crate) type Items = [(AllocationIx, Option<SpanNo>)];

/// Why a requirement cannot be met now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shortfall {
    /// The device alone waits: it would pin what others are promised, until work that it submitted before has been dispatched; or the
    /// CPU sees what would leave its sight, until it is unlocked (U-40).
    Own,
    /// There are too few bytes at present.
    Room,
    /// There are bytes enough in an account, but not the ranges.
    Place(Account),
}

/// Finds what all of `items` need to be resident for a device's list; none of them is placed yet. `until` is the last submission
/// whose end may be waited for.
pub(crate) fn satisfy(
    state: &mut State,
    device: DeviceIx,
    items: &Items,
    until: SubmissionNo,
) -> Result<Placement, Shortfall> {
    let needs = may_be_pinned(state, device, items)?;
    if !state.memory.accounts().iter().all(|account| has_room_in(state, account, device, until, &needs)) {
        return Err(Shortfall::Room);
    }
    let mut transaction = Transaction::new(state.objects[device].process, needs.leaving[Account::SYSTEM]);
    place_all(state, &mut transaction, device, items).map_err(Shortfall::Place)?;
    Ok(placement::conclude(&state.objects, &mut state.memory, transaction))
}

/// Finds what a device's next request needs. Allocations that it re-homes go to their next homes with it, once no work of the device
/// runs.
pub(crate) fn satisfy_request(
    state: &mut State,
    device: DeviceIx,
    items: &Items,
    until: SubmissionNo,
) -> Result<Placement, Shortfall> {
    let request = state.objects[device].granted_request() + 1;
    let left = state.residency.begin_rehoming(&mut state.objects, &mut state.shares, device, request);
    let may_move = left.iter().all(|&(index, _)| moving::may_move(&state.objects, index));
    let placement = if may_move { satisfy(state, device, items, until) } else { Err(Shortfall::Own) };
    match placement {
        Ok(_) => {
            let unmoved = state.residency.end_rehoming(&mut state.objects, device, request);
            unmoved.into_iter().for_each(|index| state.record_counted(index, false));
        }
        Err(_) => rehoming::undo_rehoming(&mut state.objects, &mut state.shares, device, &left),
    }
    placement
}

/// The bytes that it takes to bring allocations in for a device.
struct Needs {
    /// Bytes that are not where they are counted.
    missing: PerAccount<u64>,
    /// Bytes that are there, and would be evictable otherwise.
    kept: PerAccount<u64>,
    /// Bytes that the device pins, and that leave for another account.
    leaving: PerAccount<u64>,
}

/// Whether a device may pin `items` besides what it pins: the CPU need not see them elsewhere, and others are not promised what
/// they take. Returns what it takes to bring them in.
fn may_be_pinned(state: &mut State, device: DeviceIx, items: &Items) -> Result<Needs, Shortfall> {
    if items.iter().any(|&(index, _)| views::waits_for_unlock(&state.objects, index)) {
        return Err(Shortfall::Own);
    }
    let (not_pinned, needs) = needs(state.memory.accounts(), &mut state.objects, device, items);
    let may_hold = state.shares.may_pin(&state.objects, &state.memory, device, &not_pinned)
        && packing::packs_with(&state.objects, &state.memory, device, indices(items));
    may_hold.then_some(needs).ok_or(Shortfall::Own)
}

fn indices(items: &Items) -> impl Iterator<Item = AllocationIx> + Clone {
    items.iter().map(|&(index, _)| index)
}

/// The bytes of `items` that the device does not pin, and those that it takes to bring them in. Each allocation counts once,
/// however often it is named.
fn needs(accounts: Accounts, objects: &mut Objects, device: DeviceIx, items: &Items) -> (PerAccount<u64>, Needs) {
    let mut not_pinned = accounts.none();
    let mut needs = Needs { missing: accounts.none(), kept: accounts.none(), leaving: accounts.none() };
    for index in indices(items) {
        let allocation = &mut objects[index];
        if allocation.set_seen(true) {
            continue;
        }
        let (account, size) = (allocation.account(), allocation.size);
        if !allocation.entry(device).is_some_and(|entry| entry.is_pinning() || entry.is_to_restore()) {
            not_pinned[account] += size;
        }
        if let Some(place) = allocation.place.filter(|place| place.account() != account && allocation.is_pinned()) {
            needs.leaving[place.account()] += size;
        }
        // An allocation that is elsewhere and is wanted here makes room there as any victim does.
        if allocation.place.is_none_or(|place| place.account() != account) {
            needs.missing[account] += size;
        } else if allocation.is(AllocationState::EVICTABLE) {
            needs.kept[account] += size;
        }
    }
    indices(items).for_each(|index| _ = objects[index].set_seen(false));
    (not_pinned, needs)
}

/// Whether all that is missing in an account fits into what is free and what is evictable there, without what the request
/// itself keeps.
///
/// Where it fits without a victim once the dead and the offered are gone, that is waited for while work of the device runs:
/// copying living content out and in again costs more. When nothing runs any more, what dies may itself wait for this
/// request.
fn has_room_in(state: &State, account: Account, device: DeviceIx, until: SubmissionNo, needs: &Needs) -> bool {
    let (missing, kept) = (needs.missing[account], needs.kept[account]);
    let evictable = &state.residency.evictable[account];
    let available = state.memory.available(account) + needs.leaving[account];
    if missing <= available {
        return true;
    }
    if missing > available + evictable.bytes() - kept {
        return false;
    }
    let record = &state.objects[device];
    let nothing_runs = record.retired() >= record.dispatched();
    let worthless = evictable.worthless_bytes();
    nothing_runs
        || missing <= available + worthless
        || missing > available + worthless + dying_bytes(&state.objects, account, device, until)
}

/// Bytes of destroyed allocations that are pinned only for submissions of the device up to `position`.
fn dying_bytes(objects: &Objects, account: Account, device: DeviceIx, position: SubmissionNo) -> u64 {
    let expiring = objects[device].expiring.up_to(position);
    let dying = expiring.filter(|&(last, index)| {
        let allocation = &objects[index];
        allocation.is(AllocationState::DESTROYED)
            && allocation.account() == account
            && allocation.entries().all(|(user, entry)| {
                !entry.has_ungranted_span()
                    && (if user == device { entry.until() == last } else { !entry.is_pinning() })
            })
    });
    // An Evict names an allocation more than once if it ends more than one span of it.
    let dying = BTreeSet::from_iter(dying.map(|(_, index)| index));
    dying.into_iter().map(|index| objects[index].size).sum()
}

/// Gives each of `items` that is one range its place; where the free ranges are in too small pieces, all ranges that the device
/// requires are placed anew. Fails with the account that has no place, and undoes the transaction.
fn place_all(state: &mut State, transaction: &mut Transaction, device: DeviceIx, items: &Items) -> Result<(), Account> {
    if !indices(items).any(|index| weight::is_one_range(&state.objects[index])) {
        return Ok(());
    }
    for index in BTreeSet::from_iter(indices(items)) {
        moving::leave_for_home(&state.objects, &mut state.memory, transaction, index);
        note_pages(state, transaction, index);
    }
    for home in state.memory.homes().iter() {
        let mark = transaction.mark();
        let members = ranges_in(state, home, items);
        if members.iter().all(|&index| placement::try_member(state, transaction, index)) {
            continue;
        }
        placement::undo(&mut state.memory, transaction, mark);
        if !anew::try_anew(state, transaction, device, &members, home) {
            placement::undo(&mut state.memory, transaction, Mark::START);
            return Err(home.account());
        }
    }
    Ok(())
}

/// Pages that are where they are wanted stay, unless they make room for a range.
fn note_pages(state: &State, transaction: &mut Transaction, index: AllocationIx) {
    let is_there =
        matches!(state.objects[index].place, Some(Place::Memory(there, _)) if there == state.objects[index].account());
    if is_there && !weight::is_one_range(&state.objects[index]) {
        placement::note_member(transaction, index, None);
    }
}

/// The allocations of `items` that are one range each in a home, each once: first those that are somewhere already, then the
/// largest.
fn ranges_in(state: &State, home: Home, items: &Items) -> Vec<AllocationIx> {
    let is_range =
        |&index: &AllocationIx| state.objects[index].home() == home && weight::is_one_range(&state.objects[index]);
    let mut members = Vec::from_iter(indices(items).filter(is_range));
    members.sort_unstable_by_key(|&index| {
        let allocation = &state.objects[index];
        (allocation.place.is_none(), Reverse(allocation.size), index)
    });
    members.dedup();
    members
}

/// Whether there is room for those of a process's tables that are set aside, and not placed yet.
pub(crate) fn has_room_for_tables(state: &State, process: ProcessIx, keys: impl IntoIterator<Item = TableKey>) -> bool {
    let tables = &state.objects[process].tables;
    let unplaced = |key: &TableKey| tables.get(*key).is_some_and(|table| table.address.is_none());
    let account = state.adapter.tables_in;
    let count = keys.into_iter().filter(unplaced).count() as u64;
    let bytes = count * state.adapter.table_bytes_in(account);
    // Those in system memory have their place already.
    bytes == 0 || has_room_for(state, account, bytes)
}

/// Whether there is room for so many bytes of tables, which were set aside; in an area of their own there always is.
pub(crate) fn has_room_for(state: &State, account: Account, bytes: u64) -> bool {
    state.memory.has_table_area(account)
        || bytes <= state.memory.available(account) + state.residency.evictable[account].bytes()
}
