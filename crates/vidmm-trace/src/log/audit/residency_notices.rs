//! NOTIFY_RESIDENCY: drivers that asked know where in memory segments their allocations are (BPB-51, I09).

use vidmm::contract::NotifyResidency;
use vidmm::{AllocationId, PhysicalAddress, SegmentId};

use super::Audit;
use super::allocation::Place;
use super::aspects::Residency;
use super::finding::Invariant;

impl Audit {
    /// The driver hears of an arrival after all bytes, of a departure before any byte, and of each once.
    pub(super) fn notify_residency(&mut self, op: &NotifyResidency) {
        let Some(id) = self.named(op.allocation) else { return };
        let (moved, right) = match op.resident {
            true => {
                let arrival = self.building.steps.arrivals.iter().find(|arrival| arrival.allocation == id);
                let place = arrival.and_then(|arrival| self.address_in_memory(&arrival.place));
                (arrival.map(|arrival| arrival.moved), place)
            }
            false => {
                let victim = self.victim(id).filter(|victim| self.places.is_memory(victim.place.segment));
                let nowhere = PhysicalAddress { segment: SegmentId::SYSTEM, offset: 0 };
                (victim.map(|victim| victim.moved), victim.map(|_| nowhere))
            }
        };
        let Some(allocation) = self.allocations.get_mut(&id) else { return };
        let due = if op.resident { allocation.size } else { 0 };
        let Some(Residency(known)) = &mut allocation.residency else {
            let message = format!("the residency of {id} is notified, but its driver did not ask for that");
            return self.findings.report(Invariant::I09, message);
        };
        let before = std::mem::replace(known, op.resident.then_some(op.physical_address));
        self.findings.check(right == Some(op.physical_address), Invariant::I09, || {
            format!("{op:?} of {id} is notified, but the plan decided {right:?}")
        });
        self.findings.check(moved == Some(due), Invariant::I09, || {
            format!("{op:?} of {id} is notified when {moved:?} bytes have moved, and {due} must have")
        });
        self.findings.check(before.is_some() != op.resident, Invariant::I09, || {
            format!("{op:?} of {id} is notified when its driver knows it to be at {before:?}")
        });
    }

    /// A plan is built to its end, or takes out what it takes out: the driver has heard where the allocation is.
    pub(super) fn check_residency_told(&mut self, id: AllocationId, place: Option<&Place>) {
        let right = place.and_then(|place| self.address_in_memory(place));
        let known = self.allocations.get(&id).and_then(|allocation| allocation.residency);
        self.findings.check(known.is_none_or(|Residency(known)| known == right), Invariant::I09, || {
            format!("the driver knows of {id}: {known:?}, which is at {right:?}")
        });
    }

    /// Where in a memory segment a place begins.
    fn address_in_memory(&self, place: &Place) -> Option<PhysicalAddress> {
        let first = place.extents.first().filter(|_| self.places.is_memory(place.segment))?;
        Some(PhysicalAddress { segment: place.segment, offset: first.offset })
    }
}
