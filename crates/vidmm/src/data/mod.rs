//! Small containers that know nothing of memory management.

pub(crate) mod extents;
pub(crate) mod free_ranges;
pub(crate) mod ordered_set;
pub(crate) mod packed;
pub(crate) mod progress;
pub(crate) mod rank_queue;
pub(crate) mod tree;
