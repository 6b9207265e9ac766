//! Faults, from outside: an innocent process reads right pages whatever goes wrong, and an unexpected fault is a
//! finding.

use std::fs;

use crate::common::{Run, Scratch, summary, vidmm_run, workspace};
use serde_json::json;

/// The text of a scenario with one of its parts replaced.
#[track_caller]
fn changed(scenario: &str, from: &str, to: &str) -> String {
    let text = fs::read_to_string(workspace().join("scenarios").join(scenario)).expect("there is the scenario");
    assert!(text.contains(from), "{scenario} has no {from:?}");
    text.replacen(from, to, 1)
}

/// Runs a scenario that is in no file.
fn run(text: &str) -> Run {
    let scratch = Scratch::new();
    vidmm_run(&[&scratch.file("scenario.toml", text)])
}

/// The figures of the desktop that recovers, with other faults, without the number of devices in error.
fn desktop_with(fault: &str) -> serde_json::Value {
    let scratch = Scratch::new();
    let figures = scratch.path("figures.json");
    let without_checks = changed("recovery.toml", "[[check]]", "[[not-a-check]]");
    let without_checks = without_checks.split("\n[[not-a-check]]").next().expect("there is the rest").to_owned();
    // Where each reset of an engine, or each request to yield, becomes a reset of the adapter, more of these are allowed.
    let limit = if ["lie-about-engine-reset", "ignore-preempt"].contains(&fault) {
        "\n[adapter.tdr]\nlimit-count = 10\n"
    } else {
        ""
    };
    let without_checks = without_checks + limit;
    let scenario = scratch.file("recovery.toml", without_checks);
    let run = vidmm_run(&[&scenario, "--faults", fault, "--summary", &figures]);
    let summary = summary(&figures);
    let held = summary["findings"] == json!([]);
    assert_eq!(run.status, Some(i32::from(!held)), "{run}");
    assert_eq!((&summary["pages_wrong"], &summary["system_pages_wrong"]), (&json!(0), &json!(0)), "{run}");
    summary
}

#[test]
fn pages_are_right_whatever_goes_wrong() {
    let faults = [
        "hang-packet@500",
        "hang-paging-buffer@200",
        "forge-page-fault@700",
        "forge-paging-fault@100",
        "lie-about-engine-reset",
        "fail-engine-reset",
        "ignore-preempt",
        "lose-interrupt@500",
        "delay-interrupt@300",
        "repeat-interrupt",
        "forge-interrupt",
        "swap-interrupts",
        "forge-status",
        "hide-faulted-fence",
        "require-adapter-reset",
        "garble-faulted-fence",
    ];
    for fault in faults {
        let summary = desktop_with(fault);
        assert_eq!(summary["findings"], json!([]), "{fault}");
        let resets = ["engine_resets", "adapter_resets"].map(|name| summary[name].as_u64().expect("a number"));
        assert!(resets.iter().sum::<u64>() >= 4, "{fault}: {resets:?}");
    }
}

#[test]
fn an_adapter_that_stops_for_good_is_a_finding() {
    for (fault, words) in [
        ("ignore-engine-reset", "FLT-30"),
        ("fail-engine-reset,fail-restart", "FLT-32"),
        ("report-fatal-error", "FLT-10"),
        ("hang-paging-buffer", "FLT-31"),
    ] {
        let summary = desktop_with(fault);
        assert_eq!(summary["findings"].as_array().map(Vec::len), Some(1), "{fault}");
        let rule = summary["findings"][0]["rule"].as_str().unwrap_or_default();
        assert!(rule.starts_with(words), "{fault}: {rule}");
    }
}

#[test]
fn devices_of_processes_that_do_not_recover_must_not_be_in_error() {
    let text = changed("recovery.toml", "band = \"dwm\"\nrecovers = true", "band = \"dwm\"");
    let run = run(&text).expect(1);
    assert!(run.stdout.contains("finding     compositor: device 0 is in error"), "{run}");
}

#[test]
fn a_device_in_error_is_told_with_the_work_of_that_time() {
    let run = vidmm_run(&["--faults", "forge-page-fault@30"]).expect(1);
    for words in
        ["fault       Device 0", "The nearest above: allocation 0", "Under way on engine 1", "finding     page fault"]
    {
        assert!(run.stdout.contains(words), "no {words:?}: {run}");
    }
}

#[test]
fn the_faults_of_a_scenario_are_checked() {
    let wrong = [
        (
            "faults/p43-not-resident.toml",
            "reason = \"page-fault\"",
            "reason = \"engine-timeout\"",
            "`engine-timeout` was expected",
        ),
        ("faults/p43-not-resident.toml", "check-error = \"D\"", "check-error = \"E\"", "E is not in error"),
        ("faults/p43-not-resident.toml", "engines = 1", "engines = 2", "engines were reset 1 times"),
        (
            "faults/p43-not-resident.toml",
            "reads = \"A\"\nexpect = \"page-fault\"",
            "reads = \"A\"",
            "kernel wrong read 0x200000",
        ),
        (
            "faults/packet-not-known.toml",
            "reads = \"A\"\nexpect = \"page-fault\"",
            "reads = \"A\"",
            "kernel wrong read 0x200000",
        ),
        (
            "faults/packet-not-known.toml",
            "kernel = \"next\"\nreads = \"B\"",
            "kernel = \"next\"\ndevice = \"D\"\nexpect = \"page-fault\"",
            "kernel next was aborted for the page fault of another kernel",
        ),
        (
            "faults/page-fault-misreported.toml",
            "reads = \"A\"",
            "reads = \"A\"\nexpect = \"page-fault\"",
            "kernel wrong was aborted, since D is in error: its work ran for too long",
        ),
        (
            "faults/p43-not-resident.toml",
            "[adapter]",
            "faults = [\"report-fatal-error\"]\n[adapter]",
            "D itself is not in error; the adapter is: FLT-10",
        ),
        ("faults/p45-hang.toml", "[[step]]\ncheck-error = \"D\"\nreason = \"engine-timeout\"\n", "", "D is in error"),
        ("faults/p46-too-many.toml", "\"FLT-31\"", "\"FLT-10\"", "`FLT-10` was expected"),
        (
            "faults/p46-too-many.toml",
            "[[step]]\ncheck-adapter-error = \"FLT-31\"\n",
            "",
            "FLT-31: the adapter was reset 5 times",
        ),
        (
            "faults/p47-twice.toml",
            "\"had ended before\"",
            "\"it was never given\"",
            "told nothing of `it was never given`",
        ),
    ];
    for (scenario, from, to, words) in wrong {
        let run = run(&changed(scenario, from, to)).expect(1);
        assert!(run.stdout.contains(words), "no {words:?}: {run}");
    }
}

#[test]
fn memory_that_is_used_again_without_a_flush_is_found() {
    let run = vidmm_run(&["scenarios/faults/p58-flush-rule.toml", "--faults", "skip-tlb-flush"]).expect(1);
    assert!(run.stdout.contains("kernel late read a wrong page"), "{run}");
}

#[test]
fn half_of_a_misbehaviour_is_refused() {
    for (from, words) in
        [("every = \"3 s\"", "does so `every` so often"), ("misbehaves = \"page-fault\"", "say what it does")]
    {
        let run = run(&changed("recovery.toml", from, "")).expect(2);
        assert!(run.stderr.contains(words), "no {words:?}: {run}");
    }
}

/// Work that writes an allocation while the driver makes this mistake.
fn with_fault(fault: &str, expect: &str) -> Run {
    run(&format!(
        r#"
faults = ["{fault}"]

[[step]]
create-allocation = "A"
size = "64 KiB"
{expect}

[[step]]
wait = "idle"
"#
    ))
}

#[test]
fn a_run_that_shows_a_mistake_is_not_said_to_show_none() {
    let note = "nothing that was checked shows the mistakes made on purpose";
    let hidden = with_fault("skip-tlb-flush", "").expect(0);
    assert!(hidden.stdout.contains(note), "{hidden}");
    let refused = with_fault("fail-commit@1", "expect = \"any\"").expect(0);
    assert!(!refused.stdout.contains(note), "the host had no memory: {refused}");
}

#[test]
fn steps_go_on_when_the_adapter_is_in_error_and_their_refusals_are_judged() {
    let run = vidmm_run(&["scenarios/faults/p50-any-operation.toml"]).expect(1);
    assert!(run.stdout.contains("the driver answers 0xc00000bb") && run.stdout.contains("17 of 17 steps"), "{run}");
}

#[test]
fn a_fault_at_an_address_that_is_in_place_says_so() {
    let run = vidmm_run(&["--faults", "skip-tlb-flush"]).expect(1);
    assert!(run.stdout.contains("the manager has that in place, so the GPU saw another entry"), "{run}");
    assert!(!run.stdout.contains("which is not mapped"), "{run}");
}

#[test]
fn a_world_in_which_nobody_read_a_page_is_said_to_be_not_judged() {
    let sim = crate::common::shell("vidmm sim --seeds 1..3 --steps 1").expect(0);
    assert!(sim.stdout.contains("not judged  3 worlds, but for the event log: nobody read a page"), "{sim}");
}
