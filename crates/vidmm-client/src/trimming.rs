//! Memory given up on request, or when a program goes idle.

use alloc::{vec, vec::Vec};

use super::{managed::Managed, manager::ResidencyManager};
use vidmm::{
    DestroyFlags, EvictError, EvictFlags, MemoryAccount, MemorySegmentGroup, Shortage, TrimFlags, VidMm, contract::Host,
};

impl ResidencyManager {
    /// Answers a trim notification of the device (RES-40). Returns the evicted bytes.
    ///
    /// - PERIODIC_TRIM: allocations without a use by any queue in the last period are evicted, when the memory is wanted; a new
    ///   period begins, in each queue from the reached value of the fence (RES-42).
    /// - RESTART_PERIODIC_TRIM: a new period begins.
    /// - TRIM_TO_BUDGET: the least recently used allocations in the memory of the group are evicted, until `num_bytes_to_trim`
    ///   are reached.
    ///
    /// Costs the logarithm of the list's length for each victim, and for each allocation that seemed older and was used since.
    ///
    /// # Errors
    ///
    /// If a foreign call evicted an allocation of the manager.
    #[doc(alias = "pfnTrimResidencySet")]
    pub fn trim_notification(
        &mut self,
        vidmm: &mut VidMm,
        flags: TrimFlags,
        group: Option<MemorySegmentGroup>,
        num_bytes_to_trim: u64,
    ) -> Result<u64, EvictError> {
        let mut evicted = 0;
        if flags.contains(TrimFlags::TRIM_TO_BUDGET) {
            let is_of = |&group: &Option<MemorySegmentGroup>, account: MemoryAccount| account.group == group;
            evicted += self.evict_counted(vidmm, vec![(group, num_bytes_to_trim)], is_of, EvictFlags::empty())?;
        }
        if flags.contains(TrimFlags::PERIODIC_TRIM) {
            evicted += self.evict_unused(vidmm)?;
        }
        if flags.intersects(TrimFlags::PERIODIC_TRIM | TrimFlags::RESTART_PERIODIC_TRIM) {
            self.uses.begin_period();
        }
        Ok(evicted)
    }

    /// Evicts the least recently used allocations of each memory with a shortage, until the missing bytes are reached, at the
    /// earliest opportunity. Returns the evicted bytes. For callers of [`Ladder::PassUp`](super::Ladder::PassUp), after a
    /// failure.
    ///
    /// # Errors
    ///
    /// If a foreign call evicted an allocation of the manager.
    pub fn make_room(&mut self, vidmm: &mut VidMm, shortages: &[Shortage]) -> Result<u64, EvictError> {
        self.evict_missing(vidmm, shortages, EvictFlags::empty())
    }

    /// Evicts the least recently used allocations, until `bytes` are reached, at the earliest opportunity. Returns the evicted
    /// bytes.
    ///
    /// # Errors
    ///
    /// If a foreign call evicted an allocation of the manager.
    pub fn give_up(&mut self, vidmm: &mut VidMm, bytes: u64) -> Result<u64, EvictError> {
        self.evict_counted(vidmm, vec![((), bytes)], |(), _| true, EvictFlags::empty())
    }

    /// Evicts an allocation, at the earliest opportunity. Does nothing for an allocation outside of the list.
    ///
    /// # Errors
    ///
    /// If a foreign call evicted the allocation.
    pub fn release(&mut self, vidmm: &mut VidMm, managed: Managed) -> Result<(), EvictError> {
        match self.is_listed(managed) {
            true => self.evict(vidmm, &[managed.index() as u32], EvictFlags::empty()),
            false => Ok(()),
        }
    }

    /// Evicts allocations without a use by any queue in the present period. Returns the evicted bytes.
    fn evict_unused(&mut self, vidmm: &mut VidMm) -> Result<u64, EvictError> {
        let (mut victims, mut others, mut evicted) = (Vec::new(), Vec::new(), 0);
        while let Some(index) = self.pop_oldest(self.uses.before_period(), |_| true) {
            if self.uses.is_used_in_period(index) {
                others.push(index);
            } else {
                evicted += self.table.at(index).size;
                victims.push(index);
            }
        }
        others.into_iter().for_each(|index| self.order.put_back(index, self.uses.last_use(index)));
        self.evict(vidmm, &victims, EvictFlags::EVICT_ONLY_IF_NECESSARY)?;
        Ok(evicted)
    }

    /// For a program that goes idle: evicts everything, and destroys the allocations with
    /// [`ManageFlags::INTERNAL`](super::ManageFlags::INTERNAL). Returns the destroyed allocations; make each again before the
    /// next use. Internal allocations need no Offer (RES-57): a destroyed allocation costs nothing.
    ///
    /// Earlier work still has all allocations. `trim` looks at each listed and each internal allocation once.
    ///
    /// # Errors
    ///
    /// If a foreign call evicted an allocation of the manager.
    #[doc(alias = "IDXGIDevice3::Trim")]
    pub fn trim(&mut self, vidmm: &mut VidMm, host: &mut dyn Host) -> Result<Vec<Managed>, EvictError> {
        let mut listed = self.order.drain();
        listed.retain(|&index| self.table.is_listed(index));
        self.evict(vidmm, &listed, EvictFlags::empty())?;
        let internal: Vec<Managed> = self.table.internal().collect();
        for &managed in &internal {
            let allocation = self.forget(managed).expect("it is managed");
            // The destruction before has done the same.
            _ = vidmm.destroy_allocation(host, allocation, DestroyFlags::empty());
        }
        Ok(internal)
    }
}
