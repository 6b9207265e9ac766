//! The application's own part: a compute kernel on its own Vulkan device, as any engine has one.

use ash::vk;

/// A dispatch of the kernel on a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The address of the buffer.
    pub words: u64,
    /// The address of the word that counts those which are wrong.
    pub wrong: u64,
    /// The words of 32 bits that are looked at.
    pub count: u32,
    /// The seed of the words that are expected; none expects zeros.
    pub expected: Option<u32>,
    /// The seed of the words that are written; none writes nothing.
    pub next: Option<u32>,
}

/// The pipeline, and command buffers for it. It is dropped when the GPU is through with all of them.
pub struct Kernel {
    device: ash::Device,
    layout: vk::PipelineLayout,
    pipeline: vk::Pipeline,
    pool: vk::CommandPool,
    free: Vec<vk::CommandBuffer>,
}

/// The workgroups of a dispatch: each takes its share of the words.
const GROUPS: u32 = 256;

impl Kernel {
    /// Compiles the kernel for queues of `family`.
    pub fn new(device: &ash::Device, family: u32) -> Result<Self, vk::Result> {
        let device = device.clone();
        let code: Vec<u32> = include_bytes!("../../shaders/stream.spv")
            .chunks_exact(4)
            .map(|word| u32::from_le_bytes(word.try_into().expect("a word has 4 bytes")))
            .collect();
        let range = [vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(32)];
        // SAFETY: the code is valid, and needs buffer addresses, which the manager's device has; all handles are of the device.
        unsafe {
            let info = vk::PipelineLayoutCreateInfo::default().push_constant_ranges(&range);
            let layout = device.create_pipeline_layout(&info, None)?;
            let module = device.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(&code), None)?;
            let stage = vk::PipelineShaderStageCreateInfo::default()
                .stage(vk::ShaderStageFlags::COMPUTE)
                .module(module)
                .name(c"main");
            let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout);
            let pipeline = device.create_compute_pipelines(vk::PipelineCache::null(), &[info], None);
            device.destroy_shader_module(module, None);
            let pipeline = pipeline.map_err(|(_, result)| result)?[0];
            let info = vk::CommandPoolCreateInfo::default()
                .flags(vk::CommandPoolCreateFlags::RESET_COMMAND_BUFFER)
                .queue_family_index(family);
            let pool = device.create_command_pool(&info, None)?;
            Ok(Self { device, layout, pipeline, pool, free: Vec::new() })
        }
    }

    /// Records a command buffer with `steps`, of different buffers, one after the other.
    pub fn record(&mut self, steps: &[Step]) -> Result<vk::CommandBuffer, vk::Result> {
        // SAFETY: all handles are of the device; a command buffer that is free is used by nothing.
        unsafe {
            let commands = match self.free.pop() {
                Some(commands) => commands,
                None => {
                    let info = vk::CommandBufferAllocateInfo::default().command_pool(self.pool).command_buffer_count(1);
                    self.device.allocate_command_buffers(&info)?[0]
                }
            };
            self.device.begin_command_buffer(commands, &vk::CommandBufferBeginInfo::default())?;
            self.device.cmd_bind_pipeline(commands, vk::PipelineBindPoint::COMPUTE, self.pipeline);
            for step in steps {
                let stage = vk::ShaderStageFlags::COMPUTE;
                self.device.cmd_push_constants(commands, self.layout, stage, 0, &step.to_bytes());
                self.device.cmd_dispatch(commands, GROUPS, 1, 1);
            }
            // All that is submitted later sees the kernel's words.
            let barrier = [vk::MemoryBarrier::default()
                .src_access_mask(vk::AccessFlags::SHADER_WRITE)
                .dst_access_mask(vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE)];
            let (from, to) = (vk::PipelineStageFlags::COMPUTE_SHADER, vk::PipelineStageFlags::ALL_COMMANDS);
            self.device.cmd_pipeline_barrier(commands, from, to, vk::DependencyFlags::empty(), &barrier, &[], &[]);
            self.device.end_command_buffer(commands)?;
            Ok(commands)
        }
    }

    /// The GPU is through with a command buffer.
    pub fn recycle(&mut self, commands: vk::CommandBuffer) {
        self.free.push(commands);
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // SAFETY: the GPU is through with all command buffers, and these handles are the last to them.
        unsafe {
            self.device.destroy_command_pool(self.pool, None);
            self.device.destroy_pipeline(self.pipeline, None);
            self.device.destroy_pipeline_layout(self.layout, None);
        }
    }
}

impl Step {
    /// The push constants of `stream.comp`.
    fn to_bytes(self) -> Vec<u8> {
        let flags = u32::from(self.expected.is_none()) | u32::from(self.next.is_none()) << 1;
        let words = [self.count, self.expected.unwrap_or(0), self.next.unwrap_or(0), flags];
        let addresses = [self.words, self.wrong].into_iter().flat_map(u64::to_ne_bytes);
        addresses.chain(words.into_iter().flat_map(u32::to_ne_bytes)).collect()
    }
}
