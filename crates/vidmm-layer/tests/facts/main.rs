//! The layer under a Vulkan program of ours, in one program.
//!
//! A test runs this program again: the test `program::uses_each_kind_of_buffer` is then the watched program, which Vulkan's loader puts the
//! layer in front of.

mod program;
mod watched;
