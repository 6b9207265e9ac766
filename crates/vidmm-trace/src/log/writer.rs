//! Writing a log.

use std::io::{self, BufWriter, Write};

use crc32fast::Hasher;
use serde::Serialize;
use vidmm::NumberedEvent;

use super::{EventsLevel, LogHeader, trailer::Trailer};

/// Writes a log: a header, one line an event, and a trailer with the number of events and a hash. Equal events give equal bytes.
///
/// The first error is kept: writing never interrupts a run, and [`finish`](Self::finish) reports the error. No event is
/// written after it, so the file is the beginning of the log, without a trailer.
#[derive(Debug)]
pub struct LogWriter<W: Write> {
    out: BufWriter<W>,
    line: Vec<u8>,
    level: EventsLevel,
    /// Events written so far.
    events: u64,
    /// Of all bytes written so far.
    hash: Hasher,
    error: Option<io::Error>,
}

impl<W: Write> LogWriter<W> {
    /// Begins a log with its header. `out` need not be buffered.
    pub fn new(out: W, header: &LogHeader) -> Self {
        let (out, hash) = (BufWriter::new(out), Hasher::new());
        let mut writer = Self { out, line: Vec::new(), level: header.level, events: 0, hash, error: None };
        writer.write(header);
        writer
    }

    /// Appends an event, if the log's level has it.
    pub fn event(&mut self, event: &NumberedEvent) {
        if !self.level.has(&event.event) {
            return;
        }
        self.write(event);
        self.events += 1;
    }

    /// Ends the log, writes out what is still buffered, and returns the writer.
    ///
    /// # Errors
    ///
    /// Returns the first error of the whole log. The caller knows the file, and adds its path.
    pub fn finish(mut self) -> io::Result<W> {
        self.write(&Trailer { events: self.events, crc32: self.hash.clone().finalize() });
        match self.error {
            Some(error) => Err(error),
            None => self.out.into_inner().map_err(io::IntoInnerError::into_error),
        }
    }

    fn write(&mut self, value: &impl Serialize) {
        if self.error.is_none() {
            self.error = self.try_write(value).err();
        }
    }

    fn try_write(&mut self, value: &impl Serialize) -> io::Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, value)?;
        self.line.push(b'\n');
        self.hash.update(&self.line);
        self.out.write_all(&self.line)
    }
}
