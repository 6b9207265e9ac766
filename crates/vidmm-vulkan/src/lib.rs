//! A Vulkan device under the manager: its memory holds the bytes, its queue moves them, its shaders use them.
//!
//! [`probe`] says what the devices of this machine are and have, and [`VulkanDevice::open`] opens one that can be used; a device
//! without sparse binding, device addresses or timeline semaphores is refused with an error that names what it lacks.
//! [`machine`] makes a machine of it for a run: the reference driver of `vidmm-soft` encodes the same commands (D1) for the same
//! engines, which end them at the same virtual times (D15), and a [`VulkanExecutor`] carries them out:
//!
//! | of the manager | here |
//! |---|---|
//! | a memory segment, system memory | blocks of `VkDeviceMemory`, each with a plain buffer over it |
//! | the addresses of a process | sparse buffers, with the same address as long as something is mapped in them |
//! | page tables | kept on the CPU; what changes in them is bound with `vkQueueBindSparse`, neighbours as one |
//! | transfers and fills | copies and fills in the plain buffers |
//! | kernels, decompression | compute shaders on the process's addresses |
//! | the order of all that | one timeline semaphore: each submission waits for the one before |
//!
//! Vulkan is loaded when it is first asked for, so this crate builds and links without it. All unsafe code of the crate is
//! in `instance.rs`, `probe.rs`, `device.rs`, `block.rs`, `sparse.rs`, `recorder.rs` and `kernels.rs`.

// A file imports only from those above it, apart from `VulkanDevice`, which everything is made on.
mod error;
mod report;
mod instance;
mod kernels;
mod device;
mod block;
mod sparse;
mod probe;
mod recorder;
mod segment;
mod runs;
mod mapped;
mod space;
mod memory;
mod executor;
mod host;
mod machine;
mod live;

pub use device::{Handles, Point, VulkanDevice};
pub use error::{Feature, VulkanError, caught};
pub use executor::VulkanExecutor;
pub use instance::{Validation, take_validation_messages};
pub use live::{Adapter, Buffer, Device, Download, Error, Options, Process, Submission, Trim, Use};
pub use machine::machine;
pub use probe::probe;
pub use report::{DeviceReport, Heap, Limits, MemoryType, Mode, QueueFamily, Rules};

#[cfg(test)]
mod tests;
