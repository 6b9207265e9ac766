//! `vidmm replay`: traces under many policies and sizes of memory, in one table.

mod content;
mod picture;
mod row;
mod table;
mod uses;

use std::{
    error::Error,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use vidmm::policy::PolicyChoice;
use vidmm_replay::{
    Lists, PlayError, PlayOptions, Played, References, Remarks, Setup, Sizes, Trace, bounds,
    fairness::{Alone, alone, fairness},
    is_exact, play, play_processes, study, study_sample,
};
use vidmm_sim::{MachineFactory, Scenario, ScenarioFile, caught};
use vidmm_trace::{ByteSize, ImportOptions, LocalMemory, import};

use self::row::{Optimum, Row};
use crate::{
    args::{ReplayArgs, Shard, jobs, quoted},
    exec, output, progress,
    report::unless_closed,
    run,
    style::{counted, number},
};

/// An input.
struct Input<'a> {
    path: &'a Path,
    /// By which another file of that name is known.
    digest: String,
    /// The references; none where content is checked.
    trace: Option<Trace>,
    /// The processes of the trace, if there are several.
    alone: Vec<Alone>,
    /// Remarks of the reader on odd requests, in words.
    remarks: Vec<String>,
}

/// A combination, before it runs.
#[derive(Clone, Copy)]
struct Cell<'a> {
    input: &'a Input<'a>,
    local_memory: LocalMemory,
    policy: PolicyChoice,
}

impl Cell<'_> {
    /// The bytes of local memory, where the references are known.
    fn local_memory_bytes(&self, args: &ReplayArgs, trace: &Trace) -> u64 {
        match self.local_memory {
            // Memory for all objects is memory for the sample in the same share.
            LocalMemory::Bytes(bytes) if args.sample.is_some() => (bytes.bytes() as f64 * args.share()).round() as u64,
            local_memory => local_memory.bytes_of(trace.measure().footprint),
        }
    }

    /// Whether the largest submission fits, as far as that is known before the combination runs.
    fn fits(&self, args: &ReplayArgs) -> bool {
        self.input.trace.as_ref().is_none_or(|trace| {
            let (measure, local_memory) = (trace.measure(), self.local_memory_bytes(args, trace));
            local_memory >= measure.page && (args.pass_by || measure.largest_list <= local_memory)
        })
    }

    /// The reason why a combination does not run that does not fit.
    fn too_small(&self, args: &ReplayArgs) -> String {
        let trace = self.input.trace.as_ref().expect("it is known not to fit");
        let (largest, footprint) = (trace.measure().largest_list, trace.measure().footprint);
        // A share that is rounded up fits.
        let tenths = (u128::from(largest) * 1000).div_ceil(u128::from(footprint.max(1)));
        let size = table::size(&self.local_memory.to_string(), self.local_memory_bytes(args, trace));
        format!(
            "{} at {size}: a submission uses {} at once; give at least {}.{} % of the footprint, or let larger requests pass by \
             with --pass-by",
            self.input.path.display(),
            ByteSize(largest),
            tenths / 10,
            tenths % 10
        )
    }

    /// A row of the combination, without figures.
    fn row(&self, args: &ReplayArgs) -> Row {
        let Some(trace) = &self.input.trace else { return Row::of(self) };
        let setup = setup(args, self, trace);
        Row {
            reading: trace.reading().to_owned(),
            lists: Some(args.lists),
            is_one_seed: args.seeds.is_some(),
            batch: args.batch,
            iterations: args.iterations,
            in_flight: setup.in_flight,
            warm_up: setup.warm_up as u64,
            link: Some(setup.link),
            page_bytes: args.page_size.bytes(),
            sample: args.sample.map(u64::from),
            local_memory_bytes: setup.local_memory,
            footprint_bytes: trace.measure().footprint,
            submissions: Some(trace.measure().submissions),
            processes: Some(trace.measure().processes.into()),
            objects: Some(trace.measure().objects),
            ..Row::of(self)
        }
    }
}

/// The work of a thread at one time.
enum Task<'a> {
    Play(Cell<'a>),
    /// The optimum for all policies at a size.
    Bound(Cell<'a>),
}

/// The outcome of a task.
enum Outcome {
    Row(Box<Row>),
    Optimum(Optimum),
}

/// Runs all combinations, and prints and writes what they gave. Returns whether all that was checked held.
pub fn run(args: &ReplayArgs, factory: &dyn MachineFactory) -> Result<bool, Box<dyn Error>> {
    if let [calls] = &args.inputs[..]
        && exec::is_call_log(calls)
    {
        return exec::judge(calls, None, None);
    }
    let outputs = Vec::from_iter(
        [&args.csv, &args.parquet, &args.svg, &args.uses].into_iter().flatten().map(|path| path.as_path()),
    );
    output::check_apart(&outputs, &args.inputs)?;
    // A mistake in a policy or an input is told before anything runs.
    let policies = policies(args)?;
    let clock = progress::clock("Reading");
    let inputs: Vec<Input<'_>> = args.inputs.iter().map(|path| load(args, path)).collect::<Result<_, _>>()?;
    clock.finish_and_clear();
    let cells = cells(args, &policies, &inputs);
    if args.check {
        inputs
            .iter()
            .try_for_each(|input| content::prepare(args, input, args.local_memory[0], policies[0]).map(drop))?;
    }
    let (own, too_small): (Vec<_>, Vec<_>) = own_of(args, &cells).partition(|&at| cells[at].fits(args));
    if let (true, Some(&first)) = (own.is_empty(), too_small.first()) {
        return Err(cells[first].too_small(args).into());
    }
    args.uses.as_deref().map(|path| uses::write(args, path, &cells)).transpose()?;
    let mut rows = run_all(args, &cells, &own, factory)?;
    rows.extend(too_small.iter().map(|&at| Row { number: at as u64, ..cells[at].row(args) }));
    rows.sort_by_key(|row| row.number);
    args.csv.as_deref().map(|path| row::write_csv(path, &rows)).transpose()?;
    args.parquet.as_deref().map(|path| row::write_parquet(path, &rows)).transpose()?;
    args.svg.as_deref().map(|path| picture::write(path, (args.svg_x, args.svg_y), &rows)).transpose()?;
    let mut left_out = Vec::from_iter(too_small.into_iter().map(|at| cells[at].too_small(args)));
    left_out.dedup();
    unless_closed(table::write(&mut anstream::stdout().lock(), &rows, &left_out))?;
    Ok(rows.iter().all(|row| row.findings.unwrap_or(0) == 0))
}

fn load<'a>(args: &ReplayArgs, path: &'a Path) -> Result<Input<'a>, Box<dyn Error>> {
    let name = || quoted(&path.display().to_string());
    let has_kernels = is_scenario(path) || args.trace_format().is_some();
    let requests = if has_kernels { None } else { Trace::requests(path, &args.requests()).transpose()? };
    let trace = match requests {
        Some(_) if args.check => {
            return Err(format!("{} has no kernels that could check content; leave out --check", name()).into());
        }
        Some(_) if args.iterations > 1 => {
            return Err(
                format!("{} is requests to a cache, which are not repeated; leave out --iterations", name()).into()
            );
        }
        Some(trace) => Some(trace),
        None if args.sample.is_some() => {
            return Err(
                format!("{} has kernels, and all objects of a kernel are needed; leave out --sample", name()).into()
            );
        }
        None if args.batch > 1 => {
            return Err(format!("each kernel of {} is a submission of its own; leave out --batch", name()).into());
        }
        None if args.check => None,
        None => Some(of_kernels(args, path)?),
    };
    let submissions = trace.as_ref().map_or(u64::MAX, |trace| trace.measure().submissions);
    if args.warm_up as u64 >= submissions {
        let submissions = counted(submissions, "submission", "submissions");
        return Err(format!("--warm-up {} leaves nothing of {}, which has {submissions}", args.warm_up, name()).into());
    }
    let several = trace.as_ref().filter(|trace| trace.measure().processes > 1);
    let impossible = [("--sample", args.sample.is_some()), ("--lists kept", Lists::from(args.lists) == Lists::Kept)];
    if let (Some(_), Some((option, _))) = (several, impossible.iter().find(|(_, is_given)| *is_given)) {
        return Err(format!("{} has several processes; leave out {option}, which is for one process", name()).into());
    }
    let alone = several.map_or(Ok(Vec::new()), |trace| alone(trace, args.warm_up))?;
    let remarks = trace.as_ref().map_or_else(Vec::new, |trace| told(trace.remarks(), args.sizes.into()));
    Ok(Input { path, digest: output::digest(path), trace, alone, remarks })
}

/// The references of a trace of kernels, or of a scenario's workload.
fn of_kernels(args: &ReplayArgs, path: &Path) -> Result<Trace, Box<dyn Error>> {
    let (workload, reading) = if is_scenario(path) {
        let (scenario, base) = scenario(args, path)?;
        (scenario.load(&base)?.workload, "scenario".to_owned())
    } else {
        let block_bytes = args.block_bytes.map_or(ImportOptions::default().block_bytes, ByteSize::bytes);
        let options = ImportOptions { block_bytes, format: args.trace_format() };
        let (workload, format) = import::read_with_format(path, &options)?;
        (workload, format!("{}, {}", format.name(), format.reading()))
    };
    let references = References::of_workload(&workload, args.page_size.bytes()).repeated(args.iterations);
    Ok(Trace::from(references).read_as(reading))
}

/// The remarks of the reader, in words.
fn told(remarks: &Remarks, sizes: Sizes) -> Vec<String> {
    let Remarks { size_changes, empty, deletions, absent_deletions, wrong_next_uses } = *remarks;
    let requests = |count| counted(count, "request", "requests");
    let kept = match sizes {
        Sizes::First => "each object keeps the size of the first request",
        Sizes::Largest => "each object has the largest size",
        Sizes::New => "each such request makes a new object",
    };
    let deleted = match absent_deletions {
        0 => String::new(),
        absent => format!(", and {} of objects that are absent", number(absent)),
    };
    let all = [
        (size_changes, format!("{} of another size than before; {kept} (--sizes)", requests(size_changes))),
        (empty, format!("{} of 0 bytes; such an object has a page", requests(empty))),
        (deletions + absent_deletions, format!("{}{deleted}", counted(deletions, "deletion", "deletions"))),
        (
            wrong_next_uses,
            format!("{} come otherwise than the file states; next uses are counted anew", requests(wrong_next_uses)),
        ),
    ];
    all.into_iter().filter(|&(count, _)| count > 0).map(|(_, text)| text).collect()
}

/// Whether an input is a scenario; any other input is a trace.
fn is_scenario(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml")
}

/// The scenario of an input, and the folder where its paths start.
fn scenario(args: &ReplayArgs, path: &Path) -> Result<(Scenario, std::path::PathBuf), Box<dyn Error>> {
    match is_scenario(path).then(|| ScenarioFile::load(path)).transpose()? {
        Some(ScenarioFile::Workload(scenario)) => Ok((*scenario, path.parent().unwrap_or(Path::new("")).to_owned())),
        Some(ScenarioFile::Explicit(_)) => {
            let name = quoted(&path.display().to_string());
            Err(format!("{name} is made of steps, which say what is evicted; replay a trace or a workload").into())
        }
        None => Ok((run::of_trace(path, args.trace_format(), args.block_bytes), Path::new("").to_owned())),
    }
}

/// The policies with their seeds.
fn policies(args: &ReplayArgs) -> Result<Vec<PolicyChoice>, Box<dyn Error>> {
    let mut policies = Vec::new();
    for policy in &args.policy {
        let policy = policy.choice()?;
        match &args.seeds {
            Some(seeds) => policies.extend(seeds.clone().map(|seed| policy.with_seed(seed))),
            None => policies.push(policy),
        }
    }
    // Without randomness all seeds are one.
    policies.dedup();
    Ok(policies)
}

/// All combinations, in the order of the rows.
fn cells<'a>(args: &ReplayArgs, policies: &[PolicyChoice], inputs: &'a [Input<'a>]) -> Vec<Cell<'a>> {
    let mut cells = Vec::new();
    for input in inputs {
        for (at, &local_memory) in args.local_memory.iter().enumerate() {
            if args.local_memory[..at].contains(&local_memory) {
                continue;
            }
            cells.extend(policies.iter().map(|&policy| Cell { input, local_memory, policy }));
        }
    }
    cells
}

/// The combinations of the shard.
fn own_of(args: &ReplayArgs, cells: &[Cell<'_>]) -> impl Iterator<Item = usize> {
    let Shard { number, of } = args.shard;
    (0..cells.len()).filter(move |at| at % of == number - 1)
}

/// Runs these combinations on several threads.
fn run_all(
    args: &ReplayArgs,
    cells: &[Cell<'_>],
    own: &[usize],
    factory: &dyn MachineFactory,
) -> Result<Vec<Row>, String> {
    let of_size = |at: usize| (std::ptr::from_ref(cells[at].input), cells[at].local_memory);
    let mut tasks: Vec<(usize, Task<'_>)> = Vec::new();
    for (position, &at) in own.iter().enumerate() {
        let is_first = position == 0 || of_size(own[position - 1]) != of_size(at);
        if is_first && !args.no_bounds && !args.check {
            tasks.push((at, Task::Bound(cells[at])));
        }
        tasks.push((at, Task::Play(cells[at])));
    }
    let mut rows: Vec<Row> = Vec::new();
    let mut optimum = None;
    for ((at, task), outcome) in tasks.iter().zip(in_parallel(args, factory, &tasks)?) {
        if matches!(task, Task::Bound(_)) {
            optimum = None;
        }
        match outcome {
            Outcome::Optimum(known) => optimum = Some(known),
            Outcome::Row(row) => rows.push(Row { number: *at as u64, optimum, ..*row }),
        }
    }
    Ok(rows)
}

/// The outcomes, in the order of the tasks.
fn in_parallel(
    args: &ReplayArgs,
    factory: &dyn MachineFactory,
    tasks: &[(usize, Task<'_>)],
) -> Result<Vec<Outcome>, String> {
    let bar = progress::bar("Replaying", tasks.len() as u64, "runs");
    let outcomes = Mutex::new(Vec::from_iter(tasks.iter().map(|_| None)));
    let next = AtomicUsize::new(0);
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some((_, task)) = tasks.get(at) else { return };
            let outcome = run_task(args, factory, task);
            outcomes.lock().expect("no thread panics")[at] = Some(outcome);
            bar.inc(1);
        }
    };
    std::thread::scope(|scope| {
        (1..jobs(args.jobs)).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    bar.finish_and_clear();
    let outcomes = outcomes.into_inner().expect("no thread panics");
    outcomes.into_iter().map(|outcome| outcome.expect("all have run")).collect()
}

fn run_task(args: &ReplayArgs, factory: &dyn MachineFactory, task: &Task<'_>) -> Result<Outcome, String> {
    let (Task::Play(cell) | Task::Bound(cell)) = task;
    let name = format!("{} at {} under {}", cell.input.path.display(), cell.local_memory, cell.policy);
    let mut outcome = None;
    let panic = caught(|| {
        outcome = Some(match (task, &cell.input.trace) {
            (Task::Bound(_), Some(trace)) => optimum(args, cell, trace).map(Outcome::Optimum),
            (_, Some(trace)) => played(args, cell, trace).map(|row| Outcome::Row(Box::new(row))),
            (_, None) => content::run(args, cell, factory).map(|row| Outcome::Row(Box::new(row))),
        });
    });
    match (outcome, panic) {
        (Some(outcome), _) => outcome.map_err(|error| format!("{name}: {error}")),
        (None, panic) => Err(format!("{name}: {}", panic.unwrap_or_default())),
    }
}

fn setup(args: &ReplayArgs, cell: &Cell<'_>, trace: &Trace) -> Setup {
    Setup {
        local_memory: cell.local_memory_bytes(args, trace),
        in_flight: u64::from(args.ahead.unwrap_or(1)) + 1,
        warm_up: args.warm_up,
        pass_by: args.pass_by,
        link: args.bus_gb_per_s,
    }
}

fn optimum(args: &ReplayArgs, cell: &Cell<'_>, trace: &Trace) -> Result<Optimum, Box<dyn Error>> {
    let setup = setup(args, cell, trace);
    Ok(Optimum {
        split: bounds::min_split(trace, &setup)?,
        whole: bounds::min_whole(trace, &setup)?,
        pfoo_bytes_in: bounds::pfoo_lower(trace, &setup)?,
    })
}

fn options(args: &ReplayArgs, cell: &Cell<'_>, trace: &Trace) -> PlayOptions {
    PlayOptions { setup: setup(args, cell, trace), policy: cell.policy, lists: args.lists.into() }
}

fn played(args: &ReplayArgs, cell: &Cell<'_>, trace: &Trace) -> Result<Row, Box<dyn Error>> {
    let options = options(args, cell, trace);
    let is_study = !args.manager && is_exact(trace, &options);
    let (mut error, mut fair) = (None, None);
    let outcome = match (args.sample, is_study) {
        (Some(_), _) => study_sample(trace, &options, args.share()).map(|(played, of_sample)| {
            error = Some(of_sample);
            played
        }),
        (None, true) => study(trace, &options).or_else(|error| match error {
            PlayError::Prefetches => play(trace, &options),
            error => Err(error),
        }),
        (None, false) => play_processes(trace, &options).and_then(|(played, bytes_in)| {
            let alone = &cell.input.alone;
            fair = (!alone.is_empty()).then(|| fairness(alone, &bytes_in, &options)).transpose()?;
            Ok(played)
        }),
    };
    let played = match outcome {
        Ok(played) => played,
        // Without the objects that pass by, a submission of several requests is still larger than the memory.
        Err(PlayError::TooLarge { .. }) => return Ok(cell.row(args)),
        Err(error) => return Err(error.into()),
    };
    let Played {
        uses,
        misses,
        bytes_used,
        bytes_in,
        bytes_prefetched,
        passed,
        bytes_out,
        evictions,
        work_ns,
        virtual_ns,
    } = played;
    Ok(Row {
        sample_error: error,
        fairness: fair,
        uses: Some(uses),
        misses: Some(misses),
        passed: Some(passed),
        bytes_used: Some(bytes_used),
        bytes_in: Some(bytes_in),
        bytes_prefetched: Some(bytes_prefetched),
        bytes_out: Some(bytes_out),
        evictions: Some(evictions),
        work_ns: Some(work_ns),
        virtual_ns: Some(virtual_ns),
        ..cell.row(args)
    })
}
