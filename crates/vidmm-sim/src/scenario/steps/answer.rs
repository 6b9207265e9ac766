//! What calls answer, by name.

use std::fmt;

use serde::{Deserialize, Serialize};
use vidmm::contract::RenderStatus;
use vidmm::{
    CreateError, EvictError, GpuVaError, InvalidHandle, LockError, MakeResidentError, MapError, OfferError, OpenError,
    ReclaimError, RenderError, ReservationError, SubmitError, UnlockError, UpdateError, VaRangeError,
};

/// The answer of a call: that it was done, or the refusal by name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It was done, and can be used at once.
    Ok,
    /// It was admitted, and can be used when a paging fence has reached a value.
    Pending,
    /// There is no room for it: too much would have to be trimmed first.
    NoMemory,
    /// A handle names nothing, or no longer.
    InvalidHandle,
    /// The device or the adapter is in error.
    DeviceInError,
    /// The driver has no memory.
    Kmd,
    /// The driver does not create such an allocation.
    Allocation,
    /// The system has no memory for the backing store.
    BackingStore,
    /// The engine takes no contexts.
    Engine,
    /// The driver broke a rule.
    Violation,
    /// The paging process has no GPU virtual addresses for the notification that was asked for (PGV-03).
    NoPagingVa,
    /// This version of the manager does not have it yet.
    NotSupported,
    /// The list of allocations is empty.
    Empty,
    /// The allocation was created on another device.
    WrongDevice,
    /// Too many requests wait for their grant.
    TooManyPending,
    /// The allocation is not on the device's list.
    NotResident,
    /// The part of the allocation is not inside it, or not made of its pages.
    Part,
    /// The addresses cannot be had.
    Range,
    /// The context's queue is full.
    QueueFull,
    /// MustSucceed without CantTrimFurther.
    Flags,
    /// An allocation is offered: it must be reclaimed first.
    Offered,
    /// An allocation is not offered.
    NotOffered,
    /// An allocation has no backing store any more.
    NotCommitted,
    /// An allocation is locked.
    Locked,
    /// An allocation is not locked.
    NotLocked,
    /// An allocation cannot be where the CPU sees it.
    NotLockable,
    /// An allocation is on its way to where the CPU sees it.
    Busy,
    /// An allocation is locked too often.
    TooManyReferences,
    /// No CPU addresses are left.
    CpuAddress,
    /// An allocation is open on other devices as well.
    Shared,
    /// An allocation was not created to be shared.
    NotShared,
    /// An allocation is open on the device already.
    AlreadyOpen,
    /// An allocation was not opened by the device.
    NotOpen,
    /// An allocation's content is the caller's own memory.
    ExistingSysMem,
    /// A property cannot have that value.
    Impossible,
    /// The driver does not allow it.
    Vetoed,
    /// More than can be reserved.
    TooMuch,
    /// The kernel accesses memory where nothing is resident.
    PageFault,
    /// The process has hung engines too often.
    ProcessBlocked,
    /// The driver does not understand the command buffer (PAT-12).
    InvalidParameter,
    /// A command that only the driver may give, or an address of the user's own choice (PAT-12).
    PrivilegedInstruction,
    /// A command that means nothing (PAT-12).
    IllegalInstruction,
    /// The driver's patch-location list breaks a rule, and the device is in error for it (U-45).
    PatchLocationList,
    /// A refusal that this version has no name for.
    Other,
}

impl Answer {
    /// Whether the call was done.
    pub fn is_done(self) -> bool {
        matches!(self, Self::Ok | Self::Pending)
    }

    /// The name, as scenarios write it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Pending => "pending",
            Self::NoMemory => "no-memory",
            Self::InvalidHandle => "invalid-handle",
            Self::DeviceInError => "device-in-error",
            Self::Kmd => "kmd",
            Self::Allocation => "allocation",
            Self::BackingStore => "backing-store",
            Self::Engine => "engine",
            Self::Violation => "violation",
            Self::NoPagingVa => "no-paging-va",
            Self::NotSupported => "not-supported",
            Self::Empty => "empty",
            Self::WrongDevice => "wrong-device",
            Self::TooManyPending => "too-many-pending",
            Self::NotResident => "not-resident",
            Self::Part => "part",
            Self::Range => "range",
            Self::QueueFull => "queue-full",
            Self::Flags => "flags",
            Self::Offered => "offered",
            Self::NotOffered => "not-offered",
            Self::NotCommitted => "not-committed",
            Self::Locked => "locked",
            Self::NotLocked => "not-locked",
            Self::NotLockable => "not-lockable",
            Self::Busy => "busy",
            Self::TooManyReferences => "too-many-references",
            Self::CpuAddress => "cpu-address",
            Self::Shared => "shared",
            Self::NotShared => "not-shared",
            Self::AlreadyOpen => "already-open",
            Self::NotOpen => "not-open",
            Self::ExistingSysMem => "existing-sys-mem",
            Self::Impossible => "impossible",
            Self::Vetoed => "vetoed",
            Self::TooMuch => "too-much",
            Self::PageFault => "page-fault",
            Self::ProcessBlocked => "process-blocked",
            Self::InvalidParameter => "invalid-parameter",
            Self::PrivilegedInstruction => "privileged-instruction",
            Self::IllegalInstruction => "illegal-instruction",
            Self::PatchLocationList => "patch-location-list",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<&InvalidHandle> for Answer {
    fn from(_: &InvalidHandle) -> Self {
        Self::InvalidHandle
    }
}

impl From<&VaRangeError> for Answer {
    fn from(_: &VaRangeError) -> Self {
        Self::Range
    }
}

impl From<&CreateError> for Answer {
    fn from(error: &CreateError) -> Self {
        match error {
            CreateError::InvalidHandle(_) => Self::InvalidHandle,
            CreateError::DeviceInError(_) => Self::DeviceInError,
            CreateError::Kmd(_) => Self::Kmd,
            CreateError::Allocation(_) => Self::Allocation,
            CreateError::BackingStore(_) => Self::BackingStore,
            CreateError::NoMemory { .. } => Self::NoMemory,
            CreateError::Engine { .. } => Self::Engine,
            CreateError::Violation(_) => Self::Violation,
            CreateError::ProcessBlocked => Self::ProcessBlocked,
            CreateError::NoPagingVa => Self::NoPagingVa,
            CreateError::NotSupported(_) | CreateError::ReferenceLists => Self::NotSupported,
            _ => Self::Other,
        }
    }
}

impl From<&MakeResidentError> for Answer {
    fn from(error: &MakeResidentError) -> Self {
        match error {
            MakeResidentError::InvalidHandle(_) => Self::InvalidHandle,
            MakeResidentError::DeviceInError(_) => Self::DeviceInError,
            MakeResidentError::Empty => Self::Empty,
            MakeResidentError::WrongDevice { .. } => Self::WrongDevice,
            MakeResidentError::NoMemory { .. } => Self::NoMemory,
            MakeResidentError::Flags => Self::Flags,
            MakeResidentError::Offered { .. } => Self::Offered,
            MakeResidentError::NotCommitted { .. } => Self::NotCommitted,
            MakeResidentError::TooManyPending { .. } => Self::TooManyPending,
            _ => Self::Other,
        }
    }
}

impl From<&EvictError> for Answer {
    fn from(error: &EvictError) -> Self {
        match error {
            EvictError::InvalidHandle(_) => Self::InvalidHandle,
            EvictError::Empty => Self::Empty,
            EvictError::NotResident { .. } => Self::NotResident,
            EvictError::ReferenceLists => Self::NotSupported,
            _ => Self::Other,
        }
    }
}

impl From<&OfferError> for Answer {
    fn from(error: &OfferError) -> Self {
        match error {
            OfferError::InvalidHandle(_) => Self::InvalidHandle,
            OfferError::DeviceInError(_) => Self::DeviceInError,
            OfferError::Empty => Self::Empty,
            OfferError::ReferenceLists => Self::NotSupported,
            OfferError::WrongDevice { .. } => Self::WrongDevice,
            OfferError::Offered { .. } => Self::Offered,
            OfferError::Locked { .. } => Self::Locked,
            OfferError::Shared { .. } => Self::Shared,
            OfferError::ExistingSysMem { .. } => Self::ExistingSysMem,
            _ => Self::Other,
        }
    }
}

impl From<&ReclaimError> for Answer {
    fn from(error: &ReclaimError) -> Self {
        match error {
            ReclaimError::InvalidHandle(_) => Self::InvalidHandle,
            ReclaimError::DeviceInError(_) => Self::DeviceInError,
            ReclaimError::Empty => Self::Empty,
            ReclaimError::WrongDevice { .. } => Self::WrongDevice,
            ReclaimError::NotOffered { .. } => Self::NotOffered,
            ReclaimError::TooManyPending { .. } => Self::TooManyPending,
            _ => Self::Other,
        }
    }
}

impl From<&LockError> for Answer {
    fn from(error: &LockError) -> Self {
        match error {
            LockError::InvalidHandle(_) => Self::InvalidHandle,
            LockError::DeviceInError(_) => Self::DeviceInError,
            LockError::WrongDevice => Self::WrongDevice,
            LockError::Offered => Self::Offered,
            LockError::NotCommitted => Self::NotCommitted,
            LockError::NotLockable => Self::NotLockable,
            LockError::AllocationBusy => Self::Busy,
            LockError::TooManyReferences { .. } => Self::TooManyReferences,
            LockError::CpuAddress(_) => Self::CpuAddress,
            _ => Self::Other,
        }
    }
}

impl From<&UnlockError> for Answer {
    fn from(error: &UnlockError) -> Self {
        match error {
            UnlockError::InvalidHandle(_) => Self::InvalidHandle,
            UnlockError::NotLocked => Self::NotLocked,
            _ => Self::Other,
        }
    }
}

impl From<&OpenError> for Answer {
    fn from(error: &OpenError) -> Self {
        match error {
            OpenError::InvalidHandle(_) => Self::InvalidHandle,
            OpenError::DeviceInError(_) => Self::DeviceInError,
            OpenError::NotShared => Self::NotShared,
            OpenError::AlreadyOpen => Self::AlreadyOpen,
            OpenError::NotOpen => Self::NotOpen,
            OpenError::ReferenceLists => Self::NotSupported,
            OpenError::Kmd(_) => Self::Kmd,
            _ => Self::Other,
        }
    }
}

impl From<&UpdateError> for Answer {
    fn from(error: &UpdateError) -> Self {
        match error {
            UpdateError::InvalidHandle(_) => Self::InvalidHandle,
            UpdateError::DeviceInError(_) => Self::DeviceInError,
            UpdateError::WrongDevice => Self::WrongDevice,
            UpdateError::Impossible(_) => Self::Impossible,
            UpdateError::Vetoed => Self::Vetoed,
            UpdateError::NotSupported(_) => Self::NotSupported,
            UpdateError::TooManyPending { .. } => Self::TooManyPending,
            _ => Self::Other,
        }
    }
}

impl From<&ReservationError> for Answer {
    fn from(error: &ReservationError) -> Self {
        match error {
            ReservationError::InvalidHandle(_) => Self::InvalidHandle,
            ReservationError::TooMuch { .. } => Self::TooMuch,
            _ => Self::Other,
        }
    }
}

impl From<&MapError> for Answer {
    fn from(error: &MapError) -> Self {
        match error {
            MapError::PhysicalAddresses => Self::NotSupported,
            MapError::InvalidHandle(_) => Self::InvalidHandle,
            MapError::DeviceInError(_) => Self::DeviceInError,
            MapError::Range(_) => Self::Range,
            MapError::WrongDevice => Self::WrongDevice,
            MapError::Part { .. } => Self::Part,
            MapError::NoMemory { .. } => Self::NoMemory,
            MapError::BackingStore(_) => Self::BackingStore,
            MapError::TooManyPending { .. } => Self::TooManyPending,
            _ => Self::Other,
        }
    }
}

impl From<&SubmitError> for Answer {
    fn from(error: &SubmitError) -> Self {
        match error {
            SubmitError::InvalidHandle(_) => Self::InvalidHandle,
            SubmitError::DeviceInError(_) => Self::DeviceInError,
            SubmitError::NotResident { .. } => Self::NotResident,
            SubmitError::QueueFull { .. } => Self::QueueFull,
            _ => Self::Other,
        }
    }
}

impl From<&RenderError> for Answer {
    fn from(error: &RenderError) -> Self {
        match error {
            RenderError::InvalidHandle(_) => Self::InvalidHandle,
            RenderError::DeviceInError(_) => Self::DeviceInError,
            RenderError::GpuVirtualAddresses => Self::NotSupported,
            RenderError::WrongDevice { .. } => Self::WrongDevice,
            RenderError::NotResident { .. } => Self::NotResident,
            RenderError::QueueFull { .. } => Self::QueueFull,
            RenderError::PatchLocationList { .. } => Self::PatchLocationList,
            RenderError::Driver(status) => match status {
                RenderStatus::InsufficientDmaBuffer | RenderStatus::NoMemory => Self::Kmd,
                RenderStatus::PrivilegedInstruction => Self::PrivilegedInstruction,
                RenderStatus::IllegalInstruction => Self::IllegalInstruction,
                RenderStatus::InvalidParameter => Self::InvalidParameter,
                RenderStatus::InvalidHandle => Self::InvalidHandle,
            },
            _ => Self::Other,
        }
    }
}

impl From<&GpuVaError> for Answer {
    fn from(error: &GpuVaError) -> Self {
        match error {
            GpuVaError::InvalidHandle(_) => Self::InvalidHandle,
            GpuVaError::Range(_) => Self::Range,
            GpuVaError::NoMemory { .. } => Self::NoMemory,
            GpuVaError::BackingStore(_) => Self::BackingStore,
            _ => Self::Other,
        }
    }
}
