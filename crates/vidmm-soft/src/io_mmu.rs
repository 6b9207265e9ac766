//! The IOMMU: a table that the host writes and the GPU's engines read.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vidmm::contract::IoMmuDomain;
use vidmm::{GpuVirtualAddress, PAGE_SIZE, PhysicalAddress, SegmentId};

/// The IOMMU's mappings (U-17): a handle that the GPU and the host share.
///
/// A host's mistakes are noted, and otherwise ignored: see [`misuses`](Self::misuses).
#[derive(Clone, Debug, Default)]
pub struct IoMmu(Arc<Mutex<Table>>);

#[derive(Debug, Default)]
struct Table {
    /// By domain and first page of address.
    mappings: BTreeMap<(IoMmuDomain, u64), IoMmuMapping>,
    /// First page of system memory, domain and first page of address of each mapping.
    by_system: BTreeSet<(u64, IoMmuDomain, u64)>,
    misuses: Vec<IoMmuMisuse>,
    /// How many ranges the host has mapped so far.
    num_mapped: u64,
}

/// Consecutive pages of one domain, which are consecutive in system memory too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IoMmuMapping {
    /// The first page of address.
    pub first_page: u64,
    pub num_pages: u64,
    /// The first page of system memory.
    pub system_page: u64,
    pub read_only: bool,
    /// Which call of the host's has mapped it, counted from 1.
    pub number: u64,
}

impl IoMmuMapping {
    /// The page of address after its last.
    fn end(&self) -> u64 {
        self.first_page + self.num_pages
    }
}

/// A call of the host's that the IOMMU cannot carry out, or that endangers memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{kind}: {size} bytes at {virtual_address} of {domain:?}")]
pub struct IoMmuMisuse {
    /// The mistake.
    pub kind: IoMmuMisuseKind,
    /// The domain.
    pub domain: IoMmuDomain,
    /// First address.
    pub virtual_address: GpuVirtualAddress,
    /// Size in bytes.
    pub size: u64,
}

/// A mistake in a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IoMmuMisuseKind {
    /// A range is mapped of which a part is mapped already.
    #[error("mapped over a mapping")]
    MappedOverMapping,
    /// A range is mapped that is not whole pages.
    #[error("mapped what is not whole pages")]
    MappedPartOfPage,
    /// System memory is mapped that is not committed.
    #[error("mapped what is not committed")]
    MappedUncommitted,
    /// A range is unmapped that is not pages which one call has mapped.
    #[error("unmapped what is not mapped")]
    UnmappedNotMapped,
    /// System memory is given back while it is mapped (BPB-55).
    #[error("gave back what is mapped")]
    DecommittedWhileMapped,
}

impl IoMmu {
    /// An IOMMU without mappings.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many ranges are mapped now.
    pub fn num_mappings(&self) -> usize {
        self.lock().mappings.len()
    }

    /// Where `virtual_address` of `domain` is in system memory; `None` if it is not mapped.
    pub fn translate(&self, domain: IoMmuDomain, virtual_address: GpuVirtualAddress) -> Option<PhysicalAddress> {
        let page = virtual_address.0 / PAGE_SIZE;
        let mapping = self.mapping_at(domain, page)?;
        let offset = (mapping.system_page + page - mapping.first_page) * PAGE_SIZE + virtual_address.0 % PAGE_SIZE;
        Some(PhysicalAddress { segment: SegmentId::SYSTEM, offset })
    }

    /// The host's mistakes so far, in order.
    pub fn misuses(&self) -> Vec<IoMmuMisuse> {
        self.lock().misuses.clone()
    }

    /// The mapping that `page` of `domain` is in.
    pub(crate) fn mapping_at(&self, domain: IoMmuDomain, page: u64) -> Option<IoMmuMapping> {
        self.lock().mapping_before(domain, page + 1).filter(|mapping| page < mapping.end())
    }

    /// How many ranges the host has mapped so far.
    pub(crate) fn num_mapped(&self) -> u64 {
        self.lock().num_mapped
    }

    /// Whether something is mapped in `pages` of `domain` that was mapped by the host's call `number` or an earlier one.
    pub(crate) fn has_mapping_of(&self, domain: IoMmuDomain, pages: &Range<u64>, number: u64) -> bool {
        let table = self.lock();
        let before_end = table.mappings.range((domain, 0)..(domain, pages.end)).rev().map(|(_, mapping)| mapping);
        before_end.take_while(|mapping| pages.start < mapping.end()).any(|mapping| mapping.number <= number)
    }

    /// Maps `size` bytes of system memory from `system_offset` on.
    pub(crate) fn map(
        &self,
        domain: IoMmuDomain,
        virtual_address: GpuVirtualAddress,
        system_offset: u64,
        size: u64,
        read_only: bool,
    ) {
        let mut table = self.lock();
        let mapping = IoMmuMapping {
            first_page: virtual_address.0 / PAGE_SIZE,
            num_pages: size / PAGE_SIZE,
            system_page: system_offset / PAGE_SIZE,
            read_only,
            number: table.num_mapped + 1,
        };
        let is_whole = [virtual_address.0, system_offset, size].iter().all(|bytes| bytes.is_multiple_of(PAGE_SIZE));
        let kind = if !is_whole || size == 0 {
            IoMmuMisuseKind::MappedPartOfPage
        } else if table.is_any_mapped(domain, &mapping) {
            IoMmuMisuseKind::MappedOverMapping
        } else {
            table.num_mapped += 1;
            return table.insert(domain, mapping);
        };
        table.misuses.push(IoMmuMisuse { kind, domain, virtual_address, size });
    }

    /// Unmaps pages that one [`map`](Self::map) mapped.
    pub(crate) fn unmap(&self, domain: IoMmuDomain, virtual_address: GpuVirtualAddress, size: u64) {
        let mut table = self.lock();
        let is_whole = (virtual_address.0 | size).is_multiple_of(PAGE_SIZE) && size > 0;
        let (first, end) = (virtual_address.0 / PAGE_SIZE, (virtual_address.0 + size) / PAGE_SIZE);
        let around = table.mapping_before(domain, first + 1).filter(|mapping| is_whole && end <= mapping.end());
        let Some(mapping) = around else {
            let kind = IoMmuMisuseKind::UnmappedNotMapped;
            return table.misuses.push(IoMmuMisuse { kind, domain, virtual_address, size });
        };
        table.remove(domain, &mapping);
        for (from, to) in [(mapping.first_page, first), (end, mapping.end())] {
            if from < to {
                let system_page = mapping.system_page + (from - mapping.first_page);
                table.insert(domain, IoMmuMapping { first_page: from, num_pages: to - from, system_page, ..mapping });
            }
        }
    }

    /// Notes a misuse that the host itself has seen.
    pub(crate) fn note(&self, misuse: IoMmuMisuse) {
        self.lock().misuses.push(misuse);
    }

    /// `size` bytes of system memory from `system_offset` on are given back: no mapping should begin there.
    pub(crate) fn note_decommit(&self, system_offset: u64, size: u64) {
        let mut table = self.lock();
        let (first, end) = (system_offset / PAGE_SIZE, (system_offset + size) / PAGE_SIZE);
        let from = (first, IoMmuDomain::Process(vidmm::contract::KmdProcessHandle(0)), 0);
        let Some(&(_, domain, page)) = table.by_system.range(from..).next().filter(|(page, ..)| *page < end) else {
            return;
        };
        let size = table.mappings.get(&(domain, page)).map_or(0, |mapping| mapping.num_pages * PAGE_SIZE);
        let (kind, virtual_address) = (IoMmuMisuseKind::DecommittedWhileMapped, GpuVirtualAddress(page * PAGE_SIZE));
        table.misuses.push(IoMmuMisuse { kind, domain, virtual_address, size });
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        // Every call leaves the table whole, so a panic elsewhere does not spoil it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Table {
    /// The last mapping of `domain` that begins before `end`.
    fn mapping_before(&self, domain: IoMmuDomain, end: u64) -> Option<IoMmuMapping> {
        self.mappings.range((domain, 0)..(domain, end)).next_back().map(|(_, &mapping)| mapping)
    }

    fn is_any_mapped(&self, domain: IoMmuDomain, range: &IoMmuMapping) -> bool {
        let before = self.mapping_before(domain, range.first_page + range.num_pages);
        before.is_some_and(|before| before.end() > range.first_page)
    }

    fn insert(&mut self, domain: IoMmuDomain, mapping: IoMmuMapping) {
        self.by_system.insert((mapping.system_page, domain, mapping.first_page));
        self.mappings.insert((domain, mapping.first_page), mapping);
    }

    fn remove(&mut self, domain: IoMmuDomain, mapping: &IoMmuMapping) {
        self.mappings.remove(&(domain, mapping.first_page));
        self.by_system.remove(&(mapping.system_page, domain, mapping.first_page));
    }
}
