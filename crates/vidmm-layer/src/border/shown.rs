//! The memory of physical devices, as a program sees the memory.

use std::sync::{Arc, OnceLock};

use ash::vk;

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
