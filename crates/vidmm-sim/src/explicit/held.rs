//! The memory, views, mappings and objects that the manager has of the host and of the driver.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use vidmm::contract::{BackingStoreError, CpuAddressError, CpuVirtualAddress, Host, IoMmuDomain};
use vidmm::{Extent, GpuVirtualAddress, PhysicalAddress, SegmentId};
use vidmm_runtime::{KmdHook, KmdObject};

/// The objects that a driver has created and that have not ended.
#[derive(Debug, Default)]
pub(crate) struct DriverObjects {
    /// How often each was created, or opened.
    pub live: BTreeMap<KmdObject, u32>,
    /// The first that was to end although it did not live.
    pub misused: Option<KmdObject>,
}

/// A hook that counts a driver's objects.
pub(crate) struct ObjectCounter(pub Rc<RefCell<DriverObjects>>);

impl KmdHook for ObjectCounter {
    fn object_created(&mut self, object: KmdObject) {
        *self.0.borrow_mut().live.entry(object).or_default() += 1;
    }

    fn object_ends(&mut self, object: KmdObject) {
        let DriverObjects { live, misused } = &mut *self.0.borrow_mut();
        match live.get_mut(&object) {
            Some(1) => drop(live.remove(&object)),
            Some(count) => *count -= 1,
            None => *misused = misused.or(Some(object)),
        }
    }
}

/// The things that a host has given and not got back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Held {
    committed_bytes: u64,
    views: u64,
    io_mmu_bytes: u64,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { committed_bytes, views, io_mmu_bytes } = self;
        write!(
            f,
            "{committed_bytes} bytes committed, {views} views of the CPU, {io_mmu_bytes} bytes mapped in the IOMMU"
        )
    }
}

/// A host that counts what it gives and what it gets back.
pub(crate) struct CountedHost {
    host: Box<dyn Host>,
    held: Rc<Cell<Held>>,
}

impl CountedHost {
    /// Counts for `host`, in the cell that is returned beside it.
    pub fn new(host: Box<dyn Host>) -> (Self, Rc<Cell<Held>>) {
        let held = Rc::new(Cell::new(Held::default()));
        (Self { host, held: Rc::clone(&held) }, held)
    }

    fn count(&self, change: impl FnOnce(&mut Held)) {
        let mut held = self.held.get();
        change(&mut held);
        self.held.set(held);
    }
}

impl Host for CountedHost {
    fn commit_backing_store(&mut self, size: u64) -> Result<PhysicalAddress, BackingStoreError> {
        let address = self.host.commit_backing_store(size)?;
        self.count(|held| held.committed_bytes += size);
        Ok(address)
    }

    fn decommit_backing_store(&mut self, address: PhysicalAddress, size: u64) {
        self.host.decommit_backing_store(address, size);
        self.count(|held| held.committed_bytes -= size);
    }

    fn reset_backing_store(&mut self, address: PhysicalAddress, size: u64) {
        self.host.reset_backing_store(address, size);
    }

    fn map_cpu_virtual_address(
        &mut self,
        segment: SegmentId,
        extents: &[Extent],
    ) -> Result<CpuVirtualAddress, CpuAddressError> {
        let address = self.host.map_cpu_virtual_address(segment, extents)?;
        self.count(|held| held.views += 1);
        Ok(address)
    }

    fn rotate_cpu_virtual_address(&mut self, address: CpuVirtualAddress, segment: SegmentId, extents: &[Extent]) {
        self.host.rotate_cpu_virtual_address(address, segment, extents);
    }

    fn unmap_cpu_virtual_address(&mut self, address: CpuVirtualAddress) {
        self.host.unmap_cpu_virtual_address(address);
        self.count(|held| held.views -= 1);
    }

    fn kernel_virtual_address(&mut self, table: PhysicalAddress) -> CpuVirtualAddress {
        self.host.kernel_virtual_address(table)
    }

    fn total_system_memory(&self) -> u64 {
        self.host.total_system_memory()
    }

    fn map_io_mmu(
        &mut self,
        domain: IoMmuDomain,
        virtual_address: GpuVirtualAddress,
        system_address: PhysicalAddress,
        size: u64,
        read_only: bool,
    ) {
        self.host.map_io_mmu(domain, virtual_address, system_address, size, read_only);
        self.count(|held| held.io_mmu_bytes += size);
    }

    fn unmap_io_mmu(&mut self, domain: IoMmuDomain, virtual_address: GpuVirtualAddress, size: u64) {
        self.host.unmap_io_mmu(domain, virtual_address, size);
        self.count(|held| held.io_mmu_bytes -= size);
    }
}
