//! Slides: neighbours move towards the start, so that the holes between them become one.

use alloc::vec::Vec;
use core::ops::Range;

use super::{
    super::run::{Run, Want},
    Compaction, TRIES,
    layout::Layout,
};
use crate::moves::Move;

/// The cheapest of some slides that promise to be cheap.
pub fn plan(layout: &Layout, want: Want) -> Option<Compaction> {
    let mut candidates: Vec<(u32, Range<usize>)> = Vec::new();
    for gap in layout.gaps() {
        candidates.extend(shortest(layout, &gap, want.len));
    }
    candidates.sort_unstable_by_key(|(moving, pieces)| (*moving, pieces.start));
    let slides = candidates.into_iter().take(TRIES).filter_map(|(_, pieces)| slide(layout, pieces, want));
    slides.min_by_key(Compaction::bytes_moved)
}

/// For each hole of a gap: the pages that must at least move for the holes from this one on to make up `len` pages, and the
/// pieces from this one to the end of the gap.
fn shortest(layout: &Layout, gap: &Range<usize>, len: u32) -> Vec<(u32, Range<usize>)> {
    let mut found = Vec::new();
    let free = |index: usize| match layout.pieces[index].mover {
        Some(_) => 0,
        None => layout.pieces[index].run.len,
    };
    let (mut end, mut sum) = (gap.start, 0);
    for start in gap.clone() {
        while sum < len && end < gap.end {
            sum += free(end);
            end += 1;
        }
        if sum < len {
            break;
        }
        if layout.pieces[start].mover.is_none() {
            found.push((layout.moving(&(start..end)), start..gap.end));
        }
        sum -= free(start);
    }
    found
}

/// Slides pieces until the wanted hole lies before the next.
fn slide(layout: &Layout, pieces: Range<usize>, want: Want) -> Option<Compaction> {
    let end = layout.span(&pieces).end();
    let mut moves = Vec::new();
    let mut from = layout.pieces[pieces.start].run.start;
    for piece in &layout.pieces[pieces] {
        let Some(mover) = piece.mover else { continue };
        if let Some(hole) = want.fit(Run::between(from, piece.run.start)) {
            return Some(Compaction::new(moves, hole.extent()));
        }
        // It stays where the room before it is less than its alignment.
        match mover.fit(Run::between(from, piece.run.end())).filter(|to| to.start < piece.run.start) {
            Some(to) => {
                moves.push(Move { range: piece.run.extent(), offset: to.extent().offset });
                from = to.end();
            }
            None => from = piece.run.end(),
        }
    }
    want.fit(Run::between(from, end)).map(|hole| Compaction::new(moves, hole.extent()))
}
