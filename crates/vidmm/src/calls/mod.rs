//! Calls admit: they validate, decide counts and feasibility, and answer at once. They never wait.

mod address;
mod admission;
mod allocations;
mod objects;
mod resident;
mod start;
mod work;

pub use address::{MapGpuVirtualAddress, Mapped};
pub use resident::Residency;
pub use start::AdapterOptions;
pub use work::{FenceValueDesc, SubmitDesc};
