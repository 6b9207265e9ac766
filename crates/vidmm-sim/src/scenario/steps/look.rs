//! Steps that let time pass, or look at memory from outside.

use std::fmt;

use serde::{Deserialize, Serialize};
use vidmm_trace::ByteSize;

use super::known::{Kind, Known};
use super::list::list;
use super::names;
use super::until::Until;
use super::verb::{Verb, only_names};
use crate::scenario::keys::{exactly, is_default};

only_names! {
    /// The CPU's view of allocations that are not resident must be their last content, in plain bytes.
    "check-system" => CheckSystem { allocations: Vec<String> }, about Allocation;
    /// The CPU writes every page of allocations that are locked.
    "cpu-write" => CpuWrite { allocations: Vec<String> }, about Allocation;
    /// The CPU reads every page of allocations that are locked, which must have its last content.
    "cpu-read" => CpuRead { allocations: Vec<String> }, about Allocation;
    /// Kernels must not have begun to run.
    "check-waiting" => CheckWaiting { kernels: Vec<String> }, about Kernel;
}

/// A kernel reads mappings, or allocations where there are no GPU virtual addresses, and every page must have its last
/// content.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CheckContent {
    /// The mappings or allocations.
    #[serde(rename = "check-content", with = "names")]
    pub names: Vec<String>,
    /// The device whose kernel reads them; none is that of the first of them.
    #[serde(default, with = "names", skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
}

impl Verb for CheckContent {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}", list(&self.names))?;
        self.device.iter().try_for_each(|device| write!(f, " on {device}"))
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.optional(Kind::Device, &self.device)?;
        known.about(if known.is_physical { Kind::Allocation } else { Kind::Mapping }, &mut self.names)
    }
}

/// Time passes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// The end of the wait.
    #[serde(rename = "wait")]
    pub until: Until,
}

impl Verb for Wait {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.until {
            Until::Idle => f.write_str(" until everything has ended"),
            Until::Quiet => f.write_str(" until nothing more happens"),
            Until::PoweredDown => f.write_str(" until the adapter may lose power"),
            Until::For(duration) => write!(f, " {duration}"),
            Until::Kernel(kernel) => write!(f, " for kernel {kernel}"),
        }
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        let Until::Kernel(kernel) = &self.until else { return Ok(()) };
        let moments = "`idle` waits until everything has ended, `quiet` until nothing more happens, `20 ms` so long";
        known.one(Kind::Kernel, kernel).map_err(|error| format!("{error}; {moments}"))
    }
}

/// Allocations must be in one place, or in none.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CheckResidency {
    /// The allocations.
    #[serde(rename = "check-residency", with = "names")]
    pub allocations: Vec<String>,
    /// The place.
    pub r#in: Whereabouts,
}

/// The place of an allocation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Whereabouts {
    /// In local memory.
    Local,
    /// In implicit system memory.
    System,
    /// In the aperture.
    Aperture,
    /// Not resident.
    Nowhere,
}

impl fmt::Display for Whereabouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "in local memory",
            Self::System => "in implicit system memory",
            Self::Aperture => "in the aperture",
            Self::Nowhere => "not resident",
        })
    }
}

impl Verb for CheckResidency {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}: {}", list(&self.allocations), self.r#in)
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.about(Kind::Allocation, &mut self.allocations)
    }
}

/// A look at the aperture.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CheckAperture {
    /// The allocations whose ranges are looked at.
    #[serde(rename = "check-aperture", with = "names")]
    pub allocations: Vec<String>,
    /// The expected content of every page.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shows: ApertureShows,
}

/// The content of pages of the aperture.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApertureShows {
    /// The bytes of the allocation's backing store.
    #[default]
    Allocation,
    /// The dummy page (BPB-33).
    DummyPage,
}

impl Verb for CheckAperture {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = match self.shows {
            ApertureShows::Allocation => "shows its bytes",
            ApertureShows::DummyPage => "shows the dummy page",
        };
        write!(f, " {} {shown}", list(&self.allocations))
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.about(Kind::Allocation, &mut self.allocations)
    }
}

/// The size of the paging process's address space of a physical adapter: the driver's answer, and the size that follows.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct QueryPagingVa {
    /// The ordinal of the physical adapter.
    #[serde(rename = "query-paging-va")]
    pub adapter: u32,
    /// The size that must follow.
    #[serde(default, serialize_with = "exactly")]
    pub size: Option<ByteSize>,
}

impl Verb for QueryPagingVa {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " of physical adapter {}", self.adapter)
    }

    fn check(&mut self, _: &mut Known) -> Result<(), String> {
        Ok(())
    }
}
