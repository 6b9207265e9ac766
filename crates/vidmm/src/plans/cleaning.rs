//! Cleaning: a part of the content of a resident allocation is copied out ahead of an eviction (D37).

use crate::{
    event::Event,
    id::{AllocationIx, PlanNo},
    objects::{Objects, place::Place},
    plans::{CleanPart, InMemory, Plans, draft::Draft},
    residency::pins,
    state::State,
};

/// A part of an allocation to be cleaned, and the reason.
pub(crate) struct ToClean {
    pub index: AllocationIx,
    /// The first byte, and the number of bytes.
    pub offset: u64,
    pub size: u64,
    /// The bytes of the memory that go before the allocation, or are free beyond a half of the memory.
    pub ahead: u64,
    /// The bytes at the cold end of the memory that are to be clean.
    pub watermark: u64,
}

impl Plans {
    /// Decides a plan that copies a part of an allocation to the backing store. The plan waits for nothing, and nothing waits for the
    /// plan: the allocation's last plan stays the same. A later plan for the allocation runs later, as the plan enters the stream at once.
    pub(crate) fn plan_clean(&mut self, state: &mut State, part: &ToClean) -> PlanNo {
        let &ToClean { index, offset, size, ahead, watermark } = part;
        let number = self.stream.next_number();
        let Some(Place::Memory(account, place)) = state.objects[index].place else {
            unreachable!("content of a memory segment is cleaned")
        };
        let allocation = &mut state.objects[index];
        let (extents, store) = (allocation.extents(place), allocation.store());
        if offset == 0 {
            allocation.begin_cleaning();
        }
        let part = CleanPart { allocation: index, of: InMemory { account, extents, store }, offset, size };
        let is_last = part.is_last();
        let mut draft = Draft { plan: self.stream.blank(), decided: true, ..Draft::default() };
        draft.plan.clean(part);
        let statistics = state.moment.statistics_mut();
        statistics.bytes_paged_out += size;
        statistics.bytes_cleaned += size;
        state.objects.count(index, account, |traffic| traffic.bytes_paged_out += size);
        let allocation = state.objects.allocation_id(index);
        let plan = number;
        state.moment.record(|| Event::Cleaned { plan, allocation, offset, size, is_last, ahead, watermark });
        self.decide(&mut state.moment, &state.objects, draft);
        number
    }
}

/// The copy of a part has ended. The last part makes the content clean, unless work that was handed out since the first part writes.
pub(crate) fn settle(objects: &mut Objects, part: &CleanPart) {
    if part.is_last() {
        pins::note_writes_to(objects, part.allocation);
        objects[part.allocation].end_cleaning();
    }
}
