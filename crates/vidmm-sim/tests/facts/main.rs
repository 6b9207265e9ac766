//! Scenario files, and the oracle that judges a run.

#[path = "../../../vidmm-cli/src/soft.rs"]
mod soft;

mod faults;
mod oracle;
mod policies;
mod scenario;
mod semantic;
mod steps;
mod transfer_offset;
mod written;
