//! The allocations that take room which the subject gave up.

use vidmm::{AllocationId, Event, Extent, PlanNo, SegmentId};

use super::tale::{Taker, Tale};

/// The number of rooms that are watched at the same time. One more takes the place of the oldest.
const WATCHED: usize = 64;

/// Rooms that were given up, and are partly free.
#[derive(Debug, Default)]
pub(super) struct Rooms(Vec<Room>);

/// A room that a plan empties.
#[derive(Debug)]
struct Room {
    /// The index of the sentence about the room.
    sentence: usize,
    plan: PlanNo,
    segment: SegmentId,
    free: Vec<Extent>,
}

impl Rooms {
    /// Adds the room that a plan empties, as a sentence tells.
    pub fn open(&mut self, sentence: usize, plan: PlanNo, segment: SegmentId, extents: &[Extent]) {
        if self.0.len() == WATCHED {
            self.0.remove(0);
        }
        self.0.push(Room { sentence, plan, segment, free: extents.to_vec() });
    }

    /// Records an allocation that comes into a segment: a plan that follows the one that empties a room may take it.
    pub fn learn(&mut self, event: &Event, subject: AllocationId, tale: &mut Tale) {
        match *event {
            Event::Placed { plan, allocation, segment, ref extents, .. } if allocation != subject => {
                self.take(plan, segment, extents, Taker::Allocation(allocation), tale);
            }
            // The subject takes the subject's own room back, so others find no room.
            Event::Placed { plan, segment, ref extents, .. } => self.close(plan, segment, extents),
            Event::PageTablePlaced { plan, address, size, .. } => {
                let extent = Extent { offset: address.offset, size };
                self.take(plan, address.segment, &[extent], Taker::PageTable, tale);
            }
            _ => {}
        }
    }

    fn take(&mut self, plan: PlanNo, segment: SegmentId, extents: &[Extent], taker: Taker, tale: &mut Tale) {
        for room in self.0.iter_mut().filter(|room| room.segment == segment && plan >= room.plan) {
            if room.cut(extents) {
                tale.taken_by(room.sentence, taker);
            }
        }
        self.0.retain(|room| !room.free.is_empty());
    }

    fn close(&mut self, plan: PlanNo, segment: SegmentId, extents: &[Extent]) {
        for room in self.0.iter_mut().filter(|room| room.segment == segment && plan >= room.plan) {
            room.cut(extents);
        }
        self.0.retain(|room| !room.free.is_empty());
    }
}

impl Room {
    /// Takes ranges out of the free ones. Returns `false` if they had no part in common.
    fn cut(&mut self, taken: &[Extent]) -> bool {
        let before = self.free.len();
        let mut any = false;
        for extent in taken {
            let (start, end) = (extent.offset, extent.offset.saturating_add(extent.size));
            let mut rest = Vec::with_capacity(before);
            for free in std::mem::take(&mut self.free) {
                let (from, to) = (free.offset, free.offset.saturating_add(free.size));
                any |= start < to && from < end;
                let parts = [(from, to.min(start)), (from.max(end), to)];
                let left = parts.into_iter().filter(|(from, to)| from < to);
                rest.extend(left.map(|(from, to)| Extent { offset: from, size: to - from }));
            }
            self.free = rest;
        }
        any
    }
}
