//! Bytes that policies of eviction bring in, beside the offline optimum. They are counted and not timed: each run gives the same.
//!
//! Metrics begin with the number of the goal that they are held to:
//!
//! | goal | measured | part |
//! |---|---|---|
//! | T1, T2, T3 | six workloads at four sizes of memory: the geometric mean, the worst, layers in turn at 90 % | `suite` |
//! | T4 | the same by the limit: 1.03 of the better of `lru` and `s3-fifo`, and a tenth of local memory | `suite` |
//! | T4 | traces in the folder that `VIDMM_TRACES` names: six iterations of G10's, requests of Mooncake's | `traces` |
//!
//! ```text
//! cargo bench -p vidmm --bench traffic -- [--quick] [--json] [--check] [suite] [traces]
//! ```
//!
//! The references are played with two submissions in flight, with the victims of the manager; `predict` is held to the goals. The optimum is MIN on bytes
//! (`vidmm_replay::bounds`). `--quick` leaves out the workload of a camera, which is three quarters of the time; then the means are
//! of five workloads.

#[path = "support/parts.rs"]
mod parts;
#[allow(dead_code, reason = "other benchmarks use the rest of it")]
#[path = "support/report.rs"]
mod report;

use std::{env, path::Path, process::ExitCode};

use parts::Part;
use report::{Goal, Metric, Report};
use vidmm::policy::PolicyChoice;
use vidmm_replay::{Lists, PlayOptions, References, Setup, Trace, bounds, study, suite};
use vidmm_trace::{ImportOptions, Lifetime, import};

/// The seed of all workloads.
const SEED: u64 = 1;

/// The last is held to the goals; the first two make the limit.
const POLICIES: [PolicyChoice; 3] = [PolicyChoice::LRU, PolicyChoice::S3_FIFO, PolicyChoice::PREDICT];

/// Whether the workload of a camera is left out.
struct Scale {
    is_quick: bool,
}

const PARTS: [Part<Scale>; 2] = [("suite", suite), ("traces", traces)];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    parts::run(&arguments, &PARTS, &Scale { is_quick: false }, &Scale { is_quick: true })
}

/// The bytes that a policy brings in.
fn bytes_in(trace: &Trace, local_memory: u64, policy: PolicyChoice) -> f64 {
    // A camera moves slowly: with lists made anew nearly all uses would be repeated ones.
    let options = PlayOptions { lists: Lists::Kept, ..PlayOptions::new(local_memory, policy) };
    study(trace, &options).expect("the largest submission fits").bytes_in as f64
}

fn suite(scale: &Scale, report: &mut Report) {
    let mut by_policy = POLICIES.map(|policy| (policy, Vec::new()));
    let mut worst_by_limit: f64 = 0.0;
    for (name, generate) in suite::WORKLOADS {
        if scale.is_quick && name == "camera" {
            continue;
        }
        let trace = Trace::from(generate(SEED));
        for percent in suite::PERCENTS {
            let local_memory = trace.measure().footprint * percent / 100;
            let optimum = bounds::min_split(&trace, &Setup::new(local_memory)).expect("it is held").bytes_in as f64;
            let mut bytes = [0.0; POLICIES.len()];
            for ((policy, ratios), bytes) in by_policy.iter_mut().zip(&mut bytes) {
                *bytes = bytes_in(&trace, local_memory, *policy);
                ratios.push(*bytes / optimum);
                let goal =
                    Goal::exact(1.22).filter(|_| (name, percent) == ("cyclic", 90) && *policy == PolicyChoice::PREDICT);
                let prefix = if goal.is_some() { "T3 " } else { "" };
                let id = format!("{prefix}{name} {percent} %: {policy} by optimum");
                report.add(Metric::against(id, "GiB", &[(gibibytes(*bytes), gibibytes(optimum))], goal));
            }
            worst_by_limit = worst_by_limit.max(by_limit(bytes, local_memory));
        }
    }
    for (policy, ratios) in &by_policy {
        let [mean, worst] = [mean(ratios), ratios.iter().copied().fold(0.0, f64::max)];
        let goal = |limit| Goal::exact(limit).filter(|_| *policy == PolicyChoice::PREDICT);
        let of_all = goal(1.45).filter(|_| !scale.is_quick);
        report.add(Metric::alone(format!("T1 geometric mean: {policy} by optimum"), "", &[mean], of_all));
        report.add(Metric::alone(format!("T2 worst: {policy} by optimum"), "", &[worst], goal(2.42)));
    }
    report.add(Metric::alone("T4 worst of the suite: predict by the limit", "", &[worst_by_limit], Goal::exact(1.0)));
}

fn traces(_: &Scale, report: &mut Report) {
    let Some(folder) = env::var_os("VIDMM_TRACES") else {
        println!("traces: skipped, for VIDMM_TRACES does not name a folder with them");
        return;
    };
    let all = [
        ("g10_bert_base_256.txt", 6),
        ("g10_vit_256.txt", 6),
        ("mooncake_conversation.jsonl.gz", 1),
        ("mooncake_synthetic.jsonl.gz", 1),
    ];
    for (file, iterations) in all {
        let workload = match import::read(&Path::new(&folder).join(file), &ImportOptions::default()) {
            Ok(workload) => workload,
            Err(error) => {
                println!("{file}: skipped: {error}");
                continue;
            }
        };
        let references = References::from(&workload).repeated(iterations);
        // A block of a cache that is made is counted as if it were brought in: few are used again at all.
        let is_cache = references.objects().iter().any(|object| object.lifetime == Lifetime::Kept);
        let trace = Trace::from(if is_cache { loaded(&references) } else { references });
        let mut worst: f64 = 0.0;
        for percent in suite::PERCENTS {
            let local_memory = trace.measure().footprint * percent / 100;
            let bytes = POLICIES.map(|policy| bytes_in(&trace, local_memory, policy));
            let [lru, s3_fifo, predict] = bytes.map(gibibytes);
            let id = format!("{file} {percent} %: predict by the better of lru and s3-fifo");
            report.add(Metric::against(id, "GiB", &[(predict, lru.min(s3_fifo))], None));
            worst = worst.max(by_limit(bytes, local_memory));
        }
        report.add(Metric::alone(format!("T4 worst of {file}: predict by the limit"), "", &[worst], Goal::exact(1.0)));
    }
}

/// The bytes that `predict` brings in by the limit: 1.03 of the better of the other two, and a tenth of local memory.
fn by_limit([lru, s3_fifo, predict]: [f64; POLICIES.len()], local_memory: u64) -> f64 {
    predict / (1.03 * lru.min(s3_fifo) + local_memory as f64 / 10.0)
}

/// The same, with all objects there from the start.
fn loaded(references: &References) -> References {
    let mut all = References::new(&references.name, references.objects().iter().map(|object| object.size));
    references.submissions().for_each(|list| all.submit(list.iter().copied()));
    all
}

fn mean(ratios: &[f64]) -> f64 {
    (ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64).exp()
}

fn gibibytes(bytes: f64) -> f64 {
    bytes / f64::from(1 << 30)
}
