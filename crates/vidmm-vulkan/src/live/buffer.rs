//! A buffer whose memory the manager moves.

use std::fmt;
use std::ops::Deref;

use ash::vk;

use crate::foreign::RecordEviction;

use super::allocation::Allocation;

/// The memory that a buffer may be in while it is resident.
#[doc(alias = "SupportedReadSegmentSet")]
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum BufferMemory {
    /// Local memory.
    #[default]
    Local,
    /// Local memory where it has room when the buffer comes in, and else system memory, which the GPU reaches over the bus (SEG-42). It
    /// moves to system memory when a list has no room for buffers that can be nowhere else.
    LocalOrSystem,
    /// System memory.
    System,
}

/// A buffer to be created.
#[doc(alias = "D3DDDI_ALLOCATIONINFO2")]
pub struct BufferDesc {
    /// Its bytes, a multiple of 64 KiB.
    pub size: u64,
    /// The application's uses of it, beside [what every buffer has](Buffer::raw).
    pub usage: vk::BufferUsageFlags,
    /// The bytes of its ranges, a multiple of 64 KiB: each comes and goes by itself ([`Frame::insert_range`](super::Frame::insert_range)).
    /// The last range has the rest.
    pub range_bytes: u64,
    /// Where it may be.
    pub memory: BufferMemory,
    /// Records commands that run before it leaves system memory for none, or for local memory (NTF-02): the last that the GPU does to its content
    /// there. A buffer that leaves local memory is copied by the manager, and notified of nothing.
    ///
    /// It is called on the worker's thread, which does nothing else meanwhile, once for each piece of memory: it may record, and must not wait
    /// for anything. What the commands use lives as long as the adapter, or until the buffer was dropped and all its points are reached.
    pub notify_eviction: Option<RecordEviction>,
}

impl fmt::Debug for BufferDesc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("BufferDesc");
        shown.field("size", &self.size).field("range_bytes", &self.range_bytes).field("memory", &self.memory);
        shown.finish_non_exhaustive()
    }
}

impl BufferDesc {
    /// A buffer of so many bytes, in local memory alone, with ranges of 2 MiB.
    pub fn new(size: u64) -> Self {
        Self {
            size,
            usage: vk::BufferUsageFlags::empty(),
            range_bytes: 2 << 20,
            memory: BufferMemory::Local,
            notify_eviction: None,
        }
    }
}

/// A buffer with an address that stays: memory is bound to it while it is resident.
pub struct Buffer {
    allocation: Allocation,
    raw: vk::Buffer,
    address: vk::DeviceAddress,
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("allocation", &self.allocation).finish_non_exhaustive()
    }
}

impl Buffer {
    pub(super) fn new(allocation: Allocation, raw: vk::Buffer, address: vk::DeviceAddress) -> Self {
        Self { allocation, raw, address }
    }

    /// The Vulkan buffer: a sparse one, made with STORAGE_BUFFER, TRANSFER_SRC, TRANSFER_DST, SHADER_DEVICE_ADDRESS and what was
    /// asked for. It is valid as long as the value.
    pub fn raw(&self) -> vk::Buffer {
        self.raw
    }

    /// Its address in shaders, which never changes.
    pub fn address(&self) -> vk::DeviceAddress {
        self.address
    }
}

impl Deref for Buffer {
    type Target = Allocation;

    fn deref(&self) -> &Allocation {
        &self.allocation
    }
}

impl AsRef<Allocation> for Buffer {
    fn as_ref(&self) -> &Allocation {
        &self.allocation
    }
}
