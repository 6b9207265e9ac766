//! Bytes that policies of eviction bring in, beside the offline optimum. They are counted and not timed: each run gives the same.
//!
//! Metrics begin with the number of the goal that they are held to:
//!
//! | goal | measured | part |
//! |---|---|---|
//! | T1, T2, T3 | six workloads at four sizes of memory: the geometric mean, the worst, layers in turn at 90 % | `suite` |
//! | T4 | the same by the limit: 1.03 of the better of `lru` and `s3-fifo`, and a tenth of local memory | `suite` |
//! | T4 | windows that drift, loops that nearly fit, phases, experts | `further` |
//! | T4 | traces in the folder that `VIDMM_TRACES` names: six iterations of G10's, requests of Mooncake's | `traces` |
//! | T1, T2, T3 | the suite with five other seeds; each goal is 0.02 higher | `seeds` |
//!
//! ```text
//! cargo bench -p vidmm --bench traffic -- [--quick] [--json] [--check] [suite] [further] [traces] [seeds]
//! ```
//!
//! The references are played with two submissions in flight, with the victims of the manager; `predict` is held to the goals. The optimum is MIN on bytes
//! (`vidmm_replay::bounds`). *oracle* is the best of the three experts of `predict` for each cell, each alone: the rest is what
//! arbitration loses. `--quick` leaves out the workload of a camera (three quarters of the time) and four of the five other seeds. Means of
//! `--quick` are of five workloads.

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

/// The first two make the limit, and are two of the experts of `predict`; the third is the third expert. The fourth is held to the goals.
const POLICIES: [&str; 9] =
    ["lru", "s3-fifo", "predict:experts=1", "predict", "clock", "sieve", "lfu-da", "lru-2", "gdsf"];

fn policies() -> [PolicyChoice; POLICIES.len()] {
    POLICIES.map(|name| name.parse().expect("a policy of ours"))
}

/// Whether the workload of a camera and most seeds are left out.
struct Scale {
    is_quick: bool,
}

const PARTS: [Part<Scale>; 4] = [("suite", suite), ("further", further), ("traces", traces), ("seeds", seeds)];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    parts::run(&arguments, &PARTS, &Scale { is_quick: false }, &Scale { is_quick: true })
}

/// The bytes in of some policies at a size of memory.
struct Cell {
    id: String,
    local_memory: u64,
    optimum: f64,
    bytes: [f64; POLICIES.len()],
}

impl Cell {
    fn of(name: &str, trace: &Trace, percent: u64) -> Self {
        let local_memory = trace.measure().footprint * percent / 100;
        let optimum = bounds::min_split(trace, &Setup::new(local_memory)).expect("it is held").bytes_in as f64;
        let bytes = policies().map(|policy| bytes_in(trace, local_memory, policy));
        Self { id: format!("{name} {percent} %"), local_memory, optimum, bytes }
    }

    fn predict(&self) -> f64 {
        self.bytes[3]
    }

    fn oracle(&self) -> f64 {
        self.bytes[..3].iter().copied().fold(f64::INFINITY, f64::min)
    }

    /// The bytes that `predict` brings in by the limit: 1.03 of the better of `lru` and `s3-fifo`, and a tenth of local memory.
    fn by_limit(&self) -> f64 {
        self.predict() / (1.03 * self.bytes[0].min(self.bytes[1]) + self.local_memory as f64 / 10.0)
    }
}

/// Reports how cells are by the limit. A line says which cells fail.
fn report_limit(of: &str, cells: &[Cell], report: &mut Report) {
    let worst = cells.iter().map(Cell::by_limit).fold(0.0, f64::max);
    report.add(Metric::alone(format!("T4 worst of {of}: predict by the limit"), "", &[worst], Goal::exact(1.0)));
    for cell in cells.iter().filter(|cell| cell.by_limit() > 1.0) {
        println!("above the limit: {}, {:.3}", cell.id, cell.by_limit());
    }
}

/// The bytes that a policy brings in.
fn bytes_in(trace: &Trace, local_memory: u64, policy: PolicyChoice) -> f64 {
    // A camera moves slowly: with lists made anew nearly all uses would be repeated ones.
    let options = PlayOptions { lists: Lists::Kept, ..PlayOptions::new(local_memory, policy) };
    study(trace, &options).expect("the largest submission fits").bytes_in as f64
}

fn cells_of_suite(scale: &Scale, seed: u64) -> Vec<Cell> {
    let mut cells = Vec::new();
    for (name, generate) in suite::WORKLOADS {
        if !scale.is_quick || name != "camera" {
            let trace = Trace::from(generate(seed));
            cells.extend(suite::PERCENTS.map(|percent| Cell::of(name, &trace, percent)));
        }
    }
    cells
}

fn report_by_optimum(cell: &Cell, report: &mut Report) {
    for (policy, bytes) in policies().into_iter().zip(cell.bytes) {
        let id = format!("{}: {policy} by optimum", cell.id);
        report.add(Metric::against(id, "GiB", &[(gibibytes(bytes), gibibytes(cell.optimum))], None));
    }
}

/// Reports the goals of a suite, each `more` than they are.
fn report_goals(of: &str, cells: &[Cell], (more, scale): (f64, &Scale), report: &mut Report) {
    let ratios = |of: &dyn Fn(&Cell) -> f64| Vec::from_iter(cells.iter().map(|cell| of(cell) / cell.optimum));
    let mut add = |name: String, ratios: Vec<f64>, is_held: bool| {
        let goal = |limit| Goal::exact(limit + more).filter(|_| is_held);
        let worst = ratios.iter().copied().fold(0.0, f64::max);
        let of_all = goal(1.45).filter(|_| !scale.is_quick);
        report.add(Metric::alone(format!("T1 geometric mean{of}: {name}"), "", &[mean(&ratios)], of_all));
        report.add(Metric::alone(format!("T2 worst{of}: {name}"), "", &[worst], goal(2.42)));
    };
    for (at, policy) in policies().into_iter().enumerate() {
        add(format!("{policy} by optimum"), ratios(&|cell| cell.bytes[at]), policy == PolicyChoice::PREDICT);
    }
    add("oracle by optimum".to_owned(), ratios(&Cell::oracle), false);
    let layers = cells.iter().find(|cell| cell.id == "cyclic 90 %").expect("it is part of the suite");
    let ratio = layers.predict() / layers.optimum;
    report.add(Metric::alone(
        format!("T3 cyclic 90 %{of}: predict by optimum"),
        "",
        &[ratio],
        Goal::exact(1.22 + more),
    ));
}

fn suite(scale: &Scale, report: &mut Report) {
    let cells = cells_of_suite(scale, SEED);
    cells.iter().for_each(|cell| report_by_optimum(cell, report));
    report_goals("", &cells, (0.0, scale), report);
    report_limit("the suite", &cells, report);
}

fn seeds(scale: &Scale, report: &mut Report) {
    for seed in SEED + 1..=SEED + if scale.is_quick { 1 } else { 5 } {
        let cells = cells_of_suite(scale, seed);
        report_goals(&format!(" of seed {seed}"), &cells, (0.02, scale), report);
        report_limit(&format!("seed {seed}"), &cells, report);
    }
}

fn further(_: &Scale, report: &mut Report) {
    let mut all = Vec::new();
    for (name, generate, percents) in suite::FURTHER {
        let trace = Trace::from(generate(SEED));
        let cells = percents.iter().map(|&percent| Cell::of(name, &trace, percent));
        all.extend(cells.inspect(|cell| report_by_optimum(cell, report)));
    }
    report_limit("the further workloads", &all, report);
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
        let cells = suite::PERCENTS.map(|percent| Cell::of(file, &trace, percent));
        cells.iter().for_each(|cell| report_by_optimum(cell, report));
        report_limit(file, &cells, report);
    }
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
