//! The steps of an explicit scenario: one call each, with the answer that is expected.
//!
//! ```toml
//! [[step]]
//! create-allocation = "A"
//! size = "16 MiB"
//! segments = "system"
//! notify = ["eviction"]
//!
//! [[step]]
//! make-resident = "A"
//! expect = "pending"
//! ```
//!
//! A step is a table whose verb is one of its keys; the verb's value names what the call is about. Names are given by the steps
//! that create things, and each may be used from then on. A process `P` with a device `D` is there unless steps say otherwise.

// A file imports only from those above it.
mod answer;
mod names;
mod list;
mod objects;
mod residency;
mod budget;
mod kernel;
mod render;
mod fault;
mod call;
mod display;
mod lists;
mod check;
mod tables;
mod read;
mod write;

pub use answer::Answer;
pub use budget::{ExpectTrim, Group, Intervals, ProcessPriority, QueryVideoMemory, ReserveVideoMemory, TrimFlag};
pub use call::{Action, ApertureShows, Call, CheckAperture, Look, Power, Until, Whereabouts};
pub(super) use check::{check_steps, drop_orphans};
pub use fault::{CheckError, CheckResets, ErrorReason};
pub use kernel::{Kernel, KernelEngine};
pub use objects::{
    AllocationPriority, CpuAccess, CreateAllocation, CreateDevice, DestroyAllocation, DestroyFlag, DirectionName,
    ForgeHandle, FreeVa, HandleKind, KillProcess, MapAllocation, OnDevice, ResidencyLists,
};
pub(super) use read::read_steps;
pub use render::{Bound, HostileList, Render, RenderCommand};
pub use residency::{
    Evict, EvictFlag, MakeResident, MakeResidentFlag, Offer, OfferFlag, OfferPriority, Reclaim, ReclaimResult,
    SetPriority, UpdateProperty,
};

/// The device of steps that name none.
pub const DEFAULT_DEVICE: &str = "D";

/// The process of devices that name none.
pub const DEFAULT_PROCESS: &str = "P";

/// What is done at one time, and what it must answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The line of its table in the file, counted from 1.
    pub line: usize,
    /// What it does.
    pub action: Action,
    /// The answer that a call must give; none is anything but a refusal.
    pub expect: Option<Answer>,
}
