//! The files that commands read and write: whole, or refused by name.

use std::fs;
use std::process::{Command, Stdio};

use crate::common::{Scratch, shell, vidmm_run, workspace};

/// A run that takes a while.
fn long_run(events: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vidmm"));
    command.args(["run", "scenarios/clients.toml", "--events", events]).current_dir(workspace());
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn a_log_that_another_run_writes_is_refused() {
    let scratch = Scratch::new();
    for name in ["log.jsonl", "log.jsonl.gz"] {
        let log = scratch.path(name);
        let mut first = long_run(&log).spawn().expect("it starts");
        while fs::metadata(&log).map_or(0, |data| data.len()) == 0 {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        let second = vidmm_run(&["scenarios/cyclic.toml", "--scale", "64", "--events", &log]).expect(2);
        assert!(second.stderr.contains("another run writes this file"), "{second}");
        assert!(fs::metadata(&log).expect("it is there").len() > 0, "the first run's log is as it was");
        first.kill().and_then(|()| first.wait()).expect("it can be ended");
        // A lock ends with its process.
        vidmm_run(&["scenarios/cyclic.toml", "--scale", "64", "--events", &log]).expect(0);
    }
    vidmm_run(&["scenarios/cyclic.toml", "--scale", "64", "--events", "/dev/null"]).expect(0);
}

#[cfg(target_os = "linux")]
#[test]
fn files_for_which_there_is_no_space_are_not_there() {
    let scratch = Scratch::new();
    let log = scratch.path("log.jsonl");
    vidmm_run(&["scenarios/textures.toml", "--scale", "64", "--events", &log]).expect(0);
    fs::create_dir(scratch.path("out")).expect("it can be made");
    let [page, trace, tables, csv] =
        ["out/page.html", "out/run.pftrace", "out/tables", "out/csv"].map(|name| scratch.path(name));
    // A file may have 8 blocks of 512 bytes.
    let limited = |command: &str| shell(&format!("trap '' XFSZ; ulimit -f 8; {command}"));
    for command in [
        format!("vidmm report {log} --output {page}"),
        format!("vidmm export {log} --perfetto {trace}"),
        format!("vidmm export {log} --parquet {tables}"),
        format!("vidmm export {log} --csv {csv}"),
    ] {
        let run = limited(&command).expect(2);
        assert!(run.stderr.contains("cannot write"), "{run}");
    }
    let files = walkdir::WalkDir::new(scratch.path("out")).into_iter().filter_map(Result::ok);
    let files: Vec<_> = files.filter(|entry| entry.file_type().is_file()).map(|entry| entry.into_path()).collect();
    assert!(files.is_empty(), "{files:?}");
    for command in ["report {log} --output /dev/full", "export {log} --perfetto /dev/full"] {
        let run = shell(&format!("vidmm {}", command.replace("{log}", &log))).expect(2);
        assert!(
            run.stderr.contains("/dev/full: cannot write") || run.stderr.contains("cannot write /dev/full"),
            "{run}"
        );
    }
}

#[test]
fn a_file_that_was_there_stays_until_the_next_is_whole() {
    let scratch = Scratch::new();
    let (log, page) = (scratch.file("log.jsonl", "no log"), scratch.file("page.html", "before"));
    shell(&format!("vidmm report {log} --output {page}")).expect(2);
    assert_eq!(fs::read_to_string(page).expect("it is there"), "before");
}

/// A trace of kernels that use so many buffers, all of which are there from the start.
fn trace_of(buffers: u32) -> String {
    (0..buffers).map(|number| format!("1000 | {number}:1:4096 | {buffers}:1:4096\n")).collect()
}

#[test]
fn traces_have_any_number_of_buffers() {
    let scratch = Scratch::new();
    let trace = scratch.file("many.g10", trace_of(10_000));
    let run = vidmm_run(&["--trace", &trace, "--local-memory", "50%"]).expect(0);
    assert!(run.stdout.contains("10,001 buffers") && run.stdout.contains(": 0 wrong"), "{run}");
    let checked = format!("vidmm replay {trace} --check --policy lru,predict --local-memory 50%");
    shell(&checked).expect(0);
}

#[test]
fn times_are_read_with_their_units() {
    let refused = |time: &str| shell(&format!("vidmm check no-such.so --time '{time}' --hang '{time}'"));
    for time in ["20", "20s", "20 s", "500ms"] {
        let run = refused(time).expect(2);
        assert!(run.stderr.contains("there is no file no-such.so"), "{run}");
    }
    for time in ["", "0", "s", "20x"] {
        let run = refused(time).expect(2);
        assert!(run.stderr.contains("--time"), "{run}");
    }
}

#[test]
fn tables_that_are_there_twice_are_refused_by_name() {
    let scratch = Scratch::new();
    let step = "[[step]]\nwait = \"idle\"\n";
    let refused = |text: &str, words: &[&str]| {
        let run = vidmm_run(&[&scratch.file("twice.toml", format!("{text}\n{step}"))]).expect(2);
        words.iter().for_each(|word| assert!(run.stderr.contains(word), "no `{word}`: {run}"));
    };
    for name in ["adapter", "cost"] {
        refused(&format!("[{name}]\n[{name}]"), &["line 2", &format!("another `[{name}]`")]);
        refused(&format!("[[{name}]]"), &["line 1", &format!("`[[{name}]]`")]);
        refused(&format!("[[{name}]]\n[[{name}]]"), &[&format!("`[[{name}]]`")]);
        refused(&format!("[{name}]\n[[{name}]]"), &["line 2", name]);
    }
    refused("[adapter.tdr]\n[adapter.tdr]", &["line 2", "adapter.tdr"]);
    refused("[[adapter.tdr]]", &["`[[adapter.tdr]]`"]);
    refused(
        "[adapter]\npage-tables = \"local\"\npage-tables = \"system\"",
        &["line 3", "`page-tables` is given twice"],
    );
    let one = vidmm_run(&[&scratch.file("one.toml", "[check]\nthat = \"useful\"\nat-least = 1\n")]).expect(2);
    assert!(one.stderr.contains("`[[check]]`"), "{one}");
}

#[test]
fn a_long_message_keeps_its_remedy_and_the_ending_of_its_file() {
    let name = format!("{}-the-end.toml", "a".repeat(230));
    let run = vidmm_run(&[&format!("{name}/{name}/{name}")]).expect(2);
    assert!(
        run.stderr.contains('…') && run.stderr.contains("-the-end.toml: ") && run.stderr.contains("check the path"),
        "{run}"
    );
    assert!(run.stderr.lines().all(|line| line.chars().count() < 320), "{run}");
}

#[test]
fn a_key_that_another_caps_says_so() {
    let scratch = Scratch::new();
    let workload =
        "[client]\nsegments = \"system\"\n[workload]\nkind = \"cyclic-layers\"\nlayers = 8\nlayer-bytes = \"4 MiB\"\n";
    let text = |adapter: &str| scratch.file("capped.toml", format!("[adapter]\n{adapter}{workload}"));
    let capped = "aperture = \"128 MiB\"\naperture-commit-limit = \"3 GiB\"\n";
    let run = vidmm_run(&[&text(capped)]).expect(0);
    assert!(run.stderr.contains("`aperture-commit-limit` is 3.0 GiB, and `aperture` caps it at 128 MiB"), "{run}");
    let too_small = vidmm_run(&[&text(&capped.replace("128 MiB", "1 MiB"))]).expect(2);
    assert!(too_small.stderr.contains("`aperture` in `[adapter]`"), "{too_small}");
    assert!(!too_small.stderr.contains("or `aperture-commit-limit`"), "{too_small}");
    let quiet = vidmm_run(&[&text("aperture = \"128 MiB\"\naperture-commit-limit = \"128 MiB\"\n")]).expect(0);
    assert_eq!(quiet.stderr, "");
}

#[test]
fn a_table_over_time_shows_both_groups_of_memory() {
    let run = vidmm_run(&["scenarios/programs/unified-memory.toml"]).expect(0);
    assert_eq!(run.stdout.matches("non-local ").count(), 6, "two times of three processes: {run}");
}
