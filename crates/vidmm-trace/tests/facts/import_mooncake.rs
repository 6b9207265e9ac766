//! Reading Mooncake traces.

use vidmm_trace::import::parse;
use vidmm_trace::{Cost, ImportError, ImportOptions, Lifetime, Workload};

/// A request line.
fn line(timestamp: u64, output: u64, ids: &[u64]) -> String {
    format!(
        "{{\"timestamp\": {timestamp}, \"input_length\": 700, \"output_length\": {output}, \
         \"hash_ids\": {ids:?}}}\n"
    )
}

/// Imports a trace that is good.
fn import(text: &str) -> Workload {
    parse("test", text.as_bytes(), &ImportOptions::default()).expect("the trace is good")
}

/// Imports a trace whose second line is bad, and returns the message.
fn refused(second: &str) -> String {
    let text = line(0, 1, &[0]) + second;
    let result = parse("test", text.as_bytes(), &ImportOptions::default());
    result.expect_err("the trace is bad").to_string()
}

#[test]
fn known_blocks_are_read_and_new_ones_written() {
    let workload = import(&(line(0, 1, &[0, 1]) + &line(5, 1, &[0, 7, 1, 7])));
    let [first, second] = &workload.kernels[..] else { panic!("two requests") };
    assert_eq!((&first.reads[..], &first.writes[..]), (&[][..], &[0, 1][..]));
    assert_eq!((&second.reads[..], &second.writes[..]), (&[0, 1][..], &[2][..]));
    assert_eq!(workload.buffers[2].name, 7);
}

#[test]
fn a_block_repeated_in_its_first_request_is_written_once() {
    let workload = import(&line(0, 1, &[4, 4]));
    assert_eq!((&workload.kernels[0].reads[..], &workload.kernels[0].writes[..]), (&[][..], &[0][..]));
}

#[test]
fn blocks_are_kept_and_have_the_size_asked_for() {
    let text = line(0, 1, &[0]);
    let options = ImportOptions { block_bytes: 4096, ..ImportOptions::default() };
    let workload = parse("test", text.as_bytes(), &options).expect("the trace is good");
    assert_eq!(workload.buffers[0].bytes, 4096);
    assert_eq!(workload.buffers[0].lifetime, Lifetime::Kept);
    assert_eq!(import(&text).buffers[0].bytes, 2 << 20);
}

#[test]
fn arrivals_are_nanoseconds_and_nothing_is_uploaded() {
    let workload = import(&(line(0, 1, &[0]) + &line(27_482, 1, &[0])));
    assert_eq!(workload.kernels[1].not_before_ns, 27_482_000_000);
    assert_eq!(workload.footprint(1).uploads, 0);
}

#[test]
fn the_time_counts_new_blocks_and_the_answer() {
    let workload = import(&(line(0, 10, &[0, 1]) + &line(5, 0, &[0, 1])));
    let times: Vec<Cost> = workload.kernels.iter().map(|kernel| kernel.cost).collect();
    let first = 2 * 512 * 20_000 + 10 * 100_000;
    assert_eq!(times, [Cost::Nanoseconds(first), Cost::Nanoseconds(20_000)]);
}

#[test]
fn fields_of_newer_traces_are_passed_over() {
    let text = line(0, 1, &[0]).replace('}', ", \"type\": \"chat\"}");
    assert_eq!(import(&text), import(&line(0, 1, &[0])));
}

#[test]
fn damaged_lines_are_refused_with_their_number_and_column() {
    let whole = line(1, 1, &[0, 1]);
    for cut in 1..whole.len() - 1 {
        let text = refused(&whole[..cut]);
        assert!(text.starts_with("test, line 2: found an unreadable request (column "), "{text}");
        assert!(!text.contains("line 1"), "{text}");
        assert!(text.contains("fetch it again or remove the line"), "{text}");
    }
}

#[test]
fn values_out_of_range_are_refused() {
    let bad = [
        (line(1, 1, &[]), "at least one block"),
        (line(1, 1, &[0]).replace("700", "0"), "a prompt of at least 1 token"),
        (line(1, 1, &[0]).replace("700", "-1"), "non-negative"),
        (line(1, 1, &[0]).replace("700", "\"x\""), "non-negative"),
        (line(u64::MAX, 1, &[0]), "fits 64 bits"),
        (line(1, u64::MAX, &[0]), "fits 64 bits"),
    ];
    for (line, expected) in bad {
        let text = refused(&line);
        assert!(text.starts_with("test, line 2: ") && text.contains(expected), "{text}");
    }
}

#[test]
fn a_block_size_of_zero_is_refused() {
    let options = ImportOptions { block_bytes: 0, ..ImportOptions::default() };
    let result = parse("test", line(0, 1, &[0]).as_bytes(), &options);
    assert!(matches!(result, Err(ImportError::NoBlockBytes)));
}
