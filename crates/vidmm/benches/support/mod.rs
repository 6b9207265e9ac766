//! The common parts of benchmarks: an adapter that costs nothing beside the manager, draws, the stand-in for the peers, the
//! arguments, the report.

pub mod clock;
pub mod draws;
pub mod parts;
pub mod ptr_lru;
pub mod report;
pub mod sort_and_fill;
pub mod world;
