//! A buffer whose memory the manager moves.

use std::fmt;
use std::sync::Arc;

use ash::vk;
use vidmm::{AllocationId, AllocationResidencyStatus};

use crate::foreign::RecordEviction;

use super::command::{Command, NewBuffer};
use super::device::DeviceInner;
use super::error::Error;

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
        f.debug_struct("BufferDesc").field("size", &self.size).field("memory", &self.memory).finish_non_exhaustive()
    }
}

impl BufferDesc {
    /// A buffer of so many bytes, in local memory alone.
    pub fn new(size: u64) -> Self {
        Self { size, usage: vk::BufferUsageFlags::empty(), memory: BufferMemory::Local, notify_eviction: None }
    }
}

/// A buffer with an address that stays: memory is bound to it while it is resident.
///
/// Its bytes read as zero at first (CRE-42), and survive eviction. It is gone when it was dropped and all uses that were begun
/// before have ended (RES-91).
#[doc(alias = "D3DKMT_CREATEALLOCATION")]
pub struct Buffer {
    pub(super) device: Arc<DeviceInner>,
    pub(super) new: NewBuffer,
    size: u64,
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Buffer").field("allocation", &self.new.allocation).finish_non_exhaustive()
    }
}

impl Buffer {
    pub(super) fn new(device: Arc<DeviceInner>, new: NewBuffer, size: u64) -> Self {
        Self { device, new, size }
    }

    /// The buffer's own name with the manager, which its errors and its log use.
    pub fn allocation(&self) -> AllocationId {
        self.new.allocation
    }

    /// The Vulkan buffer: a sparse one, made with STORAGE_BUFFER, TRANSFER_SRC, TRANSFER_DST, SHADER_DEVICE_ADDRESS and what was
    /// asked for. It is valid as long as the value.
    pub fn raw(&self) -> vk::Buffer {
        self.new.raw
    }

    /// Its address in shaders, which never changes.
    pub fn address(&self) -> vk::DeviceAddress {
        self.new.address
    }

    /// Where it is by what was decided so far, or is on its way to (RES-76).
    ///
    /// # Errors
    ///
    /// If the adapter is lost.
    #[doc(alias = "D3DKMTQueryAllocationResidency")]
    pub fn residency(&self) -> Result<AllocationResidencyStatus, Error> {
        let buffer = self.new.allocation;
        self.device.client().ask(|reply| Command::Residency { buffer, reply })
    }

    /// Its bytes, a multiple of 64 KiB.
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        self.device.forget(self.new.allocation);
        // On an adapter that is lost all buffers go with it.
        let _ = self.device.client().send(Command::DestroyBuffer(self.new.allocation));
    }
}
