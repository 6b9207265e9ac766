//! Windows: what is in the way of the hole goes to holes elsewhere.

use crate::Direction;
use alloc::vec::Vec;

use super::{
    super::{
        run::{Run, Want},
        segment::LinearSegment,
    },
    Compaction, TRIES,
    layout::{Layout, Piece},
};
use crate::moves::Move;

/// The first of the cheapest windows that can be emptied.
pub fn plan(layout: &Layout, want: Want, scratch: &mut LinearSegment) -> Option<Compaction> {
    cheapest(layout, want).into_iter().find_map(|window| empty(layout, window, scratch))
}

/// Places of the wanted hole in which little is in the way. One in which least is begins where a piece begins or ends where a
/// piece ends, as nearly as the alignment allows.
fn cheapest(layout: &Layout, want: Want) -> Vec<Run> {
    let mut windows: Vec<(u32, Run)> = Vec::new();
    for gap in layout.gaps() {
        let span = layout.span(&gap);
        for piece in &layout.pieces[gap] {
            let from_start = want.fit(Run::between(piece.run.start, span.end()));
            let to_end = Want { direction: Direction::FromEnd, ..want }.fit(Run::between(span.start, piece.run.end()));
            let both = from_start.into_iter().chain(to_end);
            windows.extend(both.map(|window| (layout.moving(&layout.reaching_into(window)), window)));
        }
    }
    windows.sort_unstable();
    windows.dedup();
    windows.into_iter().map(|(_, window)| window).take(TRIES).collect()
}

fn empty(layout: &Layout, window: Run, scratch: &mut LinearSegment) -> Option<Compaction> {
    let in_the_way = layout.pieces[layout.reaching_into(window)].iter();
    let mut movers: Vec<(&Piece, Want)> = in_the_way.filter_map(|piece| Some((piece, piece.mover?))).collect();
    movers.sort_by_key(|(piece, _)| core::cmp::Reverse(piece.run.len));
    let mut transaction = scratch.transaction();
    movers.iter().for_each(|(piece, _)| transaction.free(piece.run.extent()));
    transaction.allocate_at(window.extent()).expect("nothing else is in the window");
    let moves = movers.iter().map(|(piece, mover)| {
        let range = piece.run.extent();
        let to = transaction.allocate(range.size, mover.alignment_bytes(), Direction::FromStart, &[])?;
        Some(Move { range, offset: to.offset })
    });
    let moves = moves.collect::<Option<Vec<Move>>>()?;
    Some(Compaction::new(moves, window.extent()))
}
