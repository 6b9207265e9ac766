//! Second chance (Corbato, 1968): a queue in the order of arrival, in which a use since the last look saves an allocation once.

use super::{Candidates, Policy, Subject, arrivals::Arrivals};
use crate::units::SegmentId;

/// The policy.
#[derive(Debug, Default)]
pub(super) struct Clock {
    arrivals: Arrivals,
}

impl Policy for Clock {
    fn used(&mut self, subject: Subject, _time: u64) {
        self.arrivals.note_use(subject);
    }

    fn brought_in(&mut self, subject: Subject, _memory: SegmentId) {
        self.arrivals.arrive(subject);
    }

    fn rank(&self, slot: usize) -> u64 {
        self.arrivals.position(slot)
    }

    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        loop {
            let candidate = candidates.first_from(0).expect("there is a candidate");
            if !self.arrivals.take_use(candidate.slot) {
                return candidate.slot;
            }
            candidates.set_rank(candidate.slot, self.arrivals.move_to_end(candidate.slot));
        }
    }

    fn gone(&mut self, subject: Subject) {
        self.arrivals.forget(subject);
    }
}
