//! An image whose memory the manager moves.

use std::fmt;
use std::ops::Deref;

use ash::vk;

use super::allocation::Allocation;

/// An image: memory is bound to it while it is resident.
///
/// Its layout is the application's business, and stays what it is while the image is not resident. Paging copies its memory as it is, byte
/// by byte.
pub struct Image {
    allocation: Allocation,
    raw: vk::Image,
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("allocation", &self.allocation).finish_non_exhaustive()
    }
}

impl Image {
    pub(super) fn new(allocation: Allocation, raw: vk::Image) -> Self {
        Self { allocation, raw }
    }

    /// The Vulkan image, in the layout UNDEFINED at first, which all families use that the adapter was told of. It is valid as long as the
    /// value.
    pub fn raw(&self) -> vk::Image {
        self.raw
    }
}

impl Deref for Image {
    type Target = Allocation;

    fn deref(&self) -> &Allocation {
        &self.allocation
    }
}

impl AsRef<Allocation> for Image {
    fn as_ref(&self) -> &Allocation {
        &self.allocation
    }
}
