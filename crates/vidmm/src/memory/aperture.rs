//! Ranges of the aperture segments. A range is contiguous (SEG-13), and cannot be moved while it is in use. It is
//! *assigned* to an allocation when that is granted, and kept for as long as anything pins the allocation.
//!
//! The ranges of all apertures lie on one line of numbers, with a gap after each aperture's: so a range lies in one of them.
//!
//! The allocation that a range *shows* is another matter: an allocation that nobody requires stays mapped where it is,
//! until it is evicted or its range, which may have been assigned to another, is wanted.

use alloc::{collections::BTreeMap, vec::Vec};

use vidmm_linear::{Compaction, LinearSegment, MAX_SEGMENT_SIZE, Movable};

use crate::{
    budget::account::Home,
    data::free_ranges::FreeRanges,
    id::{AllocationIx, PlanNo},
    units::{Extent, PAGE_SIZE_64K},
};

/// The ranges of the aperture segments, as numbers of the line that they lie on.
#[derive(Debug)]
pub(crate) struct ApertureRanges {
    /// Where each aperture's ranges lie.
    parts: Vec<Extent>,
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
    /// Nothing is assigned or shown.
    pub fn new(parts: Vec<Extent>) -> Self {
        Self {
            unassigned: all_of(&parts),
            vacant: all_of(&parts),
            parts,
            assigned: BTreeMap::new(),
            shown: BTreeMap::new(),
            emptied: BTreeMap::new(),
        }
    }

    /// All that can be assigned in a home; nothing where that is no aperture.
    pub fn part(&self, home: Home) -> Extent {
        let part = home.aperture_number().and_then(|number| self.parts.get(number));
        part.copied().unwrap_or(Extent { offset: 0, size: 0 })
    }

    /// The home in which a range begins here.
    pub fn home_at(&self, offset: u64) -> Home {
        Home::aperture(self.parts.iter().rposition(|part| part.offset <= offset).unwrap_or(0))
    }

    /// The range that `allocation` may be mapped at.
    pub fn assigned(&self, allocation: AllocationIx) -> Option<Extent> {
        self.assigned.get(&allocation).copied()
    }

    /// Assigns a range of `size` bytes in a home to `allocation`. None if no hole is large enough.
    pub fn assign(&mut self, allocation: AllocationIx, size: u64, home: Home) -> Option<Extent> {
        let found = self.find(size, self.part(home))?;
        self.assign_at(allocation, found)
    }

    /// Assigns this range to `allocation`. None, and nothing changes, if another has any of it.
    pub fn assign_at(&mut self, allocation: AllocationIx, range: Extent) -> Option<Extent> {
        self.unassigned.take(range)?;
        let before = self.assigned.insert(allocation, range);
        debug_assert_eq!(before, None, "an allocation has one range");
        Some(range)
    }

    /// A range that can be assigned; where nothing is mapped, if there is such a range: nobody must go for it then, and no
    /// other device's work is waited for.
    fn find(&self, size: u64, part: Extent) -> Option<Extent> {
        let is_there = |hole: &Extent| part.contains(*hole);
        let vacant = self.vacant.at_least(size).filter(is_there).flat_map(|hole| self.unassigned.inside(hole));
        vacant.chain(self.unassigned.at_least(size).filter(is_there)).find_map(|hole| aligned_in(hole, size))
    }

    /// Which of the assigned ranges in `movable` must move so that `size` bytes of a home are unassigned together; none if that
    /// cannot be. Offsets, there and in the answer, are from the start of the home's part.
    pub fn plan_compaction(&self, movable: &[Movable], size: u64, home: Home) -> Option<Compaction> {
        let part = self.part(home);
        let is_possible = (1..=MAX_SEGMENT_SIZE).contains(&part.size);
        let mut segment = is_possible.then(|| LinearSegment::new(part.size))?;
        for &range in self.assigned.values().filter(|&&range| part.contains(range)) {
            segment.allocate_at(Extent { offset: range.offset - part.offset, ..range })?;
        }
        segment.plan_compaction(movable, size, PAGE_SIZE_64K).ok()
    }

    /// Whether all of a range can be assigned.
    pub fn is_unassigned(&self, range: Extent) -> bool {
        self.unassigned.inside(range).next() == Some(range)
    }

    /// Nothing pins `allocation` any more: its range may be assigned to others.
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

    /// A vacant range of `size` bytes in a home in which `plan` maps something and unmaps it again; none if there is no
    /// such range.
    pub fn lend(&mut self, plan: PlanNo, size: u64, home: Home) -> Option<Extent> {
        let part = self.part(home);
        let holes = self.vacant.at_least(size).filter(|&hole| part.contains(hole));
        let range = { holes }.find_map(|hole| aligned_in(hole, size))?;
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
        self.vacant = all_of(&self.parts);
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

    /// Where each aperture's ranges lie, for the audit.
    pub fn parts(&self) -> impl Iterator<Item = Extent> {
        self.parts.iter().copied()
    }
}

/// Ranges that are all there.
fn all_of(parts: &[Extent]) -> FreeRanges {
    let mut all = FreeRanges::default();
    parts.iter().filter(|part| part.size > 0).for_each(|&part| all.insert(part));
    all
}

/// The first range of `size` bytes in a hole: ranges begin at multiples of 64 KiB.
fn aligned_in(hole: Extent, size: u64) -> Option<Extent> {
    let offset = hole.offset.next_multiple_of(PAGE_SIZE_64K);
    (offset + size <= hole.end()).then_some(Extent { offset, size })
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    const K64: u64 = PAGE_SIZE_64K;

    fn allocation(index: u32) -> AllocationIx {
        AllocationIx::new(index)
    }

    fn part(first: u64, count: u64) -> Extent {
        Extent { offset: first * K64, size: count * K64 }
    }

    #[test]
    fn a_range_lies_in_its_home() {
        let mut ranges = ApertureRanges::new(vec![part(0, 2), part(3, 4)]);
        let second = Home::aperture(1);
        assert_eq!(ranges.assign(allocation(1), 3 * K64, Home::SYSTEM), None);
        assert_eq!(ranges.assign(allocation(1), 3 * K64, second), Some(part(3, 3)));
        assert_eq!(ranges.assign(allocation(2), K64, Home::SYSTEM), Some(part(0, 1)));
        assert_eq!([0, 1, 3, 6].map(|at| ranges.home_at(at * K64)), [Home::SYSTEM, Home::SYSTEM, second, second]);
        assert_eq!(ranges.lend(1, 2 * K64, second), Some(part(3, 2)), "what nothing shows");
        ranges.clear_shown();
        assert!(ranges.vacant().eq([part(0, 2), part(3, 4)]));
    }

    #[test]
    fn an_allocation_keeps_the_range_that_shows_it_if_nobody_else_was_assigned_it() {
        let mut ranges = ApertureRanges::new(vec![part(0, 4)]);
        let first = ranges.assign(allocation(1), K64, Home::SYSTEM).unwrap();
        ranges.show(allocation(1), first, &mut Vec::new());
        ranges.release(allocation(1));
        assert_eq!(ranges.assign_at(allocation(1), first), Some(first));
        ranges.release(allocation(1));
        assert_eq!(ranges.assign(allocation(2), 4 * K64, Home::SYSTEM).unwrap(), Extent { offset: 0, size: 4 * K64 });
        assert_eq!(ranges.assign_at(allocation(1), first), None);
        assert_eq!(ranges.shown_in(Extent { offset: 0, size: 4 * K64 }).collect::<Vec<_>>(), [allocation(1)]);
    }

    #[test]
    fn a_range_where_nothing_is_mapped_is_assigned_first() {
        let mut ranges = ApertureRanges::new(vec![part(0, 4)]);
        let range = ranges.assign(allocation(1), K64, Home::SYSTEM).unwrap();
        ranges.show(allocation(1), range, &mut Vec::new());
        ranges.release(allocation(1));
        assert_eq!(ranges.assign(allocation(2), K64, Home::SYSTEM), Some(Extent { offset: K64, size: K64 }));
        ranges.hide(5, range);
        assert_eq!(
            ranges.assign(allocation(3), 2 * K64, Home::SYSTEM),
            Some(Extent { offset: 2 * K64, size: 2 * K64 })
        );
        assert_eq!(ranges.assign(allocation(4), K64, Home::SYSTEM), Some(range), "then what a plan is about to unmap");
        ranges.release(allocation(4));
        ranges.entered(5);
        assert_eq!(ranges.vacant().next().unwrap().offset, 0);
    }

    #[test]
    fn a_range_is_vacant_when_all_plans_that_unmap_it_have_entered() {
        let mut ranges = ApertureRanges::new(vec![part(0, 1)]);
        for (number, plan) in [(1, 5), (2, 6)] {
            ranges.show(allocation(number), part(0, 1), &mut Vec::new());
            ranges.hide(plan, part(0, 1));
        }
        ranges.entered(5);
        assert_eq!(ranges.vacant().next(), None);
        ranges.entered(6);
        assert!(ranges.vacant().eq([part(0, 1)]));
    }

    #[test]
    fn an_allocation_mapped_where_another_was_comes_after_the_plan_that_unmaps_that() {
        let mut ranges = ApertureRanges::new(vec![part(0, 4)]);
        let range = ranges.assign(allocation(1), 2 * K64, Home::SYSTEM).unwrap();
        ranges.show(allocation(1), range, &mut Vec::new());
        ranges.hide(9, range);
        let mut after = Vec::new();
        ranges.show(allocation(2), Extent { offset: range.offset + K64, size: K64 }, &mut after);
        assert_eq!(after, [9]);
    }
}
