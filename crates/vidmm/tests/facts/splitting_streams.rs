//! Results do not depend on where DMA buffers are cut (SPL-01, SPL-06, I02): the same command streams run in a memory
//! that holds all, in one that holds little, and cut at every split point.

use std::collections::{BTreeMap, BTreeSet};

use crate::patching::{random::Random, *};
use vidmm::{contract::SegmentSet, *};

const CONTEXTS: usize = 3;
/// Allocations of each context; contexts share none.
const ALLOCATIONS: usize = 6;
const SLOTS: u64 = 5;
/// Pages of the small memory.
const SMALL: u64 = 8;

/// A command of a stream; allocations by number.
#[derive(Clone, Copy, Debug)]
enum Op {
    Split,
    Read { slot: u32, allocation: usize, page: u64 },
    Write { slot: u32, allocation: usize, page: u64, token: u64 },
    Program { slot: u32, allocation: usize },
    ReadBound { slot: u32, page: u64 },
    WriteBound { slot: u32, page: u64, token: u64 },
    Unbind { slot: u32 },
}

/// Command buffers of three contexts, in the order in which they are rendered.
struct Stream {
    /// Pages of each context's allocations, and where they may be.
    allocations: Vec<(u64, SegmentSet)>,
    buffers: Vec<(usize, Vec<Op>)>,
}

/// Writes one command buffer.
struct Author<'a> {
    random: &'a mut Random,
    allocations: &'a [(u64, SegmentSet)],
    ops: Vec<Op>,
    table: BTreeMap<u32, usize>,
    /// Slots of the GPU that hold what the table says.
    programmed: BTreeMap<u32, usize>,
    /// The requirements of this split point together with what stays bound.
    required: BTreeSet<usize>,
    /// Slots that this split point has not reprogrammed, and those of them that it has used: these it cannot reprogram any more,
    /// as what is reprogrammed at a split point is not there from the split point on.
    old: BTreeSet<u32>,
    carried: BTreeSet<u32>,
    rebinds_all: bool,
}

impl Author<'_> {
    fn pages(&self, required: &BTreeSet<usize>) -> u64 {
        required.iter().map(|&at| self.allocations[at].0).sum()
    }

    fn split(&mut self) {
        self.ops.push(Op::Split);
        if self.rebinds_all {
            for slot in Vec::from_iter(self.table.keys().copied()) {
                self.unbind(slot);
            }
        }
        self.required = self.table.values().copied().collect();
        self.old = self.table.keys().copied().collect();
        self.carried.clear();
    }

    fn unbind(&mut self, slot: u32) {
        self.ops.push(Op::Unbind { slot });
        self.table.remove(&slot);
        self.programmed.remove(&slot);
    }

    fn bind(&mut self) {
        let slot = self.random.below(SLOTS) as u32;
        let allocation = self.random.below(ALLOCATIONS as u64) as usize;
        if self.carried.contains(&slot) {
            return;
        }
        self.old.remove(&slot);
        let mut required = self.required.clone();
        required.insert(allocation);
        if self.pages(&required) > SMALL {
            return self.unbind(slot);
        }
        self.required = required;
        self.table.insert(slot, allocation);
        self.programmed.remove(&slot);
        let (page, token) = (self.random.below(self.allocations[allocation].0), 1 + self.random.below(1 << 40));
        self.ops.push(match self.random.below(4) {
            0 => Op::Read { slot, allocation, page },
            1 => Op::Write { slot, allocation, page, token },
            _ => {
                self.programmed.insert(slot, allocation);
                Op::Program { slot, allocation }
            }
        });
    }

    fn use_bound(&mut self) {
        let chosen = self.random.below(SLOTS) as usize % self.programmed.len().max(1);
        let Some((&slot, &allocation)) = self.programmed.iter().nth(chosen) else { return };
        self.carried.extend(self.old.get(&slot));
        let (page, token) = (self.random.below(self.allocations[allocation].0), 1 + self.random.below(1 << 40));
        self.ops.push(match self.random.one_in(2) {
            true => Op::ReadBound { slot, page },
            false => Op::WriteBound { slot, page, token },
        });
    }

    fn write(mut self) -> Vec<Op> {
        self.split();
        for _ in 0..self.random.below(50) {
            match self.random.below(8) {
                0 | 1 => self.split(),
                2..=4 => self.bind(),
                _ => self.use_bound(),
            }
        }
        self.ops
    }
}

impl Stream {
    /// A stream in which nothing is bound that does not fit into the small memory: either all allocations are of one size, or
    /// nothing stays bound at a split point, so that whatever holds all pages holds all ranges.
    fn random(random: &mut Random) -> Self {
        let rebinds_all = random.one_in(2);
        let same = [1, 2, 4][random.below(3) as usize];
        let kinds = [SegmentSet::of(LOCAL), SegmentSet::of(LOCAL), SegmentSet::of(APERTURE), SegmentSet(0b11)];
        let size = |random: &mut Random| if rebinds_all { 1 + random.below(5) } else { same };
        let allocations: Vec<(u64, SegmentSet)> =
            (0..ALLOCATIONS).map(|_| (size(random), kinds[random.below(4) as usize])).collect();
        let mut buffers = Vec::new();
        for _ in 0..4 + random.below(8) {
            let context = random.below(CONTEXTS as u64) as usize;
            let author = Author {
                random,
                allocations: &allocations,
                ops: Vec::new(),
                table: BTreeMap::new(),
                programmed: BTreeMap::new(),
                required: BTreeSet::new(),
                old: BTreeSet::new(),
                carried: BTreeSet::new(),
                rebinds_all,
            };
            buffers.push((context, author.write()));
        }
        Self { allocations, buffers }
    }
}

fn command_buffer(ops: &[Op], allocations: &[AllocationId]) -> Writer {
    ops.iter().fold(Writer::new(), |writer, &op| match op {
        Op::Split => writer.split(),
        Op::Read { slot, allocation, page } => writer.read(slot, allocations[allocation], page),
        Op::Write { slot, allocation, page, token } => writer.write(slot, allocations[allocation], page, token),
        Op::Program { slot, allocation } => writer.program(slot, allocations[allocation]),
        Op::ReadBound { slot, page } => writer.read_bound(slot, page),
        Op::WriteBound { slot, page, token } => writer.write_bound(slot, page, token),
        Op::Unbind { slot } => writer.unbind(slot),
    })
}

/// The outcome of a stream: what each context read, and at last every page of every allocation; and how many portions
/// it took.
fn run(stream: &Stream, config: Config, order: u64) -> (Vec<Vec<u64>>, usize) {
    let mut random = Random(order);
    let mut world = World::new(config);
    let clients = [world.client(), world.client()];
    let copy = Client { context: world.context(clients[0].device, COPY), ..clients[0] };
    let clients = [clients[0], clients[1], copy];
    let allocations: Vec<Vec<AllocationId>> = clients
        .iter()
        .map(|&client| {
            let create = |&(pages, segments): &(u64, SegmentSet)| world.create(client, info(pages, segments));
            stream.allocations.iter().map(create).collect()
        })
        .collect();
    for (context, ops) in &stream.buffers {
        world.render(clients[*context].context, command_buffer(ops, &allocations[*context]).finish());
        for _ in 0..random.below(8) {
            match random.below(4) {
                0 => world.poll(),
                engine => drop(world.complete(engine as u32 - 1)),
            }
        }
    }
    world.run_all();
    assert!(world.vidmm.is_idle());
    assert_eq!(world.errors(), []);
    let portions = world.portions().len();
    let mut read: Vec<Vec<u64>> = world.read_by.values().cloned().collect();
    for (client, allocations) in clients.iter().zip(&allocations) {
        for (&allocation, (pages, _)) in allocations.iter().zip(&stream.allocations) {
            world.read.clear();
            let writer = (0..*pages).fold(Writer::new().split(), |writer, page| writer.read(0, allocation, page));
            world.render(client.context, writer.finish());
            world.run_all();
            read.push(world.read.clone());
        }
    }
    assert_eq!(world.errors(), []);
    (read, portions)
}

fn config(pages: u64, knobs: PreparationKnobs) -> Config {
    Config { pages, aperture_pages: 1024, knobs, ..Config::default() }
}

const PLAIN: PreparationKnobs = PreparationKnobs {
    take_split_point: false,
    never_prepatch: false,
    always_repatch: false,
    expect_preparation_failure: false,
    accept_max_slot_id: false,
};

/// Runs 200 streams in a large memory and as `config` says, and compares.
fn check(config: Config) {
    let mut random = Random(6);
    let (mut whole, mut cut) = (0, 0);
    for number in 0..200 {
        let stream = Stream::random(&mut random);
        let (expected, buffers) = run(&stream, self::config(1024, PLAIN), 0);
        assert_eq!(buffers, stream.buffers.len(), "nothing is cut where all fits");
        let (read, portions) = run(&stream, config.clone(), number);
        assert!(read == expected, "stream {number}: {:?}: {:?}", stream.allocations, stream.buffers);
        whole += buffers;
        cut += portions;
    }
    assert!(cut > whole, "{whole} DMA buffers ran in {cut} portions");
    println!("{whole} DMA buffers, {cut} portions");
}

#[test]
fn streams_that_are_cut_for_want_of_memory_compute_the_same() {
    check(config(SMALL, PLAIN));
}

#[test]
fn streams_whose_portions_others_come_between_compute_the_same() {
    check(Config { preemption_aware: true, ..config(SMALL, PLAIN) });
}

#[test]
fn streams_that_are_cut_at_every_split_point_compute_the_same() {
    check(config(1024, PreparationKnobs { take_split_point: true, ..PLAIN }));
}

#[test]
fn streams_that_are_cut_at_every_split_point_for_want_of_memory_too_compute_the_same() {
    check(config(SMALL, PreparationKnobs { take_split_point: true, never_prepatch: true, ..PLAIN }));
}

#[test]
fn streams_that_are_always_patched_compute_the_same() {
    check(config(SMALL, PreparationKnobs { always_repatch: true, ..PLAIN }));
}

/// A paging buffer of one operation, so that a portion waits for many.
#[test]
fn streams_that_are_paged_operation_by_operation_compute_the_same() {
    check(Config { paging_buffer: 64, ..config(SMALL, PLAIN) });
}
