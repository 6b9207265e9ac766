//! Commands that copy and fill.

use std::ffi::c_void;

use ash::vk;

use super::chain::hooks;
use super::list;
use crate::ranges::Access;

hooks! {
    fn copy(
        buffer: vk::CommandBuffer, from: vk::Buffer, to: vk::Buffer, count: u32, regions: *const vk::BufferCopy
    ) = c"vkCmdCopyBuffer" => |this, next| {
        // SAFETY: array and length come from the program together.
        let regions = unsafe { list(regions, count) };
        this.record(buffer, |record, tables| {
            for region in regions {
                record.use_range(tables.range(from, region.src_offset, region.size, Access::Read));
                record.use_range(tables.range(to, region.dst_offset, region.size, Access::Write));
            }
        });
        next();
    }

    fn copy_2(
        buffer: vk::CommandBuffer, info: &vk::CopyBufferInfo2<'_>
    ) = c"vkCmdCopyBuffer2", c"vkCmdCopyBuffer2KHR" => |this, next| {
        // SAFETY: array and length come from the program together.
        let regions = unsafe { list(info.p_regions, info.region_count) };
        this.record(buffer, |record, tables| {
            for region in regions {
                record.use_range(tables.range(info.src_buffer, region.src_offset, region.size, Access::Read));
                record.use_range(tables.range(info.dst_buffer, region.dst_offset, region.size, Access::Write));
            }
        });
        next();
    }

    fn copy_to_image(
        buffer: vk::CommandBuffer, from: vk::Buffer, to: vk::Image, layout: vk::ImageLayout, count: u32,
        regions: *const vk::BufferImageCopy
    ) = c"vkCmdCopyBufferToImage" => |this, next| {
        // SAFETY: array and length come from the program together.
        let regions = unsafe { list(regions, count) };
        this.record(buffer, |record, tables| {
            for region in regions {
                record.use_range(tables.range(from, region.buffer_offset, vk::WHOLE_SIZE, Access::Read));
            }
        });
        next();
    }

    fn copy_to_image_2(
        buffer: vk::CommandBuffer, info: &vk::CopyBufferToImageInfo2<'_>
    ) = c"vkCmdCopyBufferToImage2", c"vkCmdCopyBufferToImage2KHR" => |this, next| {
        // SAFETY: array and length come from the program together.
        let regions = unsafe { list(info.p_regions, info.region_count) };
        this.record(buffer, |record, tables| {
            for region in regions {
                record.use_range(tables.range(info.src_buffer, region.buffer_offset, vk::WHOLE_SIZE, Access::Read));
            }
        });
        next();
    }

    fn copy_from_image(
        buffer: vk::CommandBuffer, from: vk::Image, layout: vk::ImageLayout, to: vk::Buffer, count: u32,
        regions: *const vk::BufferImageCopy
    ) = c"vkCmdCopyImageToBuffer" => |this, next| {
        // SAFETY: array and length come from the program together.
        let regions = unsafe { list(regions, count) };
        this.record(buffer, |record, tables| {
            for region in regions {
                record.use_range(tables.range(to, region.buffer_offset, vk::WHOLE_SIZE, Access::Update));
            }
        });
        next();
    }

    fn copy_from_image_2(
        buffer: vk::CommandBuffer, info: &vk::CopyImageToBufferInfo2<'_>
    ) = c"vkCmdCopyImageToBuffer2", c"vkCmdCopyImageToBuffer2KHR" => |this, next| {
        // SAFETY: array and length come from the program together.
        let regions = unsafe { list(info.p_regions, info.region_count) };
        this.record(buffer, |record, tables| {
            for region in regions {
                record.use_range(tables.range(info.dst_buffer, region.buffer_offset, vk::WHOLE_SIZE, Access::Update));
            }
        });
        next();
    }

    fn fill(
        buffer: vk::CommandBuffer, to: vk::Buffer, offset: u64, bytes: u64, value: u32
    ) = c"vkCmdFillBuffer" => |this, next| {
        this.record(buffer, |record, tables| record.use_range(tables.range(to, offset, bytes, Access::Write)));
        next();
    }

    fn update(
        buffer: vk::CommandBuffer, to: vk::Buffer, offset: u64, bytes: u64, content: *const c_void
    ) = c"vkCmdUpdateBuffer" => |this, next| {
        this.record(buffer, |record, tables| record.use_range(tables.range(to, offset, bytes, Access::Write)));
        next();
    }

    fn copy_queries(
        buffer: vk::CommandBuffer, pool: vk::QueryPool, first: u32, count: u32, to: vk::Buffer, offset: u64,
        stride: u64, flags: vk::QueryResultFlags
    ) = c"vkCmdCopyQueryPoolResults" => |this, next| {
        // The last result may be shorter than the stride.
        let bytes = stride.saturating_mul(u64::from(count)).max(16);
        this.record(buffer, |record, tables| record.use_range(tables.range(to, offset, bytes, Access::Update)));
        next();
    }
}
