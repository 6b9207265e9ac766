//! Lists that miss: memory for half of all bytes, zipf(0.9) draws, a GPU two submissions behind (R3, R4, R5, R7, R8).
//!
//! The cost of a miss is the time that a submission takes beyond the same submission with room for everything, by misses.

use std::hint::black_box;

use vidmm::{AllocationId, EvictFlags};

use crate::{
    Scale,
    residency::latency_metrics,
    support::{
        clock::nanoseconds,
        draws::{Lists, Popularity, SplitMix64},
        ptr_lru::PtrLru,
        report::{Goal, Metric, Report},
        world::{ALLOCATION_SIZE, READ_ONLY, World},
    },
};

/// Submissions that the GPU is behind.
const LAG: u64 = 2;

/// The population that growth is measured from (R5).
const SMALL: usize = 10_000;

/// The length of the lists that growth is measured with.
const GROWTH_K: usize = 64;

/// Measures each population, and one also with every allocation mapped.
pub fn run(scale: &Scale, report: &mut Report) {
    let most = scale.populations[scale.populations.len() - 1];
    let small = population(scale, SMALL, &[GROWTH_K], false, report)[0];
    let mut of_most = small;
    for &n in scale.populations {
        let lengths: &[usize] = if n == most { &[GROWTH_K, 256, 1024] } else { &[256] };
        of_most = population(scale, n, lengths, false, report)[0];
    }
    let growth = format!("R5 growth n={most} / n={SMALL} k={GROWTH_K}");
    report.add(Metric::against(growth, "ns", &[(of_most, small)], Goal::report(3.0)));
    population(scale, 100_000, &[256], true, report);
}

/// A manager with allocations.
struct Side {
    world: World,
    allocations: Vec<AllocationId>,
    peer: PtrLru,
}

impl Side {
    /// `n` allocations, all with content in their backing stores, and room for `capacity` of them.
    fn new(n: usize, capacity: usize, mapped: bool) -> Self {
        let mut world = World::start(capacity);
        let allocations = world.create_all(n);
        if mapped {
            allocations.iter().for_each(|&allocation| world.map(allocation));
        }
        world.visit_all(&allocations, EvictFlags::empty());
        let peer = PtrLru::new(n, ALLOCATION_SIZE, capacity as u64 * ALLOCATION_SIZE, LAG);
        Self { world, allocations, peer }
    }

    /// Brings in as many as there is room for, the most popular last.
    fn fill(&mut self, by_rank: &[u32]) {
        let coldest_first: Vec<u32> = by_rank.iter().rev().copied().collect();
        let named: Vec<_> = coldest_first.iter().map(|&index| self.allocations[index as usize]).collect();
        self.world.visit_all(&named, READ_ONLY);
        coldest_first.chunks(256).for_each(|portion| self.peer.submit(portion));
    }

    /// One submission of a client that runs ahead of the GPU.
    fn submission(&mut self, list: &[AllocationId]) {
        let _ = self.world.make_resident(list);
        let number = self.world.submit();
        self.world.evict(list, READ_ONLY);
        self.world.settle();
        self.world.complete(number.saturating_sub(LAG));
        self.world.settle();
    }
}

/// The time and the bytes of one round, on one side.
#[derive(Clone, Copy)]
struct Taken {
    own: f64,
    theirs: f64,
    own_misses: u64,
    their_misses: u64,
    own_over_budget: u64,
    their_over_budget: u64,
}

fn round(side: &mut Side, lists: &[&[u32]], named: &[&[AllocationId]], latencies: &mut Vec<f64>) -> Taken {
    let before = (side.world.misses(), side.peer.misses, side.peer.over_budget);
    let (mut own, mut own_over_budget) = (0.0, 0);
    for list in named {
        let taken = nanoseconds(|| side.submission(list));
        latencies.push(taken);
        own += taken;
        own_over_budget += u64::from(side.world.is_over_budget());
    }
    let theirs = nanoseconds(|| lists.iter().for_each(|list| side.peer.submit(black_box(list))));
    Taken {
        own,
        theirs,
        own_misses: side.world.misses() - before.0,
        their_misses: side.peer.misses - before.1,
        own_over_budget,
        their_over_budget: side.peer.over_budget - before.2,
    }
}

/// Measures lists of some lengths. Returns the nanoseconds of a handle, by length.
fn population(scale: &Scale, n: usize, lengths: &[usize], mapped: bool, report: &mut Report) -> Vec<f64> {
    let mut random = SplitMix64(3);
    let popularity = Popularity::zipf(n, 0.9, &mut random);
    let Popularity::Zipf { by_rank, .. } = &popularity else { unreachable!("it was just made") };
    let (mut tight, mut roomy) = (Side::new(n, n / 2, mapped), Side::new(n, n, mapped));
    tight.fill(&by_rank[..n / 2]);
    roomy.fill(by_rank);

    let rounds = 2 * scale.rounds;
    let mut of_lengths = Vec::new();
    for &k in lengths {
        let lists = Lists::draw(scale.handles / k * rounds, k, &popularity, &mut random);
        let named = lists.named(&tight.allocations);
        let (mut latencies, mut ignored, mut taken) = (Vec::new(), Vec::new(), Vec::new());
        for number in 0..rounds {
            if number == scale.rounds {
                latencies.clear();
            }
            let lists = Vec::from_iter(lists.round(number, rounds));
            let named = Vec::from_iter(named.round(number, rounds));
            let paging = round(&mut tight, &lists, &named, &mut latencies);
            let resident = round(&mut roomy, &lists, &named, &mut ignored);
            taken.push((paging, resident));
        }
        let cell = Cell { name: format!("n={n} k={k}{}", if mapped { " mapped" } else { "" }), n, k };
        let submissions = lists.len() / rounds;
        of_lengths.push(metrics(&cell, &taken[scale.rounds..], submissions, report));
        latencies.sort_unstable_by(f64::total_cmp);
        latency_metrics(format!("R8 paging {}", cell.name), &latencies, Goal::report(2.0))
            .for_each(|metric| report.add(metric));
    }
    of_lengths
}

/// One line of the table's families.
struct Cell {
    name: String,
    n: usize,
    k: usize,
}

/// Reports a cell. Returns the nanoseconds of a handle.
fn metrics(cell: &Cell, taken: &[(Taken, Taken)], submissions: usize, report: &mut Report) -> f64 {
    let Cell { name, n, k } = cell;
    let handles = (submissions * k) as f64;
    let per_handle = of_rounds(taken, |paging, _| (paging.own / handles, paging.theirs / handles));
    let resident = of_rounds(taken, |_, resident| (resident.own / handles, resident.theirs / handles));
    let misses =
        of_rounds(taken, |paging, _| (paging.own_misses as f64 / handles, paging.their_misses as f64 / handles));
    let per_miss = of_rounds(taken, |paging, resident| {
        let own = (paging.own - resident.own) / paging.own_misses as f64;
        (own, (paging.theirs - resident.theirs) / paging.their_misses as f64)
    });
    let over = |own: bool| {
        let of = |taken: &Taken| if own { taken.own_over_budget } else { taken.their_over_budget };
        let shares = taken.iter().map(|(paging, _)| of(paging) as f64 / submissions as f64);
        Vec::from_iter(shares)
    };
    let alone = Vec::from_iter(per_miss.iter().map(|&(own, _)| own));
    let is_of_r3 = *k == 1024 && *n > 100_000;
    let handle = Metric::against(
        format!("R3 paging {name}: handle"),
        "ns",
        &per_handle,
        if is_of_r3 { Goal::gate(0.25) } else { None },
    );
    let nanoseconds = handle.value();
    report.add(handle);
    report.add(Metric::against(format!("R3 paging {name}: all resident"), "ns", &resident, None));
    report.add(Metric::against(format!("R3 paging {name}: misses by handle"), "", &misses, None));
    report.add(Metric::against(format!("R4 paging {name}: miss"), "ns", &per_miss, Goal::report(0.5)));
    report.add(Metric::alone(format!("R4 paging {name}: miss of 64 KiB"), "ns", &alone, Goal::report(120.0)));
    report.add(Metric::alone(format!("R7 paging {name}: over budget"), "", &over(true), Goal::exact(0.0)));
    report.add(Metric::alone(format!("R7 paging {name}: ptr-lru over budget"), "", &over(false), None));
    nanoseconds
}

/// The figure that `what` makes of each round: the paging side, and the side with room for everything.
fn of_rounds(taken: &[(Taken, Taken)], what: impl Fn(Taken, Taken) -> (f64, f64)) -> Vec<(f64, f64)> {
    taken.iter().map(|&(paging, resident)| what(paging, resident)).collect()
}
