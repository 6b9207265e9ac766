//! What is sent for an allocation, in words, and the rules of the documents for it.

pub mod rules;
pub mod transcript;

pub use rules::{Mapping, Subject, check_entry, check_exit};
pub use transcript::{Step, transcript};
