//! Submissions on a list that does not change (R1): D2 says that they cost the same whatever the list and whatever exists.

use std::hint::black_box;

use crate::{
    Scale,
    residency::latency_metrics,
    support::{
        clock::{latencies, nanoseconds},
        draws::{Lists, Popularity, SplitMix64},
        ptr_lru::PtrLru,
        report::{Goal, Metric, Report},
        world::{ALLOCATION_SIZE, READ_ONLY, World},
    },
};

const LIST_LENGTHS: [usize; 3] = [64, 256, 1024];

/// One submission to its end: it is made, dispatched, completed, retired.
fn submission(world: &mut World) {
    let number = world.submit();
    world.settle();
    world.complete(number);
    world.settle();
}

/// Measures all list lengths for each number of allocations that exist.
pub fn run(scale: &Scale, report: &mut Report) {
    let mut medians = Vec::new();
    for &n in scale.populations {
        let mut world = World::start(n);
        let allocations = world.create_all(n);
        let mut peer = PtrLru::new(n, ALLOCATION_SIZE, n as u64 * ALLOCATION_SIZE, 2);
        for k in LIST_LENGTHS.into_iter().filter(|&k| k <= n) {
            let list = Lists::draw(1, k, &Popularity::Uniform(n), &mut SplitMix64(1));
            let named = list.named(&allocations);
            let list = named_round(&list);
            let named = named_round(&named);
            let _ = world.make_resident(named);
            world.settle();
            let metric = cell(scale, n, k, &mut world, &mut peer, list);
            medians.push(((n, k), metric.value()));
            report.add(metric);
            if k == 256 {
                let sorted = latencies(scale.samples, || submission(&mut world));
                latency_metrics(format!("R1 submission n={n} k={k}"), &sorted, None)
                    .for_each(|metric| report.add(metric));
            }
            world.evict(named, READ_ONLY);
            world.settle();
        }
    }
    flatness(&medians, report);
}

/// The only list of some lists.
fn named_round<T>(lists: &Lists<T>) -> &[T] {
    lists.round(0, 1).next().expect("one list was drawn")
}

fn cell(scale: &Scale, n: usize, k: usize, world: &mut World, peer: &mut PtrLru, list: &[u32]) -> Metric {
    let peer_count = (scale.submissions * 8 / k).max(1);
    let mut round = || {
        let own = nanoseconds(|| (0..scale.submissions).for_each(|_| submission(world)));
        let theirs = nanoseconds(|| (0..peer_count).for_each(|_| peer.submit(black_box(list))));
        (own / scale.submissions as f64, theirs / peer_count as f64)
    };
    (0..scale.rounds).for_each(|_| {
        black_box(round());
    });
    let rounds: Vec<_> = (0..scale.rounds).map(|_| round()).collect();
    let goal = if k == 1024 { Goal::gate(0.02) } else { None };
    Metric::against(format!("R1 submission n={n} k={k}"), "ns", &rounds, goal)
}

/// How the time grows with the list, and with what exists.
fn flatness(medians: &[((usize, usize), f64)], report: &mut Report) {
    let (most, of_least) = (medians[medians.len() - 1].0.0, medians[0].0.0);
    let at = |n, k| medians.iter().find(|&&(cell, _)| cell == (n, k)).map(|&(_, value)| value);
    let pairs = [
        (format!("R1 submission n={most} k=1024 / k=64"), at(most, 1024), at(most, 64)),
        (format!("R1 submission k=256 n={most} / n={of_least}"), at(most, 256), at(of_least, 256)),
    ];
    for (id, large, small) in pairs {
        if let (Some(large), Some(small)) = (large, small) {
            report.add(Metric::against(id, "ns", &[(large, small)], Goal::gate(1.5)));
        }
    }
}
