//! The documented order as a policy (CRE-31a).

use super::{Policy, Subject, slots::Slots};

/// The least recently used goes first. A policy of your own may take the ranks from here.
#[derive(Debug, Default)]
pub struct Recency {
    /// The number of the last submission of each slot.
    last_uses: Slots<u64>,
}

impl Policy for Recency {
    fn announced(&mut self, subject: Subject, time: u64) {
        self.released(subject, time);
    }

    fn released(&mut self, subject: Subject, last_use: u64) {
        let last = self.last_uses.entry(subject.slot);
        *last = last_use.max(*last);
    }

    fn rank(&self, slot: usize) -> u64 {
        self.last_uses.get(slot)
    }

    fn gone(&mut self, subject: Subject) {
        *self.last_uses.entry(subject.slot) = 0;
    }
}
