//! The addresses of an adapter without GPU virtual addresses: where each memory is in what engines address.

use vidmm::{GpuVirtualAddress, PAGE_SIZE, PhysicalAddress, SegmentId};

use crate::config::SoftAdapterConfig;
use crate::physical::{PhysicalMemory, PhysicalRun, Place};
use crate::system::SYSTEM_MEMORY_BYTES;
use crate::tlb::{Access, PageFault};

/// Where engines address system memory directly: byte 0 of it. Kernels do not reach it.
pub const SYSTEM_MEMORY_ADDRESS: GpuVirtualAddress = GpuVirtualAddress(1 << 63);

/// An address at which nothing is: what a command holds until it is patched.
pub const UNPATCHED_ADDRESS: GpuVirtualAddress = GpuVirtualAddress(1 << 62);

/// Where each memory is: a segment at the base address that the driver reports, system memory at [`SYSTEM_MEMORY_ADDRESS`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PhysicalAddressMap {
    memories: Vec<Memory>,
}

impl PhysicalAddressMap {
    /// That of the adapter that `config` describes.
    pub fn new(config: &SoftAdapterConfig) -> Self {
        let mut memories: Vec<Memory> = config
            .memory_segments()
            .map(|(segment, base, memory)| Memory { segment, base, bytes: memory.bytes })
            .collect();
        let apertures = config.aperture_segments();
        memories.extend(apertures.map(|(segment, base, aperture)| Memory { segment, base, bytes: aperture.bytes }));
        memories.push(Memory { segment: SegmentId::SYSTEM, base: SYSTEM_MEMORY_ADDRESS.0, bytes: SYSTEM_MEMORY_BYTES });
        Self { memories }
    }

    /// The engines' address of `place`; [`UNPATCHED_ADDRESS`] outside of all memories.
    pub fn address(&self, place: PhysicalAddress) -> GpuVirtualAddress {
        let memory = self.memories.iter().find(|memory| memory.segment == place.segment);
        let inside = memory.filter(|memory| place.offset < memory.bytes);
        inside.map_or(UNPATCHED_ADDRESS, |memory| GpuVirtualAddress(memory.base + place.offset))
    }

    /// The place that an engines' address is of; none if it is outside of all memories.
    pub fn place_of(&self, address: GpuVirtualAddress) -> Option<PhysicalAddress> {
        self.memories.iter().find_map(|memory| {
            let offset = address.0.checked_sub(memory.base).filter(|&offset| offset < memory.bytes)?;
            Some(PhysicalAddress { segment: memory.segment, offset })
        })
    }

    /// Appends where the pages of `access` are to `runs`.
    ///
    /// # Errors
    ///
    /// The first page at which there is nothing.
    pub fn translate(
        &self,
        memory: &PhysicalMemory<'_>,
        access: Access,
        runs: &mut Vec<PhysicalRun>,
    ) -> Result<(), PageFault> {
        let end = access.first_page + access.pages;
        let mut page = access.first_page;
        while page < end {
            let (place, left) = self.place(page).ok_or_else(|| access.fault_at(page))?;
            let pages = left.min(end - page);
            memory.append_runs(place, pages, runs).map_err(|appended| access.fault_at(page + appended))?;
            page += pages;
        }
        Ok(())
    }

    /// The memory at page `page` of address, and how many pages of the same memory begin there.
    pub fn place(&self, page: u64) -> Option<(Place, u64)> {
        self.memories.iter().find_map(|memory| {
            let inside = page.checked_sub(memory.base / PAGE_SIZE)?;
            let left = (memory.bytes / PAGE_SIZE).checked_sub(inside).filter(|&left| left > 0)?;
            Some((Place::Segment { segment: memory.segment, page: inside }, left))
        })
    }
}

/// One memory, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Memory {
    segment: SegmentId,
    base: u64,
    bytes: u64,
}
