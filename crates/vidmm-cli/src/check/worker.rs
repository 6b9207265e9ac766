//! The process that has the driver: it runs the checks that it is told, and says what each came to.

use std::{
    error::Error,
    fs::{self, OpenOptions},
    io::{self, BufRead, BufReader, Write},
    os::{fd::AsFd, unix::net::UnixStream},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use vidmm_ddi::{Driver, DriverMachines, Progress, processes, take_deepest};
use vidmm_sim::MachineFactory;

use super::args::CheckArgs;
use super::findings::{Found, Limit, Outcome, Ran};
use super::jobs::Job;

/// The reason why the steps of scenarios expect no answers of a driver.
const NO_ANSWERS: &str = "the answers that scenarios expect (written for one memory segment and one aperture)";

/// A message of a worker, or of the worker's supervisor.
#[derive(Serialize, Deserialize)]
pub enum Message {
    /// The worker begins, with this number of a process. The driver is not loaded.
    Begun { process: u32 },
    /// The driver has started: how its machine is described.
    Started { machine: String, not_judged: Vec<String> },
    /// It has not.
    NotStarted(Outcome),
    /// A check has ended.
    Ended(Outcome),
    /// The worker has ended: by a signal, or with a status.
    Died { signal: Option<i32>, status: i32 },
}

/// Loads the driver, and makes machines of it.
fn load(args: &CheckArgs, driver: &Path, progress: &Progress) -> Result<DriverMachines, String> {
    let read = |file: &PathBuf| fs::read(file).map_err(|error| format!("cannot read {}: {error}", file.display()));
    let recorded = args.allocation.iter().map(read).collect::<Result<_, _>>()?;
    let name = driver.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let loaded = Driver::load(driver, progress, &args.registry).map_err(|error| error.to_string())?;
    DriverMachines::new(loaded, name, recorded)
}

fn described(machines: &DriverMachines) -> (String, Vec<String>) {
    let answers = (machines.has_more_segments() || !machines.splits()).then_some(NO_ANSWERS);
    let not_judged = machines.lacks().not_judged().into_iter().chain(answers).map(str::to_owned);
    let functions = machines.lacking_functions();
    let lacking = (!functions.is_empty()).then(|| format!("{} (the driver's table has none)", functions.join(", ")));
    (machines.to_string(), not_judged.chain(lacking).collect())
}

/// Runs a check, and counts the calls that it made.
fn run(job: Job, machines: &DriverMachines, steps: u64, progress: &Progress) -> Outcome {
    progress.begin();
    let mut outcome = job.run(machines, steps);
    (outcome.calls, outcome.builds) = (progress.calls(), progress.builds());
    outcome.operations = progress.operations();
    outcome.reports_from_threads = progress.reports_from_threads();
    outcome.deepest = take_deepest();
    outcome
}

fn not_started(error: String) -> Outcome {
    Outcome { found: vec![Found::new("START", error)], ..Outcome::new(Job::Start) }
}

/// Serves: the names of checks come from the socket that is standard input, and outcomes go there.
pub fn serve(args: &CheckArgs, progress: &Path) -> Result<(), Box<dyn Error>> {
    processes::begin_session();
    processes::end_with_parent();
    let mut socket = socket()?;
    send(&mut socket, &Message::Begun { process: processes::number_for_others() })?;
    let file = OpenOptions::new().read(true).write(true).open(progress)?;
    let progress = Progress::shared(&file)?;
    let driver = args.driver.as_deref().ok_or("a worker needs a driver")?;
    let machines = match load(args, driver, &progress) {
        Ok(machines) => machines,
        Err(error) => return send(&mut socket, &Message::NotStarted(not_started(error))),
    };
    let (machine, not_judged) = described(&machines);
    send(&mut socket, &Message::Started { machine, not_judged })?;
    for line in BufReader::new(socket.try_clone()?).lines() {
        let line = line?;
        let job = Job::parse(&line).ok_or_else(|| format!("`{line}` is no check"))?;
        send(&mut socket, &Message::Ended(run(job, &machines, args.steps, &progress)))?;
    }
    Ok(())
}

/// The socket that is standard input, under a number that the driver does not know.
pub fn socket() -> io::Result<UnixStream> {
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

/// Sends a message in one piece.
pub fn send(socket: &mut UnixStream, message: &Message) -> Result<(), Box<dyn Error>> {
    // The driver may have written half a line to standard input.
    Ok(socket.write_all(format!("\n{}\n", serde_json::to_string(message)?).as_bytes())?)
}

/// Runs the checks in this process, where a debugger sees the driver.
pub fn run_here(args: &CheckArgs, driver: &Path, jobs: &[Job], mut limit: Limit) -> Result<Ran, Box<dyn Error>> {
    let progress = Progress::anonymous()?;
    let machines = match load(args, driver, &progress) {
        Ok(machines) => machines,
        Err(error) => {
            let outcomes = vec![not_started(error)];
            return Ok(Ran { outcomes, ..Ran::default() });
        }
    };
    let (machine, not_judged) = described(&machines);
    let mut outcomes = Vec::new();
    for &job in jobs {
        if !limit.goes_on(&outcomes) {
            break;
        }
        outcomes.push(run(job, &machines, args.steps, &progress));
    }
    Ok(Ran { outcomes, machine, not_judged, ..Ran::default() })
}
