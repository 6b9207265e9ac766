//! What the manager asked of driver, GPU and host, as a person would draw it.

// A file imports only from those above it.
mod words;
mod names;
mod entries;
mod sentences;
mod recovery;
mod narrator;

pub use narrator::Line;
pub(crate) use narrator::Narrator;
pub(crate) use words::trim_flags;
