//! A refused MakeResident: the cost follows from the named and the movable allocations, not from the length of the list (R9, D30).

use vidmm::contract::AddressingModel;
use vidmm_replay::null::{NullAdapter, NullAllocation, NullMemory};

use crate::{
    Scale,
    support::{
        clock::nanoseconds,
        report::{Goal, Metric, Report},
        world::{ALLOCATION_SIZE, USUAL, World},
    },
};

/// The listed allocations, and the allocations without room.
const LISTED: usize = 100_000;
const MISSING: usize = 100;

/// Refusals in a round.
const CALLS: usize = 20;

/// Measures lists without and with movable allocations.
pub fn run(scale: &Scale, report: &mut Report) {
    for (name, memory, limit) in [("none", NullMemory::Local, 50.0), ("all", NullMemory::Either, 5000.0)] {
        let mut world = World::start_adapter(NullAdapter {
            model: AddressingModel::GpuMmu,
            local_bytes: LISTED as u64 * ALLOCATION_SIZE,
            has_large_pages: true,
            // Room for half of the missing allocations.
            system_bytes: (MISSING / 2) as u64 * ALLOCATION_SIZE,
            paging_va_mib: 64,
        });
        loop {
            let portion = Vec::from_iter((0..MISSING).map(|_| world.create_as(NullAllocation { memory, ..USUAL })));
            if !world.may_be_resident(&portion) {
                break;
            }
            world.settle();
        }
        let missing = world.create_all(MISSING);
        let rounds = (0..2 * scale.rounds).map(|_| {
            let mut refuse = || assert!(!world.may_be_resident(&missing), "there is no room");
            nanoseconds(|| std::iter::repeat_n((), CALLS).for_each(|()| refuse())) / CALLS as f64 / 1000.0
        });
        let rounds = Vec::from_iter(rounds.skip(scale.rounds));
        let id = format!("R9 refusal n={LISTED} missing={MISSING}, {name} may move");
        report.add(Metric::alone(id, "us", &rounds, Goal::report(limit)));
    }
}
