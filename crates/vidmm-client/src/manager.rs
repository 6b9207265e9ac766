//! The manager of one device's residency list.

use alloc::vec::Vec;

use super::{
    chosen::Chosen,
    managed::{Forgotten, ManageFlags, Managed, State, Table},
    order::EvictionOrder,
    set::Begun,
    uses::{UseNo, Uses},
};
use vidmm::{
    AllocationId, DeviceId, EvictError, EvictFlags, MemoryAccount, MonitoredFenceId, PagingQueueId, Shortage, VidMm,
    policy::PolicyChoice,
};

/// The step after a refused MakeResident (RES-14).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ladder {
    /// As drivers before Direct3D 12: trim the missing bytes of each memory, try again, and so on; when nothing is left to
    /// trim, try with CANT_TRIM_FURTHER; pass a second failure up.
    Trim,
    /// As Direct3D 12: never trim unasked; undo the submission's additions to the list, and pass the error up, with the bytes
    /// to trim for the whole set.
    PassUp,
}

/// Keeps the allocations of submissions on the residency list of one device, and takes the least recently used allocations off
/// (RES-05, RES-57).
///
/// The manager makes each allocation resident once and evicts each once: your own calls for the same allocations have counts of
/// their own (RES-02). Fences tell the manager of the GPU: a fence for each queue of work, with values that rise with the
/// submissions to the queue.
///
/// An allocation without a write by any set since MakeResident is evicted with [`EvictFlags::NOT_WRITTEN_TO`]: the content is
/// not copied out (RES-22). Unannounced work must not write managed allocations, except allocations with
/// [`ManageFlags::WRITTEN_BY_OTHERS`].
pub struct ResidencyManager {
    pub(super) device: DeviceId,
    pub(super) paging_queue: PagingQueueId,
    pub(super) ladder: Ladder,
    pub(super) table: Table,
    pub(super) order: EvictionOrder,
    /// A policy chooses the victims where room is missing; none is the order.
    pub(super) chosen: Option<Chosen>,
    pub(super) uses: Uses,
    /// Bytes on the list.
    pub(super) listed_bytes: u64,
    /// The number of departures from the list.
    pub(super) departures: u64,
    /// The value of the paging queue's fence after the last pending MakeResident.
    pub(super) paging_fence_value: u64,
    /// Empty between calls.
    pub(super) missing: Vec<Managed>,
}

impl ResidencyManager {
    /// A manager for `device` that calls MakeResident on `paging_queue`, a queue of the device. Least recently used
    /// allocations go first.
    pub fn new(device: DeviceId, paging_queue: PagingQueueId, ladder: Ladder) -> Self {
        Self::with_policy(device, paging_queue, ladder, PolicyChoice::LRU)
    }

    /// The same with a policy of the core (D24), which chooses the victims where room is missing. The policy hears of each begun
    /// set as a use of all members, and has an own past: no allocations but the manager's. A periodic trim goes by the last use all
    /// the same (RES-42).
    pub fn with_policy(device: DeviceId, paging_queue: PagingQueueId, ladder: Ladder, policy: PolicyChoice) -> Self {
        Self {
            device,
            paging_queue,
            ladder,
            table: Table::default(),
            order: EvictionOrder::default(),
            chosen: policy.policy().map(Chosen::new),
            uses: Uses::default(),
            listed_bytes: 0,
            departures: 0,
            paging_fence_value: 0,
            missing: Vec::new(),
        }
    }

    /// The device.
    pub fn device(&self) -> DeviceId {
        self.device
    }

    /// Begins to manage an allocation of the device, of `size` bytes. The allocation joins the list with the first submission
    /// that uses the allocation.
    pub fn manage(&mut self, allocation: AllocationId, size: u64, flags: ManageFlags) -> Managed {
        self.table.insert(allocation, size, flags)
    }

    /// Ends the management of a destroyed allocation: the destruction takes the allocation off the list. Returns the
    /// allocation.
    ///
    /// # Errors
    ///
    /// If the allocation is not managed.
    pub fn forget(&mut self, managed: Managed) -> Result<AllocationId, Forgotten> {
        let was_listed = self.is_listed(managed);
        let record = self.table.remove(managed)?;
        self.uses.forget_allocation(managed.index() as u32);
        if let Some(chosen) = &mut self.chosen {
            chosen.gone(managed.index() as u32);
        }
        if was_listed {
            self.listed_bytes -= record.size;
            self.departures += 1;
        }
        Ok(record.allocation)
    }

    /// From now on unannounced work may write the allocation, as with [`ManageFlags::WRITTEN_BY_OTHERS`].
    ///
    /// # Errors
    ///
    /// If the allocation is not managed.
    pub fn expect_other_writers(&mut self, managed: Managed) -> Result<(), Forgotten> {
        self.table.expect_other_writers(managed)
    }

    /// Whether the manager has the allocation on the device's list.
    pub fn is_listed(&self, managed: Managed) -> bool {
        self.table.get(managed).is_ok() && self.table.is_listed(managed.index() as u32)
    }

    /// The allocation.
    ///
    /// # Errors
    ///
    /// If the allocation is not managed.
    pub fn allocation(&self, managed: Managed) -> Result<AllocationId, Forgotten> {
        self.table.get(managed).map(|record| record.allocation)
    }

    /// Bytes of the manager's allocations on the device's list.
    pub fn listed_bytes(&self) -> u64 {
        self.listed_bytes
    }

    /// The last begun submission was submitted, and ends when the fence reaches `value`.
    ///
    /// # Panics
    ///
    /// If no submission was ever begun.
    pub fn submitted(&mut self, fence_value: u64) {
        self.uses.submitted(fence_value);
    }

    /// `fence` has reached `value`: submissions of the fence's queue up to `value` have ended. An unknown fence changes
    /// nothing.
    pub fn fence_reached(&mut self, fence: MonitoredFenceId, value: u64) {
        self.uses.fence_reached(fence, value);
    }

    /// Ends the queue of a fence after the context was destroyed: all submissions of the queue count as ended.
    pub fn forget_fence(&mut self, fence: MonitoredFenceId) {
        self.uses.forget_fence(fence);
    }

    /// The members of a set that are resident now.
    pub(super) fn begun(&self) -> Begun {
        Begun { number: self.uses.last, departures: self.departures }
    }

    /// Evicts the first victims of each memory with a shortage; returns the evicted bytes.
    pub(super) fn evict_missing(
        &mut self,
        vidmm: &mut VidMm,
        shortages: &[Shortage],
        flags: EvictFlags,
    ) -> Result<u64, EvictError> {
        let missing = shortages.iter().map(|shortage| (shortage.account, shortage.num_bytes_to_trim)).collect();
        self.evict_counted(vidmm, missing, |of, account| *of == account, flags)
    }

    /// Evicts the first victims in accounts of each `missing` memory (by `is_of`), until the missing bytes are reached;
    /// returns the evicted bytes.
    pub(super) fn evict_counted<M>(
        &mut self,
        vidmm: &mut VidMm,
        mut missing: Vec<(M, u64)>,
        is_of: impl Fn(&M, MemoryAccount) -> bool,
        flags: EvictFlags,
    ) -> Result<u64, EvictError> {
        missing.retain(|&(_, bytes)| bytes > 0);
        let last = self.uses.last_evictable();
        let (mut victims, mut evicted) = (Vec::new(), 0);
        let mut accounts_are_right = false;
        while !missing.is_empty() {
            let is_missing = |account| missing.iter().any(|(of, _)| is_of(of, account));
            let Some(index) = self.pop_victim(last, is_missing) else {
                // The memory in which an allocation counts may have changed since the allocation joined the list.
                if core::mem::replace(&mut accounts_are_right, true) || !self.correct_accounts(vidmm) {
                    break;
                }
                continue;
            };
            let record = self.table.at(index);
            // Evict finds a destroyed allocation.
            let account = vidmm.query_account(record.allocation).ok();
            let position = missing.iter().position(|(of, _)| account.is_none_or(|account| is_of(of, account)));
            let Some(position) = position else {
                let account = account.expect("one that is gone counts as missing");
                self.order.join(index, self.uses.last_use(index), account);
                if let Some(chosen) = &mut self.chosen {
                    chosen.moved(index, account);
                }
                continue;
            };
            victims.push(index);
            evicted += record.size;
            missing[position].1 = missing[position].1.saturating_sub(record.size);
            missing.retain(|&(_, bytes)| bytes > 0);
        }
        self.evict(vidmm, &victims, flags)?;
        Ok(evicted)
    }

    /// Takes the next victim out of the order, of those with the last use in `last` or before.
    fn pop_victim(&mut self, last: UseNo, is_of: impl Fn(MemoryAccount) -> bool) -> Option<u32> {
        match &mut self.chosen {
            Some(chosen) => chosen.pop(is_of, |index| self.uses.last_use(index) > last),
            None => self.pop_oldest(last, is_of),
        }
    }

    /// Takes the least recently used allocation out of the order, if the last use was `last` or before.
    pub(super) fn pop_oldest(&mut self, last: UseNo, is_of: impl Fn(MemoryAccount) -> bool) -> Option<u32> {
        let Self { table, uses, order, .. } = self;
        order.pop(last, is_of, |index| table.is_listed(index).then(|| uses.last_use(index)))
    }

    fn correct_accounts(&mut self, vidmm: &VidMm) -> bool {
        let Self { table, order, chosen, .. } = self;
        let account_of = |index| vidmm.query_account(table.at(index).allocation).ok();
        match chosen {
            Some(chosen) => chosen.correct_accounts(account_of),
            None => order.correct_accounts(account_of),
        }
    }

    /// Evicts allocations on the list, in a call for allocations with reads alone, and in a second call for the rest. Either
    /// call may fail alone.
    pub(super) fn evict(&mut self, vidmm: &mut VidMm, victims: &[u32], flags: EvictFlags) -> Result<(), EvictError> {
        let (written, read): (Vec<u32>, Vec<u32>) =
            victims.iter().partition(|&&index| self.table.may_be_written(index));
        let outcomes = [(read, flags | EvictFlags::NOT_WRITTEN_TO), (written, flags)]
            .map(|(victims, flags)| self.evict_alike(vidmm, &victims, flags));
        outcomes.into_iter().collect()
    }

    fn evict_alike(&mut self, vidmm: &mut VidMm, victims: &[u32], flags: EvictFlags) -> Result<(), EvictError> {
        if victims.is_empty() {
            return Ok(());
        }
        let allocations: Vec<AllocationId> = victims.iter().map(|&index| self.table.at(index).allocation).collect();
        if let Err(error) = vidmm.evict(self.device, &allocations, flags) {
            for &index in victims {
                self.order.put_back(index, self.uses.last_use(index));
                if let Some(chosen) = &mut self.chosen {
                    chosen.put_back(index);
                }
            }
            return Err(error);
        }
        for &index in victims {
            self.table.states_mut()[index as usize] = State::empty();
            self.listed_bytes -= self.table.at(index).size;
            if let Some(chosen) = &mut self.chosen {
                chosen.left(index);
            }
        }
        self.departures += 1;
        Ok(())
    }
}
