//! The manager over Vulkan in real time (D26): the memory of an application's own Vulkan device, for its own shaders.
//!
//! [`Adapter`], [`Process`], [`Device`], [`Buffer`] and [`Image`] are what an application has. A worker thread owns the manager, the
//! driver and the memory. It executes the driver's paging buffers on a Vulkan queue, each behind the one before, and
//! never waits for the GPU: other threads do, and tell it.
//!
//! An application's use of its buffers is a use of a self-scheduled context (D25): `turns.rs` keeps its books.

// A file imports only from those above it.
mod names;
mod no_room;
mod error;
mod options;
mod image_desc;
mod command;
mod client;
mod uses;
mod owner;
mod books;
mod allocation;
mod buffer;
mod image;
mod frame;
mod device;
mod pool;
mod process;
mod pinned;
mod watcher;
mod staging;
mod host;
mod driver;
mod paging;
mod turns;
mod resources;
mod frame_list;
mod objects;
mod worker;
mod adapter;

pub use adapter::Adapter;
pub use allocation::Allocation;
pub use buffer::{Buffer, BufferDesc, BufferMemory};
pub use command::{AllocationStatistics, LocalMemory, Submission, Trim};
pub use device::Device;
pub use error::Error;
pub use frame::Frame;
pub use image::Image;
pub use image_desc::ImageDesc;
pub use names::NamedAllocation;
pub use no_room::{ListRoom, NeedsRoom, NoRoom};
pub use options::Options;
pub use pinned::PinnedMemory;
pub use pool::{Pool, SmallBuffer};
pub use process::Process;
pub use uses::{Download, Use};
