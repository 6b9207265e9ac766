//! Contiguous placement in a linear segment: what each request says about its place, transactions, and what a plan of moves is.

use vidmm_linear::*;

use Direction::{FromEnd, FromStart};

const MIB: u64 = 1 << 20;

fn pages(start: u64, len: u64) -> Extent {
    Extent { offset: start * PAGE_SIZE, size: len * PAGE_SIZE }
}

/// A segment of which only these ranges of pages are free.
fn segment_with_holes(size: u64, holes: &[(u64, u64)]) -> LinearSegment {
    let mut segment = LinearSegment::new(size * PAGE_SIZE);
    segment.allocate_at(pages(0, size)).expect("it is empty");
    holes.iter().for_each(|&(start, len)| segment.free(pages(start, len)));
    segment
}

fn allocate(segment: &mut LinearSegment, len: u64, alignment: u64, direction: Direction) -> Option<Extent> {
    let placed = segment.allocate(len * PAGE_SIZE, alignment * PAGE_SIZE, direction, &[]);
    segment.check().expect("the books are right");
    placed
}

/// SEG-44: the default is the start of the segment, and the other direction its end.
#[test]
fn a_direction_says_from_which_end_an_empty_segment_fills() {
    let mut segment = LinearSegment::new(100 * PAGE_SIZE);
    assert_eq!(allocate(&mut segment, 10, 1, Direction::default()), Some(pages(0, 10)));
    assert_eq!(allocate(&mut segment, 10, 1, FromEnd), Some(pages(90, 10)));
    assert_eq!(allocate(&mut segment, 10, 16, FromStart), Some(pages(16, 10)));
    assert_eq!(allocate(&mut segment, 10, 16, FromEnd), Some(pages(80, 10)));
}

#[test]
fn the_smallest_hole_that_is_long_enough_is_taken() {
    let mut segment = segment_with_holes(100, &[(0, 30), (40, 9), (60, 10)]);
    assert_eq!(allocate(&mut segment, 10, 1, FromStart), Some(pages(60, 10)));
    assert_eq!(allocate(&mut segment, 8, 1, FromEnd), Some(pages(41, 8)));
    assert_eq!(allocate(&mut segment, 8, 1, FromEnd), Some(pages(22, 8)));
}

#[test]
fn of_equal_holes_one_in_the_half_that_the_direction_names_is_taken() {
    let holes = [(70, 5), (20, 5), (80, 5), (10, 5), (90, 5), (30, 5)];
    let mut segment = segment_with_holes(100, &holes);
    for _ in 0..3 {
        assert!(allocate(&mut segment, 5, 1, FromStart).unwrap().end() < 50 * PAGE_SIZE);
        assert!(allocate(&mut segment, 5, 1, FromEnd).unwrap().offset > 50 * PAGE_SIZE);
    }
}

#[test]
fn an_alignment_that_many_holes_miss_takes_a_hole_that_cannot_miss_it() {
    // 40 holes of three pages between multiples of four, and one of four that does not miss, but might have.
    let mut holes: Vec<(u64, u64)> = (0..40).map(|n| (4 * n + 1, 3)).collect();
    holes.extend([(240, 4), (200, 6), (300, 9)]);
    let mut segment = segment_with_holes(400, &holes);
    assert_eq!(allocate(&mut segment, 3, 4, FromStart), Some(pages(200, 3)));
    assert_eq!(allocate(&mut segment, 3, 4, FromStart), Some(pages(300, 3)));
    assert_eq!(allocate(&mut segment, 3, 4, FromStart), Some(pages(304, 3)));
    assert_eq!(allocate(&mut segment, 3, 4, FromStart), Some(pages(240, 3)));
    assert_eq!(allocate(&mut segment, 3, 4, FromStart), None);
}

#[test]
fn the_last_hole_in_which_an_alignment_fits_is_found() {
    let mut holes: Vec<(u64, u64)> = (0..40).map(|n| (4 * n + 1, 3)).collect();
    holes.insert(0, (200, 3));
    let mut segment = segment_with_holes(400, &holes);
    for _ in 0..4 {
        let at = allocate(&mut segment, 3, 4, FromStart);
        assert_eq!(at, Some(pages(200, 3)));
        assert_eq!(allocate(&mut segment, 3, 4, FromStart), None);
        segment.free(at.unwrap());
    }
}

/// SEG-16, SEG-43: a hint is followed inside its bank and with its own direction, and is only a hint.
#[test]
fn a_hinted_bank_is_tried_first_and_then_the_whole_segment() {
    let mut segment = LinearSegment::with_banks(100 * PAGE_SIZE, &[40 * PAGE_SIZE, 60 * PAGE_SIZE]).unwrap();
    let hint = |bank, direction| HintedBank { bank, direction };
    let mut allocate = |len: u64, hints: &[HintedBank]| {
        let placed = segment.allocate(len * PAGE_SIZE, PAGE_SIZE, FromStart, hints);
        segment.check().expect("the books are right");
        placed
    };
    assert_eq!(allocate(15, &[hint(2, FromEnd)]), Some(pages(45, 15)));
    assert_eq!(allocate(10, &[hint(2, FromStart), hint(3, FromStart)]), Some(pages(60, 10)));
    // The last bank's end was left out of the table; no bank has 127 pages of room, and none has number 0 or 9.
    assert_eq!(allocate(20, &[hint(0, FromEnd), hint(9, FromEnd), hint(2, FromEnd)]), Some(pages(70, 20)));
    // It may cross the end of a bank when no bank is hinted.
    assert_eq!(allocate(45, &[hint(1, FromStart)]), Some(pages(0, 45)));
}

/// SEG-31.
#[test]
fn a_bank_table_that_does_not_divide_the_segment_is_refused() {
    let with_ends = |ends: &[u64]| LinearSegment::with_banks(10 * PAGE_SIZE, ends).map(|segment| segment.size());
    let wrong = |bank| Err(BankRangeTableError { bank });
    assert_eq!(with_ends(&[PAGE_SIZE, 10 * PAGE_SIZE]), Ok(10 * PAGE_SIZE));
    assert_eq!(with_ends(&[0]), wrong(1));
    assert_eq!(with_ends(&[PAGE_SIZE, PAGE_SIZE]), wrong(2));
    assert_eq!(with_ends(&[PAGE_SIZE + 1]), wrong(1));
    assert_eq!(with_ends(&[PAGE_SIZE, 11 * PAGE_SIZE]), wrong(2));
    let many = |count: u64| Vec::from_iter((1..=count).map(|page| page * PAGE_SIZE));
    let with_many = |count| LinearSegment::with_banks(200 * PAGE_SIZE, &many(count)).map(|segment| segment.size());
    assert_eq!(with_many(126), Ok(200 * PAGE_SIZE));
    assert_eq!(with_many(127), wrong(127));
    assert_eq!(with_many(128), wrong(128));
}

#[test]
fn a_range_is_taken_where_it_is_free_and_nowhere_else() {
    let mut segment = segment_with_holes(100, &[(10, 20)]);
    assert_eq!(segment.allocate_at(pages(5, 10)), None);
    assert_eq!(segment.allocate_at(pages(25, 10)), None);
    assert_eq!(segment.allocate_at(pages(99, 2)), None);
    assert_eq!(segment.allocate_at(pages(15, 5)), Some(()));
    assert_eq!(segment.allocate_at(pages(15, 5)), None);
    assert_eq!(Vec::from_iter(segment.holes()), [pages(10, 5), pages(20, 10)]);
    assert_eq!((segment.free_bytes(), segment.largest_hole()), (15 * PAGE_SIZE, 10 * PAGE_SIZE));
}

#[test]
#[should_panic(expected = "was not all taken")]
fn free_ranges_cannot_be_given_back() {
    segment_with_holes(100, &[(10, 20)]).free(pages(29, 2));
}

#[test]
fn the_largest_segment_is_one_tebibyte() {
    let mut segment = LinearSegment::new(MAX_SEGMENT_SIZE);
    assert_eq!(segment.largest_hole(), 1 << 40);
    assert_eq!(segment.allocate(2 << 40, 4096, FromStart, &[]), None);
    let half = segment.allocate(1 << 39, 1 << 39, FromEnd, &[]).expect("it is empty");
    assert_eq!(half.offset, 1 << 39);
    assert_eq!(segment.allocate(4096, 1 << 50, FromEnd, &[]), Some(pages(0, 1)));
    assert_eq!(segment.allocate(4096, 1 << 50, FromEnd, &[]), None);
    segment.check().expect("the books are right");
}

#[test]
fn a_transaction_that_is_dropped_leaves_what_was() {
    let mut segment = segment_with_holes(100, &[(10, 20), (50, 5)]);
    let before = Vec::from_iter(segment.holes());
    let mut transaction = segment.transaction();
    transaction.free(pages(0, 10));
    transaction.allocate(30 * PAGE_SIZE, PAGE_SIZE, FromStart, &[]).expect("what was freed counts");
    transaction.free(pages(60, 5));
    transaction.allocate_at(pages(62, 3)).expect("what was freed counts");
    assert_eq!(transaction.segment().largest_hole(), 5 * PAGE_SIZE);
    transaction.roll_back();
    segment.check().expect("the books are right");
    assert_eq!(Vec::from_iter(segment.holes()), before);
}

#[test]
fn a_transaction_that_is_committed_counts() {
    let mut segment = segment_with_holes(100, &[]);
    let mut transaction = segment.transaction();
    transaction.free(pages(40, 10));
    transaction.allocate_at(pages(40, 3)).expect("what was freed counts");
    transaction.commit();
    assert_eq!(Vec::from_iter(segment.holes()), [pages(43, 7)]);
}

fn movable(start: u64, len: u64) -> Movable {
    Movable { range: pages(start, len), alignment: PAGE_SIZE }
}

#[test]
fn the_window_in_which_least_is_in_the_way_is_emptied() {
    let segment = segment_with_holes(40, &[(8, 2), (16, 8), (31, 4), (36, 4)]);
    let all = [movable(0, 8), movable(10, 6), movable(24, 7), movable(35, 1)];
    let plan = segment.plan_compaction(&all, 9 * PAGE_SIZE, PAGE_SIZE).unwrap();
    assert_eq!(plan.moves, [Move { range: pages(35, 1), offset: 8 * PAGE_SIZE }]);
    assert_eq!((plan.hole, plan.in_order), (pages(31, 9), true));
}

#[test]
fn neighbours_slide_where_no_window_can_be_emptied() {
    let segment = segment_with_holes(15, &[(0, 1), (7, 1), (14, 1)]);
    let plan = segment.plan_compaction(&[movable(1, 6), movable(8, 6)], 3 * PAGE_SIZE, PAGE_SIZE).unwrap();
    assert_eq!(plan.moves, [(1, 0), (8, 6)].map(|(from, to)| Move { range: pages(from, 6), offset: to * PAGE_SIZE }));
    assert_eq!((plan.hole, plan.in_order, plan.bytes_moved()), (pages(12, 3), true, 12 * PAGE_SIZE));
}

#[test]
fn fixed_ranges_between_all_gaps_prove_that_no_moves_help() {
    let segment = segment_with_holes(20, &[(0, 4), (6, 4), (14, 6)]);
    let plan = |movers: &[Movable], len: u64| segment.plan_compaction(movers, len * PAGE_SIZE, PAGE_SIZE);
    assert_eq!(plan(&[], 7), Err(CompactionError::Impossible));
    assert_eq!(plan(&[], 15), Err(CompactionError::Impossible));
    assert_eq!(plan(&[movable(4, 2)], 10).unwrap().hole, pages(0, 10));
    assert_eq!(plan(&[movable(4, 2)], 11), Err(CompactionError::Impossible));
    assert_eq!(plan(&[movable(4, 2), movable(10, 4)], 14).map(|plan| plan.hole.size), Ok(14 * PAGE_SIZE));
}

#[test]
fn ranges_take_the_places_of_each_other_where_nothing_less_makes_the_hole() {
    // The gaps have five and four pages. The hole of four needs the second, so the first holds both ranges without a rest.
    let segment = segment_with_holes(10, &[(0, 1), (3, 2), (9, 1)]);
    let plan = segment.plan_compaction(&[movable(1, 2), movable(6, 3)], 4 * PAGE_SIZE, PAGE_SIZE).unwrap();
    let [first, second] =
        [(6, 3, 0), (1, 2, 3)].map(|(from, len, to)| Move { range: pages(from, len), offset: to * PAGE_SIZE });
    assert_eq!(plan, Compaction { moves: vec![first, second], in_order: false, hole: pages(6, 4) });
}

#[test]
fn a_card_that_is_almost_full_of_small_ranges_is_compacted_by_moving_a_few() {
    let mut segment = LinearSegment::new(256 * MIB);
    let all: Vec<Extent> = (0..256).map(|_| segment.allocate(MIB, MIB, FromStart, &[]).unwrap()).collect();
    let is_freed = |at: &usize| at % 8 == 3;
    (0..256).filter(is_freed).for_each(|at| segment.free(all[at]));
    let kept = (0..256).filter(|at| !is_freed(at));
    let movers: Vec<Movable> = kept.map(|at| Movable { range: all[at], alignment: MIB }).collect();
    let plan = segment.plan_compaction(&movers, 16 * MIB, MIB).unwrap();
    assert_eq!(plan.bytes_moved(), 14 * MIB);
    let mut transaction = segment.transaction();
    transaction.make_moves(&plan.moves).unwrap();
    transaction.allocate_at(plan.hole).unwrap();
    transaction.commit();
    segment.check().expect("the books are right");
}

/// A range is free if all of it is: nobody has taken a page of it, and it lies in the segment.
#[test]
fn a_range_is_free_if_all_of_it_is() {
    let segment = segment_with_holes(100, &[(10, 20), (40, 5)]);
    for (start, len, is_free) in [
        (10, 20, true),
        (15, 5, true),
        (29, 1, true),
        (9, 2, false),
        (29, 2, false),
        (0, 5, false),
        (40, 5, true),
        (40, 6, false),
    ] {
        assert_eq!(segment.is_free(pages(start, len)), is_free, "{start} {len}");
    }
    assert!(!segment.is_free(pages(100, 1)), "outside of the segment");
}
