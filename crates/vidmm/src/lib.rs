//! vidmm: a portable GPU video memory manager with the contract of WDDM.
//!
//! The crate is the pure core: the manager decides which allocations are resident, asks a driver to encode transfers and
//! page-table updates, and outputs packets for the GPU. The core has no clock, no threads, no I/O. Begin with [`VidMm`]; a
//! driver and an operating system implement [`contract`].
#![no_std]

extern crate alloc;

// In the order of the data flow: units and names, the contract, the adapter, ranges and places, address spaces, residency,
// plans and the stream, and the manager on top.
mod units;
mod id;
mod data;
pub mod contract;
mod buggify;
mod budget;
mod adapter;
mod gpu_va;
pub mod event;
mod moment;
mod objects;
mod engines;
mod memory;
mod shares;
pub mod policy;
mod residency;
mod addresses;
mod state;
mod placement;
mod plans;
mod requests;
mod work;
mod schedule;
mod dispatch;
mod recovery;
mod manager;
mod calls;
mod poll;
mod check;

pub use adapter::NotificationRevision;
pub use adapter::patching::{PatchListRule, PreparationKnobs};
pub use adapter::verifier::VerifierKnobs;
pub use adapter::write_behind::WriteBehind;
pub use budget::{MemoryAccount, MemorySegmentGroup, PriorityBand, VideoMemoryInfo, Visibility};
pub use calls::{
    AdapterOptions, AllocationListDesc, AllocationResidencyStatus, CreateAllocationDesc, CreateAllocationFlags,
    CreateDeviceDesc, CreateMonitoredFenceDesc, Holder, MapGpuVirtualAddress, Mapped, MemoryRoom, QueryStatistics,
    Reclaimed, RenderDesc, Reserved, Residency, Room, RoomRefusal, SegmentStatistics, UpdateAllocationProperty,
};
pub use check::CheckError;
pub use contract::{BrokenRule, StartAdapterError};
pub use engines::recovering::TdrOptions;
pub use event::destroy_flags::DestroyFlags;
pub use event::device_residency::DeviceResidency;
pub use event::error::{
    AllocationInfoRule, AnnounceError, CreateError, DestroyError, DeviceErrorReason, DeviceInError, DriverFinding,
    EndUseError, EvictError, GpuVaError, LockError, MakeResidentError, MapError, NoMemoryReason, OfferError, OpenError,
    PriorityError, QueryStatisticsError, ReclaimError, ReservationError, Shortage, SubmitError, UnlockError,
    UpdateError, Violation,
};
pub use event::list_flags::{EvictFlags, MakeResidentFlags};
pub use event::offer::{OfferFlags, OfferPriority, ReclaimResult};
pub use event::render_error::RenderError;
pub use event::trim::{TrimFlags, TrimIntervals};
pub use event::{Event, EventLog, NumberedEvent};
pub use gpu_va::VaRangeError;
pub use id::{
    AllocationId, ContextId, DeviceId, Id, InvalidHandle, Kind, MonitoredFenceId, PagingQueueId, PlanNo, ProcessId,
    SubmissionNo, TrimNotificationId, kind,
};
pub use manager::VidMm;
pub use moment::{Output, Statistics};
pub use objects::submission::{FenceValueDesc, SubmitDesc};
pub use objects::traffic::Traffic;
pub use units::{
    Bytes, Extent, GpuVirtualAddress, Nanoseconds, PAGE_SIZE, PAGE_SIZE_64K, PageSize, PhysicalAddress, SegmentId,
};
