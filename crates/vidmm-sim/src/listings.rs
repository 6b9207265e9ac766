//! The submissions that were made while an allocation was on its device's list, from the event log alone.

use std::collections::{BTreeMap, VecDeque};
use std::ops::RangeInclusive;

use vidmm::AllocationId;

/// The number of spans that are kept of an allocation. Each has a submission in it, and no client is further ahead.
const MOST_SPANS: usize = 1025;

/// The lists of all devices.
#[derive(Debug, Default)]
pub(crate) struct Listings(BTreeMap<AllocationId, Listing>);

/// One allocation on one device's list.
#[derive(Debug, Default)]
struct Listing {
    /// The number of times it is on the list.
    count: u32,
    /// The submissions that were made while it was there, by their numbers within the device. The last span may be
    /// open.
    spans: VecDeque<RangeInclusive<u64>>,
}

impl Listings {
    /// Adds one reference, behind the submission of that number.
    pub fn join(&mut self, allocation: AllocationId, after_submission: u64) {
        let Listing { count, spans } = self.0.entry(allocation).or_default();
        *count += 1;
        if *count == 1 {
            spans.push_back(after_submission + 1..=u64::MAX);
            if spans.len() > MOST_SPANS {
                spans.pop_front();
            }
        }
    }

    /// Takes one reference off, behind the submission of that number.
    pub fn leave(&mut self, allocation: AllocationId, after_submission: u64) {
        let Some(Listing { count, spans }) = self.0.get_mut(&allocation).filter(|listing| listing.count > 0) else {
            return;
        };
        *count -= 1;
        if *count == 0
            && let Some(span) = spans.pop_back()
            && *span.start() <= after_submission
        {
            spans.push_back(*span.start()..=after_submission);
        }
    }

    /// Forgets an allocation that was destroyed.
    pub fn forget(&mut self, allocation: AllocationId) {
        self.0.remove(&allocation);
    }

    /// Whether it is on the list now.
    pub fn is_listed(&self, allocation: AllocationId) -> bool {
        self.0.get(&allocation).is_some_and(|listing| listing.count > 0)
    }

    /// Whether the allocation was on the list when the submission of that number was made.
    pub fn was_listed(&self, allocation: AllocationId, submission: u64) -> bool {
        self.0.get(&allocation).is_some_and(|listing| listing.spans.iter().any(|span| span.contains(&submission)))
    }
}

#[cfg(test)]
mod tests {
    use vidmm::AllocationId;

    use super::Listings;

    #[test]
    fn a_submission_has_what_was_on_the_list_when_it_was_made() {
        let mut listings = Listings::default();
        let allocation = AllocationId::from_bits(1);
        listings.join(allocation, 2);
        listings.join(allocation, 3);
        listings.leave(allocation, 4);
        assert!(listings.is_listed(allocation), "it was put there twice");
        listings.leave(allocation, 5);
        // No device has this allocation on its list.
        listings.join(allocation, 5);
        listings.leave(allocation, 5);
        listings.join(allocation, 7);
        let had: Vec<u64> = (0..10).filter(|&submission| listings.was_listed(allocation, submission)).collect();
        assert_eq!(had, [3, 4, 5, 8, 9]);
        assert!(listings.is_listed(allocation));
        listings.forget(allocation);
        assert!(!listings.is_listed(allocation) && !listings.was_listed(allocation, 4));
    }
}
