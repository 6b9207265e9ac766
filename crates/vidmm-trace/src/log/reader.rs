//! Reading a log.

use std::io::{BufRead, Read};

use crc32fast::Hasher;
use serde::Deserialize;
use vidmm::NumberedEvent;

use super::{
    EVENTS_VERSION, EventsLevel, LogError, LogHeader,
    trailer::{TRAILER_MARK, Trailer},
};

/// No event is longer: a list of a million allocations takes a third of it.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// The most characters of a line that an error quotes.
const EXCERPT_CHARS: usize = 60;

/// Reads a log: an iterator over its events, in order. After an error it yields nothing more; the end of a log that is not whole is
/// an error too, unless [`damaged`](Self::damaged) says that it may be.
#[derive(Debug)]
pub struct LogReader<R> {
    input: R,
    header: LogHeader,
    line: Vec<u8>,
    /// Lines read so far; the header is one of them.
    lines: u64,
    /// The number of the last event.
    last: u64,
    /// Of the bytes of all these lines.
    hash: Hasher,
    is_over: bool,
    may_be_damaged: bool,
    damage: Option<LogError>,
}

/// The fields of a header of any version.
#[derive(Deserialize)]
struct Version {
    vidmm_events: u64,
}

impl<R: BufRead> LogReader<R> {
    /// Reads the header.
    ///
    /// # Errors
    ///
    /// If the input cannot be read, does not begin with a header, or has another version of the schema.
    pub fn new(mut input: R) -> Result<Self, LogError> {
        let mut line = Vec::new();
        read_line(&mut input, 1, &mut line)?;
        // An editor may have put a byte-order mark before the text.
        if line.starts_with("\u{feff}".as_bytes()) {
            line.drain(.."\u{feff}".len());
        }
        let Ok(Version { vidmm_events }) = serde_json::from_slice(&line) else {
            return Err(LogError::NoHeader { found: excerpt(&line) });
        };
        if vidmm_events != EVENTS_VERSION {
            return Err(LogError::Version { found: vidmm_events });
        }
        let header = serde_json::from_slice(&line).map_err(|error| LogError::Header { problem: problem(&error) })?;
        let mut reader = Self {
            input,
            header,
            line,
            lines: 1,
            last: 0,
            hash: Hasher::new(),
            is_over: false,
            may_be_damaged: false,
            damage: None,
        };
        reader.hash_line();
        Ok(reader)
    }

    /// The same reader for a log that need not be whole: what is before the first damage is read, and
    /// [`damage`](Self::damage) tells that.
    pub fn damaged(self) -> Self {
        Self { may_be_damaged: true, ..self }
    }

    /// The damage at which a log that need not be whole has ended; none so far.
    pub fn damage(&self) -> Option<&LogError> {
        self.damage.as_ref()
    }

    /// The header.
    pub fn header(&self) -> &LogHeader {
        &self.header
    }

    fn read_event(&mut self) -> Result<Option<NumberedEvent>, LogError> {
        let line = self.lines + 1;
        if !read_line(&mut self.input, line, &mut self.line)? {
            return Err(LogError::NoTrailer { events: self.lines - 1 });
        }
        if self.line.starts_with(TRAILER_MARK) {
            return self.read_end(line).map(|()| None);
        }
        let event: NumberedEvent =
            serde_json::from_slice(&self.line).map_err(|error| LogError::Line { line, problem: problem(&error) })?;
        // Events are numbered from 1. A log of decisions leaves numbers out.
        let expected = self.last.saturating_add(1);
        let has_gaps = self.header.level == EventsLevel::Decisions;
        if event.number != expected && !(has_gaps && event.number > expected) {
            return Err(LogError::Gap { line, found: event.number, expected });
        }
        if !self.header.level.has(&event.event) {
            let problem = format!("the log's level, {:?}, has no such event", self.header.level);
            return Err(LogError::Line { line, problem });
        }
        (self.last, self.lines) = (event.number, line);
        self.hash_line();
        Ok(Some(event))
    }

    /// Compares the trailer with the lines before it.
    fn read_end(&mut self, line: u64) -> Result<(), LogError> {
        let whole = Trailer { events: self.lines - 1, crc32: self.hash.clone().finalize() };
        if serde_json::from_slice(&self.line).ok() != Some(whole) {
            return Err(LogError::Trailer { line });
        }
        match read_line(&mut self.input, line + 1, &mut self.line)? {
            true => Err(LogError::AfterTrailer { line: line + 1 }),
            false => Ok(()),
        }
    }

    fn hash_line(&mut self) {
        self.hash.update(&self.line);
        self.hash.update(b"\n");
    }
}

impl<R: BufRead> Iterator for LogReader<R> {
    type Item = Result<NumberedEvent, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let event = self.read_event().transpose();
        self.is_over = !matches!(event, Some(Ok(_)));
        match event {
            Some(Err(error)) if self.may_be_damaged => {
                self.damage = Some(error);
                None
            }
            event => event,
        }
    }
}

/// Reads line number `line` without its end; `false` when there is none.
fn read_line(input: &mut impl BufRead, line: u64, bytes: &mut Vec<u8>) -> Result<bool, LogError> {
    bytes.clear();
    let mut limited = input.take(LINE_BYTES_MAX);
    let read = limited.read_until(b'\n', bytes).map_err(|source| LogError::Io { line, source })?;
    if bytes.pop_if(|last| *last == b'\n').is_none() && read as u64 == LINE_BYTES_MAX {
        return Err(LogError::TooLong { line, limit: LINE_BYTES_MAX });
    }
    Ok(read > 0)
}

/// The parser's message, without its place: the parser saw one line only.
fn problem(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((problem, _)) if error.column() > 0 => format!("{problem} at column {}", error.column()),
        _ => text,
    }
}

/// The start of a line, in one line of text.
fn excerpt(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(4 * EXCERPT_CHARS)]);
    let mut start: String = text.chars().take(EXCERPT_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(EXCERPT_CHARS).is_some() {
        start.push_str("...");
    }
    start
}
