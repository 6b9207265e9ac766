//! vidmm: a portable GPU video memory manager with the contract of WDDM.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod contract;
mod units;

pub use units::{Extent, GpuVirtualAddress, Nanoseconds, PAGE_SIZE, PAGE_SIZE_64K, PageSize, PhysicalAddress, SegmentId};
