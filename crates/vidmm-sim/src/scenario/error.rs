//! The reasons why a scenario cannot be used.

use std::io;
use std::path::PathBuf;

use vidmm_trace::{ByteSize, ImportError, LocalMemory, WorkloadError};

use super::limits::{MAX_FILE_BYTES, MAX_LOCAL_MEMORY};

/// The reason why a scenario cannot be used, its place, and the remedy.
#[derive(Debug, thiserror::Error)]
pub enum ScenarioError {
    /// The file is missing, cannot be read or is not text.
    #[error(
        "cannot read the scenario {}: {source}; check the path, its permissions and that it is a text file",
        .path.display()
    )]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is longer than the limit.
    #[error(
        "{}: a scenario has at most {}, and this file has more; give the path of a scenario",
        .path.display(),
        ByteSize(MAX_FILE_BYTES)
    )]
    TooLong {
        /// The file.
        path: PathBuf,
    },
    /// The file is not TOML, or a key or its value is not accepted.
    #[error("{}: {message}", .path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// The line and column, the line itself, and the problem.
        message: String,
    },
    /// A workload has more than one source.
    #[error("{}, line {line}: the workload has more than one of `kind`, `trace` and `submissions`; keep one of them", .path.display())]
    TwoSources {
        /// The file.
        path: PathBuf,
        /// The line of the table, counted from 1.
        line: usize,
    },
    /// A workload has no source.
    #[error(
        "{}, line {line}: the workload has no `kind`, no `trace` and no `submissions`; write a generator such as \
         `kind = \"transformer-training\"`, or `trace = \"FILE\"`, or how many `submissions` to draw", .path.display()
    )]
    NoSource {
        /// The file.
        path: PathBuf,
        /// The line of the table, counted from 1.
        line: usize,
    },
    /// A step, or a key that goes with steps, is not accepted.
    #[error("{}, line {line}: {message}", .path.display())]
    At {
        /// The file.
        path: PathBuf,
        /// The line, counted from 1.
        line: usize,
        /// The problem, and what to write instead.
        message: String,
    },
    /// The workload cannot be generated.
    #[error("the scenario's `[workload]` cannot be generated: {0}")]
    Workload(#[from] WorkloadError),
    /// A change, the table or a check names a process that does not exist.
    #[error("there is no process `{name}`; name one by its `name`, or by its workload's")]
    NoSuchProcess {
        /// The name.
        name: String,
    },
    /// The trace cannot be imported.
    #[error("the trace cannot be used: {0}")]
    Import(#[from] ImportError),
    /// A kernel alone uses more than the local memory.
    #[error(
        "local memory of {} cannot run the workload: one of its kernels uses {} at once; raise `local-memory`, or `--local-memory`, above \
         that, or `scale` in `[client]`",
        ByteSize(*.bytes),
        ByteSize(*.needed)
    )]
    LocalMemoryTooSmall {
        /// The local memory, in bytes.
        bytes: u64,
        /// The bytes that the largest kernel uses, without page tables.
        needed: u64,
    },
    /// The buffers may be in local memory only, and there is none.
    #[error(
        "the machine has no local memory, but the buffers may be nowhere else; write `segments = \"system\"` in `[client]`, \
         or leave it out"
    )]
    NoLocalMemory,
    /// A kernel alone uses more than may be resident in system memory.
    #[error(
        "a commit limit of {} cannot run the workload: one of its kernels uses {} at once; raise {keys} above that, or `scale` in \
         `[client]`",
        ByteSize(*.bytes),
        ByteSize(*.needed)
    )]
    CommitLimitTooSmall {
        /// The keys to raise: `aperture` too, if it would cap the limit.
        keys: &'static str,
        /// The limit, in bytes.
        bytes: u64,
        /// The bytes that the largest kernel uses.
        needed: u64,
    },
    /// The local memory is larger than any that is modelled.
    #[error(
        "a memory of {local_memory} is more than {}, the most that a machine may have; lower `local-memory` or `aperture-commit-limit`, or \
         raise `scale` in `[client]`",
        ByteSize(MAX_LOCAL_MEMORY)
    )]
    LocalMemoryTooLarge {
        /// The local memory as the scenario has it.
        local_memory: LocalMemory,
    },
}
