//! A residency manager of a graphics API's portable layer: a list for local memory and one for the rest, and a mistake.
//!
//! When a submission needs evicted allocations of both, the manager makes only the local ones resident, yet puts all of
//! them on its lists. The next submission believes the lists, and the GPU touches memory that is not resident.

use vidmm::{AllocationId, EvictError, EvictFlags, MakeResidentFlags, MemorySegmentGroup};

use super::lru::{Lru, Resident};
use crate::client::list::{DeviceList, ListError, ListKeeper, Listed, Named};

/// The share of its budget that it uses, in percent.
const OF_BUDGET: u64 = 95;

/// The bytes that it evicts after a refusal; its original has 50 MB, and thousands of times as much memory.
const STEP: u64 = 512 << 10;

/// The groups, in the order of its lists.
const GROUPS: [MemorySegmentGroup; 2] = [MemorySegmentGroup::Local, MemorySegmentGroup::NonLocal];

#[derive(Debug, Default)]
pub(super) struct Mixed {
    lists: [Lru; 2],
    /// Without the mistake.
    is_fixed: bool,
}

impl Mixed {
    /// The manager as it should be.
    pub fn fixed() -> Self {
        Self { is_fixed: true, ..Self::default() }
    }

    /// Puts all of `uses` on the lists, and makes resident all that was not there, or less by mistake.
    fn bring_in(&mut self, list: &mut DeviceList<'_>, uses: &[Named], last_fence: u64) -> Result<(), ListError> {
        let last_time = list.now;
        let mut missing: [Vec<Named>; 2] = [Vec::new(), Vec::new()];
        for &what in uses {
            let group = GROUPS.iter().position(|&group| group == what.group).expect("there are two groups");
            if !self.lists[group].touch(what.allocation, last_fence, last_time) {
                self.lists[group].push(Resident { what, last_fence, last_time });
                missing[group].push(what);
            }
        }
        let [local, non_local] = &missing;
        if !local.is_empty() {
            self.make_resident(list, 0, local)?;
        }
        if !non_local.is_empty() && (local.is_empty() || self.is_fixed) {
            self.make_resident(list, 1, non_local)?;
        }
        Ok(())
    }

    /// Makes resident the missing allocations of one group, which are on the group's list already.
    fn make_resident(&mut self, list: &mut DeviceList<'_>, group: usize, missing: &[Named]) -> Result<(), ListError> {
        let budget = list.budget(GROUPS[group])? / 100 * OF_BUDGET;
        while self.lists[group].bytes > budget && self.evict_oldest(list, group).is_some() {}
        let allocations: Vec<_> = missing.iter().map(|what| what.allocation).collect();
        while let Some(bytes) = list.make_resident(&allocations, MakeResidentFlags::empty())? {
            let mut evicted = 0;
            while evicted < STEP {
                let Some(more) = self.evict_oldest(list, group) else { break };
                evicted += more;
            }
            if evicted == 0 {
                return Err(ListError::NothingLeft { bytes });
            }
        }
        Ok(())
    }

    /// Evicts the least recently used allocations, except those of the present submission. Returns their bytes.
    fn evict_oldest(&mut self, list: &mut DeviceList<'_>, group: usize) -> Option<u64> {
        let residents = &mut self.lists[group];
        residents.oldest().filter(|oldest| oldest.last_fence <= list.submitted)?;
        let oldest = residents.pop()?;
        evict(list, &[oldest]);
        Some(oldest.what.bytes)
    }
}

/// Evicts `gone`. Direct3D 12 accepts the eviction of an allocation that is not resident, so the mistake stays
/// unnoticed here.
fn evict(list: &mut DeviceList<'_>, gone: &[Resident]) {
    gone.iter().for_each(|gone| _ = list.evict(&[gone.what.allocation], EvictFlags::empty()));
}

impl ListKeeper for Mixed {
    /// Heaps are resident when they are created.
    fn created(&mut self, list: &mut DeviceList<'_>, new: &Named) -> Result<(), ListError> {
        let last_fence = list.submitted;
        self.bring_in(list, &[*new], last_fence)
    }

    fn make_resident(&mut self, list: &mut DeviceList<'_>, uses: &[Named]) -> Result<Listed, ListError> {
        let last_fence = list.submitted + 1;
        self.bring_in(list, uses, last_fence)?;
        Ok(Listed::All)
    }

    fn leave(&mut self, list: &mut DeviceList<'_>, allocation: AllocationId) -> Result<(), EvictError> {
        for residents in &mut self.lists {
            evict(list, &residents.take_one(allocation));
        }
        Ok(())
    }

    fn trim_all(&mut self, list: &mut DeviceList<'_>) -> Result<(), EvictError> {
        self.lists.iter_mut().for_each(|residents| evict(list, &residents.take(|_| true)));
        Ok(())
    }
}
