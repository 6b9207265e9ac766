//! The errors of importing a trace.

use std::io;
use std::path::PathBuf;

use crate::WorkloadError;

/// The error in a trace, its place, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The file is missing or cannot be read.
    #[error("cannot read {}: {source}; check the path and its permissions", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The trace has nothing but blank lines.
    #[error("{name} is empty; a trace has at least one line")]
    Empty {
        /// The trace.
        name: String,
    },
    /// The trace is longer than the limit.
    #[error("{name} has more than {limit} bytes; cut it into shorter traces")]
    TooLong {
        /// The trace.
        name: String,
        /// The limit in bytes, after decompression.
        limit: u64,
    },
    /// The trace has more lines than the limit.
    #[error("{name} has more than {limit} lines; cut it into shorter traces")]
    TooManyLines {
        /// The trace.
        name: String,
        /// The limit.
        limit: usize,
    },
    /// The packed file is damaged or ends too early.
    #[error("{name} is a damaged or truncated {packing} file: {source}; fetch it again")]
    Packed {
        /// The trace.
        name: String,
        /// The packing: `gzip` or `zstd`.
        packing: &'static str,
        /// The decompressor's error.
        source: io::Error,
    },
    /// A line is not UTF-8 text.
    #[error(
        "{name} is not a trace that vidmm knows: line {line} is not text; expected a trace of G10, \
         Mooncake, Bailian or `vidmm exec`, plain or packed by gzip or zstd, or a pickled snapshot of PyTorch's memory"
    )]
    NotText {
        /// The trace.
        name: String,
        /// The line, counted from 1.
        line: usize,
    },
    /// The first line has no known format.
    #[error(
        "{name} is not a trace that vidmm knows: line {line} is `{found}`; expected G10 (`NANOSECONDS | inputs | outputs` \
         or `Kernel ID: ..`), Mooncake or Bailian (JSON with `hash_ids`), `vidmm exec`, PyTorch, or for `vidmm replay` \
         requests in a file whose name ends in `.csv`, `.oracleGeneral`, `.lcs` or `.vscsi`, or `--format`"
    )]
    Unknown {
        /// The trace.
        name: String,
        /// The line, counted from 1.
        line: usize,
        /// The start of that line.
        found: String,
    },
    /// A line is damaged or cut short.
    #[error(
        "{name}, line {line}: found {found}, expected {expected}; the trace may be damaged or cut \
         short: fetch it again or remove the line"
    )]
    Line {
        /// The trace.
        name: String,
        /// The line, counted from 1.
        line: usize,
        /// The text on the line.
        found: String,
        /// The expected text.
        expected: String,
    },
    /// A tensor has other properties than on an earlier line.
    #[error(
        "{name}, line {line}: tensor {tensor} has {what} {now}, but {was} on line {first_line}; a \
         tensor never changes: correct one of the lines"
    )]
    Changed {
        /// The trace.
        name: String,
        /// The line, counted from 1.
        line: usize,
        /// The tensor's id.
        tensor: u64,
        /// The property that differs.
        what: &'static str,
        /// Its value on this line.
        now: u64,
        /// Its value before.
        was: u64,
        /// The line that names the tensor first.
        first_line: usize,
    },
    /// The pickle is no snapshot of PyTorch's memory.
    #[error("{name} is no snapshot that can be read: {reason}")]
    Snapshot {
        /// The trace.
        name: String,
        /// The reason, with the remedy.
        reason: String,
    },
    /// The block size asked for is 0.
    #[error("the block size is 0 bytes; give at least 1")]
    NoBlockBytes,
    /// The trace reads well but cannot be run.
    #[error("the trace cannot be run: {0}")]
    Workload(#[from] WorkloadError),
}
