//! What the core asks of the operating system.

use crate::units::PhysicalAddress;

/// The operating system's part: what an allocation's content is kept in while it is not in video memory.
///
/// IOMMU maps and CPU maps will come here too; nothing in this trait takes GPU time.
pub trait Host {
    /// Commits `size` bytes of system memory, contiguous in the GPU's view of it, that read as zero.
    ///
    /// Called when an allocation is created (U-9) and for page tables that live in system memory. `size` is a multiple of
    /// 4 KiB. The address must be a multiple of 64 KiB, in [`SegmentId::SYSTEM`](crate::SegmentId::SYSTEM).
    ///
    /// # Errors
    ///
    /// If the commit limit of the system is reached. The call that needed the memory then fails whole.
    fn commit_backing_store(&mut self, size: u64) -> Result<PhysicalAddress, BackingStoreError>;

    /// Returns what [`commit_backing_store`](Self::commit_backing_store) gave. No GPU work names it any more.
    fn decommit_backing_store(&mut self, address: PhysicalAddress, size: u64);
}

/// The system has no memory left to promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the system's commit limit is reached: {size} bytes were asked for")]
pub struct BackingStoreError {
    /// How many bytes were asked for.
    pub size: u64,
}
