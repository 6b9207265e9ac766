//! Watches the process that has the driver. When that dies or stands still, the call that it was in is the finding, and a new
//! process goes on with the next check.

use std::{
    error::Error,
    ffi::{CString, OsStr},
    io::{BufRead, BufReader, Write},
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Child, ChildStdin, Command, ExitStatus, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use vidmm_ddi::Progress;

use super::args::CheckArgs;
use super::findings::{Found, Limit, Outcome, Ran};
use super::jobs::Job;
use super::worker::{MARK, Message};
use crate::progress::bar;

/// How often a worker is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// vidmm may take so many times longer between two calls of the driver than the driver in one.
const OWN_WORK: u32 = 12;

/// A worker, and what it says. It ends with the value.
struct Worker {
    child: Child,
    /// None once it is to end.
    jobs: Option<ChildStdin>,
    messages: Receiver<Message>,
}

/// Runs the checks, each in a worker that lives as long as the driver lets it.
pub fn run(args: &CheckArgs, driver: &Path, jobs: &[Job], mut limit: Limit) -> Result<Ran, Box<dyn Error>> {
    let file = tempfile::NamedTempFile::new()?;
    let progress = Progress::shared(file.as_file())?;
    let mut ran = Ran::default();
    let (mut worker, mut deaths) = (None, 0);
    let bar = bar("Trying", jobs.len() as u64, "checks");
    for (at, &job) in jobs.iter().enumerate() {
        if !limit.goes_on(&ran.outcomes) {
            break;
        }
        while worker.is_none() && deaths < args.max_deaths {
            worker = match Worker::start(args, driver, file.path(), &progress)? {
                Ok((started, machine, not_judged)) => {
                    (ran.machine, ran.not_judged) = (machine, not_judged);
                    Some(started)
                }
                // A driver that does not start is one finding, not one for each check. One that has started before may do so again.
                Err(outcome) => {
                    ran.outcomes.push(outcome);
                    if ran.machine.is_empty() {
                        break;
                    }
                    deaths += 1;
                    None
                }
            };
        }
        let Some(running) = &mut worker else {
            ran.not_run = if deaths == args.max_deaths { (jobs.len() - at) as u64 } else { 0 };
            break;
        };
        match running.run(job, args, &progress)? {
            Ok(outcome) => ran.outcomes.push(outcome),
            Err(found) => {
                let (calls, builds) = (progress.calls(), progress.builds());
                ran.outcomes.push(Outcome { found: vec![found], calls, builds, ..Outcome::new(job) });
                worker = None;
                deaths += 1;
            }
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if let Some(worker) = worker {
        worker.end();
    }
    Ok(ran)
}

type Started = Result<(Worker, String, Vec<String>), Outcome>;

impl Worker {
    /// Starts a worker and waits for its driver.
    fn start(args: &CheckArgs, driver: &Path, shared: &Path, progress: &Progress) -> Result<Started, Box<dyn Error>> {
        progress.reset();
        let mut child = Command::new(std::env::current_exe()?)
            .arg("check")
            .arg(driver)
            .arg("--worker")
            .arg(shared)
            .args(["--steps", &args.steps.to_string()])
            .args(args.registry.iter().map(registry_argument))
            .args(args.allocation.iter().flat_map(|file| [OsStr::new("--allocation"), file.as_os_str()]))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (sender, messages) = channel();
        let (jobs, out) = (child.stdin.take(), child.stdout.take());
        let (Some(jobs), Some(out)) = (jobs, out) else { return Err("a worker has no pipes".into()) };
        thread::spawn(move || {
            for line in BufReader::new(out).split(b'\n') {
                let Ok(line) = line else { return };
                let line = String::from_utf8_lossy(&line);
                let message = line.strip_prefix(MARK).and_then(|text| serde_json::from_str(text).ok());
                match message {
                    Some(message) => {
                        if sender.send(message).is_err() {
                            return;
                        }
                    }
                    None if line.is_empty() => {}
                    None => eprintln!("{line}"),
                }
            }
        });
        let mut worker = Self { child, jobs: Some(jobs), messages };
        match worker.wait(args, progress)? {
            Ok(Message::Started { machine, not_judged }) => Ok(Ok((worker, machine, not_judged))),
            Ok(Message::NotStarted(outcome) | Message::Ended(outcome)) => Ok(Err(outcome)),
            Err(found) => Ok(Err(Outcome { found: vec![found], ..Outcome::new(Job::Start) })),
        }
    }

    /// Runs a check. A worker that has died or stands still is a finding, and cannot be used again.
    fn run(
        &mut self,
        job: Job,
        args: &CheckArgs,
        progress: &Progress,
    ) -> Result<Result<Outcome, Found>, Box<dyn Error>> {
        // A worker that has died already is found below.
        let _ = self.jobs.as_mut().map(|jobs| writeln!(jobs, "{job}"));
        Ok(match self.wait(args, progress)? {
            Ok(Message::Ended(outcome) | Message::NotStarted(outcome)) => Ok(outcome),
            Ok(Message::Started { .. }) => return Err("a worker has started twice".into()),
            Err(found) => Err(found),
        })
    }

    /// Waits for the next message.
    fn wait(&mut self, args: &CheckArgs, progress: &Progress) -> Result<Result<Message, Found>, Box<dyn Error>> {
        let limit = args.hang;
        let (mut seen, mut since) = (progress.steps(), Instant::now());
        loop {
            match self.messages.recv_timeout(LOOK) {
                Ok(message) => return Ok(Ok(message)),
                // The driver may have closed the pipe and gone on, and a child of it may have the pipe open.
                Err(RecvTimeoutError::Disconnected) => thread::sleep(LOOK),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(status) = self.child.try_wait()? {
                let last = self.messages.recv_timeout(LOOK);
                return Ok(last.map_err(|_| died(status, progress)));
            }
            if progress.steps() != seen {
                (seen, since) = (progress.steps(), Instant::now());
            }
            let is_called = progress.running().is_some();
            let limit = if is_called { limit } else { limit * OWN_WORK };
            if since.elapsed() >= limit {
                let seconds = limit.as_secs();
                return Ok(Err(match is_called {
                    true => {
                        let message = format!("no answer in {seconds} s, in {}", place(progress));
                        death("HANG", message, progress, "")
                    }
                    false => Found::new("PANIC", format!("vidmm has not called the driver for {seconds} s")),
                }));
            }
        }
    }

    /// Lets the worker unload the driver and end.
    fn end(mut self) {
        self.jobs = None;
        // The results are there: a driver that does not let its process end is not waited for.
        for _ in 0..100 {
            if !matches!(self.child.try_wait(), Ok(None)) {
                return;
            }
            thread::sleep(LOOK);
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // One that has ended already is only waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The argument that gives a value of the registry.
pub fn registry_argument((name, value): &(CString, CString)) -> String {
    format!("--registry={}={}", name.to_string_lossy(), value.to_string_lossy())
}

/// Where the driver is.
fn place(progress: &Progress) -> String {
    progress.running().map_or_else(|| "no call of the driver".to_owned(), |running| running.to_string())
}

/// The finding of a process that has ended.
fn died(status: ExitStatus, progress: &Progress) -> Found {
    let (rule, end) = match status.signal() {
        Some(signal) => ("CRASH", format!("signal {signal}")),
        None => ("EXIT", format!("the process ended with status {}", status.code().unwrap_or_default())),
    };
    let words = progress.last_words();
    let why = if words.is_empty() { String::new() } else { format!(": {words}") };
    death(rule, format!("{end} in {}{why}", place(progress)), progress, &words)
}

/// A finding about the end of a process, which is told apart by the call and the process's last words.
fn death(rule: &str, message: String, progress: &Progress, words: &str) -> Found {
    let function = progress.running().map_or("no call", |running| running.function);
    Found { place: Some(format!("{function} {words}").trim_end().to_owned()), ..Found::new(rule, message) }
}
