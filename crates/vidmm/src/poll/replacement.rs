//! Where the allocations of a device are while it has no turn: what has no room where it prefers to be is demoted, and comes
//! back when there is room (RES-55). Only a suspended device's allocations are placed anew: nothing outstanding requires them.

use alloc::vec::Vec;
use core::cmp::Reverse;

use crate::{
    allocation::AllocationState,
    event::SuspendReason,
    id::{AllocationIx, DeviceIx},
    pool::{PerPool, Pool},
    residency::ListEntry,
    state::VidMm,
    turn::{CALM, CALM_SHARE},
};

impl VidMm {
    /// Lets devices yield whose allocations must or can be placed better.
    pub(super) fn replace(&mut self) {
        while let Some(device) = self.turns.to_replace.pop_first() {
            if self.devices.contains(device) && self.devices[device].is_active() {
                self.stop(device, SuspendReason::Replace, None, true);
            }
        }
        if self.turns.demoted.is_empty() || !self.stopped.is_empty() {
            return;
        }
        let calm_at = self.turns.last_yield + CALM;
        if self.now < calm_at {
            return self.wake_at(calm_at);
        }
        for device in Vec::from_iter(self.turns.demoted.iter().copied()) {
            if self.could_come_back(device) {
                self.turns.last_yield = self.now;
                self.stop(device, SuspendReason::Replace, None, true);
                return;
            }
        }
    }

    /// Whether all that a device has in system memory and would rather have in the memory segment fits there, with room to
    /// spare.
    fn could_come_back(&self, device: DeviceIx) -> bool {
        let books = &self.devices[device];
        let demoted: u64 = self
            .movable(device)
            .filter(|&(_, pools)| pools[0] == Some(Pool::Memory))
            .map(|(index, _)| {
                let allocation = &self.allocations[index];
                if allocation.pool() == Pool::System { allocation.size } else { 0 }
            })
            .sum();
        let spare = self.list_capacity(Pool::Memory) / CALM_SHARE;
        let beside = self.not_promised_to_others(device, Pool::Memory);
        demoted > 0 && books.needed(Pool::Memory).saturating_add(demoted).saturating_add(spare) <= beside
    }

    /// Allocations of a device that may be elsewhere than they are, and that no other device counts; with the pools where they
    /// may be, first choice first.
    fn movable(&self, device: DeviceIx) -> impl Iterator<Item = (AllocationIx, [Option<Pool>; 2])> {
        let books = &self.devices[device];
        let held = books.holdings.iter().copied();
        let to_bring_back = books.to_bring_back.iter().filter_map(|&id| self.allocations.lookup(id).ok());
        held.chain(to_bring_back).filter_map(move |index| {
            if !self.allocations.contains(index) {
                return None;
            }
            let allocation = &self.allocations[index];
            let is_only_here = allocation.openings().next().is_none() && allocation.device == device;
            let is_listed = allocation.entry(device).is_some_and(|entry| entry.count > 0);
            let state = allocation.state;
            let pools = allocation.allowed_pools();
            let may_move = is_only_here && is_listed && pools != [Some(allocation.pool()), None];
            // A range of the aperture is assigned at admission; without GPU virtual addresses with the grant, but what was admitted
            // to one pool stays there unless the CPU is to see it.
            let is_to_be_seen = state.intersects(AllocationState::LOCKED | AllocationState::LOCK_PENDING);
            let is_free =
                !state.contains(AllocationState::ACCESSED_PHYSICALLY) || (self.adapter.is_physical() && is_to_be_seen);
            (may_move && is_free).then_some((index, pools))
        })
    }

    /// Chooses anew where the allocations of a suspended device will be: each where it prefers, those of higher priority
    /// first, as there is room; if `may_be_demoted`, the rest elsewhere. Changes nothing if that is no better.
    pub(super) fn place_anew(&mut self, device: DeviceIx, may_be_demoted: bool) {
        let books = &self.devices[device];
        let remembers = Pool::ALL.into_iter().any(|pool| books.list[pool].remembers());
        if remembers || books.granted < books.requests.len() {
            return;
        }
        let mut movable: Vec<(AllocationIx, [Option<Pool>; 2])> = self.movable(device).collect();
        if movable.is_empty() {
            return;
        }
        movable.sort_by_key(|&(index, _)| Reverse(self.allocations[index].priority));
        let mut left = PerPool::new(Pool::Memory, Pool::System).map(|pool| {
            let moving = movable.iter().filter(|&&(index, _)| self.allocations[index].pool() == pool);
            let moving: u64 = moving.map(|&(index, _)| self.allocations[index].size).sum();
            let fixed = books.list[pool].now() - moving;
            self.not_promised_to_others(device, pool).saturating_sub(fixed)
        });
        let mut to_toggle = Vec::new();
        let mut is_demoted = false;
        for (index, [prefers, other]) in movable {
            let allocation = &self.allocations[index];
            let fits = |pool: &Pool| allocation.size <= left[*pool];
            let other = other.filter(fits).filter(|_| may_be_demoted);
            let Some(pool) = prefers.filter(fits).or(other) else { return };
            is_demoted |= Some(pool) != prefers;
            left[pool] -= allocation.size;
            if pool != allocation.pool() {
                to_toggle.push(index);
            }
        }
        // There are bytes for it; there need not be a range.
        if !self.packs_if_moved(device, &to_toggle) {
            return;
        }
        for index in to_toggle {
            let allocation = &mut self.allocations[index];
            let (from, size) = (allocation.pool(), allocation.size);
            allocation.state.toggle(AllocationState::LISTED_IN_SYSTEM);
            let to = self.allocations[index].pool();
            if self.allocations[index].entry(device).is_some_and(ListEntry::is_owed) {
                self.devices[device].owed[from] -= size;
                self.devices[device].owed[to] += size;
            }
            for (pool, bytes) in
                [(from, self.devices[device].list[from].now() - size), (to, self.devices[device].list[to].now() + size)]
            {
                self.set_list_bytes(device, pool, bytes);
                // Work that is queued finds it in its new place too, so no earlier weight counts.
                self.account(device, pool, |books| books.list[pool].recount());
            }
        }
        if is_demoted {
            self.turns.demoted.insert(device);
        } else {
            self.turns.demoted.remove(&device);
        }
    }
}
