//! The adapter, as the core knows it: adapter start checks the driver's report.

pub(crate) mod patching;
pub(crate) mod verifier;
pub(crate) mod write_behind;

use alloc::vec::Vec;

use vidmm_linear::MAX_SEGMENT_SIZE;

use crate::{
    budget::{
        MemoryAccount, MemorySegmentGroup,
        account::{Account, Accounts, Choices, Home, Homes},
    },
    contract::{
        AddressingModel, EngineKind, IoMmuDomain, KmdProcessHandle, PageTableUpdateMode, PteFlags, SegmentPreference,
        SegmentSet, WddmVersion,
    },
    units::{Extent, PageSize, PhysicalAddress, SegmentId},
};
use verifier::VerifierKnobs;

pub(crate) use report::validate;

pub(crate) mod report;

/// Which revision of the allocation notification's documents is followed (C-16, D16).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
pub enum NotificationRevision {
    /// The present text: an IOMMU unmap is notified once for each process and mapping, and waited for (NTF-04, NTF-05).
    #[default]
    Current,
    /// The text of August 2024: NotifyIoMmuUnmap is sent as NotifyEviction is: in chunks that are mapped in the paging process's
    /// addresses, on leaving the aperture or implicit system memory, whatever the addressing model (NTF-06).
    August2024,
}

/// The adapter, as the core knows it. Fixed while it runs (SEG-05).
#[derive(Clone, Debug)]
pub(crate) struct Adapter {
    pub version: WddmVersion,
    pub model: AddressingModel,
    /// The driver is sent MAP_APERTURE_SEGMENT2 in place of MAP_APERTURE_SEGMENT (BPB-34).
    pub map_aperture2: bool,
    pub revision: NotificationRevision,
    /// The memory segments, as the driver reports them.
    pub memory: Vec<MemorySegment>,
    /// The aperture segments, as the driver reports them; more than one only before WDDM 2.0 (SEG-10).
    pub apertures: Vec<ApertureSegment>,
    /// The group that system memory counts in.
    pub system_group: MemorySegmentGroup,
    /// The most that may be resident in the aperture and in implicit system memory together, in bytes (SEG-50, U-6).
    pub system_commit_limit: u64,
    /// All reported segments, as a mask (SEG-40).
    pub segments_mask: u32,
    pub engines: Vec<EngineKind>,
    pub paging_engine: u32,
    /// Level 0 is the leaf; none without GpuMmu.
    pub levels: Vec<Level>,
    /// Bytes in a leaf table of 64 KiB entries; `None` when 64 KiB pages are mapped by 4 KiB entries.
    pub leaf_table_64kb: Option<u64>,
    pub va_bits: u32,
    /// Mappings can be read-only.
    pub has_read_only: bool,
    /// Mappings can forbid execution.
    pub has_no_execute: bool,
    /// Entries can read as zero.
    pub has_zero: bool,
    /// Entries above the leaves can point to memory.
    pub large_pages: Option<LargePages>,
    /// Entries can say that the CPU's caches are snooped.
    pub has_cache_coherent: bool,
    /// The knobs of the adapter's user.
    pub verifier: VerifierKnobs,
    /// How page tables are written.
    pub page_table_update_mode: PageTableUpdateMode,
    /// The CPU writes the paging process's tables however others are written (GVA-33).
    pub paging_tables_by_cpu: bool,
    /// A valid entry that replaces an invalid one needs no flush.
    pub invalid_not_cached: bool,
    /// Where page tables live, those of processes and those of the paging process: in system memory, or pinned in a memory
    /// segment.
    pub tables_in: Account,
    pub paging_tables_in: Account,
    /// The entries of a process's root table at first: fewer than it can have where it grows (GVA-15, GVA-18).
    pub first_root_entries: u32,
    /// Bytes at the end of each memory segment with page tables that hold nothing else; 0 where tables lie anywhere (D19).
    pub page_table_area: u64,
    /// Every table lies at a multiple of so many bytes.
    pub table_alignment: u64,
    /// Bytes of one scratch window of the paging process, on each side of a transfer (U-16); 0 if it has no addresses (PGV-03).
    pub paging_va_size: u64,
    /// The addresses at which the paging process sees tables that are written by their virtual addresses (GVA-61); none in other modes.
    pub table_views: Option<Extent>,
    /// The page of system memory that unmapped pages of the aperture show (BPB-33); adapter start commits it.
    pub dummy_page: PhysicalAddress,
    pub paging_buffer_size: usize,
    pub paging_private_size: usize,
    /// Slots of a resource table (SPL-02), with that which a knob of the adapter's user allows (U-44); 0 with GPU virtual addresses.
    pub num_slots: u32,
    /// Engines save and restore their state between packets (SPL-07).
    pub preemption_aware: bool,
    /// Bindings that leak from one portion to the next are no error (SPL-12).
    pub no_dma_patching: bool,
    /// Where the banks of the first memory segment end (SEG-31).
    pub bank_ends: Vec<u64>,
}

/// The memory that an entry of level 1 can point to (GVA-21).
#[derive(Clone, Copy, Debug)]
pub(crate) struct LargePages {
    /// Bytes of a large page: what a leaf table covers.
    pub bytes: u64,
    /// It may begin at any page, not only at a multiple of its size.
    pub begins_anywhere: bool,
    /// It may be system memory.
    pub in_system_memory: bool,
}

impl LargePages {
    /// Whether a large page can begin at an address.
    pub fn may_begin_at(self, address: PhysicalAddress) -> bool {
        (self.begins_anywhere || address.offset.is_multiple_of(self.bytes))
            && (self.in_system_memory || !address.segment.is_system())
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct MemorySegment {
    pub id: SegmentId,
    pub size: u64,
    pub page_size: PageSize,
    /// The CPU sees all of it.
    pub cpu_visible: bool,
    /// The group that its bytes count in; none if they count toward no budget.
    pub group: Option<MemorySegmentGroup>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ApertureSegment {
    pub id: SegmentId,
    /// Where its ranges begin on the one line of numbers that the ranges of all apertures lie on.
    pub start: u64,
    /// The bytes of it that are used.
    pub size: u64,
    /// The GPU snoops the CPU's caches through it.
    pub cache_coherent: bool,
}

/// A level of the page tables.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Level {
    pub index_bits: u32,
    /// Lowest address bit that the index covers.
    pub shift: u32,
    pub table_bytes: u64,
}

/// How many processes can share the one address space of GpuVaIoMmuGlobal; the paging process has a slice too.
const GLOBAL_SLICES: u64 = 256;

/// The first addresses of a space without page tables that are never used (GVA-58).
const NULL_GUARD: u64 = 2 << 20;

impl Adapter {
    /// The accounts that residency is counted in.
    pub fn accounts(&self) -> Accounts {
        Accounts::new(self.memory.len())
    }

    /// The homes that allocations may have.
    pub fn homes(&self) -> Homes {
        Homes { accounts: self.accounts(), num_apertures: self.apertures.len() as u8 }
    }

    /// The memory segment that an account counts; none for system memory, and where there is no memory segment.
    pub fn memory_segment(&self, account: Account) -> Option<&MemorySegment> {
        self.memory.get(account.memory_segment()?)
    }

    /// The home that is in a segment: an aperture shows system memory (SEG-11, SEG-12).
    pub fn home_in(&self, segment: SegmentId) -> Option<Home> {
        self.homes().iter().find(|&home| self.segment_of(home) == Some(segment))
    }

    /// The segment by which a driver names a home: system memory is an aperture (SEG-11). None where there is none.
    pub fn segment_of(&self, home: Home) -> Option<SegmentId> {
        match home.aperture_number() {
            Some(number) => self.apertures.get(number).map(|aperture| aperture.id),
            None => self.memory_segment(home.account()).map(|memory| memory.id),
        }
    }

    /// The homes that an allocation may have, first choice first: in the driver's order, then whatever else it may be in, memory
    /// segments first (SEG-42, SEG-47).
    pub fn choices(&self, set: SegmentSet, preferred: SegmentPreference) -> Choices {
        let may_be_in = |&home: &Home| self.segment_of(home).is_some_and(|segment| set.contains(segment));
        let named = preferred.segment_ids.into_iter().filter(|&segment| set.contains(segment));
        let named = named.filter_map(|segment| self.home_in(segment));
        named.chain(self.homes().iter().filter(may_be_in)).collect()
    }

    /// The aperture segments, as a set.
    pub fn aperture_set(&self) -> SegmentSet {
        SegmentSet(self.apertures.iter().fold(0, |set, aperture| set | SegmentSet::of(aperture.id).0))
    }

    /// The banks of a segment, which the first memory segment may be divided into (SEG-31). The end of the last may be implied.
    pub fn num_banks(&self, segment: SegmentId) -> usize {
        let first = self.memory.first().filter(|memory| memory.id == segment);
        first.map_or(1, |memory| {
            let is_implied = self.bank_ends.last() != Some(&memory.size);
            self.bank_ends.len() + usize::from(is_implied)
        })
    }

    /// The group that an account's budget is for; none for a memory segment that counts toward no budget, or that the adapter
    /// does not have (RES-50, U-3).
    pub fn group_of(&self, account: Account) -> Option<MemorySegmentGroup> {
        match account {
            Account::SYSTEM => Some(self.system_group),
            _ => self.memory_segment(account)?.group,
        }
    }

    /// The account, as callers know it. One of a memory segment that the adapter does not have counts nothing, and is never asked
    /// for.
    pub fn memory_account(&self, account: Account) -> MemoryAccount {
        let segment = self.memory_segment(account).map_or(SegmentId::SYSTEM, |memory| memory.id);
        MemoryAccount { segment, group: self.group_of(account) }
    }

    /// The accounts whose budgets are together a group's.
    pub fn accounts_in(&self, group: MemorySegmentGroup) -> impl Iterator<Item = Account> {
        self.accounts().iter().filter(move |&account| self.group_of(account) == Some(group))
    }

    /// How an entry that shows a part of an allocation in a segment says that the CPU's caches are snooped.
    pub fn coherence(&self, is_cached: bool, segment: SegmentId) -> PteFlags {
        match is_cached && self.has_cache_coherent && segment.is_system() {
            true => PteFlags::CACHE_COHERENT,
            false => PteFlags::empty(),
        }
    }

    /// The multiple at which memory begins that large pages can show; 0 if there are none, or they may begin anywhere.
    pub fn large_page_multiple(&self) -> u64 {
        self.large_pages.filter(|large| !large.begins_anywhere).map_or(0, |large| large.bytes)
    }

    /// Whether the GPU has page tables, which the manager writes.
    pub fn has_page_tables(&self) -> bool {
        self.model == AddressingModel::GpuMmu
    }

    /// Whether engines use physical addresses, so that an allocation is one range of its segment.
    pub fn is_physical(&self) -> bool {
        self.model == AddressingModel::Physical
    }

    /// Whether page tables live in a memory segment.
    pub fn holds_tables(&self, account: Account) -> bool {
        self.has_page_tables() && account.is_memory() && [self.tables_in, self.paging_tables_in].contains(&account)
    }

    /// Whether allocations may be one range each in a memory segment. Among pages of tables, which stay where they are, a device's list
    /// of ranges would not always find its places; beside an area of tables it does (D19).
    pub fn may_hold_ranges(&self, account: Account) -> bool {
        (!self.holds_tables(account) || self.page_table_area > 0) && self.memory_size(account) <= MAX_SEGMENT_SIZE
    }

    /// The bytes at the end of a memory segment that hold nothing but page tables.
    pub fn table_area(&self, account: Account) -> Extent {
        let size = if self.holds_tables(account) { self.page_table_area } else { 0 };
        Extent { offset: self.memory_size(account) - size, size }
    }

    /// The bytes that each page table takes where tables live: whole pages of the segment, and of whichever level as many as the largest
    /// needs. So no table leaves a hole that the next does not fit into.
    pub fn table_bytes_in(&self, account: Account) -> u64 {
        let needed = self.levels.iter().map(|level| level.table_bytes).chain(self.leaf_table_64kb);
        needed.max().unwrap_or(0).next_multiple_of(self.page_size_in(account).bytes())
    }

    /// Whether the IOMMU translates what engines use.
    pub fn is_behind_io_mmu(&self) -> bool {
        matches!(self.model, AddressingModel::GpuVaIoMmu | AddressingModel::GpuVaIoMmuGlobal)
    }

    /// The size of a memory segment's pages; small ones without a memory segment.
    pub fn page_size_in(&self, account: Account) -> PageSize {
        self.memory_segment(account).map_or(PageSize::Kib4, |memory| memory.page_size)
    }

    /// The size of pages that every memory segment is a multiple of.
    pub fn smallest_page_size(&self) -> PageSize {
        self.memory.iter().map(|memory| memory.page_size).min().unwrap_or(PageSize::Kib4)
    }

    /// Bytes of an account's memory segment; 0 without one.
    pub fn memory_size(&self, account: Account) -> u64 {
        self.memory_segment(account).map_or(0, |memory| memory.size)
    }

    /// An account's memory segment.
    ///
    /// # Panics
    ///
    /// Without one: then nothing asks where in it something lies.
    pub fn memory_id(&self, account: Account) -> SegmentId {
        self.memory_segment(account).expect("only what is in a memory segment is asked for in it").id
    }

    /// The aperture segment that a number of the line lies in, and where in it.
    ///
    /// # Panics
    ///
    /// If it lies in none: then nothing is mapped there.
    pub fn aperture_at(&self, number: u64) -> (&ApertureSegment, u64) {
        let before = self.apertures.iter().rfind(|aperture| aperture.start <= number);
        let aperture = before.expect("only an adapter with an aperture maps anything in it");
        (aperture, number - aperture.start)
    }

    /// The address in an aperture segment that a number of the line stands for.
    pub fn in_aperture(&self, number: u64) -> PhysicalAddress {
        let (aperture, offset) = self.aperture_at(number);
        PhysicalAddress { segment: aperture.id, offset }
    }

    /// First and end of the addresses that process number `index` may use. The first ones of a space are never used, so that
    /// a null pointer with an offset faults too (GVA-58, GVA-59).
    pub fn process_addresses(&self, index: usize) -> Option<(u64, u64)> {
        let end = 1 << self.va_bits;
        match self.model {
            AddressingModel::GpuMmu => Some((self.coverage(0), end)),
            AddressingModel::GpuVaIoMmu => Some((NULL_GUARD, end)),
            AddressingModel::GpuVaIoMmuGlobal => {
                let slice = end / GLOBAL_SLICES;
                let number = index as u64 + 1;
                (number < GLOBAL_SLICES).then_some((number * slice, (number + 1) * slice))
            }
            AddressingModel::Physical => Some((0, 0)),
        }
    }

    /// The first address that the paging process uses, and the most bytes that it may use from there on.
    pub fn paging_addresses(&self) -> (u64, u64) {
        let end = 1 << self.va_bits;
        match self.model {
            AddressingModel::GpuMmu => (self.coverage(0), end - self.coverage(0)),
            AddressingModel::GpuVaIoMmu => (NULL_GUARD, end - NULL_GUARD),
            AddressingModel::GpuVaIoMmuGlobal => (NULL_GUARD, end / GLOBAL_SLICES - NULL_GUARD),
            AddressingModel::Physical => (0, 0),
        }
    }

    /// The domain in which the IOMMU translates a process's addresses; none if the GPU has page tables.
    pub fn io_mmu_domain(&self, process: KmdProcessHandle) -> Option<IoMmuDomain> {
        match self.model {
            AddressingModel::GpuMmu | AddressingModel::Physical => None,
            AddressingModel::GpuVaIoMmu => Some(IoMmuDomain::Process(process)),
            AddressingModel::GpuVaIoMmuGlobal => Some(IoMmuDomain::Global),
        }
    }

    /// The entries of the root of an address space for all addresses; 0 without page tables.
    pub fn root_entries(&self) -> u32 {
        self.levels.last().map_or(0, |root| 1 << root.index_bits)
    }

    /// The root's level.
    pub fn root_level(&self) -> u32 {
        self.levels.len() as u32 - 1
    }

    /// Bytes of address space that one table of `level` covers.
    pub fn coverage(&self, level: u32) -> u64 {
        1 << self.coverage_bits(level)
    }

    /// The bits of an address below the number of its table of `level`.
    #[inline]
    pub fn coverage_bits(&self, level: u32) -> u32 {
        let level = &self.levels[level as usize];
        level.shift + level.index_bits
    }

    /// The page size that a leaf entry for a page of `page_size` has.
    pub fn pte_page_size(&self, page_size: PageSize) -> PageSize {
        if self.leaf_table_64kb.is_some() { page_size } else { PageSize::Kib4 }
    }
}
