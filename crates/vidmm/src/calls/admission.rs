//! Admission: where an allocation that joins its device's list will be resident, and whether that may be (RES-11).
//!
//! A list that fits beside those of all others may always be. If it does not, memory is short, and its process may have its
//! budget; who has more is then asked to trim, and yields (RES-53, RES-75). With CantTrimFurther it may have all that others
//! have not reserved (RES-15, U-24). In any case the device's list must fit alone: then its turn comes (D3).
//!
//! An allocation that may be resident in either pool is counted in the one that it prefers, or in the other one if only that
//! has room (SEG-47): the choice is fixed while anything outstanding requires it, so that each pool's promises can be summed
//! up on their own. When it joins the list again, the choice is made anew: so what was demoted comes back.

use alloc::vec::Vec;

use crate::{
    allocation::AllocationState,
    error::NoMemoryReason,
    event::SuspendReason,
    id::{AllocationIx, DeviceIx},
    place::Place,
    planted::PlantedBug,
    pool::{PerPool, Pool},
    residency::MakeResidentFlags,
    state::VidMm,
};

/// What one MakeResident adds to its device's list.
pub(crate) struct Admission {
    device: DeviceIx,
    /// Bytes that are left for the device's list, and would be with nobody else there; below 0 is what must be trimmed first.
    left: PerPool<i128>,
    alone: PerPool<i128>,
    /// What may join it so that each allocation has a range when nobody else is there, in bytes of weight.
    packing: PerPool<i128>,
    /// Bytes that join it.
    added: PerPool<u64>,
    /// Of those, bytes that it does not hold in place.
    pub not_held: PerPool<u64>,
    /// Who is counted elsewhere than before.
    moved: Vec<AllocationIx>,
    /// Who got a range of the aperture for it.
    assigned: Vec<AllocationIx>,
    /// Why something did not fit.
    pub refused: Option<NoMemoryReason>,
    /// What is missing.
    pub num_bytes_to_trim: u64,
}

impl VidMm {
    /// What may join a device's list: beside all others, or as its process is entitled to.
    pub(super) fn begin_admission(&self, device: DeviceIx, entitled: Option<MakeResidentFlags>) -> Admission {
        let process = self.devices[device].process;
        let alone = |pool: Pool| {
            let books = &self.devices[device];
            i128::from(self.list_capacity(pool)) - i128::from(books.list[pool].now())
        };
        let left = |pool: Pool| {
            let shares = &self.shares[pool];
            let beside_all = i128::from(self.list_capacity(pool)) - i128::from(shares.demand_total());
            let entitlement = match entitled {
                None => 0,
                Some(flags) if flags.contains(MakeResidentFlags::CANT_TRIM_FURTHER) => shares.maximum_budget(process),
                Some(_) if self.adapter.has_bug(PlantedBug::HalveBudget) => shares.budget(process) / 2,
                Some(_) => shares.budget(process),
            };
            beside_all.max(i128::from(entitlement) - i128::from(shares.get(process).demand)).min(alone(pool))
        };
        Admission {
            device,
            left: PerPool::new(left(Pool::Memory), left(Pool::System)),
            alone: PerPool::new(alone(Pool::Memory), alone(Pool::System)),
            packing: self.packing_room(device),
            added: PerPool::default(),
            not_held: PerPool::default(),
            moved: Vec::new(),
            assigned: Vec::new(),
            refused: None,
            num_bytes_to_trim: 0,
        }
    }

    /// Finds room for an allocation that joins the list, or adds to what must be trimmed.
    pub(super) fn admit(&mut self, admission: &mut Admission, index: AllocationIx) {
        let allocation = &self.allocations[index];
        let (size, counted, pools) = (allocation.size, allocation.pool(), allocation.pools(admission.device));
        let is_held = allocation.is_held_by(admission.device);
        for &pool in pools.iter().flatten() {
            let weight = i128::from(self.weight(index, pool));
            let fits = i128::from(size) <= admission.left[pool] && weight <= admission.packing[pool];
            if !fits || !self.has_range(admission, index, pool) {
                continue;
            }
            admission.packing[pool] -= weight;
            admission.left[pool] -= i128::from(size);
            admission.alone[pool] -= i128::from(size);
            admission.added[pool] += size;
            if !is_held {
                admission.not_held[pool] += size;
            }
            if pools[0] != Some(pool) && !self.adapter.is_physical() {
                self.turns.demoted.insert(admission.device);
            }
            if counted != pool {
                self.allocations[index].state.toggle(AllocationState::LISTED_IN_SYSTEM);
                admission.moved.push(index);
            }
            return;
        }
        let fits_alone = pools.into_iter().flatten().any(|pool| i128::from(size) <= admission.alone[pool]);
        let mut reason = if fits_alone { NoMemoryReason::OverBudget } else { NoMemoryReason::DoesNotFit };
        // Whatever the caller trims, one of the pools then has enough.
        for pool in pools.into_iter().flatten() {
            let missing = i128::from(size) - core::mem::take(&mut admission.left[pool]);
            let misplaced = i128::from(self.weight(index, pool)) - core::mem::take(&mut admission.packing[pool]);
            if missing <= 0 && misplaced > 0 {
                reason = NoMemoryReason::Fragmented;
            }
            // An allocation that leaves weighs no less than its size.
            let mut missing = u64::try_from(missing.max(misplaced).max(0)).unwrap_or(u64::MAX);
            if self.adapter.has_bug(PlantedBug::TrimTooLittle) {
                missing /= 2;
            }
            if self.adapter.has_bug(PlantedBug::TrimTooMuch) {
                missing += size;
            }
            let fragmented = if self.needs_range(index, pool) { self.assigned_before(admission).max(1) } else { 0 };
            if missing == 0 {
                reason = NoMemoryReason::Fragmented;
            }
            admission.num_bytes_to_trim = admission.num_bytes_to_trim.saturating_add(missing.max(fragmented));
        }
        admission.refused.get_or_insert(reason);
    }

    /// Assigns a range of the aperture if the allocation needs one; `false` if there is no hole for it.
    fn has_range(&mut self, admission: &mut Admission, index: AllocationIx, pool: Pool) -> bool {
        if !self.needs_range(index, pool) || self.aperture.assigned(index).is_some() {
            return true;
        }
        let allocation = &self.allocations[index];
        let shown_at = match allocation.place {
            Some(Place::Aperture(offset)) => Some(offset.bytes()),
            _ => None,
        };
        let assigned = self.aperture.assign(index, allocation.size, shown_at).is_some();
        if assigned {
            admission.assigned.push(index);
        }
        assigned
    }

    fn needs_range(&self, index: AllocationIx, pool: Pool) -> bool {
        // Without GPU virtual addresses ranges are found with the grant.
        let accessed_physically = AllocationState::ACCESSED_PHYSICALLY;
        let is_assigned_now = pool == Pool::System && !self.adapter.is_physical();
        is_assigned_now && self.allocations[index].state.contains(accessed_physically)
    }

    /// Bytes of the aperture that allocations of the device had before the call: with all of them gone, no hole of its own is
    /// too small.
    fn assigned_before(&self, admission: &Admission) -> u64 {
        let is_own = |other: AllocationIx| self.allocations[other].entry(admission.device).is_some();
        self.aperture.assigned_bytes(|other| is_own(other) && !admission.assigned.contains(&other))
    }

    /// Nothing joins the list: `indices` are counted no more.
    pub(super) fn undo_admission(&mut self, admission: &Admission, indices: &[AllocationIx]) {
        let is_undone = !self.adapter.has_bug(PlantedBug::SkipUndo);
        for &index in indices.iter().filter(|_| is_undone) {
            self.allocations[index].entry_mut(admission.device).count -= 1;
        }
        for &index in &admission.moved {
            self.allocations[index].state.toggle(AllocationState::LISTED_IN_SYSTEM);
        }
        admission.assigned.iter().for_each(|&index| self.aperture.release(index));
    }

    /// What was admitted joins the list.
    pub(super) fn accept_admission(&mut self, admission: &Admission) {
        self.add_to_list(admission.device, admission.added);
    }

    /// The device's list weighs more from now on. If it has no room beside those that are active now, it waits for its turn.
    pub(super) fn add_to_list(&mut self, device: DeviceIx, added: PerPool<u64>) {
        let has_room = Pool::ALL.into_iter().all(|pool| {
            let books = &self.devices[device];
            let needed = books.needed(pool).max(books.list[pool].now() + added[pool]);
            needed <= self.not_promised_to_others(device, pool)
        });
        if !has_room || !self.lists_may_run() {
            self.stop(device, SuspendReason::WaitsForRoom, None, false);
        }
        for pool in Pool::ALL.into_iter().filter(|&pool| added[pool] > 0) {
            let weight = self.devices[device].list[pool].now() + added[pool];
            self.set_list_bytes(device, pool, weight);
        }
    }
}
