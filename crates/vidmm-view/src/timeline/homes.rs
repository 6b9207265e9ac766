//! Allocations that are away from home although there is room (RES-55, D36).

use std::collections::{BTreeMap, BTreeSet};

use vidmm::{AllocationId, Nanoseconds, SegmentId};
use vidmm_trace::ByteSize;

use super::record::{Finding, Record, Severity};

/// A debt to a memory with room is a finding from this age on: a device that is never still pays at most one move a second (D36).
const PATIENCE: Nanoseconds = 1_000_000_000;

/// Memory segments, and their allocations elsewhere.
#[derive(Debug, Default)]
pub(super) struct Homes {
    segments: BTreeMap<SegmentId, Segment>,
    homes: BTreeMap<AllocationId, (SegmentId, u64)>,
}

/// A memory segment.
#[derive(Debug)]
struct Segment {
    name: String,
    /// The bytes for allocations.
    size: u64,
    /// The listed allocations that are elsewhere, by size; and the sum of the sizes.
    away: BTreeSet<(u64, AllocationId)>,
    bytes_away: u64,
    debt: Option<Debt>,
}

/// A time in which the segment had room for an allocation that was away.
#[derive(Debug)]
struct Debt {
    since: Nanoseconds,
    number: u64,
    /// The least bytes that were away and had room.
    bytes: u64,
    allocation: AllocationId,
}

impl Homes {
    /// A memory segment, the bytes for allocations, and its name.
    pub fn segment(&mut self, segment: SegmentId, size: u64, name: String) {
        self.segments.insert(segment, Segment { name, size, away: BTreeSet::new(), bytes_away: 0, debt: None });
    }

    /// An allocation, and the segment that its driver prefers.
    pub fn allocation(&mut self, allocation: AllocationId, size: u64, preferred: Option<SegmentId>) {
        if let Some(home) = preferred.filter(|home| self.segments.contains_key(home)) {
            self.homes.insert(allocation, (home, size));
        }
    }

    /// An allocation is gone.
    pub fn gone(&mut self, allocation: AllocationId) {
        self.counts(allocation, None);
        self.homes.remove(&allocation);
    }

    /// An allocation counts as listed in a segment from now on; none is on no list, or in no segment.
    pub fn counts(&mut self, allocation: AllocationId, listed_in: Option<SegmentId>) {
        let Some(&(home, size)) = self.homes.get(&allocation) else { return };
        let is_away = listed_in.is_some_and(|segment| !self.segments.contains_key(&segment));
        let Some(segment) = self.segments.get_mut(&home) else { return };
        match is_away {
            true if segment.away.insert((size, allocation)) => segment.bytes_away += size,
            false if segment.away.remove(&(size, allocation)) => segment.bytes_away -= size,
            _ => {}
        }
    }

    /// Time goes on from `at`, with so many bytes taken in each segment.
    pub fn look(&mut self, (number, at): (u64, Nanoseconds), taken: impl Fn(SegmentId) -> u64, out: &mut Vec<Record>) {
        for (&id, segment) in &mut self.segments {
            let Some(&(least, allocation)) = segment.away.first() else {
                segment.settle(at, out);
                continue;
            };
            let free = segment.size.saturating_sub(taken(id));
            if least > free {
                segment.settle(at, out);
                continue;
            }
            let bytes = free.min(segment.bytes_away);
            let debt = segment.debt.get_or_insert(Debt { since: at, number, bytes, allocation });
            debt.bytes = debt.bytes.min(bytes);
        }
    }

    /// The log ends.
    pub fn finish(&mut self, at: Nanoseconds, out: &mut Vec<Record>) {
        self.segments.values_mut().for_each(|segment| segment.settle(at, out));
    }
}

impl Segment {
    /// There is no debt any more from `at` on.
    fn settle(&mut self, at: Nanoseconds, out: &mut Vec<Record>) {
        let Some(Debt { since, number, bytes, allocation }) = self.debt.take() else { return };
        let lasted = at.saturating_sub(since);
        if lasted < PATIENCE {
            return;
        }
        let (bytes, seconds) = (ByteSize(bytes), lasted as f64 / 1e9);
        let text = format!("{bytes} were away from home for {seconds:.1} s although {} had room.", self.name);
        let allocation = Some(allocation);
        out.push(Record::Finding(Finding { number, at: since, severity: Severity::Warning, allocation, text }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_debt_of_a_second_is_a_finding() {
        let [local, system] = [1, 0].map(SegmentId);
        let [a, b] = [1, 2].map(AllocationId::from_bits);
        let (mut homes, mut out) = (Homes::default(), Vec::new());
        homes.segment(local, 100 << 20, "local memory".to_owned());
        homes.allocation(a, 40 << 20, Some(local));
        homes.allocation(b, 30 << 20, None);
        [a, b].iter().for_each(|&of| homes.counts(of, Some(system)));
        let ms = 1_000_000;
        for (at, taken) in [(0, 90), (100, 20), (500, 50), (1_300, 70), (1_400, 30), (2_300, 90)] {
            homes.look((at, at * ms), |_| taken << 20, &mut out);
        }
        let [Record::Finding(finding)] = &out[..] else { panic!("{out:?}") };
        assert_eq!(finding.text, "40 MiB were away from home for 1.2 s although local memory had room.");
        assert_eq!((finding.at, finding.allocation), (100 * ms, Some(a)), "of b nobody said where it is to be");
        homes.look((3_000, 3_000 * ms), |_| 0, &mut out);
        homes.counts(a, None);
        homes.look((3_500, 3_500 * ms), |_| 0, &mut out);
        homes.finish(9_000 * ms, &mut out);
        assert_eq!(out.len(), 1, "half a second is no finding, and a left its list");
    }
}
