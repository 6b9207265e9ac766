//! The instances of the program.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use ash::vk;

use super::chain::key;
use super::shown::Shown;

/// The instances by the key of the loader's table, which all of their physical devices share.
pub static INSTANCES: RwLock<BTreeMap<usize, Instance>> = RwLock::new(BTreeMap::new());

/// An instance, and the functions behind the layer.
#[derive(Clone)]
pub struct Instance {
    pub handle: vk::Instance,
    pub get: vk::PFN_vkGetInstanceProcAddr,
    /// The next functions are asked for while the instance is made: later the loader answers with those in front of the layer.
    pub destroy: Option<vk::PFN_vkDestroyInstance>,
    pub memory_properties: Option<vk::PFN_vkGetPhysicalDeviceMemoryProperties>,
    /// Whether a trace or the residency mode watches the instance's devices.
    pub is_watched: bool,
    /// The memory of physical devices under the residency mode.
    pub shown: Option<Shown>,
}

/// The instance of an instance or of a physical device.
pub fn instance_of(object: impl vk::Handle) -> Option<Instance> {
    INSTANCES.read().unwrap_or_else(PoisonError::into_inner).get(&key(object)).cloned()
}
