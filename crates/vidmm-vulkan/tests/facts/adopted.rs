//! A device that the application owns: the manager goes on it, and leaves it as it was.

use ash::{Entry, vk};
use vidmm_vulkan::{Adapter, Handles, Options, Validation};

use crate::{MIB, World, alone};

/// An instance and a device of the application's own, made without the manager.
struct Own {
    _entry: Entry,
    instance: ash::Instance,
    physical: vk::PhysicalDevice,
    device: ash::Device,
    family: u32,
}

impl Own {
    fn new() -> Option<Self> {
        // SAFETY: the library is the system's Vulkan loader.
        let entry = unsafe { Entry::load() }.ok()?;
        let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_2);
        let info = vk::InstanceCreateInfo::default().application_info(&application);
        // SAFETY: `info` outlives the call.
        let instance = unsafe { entry.create_instance(&info, None) }.ok()?;
        // SAFETY: the instance lives.
        let physical = *unsafe { instance.enumerate_physical_devices() }.ok()?.first()?;
        // SAFETY: the physical device is the instance's.
        let families = unsafe { instance.get_physical_device_queue_family_properties(physical) };
        let needed = vk::QueueFlags::SPARSE_BINDING | vk::QueueFlags::COMPUTE;
        let family = families.iter().position(|family| family.queue_flags.contains(needed))? as u32;
        let queues = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(&[1.0])];
        let features = vk::PhysicalDeviceFeatures::default()
            .sparse_binding(true)
            .sparse_residency_buffer(true)
            .sparse_residency_aliased(true);
        let mut vulkan12 =
            vk::PhysicalDeviceVulkan12Features::default().buffer_device_address(true).timeline_semaphore(true);
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&queues)
            .enabled_features(&features)
            .push_next(&mut vulkan12);
        // SAFETY: the physical device has the family; it refuses features that it has not.
        let device = unsafe { instance.create_device(physical, &info, None) }.ok()?;
        Some(Self { _entry: entry, instance, physical, device, family })
    }

    fn handles(&self) -> Handles {
        Handles {
            instance: self.instance.clone(),
            physical_device: self.physical,
            device: self.device.clone(),
            queue_family: self.family,
            // SAFETY: the device was made with one queue of the family.
            queue: unsafe { self.device.get_device_queue(self.family, 0) },
            families: vec![self.family],
        }
    }
}

#[test]
fn a_device_of_the_application_is_used_and_left() {
    let alone = alone();
    // The usual way says whether there must be a device.
    if crate::adapter(4 * MIB, Validation::Off).is_none() {
        return;
    }
    let own = Own::new().expect("a device that can be opened can be made by hand");
    let options = Options { local_bytes: Some(4 * MIB), system_bytes: Some(64 * MIB), ..Options::default() };
    // SAFETY: the handles belong to each other and outlive the adapter; the features are enabled; nobody else uses the queue.
    let adapter = unsafe { Adapter::adopt(own.handles(), options) }.expect("it can be used");
    assert_eq!((adapter.physical_device(), adapter.queue_family()), (own.physical, own.family));
    let mut world = World::over(adapter, false, alone);
    let buffers: Vec<_> = (0..4).map(|_| world.buffer(2 * MIB)).collect();
    for round in 0..3 {
        for (number, buffer) in (0..).zip(&buffers) {
            world.make_resident(&[buffer]);
            let seed = |round| round * 10 + number;
            world.run(buffer, u32::checked_sub(round, 1).map(seed), Some(seed(round)));
            world.evict(&[buffer]);
        }
    }
    drop(buffers);
    world.is_clean();
    // SAFETY: the adapter is gone, and nothing else was made on the device. It and its instance are destroyed once.
    unsafe {
        own.device.device_wait_idle().expect("the device still works");
        own.device.destroy_device(None);
        own.instance.destroy_instance(None);
    }
}
