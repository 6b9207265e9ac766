//! Memory, buffers, and what lives in memory beside buffers.

use std::ffi::c_void;

use ash::vk;

use super::chain::{Device, hooks};
use super::creation::{Kind, kind, sparse};
use super::list;
use super::structures::{Allocator, find};
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

/// Allocates from the virtual heap.
///
/// # Safety
///
/// The arguments are those of the program.
unsafe fn allocate_virtual(
    this: &Device,
    device: vk::Device,
    info: &vk::MemoryAllocateInfo<'_>,
    allocator: Allocator<'_>,
    memory: *mut vk::DeviceMemory,
) -> vk::Result {
    let types = this.types.as_ref().expect("a device with a virtual heap");
    // SAFETY: the caller's.
    let kind = unsafe { kind(this, info.p_next) };
    let (reason, memory_type_index) = match kind {
        Kind::Home(flags) => {
            let residency = this.residency.as_ref().expect("a device with homes");
            // SAFETY: the caller's.
            return match unsafe { residency.allocate(info.allocation_size, flags, allocator) } {
                Ok(home) => {
                    // SAFETY: the program gave a place for the memory.
                    unsafe { *memory = home };
                    vk::Result::SUCCESS
                }
                Err(error) => error,
            };
        }
        Kind::Dedicated => ("memory of one resource", types.system),
        Kind::Real(reason) => (reason, types.local),
    };
    this.residency.iter().for_each(|residency| residency.state().pin(reason, info.allocation_size));
    let info = vk::MemoryAllocateInfo { memory_type_index, ..*info };
    // SAFETY: the arguments are those of the program, but for the type.
    unsafe { (this.next::<Next>().allocate.expect("a function that the device has"))(device, &info, allocator, memory) }
}

/// Creates a buffer, whose ranges move if possible.
///
/// # Safety
///
/// The arguments are those of the program.
unsafe fn create(
    this: &Device,
    device: vk::Device,
    info: &vk::BufferCreateInfo<'_>,
    allocator: Allocator<'_>,
    buffer: *mut vk::Buffer,
) -> vk::Result {
    let create = this.next::<Next>().create_buffer.expect("a function that the device has");
    let residency = this.residency.as_ref().expect("a device with residency");
    let reason = match sparse(this, info) {
        // SAFETY: the arguments are those of the program, but for flags.
        Ok(sparse) => match unsafe { create(device, &sparse, allocator, buffer) } {
            vk::Result::SUCCESS => {
                // SAFETY: a successful call has made the buffer.
                let buffer = unsafe { *buffer };
                // SAFETY: as above.
                let bytes = unsafe { residency.raw.get_buffer_memory_requirements(buffer) }.size;
                residency.state().managed.insert(buffer, bytes);
                return vk::Result::SUCCESS;
            }
            _ => "buffers without sparse addresses",
        },
        Err(reason) => reason,
    };
    // SAFETY: the arguments are those of the program.
    let result = unsafe { create(device, info, allocator, buffer) };
    if result == vk::Result::SUCCESS {
        // SAFETY: a successful call has made the buffer.
        residency.state().plain.insert(unsafe { *buffer }, (reason, None));
    }
    result
}

/// Whether the layer binds the buffer, page by page.
fn is_managed(this: &Device, buffer: vk::Buffer) -> bool {
    this.residency.as_ref().is_some_and(|residency| residency.state().managed.contains_key(&buffer))
}

/// A buffer has memory from now on.
fn bound(this: &Device, buffer: vk::Buffer, memory: vk::DeviceMemory, offset: u64) {
    let mut tables = this.tables();
    tables.bind(buffer, memory, offset);
    let number = tables.number_of(buffer);
    drop(tables);
    this.residency.iter().for_each(|residency| residency.bind(buffer, number, memory, offset));
}

hooks! {
    fn allocate(
        device: vk::Device, info: &vk::MemoryAllocateInfo<'_>, allocator: Allocator<'_>, memory: *mut vk::DeviceMemory
    ) -> vk::Result = c"vkAllocateMemory" => |this, next| {
        let is_virtual = this.types.as_ref().is_some_and(|types| types.of_homes == info.memory_type_index);
        // SAFETY: the arguments are those of the program.
        let result = if is_virtual { unsafe { allocate_virtual(&this, device, info, allocator, memory) } } else { next() };
        if result == vk::Result::SUCCESS {
            // SAFETY: a successful call has made the memory.
            this.tables().allocate(unsafe { *memory }, info.allocation_size, info.memory_type_index);
            tell_shared(info.p_next);
        }
        result
    }

    fn free(device: vk::Device, memory: vk::DeviceMemory, allocator: Allocator<'_>) = c"vkFreeMemory" => |this, next| {
        this.tables().free(memory);
        // SAFETY: the arguments are those of the program.
        if !this.residency.as_ref().is_some_and(|residency| unsafe { residency.free(memory, allocator) }) {
            next();
        }
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
        // SAFETY: the arguments are those of the program.
        let result = if this.residency.is_some() { unsafe { create(&this, device, info, allocator, buffer) } } else { next() };
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
        // SAFETY: the arguments are those of the program.
        if !this.residency.as_ref().is_some_and(|residency| unsafe { residency.destroy_buffer(buffer, allocator) }) {
            next();
        }
    }

    fn bind_buffer(
        device: vk::Device, buffer: vk::Buffer, memory: vk::DeviceMemory, offset: u64
    ) -> vk::Result = c"vkBindBufferMemory" => |this, next| {
        let result = if is_managed(&this, buffer) { vk::Result::SUCCESS } else { next() };
        if result == vk::Result::SUCCESS {
            bound(&this, buffer, memory, offset);
        }
        result
    }

    fn bind_buffers(
        device: vk::Device, count: u32, infos: *const vk::BindBufferMemoryInfo<'_>
    ) -> vk::Result = c"vkBindBufferMemory2", c"vkBindBufferMemory2KHR" => |this, next| {
        // SAFETY: array and length come from the program together.
        let infos = unsafe { list(infos, count) };
        let bind = this.next::<Next>().bind_buffers.expect("a function that the device has");
        let each = || infos.iter().map(|info| {
            if !is_managed(&this, info.buffer) {
                // SAFETY: the program gave this bind.
                return unsafe { bind(device, 1, info) };
            }
            // SAFETY: the program gave a chain.
            let status = unsafe { find::<vk::BindMemoryStatusKHR<'_>>(info.p_next) };
            // SAFETY: the program gave a place for the result.
            let result = status.and_then(|status| unsafe { status.p_result.as_mut() });
            result.into_iter().for_each(|result| *result = vk::Result::SUCCESS);
            vk::Result::SUCCESS
        });
        let joined = |all, result| if all == vk::Result::SUCCESS { result } else { all };
        let result = if this.residency.is_none() { next() } else { each().fold(vk::Result::SUCCESS, joined) };
        if result == vk::Result::SUCCESS {
            for info in infos {
                bound(&this, info.buffer, info.memory, info.memory_offset);
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
        this.residency.iter().for_each(|residency| residency.bind_image(image, memory, offset, true));
        next()
    }

    fn bind_images(
        device: vk::Device, count: u32, infos: *const vk::BindImageMemoryInfo<'_>
    ) -> vk::Result = c"vkBindImageMemory2", c"vkBindImageMemory2KHR" => |this, next| {
        (0..count).for_each(|_| uncovered("images"));
        // SAFETY: array and length come from the program together.
        for (residency, info) in this.residency.iter().flat_map(|residency| unsafe { list(infos, count) }.iter().map(move |info| (residency, info))) {
            // The planes of an image and images of swapchains have chains.
            residency.bind_image(info.image, info.memory, info.memory_offset, info.p_next.is_null());
        }
        next()
    }

    fn destroy_image(device: vk::Device, image: vk::Image, allocator: Allocator<'_>) = c"vkDestroyImage" => |this, next| {
        this.residency.iter().for_each(|residency| residency.destroy_image(image));
        next();
    }

    fn create_acceleration_structure(
        device: vk::Device, info: &vk::AccelerationStructureCreateInfoKHR<'_>, allocator: Allocator<'_>,
        structure: *mut vk::AccelerationStructureKHR
    ) -> vk::Result = c"vkCreateAccelerationStructureKHR" => |this, next| {
        uncovered("acceleration-structures");
        next()
    }
}
