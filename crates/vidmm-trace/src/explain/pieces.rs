//! Ranges of several spaces, each with a value; none of them overlap.

use std::collections::BTreeMap;

/// Ranges of spaces `S`, such as segments, with their values.
#[derive(Debug)]
pub(super) struct Pieces<S, V>(BTreeMap<(S, u64), (u64, V)>);

impl<S, V> Default for Pieces<S, V> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<S: Ord + Copy, V: Clone> Pieces<S, V> {
    /// Adds a range at which there is none; an empty one is none.
    pub fn insert(&mut self, space: S, start: u64, end: u64, value: V) {
        if start < end {
            self.0.insert((space, start), (end, value));
        }
    }

    /// The value at a place.
    pub fn at(&self, space: S, place: u64) -> Option<&V> {
        let (&(of, _), (end, value)) = self.0.range(..=(space, place)).next_back()?;
        (of == space && place < *end).then_some(value)
    }

    /// Takes a range out. Returns the parts of others that were in it, in order.
    pub fn cut(&mut self, space: S, start: u64, stop: u64) -> Vec<(u64, u64, V)> {
        let before = self.0.range(..(space, start)).next_back();
        let before = before.filter(|&(&(of, _), &(end, _))| of == space && end > start).map(|(&key, _)| key);
        let inside = self.0.range((space, start)..(space, stop)).map(|(&key, _)| key);
        let keys: Vec<_> = before.into_iter().chain(inside).collect();
        let mut parts = Vec::new();
        for key in keys {
            let Some((end, value)) = self.0.remove(&key) else { continue };
            self.insert(space, key.1, start.max(key.1), value.clone());
            self.insert(space, stop, end.max(stop), value.clone());
            parts.push((key.1.max(start), end.min(stop), value));
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cut_leaves_what_is_on_either_side() {
        let mut pieces = Pieces::default();
        pieces.insert(0, 10, 20, 'a');
        pieces.insert(0, 30, 40, 'b');
        pieces.insert(1, 0, 100, 'c');
        assert_eq!(pieces.cut(0, 15, 35), [(15, 20, 'a'), (30, 35, 'b')]);
        assert_eq!(
            [10, 14, 15, 34, 35, 39, 40].map(|place| pieces.at(0, place).copied()),
            [Some('a'), Some('a'), None, None, Some('b'), Some('b'), None]
        );
        assert_eq!(pieces.at(1, 34), Some(&'c'));
    }
}
