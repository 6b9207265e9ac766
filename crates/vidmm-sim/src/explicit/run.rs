//! Running an explicit scenario.

use vidmm::{AdapterOptions, Nanoseconds};
use vidmm_runtime::{AllocationSegments, Runtime};

use super::answered::{Absent, Answered};
use super::report::ExplicitReport;
use super::rules::known::Rules;
use super::session::{PATIENCE, Session};
use crate::figures::Figures;
use crate::machine::{MachineDesc, MachineFactory, MemorySizes};
use crate::run::{Observer, RunError};
use crate::scenario::steps::{Action, Answer, Call, Look, Step, Until};
use crate::scenario::{ExplicitScenario, JudgedBy};

/// How long nothing happens before it is quiet. Some processes are asked to trim again and again, for ever.
const QUIET: Nanoseconds = 2_000_000_000;

/// Starts the machine of `scenario`, with no step made.
///
/// # Errors
///
/// If the machine does not start.
pub(crate) fn start<'a>(
    scenario: &ExplicitScenario,
    factory: &MachineFactory<'_>,
    observer: &'a mut dyn Observer,
) -> Result<Session<'a>, RunError> {
    let ExplicitScenario { adapter, cost, .. } = scenario;
    let faults = &scenario.all_faults();
    let &ExplicitScenario { local_memory_bytes, aperture_bytes, aperture_commit_limit_bytes, .. } = scenario;
    let memory = MemorySizes { local_memory_bytes, aperture_bytes, aperture_commit_limit_bytes };
    let desc = MachineDesc { fault_seed: scenario.seed, ..MachineDesc::new(adapter, cost, memory, faults) };
    let machine = factory(&desc).map_err(RunError::Machine)?;
    let options = AdapterOptions {
        events: true,
        notification_revision: adapter.notification_revision,
        paging_va_without_local_memory: adapter.paging_va_without_local_memory,
        tdr: adapter.tdr.into(),
        preparation: adapter.preparation,
        buggify: adapter.buggify,
        #[cfg(feature = "planted-bugs")]
        planted_bug: adapter.planted_bug,
    };
    let runtime = Runtime::start(options, machine)?;
    let no_engine = || RunError::Machine("it has no engine that renders, or none that copies".to_owned());
    let mut session =
        Session::new(runtime, adapter.is_physical(), scenario.steps.len(), observer).ok_or_else(no_engine)?;
    session.seed = scenario.seed;
    session.rules =
        (scenario.judged_by == JudgedBy::Rules).then(|| Box::new(Rules::new(adapter.addressing_model, faults)));
    Ok(session)
}

/// Runs `scenario` on a machine of `factory`'s. `observer` is shown every line of the sequence and every event.
///
/// # Errors
///
/// If the machine does not start, or a step needs what an earlier one was refused. What does not hold is a finding in the
/// report.
pub fn run_explicit(
    scenario: &ExplicitScenario,
    factory: &MachineFactory<'_>,
    observer: &mut dyn Observer,
) -> Result<ExplicitReport, RunError> {
    let mut session = start(scenario, factory, observer)?;
    session.settle();
    session.show_lines();
    let default = scenario.default_segments();
    if session.rules.is_some() {
        session.play_all(&scenario.steps, default);
        session.end_by_rules();
        return Ok(session.into_report());
    }
    for step in &scenario.steps {
        session.step = (step.line, step.action.to_string());
        session.before_step(step);
        session.make(step, default).map_err(|Absent(name)| RunError::Absent { line: step.line, name })?;
        session.audit();
        session.show_lines();
        session.report.steps_done += 1;
        if !session.report.findings.is_empty() {
            break;
        }
    }
    session.end();
    Ok(session.into_report())
}

impl Session<'_> {
    fn make(&mut self, step: &Step, default: AllocationSegments) -> Result<(), Absent> {
        match &step.action {
            Action::Call(call) => {
                let answered = self.call(call, step.expect, default)?;
                self.judge_answer(step, &answered);
                self.settle();
                if matches!(call, Call::CheckContent(_)) && answered.answer.is_done() {
                    self.wait_for_reader();
                }
                if !self.run_until(PATIENCE, |session| session.awaited.is_empty()) {
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

    pub(super) fn call(
        &mut self,
        call: &Call,
        expect: Option<Answer>,
        default: AllocationSegments,
    ) -> Result<Answered, Absent> {
        Ok(match call {
            Call::CreateProcess(name) => self.create_process(name),
            Call::CreateDevice(create) => self.create_device(create)?,
            Call::CreateFence(name) => self.create_fence(name),
            Call::CreateAllocation(create) => self.create_allocations(create, default)?,
            Call::OpenAllocation(open) => self.open_allocations(open)?,
            Call::CloseAllocation(close) => self.close_allocations(close)?,
            Call::Map(map) => self.map(map)?,
            Call::MakeResident(make_resident) => self.make_resident(make_resident)?,
            Call::Evict(evict) => self.evict(evict)?,
            Call::Offer(offer) => self.offer(offer)?,
            Call::Reclaim(reclaim) => self.reclaim(reclaim)?,
            Call::Lock(names) => self.lock(names)?,
            Call::Unlock(names) => self.unlock(names)?,
            Call::SetPriority(set) => self.set_priority(set)?,
            Call::UpdateProperty(update) => self.update_property(update)?,
            Call::ReserveVideoMemory(reserve) => self.reserve_video_memory(reserve)?,
            Call::ProcessPriority(priority) => self.process_priority(priority)?,
            Call::NotifyBudget(process) => self.notify_budget(process)?,
            Call::RegisterTrim(device) => self.register_trim(device)?,
            Call::UnregisterTrim(device) => self.unregister_trim(device)?,
            Call::TrimIntervals(intervals) => self.set_trim_intervals(*intervals),
            Call::SuspendProcess(process, allow_wake) => self.suspend_process(process, *allow_wake)?,
            Call::ResumeProcess(process) => self.resume_process(process)?,
            Call::KillProcess(kill) => self.kill_process(kill)?,
            Call::Power(power) => self.power(*power),
            Call::Kernel(kernel) => self.submit(kernel, expect)?,
            Call::Render(render) => self.render(render)?,
            Call::Signal(name) => self.signal(name),
            Call::DestroyAllocation(destroy) => self.destroy_allocations(destroy)?,
            Call::FreeVa(free) => self.free_va(free)?,
            Call::CheckContent(allocations) if self.is_physical => self.render_readers(allocations)?,
            Call::CheckContent(mappings) => self.read_content(mappings, expect)?,
        })
    }

    pub(super) fn look(&mut self, look: &Look) -> Result<(), Absent> {
        match look {
            Look::Wait(until) => self.wait(until),
            Look::ForgeHandle(forge) => self.forge_handle(forge)?,
            Look::System(names) => self.check_system(names)?,
            Look::CpuWrite(names) => self.cpu_write(names)?,
            Look::CpuRead(names) => self.cpu_read(names)?,
            Look::Aperture(check) => self.check_aperture(check)?,
            Look::PagingVa(adapter, size) => self.query(*adapter, size.map(|size| size.bytes())),
            Look::VideoMemory(query) => self.query_video_memory(query)?,
            Look::Trim(trim) => self.expect_trim(trim)?,
            Look::Residency(names, place) => self.check_residency(names, *place)?,
            Look::DeviceError(check) => self.check_error(check)?,
            Look::AdapterError(words) => self.check_adapter_error(words),
            Look::Resets(resets) => self.check_resets(*resets),
            Look::Finding(words) => self.check_finding(words),
            Look::Waiting(kernels) => self.check_waiting(kernels),
        }
        Ok(())
    }

    /// Lets time pass until the kernel that was submitted last has ended.
    fn wait_for_reader(&mut self) {
        let reader = self.objects.kernels.len() - 1;
        if !self.run_until_ended(reader) {
            self.found("the kernel that reads it never ends");
        }
    }

    fn judge_answer(&mut self, step: &Step, answered: &Answered) {
        let Answered { answer, detail } = answered;
        let shown = match &detail[..] {
            "" => answer.to_string(),
            detail => format!("{answer} ({detail})"),
        };
        self.narrator.step(step.action.to_string(), Some(shown.clone()));
        // A fault comes later, when the kernel runs.
        let expected = step.expect.filter(|&expect| expect != Answer::PageFault);
        match expected {
            Some(expected) if expected != *answer => {
                self.found(format!("the answer was {shown}, but `{expected}` was expected"));
            }
            None if !answer.is_done() => self.found(format!("it was refused: {shown}")),
            _ => {}
        }
    }

    fn wait(&mut self, until: &Until) {
        let ended = match until {
            Until::Idle => self.run_until_idle(),
            Until::Quiet => {
                self.run_until(QUIET, |_| false);
                true
            }
            Until::PoweredDown => self.run_until(PATIENCE, |session| session.has_powered_down),
            Until::For(duration) => {
                let end = self.runtime.now() + duration.ns;
                while self.runtime.now() < end {
                    self.advance(Some(end));
                }
                true
            }
            Until::Kernel(name) => {
                let kernel = self.objects.last_kernel(name);
                kernel.is_none_or(|kernel| self.run_until_ended(kernel))
            }
        };
        // By rules alone, some things wait for what a program may never do; what must end is judged at the end.
        if !ended && self.adapter_error.is_none() && self.rules.is_none() {
            self.found("nothing more happens, and not everything that was waited for has ended");
        }
    }

    /// Destroys what is left, unseen, and checks that nothing is.
    fn end(&mut self) {
        self.find_unexpected_errors();
        self.report.portions = self.is_physical.then(|| self.narrator.portions.clone());
        self.closing = true;
        self.step = (0, "the end of the scenario".to_owned());
        let intact = self.report.findings.is_empty() && self.adapter_error.is_none();
        let refused = self.close();
        // After a finding nothing can be expected of the rest, and of an adapter in error neither.
        if intact {
            refused.into_iter().for_each(|refused| self.found(format!("it cannot be destroyed: {refused}")));
            self.audit();
        }
        self.settle();
        self.show_lines();
    }

    pub(crate) fn into_report(mut self) -> ExplicitReport {
        self.report.figures = Figures::of(&mut self.runtime);
        self.report.virtual_ns = self.runtime.now();
        self.report
    }
}
