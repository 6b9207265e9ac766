//! A memory that only counts: how many bytes an expert would have brought in, if all decisions had been the expert's.

use alloc::vec::Vec;

use super::{Candidate, Candidates, Order, Policy, Subject, forecast::Forecast, s3_fifo::S3Fifo};
use crate::{id::AllocationId, units::SegmentId};

/// A shadow has one memory.
const MEMORY: SegmentId = SegmentId(0);

/// The policy of a shadow.
#[derive(Debug)]
pub(super) enum Expert {
    /// The least recently used goes.
    Recency,
    S3Fifo(S3Fifo),
    Forecast(Forecast),
}

impl Expert {
    fn policy(&mut self) -> Option<&mut dyn Policy> {
        match self {
            Self::Recency => None,
            Self::S3Fifo(s3_fifo) => Some(s3_fifo),
            Self::Forecast(forecast) => Some(forecast),
        }
    }
}

/// The shadow: an expert with the allocations of a sample.
#[derive(Debug)]
pub(super) struct Shadow {
    pub expert: Expert,
    candidates: Unlisted,
    /// The victims of the expert, the oldest eviction first, by the number of the eviction.
    absent: Order,
    evictions: u64,
    members: Vec<Member>,
    /// Bytes that are resident.
    used: u64,
    /// Bytes that came in; old bytes count less.
    pub missed: u64,
}

/// The allocations that no list names.
#[derive(Debug, Default)]
struct Unlisted(Order);

impl Candidates for Unlisted {
    fn memory(&self) -> SegmentId {
        MEMORY
    }

    /// No expert looks at the size of a candidate.
    fn first_from(&self, rank: u64) -> Option<Candidate> {
        self.0.first_from(rank, |_| 0)
    }

    fn get(&self, slot: usize) -> Option<Candidate> {
        self.0.rank(slot).map(|rank| Candidate { slot, rank, size: 0 })
    }

    fn set_rank(&mut self, slot: usize, rank: u64) {
        self.0.set_rank(slot, rank);
    }
}

/// An allocation, by the number in the sample.
#[derive(Clone, Copy, Debug, Default)]
struct Member {
    slot: usize,
    size: u64,
    is_resident: bool,
}

impl Shadow {
    pub fn new(expert: Expert) -> Self {
        Self {
            expert,
            candidates: Unlisted::default(),
            absent: Order::default(),
            evictions: 0,
            members: Vec::new(),
            used: 0,
            missed: 0,
        }
    }

    fn subject(&self, member: u32) -> Subject {
        let allocation = AllocationId::from_bits(member.into());
        Subject { allocation, slot: member as usize, size: self.members[member as usize].size }
    }

    /// A use, in a memory of so many bytes.
    pub fn access(&mut self, member: u32, Subject { slot, size, .. }: Subject, time: u64, capacity: u64) {
        let at = member as usize;
        if self.members.len() <= at {
            self.members.resize(at + 1, Member::default());
        }
        (self.members[at].slot, self.members[at].size) = (slot, size);
        let subject = self.subject(member);
        if let Some(policy) = self.expert.policy() {
            policy.used(subject, time);
        }
        self.candidates.0.set_aside(at);
        if self.members[at].is_resident {
            return;
        }
        self.missed += size;
        self.absent.remove(at);
        if size > capacity {
            return;
        }
        self.shrink(capacity - size);
        self.members[at].is_resident = true;
        self.used += size;
        if let Some(policy) = self.expert.policy() {
            policy.brought_in(subject, MEMORY);
        }
    }

    /// Evicts until so many bytes are resident at most, or all are on lists.
    fn shrink(&mut self, most: u64) {
        self.candidates.0.settle();
        while self.used > most
            && let Some(first) = self.candidates.first_from(0)
        {
            let victim = match self.expert.policy() {
                None => first.slot,
                Some(policy) => policy.victim(&mut self.candidates),
            };
            self.evict(victim as u32);
        }
    }

    fn evict(&mut self, member: u32) {
        self.candidates.0.remove(member as usize);
        self.evictions += 1;
        self.absent.push(member as usize, self.evictions);
        self.members[member as usize].is_resident = false;
        let subject = self.subject(member);
        self.used -= subject.size;
        if let Some(policy) = self.expert.policy() {
            policy.left(subject, MEMORY);
        }
    }

    /// No list names the allocation any more.
    pub fn release(&mut self, member: u32, last_use: u64) {
        let at = member as usize;
        if !self.members[at].is_resident || self.candidates.0.rank(at).is_some() {
            return;
        }
        let subject = self.subject(member);
        let rank = match self.expert.policy() {
            None => last_use,
            Some(policy) => {
                policy.released(subject, last_use);
                policy.rank(at)
            }
        };
        self.candidates.0.push(at, rank);
    }

    /// The allocation is no more, or is not in the sample any more.
    pub fn forget(&mut self, member: u32) {
        if self.members[member as usize].is_resident {
            self.evict(member);
        }
        self.absent.remove(member as usize);
        let subject = self.subject(member);
        if let Some(policy) = self.expert.policy() {
            policy.gone(subject);
        }
    }

    /// A candidate that the expert would have evicted before.
    pub fn overdue(&mut self, candidates: &dyn Candidates) -> Option<usize> {
        while let Some(first) = self.absent.first_from(0, |_| 0) {
            let slot = self.members[first.slot].slot;
            if candidates.get(slot).is_some() {
                return Some(slot);
            }
            self.absent.remove(first.slot);
        }
        None
    }

    /// The memory of a smaller sample has so many bytes.
    pub fn resize(&mut self, capacity: u64) {
        self.shrink(capacity);
        if let Expert::S3Fifo(s3_fifo) = &mut self.expert {
            s3_fifo.resize(MEMORY, capacity);
        }
    }
}
