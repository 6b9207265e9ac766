//! Lists that miss: memory for half of all bytes, zipf(0.9) draws, a GPU two submissions behind (R4, R8).
//!
//! What a miss costs is what a submission takes beyond the same submission with room for everything, by misses.

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

const K: usize = 256;

/// Submissions that the GPU is behind.
const LAG: u64 = 2;

/// Measures each population, and one also with every allocation mapped.
pub fn run(scale: &Scale, report: &mut Report) {
    for &n in scale.populations {
        cell(scale, n, false, report);
    }
    cell(scale, 100_000, true, report);
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
        coldest_first.chunks(K).for_each(|portion| self.peer.submit(portion));
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

/// What one round took and moved, on one side.
#[derive(Clone, Copy)]
struct Taken {
    own: f64,
    theirs: f64,
    own_misses: u64,
    their_misses: u64,
}

fn round(side: &mut Side, lists: &[&[u32]], named: &[&[AllocationId]], latencies: &mut Vec<f64>) -> Taken {
    let before = (side.world.misses(), side.peer.misses);
    let own = named.iter().map(|list| nanoseconds(|| side.submission(list)));
    let start = latencies.len();
    latencies.extend(own);
    let own = latencies[start..].iter().sum();
    let theirs = nanoseconds(|| lists.iter().for_each(|list| side.peer.submit(black_box(list))));
    let (own_misses, their_misses) = (side.world.misses() - before.0, side.peer.misses - before.1);
    Taken { own, theirs, own_misses, their_misses }
}

fn cell(scale: &Scale, n: usize, mapped: bool, report: &mut Report) {
    let mut random = SplitMix64(3);
    let popularity = Popularity::zipf(n, 0.9, &mut random);
    let Popularity::Zipf { by_rank, .. } = &popularity else { unreachable!("it was just made") };
    let (mut tight, mut roomy) = (Side::new(n, n / 2, mapped), Side::new(n, n, mapped));
    tight.fill(&by_rank[..n / 2]);
    roomy.fill(by_rank);

    let rounds = 2 * scale.rounds;
    let lists = Lists::draw(scale.handles / K * rounds, K, &popularity, &mut random);
    let named = lists.named(&tight.allocations);
    let (mut latencies, mut ignored) = (Vec::new(), Vec::new());
    let mut taken = Vec::new();
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
    let id = format!("paging n={n} k={K}{}", if mapped { " mapped" } else { "" });
    let submissions = lists.len() / rounds;
    latencies.sort_unstable_by(f64::total_cmp);
    metrics(&id, &taken[scale.rounds..], submissions, report);
    latency_metrics(id, &latencies, Goal::report(2.0)).for_each(|metric| report.add(metric));
}

fn metrics(id: &str, taken: &[(Taken, Taken)], submissions: usize, report: &mut Report) {
    let handles = (submissions * K) as f64;
    let per_handle = of_rounds(taken, |paging, _| (paging.own / handles, paging.theirs / handles));
    let resident = of_rounds(taken, |_, resident| (resident.own / handles, resident.theirs / handles));
    let misses =
        of_rounds(taken, |paging, _| (paging.own_misses as f64 / handles, paging.their_misses as f64 / handles));
    let per_miss = of_rounds(taken, |paging, resident| {
        let own = (paging.own - resident.own) / paging.own_misses as f64;
        (own, (paging.theirs - resident.theirs) / paging.their_misses as f64)
    });
    let alone = Vec::from_iter(per_miss.iter().map(|&(own, _)| own));
    report.add(Metric::against(format!("{id}: handle"), "ns", &per_handle, None));
    report.add(Metric::against(format!("{id}: handle, all resident"), "ns", &resident, None));
    report.add(Metric::against(format!("{id}: misses by handle"), "", &misses, None));
    report.add(Metric::against(format!("{id}: miss"), "ns", &per_miss, Goal::report(0.5)));
    report.add(Metric::alone(format!("{id}: miss of 64 KiB"), "ns", &alone, Goal::report(120.0)));
}

/// What `what` makes of each round: the paging side, and the side with room for everything.
fn of_rounds(taken: &[(Taken, Taken)], what: impl Fn(Taken, Taken) -> (f64, f64)) -> Vec<(f64, f64)> {
    taken.iter().map(|&(paging, resident)| what(paging, resident)).collect()
}
