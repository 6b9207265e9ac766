//! The processes around a driver: starts, signals and output of the driver stay among these processes.
//!
//! This process adopts orphans and starts a supervisor. The supervisor starts the worker with the driver. Supervisor and worker have a
//! session each. Where `unshare` works, both are in a separate space of process numbers: a signal to every process stays in the space.

use std::{
    collections::BTreeSet,
    error::Error,
    ffi::{CString, OsStr, OsString},
    io::{self, BufRead, BufReader, PipeReader, Read, Write},
    os::unix::{net::UnixStream, process::ExitStatusExt},
    path::Path,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
        mpsc::{Receiver, channel},
    },
    thread,
    time::Duration,
};

use vidmm_ddi::processes;

use super::args::CheckArgs;
use super::worker::{Message, send, socket};

/// The printed bytes of a check's output.
pub const OUTPUT_MAX: u64 = 1 << 20;

/// The arguments of `unshare` for a separate space of process numbers: for root, and for users.
const UNSHARED: [&[&str]; 2] =
    [&["--pid", "--fork", "--kill-child"], &["--user", "--map-current-user", "--pid", "--fork", "--kill-child"]];

/// The surroundings of all workers of a run.
pub struct Containment {
    /// The children of this process from before.
    others: BTreeSet<u32>,
    /// The arguments of `unshare`; none where `unshare` does not work.
    unshared: Option<&'static [&'static str]>,
}

impl Containment {
    /// Adopts orphans, and tries `unshare`.
    pub fn new() -> Self {
        processes::adopt_orphans();
        let works = |arguments: &&&[&str]| {
            let mut unshare = Command::new("unshare");
            unshare.args(**arguments).arg("true").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            unshare.status().is_ok_and(|status| status.success())
        };
        Self { others: processes::descendants(), unshared: UNSHARED.iter().find(works).copied() }
    }

    /// Whether a signal to every process is contained.
    pub fn has_own_numbers(&self) -> bool {
        self.unshared.is_some()
    }

    /// Starts a supervisor and a worker.
    pub fn start(&self, args: &CheckArgs, driver: &Path, progress: &Path) -> Result<Contained<'_>, Box<dyn Error>> {
        let (jobs, theirs) = UnixStream::pair()?;
        let (output, writer) = io::pipe()?;
        let vidmm = std::env::current_exe()?;
        let mut command = match self.unshared {
            Some(arguments) => {
                let mut unshare = Command::new("unshare");
                unshare.args(arguments).arg("--").arg(vidmm);
                unshare
            }
            None => Command::new(vidmm),
        };
        command
            .args([OsStr::new("check"), driver.as_os_str(), OsStr::new("--worker"), progress.as_os_str()])
            .args(["--supervisor", &std::process::id().to_string()])
            .args(["--steps", &args.steps.to_string()])
            .args(args.registry.iter().map(registry_argument))
            .args(args.allocation.iter().flat_map(|file| [OsStr::new("--allocation"), file.as_os_str()]))
            .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
            .stdout(writer.try_clone()?)
            .stderr(writer);
        let child = command.spawn()?;
        // The command has ends of socket and pipe: with the command both would stay open for ever.
        drop(command);
        let printed = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&printed);
        thread::spawn(move || print(output, &counted));
        let messages = messages(jobs.try_clone()?);
        Ok(Contained { child, jobs, messages, printed, lineage: Vec::new(), containment: self })
    }
}

/// A supervisor and a worker. Both end with the value, and so do all processes of the driver.
pub struct Contained<'a> {
    child: Child,
    jobs: UnixStream,
    pub messages: Receiver<Message>,
    /// The driver's output in this check, in bytes.
    printed: Arc<AtomicU64>,
    /// The worker, the supervisor, and the processes above.
    lineage: Vec<u32>,
    containment: &'a Containment,
}

impl Contained<'_> {
    /// The worker has said the number.
    pub fn has_begun(&mut self, worker: u32) {
        self.lineage = processes::lineage(worker);
    }

    /// Tells the worker the name of a check. A dead worker is found by the messages.
    pub fn tell(&mut self, job: impl std::fmt::Display) {
        self.printed.store(0, Relaxed);
        let _ = writeln!(self.jobs, "{job}");
    }

    /// The driver's output since the last check was told, in bytes.
    pub fn printed(&self) -> u64 {
        self.printed.load(Relaxed)
    }

    /// Whether the supervisor has ended.
    pub fn has_ended(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Whether a signal has stopped the supervisor.
    pub fn is_stopped(&self) -> bool {
        self.lineage.iter().skip(1).any(|&process| processes::is_stopped(process))
    }

    /// Ends all processes of the driver. Returns the number of running processes.
    pub fn end_started(&self) -> usize {
        processes::end_descendants(&self.lineage.iter().chain(&self.containment.others).copied().collect())
    }

    /// Lets the worker unload the driver and end. The results are complete: nothing waits for a driver that keeps the process alive.
    pub fn end(mut self) {
        let _ = self.jobs.shutdown(std::net::Shutdown::Write);
        for _ in 0..100 {
            if self.has_ended() {
                return;
            }
            thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Contained<'_> {
    fn drop(&mut self) {
        // An ended process is only waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
        processes::end_descendants(&self.containment.others);
    }
}

/// The argument that gives a value of the registry.
pub fn registry_argument((name, value): &(CString, CString)) -> String {
    format!("--registry={}={}", name.to_string_lossy(), value.to_string_lossy())
}

/// The messages from a socket. A driver may write lines without sense.
fn messages(socket: UnixStream) -> Receiver<Message> {
    let (sender, messages) = channel();
    thread::spawn(move || {
        for line in BufReader::new(socket).split(b'\n') {
            let Ok(line) = line else { return };
            if let Ok(message) = serde_json::from_slice(&line)
                && sender.send(message).is_err()
            {
                return;
            }
        }
    });
    messages
}

/// Prints the beginning of the driver's output in each check.
fn print(mut output: PipeReader, printed: &AtomicU64) {
    let mut bytes = [0; 1 << 16];
    while let Ok(read @ 1..) = output.read(&mut bytes) {
        let before = printed.fetch_add(read as u64, Relaxed);
        let room = OUTPUT_MAX.saturating_sub(before).min(read as u64) as usize;
        let _ = io::stderr().write_all(&bytes[..room]);
    }
}

/// Is the supervisor of a worker. Both end when `process` has ended.
pub fn supervise(process: u32) -> Result<(), Box<dyn Error>> {
    processes::begin_session();
    let arguments = Vec::from_iter(std::env::args_os().skip(1));
    // The first process of a space of numbers cannot be killed from within, and is the parent of the supervisor.
    let is_first = std::process::id() == 1;
    let arguments = if is_first { arguments } else { without_supervisor(arguments) };
    let mut child = Command::new(std::env::current_exe()?).args(arguments).spawn()?;
    let number = process.to_string();
    thread::spawn(move || {
        // A hanging worker does not see the end of the process.
        let proc = Path::new("/proc");
        while !proc.join("self").exists() || proc.join(&number).exists() {
            thread::sleep(Duration::from_secs(1));
        }
        std::process::exit(1);
    });
    let ended = child.wait()?;
    if !is_first {
        let died = Message::Died { signal: ended.signal(), status: ended.code().unwrap_or_default() };
        send(&mut socket()?, &died)?;
    }
    Ok(())
}

fn without_supervisor(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if let Some(at) = arguments.iter().position(|argument| argument == "--supervisor") {
        arguments.drain(at..at + 2);
    }
    arguments
}
