//! A set of numbers below a bound that tells at once which member comes next.

use alloc::{vec, vec::Vec};

/// A tree of words: bit `i` of a level says that word `i` of the level below is not 0.
#[derive(Clone, Debug)]
pub(crate) struct NumberSet {
    /// The lowest level, one bit for each number, is first; the last has one word.
    levels: Vec<Vec<u64>>,
}

impl NumberSet {
    /// An empty set of numbers below `bound`.
    pub fn new(bound: usize) -> Self {
        let mut levels = vec![vec![0; bound.div_ceil(64).max(1)]];
        while let Some(below) = levels.last().filter(|level| level.len() > 1) {
            levels.push(vec![0; below.len().div_ceil(64)]);
        }
        Self { levels }
    }

    pub fn insert(&mut self, number: usize) {
        let mut at = number;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            let was_empty = *word == 0;
            *word |= 1 << (at % 64);
            if !was_empty {
                return;
            }
            at /= 64;
        }
    }

    pub fn remove(&mut self, number: usize) {
        let mut at = number;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            *word &= !(1 << (at % 64));
            if *word != 0 {
                return;
            }
            at /= 64;
        }
    }

    /// The least member that is not below `from`.
    pub fn next(&self, from: usize) -> Option<usize> {
        let mut at = from;
        for (height, level) in self.levels.iter().enumerate() {
            let above = level.get(at / 64)? & (u64::MAX << (at % 64));
            if above != 0 {
                let found = at / 64 * 64 + above.trailing_zeros() as usize;
                return Some(
                    self.levels[..height]
                        .iter()
                        .rev()
                        .fold(found, |word, below| word * 64 + below[word].trailing_zeros() as usize),
                );
            }
            at = at / 64 + 1;
        }
        None
    }

    /// The greatest member.
    pub fn last(&self) -> Option<usize> {
        let top = self.levels[self.levels.len() - 1][0];
        (top != 0).then(|| {
            self.levels.iter().rev().fold(0, |word, level| word * 64 + 63 - level[word].leading_zeros() as usize)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_member_is_found_across_levels() {
        let mut set = NumberSet::new(300_000);
        assert_eq!((set.next(0), set.last()), (None, None));
        let members = [0, 63, 64, 4095, 4096, 262_143, 262_144, 299_999];
        members.iter().for_each(|&number| set.insert(number));
        let walked: Vec<usize> = core::iter::successors(set.next(0), |&number| set.next(number + 1)).collect();
        assert_eq!(walked, members);
        assert_eq!(set.last(), Some(299_999));
        [0, 299_999, 4096].iter().for_each(|&number| set.remove(number));
        assert_eq!((set.next(0), set.next(4096), set.last()), (Some(63), Some(262_143), Some(262_144)));
    }

    #[test]
    fn a_set_of_one_number_has_a_next_and_a_last() {
        let mut set = NumberSet::new(1);
        set.insert(0);
        assert_eq!((set.next(0), set.next(1), set.last()), (Some(0), None, Some(0)));
        set.remove(0);
        assert_eq!((set.next(0), set.last()), (None, None));
    }
}
