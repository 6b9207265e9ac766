//! The model GPU and the reference driver: a file for each subject, in one program, which is built much faster than one for each.

mod common;

mod aperture;
mod compression;
mod cpu_addresses;
mod cpu_updates;
mod digest;
mod driver;
mod driver_faults;
mod encoding;
mod engines;
mod faults;
mod gpu_faults;
mod host;
mod io_mmu;
mod memory;
mod mmu;
mod notify_residency;
mod patching;
mod patching_model;
mod physical;
mod planted_faults;
mod power;
mod preemption;
mod programmed_state;
mod recovery;
mod render;
mod resets;
mod segments;
mod semantic;
mod tlb;
