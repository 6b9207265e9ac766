//! Room for a device's list where each allocation is one range: the same trials as for portions, with other members (D3).
//!
//! A list finds its places beside what others require, or by moving what nothing uses; or, with nobody beside it, placed anew.
//! Whoever finds none waits for its turn, and others yield to it (`turns.rs`).

use alloc::{collections::BTreeSet, vec::Vec};
use core::cmp::Reverse;

use super::trial::{Mark, Trial};
use crate::{
    id::{AllocationIx, DeviceIx, PlanNo},
    pool::{PerPool, Pool},
    request::RequestKind,
    spans::SpanNo,
    state::{Device, VidMm},
    turn::Activity,
};

/// What a request names, or what is to be brought back.
type Items = [(AllocationIx, Option<SpanNo>)];

impl VidMm {
    /// Brings `items` in for a device's list, all or none of them. Returns the plans for that; none if there is no place at present.
    pub(super) fn bring_in_if_placed(&mut self, device: DeviceIx, items: &Items) -> Option<Vec<PlanNo>> {
        let plans = self.place_list(device, items)?;
        self.hold_list(device, items);
        Some(plans)
    }

    /// Decides where `items` go, and plans that.
    fn place_list(&mut self, device: DeviceIx, items: &Items) -> Option<Vec<PlanNo>> {
        let mut trial = Trial::default();
        let members = self.members_of(items);
        if !self.try_list(&mut trial, device, &members) {
            return None;
        }
        let verdict = self.conclude(trial);
        Some(self.carry_out_verdict(device, &members, verdict))
    }

    fn hold_list(&mut self, device: DeviceIx, items: &Items) {
        self.withdraw_promise(device);
        self.hold_granted(device, items);
        self.renew_promise(device);
        // What was held when it was asked for may have lapsed since.
        items.iter().for_each(|&(index, _)| self.let_go(index));
    }

    /// Lets a device have its turn, if it finds its places: what it held is brought back, and what it asks for next is granted
    /// with it, before others take the room. Returns the plans for that, and whether a request was granted with them.
    pub(super) fn resume_if_placed(&mut self, device: DeviceIx) -> Option<(Vec<PlanNo>, bool)> {
        let mut items = self.items_to_bring_back(device);
        let next = self.next_with_turn(device);
        items.extend(next.iter().flatten());
        if items.iter().any(|&(index, _)| self.waits_for_unlock(index)) {
            return None;
        }
        // While it counts as suspended, no plan waits for what it has queued.
        let plans = self.place_list(device, &items)?;
        self.set_activity(device, Activity::Active);
        self.hold_list(device, &items);
        if next.is_some() {
            let books = &mut self.devices[device];
            let granted = books.granted;
            books.requests[granted].kind = RequestKind::MakeResident(Vec::new());
        }
        Some((plans, next.is_some()))
    }

    /// Whether a device that waits for its turn would find its places now, if it had the turn.
    fn would_be_placed(&mut self, device: DeviceIx) -> bool {
        if self.devices[device].is_in_flight() {
            // What it runs keeps its places, and ends.
            return true;
        }
        let mut items = self.items_to_bring_back(device);
        items.extend(self.next_with_turn(device).iter().flatten());
        if items.iter().any(|&(index, _)| self.waits_for_unlock(index)) {
            return true;
        }
        let mut trial = Trial::default();
        let members = self.members_of(&items);
        let is_placed = self.try_list(&mut trial, device, &members);
        self.undo(&mut trial, Mark::START);
        is_placed
    }

    /// What the next request of a device that is not granted asks for, if the device may hold that beside what it held.
    fn next_with_turn(&self, device: DeviceIx) -> Option<Vec<(AllocationIx, Option<SpanNo>)>> {
        let books = &self.devices[device];
        let RequestKind::MakeResident(items) = &books.requests.get(books.granted)?.kind else { return None };
        let is_required = |&(index, _): &(AllocationIx, _)| self.allocations[index].is_required();
        let items = Vec::from_iter(items.iter().copied().filter(is_required));
        let indices: BTreeSet<AllocationIx> = items.iter().map(|&(index, _)| index).collect();
        let mut added: PerPool<u64> = PerPool::default();
        for &index in &indices {
            let allocation = &self.allocations[index];
            let is_counted = allocation.entry(device).is_some_and(|entry| entry.is_holding() || entry.is_owed());
            added[allocation.pool()] += if is_counted { 0 } else { allocation.size };
        }
        let is_visible = !items.iter().any(|&(index, _)| self.waits_for_unlock(index));
        let may_be_held = self.may_hold(device, added) && self.packs_with(device, indices.into_iter());
        (is_visible && may_be_held).then_some(items)
    }

    /// The allocations of `items`, each once: first what is somewhere already, then the largest.
    fn members_of(&self, items: &Items) -> Vec<AllocationIx> {
        let mut members: Vec<AllocationIx> = items.iter().map(|&(index, _)| index).collect();
        members.sort_unstable_by_key(|&index| {
            let allocation = &self.allocations[index];
            (allocation.place.is_none(), Reverse(allocation.size), index)
        });
        members.dedup();
        members
    }

    /// Gives members of a device's list their places. Where the free ranges are in too small pieces, all that the device requires
    /// is placed anew.
    fn try_list(&mut self, trial: &mut Trial, device: DeviceIx, members: &[AllocationIx]) -> bool {
        for pool in Pool::ALL {
            let mark = trial.mark();
            let of_pool = |index: &AllocationIx| self.allocations[*index].pool() == pool;
            let of_pool = Vec::from_iter(members.iter().copied().filter(of_pool));
            if of_pool.iter().all(|&index| self.try_member(trial, index)) {
                continue;
            }
            self.undo(trial, mark);
            if !self.try_anew(trial, device, &of_pool, pool) {
                self.undo(trial, Mark::START);
                return false;
            }
        }
        true
    }

    /// A granted list has found no place. What runs keeps its own, and ends by itself; when nothing of the device runs, those
    /// beside it must go.
    pub(super) fn note_no_place(&mut self, device: DeviceIx) {
        let is_alone = !self.others_are_promised(device);
        let is_in_flight = self.devices[device].is_in_flight();
        debug_assert!(
            !is_alone || is_in_flight,
            "what admission has proved to fit has its place with nobody else there"
        );
        if !is_alone && !is_in_flight {
            self.stop(device, crate::event::SuspendReason::WaitsForRoom, None, false);
        }
    }

    fn others_are_promised(&self, device: DeviceIx) -> bool {
        let books = &self.devices[device];
        Pool::ALL.into_iter().any(|pool| self.promised_bytes[pool] > books.promised(pool))
    }

    /// Whether anything is promised to a device list.
    pub(super) fn lists_are_promised(&self) -> bool {
        let is_promised = |pool| {
            let of_lists = self.devices.iter().filter(|(_, books)| !books.has_reference_lists());
            of_lists.into_iter().any(|(_, books)| books.promised(pool) > 0)
        };
        Pool::ALL.into_iter().any(is_promised)
    }

    /// Whether devices with device lists may have turns: not while a DMA buffer is amid being cut, or is about to be, which takes
    /// whatever memory there is.
    pub(crate) fn lists_may_run(&self) -> bool {
        let takes_all = |(_, books): (DeviceIx, &Device)| books.is_active() && books.turn.takes_all;
        !self.adapter.is_physical() || (self.patching.splitting.is_none() && !self.devices.iter().any(takes_all))
    }

    /// Who takes all memory for its DMA buffers leaves it to lists when its slice is over, or nothing of it is left to run.
    pub(super) fn settle_takers(&mut self) {
        if !self.adapter.is_physical() {
            return;
        }
        let takes_all = |(_, books): &(DeviceIx, &Device)| books.is_active() && books.turn.takes_all;
        for device in Vec::from_iter(self.devices.iter().filter(takes_all).map(|(device, _)| device)) {
            let turn = &self.devices[device].turn;
            let slice_over = turn.began_at.saturating_add(turn.slice);
            let has_more = self.has_runnable_work(device) || self.is_amid_dma_buffer(device);
            if self.now < slice_over && has_more {
                self.wake_at(slice_over);
            } else {
                self.devices[device].turn.takes_all = false;
            }
        }
    }

    /// What must be there for a device that waits for its turn: what it is promised then; or all, if it finds no place beside
    /// what others hold.
    pub(super) fn room_needed(&mut self, device: DeviceIx) -> PerPool<u64> {
        let pools = PerPool::new(Pool::Memory, Pool::System);
        let books = &self.devices[device];
        let needed = pools.map(|pool| books.needed(pool));
        if !self.adapter.is_physical() {
            return needed;
        }
        let fits = |pool| needed[pool] <= self.not_promised_to_others(device, pool);
        let is_apart = match books.has_reference_lists() {
            true => books.turn.takes_all,
            false => Pool::ALL.into_iter().all(fits) && !self.would_be_placed(device),
        };
        self.devices[device].turn.takes_all = is_apart;
        if is_apart { pools.map(|pool| self.list_capacity(pool)) } else { needed }
    }

    /// Work of the devices that hold an allocation waits for the plan that has moved it.
    pub(super) fn await_move(&mut self, index: AllocationIx) {
        let plan = self.allocations[index].last_plan;
        let holders = self.allocations[index].entries().filter(|(_, entry)| entry.is_holding());
        for device in Vec::from_iter(holders.map(|(device, _)| device)) {
            self.await_plan(device, plan);
        }
    }
}
