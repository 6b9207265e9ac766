//! The cells: worlds of a size, each with an operation of the same cost at any size.

use vidmm::{
    AllocationId, ContextId, MakeResidentFlags, MemorySegmentGroup, PriorityBand, SubmitDesc, Visibility,
    policy::PolicyChoice,
};
use vidmm_client::{Ladder, ManageFlags, Managed, ResidencyManager, ResidencySet};
use vidmm_replay::{
    Measure, Object, PAGE, PlayOptions, Step, Study, Use,
    null::{NullAllocation, NullMachine, RENDER},
};
use vidmm_trace::Lifetime;

use crate::{
    draws::{Popularity, SplitMix64},
    world::{ALLOCATION_SIZE, Client, READ_ONLY, USUAL, World},
};

/// An operation.
pub type Op = Box<dyn FnMut()>;

/// A cost at two sizes.
pub struct Cell {
    pub name: &'static str,
    /// The counted unit, in words.
    pub unit: &'static str,
    /// The smaller of the two sizes.
    pub size: usize,
    /// Makes a world of a size, and the operation in it.
    pub set_up: fn(usize) -> Op,
    /// Units of an operation.
    pub units: usize,
    /// Whether the longest operation counts, not their sum.
    pub longest: bool,
    /// The reason of a known growth.
    pub grows: Option<&'static str>,
}

const LIST: usize = 64;

const CELL: Cell = Cell { name: "", unit: "", size: 1000, set_up: pairs, units: 1, longest: false, grows: None };

pub const CELLS: [Cell; 15] = [
    Cell { name: "pair", unit: "MakeResident and Evict of a resident allocation", units: LIST, ..CELL },
    Cell { name: "miss", unit: "MakeResident with a victim, and Evict", set_up: misses, units: LIST, ..CELL },
    Cell { name: "pause", unit: "the same, the longest operation", set_up: misses, units: LIST, longest: true, ..CELL },
    Cell { name: "submission", unit: "a submission on a long list", set_up: submissions, ..CELL },
    Cell { name: "life", unit: "an allocation's life", set_up: lives, ..CELL },
    Cell { name: "refusal", unit: "a refused MakeResident of one, on a long list", set_up: refusals, ..CELL },
    Cell {
        name: "protected",
        unit: "a miss beside processes within their shares",
        size: 100,
        set_up: protected,
        ..CELL
    },
    Cell {
        name: "contexts",
        unit: "a submission beside contexts with work in flight",
        size: 100,
        set_up: contexts,
        ..CELL
    },
    Cell { name: "ranges", unit: "one range joins a list of ranges, and leaves", set_up: ranges, ..CELL },
    Cell { name: "client", unit: "a use through vidmm-client, resident", set_up: client, units: LIST, ..CELL },
    Cell {
        name: "client-miss",
        unit: "a use through vidmm-client, with paging",
        set_up: paging_client,
        units: LIST,
        ..CELL
    },
    Cell {
        name: "budgets",
        unit: "a change of a band, and a budget asked",
        size: 100,
        set_up: budgets,
        grows: Some("a tree of processes by rank: logarithmic"),
        ..CELL
    },
    Cell { name: "study", unit: "a request of a study under lru", set_up: lru_study, units: LIST, ..CELL },
    Cell {
        name: "study-s3-fifo",
        unit: "a request of a study under s3-fifo",
        set_up: s3_fifo_study,
        units: LIST,
        ..CELL
    },
    Cell {
        name: "study-predict",
        unit: "a request of a study under predict",
        set_up: predict_study,
        units: LIST,
        ..CELL
    },
];

/// Lists of allocations in turn, from the first to the last and again.
fn in_turn(allocations: Vec<AllocationId>) -> impl FnMut() -> Vec<AllocationId> {
    let mut next = 0;
    move || {
        let list = Vec::from_iter((0..LIST).map(|at| allocations[(next + at) % allocations.len()]));
        next = (next + LIST) % allocations.len();
        list
    }
}

fn visits(mut world: World, allocations: Vec<AllocationId>) -> Op {
    world.visit_all(&allocations, READ_ONLY);
    let mut list = in_turn(allocations);
    Box::new(move || {
        let list = list();
        let _ = world.make_resident(&list);
        world.settle();
        world.evict(&list, READ_ONLY);
        world.settle();
    })
}

fn pairs(size: usize) -> Op {
    let mut world = World::start(size);
    let allocations = world.create_all(size);
    visits(world, allocations)
}

fn misses(size: usize) -> Op {
    let mut world = World::start(size);
    let allocations = world.create_all(2 * size);
    visits(world, allocations)
}

fn submissions(size: usize) -> Op {
    let mut world = World::start(size);
    let allocations = world.create_all(size);
    allocations.chunks(LIST).for_each(|list| _ = world.make_resident(list));
    world.settle();
    Box::new(move || {
        let number = world.submit();
        world.settle();
        world.complete(number);
        world.settle();
    })
}

fn lives(size: usize) -> Op {
    let mut world = World::start(2 * size);
    let allocations = world.create_all(size);
    world.visit_all(&allocations, READ_ONLY);
    Box::new(move || {
        let allocation = world.create();
        world.destroy(allocation);
        world.settle();
    })
}

fn refusals(size: usize) -> Op {
    let mut world = World::start(size);
    let missing = loop {
        let allocation = world.create();
        if !world.may_be_resident(&[allocation]) {
            break allocation;
        }
        world.settle();
    };
    Box::new(move || assert!(!world.may_be_resident(&[missing]), "there is no room"))
}

/// Processes with exactly their reservation, beside a process with paging in the rest. Unused allocations go in the order of processes:
/// the paging process is the last.
fn protected(size: usize) -> Op {
    let mut world = World::start(2 * size + 2 * LIST);
    let visit = |world: &mut World, client: Client, allocation| {
        let vidmm = &mut world.machine.vidmm;
        let _ = vidmm.make_resident(client.queue, &[allocation], MakeResidentFlags::empty()).expect("it fits");
        world.settle();
        world.machine.vidmm.evict(client.device, &[allocation], READ_ONLY).expect("it is listed");
        world.settle();
    };
    for _ in 0..size {
        let client = world.client();
        let vidmm = &mut world.machine.vidmm;
        let reserved =
            vidmm.change_video_memory_reservation(client.process, MemorySegmentGroup::Local, ALLOCATION_SIZE);
        reserved.expect("half of the memory may be reserved");
        let allocation = world.create_for(client.device);
        visit(&mut world, client, allocation);
    }
    let client = world.client();
    let allocations = Vec::from_iter((0..2 * size + 4 * LIST).map(|_| world.create_for(client.device)));
    allocations.iter().for_each(|&allocation| visit(&mut world, client, allocation));
    let mut next = 0;
    Box::new(move || {
        next = (next + 1) % allocations.len();
        visit(&mut world, client, allocations[next]);
    })
}

/// Contexts with a packet in flight each. The GPU ends the oldest packet, and the context of the packet submits again.
fn contexts(size: usize) -> Op {
    let mut world = World::start(LIST);
    let client = world.client();
    let NullMachine { vidmm, driver, .. } = &mut world.machine;
    let create = |_| vidmm.create_context(driver, client.device, RENDER).expect("a context is created");
    let contexts: Vec<ContextId> = (0..size).map(create).collect();
    let submit = |world: &mut World, context| {
        world.machine.vidmm.submit(context, SubmitDesc::default()).expect("the queue has room");
        world.settle();
    };
    contexts.iter().for_each(|&context| submit(&mut world, context));
    let mut ended = 0;
    Box::new(move || {
        ended += 1;
        world.complete(ended as u64);
        submit(&mut world, contexts[(ended - 1) % contexts.len()]);
    })
}

fn ranges(size: usize) -> Op {
    let mut world = World::start(size + 1);
    let range = NullAllocation { is_range: true, ..USUAL };
    let allocations = Vec::from_iter((0..=size).map(|_| world.create_as(range)));
    let (one, others) = allocations.split_first().expect("there are some");
    others.chunks(LIST).for_each(|list| _ = world.make_resident(list));
    world.settle();
    let one = [*one];
    Box::new(move || {
        let _ = world.make_resident(&one);
        world.settle();
        world.evict(&one, READ_ONLY);
        world.settle();
    })
}

fn client(size: usize) -> Op {
    client_of(size, size)
}

fn paging_client(size: usize) -> Op {
    client_of(size, 2 * size)
}

/// A client with `count` allocations and room for `size`; submissions use random allocations.
fn client_of(size: usize, count: usize) -> Op {
    let mut world = World::start(size);
    let app = world.client();
    let NullMachine { vidmm, driver, .. } = &mut world.machine;
    let context = vidmm.create_context(driver, app.device, RENDER).expect("a context is created");
    let fence = vidmm
        .create_monitored_fence(vidmm::CreateMonitoredFenceDesc { device: Some(app.device), initial_fence_value: 0 })
        .expect("a fence is created");
    let mut manager = ResidencyManager::new(app.device, app.queue, Ladder::Trim);
    let managed = Vec::from_iter((0..count).map(|_| {
        let allocation = world.create_for(app.device);
        manager.manage(allocation, ALLOCATION_SIZE, ManageFlags::empty())
    }));
    let (mut set, mut submitted, mut random) = (ResidencySet::default(), 0, SplitMix64(3));
    let mut op = move || {
        set.clear();
        let mut draw = || -> Managed { managed[random.below(managed.len())] };
        (0..LIST).for_each(|_| _ = set.insert_read(draw()));
        manager.begin_submission(&mut world.machine.vidmm, fence, &mut set).expect("the set fits");
        submitted += 1;
        let signals = vec![vidmm::FenceValueDesc { fence, value: submitted }];
        let desc = SubmitDesc { signals, ..SubmitDesc::default() };
        world.machine.vidmm.submit(context, desc).expect("the queue has room");
        manager.submitted(submitted);
        world.settle();
        world.complete(submitted);
        world.settle();
        manager.fence_reached(fence, submitted);
    };
    // Before the count, the list is full.
    (0..16 * count / LIST).for_each(|_| op());
    Box::new(op)
}

fn budgets(size: usize) -> Op {
    let mut world = World::start(size);
    // The first half of the processes demands all memory.
    let processes = Vec::from_iter((0..size).map(|number| {
        let client = world.client();
        let pages = [world.create_for(client.device), world.create_for(client.device)];
        let list = if number < size / 2 { &pages[..] } else { &pages[..1] };
        let vidmm = &mut world.machine.vidmm;
        let _ = vidmm.make_resident(client.queue, list, MakeResidentFlags::empty()).expect("it is within its budget");
        client.process
    }));
    world.settle();
    let mut next = 0;
    Box::new(move || {
        next += 1;
        let process = processes[next % processes.len()];
        let band = [PriorityBand::Focus, PriorityBand::Normal][next / processes.len() % 2];
        let vidmm = &mut world.machine.vidmm;
        vidmm.set_process_priority(process, band, Visibility::Visible).expect("it exists");
        let info = vidmm.query_video_memory_info(process, MemorySegmentGroup::Local).expect("it exists");
        assert!(info.budget > 0, "a process has a budget");
    })
}

fn lru_study(size: usize) -> Op {
    study_of(size, PolicyChoice::LRU)
}

fn s3_fifo_study(size: usize) -> Op {
    study_of(size, PolicyChoice::S3_FIFO)
}

fn predict_study(size: usize) -> Op {
    study_of(size, PolicyChoice::PREDICT)
}

/// Requests by popularity, and memory for 30 % of the objects.
fn study_of(size: usize, policy: PolicyChoice) -> Op {
    let mut random = SplitMix64(7);
    let popularity = Popularity::zipf(size, 0.8, &mut random);
    let options = PlayOptions::new(size as u64 * 3 / 10 * PAGE, policy);
    let measure = Measure { page: PAGE, largest_list: PAGE, ..Measure::default() };
    let mut study = Study::watched(&measure, &options, |_| {}).expect("an object fits");
    let mut step = Step { objects: vec![Object { size: PAGE, lifetime: Lifetime::Whole }; size], ..Step::default() };
    let mut op = move || {
        for _ in 0..LIST {
            step.uses.clear();
            step.uses.push(Use::read(popularity.draw(&mut random)));
            study.submit(&step).expect("an object fits");
            step.objects.clear();
        }
    };
    // Before the count, memory is full.
    (0..8 * size / LIST).for_each(|_| op());
    Box::new(op)
}
