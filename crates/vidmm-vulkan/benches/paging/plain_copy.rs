//! A copy from system memory to local memory, as any Vulkan program makes it.

use ash::vk;
use vidmm_vulkan::Adapter;

/// Two buffers in system memory and one in local memory, and the commands that copy all of either to the third. The copies come from
/// both in turn, as those of paging come from two sets.
pub struct PlainCopy {
    buffers: [(vk::Buffer, vk::DeviceMemory); 3],
    pool: vk::CommandPool,
    commands: Vec<vk::CommandBuffer>,
    next: usize,
    done: vk::Fence,
}

impl PlainCopy {
    pub fn new(adapter: &Adapter, bytes: u64) -> Result<Self, vk::Result> {
        let device = adapter.raw();
        let usage = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        let report = adapter.report();
        let buffer = |memory_type: Option<u32>| {
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
        let buffers = [buffer(report.system_type)?, buffer(report.system_type)?, buffer(report.local_type)?];
        let pool = vk::CommandPoolCreateInfo::default().queue_family_index(adapter.queue_family());
        // SAFETY: the device lives; the commands copy within the buffers, which live as long as they do.
        unsafe {
            let pool = device.create_command_pool(&pool, None)?;
            let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(2);
            let commands = device.allocate_command_buffers(&info)?;
            for (&commands, from) in commands.iter().zip(buffers) {
                device.begin_command_buffer(commands, &vk::CommandBufferBeginInfo::default())?;
                let all = [vk::BufferCopy::default().size(bytes)];
                device.cmd_copy_buffer(commands, from.0, buffers[2].0, &all);
                device.end_command_buffer(commands)?;
            }
            let done = device.create_fence(&vk::FenceCreateInfo::default(), None)?;
            Ok(Self { buffers, pool, commands, next: 0, done })
        }
    }

    /// Copies, and waits for it.
    pub fn copy(&mut self, adapter: &Adapter) {
        let device = adapter.raw();
        let commands = [self.commands[self.next]];
        self.next = 1 - self.next;
        let info = [vk::SubmitInfo::default().command_buffers(&commands)];
        // SAFETY: nobody else uses the queue meanwhile, and the last copy has ended.
        let copied = adapter.with_queue(|queue| unsafe { device.queue_submit(queue, &info, self.done) });
        copied.expect("it is submitted");
        // SAFETY: the fence was just submitted.
        unsafe {
            device.wait_for_fences(&[self.done], true, u64::MAX).expect("it ends");
            device.reset_fences(&[self.done]).expect("nobody waits for it");
        }
    }

    /// Submits nothing to do, and does not wait.
    pub fn submit_nothing(&self, adapter: &Adapter) {
        let info = [vk::SubmitInfo::default()];
        // SAFETY: nobody else uses the queue meanwhile.
        let submitted =
            adapter.with_queue(|queue| unsafe { adapter.raw().queue_submit(queue, &info, vk::Fence::null()) });
        submitted.expect("it is submitted");
    }

    pub fn destroy(self, adapter: &Adapter) {
        let device = adapter.raw();
        // SAFETY: no copy is under way.
        unsafe {
            device.destroy_fence(self.done, None);
            device.destroy_command_pool(self.pool, None);
            for (buffer, memory) in self.buffers {
                device.destroy_buffer(buffer, None);
                device.free_memory(memory, None);
            }
        }
    }
}
