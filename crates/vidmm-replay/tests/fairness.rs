//! Traces of several processes: who pays for the memory that all share.

use std::fmt::Write as _;

use proptest::prelude::*;
use vidmm::policy::PolicyChoice;
use vidmm_replay::{
    PAGE, PlayOptions, RequestOptions, Setup, Trace,
    fairness::{alone, fairness},
    is_exact, play, play_processes,
};

/// A request: the process, the object, pages, and the operation.
type Request = (usize, u32, u64, &'static str);

/// The trace of a file with these requests.
fn trace(requests: impl IntoIterator<Item = Request>) -> Option<Trace> {
    let mut text = "process,id,size,op\n".to_owned();
    for (process, id, pages, op) in requests {
        writeln!(text, "program {process},{id},{},{op}", pages * PAGE).unwrap();
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    std::fs::write(&path, text).unwrap();
    Trace::requests(&path, &RequestOptions::default()).unwrap().ok()
}

/// The fairness of a run, and the bytes in of each process in pages.
fn shared(requests: &[Request], options: &PlayOptions) -> (f64, Vec<u64>) {
    let trace = trace(requests.iter().copied()).unwrap();
    assert!(!is_exact(&trace, options), "only the manager knows processes");
    let (played, bytes_in) = play_processes(&trace, options).unwrap();
    assert_eq!(bytes_in.iter().sum::<u64>(), played.bytes_in);
    let alone = alone(&trace, options.setup.warm_up).unwrap();
    (fairness(&alone, &bytes_in, options).unwrap(), bytes_in.iter().map(|bytes| bytes / PAGE).collect())
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let op = prop_oneof![6 => Just("get"), 3 => Just("set"), 1 => Just("delete")];
    // The numbers of objects are the same in all processes, and the objects are not.
    prop::collection::vec((0..3_usize, 0..9_u32, 1..5_u64, op), 1..150)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// The oracle plays a file of each process.
    #[test]
    fn fairness_compares_each_process_with_a_file_of_its_own(mut requests in requests(), room in 4..40_u64, warm_up in 0..20_usize) {
        // Processes have numbers in the order of their first requests, which are no deletions.
        requests.splice(..0, (0..3).map(|process| (process, 0, 1, "get")));
        let mut counts = requests.iter().filter(|(.., op)| *op != "delete").enumerate();
        for policy in [PolicyChoice::LRU, PolicyChoice::S3_FIFO, PolicyChoice::PREDICT.with_seed(1)] {
            let setup = Setup { warm_up, ..Setup::new(room * PAGE) };
            let options = PlayOptions { setup, ..PlayOptions::new(0, policy) };
            let (fair, pages) = shared(&requests, &options);
            let mut quotients = Vec::new();
            for (process, &beside) in pages.iter().enumerate() {
                let own = || requests.iter().copied().filter(|&(by, ..)| by == process);
                let is_early = |&(at, &(by, ..)): &(usize, &Request)| at < warm_up && by == process;
                let warm_up = counts.clone().filter(is_early).count();
                if own().filter(|(.., op)| *op != "delete").count() == warm_up {
                    continue;
                }
                let options = PlayOptions { setup: Setup { warm_up, ..setup }, ..options };
                let by = play(&trace(own()).unwrap(), &options).unwrap().bytes_in / PAGE;
                quotients.push(match (beside, by) {
                    (0, 0) => 1.0,
                    (_, 0) => f64::INFINITY,
                    (beside, by) => beside as f64 / by as f64,
                });
            }
            let (least, most) = quotients.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), &one| (least.min(one), most.max(one)));
            let expected = if quotients.is_empty() || least == most { 1.0 } else { least / most };
            prop_assert!((fair - expected).abs() < 1e-6, "{} is not {}: {:?}", fair, expected, quotients);
        }
        prop_assert!(counts.next().is_some());
    }
}

/// A program that comes back to one object, beside a scan that uses nothing twice: the scan pays nothing for the program.
#[test]
fn a_scan_takes_the_memory_of_a_program_that_sleeps() {
    let mut requests = Vec::new();
    for round in 0..10 {
        requests.push((0, 0, 1, "get"));
        requests.extend((0..20).map(|at| (1, round * 20 + at, 1, "get")));
    }
    for (room, quotient) in [(8, 10), (300, 1)] {
        let (fair, pages) = shared(&requests, &PlayOptions::new(room * PAGE, PolicyChoice::LRU));
        assert_eq!((pages, fair), (vec![quotient, 200], 1.0 / quotient as f64), "{room} pages");
    }
}

/// Each of a thousand processes has a page or two, and all are served.
#[test]
fn a_thousand_processes_share_a_memory() {
    let requests = Vec::from_iter((0..3000).map(|at| (at % 1000, at as u32 / 2000, 1, "get")));
    let (fair, pages) = shared(&requests, &PlayOptions::new(100 * PAGE, PolicyChoice::LRU));
    assert_eq!((pages, fair), (vec![3; 1000], 1.0));
}
