//! `vidmm replay`: workloads under many policies and sizes of memory, in one table.

use std::{
    error::Error,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use vidmm::policy::PolicyChoice;
use vidmm_sim::{Report, Scenario, ScenarioFile, Unobserved, caught};
use vidmm_trace::{ByteSize, LocalMemory};

use crate::{
    args::{ReplayArgs, jobs, quoted},
    output,
    report::unless_closed,
    run, soft,
    style::{BAD, BOLD, GOOD, counted, number},
    workload,
};

/// One combination, before it runs.
struct Cell<'a> {
    input: &'a Path,
    /// Of the input, by which another file of that name is known.
    digest: String,
    local_memory: LocalMemory,
    policy: PolicyChoice,
}

/// The result of a combination: a row of the table, and of the CSV file.
#[derive(Clone, Serialize)]
struct Row {
    vidmm_version: &'static str,
    input: String,
    input_digest: String,
    seed: u64,
    ahead: u32,
    local_memory: String,
    local_memory_bytes: u64,
    footprint_bytes: u64,
    policy: String,
    bytes_in: u64,
    bytes_out: u64,
    bytes_filled: u64,
    evictions: u64,
    virtual_ns: u64,
    pages_checked: u64,
    findings: usize,
}

/// Runs all combinations, and prints and writes the table. Returns whether all that was checked held.
pub fn run(args: &ReplayArgs) -> Result<bool, Box<dyn Error>> {
    let mut cells = Vec::new();
    for input in &args.inputs {
        // A mistake in an input is told before anything runs.
        let digest = output::digest(input);
        let cell = |local_memory, policy| Cell { input, digest: digest.clone(), local_memory, policy };
        prepare(args, &cell(args.local_memory[0], args.policy[0]))?;
        for &local_memory in &args.local_memory {
            cells.extend(args.policy.iter().map(|&policy| cell(local_memory, policy)));
        }
    }
    let mut csv = args.csv.as_deref().map(|path| create(path, args)).transpose()?;
    let rows = run_all(args, &cells)?;
    if let Some(file) = &mut csv {
        rows.iter().try_for_each(|row| file.serialize(row))?;
        file.flush()?;
    }
    let findings: usize = rows.iter().map(|row| row.findings).sum();
    unless_closed(write(&mut anstream::stdout().lock(), args, &rows, findings))?;
    Ok(findings == 0)
}

/// The scenario of a combination. An input that ends in `.toml` is a scenario, and any other a trace.
fn prepare(args: &ReplayArgs, cell: &Cell<'_>) -> Result<(Scenario, workload::Prepared), Box<dyn Error>> {
    let is_scenario = cell.input.extension().is_some_and(|extension| extension == "toml");
    let (mut scenario, base) = match is_scenario.then(|| ScenarioFile::load(cell.input)).transpose()? {
        Some(ScenarioFile::Workload(scenario)) => (*scenario, cell.input.parent().unwrap_or(Path::new("")).to_owned()),
        Some(ScenarioFile::Explicit(_)) => {
            let name = quoted(&cell.input.display().to_string());
            return Err(
                format!("{name} is made of steps, which say what is evicted; replay a trace or a workload").into()
            );
        }
        None => (run::of_trace(cell.input), PathBuf::new()),
    };
    scenario.adapter.local_memory = Some(cell.local_memory);
    scenario.adapter.policy = cell.policy;
    scenario.client.ahead = args.ahead.unwrap_or(scenario.client.ahead);
    scenario.compare = None;
    let prepared = workload::prepare(&scenario, &base)?;
    Ok((scenario, prepared))
}

fn create(path: &Path, args: &ReplayArgs) -> Result<csv::Writer<std::fs::File>, Box<dyn Error>> {
    output::check_apart(&[path], &args.inputs)?;
    csv::Writer::from_path(path).map_err(|error| format!("cannot write {}: {error}", path.display()).into())
}

/// Runs the combinations on several threads; the rows have their order.
fn run_all(args: &ReplayArgs, cells: &[Cell<'_>]) -> Result<Vec<Row>, String> {
    let bar = ProgressBar::new(cells.len() as u64);
    bar.set_style(ProgressStyle::with_template("{bar:40} {pos}/{len} {elapsed}").expect("it is a template"));
    let (next, rows) = (AtomicUsize::new(0), Mutex::new(vec![None; cells.len()]));
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(cell) = cells.get(number) else { return };
            let row = run_cell(args, cell);
            rows.lock().expect("no thread panics")[number] = Some(row);
            bar.inc(1);
        }
    };
    std::thread::scope(|scope| (0..jobs(args.jobs)).for_each(|_| drop(scope.spawn(work))));
    bar.finish_and_clear();
    let rows = rows.into_inner().expect("no thread panics");
    rows.into_iter().map(|row| row.expect("all have run")).collect()
}

fn run_cell(args: &ReplayArgs, cell: &Cell<'_>) -> Result<Row, String> {
    let name = format!("{} at {} under {}", cell.input.display(), cell.local_memory, cell.policy);
    let (scenario, prepared) = prepare(args, cell).map_err(|error| format!("{name}: {error}"))?;
    let mut outcome = None;
    if let Some(panic) = caught(|| outcome = Some(prepared.run(&scenario, &soft::machine, &mut Unobserved))) {
        return Err(format!("{name}: {panic}"));
    }
    let outcome = outcome.expect("without a panic there is an outcome");
    let (report, _) = outcome.map_err(|error| format!("{name}: {error}"))?;
    let Report { footprint_bytes, local_memory_bytes, figures, time, .. } = &report;
    Ok(Row {
        vidmm_version: env!("CARGO_PKG_VERSION"),
        input: cell.input.display().to_string(),
        input_digest: cell.digest.clone(),
        seed: scenario.seed,
        ahead: scenario.client.ahead,
        local_memory: cell.local_memory.to_string(),
        local_memory_bytes: *local_memory_bytes,
        footprint_bytes: *footprint_bytes,
        policy: cell.policy.to_string(),
        bytes_in: figures.bytes_paged_in,
        bytes_out: figures.bytes_paged_out,
        bytes_filled: figures.bytes_filled,
        evictions: figures.evictions,
        virtual_ns: time.virtual_ns,
        pages_checked: report.pages_checked,
        findings: report.findings.len() + usize::from(!report.all_held() && report.findings.is_empty()),
    })
}

/// A block for each input: a line for each size, a column for each policy.
fn write(out: &mut impl Write, args: &ReplayArgs, rows: &[Row], findings: usize) -> io::Result<()> {
    let of_input = args.local_memory.len() * args.policy.len();
    for rows in rows.chunks(of_input) {
        let footprint = ByteSize(rows[0].footprint_bytes);
        writeln!(out, "{BOLD}{}{BOLD:#}: bytes in + out; footprint {footprint}", rows[0].input)?;
        write!(out, "  {:<14}", "local memory")?;
        for policy in &args.policy {
            write!(out, "{:>26}", policy.to_string())?;
        }
        writeln!(out)?;
        for rows in rows.chunks(args.policy.len()) {
            write!(out, "  {:<14}", rows[0].local_memory)?;
            for Row { bytes_in, bytes_out, .. } in rows {
                let size = |bytes: u64| ByteSize(bytes).to_string();
                write!(out, "{:>26}", format!("{} + {}", size(*bytes_in), size(*bytes_out)))?;
            }
            writeln!(out)?;
        }
    }
    let pages = number(rows.iter().map(|row| row.pages_checked).sum());
    let style = if findings == 0 { GOOD } else { BAD };
    let runs = counted(rows.len() as u64, "run", "runs");
    writeln!(out, "{style}checked{style:#}     {pages} pages in {runs}; {} findings", number(findings as u64))
}
