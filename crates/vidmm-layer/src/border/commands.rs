//! Command buffers: bound sets and buffers, and commands that run shaders.

use std::ffi::c_void;

use ash::vk;

use super::chain::hooks;
use super::descriptors::{templated, written};
use super::list;
use super::structures::Allocator;
use crate::descriptors::Use;
use crate::fault;
use crate::ranges::Access;
use crate::record::Record;
use crate::tables::Tables;
use crate::trace::uncovered;

/// The bytes of the parameters of an indirect command.
const DRAW: u64 = size_of::<vk::DrawIndirectCommand>() as u64;
const DRAW_INDEXED: u64 = size_of::<vk::DrawIndexedIndirectCommand>() as u64;
const DRAW_TASKS: u64 = size_of::<vk::DrawMeshTasksIndirectCommandEXT>() as u64;
const DISPATCH: u64 = size_of::<vk::DispatchIndirectCommand>() as u64;

/// Binds sets, each with its part of the dynamic offsets.
fn bind(
    record: &mut Record,
    tables: &Tables,
    point: vk::PipelineBindPoint,
    first: u32,
    sets: &[vk::DescriptorSet],
    mut offsets: &[u32],
) {
    for (number, &set) in (first..).zip(sets) {
        let dynamic = tables.sets.get(&set).map_or(0, |(_, set)| set.num_dynamic());
        let (own, others) = offsets.split_at(dynamic.min(offsets.len()));
        record.bind_set(point, number, set, own);
        offsets = others;
    }
}

/// The points at which the shaders of some stages run.
fn points(of: vk::ShaderStageFlags) -> impl Iterator<Item = vk::PipelineBindPoint> {
    let rays = vk::ShaderStageFlags::RAYGEN_KHR
        | vk::ShaderStageFlags::ANY_HIT_KHR
        | vk::ShaderStageFlags::CLOSEST_HIT_KHR
        | vk::ShaderStageFlags::MISS_KHR
        | vk::ShaderStageFlags::INTERSECTION_KHR
        | vk::ShaderStageFlags::CALLABLE_KHR;
    let others = vk::ShaderStageFlags::ALL_GRAPHICS | vk::ShaderStageFlags::TASK_EXT | vk::ShaderStageFlags::MESH_EXT;
    let all = [
        (vk::ShaderStageFlags::COMPUTE, vk::PipelineBindPoint::COMPUTE),
        (others, vk::PipelineBindPoint::GRAPHICS),
        (rays, vk::PipelineBindPoint::RAY_TRACING_KHR),
    ];
    all.into_iter().filter(move |(stages, _)| stages.intersects(of)).map(|(_, point)| point)
}

/// Pushes descriptors.
///
/// # Safety
///
/// The writes are the program's.
unsafe fn push(
    record: &mut Record,
    tables: &Tables,
    point: vk::PipelineBindPoint,
    set: u32,
    writes: &[vk::WriteDescriptorSet<'_>],
) {
    for write in writes {
        // SAFETY: the write is the program's.
        let descriptors = unsafe { written(tables, write) };
        record.pushed(point, set).write((write.dst_binding, write.dst_array_element), descriptors);
    }
}

/// The range that the parameters of indirect commands are in.
fn parameters(tables: &Tables, buffer: vk::Buffer, offset: u64, count: u32, stride: u32, bytes: u64) -> Option<Use> {
    if fault::is("no-indirect") {
        return None;
    }
    let others = u64::from(count.checked_sub(1)?) * u64::from(stride);
    tables.range(buffer, offset, others + bytes, Access::Read)
}

hooks! {
    fn allocate(
        device: vk::Device, info: &vk::CommandBufferAllocateInfo<'_>, buffers: *mut vk::CommandBuffer
    ) -> vk::Result = c"vkAllocateCommandBuffers" => |this, next| {
        let result = next();
        if result == vk::Result::SUCCESS {
            let mut tables = this.tables();
            // SAFETY: a successful call has made the command buffers.
            for &buffer in unsafe { list(buffers, info.command_buffer_count) } {
                tables.commands.insert(buffer, (info.command_pool, Record::default()));
            }
        }
        result
    }

    fn free(
        device: vk::Device, pool: vk::CommandPool, count: u32, buffers: *const vk::CommandBuffer
    ) = c"vkFreeCommandBuffers" => |this, next| {
        let mut tables = this.tables();
        // SAFETY: array and length come from the program together.
        unsafe { list(buffers, count) }.iter().for_each(|buffer| _ = tables.commands.remove(buffer));
        drop(tables);
        next();
    }

    fn destroy_pool(device: vk::Device, pool: vk::CommandPool, allocator: Allocator<'_>) = c"vkDestroyCommandPool" => |this, next| {
        this.tables().commands.retain(|_, (of, _)| *of != pool);
        next();
    }

    fn begin(
        buffer: vk::CommandBuffer, info: *const vk::CommandBufferBeginInfo<'_>
    ) -> vk::Result = c"vkBeginCommandBuffer" => |this, next| {
        this.record(buffer, |record, _| *record = Record::default());
        next()
    }

    fn reset(
        buffer: vk::CommandBuffer, flags: vk::CommandBufferResetFlags
    ) -> vk::Result = c"vkResetCommandBuffer" => |this, next| {
        this.record(buffer, |record, _| *record = Record::default());
        next()
    }

    fn execute(
        buffer: vk::CommandBuffer, count: u32, secondaries: *const vk::CommandBuffer
    ) = c"vkCmdExecuteCommands" => |this, next| {
        // SAFETY: array and length come from the program together.
        let secondaries = unsafe { list(secondaries, count) };
        this.record(buffer, |record, _| secondaries.iter().for_each(|&secondary| record.execute(secondary)));
        next();
    }

    fn bind_sets(
        buffer: vk::CommandBuffer, point: vk::PipelineBindPoint, layout: vk::PipelineLayout, first: u32, count: u32,
        sets: *const vk::DescriptorSet, num_offsets: u32, offsets: *const u32
    ) = c"vkCmdBindDescriptorSets" => |this, next| {
        // SAFETY: arrays and lengths come from the program together.
        let (sets, offsets) = unsafe { (list(sets, count), list(offsets, num_offsets)) };
        this.record(buffer, |record, tables| bind(record, tables, point, first, sets, offsets));
        next();
    }

    fn bind_sets_2(
        buffer: vk::CommandBuffer, info: &vk::BindDescriptorSetsInfoKHR<'_>
    ) = c"vkCmdBindDescriptorSets2", c"vkCmdBindDescriptorSets2KHR" => |this, next| {
        // SAFETY: arrays and lengths come from the program together.
        let (sets, offsets) = unsafe {
            (
                list(info.p_descriptor_sets, info.descriptor_set_count),
                list(info.p_dynamic_offsets, info.dynamic_offset_count),
            )
        };
        this.record(buffer, |record, tables| {
            points(info.stage_flags).for_each(|point| bind(record, tables, point, info.first_set, sets, offsets));
        });
        next();
    }

    fn push_set(
        buffer: vk::CommandBuffer, point: vk::PipelineBindPoint, layout: vk::PipelineLayout, set: u32, count: u32,
        writes: *const vk::WriteDescriptorSet<'_>
    ) = c"vkCmdPushDescriptorSet", c"vkCmdPushDescriptorSetKHR" => |this, next| {
        // SAFETY: array and length come from the program together.
        this.record(buffer, |record, tables| unsafe { push(record, tables, point, set, list(writes, count)) });
        next();
    }

    fn push_set_2(
        buffer: vk::CommandBuffer, info: &vk::PushDescriptorSetInfoKHR<'_>
    ) = c"vkCmdPushDescriptorSet2", c"vkCmdPushDescriptorSet2KHR" => |this, next| {
        this.record(buffer, |record, tables| {
            for point in points(info.stage_flags) {
                // SAFETY: array and length come from the program together.
                let writes = unsafe { list(info.p_descriptor_writes, info.descriptor_write_count) };
                // SAFETY: the writes are the program's.
                unsafe { push(record, tables, point, info.set, writes) };
            }
        });
        next();
    }

    fn push_by_template(
        buffer: vk::CommandBuffer, template: vk::DescriptorUpdateTemplate, layout: vk::PipelineLayout, set: u32,
        data: *const c_void
    ) = c"vkCmdPushDescriptorSetWithTemplate", c"vkCmdPushDescriptorSetWithTemplateKHR" => |this, next| {
        this.record(buffer, |record, tables| {
            let point = tables.templates.get(&template).map_or(vk::PipelineBindPoint::COMPUTE, |(point, _)| *point);
            // SAFETY: the data are those of the program for the template.
            for (slot, descriptors) in unsafe { templated(tables, template, data) } {
                record.pushed(point, set).write(slot, descriptors);
            }
        });
        next();
    }

    fn push_by_template_2(
        buffer: vk::CommandBuffer, info: &vk::PushDescriptorSetWithTemplateInfoKHR<'_>
    ) = c"vkCmdPushDescriptorSetWithTemplate2", c"vkCmdPushDescriptorSetWithTemplate2KHR" => |this, next| {
        let (template, data) = (info.descriptor_update_template, info.p_data);
        this.record(buffer, |record, tables| {
            let point = tables.templates.get(&template).map_or(vk::PipelineBindPoint::COMPUTE, |(point, _)| *point);
            // SAFETY: the data are those of the program for the template.
            for (slot, descriptors) in unsafe { templated(tables, template, data) } {
                record.pushed(point, info.set).write(slot, descriptors);
            }
        });
        next();
    }

    fn bind_index(
        buffer: vk::CommandBuffer, of: vk::Buffer, offset: u64, index_type: vk::IndexType
    ) = c"vkCmdBindIndexBuffer" => |this, next| {
        this.record(buffer, |record, tables| {
            record.bind_index(tables.range(of, offset, vk::WHOLE_SIZE, Access::Read));
        });
        next();
    }

    fn bind_index_2(
        buffer: vk::CommandBuffer, of: vk::Buffer, offset: u64, bytes: u64, index_type: vk::IndexType
    ) = c"vkCmdBindIndexBuffer2", c"vkCmdBindIndexBuffer2KHR" => |this, next| {
        this.record(buffer, |record, tables| record.bind_index(tables.range(of, offset, bytes, Access::Read)));
        next();
    }

    fn bind_vertices(
        buffer: vk::CommandBuffer, first: u32, count: u32, of: *const vk::Buffer, offsets: *const u64
    ) = c"vkCmdBindVertexBuffers" => |this, next| {
        // SAFETY: arrays and length come from the program together.
        let (of, offsets) = unsafe { (list(of, count), list(offsets, count)) };
        this.record(buffer, |record, tables| {
            for ((number, &of), &offset) in (first..).zip(of).zip(offsets) {
                record.bind_vertices(number, tables.range(of, offset, vk::WHOLE_SIZE, Access::Read));
            }
        });
        next();
    }

    fn bind_vertices_2(
        buffer: vk::CommandBuffer, first: u32, count: u32, of: *const vk::Buffer, offsets: *const u64,
        sizes: *const u64, strides: *const u64
    ) = c"vkCmdBindVertexBuffers2", c"vkCmdBindVertexBuffers2EXT" => |this, next| {
        // SAFETY: arrays and length come from the program together; sizes may be missing.
        let (of, offsets, sizes) = unsafe { (list(of, count), list(offsets, count), list(sizes, count)) };
        this.record(buffer, |record, tables| {
            for (at, (&of, &offset)) in of.iter().zip(offsets).enumerate() {
                let bytes = sizes.get(at).copied().unwrap_or(vk::WHOLE_SIZE);
                record.bind_vertices(first + at as u32, tables.range(of, offset, bytes, Access::Read));
            }
        });
        next();
    }

    fn bind_feedback(
        buffer: vk::CommandBuffer, first: u32, count: u32, of: *const vk::Buffer, offsets: *const u64, sizes: *const u64
    ) = c"vkCmdBindTransformFeedbackBuffersEXT" => |this, next| {
        uncovered("transform-feedback");
        next();
    }

    fn begin_condition(
        buffer: vk::CommandBuffer, info: &vk::ConditionalRenderingBeginInfoEXT<'_>
    ) = c"vkCmdBeginConditionalRenderingEXT" => |this, next| {
        this.record(buffer, |record, tables| {
            record.use_range(tables.range(info.buffer, info.offset, 4, Access::Read));
        });
        next();
    }

    fn draw(
        buffer: vk::CommandBuffer, vertices: u32, instances: u32, first: u32, first_instance: u32
    ) = c"vkCmdDraw" => |this, next| {
        this.record(buffer, |record, _| record.draw(false));
        next();
    }

    fn draw_indexed(
        buffer: vk::CommandBuffer, indices: u32, instances: u32, first: u32, vertex: i32, first_instance: u32
    ) = c"vkCmdDrawIndexed" => |this, next| {
        this.record(buffer, |record, _| record.draw(true));
        next();
    }

    fn draw_indirect(
        buffer: vk::CommandBuffer, of: vk::Buffer, offset: u64, count: u32, stride: u32
    ) = c"vkCmdDrawIndirect" => |this, next| {
        this.record(buffer, |record, tables| {
            record.use_range(parameters(tables, of, offset, count, stride, DRAW));
            record.draw(false);
        });
        next();
    }

    fn draw_indexed_indirect(
        buffer: vk::CommandBuffer, of: vk::Buffer, offset: u64, count: u32, stride: u32
    ) = c"vkCmdDrawIndexedIndirect" => |this, next| {
        this.record(buffer, |record, tables| {
            record.use_range(parameters(tables, of, offset, count, stride, DRAW_INDEXED));
            record.draw(true);
        });
        next();
    }

    fn draw_indirect_count(
        buffer: vk::CommandBuffer, of: vk::Buffer, offset: u64, counter: vk::Buffer, counter_offset: u64, most: u32,
        stride: u32
    ) = c"vkCmdDrawIndirectCount", c"vkCmdDrawIndirectCountKHR", c"vkCmdDrawIndirectCountAMD" => |this, next| {
        this.record(buffer, |record, tables| {
            record.use_range(parameters(tables, of, offset, most, stride, DRAW));
            record.use_range(tables.range(counter, counter_offset, 4, Access::Read));
            record.draw(false);
        });
        next();
    }

    fn draw_indexed_indirect_count(
        buffer: vk::CommandBuffer, of: vk::Buffer, offset: u64, counter: vk::Buffer, counter_offset: u64, most: u32,
        stride: u32
    ) = c"vkCmdDrawIndexedIndirectCount", c"vkCmdDrawIndexedIndirectCountKHR", c"vkCmdDrawIndexedIndirectCountAMD" => |this, next| {
        this.record(buffer, |record, tables| {
            record.use_range(parameters(tables, of, offset, most, stride, DRAW_INDEXED));
            record.use_range(tables.range(counter, counter_offset, 4, Access::Read));
            record.draw(true);
        });
        next();
    }

    fn draw_multi(
        buffer: vk::CommandBuffer, count: u32, infos: *const vk::MultiDrawInfoEXT, instances: u32, first: u32, stride: u32
    ) = c"vkCmdDrawMultiEXT" => |this, next| {
        this.record(buffer, |record, _| record.draw(false));
        next();
    }

    fn draw_multi_indexed(
        buffer: vk::CommandBuffer, count: u32, infos: *const vk::MultiDrawIndexedInfoEXT, instances: u32, first: u32,
        stride: u32, offset: *const i32
    ) = c"vkCmdDrawMultiIndexedEXT" => |this, next| {
        this.record(buffer, |record, _| record.draw(true));
        next();
    }

    fn draw_byte_count(
        buffer: vk::CommandBuffer, instances: u32, first: u32, counter: vk::Buffer, offset: u64, from: u32, stride: u32
    ) = c"vkCmdDrawIndirectByteCountEXT" => |this, next| {
        this.record(buffer, |record, tables| {
            record.use_range(tables.range(counter, offset, 4, Access::Read));
            record.draw(false);
        });
        next();
    }

    fn draw_tasks(buffer: vk::CommandBuffer, x: u32, y: u32, z: u32) = c"vkCmdDrawMeshTasksEXT" => |this, next| {
        this.record(buffer, |record, _| record.shade(vk::PipelineBindPoint::GRAPHICS));
        next();
    }

    fn draw_tasks_indirect(
        buffer: vk::CommandBuffer, of: vk::Buffer, offset: u64, count: u32, stride: u32
    ) = c"vkCmdDrawMeshTasksIndirectEXT" => |this, next| {
        this.record(buffer, |record, tables| {
            record.use_range(parameters(tables, of, offset, count, stride, DRAW_TASKS));
            record.shade(vk::PipelineBindPoint::GRAPHICS);
        });
        next();
    }

    fn draw_tasks_indirect_count(
        buffer: vk::CommandBuffer, of: vk::Buffer, offset: u64, counter: vk::Buffer, counter_offset: u64, most: u32,
        stride: u32
    ) = c"vkCmdDrawMeshTasksIndirectCountEXT" => |this, next| {
        this.record(buffer, |record, tables| {
            record.use_range(parameters(tables, of, offset, most, stride, DRAW_TASKS));
            record.use_range(tables.range(counter, counter_offset, 4, Access::Read));
            record.shade(vk::PipelineBindPoint::GRAPHICS);
        });
        next();
    }

    fn trace_rays(
        buffer: vk::CommandBuffer, raygen: *const c_void, miss: *const c_void, hit: *const c_void,
        callable: *const c_void, width: u32, height: u32, depth: u32
    ) = c"vkCmdTraceRaysKHR" => |this, next| {
        this.record(buffer, |record, _| record.shade(vk::PipelineBindPoint::RAY_TRACING_KHR));
        next();
    }

    fn trace_rays_indirect(
        buffer: vk::CommandBuffer, raygen: *const c_void, miss: *const c_void, hit: *const c_void,
        callable: *const c_void, address: u64
    ) = c"vkCmdTraceRaysIndirectKHR" => |this, next| {
        this.record(buffer, |record, _| record.shade(vk::PipelineBindPoint::RAY_TRACING_KHR));
        next();
    }

    fn trace_rays_indirect_2(buffer: vk::CommandBuffer, address: u64) = c"vkCmdTraceRaysIndirect2KHR" => |this, next| {
        this.record(buffer, |record, _| record.shade(vk::PipelineBindPoint::RAY_TRACING_KHR));
        next();
    }

    fn dispatch(buffer: vk::CommandBuffer, x: u32, y: u32, z: u32) = c"vkCmdDispatch" => |this, next| {
        this.record(buffer, |record, _| record.shade(vk::PipelineBindPoint::COMPUTE));
        next();
    }

    fn dispatch_base(
        buffer: vk::CommandBuffer, from_x: u32, from_y: u32, from_z: u32, x: u32, y: u32, z: u32
    ) = c"vkCmdDispatchBase", c"vkCmdDispatchBaseKHR" => |this, next| {
        this.record(buffer, |record, _| record.shade(vk::PipelineBindPoint::COMPUTE));
        next();
    }

    fn dispatch_indirect(
        buffer: vk::CommandBuffer, of: vk::Buffer, offset: u64
    ) = c"vkCmdDispatchIndirect" => |this, next| {
        this.record(buffer, |record, tables| {
            record.use_range(parameters(tables, of, offset, 1, 0, DISPATCH));
            record.shade(vk::PipelineBindPoint::COMPUTE);
        });
        next();
    }
}
