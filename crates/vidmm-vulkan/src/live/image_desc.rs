//! The description of an image, and what a device makes of it.

use std::sync::Arc;

use ash::vk;
use vidmm::PAGE_SIZE_64K;

use crate::device::VulkanDevice;
use crate::sparse::{SparseResource, sparse_image_flags};

use super::error::Error;

/// An image to be created: of optimal tiling, and in local memory.
#[doc(alias = "D3DDDI_ALLOCATIONINFO2")]
#[derive(Clone, Copy, Debug)]
pub struct ImageDesc {
    /// Flags beside those of sparse binding.
    pub flags: vk::ImageCreateFlags,
    /// Whether it has one, two or three dimensions.
    pub image_type: vk::ImageType,
    /// The format of its texels.
    pub format: vk::Format,
    /// Its texels in each dimension.
    pub extent: vk::Extent3D,
    /// How many levels of detail it has.
    pub mip_levels: u32,
    /// How many layers.
    pub array_layers: u32,
    /// The samples of a texel.
    pub samples: vk::SampleCountFlags,
    /// The application's uses of it.
    pub usage: vk::ImageUsageFlags,
}

impl ImageDesc {
    /// An image of two dimensions, with one level, one layer and one sample.
    pub fn new_2d(format: vk::Format, width: u32, height: u32, usage: vk::ImageUsageFlags) -> Self {
        Self {
            flags: vk::ImageCreateFlags::empty(),
            image_type: vk::ImageType::TYPE_2D,
            format,
            extent: vk::Extent3D { width, height, depth: 1 },
            mip_levels: 1,
            array_layers: 1,
            samples: vk::SampleCountFlags::TYPE_1,
            usage,
        }
    }

    fn all_flags(&self) -> vk::ImageCreateFlags {
        self.flags | sparse_image_flags()
    }

    /// Refuses what a device has no such images of.
    pub(super) fn check(&self, device: &VulkanDevice) -> Result<(), Error> {
        // SAFETY: the physical device is one of the instance's.
        let found = unsafe {
            device.instance.get_physical_device_image_format_properties(
                device.physical,
                self.format,
                self.image_type,
                vk::ImageTiling::OPTIMAL,
                self.usage,
                self.all_flags(),
            )
        };
        let found =
            found.map_err(|_| Error::Image { reason: "it has no such format, type, usage and flags together" })?;
        let (extent, most) = (self.extent, found.max_extent);
        let is_in = |texels: u32, most: u32| (1..=most).contains(&texels);
        let fits =
            is_in(extent.width, most.width) && is_in(extent.height, most.height) && is_in(extent.depth, most.depth);
        // The last level of detail is one texel.
        let levels = 32 - extent.width.max(extent.height).max(extent.depth).leading_zeros();
        let is_possible = [
            (
                !self.flags.contains(vk::ImageCreateFlags::SPARSE_RESIDENCY),
                "all of its memory is bound: leave out SPARSE_RESIDENCY",
            ),
            (
                !self.usage.contains(vk::ImageUsageFlags::TRANSIENT_ATTACHMENT),
                "a transient attachment has no content that could be kept: create it yourself",
            ),
            (fits, "its extent is nothing, or more than the device has"),
            (is_in(self.mip_levels, found.max_mip_levels.min(levels)), "it has no such number of levels of detail"),
            (is_in(self.array_layers, found.max_array_layers), "it has no such number of layers"),
            (
                found.sample_counts.contains(self.samples) && self.samples.as_raw().is_power_of_two(),
                "it has no such number of samples",
            ),
        ];
        first_refusal(is_possible)
    }

    /// The image, without memory. The application has answered for the features that it needs, and [`check`](Self::check) for the rest.
    pub(super) fn create(&self, device: &Arc<VulkanDevice>) -> Result<SparseResource, Error> {
        let info = vk::ImageCreateInfo::default()
            .flags(self.all_flags())
            .image_type(self.image_type)
            .format(self.format)
            .extent(self.extent)
            .mip_levels(self.mip_levels)
            .array_layers(self.array_layers)
            .samples(self.samples)
            .tiling(vk::ImageTiling::OPTIMAL)
            .usage(self.usage)
            .initial_layout(vk::ImageLayout::UNDEFINED);
        // SAFETY: as is said above.
        let (image, requirements) = unsafe { SparseResource::image(device, info) }?;
        let local = device.report().local_type.unwrap_or(0);
        let is_possible = [
            (requirements.memory_type_bits & 1 << local > 0, "it cannot lie in the memory that buffers are in"),
            (PAGE_SIZE_64K.is_multiple_of(requirements.alignment), "its memory is bound in units larger than 64 KiB"),
        ];
        match first_refusal(is_possible) {
            Ok(()) => Ok(image),
            Err(refused) => {
                image.destroy_unused();
                Err(refused)
            }
        }
    }
}

/// Refuses an image for the first condition that does not hold.
fn first_refusal(conditions: impl IntoIterator<Item = (bool, &'static str)>) -> Result<(), Error> {
    match conditions.into_iter().find(|(holds, _)| !holds) {
        Some((_, reason)) => Err(Error::Image { reason }),
        None => Ok(()),
    }
}
