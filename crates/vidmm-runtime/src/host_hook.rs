//! A host between the core and another host.

use std::cell::RefCell;
use std::rc::Rc;

use vidmm::contract::{BackingStoreError, CpuAddressError, CpuVirtualAddress, Host, IoMmuDomain};
use vidmm::{Extent, GpuVirtualAddress, PhysicalAddress, SegmentId};

/// A hook between the core and a host: it is told what the host has done, and may unmap from the IOMMU in its place.
pub trait HostHook {
    /// Tells that the host has committed `size` bytes at `address`.
    fn committed(&mut self, address: PhysicalAddress, size: u64) {
        let _ = (address, size);
    }

    /// Tells that the host has its memory back.
    fn decommitted(&mut self, size: u64) {
        let _ = size;
    }

    /// Tells that memory has lost its content.
    fn reset(&mut self, address: PhysicalAddress, size: u64) {
        let _ = (address, size);
    }

    /// Tells that the CPU has a view more.
    fn view_mapped(&mut self) {}

    /// Tells that the CPU has a view less.
    fn view_unmapped(&mut self) {}

    /// Tells that the IOMMU maps `size` bytes more.
    fn io_mmu_mapped(&mut self, size: u64) {
        let _ = size;
    }

    /// Unmaps in the place of `host`, which is asked if the hook has not done so yet.
    fn unmap_io_mmu(&mut self, host: &mut dyn Host, domain: IoMmuDomain, address: GpuVirtualAddress, size: u64) {
        host.unmap_io_mmu(domain, address, size);
    }
}

/// A host with a [`HostHook`] before it. Calls without a hook go to the host as they are. Its clones are the same host.
pub struct HookedHost<H>(Rc<RefCell<(Box<dyn Host>, H)>>);

impl<H> Clone for HookedHost<H> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<H: HostHook> HookedHost<H> {
    /// Puts `hook` before `host`.
    pub fn new(host: Box<dyn Host>, hook: H) -> Self {
        Self(Rc::new(RefCell::new((host, hook))))
    }

    /// Lets `act` use the host and the hook.
    pub fn with<T>(&self, act: impl FnOnce(&mut dyn Host, &mut H) -> T) -> T {
        let (host, hook) = &mut *self.0.borrow_mut();
        act(&mut **host, hook)
    }
}

impl<H: HostHook> Host for HookedHost<H> {
    fn commit_backing_store(&mut self, size: u64) -> Result<PhysicalAddress, BackingStoreError> {
        self.with(|host, hook| host.commit_backing_store(size).inspect(|&address| hook.committed(address, size)))
    }

    fn decommit_backing_store(&mut self, address: PhysicalAddress, size: u64) {
        self.with(|host, hook| {
            host.decommit_backing_store(address, size);
            hook.decommitted(size);
        });
    }

    fn reset_backing_store(&mut self, address: PhysicalAddress, size: u64) {
        self.with(|host, hook| {
            host.reset_backing_store(address, size);
            hook.reset(address, size);
        });
    }

    fn map_cpu_virtual_address(
        &mut self,
        segment: SegmentId,
        extents: &[Extent],
    ) -> Result<CpuVirtualAddress, CpuAddressError> {
        self.with(|host, hook| host.map_cpu_virtual_address(segment, extents).inspect(|_| hook.view_mapped()))
    }

    fn rotate_cpu_virtual_address(&mut self, address: CpuVirtualAddress, segment: SegmentId, extents: &[Extent]) {
        self.with(|host, _| host.rotate_cpu_virtual_address(address, segment, extents));
    }

    fn unmap_cpu_virtual_address(&mut self, address: CpuVirtualAddress) {
        self.with(|host, hook| {
            host.unmap_cpu_virtual_address(address);
            hook.view_unmapped();
        });
    }

    fn kernel_virtual_address(&mut self, table: PhysicalAddress) -> CpuVirtualAddress {
        self.with(|host, _| host.kernel_virtual_address(table))
    }

    fn total_system_memory(&self) -> u64 {
        self.with(|host, _| host.total_system_memory())
    }

    fn map_io_mmu(
        &mut self,
        domain: IoMmuDomain,
        address: GpuVirtualAddress,
        system_address: PhysicalAddress,
        size: u64,
        read_only: bool,
    ) {
        self.with(|host, hook| {
            host.map_io_mmu(domain, address, system_address, size, read_only);
            hook.io_mmu_mapped(size);
        });
    }

    fn unmap_io_mmu(&mut self, domain: IoMmuDomain, address: GpuVirtualAddress, size: u64) {
        self.with(|host, hook| hook.unmap_io_mmu(host, domain, address, size));
    }
}
