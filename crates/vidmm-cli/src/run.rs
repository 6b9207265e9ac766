//! `vidmm run`.

use std::{
    error::Error,
    path::{Path, PathBuf},
};

use vidmm_sim::{
    Content, ExplicitScenario, Fault, MachineFactory, Scenario, ScenarioFile, TraceSource, WorkloadSource,
};
use vidmm_trace::{ImportOptions, LocalMemory};

use crate::{
    args::{ContentArg, Gpu, RunArgs},
    explicit, soft, workload,
};

/// The scenario of a run without arguments.
const BUILT_IN: (&str, &str) = ("scenarios/training.toml", include_str!("../../../scenarios/training.toml"));

/// Runs, prints, writes what was asked for. Returns whether all that was checked held.
pub fn run(args: &RunArgs) -> Result<bool, Box<dyn Error>> {
    let factory: &MachineFactory<'_> = match args.gpu {
        Gpu::Soft => &soft::machine,
    };
    let here = PathBuf::new();
    let (scenario, base) = match (&args.scenario, &args.trace) {
        // The paths of a scenario start at its folder, those of an argument where the command is given.
        (Some(path), None) => (ScenarioFile::load(path)?, path.parent().map(Path::to_owned).unwrap_or_default()),
        (Some(path), Some(_)) => (ScenarioFile::load(path)?, here),
        (None, Some(trace)) => (ScenarioFile::Workload(Box::new(of_trace(trace))), here),
        (None, None) => (ScenarioFile::parse(BUILT_IN.1, Path::new(BUILT_IN.0))?, here),
    };
    Fault::check_list(&args.faults)?;
    match scenario {
        ScenarioFile::Workload(mut scenario) => {
            change_workload(&mut scenario, args)?;
            workload::run(args, &scenario, &base, factory)
        }
        ScenarioFile::Explicit(mut scenario) => {
            change_explicit(&mut scenario, args)?;
            explicit::run(args, &scenario, factory)
        }
    }
}

/// What the arguments say instead of the scenario.
fn change_workload(scenario: &mut Scenario, args: &RunArgs) -> Result<(), &'static str> {
    scenario.adapter.local_memory = args.local_memory.or(scenario.adapter.local_memory);
    scenario.seed = args.seed.unwrap_or(scenario.seed);
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
    if let Some(trace) = &args.trace {
        scenario.source = source_of(trace);
    }
    match (&mut scenario.source, args.block_bytes) {
        (WorkloadSource::Trace(source), Some(block_bytes)) => source.block_bytes = block_bytes,
        (WorkloadSource::Generator(_), Some(_)) => {
            return Err("--block-bytes is the block size of a Mooncake trace; give one with --trace");
        }
        _ => {}
    }
    Ok(())
}

/// What the arguments say instead of a scenario of steps, which has no workload.
fn change_explicit(scenario: &mut ExplicitScenario, args: &RunArgs) -> Result<(), String> {
    let of_workloads = [
        ("--ahead", args.ahead.is_some()),
        ("--scale", args.scale.is_some()),
        ("--content", args.content.is_some()),
        ("--block-bytes", args.block_bytes.is_some()),
        ("--trace", args.trace.is_some()),
    ];
    if let Some((name, _)) = of_workloads.iter().find(|(_, given)| *given) {
        return Err(format!("{name} is for workloads, and this scenario is made of steps; change the steps instead"));
    }
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
    scenario.seed = args.seed.unwrap_or(scenario.seed);
    if !args.faults.is_empty() {
        scenario.faults = args.faults.clone();
    }
    Ok(())
}

fn of_trace(trace: &Path) -> Scenario {
    let name = trace.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    Scenario { name, ..Scenario::default() }
}

fn source_of(trace: &Path) -> WorkloadSource {
    let block_bytes = vidmm_trace::ByteSize(ImportOptions::default().block_bytes);
    WorkloadSource::Trace(TraceSource { trace: trace.to_owned(), block_bytes })
}
