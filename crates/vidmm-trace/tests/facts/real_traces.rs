//! The published traces import with their known properties.
//!
//! They are not part of the repository. The tests look for them in the folder that `VIDMM_TRACES`
//! names, or else in `../shared/traces` beside the workspace, and skip where they are absent.

use std::path::{Path, PathBuf};

use vidmm_trace::import::read;
use vidmm_trace::{Cost, ImportOptions, Lifetime, Workload};

const GIB: f64 = (1_u64 << 30) as f64;

/// The folder of the traces.
fn folder() -> PathBuf {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    std::env::var_os("VIDMM_TRACES").map_or_else(beside, PathBuf::from)
}

/// Imports a trace, or says that it is absent.
fn import(file: &str) -> Option<Workload> {
    let path = folder().join(file);
    if !path.exists() {
        println!("skipped: {} is absent", path.display());
        return None;
    }
    let workload = read(&path, &ImportOptions::default()).expect("the published trace is good");
    assert_eq!(workload.validate(), Ok(()));
    Some(workload)
}

#[test]
fn bert_needs_48_gib() {
    let Some(workload) = import("g10_bert_base_256.txt") else { return };
    let footprint = workload.footprint(1);
    assert_eq!((footprint.kernels, footprint.buffers), (1369, 1463));
    assert!((footprint.peak_bytes as f64 / GIB - 47.76).abs() < 0.01, "{footprint:?}");
    assert_eq!(footprint.largest_kernel_bytes as f64 / GIB, 2.25);
    assert_eq!(workload.name, "g10_bert_base_256");
}

#[test]
fn vit_needs_12_gib() {
    let Some(workload) = import("g10_vit_256.txt") else { return };
    let footprint = workload.footprint(1);
    assert_eq!((footprint.kernels, footprint.buffers), (1489, 1563));
    assert!((footprint.peak_bytes as f64 / GIB - 11.55).abs() < 0.01, "{footprint:?}");
}

#[test]
fn the_conversation_has_its_requests_and_blocks() {
    let Some(workload) = import("mooncake_conversation.jsonl.gz") else { return };
    let footprint = workload.footprint(1);
    assert_eq!((footprint.kernels, footprint.buffers), (12_031, 182_790));
    assert_eq!((footprint.touches, footprint.uploads), (288_500, 0));
    assert_eq!(footprint.peak_bytes, 182_790 << 21);
    assert!(workload.buffers.iter().all(|buffer| buffer.lifetime == Lifetime::Kept));
}

#[test]
fn the_conversation_keeps_its_server_busy_but_not_always() {
    let Some(workload) = import("mooncake_conversation.jsonl.gz") else { return };
    let busy: u64 = workload.kernels.iter().map(|kernel| nanoseconds(kernel.cost)).sum();
    let hour = workload.kernels.last().map_or(0, |kernel| kernel.not_before_ns);
    assert!((50..80).contains(&(busy * 100 / hour)), "{} %", busy * 100 / hour);
}

#[test]
fn the_synthetic_trace_has_its_requests_and_blocks() {
    let Some(workload) = import("mooncake_synthetic.jsonl.gz") else { return };
    let footprint = workload.footprint(1);
    assert_eq!((footprint.kernels, footprint.buffers), (3993, 43_924));
    assert_eq!((footprint.touches, footprint.uploads), (121_877, 0));
}

/// The time that a cost states.
fn nanoseconds(cost: Cost) -> u64 {
    match cost {
        Cost::Nanoseconds(nanoseconds) => nanoseconds,
        Cost::Upload => 0,
    }
}
