//! Queues: submissions, and the moments at which the program sees their ends.

use std::ops::Range;

use ash::vk;

use super::chain::hooks;
use super::structures::{Allocator, find};
use super::{chain::Device, list};
use crate::descriptors::Use;
use crate::parts::Part;
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

/// The command buffers of a batch.
fn buffers_of<'a>(info: &vk::SubmitInfo2<'a>) -> &'a [vk::CommandBufferSubmitInfo<'a>] {
    // SAFETY: array and length come from the program together.
    unsafe { list(info.p_command_buffer_infos, info.command_buffer_info_count) }
}

/// The uses of each command buffer of each batch.
fn uses_of(device: &Device, batches: impl Iterator<Item = Vec<vk::CommandBuffer>>) -> Vec<Vec<Vec<Use>>> {
    let tables = device.tables();
    let of = |buffers: Vec<vk::CommandBuffer>| buffers.iter().map(|&buffer| tables.uses_of(&[buffer])).collect();
    batches.map(of).collect()
}

/// Whether a batch can be submitted in parts: with timelines and nothing else in the chain.
fn is_plain(info: &vk::SubmitInfo<'_>) -> bool {
    // SAFETY: the program gave a chain.
    let first = unsafe { info.p_next.cast::<vk::BaseInStructure<'_>>().as_ref() };
    first
        .is_none_or(|first| first.s_type == vk::StructureType::TIMELINE_SEMAPHORE_SUBMIT_INFO && first.p_next.is_null())
}

/// Submits some command buffers of a batch: the first wait, and the last signal.
fn part_of(
    whole: &vk::SubmitInfo<'_>,
    buffers: Range<usize>,
    submit: impl FnOnce(&vk::SubmitInfo<'_>) -> vk::Result,
) -> vk::Result {
    // SAFETY: array and length come from the program together.
    let all = unsafe { list(whole.p_command_buffers, whole.command_buffer_count) };
    let (is_first, is_last) = (buffers.start == 0, buffers.end == all.len());
    let mut info = vk::SubmitInfo {
        wait_semaphore_count: if is_first { whole.wait_semaphore_count } else { 0 },
        command_buffer_count: buffers.len() as u32,
        p_command_buffers: all[buffers].as_ptr(),
        signal_semaphore_count: if is_last { whole.signal_semaphore_count } else { 0 },
        ..*whole
    };
    // SAFETY: the program gave a chain.
    let timeline = unsafe { find::<vk::TimelineSemaphoreSubmitInfo<'_>>(whole.p_next) };
    let timeline = timeline.map(|of| vk::TimelineSemaphoreSubmitInfo {
        wait_semaphore_value_count: if is_first { of.wait_semaphore_value_count } else { 0 },
        signal_semaphore_value_count: if is_last { of.signal_semaphore_value_count } else { 0 },
        ..*of
    });
    if let Some(timeline) = timeline.as_ref().filter(|_| !(is_first && is_last)) {
        info.p_next = std::ptr::from_ref(timeline).cast();
    }
    submit(&info)
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
        let Some(residency) = &this.residency else { return told(next()) };
        let send = |part: &Part| {
            let Part::Of { info, buffers, is_last_of_call } = part else { return next() };
            let fence = if *is_last_of_call { fence } else { vk::Fence::null() };
            let submit = this.next::<Next>().submit.expect("a function that the device has");
            part_of(&infos[*info], buffers.clone(), |info| {
                // SAFETY: a part of what the program submits.
                unsafe { submit(queue, 1, info, fence) }
            })
        };
        // SAFETY: arrays and lengths come from the program together.
        let buffers = infos.iter().map(|info| unsafe { list(info.p_command_buffers, info.command_buffer_count) });
        let uses = uses_of(&this, buffers.map(<[_]>::to_vec));
        let can_split = Vec::from_iter(infos.iter().map(is_plain));
        // SAFETY: the program calls a function of the queue.
        told(unsafe { residency.submit(queue, &uses, &can_split, send) })
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
        let Some(residency) = &this.residency else { return told(next()) };
        let send = |part: &Part| {
            let Part::Of { info, buffers, is_last_of_call } = part else { return next() };
            let whole = &infos[*info];
            let fence = if *is_last_of_call { fence } else { vk::Fence::null() };
            let (is_first, is_last) = (buffers.start == 0, buffers.end == buffers_of(whole).len());
            let info = vk::SubmitInfo2 {
                wait_semaphore_info_count: if is_first { whole.wait_semaphore_info_count } else { 0 },
                command_buffer_info_count: buffers.len() as u32,
                p_command_buffer_infos: buffers_of(whole)[buffers.clone()].as_ptr(),
                signal_semaphore_info_count: if is_last { whole.signal_semaphore_info_count } else { 0 },
                ..*whole
            };
            let submit = this.next::<Next>().submit_2.expect("a function that the device has");
            // SAFETY: a part of what the program submits.
            unsafe { submit(queue, 1, &info, fence) }
        };
        let buffers = infos.iter().map(|info| buffers_of(info).iter().map(|info| info.command_buffer).collect());
        let uses = uses_of(&this, buffers);
        let can_split = Vec::from_iter(infos.iter().map(|info| info.p_next.is_null()));
        // SAFETY: the program calls a function of the queue.
        told(unsafe { residency.submit(queue, &uses, &can_split, send) })
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
