//! The watched program: uniform, storage, texel, dynamic, pushed, index, vertex and indirect buffers, secondaries, copies and templates.

use std::ffi::CStr;
use std::path::Path;
use std::process::Command;
use std::{env, fs, slice};

use ash::vk::{self, BufferUsageFlags as Usage, DescriptorType as Type};
use ash::{Device, Entry, Instance, khr};

const BYTES: u64 = 1 << 16;
const NUM_BUFFERS: u64 = 14;
const IMAGE_AT: u64 = 1 << 20;

const EACH_KIND: &str = "#version 450
layout(set = 0, binding = 0) uniform U { uint u; };
layout(set = 0, binding = 1) buffer S { uint s[]; };
layout(set = 0, binding = 2) uniform usamplerBuffer t;
layout(set = 0, binding = 3, r32ui) uniform uimageBuffer w;
layout(set = 1, binding = 0) uniform V { uint v; };
layout(set = 1, binding = 1) buffer R { uint r[]; };
void main() { s[0] += u + texelFetch(t, 0).x; imageStore(w, 0, uvec4(u)); r[0] += v; }";
const ONE_BUFFER: &str = "#version 450
layout(set = 0, binding = 0) buffer S { uint s[]; };
void main() { s[0] += 1u; }";
const VERTEX: &str = "#version 450
layout(location = 0) in vec4 at;
void main() { gl_Position = at; }";

/// A device with one queue, and what the program makes of it.
struct Program {
    device: Device,
    push: khr::push_descriptor::Device,
    queue: vk::Queue,
    buffers: Vec<vk::Buffer>,
    commands: Vec<vk::CommandBuffer>,
    secondary: vk::CommandBuffer,
}

pub fn layout(device: &Device, kinds: &[Type], flags: vk::DescriptorSetLayoutCreateFlags) -> vk::DescriptorSetLayout {
    let binding = |(at, &kind): (u32, &Type)| {
        let binding = vk::DescriptorSetLayoutBinding::default().binding(at).descriptor_type(kind).descriptor_count(1);
        binding.stage_flags(vk::ShaderStageFlags::COMPUTE)
    };
    let bindings = Vec::from_iter((0..).zip(kinds).map(binding));
    let later = [vk::DescriptorBindingFlags::UPDATE_AFTER_BIND];
    let mut binding_flags = vk::DescriptorSetLayoutBindingFlagsCreateInfo::default();
    if flags.contains(vk::DescriptorSetLayoutCreateFlags::UPDATE_AFTER_BIND_POOL) {
        binding_flags = binding_flags.binding_flags(&later);
    }
    let info =
        vk::DescriptorSetLayoutCreateInfo::default().bindings(&bindings).flags(flags).push_next(&mut binding_flags);
    unsafe { device.create_descriptor_set_layout(&info, None) }.unwrap()
}

pub fn shader(device: &Device, folder: &Path, stage: &str, text: &str) -> vk::ShaderModule {
    let (source, binary) = (folder.join(format!("shader.{stage}")), folder.join("shader.spv"));
    fs::write(&source, text).unwrap();
    let status = Command::new("glslangValidator")
        .arg("-V")
        .arg(&source)
        .arg("-o")
        .arg(&binary)
        .stdout(std::process::Stdio::null())
        .status();
    assert!(status.expect("glslangValidator runs").success());
    let words = ash::util::read_spv(&mut fs::File::open(&binary).unwrap()).unwrap();
    unsafe { device.create_shader_module(&vk::ShaderModuleCreateInfo::default().code(&words), None) }.unwrap()
}

/// The first device. There is none where the machine lacks what the programs need, and `VIDMM_REQUIRE_VULKAN` does not ask for it.
pub fn open() -> Option<(Entry, Instance, vk::PhysicalDevice)> {
    match try_open() {
        Ok(opened) => Some(opened),
        Err(error) if env::var_os("VIDMM_REQUIRE_VULKAN").is_some_and(|value| value != "0") => panic!("{error}"),
        Err(error) => {
            println!("skipped: {error}");
            None
        }
    }
}

fn try_open() -> Result<(Entry, Instance, vk::PhysicalDevice), String> {
    Command::new("glslangValidator").arg("-v").output().map_err(|error| format!("no glslangValidator: {error}"))?;
    let entry = unsafe { Entry::load() }.map_err(|error| format!("no Vulkan: {error}"))?;
    let application = vk::ApplicationInfo::default().api_version(vk::API_VERSION_1_3);
    let info = vk::InstanceCreateInfo::default().application_info(&application);
    // The loader unloads the layers behind the first instance, and the trace goes on.
    let first = unsafe { entry.create_instance(&info, None) }.map_err(|error| format!("no instance: {error}"))?;
    unsafe { first.destroy_instance(None) };
    let instance = unsafe { entry.create_instance(&info, None) }.map_err(|error| format!("no instance: {error}"))?;
    let physical = unsafe { instance.enumerate_physical_devices() }.ok().and_then(|all| all.first().copied());
    physical.map(|physical| (entry, instance, physical)).ok_or_else(|| "no Vulkan device".to_owned())
}

#[test]
#[ignore = "the tests of the module `watched` run it under the layer"]
fn uses_each_kind_of_buffer() {
    let Some((_entry, instance, physical)) = open() else { return };
    let folder = tempfile::tempdir().unwrap();
    let folder = env::var_os("VIDMM_LAYER_SHADERS").map_or(folder.path().to_owned(), Into::into);
    unsafe {
        let device = device(&instance, physical);
        play(&instance, physical, &device, &folder);
        device.destroy_device(None);
        instance.destroy_instance(None);
    }
}

unsafe fn device(instance: &Instance, physical: vk::PhysicalDevice) -> Device {
    let queues = [vk::DeviceQueueCreateInfo::default().queue_priorities(&[1.0])];
    let names: [*const std::ffi::c_char; 1] = [CStr::as_ptr(khr::push_descriptor::NAME)];
    let mut features = vk::PhysicalDeviceVulkan12Features::default();
    features = features.timeline_semaphore(true).descriptor_binding_storage_buffer_update_after_bind(true);
    let mut more = vk::PhysicalDeviceVulkan13Features::default().synchronization2(true);
    let info = vk::DeviceCreateInfo::default().queue_create_infos(&queues).enabled_extension_names(&names);
    unsafe { instance.create_device(physical, &info.push_next(&mut features).push_next(&mut more), None) }.unwrap()
}

unsafe fn play(instance: &Instance, physical: vk::PhysicalDevice, device: &Device, folder: &Path) {
    unsafe {
        let all = Usage::UNIFORM_BUFFER
            | Usage::STORAGE_BUFFER
            | Usage::UNIFORM_TEXEL_BUFFER
            | Usage::STORAGE_TEXEL_BUFFER
            | Usage::INDEX_BUFFER
            | Usage::VERTEX_BUFFER
            | Usage::INDIRECT_BUFFER
            | Usage::TRANSFER_SRC
            | Usage::TRANSFER_DST;
        let info = vk::BufferCreateInfo::default().size(BYTES).usage(all);
        let buffers = Vec::from_iter((0..NUM_BUFFERS).map(|_| device.create_buffer(&info, None).unwrap()));
        let extent = vk::Extent3D { width: 16, height: 16, depth: 1 };
        let info = vk::ImageCreateInfo::default()
            .image_type(vk::ImageType::TYPE_2D)
            .format(vk::Format::R8G8B8A8_UNORM)
            .extent(extent);
        let info = info
            .mip_levels(1)
            .array_layers(1)
            .samples(vk::SampleCountFlags::TYPE_1)
            .usage(vk::ImageUsageFlags::TRANSFER_DST);
        let image = device.create_image(&info, None).unwrap();
        let needs = [device.get_buffer_memory_requirements(buffers[0]), device.get_image_memory_requirements(image)];
        assert!(
            needs.iter().all(|need| IMAGE_AT.is_multiple_of(need.alignment) && BYTES.is_multiple_of(need.alignment)),
            "the places fit"
        );
        let types = needs[0].memory_type_bits & needs[1].memory_type_bits;
        let properties = instance.get_physical_device_memory_properties(physical);
        let visible = vk::MemoryPropertyFlags::HOST_VISIBLE | vk::MemoryPropertyFlags::HOST_COHERENT;
        let fits =
            |at: &u32| types & 1 << at != 0 && properties.memory_types[*at as usize].property_flags.contains(visible);
        let kind = (0..properties.memory_type_count).find(fits).expect("a type of memory for all");
        let info = vk::MemoryAllocateInfo::default().allocation_size(2 << 20).memory_type_index(kind);
        let memory = device.allocate_memory(&info, None).unwrap();
        for (at, &buffer) in (0..).zip(&buffers) {
            device.bind_buffer_memory(buffer, memory, at * BYTES).unwrap();
        }
        device.bind_image_memory(image, memory, IMAGE_AT).unwrap();
        let address = device.map_memory(memory, 0, vk::WHOLE_SIZE, vk::MemoryMapFlags::empty()).unwrap();
        address.cast::<u8>().write_bytes(0, IMAGE_AT as usize);
        address.cast::<u32>().write(7);

        let pool = device.create_command_pool(&vk::CommandPoolCreateInfo::default(), None).unwrap();
        let info = vk::CommandBufferAllocateInfo::default().command_pool(pool).command_buffer_count(7);
        let commands = device.allocate_command_buffers(&info).unwrap();
        let info = info.level(vk::CommandBufferLevel::SECONDARY).command_buffer_count(1);
        let secondary = device.allocate_command_buffers(&info).unwrap()[0];
        let queue = device.get_device_queue(0, 0);
        let push = khr::push_descriptor::Device::new(instance, device);
        let program = Program { device: device.clone(), push, queue, buffers, commands, secondary };
        program.play(folder);

        device.device_wait_idle().unwrap();
        let first = address.cast::<u32>().add(BYTES as usize / 4).read();
        assert_eq!(first, 7, "the shader added the uniform to the storage, and nothing else did");
        device.destroy_command_pool(pool, None);
        program.buffers.iter().for_each(|&buffer| device.destroy_buffer(buffer, None));
        device.destroy_image(image, None);
        device.free_memory(memory, None);
    }
}

impl Program {
    /// A buffer by the number that the trace has.
    fn buffer(&self, number: usize) -> vk::Buffer {
        self.buffers[number - 1]
    }

    fn range(&self, number: usize, offset: u64, range: u64) -> [vk::DescriptorBufferInfo; 1] {
        [vk::DescriptorBufferInfo { buffer: self.buffer(number), offset, range }]
    }

    unsafe fn record(&self, number: usize, commands: impl FnOnce(vk::CommandBuffer)) {
        let buffer = self.commands[number - 1];
        unsafe {
            self.device.begin_command_buffer(buffer, &vk::CommandBufferBeginInfo::default()).unwrap();
            commands(buffer);
            self.device.end_command_buffer(buffer).unwrap();
        }
    }

    unsafe fn submit(&self, number: usize, fence: vk::Fence) {
        let buffers = Vec::from_iter(self.commands.get(number - 1).copied());
        let info = vk::SubmitInfo::default().command_buffers(&buffers);
        unsafe { self.device.queue_submit(self.queue, &[info], fence) }.unwrap();
    }

    unsafe fn play(&self, folder: &Path) {
        let device = &self.device;
        let none = vk::DescriptorSetLayoutCreateFlags::empty();
        let kinds =
            [Type::UNIFORM_BUFFER, Type::STORAGE_BUFFER, Type::UNIFORM_TEXEL_BUFFER, Type::STORAGE_TEXEL_BUFFER];
        let dynamic = [Type::UNIFORM_BUFFER_DYNAMIC, Type::STORAGE_BUFFER_DYNAMIC];
        let one = [Type::STORAGE_BUFFER];
        let layouts = [
            layout(device, &kinds, none),
            layout(device, &dynamic, none),
            layout(device, &one, vk::DescriptorSetLayoutCreateFlags::PUSH_DESCRIPTOR_KHR),
            layout(device, &one, vk::DescriptorSetLayoutCreateFlags::UPDATE_AFTER_BIND_POOL),
        ];
        let size = |ty| vk::DescriptorPoolSize { ty, descriptor_count: 4 };
        let sizes = Vec::from_iter(kinds.into_iter().chain(dynamic).map(size));
        let compute = vk::PipelineBindPoint::COMPUTE;
        unsafe {
            let flags = vk::DescriptorPoolCreateFlags::UPDATE_AFTER_BIND;
            let info = vk::DescriptorPoolCreateInfo::default().max_sets(4).pool_sizes(&sizes).flags(flags);
            let pool = device.create_descriptor_pool(&info, None).unwrap();
            let of_sets = [layouts[0], layouts[1], layouts[3], layouts[3]];
            let info = vk::DescriptorSetAllocateInfo::default().descriptor_pool(pool).set_layouts(&of_sets);
            let sets = device.allocate_descriptor_sets(&info).unwrap();
            let view = |number, offset| {
                let info = vk::BufferViewCreateInfo::default().buffer(self.buffer(number)).format(vk::Format::R32_UINT);
                device.create_buffer_view(&info.offset(offset).range(256), None).unwrap()
            };
            let views = [view(3, 256), view(4, 0)];
            let write = |set, binding, kind| {
                let write = vk::WriteDescriptorSet::default().dst_set(set).dst_binding(binding).descriptor_type(kind);
                write.descriptor_count(1)
            };
            let infos = [self.range(1, 0, 16), self.range(2, 0, 4096), self.range(5, 0, 16), self.range(6, 256, 256)];
            let writes = [
                write(sets[0], 0, kinds[0]).buffer_info(&infos[0]),
                write(sets[0], 1, kinds[1]).buffer_info(&infos[1]),
                write(sets[0], 2, kinds[2]).texel_buffer_view(&views[..1]),
                write(sets[0], 3, kinds[3]).texel_buffer_view(&views[1..]),
                write(sets[1], 0, dynamic[0]).buffer_info(&infos[2]),
                write(sets[1], 1, dynamic[1]).buffer_info(&infos[3]),
            ];
            device.update_descriptor_sets(&writes, &[]);

            let modules = [("comp", EACH_KIND), ("comp", ONE_BUFFER), ("vert", VERTEX)]
                .map(|(stage, text)| shader(device, folder, stage, text));
            let pipeline_layout = |layouts: &[vk::DescriptorSetLayout]| {
                device
                    .create_pipeline_layout(&vk::PipelineLayoutCreateInfo::default().set_layouts(layouts), None)
                    .unwrap()
            };
            let with = [&layouts[..2], &layouts[2..3], &layouts[3..], &[]].map(pipeline_layout);
            let pipeline = |module, layout| {
                let stage = vk::PipelineShaderStageCreateInfo::default()
                    .stage(vk::ShaderStageFlags::COMPUTE)
                    .module(module)
                    .name(c"main");
                let info = vk::ComputePipelineCreateInfo::default().stage(stage).layout(layout);
                device.create_compute_pipelines(vk::PipelineCache::null(), &[info], None).unwrap()[0]
            };
            let pipelines =
                [pipeline(modules[0], with[0]), pipeline(modules[1], with[1]), pipeline(modules[1], with[2])];

            // Each kind of descriptor.
            self.record(1, |buffer| {
                device.cmd_bind_pipeline(buffer, compute, pipelines[0]);
                device.cmd_bind_descriptor_sets(buffer, compute, with[0], 0, &sets[..2], &[256, 256]);
                device.cmd_dispatch(buffer, 1, 1, 1);
            });
            self.submit(1, vk::Fence::null());

            // Pushed descriptors, and an indirect dispatch of nothing.
            let infos = self.range(7, 128, 64);
            self.record(2, |buffer| {
                device.cmd_bind_pipeline(buffer, compute, pipelines[1]);
                let write = write(vk::DescriptorSet::null(), 0, Type::STORAGE_BUFFER).buffer_info(&infos);
                self.push.cmd_push_descriptor_set(buffer, compute, with[1], 0, &[write]);
                device.cmd_dispatch_indirect(buffer, self.buffer(10), 0);
            });
            self.submit(2, vk::Fence::null());

            // A secondary command buffer.
            let inheritance = vk::CommandBufferInheritanceInfo::default();
            let info = vk::CommandBufferBeginInfo::default().inheritance_info(&inheritance);
            device.begin_command_buffer(self.secondary, &info).unwrap();
            let region = vk::BufferCopy { src_offset: 0, dst_offset: 64, size: 1024 };
            device.cmd_copy_buffer(self.secondary, self.buffer(11), self.buffer(12), &[region]);
            device.cmd_fill_buffer(self.secondary, self.buffer(13), 0, 256, 1);
            device.end_command_buffer(self.secondary).unwrap();
            self.record(3, |buffer| device.cmd_execute_commands(buffer, slice::from_ref(&self.secondary)));
            self.submit(3, vk::Fence::null());

            let graphics = self.graphics(modules[2], with[3]);
            self.record(4, |buffer| {
                let info = vk::RenderPassBeginInfo::default().render_pass(graphics.1).framebuffer(graphics.2);
                let area = vk::Rect2D { extent: vk::Extent2D { width: 1, height: 1 }, ..vk::Rect2D::default() };
                device.cmd_begin_render_pass(buffer, &info.render_area(area), vk::SubpassContents::INLINE);
                device.cmd_bind_pipeline(buffer, vk::PipelineBindPoint::GRAPHICS, graphics.0);
                device.cmd_bind_vertex_buffers(buffer, 0, &[self.buffer(9)], &[128]);
                device.cmd_bind_index_buffer(buffer, self.buffer(8), 64, vk::IndexType::UINT16);
                device.cmd_draw_indexed_indirect(buffer, self.buffer(10), 32, 1, 20);
                device.cmd_end_render_pass(buffer);
            });
            self.submit(4, vk::Fence::null());

            // A set that a template fills.
            let entry =
                vk::DescriptorUpdateTemplateEntry::default().descriptor_type(Type::STORAGE_BUFFER).descriptor_count(1);
            let entries = [entry.offset(8).stride(24)];
            let info = vk::DescriptorUpdateTemplateCreateInfo::default().descriptor_update_entries(&entries);
            let info =
                info.template_type(vk::DescriptorUpdateTemplateType::DESCRIPTOR_SET).descriptor_set_layout(layouts[3]);
            let template = device.create_descriptor_update_template(&info, None).unwrap();
            let data = (0_u64, self.range(14, 256, 512));
            let data: [u64; 4] = [data.0, ash::vk::Handle::as_raw(data.1[0].buffer), data.1[0].offset, data.1[0].range];
            device.update_descriptor_set_with_template(sets[2], template, data.as_ptr().cast());
            let dispatch = |set| {
                move |buffer| {
                    device.cmd_bind_pipeline(buffer, compute, pipelines[2]);
                    device.cmd_bind_descriptor_sets(buffer, compute, with[2], 0, &[set], &[]);
                    device.cmd_dispatch(buffer, 1, 1, 1);
                }
            };
            self.record(5, dispatch(sets[2]));
            self.submit(5, vk::Fence::null());
            device.queue_wait_idle(self.queue).unwrap();

            // A set that is updated behind the bind, and a timeline that says the end.
            self.record(6, dispatch(sets[3]));
            let infos = self.range(12, 0, 128);
            device.update_descriptor_sets(&[write(sets[3], 0, Type::STORAGE_BUFFER).buffer_info(&infos)], &[]);
            let mut timeline = vk::SemaphoreTypeCreateInfo::default().semaphore_type(vk::SemaphoreType::TIMELINE);
            let semaphore =
                device.create_semaphore(&vk::SemaphoreCreateInfo::default().push_next(&mut timeline), None).unwrap();
            let buffers = [vk::CommandBufferSubmitInfo::default().command_buffer(self.commands[5])];
            let stage = vk::PipelineStageFlags2::ALL_COMMANDS;
            let signals = [vk::SemaphoreSubmitInfo::default().semaphore(semaphore).value(3).stage_mask(stage)];
            let info = vk::SubmitInfo2::default().command_buffer_infos(&buffers).signal_semaphore_infos(&signals);
            device.queue_submit2(self.queue, &[info], vk::Fence::null()).unwrap();
            let (semaphores, values) = ([semaphore], [3]);
            let info = vk::SemaphoreWaitInfo::default().semaphores(&semaphores).values(&values);
            device.wait_semaphores(&info, u64::MAX).unwrap();

            // Ranges that commands use one after the other. Nothing depends on the content.
            self.record(7, |buffer| {
                let copy = |from, src_offset, to, dst_offset| {
                    let region = vk::BufferCopy { src_offset, dst_offset, size: 64 };
                    device.cmd_copy_buffer(buffer, self.buffer(from), self.buffer(to), &[region]);
                };
                copy(2, 0, 1, 0);
                copy(1, 64, 2, 128);
                device.cmd_fill_buffer(buffer, self.buffer(2), 192, 64, 0);
                copy(2, 64, 1, 0);
                device.cmd_fill_buffer(buffer, self.buffer(2), 64, 64, 0);
            });
            self.submit(7, vk::Fence::null());
            let fence = device.create_fence(&vk::FenceCreateInfo::default(), None).unwrap();
            self.submit(8, fence);
            device.wait_for_fences(&[fence], true, u64::MAX).unwrap();

            device.destroy_fence(fence, None);
            device.destroy_semaphore(semaphore, None);
            device.destroy_descriptor_update_template(template, None);
            device.destroy_pipeline(graphics.0, None);
            device.destroy_render_pass(graphics.1, None);
            device.destroy_framebuffer(graphics.2, None);
            pipelines.into_iter().for_each(|pipeline| device.destroy_pipeline(pipeline, None));
            with.into_iter().for_each(|layout| device.destroy_pipeline_layout(layout, None));
            modules.into_iter().for_each(|module| device.destroy_shader_module(module, None));
            views.into_iter().for_each(|view| device.destroy_buffer_view(view, None));
            device.destroy_descriptor_pool(pool, None);
            layouts.into_iter().for_each(|layout| device.destroy_descriptor_set_layout(layout, None));
        }
    }

    /// A pipeline that reads vertices and draws nothing.
    unsafe fn graphics(
        &self,
        module: vk::ShaderModule,
        layout: vk::PipelineLayout,
    ) -> (vk::Pipeline, vk::RenderPass, vk::Framebuffer) {
        let subpasses = [vk::SubpassDescription::default().pipeline_bind_point(vk::PipelineBindPoint::GRAPHICS)];
        let info = vk::RenderPassCreateInfo::default().subpasses(&subpasses);
        let pass = unsafe { self.device.create_render_pass(&info, None) }.unwrap();
        let info = vk::FramebufferCreateInfo::default().render_pass(pass).width(1).height(1).layers(1);
        let framebuffer = unsafe { self.device.create_framebuffer(&info, None) }.unwrap();
        let stages = [vk::PipelineShaderStageCreateInfo::default()
            .stage(vk::ShaderStageFlags::VERTEX)
            .module(module)
            .name(c"main")];
        let bindings =
            [vk::VertexInputBindingDescription { binding: 0, stride: 16, input_rate: vk::VertexInputRate::VERTEX }];
        let format = vk::Format::R32G32B32A32_SFLOAT;
        let attributes = [vk::VertexInputAttributeDescription { location: 0, binding: 0, format, offset: 0 }];
        let input = vk::PipelineVertexInputStateCreateInfo::default()
            .vertex_binding_descriptions(&bindings)
            .vertex_attribute_descriptions(&attributes);
        let assembly =
            vk::PipelineInputAssemblyStateCreateInfo::default().topology(vk::PrimitiveTopology::TRIANGLE_LIST);
        let raster =
            vk::PipelineRasterizationStateCreateInfo::default().rasterizer_discard_enable(true).line_width(1.0);
        let info = vk::GraphicsPipelineCreateInfo::default()
            .stages(&stages)
            .vertex_input_state(&input)
            .input_assembly_state(&assembly);
        let info = info.rasterization_state(&raster).layout(layout).render_pass(pass);
        let made = unsafe { self.device.create_graphics_pipelines(vk::PipelineCache::null(), &[info], None) };
        (made.unwrap()[0], pass, framebuffer)
    }
}
