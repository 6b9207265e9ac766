//! Files of requests: each format says the same as the references that the file was written from, and any other form is refused.

use std::{
    fmt::Write as _,
    fs,
    io::Write as _,
    path::{Path, PathBuf},
};

use flate2::{Compression, write::GzEncoder};
use proptest::prelude::*;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use vidmm::policy::PolicyChoice;
use vidmm_replay::{
    PAGE, PlayOptions, Played, References, Remarks, RequestFormat, RequestOptions, Setup, Sizes, Step, Trace,
    TraceError, Use, bounds, play,
};

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

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// Reads of blocks, in a version of the format.
fn vscsi(requests: &Requests, version: u16) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (at, &(id, size)) in requests.iter().enumerate() {
        let (command, version_field, size) = (0x28_u16.to_le_bytes(), (version << 8 | 7).to_le_bytes(), size as u32);
        let (number, other) = ((at as u32).to_le_bytes(), 1_u32.to_le_bytes());
        match version {
            1 => bytes.extend([&number[..], &size.to_le_bytes(), &other, &command, &version_field].concat()),
            _ => bytes.extend([&command[..], &version_field, &number, &size.to_le_bytes(), &other].concat()),
        }
        bytes.extend(id.to_le_bytes());
        bytes.extend((at as u64 * 1000).to_le_bytes());
        bytes.extend(if version == 1 { vec![] } else { vec![0; 8] });
    }
    bytes
}

/// A file of a version of libCacheSim's format, with a header of this length. Requests are numbered from 1.
fn lcs(requests: &Requests, version: u64, header: usize) -> Vec<u8> {
    let mut bytes = vec![0; header];
    let magic = 0x1234_5678_9abc_def0_u64.to_le_bytes();
    bytes[..8].copy_from_slice(&magic);
    bytes[header - 8..].copy_from_slice(&magic);
    bytes[8..16].copy_from_slice(&version.to_le_bytes());
    bytes[24..32].copy_from_slice(&(requests.len() as u64).to_le_bytes());
    for (at, &(id, size)) in requests.iter().enumerate() {
        let next = requests[at + 1..].iter().position(|&(other, _)| other == id).map(|later| (at + 2 + later) as i64);
        bytes.extend((at as u32).to_le_bytes());
        bytes.extend(id.to_le_bytes());
        bytes.extend(&size.to_le_bytes()[..if version < 3 { 4 } else { 8 }]);
        // The operation GET, a tenant, and a time to live.
        bytes.extend(if version == 1 { &[][..] } else { &[1, 5, 0, 0] });
        bytes.extend(if version < 3 { &[][..] } else { &[9; 4] });
        bytes.extend(next.unwrap_or(i64::MAX).to_le_bytes());
        bytes.extend(if version < 4 { vec![] } else { vec![7; 4 << (version - 4)] });
    }
    bytes
}

fn opened(path: &Path, options: &RequestOptions, held_uses: usize) -> Result<Trace, TraceError> {
    Trace::requests_held_up_to(path, options, held_uses).expect("its name or the options say the format")
}

/// A trace of some bytes.
fn read(name: &str, bytes: impl AsRef<[u8]>, options: &RequestOptions) -> Result<Trace, TraceError> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, bytes).unwrap();
    opened(&path, options, 1000)
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
        ("packed.oracleGeneral.bin.gz", [gzip(start), gzip(end)].concat()),
        ("packed.csv", gzip(&csv(requests, ""))),
        ("a.vscsi", vscsi(requests, 1)),
        ("b.vscsi.gz", gzip(&vscsi(requests, 2))),
        ("a.lcs", lcs(requests, 1, 8192)),
        ("b.lcs.zst", frame(&lcs(requests, 2, 1024))),
        ("c.lcs", lcs(requests, 3, 8192)),
        ("d.lcs", lcs(requests, 6, 8192)),
    ];
    let traces = files.map(|(name, bytes)| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        // Streamed, and held in memory.
        [0, 1000].map(|uses| opened(&path, &RequestOptions::default(), uses).unwrap())
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
            let options = PlayOptions { setup, ..PlayOptions::new(0, PolicyChoice::LRU) };
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
        let trace = opened(&path, &RequestOptions { batch: 3, ..RequestOptions::default() }, 0).unwrap();
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

fn refused(name: &str, bytes: impl AsRef<[u8]>) -> TraceError {
    read(name, bytes, &RequestOptions::default()).unwrap_err()
}

#[test]
fn a_line_that_is_no_request_is_named() {
    let is_at = |expected: &str, error| matches!(error, TraceError::Request { place, .. } if place == expected);
    assert!(is_at("line 2", refused("a.csv", "1,2,4096\n2,3,many\n")));
    assert!(is_at("line 2", refused("a.csv", "1,2,4096\n2\n")));
    assert!(is_at("request 2", refused("a.oracleGeneral", [0; 30])));
    assert!(is_at("the start", refused("a.lcs", [0; 9000])));
    assert!(is_at("the start", refused("a.lcs", [0; 90])));
    assert!(is_at("the start", refused("a.vscsi", [9; 80])));
    assert!(matches!(refused("a.csv", "time,id,size\n"), TraceError::Empty(_)));
    assert!(matches!(refused("a.csv.zst", "no frame"), TraceError::Read { .. }));
    assert!(matches!(refused("a.csv.gz", "1,2,3\n"), TraceError::Read { .. }));
}

#[test]
fn other_names_are_of_no_such_file() {
    for name in ["bert.txt", "mooncake.jsonl.gz", "csv", "a.csv.bz2"] {
        assert!(Trace::requests(&PathBuf::from(name), &RequestOptions::default()).is_none(), "{name}");
    }
}

const MSR: &str = "128166372003061629,hm,1,Read,383496192,32768,413\n128166372016382155,hm,1,Write,2822144,65536,554\n\
                   128166372026382245,hm,0,Read,2822144,4096,9\n128166372036382245,hm,1,Read,383496192,8192,9\n";
const TWITTER: &str = "0,q:q:1:8WTfjZU14ee,17,213,4,get,0\n1,a,b,c,5,1000,7,set,3600\n2,q:q:1:8WTfjZU14ee,17,213,5,delete,0\n\
                       3,q:q:1:8WTfjZU14ee,17,213,4,gets,0\n";
const CACHELIB: &str = "key,op,size,op_count,key_size\n117,GET,500,3,10\nab\"c,SET,10000,1,20\n117,DELETE,0,1,10\n";
/// The sample of libCacheSim's repository begins so.
const SAMPLE: &str =
    "version,time,op,size,lbn\n1,33898,2a,512,42932745\n1,33898,28,6656,40409911\n1,33899,2a,512,42932745\n";

/// A form that is not the documented form is refused, where each was once read as other columns.
#[test]
fn foreign_forms_are_refused_with_the_remedy_until_the_format_is_stated() {
    for (text, told) in [
        (MSR, "7 columns"),
        (TWITTER, "7 columns"),
        (CACHELIB, "`op_count` is unknown"),
        ("2549,4096,17\n17,4096,3\n", "before"),
        ("1 2 4096\n", "one column"),
        ("1;2;4096\n", "one column"),
        ("1,2,4096,9\n", "4 columns"),
        ("1,2,4096.5\n", "whole number"),
        ("1,2,+4096\n", "whole number"),
        ("1,2,-1\n", "whole number"),
        ("noon,2,4096\n", "its time"),
        ("id,object,size\n1,1,1\n", "two columns"),
        ("time,id,size,ttl\n1,1,1,1\n", "`ttl` is unknown"),
        ("time,id,size,process,tenant\n1,1,1,1,1\n", "two columns that could be `process`"),
        ("time,id,size,process\n1,1,1,a\n2,1,1, \n", "names no process"),
        ("time,id,size\n1,2,3,4\n", "4 columns"),
        ("1,,4096\n", "names no object"),
        ("1,2,1125899906842625\n", "1 PiB"),
    ] {
        let error = refused("a.csv", text).to_string();
        assert!(error.contains(told) && error.contains("a.csv"), "{text}: {error}");
    }
    for text in [MSR, TWITTER, CACHELIB] {
        assert!(refused("a.csv", text).to_string().contains("--format"), "{text}");
    }
}

/// Uses of objects by their sizes in bytes, with a mark at writes.
fn uses(trace: &Trace) -> Vec<(u64, bool)> {
    let (mut stream, mut step, mut sizes, mut uses) = (trace.open(false).unwrap(), Step::default(), vec![], vec![]);
    while stream.read(&mut step).unwrap() {
        sizes.extend(step.objects.iter().map(|object| object.size));
        uses.extend(step.uses.iter().map(|used| (sizes[used.object()], used.is_write())));
    }
    uses
}

fn bytewise(format: RequestFormat) -> RequestOptions {
    RequestOptions { page: 1, format: Some(format), ..RequestOptions::default() }
}

#[test]
fn stated_formats_are_read_with_their_operations() {
    let msr = read("hm_1.csv", MSR, &bytewise(RequestFormat::Msr)).unwrap();
    assert_eq!(uses(&msr), [(32768, false), (65536, true), (4096, false), (32768, false)]);
    assert_eq!((msr.measure().objects, msr.remarks().size_changes), (3, 1));
    let twitter = read("cluster.txt", TWITTER, &bytewise(RequestFormat::Twitter)).unwrap();
    assert_eq!(uses(&twitter), [(230, false), (1005, true), (230, false)]);
    assert_eq!(*twitter.remarks(), Remarks { deletions: 1, ..Remarks::default() });
    assert_eq!((twitter.measure().objects, twitter.measure().footprint), (3, 1235));
    let cachelib = read("kv.csv", CACHELIB, &bytewise(RequestFormat::CacheLib)).unwrap();
    assert_eq!(uses(&cachelib), [(510, false), (510, false), (510, false), (10020, true)]);
    let plain = read("ids.txt", "7\n07\n7\n", &bytewise(RequestFormat::LibCacheSimTxt)).unwrap();
    assert_eq!((plain.measure().objects, plain.measure().footprint, plain.measure().uses), (2, 2, 3));
    let sample = read("a.csv", SAMPLE, &bytewise(RequestFormat::LibCacheSimCsv));
    assert_eq!(uses(&sample.unwrap()), [(512, true), (6656, false), (512, true)]);
    let four = read("a.csv", "1,5,4096,2\n2,5,4096,-1\n", &bytewise(RequestFormat::LibCacheSimCsv)).unwrap();
    assert_eq!(uses(&four), [(4096, false), (4096, false)]);
}

#[test]
fn columns_are_given_by_numbers_or_names_and_words_above_numbers_are_names() {
    let with = |columns: &str| RequestOptions {
        page: 1,
        columns: Some(columns.parse().unwrap()),
        ..RequestOptions::default()
    };
    let expected = [(512, true), (6656, false), (512, true)];
    for columns in ["time=2,id=5,size=4,op=3", "op=op,size=size,id=LBN", "id=5,size=4,op=3"] {
        assert_eq!(uses(&read("a.txt", SAMPLE, &with(columns)).unwrap()), expected, "{columns}");
    }
    let (_, without_names) = SAMPLE.split_once('\n').unwrap();
    let trace = read("a.txt", without_names, &with("time=2,id=5,size=4,op=3")).unwrap();
    assert_eq!(
        (uses(&trace).len(), trace.reading()),
        (3, "csv, time in column 2, id in column 5, size in column 4, op in column 3")
    );
    let tabs = RequestOptions { delimiter: b'\t', ..with("id=1,size=2") };
    assert_eq!(uses(&read("a.tsv", "gr\u{fc}n, hell\t5\n\"a\tb\"\t6\n", &tabs).unwrap()), [(5, false), (6, false)]);
    assert_eq!(uses(&read("a.txt", "x\ny\nx\n", &with("id=1")).unwrap()), [(1, false); 3]);
    for (columns, text, told) in [
        ("id=5,size=4,op=3", "1,2,3,4\n", "`--columns` asks for column 5"),
        ("id=key", SAMPLE, "no column `key`"),
        ("id=a", "a,a\n1,2\n", "two columns `a`"),
        ("id=1,size=2,op=3", "1,2,0\n", "operation `0`"),
        ("id=1,size=2", "1,2\n1,2,3\n", "3 columns"),
        ("id=1,size=2,time=3", "1,2,x\n", "its time `x`"),
    ] {
        let error = read("a.csv", text, &with(columns)).unwrap_err().to_string();
        assert!(error.contains(told), "{columns}: {error}");
    }
    for (columns, told) in [
        ("size=1", "`id`"),
        ("id=0", "first column is 1"),
        ("ids=1", "`ids=1`"),
        ("id=1,id=2", "twice"),
        ("id=", "`id=`"),
    ] {
        let error = columns.parse::<vidmm_replay::Columns>().unwrap_err();
        assert!(error.contains(told), "{columns}: {error}");
    }
}

/// Objects of two processes are different, whatever their names. A submission is of one process.
#[test]
fn a_column_names_the_process_of_a_request() {
    let text = "id,size,tenant\n7,100,a\n8,100,a\n7,200,b\n7,100,a\n7,200,b\n";
    let options = RequestOptions { page: 1, batch: 3, ..RequestOptions::default() };
    let columns = RequestOptions { columns: Some("id=1,size=2,process=tenant".parse().unwrap()), ..options.clone() };
    for (options, reading) in [(options, "a first line of names, id in column 1"), (columns, "id in column 1")] {
        for held_uses in [0, 1000] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("a.csv");
            fs::write(&path, text).unwrap();
            let trace = opened(&path, &options, held_uses).unwrap();
            assert!(trace.reading().contains(reading) && trace.reading().ends_with("process in column 3"));
            assert_eq!((trace.measure().processes, trace.measure().objects), (2, 3));
            let (mut stream, mut step, mut steps) = (trace.open(false).unwrap(), Step::default(), Vec::new());
            while stream.read(&mut step).unwrap() {
                steps.push((step.process, step.uses.clone()));
            }
            let uses =
                [&[0, 1][..], &[2], &[0], &[2]].map(|objects| Vec::from_iter(objects.iter().map(|&at| Use::read(at))));
            assert_eq!(steps, Vec::from_iter([0, 1, 0, 1].into_iter().zip(uses)));
        }
    }
}

#[test]
fn sizes_that_change_are_counted_and_the_option_decides() {
    let text = "1,7,100\n2,7,300\n3,8,50\n4,7,200\n5,7,100\n";
    let sizes = |sizes| {
        let trace = read("a.csv", text, &RequestOptions { page: 1, sizes, ..RequestOptions::default() }).unwrap();
        let (measure, remarks) = (trace.measure(), trace.remarks().size_changes);
        (Vec::from_iter(uses(&trace).iter().map(|&(size, _)| size)), measure.objects, measure.footprint, remarks)
    };
    assert_eq!(sizes(Sizes::First), (vec![100, 100, 50, 100, 100], 2, 150, 2));
    assert_eq!(sizes(Sizes::Largest), (vec![300, 300, 50, 300, 300], 2, 350, 2));
    assert_eq!(sizes(Sizes::New), (vec![100, 300, 50, 200, 100], 5, 350, 3));
}

#[test]
fn a_request_larger_than_the_memory_passes_by_if_that_is_asked_for() {
    let text = "1,1,4096\n2,2,40960\n3,1,4096\n4,2,40960\n5,3,4096\n";
    let trace = read("a.csv", text, &RequestOptions::default()).unwrap();
    let options = PlayOptions::new(2 * PAGE, PolicyChoice::LRU);
    assert!(play(&trace, &options).is_err());
    let setup = Setup { pass_by: true, ..options.setup };
    let figures = [
        play(&trace, &PlayOptions { setup, ..options }).unwrap(),
        bounds::min_split(&trace, &setup).unwrap(),
        bounds::min_whole(&trace, &setup).unwrap(),
    ];
    for played in figures {
        assert_eq!((played.uses, played.misses, played.passed), (5, 4, 2));
        assert_eq!((played.bytes_in, played.bytes_used), (2 * 40960 + 2 * 4096, 2 * 40960 + 3 * 4096));
    }
}

/// The file states a next request that comes otherwise: the optimum must not believe the file.
#[test]
fn wrong_next_uses_of_a_file_are_counted_anew() {
    let requests = Vec::from_iter((0..40_u64).map(|at| (at * at % 7, PAGE)));
    let mut bytes = oracle_general(&requests);
    let right = read("a.oracleGeneral", &bytes, &RequestOptions::default()).unwrap();
    for record in bytes.chunks_exact_mut(24).step_by(3) {
        record[16..].copy_from_slice(&i64::MAX.to_le_bytes());
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.oracleGeneral");
    fs::write(&path, bytes).unwrap();
    let wrong = opened(&path, &RequestOptions::default(), 0).unwrap();
    assert!(wrong.remarks().wrong_next_uses > 0 && right.remarks().wrong_next_uses == 0);
    let min = |trace: &Trace| bounds::min_whole(trace, &Setup::new(2 * PAGE)).unwrap();
    assert_eq!(min(&wrong), min(&right));
}

#[test]
fn a_file_with_fewer_requests_than_the_header_states_is_refused() {
    let mut bytes = lcs(&vec![(1, 1), (2, 1), (1, 1)], 1, 8192);
    bytes.truncate(bytes.len() - 24);
    assert!(refused("a.lcs", bytes).to_string().contains("the header states 3"));
}

/// Memory of a few hundred bytes under the manager is what a naive cache of bytes brings in.
#[test]
fn pages_of_a_byte_are_exact() {
    let text: String = (0..600_u64).map(|at| format!("{at},{},{}\n", at * at % 23, 1 + at * at % 23 * 5)).collect();
    let trace = read("a.csv", text, &RequestOptions { page: 1, ..RequestOptions::default() }).unwrap();
    for local_memory in [111, 300, 517] {
        let (mut resident, mut bytes_in): (Vec<(u64, u64)>, u64) = (Vec::new(), 0);
        for id in (0..600_u64).map(|at| at * at % 23) {
            match resident.iter().position(|&(other, _)| other == id) {
                Some(at) => drop(resident.remove(at)),
                None => bytes_in += 1 + id * 5,
            }
            resident.push((id, 1 + id * 5));
            while resident.iter().map(|(_, size)| size).sum::<u64>() > local_memory {
                resident.remove(0);
            }
        }
        let played = play(&trace, &PlayOptions::new(local_memory, PolicyChoice::LRU)).unwrap();
        assert_eq!(played.bytes_in, bytes_in, "{local_memory}");
    }
}

/// A deletion ends an object: content that comes back is brought in, and the optimum knows.
#[test]
fn a_deleted_object_leaves_the_memory() {
    let text = "id,size,op\n1,4096,get\n1,4096,delete\n1,4096,get\n2,4096,get\n1,4096,get\n";
    let trace = read("a.csv", text, &RequestOptions::default()).unwrap();
    assert_eq!((trace.measure().objects, trace.measure().footprint), (3, 2 * PAGE));
    let options = PlayOptions::new(2 * PAGE, PolicyChoice::LRU);
    assert_eq!(play(&trace, &options).unwrap().misses, 3);
    assert_eq!(bounds::min_split(&trace, &options.setup).unwrap().misses, 3);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Any bytes are requests or a refusal with words.
    #[test]
    fn no_bytes_make_it_panic(bytes in any::<Vec<u8>>(), text in "[0-9a-z,;\n\" .-]{0,80}", format in 0..RequestFormat::ALL.len()) {
        let options = bytewise(RequestFormat::ALL[format]);
        for bytes in [&bytes[..], text.as_bytes(), &[&lcs(&vec![], 3, 1024)[..], &bytes].concat()] {
            if let Err(error) = read("a.bin", bytes, &options) {
                prop_assert!(error.to_string().len() > 20, "{}", error);
            }
        }
    }
}
