//! The aperture segments as they are built: which of their pages show which backing store (I24).

use std::collections::BTreeMap;

use vidmm::contract::{
    KmdAllocationHandle, MapApertureFlags, MapApertureSegment, PagingOperation, UnmapApertureSegment,
};
use vidmm::event::EvictReason;
use vidmm::{AllocationId, DeviceId, Extent, PAGE_SIZE, PAGE_SIZE_64K, PhysicalAddress, PlanNo, SegmentId};

use super::Audit;
use super::allocation::{Allocation, Place};
use super::finding::Invariant;
use super::list_entry::{ListEntry, Span};
use super::plans::{Stage, Victim};

/// A range of an aperture that an allocation leaves because it is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Emptied {
    plan: PlanNo,
    /// Whether the allocation only moves: it goes wherever it is out of the way.
    is_moved: bool,
    allocation: AllocationId,
    segment: SegmentId,
    extent: Extent,
}

/// The mapped ranges, by segment and first byte. All else shows the dummy page.
#[derive(Debug, Default)]
pub(super) struct Apertures(BTreeMap<(SegmentId, u64), Shown>);

/// A range that one operation mapped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Shown {
    size: u64,
    allocation: KmdAllocationHandle,
}

impl Apertures {
    /// The ranges that are mapped at some of these bytes: where each begins, and how long it is.
    fn overlapping(&self, segment: SegmentId, extent: Extent) -> Option<Extent> {
        let end = (segment, extent.offset.saturating_add(extent.size));
        let (&(_, offset), shown) = self.0.range((segment, 0)..end).next_back()?;
        (offset.saturating_add(shown.size) > extent.offset).then_some(Extent { offset, size: shown.size })
    }

    /// Whether the pages show the allocation.
    pub fn shows(&self, segment: SegmentId, offset: u64, allocation: KmdAllocationHandle) -> bool {
        self.0.get(&(segment, offset)).is_some_and(|shown| shown.allocation == allocation)
    }
}

/// The bytes of pages of the aperture.
fn bytes(offset_in_pages: u64, number_of_pages: u64) -> Extent {
    Extent { offset: offset_in_pages.saturating_mul(PAGE_SIZE), size: number_of_pages.saturating_mul(PAGE_SIZE) }
}

impl Audit {
    /// An allocation leaves its range of an aperture, which is wanted.
    pub(super) fn range_is_emptied(&mut self, allocation: AllocationId, place: &Place, reason: EvictReason) {
        if matches!(reason, EvictReason::RangeWanted | EvictReason::Moved)
            && let [extent] = place.extents[..]
        {
            let (plan, segment, is_moved) = (place.plan, place.segment, reason == EvictReason::Moved);
            self.emptied.push(Emptied { plan, is_moved, allocation, segment, extent });
        }
    }

    /// A request is granted by `plans`: no range is emptied for an allocation that could have one where nothing is mapped, for which
    /// nobody must go (docs of `ApertureRanges`). Ranges that are assigned and show nothing the log does not tell.
    pub(super) fn check_emptied(&mut self, device: DeviceId, plans: &[PlanNo]) {
        let (moved, emptied): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.emptied).into_iter().partition(|emptied| emptied.is_moved);
        let is_moved =
            |id: &AllocationId| moved.iter().any(|moved| moved.allocation == *id && plans.contains(&moved.plan));
        for &Emptied { plan, allocation, segment, extent, .. } in &emptied {
            if self.adapter.is_physical() || !plans.contains(&plan) || self.may_have_hidden_range(segment) {
                continue;
            }
            let is_for = |of: &Allocation| {
                let place = of.decided.as_ref().filter(|place| (place.plan, place.segment) == (plan, segment));
                let covers = |there: &Extent| there.offset < extent.end() && extent.offset < there.end();
                let holds = |span: &&Span| span.to.is_none() || self.holds_span(device, span);
                let of_others = of.lists.iter().filter(|&(&other, _)| other != device);
                place.is_some_and(|place| place.extents.iter().any(covers))
                    && of.lists.get(&device).is_some_and(|entry| entry.spans().filter(holds).count() == 1)
                    && of_others.map(|(_, entry)| entry).flat_map(ListEntry::spans).next().is_none()
            };
            let mut wanting = self.allocations.iter().filter(|(id, _)| !is_moved(id));
            let Some(size) = wanting.find(|(_, of)| is_for(of)).map(|(_, of)| of.size) else { continue };
            let vacant = self.vacant_range(segment, size, &emptied);
            self.findings.check(vacant.is_none(), Invariant::I24, || {
                format!("{allocation} leaves {extent:?} of the aperture for {device}, but {vacant:?} shows nothing")
            });
        }
    }

    /// Whether work of a device that is not dispatched still holds a span.
    pub(super) fn holds_span(&self, device: DeviceId, span: &Span) -> bool {
        self.devices.get(&device).is_some_and(|device| device.still_holds(span))
    }

    /// Whether an allocation may have a range of an aperture that does not show it.
    fn may_have_hidden_range(&self, segment: SegmentId) -> bool {
        self.allocations.values().any(|of| {
            let is_there = of.decided.as_ref().is_some_and(|place| place.segment == segment);
            let is_pinned = of
                .lists
                .iter()
                .any(|(&device, entry)| entry.spans().any(|span| span.to.is_none() || self.holds_span(device, span)));
            of.accessed_physically && !is_there && is_pinned
        })
    }

    /// A range of `size` bytes of an aperture that shows nothing, that no plan is about to empty, and that is not one of `emptied`: a plan
    /// that resumes a device has been entered when a request of the device is granted by it.
    fn vacant_range(&self, segment: SegmentId, size: u64, emptied: &[Emptied]) -> Option<Extent> {
        let aperture = self.places.apertures.iter().find(|aperture| aperture.id == segment)?;
        let shown = self.allocations.values().filter_map(|of| of.decided.as_ref());
        let leaving = self.plans.all().filter(|plan| plan.stage != Stage::Entered).flat_map(|plan| &plan.steps.victims);
        let places = shown.chain(leaving.map(|victim| &victim.place)).filter(|place| place.segment == segment);
        let emptied = emptied.iter().filter(|emptied| emptied.segment == segment).map(|emptied| emptied.extent);
        let mut taken: Vec<Extent> = places.flat_map(|place| place.extents.iter().copied()).chain(emptied).collect();
        taken.push(Extent { offset: aperture.size, size: 0 });
        taken.sort_unstable_by_key(|extent| extent.offset);
        let mut free_from = 0;
        for extent in taken {
            let offset = u64::next_multiple_of(free_from, PAGE_SIZE_64K);
            if offset.saturating_add(size) <= extent.offset {
                return Some(Extent { offset, size });
            }
            free_from = free_from.max(extent.end());
        }
        None
    }

    /// Pages begin to show an allocation: all of it, at the place that the plan gives it, when nothing else is mapped there.
    pub(super) fn map_aperture(&mut self, op: &MapApertureSegment) {
        let Some(id) = self.named(op.allocation) else { return };
        let range = bytes(op.offset_in_pages, op.number_of_pages);
        self.check_arrives_in_aperture(id, op.segment_id, range);
        let offset = self.allocations.get(&id).map_or(0, |allocation| allocation.backing_store);
        let store = PhysicalAddress { segment: SegmentId::SYSTEM, offset };
        self.findings.check(op.mdl == store, Invariant::I24, || {
            format!("{range:?} of the aperture is to show {:?}, but {id} is at {store:?}", op.mdl)
        });
        let is_cached = self.allocations.get(&id).is_some_and(|allocation| allocation.cached);
        let right = is_cached && self.places.is_cache_coherent(op.segment_id);
        self.findings.check(op.flags.contains(MapApertureFlags::CACHE_COHERENT) == right, Invariant::I24, || {
            format!("{range:?} of the aperture shows {id} with {:?} (BPB-30)", op.flags)
        });
        let other = self.apertures.overlapping(op.segment_id, range);
        self.findings.check(other.is_none(), Invariant::I24, || {
            format!("{range:?} of the aperture is mapped for {id}, but {other:?} of it is mapped already")
        });
        self.apertures.0.insert((op.segment_id, range.offset), Shown { size: range.size, allocation: op.allocation });
    }

    fn check_arrives_in_aperture(&mut self, id: AllocationId, segment: SegmentId, range: Extent) {
        let arrives = self.building.steps.arrivals.iter().any(|arrival| {
            arrival.allocation == id && arrival.place.segment == segment && arrival.place.extents == [range]
        });
        let is_lent = self.lend(id, segment, range);
        self.findings.check((arrives || is_lent) && self.places.is_aperture(segment), Invariant::I24, || {
            format!("{range:?} of segment {} is mapped for {id}, which the plan does not place there", segment.0)
        });
    }

    /// Whether content may leave through the range: what is copied out of the memory segment of an adapter without GPU virtual
    /// addresses, all of which is mapped there for as long as that takes (SEG-45).
    fn may_borrow(&self, victim: &Victim, range: Extent) -> bool {
        let size = self.allocations.get(&victim.allocation).map_or(0, |allocation| allocation.size);
        let leaves = victim.copied && self.places.is_memory(victim.place.segment);
        leaves && self.adapter.is_physical() && range.size == size
    }

    /// A range is mapped for what leaves through it. Returns whether it may be.
    fn lend(&mut self, id: AllocationId, segment: SegmentId, range: Extent) -> bool {
        let may = self.victim(id).is_some_and(|victim| victim.moved == 0 && self.may_borrow(victim, range));
        may && self.victim_mut(id).is_some_and(|victim| victim.lent.replace((segment, range)).is_none())
    }

    /// Whether a driver hears after a reset that the range is unmapped which was lent to what was leaving.
    pub(super) fn ends_loan(&mut self, id: AllocationId, operation: &PagingOperation) -> bool {
        let &PagingOperation::UnmapApertureSegment(op) = operation else { return false };
        if self.by_handle.get(&op.allocation) != Some(&id) || op.dummy_page != self.adapter.dummy_page {
            return false;
        }
        let lent = (op.segment_id, bytes(op.offset_in_pages, op.number_of_pages));
        if self.sees_operations() {
            return self.victim_mut(id).is_some_and(|victim| victim.lent.take_if(|of| *of == lent).is_some());
        }
        // Operations alone tell which range was lent.
        let may = |victim: &Victim| victim.allocation == id && self.may_borrow(victim, lent.1);
        self.places.is_aperture(op.segment_id) && self.unbuilt_victims().any(may)
    }

    /// Pages that showed an allocation show the dummy page: what was mapped, when no process sees it any more (BPB-33).
    pub(super) fn unmap_aperture(&mut self, op: &UnmapApertureSegment) {
        let Some(id) = self.named(op.allocation) else { return };
        let range = bytes(op.offset_in_pages, op.number_of_pages);
        let segment = op.segment_id;
        let is_it = |lent: &mut (SegmentId, Extent)| *lent == (segment, range);
        let was_lent = self.victim_mut(id).is_some_and(|victim| victim.lent.take_if(is_it).is_some());
        let leaves = was_lent || self.victim(id).is_some_and(|victim| victim.place.segment == segment);
        self.findings.check(leaves && self.places.is_aperture(segment), Invariant::I24, || {
            format!("{range:?} of segment {} is unmapped, but {id} does not leave it", op.segment_id.0)
        });
        let shown = Shown { size: range.size, allocation: op.allocation };
        let found = self.apertures.0.remove(&(segment, range.offset));
        self.findings.check(found == Some(shown), Invariant::I24, || {
            format!("{range:?} of the aperture is unmapped for {id}, but what is mapped there is {found:?}")
        });
        let dummy = self.adapter.dummy_page;
        self.findings.check(op.dummy_page == dummy, Invariant::I24, || {
            format!("{range:?} of the aperture is to show {:?}; the dummy page is {dummy:?}", op.dummy_page)
        });
        self.check_hidden(id, Invariant::I05);
        self.check_told(id);
    }

    /// Entries may point to an aperture only where it is mapped.
    pub(super) fn check_mapped_in_aperture(&mut self, id: AllocationId) {
        let Some(allocation) = self.allocations.get(&id) else { return };
        let place = allocation.built.as_ref().filter(|place| self.places.is_aperture(place.segment));
        let Some((segment, extent)) = place.and_then(|place| Some((place.segment, place.extents.first()?))) else {
            return;
        };
        self.findings.check(self.apertures.shows(segment, extent.offset, allocation.handle), Invariant::I24, || {
            format!("entries for {id} become valid, but {extent:?} of the aperture shows the dummy page")
        });
    }

    /// A plan is built to its end: the range of an aperture that is an allocation's place shows it, or no longer does.
    pub(super) fn check_aperture(&mut self, id: AllocationId, place: &Place, mapped: bool) {
        let (Some(allocation), Some(extent)) = (self.allocations.get(&id), place.extents.first()) else { return };
        let shows = self.apertures.shows(place.segment, extent.offset, allocation.handle);
        self.findings.check(shows == mapped, Invariant::I24, || {
            format!("{extent:?} of the aperture shows {id}: {shows}, which must be {mapped}")
        });
    }
}
