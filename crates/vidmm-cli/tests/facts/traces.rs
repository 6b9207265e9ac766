//! Recorded traces of others run right in too little memory.
//!
//! They are not part of the repository. The tests look for them in the folder that `VIDMM_TRACES` names, or else in
//! `../shared/traces` beside the workspace, and skip where they are absent.

use std::path::PathBuf;

use crate::common::{Scratch, summary, vidmm_run, workspace};
use serde_json::Value;

/// Runs a trace with these arguments, and returns the figures; none if the trace is absent.
fn run(trace: &str, arguments: &[&str]) -> Option<Value> {
    let folder = std::env::var_os("VIDMM_TRACES").map_or_else(|| workspace().join("../shared/traces"), PathBuf::from);
    let path = folder.join(trace);
    if !path.exists() {
        println!("skipped: {} is absent", path.display());
        return None;
    }
    let scratch = Scratch::new();
    let figures = scratch.path("figures.json");
    let path = path.to_str().expect("the path is text");
    vidmm_run(&[&["--trace", path, "--summary", &figures], arguments].concat()).expect(0);
    Some(summary(&figures))
}

#[test]
fn vit_runs_on_half_of_its_memory() {
    let Some(figures) = run("g10_vit_256.txt", &["--local-memory", "50%"]) else { return };
    assert_eq!((&figures["kernels"], &figures["kernels_ended"]), (&Value::from(1489), &Value::from(1489 + 208)));
    assert_ne!(figures["bytes_paged_in"], 0);
    assert_ne!(figures["bytes_paged_out"], 0);
}

#[test]
fn bert_runs_on_a_tenth_of_its_memory() {
    let arguments = ["--scale", "64", "--content", "ramp", "--local-memory", "10%", "--ahead", "16"];
    let Some(figures) = run("g10_bert_base_256.txt", &arguments) else { return };
    assert_eq!(figures["kernels"], 1369);
    assert_ne!(figures["bytes_paged_in"], 0);
}

#[test]
fn requests_share_their_blocks() {
    let arguments = ["--scale", "256", "--local-memory", "60%", "--block-bytes", "1MiB"];
    let Some(figures) = run("mooncake_synthetic.jsonl.gz", &arguments) else { return };
    assert_eq!(figures["kernels"], 3993);
    assert_ne!(figures["bytes_paged_in"], 0);
}

#[test]
fn enough_memory_is_never_paged() {
    for trace in ["g10_vit_256.txt", "g10_bert_base_256.txt"] {
        let Some(figures) = run(trace, &["--local-memory", "101%"]) else { return };
        for figure in ["bytes_paged_in", "bytes_paged_out", "evictions"] {
            assert_eq!(figures[figure], 0, "{trace}: {figure}");
        }
    }
}
