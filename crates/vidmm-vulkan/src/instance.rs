//! The Vulkan instance: the loader, the validation layers, and the messages that they write.

use std::ffi::{CStr, c_char, c_void};
use std::sync::{Mutex, OnceLock, PoisonError};

use ash::{Entry, ext, vk};

use crate::error::VulkanError;

const VALIDATION_LAYER: &CStr = c"VK_LAYER_KHRONOS_validation";

/// Messages of the validation layers, of all instances of this process.
static MESSAGES: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// An instance that is never destroyed, so that the drivers stay loaded: NVIDIA's takes a part of the process's static TLS each time
/// that it is loaded, and does not give it back. After some 25 times there is none left, and no device.
static KEPT: OnceLock<Option<(Entry, ash::Instance)>> = OnceLock::new();

/// Whether validation watches what this process does with Vulkan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Validation {
    /// It does not.
    #[default]
    Off,
    /// Core and synchronization validation do. What they say is kept for [`take_validation_messages`].
    On,
}

/// Takes the warnings and errors of validation since the last call.
pub fn take_validation_messages() -> Vec<String> {
    std::mem::take(&mut *MESSAGES.lock().unwrap_or_else(PoisonError::into_inner))
}

/// An instance of Vulkan.
pub(crate) struct Instance {
    /// Keeps the loader's library.
    _entry: Entry,
    pub(crate) raw: ash::Instance,
    messenger: Option<(ext::debug_utils::Instance, vk::DebugUtilsMessengerEXT)>,
}

impl Instance {
    /// Loads Vulkan.
    pub(crate) fn new(validation: Validation) -> Result<Self, VulkanError> {
        // SAFETY: the library is the system's Vulkan loader, whose initialisation has no requirement.
        let entry = unsafe { Entry::load() }.map_err(|error| VulkanError::NoLoader(error.to_string()))?;
        let validates = validation == Validation::On;
        if validates && !has_layer(&entry)? {
            return Err(VulkanError::NoLayer("VK_LAYER_KHRONOS_validation"));
        }
        KEPT.get_or_init(keep_drivers);
        let layers = [VALIDATION_LAYER.as_ptr()];
        let extensions = [ext::debug_utils::NAME.as_ptr()];
        let application = vk::ApplicationInfo::default().application_name(c"vidmm").api_version(vk::API_VERSION_1_2);
        let enabled = [vk::ValidationFeatureEnableEXT::SYNCHRONIZATION_VALIDATION];
        let mut features = vk::ValidationFeaturesEXT::default().enabled_validation_features(&enabled);
        let mut wanted = messenger_info();
        let mut info = vk::InstanceCreateInfo::default().application_info(&application);
        if validates {
            info = info.enabled_layer_names(&layers).enabled_extension_names(&extensions);
            info = info.push_next(&mut features).push_next(&mut wanted);
        }
        // SAFETY: `info` and all that it points to outlive the call.
        let raw = unsafe { entry.create_instance(&info, None) }.map_err(|result| match result {
            // The loader's answer where no driver is installed.
            vk::Result::ERROR_INCOMPATIBLE_DRIVER => VulkanError::NoDevice,
            result => VulkanError::Call { call: "vkCreateInstance", result },
        })?;
        let mut instance = Self { _entry: entry, raw, messenger: None };
        if validates {
            let utils = ext::debug_utils::Instance::new(&instance._entry, &instance.raw);
            // SAFETY: the extension is enabled; the call-back lives as long as the process.
            let messenger = unsafe { utils.create_debug_utils_messenger(&messenger_info(), None) };
            let messenger = messenger.map_err(VulkanError::of("vkCreateDebugUtilsMessengerEXT"))?;
            instance.messenger = Some((utils, messenger));
        }
        Ok(instance)
    }

    /// The physical devices.
    pub(crate) fn physical_devices(&self) -> Result<Vec<vk::PhysicalDevice>, VulkanError> {
        // SAFETY: the instance lives.
        let devices = unsafe { self.raw.enumerate_physical_devices() };
        devices.map_err(VulkanError::of("vkEnumeratePhysicalDevices"))
    }

    /// Whether validation watches.
    pub(crate) fn is_validated(&self) -> bool {
        self.messenger.is_some()
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        if let Some((utils, messenger)) = self.messenger.take() {
            // SAFETY: the messenger is this instance's, and destroyed once.
            unsafe { utils.destroy_debug_utils_messenger(messenger, None) };
        }
        // SAFETY: whoever made an object of this instance keeps it alive.
        unsafe { self.raw.destroy_instance(None) };
    }
}

/// An instance without anything. None where no driver is installed, as the next one will say.
fn keep_drivers() -> Option<(Entry, ash::Instance)> {
    // SAFETY: as in `Instance::new`.
    let entry = unsafe { Entry::load() }.ok()?;
    // SAFETY: the structure is complete.
    let instance = unsafe { entry.create_instance(&vk::InstanceCreateInfo::default(), None) }.ok()?;
    Some((entry, instance))
}

fn has_layer(entry: &Entry) -> Result<bool, VulkanError> {
    // SAFETY: the loader is there.
    let layers = unsafe { entry.enumerate_instance_layer_properties() };
    let layers = layers.map_err(VulkanError::of("vkEnumerateInstanceLayerProperties"))?;
    Ok(layers.iter().any(|layer| layer.layer_name_as_c_str() == Ok(VALIDATION_LAYER)))
}

fn messenger_info() -> vk::DebugUtilsMessengerCreateInfoEXT<'static> {
    use vk::{DebugUtilsMessageSeverityFlagsEXT as Severity, DebugUtilsMessageTypeFlagsEXT as Type};
    vk::DebugUtilsMessengerCreateInfoEXT::default()
        .message_severity(Severity::WARNING | Severity::ERROR)
        .message_type(Type::GENERAL | Type::VALIDATION | Type::PERFORMANCE)
        .pfn_user_callback(Some(keep_message))
}

/// Keeps a message of the layers.
unsafe extern "system" fn keep_message(
    _: vk::DebugUtilsMessageSeverityFlagsEXT,
    _: vk::DebugUtilsMessageTypeFlagsEXT,
    data: *const vk::DebugUtilsMessengerCallbackDataEXT<'_>,
    _: *mut c_void,
) -> vk::Bool32 {
    // SAFETY: the layer gives a pointer to data that lives for the call, or none.
    let message = unsafe { data.as_ref() }.map_or(std::ptr::null(), |data| data.p_message);
    let mut messages = MESSAGES.lock().unwrap_or_else(PoisonError::into_inner);
    messages.push(text_of(message));
    vk::FALSE
}

fn text_of(message: *const c_char) -> String {
    if message.is_null() {
        return "a message without text".to_owned();
    }
    // SAFETY: the message of a layer is a string that ends with 0 and lives for the call.
    unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned()
}
