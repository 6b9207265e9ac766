//! Placement in a linear segment against what its documentation says.

mod placement;
mod properties;
