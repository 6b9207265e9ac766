//! A device that the application owns: the manager goes on it, and leaves it as it was.

use ash::{Entry, vk};
use vidmm_vulkan::{Adapter, Handles, Options, Point, Validation};

use crate::{MIB, World, alone};

/// An instance and a device of the application's own, made without the manager.
struct Own {
    _entry: Entry,
    instance: ash::Instance,
    physical: vk::PhysicalDevice,
    device: ash::Device,
    family: u32,
    queues: u32,
}

impl Own {
    /// A device with as many queues of its family as it has, two at most.
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
        let queues = families[family as usize].queue_count.min(2);
        let priorities = &[1.0; 2][..queues as usize];
        let info = [vk::DeviceQueueCreateInfo::default().queue_family_index(family).queue_priorities(priorities)];
        let features = vk::PhysicalDeviceFeatures::default()
            .sparse_binding(true)
            .sparse_residency_buffer(true)
            .sparse_residency_aliased(true);
        let mut vulkan12 =
            vk::PhysicalDeviceVulkan12Features::default().buffer_device_address(true).timeline_semaphore(true);
        let info = vk::DeviceCreateInfo::default()
            .queue_create_infos(&info)
            .enabled_features(&features)
            .push_next(&mut vulkan12);
        // SAFETY: the physical device has the family; it refuses features that it has not.
        let device = unsafe { instance.create_device(physical, &info, None) }.ok()?;
        Some(Self { _entry: entry, instance, physical, device, family, queues })
    }

    fn handles(&self) -> Handles {
        Handles {
            instance: self.instance.clone(),
            physical_device: self.physical,
            device: self.device.clone(),
            queue_family: self.family,
            queue: self.queue(0),
            families: vec![self.family],
        }
    }

    fn queue(&self, number: u32) -> vk::Queue {
        assert!(number < self.queues, "there is no such queue");
        // SAFETY: the device was made with so many queues of the family.
        unsafe { self.device.get_device_queue(self.family, number) }
    }

    fn destroy(self) {
        // SAFETY: the adapter is gone, and nothing else was made on the device. It and its instance are destroyed once.
        unsafe {
            self.device.device_wait_idle().expect("the device still works");
            self.device.destroy_device(None);
            self.instance.destroy_instance(None);
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
    own.destroy();
}

#[test]
fn a_second_queue_waits_for_its_turns_on_the_gpu() {
    let alone = alone();
    if crate::adapter(4 * MIB, Validation::Off).is_none() {
        return;
    }
    let own = Own::new().expect("a device that can be opened can be made by hand");
    if own.queues < 2 {
        // Not through `print`, which tests keep to themselves.
        let _ = std::io::Write::write_all(&mut std::io::stderr(), b"skipped: the device has one queue\n");
        return own.destroy();
    }
    let options = Options { local_bytes: Some(4 * MIB), system_bytes: Some(64 * MIB), ..Options::default() };
    // SAFETY: the handles belong to each other and outlive the adapter; the features are enabled; nobody else uses the queue.
    let adapter = unsafe { Adapter::adopt(own.handles(), options) }.expect("it can be used");
    let mut world = World::over(adapter, false, alone);
    let buffers: Vec<_> = (0..12).map(|_| world.buffer(MIB)).collect();
    let semaphore = world.adapter.create_semaphore().expect("there is memory");
    let (queue, mut ends, mut commands) = (own.queue(1), 0, Vec::new());
    // The host waits for nothing: three times as much as there is room for goes through four times.
    for round in 0..4_u32 {
        for (number, buffer) in (0_u32..).zip(&buffers) {
            world.make_resident(&[buffer]);
            let seed = |round: u32| round * 100 + number;
            let step = world.step(buffer, round.checked_sub(1).map(seed), Some(seed(round)));
            commands.push(world.kernel().record(&[step]).expect("it is recorded"));
            let mut in_use = world.device.begin_use(&[buffer]).expect("it is resident");
            ends += 1;
            let (turn, end) = (in_use.turn(), Point { semaphore, value: ends });
            submit(&own.device, queue, commands[commands.len() - 1], turn, end);
            in_use.end(end).expect("it ends");
            world.evict(&[buffer]);
        }
    }
    world.wait(Point { semaphore, value: ends });
    for (number, buffer) in (0_u32..).zip(&buffers) {
        world.make_resident(&[buffer]);
        world.holds(buffer, 300 + number);
        world.evict(&[buffer]);
    }
    commands.into_iter().for_each(|of| world.kernel().recycle(of));
    drop(buffers);
    world.is_clean();
    own.destroy();
}

/// Submits commands that wait for one point on the GPU, and reach another.
fn submit(device: &ash::Device, queue: vk::Queue, commands: vk::CommandBuffer, wait: Point, signal: Point) {
    let (waits, wait_values) = ([wait.semaphore], [wait.value]);
    let (signals, signal_values) = ([signal.semaphore], [signal.value]);
    let commands = [commands];
    let mut values = vk::TimelineSemaphoreSubmitInfo::default()
        .wait_semaphore_values(&wait_values)
        .signal_semaphore_values(&signal_values);
    let info = vk::SubmitInfo::default()
        .wait_semaphores(&waits)
        .wait_dst_stage_mask(&[vk::PipelineStageFlags::ALL_COMMANDS])
        .command_buffers(&commands)
        .signal_semaphores(&signals)
        .push_next(&mut values);
    // SAFETY: the test alone uses the queue; the commands and the semaphores are kept until the point is reached.
    unsafe { device.queue_submit(queue, &[info], vk::Fence::null()) }.expect("it is submitted");
}
