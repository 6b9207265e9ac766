//! The checks, each with a name by which it is replayed.

use std::fmt;

use vidmm_ddi::{DriverMachines, ReportKind, take_reports};
use vidmm_sim::{MachineFactory, Profile, RunError, SimDesc, Unobserved, caught, run_explicit, simulate};

use super::args::CheckArgs;
use super::catalogue::{self, Needed};
use super::findings::{Found, Outcome};

/// A check.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Job {
    /// The driver starts, describes its adapter, and stops.
    Start,
    /// The driver starts in the machine with the highest addresses of all.
    Highest,
    /// An operation that the driver cannot know.
    Unknown,
    /// Several allocations are created in one call, and each allocation of pool in it fails once.
    Several,
    /// One allocation is presented in another.
    Present,
    /// A scenario of the catalogue.
    Scenario { number: usize },
    /// A random world.
    World { seed: u64 },
    /// A world in which the driver's threads race.
    Race { seed: u64 },
    /// The world of seed 1, with fences that begin just below 2^32. No document says which fence follows: the check is run by name alone.
    Wrap,
    /// The world of seed 1, in which the n-th allocation of pool fails once the adapter has started.
    Pool { number: u64 },
}

/// How many allocations of pool fail, each in a check of its own.
const POOL_CHECKS: u64 = 24;

/// How many worlds race.
const RACES: u64 = 3;

/// The world in which they fail.
const POOL_SEED: u64 = 1;

impl Job {
    /// The checks that the arguments ask for.
    pub fn all(args: &CheckArgs) -> Result<Vec<Self>, String> {
        let worlds = args.seeds.clone().map(|seed| Self::World { seed });
        let pool = (1..=POOL_CHECKS).map(|number| Self::Pool { number });
        let races = (1..=RACES).map(|seed| Self::Race { seed });
        let scenarios = (0..catalogue::COUNT).map(|number| Self::Scenario { number });
        Ok([Self::Start, Self::Highest, Self::Unknown, Self::Several, Self::Present]
            .into_iter()
            .chain(pool)
            .chain(scenarios)
            .chain(worlds)
            .chain(races)
            .collect())
    }

    /// Reads the name of a check.
    pub fn parse(name: &str) -> Option<Self> {
        let number = |text: &str| text.parse().ok();
        if let Some(number) = catalogue::find(name) {
            return Some(Self::Scenario { number });
        }
        match name.split_once('-') {
            None if name == "start" => Some(Self::Start),
            None if name == "highest" => Some(Self::Highest),
            None if name == "unknown" => Some(Self::Unknown),
            None if name == "several" => Some(Self::Several),
            None if name == "present" => Some(Self::Present),
            None if name == "wrap" => Some(Self::Wrap),
            Some(("world", seed)) => Some(Self::World { seed: number(seed)? }),
            Some(("race", seed)) => Some(Self::Race { seed: number(seed)? }),
            Some(("pool", nth)) => Some(Self::Pool { number: number(nth)? }),
            _ => None,
        }
    }

    /// Whether programs create allocations in the check.
    fn creates(self) -> bool {
        !matches!(self, Self::Start | Self::Highest | Self::Unknown)
    }

    /// Runs it, and tells what was found and what was judged.
    pub fn run(self, machines: &DriverMachines, steps: u64) -> Outcome {
        let mut outcome = Outcome::new(self);
        machines.set_seed(match self {
            Self::World { seed } | Self::Race { seed } => seed,
            Self::Scenario { number } => number as u64,
            _ => POOL_SEED,
        });
        if self.creates() && !machines.has_allocations() {
            outcome.skipped_for_want_of = Some("allocations of any kind".to_owned());
            return outcome;
        }
        let error = match self {
            Self::Start => machines.start_and_stop().err(),
            Self::Highest => {
                let error = machines.start_in_largest_machine().err();
                outcome.skipped_for_want_of = machines.take_lack();
                error
            }
            Self::Unknown => machines.ask_unknown_operation().err(),
            Self::Several => machines.create_several().err(),
            Self::Present => {
                let error = machines.try_present().err();
                outcome.skipped_for_want_of = machines.take_lack();
                error
            }
            Self::World { seed } => world(seed, steps, machines, &mut outcome).err(),
            Self::Race { .. } if !machines.has_threads() => {
                outcome.skipped_for_want_of = Some("threads of the driver".to_owned());
                None
            }
            Self::Race { seed } => {
                machines.set_racing(true);
                let error = world(seed, steps, machines, &mut outcome).err();
                machines.set_racing(false);
                error
            }
            Self::Wrap => {
                machines.set_fences_wrap(true);
                let error = world(POOL_SEED, steps, machines, &mut outcome).err();
                machines.set_fences_wrap(false);
                error
            }
            Self::Scenario { number } => scenario(number, machines, &mut outcome).err(),
            Self::Pool { number } => {
                machines.set_failing(number);
                // A program that is refused for want of memory is right to be; what the driver leaves behind is not.
                let _ = world(POOL_SEED, steps, machines, &mut outcome);
                outcome.found.clear();
                machines.set_failing(0);
                None
            }
        };
        outcome.found.extend(error.iter().flat_map(|error| Found::of_start(error)));
        let is_race = matches!(self, Self::Race { .. });
        let mut is_spoiled = false;
        for report in take_reports() {
            let found = Found::new(&report.rule, report.message);
            if report.kind == ReportKind::Spoils {
                // Findings about other operations are about victims of the culprit.
                outcome.found.retain(|other| found.operation.is_some() && other.operation == found.operation);
                is_spoiled = true;
            }
            // A kernel at a wrong page faults, and the driver rightly names the fence before.
            if is_spoiled && found.rule == "DDI-CURRENT-FENCE" {
                continue;
            }
            if report.kind == ReportKind::Remark { &mut outcome.remarks } else { &mut outcome.found }.push(found);
        }
        if is_race {
            outcome.found.iter_mut().for_each(|found| found.message += " (a race: the finding may not repeat)");
        }
        if self == Self::Wrap {
            let assumed = " (assumed: fence 1 follows the largest fence, DRV-11)";
            outcome.found.iter_mut().for_each(|found| found.message += assumed);
        }
        outcome
    }
}

/// Plays a random world.
fn world(seed: u64, steps: u64, machines: &DriverMachines, outcome: &mut Outcome) -> Result<(), String> {
    let desc = SimDesc { seed, steps, profile: Profile::default(), policy: None, digest: false };
    match simulate(desc, machines, &mut Unobserved) {
        Ok(ran) => {
            (outcome.steps, outcome.kernels) = (ran.machine_steps, ran.report.kernels_judged);
            outcome.found.extend(ran.failure.map(|failure| Found::of_finding(&failure.finding)));
            Ok(())
        }
        Err(RunError::NoWorld(lacks)) => {
            outcome.skipped_for_want_of = Some(lacks.to_string());
            Ok(())
        }
        Err(error) => skipped_or(error, machines, outcome),
    }
}

/// A world beyond the adapter is skipped; further errors are the driver's.
fn skipped_or(error: RunError, machines: &DriverMachines, outcome: &mut Outcome) -> Result<(), String> {
    outcome.skipped_for_want_of = machines.take_lack();
    if outcome.skipped_for_want_of.is_some() { Ok(()) } else { Err(error.to_string()) }
}

/// Plays a scenario, if the driver's machine can.
fn scenario(number: usize, machines: &DriverMachines, outcome: &mut Outcome) -> Result<(), String> {
    let (local_memory, aperture) = machines.memory();
    let (lacks, is_cpu_visible) = (machines.lacks(), machines.is_memory_cpu_visible());
    let has_more_segments = machines.has_more_segments();
    let splits = machines.splits();
    let needed = Needed { lacks, local_memory, aperture, is_cpu_visible, has_more_segments, splits };
    let scenario = match catalogue::load(number, &needed) {
        Ok(scenario) => scenario,
        Err(lack) => {
            outcome.skipped_for_want_of = Some(lack);
            return Ok(());
        }
    };
    let mut result = Ok(());
    let panic = caught(|| {
        result = match run_explicit(&scenario, machines, &mut Unobserved) {
            Ok(report) => {
                (outcome.steps, outcome.kernels) = (report.steps_done, report.kernels_judged);
                outcome.found.extend(report.findings.first().map(Found::of_finding));
                Ok(())
            }
            Err(error) => skipped_or(error, machines, outcome),
        };
    });
    outcome.found.extend(panic.map(|message| Found::new("PANIC", message)));
    result
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Start => f.write_str("start"),
            Self::Highest => f.write_str("highest"),
            Self::Unknown => f.write_str("unknown"),
            Self::Several => f.write_str("several"),
            Self::Present => f.write_str("present"),
            Self::Wrap => f.write_str("wrap"),
            Self::Scenario { number } => f.write_str(catalogue::name(*number)),
            Self::World { seed } => write!(f, "world-{seed}"),
            Self::Race { seed } => write!(f, "race-{seed}"),
            Self::Pool { number } => write!(f, "pool-{number}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_is_found_by_its_name() {
        for job in [
            Job::Start,
            Job::Highest,
            Job::Unknown,
            Job::Several,
            Job::Present,
            Job::Wrap,
            Job::World { seed: 17 },
            Job::Pool { number: 3 },
        ] {
            assert_eq!(Job::parse(&job.to_string()), Some(job));
        }
        assert_eq!(Job::parse("world-x"), None);
        assert_eq!(Job::parse("start-1"), None);
    }
}
