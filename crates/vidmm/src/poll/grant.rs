//! Granting: where a request is decided (D3). `satisfy` is the one place where room is found; it decides all of a request or
//! nothing.

use core::cmp::Reverse;

use alloc::{collections::BTreeSet, vec::Vec};

use super::draft::Draft;
use crate::{
    allocation::{Allocation, AllocationState},
    buggify::{MOMENT, Unlikely},
    event::{Event, EvictReason},
    gpu_va::{Mapping, TableKey},
    id::{AllocationIx, DeviceIx, PlanNo, SubmissionNo},
    paging::Retire,
    place::Place,
    planted::PlantedBug,
    pool::{PerPool, Pool},
    request::RequestKind,
    residency::ListEntry,
    spans::SpanNo,
    state::{Deferred, DeferredAction, VidMm},
    turn::Power,
};

/// Why a request is not granted yet.
enum Shortfall {
    /// Its device would hold what others are promised, until work that it submitted before has been dispatched.
    Promise,
    /// The CPU sees what would leave its sight, until it is unlocked (U-40).
    Unlock,
    /// There is no room at present.
    Room,
}

/// What it takes to bring allocations in for a device, in bytes.
#[derive(Default)]
struct Needs {
    /// The CPU sees what would leave its sight.
    unlock: bool,
    /// What the device does not hold.
    not_held: PerPool<u64>,
    /// What is not where it is counted.
    missing: PerPool<u64>,
    /// What is there, and would be evictable otherwise.
    kept: PerPool<u64>,
}

impl VidMm {
    /// Plans the eviction of what was to go at the earliest opportunity: each device's on its own, so that none waits for
    /// another's work (D5).
    pub(super) fn evict_soon(&mut self) {
        if self.evict_soon.is_empty() {
            return;
        }
        let mut draft = Draft::default();
        let mut device = None;
        while let Some(index) = self.evict_soon.pop_front() {
            let wanted = AllocationState::EVICTABLE | AllocationState::EVICT_SOON;
            if !self.allocations.contains(index) || !self.allocations[index].state.contains(wanted) {
                continue;
            }
            let owner = self.allocations[index].device;
            if device.replace(owner) != Some(owner) {
                self.finish(core::mem::take(&mut draft));
            }
            let suspended = self.allocations[index].state.contains(AllocationState::SUSPENDED);
            let locked = self.allocations[index].state.contains(AllocationState::LOCK_PENDING);
            let reason = match (self.turns.power, suspended) {
                (Power::Up, _) if locked => EvictReason::Locked,
                (Power::Up, true) => EvictReason::DeviceSuspended,
                (Power::Up, false) => EvictReason::EvictRequested,
                (Power::GoingDown | Power::Down, _) => EvictReason::PoweredDown,
            };
            self.plan_out(&mut draft, index, self.reason(index, reason));
        }
        self.finish(draft);
    }

    /// Plans the root tables of new processes, as there is room: no work runs without (GVA-17).
    pub(super) fn plan_roots(&mut self) {
        if self.rootless.is_empty() {
            return;
        }
        let root = TableKey::root(&self.adapter);
        while let Some(process) = self.rootless.first().copied() {
            let placed = self.processes[process].tables.get_mut(root).address.is_some();
            let bytes = root.segment_bytes(&self.adapter);
            if !placed && bytes > self.placer.available() + self.evictable[Pool::Memory].bytes() {
                return;
            }
            self.rootless.pop_first();
            let mut draft = Draft::default();
            self.plan_table(&mut draft, process, root);
            self.finish(draft);
        }
    }

    /// Plans what waited for submissions to be dispatched and requests to be granted.
    pub(super) fn follow_up_all(&mut self) {
        let mut next = DeviceIx::FIRST;
        while let Some(device) = self.deferring.next_from(next) {
            next = device.next();
            self.follow_up(device);
        }
    }

    fn follow_up(&mut self, device: DeviceIx) {
        let is_due = |deferred: &Deferred, books: &crate::state::Device| {
            deferred.submission <= books.dispatched() && deferred.request <= books.granted_request()
        };
        while let Some(next) = self.devices[device].deferred.front().copied() {
            if !is_due(&next, &self.devices[device]) || !self.get_ready_for(&next.action) {
                return;
            }
            self.devices[device].deferred.pop_front();
            self.carry_out(device, next);
        }
        self.deferring.remove(&device);
    }

    fn carry_out(&mut self, device: DeviceIx, deferred: Deferred) {
        let mut draft = Draft::default();
        match deferred.action {
            DeferredAction::Purge(index) if self.allocations[index].openings().next().is_some() => {
                // Devices that have closed it may still use it: the last of them purges it.
                self.allocations[index].state |= AllocationState::PURGE_DUE;
                return;
            }
            DeferredAction::Purge(index) => {
                let Allocation { ref place, last_plan, .. } = self.allocations[index];
                let retired = self.devices[device].retired() >= deferred.submission;
                if self.adapter.has_bug(PlantedBug::ReapEarly) {
                    self.dead.push(index);
                    self.stirred = true;
                    return;
                }
                if place.is_some() {
                    self.plan_out(&mut draft, index, EvictReason::Destroyed);
                } else if retired && self.stream.is_retired(last_plan) {
                    self.dead.push(index);
                    self.stirred = true;
                    return;
                }
                self.plan_after(&mut draft, last_plan);
                self.plan_retire(&mut draft, Retire::Allocation(index));
            }
            DeferredAction::Discard(index) => self.discard_at_once(&mut draft, index),
            DeferredAction::Unmap { allocation, freed } => self.plan_unmap(&mut draft, allocation, freed),
            DeferredAction::Close(index) => {
                let of_device = |mapping: &Mapping| mapping.device == device;
                for mapping in self.allocations[index].take_mappings(of_device) {
                    self.plan_mapping_away(&mut draft, index, mapping);
                }
                self.plan_retire(&mut draft, Retire::Opening { allocation: index, device });
                self.plan_after(&mut draft, self.allocations[index].last_plan);
            }
        }
        self.plan_wait(&mut draft, device, deferred.submission);
        self.finish(draft);
    }

    /// Grants requests until one does not fit yet: queues of higher priority first, then by arrival (U-28). Nobody is
    /// passed over for want of room: what the first one waits for would otherwise be taken by the next, again and again. A
    /// device that must first let go of what it holds itself keeps nobody waiting.
    pub(crate) fn grant(&mut self) {
        let mut held_back = BTreeSet::new();
        while let Some(device) = self.next_to_grant(&held_back) {
            if self.buggify.makes(Unlikely::HoldRequests) {
                return self.wake_at(self.now + MOMENT);
            }
            match self.grant_next(device) {
                Ok(()) => {}
                Err(Shortfall::Promise | Shortfall::Unlock) => drop(held_back.insert(device)),
                Err(Shortfall::Room) => return,
            }
        }
    }

    /// Grants what a device has asked for, as far as there is room: with its turn, before others take that.
    pub(super) fn grant_to(&mut self, device: DeviceIx) {
        while self.devices[device].is_active() && self.devices[device].granted < self.devices[device].requests.len() {
            if self.grant_next(device).is_err() {
                return;
            }
        }
    }

    /// Decides the next request of a device, if it can be granted.
    fn grant_next(&mut self, device: DeviceIx) -> Result<(), Shortfall> {
        let books = &mut self.devices[device];
        let granted = books.granted;
        let request = &mut books.requests[granted];
        let position = request.position;
        let kind = core::mem::replace(&mut request.kind, RequestKind::MakeResident(Vec::new()));
        match self.satisfy(device, position, &kind) {
            Ok(plans) => {
                self.note_grant(device, plans);
                Ok(())
            }
            Err(shortfall) => {
                self.devices[device].requests[granted].kind = kind;
                Err(shortfall)
            }
        }
    }

    fn next_to_grant(&self, held_back: &BTreeSet<DeviceIx>) -> Option<DeviceIx> {
        let is_candidate = |device: &DeviceIx| {
            let books = &self.devices[*device];
            !held_back.contains(device) && (books.is_active() || books.error.is_some())
        };
        let candidates = self.requesting.iter().copied().filter(is_candidate);
        candidates.min_by_key(|&device| {
            let books = &self.devices[device];
            let request = &books.requests[books.granted];
            (Reverse(self.paging_queues[request.queue].priority), request.arrival)
        })
    }

    /// Decides a whole request, or nothing of it.
    fn satisfy(
        &mut self,
        device: DeviceIx,
        position: SubmissionNo,
        kind: &RequestKind,
    ) -> Result<Vec<PlanNo>, Shortfall> {
        match kind {
            RequestKind::MakeResident(items) => {
                // To a device in error nothing is brought in.
                if self.devices[device].error.is_some() {
                    self.withdraw_promise(device);
                    self.hold_granted(device, items);
                    self.renew_promise(device);
                    return Ok(Vec::new());
                }
                // What has lapsed since it was asked for is required by nothing any more.
                let is_required = |&(index, _): &(AllocationIx, _)| self.allocations[index].is_required();
                let items: Vec<(AllocationIx, Option<SpanNo>)> = items.iter().copied().filter(is_required).collect();
                let needs = self.needs(device, &items);
                if needs.unlock {
                    return Err(Shortfall::Unlock);
                }
                let joining = items.iter().map(|&(index, _)| index);
                if !self.may_hold(device, needs.not_held) || !self.packs_with(device, joining) {
                    return Err(Shortfall::Promise);
                }
                if self.adapter.is_physical() {
                    let plans = self.bring_in_if_placed(device, &items);
                    return plans.ok_or_else(|| {
                        self.note_no_place(device);
                        Shortfall::Promise
                    });
                }
                if !self.has_room_for(device, position, &needs) {
                    return Err(Shortfall::Room);
                }
                Ok(self.bring_in(device, &items))
            }
            RequestKind::Decided(plans) => Ok(plans.clone()),
            RequestKind::MapGpuVirtualAddress { allocation, mapping } => {
                if !self.has_room_for_tables(mapping) {
                    return Err(Shortfall::Room);
                }
                Ok(self.make_mapping(*allocation, *mapping))
            }
        }
    }

    /// Whether there is room for a device's list to be brought back.
    pub(super) fn can_bring_in(&mut self, device: DeviceIx, items: &[(AllocationIx, Option<SpanNo>)]) -> bool {
        let needs = self.needs(device, items);
        !needs.unlock && self.has_room_for(device, self.devices[device].dispatched(), &needs)
    }

    /// What it takes to bring `items` in. Each allocation counts once, however often it is named.
    fn needs(&mut self, device: DeviceIx, items: &[(AllocationIx, Option<SpanNo>)]) -> Needs {
        let mut needs = Needs::default();
        for &(index, _) in items {
            needs.unlock |= self.waits_for_unlock(index);
            let allocation = &mut self.allocations[index];
            if allocation.state.contains(AllocationState::SEEN) {
                continue;
            }
            allocation.state |= AllocationState::SEEN;
            let (pool, size) = (allocation.pool(), allocation.size);
            if !allocation.is_held_by(device) {
                needs.not_held[pool] += size;
            }
            // What is elsewhere and is wanted here makes room there as any victim does.
            if allocation.place.is_none_or(|place| place.pool() != pool) {
                needs.missing[pool] += size;
            } else if allocation.state.contains(AllocationState::EVICTABLE) {
                needs.kept[pool] += size;
            }
        }
        items.iter().for_each(|&(index, _)| self.allocations[index].state -= AllocationState::SEEN);
        needs
    }

    fn has_room_for(&self, device: DeviceIx, position: SubmissionNo, needs: &Needs) -> bool {
        Pool::ALL.into_iter().all(|pool| self.has_room_in(pool, device, position, needs))
    }

    /// Whether all that is missing in a pool fits into what is free and what is evictable there, without what the request
    /// itself keeps.
    ///
    /// Where it fits without a victim once the dead and the offered are gone, that is waited for while work of the device runs:
    /// copying living content out and in again costs more. When nothing runs any more, what dies may itself wait for this
    /// request.
    fn has_room_in(&self, pool: Pool, device: DeviceIx, position: SubmissionNo, needs: &Needs) -> bool {
        let (missing, kept) = (needs.missing[pool], needs.kept[pool]);
        let (available, evictable) = (self.available(pool), &self.evictable[pool]);
        if missing <= available {
            return true;
        }
        if missing > available + evictable.bytes() - kept {
            return false;
        }
        let books = &self.devices[device];
        let nothing_runs = books.retired() >= books.dispatched();
        let worthless = evictable.worthless_bytes();
        nothing_runs
            || missing <= available + worthless
            || missing > available + worthless + self.dying_bytes(pool, device, position)
    }

    /// Bytes of destroyed allocations that are held only for submissions of the device up to `position`.
    fn dying_bytes(&self, pool: Pool, device: DeviceIx, position: SubmissionNo) -> u64 {
        let lapsing = self.devices[device].lapsing.up_to(position);
        let dying = lapsing.filter(|&(last, index)| {
            let allocation = &self.allocations[index];
            allocation.state.contains(AllocationState::DESTROYED)
                && allocation.pool() == pool
                && allocation.entries().all(|(user, entry)| {
                    !entry.has_ungranted_span()
                        && (if user == device { entry.until() == last } else { !entry.is_holding() })
                })
        });
        // An Evict names an allocation more than once if it ends more than one span of it.
        let dying = BTreeSet::from_iter(dying.map(|(_, index)| index));
        dying.into_iter().map(|index| self.allocations[index].size).sum()
    }

    pub(super) fn bring_in(&mut self, device: DeviceIx, items: &[(AllocationIx, Option<SpanNo>)]) -> Vec<PlanNo> {
        let mut draft = Draft { wanted_by: Some(device), ..Draft::default() };
        let mut plans = Vec::new();
        let mut missing = Vec::new();
        // What the request names is no victim of it.
        self.keep_all(items.iter().map(|&(index, _)| index));
        for &(index, _) in items {
            if self.is_placed(index) {
                let plan = self.allocations[index].last_plan;
                if !self.stream.is_retired(plan) {
                    plans.push(plan);
                }
                continue;
            }
            if self.adapter.has_bug(PlantedBug::PlaceTwice) {
                self.allocations[index].take_place();
            }
            if self.allocations[index].place.is_some() {
                self.plan_out(&mut draft, index, self.reason_to_move(index));
            }
            missing.push(index);
        }
        // System memory first: what leaves the memory segment may then stay resident in what is left there.
        for pool in [Pool::System, Pool::Memory] {
            for &index in &missing {
                let allocation = &self.allocations[index];
                if allocation.place.is_none() && allocation.pool() == pool {
                    self.plan_in(&mut draft, index);
                }
            }
        }
        plans.extend(self.finish(draft));
        self.withdraw_promise(device);
        self.hold_granted(device, items);
        self.renew_promise(device);
        // What was held when it was asked for may have lapsed since.
        items.iter().for_each(|&(index, _)| self.let_go(index));
        plans
    }

    /// The spans that the items name are granted.
    pub(super) fn hold_granted(&mut self, device: DeviceIx, items: &[(AllocationIx, Option<SpanNo>)]) {
        for &(index, span) in items {
            if let Some(span) = span {
                let effect = self.allocations[index].entry_mut(device).grant(span, &mut self.spans);
                self.apply(index, device, effect);
            } else if self.allocations[index].entry(device).is_some_and(ListEntry::is_owed) {
                // What was held before its device was suspended is held again.
                self.hold(index, device);
            }
        }
    }

    /// Why an allocation that is resident, but not where its device's list counts it, goes there.
    pub(super) fn reason_to_move(&self, index: AllocationIx) -> EvictReason {
        let allocation = &self.allocations[index];
        match (&allocation.place, allocation.pool()) {
            _ if allocation.state.contains(AllocationState::LOCK_PENDING) => EvictReason::Locked,
            (_, Pool::Memory) => EvictReason::Promoted,
            (Some(Place::Memory(_)), Pool::System) => EvictReason::RoomWanted,
            (_, Pool::System) => EvictReason::RangeWanted,
        }
    }

    fn make_mapping(&mut self, index: AllocationIx, mapping: Mapping) -> Vec<PlanNo> {
        let mut draft = Draft::default();
        let mut plans = self.plan_tables(&mut draft, &mapping);
        plans.push(self.allocations[index].last_plan);
        self.allocations[index].add_mapping(mapping);
        self.plan_entries(&mut draft, index, mapping, true);
        plans.extend(self.finish(draft));
        plans
    }

    pub(super) fn note_grant(&mut self, device: DeviceIx, plans: Vec<PlanNo>) {
        let plans = self.stream.unretired(plans);
        let device_id = self.device_id(device);
        let books = &mut self.devices[device];
        let request = &mut books.requests[books.granted];
        request.plans = plans;
        let queue = self.paging_queues.id(request.queue);
        self.events.record(|| Event::Granted {
            device: device_id,
            queue,
            paging_fence_value: request.fence_value,
            plans: request.plans.clone(),
        });
        books.granted += 1;
        if books.granted == books.requests.len() {
            self.requesting.remove(&device);
        }
        self.granted.insert(device);
        self.stirred = true;
        self.settle_list(device);
    }
}
