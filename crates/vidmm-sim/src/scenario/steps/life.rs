//! Steps about the life and the end of processes.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::kernel::KernelEngine;
use super::known::{Kind, Known};
use super::names;
use super::verb::{Verb, only_names};
use crate::scenario::keys::is_default;

only_names! {
    /// D3DKMT_VIDMMESCAPETYPE_RESUME_PROCESS.
    "resume-process" => ResumeProcess { process: String }, one Process;
    /// D3DKMTDestroyDevice.
    "destroy-device" => DestroyDevice { device: String }, one Device;
    /// D3DKMTDestroyPagingQueue: another takes the place of a device's paging queue.
    "renew-paging-queue" => RenewPagingQueue { device: String }, one Device;
}

/// D3DKMTDestroyContext: another takes the place of a device's context on an engine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct RenewContext {
    /// The device.
    #[serde(rename = "renew-context", with = "names")]
    pub device: String,
    /// The engine of the context.
    #[serde(default, skip_serializing_if = "is_default")]
    pub engine: KernelEngine,
}

impl Verb for RenewContext {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}{}", self.device, self.engine.words())
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.one(Kind::Device, &self.device)
    }
}

/// D3DKMT_VIDMMESCAPETYPE_SUSPEND_PROCESS.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SuspendProcess {
    /// The process.
    #[serde(rename = "suspend-process", with = "names")]
    pub process: String,
    /// Whether a submission wakes it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub allow_wake_on_submission: bool,
}

impl Verb for SuspendProcess {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}{}", self.process, if self.allow_wake_on_submission { " until it submits" } else { "" })
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.one(Kind::Process, &self.process)
    }
}

/// A process ends, with all that it has.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct KillProcess {
    /// The process.
    #[serde(rename = "kill-process", with = "names")]
    pub process: String,
    /// The number of commands that begin or end on the GPU before. 0 is at once.
    #[serde(default, skip_serializing_if = "is_default")]
    pub after: u32,
    /// With another seed than the scenario's own, a number is drawn from 1 to this; 0 is the same number.
    #[serde(default, skip_serializing_if = "is_default")]
    pub after_up_to: u32,
}

impl Verb for KillProcess {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.after {
            0 => write!(f, " {}", self.process),
            after => write!(f, " {} after {after} more steps of the GPU", self.process),
        }
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.one(Kind::Process, &self.process)
    }
}

/// The adapter is about to lose power, or has it again.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Power {
    /// The new state.
    pub power: PowerState,
}

/// The state of the adapter's power.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PowerState {
    /// It is about to lose it.
    Down,
    /// It has it again.
    Up,
}

impl Verb for Power {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(" ")?;
        self.power.serialize(f)
    }

    fn check(&mut self, _: &mut Known) -> Result<(), String> {
        Ok(())
    }
}
