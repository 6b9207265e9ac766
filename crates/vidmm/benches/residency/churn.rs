//! Create, map, destroy, from end to end (S1): what an allocation costs in a life without use, and whether that is linear.

use crate::{
    Scale,
    support::{
        clock::nanoseconds,
        report::{Goal, Metric, Report},
        world::World,
    },
};

/// The nanoseconds that each of `n` allocations took to be created, mapped, destroyed.
fn lives(world: &mut World, n: usize) -> [f64; 3] {
    let mut allocations = Vec::new();
    let create = nanoseconds(|| allocations = world.create_all(n));
    let map = nanoseconds(|| {
        allocations.iter().for_each(|&allocation| world.map(allocation));
        world.settle();
    });
    let destroy = nanoseconds(|| {
        allocations.iter().for_each(|&allocation| world.destroy(allocation));
        world.settle();
    });
    [create, map, destroy].map(|time| time / n as f64)
}

/// Measures populations that are made and ended as a whole.
pub fn run(scale: &Scale, report: &mut Report) {
    let mut medians = Vec::new();
    for &n in scale.populations {
        // Page tables are built once and stay; the first life is not measured.
        let mut world = World::start(1024);
        lives(&mut world, n);
        let rounds: Vec<_> = (0..scale.lives(n)).map(|_| lives(&mut world, n)).collect();
        for (stage, name) in ["create", "map", "destroy"].into_iter().enumerate() {
            let of_stage = Vec::from_iter(rounds.iter().map(|times| times[stage]));
            report.add(Metric::alone(format!("S1 life n={n}: {name}"), "ns", &of_stage, None));
        }
        let whole = Vec::from_iter(rounds.iter().map(|times| times.iter().sum()));
        let metric = Metric::alone(format!("S1 life n={n}"), "ns", &whole, Goal::report(500.0));
        medians.push((n, metric.value()));
        report.add(metric);
    }
    let ((few, least), (many, most)) = (medians[0], medians[medians.len() - 1]);
    let growth = Metric::against(format!("S1 life n={many} / n={few}"), "ns", &[(most, least)], Goal::report(3.0));
    report.add(growth);
}
