//! `vidmm run --seeds`: scenarios, each with many seeds.

use std::{
    error::Error,
    fs, io,
    io::Write,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use vidmm_sim::{MachineDesc, Scenario, ScenarioFile, Unobserved, WorkloadSource, caught, run_explicit};

use crate::{
    args::{RunArgs, quoted},
    report::{problem as problem_of, unless_closed},
    soft,
    style::{BAD, BOLD, GOOD, counted, number},
    workload,
};

/// The outcome of a scenario.
enum Swept {
    /// All checks held, for every seed.
    Held,
    /// The lowest seed with a failure, and the failure.
    Found(u64, String),
    /// The scenario was not run, because this is missing.
    Skipped(PathBuf),
}

/// Runs the scenario of the arguments, or all below a folder, with each of the seeds, and prints a line for each.
/// Returns whether all checks held.
pub fn run(args: &RunArgs, seeds: &RangeInclusive<u64>) -> Result<bool, Box<dyn Error>> {
    let root = args.scenario.as_deref().ok_or("--seeds is for scenarios; name one, or a folder of them")?;
    let mut files = Vec::new();
    find(root, &mut files).map_err(|error| format!("cannot read {}: {error}; check the path", root.display()))?;
    let scenarios = files.iter().map(|path| ScenarioFile::load(path)).collect::<Result<Vec<_>, _>>()?;
    let jobs = args.jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from));
    let count = seeds.end() - seeds.start() + 1;
    let (mut held, mut skipped) = (0, 0);
    let begun = Instant::now();
    let mut out = anstream::stdout().lock();
    for (path, scenario) in files.iter().zip(&scenarios) {
        let swept = sweep(scenario, path, seeds, jobs);
        match &swept {
            Swept::Held => held += 1,
            Swept::Skipped(_) => skipped += 1,
            Swept::Found(..) => {}
        }
        unless_closed(write(&mut out, path, &swept, count))?;
    }
    let of = files.len() - skipped;
    let style = if held == of { GOOD } else { BAD };
    let seconds = begun.elapsed().as_secs_f64();
    let skipped = if skipped > 0 { format!("; {skipped} skipped") } else { String::new() };
    unless_closed(writeln!(
        out,
        "{style}checked{style:#}     {held} of {} held for {} each{skipped}; {seconds:.1} s",
        counted(of as u64, "scenario", "scenarios"),
        counted(count, "seed", "seeds")
    ))?;
    Ok(held == of)
}

/// Adds the scenarios below a folder, by their names; a path of a file is a scenario.
fn find(path: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    if !path.is_dir() {
        files.push(path.to_owned());
        return Ok(());
    }
    let mut inside = fs::read_dir(path)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>()?;
    inside.retain(|path| path.is_dir() || path.extension().is_some_and(|extension| extension == "toml"));
    inside.sort();
    inside.iter().try_for_each(|path| find(path, files))
}

/// Runs a scenario with each of the seeds, on several threads, up to the lowest with a failure.
fn sweep(scenario: &ScenarioFile, path: &Path, seeds: &RangeInclusive<u64>, jobs: usize) -> Swept {
    let base = path.parent().unwrap_or(Path::new(""));
    if let ScenarioFile::Workload(scenario) = scenario
        && let Some(trace) = missing_trace(scenario, base)
    {
        return Swept::Skipped(trace);
    }
    let (next, found) = (AtomicU64::new(*seeds.start()), Mutex::new(None::<(u64, String)>));
    let is_enough = |seed| found.lock().expect("no thread panics").as_ref().is_some_and(|(lowest, _)| *lowest < seed);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if !seeds.contains(&seed) || is_enough(seed) {
                return;
            }
            if let Some(problem) = problem(scenario.clone(), seed, base) {
                let mut found = found.lock().expect("no thread panics");
                if found.as_ref().is_none_or(|(lowest, _)| seed < *lowest) {
                    *found = Some((seed, problem));
                }
            }
        }
    };
    std::thread::scope(|scope| (0..jobs.max(1)).for_each(|_| drop(scope.spawn(work))));
    let found = found.into_inner().expect("no thread panics");
    found.map_or(Swept::Held, |(seed, problem)| Swept::Found(seed, problem))
}

/// The first trace of a workload that does not exist. Recorded traces are no part of the repository.
fn missing_trace(scenario: &Scenario, base: &Path) -> Option<PathBuf> {
    let sources = scenario.processes.iter().map(|process| &process.source);
    let traces = sources.chain([&scenario.source]).filter_map(|source| match source {
        WorkloadSource::Trace(source) => Some(base.join(&source.trace)),
        _ => None,
    });
    traces.into_iter().find(|trace| !trace.exists())
}

/// The first failure with a seed.
fn problem(scenario: ScenarioFile, seed: u64, base: &Path) -> Option<String> {
    let mut judged = Ok(None);
    let panic = caught(|| judged = judge(scenario, seed, base));
    match (panic, judged) {
        (Some(message), _) => Some(format!("panic: {message}")),
        (None, Ok(problem)) => problem,
        (None, Err(error)) => Some(error),
    }
}

/// Runs a scenario with a seed. Returns the first failure.
fn judge(scenario: ScenarioFile, seed: u64, base: &Path) -> Result<Option<String>, String> {
    let factory = |desc: &MachineDesc| soft::machine(desc);
    match scenario {
        ScenarioFile::Explicit(mut scenario) => {
            scenario.set_seed(seed);
            let run = run_explicit(&scenario, &factory, &mut Unobserved).map_err(|error| error.to_string())?;
            Ok(run.findings.first().map(ToString::to_string))
        }
        ScenarioFile::Workload(mut scenario) => {
            scenario.set_seed(seed);
            let prepared = workload::prepare(&scenario, base).map_err(|error| error.to_string())?;
            let run = prepared.run(&scenario, &factory, &mut Unobserved).map_err(|error| error.to_string())?.0;
            Ok(problem_of(&run, scenario.shows.as_deref()))
        }
    }
}

fn write(out: &mut impl Write, path: &Path, swept: &Swept, count: u64) -> io::Result<()> {
    let name = path.display();
    match swept {
        Swept::Held => writeln!(out, "{GOOD}held{GOOD:#}        {name}: {}", counted(count, "seed", "seeds")),
        Swept::Skipped(missing) => {
            writeln!(out, "{BOLD}skipped{BOLD:#}     {name}: there is no {}", missing.display())
        }
        Swept::Found(seed, problem) => {
            writeln!(out, "{BAD}found{BAD:#}       {name}: seed {}: {problem}", number(*seed))?;
            writeln!(out, "replay      vidmm run {} --seed {seed}", quoted(&path.to_string_lossy()))
        }
    }
}
