//! Asks Vulkan what its devices are and have.

use ash::{ext, vk};

use crate::buffer_info::sparse_buffer_info;
use crate::error::{Feature, VulkanError};
use crate::instance::{Instance, Validation};
use crate::report::{DeviceReport, Heap, Limits, MemoryType, Mode, QueueFamily};

/// All devices of this machine, usable or not, in the order in which the manager prefers them: discrete GPUs first.
///
/// # Errors
///
/// If Vulkan is not installed, or a call fails.
pub fn probe() -> Result<Vec<DeviceReport>, VulkanError> {
    let instance = Instance::new(Validation::Off)?;
    Ok(find(&instance)?.into_iter().map(|(_, report)| report).collect())
}

/// The devices, and what each is.
pub(crate) fn find(instance: &Instance) -> Result<Vec<(vk::PhysicalDevice, DeviceReport)>, VulkanError> {
    let devices = instance.physical_devices()?;
    let mut found: Vec<_> = devices.into_iter().map(|device| (device, report(&instance.raw, device))).collect();
    found.sort_by_key(|(_, report)| order(report.kind));
    Ok(found)
}

fn order(kind: &str) -> u8 {
    match kind {
        "discrete" => 0,
        "integrated" => 1,
        "virtual" => 2,
        "cpu" => 4,
        _ => 3,
    }
}

/// The features that the manager enables.
#[derive(Default)]
pub(crate) struct Enabled {
    pub(crate) core: vk::PhysicalDeviceFeatures,
    pub(crate) vulkan12: vk::PhysicalDeviceVulkan12Features<'static>,
}

impl Enabled {
    /// Exactly those that the manager needs.
    pub(crate) fn needed() -> Self {
        Self {
            core: vk::PhysicalDeviceFeatures::default()
                .sparse_binding(true)
                .sparse_residency_buffer(true)
                .sparse_residency_aliased(true)
                .shader_int64(true),
            vulkan12: vk::PhysicalDeviceVulkan12Features::default()
                .buffer_device_address(true)
                .timeline_semaphore(true),
        }
    }
}

/// A description of a device of the instance.
pub(crate) fn report(instance: &ash::Instance, device: vk::PhysicalDevice) -> DeviceReport {
    // SAFETY: the device is one of the instance's, which lives.
    let properties = unsafe { instance.get_physical_device_properties(device) };
    let is_12 = properties.api_version >= vk::API_VERSION_1_2;
    let mut missing = Vec::new();
    if !is_12 {
        missing.push(Feature::Vulkan12);
    }
    let mut driver = vk::PhysicalDeviceDriverProperties::default();
    let mut features = vk::PhysicalDeviceFeatures2::default();
    let mut vulkan12 = vk::PhysicalDeviceVulkan12Features::default();
    if is_12 {
        let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut driver);
        // SAFETY: the device is one of the instance's; the structures of Vulkan 1.2 are known to it.
        unsafe { instance.get_physical_device_properties2(device, &mut all) };
        features = features.push_next(&mut vulkan12);
    }
    // SAFETY: as before.
    unsafe { instance.get_physical_device_features2(device, &mut features) };
    let core = features.features;
    // SAFETY: as before.
    let families = unsafe { instance.get_physical_device_queue_family_properties(device) };
    let families: Vec<_> = families.iter().map(queue_family).collect();
    let both = |family: &QueueFamily| family.sparse_binding && family.compute && family.queues > 0;
    let family = families.iter().position(both).map(|index| index as u32);
    let binds_beside = |&(index, of): &(u32, &QueueFamily)| Some(index) != family && of.sparse_binding && of.queues > 0;
    // The one that can do least else: the application has better uses for the others.
    let least = |&(_, of): &(u32, &QueueFamily)| (of.graphics, of.compute);
    let bind_family = (0..).zip(&families).filter(binds_beside).min_by_key(least).map(|(index, _)| index);
    let has = [
        (core.sparse_binding == vk::TRUE, Feature::SparseBinding),
        (core.sparse_residency_buffer == vk::TRUE, Feature::SparseResidencyBuffer),
        (core.sparse_residency_aliased == vk::TRUE, Feature::SparseResidencyAliased),
        (vulkan12.buffer_device_address == vk::TRUE, Feature::BufferDeviceAddress),
        (vulkan12.timeline_semaphore == vk::TRUE, Feature::TimelineSemaphore),
        (core.shader_int64 == vk::TRUE, Feature::ShaderInt64),
        (family.is_some(), Feature::SparseComputeQueue),
    ];
    missing.extend(has.into_iter().filter(|(has, _)| !has).map(|(_, feature)| feature));
    let sparse = if missing.is_empty() { sparse_requirements(instance, device, family.unwrap_or(0)) } else { None };
    let (heaps, types) = memory(instance, device, sparse.map_or(0, |sparse| sparse.memory_type_bits));
    let local = preferred(&types, |memory| memory.bindable, |memory| (memory.device_local, !memory.host_visible));
    let coherent = |memory: &MemoryType| memory.host_visible && memory.host_coherent;
    let system = preferred(&types, coherent, |memory| (memory.bindable, !memory.device_local));
    if missing.is_empty() {
        missing.extend(local.is_none().then_some(Feature::BindableMemory));
        missing.extend(system.is_none().then_some(Feature::HostMemory));
    }
    let binds_all = system.is_some_and(|system| types[system as usize].bindable);
    DeviceReport {
        name: text(properties.device_name_as_c_str()),
        kind: kind(properties.device_type),
        driver: format!("{} {}", text(driver.driver_name_as_c_str()), text(driver.driver_info_as_c_str()))
            .trim()
            .into(),
        is_lavapipe: driver.driver_id == vk::DriverId::MESA_LLVMPIPE,
        vulkan: version(properties.api_version),
        lacks: missing.iter().map(ToString::to_string).collect(),
        queue_families: families,
        queue_family: family,
        bind_family,
        granule_bytes: sparse.map_or(0, |sparse| sparse.alignment),
        is_non_resident_strict: properties.sparse_properties.residency_non_resident_strict == vk::TRUE,
        memory_types: types,
        heaps,
        local_type: local,
        system_type: system,
        mode: if binds_all { Mode::BindsAll } else { Mode::BindsLocalOnly },
        limits: Limits {
            sparse_address_space_bytes: properties.limits.sparse_address_space_size,
            max_buffer_bytes: max_buffer_bytes(instance, device, properties.api_version),
            max_memory_allocations: properties.limits.max_memory_allocation_count,
        },
        missing,
    }
}

/// The memory that a sparse buffer can be bound to, and in which units. It takes a device for a moment.
fn sparse_requirements(
    instance: &ash::Instance,
    physical: vk::PhysicalDevice,
    family: u32,
) -> Option<vk::MemoryRequirements> {
    let priorities = [1.0];
    let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&priorities)];
    let Enabled { core, mut vulkan12 } = Enabled::needed();
    let info =
        vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_features(&core).push_next(&mut vulkan12);
    // SAFETY: the physical device has the features and the family; `info` outlives the call.
    let device = unsafe { instance.create_device(physical, &info, None) }.ok()?;
    // SAFETY: the features that the buffer needs are enabled.
    let buffer = unsafe { device.create_buffer(&sparse_buffer_info(1 << 20), None) };
    // SAFETY: the buffer is the device's; both are destroyed once, and nothing of them is in use.
    let requirements = buffer.ok().map(|buffer| unsafe {
        let requirements = device.get_buffer_memory_requirements(buffer);
        device.destroy_buffer(buffer, None);
        requirements
    });
    // SAFETY: as before.
    unsafe { device.destroy_device(None) };
    requirements
}

fn memory(instance: &ash::Instance, device: vk::PhysicalDevice, bindable: u32) -> (Vec<Heap>, Vec<MemoryType>) {
    // SAFETY: the device is one of the instance's.
    let extensions = unsafe { instance.enumerate_device_extension_properties(device) }.unwrap_or_default();
    let has_budget =
        extensions.iter().any(|extension| extension.extension_name_as_c_str() == Ok(ext::memory_budget::NAME));
    let mut budget = vk::PhysicalDeviceMemoryBudgetPropertiesEXT::default();
    let mut properties = vk::PhysicalDeviceMemoryProperties2::default();
    if has_budget {
        properties = properties.push_next(&mut budget);
    }
    // SAFETY: the device is one of the instance's, and has the extension whose structure is chained.
    unsafe { instance.get_physical_device_memory_properties2(device, &mut properties) };
    let properties = properties.memory_properties;
    let heaps = properties.memory_heaps_as_slice().iter().zip(budget.heap_budget).map(|(heap, budget)| Heap {
        bytes: heap.size,
        device_local: heap.flags.contains(vk::MemoryHeapFlags::DEVICE_LOCAL),
        budget_bytes: has_budget.then_some(budget),
    });
    let types = properties.memory_types_as_slice().iter().enumerate().map(|(index, memory)| MemoryType {
        heap: memory.heap_index,
        device_local: memory.property_flags.contains(vk::MemoryPropertyFlags::DEVICE_LOCAL),
        host_visible: memory.property_flags.contains(vk::MemoryPropertyFlags::HOST_VISIBLE),
        host_coherent: memory.property_flags.contains(vk::MemoryPropertyFlags::HOST_COHERENT),
        bindable: bindable & (1 << index) != 0,
    });
    (heaps.collect(), types.collect())
}

/// The index of the first type that is `allowed`, of those of which `better` says most.
fn preferred(
    types: &[MemoryType],
    allowed: impl Fn(&MemoryType) -> bool,
    better: impl Fn(&MemoryType) -> (bool, bool),
) -> Option<u32> {
    let allowed = types.iter().enumerate().filter(|(_, memory)| allowed(memory));
    // The last of several is the greatest to `max_by_key`, and drivers sort their types by preference.
    allowed.rev().max_by_key(|(_, memory)| better(memory)).map(|(index, _)| index as u32)
}

fn max_buffer_bytes(instance: &ash::Instance, device: vk::PhysicalDevice, api_version: u32) -> u64 {
    if api_version < vk::API_VERSION_1_3 {
        // Vulkan 1.2 has no such limit; that of one range of a storage buffer is the least it can be.
        return u64::from(u32::MAX);
    }
    let mut limits = vk::PhysicalDeviceMaintenance4Properties::default();
    let mut all = vk::PhysicalDeviceProperties2::default().push_next(&mut limits);
    // SAFETY: the device is one of the instance's; the structure belongs to Vulkan 1.3, which it has.
    unsafe { instance.get_physical_device_properties2(device, &mut all) };
    limits.max_buffer_size
}

fn queue_family(family: &vk::QueueFamilyProperties) -> QueueFamily {
    let has = |flag| family.queue_flags.contains(flag);
    QueueFamily {
        queues: family.queue_count,
        graphics: has(vk::QueueFlags::GRAPHICS),
        compute: has(vk::QueueFlags::COMPUTE),
        transfer: has(vk::QueueFlags::TRANSFER) || has(vk::QueueFlags::COMPUTE) || has(vk::QueueFlags::GRAPHICS),
        sparse_binding: has(vk::QueueFlags::SPARSE_BINDING),
    }
}

fn kind(kind: vk::PhysicalDeviceType) -> &'static str {
    match kind {
        vk::PhysicalDeviceType::DISCRETE_GPU => "discrete",
        vk::PhysicalDeviceType::INTEGRATED_GPU => "integrated",
        vk::PhysicalDeviceType::VIRTUAL_GPU => "virtual",
        vk::PhysicalDeviceType::CPU => "cpu",
        _ => "other",
    }
}

fn version(version: u32) -> String {
    let (major, minor) = (vk::api_version_major(version), vk::api_version_minor(version));
    format!("{major}.{minor}.{}", vk::api_version_patch(version))
}

fn text(name: Result<&std::ffi::CStr, std::ffi::FromBytesUntilNulError>) -> String {
    name.map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
