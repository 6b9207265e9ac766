//! The start of a device under the residency mode, and the end.

use std::collections::BTreeMap;
use std::ffi::{CStr, c_void};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use ash::vk;
use vidmm_trace::{LogHeader, LogWriter};

use super::batches::{Batches, SetLoaderData};
use super::list;
use super::residency::{Residency, State};
use super::shown::Shown;
use super::stores::Stores;
use super::structures::find_mut;
use crate::driver::{PAGE_BYTES, RANGE_BYTES};
use crate::figures::Figures;
use crate::manager::Manager;
use crate::settings::{Mode, ResidencySettings};
use crate::trace::of_process;
use crate::types::MemoryTypes;

/// Extensions whose uses of memory the layer does not see: a device with one of them runs without residency.
const UNSEEN: [&CStr; 16] = [
    c"VK_EXT_descriptor_buffer",
    c"VK_EXT_device_generated_commands",
    c"VK_NV_device_generated_commands",
    c"VK_NV_device_generated_commands_compute",
    c"VK_EXT_mutable_descriptor_type",
    c"VK_VALVE_mutable_descriptor_type",
    c"VK_EXT_transform_feedback",
    c"VK_AMD_buffer_marker",
    c"VK_NV_mesh_shader",
    c"VK_NV_ray_tracing",
    c"VK_NV_copy_memory_indirect",
    c"VK_NV_memory_decompression",
    c"VK_NV_cuda_kernel_launch",
    c"VK_NVX_binary_import",
    c"VK_AMDX_shader_enqueue",
    c"VK_QCOM_tile_shading",
];

/// The needs of the layer in the making of a device.
pub struct Plan {
    pub types: MemoryTypes,
    /// The family of the one queue; or the reason why the device runs without residency.
    pub family: Result<u32, String>,
    pub set_loader_data: Option<SetLoaderData>,
}

/// The features that the layer needs.
const NEEDED: &str = "sparseBinding, sparseResidencyBuffer and sparseResidencyAliased";

fn has_needed(features: &vk::PhysicalDeviceFeatures) -> bool {
    features.sparse_binding != 0 && features.sparse_residency_buffer != 0 && features.sparse_residency_aliased != 0
}

impl Plan {
    /// Looks at the program's wishes for a device. None if the types of memory are the real ones.
    ///
    /// # Safety
    ///
    /// `info` is the program's, and the physical device is the instance's.
    pub unsafe fn new(
        shown: &Shown,
        physical: vk::PhysicalDevice,
        info: &vk::DeviceCreateInfo<'_>,
        set_loader_data: Option<SetLoaderData>,
    ) -> Option<Self> {
        let types = shown.types(physical)?;
        // SAFETY: the caller's.
        let family = unsafe { Self::family(shown, physical, info) };
        Some(Self { types, family, set_loader_data })
    }

    unsafe fn family(
        shown: &Shown,
        physical: vk::PhysicalDevice,
        info: &vk::DeviceCreateInfo<'_>,
    ) -> Result<u32, String> {
        // SAFETY: arrays and lengths come from the program together; names are strings in C.
        let (queues, names) = unsafe {
            (
                list(info.p_queue_create_infos, info.queue_create_info_count),
                list(info.pp_enabled_extension_names, info.enabled_extension_count),
            )
        };
        // SAFETY: as above.
        let names = Vec::from_iter(names.iter().map(|&name| unsafe { CStr::from_ptr(name) }));
        if let Some(name) = UNSEEN.iter().find(|name| names.contains(name)) {
            return Err(format!("the program enables {}", name.to_string_lossy()));
        }
        let [queue] = queues else { return Err("the program asks for several families of queues".to_owned()) };
        if queue.queue_count != 1 || !queue.flags.is_empty() {
            return Err("the program asks for several queues or for a protected one".to_owned());
        }
        // SAFETY: the program gave a chain.
        let chained = unsafe { find_mut::<vk::PhysicalDeviceFeatures2<'_>>(info.p_next.cast_mut()) };
        // SAFETY: the program gave features, or null.
        let enabled = chained.map(|of| of.features).or_else(|| unsafe { info.p_enabled_features.as_ref() }.copied());
        if enabled.is_some_and(|of| of.sparse_binding != 0) {
            return Err("the program has sparse resources of its own".to_owned());
        }
        // SAFETY: the physical device is the instance's.
        let (families, features) = unsafe {
            (
                shown.raw.get_physical_device_queue_family_properties(physical),
                shown.raw.get_physical_device_features(physical),
            )
        };
        let flags = families.get(queue.queue_family_index as usize).map(|of| of.queue_flags).unwrap_or_default();
        if !has_needed(&features) || !flags.contains(vk::QueueFlags::SPARSE_BINDING) {
            return Err(format!("the device or the queue lacks {NEEDED}"));
        }
        if !flags.intersects(vk::QueueFlags::COMPUTE | vk::QueueFlags::GRAPHICS) {
            return Err("the queue has neither compute nor graphics".to_owned());
        }
        Ok(queue.queue_family_index)
    }

    /// Makes a device with the features that the layer needs beside those of the program.
    ///
    /// # Safety
    ///
    /// `info` is the program's. A structure of features in the chain is changed for the time of the call.
    pub unsafe fn create(
        &self,
        info: &vk::DeviceCreateInfo<'_>,
        create: impl Fn(&vk::DeviceCreateInfo<'_>) -> vk::Result,
    ) -> vk::Result {
        if self.family.is_err() {
            return create(info);
        }
        let add = |features: vk::PhysicalDeviceFeatures| {
            features.sparse_binding(true).sparse_residency_buffer(true).sparse_residency_aliased(true)
        };
        // SAFETY: the program gave a chain.
        if let Some(chained) = unsafe { find_mut::<vk::PhysicalDeviceFeatures2<'_>>(info.p_next.cast_mut()) } {
            let before = chained.features;
            chained.features = add(before);
            let result = create(info);
            chained.features = before;
            return result;
        }
        // SAFETY: the program gave features, or null.
        let features = add(unsafe { info.p_enabled_features.as_ref() }.copied().unwrap_or_default());
        create(&vk::DeviceCreateInfo { p_enabled_features: &features, ..*info })
    }

    /// The residency of a device that was just made. None, with a line, where the device runs without.
    ///
    /// # Safety
    ///
    /// The device was made by [`create`](Self::create), and `get` is its function behind the layer.
    pub unsafe fn start(
        &self,
        shown: &Shown,
        device: vk::Device,
        get: vk::PFN_vkGetDeviceProcAddr,
    ) -> Option<Residency> {
        let start = |family: u32| {
            // SAFETY: the caller's.
            let raw = unsafe {
                let find = |name: &CStr| get(device, name.as_ptr()).map_or(std::ptr::null(), |of| of as *const c_void);
                ash::Device::load_with(find, device)
            };
            self.residency(shown, raw, family)
        };
        let started = self.family.clone().and_then(start);
        started
            .inspect_err(|reason| {
                eprintln!("vidmm: without residency: {reason}");
                let mut figures = Figures::default();
                figures.without = Some(reason.clone());
                figures.write(new_file(shown.settings).as_deref());
            })
            .ok()
    }

    fn residency(&self, shown: &Shown, raw: ash::Device, family: u32) -> Result<Residency, String> {
        let words = |error: vk::Result| error.to_string();
        let bits = sparse_bits(&raw)?;
        let (binds_local, binds_home) = (bits & 1 << self.types.local != 0, bits & 1 << self.types.system != 0);
        if !binds_local {
            return Err("local memory cannot be bound to sparse buffers".to_owned());
        }
        let mode = match (shown.settings.mode, binds_home) {
            (Some(Mode::BindsHome), false) => {
                return Err("mode a is impossible: homes cannot be bound to sparse buffers".to_owned());
            }
            (Some(mode), _) => mode,
            (None, true) => Mode::BindsHome,
            (None, false) => Mode::BindsNothing,
        };
        let local = shown.local_bytes(self.types.local_heap_bytes);
        if local < RANGE_BYTES {
            return Err(format!("local memory of {local} bytes has no room for a range of {RANGE_BYTES}"));
        }
        let log = shown.settings.events.as_deref().map(|path| log(path, local, mode, shown)).transpose()?;
        let manager = Manager::start(local, shown.settings.policy, log)?;
        let mut stores = Stores::new(&raw, self.types.local, local).map_err(words)?;
        let batches = Batches::new(&raw, family, self.set_loader_data).map_err(|error| {
            stores.destroy(&raw);
            error.to_string()
        })?;
        let file = new_file(shown.settings);
        let mut figures = Figures::default();
        // The end writes others.
        figures.set("unfinished", 1);
        figures.write(file.as_deref());
        let state = State::new(manager, stores, batches, mode, file);
        Ok(Residency { raw, mode, types: self.types, state: state.into() })
    }
}

/// The types of memory that a sparse buffer can have, if pages of 64 KiB can be bound.
fn sparse_bits(raw: &ash::Device) -> Result<u32, String> {
    use vk::BufferCreateFlags as Flags;
    let usage = vk::BufferUsageFlags::STORAGE_BUFFER | vk::BufferUsageFlags::TRANSFER_DST;
    let flags = Flags::SPARSE_BINDING | Flags::SPARSE_RESIDENCY | Flags::SPARSE_ALIASED;
    let info = vk::BufferCreateInfo::default().size(PAGE_BYTES).usage(usage).flags(flags);
    // SAFETY: the device has the features for the buffer, which is destroyed at once.
    let needs = unsafe {
        let buffer = raw.create_buffer(&info, None).map_err(|error| error.to_string())?;
        let needs = raw.get_buffer_memory_requirements(buffer);
        raw.destroy_buffer(buffer, None);
        needs
    };
    match PAGE_BYTES.is_multiple_of(needs.alignment) {
        true => Ok(needs.memory_type_bits),
        false => {
            Err(format!("the device binds sparse memory by {} bytes, and a page has {PAGE_BYTES}", needs.alignment))
        }
    }
}

/// The log of a new device: the file, or one beside the file if there is one.
fn log(path: &Path, local: u64, mode: Mode, shown: &Shown) -> Result<LogWriter<File>, String> {
    let is_there = |error: &io::Error| error.kind() == io::ErrorKind::AlreadyExists;
    let mut files = (1..).map(|number| File::create_new(of_process(path, number)));
    let file = files.find(|file| !file.as_ref().is_err_and(is_there)).expect("numbers do not end");
    let file = file.map_err(|error| format!("{}: {error}", path.display()))?;
    let mode = if mode == Mode::BindsHome { "a" } else { "b" };
    let settings =
        [("local-memory", local.to_string()), ("mode", mode.to_owned()), ("policy", shown.settings.policy.to_string())];
    let settings = BTreeMap::from_iter(settings.map(|(key, value)| (key.to_owned(), value)));
    Ok(LogWriter::new(file, &LogHeader { settings, ..LogHeader::new("vulkan layer", 0) }))
}

/// The file for the figures of a new device.
fn new_file(settings: &ResidencySettings) -> Option<PathBuf> {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed) + 1;
    settings.figures.as_ref().map(|folder| folder.join(format!("{}-{number}", std::process::id())))
}
