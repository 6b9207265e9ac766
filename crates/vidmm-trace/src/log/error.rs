//! The errors of reading a log.

use std::io;

use super::EVENTS_VERSION;

/// The error in a log, its place, and the remedy. Lines are counted from 1.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The system could not read on.
    #[error("line {line}: cannot read: {source}; check the file and the disk it is on")]
    Io {
        /// The line that was to be read.
        line: u64,
        /// The system's error.
        source: io::Error,
    },
    /// The first line is no header.
    #[error(
        "line 1 is `{found}`: not an event log, or its first line is missing; expected \
         `{{\"vidmm_events\":{EVENTS_VERSION},...}}`: write one with `vidmm run --events FILE`"
    )]
    NoHeader {
        /// The start of the line.
        found: String,
    },
    /// The header is of a log, but a field of it is missing or wrong.
    #[error("line 1: the header of the log is damaged: {problem}; write the log again")]
    Header {
        /// The problem.
        problem: String,
    },
    /// The log has another version of the schema.
    #[error(
        "line 1: the log has schema version {found}, and this vidmm reads version {EVENTS_VERSION}; \
         read it with the vidmm that wrote it, or write it again with this one"
    )]
    Version {
        /// The version of the log.
        found: u64,
    },
    /// A line is no event.
    #[error("line {line}: not an event: {problem}; the log is damaged or cut short: write it again")]
    Line {
        /// The line.
        line: u64,
        /// The problem.
        problem: String,
    },
    /// A line is longer than any event.
    #[error("line {line} has more than {limit} bytes, more than any event; the log is damaged: write it again")]
    TooLong {
        /// The line.
        line: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// An event is missing, or is in the log twice.
    #[error(
        "line {line}: event {found} stands where event {expected} must; lines of the log were lost, \
         doubled or reordered: write it again"
    )]
    Gap {
        /// The line.
        line: u64,
        /// The event's number.
        found: u64,
        /// The expected number.
        expected: u64,
    },
    /// The last line is no trailer: the run crashed, or the end of the log is lost.
    #[error(
        "the log ends after {events} events without its last line; read what there is with `--damaged`, or write it again"
    )]
    NoTrailer {
        /// The events before its end.
        events: u64,
    },
    /// The trailer is not that of the lines before it.
    #[error(
        "line {line}: the number of events, or their hash, is not that of the lines before; the log was changed: write it again"
    )]
    Trailer {
        /// The line of the trailer.
        line: u64,
    },
    /// Something follows the trailer.
    #[error("line {line} follows the end of the log; write the log again")]
    AfterTrailer {
        /// The line.
        line: u64,
    },
}
