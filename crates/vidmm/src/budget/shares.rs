//! The level at which memory is shared.
