//! The timetable of a run: changes of its processes, a table of their state, and checks.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use vidmm::{PriorityBand, Visibility};

use super::duration::Duration;
use crate::client::{Lifetimes, ResidencyPolicy};

/// A change of a process: a table `[[change]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Change {
    /// The time.
    pub at: Duration,
    /// The process.
    pub process: String,
    /// Its priority band from then on.
    #[serde(default)]
    pub band: Option<PriorityBand>,
    /// Its visibility from then on.
    #[serde(default)]
    pub visibility: Option<Visibility>,
    /// The application trims: it takes everything off its list.
    #[serde(default)]
    pub trim: bool,
    /// The process ends, and all its objects are destroyed.
    #[serde(default)]
    pub exit: bool,
}

/// A table of the run as time passes: `[table]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TableSettings {
    /// The time between two rows.
    #[serde(deserialize_with = "interval")]
    pub every: Duration,
    /// The processes that are shown.
    pub processes: Vec<String>,
}

/// A check of the run: a table `[[check]]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "that", deny_unknown_fields, rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Check {
    /// While a process in focus is within its budget, no allocation on its list leaves local memory.
    ForegroundKeeps,
    /// An answer took at most so many times as long as another one. An answer is the kernels that arrive at one time;
    /// answers are counted from 1.
    Answers {
        /// The process.
        process: String,
        /// The answer.
        answer: u32,
        /// The answer that it is compared with.
        than: u32,
        /// The highest permitted ratio of their durations.
        at_most: f64,
    },
    /// At one time local memory that a process's list names was missing, and at a later time none of it is.
    BroughtBack {
        /// The process.
        process: String,
        /// When some of it is missing.
        away: Duration,
        /// When all of it is there.
        back: Duration,
    },
    /// A kernel ran in at least so much of the time, in percent.
    Useful {
        /// The percentage.
        at_least: f64,
    },
    /// The device of a process was in error exactly so often.
    Errors {
        /// The process.
        process: String,
        /// The number of errors.
        exactly: u64,
    },
    /// Each process that does not misbehave has ended at least this percentage of the kernels that it has ended in the
    /// run in `[compare]`.
    KeepsUp {
        /// The percentage.
        at_least: f64,
    },
    /// At most so many times the bytes of the run in `[compare]` were copied in and out.
    Copied {
        /// The highest permitted ratio.
        at_most: f64,
    },
}

/// A second run to compare with, in which all processes behave otherwise: the table `[compare]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CompareSettings {
    /// The treatment of the processes' lists.
    pub residency: Option<ResidencyPolicy>,
    /// The treatment of a buffer behind its last use.
    pub lifetimes: Option<Lifetimes>,
    /// Whether no process misbehaves, and no mistake is made on purpose.
    #[serde(default)]
    pub healthy: bool,
}

/// The timetable of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// The changes of processes.
    pub changes: Vec<Change>,
    /// The time at which all remaining processes end; none is when their work is done.
    pub end: Option<Duration>,
    /// The table.
    pub table: Option<TableSettings>,
    /// The checks.
    pub checks: Vec<Check>,
}

impl Script {
    /// The processes that it names.
    pub(super) fn processes(&self) -> impl Iterator<Item = &String> {
        let changed = self.changes.iter().map(|change| &change.process);
        let shown = self.table.iter().flat_map(|table| &table.processes);
        let checked = self.checks.iter().filter_map(|check| match check {
            Check::Answers { process, .. } | Check::BroughtBack { process, .. } | Check::Errors { process, .. } => {
                Some(process)
            }
            Check::ForegroundKeeps | Check::Useful { .. } | Check::KeepsUp { .. } | Check::Copied { .. } => None,
        });
        changed.chain(shown).chain(checked)
    }
}

/// Reads the time between two rows.
fn interval<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let interval = Duration::deserialize(deserializer)?;
    if interval.ns >= 1_000_000 { Ok(interval) } else { Err(D::Error::custom("rows are at least `1 ms` apart")) }
}
