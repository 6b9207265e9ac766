//! Scenarios of residency from outside: a process that is killed in the middle of paging leaves nothing behind, and
//! every check of a step can fail.

use std::fs;

use crate::common::{steps, vidmm_run, workspace};

/// The text of a scenario of residency.
fn scenario(name: &str) -> String {
    let path = workspace().join(format!("scenarios/residency/{name}.toml"));
    fs::read_to_string(path).expect("there is the scenario")
}

/// The scenario with one of its texts replaced.
#[track_caller]
fn changed(name: &str, from: &str, to: &str) -> String {
    let text = scenario(name);
    assert!(text.contains(from), "{name} has no {from:?}");
    text.replacen(from, to, 1)
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn a_process_may_be_killed_at_any_of_fifty_moments_of_paging() {
    let mut in_the_middle = 0;
    // From the first command of the page-in to the end of the kernel that waits for it the GPU makes 74 steps.
    for moment in (1..=50).map(|moment| moment * 7 / 5) {
        let run = steps(&changed("p59-kill", "after = 7", &format!("after = {moment}"))).expect(0);
        let place = |line: &str| run.stdout.find(line).unwrap_or_else(|| panic!("no {line:?}: {run}"));
        let (killed, gone) = (place("  kill        P"), place("  gone        process P"));
        assert!(killed < gone, "{run}");
        let page_in = place("VIRTUAL_TRANSFER  SystemToLocal A2");
        let arrived = run.stdout[page_in..].find("done").expect("it ends") + page_in;
        in_the_middle += usize::from(page_in < killed && killed < arrived);
    }
    assert!((25..50).contains(&in_the_middle), "{in_the_middle} of the moments were in the middle of bringing A2 in");
}

#[test]
fn content_that_is_not_saved_before_a_power_down_is_found() {
    let run = vidmm_run(&["scenarios/residency/p60-power.toml", "--faults", "drop-page-out"]).expect(1);
    assert!(run.stdout.contains("a wrong page"), "{run}");
}

#[test]
fn answers_that_were_not_expected_are_findings() {
    let wrong = [
        (
            "p02-all-or-nothing",
            "num-bytes-to-trim = \"12 MiB\"",
            "num-bytes-to-trim = \"11 MiB\"",
            "asks to trim 12 MiB, but 11 MiB",
        ),
        (
            "p07-trim-notification",
            "usage = \"44 MiB\"",
            "usage = \"43 MiB\"",
            "the usage is 44 MiB, but 43 MiB was expected",
        ),
        ("p07-trim-notification", "budget = \"48 MiB\"", "budget = \"47 MiB\"", "the budget is 48 MiB, but 47 MiB"),
        (
            "p07-trim-notification",
            "flags = [\"to-budget\"]",
            "flags = [\"periodic\"]",
            "got TrimToBudget, but PeriodicTrim",
        ),
        (
            "p07-trim-notification",
            "num-bytes-to-trim = \"12 MiB\"",
            "num-bytes-to-trim = 1",
            "asked to trim 12 MiB, but 1 B",
        ),
        (
            "p07-trim-notification",
            "flags = [\"to-budget\"]\nnum-bytes-to-trim = \"12 MiB\"",
            "",
            "TrimToBudget, but no notification",
        ),
        (
            "p55-offer-and-reclaim",
            "results = [\"ok\"]",
            "results = [\"discarded\"]",
            "A is ok, but `discarded` was expected",
        ),
        (
            "p56-offer-under-pressure",
            "in = \"nowhere\"",
            "in = \"local\"",
            "A3 is not resident, but must be in local memory",
        ),
        (
            "p06-schedule-gate",
            "check-waiting = [\"renders\"",
            "check-waiting = [\"other\", \"renders\"",
            "kernel other does not wait any more",
        ),
    ];
    for (name, from, to, words) in wrong {
        let run = steps(&changed(name, from, to)).expect(1);
        assert!(run.stdout.contains(words), "no {words:?}: {run}");
    }
}

#[test]
fn cpu_access_needs_a_lock() {
    let text = "[[step]]\ncreate-allocation = \"A\"\nsize = 1\ncpu = \"visible\"\n[[step]]\ncpu-write = \"A\"\n";
    let run = steps(text).expect(1);
    assert!(run.stdout.contains("A is not locked; write a step with `lock = \"A\"`"), "{run}");
}
