//! The log of the calls: a header with the settings, and a line for each call with the answer, as JSON.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::call::{Call, Reply};
use crate::faults::FaultKind;
use crate::rules::Finding;
use crate::session::Session;
use crate::settings::Settings;

/// The version of the log, and the only version that is read.
const VERSION: u32 = 3;

/// The first line.
#[derive(Debug, Serialize, Deserialize)]
struct Header {
    vidmm_calls: u32,
    settings: Settings,
}

/// A call and the answer.
#[derive(Debug, Serialize, Deserialize)]
pub struct Line<C = Call, R = Reply> {
    /// The number of the call.
    pub n: u64,
    /// The time after the call, in nanoseconds since the start.
    pub at: u64,
    /// The call.
    pub call: C,
    /// The answer.
    pub reply: R,
}

/// Writes a log. The first error is kept, and nothing is written after it.
#[derive(Debug)]
pub struct CallLog {
    out: BufWriter<File>,
    error: Option<io::Error>,
}

impl CallLog {
    /// Begins a log in the first file of `path` that does not exist yet: each process of a program has a log of its own.
    ///
    /// # Errors
    ///
    /// If the file cannot be made.
    pub fn create(path: &Path, settings: &Settings) -> io::Result<Self> {
        let is_there = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
        let mut files = (1..).map(|process| File::create_new(of_process(path, process)));
        let file = files.find(|file| !file.as_ref().is_err_and(is_there)).expect("numbers do not end")?;
        let mut log = Self { out: BufWriter::new(file), error: None };
        log.write(&Header { vidmm_calls: VERSION, settings: settings.clone() });
        Ok(log)
    }

    /// Appends a call and the answer.
    pub fn line(&mut self, session: &Session, call: &Call, reply: &Reply) {
        self.write(&Line { n: session.num_calls(), at: session.now(), call, reply });
    }

    /// Writes out what is buffered, and returns the first error of the log.
    ///
    /// # Errors
    ///
    /// That error.
    pub fn flush(&mut self) -> io::Result<()> {
        self.error.take().map_or_else(|| self.out.flush(), Err)
    }

    fn write(&mut self, value: &impl Serialize) {
        if self.error.is_none() {
            let written = serde_json::to_writer(&mut self.out, value).map_err(io::Error::from);
            self.error = written.and_then(|()| self.out.write_all(b"\n")).err();
        }
    }
}

/// The file of a process, from 1, in the order of their first calls: `calls.jsonl`, `calls.2.jsonl`, and so on.
pub fn of_process(path: &Path, process: u32) -> PathBuf {
    match (process, path.extension()) {
        (1, _) => path.to_owned(),
        (_, None) => path.with_extension(process.to_string()),
        (_, Some(extension)) => path.with_extension(format!("{process}.{}", extension.display())),
    }
}

/// The reason why a log cannot be repeated.
#[derive(Debug)]
pub enum LogError {
    /// The file cannot be read.
    Io(io::Error),
    /// A line is no line of a log.
    Line {
        /// The number of the line, from 1.
        number: usize,
        /// The reason.
        error: serde_json::Error,
    },
    /// The log is of another version.
    Version(u32),
    /// The adapter does not start.
    Start(String),
}

impl std::fmt::Display for LogError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(error) => write!(f, "{error}"),
            Self::Line { number, error } => {
                write!(f, "line {number} is no call: {error}; `vidmm exec --kmt --calls FILE` writes such a log")
            }
            Self::Version(version) => {
                write!(f, "the log has version {version}, and this program reads version {VERSION}")
            }
            Self::Start(error) => write!(f, "the adapter of the log does not start: {error}"),
        }
    }
}

impl std::error::Error for LogError {}

/// The outcome of a repeated log.
#[derive(Debug)]
pub struct Played {
    /// The number of calls.
    pub calls: u64,
    /// The calls of each function.
    pub by_name: BTreeMap<String, Counted>,
    /// The broken rules.
    pub findings: Vec<Finding>,
    /// How often each fault has struck, without faults of packets.
    pub struck: BTreeMap<FaultKind, u64>,
    /// Why the neighbour plays no more, if the neighbour could not go on.
    pub neighbour_error: Option<String>,
    /// The number of the first call with another answer than in the log, with both answers.
    pub difference: Option<(u64, Reply, Reply)>,
}

/// The calls of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counted {
    /// All calls.
    pub calls: u64,
    /// The calls with an error for an answer.
    pub refused: u64,
}

/// Repeats the calls of a log, with the manager's events if `events` is set. `watch` gets the session after each call.
///
/// # Errors
///
/// If the file is no log.
pub fn replay(path: &Path, events: bool, mut watch: impl FnMut(&mut Session)) -> Result<Played, LogError> {
    let mut lines = BufReader::new(File::open(path).map_err(LogError::Io)?).lines().enumerate();
    let mut next = || lines.next().map(|(number, line)| line.map(|line| (number + 1, line)).map_err(LogError::Io));
    let (number, first) = next().transpose()?.unwrap_or_default();
    let header: Header = serde_json::from_str(&first).map_err(|error| LogError::Line { number, error })?;
    if header.vidmm_calls != VERSION {
        return Err(LogError::Version(header.vidmm_calls));
    }
    let settings = Settings { calls: None, events, ..header.settings };
    let mut session = Session::start(settings).map_err(LogError::Start)?;
    let (mut difference, mut by_name) = (None, BTreeMap::new());
    while let Some((number, line)) = next().transpose()? {
        let line: Line = serde_json::from_str(&line).map_err(|error| LogError::Line { number, error })?;
        let reply = session.call(&line.call);
        watch(&mut session);
        if !matches!(line.call, Call::TimePasses { .. }) {
            let of: &mut Counted = by_name.entry(line.call.name()).or_default();
            of.calls += 1;
            of.refused += u64::from(!reply.status.is_success());
        }
        if difference.is_none() && (reply != line.reply || session.now() != line.at) {
            difference = Some((line.n, line.reply, reply));
        }
    }
    session.end();
    let calls = by_name.values().map(|of| of.calls).sum();
    let findings = session.findings().to_vec();
    let neighbour_error = session.neighbour_error().map(str::to_owned);
    Ok(Played { calls, by_name, findings, struck: session.struck().clone(), neighbour_error, difference })
}
