//! Calls admit: they validate, decide counts and feasibility, and answer at once. They never wait.

pub(crate) mod events;

pub use address::{MapGpuVirtualAddress, Mapped, Reserved};
pub use allocations::{CreateAllocationDesc, CreateAllocationFlags};
pub use objects::{CreateDeviceDesc, CreateMonitoredFenceDesc};
pub use offering::Reclaimed;
pub use properties::UpdateAllocationProperty;
pub use rendering::{AllocationListDesc, RenderDesc};
pub use resident::{AllocationResidencyStatus, Residency};
pub use room::{Holder, MemoryRoom, Room, RoomRefusal};
pub use start::AdapterOptions;
pub use statistics::{QueryStatistics, SegmentStatistics};

pub(crate) mod address;
pub(crate) mod admission;
pub(crate) mod allocations;
mod announcing;
pub(crate) mod budgets;
pub(crate) mod candidates;
pub(crate) mod cpu_access;
pub(crate) mod free_address;
pub(crate) mod objects;
pub(crate) mod offering;
pub(crate) mod power;
pub(crate) mod properties;
pub(crate) mod refusal;
pub(crate) mod rendering;
pub(crate) mod resident;
pub(crate) mod room;
pub(crate) mod sharing;
pub(crate) mod paging_va;
pub(crate) mod patch_list;
pub(crate) mod start;
pub(crate) mod statistics;
pub(crate) mod stop;
pub(crate) mod suspension;
pub(crate) mod termination;
pub(crate) mod trimming;
pub(crate) mod uses;
pub(crate) mod work;
