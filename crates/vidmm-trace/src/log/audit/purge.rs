//! Allocations after a reset of the adapter: their drivers hear of it, and content is lost only where its one right copy
//! was (FLT-32, FLT-34, I03).

use vidmm::contract::{BuildStatus, PagingOperation, Transfer, TransferFlags, UnmapApertureSegment};
use vidmm::{AllocationId, PAGE_SIZE, PhysicalAddress};

use super::Audit;
use super::allocation::{Allocation, Place};
use super::engines::Next;
use super::finding::Invariant;
use super::list_entry::{Span, Writes};

/// The state of an allocation's content, by the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Content {
    /// Its backing store has it.
    Kept,
    /// Work could write it where it is lost, but nothing says that it did.
    Unknown,
    /// Its one right copy is lost.
    Lost,
    /// It was being copied out, and it is destroyed: whether it is lost is told or not, but there are no bytes of it to keep.
    Halfway,
    /// It is lost, but bytes in system memory are its own: those that the GPU left there, and that its driver could not put right, or
    /// the copy that the CPU sees.
    AsLeft,
}

impl Audit {
    pub(super) fn purged(&mut self, id: AllocationId, operation: &PagingOperation, status: BuildStatus) {
        if status != BuildStatus::Success {
            self.must_follow(
                Next::Stop,
                Invariant::Flt32,
                format!("the driver answers {status:?} to the end of {id} after a reset"),
            );
        }
        if self.ends_loan(id, operation) {
            return;
        }
        let Some(reset) = &mut self.reset else { return };
        let is_new = reset.purged.insert(id);
        self.findings
            .check(is_new, Invariant::Flt32, || format!("the driver is told twice that {id} is not resident any more"));
        let Some(allocation) = self.allocations.get(&id) else { return };
        let right = self.known_place(id, allocation).and_then(|place| self.farewell(allocation, place));
        self.findings.check(right.as_ref() == Some(operation), Invariant::Flt32, || {
            format!("the driver is told {operation:?} of {id}, which must be {right:?}")
        });
    }

    /// The place in which the driver knows an allocation: that which it was to leave with a copy, or from the aperture, as long as the
    /// driver was not told all of that; else the one that was decided.
    fn known_place<'a>(&'a self, id: AllocationId, allocation: &'a Allocation) -> Option<&'a Place> {
        let left = self
            .unbuilt_victims()
            .find(|victim| victim.allocation == id && (victim.copied || self.places.is_aperture(victim.place.segment)));
        left.map(|victim| &victim.place).or(allocation.decided.as_ref())
    }

    /// The operations by which a driver hears of an allocation that lost its place: a transfer of nothing, or that its
    /// range of the aperture is unmapped (BPB-27).
    fn farewell(&self, allocation: &Allocation, place: &Place) -> Option<PagingOperation> {
        let offset = place.extents.first()?.offset;
        if self.places.is_memory(place.segment) {
            let at = PhysicalAddress { segment: place.segment, offset };
            let (source, destination) = (at, at);
            let allocation = allocation.handle;
            let nothing = Transfer {
                allocation,
                transfer_offset: 0,
                transfer_size: 0,
                source,
                destination,
                flags: TransferFlags::TRANSFER_START | TransferFlags::TRANSFER_END,
                mdl_offset: 0,
            };
            return Some(PagingOperation::Transfer(nothing));
        }
        let unmap = UnmapApertureSegment {
            allocation: allocation.handle,
            segment_id: place.segment,
            offset_in_pages: offset / PAGE_SIZE,
            number_of_pages: allocation.size / PAGE_SIZE,
            dummy_page: self.adapter.dummy_page,
        };
        self.places.is_aperture(place.segment).then_some(PagingOperation::UnmapApertureSegment(unmap))
    }

    /// The driver has heard of all that was in a segment.
    pub(super) fn check_purge(&mut self) {
        let Some(reset) = &self.reset else { return };
        let has_farewell = |(&id, allocation): (&AllocationId, &Allocation)| {
            let place = self.known_place(id, allocation).filter(|place| !place.segment.is_system());
            place.filter(|_| !reset.purged.contains(&id)).map(|_| id)
        };
        if reset.is_refused {
            return;
        }
        let untold: Vec<AllocationId> = self.allocations.iter().filter_map(has_farewell).collect();
        let lent = self.building.steps.victims.iter().filter_map(|victim| Some((victim.allocation, victim.lent?)));
        for (id, (segment, range)) in Vec::from_iter(lent) {
            self.findings.report(
                Invariant::Flt32,
                format!("the driver is not told that {range:?} of segment {} shows {id} no more", segment.0),
            );
        }
        for id in untold {
            self.findings
                .report(Invariant::Flt32, format!("the driver is not told that {id} is not resident any more"));
        }
    }

    pub(super) fn content_lost(&mut self, id: AllocationId, is_kept: bool) {
        let Some(reset) = &mut self.reset else { return };
        let is_new = reset.lost.insert(id, is_kept).is_none();
        self.findings.check(is_new, Invariant::I03, || format!("the content of {id} is lost twice"));
    }

    /// Content is lost where the log says so, and only there; from now on that is in no place, and else in the backing store.
    pub(super) fn settle_content(&mut self) {
        let Some(lost) = self.reset.as_ref().map(|reset| reset.lost.clone()) else { return };
        let ids: Vec<AllocationId> = self.allocations.keys().copied().collect();
        for id in ids {
            let right = self.content_of(id);
            let (is_lost, is_kept) = (lost.contains_key(&id), lost.get(&id) == Some(&true));
            let Some(allocation) = self.allocations.get_mut(&id) else { continue };
            let in_place = allocation.decided.as_ref().is_some_and(|place| self.places.in_system_memory(place.segment));
            let agrees = match right {
                Content::Kept => !is_lost,
                // A reset leaves the bytes that it finds in system memory there.
                Content::Unknown => !is_lost || is_kept || !in_place && !allocation.seen_in_backing_store,
                Content::Halfway => !is_lost || is_kept == allocation.seen_in_backing_store,
                Content::Lost => is_lost && !is_kept,
                Content::AsLeft => is_lost && is_kept,
            };
            self.findings.check(agrees, Invariant::I03, || {
                format!("after the reset the content of {id} is {right:?}, but said to be lost: {is_lost}, and kept: {is_kept}")
            });
            let is_zero = is_lost && !is_kept;
            allocation.backed = !is_zero && (allocation.backed || in_place && allocation.writes.certain);
            allocation.was_in_place = !is_zero && (allocation.was_in_place || in_place);
            allocation.writes = Writes::NONE;
        }
    }

    fn content_of(&mut self, id: AllocationId) -> Content {
        let (halfway, is_physical) = (self.plans.halfway_out(id), self.adapter.is_physical());
        let Some(allocation) = self.allocations.get_mut(&id) else { return Content::Kept };
        allocation.stop_cleaning();
        let wrote = |device, span: &Span| {
            let device: Option<&super::device::Device> = self.devices.get(device);
            device.is_some_and(|device| device.writes_in(span, allocation.moved_at).certain)
        };
        let mut spans =
            allocation.lists.iter().flat_map(|(device, entry)| entry.spans().map(move |span| (device, span)));
        let by_work = spans.any(|(device, span)| wrote(device, span));
        let by_cpu = allocation.cpu_view.as_ref().is_some_and(|view| !view.shown.0.is_system());
        allocation.writes.certain |= by_work || by_cpu;
        let lost = if allocation.seen_in_backing_store { Content::AsLeft } else { Content::Lost };
        if halfway.is_copied {
            return if allocation.destroyed { Content::Halfway } else { lost };
        }
        // A driver that puts content right before it leaves system memory may have begun to, or has not had the chance.
        let is_put_right = allocation.notify.contains(vidmm::contract::AllocationFlags2::NOTIFY_EVICTION);
        let Some(place) = &allocation.decided else {
            return if halfway.is_out && is_put_right { Content::Unknown } else { Content::Kept };
        };
        let arrives_with = place.plan.max(allocation.refreshed_by);
        let has_arrived = self.plans.is_retired(arrives_with);
        let in_place = self.places.in_system_memory(place.segment);
        match (in_place, allocation.writes.certain) {
            (true, _) if !is_put_right => Content::Kept,
            // Content that has not arrived cannot have been written: the copy that it comes from is right.
            (false, _) if !has_arrived => {
                // Work that waits for it was handed out, and that it has arrived may only not have been heard.
                // Nor does the log say what a portion writes.
                let built = self.plans.get(arrives_with).and_then(|plan| plan.built);
                let may_have_run = built.is_some_and(|fence_id| fence_id <= self.fences.awaited);
                match by_work || is_physical || may_have_run || halfway.is_out && is_put_right {
                    true => Content::Unknown,
                    false => Content::Kept,
                }
            }
            (true, true) if !allocation.destroyed => Content::AsLeft,
            (_, true) if !allocation.destroyed => lost,
            _ => Content::Unknown,
        }
    }
}
