//! Writing a log.

use std::io::{self, BufWriter, Write};

use serde::Serialize;
use vidmm::NumberedEvent;

use super::LogHeader;

/// Writes a log: a header, then one line an event. Equal events give equal bytes.
///
/// The first error is kept: writing never interrupts a run, and [`finish`](Self::finish) reports the error. No event is
/// written after it, so the file is the beginning of the log.
#[derive(Debug)]
pub struct LogWriter<W: Write> {
    out: BufWriter<W>,
    line: Vec<u8>,
    error: Option<io::Error>,
}

impl<W: Write> LogWriter<W> {
    /// Begins a log with its header. `out` need not be buffered.
    pub fn new(out: W, header: &LogHeader) -> Self {
        let mut writer = Self { out: BufWriter::new(out), line: Vec::new(), error: None };
        writer.write(header);
        writer
    }

    /// Appends an event.
    pub fn event(&mut self, event: &NumberedEvent) {
        self.write(event);
    }

    /// Writes out the events that are still buffered, and returns the writer.
    ///
    /// # Errors
    ///
    /// Returns the first error of the whole log. The caller knows the file, and adds its path.
    pub fn finish(self) -> io::Result<W> {
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
        self.out.write_all(&self.line)
    }
}
