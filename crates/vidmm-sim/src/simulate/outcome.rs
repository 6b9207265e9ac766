//! One seed: a world is drawn, played for so many steps, and brought to its end.

use std::fmt;

use vidmm::policy::PolicyChoice;

use super::dice::Dice;
use super::player::Player;
use super::profile::Profile;
use super::world::World;
use crate::caught::caught;
use crate::digest::Digest;
use crate::explicit::{ExplicitReport, Session, StepFinding, start};
use crate::features::Features;
use crate::machine::MachineFactory;
use crate::run::{Observer, RunError};
use crate::scenario::ExplicitScenario;

/// The settings of one seed.
#[derive(Clone, Copy, Debug)]
pub struct SimDesc {
    /// The seed.
    pub seed: u64,
    /// The number of steps of the machine after which the run ends. A step is a call, or a moment at which the GPU
    /// reports.
    pub steps: u64,
    /// The worlds that may be drawn.
    pub profile: Profile,
    /// The order of eviction; none leaves it to the seed.
    pub policy: Option<PolicyChoice>,
    /// Whether the whole run goes into one number, which takes its time (I33).
    pub digest: bool,
}

/// The result of a seed.
#[derive(Debug)]
pub struct Outcome {
    /// The steps of the machine, those at the end included.
    pub machine_steps: u64,
    /// The report of the session.
    pub report: ExplicitReport,
    /// The digest of every event and every answer, if it was asked for.
    pub digest: Option<u64>,
    /// The failure, if there is one.
    pub failure: Option<Failure>,
    /// Why the adapter is in error, if it is.
    pub adapter_error: Option<String>,
    /// Whether a fault that was drawn with the world put the adapter in error before the first step.
    pub is_over_at_once: bool,
}

/// A rule that a run breaks.
#[derive(Debug)]
pub struct Failure {
    /// The finding.
    pub finding: StepFinding,
    /// The steps until then.
    pub scenario: ExplicitScenario,
}

impl fmt::Display for Failure {
    /// The rule and the problem on one line, without the step.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.finding.rule.unwrap_or("-"), self.finding.problem)
    }
}

/// Draws the world of a seed, plays it, waits until nothing is pending, and destroys all objects. `observer` is shown
/// every event.
///
/// # Errors
///
/// If no world can be drawn for the machine, or it does not start.
pub fn simulate(desc: SimDesc, factory: &dyn MachineFactory, observer: &mut dyn Observer) -> Result<Outcome, RunError> {
    simulate_in(desc, factory, observer, |_| {})
}

/// The machine that a seed draws, of those that lack these features; none if there is no such world.
pub(crate) fn machine_of(seed: u64, profile: Profile, lacks: Features) -> Option<ExplicitScenario> {
    let world = World::draw(seed, profile, lacks, &mut Dice::new(seed)).ok()?;
    Some(world.scenario)
}

/// As [`simulate`], on a machine that `change` has changed.
///
/// # Errors
///
/// If the machine does not start.
pub(crate) fn simulate_in(
    desc: SimDesc,
    factory: &dyn MachineFactory,
    observer: &mut dyn Observer,
    change: impl FnOnce(&mut ExplicitScenario),
) -> Result<Outcome, RunError> {
    let mut dice = Dice::new(desc.seed);
    let world = World::draw(desc.seed, desc.profile, factory.lacks(), &mut dice);
    let mut world = world.map_err(RunError::NoWorld)?;
    world.largest_allocation = factory.largest_allocation();
    world.scenario.adapter.policy = desc.policy.unwrap_or(world.scenario.adapter.policy);
    change(&mut world.scenario);
    let mut scenario = world.scenario.clone();
    let mut session = by_rules(&scenario, factory, observer)?;
    if let Some(rules) = session.rules.as_mut().filter(|_| desc.digest) {
        rules.digest = Some(Digest::default());
    }
    let mut player = Player::new(&mut session, world, desc.seed, dice);
    let panic = caught(|| {
        while player.session.num_machine_steps < desc.steps && !player.is_over() && player.session.goes_on() {
            player.make_move();
        }
    });
    scenario.steps = std::mem::take(&mut player.steps);
    Ok(finish(session, scenario, panic))
}

/// Plays the steps of a scenario again, as [`simulate`] did.
///
/// # Errors
///
/// If the machine does not start.
pub fn replay(
    scenario: &ExplicitScenario,
    factory: &dyn MachineFactory,
    observer: &mut dyn Observer,
) -> Result<Outcome, RunError> {
    let mut session = by_rules(scenario, factory, observer)?;
    let panic = caught(|| session.play_all(&scenario.steps));
    Ok(finish(session, scenario.clone(), panic))
}

fn by_rules<'a>(
    scenario: &ExplicitScenario,
    factory: &dyn MachineFactory,
    observer: &'a mut dyn Observer,
) -> Result<Session<'a>, RunError> {
    let mut session = start(scenario, factory, observer)?;
    session.narrator.silent = true;
    session.settle();
    Ok(session)
}

/// Brings a run to its end, unless it has panicked.
fn finish(mut session: Session<'_>, scenario: ExplicitScenario, panic: Option<String>) -> Outcome {
    let panic = panic.or_else(|| caught(|| session.end_by_rules()));
    if let Some(message) = panic {
        session.panicked(&message);
    }
    let machine_steps = session.num_machine_steps;
    let adapter_error = session.adapter_error.as_ref().map(|error| error.why.clone());
    let digest = session.rules.as_ref().and_then(|rules| rules.digest).map(|digest| digest.0);
    let is_over_at_once = adapter_error.is_some() && scenario.steps.is_empty();
    let report = session.into_report();
    let finding = report.findings.first().cloned();
    let failure = finding.map(|mut finding| {
        let step = scenario.steps.iter().find(|step| step.line == finding.line);
        finding.step = step.map_or_else(|| "the end".to_owned(), |step| step.action.to_string());
        Failure { finding, scenario }
    });
    Outcome { machine_steps, report, digest, failure, adapter_error, is_over_at_once }
}
