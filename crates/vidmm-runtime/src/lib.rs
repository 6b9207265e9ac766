//! The loop that joins the core, a driver, a GPU and a host.

mod gpu;
mod kernel;

pub use gpu::{Gpu, GpuEvent};
pub use kernel::{Content, KernelCommand, PageRange, Umd};
