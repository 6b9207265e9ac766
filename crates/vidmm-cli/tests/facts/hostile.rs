//! Input that is wrong on purpose: each case ends with a word about it, in little time and memory, and harms no file.

use std::fs;
use std::io::Write;
use std::process::Command;

use crate::common::{Run, Scratch, steps, vidmm_run, workspace};

/// Steps in which a kernel takes this long, in nanoseconds, on an adapter that allows it.
fn kernel_of(nanoseconds: u64) -> String {
    format!(
        r#"
[adapter.tdr]
delay = "3000 s"

[[step]]
create-allocation = "a"
size = "1 MiB"

[[step]]
map = "a"

[[step]]
make-resident = "a"

[[step]]
kernel = "long"
writes = "a"
nanoseconds = {nanoseconds}

[[step]]
wait = "idle"
"#
    )
}

/// Runs the program with other words than `run`, and its output into a file.
fn vidmm(arguments: &[&str], stdout: Option<&str>) -> Run {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vidmm"));
    command.args(arguments).current_dir(workspace());
    if let Some(path) = stdout {
        command.stdout(fs::OpenOptions::new().write(true).open(path).expect("it can be written to"));
    }
    Run::new(arguments.join(" "), &command.output().expect("it starts"))
}

#[track_caller]
fn is_refused(run: Run, words: &str) {
    let run = run.expect(2);
    let lines = run.stderr.lines().filter(|line| line.starts_with("error: ")).count();
    assert!(lines == 1 && run.stderr.contains(words) && run.stderr.len() < 2000, "no `{words}`: {run}");
}

#[test]
fn a_kernel_of_a_thousand_seconds_is_waited_for() {
    let second = 1_000_000_000;
    steps(&kernel_of(1000 * second)).expect(0);
    let scratch = Scratch::new();
    let trace = scratch.file("long.txt", format!("{} | 0:0:64 | 0:0:64\n", 1001 * second));
    vidmm_run(&["--trace", &trace]).expect(0);
}

#[test]
fn a_gap_of_a_thousand_seconds_between_requests_is_waited_for() {
    let request = |milliseconds: u64| {
        format!("{{\"timestamp\": {milliseconds}, \"input_length\": 512, \"output_length\": 1, \"hash_ids\": [0]}}\n")
    };
    let scratch = Scratch::new();
    let trace = scratch.file("gap.jsonl", request(0) + &request(1_001_000) + &request(2_002_001));
    vidmm_run(&["--trace", &trace, "--local-memory", "1GiB"]).expect(0);
}

#[test]
fn no_output_is_written_over_an_input_or_another_output() {
    let scratch = Scratch::new();
    let text = kernel_of(1000);
    let scenario = scratch.file("steps.toml", &text);
    let trace = scratch.file("trace.txt", "10 | 0:0:64 | 0:0:64\n");
    let other = scratch.path("other");
    let linked = scratch.path("linked.toml");
    std::os::unix::fs::symlink(&scenario, &linked).expect("a link can be made");
    is_refused(vidmm_run(&[&scenario, "--events", &scenario]), "the run reads it");
    is_refused(vidmm_run(&[&scenario, "--summary", &linked]), "the run reads it");
    is_refused(vidmm_run(&["--trace", &trace, "--events", &trace]), "the run reads it");
    is_refused(vidmm_run(&[&scenario, "--events", &other, "--summary", &other]), "the run writes");
    let named = scratch.file("named.toml", "[workload]\ntrace = \"trace.txt\"\n");
    is_refused(vidmm_run(&[&named, "--summary", &trace]), "the run reads it");
    assert_eq!(fs::read_to_string(&scenario).unwrap(), text);
    assert_eq!(fs::read_to_string(&trace).unwrap(), "10 | 0:0:64 | 0:0:64\n");
    assert!(!fs::exists(&other).unwrap(), "nothing was run");
    vidmm_run(&[&scenario, "--events", "/dev/null", "--summary", "/dev/null"]).expect(0);
}

#[test]
fn a_run_of_nothing_does_not_hold() {
    let scratch = Scratch::new();
    let empty = scratch.path("empty");
    fs::create_dir(&empty).expect("a folder can be made");
    is_refused(vidmm_run(&[&empty, "--seeds", "1..3"]), "no scenario below");
    let missing = scratch.file("missing.toml", "[workload]\ntrace = \"missing.txt\"\n");
    is_refused(vidmm_run(&[&missing, "--seeds", "1..3"]), "no scenario was run");
    is_refused(vidmm_run(&["/dev/null"]), "the scenario is empty");
}

#[test]
fn a_link_back_to_a_folder_above_is_not_followed() {
    let scratch = Scratch::new();
    scratch.file("steps.toml", kernel_of(1000));
    let folder = scratch.path("folder");
    fs::create_dir(&folder).expect("a folder can be made");
    std::os::unix::fs::symlink("..", scratch.path("folder/up")).expect("a link can be made");
    let run = vidmm_run(&[&scratch.path("."), "--seeds", "1..2"]).expect(0);
    assert!(run.stdout.contains("1 of 1 scenario held"), "{run}");
}

#[test]
fn steps_that_would_take_terabytes_are_refused() {
    let create = |rest: &str| steps(&format!("[[step]]\ncreate-allocation = \"a\"\n{rest}\n"));
    is_refused(create("size = \"512 GiB\""), "more than 64.0 GiB");
    is_refused(create("size = \"1 GiB\"\ncount = 1000"), "more than 64.0 GiB");
    create("size = \"64 GiB\"\nsegments = \"system\"").expect(0);
}

#[test]
fn a_small_file_of_millions_of_lines_is_refused() {
    let scratch = Scratch::new();
    let lines = "1 | 0:0:64 | 0:0:64\n".repeat(5_000_000);
    is_refused(vidmm_run(&["--trace", &scratch.file("many.txt", lines)]), "more than 4194304 lines");
}

#[test]
fn a_full_disk_does_not_hide_what_was_found() {
    let scratch = Scratch::new();
    let unexpected = "[[step]]\nset-priority = \"a\"\npriority = \"high\"\nexpect = \"no-memory\"\n";
    let wrong = scratch.file("wrong.toml", kernel_of(1000) + unexpected);
    let run = vidmm_run(&[&wrong, "--events", "/dev/full"]).expect(2);
    assert!(run.stdout.contains("finding") && run.stdout.contains("checked"), "{run}");
    is_refused(run, "No space left");
    let log = scratch.path("log.jsonl");
    vidmm_run(&[&wrong, "--events", &log]).expect(1);
    is_refused(vidmm(&["explain", &log, "0"], Some("/dev/full")), "No space left");
}

#[test]
fn numbers_out_of_range_are_refused() {
    is_refused(vidmm(&["sim", "--seeds", "1..2", "--events", "x"], None), "name it with --seed");
    is_refused(vidmm(&["sim", "--seeds", "1..2", "--shrink", "x"], None), "name it with --seed");
    is_refused(vidmm(&["sim", "--seeds", "1..2", "--jobs", "100000"], None), "1..=1024");
    is_refused(vidmm(&["sim", "--seeds", "1..2", "--jobs", "0"], None), "1..=1024");
    is_refused(vidmm(&["sim", "--seeds", "1..2", "--max-failures", "0"], None), "--max-failures");
    is_refused(vidmm(&["sim", "--seeds", "0..18446744073709551615"], None), "no range of seeds");
}

#[test]
fn a_log_may_begin_with_a_byte_order_mark() {
    let scratch = Scratch::new();
    let (plain, marked) = (scratch.path("plain.jsonl"), scratch.path("marked.jsonl"));
    vidmm_run(&[&scratch.file("steps.toml", kernel_of(1000)), "--events", &plain]).expect(0);
    let mut file = fs::File::create(&marked).expect("it can be written");
    file.write_all(b"\xEF\xBB\xBF").and_then(|()| file.write_all(&fs::read(&plain)?)).expect("it can be written");
    let [plain, marked] = [&plain, &marked].map(|log| vidmm(&["explain", log, "0"], None).expect(0).stdout);
    assert_eq!(plain, marked);
}

#[test]
fn a_log_that_is_cut_is_refused_and_told_as_far_as_it_goes_where_that_is_asked_for() {
    let scratch = Scratch::new();
    let log = scratch.path("log.jsonl");
    vidmm_run(&[&scratch.file("steps.toml", kernel_of(1000)), "--events", &log]).expect(0);
    let text = fs::read_to_string(&log).expect("there is a log");
    let half: String = text.lines().take(text.lines().count() / 2).map(|line| line.to_owned() + "\n").collect();
    let cut = scratch.file("cut.jsonl", half);
    is_refused(vidmm(&["explain", &cut, "0"], None), "--damaged");
    let run = vidmm(&["explain", &cut, "0", "--damaged"], None).expect(0);
    assert!(run.stderr.starts_with("note: ") && run.stderr.contains("the log ends after"), "{run}");
}

#[test]
fn the_text_of_a_file_moves_no_cursor_and_fills_no_screen() {
    let scratch = Scratch::new();
    let name = format!("\"{}\"", "x".repeat(200_000));
    is_refused(steps(&format!("[[step]]\ncreate-allocation = {name}\n")), "create-allocation");
    let escape = scratch.file("\u{1b}[31mred.toml", "[adapter]\nnonsense = 1\n");
    let run = vidmm_run(&[&escape]).expect(2);
    assert!(!run.stderr.contains('\u{1b}'), "{run}");
    let escape = scratch.file("\u{1b}[31mred.toml", kernel_of(1000));
    for arguments in [&[&*escape][..], &[&escape, "--seeds", "1..1"]] {
        let run = vidmm_run(arguments).expect(0);
        assert!(!run.stdout.contains('\u{1b}'), "{run}");
    }
}

#[test]
fn many_steps_are_read_in_time() {
    let scratch = Scratch::new();
    let step = "[[step]]\nset-priority = \"a\"\npriority = \"high\"\n";
    let text = "[[step]]\ncreate-allocation = \"a\"\nsize = \"4 KiB\"\n".to_owned() + &step.repeat(40_000);
    let run = vidmm_run(&[&scratch.file("many.toml", text)]).expect(0);
    assert!(run.stdout.contains("40,001 of 40,001 steps"), "{run}");
}

#[test]
fn an_error_names_the_file_and_the_option_to_give_more_with() {
    let scratch = Scratch::new();
    let trace = scratch.file("large.txt", "10 | 0:0:64 | 0:0:64\n".replace(":64", ":100000000"));
    let run = vidmm_run(&["--trace", &trace, "--local-memory", "1MiB"]).expect(2);
    assert!(run.stderr.contains("--local-memory"), "{run}");
    let missing = scratch.path("missing.toml");
    is_refused(vidmm_run(&[&missing]), &missing);
    is_refused(vidmm(&["explain", &missing, "0"], None), &missing);
    is_refused(vidmm_run(&["--trace", &missing]), &missing);
}
