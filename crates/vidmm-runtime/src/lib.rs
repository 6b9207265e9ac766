//! The loop that joins the core, a driver, a GPU and a host.
//!
//! [`Runtime`] is the loop; [`Gpu`] executes; [`Umd`] encodes user work, whose results are specified in [`kernel`] so
//! that they can be judged. [`HookedKmd`] is a driver behind a hook that encodes in its place, as a [`DriverFault`]
//! does; [`HookedHost`] is a host behind a hook. A [`GpuFault`] or an [`InterruptFault`] lets a GPU misbehave, or its
//! driver misreport it. [`Hits`] says on which occasions. A [`Verifier`] finds what a driver's commands did wrong, with
//! the GPU's [`Probe`].

mod calls;
mod driver_fault;
mod early_unmap;
mod faults;
mod free_ranges;
mod garbled;
mod gpu;
mod gpu_faults;
mod hook;
mod host_hook;
mod interrupt_faults;
pub mod kernel;
mod named_faults;
mod occasions;
mod patching;
mod probe;
mod runtime;
mod transfer_offset;
mod umd;
mod verifier;

pub use calls::Running;
pub use driver_fault::DriverFault;
pub use free_ranges::FreeRanges;
pub use gpu::{CpuView, Gpu, GpuEvent};
pub use gpu_faults::GpuFault;
pub use hook::{HookedKmd, KmdHook, KmdObject};
pub use host_hook::{HookedHost, HostHook};
pub use interrupt_faults::InterruptFault;
pub use kernel::{Content, KernelCommand, PageRange, Surface};
pub use occasions::{FaultSwitch, Hits, Occasions, mixed};
pub use patching::{BoundKernel, BoundRange, CommandStep, UserCommands};
pub use probe::{Probe, Sees, TableEntry};
pub use runtime::{Happening, Machine, Runtime};
pub use transfer_offset::TransferOffset;
pub use umd::{AllocationDesc, AllocationSegments, CpuAccess, MemoryKind, Placement, SegmentOrder, Umd};
pub use verifier::{Offsets, PageContent, Request, Verifier, Wrong, WrongEffect, may_be_empty};
