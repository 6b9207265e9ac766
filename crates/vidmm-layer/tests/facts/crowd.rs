//! A watched program of many threads on two devices of two instances, with a child that forks and makes an instance of its own.

use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

use ash::vk;
use ash::{Device, Entry, Instance};

use crate::program::open;

pub const THREADS: usize = 4;
pub const ROUNDS: usize = 100;
const BYTES: u64 = 1 << 16;

#[test]
#[ignore = "the tests of the module `watched` run it under the layer"]
fn threads_and_devices_and_a_child() {
    let Some(first) = open() else { return };
    let second = open().expect("the first one was there");
    let devices = [&first, &second].map(|(_, instance, physical)| device(instance, *physical));
    let queues = devices.each_ref().map(|device| Mutex::new(unsafe { device.get_device_queue(0, 0) }));
    thread::scope(|scope| {
        for (device, queue) in devices.iter().zip(&queues) {
            (0..THREADS).for_each(|_| drop(scope.spawn(|| play(device, queue))));
        }
    });
    fork(&first.0);
    // The parent's trace goes on.
    play(&devices[0], &queues[0]);
    for (device, (_, instance, _)) in devices.iter().zip([&first, &second]) {
        unsafe {
            device.destroy_device(None);
            instance.destroy_instance(None);
        }
    }
}

fn device(instance: &Instance, physical: vk::PhysicalDevice) -> Device {
    let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues);
    unsafe { instance.create_device(physical, &info, None) }.unwrap()
}

/// A child of `fork` makes an instance, and is then another program.
fn fork(entry: &Entry) {
    let mut command = Command::new("true");
    let entry = entry.clone();
    let make = move || {
        let instance = unsafe { entry.create_instance(&vk::InstanceCreateInfo::default(), None) };
        let instance = instance.map_err(|error| std::io::Error::other(error.to_string()))?;
        unsafe { instance.destroy_instance(None) };
        Ok(())
    };
    assert!(unsafe { command.pre_exec(make) }.status().expect("the child runs").success());
}

/// Makes a buffer, fills the buffer, and destroys it, again and again.
fn play(device: &Device, queue: &Mutex<vk::Queue>) {
    unsafe {
        let pool = device.create_command_pool(&vk::CommandPoolCreateInfo::default(), None).unwrap();
        let fence = device.create_fence(&vk::FenceCreateInfo::default(), None).unwrap();
        for _ in 0..ROUNDS {
            let info = vk::BufferCreateInfo::default().size(BYTES).usage(vk::BufferUsageFlags::TRANSFER_DST);
            let buffer = device.create_buffer(&info, None).unwrap();
            let needs = device.get_buffer_memory_requirements(buffer);
            // The virtual heap of the residency mode is the last type.
            let kind = needs.memory_type_bits.ilog2();
            let info = vk::MemoryAllocateInfo::default().allocation_size(needs.size).memory_type_index(kind);
            let memory = device.allocate_memory(&info, None).unwrap();
            device.bind_buffer_memory(buffer, memory, 0).unwrap();
            let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(1);
            let commands = device.allocate_command_buffers(&info).unwrap();
            device.begin_command_buffer(commands[0], &vk::CommandBufferBeginInfo::default()).unwrap();
            device.cmd_fill_buffer(commands[0], buffer, 0, vk::WHOLE_SIZE, 1);
            device.end_command_buffer(commands[0]).unwrap();
            let info = vk::SubmitInfo::default().command_buffers(&commands);
            device.queue_submit(*queue.lock().unwrap(), &[info], fence).unwrap();
            device.wait_for_fences(&[fence], true, u64::MAX).unwrap();
            device.reset_fences(&[fence]).unwrap();
            device.free_command_buffers(pool, &commands);
            device.destroy_buffer(buffer, None);
            device.free_memory(memory, None);
        }
        device.destroy_fence(fence, None);
        device.destroy_command_pool(pool, None);
    }
}
