//! The driver contract in C.
//!
//! A driver is a shared library with a `DriverEntry` that hands over its table of `DxgkDdi` functions. Its memory-management code
//! is that of a driver for Windows: the headers in `include/` have WDDM's names and layouts. [`Driver::load`] loads it, and
//! [`DriverMachines`] makes machines of it: the manager calls its functions, and a model of its GPU, if it brings one, executes
//! what it encodes. `docs/guides/c-drivers.md` is the guide.
//!
//! The driver is called by one thread; threads of its own may report interrupts. What it does to its own process it does to ours: a supervisor belongs around it, which
//! reads [`Progress`] when the process has died.

// A file imports only from those above it.
mod abi;
mod reports;
mod progress;
pub mod processes;
mod loaded;
mod library;
mod memory;
mod dice;
mod mdls;
mod targets;
mod guards;
mod dma_buffers;
mod bounce;
mod page_tables;
mod compression;
mod numbers;
mod inbox;
mod adapter;
mod callbacks;
mod segments;
mod components;
mod host_aperture;
mod iommu;
mod description;
mod user_work;
mod wrong_lists;
mod payload;
mod building;
mod allocation_info;
mod opened;
mod power;
mod timeouts;
mod allocations;
mod several;
mod cancellation;
mod patching;
mod present;
mod kmd;
mod engine;
mod gpu;
mod standard;
mod umd;
mod machines;
mod policy;

pub use library::{Driver, LoadError};
pub use machines::DriverMachines;
pub use policy::{LoadPolicyError, load_policy};
pub use progress::{OPERATIONS, Progress, Running};
pub use reports::{Report, ReportKind, take_deepest, take_reports};

#[cfg(test)]
mod layout;
