//! The calls that steps make.

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};
use vidmm_runtime::AllocationSegments;
use vidmm_trace::ByteSize;

use super::names::{name, names, optional_name};
use crate::prediction::Content;
use crate::scenario::limits::MAX_LOCAL_MEMORY;
use crate::scenario::memory::{Notification, optional_segments};
use crate::scenario::number::within;

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It makes a call, which is answered.
    Call(Call),
    /// It lets time pass, or looks at memory from outside.
    Look(Look),
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A process begins to use the adapter.
    CreateProcess(String),
    /// A process creates a device, with a paging queue and a context on each engine.
    CreateDevice(CreateDevice),
    /// A monitored fence is created, for kernels to wait for.
    CreateFence(String),
    /// D3DKMTCreateAllocation2.
    CreateAllocation(CreateAllocation),
    /// D3DKMTMapGpuVirtualAddress.
    Map(MapAllocation),
    /// D3DKMTMakeResident.
    MakeResident(Vec<String>),
    /// D3DKMTEvict.
    Evict(Vec<String>, Vec<EvictFlag>),
    /// A kernel is submitted.
    Kernel(Kernel),
    /// The CPU signals a monitored fence.
    Signal(String),
    /// D3DKMTDestroyAllocation2.
    DestroyAllocation(Vec<String>),
    /// D3DKMTFreeGpuVirtualAddress: a whole mapping.
    FreeVa(String),
    /// A kernel reads mappings, and every page must be what was written last.
    CheckContent(Vec<String>),
}

/// What is done from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// Time passes.
    Wait(Until),
    /// What the CPU sees of allocations that are not resident must be what was written last, in plain bytes.
    System(Vec<String>),
    /// What the aperture shows where an allocation is, or was.
    Aperture(CheckAperture),
    /// The size of the paging process's address space of a physical adapter: the driver's answer, and what follows.
    PagingVa(u32, Option<ByteSize>),
}

/// A device to be created.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CreateDevice {
    /// Its name.
    #[serde(rename = "create-device", deserialize_with = "name")]
    pub device: String,
    /// Its process; none is the default's.
    #[serde(default, deserialize_with = "optional_name")]
    pub process: Option<String>,
    /// The priority of its paging queue.
    #[serde(default, deserialize_with = "priority")]
    pub priority: i32,
}

/// Allocations to be created.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CreateAllocation {
    /// The name of one, or of all of a group, which then have the numbers from 1 behind it.
    #[serde(rename = "create-allocation", deserialize_with = "name")]
    pub name: String,
    /// How many bytes each has.
    #[serde(deserialize_with = "size")]
    pub size: ByteSize,
    /// Where they may be; none is local memory where there is any, and system memory elsewhere.
    #[serde(default, deserialize_with = "optional_segments")]
    pub segments: Option<AllocationSegments>,
    /// Whether engines address them physically: in system memory they are mapped in the aperture.
    #[serde(default)]
    pub accessed_physically: bool,
    /// What the driver wants to hear of them.
    #[serde(default)]
    pub notify: Vec<Notification>,
    /// Whether each has a compression surface, through which kernels read and write it.
    #[serde(default)]
    pub compression: bool,
    /// How many there are; none is one, without a number.
    #[serde(default, deserialize_with = "count")]
    pub count: Option<u32>,
    /// The device; none is the default's.
    #[serde(default, deserialize_with = "optional_name")]
    pub device: Option<String>,
}

impl CreateAllocation {
    /// The names of all of them.
    pub fn names(&self) -> Vec<String> {
        match self.count {
            None => vec![self.name.clone()],
            Some(count) => (1..=count).map(|number| format!("{}{number}", self.name)).collect(),
        }
    }
}

/// A mapping to be made.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MapAllocation {
    /// What to map: an allocation, or each of a group.
    #[serde(rename = "map", deserialize_with = "names")]
    pub allocations: Vec<String>,
    /// The mapping's name; none is the allocation's.
    #[serde(rename = "as", default, deserialize_with = "optional_name")]
    pub name: Option<String>,
    /// From which byte on.
    #[serde(default)]
    pub offset: ByteSize,
    /// How many bytes; 0 is all that follow.
    #[serde(default)]
    pub size: ByteSize,
    /// Whether writes through it fault.
    #[serde(default)]
    pub read_only: bool,
}

/// How an Evict is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EvictFlag {
    /// EvictOnlyIfNecessary.
    OnlyIfNecessary,
    /// NotWrittenTo.
    NotWrittenTo,
}

/// A kernel to be submitted.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Kernel {
    /// Its name.
    #[serde(rename = "kernel", deserialize_with = "name")]
    pub name: String,
    /// The mappings that it reads, in order.
    #[serde(default, deserialize_with = "names")]
    pub reads: Vec<String>,
    /// The mappings that it writes, in order.
    #[serde(default, deserialize_with = "names")]
    pub writes: Vec<String>,
    /// What fills the pages that it writes.
    #[serde(default = "ramp")]
    pub content: Content,
    /// How long it runs, in nanoseconds.
    #[serde(default = "microsecond", deserialize_with = "within::<_, _, 1, 0x1_0000_0000_0000>")]
    pub nanoseconds: u64,
    /// The engine that runs it.
    #[serde(default)]
    pub engine: KernelEngine,
    /// Kernels that must have ended, and fences that must have been signalled, before it runs.
    #[serde(default, deserialize_with = "names")]
    pub after: Vec<String>,
    /// The device; none is that of what it reads and writes.
    #[serde(default, deserialize_with = "optional_name")]
    pub device: Option<String>,
}

/// An engine that runs kernels.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KernelEngine {
    /// It runs shaders.
    #[default]
    Render,
    /// It copies.
    Copy,
}

/// How long time passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// Until nothing is under way or waiting.
    Idle,
    /// Until nothing more happens by itself.
    Quiet,
    /// Until a kernel has ended.
    Kernel(String),
}

/// A look at the aperture.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CheckAperture {
    /// The allocations whose ranges are looked at.
    #[serde(rename = "check-aperture", deserialize_with = "names")]
    pub allocations: Vec<String>,
    /// What every page must show.
    #[serde(default)]
    pub shows: ApertureShows,
}

/// What pages of the aperture show.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApertureShows {
    /// The bytes of the allocation's backing store.
    #[default]
    Allocation,
    /// The dummy page (BPB-33).
    DummyPage,
}

fn ramp() -> Content {
    Content::Ramp
}

fn microsecond() -> u64 {
    1000
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
    let size = ByteSize::deserialize(deserializer)?;
    if (1..=MAX_LOCAL_MEMORY).contains(&size.bytes()) {
        return Ok(size);
    }
    let most = ByteSize(MAX_LOCAL_MEMORY);
    Err(D::Error::custom(format!("an allocation of {size}; give a size from 1 byte to {most}, such as `16 MiB`")))
}

fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    within::<_, _, 1, 1000>(deserializer).map(Some)
}

fn priority<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    within::<_, i32, 0, 2>(deserializer)
}
