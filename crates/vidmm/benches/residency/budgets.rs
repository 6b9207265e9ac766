//! Budgets of many processes under pressure (S2): one changes, and all are asked for.

use std::hint::black_box;

use vidmm::{MakeResidentFlags, MemorySegmentGroup, PriorityBand, ProcessId, Visibility};

use crate::{
    Scale,
    support::{
        clock::nanoseconds,
        draws::SplitMix64,
        report::{Goal, Metric, Report},
        sort_and_fill::{Share, sort_and_fill},
        world::{ALLOCATION_SIZE, World},
    },
};

const PROCESSES: usize = 10_000;

/// Pages that each of the first half demands; the others demand one. All of the first half fits exactly.
const MANY: usize = 4;

/// Changes in a round.
const CHANGES: usize = 10_000;

/// Measures processes of which half demand more than the level.
pub fn run(scale: &Scale, report: &mut Report) {
    let mut world = World::start(PROCESSES / 2 * MANY);
    let processes: Vec<ProcessId> = (0..PROCESSES).map(|number| demanding(&mut world, number)).collect();
    let info = |world: &World, process| {
        let info = world.machine.vidmm.query_video_memory_info(process, MemorySegmentGroup::Local);
        info.expect("the process exists")
    };
    let demanded: u64 = processes.iter().map(|&process| info(&world, process).requested).sum();
    let capacity = (PROCESSES / 2 * MANY) as u64 * ALLOCATION_SIZE;
    assert!(demanded > capacity, "memory is short, or nothing is shared");

    let mut shares: Vec<Share> = processes
        .iter()
        .map(|&process| Share { weight: 4.0, reservation: 0.0, demand: info(&world, process).requested as f64 })
        .collect();
    let mut random = SplitMix64(5);
    let (mut order, mut budgets) = (Vec::new(), Vec::new());
    let mut round = || {
        let changed: Vec<usize> = (0..CHANGES).map(|_| random.below(PROCESSES)).collect();
        let one = nanoseconds(|| {
            for (&process, change) in changed.iter().zip(0..) {
                // In turn up and down, so that most changes change something.
                let band = [PriorityBand::Normal, PriorityBand::Focus][change / 64 % 2];
                let process = processes[process];
                world.machine.vidmm.set_process_priority(process, band, Visibility::Visible).expect("it exists");
                black_box(info(&world, process).budget);
            }
        });
        let all = nanoseconds(|| {
            for &process in &processes {
                black_box(info(&world, process).budget);
            }
        });
        for (&process, change) in changed.iter().zip(0..) {
            shares[process].weight = [4.0, 16.0][change / 64 % 2];
        }
        let fill = nanoseconds(|| sort_and_fill(capacity as f64, black_box(&shares), &mut order, &mut budgets));
        // Both say the same of who is above the level: his own demand does not count.
        let above = (0..PROCESSES / 2).find(|&process| budgets[process] < shares[process].demand);
        if let Some(process) = above {
            let exact = info(&world, processes[process]).budget as f64;
            assert!((exact - budgets[process]).abs() < 2.0, "{exact} and {}", budgets[process]);
        }
        (one / CHANGES as f64, all, fill)
    };
    let rounds = Vec::from_iter((0..2 * scale.rounds).map(|_| round()));
    let rounds = &rounds[scale.rounds..];
    let one = Vec::from_iter(rounds.iter().map(|&(one, ..)| one));
    let all = Vec::from_iter(rounds.iter().map(|&(_, all, fill)| (all, fill)));
    report.add(Metric::alone(format!("S2 budgets of {PROCESSES}: one changes"), "ns", &one, Goal::gate(2000.0)));
    report.add(Metric::against(format!("S2 budgets of {PROCESSES}: all asked"), "ns", &all, Goal::report(2.5)));
}

/// A process that demands something.
fn demanding(world: &mut World, number: usize) -> ProcessId {
    let client = world.client();
    let pages = if number < PROCESSES / 2 { MANY } else { 1 };
    let allocations = Vec::from_iter((0..pages).map(|_| world.create_for(client.device)));
    let answer = world.machine.vidmm.make_resident(client.queue, &allocations, MakeResidentFlags::empty());
    let _ = answer.expect("the process stays within its budget");
    client.process
}
