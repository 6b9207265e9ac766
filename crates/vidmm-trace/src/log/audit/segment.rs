//! The ledger of a segment: what is taken, and by which plan the rest was emptied (I01).

use std::ops::Range;

use vidmm::{Extent, PageSize, PhysicalAddress, PlanNo, SegmentId};

use super::Audit;
use super::finding::{Findings, Invariant};
use super::intervals::Intervals;

/// The owners of the bytes of the segment, as decided.
#[derive(Debug, Default)]
pub(super) struct Segment {
    pub id: SegmentId,
    pub size: u64,
    pub page_bytes: u64,
    /// Bytes that page tables have.
    pub tables: u64,
    /// The most bytes that page tables ever had.
    most_tables: u64,
    /// Bytes at the end that hold nothing but page tables; 0 where these lie anywhere (D19).
    table_area: u64,
    /// The CPU sees all of it.
    pub cpu_visible: bool,
    /// Some allocations are one range there each (SEG-13).
    pub has_ranges: bool,
    taken: Intervals<()>,
    /// Emptied by a plan that has not entered the stream: free for that plan and for those that follow it (D4).
    promised: Intervals<PlanNo>,
}

impl Segment {
    pub fn new(id: SegmentId, size: u64, page_size: PageSize) -> Self {
        Self { id, size, page_bytes: page_size.bytes(), ..Self::default() }
    }

    /// The segment with an area for page tables.
    pub fn with_table_area(self, table_area: u64) -> Self {
        Self { table_area, ..self }
    }

    /// The segment, if the CPU sees all of it or not.
    pub fn seen_by_cpu(self, cpu_visible: bool) -> Self {
        Self { cpu_visible, ..self }
    }

    /// Bytes that allocations can have.
    pub fn capacity(&self) -> u64 {
        self.size.saturating_sub(if self.table_area > 0 { self.table_area } else { self.tables })
    }

    /// Page tables get more bytes.
    pub fn add_tables(&mut self, bytes: u64) {
        self.tables = self.tables.saturating_add(bytes);
        self.most_tables = self.most_tables.max(self.tables);
    }

    /// The fewest bytes that allocations could ever have.
    pub fn least_capacity(&self) -> u64 {
        self.size.saturating_sub(self.table_area.max(self.most_tables))
    }

    /// Bytes that allocations have, and page tables beside them.
    pub fn used(&self) -> u64 {
        let end = self.size.saturating_sub(self.table_area);
        self.taken.within(0, end).map(|(start, end, ())| end - start).fold(0, u64::saturating_add)
    }

    /// Page tables lie in their area, if they have one, and nothing else does.
    pub fn check_side(&self, extent: Extent, is_table: bool, findings: &mut Findings) {
        let start = self.size.saturating_sub(self.table_area);
        let is_right = if is_table { extent.offset >= start } else { bounds(extent).1 <= start };
        findings.check(self.table_area == 0 || is_right, Invariant::I01, || {
            format!("{extent:?} is on the wrong side of {start:#x}, where the area for page tables begins")
        });
    }

    /// Takes a range. Returns the plans that have promised parts of it.
    pub fn take(&mut self, extent: Extent, findings: &mut Findings) -> Vec<PlanNo> {
        let (start, end) = bounds(extent);
        let whole_pages = extent.size > 0 && (start | extent.size).is_multiple_of(self.page_bytes.max(1));
        findings.check(whole_pages && end <= self.size, Invariant::I01, || {
            format!("{extent:?} is not made of pages of the segment, which has {} bytes", self.size)
        });
        let other = self.taken.within(start, end).next();
        findings
            .check(other.is_none(), Invariant::I01, || format!("{extent:?} overlaps bytes that are taken: {other:?}"));
        self.taken.insert(start, end, ());
        self.promised.remove(start, end).into_iter().map(|(_, _, plan)| plan).collect()
    }

    /// `plan` empties a range.
    pub fn promise(&mut self, extent: Extent, plan: PlanNo) {
        let (start, end) = bounds(extent);
        self.taken.remove(start, end);
        self.promised.insert(start, end, plan);
    }

    /// A range is free at once.
    pub fn free(&mut self, extent: Extent) {
        let (start, end) = bounds(extent);
        self.taken.remove(start, end);
    }

    /// Nothing is promised any more.
    pub fn forget_promises(&mut self) {
        self.promised = Intervals::default();
    }

    /// Nothing of it is taken or promised.
    pub fn clear(&mut self) {
        self.taken = Intervals::default();
        self.forget_promises();
    }

    /// The ranges that `plan` empties are free for all that follows.
    pub fn entered(&mut self, plan: PlanNo) {
        self.promised.retain(|by| by != plan);
    }
}

impl Audit {
    /// Bytes of a memory segment that nothing has, and no plan has promised, in one piece within `window` and aligned.
    pub fn free_range(&self, segment: SegmentId, window: Range<u64>, size: u64, alignment: u64) -> Option<Extent> {
        let segment = self.places.memory(segment)?;
        let window = window.start..window.end.min(segment.size);
        let taken = segment.taken.within(window.start, window.end).map(|(start, end, ())| (start, end));
        let promised = segment.promised.within(window.start, window.end).map(|(start, end, _)| (start, end));
        let mut used = Vec::from_iter(taken.chain(promised));
        used.sort_unstable();
        used.push((window.end, window.end));
        let mut from = window.start;
        for (start, end) in used {
            let offset = from.checked_next_multiple_of(alignment.max(1))?;
            if offset.checked_add(size)? <= start {
                return Some(Extent { offset, size });
            }
            from = from.max(end);
        }
        None
    }
}

/// Start and end of an extent, whatever it claims.
fn bounds(extent: Extent) -> (u64, u64) {
    (extent.offset, extent.offset.saturating_add(extent.size))
}

/// A run of physical memory: where it begins, and how long it is.
pub(super) type Run = (PhysicalAddress, u64);

/// Adds a run, joined to the one before if it goes on from there.
pub(super) fn push_run(runs: &mut Vec<Run>, (address, size): Run) {
    match runs.last_mut() {
        Some((before, length))
            if before.segment == address.segment && before.offset.checked_add(*length) == Some(address.offset) =>
        {
            *length = length.saturating_add(size);
        }
        _ => runs.push((address, size)),
    }
}

/// The memory that holds bytes `offset..offset + size` of what lies at `extents`. Shorter if they are.
pub(super) fn runs_of(segment: SegmentId, extents: &[Extent], offset: u64, size: u64) -> Vec<Run> {
    let mut runs = Vec::new();
    let (mut start, end) = (0u64, offset.saturating_add(size));
    for extent in extents {
        let extent_end = start.saturating_add(extent.size);
        let (from, to) = (start.max(offset), extent_end.min(end));
        if from < to {
            let address = PhysicalAddress { segment, offset: extent.offset.saturating_add(from - start) };
            push_run(&mut runs, (address, to - from));
        }
        start = extent_end;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D19: the area is the end of its segment; where there is none, tables lie anywhere.
    #[test]
    fn page_tables_lie_in_their_area_and_allocations_before_it() {
        let right = |area: u64, offset, is_table| {
            let segment = Segment::new(SegmentId(1), 0x10_000, PageSize::Kib4).with_table_area(area);
            let mut findings = Findings::default();
            segment.check_side(Extent { offset, size: 0x1000 }, is_table, &mut findings);
            findings.list.is_empty()
        };
        assert_eq!([0, 0xB000, 0xC000, 0xF000].map(|offset| right(0x4000, offset, true)), [false, false, true, true]);
        assert_eq!([0, 0xB000, 0xC000, 0xF000].map(|offset| right(0x4000, offset, false)), [true, true, false, false]);
        assert!([true, false].into_iter().all(|is_table| right(0, 0xF000, is_table)));
    }
}
