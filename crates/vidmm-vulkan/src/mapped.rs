//! The book of what the addresses of a process lead to, and what is to be bound when that changes.

use std::collections::BTreeMap;
use std::ops::Range;

use vidmm::SegmentId;

/// Where an address leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Target {
    /// The segment of the memory.
    pub(crate) segment: SegmentId,
    /// Its page.
    pub(crate) page: u64,
    /// The page of an aperture that shows this memory; none if the entry names the memory itself.
    pub(crate) aperture: Option<(SegmentId, u64)>,
}

impl Target {
    /// Where the address leads that is `pages` pages later.
    pub(crate) fn later(self, pages: u64) -> Self {
        let aperture = self.aperture.map(|(segment, page)| (segment, page + pages));
        Self { page: self.page + pages, aperture, ..self }
    }

    fn is_same_memory(self, other: Self) -> bool {
        self.segment == other.segment && self.page == other.page
    }
}

/// Pages of addresses that lead to consecutive pages of memory, or nowhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Run {
    /// The addresses, in pages.
    pub(crate) pages: Range<u64>,
    /// Where the first leads.
    pub(crate) target: Option<Target>,
}

/// All mappings of a process, in runs that neither overlap nor could be one.
#[derive(Debug, Default)]
pub(crate) struct Mapped {
    runs: BTreeMap<u64, (u64, Target)>,
}

impl Mapped {
    /// How many runs there are.
    pub(crate) fn num_runs(&self) -> usize {
        self.runs.len()
    }

    /// The runs, in the order of their addresses.
    pub(crate) fn runs(&self) -> impl Iterator<Item = (Range<u64>, Target)> {
        self.runs.iter().map(|(&start, &(end, target))| (start..end, target))
    }

    /// Whether any of `pages` leads somewhere.
    pub(crate) fn has_any(&self, pages: Range<u64>) -> bool {
        self.runs.range(..pages.end).next_back().is_some_and(|(_, &(end, _))| end > pages.start)
    }

    /// The parts of `pages` that lead somewhere, in order.
    pub(crate) fn parts(&self, pages: Range<u64>) -> impl Iterator<Item = (Range<u64>, Target)> {
        let before = self.runs.range(..pages.start).next_back();
        let inside = self.runs.range(pages.clone());
        before.into_iter().chain(inside).filter_map(move |(&start, &(end, target))| {
            let part = start.max(pages.start)..end.min(pages.end);
            (!part.is_empty()).then(|| (part.clone(), target.later(part.start - start)))
        })
    }

    /// The target of `page`, and the number of consecutive pages from `page` on; none if `page` leads nowhere.
    pub(crate) fn at(&self, page: u64) -> Option<(Target, u64)> {
        // Mostly a run begins right there.
        if let Some(&(end, target)) = self.runs.get(&page) {
            return Some((target, end - page));
        }
        let (&start, &(end, target)) = self.runs.range(..page).next_back()?;
        (page < end).then(|| (target.later(page - start), end - page))
    }

    /// The parts of `pages` that lead to the memory from `target` on, and those that do not, in order.
    #[cfg(feature = "lockstep")]
    pub(crate) fn bound(&self, pages: Range<u64>, target: Target) -> Vec<(Range<u64>, bool)> {
        let before = self.runs.range(..pages.start).next_back();
        let inside = self.runs.range(pages.clone());
        let (mut parts, mut page) = (Vec::new(), pages.start);
        for (&start, &(end, led)) in before.into_iter().chain(inside) {
            let run = start.max(pages.start)..end.min(pages.end);
            if run.is_empty() || !led.later(run.start - start).is_same_memory(target.later(run.start - pages.start)) {
                continue;
            }
            parts.extend((page < run.start).then_some((page..run.start, false)));
            page = run.end;
            parts.push((run, true));
        }
        parts.extend((page < pages.end).then_some((page..pages.end, false)));
        parts
    }

    /// `pages` lead to the memory from a target on, or nowhere.
    pub(crate) fn set(&mut self, pages: Range<u64>, to: Option<Target>) {
        if pages.is_empty() {
            return;
        }
        self.take(pages.clone(), |_| {});
        if let Some(target) = to {
            self.insert(pages, target);
        }
    }

    /// `pages` lead where `targets` say, which are in order and inside, and nowhere else. Returns what is to be bound: every
    /// page that led elsewhere once, neighbours as one.
    pub(crate) fn replace(&mut self, pages: Range<u64>, targets: &[(Range<u64>, Target)]) -> Vec<Run> {
        let mut old = Vec::new();
        self.take(pages.clone(), |run| old.push(run));
        // Mostly all pages lead to a single place, now and before, or led nowhere.
        if let [(whole, target)] = targets
            && *whole == pages
            && (old.is_empty() || matches!(&old[..], [(before, _)] if *before == pages))
        {
            self.insert(pages.clone(), *target);
            let is_same = old.first().is_some_and(|(_, before)| before.is_same_memory(*target));
            return if is_same { Vec::new() } else { vec![Run { pages, target: Some(*target) }] };
        }
        let borders = |runs: &[(Range<u64>, Target)]| -> Vec<u64> {
            runs.iter().flat_map(|(pages, _)| [pages.start, pages.end]).collect()
        };
        let mut cuts = borders(&old);
        cuts.extend(borders(targets));
        cuts.sort_unstable();
        cuts.dedup();
        let mut changes: Vec<Run> = Vec::new();
        let (mut of_old, mut of_new) = (Cursor::new(&old), Cursor::new(targets));
        for cut in cuts.windows(2) {
            let piece = cut[0]..cut[1];
            let (before, now) = (of_old.at(piece.start), of_new.at(piece.start));
            let is_same = match (before, now) {
                (Some(before), Some(now)) => before.is_same_memory(now),
                (before, now) => before.is_none() && now.is_none(),
            };
            if !is_same {
                push_merged(&mut changes, Run { pages: piece, target: now });
            }
        }
        for (pages, target) in targets {
            self.insert(pages.clone(), *target);
        }
        changes
    }

    /// Takes out what is known of `pages`, cut at both ends.
    fn take(&mut self, pages: Range<u64>, mut taken: impl FnMut((Range<u64>, Target))) {
        let is_run = self.runs.get(&pages.start).is_some_and(|&(end, _)| end == pages.end);
        if !is_run && !self.has_any(pages.clone()) {
            return;
        }
        if !is_run {
            self.cut(pages.start);
            self.cut(pages.end);
        }
        let mut start = pages.start;
        while let Some((end, target)) = self.remove_next(&mut start, pages.end) {
            taken((start..end, target));
            start = end;
        }
    }

    /// Removes the first run with a start from `start` on and before `end`. Moves `start` to the run.
    fn remove_next(&mut self, start: &mut u64, end: u64) -> Option<(u64, Target)> {
        if *start >= end {
            return None;
        }
        // Mostly a run begins right there.
        if let Some(run) = self.runs.remove(start) {
            return Some(run);
        }
        *start = *self.runs.range(*start..end).next()?.0;
        self.runs.remove(start)
    }

    fn cut(&mut self, at: u64) {
        let Some((&start, &(end, target))) = self.runs.range(..at).next_back() else { return };
        if end > at {
            self.runs.insert(start, (at, target));
            self.runs.insert(at, (end, target.later(at - start)));
        }
    }

    /// Adds a run where there is none, joined with the neighbours that it continues.
    fn insert(&mut self, pages: Range<u64>, target: Target) {
        let (mut start, mut end, mut first) = (pages.start, pages.end, target);
        if let Some((&before, &(until, led))) = self.runs.range(..start).next_back()
            && until == start
            && led.later(start - before) == first
        {
            (start, first) = (before, led);
        }
        if let Some(&(until, led)) = self.runs.get(&end)
            && first.later(end - start) == led
        {
            self.runs.remove(&end);
            end = until;
        }
        self.runs.insert(start, (end, first));
    }
}

/// A look-up in runs, at positions that rise.
struct Cursor<'a> {
    runs: &'a [(Range<u64>, Target)],
}

impl<'a> Cursor<'a> {
    fn new(runs: &'a [(Range<u64>, Target)]) -> Self {
        Self { runs }
    }

    fn at(&mut self, page: u64) -> Option<Target> {
        while let Some((pages, target)) = self.runs.first() {
            if page < pages.end {
                return (pages.start <= page).then(|| target.later(page - pages.start));
            }
            self.runs = &self.runs[1..];
        }
        None
    }
}

fn push_merged(changes: &mut Vec<Run>, run: Run) {
    if let Some(last) = changes.last_mut()
        && last.pages.end == run.pages.start
        && match (last.target, run.target) {
            (None, None) => true,
            (Some(last_target), Some(target)) => {
                last_target.later(last.pages.end - last.pages.start).is_same_memory(target)
            }
            _ => false,
        }
    {
        last.pages.end = run.pages.end;
        return;
    }
    changes.push(run);
}

#[cfg(test)]
mod tests {
    use std::ops::Range;

    use vidmm::SegmentId;

    use super::{Mapped, Run, Target};

    fn at(page: u64) -> Target {
        Target { segment: SegmentId(1), page, aperture: None }
    }

    fn run(pages: Range<u64>, target: Option<u64>) -> Run {
        Run { pages, target: target.map(at) }
    }

    #[test]
    fn neighbours_are_bound_as_one() {
        let mut mapped = Mapped::default();
        let changes = mapped.replace(0..16, &[(0..4, at(100)), (4..8, at(104)), (8..12, at(200))]);
        assert_eq!(changes, [run(0..8, Some(100)), run(8..12, Some(200))]);
        assert_eq!(mapped.num_runs(), 2);
    }

    #[test]
    fn only_what_has_changed_is_bound() {
        let mut mapped = Mapped::default();
        mapped.replace(0..16, &[(0..16, at(100))]);
        assert_eq!(mapped.replace(4..8, &[(4..8, at(104))]), []);
        assert_eq!(mapped.num_runs(), 1, "the same again makes no new run");
        assert_eq!(mapped.replace(4..8, &[(4..6, at(104))]), [run(6..8, None)]);
        assert_eq!(mapped.replace(0..16, &[(0..16, at(100))]), [run(6..8, Some(106))]);
        assert_eq!(mapped.num_runs(), 1);
    }

    /// Units of 64 KiB, scattered over 4 GiB: a binding for each unit would be up to 16 times as many (B4).
    #[test]
    fn scattered_memory_is_bound_by_the_fewest_bindings_that_do() {
        const UNITS: u64 = 1 << 16;
        const PAGES: u64 = 16;
        // A program that moves parts of its addresses to other memory: runs of 1 to 32 units, each to a scrambled place.
        let (mut mapped, mut now) = (Mapped::default(), vec![None; UNITS as usize]);
        let mut number = 1u64;
        let mut next = |below: u64| {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (number >> 33) % below
        };
        let mut bindings = 0;
        for _ in 0..4000 {
            let (units, first, place) = (1 + next(32), next(UNITS - 32), next(UNITS - 32));
            let is_bound = next(8) > 0;
            let memory = |unit: u64| is_bound.then_some(place + unit);
            let at_unit = |unit: u64| (first + unit) * PAGES..(first + unit + 1) * PAGES;
            let target = |unit| Some((at_unit(unit), at(memory(unit)? * PAGES)));
            let targets: Vec<_> = (0..units).filter_map(target).collect();
            let changes = mapped.replace(first * PAGES..(first + units) * PAGES, &targets);
            // The fewest: a binding goes on as long as the next unit changes too, to the memory behind, or to none as well.
            let (mut fewest, mut before) = (0, None);
            for unit in 0..units {
                let (was, is) = (&mut now[(first + unit) as usize], memory(unit));
                let change = (*was != is).then_some(is);
                let goes_on = match (before, change) {
                    (Some(Some(before)), Some(Some(is))) => before + 1 == is,
                    (Some(None), Some(None)) => true,
                    _ => false,
                };
                fewest += usize::from(change.is_some() && !goes_on);
                (*was, before) = (is, change);
            }
            assert_eq!(changes.len(), fewest);
            bindings += fewest;
        }
        assert!(bindings > 2000, "only {bindings} bindings were made");
    }

    #[test]
    fn memory_that_is_seen_through_an_aperture_now_is_not_bound_again() {
        let mut mapped = Mapped::default();
        mapped.replace(0..4, &[(0..4, at(100))]);
        let shown = Target { aperture: Some((SegmentId(2), 7)), ..at(100) };
        assert_eq!(mapped.replace(0..4, &[(0..4, shown)]), []);
        assert_eq!(mapped.runs().next(), Some((0..4, shown)));
    }

    #[cfg(feature = "lockstep")]
    #[test]
    fn parts_are_bound_to_their_memory_or_not() {
        let mut mapped = Mapped::default();
        mapped.replace(0..32, &[(4..8, at(104)), (8..12, at(900)), (16..20, at(116))]);
        let bound = mapped.bound(2..24, at(102));
        assert_eq!(bound, [(2..4, false), (4..8, true), (8..16, false), (16..20, true), (20..24, false)]);
        assert_eq!(mapped.bound(5..7, at(105)), [(5..7, true)]);
        assert_eq!(mapped.bound(40..44, at(0)), [(40..44, false)]);
    }

    #[test]
    fn parts_are_clipped_to_the_pages_that_are_asked_for() {
        let mut mapped = Mapped::default();
        mapped.replace(0..32, &[(4..8, at(104)), (8..12, at(900)), (16..20, at(116))]);
        let parts: Vec<_> = mapped.parts(6..18).collect();
        assert_eq!(parts, [(6..8, at(106)), (8..12, at(900)), (16..18, at(116))]);
        assert_eq!(mapped.parts(12..16).count(), 0);
    }

    #[test]
    fn pages_lead_somewhere_or_not() {
        let mut mapped = Mapped::default();
        mapped.replace(4..8, &[(4..8, at(0))]);
        assert!(mapped.has_any(0..5) && mapped.has_any(7..9) && mapped.has_any(0..100));
        assert!(!mapped.has_any(0..4) && !mapped.has_any(8..9));
    }
}
