//! The memory that is given up when asked, or when a program goes idle.

use alloc::{vec, vec::Vec};

use super::{managed::Managed, manager::ResidencyManager};
use crate::{
    DestroyFlags, EvictError, EvictFlags, MemoryAccount, MemorySegmentGroup, Shortage, TrimFlags, VidMm, contract::Host,
};

impl ResidencyManager {
    /// Answers a trim notification of the device (RES-40). Returns how many bytes were evicted.
    ///
    /// - PERIODIC_TRIM: what no queue has used since the last period began is evicted, when its memory is wanted; then a new
    ///   period begins: in each queue with what its fence has reached (RES-42).
    /// - RESTART_PERIODIC_TRIM: a new period begins.
    /// - TRIM_TO_BUDGET: what was used longest ago in the memory of the group is evicted, until `num_bytes_to_trim` are reached.
    ///
    /// It costs the logarithm of how many allocations are listed for each that is evicted, and for each that seemed older and
    /// was used since.
    ///
    /// # Errors
    ///
    /// If something that the manager had made resident was evicted by somebody else.
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

    /// Evicts what was used longest ago of the memory that a refusal misses, until so much is evicted there, at the earliest opportunity.
    /// Returns how many bytes that were. It is what a caller of [`Ladder::PassUp`](super::Ladder::PassUp) does after a failure.
    ///
    /// # Errors
    ///
    /// If something that the manager had made resident was evicted by somebody else.
    pub fn make_room(&mut self, vidmm: &mut VidMm, shortages: &[Shortage]) -> Result<u64, EvictError> {
        self.evict_missing(vidmm, shortages, EvictFlags::empty())
    }

    /// Evicts what was used longest ago, until `bytes` are reached, at the earliest opportunity. Returns how many bytes that
    /// were.
    ///
    /// # Errors
    ///
    /// If something that the manager had made resident was evicted by somebody else.
    pub fn give_up(&mut self, vidmm: &mut VidMm, bytes: u64) -> Result<u64, EvictError> {
        self.evict_counted(vidmm, vec![((), bytes)], |(), _| true, EvictFlags::empty())
    }

    /// Evicts what no queue has used in the present period. Returns how many bytes that were.
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

    /// For a program that goes idle: evicts everything, and destroys what was declared
    /// [`ManageFlags::INTERNAL`](super::ManageFlags::INTERNAL). Returns what
    /// was destroyed; make it again before its next use. Offer is not needed for it (RES-57): nobody pays for what is gone.
    ///
    /// Work that was submitted before still has all of it. It looks at each listed and each internal allocation once.
    ///
    /// # Errors
    ///
    /// If something that the manager had made resident was evicted by somebody else.
    #[doc(alias = "IDXGIDevice3::Trim")]
    pub fn trim(&mut self, vidmm: &mut VidMm, host: &mut dyn Host) -> Result<Vec<Managed>, EvictError> {
        let mut listed = self.order.drain();
        listed.retain(|&index| self.table.is_listed(index));
        self.evict(vidmm, &listed, EvictFlags::empty())?;
        let internal: Vec<Managed> = self.table.internal().collect();
        for &managed in &internal {
            let allocation = self.forget(managed).expect("it is managed");
            // Its destruction before has done the same.
            _ = vidmm.destroy_allocation(host, allocation, DestroyFlags::empty());
        }
        Ok(internal)
    }
}
