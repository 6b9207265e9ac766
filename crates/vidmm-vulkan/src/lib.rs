//! A Vulkan device under the manager: its memory holds the bytes, its queue moves them, its shaders use them.
//!
//! # In lockstep
//!
//! [`probe`] says what the devices of this machine are and have, and [`VulkanDevice::open`] opens one that can be used; a device
//! without sparse binding, device addresses or timeline semaphores is refused with an error that names what it lacks.
//! With the feature `lockstep`, `machine` makes a machine of it for a run: the reference driver of `vidmm-soft` encodes the same
//! commands (D1) for the same engines, which end them at the same virtual times (D15), and a `VulkanExecutor` carries them out:
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
//! # In real time
//!
//! [`Adapter`], [`Process`], [`Device`], [`Buffer`] and [`Image`] are the manager for an application's own shaders, on a Vulkan
//! device that it owns or that the manager opens. More can exist than local memory holds: what is made resident is there, and the
//! content of the rest is in system memory.
//!
//! ```no_run
//! use ash::vk;
//! use vidmm::{EvictFlags, MakeResidentFlags};
//! use vidmm_vulkan::{Adapter, Options, Submission, Validation};
//!
//! # fn record(_: u64) -> vk::CommandBuffer { unimplemented!() }
//! # fn main() -> Result<(), vidmm_vulkan::Error> {
//! let adapter = Adapter::open(Options::default(), Validation::Off)?;
//! let device = adapter.create_process()?.create_device()?;
//! let buffer = device.create_buffer(64 << 20, vk::BufferUsageFlags::empty())?;
//!
//! device.make_resident(&[&buffer], MakeResidentFlags::empty())?;
//! device.write(&buffer, 0, b"what the shader reads")?;
//! let commands = vec![record(buffer.address())]; // The address never changes.
//! // SAFETY: the commands use this buffer alone, and are kept until the point is reached.
//! let point = unsafe { device.submit(&[&buffer], Submission { commands, ..Submission::default() }) }?;
//! device.evict(&[&buffer], EvictFlags::EVICT_ONLY_IF_NECESSARY)?; // When the GPU is through with it.
//! # let _ = point;
//! # Ok(())
//! # }
//! ```
//!
//! A worker thread owns the manager, a driver and the memory. The driver's paging buffers hold copies and mappings: no GPU is modelled. The
//! worker submits each behind the one before, and never waits for the GPU: threads of its own do, and their news are the GPU's
//! interrupts. With the feature `lockstep`, `direct_machine` runs the driver's encoder under the engines of the model GPU.
//!
//! A use of an application is work of the manager's. It is queued when it is begun; the manager hands it out when all that its device
//! has made resident is in place, which is its *turn* (ours); and it retires when the application's own submission has ended. So what
//! is in use is no victim, and devices whose lists do not fit together run in turn (RES-71).
//!
//! Vulkan is loaded when it is first asked for, so this crate builds and links without it. All unsafe code of the crate is
//! in `instance.rs`, `probe.rs`, `device.rs`, `block.rs`, `sparse.rs`, `recorder.rs`, `kernels.rs`, `live/adapter.rs` and
//! `live/image_desc.rs`.

// A file imports only from those above it, apart from `VulkanDevice`, which everything is made on.
mod buffer_info;
mod error;
mod report;
mod instance;
mod kernels;
mod device;
mod block;
mod sparse;
mod probe;
mod foreign;
mod recorder;
mod segment;
#[cfg(feature = "lockstep")]
mod runs;
mod mapped;
mod operation;
mod space;
mod memory;
mod measure;
mod live;
#[cfg(feature = "lockstep")]
mod lockstep;

pub use device::{Handles, Point, VulkanDevice};
pub use error::{Feature, VulkanError, caught};
pub use foreign::{EvictedPart, RecordEviction};
pub use instance::{Validation, take_validation_messages};
pub use live::{
    Adapter, Allocation, AllocationStatistics, Buffer, BufferDesc, BufferMemory, Device, Download, Error, Frame, Image,
    ImageDesc, ListRoom, LocalMemory, NamedAllocation, NeedsRoom, NoRoom, Options, PinnedMemory, Pool, Process,
    SmallBuffer, Submission, Trim, Use,
};
#[cfg(feature = "lockstep")]
pub use lockstep::{VulkanExecutor, direct_machine, machine};
pub use measure::{BindingCost, Change, CopySpeed, Measurements, StoreSpeed, Through, measure};
pub use probe::probe;
pub use report::{DeviceReport, Heap, Limits, MemoryType, Mode, QueueFamily, Rules, Unbinding};

#[cfg(all(test, feature = "lockstep"))]
mod tests;
