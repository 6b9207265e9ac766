//! Where allocations may be, and what the driver wants to hear of them.

use serde::de::Deserializer;
use serde::{Deserialize, Serialize, Serializer};
use vidmm_runtime::AllocationSegments;

/// A notification that the driver asks for when an allocation is created.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Notification {
    /// Before the allocation leaves the aperture or implicit system memory (NTF-02).
    Eviction,
    /// Before the allocation is unmapped from the IOMMU (NTF-04).
    IoMmuUnmap,
}

/// The names of [`AllocationSegments`].
#[derive(Deserialize, Serialize)]
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

/// Writes where an allocation may be, if anything is said of it.
pub(super) fn write_segments<S: Serializer>(
    segments: &Option<AllocationSegments>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match segments {
        Some(segments) => Segments::serialize(segments, serializer),
        None => serializer.serialize_none(),
    }
}
