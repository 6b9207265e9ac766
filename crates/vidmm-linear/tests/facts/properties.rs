//! Random requests to a linear segment, against an oracle that keeps a sorted list of what is placed and looks at all of it
//! each time; and plans of moves, against all layouts that there are.

use proptest::prelude::*;
use vidmm_linear::*;

/// From 64 MiB up, holes are kept in another way.
const LARGE: u64 = 16 << 10;

/// After so many holes that miss an alignment, the smallest need not be taken.
const LOOKED_AT: usize = 32;

fn extent(start: u64, end: u64) -> Extent {
    Extent { offset: start * PAGE_SIZE, size: (end - start) * PAGE_SIZE }
}

/// A range of pages, as start and end.
type Pages = (u64, u64);

/// The ranges that are placed, sorted.
#[derive(Clone, Debug)]
struct Oracle {
    pages: u64,
    bank_ends: Vec<u64>,
    placed: Vec<Pages>,
}

#[derive(Clone, Debug)]
struct Request {
    len: u64,
    alignment: u64,
    direction: Direction,
    hints: Vec<HintedBank>,
}

impl Oracle {
    fn holes(&self) -> Vec<Pages> {
        let starts = [0].into_iter().chain(self.placed.iter().map(|&(_, end)| end));
        let ends = self.placed.iter().map(|&(start, _)| start).chain([self.pages]);
        starts.zip(ends).filter(|(start, end)| start < end).collect()
    }

    fn holes_in_bank(&self, bank: u8) -> Vec<Pages> {
        let Some(index) = usize::from(bank).checked_sub(1).filter(|&index| index < self.bank_ends.len()) else {
            return Vec::new();
        };
        let start = if index == 0 { 0 } else { self.bank_ends[index - 1] };
        let end = self.bank_ends[index];
        let parts = self.holes().into_iter().map(|hole| (hole.0.max(start), hole.1.min(end)));
        parts.filter(|(start, end)| start < end).collect()
    }

    fn is_free(&self, (start, end): Pages) -> bool {
        self.holes().iter().any(|hole| hole.0 <= start && end <= hole.1)
    }

    fn place(&mut self, range: Pages) {
        assert!(self.is_free(range), "{range:?} is not free");
        self.placed.push(range);
        self.placed.sort_unstable();
    }

    /// Every place that the rules allow. Nothing is allowed only if nothing fits.
    fn allowed(&self, request: &Request) -> Vec<Pages> {
        for hint in &request.hints {
            let of_bank = Request { direction: hint.direction, ..request.clone() };
            let places = best_fits(&self.holes_in_bank(hint.bank), &of_bank);
            if !places.is_empty() {
                return places.into_iter().map(|(_, place)| place).collect();
            }
        }
        let best = best_fits(&self.holes(), request);
        let is_nearer = |hole: Pages| match request.direction {
            Direction::FromStart => hole.0 < self.pages / 2,
            Direction::FromEnd => hole.0 >= self.pages / 2,
        };
        // Where every page will do, a hole of the half that the direction names comes first.
        let is_sorted = request.alignment == 1 && best.iter().all(|(hole, _)| hole.1 - hole.0 < LARGE);
        let prefers = is_sorted && best.iter().any(|&(hole, _)| is_nearer(hole));
        best.into_iter().filter(|&(hole, _)| !prefers || is_nearer(hole)).map(|(_, place)| place).collect()
    }
}

/// The holes that may be chosen, each with the place in it.
fn best_fits(holes: &[Pages], request: &Request) -> Vec<(Pages, Pages)> {
    let place = |hole: Pages| {
        let mut starts = (hole.0..=hole.1.checked_sub(request.len)?).filter(|start| start % request.alignment == 0);
        let start = match request.direction {
            Direction::FromStart => starts.next(),
            Direction::FromEnd => starts.next_back(),
        }?;
        Some((hole, (start, start + request.len)))
    };
    let len = |hole: Pages| hole.1 - hole.0;
    let fits: Vec<(Pages, Pages)> = holes.iter().filter_map(|&hole| place(hole)).collect();
    let smallest = fits.iter().map(|&(hole, _)| len(hole)).min().unwrap_or(0);
    let long_enough = holes.iter().filter(|&&hole| len(hole) >= request.len && len(hole) <= smallest).count();
    let is_near = long_enough <= LOOKED_AT;
    fits.into_iter().filter(|&(hole, _)| !is_near || len(hole) == smallest).collect()
}

#[derive(Clone, Debug)]
enum Step {
    Allocate(Request),
    AllocateAt {
        start: u64,
        len: u64,
    },
    /// Gives a part of something back: `from` and `to` are in hundredths of it.
    Free {
        pick: usize,
        from: u64,
        to: u64,
    },
    FreeAll {
        pick: usize,
    },
    /// The next steps are a transaction.
    Begin {
        commits: bool,
        count: usize,
    },
}

fn direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::FromStart), Just(Direction::FromEnd)]
}

fn request(longest: u64) -> impl Strategy<Value = Request> {
    let hint = (0u8..6, direction()).prop_map(|(bank, direction)| HintedBank { bank, direction });
    let len = prop_oneof![3 => 1..=longest.min(8), 1 => 1..=longest];
    let alignment = prop_oneof![3 => Just(0u32), 1 => 0u32..5].prop_map(|exponent| 1u64 << exponent);
    (len, alignment, direction(), prop::collection::vec(hint, 0..3))
        .prop_map(|(len, alignment, direction, hints)| Request { len, alignment, direction, hints })
}

fn step(pages: u64) -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => request(pages / 3).prop_map(Step::Allocate),
        1 => (0..pages + 2, 1..=pages / 4).prop_map(|(start, len)| Step::AllocateAt { start, len }),
        1 => (any::<usize>(), 0u64..50, 50u64..=100).prop_map(|(pick, from, to)| Step::Free { pick, from, to }),
        3 => any::<usize>().prop_map(|pick| Step::FreeAll { pick }),
        1 => (any::<bool>(), 1usize..8).prop_map(|(commits, count)| Step::Begin { commits, count }),
    ]
}

fn bank_ends(pages: u64) -> impl Strategy<Value = Vec<u64>> {
    prop::collection::btree_set(1..=pages, 0..4).prop_map(Vec::from_iter)
}

/// The operations that both a segment and a transaction have.
trait Segment {
    fn allocate(&mut self, request: &Request) -> Option<Extent>;
    fn allocate_at(&mut self, range: Extent) -> Option<()>;
    fn free(&mut self, range: Extent);
}

macro_rules! segment {
    ($name:ty) => {
        impl Segment for $name {
            fn allocate(&mut self, request: &Request) -> Option<Extent> {
                let Request { len, alignment, direction, ref hints } = *request;
                self.allocate(len * PAGE_SIZE, alignment * PAGE_SIZE, direction, hints)
            }

            fn allocate_at(&mut self, range: Extent) -> Option<()> {
                self.allocate_at(range)
            }

            fn free(&mut self, range: Extent) {
                self.free(range)
            }
        }
    };
}

segment!(LinearSegment);
segment!(Transaction<'_>);

fn make(step: &Step, segment: &mut impl Segment, oracle: &mut Oracle) {
    match *step {
        Step::Allocate(ref request) => {
            let allowed = oracle.allowed(request);
            match segment.allocate(request) {
                Some(taken) => {
                    let place = (taken.offset / PAGE_SIZE, taken.end() / PAGE_SIZE);
                    assert!(allowed.contains(&place), "{request:?} is at {place:?}, but may be at {allowed:?}");
                    oracle.place(place);
                }
                None => assert!(allowed.is_empty(), "{request:?} was refused, but may be at {allowed:?}"),
            }
        }
        Step::AllocateAt { start, len } => {
            let range = (start, start + len);
            let taken = segment.allocate_at(extent(range.0, range.1));
            assert_eq!(taken.is_some(), oracle.is_free(range));
            if taken.is_some() {
                oracle.place(range);
            }
        }
        Step::FreeAll { pick } => free(pick, 0, 100, segment, oracle),
        Step::Free { pick, from, to } => free(pick, from, to, segment, oracle),
        Step::Begin { .. } => {}
    }
}

fn free(pick: usize, from: u64, to: u64, segment: &mut impl Segment, oracle: &mut Oracle) {
    if oracle.placed.is_empty() {
        return;
    }
    let (start, end) = oracle.placed.swap_remove(pick % oracle.placed.len());
    let len = end - start;
    let freed = (start + len * from / 100, start + (len * to).div_ceil(100));
    let rest = [(start, freed.0), (freed.1, end)];
    oracle.placed.extend(rest.into_iter().filter(|(start, end)| start < end));
    oracle.placed.sort_unstable();
    segment.free(extent(freed.0, freed.1));
}

fn compare(segment: &LinearSegment, oracle: &Oracle) {
    segment.check().expect("the books are right");
    let holes: Vec<Extent> = oracle.holes().iter().map(|&(start, end)| extent(start, end)).collect();
    assert_eq!(Vec::from_iter(segment.holes()), holes);
    assert_eq!(segment.free_bytes(), holes.iter().map(|hole| hole.size).sum::<u64>());
    assert_eq!(segment.largest_hole(), holes.iter().map(|hole| hole.size).max().unwrap_or(0));
}

/// A segment's pages, the ends of its banks, and steps.
fn program() -> impl Strategy<Value = (u64, Vec<u64>, Vec<Step>)> {
    prop_oneof![Just(1u64 << 3), Just(70), Just(1_000), Just(100_000)]
        .prop_flat_map(|pages| (Just(pages), bank_ends(pages), prop::collection::vec(step(pages), 1..120)))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_place_is_one_that_the_rules_allow((pages, bank_ends, steps) in program()) {
        let ends: Vec<u64> = bank_ends.iter().map(|&page| page * PAGE_SIZE).collect();
        let mut segment = LinearSegment::with_banks(pages * PAGE_SIZE, &ends).expect("the table divides the segment");
        let implied = (!bank_ends.is_empty() && bank_ends.last() != Some(&pages)).then_some(pages);
        let bank_ends = bank_ends.into_iter().chain(implied).collect();
        let mut oracle = Oracle { pages, bank_ends, placed: Vec::new() };
        let mut steps = steps.iter();
        while let Some(step) = steps.next() {
            if let Step::Begin { commits, count } = *step {
                let before = oracle.clone();
                let mut transaction = segment.transaction();
                for step in steps.by_ref().take(count) {
                    make(step, &mut transaction, &mut oracle);
                    compare(transaction.segment(), &oracle);
                }
                if commits {
                    transaction.commit();
                } else {
                    transaction.roll_back();
                    oracle = before;
                }
            } else {
                make(step, &mut segment, &mut oracle);
            }
            compare(&segment, &oracle);
        }
    }

    #[test]
    fn a_plan_makes_the_hole_and_a_refusal_is_true(
        pieces in prop::collection::vec((1u64..5, piece()), 1..9),
        len in 1u64..8,
        alignment in 0u32..3,
    ) {
        let alignment = 1 << alignment;
        let case = Case::new(&pieces);
        let found = case.segment.plan_compaction(&case.movable, len * PAGE_SIZE, alignment * PAGE_SIZE);
        match found {
            Ok(plan) => case.judge(&plan, len, alignment),
            Err(CompactionError::Impossible) => {
                let wanted = [(len, alignment)];
                let mut occupied = case.fixed.clone();
                let movers: Vec<(u64, u64)> =
                    case.movable.iter().map(|one| (one.range.size / PAGE_SIZE, one.alignment / PAGE_SIZE)).collect();
                let exists = can_pack(&[&wanted[..], &movers[..]].concat(), case.pages, &mut occupied);
                prop_assert!(!exists, "a layout exists, but was said to be impossible");
            }
            Err(CompactionError::NotFound) => prop_assert!(false, "so few ranges are searched completely"),
        }
    }

    #[test]
    fn a_plan_for_a_large_segment_makes_the_hole(
        pieces in prop::collection::vec((1u64..40, piece()), 100..300),
        len in 1u64..200,
    ) {
        let case = Case::new(&pieces);
        if let Ok(plan) = case.segment.plan_compaction(&case.movable, len * PAGE_SIZE, PAGE_SIZE) {
            case.judge(&plan, len, 1);
        } else if case.fixed.is_empty() {
            prop_assert!(case.segment.free_bytes() < 4 * len * PAGE_SIZE, "with that much room there is a way");
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Piece {
    Hole,
    Fixed,
    /// To which power of two it would be aligned, if it is now.
    Movable(u32),
}

fn piece() -> impl Strategy<Value = Piece> {
    prop_oneof![3 => Just(Piece::Hole), 1 => Just(Piece::Fixed), 4 => (0u32..3).prop_map(Piece::Movable)]
}

struct Case {
    pages: u64,
    segment: LinearSegment,
    fixed: Vec<Pages>,
    movable: Vec<Movable>,
}

impl Case {
    fn new(pieces: &[(u64, Piece)]) -> Self {
        let pages = pieces.iter().map(|(len, _)| len).sum();
        let mut segment = LinearSegment::new(pages * PAGE_SIZE);
        let (mut fixed, mut movable) = (Vec::new(), Vec::new());
        let mut start = 0;
        for &(len, piece) in pieces {
            let range = extent(start, start + len);
            match piece {
                Piece::Hole => {}
                Piece::Fixed => fixed.push((start, start + len)),
                Piece::Movable(wish) => {
                    let alignment = PAGE_SIZE << wish.min(start.trailing_zeros());
                    movable.push(Movable { range, alignment });
                }
            }
            if !matches!(piece, Piece::Hole) {
                segment.allocate_at(range).expect("pieces do not overlap");
            }
            start += len;
        }
        Self { pages, segment, fixed, movable }
    }

    fn judge(&self, plan: &Compaction, len: u64, alignment: u64) {
        for one in &plan.moves {
            let mover = self.movable.iter().find(|mover| mover.range == one.range).expect("it may move");
            assert!(one.offset.is_multiple_of(mover.alignment));
            assert_ne!(one.offset, one.range.offset, "what stays is not moved");
        }
        assert_eq!(plan.hole.size, len * PAGE_SIZE);
        assert!(plan.hole.offset.is_multiple_of(alignment * PAGE_SIZE));
        let mut segment = self.segment.clone();
        let mut transaction = segment.transaction();
        transaction.make_moves(&plan.moves).expect("destinations do not overlap");
        transaction.allocate_at(plan.hole).expect("the hole is free");
        transaction.roll_back();
        let mut one_by_one = segment.transaction();
        let is_in_order = plan.moves.iter().all(|&one| one_by_one.make_moves(&[one]).is_some());
        assert_eq!(is_in_order, plan.in_order);
    }
}

/// Whether ranges of these lengths and alignments fit beside what is occupied: every place of every range is tried.
fn can_pack(wanted: &[(u64, u64)], pages: u64, occupied: &mut Vec<Pages>) -> bool {
    let Some((&(len, alignment), others)) = wanted.split_first() else { return true };
    for start in (0..=pages.saturating_sub(len)).step_by(alignment as usize) {
        let range = (start, start + len);
        if range.1 > pages || occupied.iter().any(|other| range.0 < other.1 && other.0 < range.1) {
            continue;
        }
        occupied.push(range);
        let packs = can_pack(others, pages, occupied);
        occupied.pop();
        if packs {
            return true;
        }
    }
    false
}
