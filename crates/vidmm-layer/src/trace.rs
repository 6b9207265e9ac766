//! The file of a trace: a line for each event, written at once, so that a program may end in any way.

use std::env;
use std::fmt;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The variable that names the file of the trace.
pub const TRACE_VARIABLE: &str = "VIDMM_LAYER_TRACE";

/// The first line of a trace.
const HEADER: &str = "vidmm-trace 1\n";

static TRACE: Mutex<Option<Trace>> = Mutex::new(None);

/// The trace of this process.
struct Trace {
    /// None behind an error, which was told, and where only numbers are wanted.
    file: Option<File>,
    began: Instant,
    process: u32,
    last: Numbers,
}

/// The numbers of the objects that came last.
#[derive(Default)]
struct Numbers {
    device: u64,
    memory: u64,
    buffer: u64,
}

/// The file of a process, from 1, in the order of their first instances: `out.vt`, `out.2.vt`, and so on.
pub fn of_process(path: &Path, process: u32) -> PathBuf {
    match (process, path.extension()) {
        (1, _) => path.to_owned(),
        (_, None) => path.with_extension(process.to_string()),
        (_, Some(extension)) => path.with_extension(format!("{process}.{}", extension.display())),
    }
}

/// Begins to number objects, if nobody has begun, and the trace, if the variable names a file. Returns whether anybody watches:
/// the trace, or the residency mode.
pub fn begin(is_residency_on: bool) -> bool {
    let mut trace = lock();
    // A child of `fork` has the parent's trace, and begins another.
    if trace.as_ref().is_none_or(|trace| trace.process != std::process::id()) {
        let path = env::var_os(TRACE_VARIABLE);
        *trace = (is_residency_on || path.is_some()).then(|| Trace::create(path.as_ref().map(Path::new)));
    }
    trace.is_some()
}

/// Whether there is a file for events.
pub fn is_on() -> bool {
    lock().as_ref().is_some_and(|trace| trace.file.is_some())
}

/// Appends an event, behind the time.
pub fn event(words: fmt::Arguments<'_>) {
    if let Some(trace) = &mut *lock() {
        trace.event(words);
    }
}

/// Counts what the trace does not cover.
pub fn uncovered(what: &str) {
    event(format_args!("uncovered {what}"));
}

/// Appends a device, and returns the number.
pub fn new_device() -> u64 {
    numbered(|last| &mut last.device, |number| format!("device {number}"))
}

/// Appends an allocation of memory, and returns the number.
pub fn new_memory(device: u64, bytes: u64, is_local: bool) -> u64 {
    let kind = if is_local { "local" } else { "system" };
    numbered(|last| &mut last.memory, |number| format!("memory {number} {device} {bytes} {kind}"))
}

/// Appends a buffer at a place in memory, and returns the number.
pub fn new_buffer(memory: u64, offset: u64, bytes: u64) -> u64 {
    numbered(|last| &mut last.buffer, |number| format!("buffer {number} {memory} {offset} {bytes}"))
}

fn numbered(last: impl Fn(&mut Numbers) -> &mut u64, words: impl Fn(u64) -> String) -> u64 {
    let mut trace = lock();
    let Some(trace) = &mut *trace else { return 0 };
    let number = last(&mut trace.last);
    *number += 1;
    let number = *number;
    trace.event(format_args!("{}", words(number)));
    number
}

fn lock() -> MutexGuard<'static, Option<Trace>> {
    TRACE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Trace {
    fn create(path: Option<&Path>) -> Self {
        let mut trace =
            Self { file: None, began: Instant::now(), process: std::process::id(), last: Numbers::default() };
        let Some(path) = path else { return trace };
        let is_there = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
        let mut files = (1..).map(|process| File::create_new(of_process(path, process)));
        let file = files.find(|file| !file.as_ref().is_err_and(is_there)).expect("numbers do not end");
        match file {
            Ok(file) => trace.file = Some(file),
            Err(error) => eprintln!("vidmm: no trace: {error}"),
        }
        trace.write(HEADER);
        trace
    }

    fn event(&mut self, words: fmt::Arguments<'_>) {
        // In a child of `fork` the objects of the parent are dead, and the trace is the parent's.
        if self.file.is_some() && self.process == std::process::id() {
            self.write(&format!("{} {words}\n", self.began.elapsed().as_nanos()));
        }
    }

    fn write(&mut self, text: &str) {
        if let Some(Err(error)) = self.file.as_mut().map(|file| file.write_all(text.as_bytes())) {
            eprintln!("vidmm: the trace ends here: {error}");
            self.file = None;
        }
    }
}
