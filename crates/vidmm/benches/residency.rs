//! The cost of residency: submissions, lists, paging, budgets, bytes of bookkeeping.
//!
//! Metrics begin with the number of the goal that they are held to:
//!
//! | goal | measured | part |
//! |---|---|---|
//! | R1 | a submission on a list that does not change | `submission` |
//! | R2 | a list of which 5 % change | `drift` |
//! | R3, R5, R7, R8 | lists that page: a handle, its growth, submissions over budget, the 99th percentile | `paging` |
//! | R4 | MakeResident and Evict of one allocation, without and with paging | `pair`, `paging` |
//! | R6 | bytes of bookkeeping | `memory` |
//! | R9 | a refused MakeResident of 100 on a long list, of which none or all may move | `refusals` |
//! | S1 | an allocation's life without use | `life` |
//! | S2 | budgets of 10,000 processes | `budgets` |
//!
//! ```text
//! cargo bench -p vidmm --bench residency -- [--quick] [--json] [--check] [submission] [drift] [pair] [paging]
//! [refusals]
//!     [notification] [memory] [life] [budgets]
//! ```
//!
//! Prints a table, then one line of JSON for each metric. `goal` is the most that `ratio` should be, or `value` where there is
//! no baseline; `min` and `max` are of the same, over the rounds. `--quick` measures less, `--json` prints no table, and
//! `--check` fails when a goal that gates is missed by more than the factor 1.3. Without a part all are measured; cargo adds
//! `--bench`, which says nothing here.
//!
//! Baseline and manager take turns in each round of one process, since the machine's speed drifts; the median of the rounds'
//! ratios counts. All that is random is drawn before, and the first half of the rounds only warms up.

mod support;

mod residency {
    pub mod budgets;
    pub mod churn;
    pub mod drift;
    pub mod memory;
    pub mod notification;
    pub mod pairs;
    pub mod paging;
    pub mod refusals;
    pub mod submission;

    use crate::support::report::{Goal, Metric, percentile};

    /// Median, 99th percentile and maximum of `sorted` times; the percentile against the median is held to `goal`.
    pub fn latency_metrics(id: String, sorted: &[f64], goal: Option<Goal>) -> impl Iterator<Item = Metric> {
        let [p50, p99, max] = [50, 99, 100].map(|percent| percentile(sorted, percent));
        let of_median = [("p99", p99, goal), ("max", max, None)];
        of_median.into_iter().map(move |(name, value, goal)| {
            Metric::against(format!("{id}: {name} by p50"), "ns", &[(value, p50)], goal)
        })
    }
}

use std::{env, process::ExitCode};

use residency::{budgets, churn, drift, memory, notification, paging, pairs, refusals, submission};
use support::parts::{self, Part};

/// How much is measured.
pub struct Scale {
    /// How many allocations exist.
    populations: &'static [usize],
    memory_populations: &'static [usize],
    rounds: usize,
    /// Submissions, and handles of lists, in a round.
    submissions: usize,
    handles: usize,
    /// Submissions of which each is timed.
    samples: usize,
    /// Allocations that live and end in all rounds together, unless a population needs more for three rounds.
    lives: usize,
}

const FULL: Scale = Scale {
    populations: &[1_000, 100_000, 1_000_000],
    memory_populations: &[1_000_000, 1 << 20],
    rounds: 11,
    submissions: 10_000,
    handles: 1 << 16,
    samples: 100_000,
    lives: 1_000_000,
};

const QUICK: Scale = Scale {
    populations: &[1_000, 100_000],
    memory_populations: &[1 << 18],
    rounds: 9,
    submissions: 5_000,
    handles: 1 << 15,
    samples: 20_000,
    lives: 100_000,
};

impl Scale {
    /// How often a population of `n` is made and destroyed.
    fn lives(&self, n: usize) -> usize {
        (self.lives / n).clamp(3, 2 * self.rounds)
    }
}

/// The measurements, by name.
const PARTS: [Part<Scale>; 9] = [
    ("submission", submission::run),
    ("drift", drift::run),
    ("pair", pairs::run),
    ("paging", paging::run),
    ("refusals", refusals::run),
    ("notification", notification::run),
    ("memory", memory::run),
    ("life", churn::run),
    ("budgets", budgets::run),
];

fn main() -> ExitCode {
    let arguments: Vec<String> = env::args().skip(1).collect();
    if let [flag, stage, n] = &arguments[..]
        && flag == memory::CHILD
    {
        memory::child(stage, n.parse().expect("a number of allocations"));
        return ExitCode::SUCCESS;
    }
    parts::run(&arguments, &PARTS, &FULL, &QUICK)
}
