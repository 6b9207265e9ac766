//! Admission: where an allocation that joins its device's list will be resident, and whether that fits (RES-11).
//!
//! An allocation that may be resident in either pool is counted in the one that it prefers, or in the other one if only that
//! has room (SEG-47): the choice is fixed while anything outstanding requires it, so that each pool's promises can be summed
//! up on their own. When it joins the list again, the choice is made anew: so what was demoted comes back.

use alloc::vec::Vec;

use crate::{
    allocation::{AllocationState, Place},
    pool::{PerPool, Pool},
    state::VidMm,
};

/// What one MakeResident adds to its device's list.
pub(crate) struct Admission {
    device: usize,
    /// Bytes that are left for the device's list.
    left: PerPool<u64>,
    /// Bytes that join it.
    added: PerPool<u64>,
    /// Who is counted elsewhere than before.
    moved: Vec<u32>,
    /// Who got a range of the aperture for it.
    assigned: Vec<u32>,
    /// Something did not fit.
    pub is_refused: bool,
    /// What is missing.
    pub num_bytes_to_trim: u64,
}

impl VidMm {
    pub(super) fn begin_admission(&self, device: usize) -> Admission {
        let left = |pool| {
            let list = self.devices[device].list[pool].now();
            self.not_promised_to_others(device, pool).saturating_sub(list)
        };
        Admission {
            device,
            left: PerPool::new(left(Pool::Memory), left(Pool::System)),
            added: PerPool::default(),
            moved: Vec::new(),
            assigned: Vec::new(),
            is_refused: false,
            num_bytes_to_trim: 0,
        }
    }

    /// Finds room for an allocation that joins the list, or adds to what must be trimmed.
    pub(super) fn admit(&mut self, admission: &mut Admission, index: u32) {
        let allocation = &self.allocations[index as usize];
        let (size, counted, pools) = (allocation.size, allocation.pool(), allocation.pools(admission.device as u32));
        for pool in pools.into_iter().flatten() {
            if size > admission.left[pool] || !self.has_range(admission, index, pool) {
                continue;
            }
            admission.left[pool] -= size;
            admission.added[pool] += size;
            if counted != pool {
                self.allocations[index as usize].state.toggle(AllocationState::LISTED_IN_SYSTEM);
                admission.moved.push(index);
            }
            return;
        }
        admission.is_refused = true;
        // Whatever the caller trims, one of the pools then has enough.
        for pool in pools.into_iter().flatten() {
            let missing = size.saturating_sub(core::mem::take(&mut admission.left[pool]));
            let fragmented = if self.needs_range(index, pool) { self.assigned_before(admission).max(1) } else { 0 };
            admission.num_bytes_to_trim = admission.num_bytes_to_trim.saturating_add(missing.max(fragmented));
        }
    }

    /// Assigns a range of the aperture if the allocation needs one; `false` if there is no hole for it.
    fn has_range(&mut self, admission: &mut Admission, index: u32, pool: Pool) -> bool {
        if !self.needs_range(index, pool) || self.aperture.assigned(index).is_some() {
            return true;
        }
        let allocation = &self.allocations[index as usize];
        let shown_at = match allocation.place {
            Some(Place::Aperture(offset)) => Some(offset),
            _ => None,
        };
        let assigned = self.aperture.assign(index, allocation.size, shown_at).is_some();
        if assigned {
            admission.assigned.push(index);
        }
        assigned
    }

    fn needs_range(&self, index: u32, pool: Pool) -> bool {
        let accessed_physically = AllocationState::ACCESSED_PHYSICALLY;
        pool == Pool::System && self.allocations[index as usize].state.contains(accessed_physically)
    }

    /// Bytes of the aperture that allocations of the device had before the call: with all of them gone, no hole of its own is
    /// too small.
    fn assigned_before(&self, admission: &Admission) -> u64 {
        let is_own = |other: u32| self.allocations[other as usize].entry(admission.device as u32).is_some();
        self.aperture.assigned_bytes(|other| is_own(other) && !admission.assigned.contains(&other))
    }

    /// Nothing joins the list.
    pub(super) fn undo_admission(&mut self, admission: &Admission) {
        for &index in &admission.moved {
            self.allocations[index as usize].state.toggle(AllocationState::LISTED_IN_SYSTEM);
        }
        admission.assigned.iter().for_each(|&index| self.aperture.release(index));
    }

    /// The list weighs more from now on.
    pub(super) fn accept_admission(&mut self, admission: &Admission) {
        for pool in Pool::ALL.into_iter().filter(|&pool| admission.added[pool] > 0) {
            let weight = self.devices[admission.device].list[pool].now() + admission.added[pool];
            self.set_list_bytes(admission.device, pool, weight);
        }
    }
}
