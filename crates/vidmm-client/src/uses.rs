//! Uses: submissions as stamps of four bytes in each queue, and the ended uses.

use alloc::{collections::VecDeque, vec::Vec};

use vidmm::MonitoredFenceId;

/// The number of a use; all queues draw from the same numbers. Consecutive submissions of an unchanged set to a queue are a
/// single use, and touch no member.
pub(super) type UseNo = u32;

/// The stamp of an allocation without a use by the queue.
const UNUSED: UseNo = 0;

/// The number of uses that are told apart. When numbers run out, older uses count as equally old.
const TOLD_APART: UseNo = 1 << 31;

/// The index of a queue.
pub(super) type QueueNo = usize;

/// The uses so far.
#[derive(Default)]
pub(super) struct Uses {
    /// The last number given; 0 is none.
    pub last: UseNo,
    /// The last use is resident and not submitted: nothing of the use may be evicted.
    pub is_open: bool,
    /// The queue of the last use.
    pub last_queue: QueueNo,
    queues: Vec<Queue>,
}

/// The uses by the work of one fence.
struct Queue {
    /// None for a forgotten fence: the next new fence gets the queue.
    fence: Option<MonitoredFenceId>,
    /// Submitted uses that have not ended, with the fence value of the last submission, oldest first.
    in_flight: VecDeque<(UseNo, u64)>,
    /// The last use before the present period: an allocation with no later use by the queue was not used in the period
    /// (RES-42).
    before_period: UseNo,
    /// The last use of each allocation, by index.
    stamps: Vec<UseNo>,
}

impl Uses {
    /// The queue of a fence, which may be new.
    pub fn queue(&mut self, fence: MonitoredFenceId) -> QueueNo {
        let with = |fence: Option<_>| self.queues.iter().position(|queue| queue.fence == fence);
        let number = with(Some(fence)).or_else(|| with(None)).unwrap_or_else(|| {
            let (in_flight, stamps) = (VecDeque::new(), Vec::new());
            self.queues.push(Queue { fence: None, in_flight, before_period: self.last, stamps });
            self.queues.len() - 1
        });
        self.queues[number].fence = Some(fence);
        number
    }

    /// A new use in a queue; none without free numbers: call [`renumber`](Self::renumber) first.
    pub fn open(&mut self, queue: QueueNo) -> Option<UseNo> {
        self.last = self.last.checked_add(1)?;
        self.is_open = true;
        self.last_queue = queue;
        Some(self.last)
    }

    /// Whether a submission to the queue can belong to the last use: the use is of the queue, and of the present period.
    pub fn can_go_on(&self, queue: QueueNo) -> bool {
        self.last_queue == queue && self.last > self.queues[queue].before_period
    }

    /// Makes room for more numbers: the numbers of old uses collapse. Returns the difference of all further numbers.
    pub fn renumber(&mut self) -> UseNo {
        let by = self.last - TOLD_APART;
        for queue in &mut self.queues {
            queue.stamps.iter_mut().for_each(|stamp| *stamp = renumbered(*stamp, by));
            queue.in_flight.iter_mut().for_each(|(number, _)| *number = renumbered(*number, by));
            queue.before_period = queue.before_period.saturating_sub(by);
        }
        self.last = TOLD_APART;
        by
    }

    /// The last use of an allocation in any queue.
    pub fn last_use(&self, index: u32) -> UseNo {
        let stamps = self.queues.iter().filter_map(|queue| queue.stamps.get(index as usize));
        stamps.copied().max().unwrap_or(UNUSED)
    }

    /// The stamps of a queue, for all allocations.
    pub fn stamps_mut(&mut self, queue: QueueNo, len: usize) -> &mut [UseNo] {
        let stamps = &mut self.queues[queue].stamps;
        if stamps.len() < len {
            stamps.resize(len, UNUSED);
        }
        stamps
    }

    /// An index gets a new allocation.
    pub fn forget_allocation(&mut self, index: u32) {
        for queue in &mut self.queues {
            if let Some(stamp) = queue.stamps.get_mut(index as usize) {
                *stamp = UNUSED;
            }
        }
    }

    /// The last use was submitted, and ends with the given value of the queue's fence.
    pub fn submitted(&mut self, fence_value: u64) {
        self.is_open = false;
        let in_flight = &mut self.queues[self.last_queue].in_flight;
        match in_flight.back_mut() {
            Some((number, value)) if *number == self.last => *value = fence_value,
            _ => in_flight.push_back((self.last, fence_value)),
        }
    }

    /// The fence has reached `value`.
    pub fn fence_reached(&mut self, fence: MonitoredFenceId, value: u64) {
        let Some(queue) = self.queues.iter_mut().find(|queue| queue.fence == Some(fence)) else { return };
        while queue.in_flight.front().is_some_and(|&(_, ends)| ends <= value) {
            queue.in_flight.pop_front();
        }
    }

    /// All uses in the queue of the fence have ended, and the queue is over.
    pub fn forget_fence(&mut self, fence: MonitoredFenceId) {
        let Some(number) = self.queues.iter().position(|queue| queue.fence == Some(fence)) else { return };
        self.queues[number].fence = None;
        self.queues[number].in_flight.clear();
        self.is_open &= self.last_queue != number;
    }

    /// A new period begins: uses ended by now do not count for the period.
    pub fn begin_period(&mut self) {
        let last = self.last_evictable();
        for queue in &mut self.queues {
            queue.before_period = queue.in_flight.front().map_or(last, |(number, _)| number - 1);
        }
    }

    /// The last use of any queue before the present period.
    pub fn before_period(&self) -> UseNo {
        self.queues.iter().map(|queue| queue.before_period).max().unwrap_or(0).min(self.last_evictable())
    }

    /// Whether any queue has used the allocation in the present period.
    pub fn is_used_in_period(&self, index: u32) -> bool {
        let is_used =
            |queue: &Queue| queue.stamps.get(index as usize).is_some_and(|&stamp| stamp > queue.before_period);
        self.queues.iter().any(is_used)
    }

    /// The last use that may be evicted.
    pub fn last_evictable(&self) -> UseNo {
        self.last - UseNo::from(self.is_open)
    }
}

/// The number of a use after numbers have run out.
pub(super) fn renumbered(number: UseNo, by: UseNo) -> UseNo {
    if number == UNUSED { UNUSED } else { number.saturating_sub(by).max(1) }
}

#[cfg(test)]
mod tests {
    use super::{TOLD_APART, UNUSED, Uses};
    use vidmm::MonitoredFenceId;

    #[test]
    fn numbers_that_run_out_keep_the_order_of_all_but_the_oldest() {
        let fence = MonitoredFenceId::from_bits(0);
        let mut uses = Uses::default();
        let queue = uses.queue(fence);
        uses.last = u32::MAX - 3;
        uses.stamps_mut(queue, 7).copy_from_slice(&[UNUSED, 7, 9, TOLD_APART + 5, u32::MAX - 3, 0, 0]);
        for index in [5, 6] {
            let number = uses.open(queue).unwrap();
            uses.stamps_mut(queue, 7)[index] = number;
            uses.submitted(number.into());
        }
        uses.begin_period();
        assert_eq!(uses.before_period(), u32::MAX - 3, "two uses are in flight");
        assert_eq!(uses.open(queue), Some(u32::MAX));
        uses.submitted(u64::from(u32::MAX));
        assert_eq!(uses.open(queue), None, "there is no number left");

        uses.renumber();
        let stamps = uses.stamps_mut(queue, 7).to_vec();
        assert_eq!(stamps[0], UNUSED, "an unused allocation stays so");
        assert_eq!(stamps[1..4], [1, 1, 6], "the oldest are equally old");
        assert_eq!(stamps[4], uses.before_period());
        let next = uses.open(queue).unwrap();
        assert!(stamps.iter().all(|&stamp| stamp < next));
        assert_eq!(stamps[4] + 1, stamps[5]);
        assert_eq!(stamps[5] + 1, stamps[6]);
        uses.submitted(u64::from(u32::MAX) + 1);
        uses.fence_reached(fence, u64::from(u32::MAX) - 1);
        uses.begin_period();
        assert_eq!(uses.before_period(), stamps[6], "the first two have ended");
    }

    #[test]
    fn a_long_use_in_one_queue_keeps_no_allocation_of_another() {
        let [graphics, compute] = [0, 1].map(MonitoredFenceId::from_bits);
        let mut uses = Uses::default();
        for (fence, indices, value) in [(compute, &[0, 2][..], 1), (graphics, &[1, 2], 1)] {
            let queue = uses.queue(fence);
            let number = uses.open(queue).unwrap();
            let stamps = uses.stamps_mut(queue, 3);
            indices.iter().for_each(|&index| stamps[index] = number);
            uses.submitted(value);
        }
        uses.fence_reached(graphics, 1);
        uses.begin_period();
        assert_eq!([0, 1, 2].map(|index| uses.is_used_in_period(index)), [true, false, true]);
        uses.forget_fence(compute);
        uses.begin_period();
        assert_eq!([0, 1, 2].map(|index| uses.is_used_in_period(index)), [false; 3]);
        assert_eq!([0, 1, 2].map(|index| uses.last_use(index)), [1, 2, 2], "the order is as it was");
    }
}
