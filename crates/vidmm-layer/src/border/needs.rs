//! Questions about memory: what buffers and images need, as the residency mode shows the needs.

use std::ffi::c_void;

use ash::vk;

use super::chain::{Device, hooks};
use super::creation::sparse;
use super::structures::find_mut;
use crate::driver::{PAGE_BYTES, RANGE_BYTES};
use crate::settings::Mode;

/// Shows the needs of a buffer whose ranges move.
fn show_managed(device: &Device, needs: &mut vk::MemoryRequirements) {
    let Some(residency) = &device.residency else { return };
    let needed = if residency.mode == Mode::BindsHome { residency.types.system } else { residency.types.local };
    needs.memory_type_bits = residency.types.bits(needs.memory_type_bits, needed);
    // A large buffer begins with a range, so that few buffers share a range.
    let range = RANGE_BYTES.min(1 << needs.size.max(PAGE_BYTES).ilog2());
    needs.alignment = needs.alignment.max(range);
}

/// Shows the needs of another resource.
fn show_plain(device: &Device, needs: &mut vk::MemoryRequirements) {
    if let Some(types) = &device.types {
        let needed = if device.residency.is_some() { types.system } else { types.local };
        needs.memory_type_bits = types.bits(needs.memory_type_bits, needed);
    }
}

/// # Safety
///
/// `next` begins a chain that the call fills.
unsafe fn show_no_dedication(next: *mut c_void) {
    // SAFETY: the caller's.
    if let Some(dedicated) = unsafe { find_mut::<vk::MemoryDedicatedRequirements<'_>>(next) } {
        (dedicated.prefers_dedicated_allocation, dedicated.requires_dedicated_allocation) = (vk::FALSE, vk::FALSE);
    }
}

fn show_buffer(device: &Device, buffer: vk::Buffer, needs: &mut vk::MemoryRequirements) -> bool {
    let is_managed = device.residency.as_ref().is_some_and(|of| of.state().managed.contains_key(&buffer));
    if is_managed {
        show_managed(device, needs)
    } else {
        show_plain(device, needs)
    }
    is_managed
}

hooks! {
    fn of_buffer(
        device: vk::Device, buffer: vk::Buffer, needs: *mut vk::MemoryRequirements
    ) = c"vkGetBufferMemoryRequirements" => |this, next| {
        next();
        // SAFETY: the call has filled the needs.
        show_buffer(&this, buffer, unsafe { &mut *needs });
    }

    fn of_buffer_2(
        device: vk::Device, info: &vk::BufferMemoryRequirementsInfo2<'_>, needs: *mut vk::MemoryRequirements2<'_>
    ) = c"vkGetBufferMemoryRequirements2", c"vkGetBufferMemoryRequirements2KHR" => |this, next| {
        next();
        // SAFETY: the call has filled the needs.
        let needs = unsafe { &mut *needs };
        if show_buffer(&this, info.buffer, &mut needs.memory_requirements) {
            // SAFETY: the program gave a chain.
            unsafe { show_no_dedication(needs.p_next) };
        }
    }

    fn of_new_buffer(
        device: vk::Device, info: &vk::DeviceBufferMemoryRequirements<'_>, needs: *mut vk::MemoryRequirements2<'_>
    ) = c"vkGetDeviceBufferMemoryRequirements", c"vkGetDeviceBufferMemoryRequirementsKHR" => |this, next| {
        // SAFETY: the program gave the creation of a buffer.
        let as_sparse = unsafe { info.p_create_info.as_ref() }.and_then(|creation| sparse(&this, creation).ok());
        let Some(creation) = as_sparse else {
            next();
            // SAFETY: the call has filled the needs.
            show_plain(&this, unsafe { &mut (*needs).memory_requirements });
            return;
        };
        let info = vk::DeviceBufferMemoryRequirements { p_create_info: &creation, ..*info };
        // SAFETY: the arguments are those of the program, but for the flags of the buffer.
        unsafe { (this.next::<Next>().of_new_buffer.expect("a function that the device has"))(device, &info, needs) };
        // SAFETY: the call has filled the needs.
        let needs = unsafe { &mut *needs };
        show_managed(&this, &mut needs.memory_requirements);
        // SAFETY: the program gave a chain.
        unsafe { show_no_dedication(needs.p_next) };
    }

    fn of_image(
        device: vk::Device, image: vk::Image, needs: *mut vk::MemoryRequirements
    ) = c"vkGetImageMemoryRequirements" => |this, next| {
        next();
        // SAFETY: the call has filled the needs.
        show_plain(&this, unsafe { &mut *needs });
    }

    fn of_image_2(
        device: vk::Device, info: *const c_void, needs: *mut vk::MemoryRequirements2<'_>
    ) = c"vkGetImageMemoryRequirements2", c"vkGetImageMemoryRequirements2KHR" => |this, next| {
        next();
        // SAFETY: the call has filled the needs.
        show_plain(&this, unsafe { &mut (*needs).memory_requirements });
    }

    fn of_new_image(
        device: vk::Device, info: *const c_void, needs: *mut vk::MemoryRequirements2<'_>
    ) = c"vkGetDeviceImageMemoryRequirements", c"vkGetDeviceImageMemoryRequirementsKHR" => |this, next| {
        next();
        // SAFETY: the call has filled the needs.
        show_plain(&this, unsafe { &mut (*needs).memory_requirements });
    }
}
