//! `vidmm replay`: the figures of many runs in one table are those of each run alone.

use std::fs;

use crate::common::{Scratch, shell, summary, vidmm_run};

const WORKLOAD: &str = r#"
name = "layers"

[client]
scale = 64
ahead = 2

[workload]
kind = "cyclic-layers"
layers = 24
layer-bytes = "128 MiB"
hot-buffers = 4
hot-bytes = "16 MiB"
passes = 6
"#;

#[test]
fn each_row_is_what_a_run_alone_moves() {
    let scratch = Scratch::new();
    let (workload, csv, alone) = (scratch.file("w.toml", WORKLOAD), scratch.path("r.csv"), scratch.path("s.json"));
    let line = format!("vidmm replay {workload} --policy lru,predict:sample=8 --local-memory 75%,90% --csv {csv}");
    let run = shell(&line).expect(0);
    assert!(run.stdout.contains("predict:sample=8:seed=0"), "{}", run.stdout);
    let text = fs::read_to_string(&csv).unwrap();
    let mut rows = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let head = rows.next().unwrap();
    let column = |name| head.iter().position(|&column| column == name).unwrap();
    let rows: Vec<_> = rows.collect();
    assert_eq!(rows.len(), 4);
    for row in &rows {
        // The digest of the input holds a comma, and stands before the rest.
        let field = |name| row[column(name) + 1];
        let (memory, policy) = (field("local_memory"), field("policy"));
        vidmm_run(&[&workload, "--local-memory", memory, "--policy", policy, "--summary", &alone]).expect(0);
        assert_eq!(field("bytes_in"), summary(&alone)["bytes_paged_in"].to_string(), "{memory} {policy}");
        assert_eq!(field("bytes_out"), summary(&alone)["bytes_paged_out"].to_string(), "{memory} {policy}");
    }
    let bytes_in = |row: usize| rows[row][column("bytes_in") + 1].parse::<u64>().unwrap();
    assert!(bytes_in(3) < bytes_in(2), "layers in turn: {} under predict, {} under lru", bytes_in(3), bytes_in(2));
}

#[test]
fn wrong_inputs_are_told_before_anything_runs() {
    let scratch = Scratch::new();
    let steps = scratch.file("s.toml", "[[step]]\nwait = \"idle\"\n");
    let workload = scratch.file("w.toml", WORKLOAD);
    for (arguments, told) in [
        (format!("{workload} --policy mru"), "`mru` is no policy"),
        (format!("{workload} --policy predict:sample=0"), "no parameter of that policy"),
        (format!("{workload} {steps}"), "is made of steps"),
        (format!("{workload} --csv {workload}"), "w.toml"),
        (scratch.path("absent.txt"), "absent.txt"),
    ] {
        let run = shell(&format!("vidmm replay {arguments}")).expect(2);
        assert!(run.stderr.contains(told), "{arguments}: {}", run.stderr);
    }
}
