//! Explicit scenarios: calls one by one, their answers compared with what is expected, and everything that was written
//! compared with a ledger.

// A file imports only from those above it.
mod held;
mod ledger;
mod objects;
mod report;
mod truth;
mod graves;
mod in_error;
mod rules;
mod session;
mod told;
mod faults;
mod page_faults;
mod calls;
mod addresses;
mod forged;
mod render;
mod uses;
mod residency;
mod cpu;
mod budget;
mod life;
mod checks;
mod run;

pub use report::{ExplicitReport, StepFinding};
pub use run::run_explicit;
pub(crate) use run::start;
pub(crate) use session::Session;
