//! Allocations that may be evicted, in the order in which they go.
//!
//! Allocations that nobody misses go first: the dead, then the offered ones (RES-60). Then the documented order holds
//! (CRE-31a): lower priority first, at equal priority the less recently used. Allocations that a suspended device will
//! want again go last. An allocation is used by each submission of a device that lists it then; being made resident, mapped
//! or paged in is no use. A policy may rank allocations of equal priority in another way.
//! The allocations of one process, class and priority are a queue, in the order of their ranks; those of equal rank, in the order
//! in which they entered. Entering and leaving touch no other allocation, but for a pass over a queue now and then.

use alloc::{collections::BTreeMap, vec::Vec};
use core::ops::Bound;

use crate::{
    budget::{AccountShares, account::Account},
    data::rank_queue::RankQueue,
    id::{AllocationIx, ProcessIx},
    objects::allocation::{
        Allocation, AllocationState, Allocations,
        worth::{Class, QueueKey, Worth},
    },
    policy::{Candidate, Candidates, RANK_MAX},
    residency::firsts::Firsts,
    units::SegmentId,
};

/// The queues of a process in the order of the evictions, by their indices among all queues.
type Queues = BTreeMap<QueueKey, usize>;

/// Resident allocations that may be evicted.
#[derive(Debug, Default)]
pub(crate) struct Evictable {
    /// By process. At most one queue is empty.
    by_process: Vec<Queues>,
    queues: Vec<RankQueue<AllocationIx>>,
    /// The indices of former queues.
    unused: Vec<usize>,
    /// The last changed queue, and nearly always the next changed queue.
    changed: Option<((ProcessIx, QueueKey), usize)>,
    firsts: Firsts,
    bytes: [u64; Class::COUNT],
    /// The queue that has become empty last. It stays: often it is wanted again at once.
    empty: Option<(ProcessIx, QueueKey)>,
}

impl Evictable {
    /// The sum of their sizes.
    pub fn bytes(&self) -> u64 {
        self.bytes.iter().sum()
    }

    /// The sum of the sizes of those whose content is lost when they go.
    pub fn worthless_bytes(&self) -> u64 {
        Class::ALL.into_iter().filter(|class| class.is_worthless()).map(|class| self.bytes[class as usize]).sum()
    }

    /// The sum of the sizes of those that no list requires.
    pub fn unlisted_bytes(&self) -> u64 {
        self.bytes() - self.bytes[Class::DeviceSuspended as usize]
    }

    /// The evictable allocations on lists of suspended devices of a process, in the order of the evictions.
    pub fn of_suspended<'e>(
        &'e self,
        allocations: &'e Allocations,
        process: ProcessIx,
    ) -> impl Iterator<Item = AllocationIx> + 'e {
        let of_process = self.by_process.get(process.at()).into_iter();
        let queues = of_process.flat_map(|of| of.range((Class::DeviceSuspended, 0)..));
        queues.flat_map(|(_, &at)| {
            let queue = &self.queues[at];
            let after = |&index: &AllocationIx| queue.after(allocations[index].rank(), allocations[index].standing);
            let first = queue.first().map(|(_, index)| index);
            core::iter::successors(first, move |index| after(index).map(|(_, next)| next))
        })
    }

    /// Appends `index`, which is in no queue, to its own.
    pub fn push(&mut self, allocations: &mut Allocations, index: AllocationIx, class: Class) {
        let allocation = &mut allocations[index];
        allocation.enter_queue(class);
        self.bytes[class as usize] += allocation.size;
        let (process, (key, rank)) = (allocation.process, allocation.queue_key());
        self.append(allocations, index, (process, key), rank);
    }

    #[inline(always)]
    fn append(&mut self, allocations: &mut Allocations, index: AllocationIx, of: (ProcessIx, QueueKey), rank: u64) {
        let at = self.find_or_make(of);
        let queue = &mut self.queues[at];
        let is_first = queue.first().is_none_or(|(first, _)| rank < first);
        let standing = queue.push(rank, index, |index, standing| allocations[index].standing = standing);
        allocations[index].standing = standing;
        if is_first {
            self.note_first(of, Some(rank));
        }
    }

    /// Takes `index` out. Does nothing if it is not in. Its process, priority and rank are what they were when it entered.
    pub fn remove(&mut self, allocations: &mut Allocations, index: AllocationIx) {
        let allocation = &mut allocations[index];
        if !allocation.is(AllocationState::EVICTABLE) {
            return;
        }
        allocation.leave_queue();
        self.bytes[allocation.queued_class() as usize] -= allocation.size;
        let (process, (key, rank)) = (allocation.process, allocation.queue_key());
        self.take_out(allocations, index, (process, key), rank);
    }

    #[inline(always)]
    fn take_out(&mut self, allocations: &mut Allocations, index: AllocationIx, of: (ProcessIx, QueueKey), rank: u64) {
        let standing = allocations[index].standing;
        let at = self.find_or_make(of);
        let queue = &mut self.queues[at];
        queue.remove(index, rank, standing, |index, standing| allocations[index].standing = standing);
        // Where the first was of a lower rank, or is of an equal rank, the first is worth what it was.
        let first = queue.first().map(|(rank, _)| rank);
        if first.is_none_or(|first| first > rank) {
            self.note_first(of, first);
        }
    }

    /// Gives one of them another rank.
    pub fn set_rank(&mut self, allocations: &mut Allocations, index: AllocationIx, rank: u64) {
        let (process, (key, from)) = (allocations[index].process, allocations[index].queue_key());
        self.take_out(allocations, index, (process, key), from);
        allocations[index].set_rank(rank);
        let (_, to) = allocations[index].queue_key();
        self.append(allocations, index, (process, key), to);
    }

    /// The index of the queue of a process and a key.
    #[inline(always)]
    fn find_or_make(&mut self, of: (ProcessIx, QueueKey)) -> usize {
        match self.changed {
            Some((last, at)) if last == of => at,
            _ => self.find_or_make_another(of),
        }
    }

    /// The index of a queue, perhaps of a new queue.
    #[inline(never)]
    fn find_or_make_another(&mut self, (process, key): (ProcessIx, QueueKey)) -> usize {
        if self.by_process.len() <= process.at() {
            self.by_process.resize_with(process.at() + 1, Queues::new);
        }
        let Self { by_process, queues, unused, .. } = self;
        let at = *by_process[process.at()].entry(key).or_insert_with(|| {
            unused.pop().unwrap_or_else(|| {
                queues.push(RankQueue::default());
                queues.len() - 1
            })
        });
        self.changed = Some(((process, key), at));
        at
    }

    /// Notes the first of a process anew: the first of one of its queues has the rank `after` now.
    fn note_first(&mut self, (process, key): (ProcessIx, QueueKey), after: Option<u64>) {
        if after.is_none()
            && let Some((other, key)) = self.empty.replace((process, key)).filter(|&other| other != (process, key))
            && let Some(&at) = self.by_process[other.at()].get(&key).filter(|&&at| self.queues[at].is_empty())
        {
            self.by_process[other.at()].remove(&key);
            self.queues[at] = RankQueue::default();
            self.unused.push(at);
        }
        if self.by_process[process.at()].range(..key).any(|(_, &at)| !self.queues[at].is_empty()) {
            return;
        }
        let (class, priority) = key;
        // Where this queue is empty, the next one of the process has its first.
        let next = self.first_behind(process, key).map(|(worth, _)| worth);
        self.firsts.set(process, after.map(|rank| (class, priority, rank)).or(next));
    }

    /// A queue of a process, if there is one.
    fn queue(&self, process: ProcessIx, key: QueueKey) -> Option<&RankQueue<AllocationIx>> {
        self.by_process.get(process.at())?.get(&key).map(|&at| &self.queues[at])
    }

    /// The first of a process in the queue of `key`, of those of `rank` or above, and of the queues behind it.
    fn first_from(&self, process: ProcessIx, key: QueueKey, rank: u64) -> Option<(Worth, AllocationIx)> {
        let (class, priority) = key;
        let first = self.queue(process, key).and_then(|queue| queue.first_from(rank));
        first.map(|(rank, index)| ((class, priority, rank), index)).or_else(|| self.first_behind(process, key))
    }

    /// The first of a process in the queues behind that of `key`.
    fn first_behind(&self, process: ProcessIx, key: QueueKey) -> Option<(Worth, AllocationIx)> {
        let behind = self.by_process[process.at()].range((Bound::Excluded(key), Bound::Unbounded));
        let first = |(&(class, priority), &at): (&QueueKey, &usize)| {
            self.queues[at].first().map(|(rank, index)| ((class, priority, rank), index))
        };
        { behind }.find_map(first)
    }

    /// The allocation that goes after `index`, which is one of them; after none, the first. Where it is the last of its worth in its
    /// process, each process is asked for its next.
    pub fn after(&self, allocations: &Allocations, index: Option<AllocationIx>) -> Option<AllocationIx> {
        let Some(index) = index else { return self.firsts.first().map(|first| self.first_of(first)) };
        let allocation = &allocations[index];
        let (process, (key, rank)) = (allocation.process, allocation.queue_key());
        let next = self.queue(process, key).and_then(|queue| queue.after(rank, allocation.standing));
        if let Some((_, next)) = next.filter(|&(next, _)| next == rank) {
            return Some(next);
        }
        let next_of = |(_, other): (Worth, ProcessIx)| {
            // Of equal worth, the lower process's goes first.
            let from = if other > process { rank } else { rank + 1 };
            self.first_from(other, key, from).map(|(worth, next)| (worth, other, next))
        };
        self.firsts.iter().filter_map(next_of).min().map(|(.., next)| next)
    }

    /// The first allocation that no process keeps from the process that wants the room. Where all first allocations are kept, a later
    /// allocation that is not kept; else the first allocation of any process.
    pub fn first_not_kept(
        &mut self,
        allocations: &Allocations,
        shares: &mut AccountShares,
        wanted_by: Option<ProcessIx>,
    ) -> Option<AllocationIx> {
        let first = self.after(allocations, None)?;
        let Some(other) = wanted_by else { return Some(first) };
        let is_kept = |shares: &AccountShares, index: AllocationIx| {
            let Allocation { process, size, .. } = allocations[index];
            !allocations[index].queued_class().is_worthless() && shares.keeps(process, other, size)
        };
        if !is_kept(shares, first) {
            return Some(first);
        }
        let Self { firsts, by_process, queues, changed, .. } = self;
        let size_of = |worth, process| allocations[first_of(by_process, queues, *changed, (worth, process))].size;
        if let Some(first) = firsts.first_not_kept(shares, other, size_of) {
            return Some(self.first_of(first));
        }
        let behind = || self.iter(allocations).find(|&index| !is_kept(shares, index));
        self.firsts.can_lose(shares, other).then(behind).flatten().or(Some(first))
    }

    fn first_of(&self, first: (Worth, ProcessIx)) -> AllocationIx {
        first_of(&self.by_process, &self.queues, self.changed, first)
    }

    /// All of them in the order in which they go.
    pub fn iter(&self, allocations: &Allocations) -> impl Iterator<Item = AllocationIx> {
        core::iter::successors(self.after(allocations, None), |&index| self.after(allocations, Some(index)))
    }
}

/// The first allocation of a process, by worth.
#[inline]
fn first_of(
    by_process: &[Queues],
    queues: &[RankQueue<AllocationIx>],
    changed: Option<((ProcessIx, QueueKey), usize)>,
    ((class, priority, _), process): (Worth, ProcessIx),
) -> AllocationIx {
    let of = (process, (class, priority));
    let known = changed.filter(|&(last, _)| last == of).map(|(_, at)| at);
    let at = known.or_else(|| by_process[process.at()].get(&of.1).copied());
    at.and_then(|at| queues[at].first()).expect("a process has its first in a queue that has one").1
}

/// The evictable allocations of a process in a memory that are worth no more than the first of them, for a policy.
pub(crate) struct Cheapest<'a> {
    evictable: &'a mut Evictable,
    allocations: &'a mut Allocations,
    account: Account,
    memory: SegmentId,
    process: ProcessIx,
    key: QueueKey,
}

impl<'a> Cheapest<'a> {
    /// Those of the process of `first`, which is evictable, and of its class and priority.
    pub fn like(
        evictable: &'a mut Evictable,
        allocations: &'a mut Allocations,
        (account, memory): (Account, SegmentId),
        first: AllocationIx,
    ) -> Self {
        let (process, (key, _)) = (allocations[first].process, allocations[first].queue_key());
        Self { evictable, allocations, account, memory, process, key }
    }

    fn candidate(&self, index: AllocationIx) -> Candidate {
        let allocation = &self.allocations[index];
        Candidate { slot: index.at(), rank: allocation.rank(), size: allocation.size }
    }

    /// The allocation of a slot, if it is one of them.
    pub fn find(&self, slot: usize) -> Option<AllocationIx> {
        let index = AllocationIx::new(u32::try_from(slot).ok()?);
        let allocation = self.allocations.contains(index).then(|| &self.allocations[index])?;
        let is_evictable = allocation.is(AllocationState::EVICTABLE);
        let is_in = allocation.place.is_some_and(|place| place.account() == self.account);
        let (key, _) = allocation.queue_key();
        (is_evictable && is_in && allocation.process == self.process && key == self.key).then_some(index)
    }
}

impl Candidates for Cheapest<'_> {
    fn memory(&self) -> SegmentId {
        self.memory
    }

    fn first_from(&self, rank: u64) -> Option<Candidate> {
        let queue = self.evictable.queue(self.process, self.key)?;
        queue.first_from(rank).map(|(_, index)| self.candidate(index))
    }

    fn get(&self, slot: usize) -> Option<Candidate> {
        self.find(slot).map(|index| self.candidate(index))
    }

    fn set_rank(&mut self, slot: usize, rank: u64) {
        if let Some(index) = self.find(slot) {
            self.evictable.set_rank(self.allocations, index, rank.min(RANK_MAX));
        }
    }
}
