//! Reading `kernels.config` of G10, serving logs of Bailian, snapshots of PyTorch, and files packed by zstd.

use std::path::Path;

use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde::Serialize;
use vidmm_trace::import::{parse, read_with_format};
use vidmm_trace::{Cost, ImportError, ImportOptions, Lifetime, TraceFormat, Workload};

const RULE: &str = "______________________________________________________________________\n";

/// A block of `kernels.config`, with tensors as number, weight flag and bytes.
fn block(number: u64, cycles: u64, inputs: &[(u64, u8, u64)], outputs: &[(u64, u8, u64)], newer: bool) -> String {
    let tensors = |list: &[(u64, u8, u64)]| -> String {
        let range = if newer { ", Range:0--4096" } else { "" };
        let line = |&(number, weight, bytes): &(u64, u8, u64)| {
            format!("tensor{number} Is weight (global)?: {weight}, Size in byte: {bytes}{range}\n")
        };
        list.iter().map(line).collect()
    };
    let layer = if newer { "Parent Layer ID:3; Name:Conv2d\n" } else { "" };
    let shape = if newer { "(512,32,149,149)\n" } else { "" };
    let (inputs, outputs) = (tensors(inputs), tensors(outputs));
    format!(
        "Kernel ID: {number}, Name: Conv2d_Forward\n{layer}Execution Time:            {cycles}\n{shape}Input Tensors:\n{inputs}\
         Output Tensors:\n{outputs}"
    )
}

fn import(text: &[u8]) -> Result<Workload, ImportError> {
    parse("test", text, &ImportOptions::default())
}

#[test]
fn both_versions_of_kernels_config_are_what_the_lines_of_g10_say() {
    let lines = "1000 | 2:0:131072 1:1:8192 | 0:0:100663296\n500 | 0:0:100663296 | 3:0:4096\n";
    let expected = import(lines.as_bytes()).unwrap();
    for newer in [false, true] {
        let first = block(0, 1200, &[(2, 0, 131_072), (1, 1, 8192)], &[(0, 0, 100_663_296)], newer);
        let second = block(1, 600, &[(0, 0, 100_663_296)], &[(3, 0, 4096), (9, 0, 0)], newer);
        for text in [format!("{RULE}{first}{RULE}{second}{RULE}"), format!("{first}{second}")] {
            let workload = import(text.as_bytes()).unwrap();
            let kernels = |workload: &Workload| {
                let named = |list: &[u32]| {
                    let mut names = Vec::from_iter(list.iter().map(|&at| workload.buffers[at as usize].name));
                    names.sort_unstable();
                    names
                };
                let kernels = workload.kernels.iter();
                let kernels = kernels.map(|kernel| (named(&kernel.reads), named(&kernel.writes), kernel.cost));
                let mut kernels = Vec::from_iter(kernels.filter(|(_, _, cost)| *cost != Cost::Upload));
                kernels.sort_by_key(|kernel| kernel.1.clone());
                kernels
            };
            assert_eq!(kernels(&workload), kernels(&expected), "{text}");
            assert_eq!(workload.footprint(1), expected.footprint(1));
        }
    }
}

#[test]
fn a_block_of_kernels_config_with_a_mistake_is_refused_with_the_line() {
    let good = block(0, 10, &[(0, 0, 64)], &[(1, 0, 64)], true);
    for (was, is, told) in [
        ("Execution Time:            10\n", "", "line 1: found `no time of the kernel`"),
        ("            10\n", " fast\n", "line 3: found `fast`"),
        ("tensor1 Is weight (global)?: 0", "tensor1 Is weight (global)?: 2", "line 8: found `tensor1"),
        ("Size in byte: 64, Range:0--4096\nOutput", "Size: 64\nOutput", "line 6: found `tensor0"),
        ("Output Tensors:\n", "Output Tensors\n", "line 7: found `Output Tensors`"),
        ("Input Tensors:\n", "", "line 5: found `tensor0"),
        ("Kernel ID: 0, Name: Conv2d_Forward\n", "______\nKernel 0\n", "line 2: found `Kernel 0`"),
    ] {
        assert!(good.contains(was), "{was}");
        let kernels = ImportOptions { format: Some(TraceFormat::G10Kernels), ..ImportOptions::default() };
        let error = parse("test", good.replacen(was, is, 1).as_bytes(), &kernels).unwrap_err().to_string();
        assert!(error.contains(told), "{told}: {error}");
    }
}

fn bailian(chat: u64, timestamp: &str, ids: &[u64]) -> String {
    format!(
        "{{\"chat_id\": {chat}, \"parent_chat_id\": -1, \"timestamp\": {timestamp}, \"input_length\": 40, \
         \"output_length\": 2, \"type\": \"text\", \"turn\": 1, \"hash_ids\": {ids:?}}}\n"
    )
}

#[test]
fn arrivals_of_bailian_are_seconds_and_blocks_have_16_tokens() {
    let text = bailian(1, "0.0", &[5, 6, 7]) + &bailian(2, "61.114", &[5, 8]) + &bailian(3, "62", &[5]);
    let workload = import(text.as_bytes()).unwrap();
    let arrivals = Vec::from_iter(workload.kernels.iter().map(|kernel| kernel.not_before_ns));
    assert_eq!(arrivals, [0, 61_114_000_000, 62_000_000_000]);
    assert_eq!(workload.kernels[0].cost, Cost::Nanoseconds(3 * 16 * 20_000 + 2 * 100_000));
    let error = import(bailian(1, "-0.5", &[5]).as_bytes()).unwrap_err().to_string();
    assert!(error.contains("timestamp -0.5"), "{error}");
}

/// Without `chat_id` a time with a fraction could be milliseconds or seconds.
#[test]
fn a_fraction_in_an_unnamed_log_is_refused_until_the_format_is_stated() {
    let text = bailian(1, "1.5", &[5]).replace("\"chat_id\": 1, ", "");
    let error = import(text.as_bytes()).unwrap_err().to_string();
    assert!(error.contains("milliseconds") && error.contains("--format bailian"), "{error}");
    let stated = ImportOptions { format: Some(TraceFormat::Bailian), ..ImportOptions::default() };
    assert_eq!(parse("test", text.as_bytes(), &stated).unwrap().kernels[0].not_before_ns, 1_500_000_000);
}

#[derive(Serialize)]
struct Snapshot {
    segments: Vec<u64>,
    device_traces: Vec<Vec<Event>>,
}

#[derive(Serialize)]
struct Event {
    action: &'static str,
    addr: u64,
    size: u64,
    stream: u64,
    time_us: u64,
    frames: Vec<(&'static str, u32)>,
}

fn event(action: &'static str, addr: u64, size: u64) -> Event {
    Event { action, addr, size, stream: 0, time_us: 7, frames: vec![("train.py", 12)] }
}

fn snapshot(devices: Vec<Vec<Event>>) -> Vec<u8> {
    let snapshot = Snapshot { segments: vec![1], device_traces: devices };
    serde_pickle::to_vec(&snapshot, serde_pickle::SerOptions::new()).unwrap()
}

#[test]
fn allocations_and_frees_of_a_snapshot_are_uses() {
    let high = 0x7f_0000_0000_u64;
    let events = vec![
        event("segment_alloc", high, 2 << 20),
        event("alloc", high, 512),
        event("alloc", high + 512, 1024),
        event("free_requested", high, 512),
        event("free_completed", high, 512),
        event("alloc", high, 4096),
        event("free_completed", high + (1 << 20), 256),
    ];
    let workload = import(&snapshot(vec![vec![], events])).unwrap();
    let bytes = Vec::from_iter(workload.buffers.iter().map(|buffer| (buffer.bytes, buffer.lifetime)));
    let (temporary, kept) = (Lifetime::Temporary, Lifetime::Kept);
    assert_eq!(bytes, [(512, temporary), (1024, kept), (4096, kept), (256, temporary)]);
    let kernels = workload.kernels.iter().filter(|kernel| !kernel.is_upload());
    let uses = Vec::from_iter(kernels.map(|kernel| (kernel.reads.clone(), kernel.writes.clone())));
    let expected = [(vec![], vec![0]), (vec![], vec![1]), (vec![0], vec![]), (vec![], vec![2]), (vec![3], vec![])];
    assert_eq!(uses, expected);
}

#[test]
fn a_snapshot_with_a_gap_or_a_second_device_is_refused_with_the_remedy() {
    for (devices, told) in [
        (vec![vec![], vec![]], "_record_memory_history"),
        (vec![vec![event("alloc", 1, 1)], vec![event("alloc", 1, 1)]], "second device"),
        (vec![vec![event("alloc", 1, 1), event("alloc", 1, 1)]], "gap"),
        (vec![vec![event("alloc", 1, 1), event("free_completed", 1, 2)]], "a free of 2 bytes"),
        (vec![vec![event("steal", 1, 1)]], "`steal`"),
        (vec![vec![event("oom", 1, 1)]], "record while work runs"),
    ] {
        let error = import(&snapshot(devices)).unwrap_err();
        assert!(matches!(error, ImportError::Snapshot { .. }) && error.to_string().contains(told), "{error}");
    }
}

/// The pickle asks for a call of `os.system`; nothing is called.
#[test]
fn a_pickle_with_a_call_is_refused() {
    let error = import(b"\x80\x02cos\nsystem\nq\x00X\x02\x00\x00\x00lsq\x01\x85q\x02Rq\x03.").unwrap_err();
    assert!(matches!(error, ImportError::Snapshot { .. }), "{error}");
}

#[test]
fn zstd_is_recognised_by_content_with_several_frames_and_skippable_frames() {
    let text = "5 | 0:0:64 | 1:0:64\n".repeat(50);
    let plain = import(text.as_bytes()).unwrap();
    let (start, end) = text.as_bytes().split_at(333);
    let frame = |bytes: &[u8]| compress_to_vec(bytes, CompressionLevel::Fastest);
    let skippable = [&[0x5e, 0x2a, 0x4d, 0x18, 3, 0, 0, 0][..], b"abc"].concat();
    let packed = [skippable.clone(), frame(start), skippable, frame(end)].concat();
    assert_eq!(import(&packed).unwrap(), plain);
    for end in [5, 9, 14, packed.len() - 4] {
        assert!(matches!(import(&packed[..end]), Err(ImportError::Packed { packing: "zstd", .. })), "{end}");
    }
}

#[test]
fn a_file_named_for_another_packing_is_refused() {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("formats.jsonl.gz");
    std::fs::write(&path, bailian(1, "0.5", &[1])).unwrap();
    // Text with such a name was always read; content decides.
    assert_eq!(read_with_format(&path, &ImportOptions::default()).unwrap().1, TraceFormat::Bailian);
    assert!(vidmm_trace::packed::open(&path, true).is_err());
}

proptest! {
    #[test]
    fn no_damaged_snapshot_makes_it_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<prop::sample::Index>()) {
        let mut bytes = snapshot(vec![vec![event("alloc", 1, 512), event("free_completed", 1, 512)]]);
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = import(&bytes);
        bytes.truncate(cut.index(bytes.len()));
        let _ = import(&bytes);
    }
}
