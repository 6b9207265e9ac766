//! The order of eviction by a policy of the core (D24), in place of least recently used first.

use alloc::{boxed::Box, vec::Vec};

use vidmm::{
    AllocationId, MemoryAccount,
    policy::{Candidate, Candidates, Order, Policy, Subject},
};

/// The allocations on the device's list, as a policy sees them: used by each begun set, and candidates after the set.
pub(super) struct Chosen {
    policy: Box<dyn Policy>,
    queues: Vec<(MemoryAccount, Order)>,
    /// By index.
    members: Vec<Member>,
    /// Allocations with a use since the last choice: no candidates yet.
    used: Vec<u32>,
    /// The number of the present use. A set that found no room is the same use when the set is begun again.
    time: u64,
}

#[derive(Clone, Copy)]
struct Member {
    allocation: AllocationId,
    size: u64,
    last_use: u64,
    /// The number of the account's queue, or of the last account's.
    queue: usize,
    is_listed: bool,
    is_in_used: bool,
}

impl Chosen {
    pub fn new(policy: Box<dyn Policy>) -> Self {
        Self { policy, queues: Vec::new(), members: Vec::new(), used: Vec::new(), time: 1 }
    }

    fn subject(&self, index: u32) -> Subject {
        let Member { allocation, size, .. } = self.members[index as usize];
        Subject { allocation, slot: index as usize, size }
    }

    /// A set is begun with these members, each with the index and the size. Members of the sets before are candidates from now on, except
    /// members of this set.
    pub fn used(&mut self, members: impl Iterator<Item = (u32, AllocationId, u64)>) {
        let mut newly_used = Vec::new();
        for (index, allocation, size) in members {
            let at = index as usize;
            let member = Member { allocation, size, last_use: 0, queue: 0, is_listed: false, is_in_used: false };
            if self.members.len() <= at {
                self.members.resize(at + 1, member);
            }
            let member = &mut self.members[at];
            (member.allocation, member.size) = (allocation, size);
            if member.is_listed {
                self.queues[member.queue].1.remove(at);
            }
            if core::mem::replace(&mut member.last_use, self.time) != self.time {
                newly_used.push(index);
            }
            self.await_release(index);
        }
        let time = self.time;
        self.release(|_, last_use| last_use == time);
        for index in newly_used {
            self.policy.used(self.subject(index), time);
        }
    }

    /// The begun set is resident: the next set is another use.
    pub fn begun(&mut self) {
        self.time += 1;
    }

    /// An allocation of the present use has joined the list, and counts in `account`.
    pub fn join(&mut self, index: u32, account: MemoryAccount) {
        let queue = self.queue_of(account);
        let member = &mut self.members[index as usize];
        (member.queue, member.is_listed) = (queue, true);
        self.await_release(index);
        self.policy.brought_in(self.subject(index), account.segment);
    }

    /// An allocation on the list counts in another account.
    pub fn moved(&mut self, index: u32, account: MemoryAccount) {
        self.left(index);
        self.join(index, account);
    }

    /// An allocation has left the list.
    pub fn left(&mut self, index: u32) {
        let Some(member) = self.members.get_mut(index as usize).filter(|member| member.is_listed) else { return };
        member.is_listed = false;
        let (account, order) = &mut self.queues[member.queue];
        order.remove(index as usize);
        let memory = account.segment;
        self.policy.left(self.subject(index), memory);
    }

    /// An allocation is managed no longer.
    pub fn gone(&mut self, index: u32) {
        self.left(index);
        if let Some(member) = self.members.get_mut(index as usize) {
            member.last_use = 0;
            self.policy.gone(self.subject(index));
        }
    }

    /// Chooses a victim in the accounts of `is_of`, which leaves the list for the policy. What `is_kept` tells is no candidate: the
    /// open use has it.
    pub fn pop(&mut self, is_of: impl Fn(MemoryAccount) -> bool, is_kept: impl Fn(u32) -> bool) -> Option<u32> {
        self.release(|index, _| is_kept(index));
        let Self { policy, queues, members, .. } = self;
        let mut wanted = queues.iter_mut().filter(|(account, _)| is_of(*account));
        let (account, order, first) = wanted.find_map(|(account, order)| {
            let first = order.first_from(0, |_| 0)?.slot;
            Some((*account, order, first))
        })?;
        let chosen = policy.victim(&mut Listed { account, order, members });
        let victim = if order.rank(chosen).is_some() { chosen } else { first };
        self.left(victim as u32);
        Some(victim as u32)
    }

    /// A victim stays on the list.
    pub fn put_back(&mut self, index: u32) {
        let Some(&Member { queue, .. }) = self.members.get(index as usize).filter(|member| !member.is_listed) else {
            return;
        };
        self.join(index, self.queues[queue].0);
    }

    /// Puts all allocations on the list into the queues of their accounts by `account_of`; an allocation without an account stays. Returns
    /// whether an allocation has moved.
    pub fn correct_accounts(&mut self, account_of: impl Fn(u32) -> Option<MemoryAccount>) -> bool {
        let mut has_moved = false;
        for index in 0..self.members.len() as u32 {
            let Member { queue, is_listed, .. } = self.members[index as usize];
            let is_new = |account: &MemoryAccount| *account != self.queues[queue].0;
            if let Some(account) = is_listed.then(|| account_of(index)).flatten().filter(is_new) {
                self.moved(index, account);
                has_moved = true;
            }
        }
        has_moved
    }

    fn await_release(&mut self, index: u32) {
        if !core::mem::replace(&mut self.members[index as usize].is_in_used, true) {
            self.used.push(index);
        }
    }

    /// Makes the used allocations candidates, without those that `is_kept` tells.
    fn release(&mut self, is_kept: impl Fn(u32, u64) -> bool) {
        for index in core::mem::take(&mut self.used) {
            let member = &mut self.members[index as usize];
            if is_kept(index, member.last_use) {
                self.used.push(index);
                continue;
            }
            member.is_in_used = false;
            let Member { queue, last_use, is_listed, .. } = *member;
            if !is_listed {
                continue;
            }
            self.policy.released(self.subject(index), last_use);
            let order = &mut self.queues[queue].1;
            order.remove(index as usize);
            order.push(index as usize, self.policy.rank(index as usize));
        }
    }

    fn queue_of(&mut self, account: MemoryAccount) -> usize {
        self.queues.iter().position(|(known, _)| *known == account).unwrap_or_else(|| {
            self.queues.push((account, Order::default()));
            self.queues.len() - 1
        })
    }
}

/// The candidates of one account.
struct Listed<'a> {
    account: MemoryAccount,
    order: &'a mut Order,
    members: &'a [Member],
}

impl Candidates for Listed<'_> {
    fn memory(&self) -> vidmm::SegmentId {
        self.account.segment
    }

    fn first_from(&self, rank: u64) -> Option<Candidate> {
        self.order.first_from(rank, |slot| self.members[slot].size)
    }

    fn get(&self, slot: usize) -> Option<Candidate> {
        self.order.rank(slot).map(|rank| Candidate { slot, rank, size: self.members[slot].size })
    }

    fn set_rank(&mut self, slot: usize, rank: u64) {
        self.order.set_rank(slot, rank);
    }
}
