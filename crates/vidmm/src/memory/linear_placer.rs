//! The memory segment where each allocation is one range: what is free of it, and whom a taker must follow.
//!
//! A range is free as soon as the plan that empties it is decided. A plan that takes it before that one has entered the stream
//! follows it.

use alloc::{collections::BTreeMap, vec::Vec};

use vidmm_linear::{Compaction, LinearSegment, Movable};

use crate::{adapter::patching::Hint, id::PlanNo, units::Extent};

/// The free ranges of the memory segment.
#[derive(Debug)]
pub(crate) struct LinearPlacer {
    /// None where there is no memory segment.
    segment: Option<LinearSegment>,
    /// Ranges that plans empty which have not entered the stream.
    emptied: BTreeMap<PlanNo, Vec<Extent>>,
}

impl LinearPlacer {
    /// Adapter start has checked the size and the banks.
    pub fn new(size: u64, bank_ends: &[u64]) -> Self {
        let segment = || LinearSegment::with_banks(size, bank_ends).expect("adapter start refuses other banks");
        Self { segment: (size > 0).then(segment), emptied: BTreeMap::new() }
    }

    /// A segment of `size` bytes in which only `holes` are free.
    pub fn with_holes(size: u64, holes: impl IntoIterator<Item = Extent>) -> Self {
        let mut placer = Self::new(size, &[]);
        placer.take(Extent { offset: 0, size }).expect("it is empty");
        holes.into_iter().for_each(|hole| placer.release(hole));
        placer
    }

    pub fn size(&self) -> u64 {
        self.segment.as_ref().map_or(0, LinearSegment::size)
    }

    /// Bytes that nothing is placed in.
    pub fn available(&self) -> u64 {
        self.segment.as_ref().map_or(0, LinearSegment::free_bytes)
    }

    pub fn holes(&self) -> impl Iterator<Item = Extent> {
        self.segment.iter().flat_map(LinearSegment::holes)
    }

    /// Takes `size` bytes: in a bank that is wished for, if one has room, and else where they fit best.
    pub fn allocate(&mut self, size: u64, hint: &Hint) -> Option<Extent> {
        self.segment.as_mut()?.allocate(size, hint.alignment, hint.direction, &hint.hinted_banks)
    }

    /// The moves after which `size` bytes are free together.
    pub fn plan_compaction(&self, movable: &[Movable], size: u64, alignment: u64) -> Option<Compaction> {
        self.segment.as_ref()?.plan_compaction(movable, size, alignment).ok()
    }

    /// Takes a range; `None`, and nothing changes, unless all of it is free.
    pub fn take(&mut self, range: Extent) -> Option<()> {
        self.segment.as_mut()?.allocate_at(range)
    }

    /// Gives a range back that is taken.
    pub fn release(&mut self, range: Extent) {
        self.segment.as_mut().expect("nothing is placed where there is no segment").free(range);
    }

    /// Names the plans in `after` that whoever has taken `range` must follow.
    pub fn follow(&self, range: Extent, after: &mut Vec<PlanNo>) {
        let overlaps = |emptied: &Extent| emptied.offset < range.end() && range.offset < emptied.end();
        after.extend(self.emptied.iter().filter(|(_, ranges)| ranges.iter().any(overlaps)).map(|(&plan, _)| plan));
    }

    /// `plan` empties `ranges`.
    pub fn promise(&mut self, plan: PlanNo, ranges: impl IntoIterator<Item = Extent>) {
        for range in ranges {
            self.release(range);
            self.emptied.entry(plan).or_default().push(range);
        }
    }

    /// `plan` has entered the stream.
    pub fn entered(&mut self, plan: PlanNo) {
        self.emptied.remove(&plan);
    }
}
