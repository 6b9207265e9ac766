//! Splitting beside a splitter that was written from its description alone, on random lists and on all small ones (SPL-02 to
//! SPL-11, I11, I18, I19).

use std::collections::{BTreeMap, BTreeSet};

use crate::patching::{random::Random, splitter::*, *};
use vidmm::{contract::SegmentSet, event::PortionBinding, *};

/// A line of a command buffer: whether a split point comes before it, what is bound to which slot, and a token to write there;
/// without one it reads.
#[derive(Clone, Copy, Debug)]
struct Line {
    splits: bool,
    slot: u32,
    allocation: Option<usize>,
    token: Option<u64>,
}

/// An adapter on which one list after another runs: what an earlier one left behind is where it is.
struct Bench {
    world: World,
    client: Client,
    allocations: Vec<AllocationId>,
    pages: Vec<u64>,
    segments: Vec<SegmentSet>,
    /// The memory segment and the aperture, in units of which all sizes are multiples.
    memories: [(SegmentId, u64); 2],
    /// Pages of a unit.
    unit: u64,
    tokens: Vec<u64>,
}

/// The outcome of a list.
struct Run {
    entries: Vec<Entry>,
    end: u32,
    parts: Vec<Part>,
    /// Where each part's allocations were.
    addresses: Vec<BTreeMap<usize, PhysicalAddress>>,
    refused_at: Option<u32>,
}

impl Bench {
    /// Memories and allocations of so many units of `unit` pages.
    fn new(unit: u64, memory: u64, aperture: u64, allocations: &[(u64, SegmentSet)]) -> Self {
        let knobs = PreparationKnobs { expect_preparation_failure: true, ..PreparationKnobs::default() };
        let mut world = World::new(Config {
            pages: memory * unit,
            aperture_pages: aperture * PAGES_PER_APERTURE_RANGE,
            knobs,
            ..Config::default()
        });
        let client = world.client();
        let create = |&(units, segments): &(u64, SegmentSet)| world.create(client, info(units * unit, segments));
        let ids = allocations.iter().map(create).collect();
        Self {
            world,
            client,
            allocations: ids,
            pages: allocations.iter().map(|&(units, _)| units * unit).collect(),
            segments: allocations.iter().map(|&(_, segments)| segments).collect(),
            memories: [(LOCAL, memory), (APERTURE, aperture)],
            unit,
            tokens: vec![0; allocations.len()],
        }
    }

    /// Runs a list, and looks at what was read.
    fn run(&mut self, lines: &[Line]) -> Run {
        let mut writer = Writer::new();
        for line in lines {
            if line.splits {
                writer = writer.split();
            }
            writer = match (line.allocation, line.token) {
                (None, _) => writer.unbind(line.slot),
                (Some(at), None) => writer.read(line.slot, self.allocations[at], self.pages[at] - 1),
                (Some(at), Some(token)) => writer.write(line.slot, self.allocations[at], self.pages[at] - 1, token),
            };
        }
        let desc = writer.finish();
        let end = desc.command.len() as u32;
        let splits: Vec<u32> = desc.patch_locations.iter().map(|location| location.split_offset).collect();
        let entry = |(line, &split): (&Line, &u32)| Entry { split, slot: line.slot, allocation: line.allocation };
        let entries = lines.iter().zip(&splits).map(entry).collect();
        self.world.forget();
        self.world.render(self.client.context, desc);
        self.world.run_all();
        assert!(self.world.vidmm.is_idle());
        assert!(self.world.outputs.is_empty(), "{:?}", self.world.outputs);
        let (mut run, mut read) =
            (Run { entries, end, parts: Vec::new(), addresses: Vec::new(), refused_at: None }, Vec::new());
        for event in &self.world.events {
            match event {
                Event::Portion { start_offset, end_offset, bindings, is_last, .. } => {
                    let number = |binding: &PortionBinding| {
                        let at = self.allocations.iter().position(|&id| Some(id) == binding.allocation);
                        at.map(|at| (at, binding.address))
                    };
                    let kept = bindings.iter().filter(|binding| binding.fixed).filter_map(number).map(|(at, _)| at);
                    let addresses: BTreeMap<usize, PhysicalAddress> = bindings.iter().filter_map(number).collect();
                    let required = addresses.keys().copied().collect();
                    run.parts.push(Part { start: *start_offset, end: *end_offset, required, kept: kept.collect() });
                    run.addresses.push(addresses);
                    assert_eq!(*is_last, *end_offset == end);
                }
                Event::PreparationFailed { offset, .. } => run.refused_at = Some(*offset),
                _ => {}
            }
        }
        let ended = run.parts.last().map_or(0, |part| part.end);
        for (line, _) in lines.iter().zip(&splits).filter(|&(_, &split)| split < ended) {
            match (line.allocation, line.token) {
                (Some(at), Some(token)) => self.tokens[at] = token,
                (Some(at), None) => read.push(self.tokens[at]),
                (None, _) => {}
            }
        }
        assert_eq!(self.world.read, read);
        run
    }

    /// Whether `more` can be placed beside what a part requires, if what it keeps stays where it was.
    fn has_room(&self, run: &Run, part: &Part, more: &BTreeSet<usize>) -> bool {
        let number = run.parts.iter().position(|other| other.start == part.start).unwrap_or(run.parts.len());
        let mut memories = self.memories.map(|(segment, units)| (segment, vec![false; units as usize]));
        for kept in &part.kept {
            let address = run.addresses[number - 1][kept];
            let (_, taken) = memories.iter_mut().find(|(segment, _)| *segment == address.segment).unwrap();
            let at = (address.offset / PAGE_SIZE / self.unit) as usize;
            taken[at..at + (self.pages[*kept] / self.unit) as usize].fill(true);
        }
        let item = |&at: &usize| ((self.pages[at] / self.unit) as usize, self.segments[at]);
        let items: Vec<(usize, SegmentSet)> =
            part.required.union(more).filter(|at| !part.kept.contains(at)).map(item).collect();
        can_be_placed(&mut memories, &items)
    }

    /// A list is cut only where it must be: as the one splitter and as the other, where each looks for places by itself.
    fn check_against_all_placements(&mut self, lines: &[Line]) -> Run {
        let run = self.run(lines);
        let (parts, refused_at) = split(&run.entries, run.end, |part, more, _| self.has_room(&run, part, more));
        assert_eq!(
            (&run.parts, run.refused_at),
            (&parts, refused_at),
            "{lines:?} of {:?} {:?} in {:?}",
            self.pages,
            self.segments,
            self.memories
        );
        Self::check_places(&run);
        run
    }

    /// Wherever it is cut: what each portion requires and keeps is what the other splitter says of the same cuts.
    fn check_against_its_own_cuts(&mut self, lines: &[Line]) -> Run {
        let run = self.run(lines);
        let cuts: BTreeSet<u32> = run.parts.iter().map(|part| part.start).chain(run.refused_at).collect();
        let takes = |part: &Part, _: &BTreeSet<usize>, offset: u32| {
            Some(offset) != run.refused_at && (offset == part.start || !cuts.contains(&offset))
        };
        let (parts, refused_at) = split(&run.entries, run.end, takes);
        assert_eq!((&run.parts, run.refused_at), (&parts, refused_at));
        Self::check_places(&run);
        run
    }

    /// SPL-08.
    fn check_places(run: &Run) {
        for at in 1..run.addresses.len() {
            for kept in &run.parts[at].kept {
                assert_eq!(
                    run.addresses[at - 1][kept],
                    run.addresses[at][kept],
                    "SPL-08: what is bound stays in place"
                );
            }
        }
    }
}

fn random_lines(random: &mut Random, max: u64, slots: u64, allocations: usize) -> Vec<Line> {
    let (split_every, unbind_every) = (1 + random.below(3), 2 + random.below(6));
    let mut line = |first: bool| Line {
        splits: first || random.one_in(split_every),
        slot: random.below(slots) as u32,
        allocation: (!random.one_in(unbind_every)).then(|| random.below(allocations as u64) as usize),
        token: random.one_in(2).then(|| 1 + random.below(1 << 40)),
    };
    let mut lines = vec![line(true)];
    lines.extend((1..max).map(|_| line(false)));
    lines
}

/// Ranges of the aperture are multiples of 64 KiB.
const PAGES_PER_APERTURE_RANGE: u64 = PAGE_SIZE_64K / PAGE_SIZE;

/// How many random lists a test runs: a tenth of them unless `SPLITTING_LISTS` says otherwise.
fn num_lists(all: u64) -> u64 {
    std::env::var("SPLITTING_LISTS").ok().map_or(all / 10, |lists| lists.parse().expect("a number of lists"))
}

/// Where any free page is as good as any other there is one right answer (SPL-05).
#[test]
fn pages_of_two_memories_are_split_as_the_description_says() {
    let lists = num_lists(100_000);
    let mut random = Random(4);
    let (mut parts, mut refused) = (0, 0);
    for _ in 0..lists / 50 {
        let (memory, aperture) = (1 + random.below(10), 1 + random.below(10));
        let num = 1 + random.below(16);
        let allocations: Vec<(u64, SegmentSet)> =
            (0..num).map(|_| (1, SegmentSet::of(if random.one_in(3) { APERTURE } else { LOCAL }))).collect();
        let mut bench = Bench::new(1, memory, aperture, &allocations);
        for _ in 0..50 {
            let (entries, slots) = (1 + random.below(100), 1 + random.below(16));
            let lines = random_lines(&mut random, entries, slots, allocations.len());
            let run = bench.run(&lines);
            let is_local = Vec::from_iter(allocations.iter().map(|(_, segments)| segments.contains(LOCAL)));
            let expected = split(&run.entries, run.end, |part, more, _| {
                let all: BTreeSet<&usize> = part.required.union(more).collect();
                let local = all.iter().filter(|&&&at| is_local[at]).count() as u64;
                local <= memory && all.len() as u64 - local <= aperture
            });
            parts += run.parts.len();
            refused += u64::from(run.refused_at.is_some());
            assert_eq!(
                (run.parts, run.refused_at),
                expected,
                "{lines:?} of {allocations:?} in {memory} and {aperture}"
            );
        }
    }
    println!("{lists} lists, {parts} portions, {refused} refused");
}

/// With sizes it depends on where things are: what is cut or refused had no place, wherever all that may move is put.
#[test]
fn ranges_are_cut_only_where_no_placement_would_do() {
    let lists = num_lists(100_000);
    let mut random = Random(5);
    let (mut parts, mut refused) = (0, 0);
    for _ in 0..lists / 50 {
        let memory = 4 + random.below(9);
        let num = 1 + random.below(7);
        let allocations: Vec<(u64, SegmentSet)> =
            (0..num).map(|_| (1 + random.below(5), SegmentSet::of(LOCAL))).collect();
        let mut bench = Bench::new(1, memory, 16, &allocations);
        for _ in 0..50 {
            let (entries, slots) = (1 + random.below(40), 1 + random.below(6));
            let lines = random_lines(&mut random, entries, slots, allocations.len());
            let run = bench.check_against_all_placements(&lines);
            parts += run.parts.len();
            refused += u64::from(run.refused_at.is_some());
        }
    }
    println!("{lists} lists, {parts} portions, {refused} refused");
}

/// Lists of 50 at a time on adapters with two memories, in which each allocation may be in one of `segments`.
fn on_two_memories(segments: &[SegmentSet], check: impl Fn(&mut Bench, &[Line]) -> Run) {
    let lists = num_lists(50_000);
    let mut random = Random(6);
    let (mut parts, mut refused) = (0, 0);
    for _ in 0..lists / 50 {
        let (memory, aperture) = (2 + random.below(5), 2 + random.below(5));
        let num = 1 + random.below(6);
        let allocations: Vec<(u64, SegmentSet)> =
            (0..num).map(|_| (1 + random.below(3), segments[random.below(segments.len() as u64) as usize])).collect();
        let mut bench = Bench::new(PAGES_PER_APERTURE_RANGE, memory, aperture, &allocations);
        for _ in 0..50 {
            let (entries, slots) = (1 + random.below(40), 1 + random.below(6));
            let run = check(&mut bench, &random_lines(&mut random, entries, slots, allocations.len()));
            parts += run.parts.len();
            refused += u64::from(run.refused_at.is_some());
        }
    }
    println!("{lists} lists, {parts} portions, {refused} refused");
}

#[test]
fn ranges_of_two_memories_are_cut_only_where_no_placement_would_do() {
    on_two_memories(&[SegmentSet::of(LOCAL), SegmentSet::of(APERTURE)], Bench::check_against_all_placements);
}

/// Which of two memories each is in is not searched for exhaustively: it may be cut more often than it must be.
#[test]
fn allocations_allowed_in_either_memory_are_required_and_kept_as_the_description_says() {
    let either = SegmentSet(0b11);
    on_two_memories(&[SegmentSet::of(LOCAL), SegmentSet::of(APERTURE), either], Bench::check_against_its_own_cuts);
}

/// Calls `each` with every list of `left` more lines, but for the names of slots and allocations.
fn all_lists(lines: &mut Vec<Line>, left: usize, slots: u32, allocations: usize, each: &mut impl FnMut(&[Line])) {
    if left == 0 {
        return each(lines);
    }
    let used_slots = lines.iter().map(|line| line.slot + 1).max().unwrap_or(0);
    let used = lines.iter().filter_map(|line| line.allocation).map(|at| at + 1).max().unwrap_or(0);
    for splits in if lines.is_empty() { &[true][..] } else { &[true, false] }.iter().copied() {
        for slot in 0..(used_slots + 1).min(slots) {
            for allocation in core::iter::once(None).chain((0..(used + 1).min(allocations)).map(Some)) {
                lines.push(Line { splits, slot, allocation, token: None });
                all_lists(lines, left - 1, slots, allocations, each);
                lines.pop();
            }
        }
    }
}

/// Every list of `entries` entries in 3 slots, with allocations of 1 to 4 pages, in memories of 4 to 8 pages in which they do not
/// fit all at once.
fn check_all_lists(entries: usize) -> u64 {
    let mut lists = Vec::new();
    all_lists(&mut Vec::new(), entries, 3, 4, &mut |lines| lists.push(lines.to_vec()));
    let mut count = 0;
    for sizes in (0..4u32.pow(4)).map(|number| [0, 2, 4, 6].map(|shift| 1 + u64::from(number >> shift & 3))) {
        for memory in 4..=8 {
            let mut bench = None;
            for lines in &lists {
                let used: BTreeSet<usize> = lines.iter().filter_map(|line| line.allocation).collect();
                // Sizes of what a list does not use make no difference to it.
                let is_another = (used.len()..4).any(|at| sizes[at] > 1);
                let fits = used.iter().map(|&at| sizes[at]).sum::<u64>() <= memory;
                if is_another || fits {
                    continue;
                }
                let bench = bench.get_or_insert_with(|| {
                    Bench::new(1, memory, 16, &sizes.map(|pages| (pages, SegmentSet::of(LOCAL))))
                });
                bench.check_against_all_placements(lines);
                count += 1;
            }
        }
    }
    count
}

#[test]
fn all_lists_of_three_entries_are_cut_only_where_no_placement_would_do() {
    println!("{} lists", check_all_lists(3));
}

#[test]
#[ignore = "takes a minute"]
fn all_lists_of_four_entries_are_cut_only_where_no_placement_would_do() {
    println!("{} lists", check_all_lists(4));
}

#[test]
#[ignore = "takes more than ten minutes"]
fn all_lists_of_five_entries_are_cut_only_where_no_placement_would_do() {
    println!("{} lists", check_all_lists(5));
}
