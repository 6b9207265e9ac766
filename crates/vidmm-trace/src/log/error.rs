//! What can be wrong with a log.

use std::io;

use super::EVENTS_VERSION;

/// Why a log cannot be read, where, and what to do about it. Lines are counted from 1.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// The system could not read on.
    #[error("line {line}: cannot read: {source}; check the file and the disk it is on")]
    Io {
        /// The line that was to be read.
        line: u64,
        /// What the system says.
        source: io::Error,
    },
    /// The first line is no header.
    #[error(
        "line 1 is `{found}`: not an event log, or its first line is missing; expected \
         `{{\"vidmm_events\":{EVENTS_VERSION},...}}`: write one with `vidmm run --events FILE`"
    )]
    NoHeader {
        /// How the line starts.
        found: String,
    },
    /// The header is of a log, but a field of it is missing or wrong.
    #[error("line 1: the header of the log is damaged: {problem}; write the log again")]
    Header {
        /// What is wrong.
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
        /// What is wrong.
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
    /// An event is missing, or there twice.
    #[error(
        "line {line}: event {found} stands where event {expected} must; lines of the log were lost, \
         doubled or reordered: write it again"
    )]
    Gap {
        /// The line.
        line: u64,
        /// The number that stands there.
        found: u64,
        /// The number that must stand there.
        expected: u64,
    },
}
