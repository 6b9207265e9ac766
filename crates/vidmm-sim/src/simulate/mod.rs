//! Random worlds, each judged by an oracle step by step: the worlds of `vidmm sim`.
//!
//! A seed draws a machine, programs and their mistakes ([`World`]); a [`Player`] makes calls as such programs would;
//! the session judges every event and every page by the rules. The moves are steps of a scenario, so a failure can be
//! written to a file and run again.

// A file imports only from those above it.
mod dice;
mod profile;
mod habits;
mod world;
mod cast;
mod own_queues;
mod owners;
mod reservations;
mod reserving;
mod player;
mod announcing;
mod memory;
mod work;
mod surroundings;
mod unusual;
mod simpler;
mod shrink;
mod unmet;
mod coverage;
mod outcome;
mod campaign;

pub use campaign::{Campaign, Tally};
pub use coverage::Coverage;
pub use outcome::{Failure, Outcome, SimDesc, replay, simulate};
pub(crate) use outcome::{machine_of, simulate_in};
pub use profile::Profile;
pub use shrink::shrink;
