//! Exchange: a process that has slept for long gives its memory beyond its reservation to processes within their budgets with
//! allocations away from home (D36, RES-71). As the process wakes, it gets the room back. Each exchange of a device doubles the pause before
//! the next exchange of that device.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    vec::Vec,
};

use super::homecoming::{Debt, is_still, move_to};
use crate::{
    budget::account::{Account, PerAccount},
    event::SuspendReason,
    id::{AllocationIx, DeviceIx},
    objects::turn::{EXCHANGE_MAX, EXCHANGES_MAX, RETURN_MIN},
    placement::homes,
    plans::Plans,
    schedule::{Schedule, replacement, stopping},
    state::State,
    units::Nanoseconds,
    work::Work,
};

impl Schedule {
    /// Suspends devices of sleepers for allocations that are away and `lack` room at home; there are `free` bytes.
    pub(super) fn exchange(&mut self, state: &mut State, lacking: &[Debt], mut free: PerAccount<u64>) {
        let now = state.moment.now();
        if lacking.is_empty() || self.looks_later(state) {
            return;
        }
        self.turns.exchanges.retain(|&id, _| state.objects.allocations.lookup(id).is_ok());
        let (mut sleepers, next) = self.sleepers(state);
        let (mut gave, mut coming) = (Vec::new(), BTreeMap::new());
        for debt in lacking {
            let id = state.objects.allocation_id(debt.index);
            let process = state.objects[debt.device].process;
            let (account, size) = (debt.home.account(), state.objects[debt.index].size);
            // It is within its budget also with what comes home.
            let share = &state.shares.by_account[account];
            let (demand, budget) = (share.get(process).demand, share.budget(process));
            let more = coming.entry((process, account)).or_insert(0);
            if state.shares.is_over_budget(process) || demand.saturating_add(*more).saturating_add(size) > budget {
                continue;
            }
            let is_asleep =
                state.objects[process].stillness.slept_at(self.turns.exchange_after).is_some_and(|at| at <= now);
            let (mut givers, mut room) = (Vec::new(), free[account]);
            for &(_, giver) in &sleepers {
                let (record, reserved) =
                    (&state.objects[giver], state.shares.by_account[account].get(state.objects[giver].process));
                let gives = gives(state, giver, account, reserved.reservation);
                let is_less = !is_asleep || state.objects[record.process].standing.band > debt.band;
                if room < size && record.process != process && is_less && gives > 0 {
                    room += gives;
                    givers.push(giver);
                }
            }
            if room < size {
                continue;
            }
            sleepers.retain(|(_, sleeper)| !givers.contains(sleeper));
            for &giver in &givers {
                stopping::stop(state, giver, SuspendReason::Exchange, Some(debt.device), true);
                let turn = &mut state.objects[giver].turn;
                turn.given = (turn.given + 1).min(EXCHANGES_MAX);
                let pause = self.turns.exchange_after.saturating_mul(1 << turn.given).min(EXCHANGE_MAX);
                turn.gives_at = now.saturating_add(pause);
                turn.out_until = now.saturating_add(2 * RETURN_MIN);
                turn.is_exchanged = true;
                state.moment.request_poll();
            }
            gave.extend(givers);
            free[account] = room - size;
            *more += size;
            self.turns.exchanges.insert(id, gave.clone());
        }
        self.turns.exchange_look = (now, next.min(now.saturating_add(RETURN_MIN)));
        if next < Nanoseconds::MAX {
            state.moment.wake_at(next);
        }
    }

    /// Whether the next look for sleepers is later; the manager wakes for that look, as anything may have changed since the last.
    pub(super) fn looks_later(&self, state: &mut State) -> bool {
        let ((last, next), now) = (self.turns.exchange_look, state.moment.now());
        let is_later = last < now && now < next;
        if is_later {
            state.moment.wake_at(next);
        }
        is_later
    }

    /// The active devices of processes that have slept for long, with the longest sleep first; and the time at which another device may
    /// give.
    fn sleepers(&self, state: &State) -> (Vec<(Nanoseconds, DeviceIx)>, Nanoseconds) {
        let (mut sleepers, mut next, now) = (Vec::new(), Nanoseconds::MAX, state.moment.now());
        for (device, record) in state.objects.devices.iter() {
            let slept_at = state.objects[record.process].stillness.slept_at(self.turns.exchange_after);
            let Some(slept_at) = slept_at.filter(|_| record.is_active() && record.is_promised_anything()) else {
                continue;
            };
            let at = slept_at.max(record.turn.gives_at);
            if at > now {
                next = next.min(at);
            } else if !record.is_over() && record.granted == record.requests.len() {
                sleepers.push((at, device));
            }
        }
        sleepers.sort_unstable();
        (sleepers, next)
    }

    /// A device has woken that gave its memory away: those that got it go back to where they were, once nothing of their devices is in
    /// flight.
    pub(super) fn take_back(&mut self, state: &mut State, plans: &mut Plans, work: &Work, woken: DeviceIx) {
        let given = self.turns.exchanges.iter().filter(|(_, givers)| givers.contains(&woken));
        let given = given.filter_map(|(&id, _)| Some(state.objects[state.objects.allocations.lookup(id).ok()?].device));
        for device in BTreeSet::from_iter(given) {
            let owed = self.owed_back(state, device);
            if !owed.iter().all(|&index| plans.stream.is_retired(state.objects[index].last_plan)) {
                // The next look is as the plan retires.
                continue;
            }
            if is_still(state, work, device) {
                self.give_back(state, plans, device);
                state.moment.request_poll();
            } else if state.objects[device].is_active() {
                stopping::stop(state, device, SuspendReason::ExchangeEnds, Some(woken), false);
                state.objects[device].turn.drains_for_home = true;
            }
        }
    }

    /// The allocations of a device that came home in the room of another that has woken and waits.
    pub(super) fn owed_back(&self, state: &State, device: DeviceIx) -> Vec<AllocationIx> {
        let has_woken = |giver: &DeviceIx| state.objects[*giver].turn.waits_since.is_some();
        let owed = self.turns.exchanges.iter().filter(|(_, givers)| givers.iter().any(has_woken));
        let owed = owed.filter_map(|(&id, _)| state.objects.allocations.lookup(id).ok());
        owed.filter(|&index| state.objects[index].device == device).collect()
    }

    /// A device of which nothing is in flight gives back what it got from a sleeper. Where no other home has room, the woken waits for
    /// its turn as any device does.
    pub(super) fn give_back(&mut self, state: &mut State, plans: &mut Plans, device: DeviceIx) {
        for index in self.owed_back(state, device) {
            let is_away = homes::prefers_elsewhere(&state.objects, device, index).is_some();
            if !is_away && state.objects[index].is_required() && leave_home(state, plans, device, index) {
                self.turns.note_demoted(device, index, state.moment.now());
            }
            self.turns.exchanges.remove(&state.objects.allocation_id(index));
        }
    }
}

/// The bytes that a device of a sleeper surely gives in an account, in whole allocations, without what its process has reserved.
fn gives(state: &State, giver: DeviceIx, account: Account, reservation: u64) -> u64 {
    let record = &state.objects[giver];
    let promised = record.promised[account];
    if reservation == 0 {
        return promised;
    }
    let pinned = record.pinned_allocations.iter().filter(|&&index| state.objects.allocations.contains(index));
    let largest = pinned.map(|&index| state.objects[index].size).max().unwrap_or(0);
    promised.saturating_sub(reservation).saturating_sub(largest.saturating_sub(1))
}

/// Moves an allocation to the first of its other homes that has room. Returns whether there is one.
fn leave_home(state: &mut State, plans: &mut Plans, device: DeviceIx, index: AllocationIx) -> bool {
    let homes = Vec::from_iter(state.objects[index].allowed_homes().into_iter().skip(1));
    homes.into_iter().any(|home| {
        let beside = state.shares.not_promised_to_others(&state.objects, &state.memory, device, home.account());
        let needed = state.objects[device].needed(home.account());
        let has_room = needed.saturating_add(state.objects[index].size) <= beside;
        has_room
            && match state.objects[device].is_suspended() {
                true => replacement::place_elsewhere(state, device, index, home),
                false => move_to(state, plans, index, home, Vec::new()),
            }
    })
}
