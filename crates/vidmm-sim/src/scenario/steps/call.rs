//! What steps do.

use std::fmt;

use serde::{Deserialize, Serialize};
use vidmm_trace::ByteSize;

use super::budget::{ExpectTrim, Intervals, ProcessPriority, QueryVideoMemory, ReserveVideoMemory};
use super::fault::{CheckError, CheckResets};
use super::kernel::Kernel;
use super::names;
use super::objects::{
    CreateAllocation, CreateDevice, DestroyAllocation, ForgeHandle, FreeVa, KillProcess, MapAllocation, OnDevice,
};
use super::render::Render;
use super::residency::{Evict, MakeResident, Offer, Reclaim, SetPriority, UpdateProperty};
use crate::scenario::duration::Duration;
use crate::scenario::keys::is_default;

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
    /// D3DKMTOpenResource: a device opens shared allocations.
    OpenAllocation(OnDevice),
    /// DxgkDdiCloseAllocation.
    CloseAllocation(OnDevice),
    /// D3DKMTMapGpuVirtualAddress.
    Map(MapAllocation),
    /// D3DKMTMakeResident.
    MakeResident(MakeResident),
    /// D3DKMTEvict.
    Evict(Evict),
    /// D3DKMTOfferAllocations.
    Offer(Offer),
    /// D3DKMTReclaimAllocations2.
    Reclaim(Reclaim),
    /// D3DKMTLock2.
    Lock(Vec<String>),
    /// D3DKMTUnlock2.
    Unlock(Vec<String>),
    /// D3DKMTSetAllocationPriority.
    SetPriority(SetPriority),
    /// D3DKMTUpdateAllocationProperty.
    UpdateProperty(UpdateProperty),
    /// D3DKMTChangeVideoMemoryReservation.
    ReserveVideoMemory(ReserveVideoMemory),
    /// The user turns to a process, or away from it.
    ProcessPriority(ProcessPriority),
    /// RegisterVideoMemoryBudgetChangeNotification.
    NotifyBudget(String),
    /// D3DKMTRegisterTrimNotification.
    RegisterTrim(String),
    /// D3DKMTUnregisterTrimNotification.
    UnregisterTrim(String),
    /// D3DKMT_VIDMMESCAPETYPE_SET_TRIM_INTERVALS.
    TrimIntervals(Intervals),
    /// D3DKMT_VIDMMESCAPETYPE_SUSPEND_PROCESS, and whether a submission wakes the process.
    SuspendProcess(String, bool),
    /// D3DKMT_VIDMMESCAPETYPE_RESUME_PROCESS.
    ResumeProcess(String),
    /// A process ends, with all that it has.
    KillProcess(KillProcess),
    /// The adapter is about to lose power, or has it again.
    Power(Power),
    /// A kernel is submitted.
    Kernel(Kernel),
    /// D3DKMTRender: a command buffer is translated and queued.
    Render(Render),
    /// The CPU signals a monitored fence.
    Signal(String),
    /// D3DKMTDestroyAllocation2.
    DestroyAllocation(DestroyAllocation),
    /// D3DKMTFreeGpuVirtualAddress.
    FreeVa(FreeVa),
    /// A kernel reads mappings, or allocations where there are no GPU virtual addresses, and every page must be what was
    /// written last.
    CheckContent(Vec<String>),
}

/// What is done from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Look {
    /// Time passes.
    Wait(Until),
    /// A name is given to a handle that names nothing.
    ForgeHandle(ForgeHandle),
    /// What the CPU sees of allocations that are not resident must be what was written last, in plain bytes.
    System(Vec<String>),
    /// The CPU writes every page of allocations that are locked.
    CpuWrite(Vec<String>),
    /// The CPU reads every page of allocations that are locked, which must be what was written last.
    CpuRead(Vec<String>),
    /// What the aperture shows where an allocation is, or was.
    Aperture(CheckAperture),
    /// The size of the paging process's address space of a physical adapter: the driver's answer, and what follows.
    PagingVa(u32, Option<ByteSize>),
    /// D3DKMTQueryVideoMemoryInfo.
    VideoMemory(QueryVideoMemory),
    /// A trim notification, or that there is none.
    Trim(ExpectTrim),
    /// Where allocations are.
    Residency(Vec<String>, Whereabouts),
    /// Kernels that must not have begun to run.
    Waiting(Vec<String>),
    /// Devices that must be in error.
    DeviceError(CheckError),
    /// The adapter must be in error, and this is said of it.
    AdapterError(String),
    /// How often engines and the adapter must have been reset.
    Resets(CheckResets),
    /// The driver's author must have been told something with these words.
    Finding(String),
}

/// Whether the adapter has power.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Power {
    /// It is about to lose it.
    Down,
    /// It has it again.
    Up,
}

/// Where an allocation is.
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

/// How long time passes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Until {
    /// Until nothing is under way or waiting.
    Idle,
    /// Until nothing more happens by itself.
    Quiet,
    /// Until everything is in system memory, and the adapter may lose power.
    PoweredDown,
    /// For so long.
    For(Duration),
    /// Until a kernel has ended.
    Kernel(String),
}

impl fmt::Display for Until {
    /// As scenarios write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Idle => f.write_str("idle"),
            Self::Quiet => f.write_str("quiet"),
            Self::PoweredDown => f.write_str("powered-down"),
            Self::For(duration) => duration.fmt(f),
            Self::Kernel(name) => f.write_str(name),
        }
    }
}

impl From<String> for Until {
    fn from(text: String) -> Self {
        match text.as_str() {
            "idle" => Self::Idle,
            "quiet" => Self::Quiet,
            "powered-down" => Self::PoweredDown,
            _ => text.parse().map_or(Self::Kernel(text), Self::For),
        }
    }
}

/// A look at the aperture.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CheckAperture {
    /// The allocations whose ranges are looked at.
    #[serde(rename = "check-aperture", with = "names")]
    pub allocations: Vec<String>,
    /// What every page must show.
    #[serde(default, skip_serializing_if = "is_default")]
    pub shows: ApertureShows,
}

/// What pages of the aperture show.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ApertureShows {
    /// The bytes of the allocation's backing store.
    #[default]
    Allocation,
    /// The dummy page (BPB-33).
    DummyPage,
}
