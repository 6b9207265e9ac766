//! The compute shaders: the kernels of the model GPU.

use ash::vk;

use crate::error::VulkanError;

/// One of the shaders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kernel {
    /// The digests of pages.
    Digest,
    /// Pages that a kernel writes.
    Write,
    /// Compressed pages that become plain.
    #[cfg_attr(not(feature = "lockstep"), allow(dead_code))]
    Decompress,
}

/// The words of a page are combined with the key of a surface's page.
#[cfg_attr(not(feature = "lockstep"), allow(dead_code))]
pub(crate) const FLAG_SURFACE: u32 = 1;
/// They are combined with the key in place of the surface's number.
#[cfg_attr(not(feature = "lockstep"), allow(dead_code))]
pub(crate) const FLAG_KEY: u32 = 2;
/// The content is a ramp.
#[cfg_attr(not(feature = "lockstep"), allow(dead_code))]
pub(crate) const FLAG_RAMP: u32 = 4;
/// The state is the seed.
#[cfg_attr(not(feature = "lockstep"), allow(dead_code))]
pub(crate) const FLAG_SEED: u32 = 8;

/// The arguments of a dispatch, as `page.glsl` lays them out.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Arguments {
    pub(crate) pages: u64,
    pub(crate) first: u64,
    pub(crate) number: u64,
    pub(crate) page: u64,
    pub(crate) surface: u64,
    pub(crate) surface_page: u64,
    pub(crate) flags: u32,
}

/// Bytes of the arguments.
const ARGUMENT_BYTES: usize = 52;

impl Arguments {
    /// Their bytes.
    pub(crate) fn to_bytes(self) -> [u8; ARGUMENT_BYTES] {
        let mut bytes = [0; ARGUMENT_BYTES];
        let words = [self.pages, self.first, self.number, self.page, self.surface, self.surface_page];
        for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        bytes[48..].copy_from_slice(&self.flags.to_ne_bytes());
        bytes
    }
}

/// The pipelines.
pub(crate) struct Kernels {
    pub(crate) layout: vk::PipelineLayout,
    digest: vk::Pipeline,
    write: vk::Pipeline,
    decompress: vk::Pipeline,
}

impl Kernels {
    /// Compiles the shaders for `device`.
    pub(crate) fn new(device: &ash::Device) -> Result<Self, VulkanError> {
        let range =
            vk::PushConstantRange::default().stage_flags(vk::ShaderStageFlags::COMPUTE).size(ARGUMENT_BYTES as u32);
        let ranges = [range];
        let info = vk::PipelineLayoutCreateInfo::default().push_constant_ranges(&ranges);
        // SAFETY: 52 bytes are within the 128 that every device has.
        let layout = unsafe { device.create_pipeline_layout(&info, None) };
        let layout = layout.map_err(VulkanError::of("vkCreatePipelineLayout"))?;
        let pipeline = |code: &[u8]| pipeline(device, layout, code);
        Ok(Self {
            layout,
            digest: pipeline(include_bytes!("../shaders/digest.spv"))?,
            write: pipeline(include_bytes!("../shaders/write.spv"))?,
            decompress: pipeline(include_bytes!("../shaders/decompress.spv"))?,
        })
    }

    /// The pipeline of a shader.
    pub(crate) fn pipeline(&self, kernel: Kernel) -> vk::Pipeline {
        match kernel {
            Kernel::Digest => self.digest,
            Kernel::Write => self.write,
            Kernel::Decompress => self.decompress,
        }
    }

    /// Destroys the pipelines.
    ///
    /// # Safety
    ///
    /// `device` is the one that they were made for, runs nothing, and uses them no more.
    pub(crate) unsafe fn destroy(&self, device: &ash::Device) {
        // SAFETY: the caller's.
        unsafe {
            for pipeline in [self.digest, self.write, self.decompress] {
                device.destroy_pipeline(pipeline, None);
            }
            device.destroy_pipeline_layout(self.layout, None);
        }
    }
}

fn pipeline(device: &ash::Device, layout: vk::PipelineLayout, code: &[u8]) -> Result<vk::Pipeline, VulkanError> {
    let words: Vec<u32> = code.as_chunks::<4>().0.iter().map(|&word| u32::from_le_bytes(word)).collect();
    let info = vk::ShaderModuleCreateInfo::default().code(&words);
    // SAFETY: the code is what the GLSL beside it gives, which a test holds; it needs no feature that is not enabled.
    let module = unsafe { device.create_shader_module(&info, None) };
    let module = module.map_err(VulkanError::of("vkCreateShaderModule"))?;
    let stage =
        vk::PipelineShaderStageCreateInfo::default().stage(vk::ShaderStageFlags::COMPUTE).module(module).name(c"main");
    let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout);
    // SAFETY: module and layout are the device's, and fit each other.
    let made = unsafe { device.create_compute_pipelines(vk::PipelineCache::null(), &[info], None) };
    // SAFETY: a pipeline does not need its module once it is made.
    unsafe { device.destroy_shader_module(module, None) };
    let made = made.map_err(|(_, result)| VulkanError::Call { call: "vkCreateComputePipelines", result })?;
    Ok(made[0])
}
