//! How far numbers have come that are given out in order and come to their end nearly in order.
//!
//! Where they do so in order, only one number is kept of them, and none of those that have not ended.

use crate::{data::ordered_set::OrderedSet, id::SubmissionNo};

/// The numbers that have ended, of those from 1 on.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    up_to: SubmissionNo,
    /// Those that have ended before one that is smaller.
    beyond: OrderedSet<SubmissionNo>,
}

impl Progress {
    /// All numbers up to this one have ended.
    pub fn up_to(&self) -> SubmissionNo {
        self.up_to
    }

    /// How many have ended.
    pub fn count(&self) -> u64 {
        self.up_to + self.beyond.len() as u64
    }

    /// The number of ended numbers after `after`, up to `last`.
    pub fn count_between(&self, after: SubmissionNo, last: SubmissionNo) -> u64 {
        let in_order = self.up_to.min(last).saturating_sub(after);
        in_order + self.beyond.iter().filter(|&&number| after < number && number <= last).count() as u64
    }

    /// A number ends. Does nothing if it has, or is 0.
    #[inline]
    pub fn end(&mut self, number: SubmissionNo) {
        if number == self.up_to + 1 {
            self.up_to = number;
            if !self.beyond.is_empty() {
                self.catch_up();
            }
        } else if number > self.up_to {
            self.beyond.insert(number);
        }
    }

    /// Numbers that had ended beyond the last one join it.
    fn catch_up(&mut self) {
        while self.beyond.first().is_some_and(|&first| first == self.up_to + 1) {
            self.beyond.pop_first();
            self.up_to += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::collections::BTreeSet;

    use proptest::prelude::*;

    use super::Progress;

    proptest! {
        #[test]
        fn it_has_ended_what_a_set_of_all_numbers_has(ends in proptest::collection::vec(0..40_u64, 0..80)) {
            let (mut progress, mut ended) = (Progress::default(), BTreeSet::new());
            for number in ends {
                progress.end(number);
                ended.extend(Some(number).filter(|&number| number > 0));
                let first_left = (1..).find(|number| !ended.contains(number)).expect("numbers go on");
                prop_assert_eq!((progress.up_to(), progress.count()), (first_left - 1, ended.len() as u64));
                let after = number / 2;
                let between = ended.iter().filter(|&&ended| after < ended && ended <= number).count() as u64;
                prop_assert_eq!(progress.count_between(after, number), between);
            }
        }
    }
}
