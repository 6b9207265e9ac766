//! The loop that joins the core, a driver, a GPU and a host.
//!
//! [`Runtime`] is the loop; [`Gpu`] is what executes; [`Umd`] encodes user work, whose results are specified in
//! [`kernel`] so that they can be judged; [`FaultyKmd`] is a driver with a mistake in it.

mod faults;
mod gpu;
pub mod kernel;
mod runtime;

pub use faults::{DriverFault, FaultyKmd};
pub use gpu::{Gpu, GpuEvent};
pub use kernel::{AllocationDesc, AllocationSegments, Content, KernelCommand, PageRange, Surface, Umd};
pub use runtime::{Happening, Machine, Runtime};
