//! A list of which 5 % change with each submission, as when a camera moves (R2). Everything is resident.

use std::hint::black_box;

use crate::{
    Scale,
    support::{
        clock::nanoseconds,
        draws::SplitMix64,
        ptr_lru::PtrLru,
        report::{Goal, Metric, Report},
        world::{ALLOCATION_SIZE, READ_ONLY, World},
    },
};

const K: usize = 1024;
const CHANGED: usize = K / 20;

/// Measures populations that are much larger than the list.
pub fn run(scale: &Scale, report: &mut Report) {
    for &n in scale.populations.iter().filter(|&&n| n > 10 * K) {
        let mut world = World::start(n);
        let allocations = world.create_all(n);
        world.visit_all(&allocations, READ_ONLY);
        let mut peer = PtrLru::new(n, ALLOCATION_SIZE, n as u64 * ALLOCATION_SIZE, 2);
        Vec::from_iter(0..n as u32).chunks(256).for_each(|portion| peer.submit(portion));

        // The list is a window over all allocations in random order, again and again: the oldest leave, others join.
        let order = SplitMix64(4).permutation(n);
        let order = Vec::from_iter(order.iter().cycle().take(n + K + CHANGED).copied());
        let named = Vec::from_iter(order.iter().map(|&index| allocations[index as usize]));
        let _ = world.make_resident(&named[..K]);
        let count = scale.handles / CHANGED;
        let mut next_at = 0;
        let mut round = || {
            let starts = Vec::from_iter((0..count).map(|step| (next_at + step * CHANGED) % n));
            next_at = (next_at + count * CHANGED) % n;
            let own = nanoseconds(|| {
                for &at in &starts {
                    let _ = world.make_resident(&named[at + K..at + K + CHANGED]);
                    world.evict(&named[at..at + CHANGED], READ_ONLY);
                    let number = world.submit();
                    world.settle();
                    world.complete(number.saturating_sub(2));
                }
            });
            let theirs = nanoseconds(|| {
                starts.iter().for_each(|&at| peer.submit(black_box(&order[at + CHANGED..at + CHANGED + K])));
            });
            (own / count as f64, theirs / count as f64)
        };
        (0..scale.rounds).for_each(|_| {
            black_box(round());
        });
        let rounds = Vec::from_iter((0..scale.rounds).map(|_| round()));
        report.add(Metric::against(format!("R2 drift n={n} k={K}"), "ns", &rounds, Goal::gate(0.35)));
    }
}
