//! Objects that are created, and objects that are destroyed.

use vidmm::*;

use crate::rig::{CALLERS_MEMORY, Rig, allocation, name};

impl Rig<'_> {
    /// Two processes with a device each, and some allocations, as a beginning.
    pub(super) fn begin(&mut self) {
        for (engine, residency) in [(1, None), (2, Some(DeviceResidency::DeviceList))] {
            let Self { vidmm, driver, host, names, .. } = self;
            let Ok(process) = vidmm.create_process(driver, host) else { return };
            let desc = CreateDeviceDesc { process, residency };
            let device = vidmm.create_device(desc).expect("the process is there");
            // A device with reference lists has no paging queue.
            let queue = vidmm.create_paging_queue(device, 0).ok();
            names.processes.push(process);
            names.devices.push(device);
            names.queues.extend(queue);
            names.contexts.extend(vidmm.create_context(driver, device, engine));
            names.fences.extend(vidmm.create_monitored_fence(0));
            for segments in [1, 2, 3] {
                driver.next_allocation = Some(allocation(4, segments & ((1 << driver.info.segments.len()) - 1)));
                let created = vidmm.create_allocation(driver, host, device, &[0]);
                driver.next_allocation = None;
                names.allocations.extend(created.clone());
                if let (Ok(allocation), Some(queue)) = (created, queue) {
                    _ = vidmm.map_gpu_virtual_address(host, queue, &MapGpuVirtualAddress::whole(allocation));
                    _ = vidmm.make_resident(queue, &[allocation], MakeResidentFlags::empty());
                }
            }
        }
        self.run_all();
    }

    pub(super) fn create(&mut self) {
        let Self { vidmm, driver, host, names, choices, .. } = self;
        let (process, device) = (name(&names.processes, choices), name(&names.devices, choices));
        match choices.below(10) {
            0 => names.processes.extend(vidmm.create_process(driver, host)),
            1 => {
                let kinds = [None, Some(DeviceResidency::DeviceList), Some(DeviceResidency::ReferenceLists)];
                names
                    .devices
                    .extend(vidmm.create_device(CreateDeviceDesc { process, residency: choices.pick(&kinds) }));
            }
            2 => names.queues.extend(vidmm.create_paging_queue(device, choices.edge32() as i32)),
            3 => {
                let engine = choices.pick(&[0, 1, 2, 3, u32::MAX]);
                names.contexts.extend(vidmm.create_context(driver, device, engine));
            }
            4 => {
                let (device, initial_fence_value) = (choices.one_in(2).then_some(device), choices.edge());
                names
                    .fences
                    .extend(vidmm.create_monitored_fence(CreateMonitoredFenceDesc { device, initial_fence_value }));
            }
            5 => names.trims.extend(vidmm.register_trim_notification(device)),
            _ => {
                let flags = CreateAllocationFlags::from_bits_retain(choices.below(4) as u32);
                let offset = CALLERS_MEMORY | choices.edge() >> 12;
                let theirs = choices.one_in(4).then_some(PhysicalAddress { segment: SegmentId::SYSTEM, offset });
                let desc = CreateAllocationDesc { private_driver_data: &[0], flags, existing_sys_mem: theirs };
                names.allocations.extend(vidmm.create_allocation(driver, host, device, desc));
            }
        }
    }

    pub(super) fn destroy(&mut self) {
        let Self { vidmm, driver, host, names, choices, .. } = self;
        match choices.below(12) {
            0 => _ = vidmm.destroy_process(driver, host, name(&names.processes, choices)),
            1 => _ = vidmm.destroy_device(driver, host, name(&names.devices, choices)),
            2 => _ = vidmm.destroy_paging_queue(name(&names.queues, choices)),
            3 => _ = vidmm.destroy_context(driver, name(&names.contexts, choices)),
            4 => _ = vidmm.destroy_monitored_fence(name(&names.fences, choices)),
            5 => _ = vidmm.unregister_trim_notification(name(&names.trims, choices)),
            _ => {
                let flags = DestroyFlags::from_bits_retain(choices.below(4) as u32);
                _ = vidmm.destroy_allocation(host, name(&names.allocations, choices), flags);
            }
        }
    }
}
