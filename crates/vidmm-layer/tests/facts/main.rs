//! The layer under a Vulkan program of ours, in one program.
//!
//! A test runs this program again, with an ignored test as the watched program: Vulkan's loader puts the layer in front of it.

#![allow(
    clippy::undocumented_unsafe_blocks,
    reason = "the programs call Vulkan everywhere, and validation judges the calls"
)]

mod program;
mod crowd;
mod kinds;
mod watched;
mod paged;
