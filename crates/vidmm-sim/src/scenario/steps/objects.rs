//! Steps that create things, open them, and end them.

use std::fmt;

use serde::de::{Deserializer, Error as _};
use serde::{Deserialize, Serialize};
use vidmm::contract::Direction;
use vidmm::{DeviceResidency, PAGE_SIZE};
use vidmm_runtime::AllocationSegments;
use vidmm_trace::ByteSize;

use super::known::{Kind, Known};
use super::list::list;
use super::names;
use super::verb::{Verb, only_names};
use crate::exact::exact;
use crate::scenario::keys::{exactly, is_default};
use crate::scenario::limits::MAX_LOCAL_MEMORY;
use crate::scenario::memory::name_of;
use crate::scenario::memory::{Notification, optional_segments, write_segments};
use crate::scenario::number::within;

only_names! {
    /// A process begins to use the adapter.
    "create-process" => CreateProcess { process: String }, add Process;
}

/// A device to be created: with a paging queue, and a context on each engine.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CreateDevice {
    /// Its name.
    #[serde(rename = "create-device", with = "names")]
    pub device: String,
    /// Its process; none is the default's.
    #[serde(default, with = "names", skip_serializing_if = "Option::is_none")]
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
    /// The allocations that it makes resident.
    DeviceList,
    /// The allocations of its command buffers' lists: only without GPU virtual addresses, where this is usual.
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

impl Verb for CreateDevice {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}", self.device)?;
        if let Some(process) = &self.process {
            write!(f, " of {process}")?;
        }
        match self.residency {
            None => Ok(()),
            Some(ResidencyLists::DeviceList) => f.write_str(", with a device list"),
            Some(ResidencyLists::ReferenceLists) => f.write_str(", with reference lists"),
        }
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.optional(Kind::Process, &self.process)?;
        known.add_device(&self.device, self.process.as_deref())
    }
}

/// A handle that no call returned, to see how calls refuse it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ForgeHandle {
    /// Its name.
    #[serde(rename = "forge-handle", with = "names")]
    pub name: String,
    /// The kind of object that it pretends to be.
    pub of: HandleKind,
    /// Its value; none is drawn from the seed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<u32>,
}

/// The kind of object that a forged handle pretends to be.
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

impl Verb for ForgeHandle {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {} of a ", self.name)?;
        self.of.serialize(&mut *f)?;
        self.value.map_or(Ok(()), |value| write!(f, ": {value}"))
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        let kind = match self.of {
            HandleKind::Process => Kind::Process,
            HandleKind::Device => Kind::Device,
            HandleKind::Allocation => Kind::Allocation,
            HandleKind::Fence => Kind::Fence,
        };
        known.add(kind, &self.name)
    }
}

/// D3DKMTCreateAllocation2.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CreateAllocation {
    /// The name of one, or of a group, whose members have numbers from 1 behind it.
    #[serde(rename = "create-allocation", with = "names")]
    pub name: String,
    /// The size of each in bytes.
    #[serde(deserialize_with = "size", serialize_with = "exactly")]
    pub size: ByteSize,
    /// The segments where they may be; none is local memory where there is any, and system memory elsewhere.
    #[serde(default, deserialize_with = "optional_segments", serialize_with = "write_segments")]
    pub segments: Option<AllocationSegments>,
    /// Whether engines address them physically: in system memory they are mapped in the aperture.
    #[serde(default, skip_serializing_if = "is_default")]
    pub accessed_physically: bool,
    /// Whether the driver is notified of their places in memory segments (BPB-51).
    #[serde(default, skip_serializing_if = "is_default")]
    pub explicit_residency_notification: bool,
    /// The notifications that the driver asks for about them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notify: Vec<Notification>,
    /// Whether each has a compression surface, through which kernels read and write it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub compression: bool,
    /// Their priority.
    #[serde(default)]
    pub priority: Option<AllocationPriority>,
    /// The CPU's access to them.
    #[serde(default)]
    pub cpu: Option<CpuAccess>,
    /// Whether their backing stores are in cacheable memory; only where the CPU may lock them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub cached: bool,
    /// Whether no entry above the leaves may show them (GVA-21).
    #[serde(default, skip_serializing_if = "is_default")]
    pub disable_large_page_mapping: bool,
    /// Whether other devices may open them.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shared: bool,
    /// The number of members; none is one allocation, without a number.
    #[serde(default, deserialize_with = "count")]
    pub count: Option<u32>,
    /// The alignment of the start of each, in bytes. This key and the next three count without GPU virtual addresses
    /// only.
    #[serde(default, deserialize_with = "alignment", serialize_with = "exactly")]
    pub alignment: Option<ByteSize>,
    /// The end of a segment from which room is searched.
    #[serde(default)]
    pub direction: Option<DirectionName>,
    /// The preferred banks of local memory, from 1, in order of preference (SEG-43).
    #[serde(default, deserialize_with = "banks", skip_serializing_if = "Vec::is_empty")]
    pub banks: Vec<u8>,
    /// The end of the bank from which a place is sought; none is the same as of its segment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bank_direction: Option<DirectionName>,
    /// Whether their content leaves local memory through the aperture (SEG-45).
    #[serde(default, skip_serializing_if = "is_default")]
    pub evict_through_aperture: bool,
    /// The device; none is the default's.
    #[serde(default, with = "names", skip_serializing_if = "Option::is_none")]
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

impl Verb for CreateAllocation {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}: ", self.name)?;
        if let Some(count) = self.count {
            write!(f, "{count} of ")?;
        }
        f.write_str(&exact(self.size.bytes()))?;
        let marked = |is_so: bool, words: &str| is_so.then(|| words.to_owned());
        let banks: Vec<String> = self.banks.iter().map(u8::to_string).collect();
        let marks = [
            self.segments.map(places),
            marked(self.accessed_physically, "accessed physically"),
            marked(self.explicit_residency_notification, "ExplicitResidencyNotification"),
            marked(self.compression, "compressed"),
            marked(self.shared, "shared"),
            self.alignment.map(|alignment| format!("aligned to {}", exact(alignment.bytes()))),
            marked(self.direction == Some(DirectionName::FromStart), "from the start of its segment"),
            marked(self.direction == Some(DirectionName::FromEnd), "from the end of its segment"),
            (!banks.is_empty()).then(|| format!("in bank {}", banks.join(" or "))),
            marked(self.bank_direction == Some(DirectionName::FromStart), "from the start of its bank"),
            marked(self.bank_direction == Some(DirectionName::FromEnd), "from the end of its bank"),
            marked(self.evict_through_aperture, "leaves through the aperture"),
            self.priority.map(|priority| format!("priority {priority}")),
            self.cpu.map(|cpu| match cpu {
                CpuAccess::Visible => "CpuVisible".to_owned(),
                CpuAccess::PermanentSysMem => "PermanentSysMem".to_owned(),
                CpuAccess::ExistingSysMem => "ExistingSysMem".to_owned(),
            }),
            marked(self.cached, "cached"),
            marked(self.disable_large_page_mapping, "in small pages"),
        ];
        marks.iter().flatten().try_for_each(|mark| write!(f, ", {mark}"))?;
        self.notify.iter().try_for_each(|notification| match notification {
            Notification::Eviction => f.write_str(", NotifyEviction"),
            Notification::IoMmuUnmap => f.write_str(", NotifyIoMmuUnmap"),
        })
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.optional(Kind::Device, &self.device)?;
        let group = self.count.map(|_| self.name.clone());
        known.add_bytes(self.size.bytes().saturating_mul(self.count.unwrap_or(1).into()))?;
        known.add_group(Kind::Allocation, group, &self.names())
    }
}

/// The end of a segment from which room is searched (SEG-42).
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

/// The segments where an allocation may be, in words.
pub(super) fn places(segments: AllocationSegments) -> String {
    match segments {
        AllocationSegments::Local => "local memory".to_owned(),
        AllocationSegments::System => "system memory".to_owned(),
        AllocationSegments::LocalOrSystem => "local or system memory".to_owned(),
        AllocationSegments::Ordered(order) => order.kinds().map(name_of).collect::<Vec<_>>().join(" or "),
    }
}

/// The priority of an allocation: those of lower priority are evicted first (CRE-30, CRE-31a).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum AllocationPriority {
    /// It is unused.
    Minimum,
    /// Its place matters little.
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
    /// The spelling in scenarios.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// The CPU's access to an allocation (2.2).
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

/// D3DKMTOpenResource: a device opens shared allocations.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct OpenAllocation {
    /// The allocations.
    #[serde(rename = "open-allocation", with = "names")]
    pub allocations: Vec<String>,
    /// The device.
    #[serde(with = "names")]
    pub device: String,
}

impl Verb for OpenAllocation {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {} on {}", list(&self.allocations), self.device)
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.one(Kind::Device, &self.device)?;
        known.about(Kind::Allocation, &mut self.allocations)
    }
}

/// DxgkDdiCloseAllocation: a device closes shared allocations.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CloseAllocation {
    /// The allocations.
    #[serde(rename = "close-allocation", with = "names")]
    pub allocations: Vec<String>,
    /// The device.
    #[serde(with = "names")]
    pub device: String,
}

impl Verb for CloseAllocation {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {} on {}", list(&self.allocations), self.device)
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.one(Kind::Device, &self.device)?;
        known.about(Kind::Allocation, &mut self.allocations)
    }
}

/// D3DKMTDestroyAllocation2.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct DestroyAllocation {
    /// The allocations.
    #[serde(rename = "destroy-allocation", with = "names")]
    pub allocations: Vec<String>,
    /// The flags.
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

impl Verb for DestroyAllocation {
    fn words(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " {}", list(&self.allocations))?;
        self.flags.iter().try_for_each(|flag| match flag {
            DestroyFlag::AssumeNotInUse => f.write_str(", not in use"),
            DestroyFlag::Synchronous => f.write_str(", synchronously"),
        })
    }

    fn check(&mut self, known: &mut Known) -> Result<(), String> {
        known.about(Kind::Allocation, &mut self.allocations)
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
