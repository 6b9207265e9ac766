//! Engines run side by side in virtual time.

use crate::common::*;
use vidmm::PageSize;
use vidmm::contract::MemoryTransferDirection::*;
use vidmm::contract::{EngineFence, Pte};
use vidmm_runtime::{AllocationSegments, Gpu, GpuEvent};
use vidmm_soft::{COPY_ENGINE, CostModel, ModelGpuFaults, PAGING_ENGINE, RENDER_ENGINE, SoftAdapterConfig};

fn config() -> SoftAdapterConfig {
    SoftAdapterConfig { local_memory_bytes: 256 << 20, ..Default::default() }
}

const A: u64 = 1 << 20;
const B: u64 = 2 << 20;
const IN_SYSTEM: u64 = 3 << 20;

/// 1 MiB of local memory at each of A and B, 1 MiB of system memory.
fn rig(cost: CostModel) -> (Rig, Process) {
    let mut rig = Rig::with(config(), cost, ModelGpuFaults::default());
    let process = rig.process();
    rig.map_now(process, A, Pte::valid(local(A)), 16, PageSize::Kib64);
    rig.map_now(process, B, Pte::valid(local(B)), 16, PageSize::Kib64);
    rig.map_now(process, IN_SYSTEM, Pte::valid(system(IN_SYSTEM)), 256, PageSize::Kib4);
    (rig, process)
}

fn fence(engine: u32, fence_id: u64) -> EngineFence {
    EngineFence { engine, fence_id }
}

#[test]
fn packets_without_waits_overlap() {
    let (mut rig, process) = rig(FREE);
    let one = rig.submit(process, RENDER_ENGINE, &[], kernel(1, 1000, &[], &[]));
    let two = rig.submit(process, COPY_ENGINE, &[], kernel(2, 600, &[], &[]));
    let events = rig.drain();
    assert_eq!(times(&events), [(two, 0, 600), (one, 0, 1000)]);
}

#[test]
fn packets_of_one_engine_run_one_after_the_other() {
    let (mut rig, process) = rig(FREE);
    let one = rig.submit(process, RENDER_ENGINE, &[], kernel(1, 1000, &[], &[]));
    let two = rig.submit(process, RENDER_ENGINE, &[], kernel(2, 600, &[], &[]));
    assert_eq!(times(&rig.drain()), [(one, 0, 1000), (two, 1000, 1600)]);
}

#[test]
fn a_packet_begins_when_all_its_waits_are_over() {
    let (mut rig, process) = rig(FREE);
    let one = rig.submit(process, RENDER_ENGINE, &[], kernel(1, 1000, &[], &[]));
    let two = rig.submit(process, COPY_ENGINE, &[], kernel(2, 600, &[], &[]));
    let three = rig.submit(process, PAGING_ENGINE, &[one, two], kernel(3, 10, &[], &[]));
    let four = rig.submit(process, COPY_ENGINE, &[three], kernel(4, 10, &[], &[]));
    assert_eq!(times(&rig.drain()), [(two, 0, 600), (one, 0, 1000), (three, 1000, 1010), (four, 1010, 1020)]);
}

#[test]
fn a_packet_that_waits_holds_up_its_engine_only() {
    let (mut rig, process) = rig(FREE);
    let never = fence(COPY_ENGINE, 1);
    rig.submit(process, RENDER_ENGINE, &[never], kernel(1, 10, &[], &[]));
    rig.submit(process, RENDER_ENGINE, &[], kernel(2, 10, &[], &[]));
    let runs = rig.submit(process, PAGING_ENGINE, &[], kernel(3, 10, &[], &[]));
    assert_eq!(times(&rig.drain()), [(runs, 0, 10)]);
    assert_eq!(rig.gpu.next_event_at(), None, "everything waits");
    rig.now = 50;
    let released = rig.submit(process, COPY_ENGINE, &[], kernel(4, 10, &[], &[]));
    assert_eq!(released, never);
    let events = rig.drain();
    assert_eq!(
        times(&events)[1..].iter().map(|(_, start, end)| (*start, *end)).collect::<Vec<_>>(),
        [(60, 70), (70, 80)]
    );
}

#[test]
fn nothing_happens_before_its_time() {
    let (mut rig, process) = rig(FREE);
    rig.submit(process, RENDER_ENGINE, &[], kernel(1, 1000, &[], &[]));
    let mut events = Vec::new();
    rig.gpu.advance(999, &mut events);
    assert_eq!(times(&events), []);
    assert_eq!(reads(&events).len(), 1, "it has read");
    assert_eq!(rig.gpu.next_event_at(), Some(1000));
    rig.gpu.advance(1000, &mut events);
    assert_eq!(times(&events).len(), 1);
}

#[test]
fn a_late_submission_does_not_run_before_earlier_work_of_others() {
    // Engine 1 ends at 100 what engine 2 reads from 150 on; the host submits at 150 without having looked in between.
    // Whether it waits for that work or not, it begins when it was submitted.
    for wait in [false, true] {
        let (mut rig, process) = rig(FREE);
        let before = rig.submit(process, RENDER_ENGINE, &[], kernel(1, 100, &[], &[range(A, 1)]));
        rig.now = 150;
        let waits = if wait { vec![before] } else { vec![] };
        rig.submit(process, COPY_ENGINE, &waits, kernel(2, 10, &[range(A, 1)], &[]));
        let events = rig.drain();
        assert_eq!(reads(&events)[1], (2, vec![vec![expected(1, &[])]]));
        assert_eq!(times(&events)[1].1, 150);
    }
}

#[test]
fn two_runs_are_equal() {
    let run = || {
        let (mut rig, process) = rig(CostModel::default());
        for number in 0..20 {
            let engine = (number % 3) as u32;
            let work = kernel(number, 500, &[range(A, 8), range(B, 8)], &[range(A + number * PAGE, 4)]);
            rig.submit(process, engine, &[], work);
        }
        format!("{:?} {:?}", rig.drain(), rig.gpu.counters())
    };
    assert_eq!(run(), run());
}

#[test]
fn kernels_read_at_their_start_and_write_at_their_end() {
    let (mut rig, process) = rig(FREE);
    // Both begin at 0 and end at 100 and 50: each reads what was there before the other wrote.
    rig.submit(process, RENDER_ENGINE, &[], kernel(1, 100, &[range(B, 1)], &[range(A, 1)]));
    rig.submit(process, COPY_ENGINE, &[], kernel(2, 50, &[range(A, 1)], &[range(B, 1)]));
    let events = rig.drain();
    assert_eq!(reads(&events), [(1, vec![vec![0]]), (2, vec![vec![0]])]);
    assert_eq!(rig.digest(process, A), Some(expected(1, &[0])));
    assert_eq!(rig.digest(process, B), Some(expected(2, &[0])));
}

#[test]
fn transfers_read_at_their_start_and_write_at_their_end() {
    let cost = CostModel { bus_to_host_bytes_per_second: 1_000_000_000, ..FREE };
    let (mut rig, process) = rig(cost);
    rig.write_local(process, A, 1, 1);
    let begun = rig.now;
    // 4096 bytes at 1 byte a nanosecond. Meanwhile a kernel overwrites the source, and another reads the destination.
    let transfer = rig.transfer(A, IN_SYSTEM, PAGE, LocalToSystem);
    rig.submit(process, PAGING_ENGINE, &[], transfer);
    rig.submit(process, RENDER_ENGINE, &[], kernel(2, 100, &[], &[range(A, 1)]));
    rig.submit(process, RENDER_ENGINE, &[], kernel(3, 0, &[range(A, 1), range(IN_SYSTEM, 1)], &[]));
    let events = rig.drain();
    assert_eq!(reads(&events)[1], (3, vec![vec![expected(2, &[])], vec![0]]));
    assert_eq!(rig.digest(process, IN_SYSTEM), Some(expected(1, &[])));
    assert_eq!(rig.now, begun + PAGE);
}

#[test]
fn a_transfer_between_overlapping_ranges_keeps_the_source_as_it_was() {
    let (mut rig, process) = rig(FREE);
    rig.write_local(process, A, 8, 1);
    let before: Vec<_> = (0..8).map(|page| rig.digest(process, A + page * PAGE)).collect();
    let transfer = rig.transfer(A, A + PAGE, 8 * PAGE, LocalToLocal);
    rig.run(process, transfer);
    let after: Vec<_> = (1..9).map(|page| rig.digest(process, A + page * PAGE)).collect();
    assert_eq!(before, after);
}

#[test]
fn costs_add_up() {
    let cost = CostModel {
        bus_to_device_bytes_per_second: 1_000_000_000,
        bus_to_host_bytes_per_second: 500_000_000,
        kernel_read_bytes_per_second: Some(2_000_000_000),
        kernel_write_bytes_per_second: Some(250_000_000),
        local_bytes_per_second: 4_000_000_000,
        packet_nanoseconds: 1000,
        latency_seed: None,
        command_nanoseconds: 10,
        pte_picoseconds: 500,
        flush_nanoseconds: 70,
        decompress_bytes_per_second: 2_000_000_000,
        reset_nanoseconds: 0,
    };
    let (mut rig, process) = rig(cost);
    let took = |rig: &mut Rig, commands: Vec<u8>| {
        let events = rig.run(process, commands);
        let (_, start, end) = times(&events)[0];
        // Without the packet and the root table's command.
        end - start - 1010
    };
    let commands = rig.transfer(IN_SYSTEM, A, 10 * PAGE, SystemToLocal);
    assert_eq!(took(&mut rig, commands), 10 + 40960);
    let commands = rig.transfer(A, IN_SYSTEM, 10 * PAGE, LocalToSystem);
    assert_eq!(took(&mut rig, commands), 10 + 81920);
    let commands = rig.transfer(A, B, 10 * PAGE, LocalToLocal);
    assert_eq!(took(&mut rig, commands), 10 + 10240);
    let commands = rig.fill(A, 10 * PAGE, 1);
    assert_eq!(took(&mut rig, commands), 10 + 10240);
    let commands = rig.flush(process, 0, 0);
    assert_eq!(took(&mut rig, commands), 80);
    let commands = rig.map(process, A, Pte::valid(local(A)), 15, PageSize::Kib64);
    assert_eq!(took(&mut rig, commands), 10 + 8, "7.5 ns are rounded up");
    let commands = rig.map_aperture(0, 15, IN_SYSTEM);
    assert_eq!(took(&mut rig, commands), 10 + 8);
    let commands = rig.unmap_aperture(0, 15, IN_SYSTEM);
    assert_eq!(took(&mut rig, commands), 10 + 8);
    let allocation = rig.allocation(10 * PAGE, AllocationSegments::LocalOrSystem, Some(1));
    let commands = rig.build(&notify_eviction(allocation, 0, 10 * PAGE, A));
    assert_eq!(took(&mut rig, commands), 10 + 20480);
    assert_eq!(took(&mut rig, kernel(1, 333, &[], &[])), 343);
    assert_eq!(took(&mut rig, kernel(1, 333, &[range(A, 10)], &[range(B, 10)])), 343, "local memory is in the 333");
    assert_eq!(took(&mut rig, kernel(1, 333, &[range(IN_SYSTEM, 10)], &[range(B, 10)])), 10 + 20480);
    assert_eq!(took(&mut rig, kernel(1, 333, &[range(A, 10)], &[range(IN_SYSTEM, 10)])), 10 + 163_840);
    let both = kernel(1, 333, &[range(IN_SYSTEM, 10)], &[range(IN_SYSTEM, 10)]);
    assert_eq!(took(&mut rig, both), 10 + 163_840, "the two directions carry bytes at once");
    assert_eq!(
        took(&mut rig, kernel(1, 99_999, &[range(IN_SYSTEM, 10)], &[])),
        100_009,
        "meanwhile the kernel computes"
    );
    assert_eq!(took(&mut rig, vec![]), 0);
}

/// The kernels that took longer for accesses over the bus: the number, bytes of each input and output, the lost time.
fn over_bus(events: &[GpuEvent]) -> Vec<(u64, Vec<u64>, Vec<u64>, u64)> {
    let told = events.iter().filter_map(|event| match event {
        GpuEvent::AccessedOverBus { kernel, read, written, lost_ns } => {
            Some((*kernel, read.clone(), written.clone(), *lost_ns))
        }
        _ => None,
    });
    told.collect()
}

const BUS: CostModel = CostModel {
    bus_to_device_bytes_per_second: 1_000_000_000,
    bus_to_host_bytes_per_second: 1_000_000_000,
    kernel_read_bytes_per_second: Some(1_000_000_000),
    kernel_write_bytes_per_second: Some(1_000_000_000),
    ..FREE
};

#[test]
fn kernels_and_transfers_wait_for_the_bus_in_the_order_in_which_they_ask() {
    let (mut rig, process) = rig(BUS);
    let reads = kernel(1, 100, &[range(A, 1), range(IN_SYSTEM, 2)], &[]);
    let one = rig.submit(process, RENDER_ENGINE, &[], reads);
    rig.now = 1;
    let transfer = rig.transfer(IN_SYSTEM, B, PAGE, SystemToLocal);
    let two = rig.submit(process, PAGING_ENGINE, &[], transfer);
    let local = rig.submit(process, COPY_ENGINE, &[], kernel(3, 500, &[range(A, 1)], &[]));
    let events = rig.drain();
    let expected = [(local, 1, 501), (one, 0, 2 * PAGE), (two, 1, 3 * PAGE)];
    assert_eq!(times(&events), expected, "local memory needs no bus");
    assert_eq!(over_bus(&events), [(1, vec![0, 2 * PAGE], vec![], 2 * PAGE - 100)]);
}

#[test]
fn the_other_direction_is_free() {
    let (mut rig, process) = rig(BUS);
    let one = rig.submit(process, RENDER_ENGINE, &[], kernel(1, 100, &[range(IN_SYSTEM, 2)], &[]));
    let transfer = rig.transfer(A, IN_SYSTEM + 8 * PAGE, PAGE, LocalToSystem);
    let two = rig.submit(process, PAGING_ENGINE, &[], transfer);
    assert_eq!(times(&rig.drain()), [(two, 0, PAGE), (one, 0, 2 * PAGE)]);
}

#[test]
fn writes_flow_behind_what_the_bus_has_carried_while_the_kernel_computed() {
    let (mut rig, process) = rig(BUS);
    let one = rig.submit(process, RENDER_ENGINE, &[], kernel(1, 5000, &[], &[range(IN_SYSTEM, 1)]));
    let transfer = rig.transfer(A, IN_SYSTEM + 8 * PAGE, PAGE, LocalToSystem);
    let two = rig.submit(process, PAGING_ENGINE, &[], transfer);
    let events = rig.drain();
    assert_eq!(times(&events), [(two, 0, PAGE), (one, 0, 2 * PAGE)]);
    assert_eq!(over_bus(&events), [(1, vec![], vec![PAGE], 2 * PAGE - 5000)]);
    let alone = rig.submit(process, RENDER_ENGINE, &[], kernel(2, 5000, &[], &[range(IN_SYSTEM, 1)]));
    let events = rig.drain();
    assert_eq!(times(&events), [(alone, 2 * PAGE, 2 * PAGE + 5000)], "all bytes have flowed by then");
    assert_eq!(over_bus(&events), []);
}

#[test]
fn a_reset_leaves_nothing_on_the_bus() {
    let (mut rig, process) = rig(BUS);
    rig.submit(process, RENDER_ENGINE, &[], kernel(1, 100, &[range(IN_SYSTEM, 200)], &[]));
    let mut events = Vec::new();
    rig.gpu.advance(10, &mut events);
    rig.now = 10;
    rig.gpu.reset_engine(10, RENDER_ENGINE);
    let transfer = rig.transfer(IN_SYSTEM, B, PAGE, SystemToLocal);
    let paging = rig.submit(process, PAGING_ENGINE, &[], transfer);
    assert_eq!(times(&rig.drain()), [(paging, 10, 10 + PAGE)]);
}

#[test]
fn an_adapter_that_shares_its_memory_with_the_cpu_has_no_bus() {
    let (mut rig, process) = rig(FREE);
    let one = rig.submit(process, RENDER_ENGINE, &[], kernel(1, 100, &[range(IN_SYSTEM, 2)], &[range(IN_SYSTEM, 2)]));
    let events = rig.drain();
    assert_eq!((times(&events), over_bus(&events)), (vec![(one, 0, 100)], vec![]));
}

#[test]
fn counters_tell_what_was_done() {
    let (mut rig, process) = rig(FREE);
    let before = rig.gpu.counters();
    for commands in [
        rig.transfer(IN_SYSTEM, A, 3 * PAGE, SystemToLocal),
        rig.transfer(A, IN_SYSTEM, 2 * PAGE, LocalToSystem),
        rig.transfer(A, B, PAGE, LocalToLocal),
        rig.fill(A, 4 * PAGE, 1),
        rig.flush(process, 0, 0),
        kernel(1, 0, &[range(A, 5)], &[range(B, 6), range(A, 1)]),
    ] {
        rig.run(process, commands);
    }
    let after = rig.gpu.counters();
    assert_eq!((after.bytes_from_system, after.bytes_to_system, after.bytes_local), (3 * PAGE, 2 * PAGE, PAGE));
    assert_eq!((after.pages_read_by_kernels, after.pages_written_by_kernels), (5, 7));
    assert_eq!((after.bytes_filled, after.ptes_written - before.ptes_written), (4 * PAGE, 0));
    assert_eq!(before.ptes_written, 16 + 16 + 256 + 3);
    let commands = after.commands;
    assert_eq!((commands.transfer, commands.fill, commands.flush_tlb, commands.kernel), (3, 1, 1, 1));
}

/// A copy out of A and a copy in of other system memory, which are queued together. Returns when each begins and ends.
fn out_and_in(copies_both_ways: bool, into: u64) -> Vec<(u64, u64)> {
    const OTHER: u64 = 5 << 20;
    let second = CostModel { bus_to_device_bytes_per_second: 1 << 20, bus_to_host_bytes_per_second: 1 << 20, ..FREE };
    let mut rig = Rig::with(SoftAdapterConfig { copies_both_ways, ..config() }, second, ModelGpuFaults::default());
    let process = rig.process();
    rig.map_now(process, A, Pte::valid(local(A)), 16, PageSize::Kib64);
    rig.map_now(process, B, Pte::valid(local(B)), 16, PageSize::Kib64);
    rig.map_now(process, IN_SYSTEM, Pte::valid(system(IN_SYSTEM)), 256, PageSize::Kib4);
    rig.map_now(process, OTHER, Pte::valid(system(OTHER)), 256, PageSize::Kib4);
    let out = rig.transfer(A, IN_SYSTEM, 1 << 20, LocalToSystem);
    let back = rig.transfer(OTHER, into, 1 << 20, SystemToLocal);
    rig.submit(process, PAGING_ENGINE, &[], out);
    rig.submit(process, PAGING_ENGINE, &[], back);
    times(&rig.drain()).into_iter().map(|(_, start, end)| (start, end)).collect()
}

const SECOND: u64 = 1_000_000_000;

#[test]
fn copies_follow_each_other_where_the_engine_copies_one_way() {
    assert_eq!(out_and_in(false, B), [(0, SECOND), (SECOND, 2 * SECOND)]);
}

#[test]
fn copies_of_both_directions_run_at_the_same_time_where_the_engine_copies_both_ways() {
    assert_eq!(out_and_in(true, B), [(0, SECOND), (SECOND, SECOND)]);
}

#[test]
fn a_copy_into_pages_that_are_on_their_way_out_waits() {
    assert_eq!(out_and_in(true, A), [(0, SECOND), (SECOND, 2 * SECOND)]);
}
