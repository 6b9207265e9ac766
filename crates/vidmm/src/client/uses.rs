//! Uses: submissions as stamps of four bytes, and which of them have ended.

use alloc::collections::VecDeque;

/// The number of a use. Submissions of one unchanged set, one right after the other, are one use: so they touch no member.
pub(super) type UseNo = u32;

/// The stamp of what is not on the device's list.
pub(super) const UNLISTED: UseNo = 0;

/// How many uses are told apart. When numbers run out, what was used longer ago than that counts as equally old.
const TOLD_APART: UseNo = 1 << 31;

/// The uses so far.
#[derive(Default)]
pub(super) struct Uses {
    /// The last number given; 0 is none.
    pub last: UseNo,
    /// The last use is made resident and not submitted: nothing of it may be evicted.
    pub is_open: bool,
    /// Uses that are submitted and have not ended, with the fence value of their last submission, oldest first.
    in_flight: VecDeque<(UseNo, u64)>,
    /// An allocation that was last used in or before this one was not used in the present period (RES-42).
    pub before_period: UseNo,
}

impl Uses {
    /// A new use; none if there are no numbers left, and [`renumber`](Self::renumber) must be called first.
    pub fn open(&mut self) -> Option<UseNo> {
        self.last = self.last.checked_add(1)?;
        self.is_open = true;
        Some(self.last)
    }

    /// Makes room for more numbers: those of old uses collapse.
    pub fn renumber(&mut self, stamps: &mut [UseNo]) {
        let by = self.last - TOLD_APART;
        for stamp in stamps.iter_mut().filter(|stamp| **stamp != UNLISTED) {
            *stamp = stamp.saturating_sub(by).max(1);
        }
        self.in_flight.iter_mut().for_each(|(number, _)| *number = number.saturating_sub(by).max(1));
        self.before_period = self.before_period.saturating_sub(by);
        self.last = TOLD_APART;
    }

    /// The last use was submitted, and ends with this fence value.
    pub fn submitted(&mut self, fence_value: u64) {
        self.is_open = false;
        match self.in_flight.back_mut() {
            Some((number, value)) if *number == self.last => *value = fence_value,
            _ => self.in_flight.push_back((self.last, fence_value)),
        }
    }

    /// The fence has reached `value`.
    pub fn fence_reached(&mut self, value: u64) {
        while self.in_flight.front().is_some_and(|&(_, ends)| ends <= value) {
            self.in_flight.pop_front();
        }
    }

    /// A new period begins: whoever is not used after what has ended by now was not used in it.
    pub fn begin_period(&mut self) {
        self.before_period = match self.in_flight.front() {
            Some((number, _)) => number - 1,
            None => self.last - UseNo::from(self.is_open),
        };
    }

    /// The last use that may be evicted.
    pub fn last_evictable(&self) -> UseNo {
        self.last - UseNo::from(self.is_open)
    }
}

#[cfg(test)]
mod tests {
    use super::{TOLD_APART, UNLISTED, Uses};

    #[test]
    fn numbers_that_run_out_keep_the_order_of_all_but_the_oldest() {
        let mut uses = Uses { last: u32::MAX - 3, ..Uses::default() };
        let mut stamps = [UNLISTED, 7, 9, TOLD_APART + 5, u32::MAX - 3, 0, 0];
        for stamp in [5, 6] {
            stamps[stamp] = uses.open().unwrap();
            uses.submitted(stamps[stamp].into());
        }
        uses.begin_period();
        assert_eq!(uses.before_period, u32::MAX - 3, "two uses are in flight");
        assert_eq!(uses.open(), Some(u32::MAX));
        uses.submitted(u64::from(u32::MAX));
        assert_eq!(uses.open(), None, "there is no number left");

        uses.renumber(&mut stamps);
        assert_eq!(stamps[0], UNLISTED, "what is not listed stays so");
        assert_eq!(stamps[1..4], [1, 1, 6], "the oldest are equally old");
        assert_eq!(stamps[4], uses.before_period);
        let next = uses.open().unwrap();
        assert!(stamps.iter().all(|&stamp| stamp < next));
        assert_eq!(stamps[4] + 1, stamps[5]);
        assert_eq!(stamps[5] + 1, stamps[6]);
        uses.submitted(u64::from(u32::MAX) + 1);
        uses.fence_reached(u64::from(u32::MAX) - 1);
        uses.begin_period();
        assert_eq!(uses.before_period, stamps[6], "the first two have ended");
    }
}
