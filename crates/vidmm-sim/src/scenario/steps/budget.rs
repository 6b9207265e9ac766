//! Steps about the budgets of processes, and about requests to trim.

use std::fmt;

use serde::{Deserialize, Serialize};
use vidmm::{MemorySegmentGroup, PriorityBand, Visibility};
use vidmm_trace::ByteSize;

use super::known::{Kind, Known};
use super::list::list;
use super::names;
use super::verb::{Verb, only_names};
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
    /// The spelling in scenarios.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

only_names! {
    /// RegisterVideoMemoryBudgetChangeNotification.
    "notify-budget" => NotifyBudget { process: String }, one Process;
    /// UnregisterVideoMemoryBudgetChangeNotification.
    "ignore-budget" => IgnoreBudget { process: String }, one Process;
    /// D3DKMTRegisterTrimNotification.
    "register-trim" => RegisterTrim { device: String }, one Device;
    /// D3DKMTUnregisterTrimNotification.
    "unregister-trim" => UnregisterTrim { device: String }, one Device;
}

/// D3DKMTQueryVideoMemoryInfo, and the expected answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct QueryVideoMemory {
    /// The process.
    #[serde(rename = "query-video-memory", with = "names")]
    pub process: String,
    /// The group.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group: Group,
    /// Its budget.
    #[serde(default, serialize_with = "exactly")]
    pub budget: Option<ByteSize>,
    /// Its usage.
    #[serde(default, serialize_with = "exactly")]
    pub usage: Option<ByteSize>,
    /// The bytes on its lists.
    #[serde(default, serialize_with = "exactly")]
    pub requested: Option<ByteSize>,
    /// Its reservation.
    #[serde(default, serialize_with = "exactly")]
    pub reservation: Option<ByteSize>,
    /// The bytes that it could reserve.
    #[serde(default, serialize_with = "exactly")]
    pub available_for_reservation: Option<ByteSize>,
}

impl Verb for QueryVideoMemory {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " of {}, {} group", self.process, self.group)
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.one(Kind::Process, &self.process)
    }
}

/// Checks in which group lists count allocations.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CheckAccount {
    /// The allocations.
    #[serde(rename = "check-account", with = "names")]
    pub allocations: Vec<String>,
    /// The group.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group: Group,
}

impl Verb for CheckAccount {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}: {} group", list(&self.allocations), self.group)
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.about(Kind::Allocation, &mut self.allocations)
    }
}

/// D3DKMTChangeVideoMemoryReservation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ReserveVideoMemory {
    /// The process.
    #[serde(rename = "reserve-video-memory", with = "names")]
    pub process: String,
    /// The group.
    #[serde(default, skip_serializing_if = "is_default")]
    pub group: Group,
    /// The size of the reservation.
    #[serde(serialize_with = "exactly")]
    pub size: ByteSize,
}

impl Verb for ReserveVideoMemory {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}: {}, {} group", self.process, exact(self.size.bytes()), self.group)
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.one(Kind::Process, &self.process)
    }
}

/// The user turns to a process, or away from it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ProcessPriority {
    /// The process.
    #[serde(rename = "process-priority", with = "names")]
    pub process: String,
    /// Its band.
    #[serde(default, skip_serializing_if = "is_default")]
    pub band: PriorityBand,
    /// Its visibility.
    #[serde(default, skip_serializing_if = "is_default")]
    pub visibility: Visibility,
}

impl Verb for ProcessPriority {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        write!(f, " {}: {band}, {seen}", self.process)
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.one(Kind::Process, &self.process)
    }
}

/// Others have left only so much of a group, or all of it again.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RestrictBudget {
    /// The group.
    #[serde(rename = "restrict-budget")]
    pub group: Group,
    /// The bytes of each of its memories that budgets are for; none is all of them.
    #[serde(default, serialize_with = "exactly")]
    pub size: Option<ByteSize>,
}

impl Verb for RestrictBudget {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.size {
            Some(size) => write!(f, " of the {} group to {}", self.group, exact(size.bytes())),
            None => write!(f, " of the {} group no more", self.group),
        }
    }

    fn check(&mut self, _: &mut Known) -> Result<(), String> {
        Ok(())
    }
}

/// A check that a trim notification has come, or that none has.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ExpectTrim {
    /// The device.
    #[serde(rename = "expect-trim", with = "names")]
    pub device: String,
    /// The flags of the oldest notification that no step has checked; without any flag, there must be no such
    /// notification.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<TrimFlag>,
    /// The amount that it must ask to trim.
    #[serde(default, serialize_with = "exactly")]
    pub num_bytes_to_trim: Option<ByteSize>,
}

/// The reason of a trim notification (RES-41).
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

impl Verb for ExpectTrim {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " of {}", self.device)?;
        if self.flags.is_empty() { f.write_str(": none") } else { Ok(()) }
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.one(Kind::Device, &self.device)
    }
}

/// The intervals at which processes are asked to trim (RES-43).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Intervals {
    /// While memory is short.
    pub min: Duration,
    /// While much is on lists.
    pub max: Duration,
    /// At other times.
    pub idle: Duration,
}

impl From<Intervals> for vidmm::TrimIntervals {
    fn from(Intervals { min, max, idle }: Intervals) -> Self {
        Self { min: min.ns, max: max.ns, idle: idle.ns }
    }
}

/// D3DKMT_VIDMMESCAPETYPE_SET_TRIM_INTERVALS.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct TrimIntervals {
    /// The intervals.
    #[serde(rename = "trim-intervals")]
    pub intervals: Intervals,
}

impl Verb for TrimIntervals {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Intervals { min, max, idle } = self.intervals;
        write!(f, ": {min} to {max}, {idle} when idle")
    }

    fn check(&mut self, _: &mut Known) -> Result<(), String> {
        Ok(())
    }
}
