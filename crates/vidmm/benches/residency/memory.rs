//! Bytes of bookkeeping for an allocation (R6): the growth of the process while 10^6 of them are made.
//!
//! Each measurement is a process of its own, which has freed nothing before. Driver and host of these benchmarks keep
//! nothing about an allocation, and the names are not kept either, so the growth is the manager's. Memory that is
//! touched counts: room that vectors hold in reserve does not, so 2^20 allocations, which fill them, are measured too.
//! The books of an allocation are one record, of which lists touch 64 bytes; what exists counts as hot all the same.

use std::{env, fs, process::Command};

use crate::{
    Scale,
    support::{
        report::{Goal, Metric, Report},
        world::World,
    },
};

/// The argument that makes this process a measurement.
pub const CHILD: &str = "--measure-memory";

/// The calls that are made with each allocation.
const STAGES: [&str; 4] = ["exists", "mapped", "resident", "mapped+resident"];

/// Measures all stages.
pub fn run(scale: &Scale, report: &mut Report) {
    for &n in scale.memory_populations {
        let [exists, mapped, resident, all] = STAGES.map(|stage| measure(stage, n));
        let metric = |what: &str, bytes, goal| Metric::alone(format!("R6 memory n={n}: {what}"), "B", &[bytes], goal);
        report.add(metric("hot: what a MakeResident touches", exists, Goal::report(32.0)));
        report.add(metric("+ mapping: VA range, tables' books", mapped - exists, None));
        report.add(metric("+ on the list, resident, one extent", resident - exists, None));
        report.add(metric("all three", all, Goal::gate(128.0)));
        report.add(metric("all without VA range", all - (mapped - exists), None));
    }
}

/// Bytes by allocation after `stage`, measured in a process of its own.
fn measure(stage: &str, n: usize) -> f64 {
    let program = env::current_exe().expect("this program has a path");
    let output = Command::new(program).args([CHILD, stage, &n.to_string()]).output().expect("it runs again");
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().unwrap_or_else(|_| panic!("a measurement of memory failed: {output:?}"))
}

/// The measurement itself: prints bytes by allocation.
pub fn child(stage: &str, n: usize) {
    let mut world = World::start(n);
    let mut portion = Vec::with_capacity(256);
    let before = resident_bytes();
    for made in 1..=n {
        let allocation = world.create();
        if stage.contains("mapped") {
            world.map(allocation);
        }
        portion.push(allocation);
        if portion.len() == portion.capacity() || made == n {
            if stage.contains("resident") {
                let _ = world.make_resident(&portion);
                world.settle();
            }
            portion.clear();
        }
    }
    println!("{}", (resident_bytes() - before) as f64 / n as f64);
}

/// Bytes of this process that are in memory.
fn resident_bytes() -> u64 {
    const PAGE: u64 = 4096;
    let statm = fs::read_to_string("/proc/self/statm").expect("memory is measured on Linux");
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.expect("the second number of statm is the resident pages") * PAGE
}
