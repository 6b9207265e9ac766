//! What vidmm runs: workloads, the trace formats they are read from, and generators.
//!
//! A [`Workload`] is a list of buffers and a list of kernels that read and write them, in order.
//! It comes from one of two places:
//!
//! * [`import::read`] reads a recorded trace: a G10 training iteration or a Mooncake serving log;
//! * [`Generator::generate`] makes one from a few parameters and a seed.
//!
//! Both return a workload that passed [`Workload::validate`] and in which no kernel reads a buffer
//! that nothing wrote: what the host must load first is there as an explicit upload.
//!
//! Everything here is deterministic: the same bytes, parameters and seed give the same workload on
//! every run.

pub mod generate;
pub mod import;
pub mod size;
pub mod workload;

pub use generate::Generator;
pub use import::{ImportError, ImportOptions};
pub use size::{ByteSize, LocalMemory, SizeError};
pub use workload::{Buffer, Cost, Engine, Footprint, Kernel, Lifetime, Workload, WorkloadError};
