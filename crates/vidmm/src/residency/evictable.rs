//! Allocations that may be evicted, in the order in which they go.
//!
//! Allocations that nobody misses go first: the dead, then the offered ones (RES-60). Then the documented order holds
//! (CRE-31a): lower priority first, at equal priority the less recently used. Allocations that a suspended device will
//! want again go last. An allocation is used by each submission of a device that lists it then; being made resident, mapped
//! or paged in is no use. A policy may rank allocations of equal priority in another way.
//! The allocations of one process, class, priority and rank are a queue, in the order in which they entered.
//! The queues are linked through the allocations: entering and leaving touch at most three of them, however many there are.

use alloc::collections::{BTreeMap, BTreeSet};
use core::ops::Bound;

use crate::{
    budget::account::Account,
    id::{AllocationIx, ProcessIx},
    objects::allocation::{Allocation, AllocationState, Allocations, Links},
    policy::{Candidate, Candidates},
    units::SegmentId,
};

const NONE: AllocationIx = Links::NONE;

/// The worth of an evictable allocation to its owner, in the order in which they go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Class {
    /// It was destroyed, and nothing will use it any more (RES-91).
    Dead,
    /// It is offered with priority LOW (RES-60, U-37).
    OfferedLow,
    /// It is offered with priority NORMAL.
    OfferedNormal,
    /// It is offered with priority HIGH.
    OfferedHigh,
    /// No device requires it, but its content is wanted.
    NotRequired,
    /// A device requires it that is suspended (RES-71).
    DeviceSuspended,
}

impl Class {
    const COUNT: usize = 6;
    const ALL: [Class; Self::COUNT] = [
        Class::Dead,
        Class::OfferedLow,
        Class::OfferedNormal,
        Class::OfferedHigh,
        Class::NotRequired,
        Class::DeviceSuspended,
    ];

    /// Whether the content of such an allocation is lost when it goes, so that taking it costs nothing.
    pub fn is_worthless(self) -> bool {
        self < Class::NotRequired
    }
}

impl Allocation {
    /// The class of the queue that the allocation stands in; it stands in one.
    pub fn queued_class(&self) -> Class {
        Class::ALL[(self.state.bits() / AllocationState::LOWEST_CLASS_BIT) as usize]
    }

    fn set_queued_class(&mut self, class: Class) {
        let bits = AllocationState::from_bits_retain(class as u32 * AllocationState::LOWEST_CLASS_BIT);
        self.state = self.state.difference(AllocationState::CLASS) | bits;
    }

    /// Of the worthless, only the time counts for which they have been that.
    fn worth(&self, class: Class) -> Worth {
        if class.is_worthless() { (class, 0, 0) } else { (class, self.priority, self.rank()) }
    }

    fn queue_key(&self) -> QueueKey {
        (self.process, self.worth(self.queued_class()))
    }
}

/// The class, the priority and the rank that the allocations of a queue have in common.
type Worth = (Class, u32, u64);

/// The worth of what goes first.
const LOWEST: Worth = (Class::Dead, 0, 0);

type QueueKey = (ProcessIx, Worth);

/// Resident allocations that may be evicted.
#[derive(Debug, Default)]
pub(crate) struct Evictable {
    /// First and last of each queue.
    queues: BTreeMap<QueueKey, (AllocationIx, AllocationIx)>,
    /// The first queue of each process, in the order in which they go.
    firsts: BTreeSet<(Worth, ProcessIx)>,
    bytes: [u64; Class::COUNT],
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

    /// Appends `index` to its queue. Does nothing if it is in one already.
    pub fn push(&mut self, allocations: &mut Allocations, index: AllocationIx, class: Class) {
        let allocation = &mut allocations[index];
        if allocation.state.contains(AllocationState::EVICTABLE) {
            return;
        }
        allocation.state |= AllocationState::EVICTABLE;
        allocation.set_queued_class(class);
        self.bytes[class as usize] += allocation.size;
        let (process, worth) = allocation.queue_key();
        let (_, last) = self.queues.entry((process, worth)).or_insert((index, NONE));
        let before = core::mem::replace(last, index);
        if before == NONE {
            self.note_new_queue((process, worth));
        }
        allocation.links = Links { before, after: NONE };
        if before != NONE {
            allocations[before].links.after = index;
        }
    }

    /// Takes `index` out. Does nothing if it is not in. Its process, priority and rank are what they were when it entered.
    pub fn remove(&mut self, allocations: &mut Allocations, index: AllocationIx) {
        let allocation = &mut allocations[index];
        if !allocation.state.contains(AllocationState::EVICTABLE) {
            return;
        }
        allocation.state -= AllocationState::EVICTABLE;
        let class = allocation.queued_class();
        self.bytes[class as usize] -= allocation.size;
        let key = allocation.queue_key();
        let Links { before, after } = core::mem::replace(&mut allocation.links, Links::UNLINKED);
        if before == NONE && after == NONE {
            self.queues.remove(&key);
            if self.firsts.remove(&(key.1, key.0)) {
                self.firsts.extend(self.queue_from(key).map(|(process, worth)| (worth, process)));
            }
            return;
        }
        if before == NONE {
            self.ends(key).0 = after;
        } else {
            allocations[before].links.after = after;
        }
        if after == NONE {
            self.ends(key).1 = before;
        } else {
            allocations[after].links.before = before;
        }
    }

    /// The first queue of the process of `key` from that on.
    fn queue_from(&self, key: QueueKey) -> Option<QueueKey> {
        self.queues.range(key..).next().map(|(&found, _)| found).filter(|&(process, _)| process == key.0)
    }

    fn note_new_queue(&mut self, (process, worth): QueueKey) {
        if self.queue_from((process, LOWEST)) != Some((process, worth)) {
            return;
        }
        let mut later = self.queues.range((Bound::Excluded((process, worth)), Bound::Unbounded)).map(|(&key, _)| key);
        if let Some((_, second)) = later.next().filter(|&(other, _)| other == process) {
            self.firsts.remove(&(second, process));
        }
        self.firsts.insert((worth, process));
    }

    fn ends(&mut self, key: QueueKey) -> &mut (AllocationIx, AllocationIx) {
        self.queues.get_mut(&key).expect("a linked allocation is in a queue")
    }

    /// The allocation that goes after `index`, which is one of them; after none, the first. Where it is the last of its queue, each
    /// process is asked for its next.
    pub fn after(&self, allocations: &Allocations, index: Option<AllocationIx>) -> Option<AllocationIx> {
        let Some(index) = index else {
            return self.firsts.first().map(|&(worth, process)| self.queues[&(process, worth)].0);
        };
        let allocation = &allocations[index];
        if allocation.links.after != NONE {
            return Some(allocation.links.after);
        }
        let (process, worth) = allocation.queue_key();
        let next = |&(_, other): &(Worth, ProcessIx)| {
            // Of queues of one worth, the lower process's goes first.
            let from = if other > process { Bound::Included((other, worth)) } else { Bound::Excluded((other, worth)) };
            let next = self.queues.range((from, Bound::Unbounded)).next();
            next.filter(|((of, _), _)| *of == other).map(|(&(of, worth), &(first, _))| (worth, of, first))
        };
        self.firsts.iter().filter_map(next).min().map(|(.., first)| first)
    }

    /// The first of all processes but those that `keep` theirs; of any process, if all do.
    pub fn first_not_kept(&self, keep: impl Fn(AllocationIx) -> bool) -> Option<AllocationIx> {
        let mut firsts = self.firsts.iter().map(|&(worth, process)| self.queues[&(process, worth)].0);
        firsts.clone().find(|&first| !keep(first)).or_else(|| firsts.next())
    }

    /// The first from `rank` on of those of a process that stand in one class and priority.
    fn first_from(&self, (process, (class, priority, _)): QueueKey, rank: u64) -> Option<AllocationIx> {
        let keys = (process, (class, priority, rank))..=(process, (class, priority, u64::MAX));
        self.queues.range(keys).next().map(|(_, &(first, _))| first)
    }

    /// All of them in the order in which they go.
    pub fn iter(&self, allocations: &Allocations) -> impl Iterator<Item = AllocationIx> {
        core::iter::successors(self.after(allocations, None), |&index| self.after(allocations, Some(index)))
    }
}

/// The evictable allocations of a process in a memory that are worth no more than the first of them, for a policy.
pub(crate) struct Cheapest<'a> {
    evictable: &'a mut Evictable,
    allocations: &'a mut Allocations,
    account: Account,
    memory: SegmentId,
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
        let key = allocations[first].queue_key();
        Self { evictable, allocations, account, memory, key }
    }

    fn candidate(&self, index: AllocationIx) -> Candidate {
        let allocation = &self.allocations[index];
        Candidate { slot: index.at(), rank: allocation.rank(), size: allocation.size }
    }

    /// The allocation of a slot, if it is one of them.
    pub fn find(&self, slot: usize) -> Option<AllocationIx> {
        let index = AllocationIx::new(u32::try_from(slot).ok()?);
        let allocation = self.allocations.contains(index).then(|| &self.allocations[index])?;
        let is_evictable = allocation.state.contains(AllocationState::EVICTABLE);
        let is_in = allocation.place.is_some_and(|place| place.account() == self.account);
        let (process, (class, priority, _)) = allocation.queue_key();
        let (of, (like_class, like_priority, _)) = self.key;
        let is_like = (process, class, priority) == (of, like_class, like_priority);
        (is_evictable && is_in && is_like).then_some(index)
    }
}

impl Candidates for Cheapest<'_> {
    fn memory(&self) -> SegmentId {
        self.memory
    }

    fn first_from(&self, rank: u64) -> Option<Candidate> {
        self.evictable.first_from(self.key, rank).map(|index| self.candidate(index))
    }

    fn get(&self, slot: usize) -> Option<Candidate> {
        self.find(slot).map(|index| self.candidate(index))
    }

    fn set_rank(&mut self, slot: usize, rank: u64) {
        if let Some(index) = self.find(slot) {
            let class = self.allocations[index].queued_class();
            self.evictable.remove(self.allocations, index);
            self.allocations[index].set_rank(rank);
            self.evictable.push(self.allocations, index, class);
        }
    }
}
