//! Lock2 and Unlock2: the CPU's view of an allocation (5.9).

use alloc::vec::Vec;

use crate::{
    contract::{CpuVirtualAddress, Host},
    event::{
        Event,
        error::{LockError, UnlockError},
    },
    id::{AllocationId, AllocationIx, DeviceId},
    manager::VidMm,
    objects::{Objects, allocation::AllocationState, place::Place},
    plans::Plans,
    residency::{place, views},
    schedule::{Schedule, replacement},
    state::State,
    units::{Extent, SegmentId},
};

/// The number of locks that an allocation can have at one time.
const LOCKS_MAX: u32 = u16::MAX as u32;

/// # Access of the CPU: Lock and Unlock
impl VidMm {
    /// Shows the whole allocation to the CPU, at an address that stays the same until the last unlock: when the
    /// allocation moves, the address follows it (RES-86). Nothing is synchronised: that is the caller's duty, which may
    /// keep an allocation locked for its whole life (RES-05, RES-81). While a move is under way the address shows
    /// nothing, and an access waits. From the moment at which a reset of the adapter begins until it runs again, an allocation in a
    /// memory segment shows anything, and what is written is lost (FLT-34).
    ///
    /// An allocation in a memory segment must leave it, unless both are CPU-visible (RES-82, RES-83); and content that is on its
    /// way must arrive. Then the answer is [`LockError::AllocationBusy`]: poll, let paging end, and try again. With
    /// PERMANENT_SYS_MEM or EXISTING_SYS_MEM the CPU sees the copy in system memory, wherever the allocation is.
    ///
    /// A device list counts the allocation where the CPU sees it until the last unlock, and the device's requests and work go on.
    /// One request waits for the unlock: a MakeResident of a locked allocation that may only be in memory that the CPU does not
    /// see (RES-84, U-40).
    ///
    /// # Errors
    ///
    /// If the allocation is another process's, is not open on the device, is offered, or cannot be in memory that the CPU sees.
    #[doc(alias = "D3DKMTLock2")]
    pub fn lock(
        &mut self,
        host: &mut dyn Host,
        device: DeviceId,
        allocation: AllocationId,
    ) -> Result<CpuVirtualAddress, LockError> {
        let device_index = self.state.objects.devices.lookup(device)?;
        self.state.objects.check_device(&self.state.moment, device_index)?;
        let index = self.state.objects.lookup_allocation(allocation)?;
        let record = &self.state.objects[index];
        if record.process != self.state.objects[device_index].process || !record.is_open_on(device_index) {
            return Err(LockError::WrongDevice);
        }
        if record.is(AllocationState::OFFERED) {
            return Err(LockError::Offered);
        }
        if record.is(AllocationState::NOT_COMMITTED) {
            return Err(LockError::NotCommitted);
        }
        let (address, shown) = match self.state.objects[index].lock() {
            Some(lock) if lock.count >= LOCKS_MAX => return Err(LockError::TooManyReferences { locks: lock.count }),
            // A plan moves it, and the CPU sees nothing of it until that plan has retired.
            Some(lock) if !self.plans.stream.is_retired(lock.moved_by) => return Err(LockError::AllocationBusy),
            Some(lock) => {
                // A plan that is to move it may be decided.
                let view = (lock.address, lock.shown.clone());
                self.state.objects[index].lock_again();
                view
            }
            None => {
                let moves_home = make_visible(&mut self.state, &self.plans, &mut self.schedule, index)?;
                let view = map_view(&mut self.state, host, index)?;
                if moves_home {
                    replacement::move_into_sight(&mut self.schedule.turns, &mut self.state, index);
                }
                view
            }
        };
        let (segment, extents) = shown;
        self.state.moment.record(|| Event::Locked { device, allocation, address, segment, extents });
        Ok(address)
    }

    /// Ends one lock. With the last, the address shows nothing any more. An allocation with PERMANENT_SYS_MEM or
    /// EXISTING_SYS_MEM that is in the memory segment is brought up to date (2.2): work submitted later finds the CPU's
    /// writes.
    ///
    /// # Errors
    ///
    /// If it is not locked.
    #[doc(alias = "D3DKMTUnlock2")]
    pub fn unlock(&mut self, host: &mut dyn Host, allocation: AllocationId) -> Result<(), UnlockError> {
        let index = self.state.objects.lookup_allocation(allocation)?;
        let locks = self.state.objects[index].unlock().ok_or(UnlockError::NotLocked)?;
        self.state.moment.record(|| Event::Unlocked { allocation, locks });
        if locks == 0 {
            views::end_locks(&mut self.state.objects, host, index);
            let allocation = &self.state.objects[index];
            if allocation.is_required() && allocation.homes_differ() {
                self.schedule.turns.note_away(allocation.device, index, self.state.moment.now());
                self.state.moment.request_poll();
            }
            self.plans.refresh(&mut self.state.moment, &mut self.state.objects, index);
        }
        Ok(())
    }
}

/// Whether the CPU can see an allocation in its present place, and where its device's list counts it. If not, the allocation is sent to
/// a place that the CPU sees, if it has one. Returns whether a granted lock moves the home of the allocation.
fn make_visible(
    state: &mut State,
    plans: &Plans,
    schedule: &mut Schedule,
    index: AllocationIx,
) -> Result<bool, LockError> {
    let is_listed = place::is_counted(&state.objects, index) && state.residency.is_wanted(&state.objects, index);
    let moves_home = is_listed && goes_into_sight(state, schedule, index)?;
    let allocation = &state.objects[index];
    let is_hidden = allocation.place.is_some_and(|place| !allocation.is_seen_in(place.account()));
    if !is_hidden {
        // Only a copy that paging never writes is there at once wherever the allocation is.
        let arrives = plans.moves_content(allocation) && !is_copy_still(&state.objects, index);
        let is_on_its_way = arrives || allocation.discarded_by().is_some();
        return if is_on_its_way { Err(LockError::AllocationBusy) } else { Ok(moves_home) };
    }
    if allocation.is(AllocationState::EVICTABLE) {
        state.objects[index].set_hastened(true);
        state.objects[index].set_lock_pending(true);
        state.residency.hasten(&mut state.moment, index);
    }
    Err(LockError::AllocationBusy)
}

/// Whether a lock moves the home of an allocation that a device list requires: the list is to count the allocation where the CPU sees it,
/// so that no grant waits for the unlock (D30). Where an entry pins the allocation in hidden memory, its device yields first.
fn goes_into_sight(state: &mut State, schedule: &mut Schedule, index: AllocationIx) -> Result<bool, LockError> {
    let allocation = &state.objects[index];
    if let Some(rehoming) = allocation.rehoming() {
        // The home changes with the grant of the request that the re-homing belongs to.
        let is_seen = allocation.is_seen_at_home() && allocation.is_seen_in(rehoming.to.account());
        return if is_seen { Ok(false) } else { Err(LockError::AllocationBusy) };
    }
    if allocation.is_seen_at_home() {
        return Ok(false);
    }
    let device = allocation.device;
    // An allocation that is not resident would be lockable (RES-83), but a list waits for it, and the lock may be held for ever.
    replacement::home_in_sight(state, index)?;
    if !allocation.is_pinned() {
        return Ok(true);
    }
    state.objects[index].set_lock_pending(true);
    schedule.turns.replace(device);
    state.moment.request_poll();
    Err(LockError::AllocationBusy)
}

/// Whether the CPU sees a copy in system memory that paging reads at most.
fn is_copy_still(objects: &Objects, index: AllocationIx) -> bool {
    let allocation = &objects[index];
    allocation.is(AllocationState::KEEPS_COPY) && matches!(allocation.place, Some(Place::Memory(..)))
}

fn map_view(
    state: &mut State,
    host: &mut dyn Host,
    index: AllocationIx,
) -> Result<(CpuVirtualAddress, (SegmentId, Vec<Extent>)), LockError> {
    let (segment, extents) = views::view_of(&state.adapter, &state.objects, index);
    let extents: Vec<Extent> = extents.iter().collect();
    let address = host.map_cpu_virtual_address(segment, &extents)?;
    let shown = (segment, extents);
    state.objects[index].begin_lock(address, shown.clone());
    Ok((address, shown))
}
