//! Scenario files, the oracle that judges a run, and the bugs that are planted to see that it does.

#[path = "../../../vidmm-cli/src/soft.rs"]
mod soft;

mod faults;
mod oracle;
mod planted;
mod scenario;
mod semantic;
mod steps;
mod transfer_offset;
mod written;
