//! The hooks of a policy: it hears of uses and places. The documented order needs none of it.

use crate::{
    adapter::Adapter,
    budget::account::Account,
    id::AllocationIx,
    objects::{Objects, allocation::AllocationState},
    policy::{Candidate, RANK_MAX, Subject},
    residency::Residents,
    units::SegmentId,
};

impl Residents {
    /// Allocations join the list of a device, or a DMA buffer refers to them. Without a policy nobody looks which.
    pub(crate) fn note_joined(&mut self, objects: &Objects, joined: impl Iterator<Item = AllocationIx>) {
        if let Some(policy) = &mut self.policy {
            joined.for_each(|index| policy.used(subject(objects, index), objects.submissions + 1));
        }
    }

    /// An allocation has got a place in a memory.
    pub(crate) fn note_came(&mut self, adapter: &Adapter, objects: &Objects, account: Account, index: AllocationIx) {
        if let Some(policy) = &mut self.policy {
            policy.brought_in(subject(objects, index), adapter.memory_account(account).segment);
        }
    }

    /// An allocation has left its place in a memory.
    pub(crate) fn note_left(&mut self, adapter: &Adapter, objects: &Objects, account: Account, index: AllocationIx) {
        if let Some(policy) = &mut self.policy {
            policy.left(subject(objects, index), adapter.memory_account(account).segment);
        }
    }

    /// An allocation is no more.
    pub(crate) fn note_gone(&mut self, objects: &Objects, index: AllocationIx) {
        if let Some(policy) = &mut self.policy {
            policy.gone(subject(objects, index));
        }
    }

    /// Whether the content of a candidate may be copied out ahead of the eviction (D37).
    pub(crate) fn cleans(&self, objects: &Objects, index: AllocationIx) -> bool {
        let allocation = &objects[index];
        let candidate = Candidate { slot: index.at(), rank: allocation.rank(), size: allocation.size };
        self.policy.as_ref().is_none_or(|policy| policy.cleans(candidate))
    }

    /// The slot of the allocation that is to come into `free` bytes of a memory ahead of its MakeResident (D37).
    pub(crate) fn ask_to_prefetch(&mut self, memory: SegmentId, free: u64) -> Option<usize> {
        self.policy.as_mut()?.prefetch(memory, free)
    }

    /// A device has announced that it needs an allocation soon: a use, in the order of the evictions. Content that nobody misses stays
    /// worthless.
    pub(crate) fn note_announced(&mut self, objects: &mut Objects, index: AllocationIx) {
        let now = objects.submissions;
        if let Some(policy) = &mut self.policy {
            policy.announced(subject(objects, index), now);
        }
        if !objects[index].is_any(AllocationState::OFFERED | AllocationState::DESTROYED) {
            let rank = self.rank_now(objects, index, now);
            self.set_rank(objects, index, rank);
        }
    }

    /// The rank of an allocation that no list names after submission `last_use` of all devices'. A policy ranks candidates alone.
    pub(super) fn rank_released(&mut self, objects: &Objects, index: AllocationIx, last_use: u64) -> u64 {
        if let Some(policy) = &mut self.policy {
            policy.released(subject(objects, index), last_use);
        }
        self.rank_now(objects, index, last_use)
    }

    /// The rank of an allocation after a use.
    fn rank_now(&self, objects: &Objects, index: AllocationIx, last_use: u64) -> u64 {
        let allocation = &objects[index];
        let Some(policy) = &self.policy else { return last_use.max(allocation.rank()) };
        let is_candidate = allocation.is(AllocationState::EVICTABLE);
        if is_candidate { policy.rank(index.at()).min(RANK_MAX) } else { allocation.rank() }
    }
}

fn subject(objects: &Objects, index: AllocationIx) -> Subject {
    Subject { allocation: objects.allocation_id(index), slot: index.at(), size: objects[index].size }
}
