//! Running a workload.

use std::{error::Error, path::Path};

use indicatif::ProgressBar;
use vidmm::{AdapterOptions, NumberedEvent, TdrOptions};
use vidmm_runtime::AllocationSegments;
use vidmm_sim::{
    CompareSettings, Finding, MachineDesc, MachineFactory, MemorySizes, Observer, Processes, Report, RunDesc, RunError,
    Scenario, ScenarioError, TdrSettings, Unobserved,
};
use vidmm_trace::{ByteSize, LogHeader, Workload};

use crate::{
    args::{RunArgs, replay_command, settings},
    known::Known,
    output::{Files, check_apart},
    progress,
    report::{self, unless_closed},
    sarif, strict,
};

/// Runs a scenario's workload, prints the figures, and writes the files that were asked for. Returns whether all checks
/// held.
pub fn run(
    args: &RunArgs,
    scenario: &Scenario,
    base: &Path,
    factory: &dyn MachineFactory,
) -> Result<bool, Box<dyn Error>> {
    let mut prepared = prepare(scenario, base)?;
    prepared.desc.options.events = args.events.is_some() || args.statistics;
    let MachineDesc { aperture_bytes, aperture_commit_limit_bytes, .. } = prepared.desc.machine;
    tell_caps(&scenario.adapter.caps(aperture_bytes, aperture_commit_limit_bytes));
    if let Some((longest, delay)) = prepared.raised_delay {
        let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
        let (longest, delay) = (seconds(longest), seconds(delay));
        eprintln!("note: the longest kernel takes {longest:.1} s, so TdrDelay is {delay:.1} s");
    }
    let traces = scenario.traces().map(|trace| base.join(trace));
    let known = Known::read(args.known.as_deref())?;
    let inputs = Vec::from_iter(args.inputs().into_iter().chain(traces));
    check_apart(&args.outputs(), &Vec::from_iter(inputs.iter().cloned().chain(args.known.clone())))?;
    let mut header = LogHeader::new(&scenario.name, scenario.seed);
    header.level = args.events_level.into();
    header.settings = settings(&scenario.faults, scenario.seed, scenario.adapter.buggify);
    let of_client = [
        ("scale", scenario.client.scale.to_string()),
        ("ahead", scenario.client.ahead.to_string()),
        ("policy", scenario.adapter.policy.to_string()),
        ("local memory", ByteSize(prepared.desc.machine.local_memory_bytes).to_string()),
    ];
    header.settings.extend(of_client.map(|(name, value)| (name.to_owned(), value)));
    let files = Files::create(args.events.as_deref(), args.summary.as_deref(), &inputs, header)?
        .with_statistics(args.statistics);
    let bar = progress::bar("Running", prepared.workload.kernels.len() as u64, "kernels");
    let mut watcher = Watcher { files, bar };
    let outcome = prepared.run(scenario, factory, &mut watcher);
    watcher.bar.finish_and_clear();
    let mut files = watcher.files;
    // A log that cannot be written must not hide what was found.
    let log = files.finish_log();
    let (run, other) = outcome?;
    let all_held = run.all_held() && strict::all_known(&run.illegal_uses, &known);
    let replay = (!all_held).then(|| replay_command(scenario.seed, &scenario.faults));
    report::print(
        &scenario.name,
        &prepared.workload,
        &run,
        other.as_ref(),
        (&scenario.faults, factory.lacks()),
        &known,
        replay.as_deref(),
    )?;
    unless_closed(files.write_statistics(&mut anstream::stdout().lock()))?;
    files.write_summary(&run)?;
    if let (Some(sarif), Some(path)) = (&args.sarif, &args.scenario) {
        sarif::write(sarif, path, &entries(&run, &known))?;
    }
    log?;
    Ok(all_held)
}

/// Tells of the keys that another key caps.
pub fn tell_caps(caps: &[String]) {
    caps.iter().for_each(|cap| anstream::eprintln!("note: {cap}"));
}

/// The findings of a run, for other tools.
fn entries(run: &Report, known: &Known) -> Vec<sarif::Entry> {
    let entry = |finding: &Finding| {
        let (rule, message) = (finding.rule().to_owned(), finding.to_string());
        sarif::Entry { key: rule.clone(), rule, message, line: 0, is_known: false }
    };
    strict::entries(&run.illegal_uses, known).into_iter().chain(run.findings.iter().map(entry)).collect()
}

/// A workload, and the settings of its run.
pub struct Prepared {
    workload: Workload,
    desc: RunDesc,
    /// The longest kernel, and TdrDelay if it was raised for that kernel.
    raised_delay: Option<(u64, u64)>,
}

/// Loads the workload of a scenario, whose paths start at `base`.
pub fn prepare(scenario: &Scenario, base: &Path) -> Result<Prepared, ScenarioError> {
    let Processes { workload, clients } = scenario.load(base)?;
    let memory = MemorySizes {
        local_memory_bytes: scenario.local_memory_bytes(&workload)?,
        aperture_bytes: scenario.aperture_bytes(&workload)?,
        aperture_commit_limit_bytes: scenario.aperture_commit_limit_bytes(&workload)?,
    };
    let Scenario { adapter, cost, client, faults, .. } = scenario;
    let machine = MachineDesc { fault_seed: scenario.seed, ..MachineDesc::new(adapter, cost, memory, faults) };
    let uses_system = clients.iter().any(|client| client.segments() != AllocationSegments::Local);
    let over_bus = if uses_system { longest_over_bus(&machine, &workload) } else { 0 };
    let (tdr, raised_delay) = time_limits(adapter.tdr, workload.longest_kernel().saturating_add(over_bus));
    let desc = RunDesc {
        machine,
        content: client.content,
        clients,
        script: scenario.script.clone(),
        strict: scenario.strict,
        options: AdapterOptions { tdr, ..adapter.options() },
    };
    Ok(Prepared { workload, desc, raised_delay })
}

impl Prepared {
    /// Runs it, and the run to compare with if there is one.
    pub fn run(
        &self,
        scenario: &Scenario,
        factory: &dyn MachineFactory,
        observer: &mut dyn Observer,
    ) -> Result<(Report, Option<Report>), RunError> {
        let Self { workload, desc, .. } = self;
        let mut run = vidmm_sim::run(workload, desc, factory, observer)?;
        let other = scenario.compare.map(|compare| otherwise(compare, workload, desc.clone(), factory)).transpose()?;
        if let Some(other) = &other {
            run.checks.extend(run.judge_against(other, &scenario.script));
            run.findings.extend(other.findings.iter().cloned());
        }
        Ok((run, other))
    }
}

/// The longest time that a kernel needs the bus, if all of its buffers are in system memory, in nanoseconds.
fn longest_over_bus(machine: &MachineDesc, workload: &Workload) -> u64 {
    let bytes = workload.footprint(machine.page_size.bytes()).largest_kernel_bytes;
    let rate = machine.kernel_bytes_per_second.into_iter().flatten().min();
    rate.map_or(0, |rate| (u128::from(bytes) * 1_000_000_000 / u128::from(rate)) as u64)
}

/// The time limits of a run. The model GPU yields only between packets, so a kernel that computes for longer than the
/// usual TdrDelay would be taken for hung: the delay is raised, as it is on machines that compute. A delay of the
/// scenario's own is kept. Returns the length of that kernel and the delay with the limits if it was raised.
fn time_limits(settings: TdrSettings, longest: u64) -> (TdrOptions, Option<(u64, u64)>) {
    let mut limits = TdrOptions::from(settings);
    if settings.delay != TdrSettings::default().delay || longest < limits.delay {
        return (limits, None);
    }
    limits.delay = longest.saturating_mul(2);
    (limits, Some((longest, limits.delay)))
}

/// The same run with processes that behave otherwise.
fn otherwise(
    compare: CompareSettings,
    workload: &Workload,
    mut desc: RunDesc,
    factory: &dyn MachineFactory,
) -> Result<Report, RunError> {
    for client in &mut desc.clients {
        client.residency = compare.residency.unwrap_or(client.residency);
        client.lifetimes = compare.lifetimes.unwrap_or(client.lifetimes);
    }
    if compare.healthy {
        desc.clients.iter_mut().for_each(|client| client.misbehaviour = None);
        desc.machine.faults.clear();
    }
    desc.script.checks.clear();
    (desc.options.events, desc.strict) = (false, false);
    vidmm_sim::run(workload, &desc, factory, &mut Unobserved)
}

/// Writes the event log and moves the progress bar.
struct Watcher {
    files: Files,
    bar: ProgressBar,
}

impl Observer for Watcher {
    fn event(&mut self, event: &NumberedEvent) {
        self.files.event(event);
    }

    fn progress(&mut self, ended: usize, _of: usize) {
        self.bar.set_position(ended as u64);
    }
}
