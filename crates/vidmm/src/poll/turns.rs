//! Who yields, who is suspended, whose turn comes (RES-71, RES-75, D3).
//!
//! The lists of active devices always fit together. A device whose list has no room beside them waits for its turn; others
//! yield to it: first those of processes above their budget, idle ones before busy ones whose time slice is over; after
//! a long wait also those within their budget, but never the foreground. So the list of a device that fits alone gets its turn,
//! and whoever stays within its budget keeps what it has.

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::{
    allocation::AllocationState,
    budget::PriorityBand,
    event::{Event, ResumeReason, SuspendReason},
    id::{AllocationIx, DeviceIx, PlanNo},
    pool::{PerPool, Pool},
    residency::EntryFlags,
    spans::SpanNo,
    state::VidMm,
    turn::{Activity, CALM, CALM_SHARE, Power, SLICE_MIN, SLICE_PER_PAGING, STARVATION, TRIM_GRACE},
    units::Nanoseconds,
};

/// What may be asked of a device that is to yield.
enum Yield {
    Now(SuspendReason),
    /// Not before this time.
    At(Nanoseconds),
    Never,
}

impl VidMm {
    /// Gives turns: one step of the scheduler.
    pub(crate) fn take_turns(&mut self) {
        self.settle_resumed();
        self.settle_takers();
        self.replace();
        if self.stopped.is_empty() {
            return;
        }
        self.suspend_drained();
        // Whoever comes later in the order, also one who is about to yield, leaves the room that is made for those before it.
        let mut spoken_for = PerPool::default();
        for device in self.waiting() {
            let needed = self.place_for_turn(device);
            let has_room = self.has_room(device, needed, &spoken_for);
            if has_room {
                self.resume(device, ResumeReason::HasWork);
            }
            if !self.devices[device].is_active() && (has_room || self.make_way(device, needed, &spoken_for)) {
                Pool::ALL.into_iter().for_each(|pool| spoken_for[pool] += needed[pool]);
            }
        }
        self.suspend_drained();
        self.bring_back();
    }

    /// Notes which lists are back: from then on a device's slice runs.
    fn settle_resumed(&mut self) {
        let mut next = DeviceIx::FIRST;
        while let Some(device) = self.turns.resuming.next_from(next) {
            next = device.next();
            let (stream, now) = (&self.stream, self.now);
            let turn = &mut self.devices[device].turn;
            if turn.unbuilt {
                let Some(fence) = stream.fence_of_all(&turn.plans) else { continue };
                (turn.paging_fence, turn.unbuilt) = (fence, false);
                self.stirred = true;
            }
            if turn.plans.iter().all(|&plan| stream.is_retired(plan)) {
                turn.plans.clear();
                turn.began_at = now;
                turn.slice = SLICE_MIN.max(SLICE_PER_PAGING.saturating_mul(now - turn.resumed_at));
                self.turns.resuming.remove(&device);
            }
        }
    }

    /// Devices that have work and no turn: who has starved first, then who is within its budget, then by band and time.
    fn waiting(&mut self) -> Vec<DeviceIx> {
        let mut waiting = Vec::new();
        for device in Vec::from_iter(self.stopped.iter().copied()) {
            let wants = !self.devices[device].turn.is_halted && self.wants_turn(device);
            let now = self.now;
            let turn = &mut self.devices[device].turn;
            turn.waits_since = wants.then(|| turn.waits_since.unwrap_or(now));
            let Some(since) = turn.waits_since else { continue };
            let starved = now - since >= STARVATION;
            let process = self.devices[device].process;
            let band = self.processes[process].standing.band;
            waiting.push((!starved, self.is_over_budget(process), band, since, device));
        }
        waiting.sort_unstable();
        waiting.into_iter().map(|(.., device)| device).collect()
    }

    /// Whether a device has something to do that its turn would let it do.
    fn wants_turn(&self, device: DeviceIx) -> bool {
        let books = &self.devices[device];
        books.error.is_none() && (books.granted < books.requests.len() || self.has_runnable_work(device))
    }

    /// Whether queued work of the device waits for nothing but its turn.
    pub(super) fn has_runnable_work(&self, device: DeviceIx) -> bool {
        let mut queued = self.queued.iter().map(|queued| &self.contexts[queued.context]);
        (self.devices[device].has_undispatched() || self.adapter.is_physical())
            && queued.any(|context| {
                let next = context.queue.front().filter(|_| context.device == device);
                next.is_some_and(|next| self.fence_waits(&next.desc.waits).all(|wait| wait.is_some()))
            })
    }

    /// Whether a device has nothing to run and nothing under way.
    fn has_nothing_to_run(&self, device: DeviceIx) -> bool {
        let books = &self.devices[device];
        books.error.is_some() || (books.requests.is_empty() && !books.is_in_flight() && !self.has_runnable_work(device))
    }

    /// What a device that waits needs for its turn. Where it may, what could be in system memory is placed anew for it.
    fn place_for_turn(&mut self, device: DeviceIx) -> PerPool<u64> {
        let process = self.devices[device].process;
        let waited = self.devices[device].turn.waits_since.map_or(0, |since| self.now - since);
        let may_be_demoted = self.is_over_budget(process) || waited >= STARVATION;
        if self.devices[device].is_suspended() {
            self.place_anew(device, may_be_demoted);
        }
        self.room_needed(device)
    }

    /// Whether what the device needs fits beside what others are promised and `spoken_for`.
    fn has_room(&self, device: DeviceIx, needed: PerPool<u64>, spoken_for: &PerPool<u64>) -> bool {
        Pool::ALL
            .into_iter()
            .all(|pool| needed[pool].saturating_add(spoken_for[pool]) <= self.not_promised_to_others(device, pool))
    }

    /// Makes others yield, if those who may would make room for the device beside what is `spoken_for`; whether they would.
    fn make_way(&mut self, device: DeviceIx, needed: PerPool<u64>, spoken_for: &PerPool<u64>) -> bool {
        let missing = |pool: Pool| {
            let beside = self.not_promised_to_others(device, pool);
            needed[pool].saturating_add(spoken_for[pool]).saturating_sub(beside)
        };
        let mut missing = PerPool::new(missing(Pool::Memory), missing(Pool::System));
        let mut asked = Vec::new();
        let mut when = None;
        for (other, reason) in self.who_may_yield(device, &mut when) {
            if Pool::ALL.into_iter().all(|pool| missing[pool] == 0) {
                break;
            }
            let held = |pool| self.devices[other].promised(pool);
            if Pool::ALL.into_iter().any(|pool| missing[pool] > 0 && held(pool) > 0) {
                Pool::ALL.into_iter().for_each(|pool| missing[pool] = missing[pool].saturating_sub(held(pool)));
                asked.push((other, reason));
            }
        }
        let is_made = Pool::ALL.into_iter().all(|pool| missing[pool] == 0);
        if is_made {
            for (other, reason) in asked {
                self.turns.last_yield = self.now;
                self.stop(other, reason, Some(device), true);
            }
        } else if let Some(when) = when {
            self.wake_at(when);
        }
        is_made
    }

    /// The devices that yield to another now, in the order in which they do; `when` becomes the time at which more may.
    fn who_may_yield(&self, wanting: DeviceIx, when: &mut Option<Nanoseconds>) -> Vec<(DeviceIx, SuspendReason)> {
        let mut candidates = Vec::new();
        for (index, books) in self.devices.iter() {
            let other = index;
            let holds_nothing = Pool::ALL.into_iter().all(|pool| books.promised(pool) == 0);
            if other == wanting || holds_nothing || books.is_suspended() {
                continue;
            }
            match self.may_yield(other, wanting) {
                Yield::Now(reason) => {
                    let over = self.is_over_budget(books.process);
                    let ran_since =
                        if self.has_nothing_to_run(other) { books.turn.last_busy } else { books.turn.began_at };
                    let band = Reverse(self.processes[books.process].standing.band);
                    candidates.push((!over, !self.has_nothing_to_run(other), band, ran_since, other, reason));
                }
                Yield::At(time) => *when = Some(when.map_or(time, |when: Nanoseconds| when.min(time))),
                Yield::Never => {}
            }
        }
        candidates.sort_unstable_by_key(|&(within, busy, band, since, other, _)| (within, busy, band, since, other));
        candidates.into_iter().map(|(.., other, reason)| (other, reason)).collect()
    }

    /// Whether a device yields to another that waits (U-30, U-38).
    fn may_yield(&self, other: DeviceIx, wanting: DeviceIx) -> Yield {
        let books = &self.devices[other];
        if books.turn.activity == Activity::Yielding {
            return Yield::Now(SuspendReason::WaitsForRoom);
        }
        let process = &self.processes[books.process];
        let slice_over = books.turn.began_at.saturating_add(books.turn.slice).max(self.resuming_until(other));
        let waits_since = self.devices[wanting].turn.waits_since.unwrap_or(self.now);
        let starved_at = waits_since.saturating_add(STARVATION);
        let is_idle = self.has_nothing_to_run(other);
        if books.error.is_some() {
            return Yield::Now(SuspendReason::Idle);
        }
        let at = |time: Nanoseconds, reason| if time <= self.now { Yield::Now(reason) } else { Yield::At(time) };
        if self.is_over_budget(books.process) {
            // Who is asked again and again has its moment each time, but starves nobody.
            let grace = books.turn.asked_to_trim_at.map_or(0, |asked| asked.saturating_add(TRIM_GRACE)).min(starved_at);
            return match is_idle {
                true => at(grace, SuspendReason::IdleOverBudget),
                false => at(grace.max(slice_over), SuspendReason::SliceOver),
            };
        }
        // Who finds no place could not be refused for it: everybody drains for it now and then.
        let is_needed = self.devices[wanting].turn.takes_all;
        let is_foreground = process.standing.band != PriorityBand::Normal;
        let is_blocked = is_idle && books.has_undispatched();
        let is_reserved = Pool::ALL.into_iter().all(|pool| {
            let share = self.shares[pool].get(books.process);
            share.demand.max(books.promised(pool)) <= share.reservation
        });
        if (is_foreground || is_reserved) && !is_blocked && !is_needed {
            return Yield::Never;
        }
        match is_idle {
            true => at(starved_at, SuspendReason::Idle),
            false => at(starved_at.max(slice_over), SuspendReason::Starvation),
        }
    }

    /// A device whose list is on its way back does not yield before it has run.
    fn resuming_until(&self, device: DeviceIx) -> Nanoseconds {
        if self.turns.resuming.contains(&device) { self.now.saturating_add(SLICE_MIN) } else { 0 }
    }

    /// Nothing of the device is dispatched or granted from now on.
    pub(crate) fn stop(
        &mut self,
        device: DeviceIx,
        reason: SuspendReason,
        wanted_by: Option<DeviceIx>,
        gives_way: bool,
    ) {
        let turn = &mut self.devices[device].turn;
        turn.gives_way |= gives_way;
        // Who waits for its turn already waits for the same memory still, whoever else has its turn before.
        if turn.activity != Activity::Active {
            return;
        }
        turn.takes_all = false;
        self.set_activity(device, Activity::Yielding);
        self.stopped.insert(device);
        let (id, wanted_by) = (self.device_id(device), wanted_by.map(|other| self.device_id(other)));
        self.events.record(|| Event::DeviceYielded { device: id, reason, wanted_by });
        self.statistics.yields += 1;
        self.stirred = true;
    }

    /// Suspends who gives way and has nothing in flight any more.
    fn suspend_drained(&mut self) {
        let is_drained = |device: &DeviceIx| {
            let books = &self.devices[*device];
            let has_ended = !books.is_in_flight() && !self.is_amid_dma_buffer(*device);
            books.turn.activity == Activity::Yielding && books.turn.gives_way && has_ended
        };
        for device in Vec::from_iter(self.stopped.iter().copied().filter(is_drained)) {
            self.suspend(device);
        }
    }

    /// The device's list is not required any more.
    fn suspend(&mut self, device: DeviceIx) {
        self.set_activity(device, Activity::Suspended);
        self.devices[device].suspended_in_period = true;
        let id = self.device_id(device);
        self.events.record(|| Event::DeviceSuspended { device: id });
        self.withdraw_promise(device);
        self.release_all(device);
        self.renew_promise(device);
        self.stirred = true;
    }

    /// What entries of a device's list hold is to be held again when the device is resumed.
    fn release_all(&mut self, device: DeviceIx) {
        let halted = self.devices[device].turn.is_halted;
        for index in core::mem::take(&mut self.devices[device].holdings) {
            let is_open = self.allocations.contains(index) && self.allocations[index].entry(device).is_some();
            if !is_open {
                continue;
            }
            let entry = self.allocations[index].entry_mut(device);
            entry.is -= EntryFlags::IN_HOLDINGS;
            if !entry.is_holding() {
                continue;
            }
            self.devices[device].to_bring_back.push(self.allocations.id(index));
            self.release(index, device);
            let allocation = &mut self.allocations[index];
            allocation.entry_mut(device).is |= EntryFlags::OWED;
            let (pool, size) = (allocation.pool(), allocation.size);
            self.devices[device].owed[pool] += size;
            // Its work may have written, and may write again.
            let mut state = AllocationState::DIRTY | AllocationState::SUSPENDED;
            let is_to_be_seen = self.allocations[index].state.contains(AllocationState::LOCK_PENDING);
            state.set(AllocationState::EVICT_SOON, halted || is_to_be_seen);
            self.allocations[index].state |= state;
            self.let_go(index);
        }
    }

    /// The device's turn has come: its list is brought back, and then its work runs.
    fn resume(&mut self, device: DeviceIx, reason: ResumeReason) {
        let was_suspended = self.devices[device].is_suspended();
        let has_list = !self.devices[device].has_reference_lists();
        if has_list && !self.lists_may_run() {
            return;
        }
        let Some((plans, grants)) = self.bring_back_list(device) else { return };
        self.set_activity(device, Activity::Active);
        self.stopped.remove(&device);
        let plans = self.stream.unretired(plans);
        let turn = &mut self.devices[device].turn;
        (turn.gives_way, turn.waits_since, turn.resumed_at) = (false, None, self.now);
        (turn.began_at, turn.slice) = (self.now, SLICE_MIN);
        turn.takes_all &= !has_list;
        // A device that only yielded may still wait for the plans of its last turn.
        if was_suspended {
            turn.unbuilt = !plans.is_empty();
            turn.plans.clone_from(&plans);
            self.devices[device].to_bring_back.clear();
            self.turns.resuming.insert(device);
            self.statistics.resumes += 1;
        }
        let id = self.device_id(device);
        // Who only yielded has lost nothing: these plans are those of the request that is granted with its turn.
        let returning = || if was_suspended { plans.clone() } else { Vec::new() };
        self.events.record(|| Event::DeviceResumed { device: id, reason, plans: returning() });
        self.stirred = true;
        if grants {
            self.note_grant(device, plans);
        }
        if self.adapter.is_physical() {
            self.grant_to(device);
        }
    }

    /// Brings back what a device held, if it was suspended and there is room for all of it. Returns the plans for that, and whether
    /// its next request is granted with them.
    fn bring_back_list(&mut self, device: DeviceIx) -> Option<(Vec<PlanNo>, bool)> {
        if self.adapter.is_physical() {
            return self.resume_if_placed(device);
        }
        let items = self.items_to_bring_back(device);
        // While it counts as suspended, no plan waits for what it has queued.
        self.can_bring_in(device, &items).then(|| (self.bring_in(device, &items), false))
    }

    /// What was held when the device was suspended, and is still required.
    pub(super) fn items_to_bring_back(&self, device: DeviceIx) -> Vec<(AllocationIx, Option<SpanNo>)> {
        let books = &self.devices[device];
        let still_required = |&id| {
            let index = self.allocations.lookup(id).ok()?;
            let entry = self.allocations[index].entry(device)?;
            entry.is_owed().then_some((index, None))
        };
        books.to_bring_back.iter().filter_map(still_required).collect()
    }

    /// Brings back who has nothing to run, when there is room again: who was pushed out last is the first.
    fn bring_back(&mut self) {
        let is_waiting = |device: &DeviceIx| self.devices[*device].turn.waits_since.is_some();
        let stopped = || self.stopped.iter().copied();
        if stopped().any(|device| is_waiting(&device)) || self.turns.power != Power::Up {
            return;
        }
        let idle = stopped().filter(|&device| {
            let books = &self.devices[device];
            books.is_suspended() && !books.turn.is_halted && books.error.is_none() && self.has_calm_room(device)
        });
        let Some(device) = idle.max_by_key(|&device| self.devices[device].turn.last_busy) else { return };
        let calm_at = self.turns.last_yield + CALM;
        if self.now < calm_at {
            return self.wake_at(calm_at);
        }
        self.place_anew(device, false);
        self.resume(device, ResumeReason::PressureFell);
    }

    /// Whether the device's list fits with room to spare.
    fn has_calm_room(&self, device: DeviceIx) -> bool {
        Pool::ALL.into_iter().all(|pool| {
            let spare = self.list_capacity(pool) / CALM_SHARE;
            let needed = self.devices[device].needed(pool);
            needed == 0 || needed.saturating_add(spare) <= self.not_promised_to_others(device, pool)
        })
    }

    /// Changes whether a device's work runs, and with it what it is promised.
    pub(crate) fn set_activity(&mut self, device: DeviceIx, activity: Activity) {
        let books = &mut self.devices[device];
        Pool::ALL.into_iter().for_each(|pool| self.promised_bytes[pool] -= books.promised(pool));
        books.turn.activity = activity;
        Pool::ALL.into_iter().for_each(|pool| self.promised_bytes[pool] += books.promised(pool));
    }

    /// Somebody waits for this time.
    pub(crate) fn wake_at(&mut self, time: Nanoseconds) {
        let later = time.max(self.now.saturating_add(1));
        self.wake = Some(self.wake.map_or(later, |wake| wake.min(later)));
    }
}
