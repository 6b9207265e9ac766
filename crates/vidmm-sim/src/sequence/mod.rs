//! The manager's requests to driver, GPU and host, as a person would draw them.

// A file imports only from those above it.
mod words;
mod names;
mod entries;
mod sentences;
mod recovery;
mod portions;
mod narrator;

pub use narrator::Line;
pub(crate) use narrator::Narrator;
pub use portions::{PortionRow, Portions, SlotRow, SlotState};
pub(crate) use words::trim_flags;
