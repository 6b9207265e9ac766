//! Which hole has which size.
//!
//! Small holes are kept in one ring for each size. In a ring, holes of the lower half of the segment come first and those of
//! the upper half last, so that one of the wanted half is found without a search. Large holes, of which a segment has few,
//! are kept in order.

use alloc::{collections::BTreeMap, vec, vec::Vec};
use core::iter;

use super::{
    number_set::NumberSet,
    run::{Direction, Run},
};

/// Holes of at least so many pages (16 MiB) are large.
const LARGE: u32 = 4096;

/// The index of a hole; 0 is none.
pub(super) type HoleIndex = u32;

/// A hole's neighbours in the ring of its size.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Link {
    previous: HoleIndex,
    next: HoleIndex,
}

/// A hole as the rings know it.
pub(super) trait Linked {
    fn run(&self) -> Run;
    fn link(&self) -> Link;
    fn link_mut(&mut self) -> &mut Link;
}

#[derive(Clone, Debug)]
pub(super) struct BySize {
    /// The first of each ring.
    rings: Vec<HoleIndex>,
    used_rings: NumberSet,
    large: BTreeMap<(u32, u32), HoleIndex>,
    middle: u32,
}

impl BySize {
    /// For holes of a segment whose middle is the page `middle`.
    pub fn new(middle: u32) -> Self {
        let rings = vec![0; LARGE as usize];
        Self { rings, used_rings: NumberSet::new(LARGE as usize), large: BTreeMap::new(), middle }
    }

    pub fn insert(&mut self, holes: &mut [impl Linked], hole: HoleIndex) {
        let Run { start, len } = holes[hole as usize].run();
        if len >= LARGE {
            self.large.insert((len, start), hole);
            return;
        }
        let first = self.rings[len as usize];
        if first == 0 {
            *holes[hole as usize].link_mut() = Link { previous: hole, next: hole };
            self.rings[len as usize] = hole;
            self.used_rings.insert(len as usize);
            return;
        }
        let last = holes[first as usize].link().previous;
        *holes[hole as usize].link_mut() = Link { previous: last, next: first };
        holes[last as usize].link_mut().next = hole;
        holes[first as usize].link_mut().previous = hole;
        if start < self.middle {
            self.rings[len as usize] = hole;
        }
    }

    pub fn remove(&mut self, holes: &mut [impl Linked], hole: HoleIndex) {
        let Run { start, len } = holes[hole as usize].run();
        if len >= LARGE {
            self.large.remove(&(len, start));
            return;
        }
        let Link { previous, next } = holes[hole as usize].link();
        if next == hole {
            self.rings[len as usize] = 0;
            self.used_rings.remove(len as usize);
            return;
        }
        holes[previous as usize].link_mut().next = next;
        holes[next as usize].link_mut().previous = previous;
        if self.rings[len as usize] == hole {
            self.rings[len as usize] = next;
        }
    }

    /// A smallest hole of at least `len` pages.
    pub fn smallest(&self, holes: &[impl Linked], len: u32, direction: Direction) -> Option<HoleIndex> {
        match self.used_rings.next(len as usize) {
            Some(ring) => Some(self.foremost(holes, ring, direction)),
            None => self.large.range((len, 0)..).next().map(|(_, &hole)| hole),
        }
    }

    /// All holes of at least `len` pages, smaller ones first.
    pub fn at_least<H: Linked>(&self, holes: &[H], len: u32, direction: Direction) -> impl Iterator<Item = HoleIndex> {
        let rings = iter::successors(self.used_rings.next(len as usize), |&ring| self.used_rings.next(ring + 1));
        let small = rings.flat_map(move |ring| self.ring(holes, ring, direction));
        small.chain(self.large.range((len, 0)..).map(|(_, &hole)| hole))
    }

    /// The length of the largest hole in pages; 0 if there is none.
    pub fn largest(&self) -> u32 {
        let large = self.large.last_key_value().map(|(&(len, _), _)| len);
        large.unwrap_or_else(|| self.used_rings.last().unwrap_or(0) as u32)
    }

    fn foremost(&self, holes: &[impl Linked], ring: usize, direction: Direction) -> HoleIndex {
        let first = self.rings[ring];
        match direction {
            Direction::FromStart => first,
            Direction::FromEnd => holes[first as usize].link().previous,
        }
    }

    fn ring<H: Linked>(&self, holes: &[H], ring: usize, direction: Direction) -> impl Iterator<Item = HoleIndex> {
        let foremost = self.foremost(holes, ring, direction);
        iter::successors(Some(foremost), move |&hole| {
            let Link { previous, next } = holes[hole as usize].link();
            let following = if direction == Direction::FromStart { next } else { previous };
            (following != foremost).then_some(following)
        })
    }
}
