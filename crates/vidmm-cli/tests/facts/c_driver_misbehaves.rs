//! A driver that lies, hangs, kills, forks and prints at random: `vidmm check` survives it, and names what it did.
//!
//! `examples/drivers/liar` logs each thing before it does it, so the report is compared with what has happened.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::common::c_driver::{bugs, can_build, check, made, with_all_bugs};
use crate::common::{Run, Scratch, workspace};

/// The figures of some runs.
#[derive(Debug, Default)]
struct Survived {
    /// Paging operations that were asked for.
    operations: u64,
    checks: u64,
    /// Processes that the driver has ended, or that had to be.
    ends: u64,
    /// Checks in which the driver has broken the contract, and those of them without a finding.
    with_lies: u64,
    unnamed: Vec<String>,
}

/// A process that has loaded the driver, as the driver's log tells of it.
#[derive(Debug, Default)]
struct Process {
    /// For each adapter the functions that have lied. The first is that of loading.
    adapters: Vec<Vec<String>>,
    /// The rule and the function with which it has ended, if that was the driver's will.
    end: Option<(String, String)>,
}

fn processes(log: &str) -> Vec<Process> {
    let mut processes: Vec<Process> = Vec::new();
    for line in log.lines() {
        let mut words = line.split(' ');
        let (kind, function) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if kind == "entry" {
            processes.push(Process::default());
            continue;
        }
        let process = processes.last_mut().expect("the first line is that of an entry");
        match kind {
            "adapter" => process.adapters.push(Vec::new()),
            "lie" => process.adapters.last_mut().expect("an adapter has started").push(line.to_owned()),
            "odd" => {}
            end => process.end = Some((end.to_owned(), function.to_owned())),
        }
    }
    processes
}

/// The lies that are a failure to start.
const START_FAILS: [&str; 2] = ["lie DxgkDdiAddDevice 0: a failure", "lie DxgkDdiStartDevice 0: a failure"];

/// Whether an outcome is that of a process which has ended, or has not started.
fn is_end(at: usize, outcome: &Value) -> bool {
    let mut rules = found(outcome).map(|found| found["rule"].as_str().unwrap_or_default());
    (at > 0 && outcome["check"] == "start") || rules.any(|rule| ["CRASH", "EXIT", "HANG", "KILL"].contains(&rule))
}

fn found(outcome: &Value) -> impl Iterator<Item = &Value> {
    outcome["found"].as_array().into_iter().flatten()
}

/// Runs `vidmm check` on a driver that misbehaves, and compares its report with what has happened.
fn run(driver: &Path, seed: u64, worlds: u64, every: u64, survived: &mut Survived) {
    let scratch = Scratch::new();
    let log = scratch.path("log");
    let run = Command::new(env!("CARGO_BIN_EXE_vidmm"))
        .arg("check")
        .arg(driver)
        .args(["--seeds", &format!("1..{worlds}"), "--hang", "1", "--max-deaths", "1000000", "--format", "json"])
        .envs([("LIAR_SEED", &*seed.to_string()), ("LIAR_EVERY", &*every.to_string()), ("LIAR_LOG", &*log)])
        .current_dir(workspace())
        .output()
        .expect("it starts");
    assert_eq!(run.status.code(), Some(1), "seed {seed}: {}", String::from_utf8_lossy(&run.stderr));
    let report: Value = serde_json::from_slice(&run.stdout).expect("the report is JSON");
    let outcomes = report["checks"].as_array().expect("there are checks");
    let processes = processes(&std::fs::read_to_string(log).expect("the driver has a log"));
    assert_eq!(report["not_run"], 0, "seed {seed}");
    // A mebibyte a check, and what is said by vidmm.
    assert!(run.stderr.len() < (outcomes.len() << 20) + (1 << 20), "seed {seed}: {} bytes", run.stderr.len());
    survived.checks += outcomes.len() as u64;
    survived.operations += outcomes.iter().filter_map(|outcome| outcome["builds"].as_u64()).sum::<u64>();
    let panics = outcomes.iter().flat_map(found).filter(|found| found["rule"] == "PANIC");
    assert_eq!(panics.collect::<Vec<_>>(), Vec::<&Value>::new(), "seed {seed}");

    let mut outcomes = outcomes.iter().enumerate();
    for (number, process) in processes.iter().enumerate() {
        let mut of_process = Vec::new();
        for (at, outcome) in outcomes.by_ref() {
            of_process.push((at, outcome));
            if is_end(at, outcome) {
                break;
            }
        }
        let end = of_process.last().filter(|&&(at, outcome)| is_end(at, outcome)).map(|&(_, outcome)| outcome);
        let is_played = |&(at, outcome): &(usize, &Value)| {
            outcome["skipped_for_want_of"].is_null() && (at == 0 || outcome["check"] != "start")
        };
        of_process.retain(is_played);
        // The first check starts adapters until each allocation that a start takes has failed once; any other starts one.
        let surplus = process.adapters.len().saturating_sub(1 + of_process.len());
        let mut adapters = process.adapters.iter().skip(1);
        for (at, outcome) in of_process {
            // A start in which an allocation fails may fail.
            let is_told =
                |number: usize, lie: &str| number == 0 || !START_FAILS.iter().any(|&fails| lie.starts_with(fails));
            let lies = adapters.by_ref().take(if at == 0 { 1 + surplus } else { 1 }).enumerate();
            let lies = lies.flat_map(|(number, lies)| lies.iter().filter(move |lie| is_told(number, lie)).cloned());
            let (lies, check) = (Vec::from_iter(lies), outcome["check"].as_str().expect("a check has a name"));
            // A program that is refused for want of memory says nothing of the driver.
            if !lies.is_empty() && !check.starts_with("pool") {
                survived.with_lies += 1;
                if found(outcome).next().is_none() {
                    survived.unnamed.push(format!("seed {seed}, process {number}, {check}: {}", lies.join(", ")));
                }
            }
        }
        let Some((rule, function)) = &process.end else { continue };
        let named = end.into_iter().flat_map(found).any(|found| {
            let message = found["message"].as_str().unwrap_or_default();
            found["rule"] == **rule && message.contains(&format!(" in {function}"))
        });
        assert!(named, "seed {seed}, process {number}: {rule} in {function}, reported as {end:?}");
        survived.ends += 1;
    }
    assert!(outcomes.next().is_none(), "seed {seed}: a check has run in no process");
}

/// Runs seed after seed until so many operations were asked for.
fn survives(wrapped: &str, operations: u64, worlds: u64, every: u64) -> Survived {
    let mut survived = Survived::default();
    let driver: PathBuf = made("liar", &format!("liar-{wrapped}.so"), &[format!("OF={wrapped}")]);
    for seed in 1.. {
        run(&driver, seed, worlds, every, &mut survived);
        if survived.operations >= operations {
            break;
        }
    }
    survived
}

/// Runs `vidmm check` on a mistake of `gpummu` in a world, with or without the programs of the system.
fn planted(bug: &str, has_programs: bool) -> Run {
    let number = bugs("gpummu").iter().position(|name| name == bug).expect("the driver has the mistake");
    let mut command = Command::new(env!("CARGO_BIN_EXE_vidmm"));
    command.arg("check").arg(with_all_bugs("gpummu", "")).args(["--replay", "world-1", "--hang", "1"]);
    command.current_dir(workspace()).env("VIDMM_PLANTED", number.to_string());
    if !has_programs {
        command.env("PATH", "/nonexistent");
    }
    Run::new(format!("{bug}, with programs: {has_programs}"), &command.output().expect("it starts"))
}

/// Without `unshare` too: the supervisor is killed or stopped in place of vidmm, and what the driver starts ends with the check.
#[test]
fn a_driver_reaches_its_supervisor_alone() {
    if !can_build() {
        return;
    }
    let found = [
        ("BUG_PARENT_KILLED", "KILL VIRTUAL_TRANSFER"),
        ("BUG_PARENT_STOPPED", "KILL VIRTUAL_TRANSFER"),
        ("BUG_GROUP_KILLED", "CRASH VIRTUAL_TRANSFER"),
        ("BUG_DAEMON", "PROCESS"),
        ("BUG_FORKS", "PROCESS"),
    ];
    for (bug, key) in found {
        for has_programs in [true, false] {
            let run = planted(bug, has_programs).expect(1);
            assert!(run.stdout.contains(&format!("finding     {key}, in 1 check")), "{run}");
            assert!(has_programs || run.stdout.contains("`unshare` does not work here"), "{run}");
        }
    }
}

#[test]
fn a_library_whose_initialisation_spins_hangs_in_it() {
    if !can_build() {
        return;
    }
    let run = planted("BUG_CONSTRUCTOR_SPINS", true).expect(1);
    assert!(run.stdout.contains("HANG, in 1 check: no answer in 1 s, in LibraryInitialisation"), "{run}");
}

#[test]
fn output_beyond_a_mebibyte_is_left_out_and_said() {
    if !can_build() {
        return;
    }
    let run = planted("BUG_PRINTS", true).expect(0);
    assert!(run.stdout.contains("remark      OUTPUT, in 1 check"), "{run}");
    assert!((1 << 20..(1 << 20) + 4096).contains(&run.stderr.len()), "{} bytes", run.stderr.len());
}

#[test]
fn a_hang_says_which_lock_is_held_and_a_leak_who_allocated() {
    if !can_build() {
        return;
    }
    let hang = planted("BUG_HANG_WITH_LOCK", true).expect(1);
    assert!(hang.stdout.contains(", with a spin lock acquired at +0x"), "{hang}");
    let leak = planted("BUG_CONTEXT_LEAK", true).expect(1);
    assert!(leak.stdout.contains("tag 'GUMM', allocated in DxgkDdiCreateContext"), "{leak}");
}

#[test]
fn the_call_that_takes_the_most_stack_is_told() {
    if !can_build() {
        return;
    }
    let run = check(&with_all_bugs("gpummu", ""), &["--replay", "world-1"]).expect(0);
    assert!(run.stdout.lines().any(|line| line.starts_with("stack       DxgkDdi")), "{run}");
    let deep = planted("BUG_DEEP_STACK", true).expect(1);
    assert!(deep.stdout.contains("STACK, in 1 check: DxgkDdiBuildPagingBuffer takes 3"), "{deep}");
}

/// A small share of the next test.
#[test]
fn a_driver_that_misbehaves_often_is_survived() {
    if !can_build() {
        return;
    }
    for wrapped in ["gpummu", "patching"] {
        let survived = survives(wrapped, 1_000, 4, 100);
        assert!(survived.ends > 0 && survived.with_lies > 0, "{survived:?}");
        assert_eq!(survived.unnamed, Vec::<String>::new(), "{survived:?}");
    }
}

/// `.ci/long` runs it.
#[test]
#[ignore = "takes minutes"]
fn a_million_operations_of_drivers_that_misbehave_are_survived_and_named() {
    for wrapped in ["gpummu", "patching"] {
        let survived = survives(wrapped, 500_000, 300, 1_000);
        println!("{wrapped}: {survived:#?}");
        assert_eq!(survived.unnamed, Vec::<String>::new());
    }
}
