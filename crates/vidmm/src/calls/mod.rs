//! Calls admit: they validate, decide counts and feasibility, and answer at once. They never wait.

mod address;
mod admission;
mod allocations;
mod budgets;
mod cpu_access;
mod free_address;
mod objects;
mod offering;
mod power;
mod properties;
mod rendering;
mod resident;
mod sharing;
mod start;
mod suspension;
mod trimming;
mod work;

pub use address::{MapGpuVirtualAddress, Mapped};
pub use allocations::{CreateAllocationDesc, CreateAllocationFlags, DestroyFlags};
pub use objects::CreateDeviceDesc;
pub use offering::Reclaimed;
pub use properties::UpdateAllocationProperty;
pub use rendering::{AllocationListDesc, RenderDesc};
pub use resident::Residency;
pub use start::AdapterOptions;
