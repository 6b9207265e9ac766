//! Every call that a caller may make with the existing objects.

use vidmm::contract::{PatchLocation, SegmentPreference, SegmentSet};
use vidmm::*;

use crate::choices::Choices;
use crate::rig::{Rig, name, names};

impl Rig<'_> {
    /// Makes one call, which may be refused.
    pub(super) fn call(&mut self) {
        match self.choices.below(8) {
            0..=2 => self.call_about_residency(),
            3 => self.call_about_addresses(),
            4 => self.call_about_work(),
            5 => self.create(),
            6 => self.destroy(),
            _ => self.call_about_the_rest(),
        }
    }

    fn call_about_residency(&mut self) {
        let Self { vidmm, host, names: known, choices, .. } = self;
        let (device, queue) = (name(&known.devices, choices), name(&known.queues, choices));
        let allocations = names(&known.allocations, choices);
        let bits = choices.below(4) as u32;
        match choices.below(8) {
            0..=2 => _ = vidmm.make_resident(queue, &allocations, MakeResidentFlags::from_bits_retain(bits)),
            3 | 4 => _ = vidmm.evict(device, &allocations, EvictFlags::from_bits_retain(bits)),
            5 => {
                let priority = choices.pick(&[OfferPriority::Low, OfferPriority::High, OfferPriority::Auto]);
                _ = vidmm.offer_allocations(device, &allocations, priority, OfferFlags::from_bits_retain(bits));
            }
            6 => _ = vidmm.reclaim_allocations(host, queue, &allocations),
            _ => {
                let allocation = name(&known.allocations, choices);
                _ = match choices.one_in(2) {
                    true => vidmm.unlock(host, allocation).map_err(drop),
                    false => vidmm.lock(host, device, allocation).map(drop).map_err(drop),
                };
            }
        }
    }

    fn call_about_addresses(&mut self) {
        let Self { vidmm, host, names: known, choices, .. } = self;
        let process = name(&known.processes, choices);
        let base = choices.one_in(2).then(|| GpuVirtualAddress(choices.edge()));
        let size = if choices.one_in(2) { choices.edge() } else { 4096 << choices.below(6) };
        match choices.below(4) {
            0 => {
                let queue = name(&known.queues, choices);
                let reserved = vidmm.reserve_gpu_virtual_address(host, queue, base, size);
                known.ranges.extend(reserved.map(|reserved| (process, reserved.virtual_address, size)));
            }
            1 => {
                let offset = if choices.one_in(2) { choices.edge() } else { 0 };
                let size = if choices.one_in(2) { 0 } else { size };
                let (allocation, queue) = (name(&known.allocations, choices), name(&known.queues, choices));
                let (write, driver_protection) = (choices.one_in(2), choices.any());
                let desc = MapGpuVirtualAddress {
                    base_address: base,
                    allocation,
                    offset,
                    size,
                    write,
                    execute: !write,
                    driver_protection,
                };
                let mapped = vidmm.map_gpu_virtual_address(host, queue, &desc);
                known.ranges.extend(mapped.map(|mapped| (process, mapped.virtual_address, size)));
            }
            _ => {
                let (process, base, size) = match choices.pick_any(&known.ranges) {
                    Some(range) => range,
                    None => (process, base.unwrap_or(GpuVirtualAddress(1 << 16)), size),
                };
                let cut = if choices.one_in(2) { PAGE_SIZE * choices.below(4) } else { 0 };
                let base = GpuVirtualAddress(base.0.wrapping_add(cut));
                let size = if choices.one_in(2) { PAGE_SIZE } else { size.wrapping_sub(cut) };
                _ = vidmm.free_gpu_virtual_address(host, process, base, size);
            }
        }
    }

    fn call_about_work(&mut self) {
        let Self { vidmm, driver, names: known, choices, .. } = self;
        let context = name(&known.contexts, choices);
        let fences = |choices: &Choices<'_>| -> Vec<FenceValueDesc> {
            let named = names(&known.fences, choices).into_iter().take(2);
            named.map(|fence| FenceValueDesc { fence, value: choices.below(4) }).collect()
        };
        match choices.below(4) {
            0 => {
                let priority = choices.edge32() as i32;
                _ = vidmm.set_context_scheduling_priority(context, priority);
            }
            1 => _ = vidmm.signal_monitored_fence(name(&known.fences, choices), choices.edge()),
            2 => {
                let (waits, signals) = (fences(choices), fences(choices));
                let allocations = names(&known.allocations, choices);
                _ = vidmm.submit(context, SubmitDesc { dma_buffer: vec![0; 40], waits, signals, allocations });
            }
            _ => _ = vidmm.render(driver, context, render_desc(&known.allocations, choices)),
        }
    }

    fn call_about_the_rest(&mut self) {
        let Self { vidmm, driver, names: known, choices, .. } = self;
        let (process, device) = (name(&known.processes, choices), name(&known.devices, choices));
        let allocation = name(&known.allocations, choices);
        match choices.below(12) {
            0 => vidmm.power_down(),
            1 => vidmm.power_up(),
            2 => _ = vidmm.suspend_process(process, choices.one_in(2)),
            3 => _ = vidmm.resume_process(process),
            4 => {
                let band = choices.pick(&[PriorityBand::Dwm, PriorityBand::Focus, PriorityBand::Normal]);
                let visibility = choices.pick(&[Visibility::Minimized, Visibility::Occluded, Visibility::Visible]);
                _ = vidmm.set_process_priority(process, band, visibility);
            }
            5 => {
                let group = choices.pick(&[MemorySegmentGroup::Local, MemorySegmentGroup::NonLocal]);
                _ = vidmm.change_video_memory_reservation(process, group, choices.edge());
                _ = vidmm.query_video_memory_info(process, group);
            }
            6 => _ = vidmm.notify_budget_changes(process, choices.one_in(2)),
            7 => _ = vidmm.open_allocation(driver, device, allocation),
            8 => _ = vidmm.close_allocation(device, allocation),
            9 => _ = vidmm.set_allocation_priority(allocation, choices.edge32()),
            10 => {
                let [min, max, idle] = [(); 3].map(|()| choices.edge());
                vidmm.set_trim_intervals(TrimIntervals { min, max, idle });
            }
            _ => {
                let set = choices.one_in(2).then(|| SegmentSet(choices.below(5) as u32));
                let ids = [(); 5].map(|()| SegmentId(choices.below(4) as u8));
                let preferred_segment = choices.one_in(2).then(|| SegmentPreference::of(ids));
                let update = UpdateAllocationProperty { supported_segment_set: set, preferred_segment };
                _ = vidmm.update_allocation_property(driver, name(&known.queues, choices), allocation, &update);
            }
        }
    }
}

/// A command buffer of 64 bytes with up to four references, of which any may be wrong.
fn render_desc(known: &[AllocationId], choices: &Choices<'_>) -> RenderDesc {
    let listed = |allocation| AllocationListDesc { allocation, write_operation: true };
    let mut allocations: Vec<_> =
        names(known, choices).into_iter().map(|allocation| listed(Some(allocation))).collect();
    if choices.one_in(4) {
        allocations.push(listed(None));
    }
    let location = |index: u64| PatchLocation {
        allocation_index: index as u32 + u32::from(choices.one_in(8)),
        slot_id: choices.below(5) as u32,
        driver_id: 0,
        allocation_offset: 0,
        patch_offset: 8 + 16 * index as u32,
        split_offset: if choices.one_in(2) { 16 * index as u32 } else { 0 },
    };
    let patch_locations = (0..choices.below(4)).map(location).collect();
    RenderDesc { command: vec![0; 64], allocations, patch_locations, ..RenderDesc::default() }
}
