//! How engines find memory: through page tables of the GPU's own, through the IOMMU, or not at all (PGV-20).

use std::ops::Range;

use vidmm::contract::KmdProcessHandle;
use vidmm::{GpuVirtualAddress, PAGE_SIZE};

use crate::config::SoftAdapterConfig;
use crate::encoding::{FlushRange, SetContext, SetRootPageTable};
use crate::io_mmu::IoMmu;
use crate::io_mmu_cache::IoMmuCache;
use crate::layout::PageTableLayout;
use crate::mmu::Mmu;
use crate::physical::{PhysicalMemory, PhysicalRun, Place};
use crate::physical_addresses::{PhysicalAddressMap, SYSTEM_MEMORY_ADDRESS};
use crate::tlb::{Access, PageFault};

/// The address space that an engine's commands run in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AddressSpace {
    /// Mappings by page tables.
    PageTables(SetRootPageTable),
    /// Mappings of a process by the IOMMU.
    IoMmu(KmdProcessHandle),
    /// Physical addresses, of a context.
    Physical(SetContext),
}

/// The part of the GPU that translates addresses.
#[derive(Debug)]
pub enum Translation {
    /// By page tables: GpuMmu.
    PageTables(Mmu),
    /// By the IOMMU: GpuVaIoMmu and GpuVaIoMmuGlobal.
    IoMmu(IoMmuCache),
    /// Not: engines use physical addresses.
    Physical(PhysicalAddressMap),
}

impl Translation {
    /// That of the adapter that `config` describes.
    pub fn new(config: &SoftAdapterConfig, io_mmu: IoMmu) -> Self {
        if config.is_physical() {
            Self::Physical(PhysicalAddressMap::new(config))
        } else if config.uses_io_mmu() {
            Self::IoMmu(IoMmuCache::new(io_mmu, config.addressing_model))
        } else {
            Self::PageTables(Mmu::new(config.layout(), !config.invalid_tlb_entries_not_cached))
        }
    }

    /// The layout of the page tables, if there are any.
    pub fn layout(&self) -> Option<&PageTableLayout> {
        match self {
            Self::PageTables(mmu) => Some(mmu.layout()),
            Self::IoMmu(_) | Self::Physical(_) => None,
        }
    }

    /// Entries that went into TLBs so far.
    pub fn tlb_fills(&self) -> u64 {
        match self {
            Self::PageTables(mmu) => mmu.tlb_fills(),
            Self::IoMmu(_) | Self::Physical(_) => 0,
        }
    }

    /// Entries that went into the IOMMU's cache so far.
    pub fn io_mmu_cache_fills(&self) -> u64 {
        match self {
            Self::PageTables(_) | Self::Physical(_) => 0,
            Self::IoMmu(cache) => cache.fills(),
        }
    }

    /// An engine begins to run in `space`; `false` if there is no such space on this adapter. Nothing is flushed.
    pub fn enter(&mut self, space: AddressSpace) -> bool {
        match (self, space) {
            (Self::PageTables(mmu), AddressSpace::PageTables(root)) => mmu.use_root(root),
            (Self::IoMmu(_), AddressSpace::IoMmu(_)) | (Self::Physical(_), AddressSpace::Physical(_)) => {}
            _ => return false,
        }
        true
    }

    /// Forgets what is cached of a range (GVA-34).
    pub fn flush(&mut self, range: FlushRange) {
        match self {
            Self::PageTables(mmu) => mmu.flush(range),
            Self::IoMmu(cache) => cache.flush(range),
            Self::Physical(_) => {}
        }
    }

    /// The first page of `access` that the host does not map, whatever the device has cached; only the IOMMU's pages are known.
    pub fn first_unmapped(&self, space: AddressSpace, access: Access) -> Option<GpuVirtualAddress> {
        match (self, space) {
            (Self::IoMmu(cache), AddressSpace::IoMmu(process)) => cache.first_unmapped(process, access),
            _ => None,
        }
    }

    /// Whether a kernel may try `access`: of physical addresses, system memory is for the driver's own commands.
    ///
    /// # Errors
    ///
    /// The first page that it may not.
    pub fn check_kernel(&self, access: Access) -> Result<(), PageFault> {
        let forbidden = SYSTEM_MEMORY_ADDRESS.0 / PAGE_SIZE;
        match self {
            Self::Physical(_) if access.pages > 0 && access.first_page + access.pages > forbidden => {
                Err(access.fault_at(access.first_page.max(forbidden)))
            }
            _ => Ok(()),
        }
    }

    /// Translates `access` in `space`, and appends where its pages are to `runs`. Without a space every access faults.
    ///
    /// # Errors
    ///
    /// The first page that cannot be accessed. Pages that were translated before it are cached all the same.
    pub fn translate(
        &mut self,
        memory: &PhysicalMemory<'_>,
        space: Option<AddressSpace>,
        access: Access,
        runs: &mut Vec<PhysicalRun>,
    ) -> Result<(), PageFault> {
        match (self, space) {
            (Self::PageTables(mmu), Some(AddressSpace::PageTables(root))) => mmu.translate(memory, &root, access, runs),
            (Self::IoMmu(cache), Some(AddressSpace::IoMmu(process))) => cache.translate(memory, process, access, runs),
            (Self::Physical(map), Some(AddressSpace::Physical(_))) => map.translate(memory, access, runs),
            _ => Err(access.fault_at(access.first_page)),
        }
    }

    /// Hands every piece of `pages` of `process` that page tables map to memory to `each`: its first page, where the
    /// entry leads, and how many pages follow each other there. Nothing without page tables, and nothing of a process that no
    /// engine has entered yet.
    pub fn for_each_mapped(
        &self,
        memory: &PhysicalMemory<'_>,
        process: KmdProcessHandle,
        pages: Range<u64>,
        each: impl FnMut(u64, Place, u64),
    ) {
        if let Self::PageTables(mmu) = self {
            mmu.for_each_mapped(memory, process, pages, each);
        }
    }

    /// Where the page at `virtual_address` of `process` is, past every cache; `None` if it is not mapped.
    pub fn walk(
        &self,
        memory: &PhysicalMemory<'_>,
        process: KmdProcessHandle,
        virtual_address: GpuVirtualAddress,
    ) -> Option<PhysicalRun> {
        let place = match self {
            Self::PageTables(mmu) => mmu.walk(memory, process, virtual_address),
            Self::IoMmu(cache) => cache.walk(process, virtual_address),
            Self::Physical(map) => map.place(virtual_address.0 / PAGE_SIZE).map(|(place, _)| place),
        };
        let mut runs = Vec::new();
        memory.append_runs(place?, 1, &mut runs).ok()?;
        runs.pop()
    }
}
