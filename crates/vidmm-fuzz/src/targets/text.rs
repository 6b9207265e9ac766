//! The small languages of command lines and scenarios: sizes, shares, times, faults, names.

use std::fmt::Display;
use std::str::FromStr;

use vidmm_sim::{Duration, Fault, local_memory};
use vidmm_trace::{ByteSize, LocalMemory, allocation_name};

use super::Target;

pub const TARGET: Target = Target {
    name: "text",
    run,
    seeds: || SEEDS.map(|text| text.as_bytes().to_vec()).into(),
    words: &["KiB", "MiB", "GiB", "TiB", "kb", "%", "ms", "us", "ns", " s", "@", ".", "allocation ", "none", "-", "e9"],
    max_len: 48,
};

const SEEDS: [&str; 16] = [
    "512",
    "64KiB",
    "24 GiB",
    "1.5G",
    "2T",
    "50%",
    "12.5%",
    "0.01%",
    "100000%",
    "20 ms",
    "1 s",
    "3600 s",
    "skip-tlb-flush",
    "drop-page-out@3",
    "allocation 7.1",
    "16777215.9999TiB",
];

fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    read_back::<Fault>(&text);
    read_back::<Duration>(&text);
    // The size that is shown is rounded, and is still a size.
    if let Ok(size) = refused_with_a_word(text.parse::<ByteSize>()) {
        let shown = size.to_string();
        assert!(shown.parse::<ByteSize>().is_ok() || size.bytes() > u64::MAX - (1 << 40), "{shown} is not read back");
    }
    for amount in
        [refused_with_a_word(text.parse::<LocalMemory>()), local_memory(&text).map_err(drop)].into_iter().flatten()
    {
        assert!(!amount.to_string().is_empty());
        _ = amount.bytes_of(u64::MAX);
    }
    if let Ok(name) = refused_with_a_word(allocation_name(&text)) {
        assert_eq!(allocation_name(&name.to_string()), Ok(name));
    }
}

/// The text of a value that was read is read as the same value.
fn read_back<T: FromStr<Err: Display> + Display + PartialEq + std::fmt::Debug>(text: &str) {
    if let Ok(value) = refused_with_a_word(text.parse::<T>()) {
        let shown = value.to_string();
        assert!(shown.parse::<T>().is_ok_and(|again| again == value), "{text:?} is shown as {shown:?}");
    }
}

fn refused_with_a_word<T, E: Display>(answer: Result<T, E>) -> Result<T, ()> {
    answer.map_err(|error| assert!(error.to_string().len() > 10, "a refusal without a word"))
}
