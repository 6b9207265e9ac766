//! The bytes that each process has in each segment.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use vidmm::{AllocationId, Event, ProcessId, SegmentId};

use crate::ByteSize;

/// Where allocations are, and of which process.
#[derive(Debug, Default)]
pub(super) struct Holders(BTreeMap<AllocationId, Holding>);

#[derive(Debug)]
struct Holding {
    owner: ProcessId,
    size: u64,
    /// None while the allocation is in no segment.
    segment: Option<SegmentId>,
}

impl Holders {
    pub fn learn(&mut self, event: &Event) {
        match *event {
            Event::AllocationCreated { allocation, process, size, .. } => {
                self.0.insert(allocation, Holding { owner: process, size, segment: None });
            }
            Event::AllocationOwnershipTransferred { allocation, process, .. } => {
                self.0.entry(allocation).and_modify(|holding| holding.owner = process);
            }
            Event::AllocationReclaimed { allocation } => drop(self.0.remove(&allocation)),
            Event::Placed { allocation, segment, .. } => self.moves(allocation, Some(segment)),
            Event::Evicted { allocation, .. } => self.moves(allocation, None),
            Event::AdapterRestarted => self.0.values_mut().for_each(|holding| holding.segment = None),
            _ => {}
        }
    }

    fn moves(&mut self, allocation: AllocationId, segment: Option<SegmentId>) {
        self.0.entry(allocation).and_modify(|holding| holding.segment = segment);
    }

    /// The bytes of each process in a segment, most first; empty if the segment has no allocation.
    pub fn of(&self, segment: SegmentId) -> String {
        let mut bytes = BTreeMap::<ProcessId, u64>::new();
        for holding in self.0.values().filter(|holding| holding.segment == Some(segment)) {
            *bytes.entry(holding.owner).or_default() += holding.size;
        }
        let mut bytes = Vec::from_iter(bytes);
        bytes.sort_by_key(|&(process, bytes)| (Reverse(bytes), process));
        let told = bytes.into_iter().map(|(process, bytes)| format!("{process} had {}", ByteSize(bytes)));
        Vec::from_iter(told).join(", ")
    }
}
