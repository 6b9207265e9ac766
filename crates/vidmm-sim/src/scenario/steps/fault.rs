//! Steps about faults: who is in error, and what was reset.

use std::fmt;

use serde::{Deserialize, Serialize};
use vidmm::DeviceErrorReason;

use super::list::list;
use super::names;

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

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "check-error {}: {}", list(&self.devices), self.reason)
    }
}

/// How often something must have been reset since the adapter started.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CheckResets {
    /// Engines, all together.
    pub engines: u64,
    /// The adapter.
    pub adapter: u64,
}

impl fmt::Display for CheckResets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "check-resets: {} of engines, {} of the adapter", self.engines, self.adapter)
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
    /// A reason that this version has no name for.
    Other,
}

impl ErrorReason {
    /// The name, as scenarios write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::PageFault => "page-fault",
            Self::IllegalCommand => "illegal-command",
            Self::EngineTimeout => "engine-timeout",
            Self::PagingBufferFault => "paging-buffer-fault",
            Self::AdapterReset => "adapter-reset",
            Self::ProcessBlocked => "process-blocked",
            Self::NotResident => "not-resident",
            Self::OutOfMemory => "out-of-memory",
            Self::PatchLocationList => "patch-location-list",
            Self::PreparationFailed => "preparation-failed",
            Self::AdapterInError => "adapter-in-error",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for ErrorReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<DeviceErrorReason> for ErrorReason {
    fn from(reason: DeviceErrorReason) -> Self {
        match reason {
            DeviceErrorReason::PageFault { .. } => Self::PageFault,
            DeviceErrorReason::IllegalCommand => Self::IllegalCommand,
            DeviceErrorReason::EngineTimeout => Self::EngineTimeout,
            DeviceErrorReason::PagingBufferFault => Self::PagingBufferFault,
            DeviceErrorReason::EngineTimeoutPromotedToAdapterReset
            | DeviceErrorReason::PagingEngineTimeout
            | DeviceErrorReason::AdapterReset => Self::AdapterReset,
            DeviceErrorReason::ProcessBlocked => Self::ProcessBlocked,
            DeviceErrorReason::NotResident { .. } => Self::NotResident,
            DeviceErrorReason::OutOfMemory => Self::OutOfMemory,
            DeviceErrorReason::PatchLocationList { .. } => Self::PatchLocationList,
            DeviceErrorReason::PreparationFailed { .. } => Self::PreparationFailed,
            DeviceErrorReason::AdapterInError => Self::AdapterInError,
            _ => Self::Other,
        }
    }
}
