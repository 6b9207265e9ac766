//! Memory, buffers, and what lives in memory beside buffers.

use std::ffi::c_void;

use ash::vk;

use super::chain::{Allocator, find, hooks};
use super::list;
use crate::trace::uncovered;

/// The kinds of imports and exports, which a program shares with another.
const SHARED: [(vk::StructureType, &str); 5] = [
    (vk::StructureType::IMPORT_MEMORY_FD_INFO_KHR, "imports"),
    (vk::StructureType::IMPORT_MEMORY_HOST_POINTER_INFO_EXT, "imports"),
    (vk::StructureType::IMPORT_MEMORY_WIN32_HANDLE_INFO_KHR, "imports"),
    (vk::StructureType::IMPORT_ANDROID_HARDWARE_BUFFER_INFO_ANDROID, "imports"),
    (vk::StructureType::EXPORT_MEMORY_ALLOCATE_INFO, "exports"),
];

/// Counts what an allocation shares.
fn tell_shared(mut next: *const c_void) {
    // SAFETY: the program gave a chain, whose structures begin with the type and the next.
    while let Some(structure) = unsafe { next.cast::<vk::BaseInStructure<'_>>().as_ref() } {
        let shared = SHARED.into_iter().find(|(of, _)| *of == structure.s_type);
        shared.into_iter().for_each(|(_, what)| uncovered(what));
        next = structure.p_next.cast();
    }
}

hooks! {
    fn allocate(
        device: vk::Device, info: &vk::MemoryAllocateInfo<'_>, allocator: Allocator<'_>, memory: *mut vk::DeviceMemory
    ) -> vk::Result = c"vkAllocateMemory" => |this, next| {
        let result = next();
        if result == vk::Result::SUCCESS {
            // SAFETY: a successful call has made the memory.
            this.tables().allocate(unsafe { *memory }, info.allocation_size, info.memory_type_index);
            tell_shared(info.p_next);
        }
        result
    }

    fn free(device: vk::Device, memory: vk::DeviceMemory, allocator: Allocator<'_>) = c"vkFreeMemory" => |this, next| {
        this.tables().free(memory);
        next();
    }

    fn map(
        device: vk::Device, memory: vk::DeviceMemory, offset: u64, bytes: u64, flags: vk::MemoryMapFlags,
        address: *mut *mut c_void
    ) -> vk::Result = c"vkMapMemory" => |this, next| {
        uncovered("maps");
        next()
    }

    fn map_2(
        device: vk::Device, info: &vk::MemoryMapInfoKHR<'_>, address: *mut *mut c_void
    ) -> vk::Result = c"vkMapMemory2", c"vkMapMemory2KHR" => |this, next| {
        uncovered("maps");
        next()
    }

    fn create_buffer(
        device: vk::Device, info: &vk::BufferCreateInfo<'_>, allocator: Allocator<'_>, buffer: *mut vk::Buffer
    ) -> vk::Result = c"vkCreateBuffer" => |this, next| {
        let result = next();
        if result == vk::Result::SUCCESS {
            // SAFETY: a successful call has made the buffer.
            this.tables().create(unsafe { *buffer }, info.size);
            if info.flags.contains(vk::BufferCreateFlags::SPARSE_BINDING) {
                uncovered("sparse-buffers");
            }
        }
        result
    }

    fn destroy_buffer(device: vk::Device, buffer: vk::Buffer, allocator: Allocator<'_>) = c"vkDestroyBuffer" => |this, next| {
        this.tables().destroy(buffer);
        next();
    }

    fn bind_buffer(
        device: vk::Device, buffer: vk::Buffer, memory: vk::DeviceMemory, offset: u64
    ) -> vk::Result = c"vkBindBufferMemory" => |this, next| {
        let result = next();
        if result == vk::Result::SUCCESS {
            this.tables().bind(buffer, memory, offset);
        }
        result
    }

    fn bind_buffers(
        device: vk::Device, count: u32, infos: *const vk::BindBufferMemoryInfo<'_>
    ) -> vk::Result = c"vkBindBufferMemory2", c"vkBindBufferMemory2KHR" => |this, next| {
        let result = next();
        if result == vk::Result::SUCCESS {
            // SAFETY: array and length come from the program together.
            for info in unsafe { list(infos, count) } {
                this.tables().bind(info.buffer, info.memory, info.memory_offset);
                // SAFETY: the program gave a chain.
                if unsafe { find::<vk::BindBufferMemoryDeviceGroupInfo<'_>>(info.p_next) }.is_some() {
                    uncovered("device-groups");
                }
            }
        }
        result
    }

    fn create_view(
        device: vk::Device, info: &vk::BufferViewCreateInfo<'_>, allocator: Allocator<'_>, view: *mut vk::BufferView
    ) -> vk::Result = c"vkCreateBufferView" => |this, next| {
        let result = next();
        if result == vk::Result::SUCCESS {
            // SAFETY: a successful call has made the view.
            this.tables().views.insert(unsafe { *view }, (info.buffer, info.offset, info.range));
        }
        result
    }

    fn destroy_view(device: vk::Device, view: vk::BufferView, allocator: Allocator<'_>) = c"vkDestroyBufferView" => |this, next| {
        this.tables().views.remove(&view);
        next();
    }

    fn address(
        device: vk::Device, info: &vk::BufferDeviceAddressInfo<'_>
    ) -> u64 = c"vkGetBufferDeviceAddress", c"vkGetBufferDeviceAddressKHR", c"vkGetBufferDeviceAddressEXT" => |this, next| {
        uncovered("addresses");
        next()
    }

    fn bind_image(
        device: vk::Device, image: vk::Image, memory: vk::DeviceMemory, offset: u64
    ) -> vk::Result = c"vkBindImageMemory" => |this, next| {
        uncovered("images");
        next()
    }

    fn bind_images(
        device: vk::Device, count: u32, infos: *const vk::BindImageMemoryInfo<'_>
    ) -> vk::Result = c"vkBindImageMemory2", c"vkBindImageMemory2KHR" => |this, next| {
        (0..count).for_each(|_| uncovered("images"));
        next()
    }

    fn create_acceleration_structure(
        device: vk::Device, info: &vk::AccelerationStructureCreateInfoKHR<'_>, allocator: Allocator<'_>,
        structure: *mut vk::AccelerationStructureKHR
    ) -> vk::Result = c"vkCreateAccelerationStructureKHR" => |this, next| {
        uncovered("acceleration-structures");
        next()
    }
}
