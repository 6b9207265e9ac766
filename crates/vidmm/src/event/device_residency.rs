//! The lists of allocations that must be resident while a device's work runs.

/// The lists that drive a device's residency.
///
/// On adapters whose engines use GPU virtual addresses all devices have a device list.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum DeviceResidency {
    /// WDDM 2: the device's residency requirement list (RES-01). The allocations of its work must be on it; allocation
    /// lists serve to patch addresses, and a DMA buffer is never split (RES-04, PAT-17).
    #[default]
    DeviceList,
    /// WDDM 1: the allocation list and the patch-location list of each DMA buffer, which is split where they do not fit (SPL-01).
    /// Only without GPU virtual addresses.
    ReferenceLists,
}
