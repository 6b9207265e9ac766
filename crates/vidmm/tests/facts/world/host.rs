//! The operating system of the test world: a ledger of what it promised, and the IOMMU.

use std::collections::BTreeMap;

use vidmm::contract::{BackingStoreError, CpuAddressError, CpuVirtualAddress, Host, IoMmuDomain};
use vidmm::{Extent, GpuVirtualAddress, PAGE_SIZE, PAGE_SIZE_64K, PhysicalAddress, SegmentId};

use super::failing::{Failing, Fallible};
use super::journal::{Happened, Journal};

/// The CPU sees system memory from here on, in the kernel.
pub const KERNEL_ADDRESS: u64 = 1 << 63;

/// Addresses are never handed out twice, so use after return is seen.
#[derive(Debug, Default)]
pub struct Ledger {
    /// Address and size of what is committed.
    pub live: BTreeMap<u64, u64>,
    /// The most bytes that may be committed, if there is a limit.
    pub limit: Option<u64>,
    /// The machine's system memory in bytes, if there is an end of it.
    pub system_memory: Option<u64>,
    /// How many commits still succeed before one fails.
    pub fails_after: Option<u64>,
    /// Which call fails, of the driver's and the host's together.
    pub failing: Failing,
    pub next: u64,
    /// The sum of the sizes, kept so that a commit need not add them up.
    pub committed: u64,
    /// How often something was given back.
    pub decommits: u64,
    pub journal: Journal,
    /// The CPU's views, by their address: a segment and ranges there; no ranges while that moves.
    pub views: BTreeMap<u64, (SegmentId, Vec<Extent>)>,
    pub last_view: u64,
    /// Whether CPU addresses are used up.
    pub no_cpu_addresses: bool,
    /// The ranges that the IOMMU maps, by first address.
    pub io_mmu: BTreeMap<(IoMmuDomain, u64), IoMmuMapping>,
}

/// One range that the IOMMU maps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IoMmuMapping {
    pub system_address: PhysicalAddress,
    pub size: u64,
    pub read_only: bool,
}

impl Ledger {
    pub fn bytes(&self) -> u64 {
        self.committed
    }

    /// Whether `address` is committed.
    pub fn holds(&self, address: u64) -> bool {
        self.live.range(..=address).next_back().is_some_and(|(start, size)| address < start + size)
    }

    /// The page that the CPU sees `page` pages after `address`; none while that moves.
    pub fn seen(&self, address: CpuVirtualAddress, page: u64) -> Option<PhysicalAddress> {
        let (segment, extents) = self.views.get(&address.0).expect("the CPU has this address");
        let pages = extents.iter().flat_map(|extent| (extent.offset..extent.end()).step_by(PAGE_SIZE as usize));
        pages.skip(page as usize).map(|offset| PhysicalAddress { segment: *segment, offset }).next()
    }

    /// The memory that the IOMMU maps at an address, and whether writes fault.
    pub fn translate(&self, domain: IoMmuDomain, address: u64) -> Option<(PhysicalAddress, bool)> {
        let (&(_, start), mapping) = self.io_mmu.range((domain, 0)..=(domain, address)).next_back()?;
        let page = (address - start) & !(PAGE_SIZE - 1);
        (page < mapping.size).then(|| (mapping.system_address.offset_by(page), mapping.read_only))
    }
}

impl Host for Ledger {
    fn commit_backing_store(&mut self, size: u64) -> Result<PhysicalAddress, BackingStoreError> {
        assert!(size > 0 && size.is_multiple_of(PAGE_SIZE), "commits are whole pages, not {size} bytes");
        if self.failing.fails(Fallible::CommitBackingStore) {
            return Err(BackingStoreError { size });
        }
        let left = self.fails_after.unwrap_or(u64::MAX);
        if left == 0 || self.limit.is_some_and(|limit| self.bytes() + size > limit) {
            self.fails_after = None;
            return Err(BackingStoreError { size });
        }
        self.fails_after = self.fails_after.map(|left| left - 1);
        self.next += PAGE_SIZE_64K;
        let offset = self.next;
        self.next = (offset + size).next_multiple_of(PAGE_SIZE_64K);
        self.live.insert(offset, size);
        self.committed += size;
        Ok(PhysicalAddress { segment: SegmentId::SYSTEM, offset })
    }

    fn decommit_backing_store(&mut self, address: PhysicalAddress, size: u64) {
        assert!(address.segment.is_system());
        assert_eq!(
            self.live.remove(&address.offset),
            Some(size),
            "only what was committed is returned, once and whole"
        );
        self.committed -= size;
        self.decommits += 1;
        let freed = address.offset..address.offset + size;
        let is_freed = |extent: &Extent| freed.contains(&extent.offset);
        let seen = self.views.iter().find(|(_, view)| view.0.is_system() && view.1.iter().any(is_freed));
        assert!(seen.is_none(), "I29: {address:?} is given back, but the CPU sees it: {seen:x?}");
        let shown = self.io_mmu.iter().find(|(_, mapping)| freed.contains(&mapping.system_address.offset));
        assert!(shown.is_none(), "I29: {address:?} is given back, but the IOMMU maps it: {shown:x?}");
    }

    fn reset_backing_store(&mut self, address: PhysicalAddress, size: u64) {
        assert!(self.holds(address.offset) && self.holds(address.offset + size - 1), "{address:?} is not committed");
        self.journal.push(Happened::Reset { address, size });
    }

    fn total_system_memory(&self) -> u64 {
        self.system_memory.unwrap_or(u64::MAX)
    }

    fn map_cpu_virtual_address(
        &mut self,
        segment: SegmentId,
        extents: &[Extent],
    ) -> Result<CpuVirtualAddress, CpuAddressError> {
        let size = extents.iter().map(|extent| extent.size).sum();
        if self.failing.fails(Fallible::MapCpuVirtualAddress) || self.no_cpu_addresses {
            return Err(CpuAddressError { size });
        }
        self.last_view += 1 << 40;
        self.views.insert(self.last_view, (segment, extents.to_vec()));
        Ok(CpuVirtualAddress(self.last_view))
    }

    fn rotate_cpu_virtual_address(&mut self, address: CpuVirtualAddress, segment: SegmentId, extents: &[Extent]) {
        let view = self.views.get_mut(&address.0).expect("only what is mapped is rotated");
        *view = (segment, extents.to_vec());
    }

    fn kernel_virtual_address(&mut self, table: PhysicalAddress) -> CpuVirtualAddress {
        assert!(table.segment.is_system() && self.holds(table.offset), "the CPU is to see {table:?}");
        CpuVirtualAddress(KERNEL_ADDRESS + table.offset)
    }

    fn unmap_cpu_virtual_address(&mut self, address: CpuVirtualAddress) {
        assert!(self.views.remove(&address.0).is_some(), "only what was mapped is unmapped, once: {address}");
    }

    fn map_io_mmu(
        &mut self,
        domain: IoMmuDomain,
        virtual_address: GpuVirtualAddress,
        system_address: PhysicalAddress,
        size: u64,
        read_only: bool,
    ) {
        let whole_pages = [virtual_address.0, system_address.offset, size].iter().all(|n| n.is_multiple_of(PAGE_SIZE));
        assert!(whole_pages && size > 0 && system_address.segment.is_system(), "{virtual_address} {system_address:?}");
        for page in (0..size).step_by(PAGE_SIZE as usize) {
            assert!(self.holds(system_address.offset + page), "BPB-55: {system_address:?} is not committed");
        }
        let (start, end) = (virtual_address.0, virtual_address.0 + size);
        let before = self.io_mmu.range((domain, 0)..(domain, end)).next_back();
        let overlap = before.filter(|&(&(_, other), mapping)| other + mapping.size > start);
        assert!(overlap.is_none(), "{virtual_address} of {domain:?} is mapped already: {overlap:x?}");
        self.io_mmu.insert((domain, start), IoMmuMapping { system_address, size, read_only });
        self.journal.push(Happened::Mapped { domain, virtual_address, system_address, size, read_only });
    }

    fn unmap_io_mmu(&mut self, domain: IoMmuDomain, virtual_address: GpuVirtualAddress, size: u64) {
        let (start, end) = (virtual_address.0, virtual_address.0 + size);
        let before = self.io_mmu.range((domain, 0)..=(domain, start)).next_back();
        let around = before.map(|(&(_, first), mapping)| (first, *mapping));
        let around = around.filter(|(first, mapping)| start < end && end <= first + mapping.size);
        let (first, mapping) = around.unwrap_or_else(|| {
            panic!("only what was mapped is unmapped, and once: {virtual_address} of {domain:?}, {size} bytes")
        });
        self.io_mmu.remove(&(domain, first));
        for (from, to) in [(first, start), (end, first + mapping.size)] {
            if from < to {
                let system_address = mapping.system_address.offset_by(from - first);
                self.io_mmu.insert((domain, from), IoMmuMapping { system_address, size: to - from, ..mapping });
            }
        }
        self.journal.push(Happened::Unmapped { domain, virtual_address, size });
    }
}
