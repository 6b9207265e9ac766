//! Blocks of memory, each with a plain buffer over all of it.

use std::sync::Arc;

use ash::vk;

use crate::device::VulkanDevice;
use crate::error::VulkanError;

/// The use of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    /// A part of a memory segment.
    Local,
    /// A part of system memory.
    System,
    /// For bytes on their way between the host and the GPU.
    Staging,
}

/// Memory of the device, and the buffer through which copies, fills and shaders reach it physically.
pub(crate) struct Block {
    device: Arc<VulkanDevice>,
    memory: vk::DeviceMemory,
    buffer: vk::Buffer,
    /// The address of the buffer.
    pub(crate) address: u64,
    bytes: u64,
    /// Where the host sees the memory; null if it does not.
    mapped: *mut u8,
    /// Whether nothing that was submitted uses it any more.
    is_unused: bool,
}

impl Block {
    /// A block of `bytes` bytes. Its content is whatever was there before.
    pub(crate) fn new(device: &Arc<VulkanDevice>, purpose: Purpose, bytes: u64) -> Result<Self, VulkanError> {
        let usage = vk::BufferUsageFlags::TRANSFER_SRC
            | vk::BufferUsageFlags::TRANSFER_DST
            | vk::BufferUsageFlags::STORAGE_BUFFER
            | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS;
        let info = vk::BufferCreateInfo::default().size(bytes).usage(usage);
        // SAFETY: the device has the feature of buffer addresses.
        let buffer = unsafe { device.raw.create_buffer(&info, None) };
        let buffer = buffer.map_err(VulkanError::of("vkCreateBuffer"))?;
        // From here on, dropping the block gives back what there is of it.
        let mut block = Self {
            device: device.clone(),
            memory: vk::DeviceMemory::null(),
            buffer,
            address: 0,
            bytes,
            mapped: std::ptr::null_mut(),
            is_unused: false,
        };
        block.allocate(purpose)?;
        if purpose == Purpose::Staging {
            block.map()?;
        }
        Ok(block)
    }

    fn allocate(&mut self, purpose: Purpose) -> Result<(), VulkanError> {
        let report = self.device.report();
        let wanted = match purpose {
            Purpose::Local => report.local_type,
            Purpose::System | Purpose::Staging => report.system_type,
        };
        let raw = &self.device.raw;
        // SAFETY: the buffer is this device's.
        let requirements = unsafe { raw.get_buffer_memory_requirements(self.buffer) };
        let memory_type = wanted.unwrap_or(0);
        let mut flags = vk::MemoryAllocateFlagsInfo::default().flags(vk::MemoryAllocateFlags::DEVICE_ADDRESS);
        let info = vk::MemoryAllocateInfo::default()
            .allocation_size(requirements.size)
            .memory_type_index(memory_type)
            .push_next(&mut flags);
        // SAFETY: the report's types exist; the feature of the flag is enabled.
        let memory = unsafe { raw.allocate_memory(&info, None) };
        self.memory = memory.map_err(|result| match result {
            vk::Result::ERROR_OUT_OF_DEVICE_MEMORY | vk::Result::ERROR_OUT_OF_HOST_MEMORY => {
                VulkanError::OutOfMemory { limit: report.usable_bytes() >> 20 }
            }
            result => VulkanError::Call { call: "vkAllocateMemory", result },
        })?;
        // SAFETY: both are this device's, not bound yet, and the memory is as large as the buffer requires.
        let bound = unsafe { raw.bind_buffer_memory(self.buffer, self.memory, 0) };
        bound.map_err(VulkanError::of("vkBindBufferMemory"))?;
        // SAFETY: the buffer was made with SHADER_DEVICE_ADDRESS, and has memory.
        self.address =
            unsafe { raw.get_buffer_device_address(&vk::BufferDeviceAddressInfo::default().buffer(self.buffer)) };
        let name = format!("{purpose:?} memory");
        self.device.name(self.buffer, &name);
        self.device.name(self.memory, &name);
        Ok(())
    }

    fn map(&mut self) -> Result<(), VulkanError> {
        // SAFETY: the memory is of a type that the host sees, and is mapped once; freeing it unmaps it.
        let mapped = unsafe { self.device.raw.map_memory(self.memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()) };
        self.mapped = mapped.map_err(VulkanError::of("vkMapMemory"))?.cast();
        Ok(())
    }

    /// Gives back the memory, which nothing that was submitted uses any more.
    pub(crate) fn destroy_unused(mut self) {
        self.is_unused = true;
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn buffer(&self) -> vk::Buffer {
        self.buffer
    }

    pub(crate) fn memory(&self) -> vk::DeviceMemory {
        self.memory
    }

    /// The first `count` words, as the GPU has written them. The caller has waited for that, and a barrier to the host came
    /// after it.
    ///
    /// # Panics
    ///
    /// If the block is not for staging, or is shorter.
    #[cfg(feature = "lockstep")]
    pub(crate) fn words(&self, count: usize) -> Vec<u64> {
        assert!(!self.mapped.is_null() && count as u64 * 8 <= self.bytes, "there is nothing to read back");
        // SAFETY: the mapping has that many bytes, begins at a multiple of 64 bytes, and lives as long as the block; the GPU
        // writes nothing while the block is borrowed by the one that submits.
        let words = unsafe { std::slice::from_raw_parts(self.mapped.cast::<u64>(), count) };
        words.to_vec()
    }

    /// The first `count` bytes, as the GPU has written them. The caller has waited for that, and a barrier to the host came
    /// after it.
    ///
    /// # Panics
    ///
    /// If the block is not for staging, or is shorter.
    pub(crate) fn read(&self, count: usize) -> Vec<u8> {
        assert!(!self.mapped.is_null() && count as u64 <= self.bytes, "there is nothing to read back");
        // SAFETY: the mapping has that many bytes, and lives as long as the block; the caller has waited for the GPU.
        unsafe { std::slice::from_raw_parts(self.mapped, count) }.to_vec()
    }

    /// Writes `content` to the start of the block. Nothing that was submitted still uses it.
    ///
    /// # Panics
    ///
    /// If the block is not for staging, or is shorter.
    pub(crate) fn write(&mut self, content: &[u8]) {
        assert!(!self.mapped.is_null() && content.len() as u64 <= self.bytes, "there is no room for the bytes");
        // SAFETY: the mapping has that many bytes, and lives as long as the block, of which this is the one borrow.
        let to = unsafe { std::slice::from_raw_parts_mut(self.mapped, content.len()) };
        to.copy_from_slice(content);
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if !self.is_unused {
            self.device.settle();
        }
        // SAFETY: buffer and memory are destroyed once, and nothing that was submitted still uses them. Whatever sparse buffer
        // is bound to the memory is destroyed before, or not accessed any more.
        unsafe {
            self.device.raw.destroy_buffer(self.buffer, None);
            self.device.raw.free_memory(self.memory, None);
        }
    }
}
