//! Sparse resources, which memory is bound to piece by piece: buffers, that is, ranges of GPU virtual addresses, and images.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ash::vk;
use vidmm::PAGE_SIZE_64K;

use crate::block::Block;
use crate::buffer_info::sparse_buffer_info;
use crate::device::{BindOrder, VulkanDevice};
use crate::error::VulkanError;

/// The flags of an image to which memory is bound piece by piece, all of it before it is used. The memory is bound elsewhere too.
pub(crate) fn sparse_image_flags() -> vk::ImageCreateFlags {
    vk::ImageCreateFlags::SPARSE_BINDING | vk::ImageCreateFlags::SPARSE_ALIASED
}

/// A buffer or an image without memory of its own.
pub(crate) struct SparseResource {
    device: Arc<VulkanDevice>,
    raw: Handle,
    /// The bytes that memory can be bound to.
    bytes: u64,
    /// The first address of a buffer; 0 of an image, which has none.
    pub(crate) address: u64,
    /// Whether nothing that was submitted uses it any more.
    is_unused: bool,
    mappings: Mappings,
}

/// The mappings that an application's resource may need at most, on a device that keeps a bounded number: one for each page of the manager,
/// wherever the pages are. They are given back when the resource is destroyed.
#[derive(Default)]
struct Mappings(usize);

/// The mappings of all resources of applications in this process, whose number the system bounds.
static MAPPINGS: AtomicUsize = AtomicUsize::new(0);

impl Mappings {
    fn take(device: &VulkanDevice, bytes: u64) -> Result<Self, VulkanError> {
        let limit = device.report().max_mapped_ranges();
        let count = if limit == usize::MAX { 0 } else { bytes.div_ceil(PAGE_SIZE_64K) as usize };
        let taken = Self(count);
        if MAPPINGS.fetch_add(count, Ordering::Relaxed) + count > limit {
            return Err(VulkanError::TooManyRanges { limit });
        }
        Ok(taken)
    }
}

impl Drop for Mappings {
    fn drop(&mut self) {
        MAPPINGS.fetch_sub(self.0, Ordering::Relaxed);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Handle {
    Buffer(vk::Buffer),
    Image(vk::Image),
}

/// A change of what a sparse resource is bound to. All sizes are in units of the device's granule; what lies behind the resource's end
/// is left out.
pub(crate) struct Binding<'a> {
    /// The resource.
    pub(crate) resource: &'a SparseResource,
    /// From where on, in bytes from its start.
    pub(crate) offset: u64,
    /// How many bytes.
    pub(crate) bytes: u64,
    /// The memory, and from where on; none unbinds.
    pub(crate) memory: Option<(&'a Block, u64)>,
}

impl SparseResource {
    /// Addresses for `bytes` bytes, nothing bound to them.
    pub(crate) fn new(device: &Arc<VulkanDevice>, bytes: u64) -> Result<Self, VulkanError> {
        Self::from_info(device, sparse_buffer_info(bytes), "addresses of a process", Mappings::default())
    }

    /// The same for an application, which uses them with `usage` too, and on all its queues.
    pub(crate) fn for_application(
        device: &Arc<VulkanDevice>,
        bytes: u64,
        usage: vk::BufferUsageFlags,
    ) -> Result<Self, VulkanError> {
        let info = sparse_buffer_info(bytes);
        let copies = vk::BufferUsageFlags::TRANSFER_SRC | vk::BufferUsageFlags::TRANSFER_DST;
        let mut info = info.usage(info.usage | copies | usage);
        if device.families().len() > 1 {
            info = info.sharing_mode(vk::SharingMode::CONCURRENT).queue_family_indices(device.families());
        }
        Self::from_info(device, info, "a buffer", Mappings::take(device, bytes)?)
    }

    fn from_info(
        device: &Arc<VulkanDevice>,
        info: vk::BufferCreateInfo<'_>,
        name: &str,
        mappings: Mappings,
    ) -> Result<Self, VulkanError> {
        // SAFETY: the features that the buffer needs are enabled.
        let raw = unsafe { device.raw.create_buffer(&info, None) };
        let raw = raw.map_err(VulkanError::of("vkCreateBuffer"))?;
        device.name(raw, name);
        // SAFETY: the buffer was made with SHADER_DEVICE_ADDRESS, on a device with that feature.
        let address =
            unsafe { device.raw.get_buffer_device_address(&vk::BufferDeviceAddressInfo::default().buffer(raw)) };
        let (raw, bytes) = (Handle::Buffer(raw), info.size);
        Ok(Self { device: device.clone(), raw, bytes, address, is_unused: false, mappings })
    }

    /// An image for an application, which uses it on all its queues. Returns with it what its memory must be.
    ///
    /// # Safety
    ///
    /// The device has images as `info` says, which is made with [`sparse_image_flags`].
    pub(crate) unsafe fn image(
        device: &Arc<VulkanDevice>,
        info: vk::ImageCreateInfo<'_>,
    ) -> Result<(Self, vk::MemoryRequirements), VulkanError> {
        let info = match device.families() {
            [] | [_] => info.sharing_mode(vk::SharingMode::EXCLUSIVE),
            families => info.sharing_mode(vk::SharingMode::CONCURRENT).queue_family_indices(families),
        };
        // SAFETY: the features that the image needs are enabled; the caller has asked for the rest.
        let raw = unsafe { device.raw.create_image(&info, None) };
        let raw = raw.map_err(VulkanError::of("vkCreateImage"))?;
        device.name(raw, "an image");
        // SAFETY: the image is this device's.
        let requirements = unsafe { device.raw.get_image_memory_requirements(raw) };
        let bytes = requirements.size;
        let (raw, mappings) = (Handle::Image(raw), Mappings::default());
        let mut image = Self { device: device.clone(), raw, bytes, address: 0, is_unused: false, mappings };
        match Mappings::take(device, bytes) {
            Ok(mappings) => image.mappings = mappings,
            Err(error) => {
                image.destroy_unused();
                return Err(error);
            }
        }
        Ok((image, requirements))
    }

    /// The bytes that memory can be bound to.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The buffer or image.
    pub(crate) fn raw(&self) -> Handle {
        self.raw
    }

    /// Destroys the resource, which nothing that was submitted uses any more.
    pub(crate) fn destroy_unused(mut self) {
        self.is_unused = true;
    }
}

impl Drop for SparseResource {
    fn drop(&mut self) {
        if !self.is_unused {
            self.device.settle();
        }
        match self.raw {
            // SAFETY: the buffer is destroyed once, and nothing that was submitted still uses it.
            Handle::Buffer(buffer) => unsafe { self.device.raw.destroy_buffer(buffer, None) },
            // SAFETY: as before, of the image.
            Handle::Image(image) => unsafe { self.device.raw.destroy_image(image, None) },
        }
    }
}

/// Carries out `bindings`, in which no place is twice and those of a resource follow each other.
pub(crate) fn bind(device: &VulkanDevice, bindings: &[Binding<'_>], order: BindOrder) -> Result<(), VulkanError> {
    if bindings.is_empty() {
        return Ok(());
    }
    let all: Vec<_> = bindings.iter().map(memory_bind).collect();
    let (mut buffers, mut images, mut rest) = (Vec::new(), Vec::new(), &all[..]);
    for of_one in bindings.chunk_by(|one, next| one.resource.raw == next.resource.raw) {
        let (binds, others) = rest.split_at(of_one.len());
        rest = others;
        match of_one[0].resource.raw {
            Handle::Buffer(raw) => buffers.push(vk::SparseBufferMemoryBindInfo::default().buffer(raw).binds(binds)),
            Handle::Image(raw) => images.push(vk::SparseImageOpaqueMemoryBindInfo::default().image(raw).binds(binds)),
        }
    }
    // Validation 1.3.239 crashes where one call has both.
    if !buffers.is_empty() {
        device.bind_sparse(vk::BindSparseInfo::default().buffer_binds(&buffers), order)?;
    }
    if !images.is_empty() {
        device.bind_sparse(vk::BindSparseInfo::default().image_opaque_binds(&images), order)?;
    }
    Ok(())
}

fn memory_bind(binding: &Binding<'_>) -> vk::SparseMemoryBind {
    let bytes = binding.bytes.min(binding.resource.bytes - binding.offset);
    let bind = vk::SparseMemoryBind::default().resource_offset(binding.offset).size(bytes);
    match binding.memory {
        None => bind,
        Some((block, offset)) => bind.memory(block.memory()).memory_offset(offset),
    }
}
