//! Which addresses of a process are free, reserved, mapped.

use super::address_map::AddressMap;
use alloc::collections::BTreeMap;

use crate::{
    data::free_ranges::FreeRanges,
    id::{AllocationIx, DeviceIx, ProcessIx},
    units::{Extent, GpuVirtualAddress, PAGE_SIZE, PAGE_SIZE_64K, PageSize},
};

/// A range of a process's address space that shows a part of an allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub process: ProcessIx,
    /// The device that it was made for: its work may use it.
    pub device: DeviceIx,
    /// The size of the pages in the page tables.
    pub pte_page_size: PageSize,
    pub read_only: bool,
    pub no_execute: bool,
    pub virtual_address: u64,
    pub size: u64,
    /// Bytes from the start of the allocation.
    pub allocation_offset: u64,
    pub driver_protection: u64,
}

impl Mapping {
    /// The address after its last.
    pub fn end(&self) -> u64 {
        self.virtual_address + self.size
    }

    /// Whether it shows something at an address of a process.
    pub fn is_around(&self, process: ProcessIx, address: u64) -> bool {
        self.process == process && self.virtual_address <= address && address < self.end()
    }

    /// The first address of the page that an address in it is in.
    pub fn page_of(&self, address: u64) -> u64 {
        address / self.pte_page_size.bytes() * self.pte_page_size.bytes()
    }

    /// The end of the page that ends there, or is cut there.
    pub fn page_end_of(&self, address: u64) -> u64 {
        address.next_multiple_of(self.pte_page_size.bytes())
    }

    /// The part before `address` of the page that is cut there, in pages of 4 KiB.
    pub fn rest_before(&self, address: u64) -> Option<Self> {
        self.part(self.page_of(address), address, PageSize::Kib4)
    }

    /// The part from `address` on of the page that is cut there, in pages of 4 KiB.
    pub fn rest_after(&self, address: u64) -> Option<Self> {
        self.part(address, self.page_end_of(address), PageSize::Kib4)
    }

    /// The part of it from `start` to `end`, both inside it, with entries for pages of `pte_page_size`; none if that is empty.
    pub fn part(&self, start: u64, end: u64, pte_page_size: PageSize) -> Option<Self> {
        let allocation_offset = self.allocation_offset + (start - self.virtual_address);
        (start < end).then_some(Self {
            virtual_address: start,
            size: end - start,
            allocation_offset,
            pte_page_size,
            ..*self
        })
    }
}

/// The address space of one process.
#[derive(Debug)]
pub(crate) struct VaSpace {
    first: u64,
    end: u64,
    free: FreeRanges,
    reserved: BTreeMap<u64, u64>,
    /// Addresses that read as zero where nothing is mapped, by the plans that were decided.
    shown: FreeRanges,
    mapped: AddressMap<Mapped>,
}

/// The record of a mapping at its address. Small: there is one for each mapping.
#[derive(Debug, Clone, Copy)]
struct Mapped {
    pages: u32,
    /// The allocation's index; the top bit says that the caller freed the mapping, and submitted work may still use it.
    allocation: u32,
}

impl Mapped {
    const FREED: u32 = 1 << 31;

    fn size(self) -> u64 {
        u64::from(self.pages) * PAGE_SIZE
    }

    fn allocation(self) -> AllocationIx {
        AllocationIx::new(self.allocation & !Self::FREED)
    }

    fn is_freed(self) -> bool {
        self.allocation & Self::FREED != 0
    }
}

/// The pages of a part of a mapping.
fn pages(bytes: u64) -> u32 {
    u32::try_from(bytes / PAGE_SIZE).expect("a mapping has less than 16 TiB")
}

/// A mapping near an address: where it begins, its size, and its allocation.
pub(crate) type Neighbour = (u64, u64, AllocationIx);

/// Why a range of addresses cannot be had.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum VaRangeError {
    /// The range is empty, not made of whole pages, or not inside the address space.
    #[error("the range is empty, not a multiple of its pages of {page_size} bytes, or outside {first} .. {end}")]
    Invalid {
        /// The page size that the range must keep to, in bytes.
        page_size: u64,
        /// The first address that can be used.
        first: GpuVirtualAddress,
        /// The end of the address space.
        end: GpuVirtualAddress,
    },
    /// Another mapping or reservation is there, or was freed while earlier work may still use it.
    #[error(
        "a part of the range is already mapped or reserved; free it first, and let the work end that was submitted before"
    )]
    InUse,
    /// No free range is large enough.
    #[error("no free range of {size} bytes is left in the address space")]
    Exhausted {
        /// The size asked for, in bytes.
        size: u64,
    },
    /// The range is not inside one mapping, nor inside one reservation.
    #[error("the range is not inside one mapping or one reservation; free each of them on its own")]
    NotFound,
    /// That part of the reservation still has mappings in it.
    #[error("that part of the reservation still has mappings in it; free them first")]
    HasMappings,
}

impl VaSpace {
    /// A space from `first` to `end`, both multiples of 64 KiB. Below `first` nothing is ever mapped (GVA-58).
    pub fn new(first: u64, end: u64) -> Self {
        let mut free = FreeRanges::default();
        free.insert(Extent { offset: first, size: end - first });
        Self {
            first,
            end,
            free,
            reserved: BTreeMap::new(),
            shown: FreeRanges::default(),
            mapped: AddressMap::default(),
        }
    }

    /// Takes `size` bytes at `base`, or anywhere if it is none, and maps them to `allocation`. A mapping has less than 16 TiB.
    ///
    /// Where it takes them anywhere they begin at a multiple of `alignment`, and those of 64 KiB and more at one of 64 KiB
    /// (U-23). The smallest free range that fits is used: unlike first fit, it is found without a walk.
    pub fn map(
        &mut self,
        base: Option<u64>,
        size: u64,
        alignment: u64,
        allocation: AllocationIx,
    ) -> Result<u64, VaRangeError> {
        let pages = u32::try_from(size / PAGE_SIZE).map_err(|_| VaRangeError::Exhausted { size })?;
        let address = match base {
            None => self.find(size, alignment)?,
            Some(base) => {
                self.check_range(base, size, PAGE_SIZE)?;
                base
            }
        };
        if !self.is_in_reservation(address, size) {
            self.take(address, size)?;
        } else if self.first_mapped(address, size).is_some() {
            return Err(VaRangeError::InUse);
        }
        self.mapped.insert(address, Mapped { pages, allocation: allocation.get() });
        Ok(address)
    }

    /// Takes `size` bytes out of the space without a mapping (GVA-52).
    pub fn reserve(&mut self, base: Option<u64>, size: u64) -> Result<u64, VaRangeError> {
        let base = match base {
            Some(base) => base,
            None => self.find(size, PAGE_SIZE)?,
        };
        self.check_range(base, size, PAGE_SIZE_64K)?;
        self.take(base, size)?;
        self.reserved.insert(base, size);
        Ok(base)
    }

    /// The allocation that one mapping shows in all of the range; none if there is no such mapping, or it was freed.
    pub fn mapping_around(&self, base: u64, size: u64) -> Result<Option<AllocationIx>, VaRangeError> {
        self.check_range(base, size, PAGE_SIZE)?;
        let around = self.mapped.up_to(base).filter(|&(start, mapped)| base + size <= start + mapped.size());
        Ok(around.filter(|(_, mapped)| !mapped.is_freed()).map(|(_, mapped)| mapped.allocation()))
    }

    /// Marks a range inside a mapping as freed; what is left of the mapping on either side are mappings of their own.
    pub fn free(&mut self, base: u64, size: u64) {
        let (_, around) = self.mapped.up_to(base).expect("only mappings are freed");
        self.carve(base, size);
        let pages = pages(size);
        self.mapped.insert(base, Mapped { pages, allocation: around.allocation | Mapped::FREED });
    }

    /// Nothing is mapped in the range any more: its addresses are free, or reserved as before.
    pub fn unmap(&mut self, base: u64, size: u64) {
        self.carve(base, size);
        if !self.is_in_reservation(base, size) {
            self.free.insert(Extent { offset: base, size });
        }
    }

    /// Cuts a range out of the mappings that it touches.
    fn carve(&mut self, base: u64, size: u64) {
        while let Some(start) = self.first_mapped(base, size) {
            let mapped = self.mapped.remove(start).expect("it was just found");
            let whole = Extent { offset: start, size: mapped.size() };
            for rest in whole.without(Extent { offset: base, size }) {
                self.mapped.insert(rest.offset, Mapped { pages: pages(rest.size), ..mapped });
            }
        }
    }

    /// The reservation around a range in which nothing is mapped.
    pub fn reservation_around(&self, part: Extent) -> Result<Extent, VaRangeError> {
        let around = self.reserved.range(..=part.offset).next_back().map(|(&offset, &size)| Extent { offset, size });
        let around = around.filter(|around| part.end() <= around.end()).ok_or(VaRangeError::NotFound)?;
        match self.first_mapped(part.offset, part.size) {
            Some(_) => Err(VaRangeError::HasMappings),
            None => Ok(around),
        }
    }

    /// A part of a reservation is none any more. Its addresses are not free yet.
    pub fn unreserve(&mut self, around: Extent, part: Extent) {
        self.reserved.remove(&around.offset);
        self.reserved.extend(around.without(part).map(|rest| (rest.offset, rest.size)));
    }

    /// A part of a reservation that is none any more is free.
    pub fn release(&mut self, part: Extent) {
        self.free.insert(part);
    }

    /// All reservations.
    pub fn reservations(&self) -> impl Iterator<Item = Extent> {
        self.reserved.iter().map(|(&offset, &size)| Extent { offset, size })
    }

    /// It is decided that addresses read as zero where nothing is mapped, or do no longer.
    pub fn show(&mut self, range: Extent, reads_zero: bool) {
        match reads_zero {
            true => self.shown.insert(range),
            false => self.shown.take_all_of(range),
        }
    }

    /// Whether it is decided that all of a range reads as zero where nothing is mapped.
    pub fn is_shown(&self, range: Extent) -> bool {
        self.shown.inside(range).next() == Some(range)
    }

    /// All that reads as zero where nothing is mapped, by the plans that were decided.
    pub fn shown(&self) -> impl Iterator<Item = Extent> {
        self.shown.iter()
    }

    /// The mappings that meet a range, in order: where each begins, its size, and its allocation.
    pub fn mapped_in(&self, range: Extent) -> impl Iterator<Item = Neighbour> {
        let next = |&(start, _): &(u64, Mapped)| self.mapped.after(start);
        let all = core::iter::successors(self.first_from(range.offset), next)
            .take_while(move |&(start, _)| start < range.end());
        all.map(|(start, mapped)| (start, mapped.size(), mapped.allocation()))
    }

    /// The first mapping that ends after an address.
    fn first_from(&self, address: u64) -> Option<(u64, Mapped)> {
        let around = self.mapped.up_to(address).filter(|&(start, mapped)| address < start + mapped.size());
        around.or_else(|| self.mapped.after(address))
    }

    /// The allocation mapped at `address`.
    pub fn allocation_at(&self, address: u64) -> Option<AllocationIx> {
        let (start, mapped) = self.mapped.up_to(address)?;
        (address - start < mapped.size()).then_some(mapped.allocation())
    }

    /// The nearest mappings that end before `address` and begin after it: where each begins, its size, and its allocation.
    pub fn neighbours(&self, address: u64) -> (Option<Neighbour>, Option<Neighbour>) {
        let of = |(start, mapped): (u64, Mapped)| (start, mapped.size(), mapped.allocation());
        let below = self.mapped.up_to(address).and_then(|(start, mapped)| match address - start < mapped.size() {
            true => self.mapped.up_to(start.checked_sub(1)?),
            false => Some((start, mapped)),
        });
        (below.map(of), self.mapped.after(address).map(of))
    }

    fn find(&self, size: u64, alignment: u64) -> Result<u64, VaRangeError> {
        let alignment = alignment.max(if size >= PAGE_SIZE_64K { PAGE_SIZE_64K } else { PAGE_SIZE });
        self.free
            .at_least(size)
            .map(|range| (range.offset.next_multiple_of(alignment), range.end()))
            .find(|&(start, end)| start + size <= end)
            .map(|(start, _)| start)
            .ok_or(VaRangeError::Exhausted { size })
    }

    fn check_range(&self, base: u64, size: u64, page_size: u64) -> Result<(), VaRangeError> {
        let inside = base >= self.first && base.checked_add(size).is_some_and(|end| end <= self.end);
        if size == 0 || !inside || !base.is_multiple_of(page_size) || !size.is_multiple_of(page_size) {
            let (first, end) = (GpuVirtualAddress(self.first), GpuVirtualAddress(self.end));
            return Err(VaRangeError::Invalid { page_size, first, end });
        }
        Ok(())
    }

    /// Whether all of a range is in one reservation.
    pub fn is_in_reservation(&self, base: u64, size: u64) -> bool {
        let before = self.reserved.range(..=base).next_back();
        before.is_some_and(|(&start, &reserved)| base + size <= start + reserved)
    }

    fn first_mapped(&self, base: u64, size: u64) -> Option<u64> {
        let (start, mapped) = self.mapped.up_to(base + size - 1)?;
        (start + mapped.size() > base).then_some(start)
    }

    fn take(&mut self, base: u64, size: u64) -> Result<(), VaRangeError> {
        self.free.take(Extent { offset: base, size }).ok_or(VaRangeError::InUse)
    }
}
