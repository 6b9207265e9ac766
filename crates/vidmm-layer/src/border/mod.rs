//! The border to Vulkan's loader: the functions that the layer has in the chain of a device, and what comes next.

mod structures;
mod stores;
mod batches;
mod residency;
mod chain;
mod shown;
mod instances;
mod physical;
mod start;
mod creation;
mod needs;
mod memory;
mod descriptors;
mod commands;
mod copies;
mod queues;
mod loader;

use std::slice;

/// The elements of an array in C, which may be null where there are none.
///
/// # Safety
///
/// `first` points at `count` elements, or `count` is 0.
unsafe fn list<'a, T>(first: *const T, count: u32) -> &'a [T] {
    if count == 0 || first.is_null() {
        return &[];
    }
    // SAFETY: the caller has that many elements.
    unsafe { slice::from_raw_parts(first, count as usize) }
}
