//! The core's contract with the driver ([`Kmd`]) and the operating system ([`Host`]).
//!
//! The core borrows both for the length of a call, and keeps neither. GPU work is an output of [`poll`](crate::VidMm::poll),
//! and the end of the work is an input.
//!
//! # Who validates what
//!
//! The *caller* of the core is validated exhaustively by the core, with typed errors. The *driver* is under test: the core
//! bounds all values from the driver, and an answer against a rule is a [`Violation`](crate::Violation), which puts the adapter
//! in error. A driver need not check the core's arguments: operations name live handles, ranges inside the allocation, and
//! addresses inside the segments that the driver itself reported.
//!
//! # A whole driver
//!
//! ```
#![doc = include_str!("example_driver.rs")]
#![doc = include_str!("example_build.rs")]
//! ```

mod adapter;
mod allocation;
mod broken_rule;
mod dma;
mod host;
mod interrupt;
mod kmd;
mod paging;
mod patching;
mod pte;

pub use adapter::{
    AdapterInfo, AddressingModel, EngineDesc, EngineKind, GpuMmuCaps, GpuMmuFlags, LegacyBehaviors, PageTableLevelDesc,
    PageTableUpdateMode, PagingBufferDesc, PatchingCaps, SegmentDescriptor, SegmentFlags, VidMmCaps, WddmVersion,
};
pub use allocation::{
    ALLOCATION_PRIORITY_NORMAL, AllocationFlags, AllocationFlags2, AllocationInfo, CreateAllocationError, Direction,
    SegmentBankPreference, SegmentPreference, SegmentSet,
};
pub use broken_rule::{BrokenRule, StartAdapterError};
pub use dma::{DmaBuffer, EngineFence, Packet, PagingBuffer, RenderedBuffer};
pub use host::{BackingStoreError, CpuAddressError, CpuVirtualAddress, Host, IoMmuDomain};
pub use interrupt::{
    DmaPageFaulted, FaultErrorCode, NotifyInterrupt, PageFaultFlags, ResetEngineError, RestartError, ReturnedBuffers,
};
pub use kmd::{
    Kmd, KmdAllocationHandle, KmdContextHandle, KmdError, KmdOpenHandle, KmdProcessHandle, RootPageTable, SubmitCommand,
};
pub use paging::*;
pub use patching::{AllocationListElement, Patch, PatchLocation, Render, RenderStatus};
pub use pte::{Pte, PteFlags, PteRun};
