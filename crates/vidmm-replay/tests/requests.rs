//! Files of requests, in the formats of libCacheSim: each says the same as the references it was written from.

use std::{fmt::Write as _, fs, path::PathBuf};

use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use vidmm::policy::PolicyChoice;
use vidmm_replay::{PAGE, PlayOptions, Played, References, Setup, Step, Trace, TraceError, Use, bounds, play};

/// Requests: an object, and its size in bytes.
type Requests = Vec<(u64, u64)>;

fn csv(requests: &Requests, header: &str) -> Vec<u8> {
    let mut text = String::from(header);
    for (time, (id, size)) in requests.iter().enumerate() {
        writeln!(text, "{time},{id},{size}").unwrap();
    }
    text.into_bytes()
}

fn oracle_general(requests: &Requests) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, &(id, size)) in requests.iter().enumerate() {
        let next = requests[at + 1..].iter().position(|&(other, _)| other == id).map(|later| (at + 1 + later) as i64);
        bytes.extend((at as u32).to_le_bytes());
        bytes.extend(id.to_le_bytes());
        bytes.extend((size as u32).to_le_bytes());
        bytes.extend(next.unwrap_or(-1).to_le_bytes());
    }
    bytes
}

/// The same requests in each format, and in memory.
fn all_traces(folder: &tempfile::TempDir, requests: &Requests) -> Vec<Trace> {
    let oracle = oracle_general(requests);
    let (start, end) = oracle.split_at(oracle.len() / 2);
    let frame = |bytes: &[u8]| compress_to_vec(bytes, CompressionLevel::Fastest);
    let files = [
        ("plain.csv", csv(requests, "")),
        ("named.CSV", csv(requests, "time,obj_id,obj_size\n")),
        ("packed.csv.zst", frame(&csv(requests, ""))),
        ("plain.oracleGeneral", oracle.clone()),
        // Large files are made of several frames.
        ("packed.oracleGeneral.zst", [frame(start), frame(end)].concat()),
    ];
    let traces = files.map(|(name, bytes)| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        // Streamed, and held in memory.
        [0, 1000].map(|uses| Trace::requests_held_up_to(&path, 1, uses).expect("its name says the format").unwrap())
    });
    let mut traces = Vec::from_iter(traces.into_iter().flatten());
    let mut held = References::new("held", []);
    let mut numbers = std::collections::BTreeMap::new();
    for &(id, size) in requests {
        let number = *numbers.entry(id).or_insert_with(|| held.add(size, vidmm_trace::Lifetime::Whole));
        held.submit([Use::read(number)]);
    }
    traces.push(held.into());
    traces
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn each_format_says_the_same(ids in proptest::collection::vec(0..20_u64, 1..200), room in 8..60_u64) {
        let requests = Vec::from_iter(ids.into_iter().map(|id| (id * 7919, 1 + id * 1500)));
        let folder = tempfile::tempdir().unwrap();
        let traces = all_traces(&folder, &requests);
        let setup = Setup { warm_up: 10, ..Setup::new(room * PAGE) };
        let figures = |trace: &Trace| -> [Played; 3] {
            let options = PlayOptions { setup, ..PlayOptions::new(0, PolicyChoice::Lru) };
            [play(trace, &options).unwrap(), bounds::min_split(trace, &setup).unwrap(), bounds::min_whole(trace, &setup).unwrap()]
        };
        let first = figures(&traces[0]);
        for trace in &traces[1..] {
            prop_assert_eq!(trace.measure(), traces[0].measure());
            prop_assert_eq!(figures(trace), first, "{}", trace.name());
        }
    }
}

/// A submission of several requests uses each object once, and the last request says when it is used next.
#[test]
fn a_batch_of_requests_is_a_submission() {
    let folder = tempfile::tempdir().unwrap();
    let requests = vec![(5, 4096), (6, 8192), (5, 4096), (7, 1), (5, 4096)];
    for (name, bytes) in [("a.csv", csv(&requests, "")), ("a.oracleGeneral", oracle_general(&requests))] {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        let trace = Trace::requests_held_up_to(&path, 3, 0).unwrap().unwrap();
        let (mut stream, mut step) = (trace.open(true).unwrap(), Step::default());
        assert!(stream.read(&mut step).unwrap());
        assert_eq!(step.uses, [Use::read(0), Use::read(1)]);
        assert!(step.next_uses[0] < u64::MAX && step.next_uses[1] == u64::MAX);
        assert_eq!(Vec::from_iter(step.objects.iter().map(|object| object.size)), [4096, 8192]);
        assert!(stream.read(&mut step).unwrap());
        assert_eq!(step.uses, [Use::read(2), Use::read(0)]);
        assert_eq!(step.next_uses, [u64::MAX; 2]);
        assert!(!stream.read(&mut step).unwrap());
    }
}

fn refused(name: &str, bytes: &[u8]) -> TraceError {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    Trace::requests(&path, 1).expect("its name says the format").unwrap_err()
}

#[test]
fn a_line_that_is_no_request_is_named() {
    let is_at = |expected: &str, error| matches!(error, TraceError::Request { place, .. } if place == expected);
    assert!(is_at("line 2", refused("a.csv", b"1,2,4096\n2,3,many\n")));
    assert!(is_at("line 2", refused("a.csv", b"1,2,4096\n2\n")));
    assert!(is_at("request 2", refused("a.oracleGeneral", &[0; 30])));
    assert!(matches!(refused("a.csv", b"time,id,size\n"), TraceError::Empty(_)));
    assert!(matches!(refused("a.csv.zst", b"no frame"), TraceError::Read { .. }));
}

#[test]
fn other_names_are_of_no_such_file() {
    for name in ["bert.txt", "mooncake.jsonl.gz", "csv", "a.csv.gz"] {
        assert!(Trace::requests(&PathBuf::from(name), 1).is_none(), "{name}");
    }
}
