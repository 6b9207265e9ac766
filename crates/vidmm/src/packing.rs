//! Packing: whether what a device requires fits together where each allocation is one range (RES-19).
//!
//! Without GPU virtual addresses an allocation *weighs* its size, rounded up to its alignment. Ranges that lie one behind the
//! other, those with the larger alignment first, take no more than they weigh: each begins where those before it end. So what
//! weighs no more than its segment fits into it when nothing else is there, and so does any part of it. That is what a device's
//! list is admitted by; with GPU virtual addresses a weight is the size, and the segment is never too fragmented (D10).

use alloc::{collections::BTreeSet, vec::Vec};

use crate::{
    id::{AllocationIx, DeviceIx},
    patching::Wish,
    pool::{PerPool, Pool},
    residency::ListEntry,
    state::VidMm,
    units::PAGE_SIZE_64K,
};

impl VidMm {
    /// What the ranges of an allocation must be multiples of in a pool, in bytes.
    pub(crate) fn alignment(&self, index: AllocationIx, pool: Pool) -> u64 {
        match pool {
            Pool::Memory => {
                let known = self.patched.get(&index);
                known.map_or(Wish::default().alignment, |known| known.wish.alignment)
            }
            Pool::System => PAGE_SIZE_64K,
        }
    }

    /// What an allocation weighs in a pool, in bytes: with GPU virtual addresses its size.
    pub(crate) fn weight(&self, index: AllocationIx, pool: Pool) -> u64 {
        let alignment = if self.adapter.is_physical() { self.alignment(index, pool) } else { 1 };
        self.allocations[index].size.next_multiple_of(alignment)
    }

    /// The size of the segment that a pool's allocations have ranges of, in bytes.
    fn range_capacity(&self, pool: Pool) -> u64 {
        match pool {
            Pool::Memory => self.placer.size(),
            Pool::System => self.aperture.size(),
        }
    }

    /// What may still join a device's list, in bytes of weight. Below 0 is nothing.
    pub(crate) fn packing_room(&self, device: DeviceIx) -> PerPool<i128> {
        if !self.adapter.is_physical() {
            return PerPool::new(i128::MAX, i128::MAX);
        }
        let listed = self.on_list(device, |entry| entry.count > 0);
        let weights = self.weights(listed);
        PerPool::new(Pool::Memory, Pool::System)
            .map(|pool| i128::from(self.range_capacity(pool)) - i128::from(weights[pool]))
    }

    /// Whether a device's list still fits together when these of its allocations are in the other pool.
    pub(crate) fn packs_if_moved(&self, device: DeviceIx, moved: &[AllocationIx]) -> bool {
        if !self.adapter.is_physical() {
            return true;
        }
        let mut room = self.packing_room(device);
        for &index in moved {
            let from = self.allocations[index].pool();
            for pool in Pool::ALL {
                let weight = i128::from(self.weight(index, pool));
                room[pool] += if pool == from { weight } else { -weight };
            }
        }
        Pool::ALL.into_iter().all(|pool| room[pool] >= 0)
    }

    /// Whether what a device holds, or is to hold again, fits together with `joining`, if nothing else is there.
    pub(crate) fn packs_with(&self, device: DeviceIx, joining: impl Iterator<Item = AllocationIx>) -> bool {
        if !self.adapter.is_physical() {
            return true;
        }
        let mut all = self.on_list(device, |entry| entry.is_holding() || entry.is_owed());
        all.extend(joining);
        let weights = self.weights(all);
        Pool::ALL.into_iter().all(|pool| weights[pool] <= self.range_capacity(pool))
    }

    fn weights(&self, allocations: BTreeSet<AllocationIx>) -> PerPool<u64> {
        let mut weights: PerPool<u64> = PerPool::default();
        for index in allocations {
            let pool = self.allocations[index].pool();
            weights[pool] += self.weight(index, pool);
        }
        weights
    }

    /// The allocations that a device's list names so that `is_so`.
    pub(crate) fn on_list(&self, device: DeviceIx, is_so: impl Fn(&ListEntry) -> bool) -> BTreeSet<AllocationIx> {
        let is_listed = |index: &AllocationIx| self.allocations[*index].entry(device).is_some_and(&is_so);
        self.named_by_list(device).filter(is_listed).collect()
    }

    /// Allocations in the order in which their ranges lie one behind the other, and waste nothing but what their weights say.
    pub(crate) fn sort_for_packing(&self, allocations: &mut [AllocationIx], pool: Pool) {
        allocations.sort_unstable_by_key(|&index| {
            let (alignment, size) = (self.alignment(index, pool), self.allocations[index].size);
            (core::cmp::Reverse((alignment, size)), index)
        });
    }

    /// Devices with device lists whose lists weigh more than fits, for the audit.
    pub(crate) fn overweight(&self) -> Vec<DeviceIx> {
        let is_over = |index: &DeviceIx| Pool::ALL.into_iter().any(|pool| self.packing_room(*index)[pool] < 0);
        let devices = self.devices.iter().filter(|(_, books)| !books.has_reference_lists());
        devices.map(|(index, _)| index).filter(is_over).collect()
    }
}
