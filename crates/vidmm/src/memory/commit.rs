//! How much system memory may be resident at one time (SEG-50, U-6). It is counted, not placed: each allocation's pages are
//! those of its backing store.

use alloc::{collections::BTreeMap, vec::Vec};

use crate::id::PlanNo;

/// The bytes of the limit that are free, and those that will be.
#[derive(Debug)]
pub(crate) struct CommitLimit {
    limit: u64,
    free: u64,
    /// Bytes of allocations whose plan has not entered the stream. A plan that takes them comes after that one.
    promised: BTreeMap<PlanNo, u64>,
    available: u64,
}

impl CommitLimit {
    pub fn new(limit: u64) -> Self {
        Self { limit, free: limit, promised: BTreeMap::new(), available: limit }
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Bytes that can be taken: free and promised.
    pub fn available(&self) -> u64 {
        self.available
    }

    /// Takes `bytes`, and names in `after` the plans that must enter the stream before the taker's.
    ///
    /// # Panics
    ///
    /// If less is available: the caller has made room before it takes.
    pub fn charge(&mut self, bytes: u64, after: &mut Vec<PlanNo>) {
        assert!(bytes <= self.available, "room is made before anything becomes resident");
        self.available -= bytes;
        let from_free = bytes.min(self.free);
        self.free -= from_free;
        let mut missing = bytes - from_free;
        while missing > 0 {
            let mut first = self.promised.first_entry().expect("available bytes are free or promised");
            after.push(*first.key());
            let taken = missing.min(*first.get());
            *first.get_mut() -= taken;
            missing -= taken;
            if *first.get() == 0 {
                first.remove();
            }
        }
    }

    /// Gives back `bytes` of an allocation that `plan` takes out; they are promised until it enters the stream.
    pub fn promise(&mut self, plan: PlanNo, bytes: u64) {
        self.available += bytes;
        *self.promised.entry(plan).or_default() += bytes;
    }

    /// `plan` has entered the stream.
    pub fn entered(&mut self, plan: PlanNo) {
        self.free += self.promised.remove(&plan).unwrap_or(0);
    }

    /// All plans are over, and nothing is resident.
    pub fn clear(&mut self) {
        *self = Self::new(self.limit);
    }

    /// Free and promised bytes, recounted for the audit.
    pub fn holes(&self) -> u64 {
        self.free + self.promised.values().sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_follows_a_parked_one_can_take_the_bytes_that_it_gives_back() {
        let mut limit = CommitLimit::new(100);
        let mut after = Vec::new();
        limit.charge(90, &mut after);
        limit.promise(7, 30);
        limit.promise(8, 30);
        limit.charge(50, &mut after);
        assert_eq!(after, [7, 8]);
        assert_eq!((limit.available(), limit.holes()), (20, 20));
        limit.entered(8);
        after.clear();
        limit.charge(20, &mut after);
        assert!(after.is_empty());
    }
}
