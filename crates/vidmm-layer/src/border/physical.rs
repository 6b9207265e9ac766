//! Physical devices as a program sees them under the residency mode.

use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

use ash::vk;

use super::chain::find_mut;
use super::loader::instance_of;
use super::residency::home_bytes;
use crate::driver::RANGE_BYTES;
use crate::settings::{Mode, ResidencySettings};
use crate::types::MemoryTypes;

/// The settings of this process, if residency is on.
pub fn settings() -> Option<&'static ResidencySettings> {
    static SETTINGS: OnceLock<Option<ResidencySettings>> = OnceLock::new();
    let read = || {
        ResidencySettings::of_process().unwrap_or_else(|error| {
            eprintln!("vidmm: no residency: {error}");
            None
        })
    };
    SETTINGS.get_or_init(read).as_ref()
}

/// The functions of an instance behind the layer, and the settings.
#[derive(Clone)]
pub struct Shown {
    pub raw: Arc<ash::Instance>,
    pub settings: &'static ResidencySettings,
}

impl Shown {
    /// The types of memory of a physical device.
    pub fn types(&self, physical: vk::PhysicalDevice) -> Option<MemoryTypes> {
        // SAFETY: the physical device is the instance's.
        let real = unsafe { self.raw.get_physical_device_memory_properties(physical) };
        let settings = self.settings;
        MemoryTypes::new(&real, |system, local| match (settings.heap, settings.mode) {
            (Some(heap), _) => heap,
            (None, Some(Mode::BindsNothing)) => self.local_bytes(local),
            // Homes are system memory, which the program and others need too.
            (None, _) => system / 2,
        })
    }

    /// Bytes of local memory for ranges, where the real heap has `heap` bytes.
    pub fn local_bytes(&self, heap: u64) -> u64 {
        let bytes = self.settings.local.unwrap_or(heap / 2);
        bytes.min(heap) / RANGE_BYTES * RANGE_BYTES
    }
}

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
