//! Strict mode: work that uses what its device has evicted or offered is a finding, although the content is still there (RES-20,
//! U-35), and no decision changes.

use std::fs;

use serde_json::Value;

use crate::common::{Run, Scratch, vidmm_run, workspace};

/// A kernel uses A after this step took the right to it away.
fn used_after(step: &str) -> String {
    format!(
        r#"
[adapter]
local-memory = "64 MiB"

[[step]]
create-allocation = "A"
size = "1 MiB"

[[step]]
map = "A"

[[step]]
make-resident = "A"

[[step]]
kernel = "good"
writes = "A"

[[step]]
wait = "idle"

[[step]]
{step}

[[step]]
kernel = "bad"
reads = "A"

[[step]]
kernel = "again"
reads = "A"

[[step]]
wait = "idle"
"#
    )
}

fn run(text: &str, arguments: &[&str]) -> (Run, Scratch) {
    let scratch = Scratch::new();
    let scenario = scratch.file("used.toml", text);
    (vidmm_run(&[&[scenario.as_str()], arguments].concat()), scratch)
}

#[test]
fn a_use_after_a_lazy_evict_is_found_by_strict_mode_alone() {
    let text = used_after("evict = \"A\"\nflags = [\"only-if-necessary\"]");
    run(&text, &[]).0.expect(0);
    let found = run(&text, &["--strict"]).0.expect(1).stdout;
    let line = "finding     line 26, kernel bad: RES-20: submission 2 of D uses A, but the device evicted it in event ";
    assert!(found.contains(line) && found.contains("; 2 submissions do"), "{found}");
    assert_eq!(found.matches("finding ").count(), 1, "each mistake is told once: {found}");
}

#[test]
fn a_use_of_what_is_offered_is_found_until_it_is_reclaimed() {
    let offered = used_after("offer = \"A\"");
    let found = run(&offered, &["--strict"]).0.expect(1).stdout;
    assert!(found.contains("U-35: submission 2 of D uses A, but the device offered it in event "), "{found}");
    run(&used_after("offer = \"A\"\n\n[[step]]\nreclaim = \"A\""), &["--strict"]).0.expect(0);
}

#[test]
fn a_list_that_names_an_allocation_twice_keeps_the_right_through_one_evict() {
    let twice = used_after("make-resident = \"A\"\n\n[[step]]\nevict = \"A\"");
    run(&twice, &["--strict"]).0.expect(0);
}

#[test]
fn a_scenario_asks_for_strict_mode_by_a_key() {
    let text = format!("strict = true\n{}", used_after("evict = \"A\"\nflags = [\"only-if-necessary\"]"));
    run(&text, &[]).0.expect(1);
}

#[test]
fn a_strict_run_decides_what_any_run_decides() {
    let text = used_after("evict = \"A\"\nflags = [\"only-if-necessary\"]");
    let events = |strict: &[&str]| {
        let scratch = Scratch::new();
        let (scenario, log) = (scratch.file("used.toml", &text), scratch.path("log.jsonl"));
        vidmm_run(&[&[scenario.as_str(), "--events", &log], strict].concat());
        let text = fs::read_to_string(&log).expect("the log was written");
        // The first line is the command, the last a digest of all.
        let lines = Vec::from_iter(text.lines().map(str::to_owned));
        lines[1..lines.len() - 1].to_vec()
    };
    assert_eq!(events(&[]), events(&["--strict"]));
}

#[test]
fn a_known_finding_does_not_fail_the_run() {
    let text = used_after("evict = \"A\"\nflags = [\"only-if-necessary\"]");
    let scratch = Scratch::new();
    let known = scratch.file("known.txt", "RES-20 D A  # to be mended with the next frame graph\n");
    let shown = run(&text, &["--strict", "--known", &known]).0.expect(0).stdout;
    assert!(shown.contains("known       line 26, kernel bad: RES-20"), "{shown}");
    let other = scratch.file("other.txt", "RES-20 D B\n");
    run(&text, &["--strict", "--known", &other]).0.expect(1);
}

#[test]
fn findings_are_written_for_programs_too() {
    let text = used_after("evict = \"A\"\nflags = [\"only-if-necessary\"]");
    let scratch = Scratch::new();
    let (sarif, summary) = (scratch.path("out.sarif"), scratch.path("out.json"));
    run(&text, &["--strict", "--sarif", &sarif, "--summary", &summary]).0.expect(1);
    let read = |path: &str| -> Value {
        serde_json::from_str(&fs::read_to_string(path).expect("it was written")).expect("it is JSON")
    };
    let result = &read(&sarif)["runs"][0]["results"][0];
    assert_eq!(result["ruleId"], "RES-20");
    assert_eq!(result["locations"][0]["physicalLocation"]["region"]["startLine"], 26);
    let used = &read(&summary)["illegal_uses"][0];
    assert_eq!((&used["ended"], &used["device"], &used["allocation"]), (&"evict".into(), &"D".into(), &"A".into()));
    assert_eq!(used["times"], 2);
}

#[test]
fn findings_are_not_written_over_what_the_run_reads() {
    let scratch = Scratch::new();
    let scenario = scratch.file("used.toml", used_after("evict = \"A\""));
    let known = scratch.file("known.txt", "RES-20 D A\n");
    for input in [&scenario, &known] {
        let before = fs::read_to_string(input).expect("it is there");
        let refused = vidmm_run(&[&scenario, "--strict", "--known", &known, "--sarif", input]).expect(2);
        assert!(refused.stderr.contains("the run reads it"), "{refused}");
        assert_eq!(fs::read_to_string(input).expect("it is there"), before);
    }
}

#[test]
fn the_programs_of_a_workload_are_held_to_their_rights() {
    let found = vidmm_run(&["scenarios/clients-mixed-bug.toml", "--strict"]).expect(1).stdout;
    let mut uses = found.lines().filter(|line| line.contains(" uses buffer ")).peekable();
    assert!(uses.peek().is_some_and(|line| line.contains(": RES-20: submission ")), "{found}");
    let is_mistake =
        |line: &str| line.contains(" of mixed uses buffer ") && line.contains(", but the device evicted it");
    assert!(uses.all(is_mistake), "the layer without the mistake has a right to all that it uses: {found}");
}

#[test]
fn a_workload_asks_for_strict_mode_by_a_key() {
    let scratch = Scratch::new();
    let bug = fs::read_to_string(workspace().join("scenarios/clients-mixed-bug.toml")).expect("it is there");
    let strict = scratch.file("strict.toml", format!("strict = true\n{bug}"));
    assert!(vidmm_run(&[&strict]).expect(1).stdout.contains(": RES-20: submission "));
}

#[test]
fn many_seeds_of_a_strict_scenario_find_illegal_uses_too() {
    let text = format!("strict = true\n{}", used_after("evict = \"A\"\nflags = [\"only-if-necessary\"]"));
    let found = run(&text, &["--seeds", "1..2"]).0.expect(1).stdout;
    assert!(found.contains("RES-20: submission 2 of D uses A"), "{found}");
}
