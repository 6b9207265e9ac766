//! The record of an allocation.

use alloc::boxed::Box;

use super::cold::{Cold, Owner};
use super::flags::AllocationState;
use super::whole_mapping::WholeMapping;
use crate::{
    adapter::Adapter,
    budget::account::{Account, Choices},
    contract::{Host, KmdAllocationHandle, SegmentPreference},
    data::{extents::Extents, packed::Tagged, rank_queue::Standing},
    id::{DeviceIx, PlanNo, ProcessIx, Slots, kind},
    objects::{
        list::ListEntry,
        place::{MemoryPlace, PageOffset, Place},
    },
    units::{Extent, PhysicalAddress, SegmentId},
};

pub(crate) type Allocations = Slots<kind::Allocation, Allocation>;

/// The record of an allocation. The fields for joining and leaving a list come first, in the 64 bytes of one cache
/// line.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Allocation {
    /// The owner's device: the creator's device, while the device lives.
    pub device: DeviceIx,
    pub(super) state: AllocationState,
    /// The entry of the owner's device.
    pub(super) entry: ListEntry,
    /// The size in bytes, rounded up to the pages of all allowed segments (CRE-04, SEG-46).
    pub size: u64,
    /// *Decided* (D4): the place after the last plan. Without a place the content is in the backing
    /// store.
    pub place: Option<Place>,
    /// The last plan for the allocation. The allocation is *in flight* until the plan has retired (D4).
    pub last_plan: PlanNo,
    /// The position of an evictable allocation in the queue of the process, the class and the priority.
    pub standing: Standing,
    /// The fields that few allocations need.
    pub(super) cold: Option<Box<Cold>>,
    /// The driver's handle.
    pub handle: KmdAllocationHandle,
    /// The address of the backing store, in system memory.
    pub backing_store: u64,
    /// The owner's mapping of the whole allocation.
    pub(super) whole_mapping: Option<WholeMapping>,
    /// The owning process, which is charged for the memory (U-34).
    pub process: ProcessIx,
    /// A larger priority stays longer (CRE-30).
    pub priority: u32,
    /// The rank among evictable allocations of equal class and priority: the lowest rank goes first. In the documented order
    /// the rank is the
    /// time of the last use: the last submission, numbered across all devices, of a device with the allocation on the list
    /// (CRE-31a). The byte is the alignment of GPU virtual addresses as a power of two; 0 is a page (SEG-46).
    pub(super) rank: Tagged,
    /// The possible homes.
    pub choices: Choices,
    /// The driver's preferred segments.
    pub preferred: SegmentPreference,
    /// The memory segments in the CPU's sight among the homes (RES-82); a bit for each segment.
    pub(super) seen_in: u16,
}

const _: () = assert!(size_of::<Option<Allocation>>() == 128, "a million of them are in the benchmark");

/// The description of an allocation for an operation: the driver's handle, and the content's address in system memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Store {
    pub handle: KmdAllocationHandle,
    /// In bytes.
    pub size: u64,
    /// The address of the backing store, in system memory.
    pub address: u64,
    pub is_cached: bool,
}

impl Allocation {
    /// A new allocation, with content in the backing store alone.
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
            cold: None,
            process: owner.process,
            device: owner.device,
            priority,
            rank: Tagged::default(),
            choices,
            preferred: SegmentPreference::default(),
            seen_in: 0,
            state,
        };
        allocation.set_home(choices.first().expect("adapter start and the driver give each a segment"));
        allocation
    }

    /// The alignment of GPU virtual addresses in bytes, if the caller chooses no address; 0 is a page (SEG-46).
    pub fn alignment(&self) -> u64 {
        match self.rank.byte() {
            0 => 0,
            log2_alignment => 1 << log2_alignment,
        }
    }

    /// Sets the alignment of GPU virtual addresses: 0, or a power of two, in bytes.
    pub fn set_alignment(&mut self, alignment: u32) {
        self.rank.set_byte(alignment.checked_ilog2().unwrap_or(0) as u8);
    }

    pub(super) fn cold(&self) -> Option<&Cold> {
        self.cold.as_deref()
    }

    pub(super) fn cold_mut(&mut self) -> &mut Cold {
        self.cold.get_or_insert_default()
    }

    /// The rank among evictable allocations of equal class and priority.
    pub fn rank(&self) -> u64 {
        self.rank.number()
    }

    /// Sets the rank of an allocation that is not evictable.
    pub fn set_rank(&mut self, rank: u64) {
        self.rank.set_number(rank);
    }

    pub(super) fn owner(&self) -> Owner {
        Owner { process: self.process, device: self.device }
    }

    /// The backing store.
    pub fn store(&self) -> Store {
        Store { handle: self.handle, size: self.size, address: self.backing_store, is_cached: self.is_cached() }
    }

    /// The address of the backing store.
    pub fn store_address(&self) -> PhysicalAddress {
        PhysicalAddress { segment: SegmentId::SYSTEM, offset: self.backing_store }
    }

    /// Gives the backing store back to the host, except a backing store of the caller's (2.2).
    pub fn give_back_store(&self, host: &mut dyn Host) {
        if !self.is_any(AllocationState::NOT_COMMITTED | AllocationState::EXISTING_SYS_MEM) {
            host.decommit_backing_store(self.store_address(), self.size);
        }
    }

    /// Whether the backing store is in cacheable memory (2.2).
    pub fn is_cached(&self) -> bool {
        self.is(AllocationState::CACHED)
    }

    /// The segment and the ranges of the place; without a place, the backing store.
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

    /// The ranges in the memory segment.
    pub fn extents(&self, place: MemoryPlace) -> Extents {
        match place {
            MemoryPlace::Whole(page) => Extents::one(Extent { offset: page.bytes(), size: self.size }),
            MemoryPlace::Parts => Extents::from(self.cold().map_or_else(Default::default, |cold| cold.parts.clone())),
        }
    }

    /// The place of these ranges in a memory segment, for a coming allocation.
    pub fn place_in_memory(&mut self, account: Account, extents: &Extents) -> Place {
        let mut all = extents.iter();
        let place = match (all.next(), all.next()) {
            (Some(only), None) => MemoryPlace::Whole(PageOffset::of_bytes(only.offset)),
            _ => {
                self.cold_mut().parts = extents.iter().collect();
                MemoryPlace::Parts
            }
        };
        Place::Memory(account, place)
    }
}
