//! Steps about faults: errors of devices and of the adapter, and resets.

use std::fmt;

use serde::{Deserialize, Serialize};
use vidmm::DeviceErrorReason;

use super::answer::by_name;
use super::known::{Kind, Known};
use super::list::list;
use super::names;
use super::verb::Verb;

/// Devices that must be in error.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CheckError {
    /// The devices.
    #[serde(rename = "check-error", with = "names")]
    pub devices: Vec<String>,
    /// The reason.
    pub reason: ErrorReason,
}

impl Verb for CheckError {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}: {}", list(&self.devices), self.reason)
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.about(Kind::Device, &mut self.devices)
    }
}

/// The expected number of resets since the adapter started.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CheckResets {
    /// The number.
    #[serde(rename = "check-resets")]
    pub resets: Resets,
}

/// Numbers of resets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Resets {
    /// The sum over all engines.
    pub engines: u64,
    /// Of the adapter.
    pub adapter: u64,
}

impl Verb for CheckResets {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ": {} of engines, {} of the adapter", self.resets.engines, self.resets.adapter)
    }

    fn check(&mut self, _: &mut Known) -> Result<(), String> {
        Ok(())
    }
}

/// The adapter must be in error, with these words in the violation.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CheckAdapterError {
    /// Words of the violation.
    #[serde(rename = "check-adapter-error")]
    pub words: String,
}

impl Verb for CheckAdapterError {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ": {}", self.words)
    }

    fn check(&mut self, _: &mut Known) -> Result<(), String> {
        Ok(())
    }
}

/// A report to the driver's author must contain these words.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CheckFinding {
    /// The words.
    #[serde(rename = "check-finding")]
    pub words: String,
}

impl Verb for CheckFinding {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, ": {}", self.words)
    }

    fn check(&mut self, _: &mut Known) -> Result<(), String> {
        Ok(())
    }
}

/// The names of [`DeviceErrorReason`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ErrorReason {
    /// Its work accessed memory that is not mapped or not resident.
    PageFault,
    /// Its work holds a command that means nothing.
    IllegalCommand,
    /// Its work did not come to an end.
    EngineTimeout,
    /// Its packet was on an engine that the reset of another one harms, and did not yield in time (FLT-26).
    DependentEngineReset,
    /// A paging buffer for one of its allocations faulted.
    PagingBufferFault,
    /// The adapter was reset, for any reason.
    AdapterReset,
    /// Its process hung engines too often.
    ProcessBlocked,
    /// A submission named an allocation that is not on its list.
    NotResident,
    /// A MakeResident that must succeed did not.
    OutOfMemory,
    /// Its driver's patch-location list breaks a rule (U-45).
    PatchLocationList,
    /// The needs of a DMA buffer of it at one split point do not fit (SPL-10).
    PreparationFailed,
    /// The adapter is in error.
    AdapterInError,
}

impl fmt::Display for ErrorReason {
    /// The spelling in scenarios.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

by_name! { ErrorReason:
    DeviceErrorReason {
        PageFault, IllegalCommand, EngineTimeout, DependentEngineReset, PagingBufferFault, AdapterReset, ProcessBlocked, NotResident,
        EngineTimeoutPromotedToAdapterReset as AdapterReset, PagingEngineTimeout as AdapterReset, OutOfMemory,
        PatchLocationList, PreparationFailed, AdapterInError,
    }
}
