//! Residency as an engine writes it by hand on plain Vulkan: slots in local memory, the least recently used is evicted.

use ash::vk;
use vidmm_vulkan::Adapter;

use crate::cyclic::{BUFFERS, Frame, NAMES, SIZE, SLOTS, TOUCHED};

/// Frames in flight.
const DEPTH: usize = 2;

/// A buffer with a slot for each resident block of data, and a buffer in system memory with all blocks.
pub struct HandWritten<'a> {
    adapter: &'a Adapter,
    local: (vk::Buffer, vk::DeviceMemory),
    system: (vk::Buffer, vk::DeviceMemory),
    /// The block of each slot, and its last use.
    slots: [(Option<usize>, u64); SLOTS],
    pool: vk::CommandPool,
    in_flight: [(vk::CommandBuffer, vk::Fence); DEPTH],
    frames: u64,
    pub bytes_moved: u64,
}

impl<'a> HandWritten<'a> {
    pub fn new(adapter: &'a Adapter) -> Result<Self, vk::Result> {
        let device = adapter.raw();
        let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        let buffer = |bytes: u64, memory_type: Option<u32>| {
            let info = vk::BufferCreateInfo::default().size(bytes).usage(usage);
            // SAFETY: the device lives; the buffer gets memory of its size, of a type that plain buffers take.
            unsafe {
                let buffer = device.create_buffer(&info, None)?;
                let needs = device.get_buffer_memory_requirements(buffer);
                let info = vk::MemoryAllocateInfo::default()
                    .allocation_size(needs.size)
                    .memory_type_index(memory_type.unwrap_or(0));
                let memory = device.allocate_memory(&info, None)?;
                device.bind_buffer_memory(buffer, memory, 0)?;
                Ok((buffer, memory))
            }
        };
        let report = adapter.report();
        let local = buffer(SLOTS as u64 * SIZE, report.local_type)?;
        let system = buffer(BUFFERS as u64 * SIZE, report.system_type)?;
        let pool = vk::CommandPoolCreateInfo::default()
            .queue_family_index(adapter.queue_family())
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER);
        let signaled = vk::FenceCreateInfo::default().flags(vk::FenceCreateFlags::SIGNALED);
        // SAFETY: the device lives.
        let (pool, commands, fences) = unsafe {
            let pool = device.create_command_pool(&pool, None)?;
            let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(DEPTH as u32);
            let commands = device.allocate_command_buffers(&info)?;
            (pool, commands, [device.create_fence(&signaled, None)?, device.create_fence(&signaled, None)?])
        };
        let in_flight = [(commands[0], fences[0]), (commands[1], fences[1])];
        Ok(Self { adapter, local, system, slots: [(None, 0); SLOTS], pool, in_flight, frames: 0, bytes_moved: 0 })
    }

    /// The slots of a frame's blocks, and the copies out and in before the frame.
    fn bring_in(&mut self, blocks: Frame) -> ([usize; NAMES], Vec<vk::BufferCopy>, Vec<vk::BufferCopy>) {
        let (mut outs, mut ins) = (Vec::new(), Vec::new());
        let copy = |from: usize, to: usize| vk::BufferCopy {
            src_offset: from as u64 * SIZE,
            dst_offset: to as u64 * SIZE,
            size: SIZE,
        };
        for block in blocks {
            if let Some(slot) = self.slots.iter_mut().find(|slot| slot.0 == Some(block)) {
                slot.1 = self.frames;
            }
        }
        let used = blocks.map(|block| {
            if let Some(slot) = self.slots.iter().position(|slot| slot.0 == Some(block)) {
                return slot;
            }
            let oldest = (0..SLOTS).min_by_key(|&slot| self.slots[slot].1).expect("there are slots");
            if let Some(victim) = self.slots[oldest].0 {
                outs.push(copy(oldest, victim));
            }
            ins.push(copy(block, oldest));
            self.slots[oldest] = (Some(block), self.frames);
            oldest
        });
        self.bytes_moved += (outs.len() + ins.len()) as u64 * SIZE;
        (used, outs, ins)
    }

    pub fn frame(&mut self, blocks: Frame) {
        self.frames += 1;
        let (used, outs, ins) = self.bring_in(blocks);
        let device = self.adapter.raw();
        let (commands, fence) = self.in_flight[self.frames as usize % DEPTH];
        let all = vk::PipelineStageFlags::TRANSFER;
        let access = vk::AccessFlags::TRANSFER_READ | vk::AccessFlags::TRANSFER_WRITE;
        let after = [vk::MemoryBarrier::default().src_access_mask(access).dst_access_mask(access)];
        let begin = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the commands stay within the buffers of the value. The last submission of the commands has ended when the fence is
        // signaled.
        let submitted = unsafe {
            device.wait_for_fences(&[fence], true, u64::MAX).expect("it ends");
            device.reset_fences(&[fence]).expect("nobody waits for it");
            device.begin_command_buffer(commands, &begin).expect("there is memory");
            let order =
                || device.cmd_pipeline_barrier(commands, all, all, vk::DependencyFlags::empty(), &after, &[], &[]);
            order();
            if !outs.is_empty() {
                device.cmd_copy_buffer(commands, self.local.0, self.system.0, &outs);
                order();
            }
            if !ins.is_empty() {
                device.cmd_copy_buffer(commands, self.system.0, self.local.0, &ins);
                order();
            }
            for slot in used {
                device.cmd_fill_buffer(commands, self.local.0, slot as u64 * SIZE, TOUCHED, self.frames as u32);
            }
            device.end_command_buffer(commands).expect("there is memory");
            let commands = [commands];
            let info = [vk::SubmitInfo::default().command_buffers(&commands)];
            self.adapter.with_queue(|queue| device.queue_submit(queue, &info, fence))
        };
        submitted.expect("it is submitted");
    }

    /// Waits for all frames.
    pub fn finish(&self) {
        let fences = self.in_flight.map(|(_, fence)| fence);
        // SAFETY: the fences live.
        unsafe { self.adapter.raw().wait_for_fences(&fences, true, u64::MAX) }.expect("they end");
    }
}

impl Drop for HandWritten<'_> {
    fn drop(&mut self) {
        self.finish();
        let device = self.adapter.raw();
        // SAFETY: no frame is under way.
        unsafe {
            for (_, fence) in self.in_flight {
                device.destroy_fence(fence, None);
            }
            device.destroy_command_pool(self.pool, None);
            for (buffer, memory) in [self.local, self.system] {
                device.destroy_buffer(buffer, None);
                device.free_memory(memory, None);
            }
        }
    }
}
