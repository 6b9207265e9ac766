//! Statistics of processes and segments, in the shape of WDDM's: what a log adds up to.
//! [`VidMm::query_statistics`](vidmm::VidMm::query_statistics) tells the same of a manager that runs.

use std::collections::BTreeMap;

use vidmm::{
    AllocationId, DeviceId, Nanoseconds, ProcessId, SegmentId,
    event::{ContentSource, EvictReason},
};

use vidmm_trace::ByteSize;

use crate::timeline::{
    Record,
    record::{Created, Holding, Object},
};

/// The bytes of a process in a segment, and those that went through it.
#[doc(alias = "D3DKMT_QUERYSTATISTICS_PROCESS_SEGMENT_INFORMATION")]
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ProcessSegmentStatistics {
    /// Bytes of its allocations there at the end of the log.
    pub bytes_resident: u64,
    /// The most bytes of its allocations that were there at one time.
    pub peak_bytes_resident: u64,
    /// Bytes copied in from backing stores.
    pub bytes_paged_in: u64,
    /// Bytes copied out to backing stores.
    pub bytes_paged_out: u64,
    /// Bytes filled because they had no content yet.
    pub bytes_filled: u64,
    /// Bytes that left for another segment where they stayed resident.
    pub bytes_demoted: u64,
    /// Bytes that left, by reason; the reasons of which there were none are not there.
    pub bytes_evicted: Vec<(EvictReason, u64)>,
}

impl ProcessSegmentStatistics {
    /// The bytes that left, by reason, for people.
    pub fn reasons(&self) -> String {
        let each = self.bytes_evicted.iter().map(|&(reason, bytes)| format!("{} {}", ByteSize(bytes), name(reason)));
        let each = Vec::from_iter(each);
        if each.is_empty() { "-".to_owned() } else { each.join(", ") }
    }
}

fn name(reason: EvictReason) -> &'static str {
    match reason {
        EvictReason::RoomWanted => "for room",
        EvictReason::EvictRequested => "by Evict",
        EvictReason::Promoted => "promoted",
        EvictReason::RangeWanted => "for a range",
        EvictReason::Destroyed => "destroyed",
        EvictReason::Offered => "offered",
        EvictReason::DeviceSuspended => "suspended",
        EvictReason::Locked => "for the CPU",
        EvictReason::PropertyUpdated => "not allowed there any more",
        EvictReason::PoweredDown => "for power-down",
        EvictReason::Moved => "moved",
        EvictReason::BudgetRestricted => "left to others",
    }
}

/// The accesses over the bus of kernels that took longer for such accesses.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct OverBus {
    /// The bytes.
    pub bytes: u64,
    /// How much longer the kernels took, in nanoseconds.
    pub lost_ns: Nanoseconds,
    /// The part of each allocation.
    pub allocations: BTreeMap<AllocationId, Nanoseconds>,
}

impl OverBus {
    /// The most expensive allocation, and the time that kernels lost for its bytes.
    pub fn worst(&self) -> Option<(AllocationId, Nanoseconds)> {
        let parts = self.allocations.iter().map(|(&allocation, &lost_ns)| (allocation, lost_ns));
        parts.max_by_key(|&(allocation, lost_ns)| (lost_ns, std::cmp::Reverse(allocation)))
    }
}

/// The statistics of a run.
#[derive(Debug, Default)]
pub struct Statistics {
    segments: BTreeMap<SegmentId, String>,
    owners: BTreeMap<AllocationId, ProcessId>,
    held: BTreeMap<(ProcessId, SegmentId, Holding), u64>,
    rows: BTreeMap<(ProcessId, SegmentId), ProcessSegmentStatistics>,
    processes: BTreeMap<DeviceId, ProcessId>,
    over_bus: BTreeMap<ProcessId, OverBus>,
    /// The time of the changes that are in `changed`, of which the peaks are still to be noted.
    at: Nanoseconds,
    changed: Vec<(ProcessId, SegmentId)>,
}

impl Statistics {
    /// Counts a record of the timeline. Records come in the timeline's order.
    pub fn record(&mut self, record: &Record) {
        match record {
            Record::Adapter(adapter) => {
                self.segments = adapter.segments.iter().map(|each| (each.segment, each.name.clone())).collect();
            }
            Record::Created(Created { object: Object::Allocation(allocation, _, process, _), .. }) => {
                self.owners.insert(*allocation, *process);
            }
            Record::Created(Created { object: Object::Device(device, process), .. }) => {
                self.processes.insert(*device, *process);
            }
            Record::BusAccess(access) => {
                let Some(&process) = self.processes.get(&access.device) else { return };
                let sums = self.over_bus.entry(process).or_default();
                sums.bytes = sums.bytes.saturating_add(access.bytes);
                sums.lost_ns = sums.lost_ns.saturating_add(access.lost_ns);
                *sums.allocations.entry(access.allocation).or_default() += access.lost_ns;
            }
            Record::Occupancy(held) if !matches!(held.holding, Holding::PageTable | Holding::Leaving) => {
                let Some(process) = held.process else { return };
                // Bytes that change from one holding to another are two records of one time.
                if held.at != self.at {
                    self.note_peaks();
                    self.at = held.at;
                }
                let before = self.held.insert((process, held.segment, held.holding), held.bytes).unwrap_or(0);
                let row = self.rows.entry((process, held.segment)).or_default();
                row.bytes_resident = row.bytes_resident + held.bytes - before;
                self.changed.push((process, held.segment));
            }
            Record::PageIn(page_in) => {
                let Some(&process) = self.owners.get(&page_in.allocation) else { return };
                let row = self.rows.entry((process, page_in.segment)).or_default();
                match page_in.content {
                    ContentSource::BackingStore => row.bytes_paged_in += page_in.bytes,
                    ContentSource::Fill => row.bytes_filled += page_in.bytes,
                    ContentSource::InPlace => {}
                }
            }
            Record::Cleaning(cleaning) => {
                let Some(of) = cleaning.process.zip(cleaning.segment) else { return };
                self.rows.entry(of).or_default().bytes_paged_out += cleaning.bytes;
            }
            Record::Eviction(eviction) => {
                let Some(process) = eviction.process else { return };
                let row = self.rows.entry((process, eviction.segment)).or_default();
                row.bytes_paged_out += eviction.bytes_out;
                let is_elsewhere = eviction.moved_to.is_some_and(|segment| segment != eviction.segment);
                row.bytes_demoted += if is_elsewhere { eviction.bytes } else { 0 };
                match row.bytes_evicted.iter_mut().find(|(reason, _)| *reason == eviction.reason) {
                    Some((_, bytes)) => *bytes += eviction.bytes,
                    None => row.bytes_evicted.push((eviction.reason, eviction.bytes)),
                }
            }
            _ => {}
        }
    }

    fn note_peaks(&mut self) {
        for key in self.changed.drain(..) {
            let row = self.rows.entry(key).or_default();
            row.peak_bytes_resident = row.peak_bytes_resident.max(row.bytes_resident);
        }
    }

    /// The statistics of each process in each segment where it had anything, in the order of processes.
    pub fn rows(&mut self) -> impl Iterator<Item = (ProcessId, SegmentId, &ProcessSegmentStatistics)> {
        self.note_peaks();
        self.rows.iter().map(|(&(process, segment), row)| (process, segment, row))
    }

    /// The time that the kernels of each process lost to access over the bus; no process without such a loss.
    pub fn over_bus(&self) -> impl Iterator<Item = (ProcessId, &OverBus)> {
        self.over_bus.iter().map(|(&process, sums)| (process, sums))
    }

    /// The names of segments for people.
    pub fn segments(&self) -> &BTreeMap<SegmentId, String> {
        &self.segments
    }
}
