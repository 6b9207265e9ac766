//! Where allocations may be, and what the driver wants to hear of them.

use serde::Deserialize;
use serde::de::Deserializer;
use vidmm_runtime::AllocationSegments;

/// A notification that the driver asks for when an allocation is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Notification {
    /// Before the allocation leaves the aperture or implicit system memory (NTF-02).
    Eviction,
    /// Before the allocation is unmapped from the IOMMU (NTF-04).
    IoMmuUnmap,
}

/// The names of [`AllocationSegments`].
#[derive(Deserialize)]
#[serde(remote = "AllocationSegments", rename_all = "kebab-case")]
enum Segments {
    Local,
    System,
    LocalOrSystem,
}

/// Reads where an allocation may be.
pub(super) fn optional_segments<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<AllocationSegments>, D::Error> {
    Segments::deserialize(deserializer).map(Some)
}
