//! Banks of local memory: an allocation is in the first of those that its driver hints at and that has room, at the end of it that
//! the hint names (SEG-43).

use std::ops::Range;

use vidmm::contract::Direction;
use vidmm::event::EvictReason;
use vidmm::{Event, Extent, PAGE_SIZE, PlanNo, SegmentId};
use vidmm_trace::{Audit, ByteSize};

use crate::explicit::Session;
use crate::explicit::objects::Allocation;

/// The first memory segment of all machines, whose banks a world says.
const LOCAL_MEMORY: SegmentId = SegmentId(1);

/// The banks of local memory, and the allocations that may be in the wrong one.
#[derive(Debug, Default)]
pub(crate) struct Banks {
    ends: Vec<u64>,
    /// Whether memory was short in this step: allocations have left so that others have room, which go where that is, and what moves
    /// wherever it is out of the way.
    is_short: bool,
    /// The last plan that brought something to local memory. If it brings several, they may have been placed anew, wherever all fit.
    last_plan: Option<PlanNo>,
    /// Allocations that came to one place, and a better range that is free ever since.
    passed_over: Vec<(String, Extent)>,
}

impl Banks {
    pub fn new(ends: &[ByteSize]) -> Self {
        Self { ends: ends.iter().map(|end| end.bytes()).collect(), ..Self::default() }
    }

    /// An event that the audit has seen. What it took was perhaps set aside when a place was found that came to light before it.
    pub fn observe(&mut self, audit: &Audit, event: &Event) {
        self.passed_over.retain(|(_, range)| is_free(audit, range));
        self.is_short |= match *event {
            Event::Evicted { reason: EvictReason::Moved | EvictReason::RoomWanted, .. } => true,
            Event::Placed { plan, segment: LOCAL_MEMORY, .. } => self.last_plan.replace(plan) == Some(plan),
            _ => false,
        };
    }

    /// An allocation comes to a place.
    pub fn placed(&mut self, audit: &Audit, (name, of): (&str, &Allocation), segment: SegmentId, extents: &[Extent]) {
        if segment != LOCAL_MEMORY {
            return;
        }
        let [place] = *extents else { return };
        let better = self.better_than(audit, of, place);
        self.passed_over.extend(better.map(|range| (name.to_owned(), range)));
    }

    /// A free range in a bank that is hinted at before the one of a place; or beside the place, nearer to the end of the bank that the
    /// hint names.
    fn better_than(&self, audit: &Audit, of: &Allocation, place: Extent) -> Option<Extent> {
        for bank in of.banks.iter().filter_map(|&bank| self.bank(bank)) {
            if bank.start > place.offset || place.end() > bank.end {
                let range = audit.free_range(LOCAL_MEMORY, bank, place.size, of.alignment);
                if range.is_some() {
                    return range;
                }
                continue;
            }
            let step = of.alignment.max(PAGE_SIZE);
            let beside = match of.bank_direction {
                Direction::FromStart => place.offset.saturating_sub(step)..place.offset,
                Direction::FromEnd => place.end()..place.end().saturating_add(step),
            };
            let is_in_bank = bank.start <= beside.start && beside.end <= bank.end;
            return audit.free_range(LOCAL_MEMORY, beside, step, 1).filter(|_| is_in_bank);
        }
        None
    }

    /// The bytes of a bank. The last goes on to the end of the segment (SEG-31).
    fn bank(&self, number: u8) -> Option<Range<u64>> {
        let at = usize::from(number).checked_sub(1)?;
        let start = if at == 0 { 0 } else { *self.ends.get(at - 1)? };
        Some(start..self.ends.get(at).copied().unwrap_or(u64::MAX))
    }
}

impl Session<'_> {
    /// Better ranges that were free when an allocation came to its place, and are free ever since: what was decided with it has not
    /// taken them.
    pub fn judge_banks(&mut self) {
        let Some(rules) = &mut self.rules else { return };
        let is_short = std::mem::take(&mut rules.banks.is_short);
        let passed_over = std::mem::take(&mut rules.banks.passed_over);
        if let Some((name, range)) = passed_over.first().filter(|_| !is_short) {
            self.broke("SEG-43", format!("{name} is not where its driver hints at, though {range:?} is free"));
        }
    }
}

fn is_free(audit: &Audit, range: &Extent) -> bool {
    audit.free_range(LOCAL_MEMORY, range.offset..range.end(), range.size, 1).is_some()
}
