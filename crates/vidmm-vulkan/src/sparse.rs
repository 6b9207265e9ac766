//! Sparse buffers: ranges of GPU virtual addresses that memory is bound to.

use std::sync::Arc;

use ash::vk;

use crate::block::Block;
use crate::device::{BindOrder, VulkanDevice};
use crate::error::VulkanError;

/// A sparse buffer for addresses of `bytes` bytes. The memory behind it is bound elsewhere too (SPARSE_ALIASED).
pub(crate) fn sparse_buffer_info(bytes: u64) -> vk::BufferCreateInfo<'static> {
    vk::BufferCreateInfo::default()
        .flags(
            vk::BufferCreateFlags::SPARSE_BINDING
                | vk::BufferCreateFlags::SPARSE_RESIDENCY
                | vk::BufferCreateFlags::SPARSE_ALIASED,
        )
        .size(bytes)
        .usage(vk::BufferUsageFlags::STORAGE_BUFFER | vk::BufferUsageFlags::SHADER_DEVICE_ADDRESS)
        .sharing_mode(vk::SharingMode::EXCLUSIVE)
}

/// Addresses without memory of their own.
pub(crate) struct SparseBuffer {
    device: Arc<VulkanDevice>,
    raw: vk::Buffer,
    /// The first address.
    pub(crate) address: u64,
    /// Whether nothing that was submitted uses it any more.
    is_unused: bool,
}

/// A change of what a sparse buffer is bound to. All sizes are in units of the device's granule.
pub(crate) struct Binding<'a> {
    /// The buffer.
    pub(crate) buffer: &'a SparseBuffer,
    /// From where on, in bytes from its start.
    pub(crate) offset: u64,
    /// How many bytes.
    pub(crate) bytes: u64,
    /// The memory, and from where on; none unbinds.
    pub(crate) memory: Option<(&'a Block, u64)>,
}

impl SparseBuffer {
    /// Addresses for `bytes` bytes, nothing bound to them.
    pub(crate) fn new(device: &Arc<VulkanDevice>, bytes: u64) -> Result<Self, VulkanError> {
        Self::from_info(device, sparse_buffer_info(bytes), "addresses of a process")
    }

    /// The same for an application, which uses them with `usage` too, and on all its queues.
    pub(crate) fn for_application(
        device: &Arc<VulkanDevice>,
        bytes: u64,
        usage: vk::BufferUsageFlags,
    ) -> Result<Self, VulkanError> {
        let info = sparse_buffer_info(bytes);
        let copies = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        let mut info = info.usage(info.usage | copies | usage);
        if device.families().len() > 1 {
            info = info.sharing_mode(vk::SharingMode::CONCURRENT).queue_family_indices(device.families());
        }
        Self::from_info(device, info, "a buffer")
    }

    fn from_info(device: &Arc<VulkanDevice>, info: vk::BufferCreateInfo<'_>, name: &str) -> Result<Self, VulkanError> {
        // SAFETY: the features that the buffer needs are enabled.
        let raw = unsafe { device.raw.create_buffer(&info, None) };
        let raw = raw.map_err(VulkanError::of("vkCreateBuffer"))?;
        device.name(raw, name);
        // SAFETY: the buffer was made with SHADER_DEVICE_ADDRESS, on a device with that feature.
        let address =
            unsafe { device.raw.get_buffer_device_address(&vk::BufferDeviceAddressInfo::default().buffer(raw)) };
        Ok(Self { device: device.clone(), raw, address, is_unused: false })
    }

    /// The buffer.
    pub(crate) fn raw(&self) -> vk::Buffer {
        self.raw
    }

    /// Destroys the buffer, which nothing that was submitted uses any more.
    pub(crate) fn destroy_unused(mut self) {
        self.is_unused = true;
    }
}

impl Drop for SparseBuffer {
    fn drop(&mut self) {
        if !self.is_unused {
            self.device.settle();
        }
        // SAFETY: the buffer is destroyed once, and nothing that was submitted still uses it.
        unsafe { self.device.raw.destroy_buffer(self.raw, None) };
    }
}

/// Carries out `bindings`, in which no address is twice and those of a buffer follow each other.
pub(crate) fn bind(device: &VulkanDevice, bindings: &[Binding<'_>], order: BindOrder) -> Result<(), VulkanError> {
    let of_buffers: Vec<_> = bindings.chunk_by(|one, next| one.buffer.raw == next.buffer.raw).collect();
    let binds: Vec<Vec<_>> = of_buffers.iter().map(|of_one| of_one.iter().map(memory_bind).collect()).collect();
    let infos: Vec<_> = of_buffers.iter().zip(&binds).map(|(of_one, binds)| buffer_bind(of_one, binds)).collect();
    if infos.is_empty() { Ok(()) } else { device.bind_sparse(&infos, order).map(drop) }
}

fn buffer_bind<'a>(bindings: &[Binding<'_>], binds: &'a [vk::SparseMemoryBind]) -> vk::SparseBufferMemoryBindInfo<'a> {
    vk::SparseBufferMemoryBindInfo::default().buffer(bindings[0].buffer.raw).binds(binds)
}

fn memory_bind(binding: &Binding<'_>) -> vk::SparseMemoryBind {
    let bind = vk::SparseMemoryBind::default().resource_offset(binding.offset).size(binding.bytes);
    match binding.memory {
        None => bind,
        Some((block, offset)) => bind.memory(block.memory()).memory_offset(offset),
    }
}
