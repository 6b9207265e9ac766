//! vidmm: a portable GPU video memory manager with the contract of WDDM.
//!
//! The crate is the pure core: it decides which allocations are resident, asks a driver to encode what moves them, and says
//! what is to be handed to the GPU. It has no clock, no threads, no I/O. [`VidMm`] is where to begin; [`contract`] is what a
//! driver and an operating system implement.
#![no_std]

extern crate alloc;

// In the order in which data flows: units and names, the contract, the adapter, ranges and places, address spaces,
// residency, plans and the stream, and the manager that joins them.
mod units;
pub mod linear;
mod u56;
mod id;
mod ordered_set;
pub mod contract;
mod planted;
mod buggify;
mod adapter;
mod pool;
mod progress;
mod budget;
mod trim;
mod offer;
mod cpu_view;
mod free_ranges;
mod extents;
mod patching;
mod linear_placer;
mod placer;
mod commit;
mod aperture;
mod gpu_va;
mod list_flags;
mod device_residency;
mod spans;
mod place;
mod residency;
mod allocation;
mod evictable;
mod request;
mod turn;
mod paging;
mod error;
mod split;
mod render_error;
mod submission;
mod engine;
mod paging_va;
pub mod event;
mod recovery;
mod state;
mod holds;
mod packing;
mod calls;
mod poll;
mod check;
pub mod client;

pub use adapter::{BrokenRule, NotificationRevision, StartAdapterError};
pub use budget::{MemorySegmentGroup, PriorityBand, VideoMemoryInfo, Visibility};
pub use calls::{
    AdapterOptions, AllocationListDesc, CreateAllocationDesc, CreateAllocationFlags, CreateDeviceDesc, DestroyFlags,
    MapGpuVirtualAddress, Mapped, Reclaimed, RenderDesc, Residency, UpdateAllocationProperty,
};
pub use check::CheckError;
pub use device_residency::DeviceResidency;
pub use error::{
    AllocationInfoRule, CreateError, DestroyError, DeviceErrorReason, DeviceInError, DriverFinding, EvictError,
    GpuVaError, LockError, MakeResidentError, MapError, NoMemoryReason, OfferError, OpenError, PriorityError,
    ReclaimError, ReservationError, SubmitError, UnlockError, UpdateError, Violation,
};
pub use event::{Event, EventLog, NumberedEvent};
pub use gpu_va::VaRangeError;
pub use id::{
    AllocationId, ContextId, DeviceId, Id, InvalidHandle, Kind, MonitoredFenceId, PagingQueueId, PlanNo, ProcessId,
    SubmissionNo, TrimNotificationId, kind,
};
pub use offer::{OfferFlags, OfferPriority, ReclaimResult};
pub use patching::{PatchListRule, PreparationKnobs};
#[cfg(feature = "planted-bugs")]
pub use planted::PlantedBug;
pub use recovery::TdrOptions;
pub use render_error::RenderError;
pub use residency::{EvictFlags, MakeResidentFlags};
pub use state::{Output, Statistics, VidMm};
pub use submission::{FenceValueDesc, SubmitDesc};
pub use trim::{TrimFlags, TrimIntervals};
pub use units::{
    Extent, GpuVirtualAddress, Nanoseconds, PAGE_SIZE, PAGE_SIZE_64K, PageSize, PhysicalAddress, SegmentId,
};
