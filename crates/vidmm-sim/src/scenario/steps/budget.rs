//! Steps about what processes may use, and what they are asked to give up.

use std::fmt;

use serde::{Deserialize, Serialize};
use vidmm::{MemorySegmentGroup, PriorityBand, TrimIntervals, Visibility};
use vidmm_trace::ByteSize;

use super::names::name;
use crate::exact::exact;
use crate::scenario::duration::Duration;
use crate::scenario::keys::{exactly, is_default};

/// The names of [`MemorySegmentGroup`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// Local memory, or system memory where there is none.
    #[default]
    Local,
    /// System memory.
    NonLocal,
}

impl From<Group> for MemorySegmentGroup {
    fn from(group: Group) -> Self {
        match group {
            Group::Local => Self::Local,
            Group::NonLocal => Self::NonLocal,
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "local",
            Self::NonLocal => "non-local",
        })
    }
}

/// QueryVideoMemoryInfo, and what it must answer.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct QueryVideoMemory {
    /// The process.
    #[serde(rename = "query-video-memory", deserialize_with = "name")]
    pub process: String,
    /// The group.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group: Group,
    /// Its budget.
    #[serde(default, serialize_with = "exactly")]
    pub budget: Option<ByteSize>,
    /// What it uses.
    #[serde(default, serialize_with = "exactly")]
    pub usage: Option<ByteSize>,
    /// What its lists name.
    #[serde(default, serialize_with = "exactly")]
    pub requested: Option<ByteSize>,
    /// What it has reserved.
    #[serde(default, serialize_with = "exactly")]
    pub reservation: Option<ByteSize>,
    /// What it could reserve.
    #[serde(default, serialize_with = "exactly")]
    pub available_for_reservation: Option<ByteSize>,
}

impl fmt::Display for QueryVideoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "query-video-memory of {}, {} group", self.process, self.group)
    }
}

/// ChangeVideoMemoryReservation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ReserveVideoMemory {
    /// The process.
    #[serde(rename = "reserve-video-memory", deserialize_with = "name")]
    pub process: String,
    /// The group.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group: Group,
    /// How much.
    #[serde(serialize_with = "exactly")]
    pub size: ByteSize,
}

impl fmt::Display for ReserveVideoMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "reserve-video-memory {}: {}, {} group", self.process, exact(self.size.bytes()), self.group)
    }
}

/// The importance of a process.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ProcessPriority {
    /// The process.
    #[serde(rename = "process-priority", deserialize_with = "name")]
    pub process: String,
    /// Its band.
    #[serde(default, with = "Band", skip_serializing_if = "is_default")]
    pub band: PriorityBand,
    /// What of it is seen.
    #[serde(default, with = "Seen", skip_serializing_if = "is_default")]
    pub visibility: Visibility,
}

/// The names of [`PriorityBand`].
#[derive(Deserialize, Serialize)]
#[serde(remote = "PriorityBand", rename_all = "kebab-case")]
enum Band {
    Dwm,
    Focus,
    Normal,
}

/// The names of [`Visibility`].
#[derive(Deserialize, Serialize)]
#[serde(remote = "Visibility", rename_all = "kebab-case")]
enum Seen {
    Minimized,
    Occluded,
    Visible,
}

impl fmt::Display for ProcessPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let band = match self.band {
            PriorityBand::Dwm => "compositor",
            PriorityBand::Focus => "in focus",
            PriorityBand::Normal => "normal",
        };
        let seen = match self.visibility {
            Visibility::Minimized => "minimized",
            Visibility::Occluded => "occluded",
            Visibility::Visible => "visible",
        };
        write!(f, "process-priority {}: {band}, {seen}", self.process)
    }
}

/// A trim notification that must have come, or that none has.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ExpectTrim {
    /// The device.
    #[serde(rename = "expect-trim", deserialize_with = "name")]
    pub device: String,
    /// The flags of the oldest that was not looked at yet; none of them: no notification is left.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<TrimFlag>,
    /// How much it must ask to trim.
    #[serde(default, serialize_with = "exactly")]
    pub num_bytes_to_trim: Option<ByteSize>,
}

/// Why a process is asked to trim (RES-41).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum TrimFlag {
    /// PeriodicTrim.
    Periodic,
    /// RestartPeriodicTrim.
    RestartPeriodic,
    /// TrimToBudget.
    ToBudget,
}

impl fmt::Display for ExpectTrim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "expect-trim of {}", self.device)?;
        if self.flags.is_empty() { f.write_str(": none") } else { Ok(()) }
    }
}

/// How often processes are asked to trim (RES-43).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Intervals {
    /// While memory is short.
    pub min: Duration,
    /// While much is on lists.
    pub max: Duration,
    /// Otherwise.
    pub idle: Duration,
}

impl From<Intervals> for TrimIntervals {
    fn from(Intervals { min, max, idle }: Intervals) -> Self {
        Self { min: min.ns, max: max.ns, idle: idle.ns }
    }
}

impl fmt::Display for Intervals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "trim-intervals: {} to {}, {} when idle", self.min, self.max, self.idle)
    }
}
