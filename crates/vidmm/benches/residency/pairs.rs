//! MakeResident and Evict of allocations that stay where they are: what residency costs without paging (R4).

use crate::{
    Scale,
    support::{
        clock::nanoseconds,
        draws::{Lists, Popularity, SplitMix64},
        ptr_lru::PtrLru,
        report::{Goal, Metric, Report},
        world::{ALLOCATION_SIZE, READ_ONLY, World},
    },
};

const LIST_LENGTHS: [usize; 3] = [1, 64, 256];

/// Measures lists of each length, drawn from all that exist.
pub fn run(scale: &Scale, report: &mut Report) {
    for &n in scale.populations {
        let mut world = World::start(n);
        let allocations = world.create_all(n);
        world.visit_all(&allocations, READ_ONLY);
        let mut peer = PtrLru::new(n, ALLOCATION_SIZE, n as u64 * ALLOCATION_SIZE, 2);
        Vec::from_iter(0..n as u32).chunks(256).for_each(|portion| peer.submit(portion));
        for k in LIST_LENGTHS {
            let count = scale.handles / k * 2 * scale.rounds;
            let lists = Lists::draw(count, k, &Popularity::Uniform(n), &mut SplitMix64(2));
            let named = lists.named(&allocations);
            let handles = (count / (2 * scale.rounds) * k) as f64;
            let rounds = (0..2 * scale.rounds).map(|round| {
                let mut visit = |list: &_| {
                    let _ = world.make_resident(list);
                    world.evict(list, READ_ONLY);
                    world.settle();
                };
                let own = nanoseconds(|| named.round(round, 2 * scale.rounds).for_each(&mut visit));
                let theirs = nanoseconds(|| lists.round(round, 2 * scale.rounds).for_each(|list| peer.submit(list)));
                (own / handles, theirs / handles)
            });
            let rounds = Vec::from_iter(rounds.skip(scale.rounds));
            let goal = if k == 256 { Goal::report(0.5) } else { None };
            report.add(Metric::against(format!("R4 pair n={n} k={k}"), "ns/pair", &rounds, goal));
        }
    }
}
