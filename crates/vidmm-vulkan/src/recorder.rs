//! Records commands, and submits them in the order in which they came.

use std::ops::Range;
use std::sync::Arc;

use ash::vk;

use crate::block::Block;
use crate::device::{Batch, Mark, VulkanDevice};
use crate::error::VulkanError;
use crate::foreign::EvictedPart;
use crate::kernels::{Arguments, Kernel};

/// The most workgroups of a dispatch that every device allows.
const MAX_GROUPS: u64 = 65_535;

/// The most commands of a command buffer: the GPU begins while the host still records.
const MAX_COMMANDS: u32 = 256;

/// The bytes after which a command buffer is submitted, for the same reason.
const MAX_BYTES: u64 = 4 << 20;

/// Command buffers, used again once the GPU is through with them.
pub(crate) struct Recorder {
    device: Arc<VulkanDevice>,
    pool: vk::CommandPool,
    /// The command buffers that were submitted, oldest first, and when they have ended.
    submitted: std::collections::VecDeque<(vk::CommandBuffer, Mark)>,
    /// The one that is being recorded.
    open: Option<Open>,
    /// The accesses of its commands since its last barrier.
    accesses: Accesses,
}

/// A command buffer that is being recorded.
struct Open {
    commands: vk::CommandBuffer,
    count: u32,
    /// The bytes that are copied and filled.
    bytes: u64,
    /// A kernel of it uses the addresses of processes.
    uses_addresses: bool,
}

/// The memory that commands access of which no barrier has been recorded yet, as ranges of the blocks' addresses.
#[derive(Default)]
struct Accesses {
    reads: Vec<Range<u64>>,
    writes: Vec<Range<u64>>,
    /// A kernel reaches memory through addresses that its blocks do not tell.
    anything: bool,
}

/// The memory that a command accesses.
enum Access {
    /// It reads the first range, if any, and writes the second.
    Ranges(Option<Range<u64>>, Range<u64>),
    /// It may access anything in memory.
    Anything,
    /// The same, through addresses of processes.
    Addresses,
}

impl Access {
    /// The bytes that are written, as far as that is known.
    fn bytes(&self) -> u64 {
        match self {
            Self::Ranges(_, written) => written.end - written.start,
            Self::Anything | Self::Addresses => 0,
        }
    }
}

impl Accesses {
    /// Whether a command must see what is written here, or must not write before it is read.
    fn conflict(&self, with: &Access) -> bool {
        let meets = |ranges: &[Range<u64>], of: &Range<u64>| {
            ranges.iter().any(|range| range.start < of.end && of.start < range.end)
        };
        match with {
            Access::Anything | Access::Addresses => self.anything || !self.reads.is_empty() || !self.writes.is_empty(),
            Access::Ranges(reads, writes) => {
                self.anything
                    || meets(&self.reads, writes)
                    || meets(&self.writes, writes)
                    || reads.as_ref().is_some_and(|reads| meets(&self.writes, reads))
            }
        }
    }

    fn clear(&mut self) {
        self.reads.clear();
        self.writes.clear();
        self.anything = false;
    }

    fn add(&mut self, access: Access) {
        match access {
            Access::Anything | Access::Addresses => self.anything = true,
            Access::Ranges(reads, writes) => {
                self.reads.extend(reads);
                self.writes.push(writes);
            }
        }
    }
}

/// A part of a block, in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) block: &'a Block,
    pub(crate) offset: u64,
}

impl Place<'_> {
    /// The `bytes` bytes from here on, which are those from `offset` on of a buffer that leaves.
    pub(crate) fn evicted(self, commands: vk::CommandBuffer, offset: u64, bytes: u64) -> EvictedPart {
        let address = self.block.address + self.offset;
        EvictedPart { commands, memory: self.block.buffer(), memory_offset: self.offset, address, offset, bytes }
    }

    /// The addresses of the `bytes` bytes from here on.
    fn addresses(self, bytes: u64) -> Range<u64> {
        let first = self.block.address + self.offset;
        first..first + bytes
    }
}

impl Recorder {
    pub(crate) fn new(device: &Arc<VulkanDevice>) -> Result<Self, VulkanError> {
        let info = vk::CommandPoolCreateInfo::default()
            .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER)
            .queue_family_index(device.report().queue_family.unwrap_or(0));
        // SAFETY: the device was made with a queue of the family.
        let pool = unsafe { device.raw.create_command_pool(&info, None) };
        let pool = pool.map_err(VulkanError::of("vkCreateCommandPool"))?;
        let (submitted, accesses) = (std::collections::VecDeque::new(), Accesses::default());
        Ok(Self { device: device.clone(), pool, submitted, open: None, accesses })
    }

    /// Copies `bytes` bytes. The two ranges do not overlap.
    pub(crate) fn copy(&mut self, from: Place<'_>, to: Place<'_>, bytes: u64) -> Result<(), VulkanError> {
        let region = vk::BufferCopy::default().src_offset(from.offset).dst_offset(to.offset).size(bytes);
        let access = Access::Ranges(Some(from.addresses(bytes)), to.addresses(bytes));
        self.copy_regions(from.block, to.block, &[region], access)
    }

    fn copy_regions(
        &mut self,
        from: &Block,
        to: &Block,
        regions: &[vk::BufferCopy],
        access: Access,
    ) -> Result<(), VulkanError> {
        self.record(access, |device, commands| {
            // SAFETY: the caller keeps both blocks until the commands have ended, and the ranges are inside of them.
            unsafe { device.cmd_copy_buffer(commands, from.buffer(), to.buffer(), regions) }
        })
    }

    /// Copies the pieces that `regions` say, which do not overlap, from one block to another.
    pub(crate) fn copy_pieces(
        &mut self,
        from: &Block,
        to: &Block,
        regions: &[vk::BufferCopy],
    ) -> Result<(), VulkanError> {
        self.copy_regions(from, to, regions, Access::Anything)
    }

    /// Fills `bytes` bytes, a multiple of 4, with `pattern`.
    pub(crate) fn fill(&mut self, to: Place<'_>, bytes: u64, pattern: u32) -> Result<(), VulkanError> {
        self.record(Access::Ranges(None, to.addresses(bytes)), |device, commands| {
            // SAFETY: as for a copy.
            unsafe { device.cmd_fill_buffer(commands, to.block.buffer(), to.offset, bytes, pattern) }
        })
    }

    /// Writes a word.
    #[cfg(feature = "lockstep")]
    pub(crate) fn write_word(&mut self, to: Place<'_>, word: u64) -> Result<(), VulkanError> {
        self.record(Access::Ranges(None, to.addresses(8)), |device, commands| {
            // SAFETY: as for a copy.
            unsafe { device.cmd_update_buffer(commands, to.block.buffer(), to.offset, &word.to_ne_bytes()) }
        })
    }

    /// Runs `kernel` on `num_pages` pages, for which `arguments` are those of the first. Every address that it reaches was
    /// bound, or reads as zero.
    pub(crate) fn dispatch(
        &mut self,
        kernel: Kernel,
        mut arguments: Arguments,
        num_pages: u64,
    ) -> Result<(), VulkanError> {
        let mut left = num_pages;
        while left > 0 {
            let groups = left.min(MAX_GROUPS);
            let kernels = self.device.kernels.as_ref();
            let kernels = kernels.expect("kernels run only on a device that was opened for them");
            let (pipeline, layout) = (kernels.pipeline(kernel), kernels.layout);
            let bytes = arguments.to_bytes();
            self.record(Access::Addresses, |device, commands| {
                // SAFETY: the pipeline is the device's, and the arguments are those of its layout.
                unsafe {
                    device.cmd_bind_pipeline(commands, vk::PipelineBindPoint::COMPUTE, pipeline);
                    device.cmd_push_constants(commands, layout, vk::ShaderStageFlags::COMPUTE, 0, &bytes);
                    device.cmd_dispatch(commands, groups as u32, 1, 1);
                }
            })?;
            arguments = arguments.later(kernel, groups);
            left -= groups;
        }
        Ok(())
    }

    /// Lets `record` record commands of its own, which may access anything.
    pub(crate) fn record_foreign(&mut self, record: impl FnOnce(vk::CommandBuffer)) -> Result<(), VulkanError> {
        self.record(Access::Anything, |_, commands| record(commands))
    }

    /// Records a command, behind a barrier if it must see what was recorded before, through whatever alias.
    fn record(
        &mut self,
        access: Access,
        command: impl FnOnce(&ash::Device, vk::CommandBuffer),
    ) -> Result<(), VulkanError> {
        let Open { commands, count, bytes, uses_addresses } = match self.open.take() {
            Some(open) => open,
            None => Open { commands: self.begin()?, count: 0, bytes: 0, uses_addresses: false },
        };
        let uses_addresses = uses_addresses || matches!(access, Access::Addresses);
        if self.accesses.conflict(&access) {
            self.barrier(commands);
        }
        let (count, bytes) = (count + 1, bytes + access.bytes());
        self.accesses.add(access);
        command(&self.device.raw, commands);
        self.open = Some(Open { commands, count, bytes, uses_addresses });
        if count == MAX_COMMANDS || bytes >= MAX_BYTES { self.submit() } else { Ok(()) }
    }

    /// Records a barrier: what comes later sees all that was written before, and so does the host.
    fn barrier(&mut self, commands: vk::CommandBuffer) {
        self.accesses.clear();
        let barrier = vk::MemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::MEMORY_WRITE | vk::AccessFlags::MEMORY_READ)
            .dst_access_mask(vk::AccessFlags::MEMORY_WRITE | vk::AccessFlags::MEMORY_READ | vk::AccessFlags::HOST_READ);
        let all = vk::PipelineStageFlags::ALL_COMMANDS;
        let (to, flags) = (all | vk::PipelineStageFlags::HOST, vk::DependencyFlags::empty());
        // SAFETY: the command buffer is being recorded.
        unsafe { self.device.raw.cmd_pipeline_barrier(commands, all, to, flags, &[barrier], &[], &[]) };
    }

    fn begin(&mut self) -> Result<vk::CommandBuffer, VulkanError> {
        let raw = &self.device.raw;
        let oldest = self.submitted.front().copied();
        let commands = match oldest {
            Some((commands, ended)) if self.device.has_reached(ended)? => {
                self.submitted.pop_front();
                commands
            }
            _ => {
                let info = vk::CommandBufferAllocateInfo::default().command_pool(self.pool).command_buffer_count(1);
                // SAFETY: the pool is the device's, and used by its owner alone.
                unsafe { raw.allocate_command_buffers(&info) }.map_err(VulkanError::of("vkAllocateCommandBuffers"))?[0]
            }
        };
        let info = vk::CommandBufferBeginInfo::default().flags(vk::CommandBufferUsageFlags::ONE_TIME_SUBMIT);
        // SAFETY: the GPU is through with the command buffer; beginning it resets it.
        unsafe { raw.begin_command_buffer(commands, &info) }.map_err(VulkanError::of("vkBeginCommandBuffer"))?;
        Ok(commands)
    }

    /// Submits what was recorded.
    pub(crate) fn submit(&mut self) -> Result<(), VulkanError> {
        let Some(Open { commands, uses_addresses, .. }) = self.open.take() else { return Ok(()) };
        self.barrier(commands);
        // SAFETY: the command buffer is being recorded.
        unsafe { self.device.raw.end_command_buffer(commands) }.map_err(VulkanError::of("vkEndCommandBuffer"))?;
        let ended = self.device.submit(Batch { commands: &[commands], uses_addresses, ..Batch::default() })?;
        self.submitted.push_back((commands, ended));
        Ok(())
    }

    /// Submits what was recorded, and waits for it.
    pub(crate) fn finish(&mut self) -> Result<(), VulkanError> {
        self.submit()?;
        match self.submitted.back() {
            Some(&(_, ended)) => self.device.wait(ended),
            None => Ok(()),
        }
    }
}

impl Arguments {
    /// The arguments for the pages that come `pages` pages later.
    fn later(self, kernel: Kernel, pages: u64) -> Self {
        let digests = if kernel == Kernel::Digest { pages * 8 } else { 0 };
        Self {
            pages: self.pages + pages * vidmm::PAGE_SIZE,
            first: self.first.wrapping_add(digests),
            page: self.page + pages,
            surface_page: self.surface_page + pages,
            ..self
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.device.settle();
        // SAFETY: nothing that was submitted still runs; the pool takes its command buffers with it.
        unsafe { self.device.raw.destroy_command_pool(self.pool, None) };
    }
}

#[cfg(test)]
mod tests {
    use super::{Access, Accesses};

    #[test]
    fn a_barrier_comes_before_what_meets_an_earlier_write_or_overwrites_an_earlier_read() {
        let mut accesses = Accesses::default();
        assert!(!accesses.conflict(&Access::Anything), "nothing was accessed");
        accesses.add(Access::Ranges(Some(0..10), 100..110));
        let conflicts = |read, written| accesses.conflict(&Access::Ranges(read, written));
        assert!(!conflicts(Some(0..10), 110..120), "it reads the same, and writes beside");
        assert!(conflicts(Some(109..112), 200..203), "it reads what was written");
        assert!(conflicts(Some(20..30), 90..101), "it writes what was written");
        assert!(conflicts(None, 9..10), "it writes what was read");
        assert!(accesses.conflict(&Access::Anything));
        accesses = Accesses::default();
        accesses.add(Access::Anything);
        assert!(accesses.conflict(&Access::Ranges(None, 0..1)));
    }
}
