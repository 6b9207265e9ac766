//! A fuzzer without coverage: inputs are drawn and changed at random, from a seed, and one that fails is shrunk and
//! written to a file.

mod mutate;
mod corpus;
mod shrink;
mod execute;
mod watchdog;
mod campaign;

pub use campaign::{Campaign, Found, Until};
pub use corpus::Corpus;
pub use execute::{be_quiet, failure};
pub use watchdog::LONGEST;
