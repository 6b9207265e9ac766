//! Steps that create things, open them, and end them.

use std::fmt;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use vidmm::contract::Direction;
use vidmm::{DeviceResidency, PAGE_SIZE};
use vidmm_runtime::AllocationSegments;
use vidmm_trace::ByteSize;

use super::list::list;
use super::names::{self, name, optional_name};
use crate::exact::exact;
use crate::scenario::keys::{exactly, is_default};
use crate::scenario::limits::MAX_LOCAL_MEMORY;
use crate::scenario::memory::{Notification, optional_segments, write_segments};
use crate::scenario::number::within;

/// A device to be created.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CreateDevice {
    /// Its name.
    #[serde(rename = "create-device", deserialize_with = "name")]
    pub device: String,
    /// Its process; none is the default's.
    #[serde(default, deserialize_with = "optional_name")]
    pub process: Option<String>,
    /// The priority of its paging queue.
    #[serde(default, deserialize_with = "queue_priority", skip_serializing_if = "is_default")]
    pub priority: i32,
    /// Which lists drive its residency; none is the adapter's usual kind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residency: Option<ResidencyLists>,
}

/// Which lists drive a device's residency (PAT-17).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResidencyLists {
    /// What it makes resident.
    DeviceList,
    /// What its command buffers refer to: only without GPU virtual addresses, where it is usual.
    ReferenceLists,
}

impl From<ResidencyLists> for DeviceResidency {
    fn from(lists: ResidencyLists) -> Self {
        match lists {
            ResidencyLists::DeviceList => Self::DeviceList,
            ResidencyLists::ReferenceLists => Self::ReferenceLists,
        }
    }
}

impl fmt::Display for CreateDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "create-device {}", self.device)?;
        if let Some(process) = &self.process {
            write!(f, " of {process}")?;
        }
        match self.residency {
            None => Ok(()),
            Some(ResidencyLists::DeviceList) => f.write_str(", with a device list"),
            Some(ResidencyLists::ReferenceLists) => f.write_str(", with reference lists"),
        }
    }
}

/// A handle that nobody was given, to see what calls make of it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ForgeHandle {
    /// Its name.
    #[serde(rename = "forge-handle", deserialize_with = "name")]
    pub name: String,
    /// What it is to be taken for.
    pub of: HandleKind,
    /// Its value; none is drawn from the seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u32>,
}

/// What a forged handle is to be taken for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum HandleKind {
    /// A process.
    Process,
    /// A device, with its paging queue and its contexts.
    Device,
    /// An allocation of the default's device.
    Allocation,
    /// A monitored fence.
    Fence,
}

impl fmt::Display for ForgeHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.of {
            HandleKind::Process => "process",
            HandleKind::Device => "device",
            HandleKind::Allocation => "allocation",
            HandleKind::Fence => "fence",
        };
        write!(f, "forge-handle {} of a {kind}", self.name)?;
        self.value.map_or(Ok(()), |value| write!(f, ": {value}"))
    }
}

/// Allocations to be created.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CreateAllocation {
    /// The name of one, or of all of a group, which then have the numbers from 1 behind it.
    #[serde(rename = "create-allocation", deserialize_with = "name")]
    pub name: String,
    /// How many bytes each has.
    #[serde(deserialize_with = "size", serialize_with = "exactly")]
    pub size: ByteSize,
    /// Where they may be; none is local memory where there is any, and system memory elsewhere.
    #[serde(default, deserialize_with = "optional_segments", serialize_with = "write_segments")]
    pub segments: Option<AllocationSegments>,
    /// Whether engines address them physically: in system memory they are mapped in the aperture.
    #[serde(default, skip_serializing_if = "is_default")]
    pub accessed_physically: bool,
    /// What the driver wants to hear of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<Notification>,
    /// Whether each has a compression surface, through which kernels read and write it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compression: bool,
    /// How much they matter.
    #[serde(default)]
    pub priority: Option<AllocationPriority>,
    /// What the CPU may do with them.
    #[serde(default)]
    pub cpu: Option<CpuAccess>,
    /// Whether other devices may open them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shared: bool,
    /// How many there are; none is one, without a number.
    #[serde(default, deserialize_with = "count")]
    pub count: Option<u32>,
    /// Where each had better begin: at a multiple of so many bytes. This key and the next three count without GPU virtual
    /// addresses only.
    #[serde(default, deserialize_with = "alignment", serialize_with = "exactly")]
    pub alignment: Option<ByteSize>,
    /// From which end of a segment room is looked for.
    #[serde(default)]
    pub direction: Option<DirectionName>,
    /// The banks of local memory where they had better be, from 1, in order of preference (SEG-43).
    #[serde(default, deserialize_with = "banks", skip_serializing_if = "Vec::is_empty")]
    pub banks: Vec<u8>,
    /// Whether their content leaves local memory through the aperture (SEG-45).
    #[serde(default, skip_serializing_if = "is_default")]
    pub evict_through_aperture: bool,
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

impl fmt::Display for CreateAllocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "create-allocation {}: ", self.name)?;
        if let Some(count) = self.count {
            write!(f, "{count} of ")?;
        }
        f.write_str(&exact(self.size.bytes()))?;
        if let Some(segments) = self.segments {
            write!(f, ", {}", places(segments))?;
        }
        let marks = [
            (self.accessed_physically, "accessed physically"),
            (self.compression, "compressed"),
            (self.shared, "shared"),
        ];
        marks.iter().filter(|(is_set, _)| *is_set).try_for_each(|(_, words)| write!(f, ", {words}"))?;
        if let Some(alignment) = self.alignment {
            write!(f, ", aligned to {}", exact(alignment.bytes()))?;
        }
        match self.direction {
            None => {}
            Some(DirectionName::FromStart) => f.write_str(", from the start of its segment")?,
            Some(DirectionName::FromEnd) => f.write_str(", from the end of its segment")?,
        }
        if !self.banks.is_empty() {
            let banks: Vec<String> = self.banks.iter().map(u8::to_string).collect();
            write!(f, ", in bank {}", banks.join(" or "))?;
        }
        if self.evict_through_aperture {
            f.write_str(", leaves through the aperture")?;
        }
        if let Some(priority) = self.priority {
            write!(f, ", priority {priority}")?;
        }
        match self.cpu {
            None => {}
            Some(CpuAccess::Visible) => f.write_str(", CpuVisible")?,
            Some(CpuAccess::PermanentSysMem) => f.write_str(", PermanentSysMem")?,
            Some(CpuAccess::ExistingSysMem) => f.write_str(", ExistingSysMem")?,
        }
        self.notify.iter().try_for_each(|notification| match notification {
            Notification::Eviction => f.write_str(", NotifyEviction"),
            Notification::IoMmuUnmap => f.write_str(", NotifyIoMmuUnmap"),
        })
    }
}

/// From which end of a segment room is looked for (SEG-42).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DirectionName {
    /// The lowest addresses first.
    FromStart,
    /// The highest addresses first.
    FromEnd,
}

impl From<DirectionName> for Direction {
    fn from(direction: DirectionName) -> Self {
        match direction {
            DirectionName::FromStart => Self::FromStart,
            DirectionName::FromEnd => Self::FromEnd,
        }
    }
}

/// Where an allocation may be, in words.
pub(super) fn places(segments: AllocationSegments) -> &'static str {
    match segments {
        AllocationSegments::Local => "local memory",
        AllocationSegments::System => "system memory",
        AllocationSegments::LocalOrSystem => "local or system memory",
    }
}

/// How much an allocation matters: those of lower priority are evicted first (CRE-30, CRE-31a).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AllocationPriority {
    /// It is unused.
    Minimum,
    /// Where it is matters little.
    Low,
    /// As any other.
    Normal,
    /// It goes after the others.
    High,
    /// It goes last.
    Maximum,
}

impl AllocationPriority {
    /// The number that WDDM gives it.
    pub fn value(self) -> u32 {
        match self {
            Self::Minimum => 0x2800_0000,
            Self::Low => 0x5000_0000,
            Self::Normal => 0x7800_0000,
            Self::High => 0xA000_0000,
            Self::Maximum => 0xC800_0000,
        }
    }
}

impl fmt::Display for AllocationPriority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Minimum => "minimum",
            Self::Low => "low",
            Self::Normal => "normal",
            Self::High => "high",
            Self::Maximum => "maximum",
        })
    }
}

/// What the CPU may do with an allocation (2.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum CpuAccess {
    /// It may lock it.
    Visible,
    /// It may lock the copy in system memory, which is kept while the allocation is in local memory.
    PermanentSysMem,
    /// The copy in system memory is the caller's own memory.
    ExistingSysMem,
}

/// A device opens shared allocations, or closes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnDevice {
    /// The allocations.
    pub allocations: Vec<String>,
    /// The device.
    pub device: String,
}

impl fmt::Display for OnDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {}", list(&self.allocations), self.device)
    }
}

/// Allocations to be destroyed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DestroyAllocation {
    /// Which.
    #[serde(rename = "destroy-allocation", with = "names")]
    pub allocations: Vec<String>,
    /// How.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub flags: Vec<DestroyFlag>,
}

/// How an allocation is destroyed (RES-90).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DestroyFlag {
    /// AssumeNotInUse.
    AssumeNotInUse,
    /// SynchronousDestroy: the step lasts until its memory is free.
    Synchronous,
}

impl fmt::Display for DestroyAllocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "destroy-allocation {}", list(&self.allocations))?;
        self.flags.iter().try_for_each(|flag| match flag {
            DestroyFlag::AssumeNotInUse => f.write_str(", not in use"),
            DestroyFlag::Synchronous => f.write_str(", synchronously"),
        })
    }
}

/// A process to be killed.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct KillProcess {
    /// Which.
    #[serde(rename = "kill-process", deserialize_with = "name")]
    pub process: String,
    /// After how many more steps of the GPU: commands that begin or end. 0 is at once.
    #[serde(default, skip_serializing_if = "is_default")]
    pub after: u32,
    /// With another seed than the scenario's own it is another number of steps, from 1 to this; 0 is the same.
    #[serde(default, skip_serializing_if = "is_default")]
    pub after_up_to: u32,
}

/// A mapping to be made.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct MapAllocation {
    /// What to map: an allocation, or each of a group.
    #[serde(rename = "map", with = "names")]
    pub allocations: Vec<String>,
    /// The mapping's name; none is the allocation's.
    #[serde(rename = "as", default, deserialize_with = "optional_name")]
    pub name: Option<String>,
    /// The device, whose process sees it; none is the allocation's own.
    #[serde(default, deserialize_with = "optional_name")]
    pub device: Option<String>,
    /// From which byte on.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "exactly")]
    pub offset: ByteSize,
    /// How many bytes; 0 is all that follow.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "exactly")]
    pub size: ByteSize,
    /// Whether writes through it fault.
    #[serde(default, skip_serializing_if = "is_default")]
    pub read_only: bool,
}

impl fmt::Display for MapAllocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "map {}", list(&self.allocations))?;
        if let Some(name) = &self.name {
            write!(f, " as {name}")?;
        }
        if let Some(device) = &self.device {
            write!(f, " for {device}")?;
        }
        f.write_str(&bytes(self.offset, self.size))?;
        if self.read_only { f.write_str(", read only") } else { Ok(()) }
    }
}

/// A mapping, or a part of one, that is given back.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct FreeVa {
    /// The mapping. What is left of it before the part keeps its name.
    #[serde(rename = "free-va", deserialize_with = "name")]
    pub mapping: String,
    /// From which of its bytes on.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "exactly")]
    pub offset: ByteSize,
    /// How many bytes; 0 is all that follow.
    #[serde(default, skip_serializing_if = "is_default", serialize_with = "exactly")]
    pub size: ByteSize,
    /// The name of what is left of it after the part.
    #[serde(default, deserialize_with = "optional_name")]
    pub rest: Option<String>,
}

impl fmt::Display for FreeVa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "free-va {}{}", self.mapping, bytes(self.offset, self.size))?;
        self.rest.iter().try_for_each(|rest| write!(f, ", the rest is {rest}"))
    }
}

/// The bytes of a mapping or an allocation that a step names; nothing if they are all.
fn bytes(offset: ByteSize, size: ByteSize) -> String {
    let (offset, size) = (offset.bytes(), size.bytes());
    match (offset, size) {
        (0, 0) => String::new(),
        (_, 0) => format!(" from {} on", exact(offset)),
        (_, _) => format!(" [{}, {})", exact(offset), exact(offset.saturating_add(size))),
    }
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
    let size = ByteSize::deserialize(deserializer)?;
    if (1..=MAX_LOCAL_MEMORY).contains(&size.bytes()) {
        return Ok(size);
    }
    let most = ByteSize(MAX_LOCAL_MEMORY);
    Err(D::Error::custom(format!("an allocation of {size}; give a size from 1 byte to {most}, such as `16 MiB`")))
}

fn alignment<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<ByteSize>, D::Error> {
    let size = ByteSize::deserialize(deserializer)?;
    if size.bytes().is_power_of_two() && (PAGE_SIZE..=1 << 31).contains(&size.bytes()) {
        return Ok(Some(size));
    }
    Err(D::Error::custom(format!("an alignment of {size}; give a power of two from 4 KiB to 2 GiB")))
}

fn banks<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
    let banks = Vec::<u8>::deserialize(deserializer)?;
    if banks.len() <= 4 && !banks.contains(&0) {
        return Ok(banks);
    }
    Err(D::Error::custom("give up to four banks, numbered from 1"))
}

fn count<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    within::<_, _, 1, 1000>(deserializer).map(Some)
}

fn queue_priority<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i32, D::Error> {
    within::<_, i32, 0, 2>(deserializer)
}
