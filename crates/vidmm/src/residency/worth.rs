//! The worth of an evictable allocation to its owner: its class, its priority and its rank, of which the least goes first (CRE-31a).

use crate::objects::allocation::{Allocation, AllocationState};

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
    pub const COUNT: usize = 6;
    pub const ALL: [Class; Self::COUNT] = [
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

    pub fn set_queued_class(&mut self, class: Class) {
        let bits = AllocationState::from_bits_retain(class as u32 * AllocationState::LOWEST_CLASS_BIT);
        self.state = self.state.difference(AllocationState::CLASS) | bits;
    }

    /// The worth with which it stands in its queue. Of the worthless, only the time counts for which they have been that.
    pub fn queued_worth(&self) -> Worth {
        let class = self.queued_class();
        if class.is_worthless() { (class, 0, 0) } else { (class, self.priority, self.rank()) }
    }

    /// The queue of its process that it stands in, and its rank there.
    pub fn queue_key(&self) -> (QueueKey, u64) {
        let (class, priority, rank) = self.queued_worth();
        ((class, priority), rank)
    }
}

/// The class, the priority and the rank of an allocation, of which the least goes first.
pub(crate) type Worth = (Class, u32, u64);

/// The class and the priority that the allocations of a queue have in common.
pub(crate) type QueueKey = (Class, u32);
