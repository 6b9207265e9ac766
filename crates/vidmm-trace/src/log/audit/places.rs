//! The places where allocations can be resident, as decided (I01, SEG-50).
//!
//! Memory segments and aperture segments hand out ranges. Implicit system memory hands out nothing: an allocation that
//! is resident there is where its backing store is.

use std::collections::BTreeSet;

use vidmm::contract::SegmentSet;
use vidmm::event::{ApertureSegmentFacts, MemorySegmentFacts};
use vidmm::{Extent, PageSize, PlanNo, SegmentId};

use super::allocation::Allocation;
use super::aspects::Pool;
use super::finding::{Findings, Invariant};
use super::intervals::Intervals;
use super::segment::Segment;

/// The places of allocations.
#[derive(Debug, Default)]
pub(super) struct Places {
    pub memory: Vec<Segment>,
    pub apertures: Vec<Segment>,
    /// The apertures through which engines snoop the CPU's caches.
    cache_coherent: Vec<SegmentId>,
    pub system: SystemMemory,
}

/// Pools: what is taken of one, nobody else can have.
#[derive(Clone, Debug, Default)]
pub(super) struct Pools(pub BTreeSet<Pool>);

impl Pools {
    /// Whether some memory is in both.
    pub fn meets(&self, other: &Pools) -> bool {
        !self.0.is_disjoint(&other.0)
    }
}

/// System memory: what was committed of it, and how much of that engines reach.
#[derive(Debug, Default)]
pub(super) struct SystemMemory {
    /// Backing stores, and page tables of processes.
    committed: Intervals<()>,
    /// The most that may be resident, in bytes (SEG-50, U-6).
    limit: u64,
    /// The resident allocations, by the plans that have entered the stream.
    resident: u64,
}

impl Places {
    pub fn new(memory: &[MemorySegmentFacts], apertures: &[ApertureSegmentFacts], limit: u64) -> Self {
        let memory = memory.iter().map(|memory| {
            let segment = Segment::new(memory.segment, memory.size, memory.page_size);
            segment.with_table_area(memory.page_table_area).seen_by_cpu(memory.cpu_visible)
        });
        let coherent = apertures.iter().filter(|of| of.cache_coherent).map(|of| of.segment);
        let cache_coherent = coherent.collect();
        let apertures = apertures.iter().map(|of| Segment::new(of.segment, of.size, PageSize::Kib4));
        Self {
            memory: memory.collect(),
            apertures: apertures.collect(),
            cache_coherent,
            system: SystemMemory { limit, ..SystemMemory::default() },
        }
    }

    /// The memory segment of this number.
    pub fn memory(&self, segment: SegmentId) -> Option<&Segment> {
        self.memory.iter().find(|memory| memory.id == segment)
    }

    /// Whether a segment is a memory segment.
    pub fn is_memory(&self, segment: SegmentId) -> bool {
        self.memory(segment).is_some()
    }

    /// Whether the CPU does not see a segment: a memory segment that it does not reach (RES-82).
    pub fn is_hidden(&self, segment: SegmentId) -> bool {
        self.memory(segment).is_some_and(|memory| !memory.cpu_visible)
    }

    /// Whether an allocation with this set may be there: any aperture segment in it stands for system memory (SEG-11).
    pub fn admits(&self, set: SegmentSet, segment: SegmentId) -> bool {
        if segment.is_system() { self.names_aperture(set) } else { set.contains(segment) }
    }

    /// Whether a segment is an aperture segment.
    pub fn is_aperture(&self, segment: SegmentId) -> bool {
        self.apertures.iter().any(|aperture| aperture.id == segment)
    }

    /// Whether engines that read through an aperture segment snoop the CPU's caches.
    pub fn is_cache_coherent(&self, segment: SegmentId) -> bool {
        self.cache_coherent.contains(&segment)
    }

    /// Allocations that are one range each may be in these segments.
    pub fn note_ranges(&mut self, set: SegmentSet) {
        self.memory.iter_mut().filter(|memory| set.contains(memory.id)).for_each(|memory| memory.has_ranges = true);
    }

    /// Bytes of a pool that ranges can be in.
    pub fn range_bytes(&self, pool: Pool) -> u64 {
        match pool {
            Pool::SYSTEM => self.apertures.iter().fold(0, |all, aperture| all.saturating_add(aperture.size)),
            memory => self.capacity(memory),
        }
    }

    /// Whether an aperture segment is in a set.
    fn names_aperture(&self, set: SegmentSet) -> bool {
        self.apertures.iter().any(|aperture| set.contains(aperture.id))
    }

    /// All pools, those of memory segments first.
    pub fn pools(&self) -> Vec<Pool> {
        self.memory.iter().map(|memory| Pool(memory.id)).chain([Pool::SYSTEM]).collect()
    }

    /// The pools that a set of segments names: an aperture is system memory (SEG-11).
    pub fn pools_of(&self, set: SegmentSet) -> Vec<Pool> {
        let memory = self.memory.iter().filter(|memory| set.contains(memory.id)).map(|memory| Pool(memory.id));
        memory.chain(self.names_aperture(set).then_some(Pool::SYSTEM)).collect()
    }

    /// The segment of this number, if it hands out ranges.
    pub fn ranges(&mut self, segment: SegmentId) -> Option<&mut Segment> {
        if segment.is_system() {
            return None;
        }
        self.memory.iter_mut().chain(&mut self.apertures).find(|ledger| ledger.id == segment)
    }

    /// Whether engines reach the backing store of what is there.
    pub fn in_system_memory(&self, segment: SegmentId) -> bool {
        segment.is_system() || self.is_aperture(segment)
    }

    /// The pool that a place is in.
    pub fn pool(&self, segment: SegmentId) -> Pool {
        if self.in_system_memory(segment) { Pool::SYSTEM } else { Pool(segment) }
    }

    /// Bytes of a pool.
    pub fn size(&self, pool: Pool) -> u64 {
        match pool {
            Pool::SYSTEM => self.system.limit,
            Pool(segment) => self.memory(segment).map_or(0, |memory| memory.size),
        }
    }

    /// Bytes of a pool that allocations can have: page tables have the rest.
    pub fn capacity(&self, pool: Pool) -> u64 {
        self.memory(pool.0).map_or_else(|| self.size(pool), Segment::capacity)
    }

    /// `plan` empties ranges of a segment.
    pub fn promise(&mut self, segment: SegmentId, extents: &[Extent], plan: PlanNo) {
        let Some(ledger) = self.ranges(segment) else { return };
        extents.iter().for_each(|&extent| ledger.promise(extent, plan));
    }

    /// Nothing is resident but page tables.
    pub fn clear(&mut self) {
        self.memory.iter_mut().for_each(Segment::forget_promises);
        self.apertures.iter_mut().for_each(Segment::clear);
        self.system.resident = 0;
    }

    /// The ranges that `plan` empties are free for all that follows.
    pub fn entered(&mut self, plan: PlanNo) {
        self.memory.iter_mut().for_each(|memory| memory.entered(plan));
        self.apertures.iter_mut().for_each(|aperture| aperture.entered(plan));
    }

    /// An allocation goes only where the driver said, and as its flags say (SEG-12, SEG-13).
    pub fn check_place(&self, allocation: &Allocation, place: SegmentId, extents: &[Extent], findings: &mut Findings) {
        let supported = SegmentSet(allocation.supported_segment_set);
        let system = Extent { offset: allocation.backing_store, size: allocation.size };
        // An aperture segment in the set is system memory: the upgrade decides on which side of it (SEG-11).
        let right = if place.is_system() {
            self.names_aperture(supported) && !allocation.accessed_physically && extents == [system]
        } else if self.is_aperture(place) {
            supported.contains(place) && allocation.accessed_physically && extents.len() == 1
        } else {
            supported.contains(place)
                && self.is_memory(place)
                && (extents.len() == 1 || !allocation.accessed_physically)
        };
        let memory = self.memory(place);
        extents.iter().for_each(|&extent| memory.into_iter().for_each(|of| of.check_side(extent, false, findings)));
        findings.check(right, Invariant::I01, || {
            format!(
                "{extents:?} of segment {} is no place for {:?} with the set {:#x}, accessed physically: {}, backed by {system:?}",
                place.0, allocation.handle, allocation.supported_segment_set, allocation.accessed_physically
            )
        });
    }
}

impl SystemMemory {
    /// The host committed a range, which nobody else has.
    pub fn commit(&mut self, extent: Extent, findings: &mut Findings) {
        let (start, end) = (extent.offset, extent.offset.saturating_add(extent.size));
        let other = self.committed.within(start, end).next();
        findings.check(other.is_none(), Invariant::I01, || {
            format!("{extent:?} of system memory overlaps what was committed before: {other:?}")
        });
        self.committed.insert(start, end, ());
    }

    /// The host has a range back.
    pub fn decommit(&mut self, extent: Extent) {
        self.committed.remove(extent.offset, extent.offset.saturating_add(extent.size));
    }

    /// A plan enters the stream: in its turn, engines lose reach of so many bytes, and then reach so many others.
    pub fn turn_over(&mut self, plan: PlanNo, leave: u64, enter: u64, findings: &mut Findings) {
        self.resident = self.resident.saturating_sub(leave).saturating_add(enter);
        findings.check(enter == 0 || self.resident <= self.limit, Invariant::Seg50, || {
            format!(
                "plan {plan} raises what is resident in system memory to {} bytes; the limit is {}",
                self.resident, self.limit
            )
        });
    }
}
