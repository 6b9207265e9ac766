//! The memory, views, mappings and objects that the manager has of the host and of the driver.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use vidmm::contract::{Host, IoMmuDomain};
use vidmm::{GpuVirtualAddress, PhysicalAddress};
use vidmm_runtime::{HostHook, KmdHook, KmdObject};

/// The things that a host and a driver have given and not got back.
#[derive(Clone, Debug, Default)]
pub(crate) struct Held {
    pub of_host: HeldOfHost,
    /// How often each object that a driver has created, or opened, lives.
    pub objects: BTreeMap<KmdObject, u32>,
    /// The first object that was to end although it did not live.
    pub misused: Option<KmdObject>,
}

/// The things that a host has given and not got back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct HeldOfHost {
    committed_bytes: u64,
    views: u64,
    io_mmu_bytes: u64,
}

impl HeldOfHost {
    /// Memory that programs have of the host themselves.
    pub fn of_programs(committed_bytes: u64) -> Self {
        Self { committed_bytes, ..Self::default() }
    }
}

impl fmt::Display for HeldOfHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { committed_bytes, views, io_mmu_bytes } = self;
        write!(
            f,
            "{committed_bytes} bytes committed, {views} views of the CPU, {io_mmu_bytes} bytes mapped in the IOMMU"
        )
    }
}

/// A hook before a driver, and another before its host, that count what these give and what they get back.
#[derive(Clone)]
pub(crate) struct Counter(pub Rc<RefCell<Held>>);

impl KmdHook for Counter {
    fn object_created(&mut self, object: KmdObject) {
        *self.0.borrow_mut().objects.entry(object).or_default() += 1;
    }

    fn object_ends(&mut self, object: KmdObject) {
        let Held { objects, misused, .. } = &mut *self.0.borrow_mut();
        match objects.get_mut(&object) {
            Some(1) => drop(objects.remove(&object)),
            Some(count) => *count -= 1,
            None => *misused = misused.or(Some(object)),
        }
    }
}

impl HostHook for Counter {
    fn committed(&mut self, _: PhysicalAddress, size: u64) {
        self.0.borrow_mut().of_host.committed_bytes += size;
    }

    fn decommitted(&mut self, size: u64) {
        self.0.borrow_mut().of_host.committed_bytes -= size;
    }

    fn view_mapped(&mut self) {
        self.0.borrow_mut().of_host.views += 1;
    }

    fn view_unmapped(&mut self) {
        self.0.borrow_mut().of_host.views -= 1;
    }

    fn io_mmu_mapped(&mut self, size: u64) {
        self.0.borrow_mut().of_host.io_mmu_bytes += size;
    }

    fn unmap_io_mmu(&mut self, host: &mut dyn Host, domain: IoMmuDomain, address: GpuVirtualAddress, size: u64) {
        host.unmap_io_mmu(domain, address, size);
        self.0.borrow_mut().of_host.io_mmu_bytes -= size;
    }
}
