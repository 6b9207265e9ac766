//! Lock2 and Unlock2: what the CPU sees of an allocation (5.9).

use crate::{
    allocation::AllocationState,
    contract::{CpuVirtualAddress, Host},
    cpu_view::Lock,
    error::{LockError, UnlockError},
    event::Event,
    id::{AllocationId, AllocationIx, DeviceId},
    place::Place,
    state::VidMm,
};

/// How often an allocation can be locked at one time.
const LOCKS_MAX: u32 = u16::MAX as u32;

impl VidMm {
    /// Shows the whole allocation to the CPU, at an address that stays the same until the last unlock: when the allocation
    /// moves, the address shows where it is (RES-86). Nothing is synchronised: that is the caller's duty, who may keep an
    /// allocation locked for its whole life (RES-05, RES-81). While a move is under way the address shows nothing, and an access
    /// waits.
    ///
    /// An allocation in a memory segment must leave it, unless both are CPU-visible (RES-82, RES-83); and content that is on its
    /// way must arrive. Then the answer is [`LockError::AllocationBusy`]: poll, let paging end, and try again. With
    /// PERMANENT_SYS_MEM or EXISTING_SYS_MEM the CPU sees the copy in system memory, wherever the allocation is.
    ///
    /// What is locked comes into a memory segment only if the CPU sees it there: a MakeResident that needs that is pending until
    /// the last unlock (RES-84, U-40).
    ///
    /// # Errors
    ///
    /// If the allocation is another device's, offered, or cannot be where the CPU sees it.
    #[doc(alias = "D3DKMTLock2")]
    pub fn lock(
        &mut self,
        host: &mut dyn Host,
        device: DeviceId,
        allocation: AllocationId,
    ) -> Result<CpuVirtualAddress, LockError> {
        let device_index = self.devices.lookup(device)?;
        self.check_device(device_index)?;
        let index = self.lookup_allocation(allocation)?;
        let books = &self.allocations[index];
        if books.device != device_index {
            return Err(LockError::WrongDevice);
        }
        if books.state.contains(AllocationState::OFFERED) {
            return Err(LockError::Offered);
        }
        if books.state.contains(AllocationState::NOT_COMMITTED) {
            return Err(LockError::NotCommitted);
        }
        let address = match self.locks.get_mut(&index) {
            Some(lock) if lock.count >= LOCKS_MAX => return Err(LockError::TooManyReferences { locks: lock.count }),
            // A plan moves it, and until that has retired the CPU sees nothing of it.
            Some(lock) if !self.stream.is_retired(lock.moved_by) => return Err(LockError::AllocationBusy),
            Some(lock) => {
                lock.count += 1;
                lock.address
            }
            None => {
                self.make_visible(index)?;
                self.map_view(host, index)?
            }
        };
        let (segment, extents) = self.view_of(index);
        self.events.record(|| Event::Locked {
            device,
            allocation,
            address,
            segment,
            extents: extents.iter().collect(),
        });
        Ok(address)
    }

    /// Whether the CPU can see an allocation where it is. If not, it is sent where it can be seen, if there is such a place.
    fn make_visible(&mut self, index: AllocationIx) -> Result<(), LockError> {
        let allocation = &self.allocations[index];
        let is_hidden = matches!(allocation.place, Some(Place::Memory(_))) && !allocation.is_seen_anywhere();
        if !is_hidden {
            // Only a copy that nothing writes to is there at once wherever the allocation is.
            let arrives = !self.stream.is_retired(allocation.last_plan) && !self.is_copy_still(index);
            let is_on_its_way = arrives || self.discards.contains_key(&index);
            return if is_on_its_way { Err(LockError::AllocationBusy) } else { Ok(()) };
        }
        if allocation.state.contains(AllocationState::EVICTABLE) {
            self.allocations[index].state |= AllocationState::EVICT_SOON | AllocationState::LOCK_PENDING;
            self.evict_soon.push_back(index);
        } else if !self.devices[allocation.device].has_reference_lists() {
            let may_be_in_system = allocation.state.contains(AllocationState::MAY_BE_IN_SYSTEM);
            if !may_be_in_system || allocation.openings().next().is_some() {
                return Err(LockError::NotLockable);
            }
            let device = allocation.device;
            self.allocations[index].state |= AllocationState::LOCK_PENDING;
            self.turns.to_replace.insert(device);
        }
        self.stirred = true;
        Err(LockError::AllocationBusy)
    }

    /// Whether the CPU sees a copy in system memory that paging reads at most.
    fn is_copy_still(&self, index: AllocationIx) -> bool {
        let allocation = &self.allocations[index];
        allocation.state.contains(AllocationState::KEEPS_COPY) && matches!(allocation.place, Some(Place::Memory(_)))
    }

    fn map_view(&mut self, host: &mut dyn Host, index: AllocationIx) -> Result<CpuVirtualAddress, LockError> {
        let (segment, extents) = self.view_of(index);
        let extents: alloc::vec::Vec<_> = extents.iter().collect();
        let address = host.map_cpu_virtual_address(segment, &extents)?;
        self.locks.insert(index, Lock { count: 1, address, moved_by: 0 });
        let state = &mut self.allocations[index].state;
        *state -= AllocationState::LOCK_PENDING;
        *state |= AllocationState::LOCKED;
        // The CPU may write from now on.
        *state |= if segment.is_system() { AllocationState::BACKED } else { AllocationState::DIRTY };
        Ok(address)
    }

    /// Ends one lock. With the last, the address shows nothing any more; of an allocation with PERMANENT_SYS_MEM or
    /// EXISTING_SYS_MEM that is in the memory segment, what is there is brought up to date (2.2): work submitted later finds what
    /// the CPU has written.
    ///
    /// # Errors
    ///
    /// If it is not locked.
    #[doc(alias = "D3DKMTUnlock2")]
    pub fn unlock(&mut self, host: &mut dyn Host, allocation: AllocationId) -> Result<(), UnlockError> {
        let index = self.lookup_allocation(allocation)?;
        let lock = self.locks.get_mut(&index).ok_or(UnlockError::NotLocked)?;
        lock.count -= 1;
        let locks = lock.count;
        self.events.record(|| Event::Unlocked { allocation, locks });
        if locks == 0 {
            self.end_locks(host, index);
            self.refresh(index);
            self.stirred = true;
        }
        Ok(())
    }

    /// The CPU no longer sees the allocation.
    pub(crate) fn end_locks(&mut self, host: &mut dyn Host, index: AllocationIx) {
        if let Some(lock) = self.locks.remove(&index) {
            self.allocations[index].state -= AllocationState::LOCKED;
            host.unmap_cpu_virtual_address(lock.address);
        }
    }
}
