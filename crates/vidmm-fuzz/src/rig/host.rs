//! A host that is right, and may have no memory.

use std::collections::BTreeMap;

use vidmm::contract::{BackingStoreError, CpuAddressError, CpuVirtualAddress, Host as HostContract, IoMmuDomain};
use vidmm::{Extent, GpuVirtualAddress, PAGE_SIZE, PAGE_SIZE_64K, PhysicalAddress, SegmentId};

use crate::choices::Choices;

/// The first address of the caller's own memory.
pub const CALLERS_MEMORY: u64 = 1 << 52;

/// A host that checks its calls: the manager must give back exactly the memory and the addresses that it got.
pub struct Host<'d> {
    choices: Choices<'d>,
    /// Whether it refuses at times.
    pub is_short: bool,
    /// Bytes of system memory.
    pub total: u64,
    next: u64,
    /// Backing stores, by their address, with their sizes.
    pub committed: BTreeMap<u64, u64>,
    views: BTreeMap<u64, u64>,
    /// The IOMMU's mappings, with their sizes.
    pub io_mmu: BTreeMap<(IoMmuDomain, u64), u64>,
}

impl<'d> Host<'d> {
    pub fn new(choices: Choices<'d>) -> Self {
        let (committed, views, io_mmu) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Self { choices, is_short: false, total: 1 << 40, next: 0, committed, views, io_mmu }
    }

    fn refuses(&self) -> bool {
        self.is_short && self.choices.one_in(12)
    }
}

impl HostContract for Host<'_> {
    fn commit_backing_store(&mut self, size: u64) -> Result<PhysicalAddress, BackingStoreError> {
        assert!(size > 0 && size.is_multiple_of(PAGE_SIZE), "a backing store of {size} bytes");
        let end = self.next.checked_add(size).and_then(|end| end.checked_next_multiple_of(PAGE_SIZE_64K));
        // No host has memory beyond the reach of a physical address of 56 bits.
        let Some(end) = end.filter(|&end| end <= CALLERS_MEMORY && !self.refuses()) else {
            return Err(BackingStoreError { size });
        };
        let offset = std::mem::replace(&mut self.next, end);
        self.committed.insert(offset, size);
        Ok(PhysicalAddress { segment: SegmentId::SYSTEM, offset })
    }

    fn decommit_backing_store(&mut self, address: PhysicalAddress, size: u64) {
        assert_eq!(self.committed.remove(&address.offset), Some(size), "it is given back what it gave out");
    }

    fn reset_backing_store(&mut self, address: PhysicalAddress, size: u64) {
        let committed = self.committed.get(&address.offset);
        let is_callers = address.offset >= CALLERS_MEMORY;
        assert!(is_callers || committed.is_some_and(|&committed| size <= committed), "it is not committed");
    }

    fn map_cpu_virtual_address(
        &mut self,
        _: SegmentId,
        extents: &[Extent],
    ) -> Result<CpuVirtualAddress, CpuAddressError> {
        let size = extents.iter().map(|extent| extent.size).sum();
        if self.refuses() {
            return Err(CpuAddressError { size });
        }
        let address = self.views.last_key_value().map_or(PAGE_SIZE, |(&start, &size)| start + size);
        self.views.insert(address, size);
        Ok(CpuVirtualAddress(address))
    }

    fn rotate_cpu_virtual_address(&mut self, address: CpuVirtualAddress, _: SegmentId, extents: &[Extent]) {
        let size: u64 = extents.iter().map(|extent| extent.size).sum();
        // While the allocation moves, the addresses show nothing.
        assert!(size == 0 || self.views.get(&address.0) == Some(&size), "a view keeps its size");
    }

    fn unmap_cpu_virtual_address(&mut self, address: CpuVirtualAddress) {
        assert!(self.views.remove(&address.0).is_some(), "{address} shows nothing");
    }

    fn total_system_memory(&self) -> u64 {
        self.total
    }

    fn map_io_mmu(
        &mut self,
        domain: IoMmuDomain,
        virtual_address: GpuVirtualAddress,
        _: PhysicalAddress,
        size: u64,
        _: bool,
    ) {
        let (start, end) = (virtual_address.0, virtual_address.0.checked_add(size).expect("it ends inside the space"));
        let before = self.io_mmu.range(..(domain, end)).next_back().filter(|((other, _), _)| *other == domain);
        assert!(before.is_none_or(|(&(_, at), &size)| at + size <= start), "I29: {start:#x} is mapped already");
        self.io_mmu.insert((domain, start), size);
    }

    fn unmap_io_mmu(&mut self, domain: IoMmuDomain, virtual_address: GpuVirtualAddress, size: u64) {
        let (start, end) = (virtual_address.0, virtual_address.0 + size);
        let before = self.io_mmu.range(..=(domain, start)).next_back().map(|(&at, &size)| (at, size));
        let around = before.filter(|&((other, at), size)| other == domain && end <= at + size && start < end);
        let ((_, first), whole) = around.unwrap_or_else(|| panic!("I29: {start:#x} was not mapped"));
        self.io_mmu.remove(&(domain, first));
        let rests = [(first, start), (end, first + whole)].into_iter().filter(|(from, to)| from < to);
        self.io_mmu.extend(rests.map(|(from, to)| ((domain, from), to - from)));
    }
}
