//! Ranges that do not overlap, each with what is known of it.

use std::collections::BTreeMap;

/// A fact about a range, which can say what is true of the rest when its first bytes are cut off.
pub(super) trait Known: Copy {
    /// The fact about the rest from `bytes` on.
    fn advanced(self, bytes: u64) -> Self;
}

/// Nothing but that it is there.
impl Known for () {
    fn advanced(self, _: u64) -> Self {}
}

/// The number of a plan, which holds for the whole range.
impl Known for u64 {
    fn advanced(self, _: u64) -> Self {
        self
    }
}

/// A part of a range: start, end, what is known of it.
pub(super) type Part<T> = (u64, u64, T);

/// Ranges that do not overlap, by start.
#[derive(Debug)]
pub(super) struct Intervals<T>(BTreeMap<u64, (u64, T)>);

impl<T> Default for Intervals<T> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<T: Known> Intervals<T> {
    /// The parts of ranges that lie in `start..end`.
    pub fn within(&self, start: u64, end: u64) -> impl Iterator<Item = Part<T>> {
        let before = self.0.range(..=start).next_back().map_or(start, |(&before, _)| before);
        self.0.range(before..end.max(before)).filter_map(move |(&from, &(to, known))| {
            let (cut, end) = (from.max(start), to.min(end));
            (cut < end).then(|| (cut, end, known.advanced(cut - from)))
        })
    }

    /// Takes out what lies in `start..end`, cutting ranges that reach beyond. Returns what was there.
    pub fn remove(&mut self, start: u64, end: u64) -> Vec<Part<T>> {
        let removed: Vec<Part<T>> = self.within(start, end).collect();
        for &(cut, cut_end, _) in &removed {
            let Some((&from, &(to, known))) = self.0.range(..=cut).next_back() else { continue };
            self.0.remove(&from);
            if from < cut {
                self.0.insert(from, (cut, known));
            }
            if cut_end < to {
                self.0.insert(cut_end, (to, known.advanced(cut_end - from)));
            }
        }
        removed
    }

    /// Puts a range in, in the place of what was there. Returns that.
    pub fn insert(&mut self, start: u64, end: u64, known: T) -> Vec<Part<T>> {
        let removed = self.remove(start, end);
        if start < end {
            self.0.insert(start, (end, known));
        }
        removed
    }

    /// Takes out whole ranges of which `keep` says no.
    pub fn retain(&mut self, mut keep: impl FnMut(T) -> bool) {
        self.0.retain(|_, &mut (_, known)| keep(known));
    }

    /// The first range.
    pub fn first(&self) -> Option<Part<T>> {
        self.0.iter().next().map(|(&start, &(end, known))| (start, end, known))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_cuts_what_reaches_beyond() {
        let mut intervals = Intervals::default();
        intervals.insert(0, 10, 1u64);
        intervals.insert(20, 30, 2);
        assert_eq!(intervals.remove(5, 25), [(5, 10, 1), (20, 25, 2)]);
        assert_eq!(intervals.within(0, 100).collect::<Vec<_>>(), [(0, 5, 1), (25, 30, 2)]);
    }

    #[test]
    fn inserting_inside_a_range_splits_it() {
        let mut intervals = Intervals::default();
        intervals.insert(0, 30, 1u64);
        assert_eq!(intervals.insert(10, 20, 2), [(10, 20, 1)]);
        assert_eq!(intervals.within(5, 25).collect::<Vec<_>>(), [(5, 10, 1), (10, 20, 2), (20, 25, 1)]);
    }

    #[test]
    fn empty_and_reversed_ranges_hold_nothing() {
        let mut intervals = Intervals::default();
        assert!(intervals.insert(5, 5, ()).is_empty());
        intervals.insert(0, 10, ());
        assert!(intervals.remove(7, 3).is_empty());
        assert_eq!(intervals.within(0, u64::MAX).count(), 1);
    }
}
