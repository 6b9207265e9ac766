//! Running an explicit scenario.

use std::rc::Rc;

use vidmm::{AdapterOptions, Nanoseconds};
use vidmm_runtime::{HookedHost, HookedKmd, Machine};

use super::held::Counter;
use super::report::ExplicitReport;
use super::rules::known::Rules;
use super::session::Session;
use crate::caught::caught_of;
use crate::figures::Figures;
use crate::machine::{MachineDesc, MachineFactory, MemorySizes, build, limits_without};
use crate::run::{Observer, RunError, start_adapter};
use crate::scenario::steps::{Action, Answer, Answered, Look, See, Step, Undone, Until, Wait};
use crate::scenario::{ExplicitScenario, JudgedBy};

/// How long nothing happens before it is quiet. Some processes are asked to trim again and again, for ever.
const QUIET: Nanoseconds = 2_000_000_000;

/// Starts the machine of `scenario`, with no step made.
///
/// # Errors
///
/// If the machine lacks what the scenario needs, or does not start.
pub(crate) fn start<'a>(
    scenario: &ExplicitScenario,
    factory: &dyn MachineFactory,
    observer: &'a mut dyn Observer,
) -> Result<Session<'a>, RunError> {
    let lacks = factory.lacks();
    let lacking = scenario.needs() & lacks;
    if !lacking.is_empty() {
        return Err(RunError::Lacks(lacking));
    }
    let ExplicitScenario { adapter, cost, .. } = scenario;
    let faults = &scenario.all_faults();
    let &ExplicitScenario { local_memory_bytes, aperture_bytes, aperture_commit_limit_bytes, .. } = scenario;
    let memory = MemorySizes { local_memory_bytes, aperture_bytes, aperture_commit_limit_bytes };
    let desc = MachineDesc { fault_seed: scenario.seed, ..MachineDesc::new(adapter, cost, memory, faults) };
    let machine = build(factory, &desc).map_err(RunError::Machine)?;
    let counter = Counter(Rc::default());
    let host = HookedHost::new(machine.host, counter.clone());
    let kmd = HookedKmd::new(machine.kmd, counter.clone());
    let machine = Machine { kmd: Box::new(kmd), host: Box::new(host), ..machine };
    let tdr = limits_without(lacks - scenario.spared(), adapter.tdr.into());
    let options = AdapterOptions { events: true, tdr, ..adapter.options() };
    let runtime = start_adapter(factory, options, machine)?;
    let no_engine = || RunError::Machine("it has no engine that renders, or none that copies".to_owned());
    let rules = (scenario.judged_by == JudgedBy::Rules).then(|| Box::new(Rules::new(adapter, faults, lacks)));
    Session::new(runtime, scenario, rules, counter.0, observer).ok_or_else(no_engine)
}

/// Runs `scenario` on a machine of `factory`'s. `observer` is shown every line of the sequence and every event.
///
/// # Errors
///
/// If the machine lacks what the scenario needs, does not start, or a step needs what an earlier one was refused. An expectation that does not hold is
/// a finding in the report.
pub fn run_explicit(
    scenario: &ExplicitScenario,
    factory: &dyn MachineFactory,
    observer: &mut dyn Observer,
) -> Result<ExplicitReport, RunError> {
    let mut session = start(scenario, factory, observer)?;
    session.rules.iter_mut().for_each(|rules| rules.is_of_steps = true);
    let mut outcome = Ok(());
    let panic = caught_of(factory, || outcome = session.make_all(&scenario.steps));
    outcome?;
    if let Some(message) = panic {
        session.panicked(&message);
    }
    Ok(session.into_report())
}

impl Session<'_> {
    /// Makes all steps and brings the run to its end.
    fn make_all(&mut self, steps: &[Step]) -> Result<(), RunError> {
        self.settle();
        self.show_lines();
        if self.rules.is_some() {
            self.play_all(steps);
            self.note_turns();
            self.find_unexpected_errors();
            self.end_by_rules();
            self.find_unexpected_errors();
            return Ok(());
        }
        for step in steps {
            self.step = (step.line, step.action.to_string());
            self.before_step(step);
            if let Err(Undone::Absent(name)) = self.follow(step) {
                // An adapter in error refuses what later steps need.
                self.find_unexpected_errors();
                if self.report.findings.is_empty() {
                    return Err(RunError::Absent { line: step.line, name });
                }
            }
            self.audit();
            self.show_lines();
            self.report.steps_done += 1;
            if !self.report.findings.is_empty() {
                break;
            }
        }
        self.note_turns();
        self.end();
        Ok(())
    }

    /// Reports the devices that waited for their turn for long. At the end all of them get it.
    fn note_turns(&mut self) {
        let names = &self.narrator.names;
        self.report.turn_waits = self.turns.long_waits(self.runtime.now(), |device| names.device(device));
    }

    /// Makes a step, and judges it by what it expects.
    fn follow(&mut self, step: &Step) -> Result<(), Undone> {
        self.expect = step.expect;
        match &step.action {
            Action::Call(call) => {
                let answered = call.make(self).or_else(Undone::answer)?;
                self.judge_answer(step, &answered);
                self.settle();
                if let Some(reader) = self.awaited_reader.take()
                    && !self.run_until_ended(reader)
                {
                    self.found("the kernel that reads it never ends");
                }
                if !self.run_until(self.patience, |session| session.awaited.is_empty()) {
                    self.found("the memory is never free");
                }
                Ok(())
            }
            Action::Look(look) => {
                self.narrator.step(look.to_string(), None);
                self.look(look)
            }
        }
    }

    /// Looks from outside. That the manager refuses it is found.
    pub(super) fn look(&mut self, look: &Look) -> Result<(), Undone> {
        match look.see(self) {
            Err(Undone::Refused(refused)) => {
                self.found(refused.detail);
                Ok(())
            }
            seen => seen,
        }
    }

    fn judge_answer(&mut self, step: &Step, answered: &Answered) {
        let (answer, shown) = (answered.answer, answered.to_string());
        let is_to_fault = step.expect == Some(Answer::PageFault) && answer.is_done();
        let told = if is_to_fault { format!("{shown}; it is to fault") } else { shown.clone() };
        self.narrator.step(step.action.to_string(), Some(told));
        // A fault comes later, when the kernel runs.
        let expected = step.expect.filter(|&expect| expect != Answer::PageFault);
        match expected {
            Some(Answer::Any) if answer.is_violation() => self.find_violation(answer),
            Some(expected) if expected == Answer::Any || expected == answer => {
                self.report.shows_faults |= !answer.is_done();
            }
            Some(expected) => {
                self.found(format!("the answer was {shown}, but `{expected}` was expected"));
            }
            None if !answer.is_done() => self.found(format!("it was refused: {shown}")),
            _ => {}
        }
    }

    /// Finds a violation of the driver that answers a step without the step's expectation.
    pub(super) fn find_violation(&mut self, answer: Answer) {
        self.found(format!("the driver broke a rule; a step that expects this says `expect = \"{answer}\"`"));
    }

    /// Destroys what is left, unseen, and checks that nothing is.
    fn end(&mut self) {
        self.find_unexpected_errors();
        self.report.portions = self.is_physical.then(|| self.narrator.portions.clone());
        self.closing = true;
        self.step = (0, "the end of the scenario".to_owned());
        let intact = self.is_intact();
        let refused = self.close();
        self.settle();
        self.find_unexpected_errors();
        // After a finding nothing can be expected of the rest, and of an adapter in error neither.
        if intact && self.is_intact() {
            refused.into_iter().for_each(|refused| self.found(format!("it cannot be destroyed: {refused}")));
            self.audit();
        }
        self.settle();
        self.show_lines();
    }

    pub(crate) fn into_report(mut self) -> ExplicitReport {
        self.report.shows_faults |=
            !self.errors.is_empty() || self.adapter_error.is_some() || !self.driver_findings.is_empty();
        self.report.illegal_uses = std::mem::take(&mut self.illegal_uses).into_findings();
        self.report.figures = Figures::of(&mut self.runtime);
        self.report.virtual_ns = self.runtime.now();
        if self.rules.is_some() { self.stop_by_rules() } else { self.report }
    }
}

impl See<Session<'_>> for Wait {
    fn see(&self, session: &mut Session<'_>) -> Result<(), Undone> {
        let ended = match &self.until {
            Until::Idle => session.run_until_idle(),
            Until::Quiet => {
                session.run_until(QUIET, |_| false);
                true
            }
            Until::PoweredDown => session.run_until(session.patience, |session| session.has_powered_down),
            Until::For(duration) => {
                let end = session.runtime.now() + duration.ns;
                while session.runtime.now() < end {
                    session.advance(Some(end));
                }
                true
            }
            Until::Kernel(name) => {
                let kernel = session.objects.last_kernel(name);
                kernel.is_none_or(|kernel| session.run_until_ended(kernel))
            }
        };
        // By rules alone, some things wait for what a program may never do; what must end is judged at the end.
        session.turns.is_stuck = !ended;
        let must_end = session.rules.as_ref().is_none_or(|rules| rules.is_of_steps && session.turns.has_wait());
        if !ended && session.adapter_error.is_none() && must_end {
            let held_up = session.report.held_up.iter().rev().find(|wait| wait.until_ns.is_none());
            let why = held_up.map_or_else(String::new, |wait| format!(": {wait}"));
            session.found(format!("nothing more happens, and not everything that was waited for has ended{why}"));
        }
        Ok(())
    }
}
