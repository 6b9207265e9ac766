//! Packing: places for ranges of given sizes in given gaps, if there are any (U-46).
//!
//! The strictest alignment goes first, then the largest, each where it was if that is possible, then where it fits best. Where
//! that fails the search goes back, so that small questions are answered exactly; a large one is given up after a fixed number
//! of steps.

use alloc::{vec, vec::Vec};

use crate::units::Extent;

/// How many placements are tried before a question counts as unanswerable.
const TRIES_MAX: u32 = 20_000;

/// Where each item of a size and an alignment goes, in bytes; `now` is where it is. None if no place was found for one.
pub(crate) fn pack(gaps: &[Extent], items: &[(u64, u64)], now: &[Option<u64>]) -> Option<Vec<u64>> {
    let room: u64 = gaps.iter().map(|gap| gap.size).sum();
    if items.iter().map(|&(size, _)| size).sum::<u64>() > room {
        return None;
    }
    let mut order: Vec<usize> = (0..items.len()).collect();
    order.sort_by_key(|&item| core::cmp::Reverse((items[item].1, items[item].0)));
    let mut search = Search { items, now, order, gaps: gaps.to_vec(), offsets: vec![0; items.len()], tries: 0 };
    search.place(0).then_some(search.offsets)
}

struct Search<'a> {
    items: &'a [(u64, u64)],
    now: &'a [Option<u64>],
    order: Vec<usize>,
    gaps: Vec<Extent>,
    offsets: Vec<u64>,
    tries: u32,
}

impl Search<'_> {
    /// Places the items from number `rank` of the order on.
    fn place(&mut self, rank: usize) -> bool {
        let Some(&item) = self.order.get(rank) else { return true };
        for range in self.candidates(item) {
            self.tries += 1 + self.gaps.len() as u32 / 16;
            if self.tries > TRIES_MAX {
                return false;
            }
            let gap = self.carve(range);
            self.offsets[item] = range.offset;
            if self.place(rank + 1) {
                return true;
            }
            self.mend(gap, range);
        }
        false
    }

    /// Where an item can go: where it is, then at either end of each gap, smallest first. Between the ends nothing is gained:
    /// whatever lies between an item and the end of its gap can change places with it, but for alignment, to which ends are
    /// rounded.
    fn candidates(&self, item: usize) -> Vec<Extent> {
        let (size, alignment) = self.items[item];
        let fits = |gap: &Extent, offset: u64| offset >= gap.offset && offset + size <= gap.end();
        let mut gaps: Vec<&Extent> = self.gaps.iter().filter(|gap| gap.size >= size).collect();
        gaps.sort_by_key(|gap| (gap.size, gap.offset));
        let mut offsets: Vec<u64> = Vec::new();
        if let Some(now) = self.now[item] {
            offsets.extend(gaps.iter().any(|gap| fits(gap, now)).then_some(now));
        }
        for gap in gaps {
            let first = gap.offset.next_multiple_of(alignment);
            let last = (gap.end() - size) / alignment * alignment;
            for offset in [first, last] {
                if fits(gap, offset) && !offsets.contains(&offset) {
                    offsets.push(offset);
                }
            }
        }
        offsets.into_iter().map(|offset| Extent { offset, size }).collect()
    }

    /// Takes a range out of the gap that it lies in. Returns that gap.
    fn carve(&mut self, range: Extent) -> Extent {
        let is_around = |gap: &Extent| gap.offset <= range.offset && range.end() <= gap.end();
        let at = self.gaps.iter().position(is_around).expect("a candidate lies in a gap");
        let gap = self.gaps.swap_remove(at);
        let before = Extent { offset: gap.offset, size: range.offset - gap.offset };
        let after = Extent { offset: range.end(), size: gap.end() - range.end() };
        self.gaps.extend([before, after].into_iter().filter(|rest| rest.size > 0));
        gap
    }

    /// Undoes [`carve`](Self::carve).
    fn mend(&mut self, gap: Extent, range: Extent) {
        self.gaps.retain(|rest| rest.offset < gap.offset || rest.end() > gap.end() || rest.size == 0);
        debug_assert!(gap.offset <= range.offset && range.end() <= gap.end());
        self.gaps.push(gap);
    }
}
