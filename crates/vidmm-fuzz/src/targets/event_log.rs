//! Event logs: any bytes are a log, or are refused; and any events can be audited and explained.

use std::collections::BTreeMap;
use std::io::Cursor;

use vidmm::{AllocationId, Event, NumberedEvent};
use vidmm_trace::{Audit, EventsLevel, Explanation, Explanations, FaultReporter, LogHeader, LogReader, LogWriter};
use vidmm_view::report::Report;
use vidmm_view::timeline::Timeline;

use super::{Target, calls, patch_lists};
use crate::random::Random;

pub const TARGET: Target = Target { name: "event_log", run, seeds, words: WORDS, max_len: 1536 };

const WORDS: &[&str] = &[
    "\"number\":",
    "\"at\":",
    "\"event\":",
    "\"allocation\":",
    "\"device\":",
    "\"process\":",
    "\"plan\":",
    "\"size\":",
    "\"offset\":",
    "0",
    "1",
    "4294967296",
    "18446744073709551615",
    "null",
    "[]",
    "{}",
    "true",
    ",",
    "\n",
    "\"adapter_restarted\"",
    "\"powered_down\"",
];

/// The schema, which shows a line of each kind.
const SCHEMA: &str = include_str!("events.md");

/// The lines around the first events of each kind in sequences of calls, on adapters with GPU virtual addresses and
/// without; and those of the schema.
fn seeds() -> Vec<Vec<u8>> {
    let (mut seeds, mut kinds, mut random) = (Vec::new(), BTreeMap::new(), Random::new(1));
    for number in 0..80 {
        let bytes = random.bytes(calls::TARGET.max_len);
        let events = if number % 4 == 0 { patch_lists::events(&bytes) } else { calls::events(&bytes) };
        let log = written(events);
        let lines: Vec<&str> = log.lines().collect();
        for (at, line) in lines.iter().enumerate().skip(1) {
            let seen = kinds.entry(kind(line)).or_insert(0);
            *seen += 1;
            if *seen <= 2 {
                let around = &lines[at.saturating_sub(3).max(1)..(at + 3).min(lines.len())];
                seeds.push(format!("{}\n{}\n", lines[0], around.join("\n")).into_bytes());
            }
        }
    }
    let shown: Vec<&str> = SCHEMA.lines().filter(|line| line.starts_with("{\"number\":")).collect();
    seeds.extend(shown.chunks(3).map(|lines| lines.join("\n").into_bytes()));
    seeds.retain(|seed| seed.len() <= TARGET.max_len);
    seeds
}

fn written(events: Vec<Event>) -> String {
    let mut log = LogWriter::new(Vec::new(), &LogHeader::new("fuzz", 1));
    for (number, event) in (1..).zip(events) {
        log.event(&NumberedEvent { number, at: 0, occurred_at: None, event });
    }
    String::from_utf8(log.finish().expect("memory takes it")).expect("a log is text")
}

/// The name that a line has for its event.
fn kind(line: &str) -> String {
    let named = line.split_once("\"event\":\"").and_then(|(_, rest)| rest.split_once('"'));
    named.map_or_else(String::new, |(kind, _)| kind.to_owned())
}

fn run(data: &[u8]) {
    read_whole(data);
    // The order and the numbers of events are no part of their form, and most mistakes are in one line.
    let events =
        data.split(|&byte| byte == b'\n').filter_map(|line| serde_json::from_slice::<NumberedEvent>(line).ok());
    tell((1..).zip(events).map(|(number, event)| NumberedEvent { number, ..event }));
}

/// As a log: read to its end, or to the first error. The events that were read are written and read as the same.
fn read_whole(data: &[u8]) {
    let reader = match LogReader::new(Cursor::new(data)) {
        Ok(reader) => reader,
        Err(error) => return assert!(error.to_string().len() > 10, "a refusal without a word"),
    };
    let mut copy = LogWriter::new(Vec::new(), reader.header());
    let mut events = Vec::new();
    for event in reader {
        match event {
            Ok(event) => {
                copy.event(&event);
                events.push(event);
            }
            Err(error) => assert!(error.to_string().len() > 10, "a refusal without a word"),
        }
    }
    let copy = copy.finish().expect("memory takes it");
    let mut log = LogReader::new(Cursor::new(&copy[..])).expect("a log that was written is read");
    let report = Report::of(&mut log).expect("what was written is read");
    report.write(&mut std::io::sink()).expect("a page of any log is written");
    let again: Result<Vec<_>, _> =
        LogReader::new(Cursor::new(&copy[..])).expect("a log that was written is read").collect();
    assert_eq!(again.expect("what was written is read"), events);
}

fn tell(events: impl Iterator<Item = NumberedEvent>) {
    let mut audits = [EventsLevel::Full, EventsLevel::Decisions].map(Audit::of);
    let mut reporter = FaultReporter::new();
    let (mut timeline, mut all) = (Timeline::new(), Explanations::new(100));
    let mut explanations = [0, 1, 1 << 32].map(|bits| Explanation::new(AllocationId::from_bits(bits)));
    for event in events {
        audits.iter_mut().for_each(|audit| audit.event(&event));
        reporter.see(&event);
        timeline.event(&event).for_each(drop);
        all.event(&event);
        explanations.iter_mut().for_each(|explanation| explanation.event(&event));
    }
    audits.into_iter().for_each(|audit| _ = audit.finish());
    _ = reporter.take_reports();
    timeline.finish().for_each(drop);
    all.finish().for_each(drop);
    for explanation in explanations {
        _ = explanation.finish();
    }
}
