//! The cost of notifications: a chunk, whether many chunks cost more each, and the price for those that did not ask.

use vidmm::contract::{AddressingModel, AllocationFlags2};
use vidmm::{AllocationId, EvictFlags};
use vidmm_replay::null::{NullAdapter, NullAllocation, NullMemory};

use crate::{
    Scale,
    support::{
        clock::nanoseconds,
        report::{Goal, Metric, Report},
        world::{ALLOCATION_SIZE, USUAL, World},
    },
};

const WINDOW_MIB: u32 = 4;
const CHUNKS: [u64; 4] = [1, 10, 100, 1000];

/// Bytes that can be resident in system memory: the largest allocation, and what notifies beside those who did not ask.
const SYSTEM_BYTES: u64 = 16 << 30;

/// Allocations that come and go in one measurement, and those that exist meanwhile and ask to be told.
const QUIET: usize = 1024;
const NOTIFYING: usize = 100_000;

/// Measures chunks with and without page tables, and then what the quiet pay.
pub fn run(scale: &Scale, report: &mut Report) {
    for (name, model) in [("GpuMmu", AddressingModel::GpuMmu), ("GpuVaIoMmu", AddressingModel::GpuVaIoMmu)] {
        chunks(scale, name, model, report);
    }
    quiet(scale, "local memory", USUAL, report);
    quiet(scale, "system memory", NullAllocation { memory: NullMemory::System, ..USUAL }, report);
}

fn adapter(model: AddressingModel, local_bytes: u64, paging_va_mib: u32) -> NullAdapter {
    NullAdapter { model, local_bytes, has_large_pages: true, system_bytes: SYSTEM_BYTES, paging_va_mib }
}

/// The time of one chunk of an eviction, by the number of chunks.
fn chunks(scale: &Scale, name: &str, model: AddressingModel, report: &mut Report) {
    let mut world = World::start_adapter(adapter(model, 0, WINDOW_MIB));
    let mut cycles: Vec<_> = CHUNKS
        .iter()
        .map(|&chunks| {
            let size = (chunks * u64::from(WINDOW_MIB)) << 20;
            let flags2 = AllocationFlags2::NOTIFY_EVICTION;
            (
                chunks,
                world.create_as(NullAllocation { size, memory: NullMemory::System, flags2, is_range: false }),
                Vec::new(),
            )
        })
        .collect();
    // Each is measured in each round: the machine's speed drifts.
    for round in 0..2 * scale.rounds {
        for (chunks, allocation, rounds) in &mut cycles {
            let evictions = CHUNKS[CHUNKS.len() - 1] / *chunks;
            let before = world.machine.vidmm.statistics().eviction_notification_chunks;
            let times: f64 = (0..evictions).map(|_| cycle(&mut world, &[*allocation])).sum();
            let told = world.machine.vidmm.statistics().eviction_notification_chunks - before;
            assert_eq!(told, evictions * *chunks, "each chunk is told of once");
            if round >= scale.rounds {
                rounds.push(times / told as f64);
            }
        }
    }
    for (chunks, _, rounds) in &cycles {
        report.add(Metric::alone(format!("notify {name} chunks={chunks}: chunk"), "ns", rounds, None));
    }
    let (few, many) = (&cycles[1].2, &cycles[CHUNKS.len() - 1].2);
    let growth: Vec<(f64, f64)> = many.iter().copied().zip(few.iter().copied()).collect();
    report.add(Metric::against(format!("notify {name} chunk, 1000 by 10"), "ns", &growth, Goal::gate(1.5)));
}

/// Makes resident and evicts; what the eviction takes, in nanoseconds.
fn cycle(world: &mut World, allocations: &[AllocationId]) -> f64 {
    let _ = world.make_resident(allocations);
    world.settle();
    nanoseconds(|| {
        world.evict(allocations, EvictFlags::empty());
        world.settle();
    })
}

/// The time that an allocation which did not ask takes to come and to go, beside none and beside many that did.
fn quiet(scale: &Scale, name: &str, desc: NullAllocation, report: &mut Report) {
    let mut sides = [0, NOTIFYING].map(|notifying| {
        let model = AddressingModel::GpuMmu;
        let mut world = World::start_adapter(adapter(model, 2 * QUIET as u64 * ALLOCATION_SIZE, 64));
        let flags2 = AllocationFlags2::all();
        let asking = NullAllocation { memory: NullMemory::System, flags2, ..USUAL };
        let others: Vec<AllocationId> = (0..notifying).map(|_| world.create_as(asking)).collect();
        // They are resident, and nobody requires them.
        world.visit_all(&others, EvictFlags::EVICT_ONLY_IF_NECESSARY);
        let quiet: Vec<AllocationId> = (0..QUIET).map(|_| world.create_as(desc)).collect();
        (world, quiet)
    });
    let mut rounds = Vec::new();
    for round in 0..2 * scale.rounds {
        let [alone, beside] = sides.each_mut().map(|(world, quiet)| {
            let time = nanoseconds(|| world.visit_all(quiet, EvictFlags::empty()));
            time / QUIET as f64
        });
        if round >= scale.rounds {
            rounds.push((beside, alone));
        }
    }
    for (world, _) in &sides {
        assert_eq!(world.machine.vidmm.statistics().eviction_notifications, 0, "nobody was told of the quiet");
    }
    let id = format!("quiet in {name}, 1e5 notifying by 0");
    report.add(Metric::against(id, "ns", &rounds, Goal::gate(1.5)));
}
