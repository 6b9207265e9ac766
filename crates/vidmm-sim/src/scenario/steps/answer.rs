//! The answers of calls, by name.

use std::fmt;

use serde::{Deserialize, Serialize};
use vidmm::contract::RenderStatus;
use vidmm::{
    AnnounceError, CreateError, DestroyError, EndUseError, EvictError, GpuVaError, InvalidHandle, LockError,
    MakeResidentError, MapError, OfferError, OpenError, PriorityError, ReclaimError, RenderError, ReservationError,
    SubmitError, UnlockError, UpdateError, VaRangeError,
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
    /// So many processes share one address space that none is left of it for another (U-17).
    NoAddresses,
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
    /// The addresses cannot be had, or there is no such priority.
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
    /// Work or requests of an object are queued or under way.
    InUse,
    /// A use has not begun, or has ended.
    NotUnderWay,
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
    /// No call gives it: a step that expects it takes any answer.
    Any,
}

impl Answer {
    /// Whether the call was done.
    pub fn is_done(self) -> bool {
        matches!(self, Self::Ok | Self::Pending)
    }

    /// Whether the driver broke a rule.
    pub fn is_violation(self) -> bool {
        matches!(self, Self::Violation | Self::PatchLocationList)
    }
}

impl fmt::Display for Answer {
    /// The spelling in scenarios.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
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

impl From<&RenderStatus> for Answer {
    fn from(status: &RenderStatus) -> Self {
        match status {
            RenderStatus::InsufficientDmaBuffer | RenderStatus::NoMemory => Self::Kmd,
            RenderStatus::PrivilegedInstruction => Self::PrivilegedInstruction,
            RenderStatus::IllegalInstruction => Self::IllegalInstruction,
            RenderStatus::InvalidParameter => Self::InvalidParameter,
            RenderStatus::InvalidHandle => Self::InvalidHandle,
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
            RenderError::Driver(status) => status.into(),
        }
    }
}

/// The scenarios' name for an answer of the manager, by the manager's name or another.
macro_rules! by_name {
    ($Name:ident: $($Error:ident { $($reason:ident $(as $name:ident)?,)* })*) => {
        $(impl From<&$Error> for $Name {
            fn from(error: &$Error) -> Self {
                match error {
                    $($Error::$reason { .. } => by_name!(@ $reason $($name)?),)*
                }
            }
        })*
    };
    (@ $reason:ident) => { Self::$reason };
    (@ $reason:ident $name:ident) => { Self::$name };
}

pub(super) use by_name;

by_name! { Answer:
    CreateError {
        InvalidHandle, DeviceInError, Kmd, Allocation, BackingStore, NoMemory, Engine, Violation, ProcessBlocked,
        NoPagingVa, NotSupported, ReferenceLists as NotSupported, PhysicalAddresses as NotSupported, NoAddresses,
        PageTableAreaFull as NoMemory,
    }
    MakeResidentError {
        InvalidHandle, DeviceInError, Empty, WrongDevice, NoMemory, Flags, Offered, NotCommitted, TooManyPending,
    }
    AnnounceError { InvalidHandle, DeviceInError, WrongDevice, }
    EvictError { InvalidHandle, DeviceInError, Empty, NotResident, ReferenceLists as NotSupported, }
    OfferError {
        InvalidHandle, DeviceInError, Empty, ReferenceLists as NotSupported, WrongDevice, Offered, Locked, Shared,
        ExistingSysMem, NotCommitted,
    }
    ReclaimError {
        InvalidHandle, DeviceInError, Empty, WrongDevice, NotOffered, TooManyPending, NoMemory,
    }
    LockError {
        InvalidHandle, DeviceInError, WrongDevice, Offered, NotCommitted, NotLockable, AllocationBusy as Busy,
        TooManyReferences, CpuAddress,
    }
    UnlockError { InvalidHandle, NotLocked, }
    OpenError { InvalidHandle, DeviceInError, NotShared, AlreadyOpen, NotOpen, ReferenceLists as NotSupported, Kmd, }
    UpdateError { InvalidHandle, DeviceInError, WrongDevice, Impossible, Vetoed, NotSupported, TooManyPending, }
    ReservationError { InvalidHandle, TooMuch, }
    MapError {
        PhysicalAddresses as NotSupported, InvalidHandle, DeviceInError, Range, WrongDevice, Part, NoMemory,
        PageTableAreaFull as NoMemory, BackingStore, TooManyPending,
    }
    SubmitError { InvalidHandle, DeviceInError, NotResident, WrongContext as NotSupported, QueueFull, }
    DestroyError { InvalidHandle, InUse, }
    EndUseError { InvalidHandle, NotUnderWay, Waits as Busy, }
    PriorityError { InvalidHandle, Range, }
    GpuVaError { InvalidHandle, Range, NoMemory, PageTableAreaFull as NoMemory, BackingStore, }
}
