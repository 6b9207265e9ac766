//! Steps about faults: who is in error, and what was reset.

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
    /// Why.
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

/// How often something must have been reset since the adapter started.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CheckResets {
    /// How often.
    #[serde(rename = "check-resets")]
    pub resets: Resets,
}

/// Numbers of resets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Resets {
    /// Of engines, all together.
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

/// The adapter must be in error, and this is said of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CheckAdapterError {
    /// Words of what is said.
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

/// The driver's author must have been told something with these words.
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
    /// A paging buffer for one of its allocations faulted.
    PagingBufferFault,
    /// The adapter was reset, for whatever reason.
    AdapterReset,
    /// Its process hung engines too often.
    ProcessBlocked,
    /// A submission named an allocation that is not on its list.
    NotResident,
    /// A MakeResident that must succeed did not.
    OutOfMemory,
    /// Its driver's patch-location list breaks a rule (U-45).
    PatchLocationList,
    /// What a DMA buffer of it needs at one split point does not fit (SPL-10).
    PreparationFailed,
    /// The adapter is in error.
    AdapterInError,
}

impl fmt::Display for ErrorReason {
    /// As scenarios write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

by_name! { ErrorReason:
    DeviceErrorReason {
        PageFault, IllegalCommand, EngineTimeout, PagingBufferFault, AdapterReset, ProcessBlocked, NotResident,
        EngineTimeoutPromotedToAdapterReset as AdapterReset, PagingEngineTimeout as AdapterReset, OutOfMemory,
        PatchLocationList, PreparationFailed, AdapterInError,
    }
}
