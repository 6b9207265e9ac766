//! `vidmm explain` tells the story of an allocation, from the log of a run.
//!
//! The expected texts stand in `tests/facts/expected`; `UPDATE_EXPECTED=1 cargo test -p vidmm-cli --test facts explain` makes them again.

use std::fs;
use std::path::Path;

use vidmm::{Event, NumberedEvent};
use vidmm_trace::{Explanation, Explanations, LogReader, log};

use crate::common::{Run, Scratch, shell, vidmm_run};

/// Runs a scenario and explains an allocation of it.
fn explained(scenario: &str, allocation: &str) -> String {
    let scratch = Scratch::new();
    let log = scratch.path("log.jsonl");
    vidmm_run(&[scenario, "--events", &log]).expect(0);
    explain(&log, allocation).expect(0).stdout
}

fn explain(log: &str, allocation: &str) -> Run {
    shell(&format!("vidmm explain '{log}' '{allocation}'"))
}

/// Compares a text with the one that stands in `tests/facts/expected`.
#[track_caller]
fn is_as_expected(name: &str, text: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/facts/expected").join(name);
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("the folder can be made");
        fs::write(&path, text).expect("the text can be written");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(text, expected, "{name} is something else; if that is meant, set UPDATE_EXPECTED=1 and run again");
}

#[test]
fn an_eviction_and_a_return_are_told_with_the_allocation_that_took_the_room() {
    is_as_expected("explain-demotion.txt", &explained("scenarios/notification/p21-demotion.toml", "allocation 0"));
}

#[test]
fn the_reason_of_a_texture_s_move_is_told() {
    is_as_expected("explain-moved.txt", &explained("scenarios/splitting/p37-reprogrammed-may-move.toml", "1"));
}

#[test]
fn the_end_of_a_portion_is_told_with_its_reason() {
    let text = explained("scenarios/splitting/p34-slot-replaced.toml", "1");
    assert!(text.contains("It did not fit beside what portion 1 of DMA buffer 1"), "{text}");
}

#[test]
fn repetitions_are_told_once() {
    let text = explained("scenarios/cyclic.toml", "3");
    assert!(text.contains(" more times, up to event "), "{text}");
    let asked = text.matches("asked for it to be resident").count();
    assert!(asked < 20, "of more than 100 rounds {asked} are told one by one: {text}");
}

/// Compares the stories that are read at once with those that are read one by one.
#[track_caller]
fn all_are_told_alike(command: &str) {
    let scratch = Scratch::new();
    let path = scratch.path("log.jsonl");
    shell(&format!("vidmm {command} --events '{path}'"));
    let log = log::open(Path::new(&path)).expect("the run wrote it");
    let log = LogReader::new(log).expect("it is a log").damaged();
    let events: Vec<NumberedEvent> = log.map(|event| event.expect("damage ends it")).collect();
    let mut all = Explanations::new(usize::MAX);
    events.iter().for_each(|event| all.event(event));
    let mut told = 0;
    for (allocation, text) in all.finish() {
        let mut one = Explanation::new(allocation);
        events.iter().for_each(|event| one.event(event));
        assert_eq!(text, one.finish().expect("the log has it"), "{command}: {allocation}");
        told += 1;
    }
    let created = events.iter().filter(|event| matches!(event.event, Event::AllocationCreated { .. })).count();
    assert_eq!(told, created, "{command}: all have a story");
}

#[test]
fn stories_read_at_once_are_those_read_one_by_one() {
    for scenario in [
        "cyclic",
        "two-devices",
        "recovery",
        "splitting/p34-slot-replaced",
        "splitting/p37-reprogrammed-may-move",
        "notification/integrated-training",
        "residency/p55-offer-and-reclaim",
        "residency/p60-power",
        "faults/p42-not-mapped",
    ] {
        all_are_told_alike(&format!("run scenarios/{scenario}.toml"));
    }
    for seed in 1..=12 {
        all_are_told_alike(&format!("sim --seed {seed} --steps 600"));
    }
}

#[test]
fn an_unknown_name_is_refused_with_the_known_ones() {
    let scratch = Scratch::new();
    let log = scratch.path("log.jsonl");
    vidmm_run(&["scenarios/notification/p21-demotion.toml", "--events", &log]).expect(0);
    let unknown = explain(&log, "99").expect(2);
    assert!(unknown.stderr.contains("the log has no allocation 99; it has 2, with numbers up to 1"), "{unknown}");
    let no_name = explain(&log, "A").expect(2);
    assert!(no_name.stderr.contains("`A` does not name an allocation"), "{no_name}");
}

#[test]
fn a_file_that_is_no_log_is_refused() {
    let scratch = Scratch::new();
    let missing = explain(&scratch.path("nothing.jsonl"), "0").expect(2);
    assert!(missing.stderr.contains("cannot read"), "{missing}");
    let damaged = explain(&scratch.file("damaged.jsonl", "{}\n"), "0").expect(2);
    assert!(damaged.stderr.contains("not an event log"), "{damaged}");
}
