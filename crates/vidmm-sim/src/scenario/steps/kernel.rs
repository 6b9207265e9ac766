//! Kernels of steps.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::list::list;
use super::names::{self, name, optional_name};
use crate::prediction::Content;
use crate::scenario::keys::is_default;
use crate::scenario::number::within;

/// A kernel to be submitted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Kernel {
    /// Its name.
    #[serde(rename = "kernel", deserialize_with = "name")]
    pub name: String,
    /// The mappings that it reads, in order.
    #[serde(default, with = "names", skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
    /// The mappings that it writes, in order.
    #[serde(default, with = "names", skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<String>,
    /// What fills the pages that it writes.
    #[serde(default = "ramp", skip_serializing_if = "is_ramp")]
    pub content: Content,
    /// How long it runs, in nanoseconds.
    #[serde(
        default = "microsecond",
        deserialize_with = "within::<_, _, 1, 0x1_0000_0000_0000>",
        skip_serializing_if = "is_microsecond"
    )]
    pub nanoseconds: u64,
    /// It never ends by itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hangs: bool,
    /// The engine that runs it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub engine: KernelEngine,
    /// Kernels that must have ended, and fences that must have been signalled, before it runs.
    #[serde(default, with = "names", skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// The allocations that its submission names: those must be resident on the device (FLT-02).
    #[serde(default, with = "names", skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<String>,
    /// The device; none is that of what it reads and writes.
    #[serde(default, deserialize_with = "optional_name")]
    pub device: Option<String>,
}

/// An engine that runs kernels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelEngine {
    /// It runs shaders.
    #[default]
    Render,
    /// It copies.
    Copy,
}

impl fmt::Display for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "kernel {}", self.name)?;
        let mut lead = ":";
        let lists =
            [("reads", &self.reads), ("writes", &self.writes), ("names", &self.allocations), ("after", &self.after)];
        for (verb, names) in lists {
            if !names.is_empty() {
                write!(f, "{lead} {verb} {}", list(names))?;
                lead = ",";
            }
        }
        if self.hangs {
            write!(f, "{lead} never ends")?;
            lead = ",";
        }
        if self.engine == KernelEngine::Copy { write!(f, "{lead} on the copy engine") } else { Ok(()) }
    }
}

pub(super) fn ramp() -> Content {
    Content::Ramp
}

pub(super) fn microsecond() -> u64 {
    1000
}

pub(super) fn is_ramp(content: &Content) -> bool {
    *content == ramp()
}

pub(super) fn is_microsecond(nanoseconds: &u64) -> bool {
    *nanoseconds == microsecond()
}
