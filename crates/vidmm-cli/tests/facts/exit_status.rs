//! The exit status: 0 all checks held, 1 a check did not, 2 the input or the arguments are wrong.

use std::fs::File;
use std::io::BufReader;

use crate::common::{Run, Scratch, replay_command, shell, short_scenarios, vidmm_run};
use vidmm::Event;
use vidmm_trace::LogReader;

/// The message of a run with a wrong page.
#[derive(Debug, PartialEq, Eq)]
struct Shown {
    page: u64,
    allocation: String,
    event: u64,
}

impl Shown {
    /// Reads `page P of allocation A (..)` and `event E`.
    fn of(run: &Run) -> Self {
        let after = |text: &str| {
            let (_, rest) = run.stdout.split_once(text).unwrap_or_else(|| panic!("no `{text}` in {run}"));
            rest.split([' ', '\n']).next().expect("a split has a first part").to_owned()
        };
        let number = |text: String| text.parse().unwrap_or_else(|_| panic!("`{text}` is no number in {run}"));
        Self {
            page: number(after("read a wrong page: page ")),
            allocation: after(" of allocation "),
            event: number(after("\n              event ")),
        }
    }

    /// Checks that the event of that number in a log is the finding.
    fn is_in_log(&self, path: &str) {
        let log = LogReader::new(BufReader::new(File::open(path).expect("there is a log"))).expect("it is a log");
        let event = log.map(|event| event.expect("it is whole")).find(|event| event.number == self.event);
        let Some(Event::Finding { allocation, page, .. }) = event.map(|event| event.event) else {
            panic!("event {} is no finding", self.event)
        };
        assert_eq!((allocation.to_string(), page), (format!("allocation {}", self.allocation), self.page));
    }
}

/// Checks that a run with a fault fails, says where, and can be replayed.
fn is_found(arguments: &[&str]) {
    let found = vidmm_run(arguments).expect(1);
    let replay = shell(&replay_command(&found)).expect(1);
    assert_eq!(Shown::of(&found), Shown::of(&replay), "{found}\n{replay}");
    assert_eq!(replay_command(&found), replay_command(&replay), "a replay is its own replay");
    assert_eq!(found.stderr, "", "findings are results, and no complaints");
}

#[test]
fn scenarios_without_faults_hold() {
    for path in short_scenarios() {
        let run = vidmm_run(&[&path, "--scale", "64"]).expect(0);
        assert!(run.stdout.contains("kernels: 0 wrong\n") && run.stderr.is_empty(), "{run}");
        assert!(!run.stdout.contains("replay"), "{run}");
    }
}

#[test]
fn the_built_in_scenario_is_the_training() {
    let [built_in, file] = [vidmm_run(&[]), vidmm_run(&["scenarios/training.toml"])].map(|run| run.expect(0));
    assert_eq!(built_in.stdout, file.stdout);
}

#[test]
fn a_flipped_bit_is_found() {
    is_found(&["--faults", "flip-bit-in-transfer", "--scale", "16"]);
    is_found(&["--faults=flip-bit-in-transfer", "--scale=16", "--seed=7"]);
    is_found(&["--faults", "flip-bit-in-transfer@5", "--seed", "4", "--scale", "16", "--content", "ramp"]);
}

#[test]
fn a_flush_left_out_is_found() {
    is_found(&["--faults", "skip-tlb-flush", "--scale", "16"]);
    is_found(&["scenarios/textures.toml", "--faults", "skip-tlb-flush", "--scale", "16"]);
}

#[test]
fn a_page_out_left_out_is_found() {
    is_found(&["--faults", "drop-page-out", "--scale", "16"]);
    is_found(&["scenarios/cyclic.toml", "--faults", "drop-page-out@2", "--ahead", "0"]);
}

#[test]
fn the_log_has_the_finding() {
    let scratch = Scratch::new();
    for fault in ["flip-bit-in-transfer", "skip-tlb-flush", "drop-page-out"] {
        let log = scratch.path(fault);
        let run = vidmm_run(&["--faults", fault, "--scale", "64", "--events", &log]).expect(1);
        Shown::of(&run).is_in_log(&log);
    }
}

#[test]
fn a_replay_command_survives_a_shell() {
    let scratch = Scratch::new();
    let scenario =
        scratch.file("it's a $(scenario).toml", "seed = 3\nfaults = [\"drop-page-out\"]\nclient.scale = 64\n");
    is_found(&[&scenario]);
}

/// Checks that a run is refused with one message that has these words: the place and the remedy.
#[track_caller]
fn is_refused(arguments: &[&str], words: &[&str]) {
    let run = vidmm_run(arguments).expect(2);
    assert_eq!(run.stdout, "", "{run}");
    assert_eq!(run.stderr.matches("error:").count(), 1, "{run}");
    assert!(run.stderr.starts_with("error: ") && !run.stderr.contains("panicked"), "{run}");
    words.iter().for_each(|word| assert!(run.stderr.contains(word), "no `{word}`: {run}"));
}

#[test]
fn missing_files_are_refused() {
    is_refused(&["no/such.toml"], &["no/such.toml", "check the path"]);
    is_refused(&["--trace", "no/such.txt"], &["no/such.txt", "check the path"]);
    is_refused(&["scenarios"], &["scenarios is a folder", "--seeds"]);
    let scratch = Scratch::new();
    let scenario = scratch.file("scenario.toml", "workload.trace = \"absent.txt\"");
    is_refused(&[&scenario], &["absent.txt", "check the path"]);
}

#[test]
fn files_that_are_no_traces_are_refused() {
    let scratch = Scratch::new();
    let known = ["expected", "G10", "Mooncake"];
    is_refused(&["--trace", &scratch.file("empty.txt", "")], &["empty", "at least one line"]);
    is_refused(&["--trace", &scratch.file("blank.txt", "\n \n\n")], &["blank", "at least one line"]);
    is_refused(&["--trace", &scratch.file("binary.txt", [0xff, 0, 0xfe, 7])], &["binary", "not text", known[0]]);
    is_refused(&["--trace", &scratch.file("hello.txt", "hello\n")], &["hello", "line 1", known[0], known[1], known[2]]);
    is_refused(&["--trace", &scratch.file("zero.txt", "9 | 0:1:4096 | 1:0:0\n")], &["zero", "line 1", "1 byte"]);
    is_refused(&["--trace", &scratch.file("cut.txt", "9 | 0:1:4096 | 1:0:\n")], &["cut", "line 1", "expected"]);
}

#[test]
fn a_truncated_gzip_file_is_refused() {
    // The header of a gzip file, and the beginning of a compressed line of a G10 trace.
    const BEGINNING: [u8; 20] =
        [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 0xff, 0x33, 0x34, 0x50, 0xa8, 0x51, 0x30, 0xb0, 0x32, 0xb4, 0x32];
    let scratch = Scratch::new();
    let path = scratch.file("short.gz", BEGINNING);
    is_refused(&["--trace", &path], &["short", "truncated gzip", "fetch it again"]);
}

#[test]
fn scenario_files_that_are_wrong_are_refused() {
    let scratch = Scratch::new();
    let typo = scratch.file("typo.toml", "seed = 1\n[client]\nahed = 3\n");
    is_refused(&[&typo], &["typo.toml", "line 3", "`ahed`", "`ahead`"]);
    is_refused(&[&scratch.file("hello.toml", "hello world\n")], &["hello.toml", "line 1"]);
    is_refused(&[&scratch.file("binary.toml", [0xff, 0, 0xfe])], &["binary.toml", "text file"]);
    let zero = scratch.file("zero.toml", "[workload]\nkind = \"cyclic-layers\"\nlayer-bytes = 0\n");
    is_refused(&[&zero], &["layer-bytes"]);
    let both = scratch.file("both.toml", "[workload]\nkind = \"cyclic-layers\"\ntrace = \"x\"\n");
    is_refused(&[&both], &["both.toml", "line 1", "keep one"]);
}

#[test]
fn memory_that_is_too_small_is_refused() {
    for (size, words) in [
        ("0%", &["--local-memory", "above 0"][..]),
        ("a lot", &["--local-memory", "`a lot`", "`50%`"]),
        ("4GB", &["--local-memory", "GiB"]),
        ("606MiB", &["606 MiB", "608 MiB", "raise `local-memory`"]),
        ("17TiB", &["1.0 TiB", "lower `local-memory`"]),
    ] {
        is_refused(&["--local-memory", size], words);
    }
}

#[test]
fn files_that_cannot_be_written_are_refused() {
    for flag in ["--events", "--summary"] {
        is_refused(&["--scale", "64", flag, "no/such/file"], &["cannot write no/such/file", "folder"]);
        is_refused(&["--scale", "64", flag, "scenarios"], &["cannot write scenarios"]);
    }
}

#[test]
fn arguments_that_are_wrong_are_refused() {
    for (arguments, words) in [
        (&["--block-bytes", "2MiB"][..], &["--block-bytes", "--trace"][..]),
        (&["--colour"], &["--colour", "--help"]),
        (&["--gpu", "voodoo"], &["voodoo", "--gpu", "soft", "vulkan"]),
        (&["--faults", "hang"], &["`hang`", "`skip-tlb-flush`", "`drop-page-out`"]),
        (&["--faults", "drop-page-out,drop-page-out@2"], &["`drop-page-out` is named twice"]),
        (&["--ahead", "1025"], &["--ahead", "1024"]),
        (&["--scale", "0"], &["--scale"]),
        (&["--seed", "-1"], &["-1"]),
        (&["scenarios/training.toml", "--trace", "x.txt"], &["x.txt", "check the path"]),
        (
            &["scenarios/notification/p23-notify-from-aperture.toml", "--trace", "x.txt"],
            &["--trace is for workloads", "change the steps"],
        ),
        (&["scenarios/training.toml", "scenarios/cyclic.toml"], &["scenarios/cyclic.toml"]),
    ] {
        is_refused(arguments, words);
    }
}
