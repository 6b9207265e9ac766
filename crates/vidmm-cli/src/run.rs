//! `vidmm run`.

use std::{
    error::Error,
    path::{Path, PathBuf},
};

use vidmm_sim::{
    Bench, Benched, Content, ExplicitScenario, Fault, JudgedBy, Lifetimes, MachineFactory, ProcessSettings,
    ResidencyPolicy, RunError, Scenario, ScenarioFile, TraceSource, WorkloadSource,
};
use vidmm_trace::{ByteSize, ImportOptions, LocalMemory, TraceFormat};

use crate::{
    args::{ContentArg, LifetimesArg, PolicyArg, ResidencyArg, RunArgs},
    explicit, sweep, workload,
};

/// The scenario of a run without arguments.
const BUILT_IN: (&str, &str) = ("scenarios/training.toml", include_str!("training.toml"));

/// Runs, prints, and writes the files that were asked for. Returns whether all checks held.
pub fn run(args: &RunArgs, factory: &dyn MachineFactory) -> Result<bool, Box<dyn Error>> {
    // A scenario may name the library too.
    let policy = args.policy.as_ref().map(PolicyArg::choice).transpose()?;
    if let Some(seeds) = &args.seeds {
        return sweep::run(args, seeds, factory);
    }
    if let Some(folder) = args.scenario.as_ref().filter(|path| path.is_dir()) {
        return Err(format!("{} is a folder: `--seeds 1..2` runs all scenarios below it", folder.display()).into());
    }
    let here = PathBuf::new();
    let (scenario, base) = match (&args.scenario, &args.trace[..]) {
        // The paths of a scenario start at its folder, those of an argument at the current one.
        (Some(path), []) => (ScenarioFile::load(path)?, path.parent().map(Path::to_owned).unwrap_or_default()),
        (Some(path), _) => (ScenarioFile::load(path)?, here),
        (None, []) => (ScenarioFile::parse(BUILT_IN.1, Path::new(BUILT_IN.0))?, here),
        (None, traces) => (ScenarioFile::Workload(Box::new(of_traces(traces))), here),
    };
    Fault::check_list(&args.faults)?;
    match scenario {
        ScenarioFile::Workload(mut scenario) => {
            scenario.adapter.policy = policy.unwrap_or(scenario.adapter.policy);
            change_workload(&mut scenario, args)?;
            let lacking = scenario.needs() & factory.lacks();
            if !lacking.is_empty() {
                return Err(RunError::Lacks(lacking).into());
            }
            workload::run(args, &scenario, &base, factory)
        }
        ScenarioFile::Explicit(mut scenario) => {
            scenario.adapter.policy = policy.unwrap_or(scenario.adapter.policy);
            change_explicit(&mut scenario, args)?;
            // Rules judge what `sim` has found, and `sim` verifies.
            let verify = args.verify || scenario.judged_by == JudgedBy::Rules;
            let bench = Bench { verify, ..factory.bench() };
            explicit::run(args, &scenario, &Benched { factory, bench })
        }
    }
}

/// Overrides the scenario by the arguments.
fn change_workload(scenario: &mut Scenario, args: &RunArgs) -> Result<(), String> {
    scenario.adapter.local_memory = args.local_memory.or(scenario.adapter.local_memory);
    scenario.strict |= args.strict;
    if let Some(seed) = args.seed {
        scenario.set_seed(seed);
    }
    scenario.client.ahead = args.ahead.unwrap_or(scenario.client.ahead);
    scenario.client.scale = args.scale.unwrap_or(scenario.client.scale);
    if let Some(content) = args.content {
        scenario.client.content = match content {
            ContentArg::Uniform => Content::Uniform,
            ContentArg::Ramp => Content::Ramp,
        };
    }
    if !args.faults.is_empty() {
        scenario.faults = args.faults.clone();
    }
    if let Some(lifetimes) = args.lifetimes {
        scenario.client.lifetimes = match lifetimes {
            LifetimesArg::Destroy => Lifetimes::Destroy,
            LifetimesArg::Offer => Lifetimes::Offer,
            LifetimesArg::Ignore => Lifetimes::Ignore,
        };
        scenario.processes.iter_mut().for_each(|process| process.behaviour.lifetimes = None);
    }
    if let Some(residency) = args.residency {
        scenario.client.residency = match residency {
            ResidencyArg::EachKernel => ResidencyPolicy::EachKernel,
            ResidencyArg::Kept => ResidencyPolicy::Kept,
            ResidencyArg::EvictedAtOnce => ResidencyPolicy::EvictedAtOnce,
        };
        for process in &mut scenario.processes {
            (process.behaviour.client, process.behaviour.residency) = (None, None);
        }
    }
    Ok(change_source(scenario, args)?)
}

/// The traces of the arguments, each a process of its own, in place of the scenario's workload.
fn change_source(scenario: &mut Scenario, args: &RunArgs) -> Result<(), &'static str> {
    if !args.trace.is_empty() {
        scenario.processes = args.trace.iter().map(|trace| process_of(trace)).collect();
    }
    if args.block_bytes.is_none() && args.compress_arrivals.is_none() {
        return Ok(());
    }
    if scenario.processes.is_empty() {
        scenario.processes = vec![ProcessSettings { source: scenario.source.clone(), ..ProcessSettings::default() }];
    }
    let is_trace = |process: &&mut ProcessSettings| matches!(process.source, WorkloadSource::Trace(_));
    let mut traces: Vec<&mut ProcessSettings> = scenario.processes.iter_mut().filter(is_trace).collect();
    if traces.is_empty() {
        return Err("--block-bytes and --compress-arrivals are about traces; give one with --trace");
    }
    for process in &mut traces {
        process.behaviour.compress_arrivals = args.compress_arrivals.unwrap_or(process.behaviour.compress_arrivals);
        if let (WorkloadSource::Trace(source), Some(block_bytes)) = (&mut process.source, args.block_bytes) {
            source.block_bytes = block_bytes;
        }
    }
    Ok(())
}

/// Overrides a scenario of steps, which has no workload, by the arguments.
fn change_explicit(scenario: &mut ExplicitScenario, args: &RunArgs) -> Result<(), String> {
    let of_workloads = [
        ("--ahead", args.ahead.is_some()),
        ("--scale", args.scale.is_some()),
        ("--content", args.content.is_some()),
        ("--block-bytes", args.block_bytes.is_some()),
        ("--trace", !args.trace.is_empty()),
        ("--compress-arrivals", args.compress_arrivals.is_some()),
        ("--lifetimes", args.lifetimes.is_some()),
        ("--residency", args.residency.is_some()),
    ];
    if let Some((name, _)) = of_workloads.iter().find(|(_, given)| *given) {
        return Err(format!("{name} is for workloads, and this scenario is made of steps; change the steps instead"));
    }
    scenario.strict |= args.strict;
    match args.local_memory {
        None => {}
        Some(LocalMemory::Bytes(size)) => scenario.local_memory_bytes = size.bytes(),
        Some(LocalMemory::Percent(_)) => {
            return Err(
                "--local-memory is a share, and a scenario of steps has no workload to take it of; give a size"
                    .to_owned(),
            );
        }
    }
    if let Some(seed) = args.seed {
        scenario.set_seed(seed);
    }
    if !args.faults.is_empty() {
        scenario.faults = args.faults.clone();
    }
    Ok(())
}

fn of_traces(traces: &[PathBuf]) -> Scenario {
    let names = traces.iter().filter_map(|trace| trace.file_name()).map(|name| name.to_string_lossy());
    Scenario { name: names.collect::<Vec<_>>().join(" + "), ..Scenario::default() }
}

/// A trace on the machine of the default scenario, in a stated format or as the content says.
pub fn of_trace(trace: &Path, format: Option<TraceFormat>, block_bytes: Option<ByteSize>) -> Scenario {
    let mut process = process_of(trace);
    if let WorkloadSource::Trace(source) = &mut process.source {
        source.format = format;
        source.block_bytes = block_bytes.unwrap_or(source.block_bytes);
    }
    Scenario { processes: vec![process], ..of_traces(&[trace.to_owned()]) }
}

fn process_of(trace: &Path) -> ProcessSettings {
    let block_bytes = ByteSize(ImportOptions::default().block_bytes);
    let source = WorkloadSource::Trace(TraceSource { trace: trace.to_owned(), block_bytes, format: None });
    ProcessSettings { source, ..ProcessSettings::default() }
}
