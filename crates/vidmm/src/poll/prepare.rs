//! Preparation: which portion of a DMA buffer runs next, and what it takes to bring it in (SPL-05 to SPL-10).
//!
//! A portion is a requirement like a device's list, with another lifetime (D3): from its decision until it has been handed out
//! its allocations are on its device's list. The next portion is decided when this one has been handed out. What stays bound
//! across the cut stays on the list, and so in its place.

use alloc::{collections::BTreeSet, vec::Vec};
use core::cmp::Reverse;

use super::{
    draft::Draft,
    trial::{Mark, Target, Trial, Verdict},
};
use crate::{
    allocation::AllocationState,
    error::DeviceErrorReason,
    event::{EvictReason, SuspendReason},
    id::{AllocationIx, ContextIx, DeviceIx, PlanNo},
    planted::PlantedBug,
    pool::{PerPool, Pool},
    split::{Cut, Portion, References},
    state::{Queued, VidMm},
    turn::Activity,
};

/// What came of an attempt to decide a portion.
enum Decision {
    Decided(Portion, Verdict),
    /// It must wait until others have handed out what they have decided.
    Wait,
    /// It has no room beside device lists: these must yield to it.
    WaitForTurn,
    /// What is bound together at one split point does not fit (SPL-10).
    Impossible {
        offset: u32,
        bytes: u64,
    },
}

/// Contexts whose portions are decided one after another.
pub(super) struct Round {
    contexts: alloc::vec::IntoIter<ContextIx>,
    /// A context has no room, and takes what becomes free.
    is_waited_for: bool,
}

impl VidMm {
    /// The contexts whose next portion can be decided: those with more urgent work first, then those that were served longest ago.
    pub(super) fn begin_round(&self) -> Round {
        let mut contexts: Vec<ContextIx> = Vec::new();
        let mut next = Queued::FIRST;
        while let Some(queued) = self.queued.next_from(next) {
            next = queued.next();
            contexts.extend(self.can_prepare(queued.context).then_some(queued.context));
        }
        contexts.sort_by_key(|&context| {
            let books = &self.contexts[context];
            (Reverse(books.priority), books.served, context)
        });
        Round { contexts: contexts.into_iter(), is_waited_for: false }
    }

    /// Decides portions until one cannot be brought in at all: its device is to be put in error, and the round goes on. The first
    /// context that has no room is waited for; only the DMA buffer that is being split goes on before it, so that it ends.
    pub(super) fn prepare(&mut self, round: &mut Round) -> Option<(DeviceIx, DeviceErrorReason)> {
        while let Some(context) = round.contexts.next() {
            // Another context may have put this one's device in error, or have taken its engine.
            let may_go = !round.is_waited_for || self.patching.splitting == Some(context);
            if may_go && self.can_prepare(context) {
                match self.prepare_next(context) {
                    Ok(others_may_go) => round.is_waited_for |= !others_may_go,
                    Err(failure) => return Some(failure),
                }
            }
        }
        None
    }

    /// Whether the next portion of the DMA buffer in front of a context's queue can be decided now.
    fn can_prepare(&self, index: ContextIx) -> bool {
        let context = &self.contexts[index];
        let Some(front) = context.queue.front().filter(|next| next.is_prepared()) else { return false };
        let Some(references) = front.references.as_deref() else { return false };
        let begun = references.progress.portions > 0;
        let runs = match self.devices[context.device].turn.activity {
            Activity::Active => true,
            Activity::Yielding => begun,
            Activity::Suspended => false,
        };
        // One portion is decided for each engine at a time: it will be handed out before another.
        let of_engine = |queued: &&Queued| self.contexts[queued.context].engine == context.engine;
        let is_engine_free =
            self.queued.iter().filter(of_engine).all(|queued| self.contexts[queued.context].portion.is_none());
        runs && is_engine_free && self.is_engine_open(index) && self.is_front_unblocked(index)
    }

    /// Whether no other context's DMA buffer has been cut and not ended on the engine, if that cannot change contexts in between
    /// (SPL-07).
    pub(super) fn is_engine_open(&self, index: ContextIx) -> bool {
        let engine = self.contexts[index].engine;
        self.adapter.preemption_aware
            || self.adapter.has_bug(PlantedBug::ComeBetween)
            || self
                .patching
                .splitting
                .is_none_or(|splitting| splitting == index || self.contexts[splitting].engine != engine)
    }

    /// Decides a context's next portion. Returns whether others may be considered, or the device that is to be put in error.
    fn prepare_next(&mut self, index: ContextIx) -> Result<bool, (DeviceIx, DeviceErrorReason)> {
        let references = self.take_references(index);
        let device = self.contexts[index].device;
        let decision = self.decide(index, &references);
        match decision {
            Decision::Decided(mut portion, verdict) => {
                portion.plans = self.carry_out_verdict(device, &portion.required, verdict);
                self.require(device, &portion, &references);
                if portion.cut.is_some() {
                    self.patching.splitting = Some(index);
                }
                let context = &mut self.contexts[index];
                context.queue.front_mut().expect("it was found there").references = Some(references);
                context.portion = Some(portion);
                self.stirred = true;
                Ok(true)
            }
            Decision::Wait | Decision::WaitForTurn => {
                self.contexts[index].queue.front_mut().expect("it was found there").references = Some(references);
                let waits_for_turn = matches!(decision, Decision::WaitForTurn);
                if waits_for_turn {
                    self.stop(device, SuspendReason::WaitsForRoom, None, false);
                    self.devices[device].turn.takes_all = true;
                }
                Ok(waits_for_turn)
            }
            Decision::Impossible { offset, bytes } => {
                let dma_buffer = references.number;
                self.devices[device].turn.takes_all = false;
                self.contexts[index].queue.front_mut().expect("it was found there").references = Some(references);
                if !self.patching.knobs.expect_preparation_failure {
                    return Err((device, DeviceErrorReason::PreparationFailed { dma_buffer, bytes }));
                }
                self.drop_front(index, offset, bytes);
                Ok(true)
            }
        }
    }

    fn take_references(&mut self, index: ContextIx) -> alloc::boxed::Box<References> {
        let front = self.contexts[index].queue.front_mut();
        front.and_then(|front| front.references.take()).expect("it was found there")
    }

    /// The next portion: as many groups of patch locations as fit together, from where the last one ended.
    fn decide(&mut self, index: ContextIx, references: &References) -> Decision {
        // A DMA buffer is cut only where nobody keeps memory from it, so that it can always go on to its end.
        let obstacle = match self.others_hold(index) {
            true => Some(Decision::Wait),
            false => self.lists_are_promised().then_some(Decision::WaitForTurn),
        };
        let may_cut = obstacle.is_none();
        let size = self.contexts[index].queue.front().expect("it was found there").desc.dma_buffer.len() as u32;
        let progress = &references.progress;
        let start = progress.start;
        let mut table = progress.table.clone();
        let mut trial = Trial::default();
        let mut required: Vec<AllocationIx> = Vec::new();
        for &fixed in &progress.fixed {
            let is_there = self.try_member(&mut trial, fixed);
            debug_assert!(is_there, "what is held stays where it is");
            required.push(fixed);
        }
        let mut next = progress.next;
        let mut cut = None;
        let mut end = size;
        while let Some(offset) = references.split_offset(next) {
            let mut group = references.group(next);
            if self.adapter.has_bug(PlantedBug::TearGroup) {
                group.end = next + 1;
            }
            if self.patching.knobs.take_split_point && offset > start && offset < size {
                if let Some(obstacle) = obstacle {
                    self.undo(&mut trial, Mark::START);
                    return obstacle;
                }
                (cut, end) = (Some(Cut::TakeSplitPoint), offset);
                break;
            }
            let mark = trial.mark();
            let bound = references.patch_locations[group.clone()].iter().filter_map(|at| references.bound_by(at));
            let mut missing = None;
            let mut members = Vec::new();
            for allocation in bound {
                if trial.members.contains_key(&allocation) {
                    continue;
                }
                if self.waits_for_unlock(allocation) {
                    self.undo(&mut trial, Mark::START);
                    let device = self.contexts[index].device;
                    self.devices[device].turn.takes_all = false;
                    return Decision::Wait;
                }
                if !self.try_member(&mut trial, allocation) {
                    missing = Some(allocation);
                    break;
                }
                members.push(allocation);
            }
            let Some(missing) = missing else {
                required.extend(members);
                table.apply(references, group.clone(), !self.adapter.has_bug(PlantedBug::KeepUnbound));
                next = group.end;
                continue;
            };
            self.undo(&mut trial, mark);
            if offset > start && may_cut {
                (cut, end) = (Some(Cut::NoRoom { allocation: missing }), offset);
                break;
            }
            self.undo(&mut trial, Mark::START);
            if let Some(obstacle) = obstacle {
                return obstacle;
            }
            let bytes = self.bytes_together(references, &required, group);
            return Decision::Impossible { offset, bytes };
        }
        if let Some(obstacle) = obstacle
            && !self.fits_promises(self.contexts[index].device, &trial)
        {
            self.undo(&mut trial, Mark::START);
            return obstacle;
        }
        let patch_locations = references.progress.next..next;
        let verdict = self.conclude(trial);
        Decision::Decided(Portion { end, patch_locations, required, table, plans: Vec::new(), cut }, verdict)
    }

    /// Whether what a trial's members take of each pool is promised to nobody else.
    fn fits_promises(&self, device: DeviceIx, trial: &Trial) -> bool {
        let mut added: PerPool<u64> = PerPool::default();
        for (&index, target) in &trial.members {
            let allocation = &self.allocations[index];
            let is_listed = self.is_counted(index) || allocation.entry(device).is_none_or(|entry| entry.count > 0);
            let pool = match target {
                Some(Target::Memory(_)) => Pool::Memory,
                Some(Target::Aperture) => Pool::System,
                None => allocation.place.expect("what stays is somewhere").pool(),
            };
            added[pool] += if is_listed { 0 } else { allocation.size };
        }
        self.may_hold(device, added)
    }

    /// Bytes that are bound together where a group of patch locations is applied to what is required already.
    fn bytes_together(
        &self,
        references: &References,
        required: &[AllocationIx],
        group: core::ops::Range<usize>,
    ) -> u64 {
        let bound = references.patch_locations[group].iter().filter_map(|at| references.bound_by(at));
        let together: BTreeSet<AllocationIx> = required.iter().copied().chain(bound).collect();
        together.into_iter().map(|index| self.allocations[index].size).sum()
    }

    /// Whether other contexts have portions that are decided, or keep what is bound across a cut: they will go on.
    fn others_hold(&self, index: ContextIx) -> bool {
        let decided =
            self.queued.iter().any(|queued| queued.context != index && self.contexts[queued.context].portion.is_some());
        decided || self.patching.splitting.is_some_and(|splitting| splitting != index)
    }

    /// Plans what a verdict asks for: who goes, who moves, who comes. Returns the plans that what is `required` waits for.
    pub(super) fn carry_out_verdict(
        &mut self,
        device: DeviceIx,
        required: &[AllocationIx],
        verdict: Verdict,
    ) -> Vec<PlanNo> {
        let Verdict { victims, members } = verdict;
        let mut draft = Draft { wanted_by: Some(device), ..Draft::default() };
        self.keep_all(members.keys().copied());
        for index in victims {
            self.plan_out(&mut draft, index, self.reason(index, EvictReason::RoomWanted));
        }
        let mut plans = Vec::new();
        let named: BTreeSet<AllocationIx> = required.iter().copied().collect();
        let others = members.keys().copied().filter(|index| !named.contains(index));
        let in_order = Vec::from_iter(required.iter().copied().chain(others));
        let (staying, moving): (Vec<AllocationIx>, Vec<AllocationIx>) =
            in_order.into_iter().partition(|index| members[index].is_none());
        for index in staying {
            let plan = self.allocations[index].last_plan;
            plans.extend((!self.stream.is_retired(plan)).then_some(plan));
        }
        for &index in &moving {
            if let Some(place) = self.allocations[index].place {
                let allocation = &mut self.allocations[index];
                // The work of those that hold it may have written to it.
                let is_held = allocation.is_held();
                allocation.state |= if is_held { AllocationState::DIRTY } else { AllocationState::empty() };
                let is_moved = place.pool() == allocation.pool() || !self.is_counted(index);
                let reason = if is_moved { EvictReason::Moved } else { self.reason_to_move(index) };
                self.plan_out(&mut draft, index, reason);
            }
            let in_system = members[&index] == Some(Target::Aperture);
            self.allocations[index].state.set(AllocationState::LISTED_IN_SYSTEM, in_system);
        }
        for &index in &moving {
            if let Some(Target::Memory(range)) = members[&index] {
                self.patched.entry(index).or_default().assigned = Some(range);
            }
            self.plan_in(&mut draft, index);
        }
        plans.extend(self.finish(draft));
        moving.iter().for_each(|&index| self.await_move(index));
        self.stream.unretired(plans)
    }

    /// Puts what a portion requires on its device's list, besides what is there from the portion before.
    fn require(&mut self, device: DeviceIx, portion: &Portion, references: &References) {
        let fixed = &references.progress.fixed;
        for index in portion.required.iter().copied().filter(|index| !fixed.contains(index)) {
            let place = self.allocations[index].place.expect("it has been given a place");
            let in_system = place.pool() == Pool::System;
            self.allocations[index].state.set(AllocationState::LISTED_IN_SYSTEM, in_system);
            let (pool, size) = (place.pool(), self.allocations[index].size);
            let entry = self.allocations[index].entry_mut(device);
            entry.count += 1;
            let is_first = entry.count == 1;
            let effect = entry.join_granted();
            if is_first {
                self.set_list_bytes(device, pool, self.devices[device].list[pool].now() + size);
            }
            self.withdraw_promise(device);
            self.apply(index, device, effect);
            self.renew_promise(device);
        }
    }
}
