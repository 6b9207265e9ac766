//! The tables of steps that have few keys, as they are read and written.

use serde::{Deserialize, Serialize};
use vidmm_trace::ByteSize;

use super::budget::Intervals;
use super::call::{Power, Whereabouts};
use super::fault::CheckResets;
use super::names::{self, name};
use crate::scenario::keys::{exactly, is_default};

/// Defines tables.
macro_rules! tables {
    ($($table:ident { $($(#[$attribute:meta])* $field:ident: $kind:ty,)* })*) => {
        $(#[derive(Deserialize, Serialize)]
        #[serde(deny_unknown_fields, rename_all = "kebab-case")]
        pub(super) struct $table { $($(#[$attribute])* pub $field: $kind,)* })*
    };
}

tables! {
    CreateProcess { #[serde(deserialize_with = "name")] create_process: String, }
    CreateFence { #[serde(deserialize_with = "name")] create_fence: String, }
    OpenAllocation {
        #[serde(with = "names")] open_allocation: Vec<String>,
        #[serde(deserialize_with = "name")] device: String,
    }
    CloseAllocation {
        #[serde(with = "names")] close_allocation: Vec<String>,
        #[serde(deserialize_with = "name")] device: String,
    }
    Lock { #[serde(with = "names")] lock: Vec<String>, }
    CpuWrite { #[serde(with = "names")] cpu_write: Vec<String>, }
    CpuRead { #[serde(with = "names")] cpu_read: Vec<String>, }
    Unlock { #[serde(with = "names")] unlock: Vec<String>, }
    NotifyBudget { #[serde(deserialize_with = "name")] notify_budget: String, }
    RegisterTrim { #[serde(deserialize_with = "name")] register_trim: String, }
    UnregisterTrim { #[serde(deserialize_with = "name")] unregister_trim: String, }
    SetTrimIntervals { trim_intervals: Intervals, }
    SuspendProcess {
        #[serde(deserialize_with = "name")] suspend_process: String,
        #[serde(default, skip_serializing_if = "is_default")] allow_wake_on_submission: bool,
    }
    ResumeProcess { #[serde(deserialize_with = "name")] resume_process: String, }
    SetPower { power: Power, }
    Wait { wait: String, }
    Signal { #[serde(deserialize_with = "name")] signal: String, }
    CheckContent { #[serde(with = "names")] check_content: Vec<String>, }
    CheckSystem { #[serde(with = "names")] check_system: Vec<String>, }
    Query { query_paging_va: u32, #[serde(default, serialize_with = "exactly")] size: Option<ByteSize>, }
    CheckResidency { #[serde(with = "names")] check_residency: Vec<String>, r#in: Whereabouts, }
    CheckAdapterError { check_adapter_error: String, }
    Resets { check_resets: CheckResets, }
    CheckFinding { check_finding: String, }
    CheckWaiting { #[serde(with = "names")] check_waiting: Vec<String>, }
}
