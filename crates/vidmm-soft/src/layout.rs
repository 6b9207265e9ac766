//! The page tables as the hardware has them: their shape, and the format of an entry.
//!
//! It is the secret that the driver and the GPU share (GVA-01); the core knows neither.

use vidmm::contract::{Pte, PteFlags};
use vidmm::{PAGE_SIZE, PAGE_SIZE_64K, PageSize, PhysicalAddress, SegmentId};

/// A page-table entry in the hardware's format.
///
/// Bit 0 is valid, bit 1 zero, bit 2 read-only, bit 3 not executed, bit 4 cache-coherent; bits 5 to 9 are the segment; bit 10 says
/// that an entry of level 1 points to a large page; bits 12 to 51 are those bits of the address, in place, so that adding bytes to an entry moves it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct HardwareEntry(pub u64);

impl HardwareEntry {
    /// Every access faults.
    pub const INVALID: HardwareEntry = HardwareEntry(0);
    /// Reads give 0 and writes are dropped (GVA-20).
    pub const ZERO: HardwareEntry = HardwareEntry(Self::ZERO_BIT);

    const VALID_BIT: u64 = 1 << 0;
    const ZERO_BIT: u64 = 1 << 1;
    const READ_ONLY_BIT: u64 = 1 << 2;
    const NO_EXECUTE_BIT: u64 = 1 << 3;
    const CACHE_COHERENT_BIT: u64 = 1 << 4;
    const LARGE_PAGE_BIT: u64 = 1 << 10;
    const SEGMENT_SHIFT: u32 = 5;
    const SEGMENT_MASK: u64 = 0x1f;
    const ADDRESS_MASK: u64 = ((1 << 52) - 1) & !(PAGE_SIZE - 1);

    /// The hardware's form of the contract's `pte`.
    pub fn from_pte(pte: Pte) -> Self {
        let bit = |flag, bit| if pte.flags.contains(flag) { bit } else { 0 };
        let flags = bit(PteFlags::VALID, Self::VALID_BIT)
            | bit(PteFlags::ZERO, Self::ZERO_BIT)
            | bit(PteFlags::READ_ONLY, Self::READ_ONLY_BIT)
            | bit(PteFlags::NO_EXECUTE, Self::NO_EXECUTE_BIT)
            | bit(PteFlags::CACHE_COHERENT, Self::CACHE_COHERENT_BIT)
            | bit(PteFlags::LARGE_PAGE, Self::LARGE_PAGE_BIT);
        let segment = (u64::from(pte.address.segment.0) & Self::SEGMENT_MASK) << Self::SEGMENT_SHIFT;
        Self(flags | segment | (pte.address.offset & Self::ADDRESS_MASK))
    }

    /// Whether the entry points somewhere. The zero bit alone wins over the valid bit (C-8).
    pub const fn is_valid(self) -> bool {
        self.0 & (Self::VALID_BIT | Self::ZERO_BIT) == Self::VALID_BIT
    }

    /// Whether the valid bit is set, whatever the zero bit is.
    pub(crate) const fn has_valid_bit(self) -> bool {
        self.0 & Self::VALID_BIT != 0
    }

    /// Whether reads through the entry succeed.
    pub const fn is_mapped(self) -> bool {
        self.is_valid() || self.is_zero()
    }

    /// Whether reads through the entry give 0.
    pub const fn is_zero(self) -> bool {
        self.0 & Self::ZERO_BIT != 0
    }

    /// Whether writes through the entry fault.
    pub const fn is_read_only(self) -> bool {
        self.0 & Self::READ_ONLY_BIT != 0
    }

    /// Whether what is there is not executed.
    pub const fn is_no_execute(self) -> bool {
        self.0 & Self::NO_EXECUTE_BIT != 0
    }

    /// Whether accesses through the entry snoop the CPU's caches.
    pub const fn is_cache_coherent(self) -> bool {
        self.0 & Self::CACHE_COHERENT_BIT != 0
    }

    /// Whether the entry points to a large page where others of its table point to tables (GVA-21).
    pub const fn is_large_page(self) -> bool {
        self.0 & Self::LARGE_PAGE_BIT != 0
    }

    /// The entry that a leaf table would have for what is `bytes` into a large page.
    pub(crate) const fn within_large_page(self, bytes: u64) -> Self {
        Self(self.0 & !Self::LARGE_PAGE_BIT).offset_by(bytes)
    }

    /// Where a valid entry points.
    pub const fn address(self) -> PhysicalAddress {
        let segment = (self.0 >> Self::SEGMENT_SHIFT) & Self::SEGMENT_MASK;
        PhysicalAddress { segment: SegmentId(segment as u8), offset: self.0 & Self::ADDRESS_MASK }
    }

    /// The entry that points `bytes` further on; the same entry if it points nowhere.
    pub const fn offset_by(self, bytes: u64) -> Self {
        if self.is_valid() { Self(self.0.wrapping_add(bytes)) } else { self }
    }

    /// The entry as a 64 KiB leaf table has it: the low 16 bits of the address are those of the access (GVA-40).
    pub(crate) const fn for_64kib(self) -> Self {
        Self(self.0 & !(PAGE_SIZE_64K - PAGE_SIZE))
    }
}

/// The shape of the page tables: index bits a level, and which entries are dual.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PageTableLayout {
    index_bits: Vec<u32>,
    shifts: Vec<u32>,
    dual_pte: bool,
}

impl PageTableLayout {
    /// The layout with the given index bits below the root, leaf first, in an address of `address_bits`.
    ///
    /// # Panics
    ///
    /// If the levels leave no bits of the address for the root.
    pub fn new(below_root: &[u32], address_bits: u32, dual_pte: bool) -> Self {
        let mut index_bits = below_root.to_vec();
        let mut shifts = vec![PAGE_SIZE.trailing_zeros()];
        for bits in &index_bits {
            shifts.push(shifts[shifts.len() - 1] + bits);
        }
        let root_shift = shifts[shifts.len() - 1];
        assert!(root_shift < address_bits, "no bits of the address are left for the root");
        index_bits.push(address_bits - root_shift);
        Self { index_bits, shifts, dual_pte }
    }

    /// How many levels there are; the root is the last.
    pub fn levels(&self) -> u32 {
        self.index_bits.len() as u32
    }

    /// Whether level-1 entries are dual.
    pub fn has_dual_entries(&self) -> bool {
        self.dual_pte
    }

    /// Index bits of `level`, which is below [`levels`](Self::levels).
    pub fn index_bits(&self, level: u32) -> u32 {
        self.index_bits[level as usize]
    }

    /// How many entries a table of `level` has; with 64 KiB pages, that of a 64 KiB leaf table (GVA-44).
    pub fn entries(&self, level: u32, page_size: PageSize) -> u64 {
        let entries = 1 << self.index_bits(level);
        if level == 0 { entries / (page_size.bytes() / PAGE_SIZE) } else { entries }
    }

    /// How many bytes one entry of `level` takes: 16 if it is dual.
    pub fn entry_bytes(&self, level: u32) -> u64 {
        if level == 1 && self.dual_pte { 16 } else { 8 }
    }

    /// How many bytes of address one entry of `level` maps.
    pub fn coverage(&self, level: u32, page_size: PageSize) -> u64 {
        if level == 0 { page_size.bytes() } else { 1 << self.shifts[level as usize] }
    }

    /// How many bytes a table of `level` takes: whole pages of 4 KiB.
    pub fn table_bytes(&self, level: u32) -> u32 {
        let bytes = self.entries(level, PageSize::Kib4) * self.entry_bytes(level);
        bytes.next_multiple_of(PAGE_SIZE) as u32
    }

    /// How many bytes a 64 KiB leaf table takes; 0 if there are none.
    pub fn leaf_64kib_table_bytes(&self) -> u32 {
        if !self.dual_pte {
            return 0;
        }
        (self.entries(0, PageSize::Kib64) * 8).next_multiple_of(PAGE_SIZE) as u32
    }

    /// The index of `virtual_address` in its table of `level`. That of the root is not bounded: see GVA-17.
    pub fn index(&self, level: u32, virtual_address: u64) -> u64 {
        let index = virtual_address >> self.shifts[level as usize];
        if level + 1 == self.levels() { index } else { index & ((1 << self.index_bits(level)) - 1) }
    }
}
