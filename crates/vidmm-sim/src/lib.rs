//! Scenarios, the client that runs them, and the oracle that judges them.
//!
//! A [`Scenario`] says what is run and on what machine: it is read from a TOML file in which everything has a default.
//! The [`Oracle`] works out from the workload alone what every kernel must read, and judges every page that kernels did
//! read.

mod client;
mod machine;
mod oracle;
mod run;
mod scenario;
mod timeline;

pub use client::ClientError;
pub use machine::{MachineDesc, MachineFactory};
pub use oracle::{Content, Oracle, Verdict, WrongPage};
pub use run::{Finding, Observer, Report, RunDesc, RunError, Unobserved, run};
pub use scenario::{
    AdapterSettings, ClientSettings, CostSettings, Fault, FaultError, PageSize, PageTableError, PageTables, Scenario,
    ScenarioError, TraceSource, WorkloadSource,
};
pub use timeline::Shares;
