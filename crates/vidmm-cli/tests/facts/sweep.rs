//! Many seeds: `vidmm run FOLDER --seeds A..B`.

use std::fs;

use crate::common::{Run, Scratch, shell, summary, vidmm_run, workspace};

/// A kernel writes, and another reads the content when it has been away.
const STEPS: &str = r#"
[adapter]
local-memory = "64 MiB"

[[step]]
create-allocation = "A"
size = "1 MiB"

[[step]]
map = "A"

[[step]]
make-resident = "A"
expect = "pending"

[[step]]
kernel = "writes"
writes = "A"

[[step]]
evict = "A"

[[step]]
make-resident = "A"

[[step]]
check-content = "A"
"#;

/// The number of objects that the driver creates in [`STEPS`]: a process, two contexts, an allocation.
const CREATIONS: u64 = 4;

const WORKLOAD: &str = r#"
[workload]
kind = "cyclic-layers"
layers = 8
layer-bytes = "2 MiB"
hot-buffers = 1
hot-bytes = "1 MiB"
passes = 2
"#;

fn swept(path: &str, seeds: &str) -> Run {
    vidmm_run(&[path, "--seeds", seeds])
}

/// The word at the head of the line about a scenario.
fn verdict<'a>(run: &'a Run, name: &str) -> &'a str {
    let line = run.stdout.lines().find(|line| line.contains(name) && !line.starts_with("replay"));
    line.and_then(|line| line.split_whitespace().next()).unwrap_or_else(|| panic!("no line about {name}: {run}"))
}

#[test]
fn all_scenarios_below_a_folder_are_run() {
    let scratch = Scratch::new();
    fs::create_dir(scratch.path("below")).expect("the folder can be made");
    scratch.file("workload.toml", WORKLOAD);
    scratch.file("below/steps.toml", STEPS);
    scratch.file("notes.txt", "no scenario");
    let run = swept(&scratch.path(""), "1..6").expect(0);
    assert_eq!([verdict(&run, "workload.toml"), verdict(&run, "steps.toml")], ["held", "held"], "{run}");
    assert!(!run.stdout.contains("notes") && run.stderr.is_empty(), "{run}");
    assert!(run.stdout.contains("2 of 2 scenarios held for 6 seeds each"), "{run}");
}

#[test]
fn the_lowest_seed_that_fails_is_told_and_can_be_replayed() {
    let scratch = Scratch::new();
    let refused = scratch.file("it's refused.toml", format!("fault-at-seed = \"no-memory\"\n{STEPS}"));
    scratch.file("right.toml", STEPS);
    let run = swept(&scratch.path(""), "4..60").expect(1);
    assert_eq!([verdict(&run, "refused.toml"), verdict(&run, "right.toml")], ["found", "held"], "{run}");
    assert!(run.stdout.contains("seed 4: ") && run.stdout.contains("1 of 2 scenarios held"), "{run}");
    let replay = run.stdout.lines().find_map(|line| line.strip_prefix("replay ")).expect("a replay command").trim();
    let again = shell(replay).expect(1);
    let finding = run.stdout.split_once("seed 4: ").and_then(|(_, rest)| rest.lines().next()).expect("a finding");
    assert!(again.stdout.contains(finding), "no `{finding}` in {again}");
    // Behind the last occasion there is nothing to refuse.
    swept(&refused, &format!("{}..60", CREATIONS + 1)).expect(0);
    for seed in 1..=CREATIONS {
        swept(&refused, &format!("{seed}..{seed}")).expect(1);
    }
}

/// The seed of the scenario itself keeps the machine as it is written; another one makes it otherwise fast.
#[test]
fn a_seed_draws_the_speed_of_the_machine() {
    let scratch = Scratch::new();
    let steps = scratch.file("steps.toml", format!("seed = 3\n{STEPS}"));
    let time = |arguments: &[&str]| {
        let figures = scratch.path("figures.json");
        vidmm_run(&[&[&*steps, "--summary", &figures], arguments].concat()).expect(0);
        summary(&figures)["virtual_ns"].as_u64().expect("a number")
    };
    let own = time(&[]);
    assert_eq!(time(&["--seed", "3"]), own);
    let others: Vec<u64> = ["1", "2", "4", "5"].iter().map(|seed| time(&["--seed", seed])).collect();
    assert!(others.iter().all(|&other| other != own), "{own}: {others:?}");
    assert_eq!(time(&["--seed", "4"]), others[2], "it follows from the seed");
}

#[test]
fn without_its_trace_a_scenario_is_skipped() {
    let scratch = Scratch::new();
    scratch.file("traced.toml", "workload.trace = \"absent.txt\"\n");
    scratch.file("steps.toml", STEPS);
    let run = swept(&scratch.path("."), "1..2").expect(0);
    assert_eq!((verdict(&run, "traced.toml"), verdict(&run, "steps.toml")), ("skipped", "held"));
    assert!(run.stdout.contains("absent.txt") && run.stdout.contains("1 of 1 scenario held"), "{run}");
    assert!(run.stdout.contains("1 skipped"), "{run}");
}

/// A scenario that shows how a mistake is found must have the finding, with these words.
#[test]
fn a_problem_to_be_shown_must_be_found() {
    let scratch = Scratch::new();
    let right = swept(&scratch.file("right.toml", format!("shows = \"anything\"\n{WORKLOAD}")), "1..2").expect(1);
    assert!(right.stdout.contains("nothing was found, but `anything` must be"), "{right}");
    swept("scenarios/clients-mixed-bug.toml", "2..3").expect(0);
    let text = fs::read_to_string(workspace().join("scenarios/clients-mixed-bug.toml")).expect("it is there");
    let other = scratch.file("other.toml", text.replace("shows = \"the client must", "shows = \"nobody must"));
    let run = swept(&other, "2..2").expect(1);
    assert!(run.stdout.contains("page fault: "), "{run}");
}

#[test]
fn options_of_one_run_are_refused() {
    for arguments in [
        &["scenarios/training.toml", "--seeds", "1..2", "--seed", "1"][..],
        &["scenarios/training.toml", "--seeds", "1..2", "--events", "log.jsonl"],
        &["scenarios/training.toml", "--seeds", "2..1"],
        &["scenarios/training.toml", "--jobs", "2"],
        &["--seeds", "1..2"],
        &["no/such/folder", "--seeds", "1..2"],
    ] {
        let run = vidmm_run(arguments).expect(2);
        assert!(run.stderr.starts_with("error: ") && run.stdout.is_empty(), "{run}");
    }
}
