//! The manager of one device's residency list.

use alloc::vec::Vec;

use super::{
    managed::{Forgotten, ManageFlags, Managed, State, Table},
    order::EvictionOrder,
    set::Begun,
    uses::{UseNo, Uses},
};
use crate::{
    AllocationId, DeviceId, EvictError, EvictFlags, MemoryAccount, MonitoredFenceId, PagingQueueId, Shortage, VidMm,
};

/// The step that a refused MakeResident leads to (RES-14).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ladder {
    /// As drivers before Direct3D 12: trim what is missing of each memory, try again, and so on; when nothing is left to trim, try with
    /// CANT_TRIM_FURTHER; if that fails, pass the error up.
    Trim,
    /// As Direct3D 12: never trim by oneself; undo what the submission has made resident so far, and pass the error up, with
    /// how much to trim for all of it.
    PassUp,
}

/// Keeps what submissions use on the residency list of one device, and takes off what was used longest ago (RES-05, RES-57).
///
/// It makes each allocation resident once and evicts it once: calls of one's own on the same allocations go beside it, with
/// counts of their own (RES-02). It hears of the GPU through fences: one for each queue of work, whose values rise with the
/// submissions to that queue.
///
/// An allocation that no set has written since the manager made it resident is evicted with
/// [`EvictFlags::NOT_WRITTEN_TO`]: its content is not copied out (RES-22). Work that is not announced in sets must write none of
/// the managed allocations, except those with [`ManageFlags::WRITTEN_BY_OTHERS`].
pub struct ResidencyManager {
    pub(super) device: DeviceId,
    pub(super) paging_queue: PagingQueueId,
    pub(super) ladder: Ladder,
    pub(super) table: Table,
    pub(super) order: EvictionOrder,
    pub(super) uses: Uses,
    /// Bytes of what is on the list.
    pub(super) listed_bytes: u64,
    /// How often anything has left the list.
    pub(super) departures: u64,
    /// The value of the paging queue's fence when the last pending MakeResident is done.
    pub(super) paging_fence_value: u64,
    /// Empty between calls.
    pub(super) missing: Vec<Managed>,
}

impl ResidencyManager {
    /// A manager for `device`, which makes resident through `paging_queue`, a queue of that device.
    pub fn new(device: DeviceId, paging_queue: PagingQueueId, ladder: Ladder) -> Self {
        Self {
            device,
            paging_queue,
            ladder,
            table: Table::default(),
            order: EvictionOrder::default(),
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

    /// Begins to manage an allocation of the device, of `size` bytes. It is not on the list until a submission uses it.
    pub fn manage(&mut self, allocation: AllocationId, size: u64, flags: ManageFlags) -> Managed {
        self.table.insert(allocation, size, flags)
    }

    /// Ends it, when the allocation was destroyed: that takes it off the list. Returns which it was.
    ///
    /// # Errors
    ///
    /// If it is not managed.
    pub fn forget(&mut self, managed: Managed) -> Result<AllocationId, Forgotten> {
        let was_listed = self.is_listed(managed);
        let record = self.table.remove(managed)?;
        self.uses.forget_allocation(managed.index() as u32);
        if was_listed {
            self.listed_bytes -= record.size;
            self.departures += 1;
        }
        Ok(record.allocation)
    }

    /// Work that no set announces may write the allocation from now on, as with [`ManageFlags::WRITTEN_BY_OTHERS`].
    ///
    /// # Errors
    ///
    /// If it is not managed.
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
    /// If it is not managed.
    pub fn allocation(&self, managed: Managed) -> Result<AllocationId, Forgotten> {
        self.table.get(managed).map(|record| record.allocation)
    }

    /// Bytes of what the manager has on the device's list.
    pub fn listed_bytes(&self) -> u64 {
        self.listed_bytes
    }

    /// The submission that was begun last was submitted, and ends when its fence reaches this value.
    ///
    /// # Panics
    ///
    /// If none was ever begun.
    pub fn submitted(&mut self, fence_value: u64) {
        self.uses.submitted(fence_value);
    }

    /// `fence` has reached `value`: submissions of its queue up to it have ended. Any other fence changes nothing.
    pub fn fence_reached(&mut self, fence: MonitoredFenceId, value: u64) {
        self.uses.fence_reached(fence, value);
    }

    /// Ends the queue of a fence, when its context was destroyed: all its submissions count as ended.
    pub fn forget_fence(&mut self, fence: MonitoredFenceId) {
        self.uses.forget_fence(fence);
    }

    /// The members of a set that are resident now.
    pub(super) fn begun(&self) -> Begun {
        Begun { number: self.uses.last, departures: self.departures }
    }

    /// Evicts the oldest of what the list counts in each memory that a refusal misses; returns how many bytes that were.
    pub(super) fn evict_missing(
        &mut self,
        vidmm: &mut VidMm,
        shortages: &[Shortage],
        flags: EvictFlags,
    ) -> Result<u64, EvictError> {
        let missing = shortages.iter().map(|shortage| (shortage.account, shortage.num_bytes_to_trim)).collect();
        self.evict_counted(vidmm, missing, |of, account| *of == account, flags)
    }

    /// Evicts the oldest of what the list counts in accounts that `is_of` says are of a memory that is `missing`, until the
    /// bytes there are reached; returns how many bytes that were.
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
            let Some(index) = self.pop_oldest(last, is_missing) else {
                // An allocation may count here that counted elsewhere when it joined the list.
                if core::mem::replace(&mut accounts_are_right, true) || !self.correct_accounts(vidmm) {
                    break;
                }
                continue;
            };
            let record = self.table.at(index);
            // Evict finds an allocation that is gone.
            let account = vidmm.query_account(record.allocation).ok();
            let position = missing.iter().position(|(of, _)| account.is_none_or(|account| is_of(of, account)));
            let Some(position) = position else {
                let account = account.expect("one that is gone counts as missing");
                self.order.join(index, self.uses.last_use(index), account);
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

    /// Takes the allocation that was used longest ago out of the order, if that was in use `last` or before.
    pub(super) fn pop_oldest(&mut self, last: UseNo, is_of: impl Fn(MemoryAccount) -> bool) -> Option<u32> {
        let Self { table, uses, order, .. } = self;
        order.pop(last, is_of, |index| table.is_listed(index).then(|| uses.last_use(index)))
    }

    fn correct_accounts(&mut self, vidmm: &VidMm) -> bool {
        let Self { table, order, .. } = self;
        let account_of = |index| vidmm.query_account(table.at(index).allocation).ok();
        order.correct_accounts(account_of)
    }

    /// Evicts what is on the list, in one call for what was only read, and in another for the rest. Either may fail alone.
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
            victims.iter().for_each(|&index| self.order.put_back(index, self.uses.last_use(index)));
            return Err(error);
        }
        for &index in victims {
            self.table.states_mut()[index as usize] = State::empty();
            self.listed_bytes -= self.table.at(index).size;
        }
        self.departures += 1;
        Ok(())
    }
}
