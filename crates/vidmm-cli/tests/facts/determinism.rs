//! One seed, one run: the same events with the same numbers, byte for byte.
//!
//! No decision of a run depends on the build. `scenarios.rs` checks the texts beside the scenarios with assertions on;
//! compare them with the output of a release build to see it.

use std::fs;

use crate::common::{Scratch, shell, summary, vidmm_run};
use serde_json::Value;

/// Small variants of the scenarios: one has two processes, and one has pages whose words all differ.
const RUNS: [&[&str]; 4] = [
    &["scenarios/training.toml", "--scale", "64"],
    &["scenarios/serving.toml", "--scale", "64", "--seed", "7"],
    &["scenarios/textures.toml", "--scale", "64", "--ahead", "16"],
    &["scenarios/cyclic.toml", "--scale", "64", "--content", "ramp"],
];

/// Runs with these arguments and more, and returns the output.
fn run(arguments: &[&str], more: &[&str]) -> String {
    vidmm_run(&[arguments, more].concat()).expect(0).stdout
}

#[test]
fn equal_seeds_give_equal_bytes() {
    let scratch = Scratch::new();
    for arguments in RUNS {
        let [first, second] = ["first", "second"].map(|name| {
            let (log, figures) = (scratch.path(&format!("{name}.jsonl")), scratch.path(&format!("{name}.json")));
            let printed = run(arguments, &["--events", &log, "--summary", &figures]);
            (printed, fs::read(log).expect("there is a log"), fs::read(figures).expect("there is a summary"))
        });
        // Not `assert_eq`: a log has megabytes.
        assert!(first == second, "{arguments:?}");
        assert!(first.1.len() > 100_000, "{arguments:?}: the log is a whole run's");
    }
}

#[test]
fn recording_events_changes_nothing() {
    let scratch = Scratch::new();
    let (log, figures) = (scratch.path("log.jsonl"), scratch.path("figures.json"));
    for arguments in RUNS {
        let counted = run(arguments, &["--summary", &figures]);
        let counted = (counted, summary(&figures));
        let recorded = run(arguments, &["--summary", &figures, "--events", &log]);
        assert_eq!(counted, (recorded, summary(&figures)), "{arguments:?}");
        let lines = fs::read_to_string(&log).expect("there is a log").lines().count();
        assert_eq!(
            counted.1["events"],
            Value::from(lines - 2),
            "{arguments:?}: a line each, between header and trailer"
        );
    }
}

#[test]
fn another_seed_is_another_run() {
    let scratch = Scratch::new();
    let [first, second] = ["1", "2"].map(|seed| {
        let log = scratch.path(seed);
        run(&["scenarios/serving.toml", "--scale", "64", "--seed", seed], &["--events", &log]);
        let mut events: Vec<_> =
            fs::read_to_string(log).expect("there is a log").lines().skip(1).map(str::to_owned).collect();
        events.pop();
        events
    });
    assert!(first != second);
}

/// The header of a log says how to repeat the run, and its trailer whether that was done.
#[test]
fn a_run_is_repeated_from_the_header_of_its_log() {
    let scratch = Scratch::new();
    let (first, again) = (scratch.path("first.jsonl"), scratch.path("again.jsonl"));
    let ends = |path: &str| {
        let text = fs::read_to_string(path).expect("there is a log");
        let line = |line: Option<&str>| serde_json::from_str::<Value>(line.expect("it has lines")).expect("it is JSON");
        (line(text.lines().next()), line(text.lines().last()))
    };
    for arguments in [
        &["scenarios/textures.toml", "--scale", "64", "--seed", "7", "--faults", "skip-tlb-flush@3"][..],
        &["scenarios/residency/demotion-and-return.toml", "--seed=3"],
        &["--scale", "128", "--ahead", "3", "--local-memory", "60%"],
    ] {
        vidmm_run(&[arguments, &["--events", &first]].concat());
        let (header, trailer) = ends(&first);
        let command = header["settings"]["command"].as_str().expect("it names its command");
        shell(&format!("{command} --events {again}"));
        assert_eq!(ends(&again), (header.clone(), trailer), "{arguments:?}: {command}");
        let inputs = header["settings"].as_object().expect("settings").keys().filter(|key| key.starts_with("input "));
        assert_eq!(inputs.count(), usize::from(arguments[0].ends_with(".toml")), "{header}");
    }
}
