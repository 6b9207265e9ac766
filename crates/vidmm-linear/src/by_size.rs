//! Which hole has which size.
//!
//! Small holes are kept in two lists for each size, one for each half of the segment, so that one of the wanted half is found
//! without a search. Large holes, of which a segment has few, are kept in order.

use crate::{Direction, number_set::NumberSet};
use alloc::{collections::BTreeMap, vec, vec::Vec};
use core::{iter, mem};

use super::{
    hole::{Hole, HoleIndex, Link},
    run::Run,
};

/// Holes of at least so many pages (64 MiB) are large.
const LARGE: u32 = 16 << 10;

/// No hole.
const NONE: HoleIndex = 0;

/// The small holes that start in one half of the segment.
#[derive(Clone, Debug)]
struct Half {
    /// The first of the list of each size.
    first: Vec<HoleIndex>,
    /// The sizes whose lists are not empty.
    sizes: NumberSet,
}

#[derive(Clone, Debug)]
pub(super) struct BySize {
    halves: [Half; 2],
    large: BTreeMap<(u32, u32), HoleIndex>,
    /// The first page of the second half.
    middle: u32,
}

impl BySize {
    /// For holes of a segment of so many pages.
    pub fn new(pages: u32) -> Self {
        let sizes = LARGE.min(pages + 1) as usize;
        let half = || Half { first: vec![NONE; sizes], sizes: NumberSet::new(sizes) };
        Self { halves: [half(), half()], large: BTreeMap::new(), middle: pages / 2 }
    }

    pub fn insert(&mut self, holes: &mut [Hole], hole: HoleIndex) {
        let Run { start, len } = holes[hole as usize].run;
        if len >= LARGE {
            self.large.insert((len, start), hole);
            return;
        }
        let half = &mut self.halves[usize::from(start >= self.middle)];
        let next = mem::replace(&mut half.first[len as usize], hole);
        holes[hole as usize].link = Link { previous: NONE, next };
        if next == NONE {
            half.sizes.insert(len as usize);
        } else {
            holes[next as usize].link.previous = hole;
        }
    }

    pub fn remove(&mut self, holes: &mut [Hole], hole: HoleIndex) {
        let Run { start, len } = holes[hole as usize].run;
        if len >= LARGE {
            self.large.remove(&(len, start));
            return;
        }
        let Link { previous, next } = holes[hole as usize].link;
        if next != NONE {
            holes[next as usize].link.previous = previous;
        }
        if previous != NONE {
            holes[previous as usize].link.next = next;
            return;
        }
        let half = &mut self.halves[usize::from(start >= self.middle)];
        half.first[len as usize] = next;
        if next == NONE {
            half.sizes.remove(len as usize);
        }
    }

    /// A smallest hole of at least `len` pages, of those of one size one in the half that `direction` names.
    pub fn smallest(&self, len: u32, direction: Direction) -> Option<HoleIndex> {
        match self.next_size(len) {
            Some(size) => self.in_order(direction).map(|half| half.first[size]).into_iter().find(|&hole| hole != NONE),
            None => self.large.range((len, 0)..).next().map(|(_, &hole)| hole),
        }
    }

    /// All holes of at least `len` pages, smaller ones first.
    pub fn at_least(&self, holes: &[Hole], len: u32, direction: Direction) -> impl Iterator<Item = HoleIndex> {
        let sizes = iter::successors(self.next_size(len), |&size| self.next_size(size as u32 + 1));
        let small = sizes.flat_map(move |size| {
            let halves = self.in_order(direction).into_iter();
            halves.flat_map(move |half| {
                let some = |hole: HoleIndex| Some(hole).filter(|&hole| hole != NONE);
                iter::successors(some(half.first[size]), move |&hole| some(holes[hole as usize].link.next))
            })
        });
        small.chain(self.large.range((len, 0)..).map(|(_, &hole)| hole))
    }

    /// The length of the largest hole in pages; 0 if there is none.
    pub fn largest(&self) -> u32 {
        let large = self.large.last_key_value().map(|(&(len, _), _)| len);
        large
            .or_else(|| self.halves.iter().filter_map(|half| half.sizes.last()).max().map(|len| len as u32))
            .unwrap_or(0)
    }

    /// The least size of small holes that is at least `len`.
    fn next_size(&self, len: u32) -> Option<usize> {
        let [first, second] = self.halves.each_ref().map(|half| half.sizes.next(len as usize));
        first.into_iter().chain(second).min()
    }

    fn in_order(&self, direction: Direction) -> [&Half; 2] {
        let [first, second] = &self.halves;
        match direction {
            Direction::FromStart => [first, second],
            Direction::FromEnd => [second, first],
        }
    }
}
