//! Physical devices as a program sees them under the residency mode.

use std::ffi::c_void;

use ash::vk;

use super::instances::instance_of;
use super::residency::home_bytes;
use super::shown::Shown;
use super::structures::find_mut;

fn shown(physical: vk::PhysicalDevice) -> Option<Shown> {
    instance_of(physical)?.shown
}

/// The layer's function of an instance for a name, under the residency mode.
pub fn ours(name: &[u8]) -> vk::PFN_vkVoidFunction {
    type Features = unsafe extern "system" fn(vk::PhysicalDevice, &mut vk::PhysicalDeviceFeatures2<'_>);
    type Memory = unsafe extern "system" fn(vk::PhysicalDevice, &mut vk::PhysicalDeviceMemoryProperties);
    type Memory2 = unsafe extern "system" fn(vk::PhysicalDevice, &mut vk::PhysicalDeviceMemoryProperties2<'_>);
    let erased = match name {
        b"vkGetPhysicalDeviceMemoryProperties" => memory as Memory as *const (),
        b"vkGetPhysicalDeviceMemoryProperties2" | b"vkGetPhysicalDeviceMemoryProperties2KHR" => {
            memory_2 as Memory2 as *const ()
        }
        b"vkGetPhysicalDeviceFeatures2" | b"vkGetPhysicalDeviceFeatures2KHR" => features as Features as *const (),
        _ => return None,
    };
    // SAFETY: a pointer to a function keeps its value.
    Some(unsafe { std::mem::transmute::<*const (), unsafe extern "system" fn()>(erased) })
}

unsafe extern "system" fn memory(physical: vk::PhysicalDevice, properties: &mut vk::PhysicalDeviceMemoryProperties) {
    let Some(shown) = shown(physical) else { return };
    // SAFETY: the physical device is the instance's.
    *properties = unsafe { shown.raw.get_physical_device_memory_properties(physical) };
    if let Some(types) = shown.types(physical) {
        *properties = types.shown;
    }
}

unsafe extern "system" fn memory_2(
    physical: vk::PhysicalDevice,
    properties: &mut vk::PhysicalDeviceMemoryProperties2<'_>,
) {
    let Some(shown) = shown(physical) else { return };
    // SAFETY: the arguments are those of the program.
    unsafe { shown.raw.get_physical_device_memory_properties2(physical, properties) };
    let Some(types) = shown.types(physical) else { return };
    properties.memory_properties = types.shown;
    // SAFETY: the program gave a chain.
    let budget = unsafe { find_mut::<vk::PhysicalDeviceMemoryBudgetPropertiesEXT<'_>>(properties.p_next) };
    if let Some(budget) = budget {
        let heap = types.heap as usize;
        (budget.heap_budget[heap], budget.heap_usage[heap]) = (types.heap_bytes(), home_bytes());
    }
}

unsafe extern "system" fn features(physical: vk::PhysicalDevice, features: &mut vk::PhysicalDeviceFeatures2<'_>) {
    let Some(shown) = shown(physical) else { return };
    // SAFETY: the arguments are those of the program.
    unsafe { shown.raw.get_physical_device_features2(physical, features) };
    hide_addresses(features.p_next);
}

/// A buffer that shaders find by address cannot move: its uses are not seen.
fn hide_addresses(next: *mut c_void) {
    // SAFETY: the program gave a chain.
    unsafe {
        if let Some(of) = find_mut::<vk::PhysicalDeviceVulkan12Features<'_>>(next) {
            of.buffer_device_address = vk::FALSE;
        }
        if let Some(of) = find_mut::<vk::PhysicalDeviceBufferDeviceAddressFeatures<'_>>(next) {
            of.buffer_device_address = vk::FALSE;
        }
        if let Some(of) = find_mut::<vk::PhysicalDeviceBufferDeviceAddressFeaturesEXT<'_>>(next) {
            of.buffer_device_address = vk::FALSE;
        }
    }
}
