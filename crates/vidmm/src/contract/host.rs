//! What the core asks of the operating system.

use core::fmt;

use super::KmdProcessHandle;
use crate::units::{Extent, GpuVirtualAddress, PhysicalAddress, SegmentId};

/// The operating system's part: what an allocation's content is kept in while it is not in video memory, the IOMMU, and what
/// the CPU sees. Nothing in this trait takes GPU time.
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

    /// What `size` bytes of backing store from `address` on hold is worthless: they read as zero from now on (U-36). The range
    /// is all of what one [`commit_backing_store`](Self::commit_backing_store) gave, or memory that a caller owns.
    fn reset_backing_store(&mut self, address: PhysicalAddress, size: u64);

    /// Shows `extents` of `segment`, one after another, at CPU addresses that nothing else has (RES-80).
    ///
    /// # Errors
    ///
    /// If no addresses are left; a host that shows the CPU nothing has none.
    fn map_cpu_virtual_address(
        &mut self,
        segment: SegmentId,
        extents: &[Extent],
    ) -> Result<CpuVirtualAddress, CpuAddressError> {
        let _ = segment;
        Err(CpuAddressError { size: extents.iter().map(|extent| extent.size).sum() })
    }

    /// Shows other extents of the same size at the same address: the content has moved (RES-86).
    ///
    /// Without extents the content is on its way: nothing is seen, and whoever accesses the address waits for the next rotation.
    fn rotate_cpu_virtual_address(&mut self, address: CpuVirtualAddress, segment: SegmentId, extents: &[Extent]) {
        let _ = (address, segment, extents);
    }

    /// Takes a view away that one [`map_cpu_virtual_address`](Self::map_cpu_virtual_address) gave.
    fn unmap_cpu_virtual_address(&mut self, address: CpuVirtualAddress) {
        let _ = address;
    }

    /// Bytes of system memory that the machine has; half of it is for graphics (1.7).
    fn total_system_memory(&self) -> u64 {
        u64::MAX
    }

    /// Maps `size` bytes of system memory from `system_address` on in the IOMMU, for the engines to reach at
    /// `virtual_address`. Only on adapters of the models GpuVaIoMmu and GpuVaIoMmuGlobal (U-17).
    ///
    /// The range is not mapped. The host set aside what it needs for this when it committed the memory.
    fn map_io_mmu(
        &mut self,
        domain: IoMmuDomain,
        virtual_address: GpuVirtualAddress,
        system_address: PhysicalAddress,
        size: u64,
        read_only: bool,
    ) {
        let _ = (domain, virtual_address, system_address, size, read_only);
    }

    /// Unmaps what one [`map_io_mmu`](Self::map_io_mmu) mapped, or whole pages of it (U-22). All paging operations that were under way for it have ended
    /// (NTF-04). What the device itself caches of the mapping is the driver's to forget, when it is notified.
    fn unmap_io_mmu(&mut self, domain: IoMmuDomain, virtual_address: GpuVirtualAddress, size: u64) {
        let _ = (domain, virtual_address, size);
    }
}

/// An address in the process of whoever locks an allocation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct CpuVirtualAddress(pub u64);

impl fmt::Display for CpuVirtualAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// No CPU addresses are left.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("no CPU addresses are left for {size} bytes")]
pub struct CpuAddressError {
    /// How many bytes were asked for.
    pub size: u64,
}

/// Which addresses an IOMMU mapping is for (U-17).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum IoMmuDomain {
    /// Those of one process: GpuVaIoMmu.
    Process(KmdProcessHandle),
    /// Those of all: GpuVaIoMmuGlobal.
    Global,
}

/// The system has no memory left to promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the system's commit limit is reached: {size} bytes were asked for")]
pub struct BackingStoreError {
    /// How many bytes were asked for.
    pub size: u64,
}
