//! Runs in lockstep with the model GPU (D15, D26).

mod executor;
mod host;
mod tables;
mod direct;
mod machine;

pub use executor::VulkanExecutor;
pub use machine::{direct_machine, machine};
