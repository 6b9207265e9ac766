//! Copies of both directions at the same time.

use vidmm::Nanoseconds;
use vidmm::contract::MemoryTransferDirection;

use crate::physical::{PhysicalRun, Place};

/// The last copies of a copy engine with a channel for each direction.
///
/// A channel begins a copy once the packet of the copy was submitted, the channel is free, and earlier copies of the other direction
/// with a page in common have ended. So the copy of a packet may have begun before the packet: only the rest of the copy takes
/// time. Copies end, and change memory, in the order of the commands.
#[derive(Debug, Default)]
pub struct BothWays {
    last: Vec<Copied>,
}

#[derive(Debug)]
struct Copied {
    direction: MemoryTransferDirection,
    pages: Vec<PhysicalRun>,
    ended_at: Nanoseconds,
}

impl BothWays {
    /// The earliest begin of a copy of these pages, whose packet could begin at `from`. Later packets could not begin earlier.
    pub fn may_begin_at(
        &mut self,
        direction: MemoryTransferDirection,
        pages: &[PhysicalRun],
        from: Nanoseconds,
    ) -> Nanoseconds {
        self.last.retain(|copied| copied.ended_at > from);
        let others = self.last.iter().filter(|copied| copied.direction != direction);
        let in_the_way = others.filter(|copied| copied.pages.iter().any(|a| pages.iter().any(|b| overlap(a, b))));
        in_the_way.map(|copied| copied.ended_at).fold(from, Nanoseconds::max)
    }

    /// A copy will end at this time.
    pub fn note(&mut self, direction: MemoryTransferDirection, pages: Vec<PhysicalRun>, ended_at: Nanoseconds) {
        self.last.push(Copied { direction, pages, ended_at });
    }
}

/// Whether two runs have a page in common.
fn overlap(a: &PhysicalRun, b: &PhysicalRun) -> bool {
    match (a.place, b.place) {
        (Place::Segment { segment, page }, Place::Segment { segment: other, page: first }) => {
            segment == other && page < first + b.pages && first < page + a.pages
        }
        _ => false,
    }
}
