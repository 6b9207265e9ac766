//! The description of a sparse buffer.

use ash::vk;

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
