//! Images whose memory the manager moves: their texels and their layout stay.

use ash::vk;
use vidmm::AllocationResidencyStatus::{NotResident, ResidentInGpuMemory};
use vidmm_vulkan::{Buffer, Error, Frame, Image, ImageDesc, Point, Submission};

use crate::{MIB, World, words};

const FORMAT: vk::Format = vk::Format::R8G8B8A8_UNORM;
const BYTES_PER_TEXEL: u64 = 4;

fn usage() -> vk::ImageUsageFlags {
    vk::ImageUsageFlags::TRANSFER_SRC | vk::ImageUsageFlags::TRANSFER_DST | vk::ImageUsageFlags::SAMPLED
}

/// 2 MiB of texels.
fn texture() -> ImageDesc {
    ImageDesc::new_2d(FORMAT, 1024, 512, usage())
}

/// The texels of an image, level by level, each with its layers one after another in a buffer.
fn regions(desc: &ImageDesc) -> Vec<vk::BufferImageCopy> {
    let mut offset = 0;
    let region = |level: u32| {
        let extent = vk::Extent3D {
            width: (desc.extent.width >> level).max(1),
            height: (desc.extent.height >> level).max(1),
            depth: 1,
        };
        let layers = vk::ImageSubresourceLayers::default()
            .aspect_mask(vk::ImageAspectFlags::COLOR)
            .mip_level(level)
            .layer_count(desc.array_layers);
        let region =
            vk::BufferImageCopy::default().buffer_offset(offset).image_subresource(layers).image_extent(extent);
        offset += u64::from(extent.width * extent.height * desc.array_layers) * BYTES_PER_TEXEL;
        region
    };
    (0..desc.mip_levels).map(region).collect()
}

/// Copies between images and one buffer.
struct Copies {
    device: ash::Device,
    pool: vk::CommandPool,
    buffer: Buffer,
}

/// The direction of a copy.
#[derive(Clone, Copy)]
enum Copy {
    /// Into an image, which is in the layout that is named before.
    In(vk::ImageLayout),
    /// Out of an image that was copied into.
    Out,
}

impl Copies {
    fn new(world: &World, bytes: u64) -> Self {
        let device = world.adapter.raw().clone();
        let info = vk::CommandPoolCreateInfo::default().queue_family_index(world.adapter.queue_family());
        // SAFETY: the family is the device's.
        let pool = unsafe { device.create_command_pool(&info, None) }.expect("there is memory");
        Self { device, pool, buffer: world.buffer(bytes) }
    }

    fn record(&self, image: &Image, desc: &ImageDesc, copy: Copy) -> vk::CommandBuffer {
        let info = vk::CommandBufferAllocateInfo::default().command_pool(self.pool).command_buffer_count(1);
        // SAFETY: the pool is the device's, and used on this thread alone.
        let commands = unsafe { self.device.allocate_command_buffers(&info) }.expect("there is memory")[0];
        let all = vk::ImageSubresourceRange::default()
            .aspect_mask(vk::ImageAspectFlags::COLOR)
            .level_count(desc.mip_levels)
            .layer_count(desc.array_layers);
        let (into, out_of) = (vk::ImageLayout::TRANSFER_DST_OPTIMAL, vk::ImageLayout::TRANSFER_SRC_OPTIMAL);
        let (before, after) = match copy {
            Copy::In(layout) => (layout, into),
            Copy::Out => (into, out_of),
        };
        let barrier = vk::ImageMemoryBarrier::default()
            .src_access_mask(vk::AccessFlags::MEMORY_WRITE)
            .dst_access_mask(vk::AccessFlags::TRANSFER_READ | vk::AccessFlags::TRANSFER_WRITE)
            .old_layout(before)
            .new_layout(after)
            .src_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .dst_queue_family_index(vk::QUEUE_FAMILY_IGNORED)
            .image(image.raw())
            .subresource_range(all);
        let (begin, regions) = (vk::CommandBufferBeginInfo::default(), regions(desc));
        // SAFETY: image and buffer live until the commands have ended, which is waited for.
        unsafe {
            self.device.begin_command_buffer(commands, &begin).expect("there is memory");
            let (from, to) = (vk::PipelineStageFlags::ALL_COMMANDS, vk::PipelineStageFlags::TRANSFER);
            self.device.cmd_pipeline_barrier(commands, from, to, vk::DependencyFlags::empty(), &[], &[], &[barrier]);
            match copy {
                Copy::In(_) => {
                    self.device.cmd_copy_buffer_to_image(commands, self.buffer.raw(), image.raw(), after, &regions)
                }
                Copy::Out => {
                    self.device.cmd_copy_image_to_buffer(commands, image.raw(), after, self.buffer.raw(), &regions)
                }
            }
            self.device.end_command_buffer(commands).expect("there is memory");
        }
        commands
    }

    fn frame<'a>(&'a self, world: &'a World) -> Frame<'a> {
        world.device.frame().insert(&self.buffer)
    }

    fn submit(frame: Frame<'_>, commands: vk::CommandBuffer) -> Point {
        let work = Submission { commands: vec![commands], ..Submission::default() };
        // SAFETY: the commands use what the frame names, and live as long as the pool.
        unsafe { frame.submit(work) }.expect("the frame fits")
    }

    /// Writes the words of a seed to all texels of an image.
    fn write(&self, world: &World, (image, desc): (&Image, &ImageDesc), from: vk::ImageLayout, seed: u32) {
        let commands = self.record(image, desc, Copy::In(from));
        world.device.frame().write(&self.buffer, 0, &words(seed, num_words(desc))).expect("it fits");
        world.wait(Self::submit(self.frame(world).insert(image), commands));
    }

    /// All texels of an image are the words of a seed.
    fn holds(&self, world: &World, (image, desc): (&Image, &ImageDesc), seed: u32) {
        let commands = self.record(image, desc, Copy::Out);
        world.wait(Self::submit(self.frame(world).insert_read(image), commands));
        let bytes = u64::from(num_words(desc)) * 4;
        let read = world.device.frame().read(&self.buffer, 0, bytes).expect("it fits").wait();
        assert!(read == Ok(words(seed, num_words(desc))), "an image has other texels");
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        // SAFETY: all commands were waited for.
        unsafe { self.device.destroy_command_pool(self.pool, None) };
    }
}

/// One word for each texel.
fn num_words(desc: &ImageDesc) -> u32 {
    let texels = |region: &vk::BufferImageCopy| {
        region.image_extent.width * region.image_extent.height * region.image_subresource.layer_count
    };
    regions(desc).iter().map(texels).sum()
}

fn create(world: &World, desc: ImageDesc) -> Image {
    // SAFETY: the image needs no feature.
    unsafe { world.device.create_image(desc) }.expect("the device has such images")
}

/// Six images in the room of three, and a buffer.
#[test]
fn images_keep_their_texels_while_others_are_in_local_memory() {
    let Some(world) = World::new(9 * MIB) else { return };
    let copies = Copies::new(&world, 2 * MIB);
    let images: Vec<_> = (0..6).map(|_| create(&world, texture())).collect();
    for (seed, image) in (0..).zip(&images) {
        copies.write(&world, (image, &texture()), vk::ImageLayout::UNDEFINED, seed);
    }
    for round in 1..4 {
        for (number, image) in (0..).zip(&images) {
            copies.holds(&world, (image, &texture()), 10 * (round - 1) + number);
            copies.write(&world, (image, &texture()), vk::ImageLayout::TRANSFER_SRC_OPTIMAL, 10 * round + number);
        }
    }
    let moved = world.adapter.statistics().expect("the adapter answers");
    assert!(moved.bytes_paged_out >= 12 * MIB && moved.bytes_paged_in >= 12 * MIB, "{moved:?}");
    drop((images, copies));
    world.is_clean();
}

/// Its memory is not where it was, and not in order.
#[test]
fn an_image_with_levels_and_layers_comes_back_elsewhere() {
    let Some(world) = World::new(6 * MIB) else { return };
    let copies = Copies::new(&world, 2 * MIB);
    let desc = ImageDesc { mip_levels: 4, array_layers: 3, ..ImageDesc::new_2d(FORMAT, 256, 256, usage()) };
    let image = create(&world, desc);
    assert_eq!(image.residency(), Ok(NotResident));
    copies.write(&world, (&image, &desc), vk::ImageLayout::UNDEFINED, 7);
    assert_eq!(image.residency(), Ok(ResidentInGpuMemory));
    // Others take its place, and every second small one is used again: the rest leave holes of a page each.
    let small: Vec<_> = (0..40).map(|_| world.buffer(64 << 10)).collect();
    let large = world.buffer(3 * MIB);
    let frames: [Vec<&Buffer>; 3] = [small.iter().collect(), vec![&large], small.iter().step_by(2).collect()];
    for buffers in frames {
        let frame = buffers.into_iter().fold(world.device.frame(), Frame::insert);
        // SAFETY: no commands are submitted.
        world.wait(unsafe { frame.submit(Submission::default()) }.expect("the frame fits"));
    }
    assert_eq!(image.residency(), Ok(NotResident));
    copies.holds(&world, (&image, &desc), 7);
    drop((image, small, large, copies));
    world.is_clean();
}

#[test]
fn images_that_the_device_cannot_bind_are_refused() {
    let Some(world) = World::new(4 * MIB) else { return };
    let refused = |desc: ImageDesc| {
        // SAFETY: no such image is made.
        let answer = unsafe { world.device.create_image(desc) };
        assert!(matches!(answer, Err(Error::Image { .. })), "{desc:?}: {answer:?}");
    };
    let usual = texture();
    refused(ImageDesc { format: vk::Format::ASTC_4X4_UNORM_BLOCK, usage: vk::ImageUsageFlags::STORAGE, ..usual });
    refused(ImageDesc { extent: vk::Extent3D { width: 1 << 20, ..usual.extent }, ..usual });
    refused(ImageDesc { extent: vk::Extent3D { height: 0, ..usual.extent }, ..usual });
    refused(ImageDesc { mip_levels: 12, ..usual });
    refused(ImageDesc { array_layers: 0, ..usual });
    refused(ImageDesc { samples: vk::SampleCountFlags::TYPE_1 | vk::SampleCountFlags::TYPE_4, ..usual });
    world.is_clean();
}
