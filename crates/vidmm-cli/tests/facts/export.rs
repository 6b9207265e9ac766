//! `vidmm export`: what it writes is read by Perfetto's own messages and by DuckDB, and compared with the log.
//!
//! These tests take python3 with the packages of `export/requirements.txt`: the python that `VIDMM_PYTHON` names, or
//! `python3`. Without them they say that they skip; with `VIDMM_REQUIRE_PYTHON=1` they fail.

use std::{fs, process::Command};

use serde_json::Value;
use vidmm_view::tables::Table;

use crate::common::{
    Run, Scratch, fault_scenarios, is_long, notification_scenarios, residency_scenarios, segment_scenarios, shell,
    splitting_scenarios, vidmm_run, workspace,
};

/// Runs a python script of this folder; none if there is no python for it.
pub fn python(script: &str, arguments: &[String]) -> Option<Run> {
    let python = std::env::var_os("VIDMM_PYTHON").unwrap_or_else(|| "python3".into());
    let found = Command::new(&python).args(["-c", "import duckdb, perfetto"]).output();
    if !found.is_ok_and(|output| output.status.success()) {
        let message = format!("{} with the packages of tests/facts/export/requirements.txt", python.display());
        assert!(std::env::var_os("VIDMM_REQUIRE_PYTHON").is_none(), "there must be {message}");
        println!("skipped: there is no {message}");
        return None;
    }
    let path = workspace().join("crates/vidmm-cli/tests/facts/export").join(script);
    let output = Command::new(python).arg(path).args(arguments).current_dir(workspace()).output();
    Some(Run::new(script.to_owned(), &output.expect("it starts")).expect(0))
}

/// Logs of runs of all kinds, below a folder: workloads, clients beside one another, faults, resets, cuts, every shape
/// of adapter.
fn logs(scratch: &Scratch) -> Vec<String> {
    let of_steps = [
        residency_scenarios(),
        fault_scenarios(),
        splitting_scenarios(),
        segment_scenarios(),
        notification_scenarios(),
    ];
    let workloads = ["scenarios/training.toml --scale 16", "scenarios/two-devices.toml --scale 16"];
    let of_steps = of_steps.concat().into_iter().filter(|scenario| !is_long(scenario));
    let commands = workloads.map(str::to_owned).into_iter().chain(of_steps);
    let logs = commands.enumerate().map(|(number, command)| {
        let log = scratch.path(&format!("{number}.jsonl"));
        let arguments: Vec<&str> = command.split(' ').chain(["--events", &log]).collect();
        let run = vidmm_run(&arguments);
        assert_ne!(run.status, Some(2), "{run}");
        log
    });
    logs.collect()
}

fn counts(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {run}"))
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn perfetto_and_duckdb_read_the_exports_of_every_kind_of_run() {
    let scratch = Scratch::new();
    let (mut traces, mut tables) = (Vec::new(), Vec::new());
    let logs = logs(&scratch);
    assert!(logs.len() > 50, "there are {} scenarios", logs.len());
    for (number, log) in logs.into_iter().enumerate() {
        let [trace, parquet, csv] = ["pftrace", "parquet", "csv"].map(|name| log.replace("jsonl", name));
        shell(&format!("vidmm export {log} --perfetto {trace} --parquet {parquet} --csv {csv}")).expect(0);
        traces.extend([log.clone(), trace]);
        // DuckDB takes a third of a second for the tables of a log.
        if number % 4 == 0 {
            tables.extend([log, parquet, csv]);
        }
    }
    if let Some(run) = python("perfetto_trace.py", &traces) {
        let counts = counts(&run);
        for name in
            ["work", "paging", "operation", "request", "submission", "wait flows", "counter values", "processes"]
        {
            assert!(counts[name].as_u64() > Some(100), "there are few of {name}: {counts}");
        }
    }
    if let Some(run) = python("tables.py", &tables) {
        let counts = counts(&run);
        for name in
            ["events", "operations", "packets", "waits", "allocations", "page_ins", "evictions", "occupancy", "budgets"]
        {
            assert!(counts[name].as_u64() > Some(0), "there are no rows of {name}: {counts}");
        }
    }
}

#[test]
fn an_export_names_its_outputs_and_spares_its_input() {
    let scratch = Scratch::new();
    let log = scratch.path("log.jsonl");
    vidmm_run(&["scenarios/residency/context-priority.toml", "--events", &log]);
    let text = fs::read(&log).expect("there is a log");

    let run = shell(&format!("vidmm export {log}")).expect(2);
    assert!(run.stderr.contains("give --perfetto, --parquet or --csv"), "{run}");
    let run = shell(&format!("vidmm export {log} --perfetto {log}")).expect(2);
    assert!(run.stderr.contains("the run reads it"), "{run}");
    let run = shell(&format!("vidmm export {log} --csv /dev/null/tables")).expect(2);
    assert!(run.stderr.contains("cannot write /dev/null/tables"), "{run}");
    assert_eq!(fs::read(&log).expect("it is still there"), text, "the log is as it was");
}

#[test]
fn a_damaged_log_is_exported_up_to_its_damage() {
    let scratch = Scratch::new();
    let log = scratch.path("log.jsonl");
    vidmm_run(&["scenarios/training.toml", "--scale", "64", "--events", &log]);
    let text = fs::read_to_string(&log).expect("there is a log");
    let kept = Vec::from_iter(text.lines().take(1001));
    let damaged = scratch.file("damaged.jsonl", kept.join("\n") + "\n{\"number\":");
    let csv = scratch.path("csv");
    let run = shell(&format!("vidmm export {damaged} --csv {csv}")).expect(2);
    assert!(run.stderr.contains("damaged.jsonl"), "{run}");
    let run = shell(&format!("vidmm export {damaged} --csv {csv} --damaged")).expect(0);
    assert!(run.stderr.contains("is read up to here"), "{run}");
    let events = fs::read_to_string(format!("{csv}/events.csv")).expect("there is a table");
    assert_eq!(events.lines().count(), 1001, "a header and a thousand events");
}

/// The parts of a document between two marks.
fn between<'a>(text: &'a str, open: &'a str, close: &'a str) -> Vec<&'a str> {
    text.split(open).skip(1).map(|rest| rest.split_once(close).expect("a part ends").0).collect()
}

#[test]
#[ignore = "takes long, runs in .ci/run"]
fn the_guide_runs_as_it_is_written() {
    const RESULT: (&str, &str) = ("<!-- result -->\n", "<!-- end of result -->");
    let guide = workspace().join("docs/guides/export.md");
    let text = fs::read_to_string(&guide).expect("there is a guide");
    let scratch = Scratch::new();
    let commands = between(&text, "```sh\n", "```").concat();
    assert!(commands.contains("vidmm export "), "{commands}");
    let folder = scratch.path("");
    shell(&format!("ln -s $PWD/scenarios {folder}; cd {folder}; set -e; {commands}")).expect(0);

    let queries = between(&text, "```sql\n", "```");
    let shown = between(&text, RESULT.0, RESULT.1);
    assert!(queries.len() >= 4 && queries.len() == shown.len(), "each query shows its result");
    let mut anew = text.clone();
    for (query, shown) in queries.iter().zip(shown) {
        let Some(run) = python("query.py", &[folder.clone(), (*query).to_owned()]) else { return };
        let after = format!("{query}```\n\n{}", RESULT.0);
        anew = anew.replace(&format!("{after}{shown}"), &format!("{after}{}", run.stdout));
    }
    if std::env::var_os("UPDATE_EXPECTED").is_some() {
        fs::write(&guide, anew).expect("the guide can be written");
    } else {
        assert!(anew == text, "docs/guides/export.md shows other results; set UPDATE_EXPECTED=1 and run again");
    }
}

#[test]
fn the_guide_names_each_table_and_column() {
    let text = fs::read_to_string(workspace().join("docs/guides/export.md")).expect("there is a guide");
    let rows = Table::ALL.iter().map(|table| {
        let columns = Vec::from_iter(table.columns().iter().map(|column| format!("`{}`", column.name)));
        (format!("| `{}` | ", table.name()), format!(" | {} |", columns.join(", ")))
    });
    for (start, end) in rows {
        assert!(text.lines().any(|line| line.starts_with(&start) && line.ends_with(&end)), "{start}...{end}");
    }
}
