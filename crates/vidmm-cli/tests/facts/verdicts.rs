//! The verdict of a run: a broken rule is a finding and exit status 1, whoever judges, and a wait is told.

use std::process::{Command, Stdio};

use crate::common::{Run, Scratch, shell, steps, vidmm_run};

/// Two kernels in one command buffer, of which the second has no room beside the first: the driver is asked to move pages out.
const MOVES: &str = r#"
[adapter]
addressing-model = "physical"
local-memory = "2 MiB"
slots = 2

[[step]]
create-allocation = "A"
size = "1 MiB"
count = 4

[[step]]
render = "R"
commands = ["write A1@0 A2@1", "split", "write A3@0 A4@1"]
"#;

/// The driver answers busy for ever.
const STAYS_BUSY: &str = "faults = [\"stay-busy@3\"]\n";

/// Checks that a run has a finding of the driver that is named.
#[track_caller]
fn is_found(text: &str) {
    let run = steps(text).expect(1);
    assert!(run.stdout.contains("finding") && run.stdout.contains("BPB-06, U-11"), "{text}\n{run}");
}

#[test]
fn an_adapter_in_error_is_a_finding_under_every_judge() {
    for judge in ["", "judge = \"rules\"\n", "strict = true\n", "judge = \"rules\"\nstrict = true\n"] {
        let text = format!("{STAYS_BUSY}{judge}{MOVES}");
        is_found(&format!("{text}\n[[step]]\nwait = \"idle\"\n"));
        let expected = format!("{text}\n[[step]]\nwait = \"idle\"\n\n[[step]]\ncheck-adapter-error = \"BPB-06\"\n");
        steps(&expected).expect(0);
    }
}

/// A program that is at its end with what it has.
const ENDS: &str = r#"
[adapter]
local-memory = "4 MiB"

[[step]]
create-allocation = "A"
size = "1 MiB"
count = 3

[[step]]
map = "A"

[[step]]
make-resident = "A"

[[step]]
kernel = "writes"
writes = "A"
"#;

/// Each operation of the driver is answered with a status that no document allows, one in each run: while steps are made, while
/// their work ends, and while all that is left is destroyed.
#[test]
fn an_adapter_that_is_in_error_at_any_time_is_a_finding() {
    let scratch = Scratch::new();
    let log = scratch.path("log.jsonl");
    for judge in ["", "judge = \"rules\"\n"] {
        let path = scratch.file("ends.toml", format!("{judge}{ENDS}"));
        let mut num_found = 0;
        for number in 1..=40 {
            let fault = format!("answer-not-supported@{number}");
            let run = vidmm_run(&[&path, "--faults", &fault, "--events", &log]);
            let log = std::fs::read_to_string(&log).expect("there is a log");
            let is_in_error = log.contains("adapter_in_error");
            assert_eq!(
                (run.status, run.stdout.contains("BPB-01")),
                (Some(i32::from(is_in_error)), is_in_error),
                "{run}"
            );
            num_found += u32::from(is_in_error);
        }
        assert!(num_found > 10, "{num_found} runs with `{judge}`");
    }
}

/// The driver asks to be told where an allocation is that engines do not access physically (CRE-03, BPB-51).
#[test]
fn a_violation_that_answers_a_step_is_a_finding_unless_the_step_names_it() {
    let step = "[[step]]\ncreate-allocation = \"A\"\nsize = \"64 KiB\"\nsegments = \"local\"\n\
                explicit-residency-notification = true\n";
    for judge in ["", "judge = \"rules\"\n"] {
        for (expect, status) in [("violation", 0), ("any", 1), ("ok", 1)] {
            steps(&format!("{judge}{step}expect = \"{expect}\"\n")).expect(status);
        }
        steps(&format!("{judge}{step}")).expect(1);
    }
}

/// The list of the driver puts a device in error, and no adapter (U-45).
#[test]
fn a_patch_location_list_that_breaks_a_rule_is_a_finding_unless_the_step_names_it() {
    for fault in ["reverse-split-offsets@1", "slot-beyond-table@1"] {
        let text = |judge: &str, expect: &str| format!("{judge}faults = [\"{fault}\"]\n{MOVES}{expect}");
        for judge in ["", "judge = \"rules\"\n"] {
            for expect in ["", "expect = \"any\"\n", "expect = \"ok\"\n"] {
                steps(&text(judge, expect)).expect(1);
            }
        }
        steps(&text("judge = \"rules\"\n", "expect = \"patch-location-list\"\n")).expect(0);
    }
}

/// The driver reports too few bytes of a paging buffer, so the engine meets an illegal command (FLT-23).
#[test]
fn a_paging_buffer_with_an_illegal_command_is_a_finding_under_every_judge() {
    for judge in ["", "judge = \"rules\"\n"] {
        let run = steps(&format!("{judge}faults = [\"advance-less@1\"]\n{ENDS}")).expect(1);
        assert!(run.stdout.contains("finding"), "{run}");
    }
}

#[test]
fn workloads_find_an_adapter_in_error() {
    for fault in ["answer-not-supported@1", "answer-not-supported@40", "overrun-dma-buffer@2"] {
        for scenario in ["scenarios/textures.toml", "scenarios/cyclic.toml"] {
            let run = vidmm_run(&[scenario, "--scale", "64", "--faults", fault]).expect(1);
            assert!(
                ["finding     BPB-01", "finding     BPB-02"].iter().any(|words| run.stdout.contains(words)),
                "{fault}: {run}"
            );
        }
    }
}

#[test]
fn steps_that_show_a_mistake_must_find_it() {
    let scratch = Scratch::new();
    let shown = format!("shows = \"BPB-06, U-11\"\n{STAYS_BUSY}{MOVES}");
    let held = vidmm_run(&[&scratch.file("shown.toml", &shown), "--seeds", "1..3"]).expect(0);
    assert!(held.stdout.contains("held"), "{held}");
    let other =
        vidmm_run(&[&scratch.file("other.toml", shown.replace("BPB-06", "BPB-07")), "--seeds", "1..1"]).expect(1);
    assert!(other.stdout.contains("BPB-06"), "{other}");
    let nothing = vidmm_run(&[&scratch.file("none.toml", shown.replace(STAYS_BUSY, "")), "--seeds", "1..1"]).expect(1);
    assert!(nothing.stdout.contains("nothing was found"), "{nothing}");
}

/// A kernel runs for three seconds, and the model GPU does not yield within a kernel.
const LONG_KERNEL: &str = r#"
[adapter]
local-memory = "64 MiB"

[adapter.tdr]
delay = "60 s"

[[step]]
create-process = "Q"

[[step]]
create-device = "E"
process = "Q"

[[step]]
create-allocation = "first"
size = "40 MiB"
device = "E"

[[step]]
map = "first"

[[step]]
make-resident = "first"

[[step]]
kernel = "long"
writes = "first"
nanoseconds = 3_000_000_000

[[step]]
create-allocation = "second"
size = "40 MiB"

[[step]]
map = "second"

[[step]]
make-resident = "second"
flags = ["cant-trim-further"]

[[step]]
kernel = "waits"
writes = "second"

[[step]]
wait = "idle"
"#;

#[test]
fn a_device_that_waits_for_its_turn_is_told_in_the_last_lines() {
    let run = steps(LONG_KERNEL).expect(0);
    let last = run.stdout.lines().last().unwrap_or_default();
    assert_eq!(last, "waited      D waited 3.000 s for its turn, from 0.000 s on, behind E", "{run}");
    let short = steps(&LONG_KERNEL.replace("3_000_000_000", "900_000_000")).expect(0);
    assert!(!short.stdout.contains("for its turn"), "{short}");
}

#[test]
fn a_page_of_a_run_names_the_policy_that_chose_a_victim() {
    let scratch = Scratch::new();
    let (log, page) = (scratch.path("log.jsonl"), scratch.path("page.html"));
    for (policy, words) in
        [("lru", "priority and age (lru)"), ("predict", "predict chose it"), ("clock", "clock chose it")]
    {
        vidmm_run(&["scenarios/cyclic.toml", "--scale", "64", "--policy", policy, "--events", &log]).expect(0);
        shell(&format!("vidmm report {log} --output {page}")).expect(0);
        let page = std::fs::read_to_string(&page).expect("there is a page");
        assert!(page.contains(words), "{policy}");
        let explained = shell(&format!("vidmm explain {log} 0")).expect(0);
        assert!(!explained.stdout.contains("its room was wanted") || explained.stdout.contains(words), "{explained}");
    }
}

/// The seed of a world whose drawn fault puts the adapter in error before the first step.
const OVER_AT_ONCE: u64 = 23;

#[test]
fn a_world_that_is_over_at_once_is_said_to_be_not_judged() {
    for seeds in [format!("--seed {OVER_AT_ONCE}"), format!("--seeds {OVER_AT_ONCE}..{OVER_AT_ONCE}")] {
        let run = shell(&format!("vidmm sim {seeds} --steps 50")).expect(0);
        assert!(run.stdout.contains("not judged  1 world: a fault that was drawn"), "{run}");
    }
}

#[cfg(unix)]
#[test]
fn an_interrupted_campaign_prints_the_results_so_far() {
    for arguments in [&["--seeds", "1..1000000"][..], &["--seed", "1", "--steps", "100000000"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vidmm"));
        command.arg("sim").args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("it starts");
        std::thread::sleep(std::time::Duration::from_secs(3));
        shell(&format!("kill -INT {}", child.id())).expect(0);
        let run = Run::new(format!("{arguments:?}"), &child.wait_with_output().expect("it ends"));
        assert_eq!(run.status, Some(130), "{run}");
        assert!(run.stdout.contains("interrupted after ") && run.stdout.contains("found       0"), "{run}");
    }
}
