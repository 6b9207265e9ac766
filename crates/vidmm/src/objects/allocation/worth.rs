//! The worth of an evictable allocation: class, priority and rank. The allocation of least worth goes first (CRE-31a).

use super::{flags::AllocationState, record::Allocation};

/// The worth of an evictable allocation to the owner, in the order of the evictions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Class {
    /// Destroyed, without further uses (RES-91).
    Dead,
    /// Offered with priority LOW (RES-60, U-37).
    OfferedLow,
    /// Offered with priority NORMAL.
    OfferedNormal,
    /// Offered with priority HIGH.
    OfferedHigh,
    /// Required by no device, with wanted content.
    NotRequired,
    /// Required by a suspended device (RES-71).
    DeviceSuspended,
}

impl Class {
    pub const COUNT: usize = 6;
    pub const ALL: [Class; Self::COUNT] = [
        Class::Dead,
        Class::OfferedLow,
        Class::OfferedNormal,
        Class::OfferedHigh,
        Class::NotRequired,
        Class::DeviceSuspended,
    ];

    /// Whether the eviction loses the content, and so costs nothing.
    pub fn is_worthless(self) -> bool {
        self < Class::NotRequired
    }
}

impl Allocation {
    /// The class of the queue with the allocation.
    pub fn queued_class(&self) -> Class {
        Class::ALL[(self.state.bits() / AllocationState::LOWEST_CLASS_BIT) as usize]
    }

    /// Enters the queue of a class.
    pub fn enter_queue(&mut self, class: Class) {
        debug_assert!(!self.is(AllocationState::EVICTABLE), "an allocation is in one queue");
        let bits = AllocationState::from_bits_retain(class as u32 * AllocationState::LOWEST_CLASS_BIT);
        self.state = self.state.difference(AllocationState::CLASS) | bits | AllocationState::EVICTABLE;
    }

    /// Leaves its queue.
    pub fn leave_queue(&mut self) {
        self.state -= AllocationState::EVICTABLE;
    }

    /// The worth in the queue. Among worthless allocations only the time in the queue counts.
    pub fn queued_worth(&self) -> Worth {
        let class = self.queued_class();
        if class.is_worthless() { (class, 0, 0) } else { (class, self.priority, self.rank()) }
    }

    /// The queue of the process with the allocation, and the rank there.
    pub fn queue_key(&self) -> (QueueKey, u64) {
        let (class, priority, rank) = self.queued_worth();
        ((class, priority), rank)
    }
}

/// The class, the priority and the rank of an allocation.
pub(crate) type Worth = (Class, u32, u64);

/// The class and the priority of all allocations of a queue.
pub(crate) type QueueKey = (Class, u32);
