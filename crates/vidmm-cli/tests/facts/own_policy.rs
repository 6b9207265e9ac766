//! Policies of a user's own under the commands: kinds in Rust by their names, and libraries in C.

use std::{collections::BTreeMap, path::Path, process::Command};

use vidmm_cli::{Called, ModelGpu};
use vidmm_sim::policies;

use crate::common::{Scratch, shell, workspace};

#[allow(dead_code)]
#[path = "../../examples/own_policy.rs"]
mod example;

/// Carries out a command line in this process.
fn call(line: &str) -> Result<Called, String> {
    vidmm_cli::call(&Vec::from_iter(line.split_whitespace()), &ModelGpu)
}

/// The bytes brought in, by the policy.
fn bytes_in(csv: &str) -> BTreeMap<String, u64> {
    let mut file = csv::Reader::from_path(csv).expect("the rows are there");
    let rows = file.deserialize().map(|row| row.expect("rows have columns"));
    rows.map(|row: BTreeMap<String, String>| (row["policy"].clone(), row["bytes_in"].parse().expect("a number")))
        .collect()
}

/// A library of a policy in C; none where there is no compiler.
fn library(scratch: &Scratch, source: &str, flag: &str) -> Option<String> {
    let has_cc = Command::new("cc").arg("--version").output().is_ok_and(|run| run.status.success());
    if !has_cc {
        assert!(std::env::var_os("VIDMM_REQUIRE_C").is_none(), "cc is not there");
        eprintln!("skipped: cc is not there");
        return None;
    }
    let path = scratch.path(&format!("{}.so", Path::new(source).file_stem()?.to_str()?));
    let ddi = workspace().join("crates/vidmm-ddi");
    let cc = Command::new("cc")
        .args(["-shared", "-fPIC", flag, "-I"])
        .arg(ddi.join("include"))
        .arg(ddi.join(source))
        .args(["-o", &path])
        .status();
    assert!(cc.expect("cc starts").success());
    Some(path)
}

/// The property test of every policy: worlds at random. The auditor judges each victim (CRE-31a, U-37), and the GPU each page. Rivals ask
/// a policy for the most victims. Policies in Rust, in C and in Python have the same test: `python/tests/test_vidmm.py` makes the same call.
const PROPERTY: &str = "sim --profile rivals --seeds 1..40 --steps 300 --policy";

/// One entry point takes the machine and the policies. The names are known to `--policy`, to scenarios and to `sim`.
#[test]
fn a_policy_in_rust_has_a_name_for_every_command() {
    let scratch = Scratch::new();
    let refused = call("replay scenarios/cyclic.toml --policy mru").expect_err("nobody has the name yet");
    assert!(refused.contains("`mru` is no policy; there are lru, clock, "), "{refused}");
    policies::register(&example::MRU).expect("the name is free");

    let (csv, scenario) = (scratch.path("rows.csv"), workspace().join("scenarios/cyclic.toml"));
    let scenario = scenario.display();
    let line = format!("replay {scenario} --policy lru,mru,mru:keep=2 --local-memory 75% --csv {csv}");
    assert!(call(&line).expect("it runs").holds);
    let rows = bytes_in(&csv);
    assert_eq!(Vec::from_iter(rows.keys()), ["lru", "mru", "mru:keep=2"]);
    // Layers come in turn: what was used last is wanted last.
    assert!(rows["mru"] < rows["lru"] && rows["mru:keep=2"] < rows["lru"], "{rows:?}");

    let text = std::fs::read_to_string(workspace().join("scenarios/cyclic.toml")).expect("it is there");
    assert!(text.contains("\n[adapter]\n"), "the scenario has a table for the adapter");
    let own = scratch.file("own.toml", text.replace("\n[adapter]\n", "\n[adapter]\npolicy = \"mru:keep=2\"\n"));
    let log = scratch.path("log.jsonl");
    assert!(call(&format!("run {own} --events {log}")).expect("it runs").holds);
    let header = std::fs::read_to_string(&log).expect("there is a log");
    assert!(header.lines().next().is_some_and(|line| line.contains("\"mru:keep=2\"")), "the header names the policy");

    assert!(call(&format!("{PROPERTY} mru")).expect("it runs").holds);
}

/// A library has the path as its name.
#[test]
fn a_policy_in_c_is_named_by_its_path() {
    let scratch = Scratch::new();
    let Some(fifo) = library(&scratch, "examples/policies/fifo.c", "-O1") else { return };
    let csv = scratch.path("rows.csv");
    shell(&format!("vidmm replay scenarios/cyclic.toml --policy clock,{fifo} --csv {csv}")).expect(0);
    assert!(bytes_in(&csv).contains_key(&fifo));
    shell(&format!("vidmm run scenarios/cyclic.toml --policy {fifo}")).expect(0);
    shell(&format!("vidmm {PROPERTY} {fifo}")).expect(0);
    let unknown = shell(&format!("vidmm sim --seeds 1..2 --policy {fifo}:seed=1")).expect(2);
    assert!(unknown.stderr.contains("is no parameter of"), "{unknown}");
    let missing = shell("vidmm run --policy ./missing.so").expect(2);
    assert!(missing.stderr.contains("the library cannot be opened"), "{missing}");
}

/// The rule, the policy and the hook are named, the exit status says so, and every row is there.
#[test]
fn nonsense_of_a_policy_in_c_is_a_finding() {
    let scratch = Scratch::new();
    let Some(wrong) = library(&scratch, "tests/facts/nonsense.c", "-DNO_CANDIDATE") else { return };
    let csv = scratch.path("rows.csv");
    let run = shell(&format!("vidmm replay scenarios/cyclic.toml --policy lru,{wrong} --csv {csv}")).expect(1);
    let finding =
        format!("finding     POL-01: policy {wrong}, hook `victim`: slot 18446744073709551615 is no candidate");
    assert!(run.stdout.contains(&finding), "{run}");
    assert_eq!(bytes_in(&csv).len(), 2);
}

/// A policy may answer anything: no rule of the manager breaks.
#[test]
fn every_wrong_policy_in_c_has_the_property_of_a_right_one() {
    let scratch = Scratch::new();
    for (flag, rule) in [
        ("-DNO_CANDIDATE", "POL-01"),
        ("-DLARGE_RANK", "POL-02"),
        ("-DNO_POLICY", "POL-03"),
        ("-DKEEPS", "POL-04"),
        ("-DNO_END", "POL-05"),
    ] {
        let Some(wrong) = library(&scratch, "tests/facts/nonsense.c", flag) else { return };
        let run = shell(&format!("vidmm {PROPERTY} {wrong}")).expect(1);
        assert!(run.stdout.contains(&format!("finding     {rule}: policy {wrong}, hook `")), "{run}");
        let found = run.stdout.lines().find(|line| line.starts_with("found")).expect("there is a line");
        assert_eq!(found.split_whitespace().last(), Some("0"), "{flag}: {run}");
    }
}
