//! Where the allocations of a device are while it has no turn: what has no room where it prefers to be is demoted, and comes
//! back when there is room (RES-55). Only a suspended device's allocations are placed anew: nothing outstanding requires them.

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::{
    budget::account::{Choices, Home, PerAccount},
    event::{SuspendReason, error::LockError},
    id::{AllocationIx, DeviceIx},
    objects::{allocation::Allocation, turn::RETURN_MIN},
    placement::homes,
    residency::{packing, rehoming},
    schedule::{Schedule, stopping, waiting::Turns},
    state::State,
};

/// The home in which the CPU sees an allocation, and in which the list of its device would fit alone with the allocation.
///
/// # Errors
///
/// If there is none, or another device has opened the allocation. If there may be one later: outstanding work requires what has left
/// the list, and was to find it beside the allocation where that is counted now.
pub(crate) fn home_in_sight(state: &State, index: AllocationIx) -> Result<Home, LockError> {
    let allocation = &state.objects[index];
    let record = &state.objects[allocation.device];
    let mut answer = Err(LockError::NotLockable);
    if allocation.openings().next().is_some() {
        return answer;
    }
    for to in allocation.seen_homes() {
        let (account, packed) = (to.account(), [(index, to)]);
        let is_new = account != allocation.account();
        let added = if is_new { allocation.size } else { 0 };
        let fits = record.list[account].now().saturating_add(added) <= state.memory.list_capacity(account)
            && packing::packs_if_moved(&state.objects, &state.memory, allocation.device, &packed);
        let is_settled = allocation.entry(allocation.device).is_some_and(|entry| entry.count > 0)
            && !(is_new && record.list[account].remembers());
        match (fits, is_settled) {
            (true, true) => return Ok(to),
            (true, false) => answer = Err(LockError::AllocationBusy),
            (false, _) => {}
        }
    }
    answer
}

/// A lock moves the home of a listed allocation to where the CPU sees it: a re-homing whose request is the lock (D19). No entry pins
/// the allocation, so nothing of it is where its list counted it. Returns whether it has such a home.
pub(crate) fn move_into_sight(turns: &mut Turns, state: &mut State, index: AllocationIx) -> bool {
    let Ok(to) = home_in_sight(state, index) else { return false };
    let allocation = &state.objects[index];
    let (device, size, from, account) = (allocation.device, allocation.size, allocation.account(), to.account());
    rehoming::move_home(&mut state.objects, &mut state.shares, device, index, to);
    if from != account {
        let (left, grown) =
            (state.objects[device].list[from].now() - size, state.objects[device].list[account].now() + size);
        let beside = state.shares.not_promised_to_others(&state.objects, &state.memory, device, account);
        if state.objects[device].needed(account).max(grown) > beside {
            stopping::stop(state, device, SuspendReason::WaitsForRoom, None, false);
        }
        state.shares.set_list_bytes(&mut state.objects, device, account, grown);
        // Outstanding work and requests count the allocation where it was, too.
        state.shares.set_list_bytes(&mut state.objects, device, from, left);
        state.record_counted(index, false);
    }
    turns.note_away(device, index, state.moment.now());
    state.moment.request_poll();
    true
}

/// An allocation of a suspended device has another home from now on.
fn count_anew(state: &mut State, device: DeviceIx, index: AllocationIx, home: Home) {
    let from = state.objects[index].home();
    rehoming::move_home(&mut state.objects, &mut state.shares, device, index, home);
    if from.account() != home.account() {
        state.recount_home(device, index, from);
        // The budgets of other processes change too, and are told first (RES-53).
        state.moment.request_poll();
    }
}

/// Gives an allocation of a suspended device another home, if the whole list has a place then. Returns whether the home changed.
pub(super) fn place_elsewhere(state: &mut State, device: DeviceIx, index: AllocationIx, home: Home) -> bool {
    let movable = homes::movable_with_requests(state, device).unwrap_or_default();
    let may_move = movable.iter().any(|&(other, _)| other == index)
        && packing::packs_if_moved(&state.objects, &state.memory, device, &[(index, home)]);
    if may_move {
        count_anew(state, device, index, home);
    }
    may_move
}

/// The homes that a device's allocations have next.
struct Choice {
    /// Those that change.
    to_move: Vec<(AllocationIx, Home)>,
    /// Whether all of the list has room there.
    has_room: bool,
}

impl Schedule {
    /// Lets devices yield whose allocations must be elsewhere.
    pub(crate) fn replace(&mut self, state: &mut State) {
        while let Some(device) = self.turns.to_replace.pop_first() {
            if state.objects.devices.contains(device) && !state.objects[device].is_suspended() {
                stopping::stop(state, device, SuspendReason::Replace, None, true);
            }
        }
    }

    /// Chooses anew where the allocations of a suspended device will be: each where it prefers, those of higher priority
    /// first, as there is room; if `may_be_demoted`, the rest elsewhere. Changes nothing if that is no better.
    pub(crate) fn place_anew(&mut self, state: &mut State, device: DeviceIx, may_be_demoted: bool) {
        let beside = state
            .memory
            .accounts()
            .per(|account| state.shares.not_promised_to_others(&state.objects, &state.memory, device, account));
        let Some(Choice { to_move, .. }) = self.choose_homes(state, device, may_be_demoted, &beside) else {
            return;
        };
        for (index, home) in to_move {
            count_anew(state, device, index, home);
            if state.objects[index].homes_differ() {
                self.turns.note_demoted(device, index, state.moment.now());
            }
        }
    }

    /// Whether all that a device lists finds a home beside these others, some of it elsewhere than it prefers.
    pub(crate) fn fits_if_demoted(&self, state: &State, device: DeviceIx, others: &[DeviceIx]) -> bool {
        let beside = state.memory.accounts().per(|account| {
            let promised: u64 = others.iter().map(|&other| state.objects[other].promised[account]).sum();
            state.memory.list_capacity(account) - promised
        });
        self.choose_homes(state, device, true, &beside)
            .is_some_and(|choice| choice.has_room && !choice.to_move.is_empty())
    }

    /// The homes for a device's list, if there are `beside` bytes for it. None if its allocations may not move now, or one has no home.
    fn choose_homes(
        &self,
        state: &State,
        device: DeviceIx,
        may_be_demoted: bool,
        beside: &PerAccount<u64>,
    ) -> Option<Choice> {
        let accounts = state.memory.accounts();
        let mut movable = homes::movable_with_requests(state, device)?;
        if movable.is_empty() {
            return None;
        }
        // Among equals those that lie at home stay there.
        movable.sort_by_key(|&(index, choices)| {
            let allocation = &state.objects[index];
            let lies_in = allocation.place.map(|place| place.account());
            (Reverse(allocation.priority), lies_in.is_none() || lies_in != choices.accounts().next())
        });
        let returned = state.moment.now().saturating_sub(RETURN_MIN);
        let stays_away = |index| self.turns.away.get(&(device, index)).is_some_and(|&since| since > returned);
        let record = &state.objects[device];
        // Queued work may still require allocations that have left the list.
        let fixed = accounts.per(|account| {
            let in_account =
                || movable.iter().map(|&(index, _)| &state.objects[index]).filter(|of| of.account() == account);
            let is_held = |of: &&Allocation| of.entry(device).is_some_and(|entry| !entry.has_ungranted_span());
            let held = (record.pinned[account] + record.to_restore[account])
                - in_account().filter(is_held).map(|of| of.size).sum::<u64>();
            held.max(record.list[account].now() - in_account().map(|of| of.size).sum::<u64>())
        });
        let mut left = accounts.per(|account| beside[account].saturating_sub(fixed[account]));
        // For a better home than the present one, nothing leaves that another list names (D36).
        let mut unlisted = accounts.per(|account| {
            let others = state.shares.by_account[account].requested_total() - record.list[account].now();
            state.memory.list_capacity(account).saturating_sub(others).saturating_sub(fixed[account])
        });
        let mut choice =
            Choice { to_move: Vec::new(), has_room: accounts.iter().all(|account| fixed[account] <= beside[account]) };
        for (index, choices) in movable {
            let allocation = &state.objects[index];
            let fits = |home: &Home| allocation.size <= left[home.account()];
            let chosen = choices.into_iter().take(if may_be_demoted { usize::MAX } else { 1 });
            let present = Some(allocation.home()).filter(|&home| choices.contains(home));
            let better: Choices = choices.into_iter().take_while(|&home| Some(home) != present).collect();
            let is_free = |home: &Home| {
                let is_better = present.is_some() && better.contains(*home);
                fits(home) && (!is_better || allocation.size <= unlisted[home.account()])
            };
            let home = match allocation.homes_differ() && stays_away(index) {
                true => present.into_iter().chain(chosen.skip(1)).find(fits)?,
                false => chosen.clone().chain(present).find(is_free).or_else(|| chosen.chain(present).find(fits))?,
            };
            left[home.account()] -= allocation.size;
            unlisted[home.account()] = unlisted[home.account()].saturating_sub(allocation.size);
            if home != allocation.home() {
                choice.to_move.push((index, home));
            }
        }
        // There are bytes for it; there need not be a range.
        packing::packs_if_moved(&state.objects, &state.memory, device, &choice.to_move).then_some(choice)
    }
}
