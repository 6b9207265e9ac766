//! The refusals and the cost of contiguous placement, beside other placers.
//!
//! Metrics begin with the number of the goal that they are held to:
//!
//! | goal | measured | part |
//! |---|---|---|
//! | P2 | requests refused in churn at 90 % load | `refusals` |
//! | P1 | taking and giving back a range | `pairs` |
//! | P5 | the same, each timed: p99.9 by p50 | `tail` |
//!
//! ```text
//! cargo bench -p vidmm --bench linear -- [--quick] [--json] [--check] [refusals] [pairs] [tail]
//! ```
//!
//! The others are a best fit of two B-trees, and the crate `offset-allocator`. All get the same requests in one process and
//! take turns. The report is as that of the benchmark `residency`.

#[allow(dead_code, reason = "other benchmarks use the rest of it")]
#[path = "support/clock.rs"]
mod clock;
#[allow(dead_code, reason = "other benchmarks use the rest of it")]
#[path = "support/draws.rs"]
mod draws;
#[path = "support/parts.rs"]
mod parts;
#[allow(dead_code, reason = "other benchmarks use the rest of it")]
#[path = "support/report.rs"]
mod report;

mod linear {
    pub mod churn;
    pub mod game_mix;
    pub mod placers;
    pub mod timing;
}

use std::{env, process::ExitCode};

use linear::{
    churn,
    placers::{BestFit, OffsetAllocator, Vidmm},
    timing::{self, Population},
};
use parts::Part;
use report::{Goal, Metric, Report};

/// How much is measured.
struct Scale {
    seeds: u64,
    rounds: usize,
    populations: &'static [Population],
    samples: usize,
}

/// Blocks of 64 KiB are what games see; of 4 KiB, so that a million of them fit into the largest segment.
const HUNDRED_THOUSAND: Population = Population { ranges: 100_000, unit: 64 << 10 };
const A_MILLION: Population = Population { ranges: 1_000_000, unit: 4 << 10 };

const FULL: Scale = Scale { seeds: 6, rounds: 9, populations: &[HUNDRED_THOUSAND, A_MILLION], samples: 400_000 };
const QUICK: Scale = Scale { seeds: 2, rounds: 5, populations: &[HUNDRED_THOUSAND], samples: 100_000 };

const PARTS: [Part<Scale>; 3] = [("refusals", refusals), ("pairs", pairs), ("tail", tail)];

fn refusals(scale: &Scale, report: &mut Report) {
    for load in [90, 95] {
        let own = churn::refused::<Vidmm>(scale.seeds, load);
        let id = |peer: &str| format!("P2 refused at {load} %: vidmm by {peer}");
        let goal = if load == 90 { Goal::gate(1.25) } else { None };
        let best_fit = churn::refused::<BestFit>(scale.seeds, load);
        report.add(Metric::against(id("best fit"), "%", &[(own, best_fit)], goal));
        let offset_allocator = churn::refused::<OffsetAllocator>(scale.seeds, load);
        report.add(Metric::against(id("offset-allocator"), "%", &[(own, offset_allocator)], None));
    }
}

fn pairs(scale: &Scale, report: &mut Report) {
    for &population in scale.populations {
        let trace = timing::Trace::draw(population, 2 * scale.rounds, population.ranges);
        let [mut own, mut best_fit, mut offset] = [(); 3].map(|()| Vec::new());
        let mut vidmm = timing::Run::<Vidmm>::new(&trace);
        let mut trees = timing::Run::<BestFit>::new(&trace);
        let mut offset_allocator = timing::Run::<OffsetAllocator>::new(&trace);
        for round in 0..2 * scale.rounds {
            own.push(vidmm.round(&trace, round));
            best_fit.push(trees.round(&trace, round));
            offset.push(offset_allocator.round(&trace, round));
        }
        let rounds = |others: &[f64]| {
            let both = own.iter().copied().zip(others.iter().copied());
            both.skip(scale.rounds).collect::<Vec<(f64, f64)>>()
        };
        let id = |peer: &str| format!("P1 pair n={}: vidmm by {peer}", population.ranges);
        report.add(Metric::against(id("best fit"), "ns", &rounds(&best_fit), None));
        report.add(Metric::against(id("offset-allocator"), "ns", &rounds(&offset), Goal::gate(1.0)));
    }
}

fn tail(scale: &Scale, report: &mut Report) {
    for &population in scale.populations {
        let trace = timing::Trace::draw(population, 1, scale.samples);
        let mut add = |name: &str, (p999, p50), goal| {
            let id = format!("P5 p99.9 by p50 n={}: {name}", population.ranges);
            report.add(Metric::against(id, "ns", &[(p999, p50)], goal));
        };
        add("vidmm", timing::tail::<Vidmm>(&trace), Goal::report(20.0));
        add("best fit", timing::tail::<BestFit>(&trace), None);
        add("offset-allocator", timing::tail::<OffsetAllocator>(&trace), None);
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    parts::run(&arguments, &PARTS, &FULL, &QUICK)
}
