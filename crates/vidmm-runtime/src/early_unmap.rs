//! A host that unmaps from the IOMMU too early, so that checks can be seen to fail.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

use vidmm::contract::{BackingStoreError, CpuAddressError, CpuVirtualAddress, Host, IoMmuDomain, KmdProcessHandle};
use vidmm::{Extent, GpuVirtualAddress, PhysicalAddress, SegmentId};

/// A host that a driver's wrapper shares: it unmaps ranges before the core asks for it, and passes over the later
/// request.
#[derive(Clone)]
pub struct EarlyHost(Rc<RefCell<Shared>>);

struct Shared {
    host: Box<dyn Host>,
    is_global: bool,
    /// Mappings that were unmapped early: domain and first address.
    early: BTreeSet<(IoMmuDomain, GpuVirtualAddress)>,
}

impl EarlyHost {
    /// Wraps `host`.
    pub fn new(host: Box<dyn Host>) -> Self {
        Self(Rc::new(RefCell::new(Shared { host, is_global: false, early: BTreeSet::new() })))
    }

    /// Records that the adapter has one domain for all processes.
    pub fn use_global_domain(&self) {
        self.0.borrow_mut().is_global = true;
    }

    /// Unmaps the range of one map call for `process` now. The range counts as early until the core asks to unmap it,
    /// so a second call does nothing.
    pub fn unmap_now(&self, process: KmdProcessHandle, virtual_address: GpuVirtualAddress, size: u64) {
        let mut shared = self.0.borrow_mut();
        let domain = if shared.is_global { IoMmuDomain::Global } else { IoMmuDomain::Process(process) };
        if shared.early.insert((domain, virtual_address)) {
            shared.host.unmap_io_mmu(domain, virtual_address, size);
        }
    }
}

impl Host for EarlyHost {
    fn commit_backing_store(&mut self, size: u64) -> Result<PhysicalAddress, BackingStoreError> {
        self.0.borrow_mut().host.commit_backing_store(size)
    }

    fn decommit_backing_store(&mut self, address: PhysicalAddress, size: u64) {
        self.0.borrow_mut().host.decommit_backing_store(address, size);
    }

    fn reset_backing_store(&mut self, address: PhysicalAddress, size: u64) {
        self.0.borrow_mut().host.reset_backing_store(address, size);
    }

    fn map_cpu_virtual_address(
        &mut self,
        segment: SegmentId,
        extents: &[Extent],
    ) -> Result<CpuVirtualAddress, CpuAddressError> {
        self.0.borrow_mut().host.map_cpu_virtual_address(segment, extents)
    }

    fn rotate_cpu_virtual_address(&mut self, address: CpuVirtualAddress, segment: SegmentId, extents: &[Extent]) {
        self.0.borrow_mut().host.rotate_cpu_virtual_address(address, segment, extents);
    }

    fn kernel_virtual_address(&mut self, table: PhysicalAddress) -> CpuVirtualAddress {
        self.0.borrow_mut().host.kernel_virtual_address(table)
    }

    fn unmap_cpu_virtual_address(&mut self, address: CpuVirtualAddress) {
        self.0.borrow_mut().host.unmap_cpu_virtual_address(address);
    }

    fn total_system_memory(&self) -> u64 {
        self.0.borrow().host.total_system_memory()
    }

    fn map_io_mmu(
        &mut self,
        domain: IoMmuDomain,
        virtual_address: GpuVirtualAddress,
        system_address: PhysicalAddress,
        size: u64,
        read_only: bool,
    ) {
        self.0.borrow_mut().host.map_io_mmu(domain, virtual_address, system_address, size, read_only);
    }

    fn unmap_io_mmu(&mut self, domain: IoMmuDomain, virtual_address: GpuVirtualAddress, size: u64) {
        let mut shared = self.0.borrow_mut();
        if !shared.early.remove(&(domain, virtual_address)) {
            shared.host.unmap_io_mmu(domain, virtual_address, size);
        }
    }
}
