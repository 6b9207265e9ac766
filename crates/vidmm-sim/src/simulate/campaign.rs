//! Many seeds, on several threads.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use vidmm::NumberedEvent;
use vidmm::policy::PolicyChoice;

use super::coverage::Coverage;
use super::outcome::{Failure, Outcome, SimDesc, simulate};
use super::profile::Profile;
use crate::machine::MachineFactory;
use crate::run::{Observer, RunError};
use crate::scenario::steps::{Action, Answer};

/// Many seeds.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The seeds.
    pub seeds: RangeInclusive<u64>,
    /// Steps of each.
    pub steps: u64,
    /// The worlds that may be drawn.
    pub profile: Profile,
    /// The order of eviction; none leaves it to each seed.
    pub policy: Option<PolicyChoice>,
    /// Whether the whole of each run goes into one number.
    pub digest: bool,
    /// Threads.
    pub jobs: usize,
    /// Whether the points that are met are counted.
    pub coverage: bool,
    /// The number of failures that ends the campaign.
    pub max_failures: usize,
}

/// The results of many seeds.
#[derive(Debug, Default)]
pub struct Tally {
    /// Seeds that were run.
    pub seeds: u64,
    /// Stopped worlds among these seeds.
    pub stopped: u64,
    /// Steps of the machine.
    pub machine_steps: u64,
    /// Kernels whose pages were judged.
    pub kernels: u64,
    /// Pages that kernels and the CPU read.
    pub pages: u64,
    /// Virtual time, in nanoseconds, of all seeds together.
    pub virtual_ns: u128,
    /// The digest of all runs, whatever the order of the seeds; 0 if it was not asked for.
    pub digest: u64,
    /// The failures, by seed.
    pub failures: BTreeMap<u64, Failure>,
    /// Machines that did not start, by seed.
    pub not_started: BTreeMap<u64, String>,
    /// Seeds for which no world could be drawn: the machine lacks too much.
    pub not_drawn: u64,
    /// Worlds that were over before their first step, by a fault that was drawn with them.
    pub over_at_once: u64,
    /// Worlds in which nobody read a page: the machine refused what their programs asked for, or they had too few steps. Only the
    /// event log was judged.
    pub without_pages: u64,
    /// The points that were met, if they were to be counted.
    pub coverage: Coverage,
}

impl Tally {
    /// Whether a step of any seed was judged, or the world of a seed had none.
    pub fn has_judged(&self) -> bool {
        self.machine_steps + self.over_at_once > 0
    }

    fn add(&mut self, seed: u64, outcome: Result<Outcome, RunError>) {
        self.seeds += 1;
        match outcome {
            Ok(Outcome { machine_steps, report, digest, failure, is_over_at_once, .. }) => {
                self.digest = self.digest.wrapping_add(digest.unwrap_or(0));
                self.machine_steps += machine_steps;
                self.kernels += report.kernels_judged;
                let pages = report.pages_checked + report.system_pages_checked;
                self.pages += pages;
                match (is_over_at_once, pages) {
                    _ if failure.is_some() => {}
                    (true, _) => self.over_at_once += 1,
                    (false, 0) => self.without_pages += 1,
                    (false, _) => {}
                }
                self.virtual_ns += u128::from(report.virtual_ns);
                self.failures.extend(failure.map(|failure| (seed, failure)));
            }
            Err(RunError::NoWorld(_)) => self.not_drawn += 1,
            Err(error) => drop(self.not_started.insert(seed, error.to_string())),
        }
    }
}

/// Counts the points that are met, if they are wanted, and stops the world.
struct Watcher<'a> {
    met: Option<Coverage>,
    stop: &'a AtomicBool,
}

impl Observer for Watcher<'_> {
    fn event(&mut self, event: &NumberedEvent) {
        self.met.iter_mut().for_each(|met| met.event(event));
    }

    fn answered(&mut self, action: &Action, answer: Option<Answer>) {
        self.met.iter_mut().for_each(|met| met.answered(action, answer));
    }

    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }
}

impl Campaign {
    /// Runs the seeds. `progress` is told of the results so far after each seed. When `stop` is set, the worlds under way end, and
    /// no other begins.
    pub fn run(
        &self,
        factory: &dyn MachineFactory,
        stop: &AtomicBool,
        progress: &(dyn Fn(u64, &Tally) + Sync),
    ) -> Tally {
        let (next, enough) = (AtomicU64::new(*self.seeds.start()), AtomicBool::new(false));
        let tally = Mutex::new(Tally::default());
        let work = || {
            while !enough.load(Ordering::Relaxed) && !stop.load(Ordering::Relaxed) {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if !self.seeds.contains(&seed) {
                    return;
                }
                let Self { steps, profile, policy, digest, .. } = *self;
                let desc = SimDesc { seed, steps, profile, policy, digest };
                let mut watcher = Watcher { met: self.coverage.then(Coverage::default), stop };
                let outcome = simulate(desc, factory, &mut watcher);
                let mut tally = tally.lock().expect("no thread panics while it adds");
                watcher.met.iter().for_each(|met| tally.coverage.add(met));
                tally.stopped += u64::from(stop.load(Ordering::Relaxed));
                tally.add(seed, outcome);
                progress(seed, &tally);
                let found = tally.failures.len() + tally.not_started.len();
                enough.fetch_or(found >= self.max_failures, Ordering::Relaxed);
            }
        };
        std::thread::scope(|scope| {
            (1..self.jobs).for_each(|_| drop(scope.spawn(work)));
            work();
        });
        tally.into_inner().expect("no thread panics while it adds")
    }
}
