//! Watches the process with the driver. A death or a standstill of the process is a finding with the call, and a new process goes on
//! with the next check.

use std::{
    error::Error,
    path::Path,
    sync::mpsc::RecvTimeoutError,
    thread,
    time::{Duration, Instant},
};

use vidmm_ddi::Progress;

use super::args::CheckArgs;
use super::containment::{Contained, Containment, OUTPUT_MAX};
use super::findings::{Found, Limit, Outcome, Ran};
use super::jobs::Job;
use super::worker::Message;
use crate::progress::bar;

/// How often a worker is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// The last message of an ended supervisor arrives in this time.
const LAST_MESSAGE: Duration = Duration::from_secs(5);

/// The limit between two calls of the driver, as a multiple of the limit of a call.
const OWN_WORK: u32 = 12;

/// A slow call takes this time or more.
const SLOW: Duration = Duration::from_millis(500);

/// The limit of all slow calls of a check together, as a multiple of the limit of a call.
const SLOW_CALLS: u32 = 4;

/// The reason why a worker is not used again.
enum End {
    /// A death, a standstill, or the end of the supervisor.
    Death(Found),
    /// The check takes too long: a remark.
    Slow(Found),
}

/// Runs the checks, each in a worker. The driver decides how long a worker lives.
pub fn run(args: &CheckArgs, driver: &Path, jobs: &[Job], mut limit: Limit) -> Result<Ran, Box<dyn Error>> {
    let file = tempfile::NamedTempFile::new()?;
    let progress = Progress::shared(file.as_file())?;
    let containment = Containment::new();
    let mut ran = Ran { reaches_others: !containment.has_own_numbers(), ..Ran::default() };
    let (mut worker, mut deaths) = (None, 0);
    let bar = bar("Trying", jobs.len() as u64, "checks");
    for (at, &job) in jobs.iter().enumerate() {
        if !limit.goes_on(&ran.outcomes) {
            break;
        }
        while worker.is_none() && deaths < args.max_deaths {
            progress.reset();
            let contained = containment.start(args, driver, file.path())?;
            worker = match (Worker { contained, args, progress: &progress }).begin()? {
                Ok((started, machine, not_judged)) => {
                    (ran.machine, ran.not_judged) = (machine, not_judged);
                    Some(started)
                }
                // A driver without a start is a single finding, and not a finding for each check. After an earlier start a later start may succeed.
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
        let (outcome, end) = running.run(job)?;
        ran.outcomes.push(outcome);
        if let Some(end) = end {
            worker = None;
            deaths += u32::from(end);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    if let Some(worker) = worker {
        worker.contained.end();
    }
    Ok(ran)
}

/// A worker, and the progress of the driver.
struct Worker<'a> {
    contained: Contained<'a>,
    args: &'a CheckArgs,
    progress: &'a Progress,
}

type Started<'a> = Result<(Worker<'a>, String, Vec<String>), Outcome>;

impl<'a> Worker<'a> {
    /// Waits for the worker's driver.
    fn begin(mut self) -> Result<Started<'a>, Box<dyn Error>> {
        loop {
            match self.wait()? {
                Ok(Message::Begun { process }) => self.contained.has_begun(process),
                Ok(Message::Started { machine, not_judged }) => return Ok(Ok((self, machine, not_judged))),
                Ok(Message::NotStarted(outcome) | Message::Ended(outcome)) => return Ok(Err(outcome)),
                Ok(Message::Died { .. }) => return Err("a death ends the wait".into()),
                Err(End::Death(found) | End::Slow(found)) => {
                    return Ok(Err(Outcome { found: vec![found], ..Outcome::new(Job::Start) }));
                }
            }
        }
    }

    /// Runs a check. Also returns, for a worker at the end of use, whether a death is the reason.
    fn run(&mut self, job: Job) -> Result<(Outcome, Option<bool>), Box<dyn Error>> {
        self.contained.tell(job);
        let (mut outcome, mut end) = match self.wait()? {
            Ok(Message::Ended(outcome) | Message::NotStarted(outcome)) => (outcome, None),
            Ok(_) => return Err("a worker has started twice".into()),
            Err(end) => {
                let (calls, builds) = (self.progress.calls(), self.progress.builds());
                let mut outcome = Outcome { calls, builds, ..Outcome::new(job) };
                let is_death = matches!(end, End::Death(_));
                match end {
                    End::Death(found) => outcome.found.push(found),
                    End::Slow(remark) => outcome.remarks.push(remark),
                }
                (outcome, Some(is_death))
            }
        };
        if end.is_none() {
            let left = self.contained.end_started();
            if left > 0 {
                let message = format!("processes that the driver has started are left behind the check: {left}");
                outcome.found.push(Found::new("PROCESS", message));
            }
            if self.contained.is_stopped() {
                outcome.found.push(self.stopped());
                end = Some(true);
            }
        }
        if self.contained.printed() > OUTPUT_MAX {
            let message = "the driver prints more than 1 MiB in a check: the rest is left out";
            outcome.remarks.push(Found::new("OUTPUT", message.to_owned()));
        }
        Ok((outcome, end))
    }

    /// Waits for the next message.
    fn wait(&mut self) -> Result<Result<Message, End>, Box<dyn Error>> {
        let hang = self.args.hang;
        let (mut seen, mut since, mut slow) = (self.progress.steps(), Instant::now(), Duration::ZERO);
        let mut running = self.progress.running();
        loop {
            // A supervisor says the reason of the end first: the message is on the way, or the socket closes.
            let has_ended = self.contained.has_ended();
            let patience = if has_ended { LAST_MESSAGE } else { LOOK };
            if has_ended {
                self.contained.end_started();
            }
            match self.contained.messages.recv_timeout(patience) {
                Ok(Message::Died { signal, status }) => {
                    return Ok(Err(End::Death(died(signal, status, self.progress))));
                }
                Ok(message) => return Ok(Ok(message)),
                Err(_) if has_ended => {
                    let message =
                        format!("the process that had started the driver's was killed, in {}", place(self.progress));
                    return Ok(Err(End::Death(death("KILL", message, self.progress, "killed"))));
                }
                // All have closed the socket, and not all have ended.
                Err(RecvTimeoutError::Disconnected) => thread::sleep(LOOK),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if self.contained.is_stopped() {
                return Ok(Err(End::Death(self.stopped())));
            }
            if self.progress.steps() != seen {
                if let Some(call) = running.filter(|_| since.elapsed() >= SLOW) {
                    slow += since.elapsed();
                    if slow >= hang * SLOW_CALLS {
                        let message = format!(
                            "calls of {} take over half a second each: a check ends before its end",
                            call.function
                        );
                        return Ok(Err(End::Slow(Found::new("SLOW", message))));
                    }
                }
                (seen, since) = (self.progress.steps(), Instant::now());
            }
            running = self.progress.running();
            let limit = if running.is_some() { hang } else { hang * OWN_WORK };
            if since.elapsed() >= limit {
                let seconds = limit.as_secs();
                return Ok(Err(End::Death(match running {
                    Some(_) => {
                        let held = self.progress.held_locks();
                        let held =
                            if held.is_empty() { String::new() } else { format!(", with {}", held.join(" and ")) };
                        let message = format!("no answer in {seconds} s, in {}{held}", place(self.progress));
                        death("HANG", message, self.progress, "")
                    }
                    None => Found::new("PANIC", format!("vidmm has not called the driver for {seconds} s")),
                })));
            }
        }
    }

    fn stopped(&self) -> Found {
        let message = format!("the process that had started the driver's was stopped, in {}", place(self.progress));
        death("KILL", message, self.progress, "stopped")
    }
}

/// Where the driver is.
fn place(progress: &Progress) -> String {
    let last = || progress.last().map(|last| format!(", behind {last}")).unwrap_or_default();
    progress.running().map_or_else(|| format!("no call of the driver{}", last()), |running| running.to_string())
}

/// The finding of an ended process.
fn died(signal: Option<i32>, status: i32, progress: &Progress) -> Found {
    let (rule, end) = match signal {
        Some(signal) => ("CRASH", format!("signal {signal}")),
        None => ("EXIT", format!("the process ended with status {status}")),
    };
    let words = progress.last_words();
    let why = if words.is_empty() { String::new() } else { format!(": {words}") };
    death(rule, format!("{end} in {}{why}", place(progress)), progress, &words)
}

/// A finding about the end of a process. The call and the process's last words tell two ends apart.
fn death(rule: &str, message: String, progress: &Progress, words: &str) -> Found {
    let function = progress.running().map_or("no call", |running| running.function);
    Found { place: Some(format!("{function} {words}").trim_end().to_owned()), ..Found::new(rule, message) }
}
