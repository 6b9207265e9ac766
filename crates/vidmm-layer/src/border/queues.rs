//! Queues: submissions, and the moments at which the program sees their ends.

use ash::vk;

use super::chain::{Allocator, find, hooks};
use super::{chain::Device, list};
use crate::trace::uncovered;

/// A part of a call: command buffers, and the timelines that are signalled behind.
type Batch = (Vec<vk::CommandBuffer>, Vec<(vk::Semaphore, u64)>);

/// Notes a submission in front of the call, since another thread may see the end before the call returns.
fn submitted(device: &Device, queue: vk::Queue, batches: impl Iterator<Item = Batch>, fence: vk::Fence) {
    let mut tables = device.tables();
    let number = tables.number;
    for (buffers, signals) in batches {
        let uses = tables.uses_of(&buffers);
        tables.queues.submit(number, queue, &uses, &signals);
    }
    if fence != vk::Fence::null() {
        tables.queues.signal(queue, fence);
    }
}

/// Counts a submission that the driver refuses.
fn told(result: vk::Result) -> vk::Result {
    if result != vk::Result::SUCCESS {
        uncovered("refused-submissions");
    }
    result
}

fn saw_fence(device: &Device, fence: vk::Fence) {
    let mut tables = device.tables();
    if let Some(submission) = tables.queues.of_fence(fence) {
        let number = tables.number;
        tables.queues.end(number, submission);
    }
}

fn saw_value(device: &Device, semaphore: vk::Semaphore, value: u64) {
    let mut tables = device.tables();
    let number = tables.number;
    tables.queues.reached(number, semaphore, value);
}

hooks! {
    fn get(device: vk::Device, family: u32, index: u32, queue: *mut vk::Queue) = c"vkGetDeviceQueue" => |this, next| {
        next();
        // SAFETY: the call does not fail.
        this.tables().queues.add(unsafe { *queue });
    }

    fn get_2(
        device: vk::Device, info: &vk::DeviceQueueInfo2<'_>, queue: *mut vk::Queue
    ) = c"vkGetDeviceQueue2" => |this, next| {
        next();
        // SAFETY: the call does not fail.
        this.tables().queues.add(unsafe { *queue });
    }

    fn submit(
        queue: vk::Queue, count: u32, infos: *const vk::SubmitInfo<'_>, fence: vk::Fence
    ) -> vk::Result = c"vkQueueSubmit" => |this, next| {
        // SAFETY: array and length come from the program together.
        let infos = unsafe { list(infos, count) };
        let batches = infos.iter().map(|info| {
            // SAFETY: chain, arrays and lengths come from the program together.
            unsafe {
                let buffers = list(info.p_command_buffers, info.command_buffer_count).to_vec();
                let semaphores = list(info.p_signal_semaphores, info.signal_semaphore_count);
                let timeline = find::<vk::TimelineSemaphoreSubmitInfo<'_>>(info.p_next);
                let values = timeline.map_or(&[][..], |of| {
                    list(of.p_signal_semaphore_values, of.signal_semaphore_value_count)
                });
                (buffers, semaphores.iter().copied().zip(values.iter().copied()).collect())
            }
        });
        submitted(&this, queue, batches, fence);
        told(next())
    }

    fn submit_2(
        queue: vk::Queue, count: u32, infos: *const vk::SubmitInfo2<'_>, fence: vk::Fence
    ) -> vk::Result = c"vkQueueSubmit2", c"vkQueueSubmit2KHR" => |this, next| {
        // SAFETY: array and length come from the program together.
        let infos = unsafe { list(infos, count) };
        let batches = infos.iter().map(|info| {
            // SAFETY: arrays and lengths come from the program together.
            let (buffers, signals) = unsafe {
                (
                    list(info.p_command_buffer_infos, info.command_buffer_info_count),
                    list(info.p_signal_semaphore_infos, info.signal_semaphore_info_count),
                )
            };
            let buffers = buffers.iter().map(|info| info.command_buffer).collect();
            (buffers, signals.iter().map(|info| (info.semaphore, info.value)).collect())
        });
        submitted(&this, queue, batches, fence);
        told(next())
    }

    fn bind_sparse(
        queue: vk::Queue, count: u32, infos: *const vk::BindSparseInfo<'_>, fence: vk::Fence
    ) -> vk::Result = c"vkQueueBindSparse" => |this, next| {
        uncovered("sparse-binds");
        next()
    }

    fn wait_for_queue(queue: vk::Queue) -> vk::Result = c"vkQueueWaitIdle" => |this, next| {
        let last = this.tables().queues.last(queue);
        let result = next();
        if result == vk::Result::SUCCESS {
            let mut tables = this.tables();
            let number = tables.number;
            tables.queues.end(number, last);
        }
        result
    }

    fn wait_for_device(device: vk::Device) -> vk::Result = c"vkDeviceWaitIdle" => |this, next| {
        let all = this.tables().queues.all();
        let result = next();
        if result == vk::Result::SUCCESS {
            let mut tables = this.tables();
            let number = tables.number;
            all.into_iter().for_each(|last| tables.queues.end(number, last));
        }
        result
    }

    fn wait_for_fences(
        device: vk::Device, count: u32, fences: *const vk::Fence, all: vk::Bool32, timeout: u64
    ) -> vk::Result = c"vkWaitForFences" => |this, next| {
        let result = next();
        // One of several fences may be any.
        if result == vk::Result::SUCCESS && (all == vk::TRUE || count == 1) {
            // SAFETY: array and length come from the program together.
            unsafe { list(fences, count) }.iter().for_each(|&fence| saw_fence(&this, fence));
        }
        result
    }

    fn fence_status(device: vk::Device, fence: vk::Fence) -> vk::Result = c"vkGetFenceStatus" => |this, next| {
        let result = next();
        if result == vk::Result::SUCCESS {
            saw_fence(&this, fence);
        }
        result
    }

    fn destroy_fence(device: vk::Device, fence: vk::Fence, allocator: Allocator<'_>) = c"vkDestroyFence" => |this, next| {
        this.tables().queues.destroy_fence(fence);
        next();
    }

    fn create_semaphore(
        device: vk::Device, info: &vk::SemaphoreCreateInfo<'_>, allocator: Allocator<'_>, semaphore: *mut vk::Semaphore
    ) -> vk::Result = c"vkCreateSemaphore" => |this, next| {
        let result = next();
        // SAFETY: the program gave a chain.
        let of = unsafe { find::<vk::SemaphoreTypeCreateInfo<'_>>(info.p_next) };
        let is_timeline = of.is_some_and(|of| of.semaphore_type == vk::SemaphoreType::TIMELINE);
        if result == vk::Result::SUCCESS && is_timeline {
            // SAFETY: a successful call has made the semaphore.
            this.tables().queues.create_timeline(unsafe { *semaphore });
        }
        result
    }

    fn destroy_semaphore(
        device: vk::Device, semaphore: vk::Semaphore, allocator: Allocator<'_>
    ) = c"vkDestroySemaphore" => |this, next| {
        this.tables().queues.destroy_semaphore(semaphore);
        next();
    }

    fn wait_for_semaphores(
        device: vk::Device, info: &vk::SemaphoreWaitInfo<'_>, timeout: u64
    ) -> vk::Result = c"vkWaitSemaphores", c"vkWaitSemaphoresKHR" => |this, next| {
        let result = next();
        let is_any = info.flags.contains(vk::SemaphoreWaitFlags::ANY) && info.semaphore_count > 1;
        if result == vk::Result::SUCCESS && !is_any {
            // SAFETY: arrays and length come from the program together.
            let (all, values) =
                unsafe { (list(info.p_semaphores, info.semaphore_count), list(info.p_values, info.semaphore_count)) };
            all.iter().zip(values).for_each(|(&semaphore, &value)| saw_value(&this, semaphore, value));
        }
        result
    }

    fn semaphore_value(
        device: vk::Device, semaphore: vk::Semaphore, value: *mut u64
    ) -> vk::Result = c"vkGetSemaphoreCounterValue", c"vkGetSemaphoreCounterValueKHR" => |this, next| {
        let result = next();
        if result == vk::Result::SUCCESS {
            // SAFETY: a successful call has made the value.
            saw_value(&this, semaphore, unsafe { *value });
        }
        result
    }
}
