//! Reading G10 traces.

use crate::support::kernel;
use vidmm_trace::import::parse;
use vidmm_trace::{Cost, Engine, ImportError, ImportOptions, Lifetime, Workload};

/// Imports a trace that is good.
fn import(text: &str) -> Workload {
    parse("test", text.as_bytes(), &ImportOptions::default()).expect("the trace is good")
}

/// Imports a trace that is bad, and returns the message.
fn refused(text: &str) -> String {
    let result = parse("test", text.as_bytes(), &ImportOptions::default());
    result.expect_err("the trace is bad").to_string()
}

#[test]
fn a_line_becomes_a_kernel_and_its_uploads() {
    let workload = import("237158 | 2:0:131072 1:1:8192 | 0:0:100663296\n");
    let names: Vec<u64> = workload.buffers.iter().map(|buffer| buffer.name).collect();
    assert_eq!(workload.name, "test");
    assert_eq!(names, [2, 1, 0]);
    assert_eq!(workload.buffers[0].bytes, 131072);
    let [input, weight, compute] = &workload.kernels[..] else { panic!("two uploads, a kernel") };
    assert!(input.is_upload() && weight.is_upload());
    assert_eq!(compute.cost, Cost::Nanoseconds(237_158));
    assert_eq!((&compute.reads[..], &compute.writes[..]), (&[0, 1][..], &[2][..]));
    assert_eq!(compute.engine, Engine::Compute);
}

#[test]
fn the_weight_flag_decides_the_lifetime() {
    let workload = import("5 | 2:0:1 1:1:1 | 0:0:1");
    let lifetimes: Vec<Lifetime> = workload.buffers.iter().map(|buffer| buffer.lifetime).collect();
    assert_eq!(lifetimes, [Lifetime::Temporary, Lifetime::Whole, Lifetime::Temporary]);
}

#[test]
fn a_tensor_may_be_updated_in_place_and_named_twice() {
    let workload = import("1000 | | 0:0:1\n1000 | 0:0:1 0:0:1 | 0:0:1 0:0:1\n");
    assert_eq!(workload.kernels, [kernel(&[], &[0]), kernel(&[0], &[0])]);
}

#[test]
fn blank_lines_foreign_line_ends_and_a_byte_order_mark_are_no_matter() {
    let plain = import("1 | | 0:0:1\n2 | 0:0:1 | 1:0:1\n");
    assert_eq!(import("\u{feff}\r\n1 | | 0:0:1\r\n\r\n  2 | 0:0:1 | 1:0:1"), plain);
}

#[test]
fn garbled_lines_are_refused_with_their_number() {
    let bad = [
        ("7 | 0:0:1", "NANOSECONDS | inputs | outputs"),
        ("7 | 0:0:1 | 1:0:1 | 2:0:1", "NANOSECONDS | inputs | outputs"),
        ("7 | 0:0:1 |", "at least one output"),
        ("x | 0:0:1 | 1:0:1", "time in nanoseconds"),
        ("-7 | 0:0:1 | 1:0:1", "time in nanoseconds"),
        ("7 | 0:0 | 1:0:1", "TENSOR:IS_WEIGHT:BYTES"),
        ("7 | 0:2:1 | 1:0:1", "IS_WEIGHT is 0 or 1"),
        ("7 | a:0:1 | 1:0:1", "a tensor's number"),
        ("7 | 0:0:99999999999999999999 | 1:0:1", "size in bytes"),
        ("7 | 0:0:0 | 1:0:1", "at least 1 byte"),
    ];
    for (line, expected) in bad {
        let text = refused(&format!("1 | | 9:0:1\n\n{line}\n"));
        assert!(text.starts_with("test, line 3: found "), "{text}");
        assert!(text.contains(expected) && text.contains("fetch it again"), "{text}");
    }
}

#[test]
fn a_tensor_that_changes_is_refused() {
    let text = refused("1 | | 4:0:8\n1 | 4:0:9 | 5:0:1\n");
    assert!(text.contains("line 2: tensor 4 has bytes 9, but 8 on line 1"), "{text}");
    let text = refused("1 | | 4:0:8\n1 | 4:1:8 | 5:0:1\n");
    assert!(text.contains("tensor 4 has the weight flag 1, but 0 on line 1"), "{text}");
}

#[test]
fn tensors_beyond_any_machine_are_refused() {
    let text = format!("1 | 0:0:{0} | 1:0:{0}", u64::MAX);
    let error = parse("test", text.as_bytes(), &ImportOptions::default());
    assert!(matches!(error, Err(ImportError::Workload(_))), "{error:?}");
}
