//! The host of a machine on a Vulkan device: the reference host, whose system memory is the device's.

use std::cell::RefCell;
use std::rc::Rc;

use vidmm::contract::{BackingStoreError, CpuAddressError, CpuVirtualAddress, Host, IoMmuDomain};
use vidmm::{Extent, GpuVirtualAddress, PAGE_SIZE_64K, PhysicalAddress, SegmentId};
use vidmm_soft::SoftHost;

use crate::executor::sure;
use crate::memory::VulkanMemory;

/// Hands out the same places as [`SoftHost`], and clears the device's memory there.
pub(crate) struct VulkanHost {
    pub(crate) inner: SoftHost,
    pub(crate) memory: Rc<RefCell<VulkanMemory>>,
}

impl Host for VulkanHost {
    fn commit_backing_store(&mut self, size: u64) -> Result<PhysicalAddress, BackingStoreError> {
        let place = self.inner.commit_backing_store(size)?;
        // The device recycles memory with the content of its last owner.
        sure(self.memory.borrow_mut().clear_system(place.offset, size.next_multiple_of(PAGE_SIZE_64K)));
        Ok(place)
    }

    fn decommit_backing_store(&mut self, address: PhysicalAddress, size: u64) {
        self.inner.decommit_backing_store(address, size);
    }

    fn reset_backing_store(&mut self, address: PhysicalAddress, size: u64) {
        self.inner.reset_backing_store(address, size);
        sure(self.memory.borrow_mut().clear_system(address.offset, size));
    }

    fn map_cpu_virtual_address(
        &mut self,
        segment: SegmentId,
        extents: &[Extent],
    ) -> Result<CpuVirtualAddress, CpuAddressError> {
        self.inner.map_cpu_virtual_address(segment, extents)
    }

    fn rotate_cpu_virtual_address(&mut self, address: CpuVirtualAddress, segment: SegmentId, extents: &[Extent]) {
        self.inner.rotate_cpu_virtual_address(address, segment, extents);
    }

    fn unmap_cpu_virtual_address(&mut self, address: CpuVirtualAddress) {
        self.inner.unmap_cpu_virtual_address(address);
    }

    fn kernel_virtual_address(&mut self, table: PhysicalAddress) -> CpuVirtualAddress {
        self.inner.kernel_virtual_address(table)
    }

    fn total_system_memory(&self) -> u64 {
        self.inner.total_system_memory()
    }

    fn map_io_mmu(
        &mut self,
        domain: IoMmuDomain,
        virtual_address: GpuVirtualAddress,
        system_address: PhysicalAddress,
        size: u64,
        read_only: bool,
    ) {
        self.inner.map_io_mmu(domain, virtual_address, system_address, size, read_only);
    }

    fn unmap_io_mmu(&mut self, domain: IoMmuDomain, virtual_address: GpuVirtualAddress, size: u64) {
        self.inner.unmap_io_mmu(domain, virtual_address, size);
    }
}
