//! Logs of decisions alone, and logs that are compressed.

use std::fs;
use std::io::{BufRead, Read, Write};

use vidmm::event::Event;
use vidmm::{EvictFlags, NumberedEvent};
use vidmm_trace::{Audit, EventsLevel, Invariant::*, LogError, LogFile, LogHeader, LogReader, LogWriter, log};

use crate::log_support::broken::*;
use crate::log_support::*;

fn header(level: EventsLevel) -> LogHeader {
    LogHeader { level, ..LogHeader::new("levels", 1) }
}

fn write(level: EventsLevel, events: &[NumberedEvent]) -> Vec<u8> {
    let mut writer = LogWriter::new(Vec::new(), &header(level));
    events.iter().for_each(|event| writer.event(event));
    writer.finish().expect("memory can be written")
}

fn read(bytes: &[u8]) -> Result<Vec<NumberedEvent>, LogError> {
    LogReader::new(bytes)?.collect()
}

/// The findings in the decisions of a story.
fn findings(events: Vec<Event>) -> Vec<vidmm_trace::AuditFinding> {
    let bytes = write(EventsLevel::Decisions, &numbered(events));
    let reader = LogReader::new(&bytes[..]).expect("it is a log");
    let mut audit = Audit::of(reader.header().level);
    reader.for_each(|event| audit.event(&event.expect("the log is whole")));
    audit.finish()
}

#[track_caller]
fn finds(broken: Broken, invariant: vidmm_trace::Invariant) {
    let found = findings(broken.0);
    assert!(found.iter().any(|finding| finding.invariant == invariant), "{found:?}");
}

#[test]
fn a_log_of_decisions_has_the_same_events_under_the_same_numbers_without_operations() {
    let events = numbered(story());
    let decisions = read(&write(EventsLevel::Decisions, &events)).expect("its numbers may have gaps");
    let right: Vec<NumberedEvent> =
        events.iter().filter(|event| !matches!(event.event, Event::PagingOperation { .. })).cloned().collect();
    assert_eq!(decisions, right);
    assert!(decisions.len() < events.len());
}

#[test]
fn a_log_of_decisions_is_refused_whose_numbers_fall_or_that_has_an_operation() {
    let events = numbered(story());
    let text = String::from_utf8(write(EventsLevel::Decisions, &events)).expect("logs are text");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.swap(3, 4);
    let found = read((lines.join("\n") + "\n").as_bytes()).expect_err("it is out of order");
    assert!(matches!(found, LogError::Gap { line: 5, .. }), "{found}");
    let full = String::from_utf8(write(EventsLevel::Full, &events)).expect("logs are text");
    let found = read(full.replacen("\"full\"", "\"decisions\"", 1).as_bytes()).expect_err("it has operations");
    assert!(matches!(found, LogError::Line { .. }) && found.to_string().contains("no such event"), "{found}");
}

#[test]
fn decisions_that_are_right_have_no_findings() {
    let events = story();
    assert_eq!(findings(events.clone()), []);
    for end in 1..events.len() {
        // Whether a plan was built is said by the rest.
        let mut begun = numbered(events.clone());
        begun.truncate(end);
        let mut audit = Audit::of(EventsLevel::Decisions);
        begun.iter().filter(|event| EventsLevel::Decisions.has(&event.event)).for_each(|event| audit.event(event));
        assert_eq!(audit.finish(), []);
    }
}

/// Places, counts, fences and gates are judged without operations.
#[test]
fn decisions_that_are_wrong_are_found() {
    let broken = || Broken(story());
    finds(broken().remove(evicted(3)), I01);
    finds(broken().insert_before(is(evict(A, EvictFlags::empty(), 1)), evict(A, EvictFlags::empty(), 1)), I07);
    finds(broken().remove(is(Event::Completed { signal: fence(PAGING, 3) })), I13);
    finds(broken().move_before(is(dispatch(2)), is(Event::PlanEntered { plan: 4 })), I06);
}

fn dispatch(submission: u64) -> Event {
    steps::dispatch_of(submission, 4)
}

/// The plan is built by another packet than is said, or its end is not said at all.
#[test]
fn i20_the_end_of_a_plan_is_told_wrongly() {
    let said = || Broken(say_built(story()));
    let of = |plan| move |event: &Event| matches!(*event, Event::PlanBuilt { plan: of, .. } if of == plan);
    said().breaks_nothing();
    said()
        .change(of(3), |event| {
            let Event::PlanBuilt { signal, .. } = event else { unreachable!() };
            signal.fence_id += 1;
        })
        .breaks(I20);
    said().remove(of(3)).breaks(I20);
    said().remove(of(5)).breaks_only(I13);
    said().move_before(of(3), is(Event::PlanEntered { plan: 3 })).breaks(I20);
    let twice = said();
    let again = twice.0[twice.position(of(2))].clone();
    twice.insert_before(is(Event::PlanRetired { plan: 2 }), again).breaks(I20);
}

#[test]
fn a_log_is_compressed_if_its_name_says_so() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let events = numbered(story());
    let mut sizes = Vec::new();
    for name in ["log.jsonl", "log.jsonl.gz"] {
        let path = folder.path().join(name);
        let mut writer = LogWriter::new(LogFile::create(&path).expect("it can be created"), &header(EventsLevel::Full));
        events.iter().for_each(|event| writer.event(event));
        writer.finish().and_then(LogFile::finish).expect("the disk has room");
        let reader = LogReader::new(log::open(&path).expect("it is there")).expect("it is a log");
        assert_eq!(reader.collect::<Result<Vec<_>, _>>().expect("it is whole"), events);
        sizes.push(fs::metadata(&path).expect("it is there").len());
    }
    assert!(sizes[1] * 3 < sizes[0], "{sizes:?}");
    let bytes = fs::read(folder.path().join("log.jsonl.gz")).expect("it is there");
    assert_eq!(bytes[..2], [0x1f, 0x8b], "it is what gzip calls its own");
}

/// A compressed log that is cut is read up to there where that is asked for, and else refused.
#[test]
fn a_compressed_log_that_is_cut_is_damaged() {
    let folder = tempfile::tempdir().expect("a folder for temporary files");
    let path = folder.path().join("log.jsonl.gz");
    let mut file = LogFile::create(&path).expect("it can be created");
    file.write_all(&write(EventsLevel::Full, &numbered(story()))).expect("the disk has room");
    file.finish().expect("the disk has room");
    let bytes = fs::read(&path).expect("it is there");
    fs::write(&path, &bytes[..bytes.len() / 2]).expect("the disk has room");
    let whole = LogReader::new(log::open(&path).expect("it is there")).expect("its header is there");
    assert!(matches!(whole.last(), Some(Err(LogError::Io { .. }))));
    let mut damaged = LogReader::new(log::open(&path).expect("it is there")).expect("its header is there").damaged();
    let read = damaged.by_ref().collect::<Result<Vec<_>, _>>().expect("damage is no error");
    assert!(!read.is_empty() && damaged.damage().is_some());
}

#[test]
fn other_compressions_are_refused_by_name() {
    for name in ["log.zst", "log.jsonl.zstd", "log.xz"] {
        let refused = [LogFile::create(name.as_ref()).map(drop), log::open(name.as_ref()).map(drop)];
        for error in refused.map(|result| result.expect_err("no such form").to_string()) {
            assert!(error.contains(".gz") && error.contains("no other form"), "{error}");
        }
    }
    let mut plain = String::new();
    assert!(log::open("Cargo.toml".as_ref()).expect("it is there").read_to_string(&mut plain).is_ok());
    assert!(log::open("Cargo.toml".as_ref()).expect("it is there").lines().next().is_some());
}
