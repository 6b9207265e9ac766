//! The timeline of a log adds up to what the run itself measured.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;
use vidmm::event::{ContentSource, EvictReason};
use vidmm::{ProcessId, SegmentId};
use vidmm_trace::{LogReader, log};
use vidmm_view::timeline::record::{Holder, Holding, PacketContent, RangeChange};
use vidmm_view::timeline::{Record, Timeline};

use crate::common::{Scratch, vidmm_run};

/// The records of a run, and its summary.
fn run(scenario: &str) -> (Vec<Record>, Value) {
    let scratch = Scratch::new();
    let (events, summary) = (scratch.path("log.jsonl"), scratch.path("summary.json"));
    vidmm_run(&[scenario, "--events", &events, "--summary", &summary]);
    let log = log::open(Path::new(&events)).expect("the run wrote it");
    let records = Timeline::of(LogReader::new(log).expect("it is a log"));
    let summary = std::fs::read_to_string(&summary).expect("the run wrote it");
    (records.map(|record| record.expect("it is whole")).collect(), serde_json::from_str(&summary).expect("it is JSON"))
}

/// The length of the union of intervals.
fn united(mut intervals: Vec<(u64, u64)>) -> u64 {
    intervals.sort_unstable();
    let (mut sum, mut covered) = (0, 0);
    for (from, to) in intervals {
        sum += to.saturating_sub(from.max(covered));
        covered = covered.max(to);
    }
    sum
}

/// Whether a time that follows from the log is the one that the run measured: the log has no starts, and so a packet that was
/// handed out between two polls seems to begin up to a microsecond early.
#[track_caller]
fn is_about(name: &str, derived: u64, measured: u64) {
    let off = derived.abs_diff(measured);
    assert!(off <= measured / 1000, "{name}: {derived} ns follow from the log, and the run measured {measured} ns");
}

#[test]
fn times_of_work_paging_and_hidden_paging_are_those_of_the_run() {
    let (records, summary) = run("scenarios/training.toml");
    let (mut work, mut paging, mut hidden) = (Vec::new(), Vec::new(), 0);
    for record in &records {
        if let Record::Packet(packet) = record {
            let intervals = match packet.content {
                PacketContent::Work { .. } => &mut work,
                PacketContent::Paging { .. } => &mut paging,
            };
            intervals.push((packet.started_at, packet.ended_at));
            hidden += packet.hidden_ns;
        }
    }
    let measured = |name: &str| summary[name].as_u64().expect("it is a number");
    is_about("work", united(work), measured("work_ns"));
    is_about("paging", united(paging), measured("paging_ns"));
    is_about("hidden", hidden, measured("hidden_ns"));
}

#[test]
fn bytes_and_evictions_are_those_of_the_run() {
    let (records, summary) = run("scenarios/training.toml");
    let (mut paged_in, mut paged_out, mut filled, mut evictions) = (0, 0, 0, 0);
    for record in &records {
        match record {
            Record::PageIn(of) if of.content == ContentSource::BackingStore => paged_in += of.bytes,
            Record::PageIn(of) if of.content == ContentSource::Fill => filled += of.bytes,
            Record::Eviction(of) => {
                paged_out += of.bytes_out;
                evictions += u64::from(of.reason != EvictReason::Destroyed);
            }
            _ => {}
        }
    }
    for (name, sum) in [
        ("bytes_paged_in", paged_in),
        ("bytes_paged_out", paged_out),
        ("bytes_filled", filled),
        ("evictions", evictions),
    ] {
        assert_eq!(summary[name], sum, "{name}");
    }
}

#[test]
fn each_return_is_of_one_eviction_and_all_lost_time_is_of_a_plan() {
    let (records, _) = run("scenarios/training.toml");
    let (mut returned, mut lost, mut lost_of_plans) = (0, 0, 0);
    for record in &records {
        match record {
            Record::Eviction(of) => {
                returned += of.returned.map_or(0, |back| back.bytes_in);
                lost += of.lost_out_ns;
            }
            Record::PageIn(of) => lost += of.lost_ns,
            Record::Plan(plan) => lost_of_plans += plan.lost_ns,
            _ => {}
        }
    }
    let copied_in = records.iter().filter_map(|record| match record {
        Record::PageIn(of) if of.content == ContentSource::BackingStore => Some(of.bytes),
        _ => None,
    });
    assert_eq!(returned, copied_in.sum::<u64>(), "in this workload only what was evicted is copied in");
    is_about("lost", lost, lost_of_plans);
    assert!(lost_of_plans > 0);
}

/// The bytes that are taken in each segment, by ranges.
fn taken(records: &[Record]) -> BTreeMap<SegmentId, BTreeMap<u64, u64>> {
    let mut ranges: BTreeMap<SegmentId, BTreeMap<u64, u64>> = BTreeMap::new();
    for record in records {
        if let Record::Range(RangeChange { segment, extent, holder, .. }) = *record {
            let ranges = ranges.entry(segment).or_default();
            let inside: Vec<(u64, u64)> =
                ranges.range(..extent.end()).filter(|&(_, &end)| end > extent.offset).map(|(&a, &b)| (a, b)).collect();
            for (start, end) in inside {
                ranges.remove(&start);
                ranges.extend((start < extent.offset).then_some((start, extent.offset)));
                ranges.extend((end > extent.end()).then_some((extent.end(), end)));
            }
            ranges.extend((holder != Holder::Free).then_some((extent.offset, extent.end())));
        }
    }
    ranges
}

/// The bytes of a process in a segment, by the way in which it has them.
type Sums = BTreeMap<(SegmentId, Option<ProcessId>, Holding), u64>;

fn bytes_in(sums: &Sums, segment: SegmentId) -> u64 {
    sums.iter().filter(|(key, _)| key.0 == segment).map(|(_, bytes)| bytes).sum()
}

#[track_caller]
fn fits(sums: &Sums, sizes: &BTreeMap<SegmentId, u64>, at: u64) {
    for (&segment, &size) in sizes {
        let bytes = bytes_in(sums, segment);
        assert!(bytes <= size, "{bytes} of {size} bytes of segment {segment:?} are taken at {at} ns");
    }
}

#[test]
fn occupancy_is_the_sum_of_the_ranges_and_never_more_than_a_segment() {
    for scenario in ["scenarios/training.toml", "scenarios/two-devices.toml", "scenarios/residency/p15-shared.toml"] {
        let (records, _) = run(scenario);
        let (mut sums, mut sizes, mut last) = (BTreeMap::new(), BTreeMap::new(), 0);
        for record in &records {
            match record {
                Record::Adapter(adapter) => {
                    let memory = adapter.segments.iter().filter(|segment| segment.is_memory);
                    sizes.extend(memory.map(|segment| (segment.segment, segment.size)));
                }
                // All changes of one time are one record for each sum.
                Record::Occupancy(of) => {
                    if of.at > last {
                        fits(&sums, &sizes, last);
                        last = of.at;
                    }
                    sums.insert((of.segment, of.process, of.holding), of.bytes);
                }
                _ => {}
            }
        }
        fits(&sums, &sizes, last);
        let ranges = taken(&records);
        let segments: BTreeSet<SegmentId> = ranges.keys().copied().collect();
        for segment in segments {
            let by_sums = bytes_in(&sums, segment);
            let by_ranges: u64 = ranges[&segment].iter().map(|(start, end)| end - start).sum();
            assert_eq!(by_sums, by_ranges, "{scenario}: bytes of segment {segment:?} at the end");
        }
    }
}
