//! A look into the model GPU, past every cache.

use std::ops::Range;

use vidmm::contract::{KmdAllocationHandle, KmdProcessHandle, Pte, PteFlags};
use vidmm::{GpuVirtualAddress, PageSize, PhysicalAddress, SegmentId};
use vidmm_runtime::{Probe, Sees, Surface, TableEntry};

use crate::device::Device;
use crate::executor::Executor;
use crate::layout::HardwareEntry;
use crate::surface::page_key;
use crate::translation::Translation;

impl<E: Executor> Probe for Device<E> {
    fn sees(&self) -> Sees {
        let always = Sees::APERTURES | Sees::COMPRESSION;
        match self.translation {
            Translation::PageTables(_) => always | Sees::ENTRIES | Sees::FLUSHES,
            Translation::IoMmu(_) => always | Sees::IO_MMU | Sees::FLUSHES,
            Translation::Physical(_) => always | Sees::PATCHES,
        }
    }

    fn page_table_entry(
        &self,
        table: PhysicalAddress,
        level: u32,
        page_size: PageSize,
        index: u32,
    ) -> Option<TableEntry> {
        let layout = self.translation.layout()?;
        if level >= layout.levels() || u64::from(index) >= layout.entries(level, page_size) {
            return None;
        }
        let bytes = layout.entry_bytes(level);
        let at = table.offset_by(u64::from(index) * bytes);
        let entry = |at| Some(pte_of(HardwareEntry(self.executor.memories().read_word(at)?)));
        let pte_64kb = if bytes > 8 { Some(entry(at.offset_by(8))?) } else { None };
        Some(TableEntry { pte: entry(at)?, pte_64kb })
    }

    fn aperture_page(&self, segment: SegmentId, page: u64) -> Option<u64> {
        self.executor.memories().aperture_page(segment, page)
    }

    fn first_compressed(&self, allocation: KmdAllocationHandle, pages: Range<u64>) -> Option<u64> {
        let first = Surface { number: self.surface_book.get(allocation)?, first_page: pages.start };
        let marked = self.surfaces.marked(first, pages.end - pages.start).next()?;
        Some(pages.start + marked.start)
    }

    fn plain_digest(&self, allocation: KmdAllocationHandle, page: u64, address: PhysicalAddress) -> Option<u64> {
        let surface =
            self.surface_book.get(allocation).filter(|_| self.first_compressed(allocation, page..page + 1).is_some());
        let key = surface.map_or(0, |number| page_key(number, page));
        self.executor.page_digest(address, key)
    }

    fn first_stale(&self, process: KmdProcessHandle, pages: Range<u64>) -> Option<GpuVirtualAddress> {
        match &self.translation {
            Translation::IoMmu(cache) => cache.first_stale(process, pages),
            Translation::PageTables(_) | Translation::Physical(_) => None,
        }
    }

    fn patched_address(&self, commands: &[u8], offset: usize) -> Option<PhysicalAddress> {
        let Translation::Physical(map) = &self.translation else { return None };
        let bytes = commands.get(offset..)?.first_chunk()?;
        map.place_of(GpuVirtualAddress(u64::from_le_bytes(*bytes)))
    }
}

/// The entry as the contract has it.
fn pte_of(entry: HardwareEntry) -> Pte {
    let mut pte = Pte { flags: PteFlags::empty(), address: entry.address() };
    pte.flags.set(PteFlags::VALID, entry.has_valid_bit());
    pte.flags.set(PteFlags::ZERO, entry.is_zero());
    pte.flags.set(PteFlags::READ_ONLY, entry.is_read_only());
    pte.flags.set(PteFlags::NO_EXECUTE, entry.is_no_execute());
    pte.flags.set(PteFlags::CACHE_COHERENT, entry.is_cache_coherent());
    pte.flags.set(PteFlags::LARGE_PAGE, entry.is_large_page());
    pte
}
