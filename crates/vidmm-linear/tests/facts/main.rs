//! Placement in a linear segment, as documented.

mod placement;
mod properties;
