//! The input of vidmm's runs: workloads, the trace formats they are read from, and generators.
//!
//! A [`Workload`] is a list of buffers and a list of kernels that read and write them, in order.
//! It comes from one of two places:
//!
//! * [`import::read`] reads a recorded trace of a [`TraceFormat`];
//! * [`Generator::generate`] makes one from a few parameters and a seed.
//!
//! Both return a workload that passed [`Workload::validate`] and in which no kernel reads a buffer that no kernel
//! wrote: the host loads its content in an explicit upload.
//!
//! A run leaves an event log, which the module [`log`] writes, reads and audits; [`explain`] tells the story of one
//! allocation in it, [`faults`] reports errors and resets while the run goes on, and [`rights`] finds work that uses what its
//! device has evicted or offered.
//!
//! Everything here is deterministic: the same bytes, parameters and seed give the same workload on
//! every run.

pub mod explain;
pub mod faults;
pub mod generate;
pub mod import;
pub mod log;
pub mod packed;
pub mod rights;
pub mod segments;
pub mod size;
pub mod workload;

pub use explain::{ExplainError, Explanation, Explanations, allocation_name};
pub use faults::FaultReporter;
pub use generate::{Generator, SplitMix64};
pub use import::{ImportError, ImportOptions, TraceFormat};
pub use log::{Audit, AuditFinding, EventsLevel, Invariant, LogError, LogFile, LogHeader, LogReader, LogWriter};
pub use rights::{EndOfRight, IllegalUse, Rights};
pub use segments::Segments;
pub use size::{ByteSize, LocalMemory, SizeError};
pub use workload::{Buffer, Cost, Engine, Footprint, Kernel, Lifetime, Workload, WorkloadError};
