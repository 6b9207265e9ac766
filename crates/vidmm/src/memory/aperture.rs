//! Ranges of the aperture segment. A range is contiguous (SEG-13), and cannot be moved while it is in use. It is *assigned* to an
//! allocation when that is granted, and kept for as long as anything holds the allocation.
//!
//! The allocation that a range *shows* is another matter: an allocation that nobody requires stays mapped where it is, until it is evicted
//! or its range, which may have been assigned to another, is wanted.

use alloc::{collections::BTreeMap, vec::Vec};

use crate::{
    data::free_ranges::FreeRanges,
    id::{AllocationIx, PlanNo},
    linear::{Compaction, LinearSegment, MAX_SEGMENT_SIZE, Movable},
    units::{Extent, PAGE_SIZE_64K},
};

/// The ranges of the aperture segment, in bytes from its start.
#[derive(Debug)]
pub(crate) struct ApertureRanges {
    size: u64,
    unassigned: FreeRanges,
    /// Nothing is mapped there, and no plan that has not entered the stream unmaps what was: to be assigned first.
    vacant: FreeRanges,
    /// By allocation.
    assigned: BTreeMap<AllocationIx, Extent>,
    /// Which allocation is mapped, by the range's first byte.
    shown: BTreeMap<u64, (u64, AllocationIx)>,
    /// Ranges that a plan unmaps which has not entered the stream.
    emptied: BTreeMap<PlanNo, Vec<Extent>>,
}

impl ApertureRanges {
    pub fn new(size: u64) -> Self {
        let all = || {
            let mut all = FreeRanges::default();
            all.insert(Extent { offset: 0, size });
            all
        };
        Self {
            size,
            unassigned: all(),
            vacant: all(),
            assigned: BTreeMap::new(),
            shown: BTreeMap::new(),
            emptied: BTreeMap::new(),
        }
    }

    /// The range that `allocation` may be mapped at.
    pub fn assigned(&self, allocation: AllocationIx) -> Option<Extent> {
        self.assigned.get(&allocation).copied()
    }

    /// Assigns a range of `size` bytes to `allocation`: the one that shows it already, if that can be had. None if no hole is
    /// large enough.
    pub fn assign(&mut self, allocation: AllocationIx, size: u64, shown_at: Option<u64>) -> Option<Extent> {
        let kept = shown_at.map(|offset| Extent { offset, size });
        let range = match kept.filter(|&kept| self.unassigned.take(kept).is_some()) {
            Some(kept) => kept,
            None => {
                let found = self.find(size)?;
                self.unassigned.take(found).expect("it was found unassigned");
                found
            }
        };
        self.assigned.insert(allocation, range);
        Some(range)
    }

    /// A range that can be assigned; where nothing is mapped, if there is such a range: nobody must go for it then, and no
    /// other device's work is waited for.
    fn find(&self, size: u64) -> Option<Extent> {
        let vacant = self.vacant.at_least(size).flat_map(|hole| self.unassigned.inside(hole));
        vacant.chain(self.unassigned.at_least(size)).find_map(|hole| aligned_in(hole, size))
    }

    /// Which of the assigned ranges in `movable` must move so that `size` bytes are unassigned together; none if that cannot be.
    pub fn plan_compaction(&self, movable: &[Movable], size: u64) -> Option<Compaction> {
        let is_possible = (1..=MAX_SEGMENT_SIZE).contains(&self.size);
        let mut segment = is_possible.then(|| LinearSegment::new(self.size))?;
        for &range in self.assigned.values() {
            segment.allocate_at(range)?;
        }
        segment.plan_compaction(movable, size, PAGE_SIZE_64K).ok()
    }

    /// Whether all of a range can be assigned.
    pub fn is_unassigned(&self, range: Extent) -> bool {
        self.unassigned.inside(range).next() == Some(range)
    }

    /// Nothing holds `allocation` any more: its range may be assigned to others.
    pub fn release(&mut self, allocation: AllocationIx) {
        if let Some(range) = self.assigned.remove(&allocation) {
            self.unassigned.insert(range);
        }
    }

    /// Allocations that are mapped inside `range`.
    pub fn shown_in(&self, range: Extent) -> impl Iterator<Item = AllocationIx> {
        self.mapped_in(range).map(|(shown, _)| shown)
    }

    fn mapped_in(&self, range: Extent) -> impl Iterator<Item = (AllocationIx, Extent)> {
        let before_end = self.shown.range(..range.end()).rev();
        let mapped = before_end.take_while(move |&(&start, &(size, _))| start + size > range.offset);
        mapped.map(|(&offset, &(size, allocation))| (allocation, Extent { offset, size }))
    }

    /// `allocation` is mapped at `range`, after the plans that are named in `after`.
    pub fn show(&mut self, allocation: AllocationIx, range: Extent, after: &mut Vec<PlanNo>) {
        debug_assert!(self.shown_in(range).next().is_none(), "a range shows one allocation");
        self.shown.insert(range.offset, (range.size, allocation));
        self.vacant.take_all_of(range);
        let overlaps = |emptied: &Extent| emptied.offset < range.end() && range.offset < emptied.end();
        after.extend(self.emptied.iter().filter(|(_, ranges)| ranges.iter().any(overlaps)).map(|(&plan, _)| plan));
    }

    /// `plan` unmaps `range`.
    pub fn hide(&mut self, plan: PlanNo, range: Extent) {
        self.shown.remove(&range.offset).expect("only what is mapped is unmapped");
        self.emptied.entry(plan).or_default().push(range);
    }

    /// A vacant range of `size` bytes in which `plan` maps something and unmaps it again; none if there is no such range.
    pub fn lend(&mut self, plan: PlanNo, size: u64) -> Option<Extent> {
        let range = self.vacant.at_least(size).find_map(|hole| aligned_in(hole, size))?;
        self.vacant.take(range).expect("it was found vacant");
        self.emptied.entry(plan).or_default().push(range);
        Some(range)
    }

    /// `plan` has entered the stream.
    pub fn entered(&mut self, plan: PlanNo) {
        for range in self.emptied.remove(&plan).unwrap_or_default() {
            self.vacate(range);
        }
    }

    /// The parts of `range` that show nothing, and that no other plan is about to unmap, are vacant.
    fn vacate(&mut self, range: Extent) {
        self.vacant.insert(range);
        for (_, occupied) in Vec::from_iter(self.mapped_in(range)) {
            self.vacant.take_all_of(occupied);
        }
        for &occupied in self.emptied.values().flatten() {
            self.vacant.take_all_of(occupied);
        }
    }

    /// All plans are over, and no range shows anything.
    pub fn clear_shown(&mut self) {
        self.shown.clear();
        self.emptied.clear();
        self.vacant = FreeRanges::default();
        self.vacant.insert(Extent { offset: 0, size: self.size });
    }

    /// All assigned and unassigned ranges, for the audit.
    pub fn tiles(&self) -> impl Iterator<Item = Extent> {
        self.unassigned.iter().chain(self.assigned.values().copied())
    }

    /// The mapped allocations and their ranges, for the audit.
    pub fn shown(&self) -> impl Iterator<Item = (AllocationIx, Extent)> {
        self.shown.iter().map(|(&offset, &(size, allocation))| (allocation, Extent { offset, size }))
    }

    /// Ranges where nothing is mapped and nothing is about to be unmapped, for the audit.
    pub fn vacant(&self) -> impl Iterator<Item = Extent> {
        self.vacant.iter()
    }

    /// The size of the segment in bytes.
    pub fn size(&self) -> u64 {
        self.size
    }
}

/// The first range of `size` bytes in a hole: ranges begin at multiples of 64 KiB.
fn aligned_in(hole: Extent, size: u64) -> Option<Extent> {
    let offset = hole.offset.next_multiple_of(PAGE_SIZE_64K);
    (offset + size <= hole.end()).then_some(Extent { offset, size })
}

#[cfg(test)]
mod tests {
    use super::*;

    const K64: u64 = PAGE_SIZE_64K;

    fn allocation(index: u32) -> AllocationIx {
        AllocationIx::new(index)
    }

    #[test]
    fn an_allocation_keeps_the_range_that_shows_it_if_nobody_else_was_assigned_it() {
        let mut ranges = ApertureRanges::new(4 * K64);
        let first = ranges.assign(allocation(1), K64, None).unwrap();
        ranges.show(allocation(1), first, &mut Vec::new());
        ranges.release(allocation(1));
        assert_eq!(ranges.assign(allocation(1), K64, Some(first.offset)), Some(first));
        ranges.release(allocation(1));
        assert_eq!(ranges.assign(allocation(2), 4 * K64, None).unwrap(), Extent { offset: 0, size: 4 * K64 });
        assert_eq!(ranges.assign(allocation(1), K64, Some(first.offset)), None);
        assert_eq!(ranges.shown_in(Extent { offset: 0, size: 4 * K64 }).collect::<Vec<_>>(), [allocation(1)]);
    }

    #[test]
    fn a_range_where_nothing_is_mapped_is_assigned_first() {
        let mut ranges = ApertureRanges::new(4 * K64);
        let range = ranges.assign(allocation(1), K64, None).unwrap();
        ranges.show(allocation(1), range, &mut Vec::new());
        ranges.release(allocation(1));
        assert_eq!(ranges.assign(allocation(2), K64, None), Some(Extent { offset: K64, size: K64 }));
        ranges.hide(5, range);
        assert_eq!(ranges.assign(allocation(3), 2 * K64, None), Some(Extent { offset: 2 * K64, size: 2 * K64 }));
        assert_eq!(ranges.assign(allocation(4), K64, None), Some(range), "then what a plan is about to unmap");
        ranges.release(allocation(4));
        ranges.entered(5);
        assert_eq!(ranges.vacant().next().unwrap().offset, 0);
    }

    #[test]
    fn who_is_mapped_where_another_was_comes_after_the_plan_that_unmaps_it() {
        let mut ranges = ApertureRanges::new(4 * K64);
        let range = ranges.assign(allocation(1), 2 * K64, None).unwrap();
        ranges.show(allocation(1), range, &mut Vec::new());
        ranges.hide(9, range);
        let mut after = Vec::new();
        ranges.show(allocation(2), Extent { offset: range.offset + K64, size: K64 }, &mut after);
        assert_eq!(after, [9]);
    }
}
