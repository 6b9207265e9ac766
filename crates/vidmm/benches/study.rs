//! The cost of a study (`vidmm_replay::study`): requests a second on one thread, and bytes of an object.
//!
//! | goal | measured | part |
//! |---|---|---|
//! | S3 | nanoseconds of a request, 10^6 objects, held in memory and read from a file | `speed` |
//! | S4 | bytes of an object, of a file that is streamed | `memory` |
//!
//! ```text
//! cargo bench -p vidmm --bench study -- [--quick] [--json] [--check] [speed] [memory]
//! ```
//!
//! Requests follow Zipf's law, objects have 1 to 64 pages, and local memory has 30 % of the footprint. `cargo bench -p vidmm --bench growth -- study`
//! counts the instructions of a request.

#[allow(dead_code, reason = "other benchmarks use the rest of it")]
#[path = "support/draws.rs"]
mod draws;
#[path = "support/parts.rs"]
mod parts;
#[allow(dead_code, reason = "other benchmarks use the rest of it")]
#[path = "support/report.rs"]
mod report;

use std::{
    env, fs,
    io::{BufWriter, Write},
    path::Path,
    process::{Command, ExitCode},
    time::Instant,
};

use draws::{Lists, Popularity, SplitMix64};
use parts::Part;
use report::{Goal, Metric, Report};
use vidmm::policy::PolicyChoice;
use vidmm_replay::{PlayOptions, References, RequestOptions, Trace, Use, study};

/// The argument that makes this process a measurement of memory.
const CHILD: &str = "--measure-memory";

/// A page in bytes.
const PAGE: u64 = 4096;

/// How much is measured.
struct Scale {
    objects: usize,
    rounds: usize,
}

const PARTS: [Part<Scale>; 2] = [("speed", speed), ("memory", memory)];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [flag, policy, path] = &arguments[..]
        && flag == CHILD
    {
        let policy = policy.parse().expect("the parent names a policy");
        let before = resident_bytes();
        let trace = streamed(Path::new(path));
        played(&trace, policy);
        println!("{}", (resident_bytes() - before) as f64 / trace.measure().objects as f64);
        return ExitCode::SUCCESS;
    }
    parts::run(&arguments, &PARTS, &Scale { objects: 1_000_000, rounds: 3 }, &Scale { objects: 100_000, rounds: 3 })
}

/// The requested objects, each once and then by popularity, and the sizes of all.
fn requests(objects: usize) -> (Vec<u32>, Vec<u64>) {
    let mut random = SplitMix64(7);
    let popularity = Popularity::zipf(objects, 0.8, &mut random);
    let mut requests = random.permutation(objects);
    requests.extend(Lists::draw(3 * objects, 1, &popularity, &mut random).round(0, 1).map(|list| list[0]));
    let sizes = (0..objects).map(|_| (1 + random.below(64) as u64) * PAGE).collect();
    (requests, sizes)
}

fn write_csv(path: &Path, (requests, sizes): &(Vec<u32>, Vec<u64>)) {
    let mut file = BufWriter::new(fs::File::create(path).expect("the folder can be written"));
    for (time, &object) in requests.iter().enumerate() {
        writeln!(file, "{time},{object},{}", sizes[object as usize]).expect("the disk has room");
    }
    file.flush().expect("the disk has room");
}

fn streamed(path: &Path) -> Trace {
    let trace = Trace::requests_held_up_to(path, &RequestOptions::default(), 0);
    trace.expect("its name is that of a CSV file").expect("it can be read")
}

fn played(trace: &Trace, policy: PolicyChoice) {
    let local_memory = trace.measure().footprint * 3 / 10;
    let played = study(trace, &PlayOptions::new(local_memory, policy)).expect("each object fits");
    assert!(played.evictions > 0, "memory is short");
}

/// Nanoseconds of a request.
fn nanoseconds(trace: &Trace, policy: PolicyChoice) -> f64 {
    let start = Instant::now();
    played(trace, policy);
    start.elapsed().as_nanos() as f64 / trace.measure().uses as f64
}

fn speed(scale: &Scale, report: &mut Report) {
    let drawn = requests(scale.objects);
    let folder = tempfile::tempdir().expect("there is a folder");
    let path = folder.path().join("requests.csv");
    write_csv(&path, &drawn);
    let mut references = References::new("requests", drawn.1);
    drawn.0.iter().for_each(|&object| references.submit([Use::read(object)]));
    let (held, file) = (Trace::from(references), streamed(&path));
    for policy in PolicyChoice::ALL {
        let mut metric = |what: &str, trace: &Trace, goal| {
            let rounds = Vec::from_iter((0..scale.rounds).map(|_| nanoseconds(trace, policy)));
            report.add(Metric::alone(format!("S3 {policy}: a request {what}"), "ns", &rounds, goal));
        };
        // 2 million requests a second.
        let goal = Goal::gate(500.0).filter(|_| policy == PolicyChoice::LRU);
        metric("held in memory", &held, goal);
        metric("of a streamed file", &file, goal);
    }
}

fn memory(scale: &Scale, report: &mut Report) {
    let folder = tempfile::tempdir().expect("there is a folder");
    let path = folder.path().join("requests.csv");
    write_csv(&path, &requests(scale.objects));
    for policy in PolicyChoice::ALL {
        let program = env::current_exe().expect("this program has a path");
        let output =
            Command::new(program).args([CHILD, &policy.to_string()]).arg(&path).output().expect("it runs again");
        let text = String::from_utf8_lossy(&output.stdout);
        let bytes = text.trim().parse().unwrap_or_else(|_| panic!("a measurement of memory failed: {output:?}"));
        report.add(Metric::alone(
            format!("S4 {policy}: an object of a streamed file"),
            "B",
            &[bytes],
            Goal::exact(120.0),
        ));
    }
}

/// The most bytes of this process that were in memory at once.
fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").expect("memory is measured on Linux");
    let most = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.strip_suffix(" kB"));
    let most = most.unwrap_or_else(|| panic!("the most memory is no line of {status}"));
    1024 * most.trim().parse::<u64>().expect("it is a number")
}
