//! What happens to the processes of a run as time passes, what is shown of it, and what must hold.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use vidmm::{PriorityBand, Visibility};

use super::duration::Duration;
use super::process::{band, visibility};
use crate::client::{Lifetimes, ResidencyPolicy};

/// Something that happens to a process: a table `[[change]]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Change {
    /// When.
    pub at: Duration,
    /// To whom.
    pub process: String,
    /// How important it is from then on.
    #[serde(default, deserialize_with = "optional_band")]
    pub band: Option<PriorityBand>,
    /// What the user sees of it from then on.
    #[serde(default, deserialize_with = "optional_visibility")]
    pub visibility: Option<Visibility>,
    /// The application trims: it takes everything off its list.
    #[serde(default)]
    pub trim: bool,
    /// The process ends, and all that it has is destroyed.
    #[serde(default)]
    pub exit: bool,
}

/// What is shown of a run as time passes: the table `[table]`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TableSettings {
    /// How much time is between two rows.
    #[serde(deserialize_with = "interval")]
    pub every: Duration,
    /// The processes that are shown.
    pub processes: Vec<String>,
}

/// What must hold in a run: a table `[[check]]`.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(tag = "that", deny_unknown_fields, rename_all = "kebab-case", rename_all_fields = "kebab-case")]
pub enum Check {
    /// While a process in focus is within its budget, nothing that is on its list leaves local memory.
    ForegroundKeeps,
    /// An answer took at most so many times as long as another one. An answer is what kernels do that arrive at one time; they
    /// are counted from 1.
    Answers {
        /// Whose.
        process: String,
        /// The answer.
        answer: u32,
        /// The one that it is compared with.
        than: u32,
        /// How many times as long it may take.
        at_most: f64,
    },
    /// A process had lost local memory that its list names at one time, and has all of it back at a later one.
    BroughtBack {
        /// Who.
        process: String,
        /// When some of it is missing.
        away: Duration,
        /// When all of it is there.
        back: Duration,
    },
    /// A kernel ran in at least so much of the time, in percent.
    Useful {
        /// How much.
        at_least: f64,
    },
    /// The device of a process was in error exactly so often.
    Errors {
        /// Whose.
        process: String,
        /// How often.
        exactly: u64,
    },
    /// Each process that does not misbehave has ended at least so many of the kernels that it has in the run in `[compare]`, in
    /// percent.
    KeepsUp {
        /// How many.
        at_least: f64,
    },
    /// So many times the bytes of the run in `[compare]` were copied in and out, at most.
    Copied {
        /// How many times.
        at_most: f64,
    },
}

/// A second run to compare with, in which all processes behave otherwise: the table `[compare]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CompareSettings {
    /// What the processes do about their lists.
    pub residency: Option<ResidencyPolicy>,
    /// What they do with a buffer behind its last use.
    pub lifetimes: Option<Lifetimes>,
    /// Nobody misbehaves, and no mistake is made on purpose.
    #[serde(default)]
    pub healthy: bool,
}

/// Everything about a run that is a matter of time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Script {
    /// What happens to processes.
    pub changes: Vec<Change>,
    /// When all processes end that are left; none is when their work is done.
    pub end: Option<Duration>,
    /// What is shown.
    pub table: Option<TableSettings>,
    /// What must hold.
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

fn optional_band<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<PriorityBand>, D::Error> {
    band(deserializer).map(Some)
}

fn optional_visibility<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Visibility>, D::Error> {
    visibility(deserializer).map(Some)
}

/// Reads the time between two rows.
fn interval<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let interval = Duration::deserialize(deserializer)?;
    if interval.ns >= 1_000_000 { Ok(interval) } else { Err(D::Error::custom("rows are at least `1 ms` apart")) }
}
