//! The core's requests to the operating system.

use core::fmt;

use super::KmdProcessHandle;
use crate::units::{Extent, GpuVirtualAddress, PhysicalAddress, SegmentId};

/// The operating system's part: backing stores, which have an allocation's content while it is not in video memory; the
/// IOMMU; and the CPU's view. Nothing in this trait takes GPU time.
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

    /// Returns memory of [`commit_backing_store`](Self::commit_backing_store). No GPU work names it any more.
    fn decommit_backing_store(&mut self, address: PhysicalAddress, size: u64);

    /// Drops the content of `size` bytes of backing store from `address` on: they read as zero from now on (U-36). The
    /// range is the whole of one [`commit_backing_store`](Self::commit_backing_store), or memory that a caller owns.
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
    /// Without extents the content is on its way: the address shows nothing, and an access waits for the next rotation.
    fn rotate_cpu_virtual_address(&mut self, address: CpuVirtualAddress, segment: SegmentId, extents: &[Extent]) {
        let _ = (address, segment, extents);
    }

    /// Ends a view of [`map_cpu_virtual_address`](Self::map_cpu_virtual_address).
    fn unmap_cpu_virtual_address(&mut self, address: CpuVirtualAddress) {
        let _ = address;
    }

    /// The address at which a driver that writes page tables with the CPU sees one (BPB-08): a table that lies at the start of
    /// memory of [`commit_backing_store`](Self::commit_backing_store). Of the same table it is always the same.
    ///
    /// The host set aside the addresses that it needs for this when it committed the memory.
    fn kernel_virtual_address(&mut self, table: PhysicalAddress) -> CpuVirtualAddress {
        CpuVirtualAddress(table.offset)
    }

    /// The machine's system memory in bytes; half of it is for graphics (1.7).
    fn total_system_memory(&self) -> u64 {
        u64::MAX
    }

    /// Maps `size` bytes of system memory from `system_address` on in the IOMMU, for the engines to reach at
    /// `virtual_address`. Only on adapters of the models GpuVaIoMmu and GpuVaIoMmuGlobal (U-17).
    ///
    /// The range is not mapped. The host set aside the memory that it needs for this when it committed the backing
    /// store.
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

    /// Unmaps a range of one [`map_io_mmu`](Self::map_io_mmu), or whole pages of it (U-22). All paging operations that
    /// were under way for it have ended (NTF-04). The driver flushes the device's own cache of the mapping when it is
    /// notified.
    fn unmap_io_mmu(&mut self, domain: IoMmuDomain, virtual_address: GpuVirtualAddress, size: u64) {
        let _ = (domain, virtual_address, size);
    }
}

/// An address of the CPU: in the process that locks an allocation, or in the kernel.
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
    /// The number of bytes that were asked for.
    pub size: u64,
}

/// The domain of an IOMMU mapping (U-17).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum IoMmuDomain {
    /// One process's addresses: GpuVaIoMmu.
    #[cfg_attr(feature = "serde", serde(rename = "process_handle"))]
    Process(KmdProcessHandle),
    /// The addresses of all processes: GpuVaIoMmuGlobal.
    Global,
}

/// The system has no memory left to promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the system's commit limit is reached: {size} bytes were asked for")]
pub struct BackingStoreError {
    /// The number of bytes that were asked for.
    pub size: u64,
}
