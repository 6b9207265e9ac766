//! The view of the test world's GPU: page tables as they were written, the aperture, what it caches of the IOMMU, and a
//! token for the content of each page.

use std::collections::{BTreeMap, BTreeSet};

use vidmm::contract::*;
use vidmm::{GpuVirtualAddress, NotificationRevision, PAGE_SIZE, PageSize, PhysicalAddress, SegmentId};

use super::{Config, aperture::Aperture, device_cache::DeviceCache, host::Ledger, surface::Surfaces};

/// The content of a page of the segment before anything was written there.
pub const GARBAGE: u64 = 0xBAD_BAD;

/// How an access finds its page tables.
#[derive(Clone, Copy, Debug)]
pub struct Root {
    pub process: KmdProcessHandle,
    pub table: PhysicalAddress,
    pub num_entries: u64,
}

/// The knowledge that driver and GPU have of an allocation.
#[derive(Clone, Copy, Debug)]
pub struct Known {
    pub info: AllocationInfo,
    pub backing_store: PhysicalAddress,
    pub size: u64,
}

/// A mistake of the driver: to see that the world finds it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mistake {
    /// An eviction notification does nothing.
    SkipDecompression,
    /// An eviction notification does not begin with the flush of its window.
    SkipWindowFlush,
    /// An IOMMU unmap notification flushes nothing.
    SkipCacheFlush,
    /// Every chunk is decompressed as if it were the first.
    IgnoreChunkOffset,
    /// UNMAP_APERTURE_SEGMENT leaves the aperture as it is.
    SkipApertureUnmap,
}

/// Memory and a memory management unit that is as unkind as it may be: an entry that changed and was not flushed must not
/// be used, and memory that such an entry still shows must not be written (I05).
pub struct Machine {
    level_bits: Vec<u32>,
    dual: bool,
    invalid_not_cached: bool,
    paging_process: KmdProcessHandle,
    entries: BTreeMap<(PhysicalAddress, bool, u32), Pte>,
    initialised: BTreeSet<PhysicalAddress>,
    pages: BTreeMap<PhysicalAddress, u64>,
    /// Addresses whose entries changed and were not flushed, and what they showed.
    stale: BTreeMap<(KmdProcessHandle, u64), Pte>,
    roots: BTreeMap<KmdProcessHandle, PhysicalAddress>,
    config: Config,
    /// The GPU has been reset and not restarted.
    is_stopped: bool,
    pub aperture: Aperture,
    pub cache: DeviceCache,
    pub surfaces: Surfaces,
    pub mistake: Option<Mistake>,
    /// The allocations that live, and whose backing store begins where.
    pub known: BTreeMap<KmdAllocationHandle, Known>,
    stores: BTreeMap<u64, KmdAllocationHandle>,
    /// Allocations that were told of their eviction: their content is plain, and must stay so (NTF-09).
    leaving: BTreeSet<KmdAllocationHandle>,
}

impl Machine {
    pub fn new(config: &Config) -> Self {
        Self {
            level_bits: config.level_bits.clone(),
            dual: config.dual,
            invalid_not_cached: config.invalid_not_cached,
            paging_process: KmdProcessHandle(1),
            entries: BTreeMap::new(),
            initialised: BTreeSet::new(),
            pages: BTreeMap::new(),
            stale: BTreeMap::new(),
            roots: BTreeMap::new(),
            is_stopped: false,
            aperture: Aperture::new(config.aperture(), config.aperture_bytes / PAGE_SIZE, config.aperture_is_coherent),
            config: config.clone(),
            cache: DeviceCache::default(),
            surfaces: Surfaces::default(),
            mistake: None,
            known: BTreeMap::new(),
            stores: BTreeMap::new(),
            leaving: BTreeSet::new(),
        }
    }

    /// The root of a process as the operations wrote it.
    pub fn root_of(&self, process: KmdProcessHandle) -> Option<Root> {
        if !self.config.has_page_tables() {
            let table = PhysicalAddress { segment: SegmentId::SYSTEM, offset: 0 };
            return Some(Root { process, table, num_entries: 0 });
        }
        let num_entries = 1 << self.level_bits.last().unwrap();
        self.roots.get(&process).map(|&table| Root { process, table, num_entries })
    }

    pub fn execute(&mut self, operation: &PagingOperation, root: Root, host: &Ledger) {
        match operation {
            PagingOperation::UpdatePageTable(op) => {
                if let UpdateMode::GpuVirtual(address) = op.update_mode {
                    let seen = self.translate(root, address.0, host).map(|pte| pte.address);
                    assert_eq!(
                        seen,
                        Some(op.page_table_address),
                        "GVA-10: the table is mapped where it is written: {op:?}"
                    );
                }
                self.update_page_table(op);
            }
            PagingOperation::FlushTlb(op) => {
                let (start, end) = (op.start_virtual_address.0, op.end_virtual_address.0);
                let covers = |page: u64| (start == 0 && end == 0) || (start..end).contains(&page);
                self.stale.retain(|&(process, page), _| process != op.process || !covers(page));
            }
            PagingOperation::VirtualFill(op) => {
                for (page, address) in pages(op.destination_virtual_address, op.fill_size_in_bytes) {
                    let to = self.window(root, address, host);
                    self.page(to, u64::from(op.fill_pattern), host);
                    self.surfaces.set(op.allocation, op.allocation_offset_in_bytes / PAGE_SIZE + page, false);
                }
            }
            PagingOperation::VirtualTransfer(op) => self.transfer(op, root, host),
            PagingOperation::MapApertureSegment(op) => self.map_aperture(op, host),
            PagingOperation::MapApertureSegment2(op) => self.map_aperture(&(*op).into(), host),
            PagingOperation::UnmapApertureSegment(op) => {
                self.nothing_shows_aperture(op.offset_in_pages, op.number_of_pages);
                if self.mistake != Some(Mistake::SkipApertureUnmap) {
                    self.aperture.unmap(op, host);
                }
            }
            PagingOperation::NotifyAlloc(op) => self.notify(op, root, host),
            PagingOperation::NotifyResidency(op) => {
                let known = self.known[&op.allocation];
                assert!(known.is_accessed_physically(), "BPB-51: {op:?} is not accessed physically");
            }
            PagingOperation::Transfer(_) | PagingOperation::Fill(_) | PagingOperation::DiscardContent(_) => {
                panic!("I23: {operation:?} is for drivers without GPU virtual addresses")
            }
        }
    }

    fn map_aperture(&mut self, op: &MapApertureSegment, host: &Ledger) {
        let known = self.known[&op.allocation];
        assert!(known.is_accessed_physically(), "BPB-35: {op:?} is not accessed physically");
        assert_eq!((op.mdl, op.number_of_pages * PAGE_SIZE), (known.backing_store, known.size), "BPB-30");
        self.nothing_shows_aperture(op.offset_in_pages, op.number_of_pages);
        self.aperture.map(op, host);
        self.leaving.remove(&op.allocation);
    }

    fn transfer(&mut self, op: &TransferVirtual, root: Root, host: &Ledger) {
        let known = self.known[&op.allocation];
        let is_out = op.transfer_direction == MemoryTransferDirection::LocalToSystem;
        let first = op.allocation_offset_in_bytes / PAGE_SIZE;
        for (page, address) in pages(op.source_virtual_address, op.transfer_size_in_bytes) {
            let from = self.window(root, address, host);
            let to = self.window(root, op.destination_virtual_address.0 + page * PAGE_SIZE, host);
            let in_store = if is_out { to } else { from };
            let expected = known.backing_store.offset_by((first + page) * PAGE_SIZE);
            assert_eq!(in_store, expected, "BPB-40: page {} of {:?}", first + page, op.allocation);
            if is_out {
                self.decompress(op.allocation, first + page, from, host);
            }
            let token = self.read(from, host);
            self.page(to, token, host);
        }
    }

    fn notify(&mut self, op: &NotifyAlloc, root: Root, host: &Ledger) {
        let known = self.known[&op.allocation];
        let (start, size) = (op.gpu_virtual_address_at_offset, op.size_in_bytes);
        let whole_pages = [start.0, size, op.offset_in_bytes].iter().all(|n| n.is_multiple_of(PAGE_SIZE));
        assert!(whole_pages && size > 0 && op.offset_in_bytes + size <= known.size, "I10: {op:?}");
        if op.flags == NotifyAllocFlags::IO_MMU_UNMAP {
            assert!(known.info.flags2.contains(AllocationFlags2::NOTIFY_IO_MMU_UNMAP), "P26: nobody asked: {op:?}");
            return self.notify_io_mmu_unmap(op, known, root, host);
        }
        assert_eq!(op.flags, NotifyAllocFlags::EVICTION, "NTF-01: one operation has exactly one flag");
        assert!(known.info.flags2.contains(AllocationFlags2::NOTIFY_EVICTION), "P26: nobody asked: {op:?}");
        assert_eq!(op.process, None, "NTF-02: an eviction is shown in the paging process");
        if !self.config.has_page_tables() && self.mistake != Some(Mistake::SkipWindowFlush) {
            self.cache.flush(self.config.domain(root.process), start.0, size);
        }
        let first = op.offset_in_bytes / PAGE_SIZE;
        for (page, address) in pages(start, size) {
            let at = self.window(root, address, host);
            let expected = known.backing_store.offset_by((first + page) * PAGE_SIZE);
            assert_eq!(at, expected, "NTF-02: the window shows another page than {} of {op:?}", first + page);
            match self.mistake {
                Some(Mistake::SkipDecompression) => {}
                Some(Mistake::IgnoreChunkOffset) => self.decompress(op.allocation, page, at, host),
                _ => self.decompress(op.allocation, first + page, at, host),
            }
        }
        self.leaving.insert(op.allocation);
    }

    fn notify_io_mmu_unmap(&mut self, op: &NotifyAlloc, known: Known, root: Root, host: &Ledger) {
        let (start, size) = (op.gpu_virtual_address_at_offset, op.size_in_bytes);
        let Some(process) = op.process else {
            // The text of August 2024: the chunk is in the paging process's addresses, and names no process (NTF-06).
            assert_eq!(self.config.revision, NotificationRevision::August2024, "NTF-04: no process in {op:?}");
            for (page, address) in pages(start, size) {
                let expected = known.backing_store.offset_by(op.offset_in_bytes + page * PAGE_SIZE);
                if !self.config.has_page_tables() {
                    self.cache.flush(self.config.domain(root.process), address, PAGE_SIZE);
                }
                assert_eq!(self.window(root, address, host), expected, "NTF-06: {op:?}");
            }
            if self.mistake != Some(Mistake::SkipCacheFlush) {
                self.cache.flush_all();
            }
            self.leaving.insert(op.allocation);
            return;
        };
        assert!(!self.config.has_page_tables(), "NTF-05: the GPU has page tables, but {op:?}");
        assert_eq!(self.config.revision, NotificationRevision::Current, "NTF-06: a process in {op:?}");
        let domain = self.config.domain(process);
        let mapped = host.io_mmu.range((domain, 0)..=(domain, start.0)).next_back();
        let expected = known.backing_store.offset_by(op.offset_in_bytes);
        // A range that the host mapped at once may have been freed in part since (U-22).
        let shows = mapped.is_some_and(|(&(_, first), mapping)| {
            let before = start.0 - first;
            mapping.system_address.offset_by(before) == expected && before + size <= mapping.size
        });
        assert!(shows, "NTF-04: {op:?}, but the IOMMU maps {mapped:x?}");
        assert!(!self.cache.is_announced(domain, start.0), "NTF-04: it is sent once for each mapping: {op:?}");
        self.cache.announce(domain, start.0, size);
        if self.mistake != Some(Mistake::SkipCacheFlush) {
            self.cache.flush(domain, start.0, size);
        }
    }

    /// The driver's command: the page's content becomes plain where it is.
    fn decompress(&mut self, allocation: KmdAllocationHandle, page: u64, at: PhysicalAddress, host: &Ledger) {
        if self.surfaces.is_compressed(allocation, page) {
            let token = Surfaces::plain(self.read(at, host));
            self.write(at, token, host);
            self.surfaces.set(allocation, page, false);
        }
    }

    fn window(&mut self, root: Root, address: u64, host: &Ledger) -> PhysicalAddress {
        self.access(root, address, host).unwrap_or_else(|| panic!("a paging buffer faults at {address:#x}")).0
    }

    /// An engine accesses the page of `address`: where it is, and whether writes fault.
    pub fn access(&mut self, root: Root, address: u64, host: &Ledger) -> Option<(PhysicalAddress, bool)> {
        let pte = self.translate(root, address, host)?;
        let is_paging = root.process == self.paging_process;
        let owner = self.owner(pte.address);
        if !self.config.has_page_tables() {
            // Where the driver is told before an address is unmapped, the device caches it. The text of August 2024
            // says nothing of freed mappings, so its devices had better not.
            let asked = owner.is_some_and(|owner| self.wants(owner, AllocationFlags2::NOTIFY_IO_MMU_UNMAP));
            if is_paging || (asked && self.config.revision == NotificationRevision::Current) {
                self.cache.remember(self.config.domain(root.process), address, pte.address);
            }
        }
        let left = owner.filter(|owner| !is_paging && self.leaving.contains(owner));
        assert!(left.is_none(), "NTF-09: work accesses {address:#x}, but {left:?} was told of its eviction");
        Some((pte.address, pte.flags.contains(PteFlags::READ_ONLY)))
    }

    fn wants(&self, allocation: KmdAllocationHandle, flag: AllocationFlags2) -> bool {
        self.known.get(&allocation).is_some_and(|known| known.info.flags2.contains(flag))
    }

    /// Whose backing store an address is in.
    pub fn owner(&self, address: PhysicalAddress) -> Option<KmdAllocationHandle> {
        let is_shown = address.segment == self.config.aperture();
        let at = if is_shown { self.aperture.shows(address.offset / PAGE_SIZE)? } else { address };
        let (&start, &owner) = self.stores.range(..=at.offset).next_back().filter(|_| at.segment.is_system())?;
        (at.offset < start + self.known[&owner].size).then_some(owner)
    }

    pub fn created(&mut self, allocation: KmdAllocationHandle, known: Known) {
        self.known.insert(allocation, known);
        self.stores.insert(known.backing_store.offset, allocation);
    }

    /// The allocation's backing store begins here from now on.
    pub fn committed(&mut self, allocation: KmdAllocationHandle, offset: u64) {
        let known = self.known.get_mut(&allocation).expect("it was created");
        if known.backing_store.offset != offset {
            self.surfaces.forget(allocation);
        }
        self.stores.remove(&core::mem::replace(&mut known.backing_store.offset, offset));
        self.stores.insert(offset, allocation);
    }

    /// The allocation's backing store was given back: nothing may show it.
    pub fn reclaimed(&mut self, allocation: KmdAllocationHandle, host: &Ledger) {
        let known = self.known.remove(&allocation).expect("it was created");
        self.stores.remove(&known.backing_store.offset);
        self.leaving.remove(&allocation);
        self.surfaces.forget(allocation);
        self.aperture.check(host);
        let store = known.backing_store.offset..known.backing_store.offset + known.size;
        let is_there = |at: &PhysicalAddress| at.segment.is_system() && store.contains(&at.offset);
        let shown = self.shown().find(|(pte, _)| is_there(&pte.address));
        assert!(shown.is_none(), "I28: the memory of {allocation:?} was given back, but is shown: {shown:?}");
    }

    /// The host mapped an allocation's memory for a process, or a window of the paging process.
    pub fn host_mapped(&mut self, is_window: bool, system_address: PhysicalAddress) {
        if let Some(owner) = self.owner(system_address).filter(|_| !is_window) {
            self.leaving.remove(&owner);
        }
    }

    /// The host has unmapped a range, where memory of an allocation showed unless it was a window.
    pub fn host_unmapped(&mut self, domain: IoMmuDomain, address: u64, size: u64, shown: Option<PhysicalAddress>) {
        let asked = |&owner: &KmdAllocationHandle| self.wants(owner, AllocationFlags2::NOTIFY_IO_MMU_UNMAP);
        let is_current = self.config.revision == NotificationRevision::Current;
        if let Some(owner) = shown.and_then(|shown| self.owner(shown)).filter(|owner| is_current && asked(owner)) {
            let is_told = self.cache.is_announced(domain, address);
            assert!(is_told || self.is_stopped, "NTF-04: {address:#x} of {owner:?} is unmapped without a word");
        }
        self.cache.unmapped(domain, address, size);
    }

    /// Leaf entries that the GPU may use: the present ones, and those that were not flushed.
    fn shown(&self) -> impl Iterator<Item = (&Pte, String)> {
        let entries = self.entries.iter().map(|(key, pte)| (pte, format!("{key:?}")));
        // Windows of the paging process are flushed when they are used again.
        let stale = self.stale.iter().filter(|((process, _), _)| *process != self.paging_process);
        let stale = stale.map(|(key, pte)| (pte, format!("{key:?}, not flushed")));
        entries.chain(stale).filter(|(pte, _)| pte.flags.contains(PteFlags::VALID))
    }

    /// BPB-32: the GPU does not touch a range of the aperture that is mapped or unmapped.
    fn nothing_shows_aperture(&self, first: u64, count: u64) {
        let shown = self.shown().find(|(pte, _)| self.aperture.contains(pte.address, first, count));
        assert!(shown.is_none(), "BPB-32: pages {first} to {} are shown: {shown:?}", first + count);
    }

    pub fn read(&self, page: PhysicalAddress, host: &Ledger) -> u64 {
        let page = self.aperture.resolve(page);
        assert!(!page.segment.is_system() || host.holds(page.offset), "{page:?} was given back to the system");
        let fresh = if page.segment.is_system() { 0 } else { GARBAGE };
        *self.pages.get(&page).unwrap_or(&fresh)
    }

    pub fn write(&mut self, page: PhysicalAddress, token: u64, host: &Ledger) {
        let page = self.aperture.resolve(page);
        assert!(!page.segment.is_system() || host.holds(page.offset), "{page:?} was given back to the system");
        self.pages.insert(page, token);
    }

    /// The host makes a range of system memory read as zero: whatever was compressed there is plain.
    pub fn reset(&mut self, start: PhysicalAddress, size: u64, host: &Ledger) {
        self.owner(start).into_iter().for_each(|owner| self.surfaces.forget(owner));
        (0..size).step_by(PAGE_SIZE as usize).for_each(|offset| self.write(start.offset_by(offset), 0, host));
    }

    /// The memory segment forgets what it holds, tables included, and the GPU what it has cached.
    pub fn lose_power(&mut self) {
        let memory = self.config.memory_segments();
        let is_lost = |page: &PhysicalAddress| memory.contains(&page.segment);
        self.pages.retain(|page, _| !is_lost(page));
        self.initialised.retain(|table| !is_lost(table));
        self.entries.retain(|(table, ..), _| !is_lost(table));
        self.stale.clear();
    }

    /// The GPU stops: it has forgotten whatever it had of its own. Until it is restarted the host takes away what it showed it.
    pub fn reset_gpu(&mut self) {
        self.lose_power();
        // Nothing walks what is left of tables before they are written again.
        self.initialised.clear();
        self.entries.clear();
        self.aperture.lose_power();
        self.cache.lose_power();
        self.leaving.clear();
        self.surfaces = Surfaces::default();
        self.is_stopped = true;
    }

    pub fn restart(&mut self) {
        self.is_stopped = false;
    }

    /// Paging writes the page.
    fn page(&mut self, page: PhysicalAddress, token: u64, host: &Ledger) {
        self.overwrite(page);
        self.write(page, token, host);
    }

    /// The page gets another use: no table is there any more, and no stale entry may show it.
    fn overwrite(&mut self, page: PhysicalAddress) {
        let shows = |pte: &Pte| pte.flags.contains(PteFlags::VALID) && pte.address == page;
        let shown = self.stale.iter().find(|((process, _), pte)| *process != self.paging_process && shows(pte));
        assert!(shown.is_none(), "I05: {page:?} is reused, but was not flushed: {shown:?}");
        if self.initialised.remove(&page) {
            let table = (page, false, 0)..=(page, true, u32::MAX);
            let keys: Vec<_> = self.entries.range(table).map(|(&key, _)| key).collect();
            keys.iter().for_each(|key| _ = self.entries.remove(key));
        }
    }

    pub fn update_page_table(&mut self, op: &UpdatePageTable) {
        let table = op.page_table_address;
        if op.flags.contains(UpdatePageTableFlags::INITIAL_UPDATE) {
            self.overwrite(table);
            self.initialised.insert(table);
        }
        assert!(self.initialised.contains(&table), "GVA-25: a table is used before it is initialised: {op:?}");
        if op.page_table_level as usize + 1 == self.level_bits.len() {
            self.roots.insert(op.process, table);
        }
        let page_size = op.page_size();
        let PteRun { first, first_64kb, num_page_table_entries } = op.page_table_entries;
        for done in 0..num_page_table_entries {
            let step = if op.flags.contains(UpdatePageTableFlags::REPEAT) { 0 } else { u64::from(done) };
            let pte = first.advanced(step, page_size);
            if op.page_table_level == 0 {
                let address = op.first_pte_virtual_address.0 + u64::from(done) * page_size.bytes();
                self.note_stale(op.process, address, page_size, (table, false, op.start_index + done), pte);
            }
            self.set((table, false, op.start_index + done), pte, op.page_table_level);
            if let Some(owner) = op.allocation.filter(|_| op.process != self.paging_process && pte != Pte::INVALID) {
                self.leaving.remove(&owner);
            }
            if let Some(first_64kb) = first_64kb {
                self.set((table, true, op.start_index + done), first_64kb, op.page_table_level);
            }
        }
    }

    fn set(&mut self, key: (PhysicalAddress, bool, u32), pte: Pte, level: u32) {
        if pte.flags.intersects(PteFlags::VALID | PteFlags::ZERO) {
            let is_page = level == 0 || pte == Pte::ZERO || is_large(&pte);
            let ready = is_page || self.initialised.contains(&pte.address);
            assert!(ready, "GVA-25: a table is linked before it is initialised: {pte:?}");
            self.entries.insert(key, pte);
        } else {
            self.entries.remove(&key);
        }
    }

    fn note_stale(
        &mut self,
        process: KmdProcessHandle,
        address: u64,
        page_size: PageSize,
        key: (PhysicalAddress, bool, u32),
        new: Pte,
    ) {
        let old = self.entries.get(&key).copied();
        if old == Some(new) || (old.is_none() && (self.invalid_not_cached || new == Pte::INVALID)) {
            return;
        }
        // Nothing is cached of a table that nothing points to.
        let points_here = |pte: &Pte| pte.flags.contains(PteFlags::VALID) && !is_large(pte) && pte.address == key.0;
        if new == Pte::ZERO && !self.entries.values().any(points_here) {
            return;
        }
        for page in 0..page_size.bytes() / PAGE_SIZE {
            let old = old.unwrap_or(Pte::INVALID).advanced(page, PageSize::Kib4);
            self.stale.entry((process, address + page * PAGE_SIZE)).or_insert(old);
        }
    }

    /// The entry that maps the page of `address`; none if access faults.
    pub fn translate(&self, root: Root, address: u64, host: &Ledger) -> Option<Pte> {
        let page = address & !(PAGE_SIZE - 1);
        if !self.config.has_page_tables() {
            let (at, read_only) = self.cache.translate(self.config.domain(root.process), address, host)?;
            let flags = if read_only { PteFlags::VALID | PteFlags::READ_ONLY } else { PteFlags::VALID };
            return Some(Pte { flags, address: at });
        }
        let is_stale = self.stale.contains_key(&(root.process, page));
        assert!(!is_stale, "GVA-34: {page:#x} of {:?} is used, but was not flushed", root.process);
        let shift = |level: usize| 12 + self.level_bits[..level].iter().sum::<u32>();
        let top = self.level_bits.len() - 1;
        if address >> shift(top) >= root.num_entries {
            return None;
        }
        let mut table = root.table;
        for level in (1..=top).rev() {
            let index = (address >> shift(level)) as u32 & ((1 << self.level_bits[level]) - 1);
            if level == 1 && self.dual {
                let big = self.entry(table, true, index).and_then(|entry| self.below(entry, address, 16));
                let small = self.entry(table, false, index).and_then(|entry| self.below(entry, address, 12));
                assert!(big.is_none() || small.is_none(), "GVA-43: {page:#x} is mapped on both sides");
                return big.or(small);
            }
            match self.entry(table, false, index)? {
                entry if level == 1 => return self.below(entry, address, 12),
                Pte::ZERO => return Some(Pte::ZERO),
                link => table = link.address,
            }
        }
        unreachable!("there are two levels at least")
    }

    /// The entry that maps the page of `address` by what an entry of level 1 says.
    fn below(&self, entry: Pte, address: u64, page_shift: u32) -> Option<Pte> {
        let large_page = 1 << (12 + self.level_bits[0]);
        match entry {
            Pte::ZERO => Some(entry),
            large if is_large(&large) => Some(large.advanced(address % large_page / PAGE_SIZE, PageSize::Kib4)),
            link => self.leaf(link.address, address, page_shift),
        }
    }

    fn leaf(&self, table: PhysicalAddress, address: u64, page_shift: u32) -> Option<Pte> {
        let in_table = address & ((1 << (12 + self.level_bits[0])) - 1);
        let pte = self.entry(table, false, (in_table >> page_shift) as u32)?;
        let in_page = (in_table & ((1 << page_shift) - 1)) / PAGE_SIZE;
        Some(pte.advanced(in_page, PageSize::Kib4))
    }

    fn entry(&self, table: PhysicalAddress, side_64kb: bool, index: u32) -> Option<Pte> {
        assert!(self.initialised.contains(&table), "GVA-25: the GPU walks a table that was not initialised: {table:?}");
        self.entries.get(&(table, side_64kb, index)).copied()
    }
}

/// GVA-21: the entry points to memory, and not to a table.
fn is_large(entry: &Pte) -> bool {
    entry.flags.contains(PteFlags::LARGE_PAGE)
}

impl Known {
    pub fn is_accessed_physically(&self) -> bool {
        self.info.flags.contains(AllocationFlags::ACCESSED_PHYSICALLY)
    }
}

/// The pages of a range, counted from 0, and their addresses.
fn pages(start: GpuVirtualAddress, size: u64) -> impl Iterator<Item = (u64, u64)> {
    (0..size / PAGE_SIZE).map(move |page| (page, start.0 + page * PAGE_SIZE))
}
