//! Home: what a device lists and has elsewhere than it prefers is a debt, paid allocation by allocation (D36, RES-55).
//!
//! Debts are paid in the order of bands, priorities and uses, as there is room: no room is kept free, and nothing leaves for them but
//! what `spare.rs` says. An allocation moves when nothing of its device is in flight; later work waits for the plan. A device
//! that works from time to time pays a little in each gap, so that its next work hardly waits; a device that is never still drains for
//! one allocation a second.

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::{
    budget::{
        PriorityBand,
        account::{Account, Home, PerAccount},
    },
    event::{ResumeReason, SuspendReason},
    id::{AllocationIx, DeviceIx},
    objects::turn::{CALM, HOME_BATCH, RETURN_MIN},
    placement::{homes, moving, satisfy},
    plans::Plans,
    requests::Requests,
    residency::rehoming,
    schedule::{Schedule, spare, stopping, turns, waiting::Power},
    state::State,
    units::Nanoseconds,
    work::Work,
};

/// An allocation that is away from home. Those of a more important band are first, then those of higher priority, then those of the
/// device that was used last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Debt {
    pub band: PriorityBand,
    priority: Reverse<u32>,
    last_use: Reverse<u64>,
    pub device: DeviceIx,
    pub index: AllocationIx,
    pub home: Home,
    since: Nanoseconds,
}

impl Schedule {
    /// Brings allocations home for which there is room, unless a device waits for its turn.
    pub(crate) fn pay_debts(&mut self, state: &mut State, plans: &mut Plans, work: &Work) {
        if self.turns.away.is_empty() || self.turns.power != Power::Up {
            return;
        }
        // A device that is held up can use no room that there is.
        let waits = |&device: &DeviceIx| {
            let turn = &state.objects[device].turn;
            turn.waits_since.is_some() && turn.behind.is_none()
        };
        let debtors = self.turns.debtors();
        if state.shares.stopped.iter().any(waits) || !debtors.iter().any(|&device| is_due(state, device)) {
            return;
        }
        let now = state.moment.now();
        let mut free = state.memory.accounts().per(|account| match account {
            Account::SYSTEM => 0,
            account => state.memory.list_capacity(account) - state.shares.promised_bytes(account),
        });
        let most = state.memory.accounts().memory().map(|account| free[account]).max().unwrap_or(0);
        if most < self.turns.smallest_away.max(1) && self.looks_later(state) {
            return;
        }
        // An allocation that cannot come home yet leaves no room to later allocations.
        let mut held: PerAccount<u64> = state.memory.accounts().none();
        let mut lacking = Vec::new();
        for debt in self.debts(state) {
            let Debt { device, index, since, .. } = debt;
            let size = state.objects[index].size;
            let has_room = |home: &Home| {
                let account = home.account();
                size <= free[account] && self.leaving_for(state, index, account, held[account] + size).is_some()
            };
            let Some(home) = homes::better_homes(&state.objects, index).find(has_room) else {
                lacking.push(debt);
                continue;
            };
            free[home.account()] -= size;
            let due = since.saturating_add(RETURN_MIN);
            if !is_still(state, work, device) {
                if is_due(state, device) {
                    self.note_owed(state, device, due);
                }
            } else {
                // A device that is still from time to time pays then, and need not drain.
                state.objects[device].turn.owes_since = None;
                if due > now {
                    state.moment.wake_at(due);
                } else if may_pay_more(state, plans, device, size) && self.come_home(state, plans, index, home) {
                    continue;
                }
            }
            held[home.account()] += size;
        }
        let room = state.memory.accounts().per(|account| {
            let spare = state.memory.available(account) + state.residency.evictable[account].unlisted_bytes();
            free[account].min(spare.saturating_sub(held[account]))
        });
        self.exchange(state, &lacking, room);
    }

    /// The debts of active devices, in the order in which they are paid. Forgets what is none any more.
    fn debts(&mut self, state: &State) -> Vec<Debt> {
        let (mut debts, mut smallest) = (Vec::new(), u64::MAX);
        self.turns.away.retain(|&(device, index), &mut since| {
            let Some(home) = homes::prefers_elsewhere(&state.objects, device, index) else {
                // The grant of a pending request may move the allocation away from home.
                return state.objects.allocations.contains(index) && state.objects[index].rehoming().is_some();
            };
            smallest = smallest.min(state.objects[index].size);
            let record = &state.objects[device];
            let is_here = record.is_active() || record.turn.drains_for_home;
            if is_here && homes::may_come_home(state, device, index) {
                debts.push(Debt {
                    band: state.objects[record.process].standing.band,
                    priority: Reverse(state.objects[index].priority),
                    last_use: Reverse(record.last_use),
                    device,
                    index,
                    home,
                    since,
                });
            }
            true
        });
        self.turns.smallest_away = smallest;
        debts.sort_unstable();
        debts
    }

    /// A device has room for an allocation that may come home at `earliest`, but is not still. After a second of that, the device drains
    /// for one allocation.
    fn note_owed(&mut self, state: &mut State, device: DeviceIx, earliest: Nanoseconds) {
        let now = state.moment.now();
        let turn = &mut state.objects[device].turn;
        let due = (*turn.owes_since.get_or_insert(now)).max(turn.paid_at).saturating_add(RETURN_MIN).max(earliest);
        if due > now {
            state.moment.wake_at(due);
        } else if state.objects[device].is_active() {
            stopping::stop(state, device, SuspendReason::Replace, None, false);
            state.objects[device].turn.drains_for_home = true;
        }
    }

    /// Devices that have drained pay one debt, and go on.
    pub(crate) fn pay_drained(&mut self, state: &mut State, plans: &mut Plans, requests: &mut Requests, work: &Work) {
        let has_drained =
            |&device: &DeviceIx| state.objects[device].turn.drains_for_home && turns::has_ended(state, work, device);
        for device in Vec::from_iter(state.shares.stopped.iter().copied().filter(has_drained)) {
            let is_owing = !self.owed_back(state, device).is_empty();
            if is_owing {
                self.give_back(state, plans, device);
            }
            // Pushed out meanwhile, the device waits for a turn.
            let is_out = state.objects[device].is_suspended() || state.objects[device].turn.gives_way;
            if !is_owing && !is_out {
                self.pay_one(state, plans, device);
            }
            let turn = &mut state.objects[device].turn;
            // A device that finds no place after all drains for the next debt in a second, not at once.
            (turn.drains_for_home, turn.owes_since) = (false, None);
            if is_out {
                continue;
            }
            let has_to_do = turns::has_to_do(&state.adapter, &state.objects, work, device);
            let reason = if has_to_do { ResumeReason::HasWork } else { ResumeReason::PressureFell };
            // A device that finds no room waits for its turn.
            let _ = self.resume(state, plans, requests, work, device, reason);
        }
    }

    /// Brings the first allocation of a drained device home that has room there.
    fn pay_one(&mut self, state: &mut State, plans: &mut Plans, device: DeviceIx) {
        for Debt { index, .. } in self.debts(state).into_iter().filter(|debt| debt.device == device) {
            let size = state.objects[index].size;
            let has_room = |home: &Home| {
                let account = home.account();
                let beside = state.shares.not_promised_to_others(&state.objects, &state.memory, device, account);
                state.objects[device].needed(account).saturating_add(size) <= beside
                    && self.leaving_for(state, index, account, size).is_some()
            };
            let home = homes::better_homes(&state.objects, index).find(has_room);
            if home.is_some_and(|home| self.come_home(state, plans, index, home)) {
                return;
            }
        }
    }

    /// The victims in an account whose eviction frees `bytes` for an allocation on the way home; none if they are too few.
    fn leaving_for(
        &self,
        state: &State,
        index: AllocationIx,
        account: Account,
        bytes: u64,
    ) -> Option<Vec<AllocationIx>> {
        let gave = self.turns.exchanges.get(&state.objects.allocation_id(index));
        let is_out = |giver: &DeviceIx| {
            let turn = state.objects.devices.contains(*giver).then(|| &state.objects[*giver].turn);
            turn.is_some_and(|turn| turn.is_exchanged && turn.waits_since.is_none())
        };
        let givers = Vec::from_iter(gave.into_iter().flatten().copied().filter(is_out));
        spare::leaving_for(state, account, state.objects[index].process, &givers, bytes)
    }

    /// Moves an allocation of a device that is still to a better home, if there is a place. Returns whether there is.
    fn come_home(&mut self, state: &mut State, plans: &mut Plans, index: AllocationIx, home: Home) -> bool {
        let (device, size) = (state.objects[index].device, state.objects[index].size);
        let Some(leaving) = self.leaving_for(state, index, home.account(), size) else { return false };
        let has_come = move_to(state, plans, index, home, leaving);
        if has_come {
            let (plan, now) = (state.objects[index].last_plan, state.moment.now());
            let turn = &mut state.objects[device].turn;
            (turn.home_plan, turn.paid_at, turn.owes_since) = (plan, now, None);
            turn.paid_in_gap.1 += size;
            self.turns.away.remove(&(device, index));
            // In a second choice the allocation is away still.
            if homes::prefers_elsewhere(&state.objects, device, index).is_some() {
                self.turns.note_away(device, index, now);
            }
        }
        has_come
    }
}

/// Whether debts of a device may be paid now, as far as its requests and its earlier moves say.
fn is_due(state: &State, device: DeviceIx) -> bool {
    let record = &state.objects[device];
    record.is_active() && !record.is_over() && !record.has_reference_lists() && record.granted == record.requests.len()
}

/// Whether a device is still: what it lists may move.
pub(super) fn is_still(state: &State, work: &Work, device: DeviceIx) -> bool {
    is_due(state, device)
        && turns::has_ended(state, work, device)
        && !work.has_runnable_work(&state.adapter, &state.objects, device)
}

/// Whether a device that is still may pay so much: a little in a gap between two packets; as much again and again, once the gap has
/// lasted and what came before is there.
fn may_pay_more(state: &mut State, plans: &Plans, device: DeviceIx, size: u64) -> bool {
    let now = state.moment.now();
    let record = &mut state.objects[device];
    if record.turn.paid_in_gap.0 != record.dispatches.count() {
        record.turn.paid_in_gap = (record.dispatches.count(), 0);
    }
    let paid = record.turn.paid_in_gap.1;
    let lasts_at = record.turn.last_busy.saturating_add(CALM);
    if paid == 0 || paid.saturating_add(size) <= HOME_BATCH {
        return true;
    }
    if lasts_at > now {
        state.moment.wake_at(lasts_at);
        return false;
    }
    let has_come = plans.stream.is_retired(record.turn.home_plan);
    if has_come {
        record.turn.paid_in_gap.1 = 0;
    }
    has_come
}

/// Moves a pinned allocation without work in flight to another home, if there is a place. Returns whether there is a place. The victims
/// in `leaving` make room.
pub(super) fn move_to(
    state: &mut State,
    plans: &mut Plans,
    index: AllocationIx,
    home: Home,
    leaving: Vec<AllocationIx>,
) -> bool {
    let device = state.objects[index].device;
    let record = &state.objects[device];
    let is_settled = plans.stream.is_retired(state.objects[index].last_plan) && record.granted == record.requests.len();
    if !is_settled || !homes::may_come_home(state, device, index) || !moving::may_move(&state.objects, index) {
        return false;
    }
    let from = state.objects[index].home();
    rehoming::move_home(&mut state.objects, &mut state.shares, device, index, home);
    let until = state.objects[device].dispatched();
    let Ok(placement) = satisfy::satisfy(state, device, &[(index, None)], until) else {
        rehoming::move_home(&mut state.objects, &mut state.shares, device, index, from);
        return false;
    };
    state.recount_home(device, index, from);
    let draft = plans.begin(device, None).with_victims(leaving);
    plans.carry_out(state, draft, &[index], placement);
    true
}
