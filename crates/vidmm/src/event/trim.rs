//! Trim notifications (5.5).

use bitflags::bitflags;

use crate::units::Nanoseconds;

bitflags! {
    /// The reasons of a trim notification (RES-41).
    #[doc(alias = "D3DDDI_TRIMRESIDENCYSET_FLAGS")]
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    #[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
    pub struct TrimFlags: u32 {
        /// Evict all allocations that were not referenced since the last periodic trim (RES-42).
        const PERIODIC_TRIM = 1 << 0;
        /// A new period begins, without evicting: in the last one no work ran. Never with `PERIODIC_TRIM`.
        const RESTART_PERIODIC_TRIM = 1 << 1;
        /// The process is over its budget: evict `num_bytes_to_trim`.
        const TRIM_TO_BUDGET = 1 << 2;
    }
}

/// The intervals at which processes are asked to trim (RES-43). The defaults are ours (U-29).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrimIntervals {
    /// Between two periodic trims while memory is short, and between two requests to trim to a budget that has not moved.
    pub min: Nanoseconds,
    /// Between two periodic trims while more than 70 % of the memory is on lists.
    pub max: Nanoseconds,
    /// Between two periodic trims otherwise.
    pub idle: Nanoseconds,
}

impl Default for TrimIntervals {
    fn default() -> Self {
        Self { min: 1_000_000_000, max: 5_000_000_000, idle: 10_000_000_000 }
    }
}
