//! Cleaning: content is copied out ahead of an eviction, while its allocation stays in place (D37).

use vidmm::{AllocationId, PlanNo};

use super::Audit;
use super::allocation::Place;
use super::aspects::Chunk;
use super::finding::Invariant;
use super::list_entry::Writes;
use super::plans::Stage;

/// The cleaning of an allocation that is clean in part.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begun {
    /// The event of the first part.
    at: u64,
    /// The first byte of the next part.
    next: u64,
}

/// The part of an allocation that a plan copies out.
#[derive(Debug)]
pub(super) struct CleanPart {
    pub allocation: AllocationId,
    place: Place,
    part: Chunk,
    /// Bytes copied so far.
    moved: u64,
}

/// What an event says of a part.
pub(super) struct Said {
    pub part: Chunk,
    pub is_last: bool,
    pub ahead: u64,
    pub watermark: u64,
}

impl Audit {
    /// A plan copies a part of an allocation out, which stays. The reason must hold, nobody may be waiting for the paging engine, and
    /// nothing may write meanwhile.
    pub(super) fn cleaned(&mut self, plan: PlanNo, id: AllocationId, said: Said) {
        let Said { part, is_last, ahead, watermark } = said;
        self.check_has_power(|| format!("{id} is cleaned"));
        self.findings.check(ahead < watermark, Invariant::D37, || {
            format!("{id} is cleaned, but {ahead} bytes go before it, and {watermark} are to be clean")
        });
        let in_stream = self.plans.all().any(|plan| plan.stage == Stage::Entered);
        let is_idle = !in_stream && self.fences.engine(self.fences.paging_engine).is_none_or(|books| books.in_flight.is_empty());
        self.findings.check(is_idle, Invariant::D37, || {
            format!("{id} is cleaned while the paging engine has something else to do")
        });
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        let place = allocation.decided.clone().filter(|place| self.places.is_memory(place.segment));
        let may_be_kept = allocation.offer.is_none()
            && !allocation.destroyed
            && allocation.cpu_view.is_none()
            && !allocation.seen_in_backing_store
            && !allocation.existing_sys_mem;
        self.findings.check(place.is_some() && may_be_kept, Invariant::D37, || {
            format!("{id} is cleaned, but its content is not in a memory segment alone, or its owner or the CPU has it")
        });
        let Some(place) = place else { return };
        self.findings.check(self.plans.is_retired(allocation.last_plan), Invariant::D37, || {
            format!("{id} is cleaned before plan {} has ended, which moves it", allocation.last_plan)
        });
        let begun = match (part.offset, allocation.cleaning) {
            (0, _) => Some(Begun { at: self.findings.event, next: 0 }),
            (_, begun) => begun,
        };
        let goes_on = begun.is_some_and(|begun| begun.next == part.offset);
        let end = part.offset.saturating_add(part.size);
        self.findings.check(goes_on && is_last == (end == allocation.size) && end <= allocation.size, Invariant::I10, || {
            format!("{part:?} of {id} is cleaned, which has {} bytes and is clean as said: {begun:?}", allocation.size)
        });
        let since = begun.map_or(0, |begun| begun.at);
        for (device_id, entry) in &allocation.lists {
            let Some(device) = self.devices.get(device_id) else { continue };
            for span in entry.spans().filter(|span| span.granted) {
                let required = span.to.is_none() || device.undispatched_in(span).is_some();
                let is_used = required && device.requires_its_list() || device.in_flight_in(span).is_some();
                self.findings.check(!is_used, Invariant::D37, || {
                    format!("{id} is cleaned, but {device_id} may write to it after submission {}", span.from)
                });
                allocation.writes.add(device.writes_in(span, allocation.moved_at));
                let is_written = part.offset > 0 && device.writes_in(span, since).possible;
                self.findings.check(!is_written, Invariant::D37, || {
                    format!("{id} was written since its first {} bytes were cleaned", part.offset)
                });
            }
        }
        self.findings.check(allocation.writes.possible, Invariant::Res22, || {
            format!("{id} is cleaned, but has no write that the backing store lacks")
        });
        allocation.cleaning = begun.map(|begun| Begun { next: end, ..begun }).filter(|_| !is_last);
        if is_last {
            // An eviction before the next write copies nothing.
            (allocation.writes, allocation.backed) = (Writes::NONE, true);
            allocation.moved_at = self.findings.event;
        }
        let draft = self.plans.draft(plan);
        draft.cleaned.push(id);
        draft.steps.clean = Some(CleanPart { allocation: id, place, part, moved: 0 });
    }

    /// Counts a chunk of a part that is cleaned. Returns where the allocation is; none if the plan does not clean it.
    pub(super) fn chunk_cleaned(&mut self, id: AllocationId, chunk: Chunk) -> Option<Place> {
        let clean = self.building.steps.clean.as_mut().filter(|clean| clean.allocation == id)?;
        let (before, place) = (clean.part.offset.saturating_add(clean.moved), clean.place.clone());
        clean.moved = clean.moved.saturating_add(chunk.size);
        self.check_chunk(id, chunk, before);
        Some(place)
    }

    /// A plan is built to its end: it has copied the part that it was to copy.
    pub(super) fn check_is_clean(&mut self, plan: PlanNo, clean: &CleanPart) {
        let CleanPart { allocation, part, moved, .. } = clean;
        self.findings.check(*moved == part.size, Invariant::I10, || {
            format!("plan {plan} ends with {moved} bytes of {allocation} cleaned, which must be {}", part.size)
        });
    }
}
