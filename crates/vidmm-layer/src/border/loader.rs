//! The functions that the loader asks for, instances, and the making of devices.

use std::ffi::{CStr, CString, c_char, c_void};
use std::mem::transmute;
use std::sync::{Arc, PoisonError};

use ash::vk;

use super::batches::SetLoaderData;
use super::chain::{Device, Next, end_at_exit, key};
use super::instances::{INSTANCES, Instance, instance_of};
use super::shown::{Shown, settings};
use super::start::Plan;
use super::structures::Allocator;
use super::{commands, copies, descriptors, list, memory, needs, physical, queues};
use crate::tables::Tables;
use crate::trace;

/// The version of the loader's interface for layers in which a library is asked for one function.
const INTERFACE_VERSION: u32 = 2;

/// The function of a loader's structure that has the next layer.
const LINK: u32 = 0;

/// The function of a loader's structure that has a callback.
const CALLBACK: u32 = 1;

/// Extensions by which a program uses memory in ways that a trace does not cover.
const UNCOVERED: [(&CStr, &str); 14] = [
    (c"VK_EXT_descriptor_buffer", "descriptor-buffers"),
    (c"VK_EXT_device_generated_commands", "generated-commands"),
    (c"VK_NV_device_generated_commands", "generated-commands"),
    (c"VK_EXT_host_image_copy", "host-image-copies"),
    (c"VK_KHR_video_queue", "videos"),
    (c"VK_NV_mesh_shader", "other-commands"),
    (c"VK_NV_ray_tracing", "other-commands"),
    (c"VK_NV_copy_memory_indirect", "other-commands"),
    (c"VK_NV_memory_decompression", "other-commands"),
    (c"VK_NV_cuda_kernel_launch", "other-commands"),
    (c"VK_NVX_binary_import", "other-commands"),
    (c"VK_AMDX_shader_enqueue", "other-commands"),
    (c"VK_HUAWEI_subpass_shading", "other-commands"),
    (c"VK_HUAWEI_cluster_culling_shader", "other-commands"),
];

/// `VkNegotiateLayerInterface` of the loader.
#[repr(C)]
pub struct NegotiateLayerInterface {
    s_type: u32,
    next: *mut c_void,
    version: u32,
    get_instance_proc_addr: Option<vk::PFN_vkGetInstanceProcAddr>,
    get_device_proc_addr: Option<vk::PFN_vkGetDeviceProcAddr>,
    get_physical_device_proc_addr: Option<vk::PFN_vkGetInstanceProcAddr>,
}

/// `VkLayerInstanceCreateInfo` and `VkLayerDeviceCreateInfo`, whose links differ.
#[repr(C)]
struct LayerCreateInfo<L> {
    s_type: vk::StructureType,
    next: *const c_void,
    function: u32,
    link: *mut L,
}

/// `VkLayerInstanceLink`.
#[repr(C)]
struct InstanceLink {
    next: *mut Self,
    get: vk::PFN_vkGetInstanceProcAddr,
    get_of_physical_device: vk::PFN_vkVoidFunction,
}

/// `VkLayerDeviceLink`.
#[repr(C)]
struct DeviceLink {
    next: *mut Self,
    get_of_instance: vk::PFN_vkGetInstanceProcAddr,
    get: vk::PFN_vkGetDeviceProcAddr,
}

/// The link of this layer in a chain; the chain gets the link of the next layer.
///
/// # Safety
///
/// `next` begins a chain that the loader made, with links of type `L`.
unsafe fn take_link<L: Copy>(
    mut next: *const c_void,
    of: vk::StructureType,
    behind: impl Fn(&L) -> *mut L,
) -> Option<L> {
    // SAFETY: each structure of a chain begins with its type and the next.
    while let Some(structure) = unsafe { next.cast::<vk::BaseInStructure<'_>>().as_ref() } {
        let info = next.cast_mut().cast::<LayerCreateInfo<L>>();
        // SAFETY: structures of this type are the loader's, and may be changed by layers.
        if structure.s_type == of && unsafe { (*info).function } == LINK {
            // SAFETY: with this function the structure has a link.
            let link = unsafe { *(*info).link };
            // SAFETY: as above.
            unsafe { (*info).link = behind(&link) };
            return Some(link);
        }
        next = structure.p_next.cast();
    }
    None
}

impl Clone for InstanceLink {
    fn clone(&self) -> Self {
        *self
    }
}
impl Copy for InstanceLink {}
impl Clone for DeviceLink {
    fn clone(&self) -> Self {
        *self
    }
}
impl Copy for DeviceLink {}

/// A function of an instance, behind the layer.
///
/// # Safety
///
/// `F` is the type of the function of this name.
unsafe fn function<F>(get: vk::PFN_vkGetInstanceProcAddr, instance: vk::Instance, name: &CStr) -> Option<F> {
    // SAFETY: the instance lives, or is null for the functions that need none.
    let function = unsafe { get(instance, name.as_ptr()) };
    // SAFETY: the caller gives the type; pointers to functions have one size.
    function.map(|function| unsafe { std::mem::transmute_copy(&function) })
}

/// Keeps the library loaded: the trace goes on when the program makes another instance.
fn stay() {
    #[cfg(unix)]
    // SAFETY: the structure is plain data, which `dladdr` fills; a library that is loaded is not run again.
    unsafe {
        let mut info: libc::Dl_info = std::mem::zeroed();
        if libc::dladdr(stay as *const c_void, &mut info) != 0 {
            libc::dlopen(info.dli_fname, libc::RTLD_NOW | libc::RTLD_NOLOAD | libc::RTLD_NODELETE);
        }
    }
}

unsafe extern "system" fn create_instance(
    info: &vk::InstanceCreateInfo<'_>,
    allocator: Allocator<'_>,
    instance: *mut vk::Instance,
) -> vk::Result {
    let of = vk::StructureType::LOADER_INSTANCE_CREATE_INFO;
    // SAFETY: the loader gave the chain.
    let Some(link) = (unsafe { take_link::<InstanceLink>(info.p_next, of, |link| link.next) }) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    // SAFETY: the function of this name has this type.
    let create: Option<vk::PFN_vkCreateInstance> =
        unsafe { function(link.get, vk::Instance::null(), c"vkCreateInstance") };
    let Some(create) = create else { return vk::Result::ERROR_INITIALIZATION_FAILED };
    // SAFETY: the arguments are those of the program.
    let result = unsafe { create(info, allocator, instance) };
    if result == vk::Result::SUCCESS {
        stay();
        // SAFETY: a successful call has made the instance.
        let handle = unsafe { *instance };
        // SAFETY: the functions of these names have these types.
        let (destroy, memory_properties) = unsafe {
            (
                function(link.get, handle, c"vkDestroyInstance"),
                function(link.get, handle, c"vkGetPhysicalDeviceMemoryProperties"),
            )
        };
        let shown = settings().map(|settings| Shown { raw: functions(link.get, handle), settings });
        let is_watched = trace::begin(shown.is_some());
        let added = Instance { handle, get: link.get, destroy, memory_properties, is_watched, shown };
        INSTANCES.write().unwrap_or_else(PoisonError::into_inner).insert(key(handle), added);
    }
    result
}

/// The functions of a new instance behind the layer.
fn functions(get: vk::PFN_vkGetInstanceProcAddr, instance: vk::Instance) -> Arc<ash::Instance> {
    let find = |name: &CStr| {
        // The functions of 1.1 have other names where an extension has them.
        let names = [name.to_owned(), CString::new([name.to_bytes(), b"KHR"].concat()).expect("names have no zeros")];
        // SAFETY: the instance was just made.
        let found = names.iter().find_map(|name| unsafe { get(instance, name.as_ptr()) });
        found.map_or(std::ptr::null(), |found| found as *const c_void)
    };
    // SAFETY: the instance was just made.
    Arc::new(unsafe { ash::Instance::load_with(find, instance) })
}

unsafe extern "system" fn destroy_instance(instance: vk::Instance, allocator: Allocator<'_>) {
    if instance == vk::Instance::null() {
        return;
    }
    let removed = INSTANCES.write().unwrap_or_else(PoisonError::into_inner).remove(&key(instance));
    let destroy = removed.and_then(|removed| removed.destroy);
    // SAFETY: the arguments are those of the program.
    destroy.into_iter().for_each(|destroy| unsafe { destroy(instance, allocator) });
}

unsafe extern "system" fn create_device(
    physical: vk::PhysicalDevice,
    info: &vk::DeviceCreateInfo<'_>,
    allocator: Allocator<'_>,
    device: *mut vk::Device,
) -> vk::Result {
    let of = vk::StructureType::LOADER_DEVICE_CREATE_INFO;
    // SAFETY: the loader gave the chain.
    let link = unsafe { take_link::<DeviceLink>(info.p_next, of, |link| link.next) };
    let (Some(link), Some(instance)) = (link, instance_of(physical)) else {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    };
    // SAFETY: the function of this name has this type.
    let create: Option<vk::PFN_vkCreateDevice> =
        unsafe { function(link.get_of_instance, instance.handle, c"vkCreateDevice") };
    let Some(create) = create else { return vk::Result::ERROR_INITIALIZATION_FAILED };
    // SAFETY: the loader gave the chain.
    let set_loader_data = unsafe { callback(info.p_next) };
    // SAFETY: the arguments are those of the program.
    let plan = instance.shown.as_ref().and_then(|shown| unsafe { Plan::new(shown, physical, info, set_loader_data) });
    // SAFETY: the arguments are those of the program, but for features.
    let make = |info: &vk::DeviceCreateInfo<'_>| unsafe { create(physical, info, allocator, device) };
    let result = match &plan {
        // SAFETY: as above.
        Some(plan) => unsafe { plan.create(info, make) },
        None => make(info),
    };
    if result == vk::Result::SUCCESS {
        let mut tables = Tables::default();
        if instance.is_watched {
            tables.number = trace::new_device();
            tables.local_types = match &plan {
                Some(plan) => local_types(&plan.types.shown),
                None => local_types(&real_types(&instance, physical)),
            };
            // SAFETY: array and length come from the program together; the elements are strings in C.
            for &name in unsafe { list(info.pp_enabled_extension_names, info.enabled_extension_count) } {
                // SAFETY: as above.
                let name = unsafe { CStr::from_ptr(name) };
                UNCOVERED.iter().filter(|(of, _)| *of == name).for_each(|(_, what)| trace::uncovered(what));
            }
        }
        // SAFETY: a successful call has made the device.
        let handle = unsafe { *device };
        let mut added = Device::new(link.get, instance.is_watched, next_of(handle, link.get), tables);
        if let (Some(plan), Some(shown)) = (plan, &instance.shown) {
            added.types = Some(plan.types);
            // SAFETY: the device was made for the plan.
            added.residency = unsafe { plan.start(shown, handle, link.get) };
            end_at_exit();
        }
        added.add(handle);
    }
    result
}

/// The next functions of a device.
fn next_of(device: vk::Device, get: vk::PFN_vkGetDeviceProcAddr) -> Next {
    // SAFETY: the device lives, and the name ends with a zero.
    let find = |name: &CStr| unsafe { get(device, name.as_ptr()) };
    vec![
        Box::new(memory::Next::load(find)),
        Box::new(descriptors::Next::load(find)),
        Box::new(commands::Next::load(find)),
        Box::new(copies::Next::load(find)),
        Box::new(queues::Next::load(find)),
        Box::new(needs::Next::load(find)),
    ]
}

/// The layer's function for a name, in the chain of a device.
fn ours(name: &CStr) -> vk::PFN_vkVoidFunction {
    memory::ours(name)
        .or_else(|| descriptors::ours(name))
        .or_else(|| commands::ours(name))
        .or_else(|| copies::ours(name))
        .or_else(|| queues::ours(name))
        .or_else(|| needs::ours(name))
}

/// For each type of memory, whether the memory is the device's own.
fn local_types(properties: &vk::PhysicalDeviceMemoryProperties) -> Vec<bool> {
    let types = properties.memory_types_as_slice().iter();
    types.map(|of| of.property_flags.contains(vk::MemoryPropertyFlags::DEVICE_LOCAL)).collect()
}

fn real_types(instance: &Instance, physical: vk::PhysicalDevice) -> vk::PhysicalDeviceMemoryProperties {
    let mut properties = vk::PhysicalDeviceMemoryProperties::default();
    // SAFETY: the physical device is the instance's.
    instance.memory_properties.into_iter().for_each(|get| unsafe { get(physical, &mut properties) });
    properties
}

/// The loader's function for objects that a layer makes.
///
/// # Safety
///
/// `next` begins a chain that the loader made for a device.
unsafe fn callback(mut next: *const c_void) -> Option<SetLoaderData> {
    // SAFETY: each structure of a chain begins with its type and the next.
    while let Some(structure) = unsafe { next.cast::<vk::BaseInStructure<'_>>().as_ref() } {
        let info = next.cast::<LayerCreateInfo<c_void>>();
        // SAFETY: structures of this type are the loader's.
        if structure.s_type == vk::StructureType::LOADER_DEVICE_CREATE_INFO && unsafe { (*info).function } == CALLBACK {
            // SAFETY: with this function the structure has the callback in place of the link.
            return unsafe { transmute::<*mut c_void, Option<SetLoaderData>>((*info).link) };
        }
        next = structure.p_next.cast();
    }
    None
}

unsafe extern "system" fn destroy_device(device: vk::Device, allocator: Allocator<'_>) {
    if device == vk::Device::null() {
        return;
    }
    let removed = Device::remove(device);
    if let Some(residency) = removed.as_ref().and_then(|removed| removed.residency.as_ref()) {
        residency.end();
    }
    // SAFETY: the device lives, and the name ends with a zero.
    let destroy = removed.and_then(|removed| unsafe { (removed.get)(device, c"vkDestroyDevice".as_ptr()) });
    // SAFETY: the function of this name has this type.
    let destroy: Option<vk::PFN_vkDestroyDevice> = destroy.map(|destroy| unsafe { transmute(destroy) });
    // SAFETY: the arguments are those of the program.
    destroy.into_iter().for_each(|destroy| unsafe { destroy(device, allocator) });
}

/// A pointer to a function, as the loader takes them.
macro_rules! erased {
    ($function:ident as $type:ty) => {{
        let function: $type = $function;
        // SAFETY: a pointer to a function keeps its value.
        Some(unsafe { transmute::<$type, unsafe extern "system" fn()>(function) })
    }};
}

unsafe extern "system" fn get_instance_proc_addr(
    instance: vk::Instance,
    name: *const c_char,
) -> vk::PFN_vkVoidFunction {
    // SAFETY: the loader gave a string in C.
    let name = unsafe { CStr::from_ptr(name) };
    type Create =
        unsafe extern "system" fn(&vk::InstanceCreateInfo<'_>, Allocator<'_>, *mut vk::Instance) -> vk::Result;
    type CreateDevice = unsafe extern "system" fn(
        vk::PhysicalDevice,
        &vk::DeviceCreateInfo<'_>,
        Allocator<'_>,
        *mut vk::Device,
    ) -> vk::Result;
    match name.to_bytes() {
        b"vkGetInstanceProcAddr" => return erased!(get_instance_proc_addr as vk::PFN_vkGetInstanceProcAddr),
        b"vkCreateInstance" => return erased!(create_instance as Create),
        b"vkDestroyInstance" => return erased!(destroy_instance as vk::PFN_vkDestroyInstance),
        b"vkCreateDevice" => return erased!(create_device as CreateDevice),
        b"vkGetDeviceProcAddr" => return erased!(get_device_proc_addr as vk::PFN_vkGetDeviceProcAddr),
        b"vkDestroyDevice" => return erased!(destroy_device as vk::PFN_vkDestroyDevice),
        _ if instance == vk::Instance::null() => return None,
        _ => {}
    }
    let known = instance_of(instance)?;
    // SAFETY: the arguments are those of the program.
    let next = unsafe { (known.get)(instance, name.as_ptr()) }?;
    let shown = known.shown.as_ref().and_then(|_| physical::ours(name.to_bytes()));
    shown.or_else(|| ours(name).filter(|_| known.is_watched)).or(Some(next))
}

unsafe extern "system" fn get_device_proc_addr(device: vk::Device, name: *const c_char) -> vk::PFN_vkVoidFunction {
    // SAFETY: the loader gave a string in C.
    let name = unsafe { CStr::from_ptr(name) };
    match name.to_bytes() {
        b"vkGetDeviceProcAddr" => return erased!(get_device_proc_addr as vk::PFN_vkGetDeviceProcAddr),
        b"vkDestroyDevice" => return erased!(destroy_device as vk::PFN_vkDestroyDevice),
        _ => {}
    }
    let known = Device::of(device);
    // SAFETY: the arguments are those of the program.
    let next = unsafe { (known.get)(device, name.as_ptr()) }?;
    ours(name).filter(|_| known.is_watched).or(Some(next))
}

/// The function that the loader asks for: how the layer's other functions are found.
///
/// # Safety
///
/// The loader gives its structure.
#[unsafe(no_mangle)]
pub unsafe extern "system" fn vkNegotiateLoaderLayerInterfaceVersion(
    interface: *mut NegotiateLayerInterface,
) -> vk::Result {
    // SAFETY: the loader gives its structure.
    let Some(interface) = (unsafe { interface.as_mut() }) else { return vk::Result::ERROR_INITIALIZATION_FAILED };
    if interface.version < INTERFACE_VERSION {
        return vk::Result::ERROR_INITIALIZATION_FAILED;
    }
    interface.version = INTERFACE_VERSION;
    interface.get_instance_proc_addr = Some(get_instance_proc_addr);
    interface.get_device_proc_addr = Some(get_device_proc_addr);
    interface.get_physical_device_proc_addr = None;
    vk::Result::SUCCESS
}
