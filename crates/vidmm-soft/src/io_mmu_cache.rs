//! The GPU's cache of the IOMMU's mappings.

use std::collections::BTreeMap;
use std::ops::Range;

use vidmm::contract::{AddressingModel, IoMmuDomain, KmdProcessHandle, Pte, PteFlags};
use vidmm::{GpuVirtualAddress, PAGE_SIZE, PhysicalAddress, SegmentId};

use crate::encoding::FlushRange;
use crate::io_mmu::{IoMmu, IoMmuMapping};
use crate::layout::HardwareEntry;
use crate::physical::{PhysicalMemory, PhysicalRun, Place};
use crate::tlb::{Access, Cached, PageFault, Tlb};

/// The device's own translation cache in front of the [`IoMmu`].
///
/// The host changes the IOMMU behind its back: what is cached stays in use until a command flushes it, as NTF-04 expects of a
/// driver that is notified. A range that was flushed is not cached again before it is mapped anew: a program that reads what it has
/// evicted, before the host unmaps it, harms nobody by that.
#[derive(Debug)]
pub struct IoMmuCache {
    io_mmu: IoMmu,
    is_global: bool,
    caches: BTreeMap<IoMmuDomain, Tlb>,
    leaving: Vec<Leaving>,
}

/// Pages that a flush has named.
#[derive(Debug)]
struct Leaving {
    domain: IoMmuDomain,
    pages: Range<u64>,
    /// How many ranges the host had mapped: what it maps later is cached again.
    num_mapped: u64,
}

impl Leaving {
    /// Whether some of the pages are as they were mapped when they were flushed.
    fn has_mapping(&self, io_mmu: &IoMmu) -> bool {
        io_mmu.has_mapping_of(self.domain, &self.pages, self.num_mapped)
    }
}

impl IoMmuCache {
    /// An empty cache in front of `io_mmu`, of which `model` says what its domains are.
    pub fn new(io_mmu: IoMmu, model: AddressingModel) -> Self {
        Self {
            io_mmu,
            is_global: model == AddressingModel::GpuVaIoMmuGlobal,
            caches: BTreeMap::new(),
            leaving: Vec::new(),
        }
    }

    /// How many entries went into it so far.
    pub fn fills(&self) -> u64 {
        self.caches.values().map(Tlb::fills).sum()
    }

    /// Forgets what is cached of a range. In the global domain the addresses tell whose they are.
    pub fn flush(&mut self, range: FlushRange) {
        let only = match self.is_global {
            true => Some(IoMmuDomain::Global),
            false => range.process.map(IoMmuDomain::Process),
        };
        let num_mapped = self.io_mmu.num_mapped();
        self.leaving.retain(|leaving| leaving.has_mapping(&self.io_mmu));
        self.leaving.extend(only.zip(range.pages()).map(|(domain, pages)| Leaving { domain, pages, num_mapped }));
        for (_, cache) in self.caches.iter_mut().filter(|(domain, _)| only.is_none_or(|only| only == **domain)) {
            cache.flush(range);
        }
    }

    /// Translates `access` of `process`, and appends where its pages are to `runs`.
    ///
    /// # Errors
    ///
    /// The first page that is neither cached nor mapped. Pages that were translated before it are cached all the same.
    pub fn translate(
        &mut self,
        memory: &PhysicalMemory<'_>,
        process: KmdProcessHandle,
        access: Access,
        runs: &mut Vec<PhysicalRun>,
    ) -> Result<(), PageFault> {
        let domain = self.domain(process);
        let cache = self.caches.entry(domain).or_insert_with(|| Tlb::new(false));
        let mut last = None;
        let mut walk = |page| {
            let covers =
                |mapping: &IoMmuMapping| (mapping.first_page..mapping.first_page + mapping.num_pages).contains(&page);
            let known = last.filter(covers);
            last = known.or_else(|| self.io_mmu.mapping_at(domain, page));
            last.map_or(Cached::small(HardwareEntry::INVALID), |mapping| entry_of(&mapping, page))
        };
        let translated = cache.translate(memory, access, &mut walk, runs);
        let accessed = access.first_page..access.first_page + access.pages;
        let is_accessed = |leaving: &&Leaving| {
            let Range { start, end } = leaving.pages;
            leaving.domain == domain && start < accessed.end && accessed.start < end
        };
        for leaving in self.leaving.iter().filter(is_accessed).filter(|leaving| leaving.has_mapping(&self.io_mmu)) {
            cache.forget(leaving.pages.clone());
        }
        translated
    }

    /// The first page of `access` that the IOMMU does not map, whatever is cached.
    pub fn first_unmapped(&self, process: KmdProcessHandle, access: Access) -> Option<GpuVirtualAddress> {
        let domain = self.domain(process);
        let mut page = access.first_page;
        while page < access.first_page + access.pages {
            let Some(mapping) = self.io_mmu.mapping_at(domain, page) else {
                return Some(GpuVirtualAddress(page * PAGE_SIZE));
            };
            page = mapping.first_page + mapping.num_pages;
        }
        None
    }

    /// The first of `pages` that the IOMMU does not map, or that is cached with another meaning.
    pub fn first_stale(&self, process: KmdProcessHandle, pages: Range<u64>) -> Option<GpuVirtualAddress> {
        let domain = self.domain(process);
        let is_stale = |page: &u64| match self.io_mmu.mapping_at(domain, *page) {
            None => true,
            Some(mapping) => {
                let cached = self.caches.get(&domain).and_then(|cache| cache.cached(*page));
                cached.is_some_and(|cached| cached != entry_of(&mapping, *page))
            }
        };
        pages.into_iter().find(is_stale).map(|page| GpuVirtualAddress(page * PAGE_SIZE))
    }

    /// Where the page at `virtual_address` of `process` is according to the IOMMU, whatever is cached; `None` if it is not
    /// mapped.
    pub fn walk(&self, process: KmdProcessHandle, virtual_address: GpuVirtualAddress) -> Option<Place> {
        let page = virtual_address.0 / PAGE_SIZE;
        entry_of(&self.io_mmu.mapping_at(self.domain(process), page)?, page).place(false)
    }

    fn domain(&self, process: KmdProcessHandle) -> IoMmuDomain {
        if self.is_global { IoMmuDomain::Global } else { IoMmuDomain::Process(process) }
    }
}

/// The entry that maps `page` of `mapping`, and no other page: an entry that reached further would be filled again, by a kernel that
/// uses its neighbours, between the notification that a part of the mapping goes and its unmap (NTF-04).
fn entry_of(mapping: &IoMmuMapping, page: u64) -> Cached {
    let offset = (mapping.system_page + page - mapping.first_page) * PAGE_SIZE;
    let mut pte = Pte::valid(PhysicalAddress { segment: SegmentId::SYSTEM, offset });
    pte.flags.set(PteFlags::READ_ONLY, mapping.read_only);
    Cached::small(HardwareEntry::from_pte(pte))
}
