//! Kernels of steps.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::known::{Kind, Known};
use super::list::list;
use super::names;
use super::verb::{Verb, only_names};
use crate::prediction::Content;
use crate::scenario::keys::is_default;
use crate::scenario::number::within;

/// A monitored fence is created, for kernels to wait for.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CreateFence {
    /// Its name.
    #[serde(rename = "create-fence", with = "names")]
    pub fence: String,
}

impl Verb for CreateFence {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}", self.fence)
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.is_new(Kind::Kernel, &self.fence)?;
        known.add(Kind::Fence, &self.fence)
    }
}

only_names! {
    /// The CPU signals a monitored fence.
    "signal" => Signal { fence: String }, one Fence;
}

/// A kernel to be submitted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Kernel {
    /// Its name.
    #[serde(rename = "kernel", with = "names")]
    pub name: String,
    /// The mappings that it reads, in order.
    #[serde(default, with = "names", skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<String>,
    /// The mappings that it writes, in order.
    #[serde(default, with = "names", skip_serializing_if = "Vec::is_empty")]
    pub writes: Vec<String>,
    /// The reservations of which it reads pages that were never mapped, after all else: they are zero (GVA-20).
    #[serde(default, with = "names", skip_serializing_if = "Vec::is_empty")]
    pub zeros: Vec<String>,
    /// The fill of the pages that it writes.
    #[serde(default = "ramp", skip_serializing_if = "is_ramp")]
    pub content: Content,
    /// Its duration in nanoseconds.
    #[serde(
        default = "microsecond",
        deserialize_with = "within::<_, _, 1, 0x1_0000_0000_0000>",
        skip_serializing_if = "is_microsecond"
    )]
    pub nanoseconds: u64,
    /// It never ends by itself.
    #[serde(default, skip_serializing_if = "is_default")]
    pub hangs: bool,
    /// It is no command that a GPU knows, which the driver reports as DMA_FAULTED.
    #[serde(default, skip_serializing_if = "is_default")]
    pub illegal: bool,
    /// The engine that runs it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub engine: KernelEngine,
    /// Kernels that must have ended, and fences that must have been signalled, before it runs.
    #[serde(default, with = "names", skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<String>,
    /// The monitored fences that its end signals, as a step `signal` does (SYN-01).
    #[serde(default, with = "names", skip_serializing_if = "Vec::is_empty")]
    pub signals: Vec<String>,
    /// The allocations that its submission names: those must be resident on the device (FLT-02).
    #[serde(default, with = "names", skip_serializing_if = "Vec::is_empty")]
    pub allocations: Vec<String>,
    /// The device; none is that of the mappings that it reads and writes.
    #[serde(default, with = "names", skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

impl Kernel {
    /// A kernel that does nothing, for a microsecond.
    pub(crate) fn new(name: String) -> Self {
        Self {
            name,
            reads: Vec::new(),
            writes: Vec::new(),
            zeros: Vec::new(),
            content: ramp(),
            nanoseconds: microsecond(),
            hangs: false,
            illegal: false,
            engine: KernelEngine::default(),
            after: Vec::new(),
            signals: Vec::new(),
            allocations: Vec::new(),
            device: None,
        }
    }
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

impl KernelEngine {
    /// The words for it behind a step; the engine that renders goes without saying.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Render => "",
            Self::Copy => ", on the copy engine",
        }
    }
}

/// D3DKMTSetContextSchedulingPriority: the priority of a device's work on an engine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct SetContextPriority {
    /// The device.
    #[serde(rename = "set-context-priority", with = "names")]
    pub device: String,
    /// The engine of the context.
    #[serde(default, skip_serializing_if = "is_default")]
    pub engine: KernelEngine,
    /// From -7 to 7; any other value is refused.
    pub priority: i32,
}

impl Verb for SetContextPriority {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}: {}{}", self.device, self.priority, self.engine.words())
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.one(Kind::Device, &self.device)
    }
}

impl Verb for Kernel {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}", self.name)?;
        let mut lead = ":";
        let lists = [
            ("reads", &self.reads),
            ("writes", &self.writes),
            ("zeros", &self.zeros),
            ("names", &self.allocations),
            ("after", &self.after),
            ("signals", &self.signals),
        ];
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
        if self.illegal {
            write!(f, "{lead} illegal")?;
            lead = ",";
        }
        if self.engine == KernelEngine::Copy { write!(f, "{lead} on the copy engine") } else { Ok(()) }
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        if known.is_physical {
            return Err(
                "a kernel finds memory at GPU virtual addresses, and `addressing-model = \"physical\"` has none; write \
                 `render` instead of `kernel`, and its `commands`"
                    .to_owned(),
            );
        }
        known.list(Kind::Mapping, &mut self.reads)?;
        known.list(Kind::Mapping, &mut self.writes)?;
        known.list(Kind::Reservation, &mut self.zeros)?;
        known.list(Kind::Allocation, &mut self.allocations)?;
        known.list(Kind::Fence, &mut self.signals)?;
        known.optional(Kind::Device, &self.device)?;
        known.after(&mut self.after)?;
        known.add_work(&self.name)
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
