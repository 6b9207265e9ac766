//! `vidmm run --seeds`: scenarios, each with many seeds.

use std::{
    error::Error,
    io,
    io::Write,
    ops::RangeInclusive,
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use indicatif::ProgressBar;
use vidmm_sim::{Features, MachineFactory, Scenario, ScenarioFile, Unobserved, caught, run_explicit};
use walkdir::WalkDir;

use crate::{
    args::{RunArgs, count_of, jobs, program, quoted},
    progress,
    report::{first_of, problems, unless_closed, write_not_judged},
    style::{BAD, BOLD, GOOD, counted, number, printable},
    workload,
};

/// The outcome of a scenario.
enum Swept {
    /// All checks held, for every seed.
    Held,
    /// The lowest seed with a failure, and the failure.
    Found(u64, String),
    /// The scenario was not run, because this trace is missing.
    Skipped(PathBuf),
    /// The scenario was not run, because the machine lacks what it needs.
    Lacks(Features),
}

/// Runs the scenario of the arguments, or all below a folder, with each of the seeds, and prints a line for each.
/// Returns whether all checks held.
pub fn run(args: &RunArgs, seeds: &RangeInclusive<u64>, factory: &dyn MachineFactory) -> Result<bool, Box<dyn Error>> {
    let root = args.scenario.as_deref().ok_or("--seeds is for scenarios; name one, or a folder of them")?;
    let files = find(root).map_err(|error| format!("cannot read {}: {error}; check the path", root.display()))?;
    let scenarios = files.iter().map(|path| ScenarioFile::load(path)).collect::<Result<Vec<_>, _>>()?;
    let jobs = jobs(args.jobs);
    let count = count_of(seeds);
    let (mut held, mut skipped, mut lacking) = (0, 0, 0);
    let begun = Instant::now();
    let mut out = anstream::stdout().lock();
    for (path, scenario) in files.iter().zip(&scenarios) {
        let bar = progress::bar("Running", count, "seeds");
        let swept = sweep(scenario, path, seeds, jobs, factory, &bar);
        bar.finish_and_clear();
        match &swept {
            Swept::Held => held += 1,
            Swept::Skipped(_) => skipped += 1,
            Swept::Lacks(_) => lacking += 1,
            Swept::Found(..) => {}
        }
        unless_closed(write(&mut out, path, &swept, count))?;
    }
    let of = files.len() - skipped - lacking;
    if of == 0 && lacking > 0 {
        let skipped = counted((skipped + lacking) as u64, "scenario", "scenarios");
        unless_closed(writeln!(out, "{BAD}checked{BAD:#}     nothing was judged: {skipped} skipped"))?;
        return Ok(false);
    }
    if of == 0 {
        return Err(match files.len() {
            0 => format!("there is no scenario below {}; its files end in `.toml`", root.display()).into(),
            _ => "no scenario was run, for want of the traces that they name".into(),
        });
    }
    let style = if held == of { GOOD } else { BAD };
    let seconds = begun.elapsed().as_secs_f64();
    let skipped = match skipped + lacking {
        0 => String::new(),
        skipped => format!("; {skipped} skipped"),
    };
    unless_closed(writeln!(
        out,
        "{style}checked{style:#}     {held} of {} held for {} each{skipped}; {seconds:.1} s",
        counted(of as u64, "scenario", "scenarios"),
        counted(count, "seed", "seeds")
    ))?;
    unless_closed(write_not_judged(&mut out, factory.lacks(), ""))?;
    Ok(held == of)
}

/// The scenarios below a folder, by their names; a path of a file is a scenario. A link back to a folder above is not followed.
fn find(root: &Path) -> Result<Vec<PathBuf>, walkdir::Error> {
    if !root.is_dir() {
        return Ok(vec![root.to_owned()]);
    }
    let is_scenario = |path: &Path| path.extension().is_some_and(|extension| extension == "toml") && !path.is_dir();
    let mut files = Vec::new();
    for entry in WalkDir::new(root).follow_links(true).sort_by_file_name() {
        match entry {
            Ok(entry) if is_scenario(entry.path()) => files.push(entry.into_path()),
            Err(error) if error.loop_ancestor().is_none() => return Err(error),
            Ok(_) | Err(_) => {}
        }
    }
    Ok(files)
}

/// Runs a scenario with each of the seeds, on several threads, up to the lowest with a failure.
fn sweep(
    scenario: &ScenarioFile,
    path: &Path,
    seeds: &RangeInclusive<u64>,
    jobs: usize,
    factory: &dyn MachineFactory,
    bar: &ProgressBar,
) -> Swept {
    let lacking = scenario.needs() & factory.lacks();
    if !lacking.is_empty() {
        return Swept::Lacks(lacking);
    }
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
            if let Some(problem) = problem(scenario.clone(), seed, base, factory) {
                let mut found = found.lock().expect("no thread panics");
                if found.as_ref().is_none_or(|(lowest, _)| seed < *lowest) {
                    *found = Some((seed, problem));
                }
            }
            bar.inc(1);
        }
    };
    std::thread::scope(|scope| (0..jobs.max(1)).for_each(|_| drop(scope.spawn(work))));
    let found = found.into_inner().expect("no thread panics");
    found.map_or(Swept::Held, |(seed, problem)| Swept::Found(seed, problem))
}

/// The first trace of a workload that does not exist. Recorded traces are no part of the repository.
fn missing_trace(scenario: &Scenario, base: &Path) -> Option<PathBuf> {
    scenario.traces().map(|trace| base.join(trace)).find(|trace| !trace.exists())
}

/// The first failure with a seed.
fn problem(scenario: ScenarioFile, seed: u64, base: &Path, factory: &dyn MachineFactory) -> Option<String> {
    let mut judged = Ok(None);
    let panic = caught(|| judged = judge(scenario, seed, base, factory));
    match (panic, judged) {
        (Some(message), _) => Some(format!("panic: {message}")),
        (None, Ok(problem)) => problem,
        (None, Err(error)) => Some(error),
    }
}

/// Runs a scenario with a seed. Returns the first failure.
fn judge(
    scenario: ScenarioFile,
    seed: u64,
    base: &Path,
    factory: &dyn MachineFactory,
) -> Result<Option<String>, String> {
    match scenario {
        ScenarioFile::Explicit(mut scenario) => {
            scenario.set_seed(seed);
            let run = run_explicit(&scenario, factory, &mut Unobserved).map_err(|error| error.to_string())?;
            let uses = run.illegal_uses.iter().map(ToString::to_string);
            Ok(first_of(uses.chain(run.findings.iter().map(ToString::to_string)), scenario.shows.as_deref()))
        }
        ScenarioFile::Workload(mut scenario) => {
            scenario.set_seed(seed);
            let prepared = workload::prepare(&scenario, base).map_err(|error| error.to_string())?;
            let run = prepared.run(&scenario, factory, &mut Unobserved).map_err(|error| error.to_string())?.0;
            Ok(first_of(problems(&run), scenario.shows.as_deref()))
        }
    }
}

fn write(out: &mut impl Write, path: &Path, swept: &Swept, count: u64) -> io::Result<()> {
    let name = printable(&path.to_string_lossy());
    match swept {
        Swept::Held => writeln!(out, "{GOOD}held{GOOD:#}        {name}: {}", counted(count, "seed", "seeds")),
        Swept::Skipped(missing) => {
            writeln!(out, "{BOLD}skipped{BOLD:#}     {name}: there is no {}", printable(&missing.to_string_lossy()))
        }
        Swept::Lacks(features) => writeln!(out, "{BOLD}skipped{BOLD:#}     {name}: needs {features}"),
        Swept::Found(seed, problem) => {
            writeln!(out, "{BAD}found{BAD:#}       {name}: seed {}: {problem}", number(*seed))?;
            writeln!(out, "replay      {} run {} --seed {seed}", quoted(&program()), quoted(&path.to_string_lossy()))
        }
    }
}
