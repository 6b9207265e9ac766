//! Cleaning: content is copied out ahead of an eviction, while its allocation stays in place (D37).

use std::collections::BTreeMap;

use vidmm::{AllocationId, DeviceId, PAGE_SIZE_64K, PlanNo};

use super::Audit;
use super::allocation::{Allocation, Place};
use super::aspects::{Begun, Chunk};
use super::device::Device;
use super::finding::Invariant;
use super::list_entry::Writes;
use super::plans::CleanPart;

/// The claims of an event about a part.
pub(super) struct Said {
    pub part: Chunk,
    pub is_last: bool,
    pub ahead: u64,
    pub watermark: u64,
}

/// The longest chunk, in nanoseconds.
const CHUNK_NS: u64 = 250_000;

/// The link, as cleaned parts show the link.
#[derive(Debug, Default)]
pub(super) struct Link {
    /// The last part: the plan, the bytes, and the time of the decision.
    last: Option<(PlanNo, u64, u64)>,
    /// The bytes that the link carries in the time of a chunk; none before the first part has ended.
    chunk_bytes: Option<u64>,
}

impl Link {
    /// A plan has retired. The plan of the last part shows the speed of the link.
    pub fn retired(&mut self, plan: PlanNo, at: u64) {
        if let Some((_, bytes, began_at)) = self.last.take_if(|(last, ..)| *last == plan) {
            let took = at.saturating_sub(began_at).max(1);
            let carried = u128::from(bytes) * u128::from(CHUNK_NS) / u128::from(took);
            self.chunk_bytes = Some(u64::try_from(carried).unwrap_or(u64::MAX));
        }
    }

    /// The most bytes of a part: the bytes that the link carries in the time of a chunk, and at least 64 KiB.
    fn most(&self) -> u64 {
        self.chunk_bytes.unwrap_or(0).max(PAGE_SIZE_64K)
    }
}

impl Allocation {
    /// Notes the writes by dispatched work and by the CPU.
    fn note_writes(&mut self, devices: &BTreeMap<DeviceId, Device>) {
        for (device, entry) in &self.lists {
            let Some(device) = devices.get(device) else { continue };
            for span in entry.spans().filter(|span| span.granted) {
                self.writes.add(device.writes_in(span, self.moved_at));
            }
        }
        if self.cpu_view.as_ref().is_some_and(|view| !view.shown.0.is_system()) {
            self.writes.add(Writes::BY_CPU);
        }
    }
}

impl Audit {
    /// A plan copies a part of a staying allocation out. The reason must hold, nobody may be waiting for the paging engine, and
    /// nothing may write meanwhile.
    pub(super) fn cleaned(&mut self, plan: PlanNo, id: AllocationId, said: Said) {
        let Said { part, is_last, ahead, watermark } = said;
        self.check_has_power(|| format!("{id} is cleaned"));
        self.findings.check(ahead < watermark, Invariant::D37, || {
            format!("{id} is cleaned, but {ahead} bytes go before it, and {watermark} are to be clean")
        });
        self.findings.check(self.paging_is_idle(), Invariant::D37, || {
            format!("{id} is cleaned while the paging engine has something else to do")
        });
        self.findings.check(part.size <= self.link.most(), Invariant::D37, || {
            format!(
                "{} bytes of {id} are cleaned at once, and the link carries {} in 250 us",
                part.size,
                self.link.most()
            )
        });
        self.link.last = Some((plan, part.size, self.at));
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        let place = allocation.decided.clone().filter(|place| self.places.is_memory(place.segment));
        let may_be_kept = allocation.offer.is_none()
            && !allocation.destroyed
            && allocation.cpu_view.is_none()
            && !allocation.seen_in_backing_store
            && !allocation.existing_sys_mem;
        self.findings.check(place.is_some() && may_be_kept, Invariant::D37, || {
            format!("{id} is cleaned, but the content is not in a memory segment alone, or the owner or the CPU has the content")
        });
        let Some(place) = place else { return };
        self.findings.check(self.plans.is_retired(allocation.last_plan), Invariant::D37, || {
            format!("{id} is cleaned before the end of plan {}, the last plan of the allocation", allocation.last_plan)
        });
        for (device_id, entry) in &allocation.lists {
            let Some(device) = self.devices.get(device_id) else { continue };
            for span in entry.spans().filter(|span| span.granted) {
                let required = span.to.is_none() || device.undispatched_in(span).is_some();
                let is_used = required && device.requires_its_list() || device.in_flight_in(span).is_some();
                self.findings.check(!is_used, Invariant::D37, || {
                    format!("{id} is cleaned, but {device_id} may write to it after submission {}", span.from)
                });
            }
        }
        allocation.note_writes(&self.devices);
        if part.offset == 0 {
            allocation.stop_cleaning();
            let before = core::mem::replace(&mut allocation.writes, Writes::NONE);
            self.findings.check(before.possible, Invariant::Res22, || {
                format!("{id} is cleaned, but has no write that the backing store lacks")
            });
            allocation.moved_at = self.findings.event;
            allocation.cleaning = Some(Begun { next: 0, before });
        }
        self.findings.check(!allocation.writes.certain, Invariant::D37, || {
            format!("{id} was written since its first {} bytes were cleaned", part.offset)
        });
        let end = part.offset.saturating_add(part.size);
        let goes_on = allocation.cleaning.is_some_and(|begun| begun.next == part.offset);
        self.findings.check(
            goes_on && is_last == (end == allocation.size) && end <= allocation.size,
            Invariant::I10,
            || {
                let (size, begun) = (allocation.size, allocation.cleaning);
                format!("{part:?} of {id} is cleaned, which has {size} bytes and is clean as said: {begun:?}")
            },
        );
        allocation.cleaning = allocation.cleaning.map(|begun| Begun { next: end, ..begun });
        let draft = self.plans.draft(plan);
        draft.cleaned = is_last.then_some(id);
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

    /// The copy of the last part has ended: the backing store has all writes before the first part. Writes since then void the copy.
    pub(super) fn settle_cleaning(&mut self, id: AllocationId) {
        let Some(allocation) = self.allocations.get_mut(&id).filter(|allocation| allocation.cleaning.is_some()) else {
            return;
        };
        allocation.note_writes(&self.devices);
        if allocation.writes.certain {
            return allocation.stop_cleaning();
        }
        (allocation.backed, allocation.cleaning) = (true, None);
    }

    /// A plan is built to its end: the whole part is copied.
    pub(super) fn check_is_clean(&mut self, plan: PlanNo, clean: &CleanPart) {
        let CleanPart { allocation, part, moved, .. } = clean;
        self.findings.check(*moved == part.size, Invariant::I10, || {
            format!("plan {plan} ends with {moved} bytes of {allocation} cleaned, which must be {}", part.size)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_is_no_larger_than_the_bytes_carried_in_250_us() {
        let mut link = Link::default();
        assert_eq!(link.most(), PAGE_SIZE_64K, "nothing is known of the link");
        link.last = Some((7, PAGE_SIZE_64K, 1_000));
        link.retired(6, 2_000);
        assert_eq!(link.most(), PAGE_SIZE_64K, "that was another plan");
        link.retired(7, 26_000);
        assert_eq!(link.most(), 10 * PAGE_SIZE_64K);
        link.last = Some((8, PAGE_SIZE_64K, 30_000));
        link.retired(8, 1_030_000);
        assert_eq!(link.most(), PAGE_SIZE_64K, "the least part");
    }
}
