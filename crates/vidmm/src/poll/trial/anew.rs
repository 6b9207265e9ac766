//! A device's list placed anew: all that it requires leaves its place in thought, and gets one in the order that admission has
//! proved (`packing.rs`). So whatever pieces the free ranges are in, a device with nobody beside it always finds its places.

use alloc::vec::Vec;

use super::{Done, Target, Trial};
use crate::id::{AllocationIx, DeviceIx};
use crate::{patching::Wish, pool::Pool, state::VidMm};

impl VidMm {
    /// Gives all that `device` requires in a pool new places: what it holds, and `members`. Returns whether all have one; if
    /// not, some steps are to be taken back.
    pub(in crate::poll) fn try_anew(
        &mut self,
        trial: &mut Trial,
        device: DeviceIx,
        members: &[AllocationIx],
        pool: Pool,
    ) -> bool {
        let mut required = self.on_list(device, |entry| entry.is_holding());
        required.extend(members);
        let mut required = Vec::from_iter(required);
        required.retain(|&index| self.allocations[index].pool() == pool);
        if !required.iter().all(|&index| self.may_move(index)) {
            return false;
        }
        self.sort_for_packing(&mut required, pool);
        match pool {
            Pool::Memory => self.try_anew_in_memory(trial, &required),
            Pool::System => self.try_anew_in_aperture(trial, &required),
        }
    }

    fn try_anew_in_memory(&mut self, trial: &mut Trial, required: &[AllocationIx]) -> bool {
        for &index in required {
            if let Some(range) = self.memory_range(index) {
                self.free_for(trial, range);
            }
            self.note_member(trial, index, None);
        }
        while let Some(victim) = self.next_candidate(trial) {
            self.free_victim(trial, victim);
        }
        for &index in required {
            let wish = Wish { alignment: self.alignment(index, Pool::Memory), ..Wish::default() };
            let size = self.allocations[index].size;
            let Some(range) = self.placer.linear().allocate(size, &wish) else { return false };
            trial.done.push(Done::Taken(range));
            let stays = self.memory_range(index) == Some(range);
            self.note_member(trial, index, (!stays).then_some(Target::Memory(range)));
        }
        true
    }

    fn try_anew_in_aperture(&mut self, trial: &mut Trial, required: &[AllocationIx]) -> bool {
        for &index in required {
            if let Some(range) = self.aperture.assigned(index) {
                self.aperture.release(index);
                trial.done.push(Done::Unassigned { index, range });
            }
        }
        for &index in required {
            let size = self.allocations[index].size;
            let Some(range) = self.aperture.assign(index, size, None) else { return false };
            trial.done.push(Done::Assigned(index));
            self.note_in_aperture(trial, index, range);
        }
        self.fits_in_system(trial, 0, 0)
    }
}
