//! The turns of devices: which of them yields, is suspended, or has its turn (RES-71, RES-75, D3).
//!
//! The lists of active devices always fit together. A device whose list has no room beside them waits for its turn; others
//! yield to it: first those of processes above their budget, idle ones before busy ones whose time slice is over; after
//! a long wait also those within their budget, but never the foreground. So the list of a device that fits alone gets its turn,
//! and whoever stays within its budget keeps what it has.

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::{
    adapter::Adapter,
    budget::{
        PriorityBand,
        account::{Account, PerAccount},
    },
    event::{Event, ResumeReason, SuspendReason},
    id::{AllocationIx, DeviceIx, PlanNo},
    moment::Moment,
    objects::{
        Objects,
        allocation::AllocationState,
        device::Device,
        request::RequestKind,
        spans::SpanNo,
        turn::{Activity, CALM, RETURN_MIN, SLICE_MIN, SLICE_PER_PAGING},
    },
    placement::satisfy::{self, Shortfall},
    plans::{Plans, bring_in},
    requests::Requests,
    residency::pins,
    schedule::{
        Schedule, replacement, stopping,
        waiting::{Power, Turns},
    },
    state::State,
    units::Nanoseconds,
    work::Work,
};
/// The device's list weighs so much more and less from now on. If it has no room beside those that are active now, it
/// waits for its turn.
pub(crate) fn change_list(
    state: &mut State,
    work: &Work,
    device: DeviceIx,
    added: &PerAccount<u64>,
    removed: &PerAccount<u64>,
) {
    let accounts = state.memory.accounts();
    let now = accounts.per(|account| state.objects[device].list[account].now() + added[account] - removed[account]);
    let has_room = accounts.iter().all(|account| {
        let needed = state.objects[device].needed(account).max(now[account]);
        needed <= state.shares.not_promised_to_others(&state.objects, &state.memory, device, account)
    });
    if !has_room || !lists_may_run(&state.adapter, &state.objects, work) {
        stopping::stop(state, device, SuspendReason::WaitsForRoom, None, false);
    }
    for account in accounts.iter().filter(|&account| added[account] + removed[account] > 0) {
        state.shares.set_list_bytes(&mut state.objects, device, account, now[account]);
    }
}

/// A request of a device has found no ranges. The allocations of work that runs keep theirs, and that work ends by itself; when
/// nothing of the device runs, it waits for a turn with nobody beside it.
pub(crate) fn note_no_place(state: &mut State, device: DeviceIx) {
    let is_alone = !state.shares.others_are_promised(&state.objects, device);
    let is_in_flight = state.objects[device].is_in_flight();
    debug_assert!(!is_alone || is_in_flight, "a list that was admitted has its places with nobody else there");
    if !is_alone && !is_in_flight {
        stopping::stop(state, device, SuspendReason::WaitsForRoom, None, false);
        state.objects[device].turn.set_takes_all(true);
    }
}

/// Whether anything is promised to a device list.
pub(crate) fn lists_are_promised(objects: &Objects) -> bool {
    let mut of_lists = objects.devices.iter().filter(|(_, record)| !record.has_reference_lists());
    of_lists.any(|(_, record)| record.is_promised_anything())
}

/// Whether devices with device lists may have turns: not while a DMA buffer is amid being cut, or is about to be, which takes
/// whatever memory there is.
fn lists_may_run(adapter: &Adapter, objects: &Objects, work: &Work) -> bool {
    let takes_all = |(_, record): (DeviceIx, &Device)| record.is_active() && record.turn.takes_all;
    !adapter.is_physical() || (work.patching.splitting.is_none() && !objects.devices.iter().any(takes_all))
}

/// A device that takes all memory for its DMA buffers leaves it to lists when its slice is over, or none of its work is left.
fn settle_takers(state: &mut State, work: &Work) {
    if !state.adapter.is_physical() {
        return;
    }
    let takes_all = |(_, record): &(DeviceIx, &Device)| record.is_active() && record.turn.takes_all;
    for device in Vec::from_iter(state.objects.devices.iter().filter(takes_all).map(|(device, _)| device)) {
        let turn = &state.objects[device].turn;
        let slice_over = turn.began_at.saturating_add(turn.slice);
        let has_more = work.has_runnable_work(&state.adapter, &state.objects, device)
            || work.is_amid_dma_buffer(&state.adapter, &state.objects, device);
        if state.moment.now() < slice_over && has_more {
            state.moment.wake_at(slice_over);
        } else {
            state.objects[device].turn.set_takes_all(false);
        }
    }
}

/// The bytes that must be free for a device's turn: the device's promise, or all bytes for DMA buffers without room beside lists.
fn room_needed(state: &State, device: DeviceIx) -> PerAccount<u64> {
    let record = &state.objects[device];
    match record.has_reference_lists() && record.turn.takes_all {
        true => state.memory.accounts().per(|account| state.memory.list_capacity(account)),
        false => state.memory.accounts().per(|account| record.needed(account)),
    }
}

/// The answer to whether a device yields.
enum Yield {
    Now(SuspendReason),
    /// Not before this time.
    At(Nanoseconds),
    Never,
}

/// The devices that have memory which another waits for.
struct Yielders {
    /// Those that yield now, in the order in which they do.
    now: Vec<(DeviceIx, SuspendReason)>,
    /// Those that yield at a time, if nothing else happens before.
    later: Vec<(Nanoseconds, DeviceIx)>,
    never: Vec<DeviceIx>,
}

impl Schedule {
    /// Gives turns: one step of the scheduler.
    pub(crate) fn take_turns(&mut self, state: &mut State, plans: &mut Plans, requests: &mut Requests, work: &Work) {
        self.settle_resumed(&mut state.moment, &mut state.objects, plans);
        settle_takers(state, work);
        self.replace(state);
        if !state.shares.stopped.is_empty() {
            self.pay_drained(state, plans, requests, work);
            self.give_turns(state, plans, requests, work);
            if self.bring_back(state, plans, requests, work).is_err() {
                return;
            }
        }
        self.pay_debts(state, plans, work);
    }

    /// Devices that wait have their turns, or others yield to them.
    fn give_turns(&mut self, state: &mut State, plans: &mut Plans, requests: &mut Requests, work: &Work) {
        suspend_drained(&mut self.turns, state, work);
        // A device later in the order, also one that is about to yield, leaves the room that is made for those before it.
        let mut spoken_for = state.memory.accounts().none();
        for device in waiting(state, work) {
            let mut needed = self.place_for_turn(state, device);
            let mut has_room = fits_beside(state, device, &needed, &spoken_for);
            if has_room
                && let Err(Shortfall::Place(account)) =
                    self.resume(state, plans, requests, work, device, ResumeReason::HasWork)
                && !state.objects[device].is_in_flight()
            {
                // There are bytes enough, but not the ranges: the device waits for the whole account.
                state.objects[device].turn.set_takes_all(true);
                needed[account] = state.memory.list_capacity(account);
                has_room = fits_beside(state, device, &needed, &spoken_for);
            }
            if state.objects[device].is_active() {
                continue;
            }
            if !has_room {
                self.take_back(state, plans, work, device);
            }
            match if has_room { Ok(()) } else { self.make_way(state, plans, work, device, &needed, &spoken_for) } {
                Ok(()) => {
                    let accounts = state.memory.accounts();
                    accounts.iter().for_each(|account| spoken_for[account] += needed[account]);
                }
                Err(keepers) => self.hold_up(state, work, device, &keepers),
            }
        }
        suspend_drained(&mut self.turns, state, work);
    }

    /// Notes which lists are back: from then on a device's slice runs.
    fn settle_resumed(&mut self, moment: &mut Moment, objects: &mut Objects, plans: &Plans) {
        let mut next = DeviceIx::FIRST;
        while let Some(device) = self.turns.resuming.next_from(next) {
            next = device.next();
            let (stream, now) = (&plans.stream, moment.now());
            let turn = &mut objects[device].turn;
            if turn.unbuilt {
                let Some(fence) = stream.fence_of_all(&turn.plans) else { continue };
                (turn.paging_fence, turn.unbuilt) = (fence, false);
                moment.request_poll();
            }
            if turn.plans.iter().all(|&plan| stream.is_retired(plan)) {
                turn.plans.clear();
                turn.began_at = now;
                turn.slice = SLICE_MIN.max(SLICE_PER_PAGING.saturating_mul(now - turn.resumed_at));
                self.turns.resuming.remove(&device);
            }
        }
    }

    /// The bytes that a waiting device needs for its turn. Where that is allowed, its allocations are placed anew for it.
    fn place_for_turn(&mut self, state: &mut State, device: DeviceIx) -> PerAccount<u64> {
        // The list may have room at home once demoted allocations may return.
        let away = self.turns.away.range((device, AllocationIx::FIRST)..(device.next(), AllocationIx::FIRST));
        let returns = away.map(|(_, since)| since.saturating_add(RETURN_MIN)).filter(|&at| at > state.moment.now());
        returns.min().into_iter().for_each(|at| state.moment.wake_at(at));
        if state.objects[device].is_suspended() {
            self.place_anew(state, device, self.may_be_demoted(state, device));
        }
        room_needed(state, device)
    }

    /// Whether a waiting device's allocations may have other homes than they prefer: its process is above its budget, it has waited for
    /// long, or it gives back what it got (RES-55).
    fn may_be_demoted(&self, state: &State, device: DeviceIx) -> bool {
        let starves_at = state.objects[device].turn.starves_at(state.moment.now());
        state.shares.is_over_budget(state.objects[device].process)
            || starves_at <= state.moment.now()
            || !self.owed_back(state, device).is_empty()
    }

    /// Makes others yield, if those who may would make room for the device beside what is `spoken_for`. Fails with those that keep
    /// memory which would still be missing if all yielded that may in time.
    fn make_way(
        &mut self,
        state: &mut State,
        plans: &Plans,
        work: &Work,
        device: DeviceIx,
        needed: &PerAccount<u64>,
        spoken_for: &PerAccount<u64>,
    ) -> Result<(), Vec<DeviceIx>> {
        let missing = |account: Account| {
            let beside = state.shares.not_promised_to_others(&state.objects, &state.memory, device, account);
            needed[account].saturating_add(spoken_for[account]).saturating_sub(beside)
        };
        let accounts = state.memory.accounts();
        let mut missing = accounts.per(missing);
        let mut asked = Vec::new();
        let is_made = |missing: &PerAccount<u64>| accounts.iter().all(|account| missing[account] == 0);
        let promised = |other: DeviceIx, account| state.objects[other].promised[account];
        let has_some =
            |missing: &PerAccount<u64>, other| accounts.iter().any(|of| missing[of] > 0 && promised(other, of) > 0);
        let yielders = self.devices_that_may_yield(state, plans, work, device);
        for (other, reason) in yielders.now {
            if is_made(&missing) {
                break;
            }
            if has_some(&missing, other) {
                accounts.iter().for_each(|of| missing[of] = missing[of].saturating_sub(promised(other, of)));
                asked.push((other, reason));
            }
        }
        if is_made(&missing) {
            for (other, reason) in asked {
                self.turns.last_yield = state.moment.now();
                stopping::stop(state, other, reason, Some(device), true);
            }
            return Ok(());
        }
        for &(_, other) in &yielders.later {
            accounts.iter().for_each(|of| missing[of] = missing[of].saturating_sub(promised(other, of)));
        }
        let keepers = yielders.never.into_iter().filter(|&other| has_some(&missing, other)).collect();
        if let Some(&(time, _)) = yielders.later.iter().min() {
            state.moment.wake_at(time);
        }
        Err(keepers)
    }

    /// A device waits behind others that keep their memory. It is suspended, to be placed anew, if all of its list finds a home beside
    /// those then (RES-44, RES-55); else its wait is told, once it has lasted for long.
    fn hold_up(&mut self, state: &mut State, work: &Work, device: DeviceIx, keepers: &[DeviceIx]) {
        let Some(&behind) = keepers.first() else { return };
        let has_drained = has_ended(state, work, device) && !state.objects[device].is_suspended();
        if self.may_be_demoted(state, device) && has_drained && self.fits_if_demoted(state, device, keepers) {
            state.moment.request_poll();
            return suspend(&mut self.turns, state, device);
        }
        let turn = &state.objects[device].turn;
        let Some(since) = turn.waits_since.filter(|_| turn.starves_at(state.moment.now()) <= state.moment.now()) else {
            return;
        };
        if state.objects[device].turn.behind.replace(behind) != Some(behind) {
            let (device, behind) = (state.objects.device_id(device), state.objects.device_id(behind));
            state.moment.record(|| Event::DeviceHeldUp { device, behind, since });
        }
    }

    /// The devices that yield to another.
    fn devices_that_may_yield(&self, state: &State, plans: &Plans, work: &Work, wanting: DeviceIx) -> Yielders {
        let mut candidates = Vec::new();
        let (mut later, mut never) = (Vec::new(), Vec::new());
        for (index, record) in state.objects.devices.iter() {
            let other = index;
            let holds_nothing = !record.is_promised_anything();
            if other == wanting || holds_nothing || record.is_suspended() {
                continue;
            }
            match self.may_yield(state, plans, work, other, wanting) {
                Yield::Now(reason) => {
                    let over = state.shares.is_over_budget(record.process);
                    let ran_since = if work.has_nothing_to_run(&state.adapter, &state.objects, other) {
                        record.turn.last_busy
                    } else {
                        record.turn.began_at
                    };
                    let band = Reverse(state.objects[record.process].standing.band);
                    // The room that a device leaves anyway is counted first, so that no other yields for it.
                    let is_active = record.is_active();
                    candidates.push((
                        is_active,
                        !over,
                        !work.has_nothing_to_run(&state.adapter, &state.objects, other),
                        band,
                        ran_since,
                        other,
                        reason,
                    ));
                }
                Yield::At(time) => later.push((time, other)),
                Yield::Never => never.push(other),
            }
        }
        candidates.sort_unstable_by_key(|&(is_active, within, busy, band, since, other, _)| {
            (is_active, within, busy, band, since, other)
        });
        Yielders { now: candidates.into_iter().map(|(.., other, reason)| (other, reason)).collect(), later, never }
    }

    /// Whether a device yields to another that waits (U-30, U-38). A device keeps its turn while its memory is on the way: slices may be
    /// shorter than their paging, and then nothing would run.
    fn may_yield(&self, state: &State, plans: &Plans, work: &Work, other: DeviceIx, wanting: DeviceIx) -> Yield {
        let record = &state.objects[other];
        if record.turn.activity == Activity::Yielding {
            return Yield::Now(SuspendReason::WaitsForRoom);
        }
        let process = &state.objects[record.process];
        let is_coming = self.turns.resuming.contains(&other) || has_portion_on_its_way(state, plans, work, other);
        let not_before = if is_coming { state.moment.now().saturating_add(SLICE_MIN) } else { 0 };
        let slice_over = record.turn.began_at.saturating_add(record.turn.slice).max(not_before);
        let starved_at = state.objects[wanting].turn.starves_at(state.moment.now());
        let is_idle = work.has_nothing_to_run(&state.adapter, &state.objects, other);
        if record.is_over() {
            return Yield::Now(SuspendReason::Idle);
        }
        let at =
            |time: Nanoseconds, reason| if time <= state.moment.now() { Yield::Now(reason) } else { Yield::At(time) };
        if state.shares.is_over_budget(record.process) {
            // A device that is asked again and again has its moment each time, but starves no other.
            let grace = self.trims_until(other).min(starved_at);
            return match is_idle {
                true => at(grace, SuspendReason::IdleOverBudget),
                false => at(grace.max(slice_over), SuspendReason::SliceOver),
            };
        }
        // A device could not be refused for want of a place: all others drain for it now and then.
        let is_needed = state.objects[wanting].turn.takes_all;
        let is_foreground = process.standing.band != PriorityBand::Normal;
        let is_blocked = is_idle && record.has_undispatched();
        let is_reserved = state.memory.accounts().iter().all(|account| {
            let share = state.shares.by_account[account].get(record.process);
            share.demand.max(record.promised[account]) <= share.reservation
        });
        let is_kept = (is_foreground || is_reserved) && !is_blocked && !is_needed;
        let asleep_at = process.stillness.asleep_at().filter(|_| is_foreground && !is_reserved);
        let starved = if is_idle { SuspendReason::Idle } else { SuspendReason::Starvation };
        let asleep = asleep_at.map(|time| (time, SuspendReason::Asleep));
        match asleep.into_iter().chain((!is_kept).then_some((starved_at, starved))).min_by_key(|&(time, _)| time) {
            // A device with work has its slice, also if nothing of it has come to run yet.
            Some((time, reason)) => at(if is_idle { time } else { time.max(slice_over) }, reason),
            None => Yield::Never,
        }
    }

    /// The device's turn has come: its list is brought back, and then its work runs.
    pub(crate) fn resume(
        &mut self,
        state: &mut State,
        plans: &mut Plans,
        requests: &mut Requests,
        work: &Work,
        device: DeviceIx,
        reason: ResumeReason,
    ) -> Result<(), Shortfall> {
        let was_suspended = state.objects[device].is_suspended();
        let has_list = !state.objects[device].has_reference_lists();
        if has_list && !lists_may_run(&state.adapter, &state.objects, work) {
            return Ok(());
        }
        let (numbers, grants) = bring_back_list(state, plans, device)?;
        let dispatched = state.objects[device].dispatched();
        let turn = &mut state.objects[device].turn;
        (turn.gives_way, turn.waits_since, turn.behind, turn.is_exchanged) = (false, None, None, false);
        turn.resumed_after = dispatched;
        turn.resumed_at = state.moment.now();
        (turn.began_at, turn.slice) = (state.moment.now(), SLICE_MIN);
        turn.set_takes_all(turn.takes_all && !has_list);
        // A device that only yielded may still wait for the plans of its last turn.
        if was_suspended {
            turn.unbuilt = !numbers.is_empty();
            turn.plans.clone_from(&numbers);
            pins::forget_held(&mut state.objects, device);
            self.turns.resuming.insert(device);
        }
        let id = state.objects.device_id(device);
        // A device that only yielded has lost nothing: these plans are those of the request that is granted with its turn.
        let returning = || if was_suspended { numbers.clone() } else { Vec::new() };
        state.moment.record(|| Event::DeviceResumed { device: id, reason, plans: returning() });
        if grants {
            requests.note_grant(state, plans, device, numbers);
        }
        Ok(())
    }

    /// Brings back a device that has nothing to run, when there is room again: the last that was pushed out is the first. Fails with
    /// the device that comes back when it is calm.
    fn bring_back(
        &mut self,
        state: &mut State,
        plans: &mut Plans,
        requests: &mut Requests,
        work: &Work,
    ) -> Result<(), DeviceIx> {
        let is_waiting = |device: &DeviceIx| state.objects[*device].turn.waits_since.is_some();
        let stopped = || state.shares.stopped.iter().copied();
        if stopped().any(|device| is_waiting(&device)) || self.turns.power != Power::Up {
            return Ok(());
        }
        let fitting = stopped().filter(|&device| {
            let record = &state.objects[device];
            record.is_suspended()
                && !record.turn.is_halted
                && !record.is_over()
                && fits_beside(state, device, &room_needed(state, device), &state.memory.accounts().none())
        });
        let out_until = |&device: &DeviceIx| state.objects[device].turn.out_until;
        let (idle, out): (Vec<_>, Vec<_>) = fitting.partition(|device| out_until(device) <= state.moment.now());
        // Devices that gave their memory away a moment ago come back later, also if nothing else happens.
        out.iter().map(out_until).for_each(|time| state.moment.wake_at(time));
        let Some(device) = idle.into_iter().max_by_key(|&device| state.objects[device].turn.last_busy) else {
            return Ok(());
        };
        let calm_at = self.turns.last_yield + CALM;
        if state.moment.now() < calm_at {
            state.moment.wake_at(calm_at);
            return Err(device);
        }
        self.place_anew(state, device, false);
        // A device for which there is no room after all is tried again with the next change.
        let _ = self.resume(state, plans, requests, work, device, ResumeReason::PressureFell);
        Ok(())
    }
}

/// Whether a device has run nothing in its turn, and the allocations of a portion of its DMA buffers are on the way.
fn has_portion_on_its_way(state: &State, plans: &Plans, work: &Work, device: DeviceIx) -> bool {
    let of_device = work.queued.iter().map(|queued| &state.objects[queued.context]).filter(|of| of.device == device);
    let mut portions = of_device.filter_map(|context| context.portion.as_ref());
    let has_run = state.objects[device].dispatched() > state.objects[device].turn.resumed_after;
    state.adapter.is_physical()
        && !has_run
        && portions.any(|of| of.plans.iter().any(|&plan| !plans.stream.is_retired(plan)))
}

/// Devices that have work and no turn: who has starved first, then who is within its budget, then by band and time.
fn waiting(state: &mut State, work: &Work) -> Vec<DeviceIx> {
    let mut waiting = Vec::new();
    for device in Vec::from_iter(state.shares.stopped.iter().copied()) {
        let is_free = !state.objects[device].turn.is_halted && !state.objects[device].turn.drains_for_home;
        let wants = is_free && wants_turn(&state.adapter, &state.objects, work, device);
        let now = state.moment.now();
        let turn = &mut state.objects[device].turn;
        turn.waits_since = wants.then(|| turn.waits_since.unwrap_or(now));
        let Some(since) = turn.waits_since else {
            turn.behind = None;
            continue;
        };
        let starves_at = turn.starves_at(now);
        let starved = starves_at <= now;
        // From then on it goes before others, and its list may fit where it does not now, without anything else that happens.
        if !starved {
            state.moment.wake_at(starves_at);
        }
        let process = state.objects[device].process;
        let band = state.objects[process].standing.band;
        waiting.push((!starved, state.shares.is_over_budget(process), band, since, device));
    }
    waiting.sort_unstable();
    waiting.into_iter().map(|(.., device)| device).collect()
}

/// Whether a device has something to do that its turn would let it do.
pub(crate) fn wants_turn(adapter: &Adapter, objects: &Objects, work: &Work, device: DeviceIx) -> bool {
    !objects[device].is_over() && has_to_do(adapter, objects, work, device)
}

/// Whether a device has ungranted requests or runnable work. Requests of a device in error are still granted.
pub(super) fn has_to_do(adapter: &Adapter, objects: &Objects, work: &Work, device: DeviceIx) -> bool {
    let record = &objects[device];
    record.granted < record.requests.len() || work.has_runnable_work(adapter, objects, device)
}

/// Whether what the device needs fits beside what others are promised and `spoken_for`.
fn fits_beside(state: &State, device: DeviceIx, needed: &PerAccount<u64>, spoken_for: &PerAccount<u64>) -> bool {
    state.memory.accounts().iter().all(|account| {
        needed[account].saturating_add(spoken_for[account])
            <= state.shares.not_promised_to_others(&state.objects, &state.memory, device, account)
    })
}

/// Suspends who gives way and has nothing in flight any more.
fn suspend_drained(turns: &mut Turns, state: &mut State, work: &Work) {
    let is_drained = |device: &DeviceIx| {
        let turn = &state.objects[*device].turn;
        turn.activity == Activity::Yielding && turn.gives_way && has_ended(state, work, *device)
    };
    for device in Vec::from_iter(state.shares.stopped.iter().copied().filter(is_drained)) {
        suspend(turns, state, device);
    }
}

/// The device's list is not required any more.
fn suspend(turns: &mut Turns, state: &mut State, device: DeviceIx) {
    state.shares.set_activity(&mut state.objects, device, Activity::Suspended);
    state.objects[device].suspended_in_period = true;
    let id = state.objects.device_id(device);
    state.moment.record(|| Event::DeviceSuspended { device: id });
    release_all(turns, state, device);
    state.shares.renew_promise(&mut state.objects, device);
}

/// The allocations that a device's list pins are to be pinned again when the device is resumed.
fn release_all(turns: &mut Turns, state: &mut State, device: DeviceIx) {
    let halted = state.objects[device].turn.is_halted;
    let released = state.residency.hold_all_for_resume(&mut state.objects, device);
    for index in released {
        // From now on the allocation counts where the lock wants it. If the list has grown too large for that, the lock is not granted.
        // The whole list was noted in the first pass, and counts beside the allocation.
        let is_to_be_seen =
            state.objects[index].is(AllocationState::LOCK_PENDING) && !state.objects[index].is_seen_at_home();
        let goes_into_sight = is_to_be_seen && replacement::move_into_sight(turns, state, index);
        if is_to_be_seen && !goes_into_sight {
            state.objects[index].set_lock_pending(false);
        }
        if halted || goes_into_sight {
            state.objects[index].set_hastened(true);
        }
        state.residency.unpin(&mut state.moment, &mut state.objects, &mut state.memory, index);
    }
}

/// Brings back what a device had pinned, and lets it run. A device that takes all gets its next request granted too,
/// before others take the ranges. Returns the plans for that, and whether a request was granted with them.
fn bring_back_list(state: &mut State, plans: &mut Plans, device: DeviceIx) -> Result<(Vec<PlanNo>, bool), Shortfall> {
    let to_restore = pins::items_to_bring_back(&state.objects, device);
    let until = state.objects[device].dispatched();
    let next = state.objects[device].turn.takes_all.then(|| next_items(&state.objects, device)).flatten();
    let with_next = next.as_ref().map(|next| {
        let wanted = [&to_restore[..], &state.residency.still_wanted(&state.objects, device, next)].concat();
        let placement = satisfy::satisfy_request(state, device, &wanted, until);
        placement.map(|placement| (placement, wanted, [&to_restore[..], next].concat()))
    });
    let grants = !matches!(with_next, None | Some(Err(Shortfall::Own)));
    // A request whose allocations the device may not pin now is left for later.
    let (placement, wanted, items) = match with_next {
        Some(with_next) if grants => with_next?,
        _ => (satisfy::satisfy(state, device, &to_restore, until)?, to_restore.clone(), to_restore),
    };
    let required = Vec::from_iter(wanted.iter().map(|&(index, _)| index));
    // While it counts as suspended, no plan waits for what it has queued.
    let request = state.objects.next_request(device).filter(|_| grants);
    let draft = plans.begin(device, request);
    let numbers = plans.carry_out(state, draft, &required, placement);
    state.shares.set_activity(&mut state.objects, device, Activity::Active);
    bring_in::pin_list(state, device, &items);
    if grants {
        let record = &mut state.objects[device];
        let granted = record.granted;
        record.requests[granted].kind = RequestKind::MakeResident(Vec::new());
    }
    Ok((numbers, grants))
}

/// The items of a device's next ungranted request, if it is a MakeResident.
fn next_items(objects: &Objects, device: DeviceIx) -> Option<Vec<(AllocationIx, Option<SpanNo>)>> {
    let record = &objects[device];
    let RequestKind::MakeResident(items) = &record.requests.get(record.granted)?.kind else { return None };
    Some(items.clone())
}

/// Whether nothing of a device is in flight, nor begun.
pub(crate) fn has_ended(state: &State, work: &Work, device: DeviceIx) -> bool {
    !state.objects[device].is_in_flight() && !work.is_amid_dma_buffer(&state.adapter, &state.objects, device)
}
