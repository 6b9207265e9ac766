//! Scenarios: a workload or steps, a machine, and the mistakes that are made on purpose.
//!
//! A scenario is a TOML file. Every key has a default, so an empty file is the training demonstration. An error names
//! the file and the line, and says what to write instead.

// A file imports only from those above it.
mod limits;
mod number;
mod keys;
mod duration;
mod fault;
mod judged_by;
mod page_size;
mod amount;
mod contract;
mod memory;
mod paging_va;
mod linked;
mod tdr;
mod value;
mod verifier;
mod write_behind;
mod adapter;
mod page_tables;
mod cost;
mod client;
mod error;
mod problem;
mod submissions;
mod source;
mod process;
mod script;
mod definition;
pub mod steps;
mod explicit;
mod file;
mod needs;
mod written;

pub use adapter::{AdapterSettings, MoreAperture, MoreMemory, PageTables, UpdateMode};
pub use amount::local_memory;
pub use client::ClientSettings;
pub use contract::Wddm;
pub use cost::CostSettings;
pub use definition::{Processes, Scenario};
pub use duration::Duration;
pub use error::ScenarioError;
pub use explicit::ExplicitScenario;
pub use fault::{Fault, FaultError, FaultKind, When};
pub use file::ScenarioFile;
pub use judged_by::JudgedBy;
pub use linked::LinkedAdapter;
pub use memory::Notification;
pub use page_size::PageSize;
pub use page_tables::PageTableError;
pub use paging_va::PagingVa;
pub use process::{ProcessBehaviour, ProcessSettings};
pub use script::{Change, Check, CompareSettings, Script, TableSettings};
pub use source::{TraceSource, WorkloadSource};
pub use submissions::SubmissionsSource;
pub use tdr::{EngineName, TdrSettings};
pub use verifier::VerifierSettings;
pub use write_behind::WriteBehindSettings;
