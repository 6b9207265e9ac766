//! A program under the residency mode: each kind of buffer has the content that it had, in rounds in which all kinds do not fit at once.

use std::path::Path;
use std::{env, slice};

use ash::vk::{self, BufferUsageFlags as Usage, DescriptorType as Type, MemoryPropertyFlags as Flags};
use ash::{Device, Instance};

use crate::program::{layout, open, shader};

/// Each kind has a range of the layer.
pub const KIND_BYTES: u64 = 2 << 20;
const ROUNDS: u32 = 4;

/// The kinds, by the names of the layer's planted mistakes, and the word that each buffer begins with.
pub const KINDS: [(&str, u32); 9] = [
    ("uniform", 100),
    ("storage", 101),
    ("uniform-dynamic", 102),
    ("storage-dynamic", 103),
    ("uniform-texel", 104),
    ("storage-texel", 105),
    ("indirect", 1),
    ("vertex", 106),
    ("index", 5),
];
const INDIRECT: usize = 6;
const VERTEX: usize = 7;
const INDEX: usize = 8;

/// The descriptors of the first kinds.
const TYPES: [Type; 6] = [
    Type::UNIFORM_BUFFER,
    Type::STORAGE_BUFFER,
    Type::UNIFORM_BUFFER_DYNAMIC,
    Type::STORAGE_BUFFER_DYNAMIC,
    Type::UNIFORM_TEXEL_BUFFER,
    Type::STORAGE_TEXEL_BUFFER,
];

const UNIFORM: &str = "layout(binding = 1) uniform K { uint k; }; void main() { o[KIND] = k; }";
const STORAGE: &str = "layout(binding = 1) buffer K { uint k[]; }; void main() { o[KIND] = k[0]; k[0] += 1; }";
const SHADERS: [&str; 7] = [
    UNIFORM,
    STORAGE,
    UNIFORM,
    STORAGE,
    "layout(binding = 1) uniform usamplerBuffer k; void main() { o[KIND] = texelFetch(k, 0).x; }",
    "layout(binding = 1, r32ui) uniform uimageBuffer k;
     void main() { uvec4 was = imageLoad(k, 0); o[KIND] = was.x; imageStore(k, 0, was + 1); }",
    "void main() { o[KIND] += 1; }",
];
const VERTEX_SHADER: &str =
    "layout(location = 0) in uint at; void main() { o[KIND] = at; gl_Position = vec4(0); gl_PointSize = 1; }";
const INDEX_SHADER: &str = "void main() { o[KIND] = gl_VertexIndex; gl_Position = vec4(0); gl_PointSize = 1; }";

struct Program<'a> {
    instance: &'a Instance,
    physical: vk::PhysicalDevice,
    device: &'a Device,
    queue: vk::Queue,
    buffers: Vec<vk::Buffer>,
    memories: Vec<vk::DeviceMemory>,
    commands: Vec<vk::CommandBuffer>,
}

#[test]
#[ignore = "the tests of the module `paged` run it under the layer"]
fn reads_what_each_kind_had() {
    let Some((_entry, instance, physical)) = open() else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = env::var_os("VIDMM_LAYER_SHADERS").map_or(folder.path().to_owned(), Into::into);
    unsafe {
        let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
        let features = vk::PhysicalDeviceFeatures::default().vertex_pipeline_stores_and_atomics(true);
        let mut more = vk::PhysicalDeviceVulkan13Features::default().dynamic_rendering(true).synchronization2(true);
        let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_features(&features);
        let device = instance.create_device(physical, &info.push_next(&mut more), None).unwrap();
        let queue = device.get_device_queue(0, 0);
        let (buffers, memories, commands) = (Vec::new(), Vec::new(), Vec::new());
        let mut program =
            Program { instance: &instance, physical, device: &device, queue, buffers, memories, commands };
        program.play(&folder);
        device.destroy_device(None);
        instance.destroy_instance(None);
    }
}

impl Program<'_> {
    unsafe fn memory(&mut self, needs: vk::MemoryRequirements, bytes: u64, flags: Flags) -> vk::DeviceMemory {
        let types = unsafe { self.instance.get_physical_device_memory_properties(self.physical) };
        let types = types.memory_types_as_slice().iter();
        let right = |(at, of): (u32, &vk::MemoryType)| {
            needs.memory_type_bits & 1 << at != 0 && of.property_flags.contains(flags)
        };
        let kind = (0..).zip(types).position(right).expect("a type of memory") as u32;
        let info = vk::MemoryAllocateInfo::default().allocation_size(bytes).memory_type_index(kind);
        let memory = unsafe { self.device.allocate_memory(&info, None) }.unwrap();
        self.memories.push(memory);
        memory
    }

    unsafe fn buffer(&mut self, bytes: u64) -> vk::Buffer {
        let all = Usage::UNIFORM_BUFFER
            | Usage::STORAGE_BUFFER
            | Usage::UNIFORM_TEXEL_BUFFER
            | Usage::STORAGE_TEXEL_BUFFER
            | Usage::INDEX_BUFFER
            | Usage::VERTEX_BUFFER
            | Usage::INDIRECT_BUFFER
            | Usage::TRANSFER_DST;
        let info = vk::BufferCreateInfo::default().size(bytes).usage(all);
        let buffer = unsafe { self.device.create_buffer(&info, None) }.unwrap();
        self.buffers.push(buffer);
        buffer
    }

    unsafe fn record(&self, buffer: vk::CommandBuffer, commands: impl FnOnce(vk::CommandBuffer)) {
        let all = vk::PipelineStageFlags::ALL_COMMANDS;
        let access = vk::AccessFlags::MEMORY_READ | vk::AccessFlags::MEMORY_WRITE;
        let barrier = [vk::MemoryBarrier::default().src_access_mask(access).dst_access_mask(access)];
        unsafe {
            self.device.begin_command_buffer(buffer, &vk::CommandBufferBeginInfo::default()).unwrap();
            commands(buffer);
            self.device.cmd_pipeline_barrier(buffer, all, all, vk::DependencyFlags::empty(), &barrier, &[], &[]);
            self.device.end_command_buffer(buffer).unwrap();
        }
    }

    unsafe fn submit(&self, buffers: &[vk::CommandBuffer]) -> Result<(), vk::Result> {
        let info = [vk::SubmitInfo::default().command_buffers(buffers)];
        unsafe {
            self.device.queue_submit(self.queue, &info, vk::Fence::null())?;
            self.device.queue_wait_idle(self.queue)
        }
    }

    unsafe fn play(&mut self, folder: &Path) {
        let device = self.device;
        unsafe {
            // Two buffers for each kind share the memory: rounds take turns.
            let mut kinds = Vec::new();
            for _ in KINDS {
                let both = [self.buffer(KIND_BYTES), self.buffer(KIND_BYTES)];
                let needs = device.get_buffer_memory_requirements(both[0]);
                let memory = self.memory(needs, KIND_BYTES, Flags::DEVICE_LOCAL);
                both.iter().for_each(|&buffer| device.bind_buffer_memory(buffer, memory, 0).unwrap());
                kinds.push(both);
            }
            let out = self.buffer(4096);
            let needs = device.get_buffer_memory_requirements(out);
            let visible = self.memory(needs, needs.size, Flags::HOST_VISIBLE | Flags::HOST_COHERENT);
            device.bind_buffer_memory(out, visible, 0).unwrap();
            let words = device.map_memory(visible, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()).unwrap();
            let words = slice::from_raw_parts_mut(words.cast::<u32>(), KINDS.len());
            words.fill(0);

            let pool = device.create_command_pool(&vk::CommandPoolCreateInfo::default(), None).unwrap();
            let count = 3 * KINDS.len() as u32 + 1;
            let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(count);
            self.commands = device.allocate_command_buffers(&info).unwrap();
            let commands = self.commands.clone();
            let all_at_once = commands[3 * KINDS.len()];
            for ((buffer, both), (_, word)) in commands.iter().zip(&kinds).zip(KINDS) {
                self.record(*buffer, |buffer| device.cmd_fill_buffer(buffer, both[0], 0, vk::WHOLE_SIZE, word));
                self.submit(&[*buffer]).unwrap();
            }
            let objects = self.uses(folder, &kinds, out, &commands[KINDS.len()..3 * KINDS.len()]);
            let mut wrong = 0;
            for round in 0..ROUNDS {
                let first = KINDS.len() * (1 + round as usize % 2);
                let of_round = &commands[first..first + KINDS.len()];
                // The last round is one call.
                match round + 1 == ROUNDS {
                    true => self.submit(of_round).unwrap(),
                    false => of_round.iter().for_each(|&buffer| self.submit(&[buffer]).unwrap()),
                }
                for (at, ((_, word), found)) in KINDS.iter().zip(&*words).enumerate() {
                    let rises = [1, 3, 5, INDIRECT].contains(&at);
                    let expected = word + if rises { round } else { 0 };
                    wrong += u32::from(*found != expected);
                }
            }
            // One command buffer that uses all kinds.
            self.record(all_at_once, |buffer| {
                kinds.iter().for_each(|both| device.cmd_fill_buffer(buffer, both[1], 0, vk::WHOLE_SIZE, 9));
            });
            let result = self.submit(&[all_at_once]);
            println!("wrong {wrong}, all at once: {result:?}");
            objects(device);
            device.destroy_command_pool(pool, None);
            self.buffers.drain(..).for_each(|buffer| device.destroy_buffer(buffer, None));
            self.memories.drain(..).for_each(|memory| device.free_memory(memory, None));
        }
    }

    /// Records the use of each kind, by the first buffers and by the second. Returns what destroys the objects of the commands.
    unsafe fn uses(
        &self,
        folder: &Path,
        kinds: &[[vk::Buffer; 2]],
        out: vk::Buffer,
        commands: &[vk::CommandBuffer],
    ) -> impl FnOnce(&Device) + use<> {
        let device = self.device;
        let out_type = Type::STORAGE_BUFFER;
        let size = |ty| vk::DescriptorPoolSize { ty, descriptor_count: 64 };
        let sizes = TYPES.map(size);
        let none = vk::DescriptorSetLayoutCreateFlags::empty();
        let text = |kind: usize, body: &str| {
            format!("#version 450\n#define KIND {kind}\nlayout(binding = 0) buffer O {{ uint o[]; }};\n{body}")
        };
        unsafe {
            let info = vk::DescriptorPoolCreateInfo::default().max_sets(64).pool_sizes(&sizes);
            let descriptors = device.create_descriptor_pool(&info, None).unwrap();
            let (mut layouts, mut of_pipelines, mut pipelines, mut modules, mut views) =
                (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
            for (number, &buffer) in commands.iter().enumerate() {
                let (kind, turn) = (number % KINDS.len(), number / KINDS.len());
                let of = kinds[kind][turn];
                let types = Vec::from_iter([out_type].into_iter().chain(TYPES.get(kind).copied()));
                let layout = match kind {
                    VERTEX | INDEX => {
                        let binding = vk::DescriptorSetLayoutBinding::default().descriptor_type(out_type);
                        let binding = [binding.descriptor_count(1).stage_flags(vk::ShaderStageFlags::VERTEX)];
                        let info = vk::DescriptorSetLayoutCreateInfo::default().bindings(&binding);
                        device.create_descriptor_set_layout(&info, None).unwrap()
                    }
                    _ => layout(device, &types, none),
                };
                layouts.push(layout);
                let of_set = [layout];
                let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(descriptors).set_layouts(&of_set);
                let set = device.allocate_descriptor_sets(&info).unwrap()[0];
                let write = |binding, kind| {
                    let write = vk::WriteDescriptorSet::default().dst_set(set).dst_binding(binding);
                    write.descriptor_type(kind).descriptor_count(1)
                };
                let infos = [
                    [vk::DescriptorBufferInfo { buffer: out, offset: 0, range: vk::WHOLE_SIZE }],
                    [vk::DescriptorBufferInfo { buffer: of, offset: 0, range: 256 }],
                ];
                device.update_descriptor_sets(&[write(0, out_type).buffer_info(&infos[0])], &[]);
                if let Some(&kind) = TYPES.get(kind) {
                    let info = vk::BufferViewCreateInfo::default().buffer(of).format(vk::Format::R32_UINT).range(256);
                    let view = [device.create_buffer_view(&info, None).unwrap()];
                    views.extend(view);
                    let is_view = [Type::UNIFORM_TEXEL_BUFFER, Type::STORAGE_TEXEL_BUFFER].contains(&kind);
                    let write = match is_view {
                        true => write(1, kind).texel_buffer_view(&view),
                        false => write(1, kind).buffer_info(&infos[1]),
                    };
                    device.update_descriptor_sets(&[write], &[]);
                }
                let info = vk::PipelineLayoutCreateInfo::default().set_layouts(&of_set);
                let with = device.create_pipeline_layout(&info, None).unwrap();
                of_pipelines.push(with);
                if turn == 0 {
                    modules.push(match kind {
                        VERTEX => shader(device, folder, "vert", &text(kind, VERTEX_SHADER)),
                        INDEX => shader(device, folder, "vert", &text(kind, INDEX_SHADER)),
                        _ => shader(device, folder, "comp", &text(kind, SHADERS[kind])),
                    });
                }
                let module = modules[kind];
                let is_drawn = kind == VERTEX || kind == INDEX;
                let pipeline =
                    if is_drawn { draws(device, module, with, kind) } else { computes(device, module, with) };
                pipelines.push(pipeline);
                let point = if is_drawn { vk::PipelineBindPoint::GRAPHICS } else { vk::PipelineBindPoint::COMPUTE };
                let is_dynamic = [2, 3].contains(&kind);
                self.record(buffer, |buffer| {
                    device.cmd_bind_pipeline(buffer, point, pipeline);
                    let offsets: &[u32] = if is_dynamic { &[0] } else { &[] };
                    device.cmd_bind_descriptor_sets(buffer, point, with, 0, &[set], offsets);
                    let area = vk::Rect2D { extent: vk::Extent2D { width: 1, height: 1 }, ..vk::Rect2D::default() };
                    let rendering = vk::RenderingInfo::default().render_area(area).layer_count(1);
                    match kind {
                        VERTEX => {
                            device.cmd_begin_rendering(buffer, &rendering);
                            device.cmd_bind_vertex_buffers(buffer, 0, &[of], &[0]);
                            device.cmd_draw(buffer, 1, 1, 0, 0);
                            device.cmd_end_rendering(buffer);
                        }
                        INDEX => {
                            device.cmd_begin_rendering(buffer, &rendering);
                            device.cmd_bind_index_buffer(buffer, of, 0, vk::IndexType::UINT32);
                            device.cmd_draw_indexed(buffer, 1, 1, 0, 0, 0);
                            device.cmd_end_rendering(buffer);
                        }
                        INDIRECT => device.cmd_dispatch_indirect(buffer, of, 0),
                        _ => device.cmd_dispatch(buffer, 1, 1, 1),
                    }
                });
            }
            move |device: &Device| {
                pipelines.into_iter().for_each(|pipeline| device.destroy_pipeline(pipeline, None));
                of_pipelines.into_iter().for_each(|layout| device.destroy_pipeline_layout(layout, None));
                layouts.into_iter().for_each(|layout| device.destroy_descriptor_set_layout(layout, None));
                modules.into_iter().for_each(|module| device.destroy_shader_module(module, None));
                views.into_iter().for_each(|view| device.destroy_buffer_view(view, None));
                device.destroy_descriptor_pool(descriptors, None);
            }
        }
    }
}

unsafe fn computes(device: &Device, module: vk::ShaderModule, layout: vk::PipelineLayout) -> vk::Pipeline {
    let stage = vk::PipelineShaderStageCreateInfo::default().stage(vk::ShaderStageFlags::COMPUTE);
    let info = vk::ComputePipelineCreateInfo::default().stage(stage.module(module).name(c"main")).layout(layout);
    unsafe { device.create_compute_pipelines(vk::PipelineCache::null(), &[info], None) }.unwrap()[0]
}

/// A pipeline of points that nothing draws.
unsafe fn draws(device: &Device, module: vk::ShaderModule, layout: vk::PipelineLayout, kind: usize) -> vk::Pipeline {
    let stage = vk::PipelineShaderStageCreateInfo::default().stage(vk::ShaderStageFlags::VERTEX);
    let stages = [stage.module(module).name(c"main")];
    let bindings = [vk::VertexInputBindingDescription::default().stride(4)];
    let attributes = [vk::VertexInputAttributeDescription::default().format(vk::Format::R32_UINT)];
    let mut input = vk::PipelineVertexInputStateCreateInfo::default();
    if kind == VERTEX {
        input = input.vertex_binding_descriptions(&bindings).vertex_attribute_descriptions(&attributes);
    }
    let assembly = vk::PipelineInputAssemblyStateCreateInfo::default().topology(vk::PrimitiveTopology::POINT_LIST);
    let raster = vk::PipelineRasterizationStateCreateInfo::default().rasterizer_discard_enable(true).line_width(1.0);
    let mut rendering = vk::PipelineRenderingCreateInfo::default();
    let info = vk::GraphicsPipelineCreateInfo::default()
        .stages(&stages)
        .vertex_input_state(&input)
        .input_assembly_state(&assembly)
        .rasterization_state(&raster)
        .layout(layout)
        .push_next(&mut rendering);
    unsafe { device.create_graphics_pipelines(vk::PipelineCache::null(), &[info], None) }.unwrap()[0]
}
