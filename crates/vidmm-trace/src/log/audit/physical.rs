//! Content that moves between physical places: transfers, fills, and what leaves without a copy (I10).

use vidmm::PhysicalAddress;
use vidmm::SegmentId;
use vidmm::contract::{DiscardContent, Fill, Transfer, TransferFlags};
use vidmm::event::ContentSource;

use super::Audit;
use super::aspects::Chunk;
use super::finding::Invariant;

impl Audit {
    /// A part of an allocation moves from where it is to where it was placed (BPB-20, BPB-21).
    pub(super) fn physical_transfer(&mut self, op: &Transfer) {
        let Some(id) = self.named(op.allocation) else { return };
        let chunk = Chunk { offset: op.transfer_offset, size: op.transfer_size };
        let is_out = self.places.is_memory(op.source.segment);
        let place = match is_out {
            true => self.chunk_out(id, chunk),
            false => self.chunk_in(id, chunk, ContentSource::BackingStore),
        };
        let Some(place) = place else { return self.report_unplanned(id, chunk) };
        let (local, system) = match is_out {
            true => (op.first_source(), op.first_destination()),
            false => (op.first_destination(), op.first_source()),
        };
        let (size, store) =
            self.allocations.get(&id).map_or((0, 0), |allocation| (allocation.size, allocation.backing_store));
        let lent = self.victim(id).and_then(|victim| victim.lent).filter(|_| is_out);
        let other_side = match lent {
            Some((segment, lent)) => PhysicalAddress { segment, offset: lent.offset },
            None => PhysicalAddress { segment: SegmentId::SYSTEM, offset: store },
        };
        let store = other_side.offset_by(chunk.offset);
        let right = place.runs(chunk.offset, chunk.size) == [(local, chunk.size)] && system == store;
        self.findings.check(right, Invariant::I10, || {
            format!("{chunk:?} of {id} moves between {local:?} and {system:?}, but is in {place:?} and at {store:?}")
        });
        let mut ends = TransferFlags::empty();
        ends.set(TransferFlags::TRANSFER_START, chunk.offset == 0);
        ends.set(TransferFlags::TRANSFER_END, chunk.offset.saturating_add(chunk.size) == size);
        let stated = op.flags & (TransferFlags::TRANSFER_START | TransferFlags::TRANSFER_END);
        self.findings.check(stated == ends, Invariant::I22, || {
            format!("{chunk:?} of {id}, which has {size} bytes, moves with the flags {stated:?}")
        });
    }

    /// An allocation gets its first content, all of it, where it was placed (BPB-24).
    pub(super) fn physical_fill(&mut self, op: &Fill) {
        let Some(id) = self.named(op.allocation) else { return };
        let chunk = Chunk { offset: 0, size: op.fill_size };
        let Some(place) = self.chunk_in(id, chunk, ContentSource::Fill) else {
            return self.report_unplanned(id, chunk);
        };
        self.check_zeros(id, op.fill_pattern);
        let right = place.runs(0, op.fill_size) == [(op.destination, op.fill_size)];
        self.findings.check(right, Invariant::I10, || {
            format!("{chunk:?} of {id} is filled at {:?}, but goes to {place:?}", op.destination)
        });
    }

    /// An allocation leaves the memory segment, and is not copied (BPB-25).
    pub(super) fn discard_content(&mut self, op: &DiscardContent) {
        let Some(id) = self.named(op.allocation) else { return };
        let (segment, offset) = (op.address.segment, op.address.offset);
        let victim = self.victim_mut(id).filter(|victim| victim.place.segment == segment && !victim.copied);
        let is_decided = victim.is_some_and(|victim| {
            let Some(discards) = &mut victim.discards else { return true };
            let at = discards.iter().position(|&discarded| discarded == offset);
            at.map(|at| discards.swap_remove(at)).is_some()
        });
        self.findings.check(is_decided, Invariant::U13, || {
            format!(
                "the driver is told that {id} leaves {:?} without a copy, which the plan did not decide",
                op.address
            )
        });
    }
}
