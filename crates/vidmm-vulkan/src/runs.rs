//! Runs of physical memory beside each other: where a copy reads, and where it writes.

use vidmm_soft::{PhysicalRun, Place};

use crate::segment::pieces;

/// Two lists of runs beside each other, as far as both go: pieces that each lie in one block.
pub(crate) fn side_by_side(from: &[PhysicalRun], to: &[PhysicalRun]) -> Vec<(Place, Place, u64)> {
    let (from, to) = (in_blocks(from), in_blocks(to));
    let (mut from, mut to) = (from.into_iter(), to.into_iter());
    let (mut one, mut other) = (from.next(), to.next());
    let mut pieces = Vec::new();
    while let (Some(left), Some(right)) = (&mut one, &mut other) {
        let pages = left.pages.min(right.pages);
        pieces.push((left.place, right.place, pages));
        if !advance(left, pages) {
            one = from.next();
        }
        if !advance(right, pages) {
            other = to.next();
        }
    }
    pieces
}

/// Takes the first `pages` pages off a run; whether anything is left.
fn advance(run: &mut PhysicalRun, pages: u64) -> bool {
    run.pages -= pages;
    if let Place::Segment { page, .. } = &mut run.place {
        *page += pages;
    }
    run.pages > 0
}

/// The runs, cut at the borders of blocks.
fn in_blocks(runs: &[PhysicalRun]) -> Vec<PhysicalRun> {
    let cut = |run: &PhysicalRun| match run.place {
        Place::Zero => vec![*run],
        Place::Segment { segment, page } => pieces(page, run.pages)
            .map(|piece| PhysicalRun { place: Place::Segment { segment, page: piece.page }, pages: piece.pages })
            .collect(),
    };
    runs.iter().flat_map(cut).collect()
}

/// Whether any page is in both.
pub(crate) fn overlap(from: &[PhysicalRun], to: &[PhysicalRun]) -> bool {
    let meets = |one: &PhysicalRun, other: &PhysicalRun| match (one.place, other.place) {
        (Place::Segment { segment, page }, Place::Segment { segment: other_segment, page: other_page }) => {
            segment == other_segment && page < other_page + other.pages && other_page < page + one.pages
        }
        _ => false,
    };
    from.iter().any(|one| to.iter().any(|other| meets(one, other)))
}

#[cfg(test)]
mod tests {
    use vidmm::SegmentId;
    use vidmm_soft::{PhysicalRun, Place};

    use super::{overlap, side_by_side};
    use crate::segment::PAGES_PER_BLOCK;

    fn at(segment: u8, page: u64) -> Place {
        Place::Segment { segment: SegmentId(segment), page }
    }

    fn run(place: Place, pages: u64) -> PhysicalRun {
        PhysicalRun { place, pages }
    }

    #[test]
    fn pieces_end_with_a_run_or_a_block_of_either_side() {
        let from = [run(at(1, PAGES_PER_BLOCK - 2), 5), run(Place::Zero, 4)];
        let to = [run(at(2, 10), 8), run(at(2, 100), 1)];
        let expected = [
            (at(1, PAGES_PER_BLOCK - 2), at(2, 10), 2),
            (at(1, PAGES_PER_BLOCK), at(2, 12), 3),
            (Place::Zero, at(2, 15), 3),
            (Place::Zero, at(2, 100), 1),
        ];
        assert_eq!(side_by_side(&from, &to), expected);
        assert_eq!(side_by_side(&from, &to[..1]).len(), 3, "a destination may be shorter");
    }

    #[test]
    fn a_page_on_both_sides_is_an_overlap() {
        assert!(overlap(&[run(at(1, 0), 4)], &[run(at(1, 3), 4)]));
        assert!(!overlap(&[run(at(1, 0), 4)], &[run(at(1, 4), 4), run(at(2, 0), 4), run(Place::Zero, 9)]));
    }
}
