//! Placement in a segment of pages: which ranges are free, and which will be.
//!
//! Without physical access a resident allocation is a list of extents (SEG-13), so fragmentation refuses nothing (D10). The
//! smallest free range that holds the whole is taken, so that large ranges stay whole; only when none does, the largest are
//! used up one after another.

use alloc::{boxed::Box, collections::BTreeMap, vec::Vec};

use crate::{
    data::{extents::Extents, free_ranges::FreeRanges},
    id::PlanNo,
    memory::linear_placer::LinearPlacer,
    units::{Extent, PAGE_SIZE},
};

/// The places of a memory segment: pages, or one range for each allocation (D10).
#[derive(Debug)]
pub(crate) enum Placer {
    Pages(PagePlacer),
    Linear(Box<LinearPlacer>),
}

impl Placer {
    /// Bytes that can be taken.
    pub fn available(&self) -> u64 {
        match self {
            Placer::Pages(pages) => pages.available(),
            Placer::Linear(linear) => linear.available(),
        }
    }

    /// The size of the segment in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Placer::Pages(pages) => pages.size(),
            Placer::Linear(linear) => linear.size(),
        }
    }

    /// Takes exactly `range`, and names the plans in `after` that whoever has taken it must follow.
    ///
    /// # Panics
    ///
    /// If a part cannot be taken: the decision found the range free.
    pub fn take_at(&mut self, range: Extent, after: &mut Vec<PlanNo>) {
        match self {
            Placer::Pages(pages) => pages.take_at(range, |plan| after.push(plan)),
            Placer::Linear(linear) => {
                linear.take(range).expect("it was decided that it is free");
                linear.follow(range, after);
            }
        }
    }

    /// `plan` empties these ranges.
    pub fn promise(&mut self, plan: PlanNo, extents: impl IntoIterator<Item = Extent>) {
        match self {
            Placer::Pages(pages) => pages.promise(plan, extents),
            Placer::Linear(linear) => linear.promise(plan, extents),
        }
    }

    /// `plan` has entered the stream: what comes later in the stream may use its ranges without waiting.
    pub fn entered(&mut self, plan: PlanNo) {
        match self {
            Placer::Pages(pages) => pages.entered(plan),
            Placer::Linear(linear) => linear.entered(plan),
        }
    }

    /// Gives a range back that nothing uses and no plan names.
    pub fn release(&mut self, extent: Extent) {
        match self {
            Placer::Pages(pages) => pages.release(extent),
            Placer::Linear(linear) => linear.release(extent),
        }
    }

    /// All ranges that can be taken, for the audit.
    pub fn holes(&self) -> Vec<Extent> {
        match self {
            Placer::Pages(pages) => pages.holes().collect(),
            Placer::Linear(linear) => linear.holes().collect(),
        }
    }

    /// The segment as pages.
    ///
    /// # Panics
    ///
    /// If allocations are one range each: these are placed when a portion is decided.
    pub fn pages(&mut self) -> &mut PagePlacer {
        match self {
            Placer::Pages(pages) => pages,
            Placer::Linear(_) => unreachable!("a linear segment has no pages"),
        }
    }

    /// The free ranges of the segment, to try in what nobody sees; none if allocations are one range each there, which
    /// are tried in the segment itself.
    pub fn scratch(&self) -> Option<LinearPlacer> {
        match self {
            Placer::Pages(pages) => Some(LinearPlacer::with_holes(pages.size(), pages.holes())),
            Placer::Linear(_) => None,
        }
    }

    /// The segment as one range for each allocation.
    ///
    /// # Panics
    ///
    /// If it is pages.
    pub fn linear(&mut self) -> &mut LinearPlacer {
        match self {
            Placer::Linear(linear) => linear,
            Placer::Pages(_) => unreachable!("pages have no order"),
        }
    }
}

/// The free and the promised ranges of a segment, in multiples of its page size.
#[derive(Debug)]
pub(crate) struct PagePlacer {
    size: u64,
    /// Bytes of a large page (GVA-21): what has as many begins at a multiple of them, as far as that is possible. 0 if there are none.
    large_page: u64,
    /// Free: nothing that has not entered the stream uses the range.
    free: FreeRanges,
    /// Promised: the plan that empties the range has not entered the stream yet. A plan that takes it comes after that one.
    promised: BTreeMap<PlanNo, Vec<Extent>>,
    /// The range that was promised last, outside the map: nearly always the next taker gets this range.
    last_promised: Option<(PlanNo, Extent)>,
    available: u64,
}

impl PagePlacer {
    /// Pages from 0 on.
    pub fn new(size: u64) -> Self {
        Self::within(Extent { offset: 0, size })
    }

    /// The pages of a part of a segment.
    pub fn within(part: Extent) -> Self {
        let mut free = FreeRanges::default();
        if part.size > 0 {
            free.insert(part);
        }
        Self {
            size: part.size,
            large_page: 0,
            free,
            promised: BTreeMap::new(),
            last_promised: None,
            available: part.size,
        }
    }

    /// The same pages, where so many bytes can be a large page if they begin at a multiple of themselves; none if 0.
    pub fn with_large_pages(self, large_page: u64) -> Self {
        Self { large_page, ..self }
    }

    /// Bytes that can be taken: free and promised.
    pub fn available(&self) -> u64 {
        self.available
    }

    /// Takes `bytes`, and tells `after` the plans that must enter the stream before the taker's; some more than once.
    ///
    /// # Panics
    ///
    /// If less is available: the caller has made room before it places.
    pub fn take(&mut self, bytes: u64, mut after: impl FnMut(PlanNo)) -> Extents {
        assert!(bytes <= self.available, "room is made before anything is placed");
        self.available -= bytes;
        let mut next = |missing| match self.take_free(missing) {
            Some(extent) => extent,
            None => self.take_promised(missing, &mut after),
        };
        let first = next(bytes);
        if first.size == bytes {
            return Extents::one(first);
        }
        let mut taken = Vec::from([first]);
        let mut missing = bytes - first.size;
        while missing > 0 {
            let extent = next(missing);
            missing -= extent.size;
            taken.push(extent);
        }
        Extents::from(taken)
    }

    /// Takes exactly `range`, and tells `after` the plans that must enter the stream before the taker's.
    ///
    /// # Panics
    ///
    /// If a part cannot be taken: the decision found the range free.
    pub fn take_at(&mut self, range: Extent, mut after: impl FnMut(PlanNo)) {
        let mut taken: u64 = self.free.inside(range).map(|free| free.size).sum();
        self.free.take_all_of(range);
        self.put_away_last();
        for (&plan, extents) in &mut self.promised {
            for extent in core::mem::take(extents) {
                if extent.end() <= range.offset || range.end() <= extent.offset {
                    extents.push(extent);
                    continue;
                }
                after(plan);
                taken += extent.size;
                for rest in extent.without(range) {
                    taken -= rest.size;
                    extents.push(rest);
                }
            }
        }
        self.promised.retain(|_, extents| !extents.is_empty());
        assert_eq!(taken, range.size, "it was decided that {range:?} is free by then");
        self.available -= taken;
    }

    /// Gives back ranges that `plan` empties; they are promised until it enters the stream.
    pub fn promise(&mut self, plan: PlanNo, extents: impl IntoIterator<Item = Extent>) {
        for extent in extents {
            self.available += extent.size;
            self.put_away_last();
            self.last_promised = Some((plan, extent));
        }
    }

    /// Puts the range that was promised last with the others of its plan.
    fn put_away_last(&mut self) {
        if let Some((plan, extent)) = self.last_promised.take() {
            self.promised.entry(plan).or_default().push(extent);
        }
    }

    /// `plan` has entered the stream: what comes later in the stream may use its ranges without waiting.
    pub fn entered(&mut self, plan: PlanNo) {
        let last = self.last_promised.take_if(|(of, _)| *of == plan).map(|(_, extent)| extent);
        for extent in self.promised.remove(&plan).unwrap_or_default().into_iter().chain(last) {
            self.free.insert(extent);
        }
    }

    /// Gives a range back that nothing uses and no plan names.
    pub fn release(&mut self, extent: Extent) {
        self.available += extent.size;
        self.free.insert(extent);
    }

    /// All free and promised ranges, for the audit.
    pub fn holes(&self) -> impl Iterator<Item = Extent> {
        let last = self.last_promised.map(|(_, extent)| extent);
        self.free.iter().chain(self.promised.values().flatten().copied()).chain(last)
    }

    /// Bytes of all its pages.
    pub fn size(&self) -> u64 {
        self.size
    }

    fn take_free(&mut self, missing: u64) -> Option<Extent> {
        let large = self.find_large(missing);
        let taken = large.or_else(|| {
            let range = self.free.at_least(missing).next().or_else(|| self.free.largest())?;
            Some(Extent { offset: range.offset, size: range.size.min(missing) })
        })?;
        self.free.take(taken).expect("it was found free");
        Some(taken)
    }

    /// A free range for large pages: of all that is missing, or else of as many as the largest range holds.
    fn find_large(&self, missing: u64) -> Option<Extent> {
        let large = self.large_page;
        if large == 0 || missing < large {
            return None;
        }
        let surely = self.free.at_least(missing + large - PAGE_SIZE).next();
        let range = surely.or_else(|| self.free.at_least(missing).next()).or_else(|| self.free.largest())?;
        let offset = range.offset.next_multiple_of(large);
        let size = range.end().checked_sub(offset)?;
        let size = if size < missing { size / large * large } else { missing };
        (size > 0).then_some(Extent { offset, size })
    }

    fn take_promised(&mut self, missing: u64, mut after: impl FnMut(PlanNo)) -> Extent {
        let take = |last: &mut Extent| {
            let taken = Extent { offset: last.offset, size: last.size.min(missing) };
            *last = Extent { offset: taken.end(), size: last.size - taken.size };
            taken
        };
        let first = self.promised.first_entry();
        if let Some((plan, last)) = &mut self.last_promised
            && first.as_ref().is_none_or(|first| first.key() >= plan)
        {
            after(*plan);
            let taken = take(last);
            self.last_promised.take_if(|(_, rest)| rest.size == 0);
            return taken;
        }
        let mut entry = first.expect("available bytes are free or promised");
        after(*entry.key());
        let extents = entry.get_mut();
        let taken = take(extents.last_mut().expect("a promise names a range"));
        extents.pop_if(|rest| rest.size == 0);
        if extents.is_empty() {
            entry.remove();
        }
        taken
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    /// A range, in pages.
    fn pages(offset: u64, size: u64) -> Extent {
        Extent { offset: offset * PAGE_SIZE, size: size * PAGE_SIZE }
    }

    fn nobody(plan: PlanNo) {
        unreachable!("nothing is promised by plan {plan}")
    }

    #[test]
    fn the_smallest_range_that_holds_the_whole_is_taken() {
        let mut placer = PagePlacer::new(100 * PAGE_SIZE);
        assert_eq!(placer.take(100 * PAGE_SIZE, nobody), Extents::one(pages(0, 100)));
        placer.promise(1, [pages(0, 40), pages(60, 10)]);
        placer.entered(1);
        assert_eq!(placer.take(8 * PAGE_SIZE, nobody), Extents::one(pages(60, 8)));
    }

    #[test]
    fn large_pages_begin_at_multiples_of_their_size() {
        let mut placer = PagePlacer::new(100 * PAGE_SIZE).with_large_pages(16 * PAGE_SIZE);
        assert_eq!(placer.take(3 * PAGE_SIZE, nobody), Extents::one(pages(0, 3)));
        assert_eq!(placer.take(18 * PAGE_SIZE, nobody), Extents::one(pages(16, 18)));
        // The smallest range that surely holds them is taken, and else one that does not.
        assert_eq!(placer.take(20 * PAGE_SIZE, nobody), Extents::one(pages(48, 20)));
        // Whole large pages first, where no range holds all.
        let taken = placer.take(40 * PAGE_SIZE, nobody);
        assert_eq!(taken.iter().collect::<Vec<_>>(), [pages(80, 16), pages(34, 14), pages(68, 10)]);
    }

    #[test]
    fn where_no_range_holds_the_whole_the_largest_are_used_up() {
        let mut placer = PagePlacer::new(100 * PAGE_SIZE);
        placer.take(100 * PAGE_SIZE, nobody);
        placer.promise(1, [pages(0, 4), pages(10, 20), pages(50, 8)]);
        placer.entered(1);
        let taken = placer.take(26 * PAGE_SIZE, nobody);
        assert_eq!(taken.iter().collect::<Vec<_>>(), [pages(10, 20), pages(50, 6)]);
    }

    #[test]
    fn a_promised_range_can_be_taken_by_who_comes_after_its_plan() {
        let mut placer = PagePlacer::new(100 * PAGE_SIZE);
        placer.take(100 * PAGE_SIZE, nobody);
        placer.promise(7, [pages(10, 20)]);
        assert_eq!(placer.available(), 20 * PAGE_SIZE);
        let mut after = Vec::new();
        assert_eq!(placer.take(15 * PAGE_SIZE, |plan| after.push(plan)), Extents::one(pages(10, 15)));
        assert_eq!(after, [7]);
        assert_eq!(placer.holes().collect::<Vec<_>>(), [pages(25, 5)]);
    }

    #[test]
    fn a_range_is_taken_from_what_is_free_and_what_is_promised() {
        let mut placer = PagePlacer::new(100 * PAGE_SIZE);
        placer.take(90 * PAGE_SIZE, nobody);
        placer.promise(7, [pages(80, 10)]);
        placer.promise(8, [pages(0, 10)]);
        let mut after = Vec::new();
        placer.take_at(pages(85, 10), |plan| after.push(plan));
        assert_eq!((after, placer.available()), (vec![7], 20 * PAGE_SIZE));
        assert_eq!(placer.holes().collect::<Vec<_>>(), [pages(95, 5), pages(80, 5), pages(0, 10)]);
    }

    #[test]
    fn neighbours_merge_when_they_become_free() {
        let mut placer = PagePlacer::new(96 * PAGE_SIZE);
        placer.take(96 * PAGE_SIZE, nobody);
        for (plan, offset) in [(1, 0), (2, 64), (3, 32)] {
            placer.promise(plan, [pages(offset, 32)]);
            placer.entered(plan);
        }
        assert_eq!(placer.holes().collect::<Vec<_>>(), [pages(0, 96)]);
    }
}
