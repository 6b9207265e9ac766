//! An allocation: the driver's description, its place, and its state.

use alloc::{boxed::Box, vec::Vec};
use bitflags::bitflags;
use core::num::NonZeroU64;

use crate::{
    adapter::Adapter,
    budget::account::{Account, Choices, Home},
    contract::{Host, KmdAllocationHandle, KmdOpenHandle, SegmentPreference},
    data::{extents::Extents, packed::U56, rank_queue::Standing},
    gpu_va::Mapping,
    id::{DeviceIx, PlanNo, ProcessIx, Slots, kind},
    objects::{
        list::ListEntry,
        place::{MemoryPlace, PageOffset, Place},
    },
    units::{Extent, PAGE_SIZE, PageSize, PhysicalAddress, SegmentId},
};
pub(crate) type Allocations = Slots<kind::Allocation, Allocation>;

/// The record of one allocation. The fields that joining and leaving a list touch come first, in the 64 bytes of one
/// cache line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Allocation {
    /// The device of the owner that has it: its creator's, while that lives.
    pub device: DeviceIx,
    pub state: AllocationState,
    /// The entry of its owner's device.
    entry: ListEntry,
    /// Size in bytes, rounded up to pages of where it may live (CRE-04, SEG-46).
    pub size: u64,
    /// *Decided* (D4): the place to which the last plan brings it; none is nowhere: its content is in its backing
    /// store.
    pub place: Option<Place>,
    /// The last plan that names it. It is *in flight* while that plan has not retired (D4).
    pub last_plan: PlanNo,
    /// Its place in the queue of its process, class and priority while it is evictable.
    pub standing: Standing,
    /// The fields that nearly no allocation needs.
    more: Option<Box<More>>,
    /// The driver's name of it.
    pub handle: KmdAllocationHandle,
    /// The address of its backing store, in system memory.
    pub backing_store: u64,
    /// The owner's mapping of all of it.
    whole_mapping: Option<WholeMapping>,
    /// The process that owns it, and is charged for it (U-34).
    pub process: ProcessIx,
    /// Larger stays longer (CRE-30).
    pub priority: u32,
    /// The alignment of its GPU virtual addresses as a power of two; 0 is a page (SEG-46).
    log2_alignment: u8,
    /// Its place among evictable allocations of its class and priority: the lowest goes first. In the documented order it is the time
    /// of its last use: the number, of all devices' submissions, of the last of a device that listed it at that moment (CRE-31a).
    rank: U56,
    /// The homes that it may have.
    pub choices: Choices,
    /// The segments that the driver prefers.
    pub preferred: SegmentPreference,
    /// Of its homes, the memory segments in which the CPU sees it (RES-82); a bit for each.
    seen_in: u16,
}

const _: () = assert!(size_of::<Option<Allocation>>() == 128, "a million of them are in the benchmark");

/// Other mappings than the owner's of all of it, other devices that have it open, and its extents if it is in parts.
#[derive(Debug, Default)]
struct More {
    /// The ranges of its memory segment.
    parts: Vec<Extent>,
    mappings: Vec<Mapping>,
    openings: Vec<Opening>,
}

/// A shared allocation on a device that does not own it (CRE-06).
#[derive(Debug)]
pub(crate) struct Opening {
    pub device: DeviceIx,
    pub process: ProcessIx,
    /// The driver's name of it; the creator's has no such name.
    pub handle: Option<KmdOpenHandle>,
    /// The entry of the device.
    entry: ListEntry,
    /// The device has closed it; submitted work may still use it.
    pub is_closed: bool,
}

/// The owner of an allocation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner {
    pub process: ProcessIx,
    pub device: DeviceIx,
}

/// The parts of an operation that say which allocation it is of: the driver's name of it, and where its content is in system memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Store {
    pub handle: KmdAllocationHandle,
    /// In bytes.
    pub size: u64,
    /// The address of the backing store, in system memory.
    pub address: u64,
    pub is_cached: bool,
}

bitflags! {
    /// Facts of an allocation's content and life.
    #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
    pub(crate) struct AllocationState: u32 {
        /// The backing store holds content; otherwise the content is zero, and page-in is a fill (CRE-42, RES-18).
        const BACKED = 1 << 0;
        /// The GPU's content is newer than the backing store: eviction must copy it out, or is over with it in place (RES-22).
        const DIRTY = 1 << 1;
        /// It stands in a queue of [`Evictable`](crate::residency::evictable::Evictable).
        const EVICTABLE = 1 << 2;
        /// Its last Evict asked for eviction at the earliest opportunity (RES-21).
        const EVICT_SOON = 1 << 3;
        /// The caller destroyed it; it lives on until nothing names it (RES-91).
        const DESTROYED = 1 << 4;
        /// In system memory it is mapped in the aperture (SEG-13).
        const ACCESSED_PHYSICALLY = 1 << 11;
        /// The driver is told before it is evicted (NTF-02).
        const NOTIFY_EVICTION = 1 << 9;
        /// The driver is told before it is unmapped from the IOMMU (NTF-04).
        const NOTIFY_IO_MMU_UNMAP = 1 << 10;
        /// Other devices may open it (CRE-41).
        const SHARED = 1 << 12;
        /// It was destroyed, and goes when the last device that has closed it no longer uses it.
        const PURGE_DUE = 1 << 13;
        /// Its owner does without it until it is reclaimed (RES-61).
        const OFFERED = 1 << 15;
        /// It was discarded since it was offered.
        const DISCARDED = 1 << 16;
        /// The driver is told when it comes into a memory segment and when it leaves it (BPB-51).
        const NOTIFY_RESIDENCY = 1 << 17;
        /// It has no backing store: that was decommitted while it was offered (RES-66).
        const NOT_COMMITTED = 1 << 18;
        /// The CPU sees it (RES-80).
        const LOCKED = 1 << 19;
        /// The CPU is to see it, and it must leave its memory segment for that (RES-82).
        const LOCK_PENDING = 1 << 20;
        /// The CPU sees its copy in system memory, which is kept wherever it is (2.2).
        const KEEPS_COPY = 1 << 22;
        /// Its backing store is the caller's (2.2).
        const EXISTING_SYS_MEM = 1 << 23;
        /// Its backing store is in cacheable memory (2.2).
        const CACHED = 1 << 26;
        /// No entry above the leaves shows it (GVA-21).
        const NO_LARGE_PAGES = 1 << 27;
        /// Its destroyer waits for its end (RES-91).
        const SYNCHRONOUS_DESTROY = 1 << 24;
        /// It has been seen already: set only while a list is walked in which it may be named twice.
        const SEEN = 1 << 25;
        /// Its home, where the lists of its devices count it. Fixed while anything outstanding requires it.
        const HOME = 0b1111 << 5;
        /// While it is evictable, the class of the queue that it stands in.
        const CLASS = 0b111 << 29;
    }
}

impl AllocationState {
    /// The lowest bit of [`CLASS`](Self::CLASS).
    pub const LOWEST_CLASS_BIT: u32 = 1 << 29;
    const LOWEST_HOME_BIT: u32 = 1 << 5;
}

/// A mapping of all of an allocation without driver protection, as nearly all are: its address, and flags in the bits that a
/// page's address has to spare.
#[derive(Clone, Copy, Debug)]
struct WholeMapping(NonZeroU64);

impl WholeMapping {
    const KIB64: u64 = 1 << 0;
    const READ_ONLY: u64 = 1 << 1;
    const NO_EXECUTE: u64 = 1 << 2;

    fn pack(mapping: &Mapping) -> Self {
        let bit = |is_set, bit| if is_set { bit } else { 0 };
        let flags = bit(mapping.pte_page_size == PageSize::Kib64, Self::KIB64)
            | bit(mapping.read_only, Self::READ_ONLY)
            | bit(mapping.no_execute, Self::NO_EXECUTE);
        Self(NonZeroU64::new(mapping.virtual_address | flags).expect("address 0 is never mapped"))
    }

    fn unpack(self, owner: Owner, size: u64) -> Mapping {
        Mapping {
            process: owner.process,
            device: owner.device,
            pte_page_size: if self.0.get() & Self::KIB64 != 0 { PageSize::Kib64 } else { PageSize::Kib4 },
            read_only: self.0.get() & Self::READ_ONLY != 0,
            no_execute: self.0.get() & Self::NO_EXECUTE != 0,
            virtual_address: self.0.get() & !(PAGE_SIZE - 1),
            size,
            allocation_offset: 0,
            driver_protection: 0,
        }
    }
}

impl Allocation {
    /// A new allocation: nowhere but in its backing store.
    pub fn new(
        handle: KmdAllocationHandle,
        size: u64,
        backing_store: u64,
        owner: Owner,
        priority: u32,
        choices: Choices,
        state: AllocationState,
    ) -> Self {
        let mut allocation = Self {
            handle,
            size,
            backing_store,
            place: None,
            last_plan: 0,
            standing: Standing::default(),
            entry: ListEntry::default(),
            whole_mapping: None,
            more: None,
            process: owner.process,
            device: owner.device,
            priority,
            log2_alignment: 0,
            rank: U56::default(),
            choices,
            preferred: SegmentPreference::default(),
            seen_in: 0,
            state,
        };
        allocation.set_home(choices.first().expect("adapter start and the driver give each a segment"));
        allocation
    }

    /// All mappings.
    pub fn mappings(&self) -> impl Iterator<Item = Mapping> {
        self.whole_mapping().into_iter().chain(self.more.iter().flat_map(|more| more.mappings.iter().copied()))
    }

    /// The alignment of its GPU virtual addresses in bytes, where its user does not choose them; 0 is a page (SEG-46).
    pub fn alignment(&self) -> u64 {
        if self.log2_alignment == 0 { 0 } else { 1 << self.log2_alignment }
    }

    /// Sets the alignment of its GPU virtual addresses: 0, or a power of two, in bytes.
    pub fn set_alignment(&mut self, alignment: u32) {
        self.log2_alignment = alignment.checked_ilog2().unwrap_or(0) as u8;
    }

    /// Its place among evictable allocations of its class and priority.
    pub fn rank(&self) -> u64 {
        self.rank.get()
    }

    /// Gives it another place, while it is not evictable.
    pub fn set_rank(&mut self, rank: u64) {
        self.rank = U56::new(rank);
    }

    fn owner(&self) -> Owner {
        Owner { process: self.process, device: self.device }
    }

    fn whole_mapping(&self) -> Option<Mapping> {
        self.whole_mapping.map(|whole| whole.unpack(self.owner(), self.size))
    }

    /// Adds a mapping.
    pub fn add_mapping(&mut self, mapping: Mapping) {
        let whole = WholeMapping::pack(&mapping);
        if self.whole_mapping.is_none() && whole.unpack(self.owner(), self.size) == mapping {
            self.whole_mapping = Some(whole);
        } else {
            self.more.get_or_insert_default().mappings.push(mapping);
        }
    }

    /// Removes and returns the mappings that `is_taken`.
    pub fn take_mappings(&mut self, is_taken: impl Fn(&Mapping) -> bool) -> Vec<Mapping> {
        let whole = self.whole_mapping().filter(&is_taken);
        if whole.is_some() {
            self.whole_mapping = None;
        }
        let more = self.more.iter_mut().flat_map(|more| more.mappings.extract_if(.., |mapping| is_taken(mapping)));
        whole.into_iter().chain(more).collect()
    }

    /// The entry of `device`; none if it is not open there.
    pub fn entry(&self, device: DeviceIx) -> Option<&ListEntry> {
        if device == self.device {
            return Some(&self.entry);
        }
        self.openings().find(|opening| opening.device == device).map(|opening| &opening.entry)
    }

    /// The entry of `device`.
    ///
    /// # Panics
    ///
    /// If it is not open there.
    pub fn entry_mut(&mut self, device: DeviceIx) -> &mut ListEntry {
        if device == self.device {
            return &mut self.entry;
        }
        let openings = self.more.iter_mut().flat_map(|more| &mut more.openings);
        let opening = openings.into_iter().find(|opening| opening.device == device);
        &mut opening.expect("a list names what is open on its device").entry
    }

    /// The devices that have it, and their entries; the owner's first.
    pub fn entries(&self) -> impl Iterator<Item = (DeviceIx, &ListEntry)> {
        let own = core::iter::once((self.device, &self.entry));
        own.chain(self.openings().map(|opening| (opening.device, &opening.entry)))
    }

    /// The devices that have it open besides its owner's, closed ones included.
    pub fn openings(&self) -> impl Iterator<Item = &Opening> {
        self.more.iter().flat_map(|more| &more.openings)
    }

    /// Whether a device may name it in calls.
    pub fn is_open_on(&self, device: DeviceIx) -> bool {
        device == self.device || self.openings().any(|opening| opening.device == device && !opening.is_closed)
    }

    /// Its backing store.
    pub fn store(&self) -> Store {
        Store { handle: self.handle, size: self.size, address: self.backing_store, is_cached: self.is_cached() }
    }

    /// The place of its backing store, if it has one.
    pub fn store_address(&self) -> PhysicalAddress {
        PhysicalAddress { segment: SegmentId::SYSTEM, offset: self.backing_store }
    }

    /// Gives its backing store back to the host, unless it is the caller's (2.2).
    pub fn give_back_store(&self, host: &mut dyn Host) {
        if !self.state.intersects(AllocationState::NOT_COMMITTED | AllocationState::EXISTING_SYS_MEM) {
            host.decommit_backing_store(self.store_address(), self.size);
        }
    }

    /// Opens it on another device.
    pub fn open(&mut self, owner: Owner, handle: KmdOpenHandle) {
        let Owner { process, device } = owner;
        let opening = Opening { device, process, handle: Some(handle), entry: ListEntry::default(), is_closed: false };
        self.more.get_or_insert_default().openings.push(opening);
    }

    /// Closes it on a device: calls cannot name it there any more.
    pub fn close(&mut self, device: DeviceIx) {
        let mut openings = self.more.iter_mut().flat_map(|more| &mut more.openings);
        let opening = openings.find(|opening| opening.device == device);
        opening.expect("only what is open is closed").is_closed = true;
    }

    /// Drops the opening of a device.
    pub fn forget_opening(&mut self, device: DeviceIx) -> Option<Opening> {
        let openings = &mut self.more.as_mut()?.openings;
        let at = openings.iter().position(|opening| opening.device == device)?;
        Some(openings.remove(at))
    }

    /// Closes it for its owner, and makes the first other device that has it its owner (U-34). Does nothing, and
    /// returns `false`, if there is none.
    pub fn transfer_ownership(&mut self) -> bool {
        let heir = self.openings().find(|opening| !opening.is_closed).map(|opening| opening.device);
        let Some(mut heir) = heir.and_then(|device| self.forget_opening(device)) else { return false };
        let whole = self.whole_mapping();
        self.whole_mapping = None;
        core::mem::swap(&mut self.entry, &mut heir.entry);
        core::mem::swap(&mut self.device, &mut heir.device);
        core::mem::swap(&mut self.process, &mut heir.process);
        heir.is_closed = true;
        let more = self.more.get_or_insert_default();
        more.openings.push(heir);
        more.mappings.extend(whole);
        true
    }

    /// Whether any device's list names it so that `is_so`.
    pub fn any_entry(&self, is_so: impl Fn(DeviceIx, &ListEntry) -> bool) -> bool {
        let of_opening = |opening: &Opening| is_so(opening.device, &opening.entry);
        is_so(self.device, &self.entry) || self.more.as_ref().is_some_and(|more| more.openings.iter().any(of_opening))
    }

    /// Whether a granted span, or the work in one that has ended, pins it.
    pub fn is_pinned(&self) -> bool {
        self.any_entry(|_, entry| entry.is_pinning())
    }

    /// Whether a device that is suspended is to have it back.
    pub fn is_to_restore(&self) -> bool {
        self.any_entry(|_, entry| entry.is_to_restore())
    }

    /// Whether an entry of `device` pins it.
    pub fn is_pinned_by(&self, device: DeviceIx) -> bool {
        self.entry(device).is_some_and(ListEntry::is_pinning)
    }

    /// The home in which the lists of its devices count it.
    pub fn home(&self) -> Home {
        let home = self.state.intersection(AllocationState::HOME).bits();
        Home::from_bits((home / AllocationState::LOWEST_HOME_BIT) as u8)
    }

    /// The account that counts it there.
    pub fn account(&self) -> Account {
        self.home().account()
    }

    /// It is counted in `home` from now on.
    pub fn set_home(&mut self, home: Home) {
        let home = u32::from(home.bits()) * AllocationState::LOWEST_HOME_BIT;
        self.state = self.state.difference(AllocationState::HOME) | AllocationState::from_bits_retain(home);
    }

    /// The homes that it may have when it joins the list of `device`. While something outstanding requires it, that is the one that
    /// it has.
    pub fn homes(&self, device: DeviceIx) -> Choices {
        let is_counted = |other, entry: &ListEntry| entry.is_outstanding() || (other != device && entry.count > 0);
        if self.any_entry(is_counted) {
            return Choices::only(self.home());
        }
        self.allowed_homes()
    }

    /// The homes that it may have. A locked allocation may use only homes that the CPU sees, if it has one.
    pub fn allowed_homes(&self) -> Choices {
        if self.state.intersects(AllocationState::LOCKED | AllocationState::LOCK_PENDING) && self.may_be_seen() {
            return self.seen_homes().collect();
        }
        self.choices
    }

    /// The homes in which the CPU sees it, first choice first.
    pub fn seen_homes(&self) -> impl Iterator<Item = Home> {
        self.choices.into_iter().filter(|&home| self.is_seen_in(home.account()))
    }

    /// Whether it has a home in which the CPU sees it.
    pub fn may_be_seen(&self) -> bool {
        self.seen_homes().next().is_some()
    }

    /// Whether lists count it where the CPU sees it.
    pub fn is_seen_at_home(&self) -> bool {
        self.is_seen_in(self.account())
    }

    /// Whether it may be resident in system memory.
    pub fn may_be_in_system(&self) -> bool {
        self.choices.contain_account(Account::SYSTEM)
    }

    /// Whether it has another home than its first choice.
    pub fn homes_differ(&self) -> bool {
        self.allowed_homes().first() != Some(self.home())
    }

    /// Records the memory segments in which the CPU sees it.
    pub fn set_seen_in(&mut self, is_seen: impl Fn(Account) -> bool) {
        let seen = self.choices.accounts().filter(|&account| account.is_memory() && is_seen(account));
        self.seen_in = seen.fold(0, |seen, account| seen | 1 << account.bits());
    }

    /// Whether the CPU sees it there, or a copy.
    pub fn is_seen_in(&self, account: Account) -> bool {
        self.state.contains(AllocationState::KEEPS_COPY)
            || account == Account::SYSTEM
            || self.seen_in & 1 << account.bits() != 0
    }

    /// Whether its backing store is in cacheable memory (2.2).
    pub fn is_cached(&self) -> bool {
        self.state.contains(AllocationState::CACHED)
    }

    /// Whether anything outstanding requires it: a granted span, or one that waits for its grant.
    pub fn is_required(&self) -> bool {
        self.any_entry(|_, entry| entry.count > 0 || entry.is_outstanding())
    }

    /// The segment that it is resident in, and its ranges there; its backing store if it is nowhere else.
    pub fn location(&self, adapter: &Adapter) -> (SegmentId, Extents) {
        let in_place = |offset| Extents::one(Extent { offset, size: self.size });
        match self.place {
            Some(Place::Memory(account, place)) => (adapter.memory_id(account), self.extents(place)),
            Some(Place::Aperture(offset)) => {
                let at = adapter.in_aperture(offset.bytes());
                (at.segment, in_place(at.offset))
            }
            Some(Place::System) | None => (SegmentId::SYSTEM, in_place(self.backing_store)),
        }
    }

    /// Its ranges in its memory segment, if it is there.
    pub fn extents(&self, place: MemoryPlace) -> Extents {
        match place {
            MemoryPlace::Whole(page) => Extents::one(Extent { offset: page.bytes(), size: self.size }),
            MemoryPlace::Parts => Extents::from(self.more.as_ref().map_or(Vec::new(), |more| more.parts.clone())),
        }
    }

    /// Decides that it becomes resident in these ranges of a memory segment.
    pub fn place_in_memory(&mut self, account: Account, extents: &Extents) -> Place {
        let mut all = extents.iter();
        let place = match (all.next(), all.next()) {
            (Some(only), None) => MemoryPlace::Whole(PageOffset::of_bytes(only.offset)),
            _ => {
                self.more.get_or_insert_default().parts = extents.iter().collect();
                MemoryPlace::Parts
            }
        };
        Place::Memory(account, place)
    }

    /// Decides that it leaves its place.
    pub fn take_place(&mut self) -> Option<Place> {
        if let Some(more) = &mut self.more {
            more.parts = Vec::new();
        }
        self.place.take()
    }
}
