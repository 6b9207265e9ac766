//! Traces are recognised by content, and other files are refused.

use std::io::Write;
use std::path::Path;

use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use vidmm_trace::import::{parse, read};
use vidmm_trace::{ImportError, ImportOptions, Workload};

const G10: &str = "5 | 0:0:64 | 1:0:64\n6 | 1:0:64 | 0:0:64\n";
const MOONCAKE: &str = "{\"timestamp\": 0, \"input_length\": 9, \"output_length\": 1, \"hash_ids\": [0]}\n";

/// Imports with default options.
fn import(bytes: &[u8]) -> Result<Workload, ImportError> {
    parse("test", bytes, &ImportOptions::default())
}

/// Compresses with gzip.
fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("memory can be written");
    encoder.finish().expect("memory can be written")
}

#[test]
fn gzip_is_recognised_by_content() {
    for text in [G10, MOONCAKE] {
        let plain = import(text.as_bytes()).expect("the trace is good");
        assert_eq!(import(&gzip(text.as_bytes())).expect("the trace is good"), plain);
    }
}

#[test]
fn a_truncated_gzip_file_is_refused_wherever_it_ends() {
    let whole = gzip(G10.repeat(3).as_bytes());
    for end in 2..whole.len() {
        let result = import(&whole[..end]);
        assert!(matches!(result, Err(ImportError::Packed { packing: "gzip", .. })), "{end}: {result:?}");
    }
}

#[test]
fn a_damaged_gzip_file_is_refused() {
    let mut bytes = gzip(G10.as_bytes());
    let middle = bytes.len() - 6;
    bytes[middle] ^= 0xff;
    let text = import(&bytes).expect_err("the checksum is wrong").to_string();
    assert!(text.contains("damaged or truncated gzip") && text.contains("fetch it again"), "{text}");
}

#[test]
fn empty_files_are_refused() {
    for bytes in [&b""[..], b"\n \r\n\t\n", &gzip(b"")] {
        assert!(matches!(import(bytes), Err(ImportError::Empty { .. })));
    }
}

#[test]
fn unknown_files_are_refused_with_their_first_line() {
    for text in ["\n<html>\u{1b}[31m</html>", "| a | b |", "{\"a\": 1}", "#!/bin/sh", "12"] {
        let error = import(text.as_bytes()).expect_err("the file is no trace");
        assert!(matches!(error, ImportError::Unknown { .. }), "{error}");
        let message = error.to_string();
        assert!(message.contains("G10") && message.contains("`hash_ids`"), "{message}");
        assert!(!message.contains('\u{1b}'), "{message:?}");
    }
}

#[test]
fn long_first_lines_are_quoted_in_part() {
    let text = import("x".repeat(100_000).as_bytes()).expect_err("no trace").to_string();
    assert!(text.len() < 600, "{text}");
}

#[test]
fn binary_files_are_refused_with_the_line() {
    let bytes = [G10.as_bytes(), b"7 | \xff\xfe"].concat();
    let error = import(&bytes).expect_err("the file is not text");
    assert!(matches!(error, ImportError::NotText { line: 3, .. }), "{error}");
}

#[test]
fn endless_files_are_refused_before_memory_runs_out() {
    let bomb = gzip(&vec![b' '; 257 << 20]);
    assert!(matches!(import(&bomb), Err(ImportError::TooLong { .. })));
}

#[test]
fn a_missing_file_is_refused_with_its_path() {
    let result = read(Path::new("/nonexistent/trace.txt"), &ImportOptions::default());
    let text = result.expect_err("there is no such file").to_string();
    assert!(text.contains("/nonexistent/trace.txt") && text.contains("check the path"), "{text}");
}

#[test]
fn a_folder_is_refused() {
    let result = read(Path::new(env!("CARGO_MANIFEST_DIR")), &ImportOptions::default());
    assert!(matches!(result, Err(ImportError::Unreadable { .. })));
}

#[test]
fn a_workload_is_named_after_its_file_whatever_the_extension_claims() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("training.jsonl.gz");
    std::fs::write(&path, G10).expect("the folder for tests can be written");
    let workload = read(&path, &ImportOptions::default()).expect("the trace is good");
    assert_eq!(workload.name, "training");
}

/// Pieces of a damaged trace.
fn fragments() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        Just(G10.to_owned()),
        Just(MOONCAKE.to_owned()),
        "[0-9:| \n]{0,20}",
        "[\\[\\]{}\":,0-9a-z_ \n]{0,20}",
        Just("18446744073709551615".to_owned()),
    ];
    proptest::collection::vec(fragment, 0..8).prop_map(|fragments| fragments.concat())
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in any::<Vec<u8>>()) {
        let _ = import(&bytes);
        let _ = import(&gzip(&bytes));
    }

    #[test]
    fn no_damaged_trace_makes_it_panic(text in fragments()) {
        if let Ok(workload) = import(text.as_bytes()) {
            prop_assert_eq!(workload.validate(), Ok(()));
            workload.footprint(1 << 21);
        }
    }

    #[test]
    fn no_damaged_gzip_makes_it_panic(at in 0..60_usize, bit in 0..8_u32) {
        let mut bytes = gzip(G10.as_bytes());
        let at = at % bytes.len();
        bytes[at] ^= 1 << bit;
        let _ = import(&bytes);
    }
}
