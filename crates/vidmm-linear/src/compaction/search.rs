//! Packs all that may move, and the wanted hole, anew: a complete search with a limit.
//!
//! A packing can always be pushed together, so that in each gap every range lies as near to the one before it as its
//! alignment allows. So it suffices to choose, from the start of the first gap on, what comes next or that the gap ends. What
//! is left unused on the way may not exceed what is free in the end.

use alloc::{vec, vec::Vec};

use super::{
    super::run::{Run, Want},
    Compaction, CompactionError,
    layout::Layout,
};
use crate::moves::Move;

/// More movable ranges are not packed: no search would end.
const MAX_MOVERS: usize = 256;

/// After so many choices the search gives up.
const MAX_CHOICES: u32 = 1 << 16;

/// Ranges that can stand for one another.
struct Class {
    want: Want,
    left: u32,
}

impl Class {
    /// Whether it may follow `before` directly. If the order of two makes no difference to what comes after them, only one
    /// order is tried.
    fn may_follow(&self, before: &Class) -> bool {
        let commutes = |class: &Class| class.want.len.is_multiple_of(class.want.alignment);
        let is_same = self.want.alignment == before.want.alignment && commutes(self) && commutes(before);
        !is_same || self.want.len <= before.want.len
    }
}

enum Outcome {
    Packed,
    NoPacking,
    GaveUp,
}

struct Search {
    gaps: Vec<Run>,
    /// Larger ones first, so that the first choices are the best guess.
    classes: Vec<Class>,
    left: usize,
    choices: u32,
    /// Class and place of what is packed so far.
    packed: Vec<(usize, Run)>,
}

/// A packing, or the proof that there is none.
pub fn plan(layout: &Layout, want: Want) -> Result<Compaction, CompactionError> {
    let movers: Vec<(Run, Want)> = layout.pieces.iter().filter_map(|piece| Some((piece.run, piece.mover?))).collect();
    if movers.len() > MAX_MOVERS {
        return Err(CompactionError::NotFound);
    }
    let key = |want: &Want| (core::cmp::Reverse(want.len), want.alignment);
    let mut wants: Vec<Want> = movers.iter().map(|&(_, mover)| mover).chain([want]).collect();
    wants.sort_unstable_by_key(key);
    let classes: Vec<Class> = wants
        .chunk_by(|a, b| key(a) == key(b))
        .map(|class| Class { want: class[0], left: class.len() as u32 })
        .collect();
    let class_of = |want: &Want| classes.partition_point(|class| key(&class.want) < key(want));
    let wanted = class_of(&want);
    let class_of_mover: Vec<usize> = movers.iter().map(|(_, mover)| class_of(mover)).collect();

    let least = wants.last().map_or(0, |want| want.len);
    let gaps: Vec<Run> = layout.gaps().map(|gap| layout.span(&gap)).filter(|gap| gap.len >= least).collect();
    let capacity: u32 = gaps.iter().map(|gap| gap.len).sum();
    let needed: u32 = wants.iter().map(|want| want.len).sum();
    let slack = capacity.checked_sub(needed).ok_or(CompactionError::Impossible)?;
    let mut search = Search { gaps, classes, left: wants.len(), choices: 0, packed: Vec::new() };
    match search.pack(0, None, slack) {
        Outcome::NoPacking => Err(CompactionError::Impossible),
        Outcome::GaveUp => Err(CompactionError::NotFound),
        Outcome::Packed => Ok(assign(&movers, &class_of_mover, wanted, &search)),
    }
}

impl Search {
    /// Packs what is left: into gap `gap`, behind what was packed last into it, and the gaps after it. `slack` pages may be
    /// left unused.
    fn pack(&mut self, mut gap: usize, mut last: Option<usize>, mut slack: u32) -> Outcome {
        if self.left == 0 {
            return Outcome::Packed;
        }
        while gap < self.gaps.len() {
            let behind = last.map(|last| self.packed[last]);
            let start = behind.map_or(self.gaps[gap].start, |(_, run)| run.end());
            let rest = Run::between(start, self.gaps[gap].end());
            for class in 0..self.classes.len() {
                let this = &self.classes[class];
                let is_next = this.left > 0 && behind.is_none_or(|(before, _)| this.may_follow(&self.classes[before]));
                let Some(run) = this.want.fit(rest).filter(|_| is_next) else { continue };
                let Some(slack) = slack.checked_sub(run.start - start) else { continue };
                if self.choices == MAX_CHOICES {
                    return Outcome::GaveUp;
                }
                self.choices += 1;
                self.left -= 1;
                self.classes[class].left -= 1;
                self.packed.push((class, run));
                match self.pack(gap, Some(self.packed.len() - 1), slack) {
                    Outcome::NoPacking => {}
                    outcome => return outcome,
                }
                self.packed.pop();
                self.classes[class].left += 1;
                self.left += 1;
            }
            match slack.checked_sub(rest.len) {
                Some(less) => slack = less,
                None => return Outcome::NoPacking,
            }
            gap += 1;
            last = None;
        }
        Outcome::NoPacking
    }
}

/// The allocation that takes each of the packed places. One that is in a place of its class already stays.
fn assign(movers: &[(Run, Want)], class_of_mover: &[usize], wanted: usize, search: &Search) -> Compaction {
    let mut places: Vec<Vec<u32>> = vec![Vec::new(); search.classes.len()];
    for &(class, run) in &search.packed {
        places[class].push(run.start);
    }
    places.iter_mut().for_each(|class| class.sort_unstable());
    let mut leaving: Vec<(Run, usize)> = Vec::new();
    for (&(run, _), &class) in movers.iter().zip(class_of_mover) {
        match places[class].binary_search(&run.start) {
            Ok(own) => drop(places[class].remove(own)),
            Err(_) => leaving.push((run, class)),
        }
    }
    leaving.sort_by_key(|(run, _)| core::cmp::Reverse(run.len));
    let mut take = |class: usize, len: u32| {
        let start = places[class].pop().expect("there is a place for each of a class");
        Run { start, len }.extent()
    };
    let moves = leaving.iter().map(|&(run, class)| Move { range: run.extent(), offset: take(class, run.len).offset });
    let moves = moves.collect();
    Compaction::new(moves, take(wanted, search.classes[wanted].want.len))
}
