//! Resets of an engine and of the adapter.

use crate::common::*;
use vidmm::PageSize;
use vidmm::contract::MemoryTransferDirection::*;
use vidmm::contract::Pte;
use vidmm_runtime::{Gpu, GpuEvent, Hits};
use vidmm_soft::{
    COPY_ENGINE, CostModel, FORGED_FAULT_ADDRESS, ModelGpuFaults, PAGING_ENGINE, PacketHits, RENDER_ENGINE,
    SoftAdapterConfig,
};

const A: u64 = 1 << 20;
const B: u64 = 2 << 20;
const IN_SYSTEM: u64 = 3 << 20;
const SLOW: CostModel = CostModel {
    reset_nanoseconds: 1_000,
    local_bytes_per_second: 1_000_000_000,
    pte_picoseconds: 1_000_000,
    decompress_bytes_per_second: 1_000_000_000,
    ..FREE
};

/// 1 MiB of local memory at each of A and B, 1 MiB of system memory.
fn rig_with(faults: ModelGpuFaults) -> (Rig, Process) {
    let config = SoftAdapterConfig { local_memory_bytes: 256 << 20, ..Default::default() };
    let mut rig = Rig::with(config, SLOW, faults);
    let process = rig.process();
    rig.map_now(process, A, Pte::valid(local(A)), 16, PageSize::Kib64);
    rig.map_now(process, B, Pte::valid(local(B)), 16, PageSize::Kib64);
    rig.map_now(process, IN_SYSTEM, Pte::valid(system(IN_SYSTEM)), 256, PageSize::Kib4);
    (rig, process)
}

fn rig() -> (Rig, Process) {
    rig_with(ModelGpuFaults::default())
}

/// The resets of engines: engine, last aborted fence, the fences of what came back, and when.
fn resets(events: &[GpuEvent]) -> Vec<(u32, u64, Vec<u64>, u64)> {
    let reset = |event: &GpuEvent| match event {
        &GpuEvent::EngineReset { engine, result, ref returned, at } => {
            Some((engine, result.unwrap(), returned.iter().map(|&(fence, _)| fence).collect(), at))
        }
        _ => None,
    };
    events.iter().filter_map(reset).collect()
}

/// Resets the render engine `after` nanoseconds, and runs until nothing is left to do.
fn reset_after(rig: &mut Rig, after: u64) -> Vec<GpuEvent> {
    let mut events = Vec::new();
    rig.now += after;
    rig.gpu.advance(rig.now, &mut events);
    rig.gpu.reset_engine(rig.now, RENDER_ENGINE);
    events.extend(rig.drain());
    events
}

/// Which of `pages` pages at `address` are other than zero.
fn written(rig: &mut Rig, process: Process, address: u64, pages: u64) -> Vec<u64> {
    (0..pages).filter(|&page| rig.digest(process, address + page * PAGE) != Some(0)).collect()
}

#[test]
fn a_stopped_engine_gives_back_the_faulted_packet_and_its_queue_and_runs_again() {
    let (mut rig, process) = rig();
    let faulted = rig.submit(process, RENDER_ENGINE, &[], kernel(1, 0, &[range(8 << 30, 1)], &[]));
    let queued = rig.submit(process, RENDER_ENGINE, &[], kernel(2, 0, &[], &[range(A, 1)]));
    let begun = rig.now;
    let events = reset_after(&mut rig, 0);
    let (aborted, queued) = (faulted.fence_id, queued.fence_id);
    assert_eq!(resets(&events), [(RENDER_ENGINE, aborted, vec![aborted, queued], begun + 1_000)]);
    assert_eq!(rig.digest(process, A), Some(0), "what came back has not run");
    let next = rig.submit(process, RENDER_ENGINE, &[], kernel(3, 0, &[], &[range(A, 1)]));
    assert_eq!(times(&rig.drain())[0].0, next);
    assert_eq!(rig.digest(process, A), Some(expected(3, &[])));
}

#[test]
fn a_kernel_that_never_ends_is_aborted_and_others_go_on_meanwhile() {
    let (mut rig, process) = rig();
    let hangs = rig.submit(process, RENDER_ENGINE, &[], kernel(1, u64::MAX, &[], &[]));
    let waits = rig.submit(process, PAGING_ENGINE, &[hangs], kernel(2, 0, &[], &[]));
    let other = rig.submit(process, COPY_ENGINE, &[], kernel(3, 500, &[], &[]));
    let events = rig.drain();
    assert_eq!(times(&events).iter().map(|time| time.0).collect::<Vec<_>>(), [other]);
    assert_eq!(rig.gpu.next_event_at(), None);
    let events = reset_after(&mut rig, 0);
    assert_eq!(resets(&events)[0].1, hangs.fence_id);
    assert_eq!(times(&events)[0].0, waits, "the aborted fence counts as signalled");
}

#[test]
fn a_reset_without_a_packet_under_way_names_the_last_that_ended() {
    let (mut rig, process) = rig();
    let hangs = rig.submit(process, COPY_ENGINE, &[], kernel(1, u64::MAX, &[], &[]));
    let last = rig.submit(process, RENDER_ENGINE, &[], kernel(2, 0, &[], &[]));
    let waits = rig.submit(process, RENDER_ENGINE, &[hangs], kernel(3, 0, &[], &[]));
    rig.drain();
    let events = reset_after(&mut rig, 0);
    assert_eq!(resets(&events)[0].1, last.fence_id);
    assert_eq!(resets(&events)[0].2, [waits.fence_id]);
}

#[test]
fn packets_submitted_during_a_reset_come_back_with_it() {
    let (mut rig, process) = rig();
    rig.gpu.reset_engine(rig.now, RENDER_ENGINE);
    let during = rig.submit(process, RENDER_ENGINE, &[], kernel(1, 0, &[], &[]));
    let events = rig.drain();
    assert_eq!(resets(&events)[0].2, [during.fence_id]);
    assert_eq!(times(&events), []);
}

#[test]
fn a_command_that_is_stopped_has_written_half() {
    let (mut rig, process) = rig();
    rig.write_local(process, B, 8, 9);
    let commands = [
        kernel(1, 1_000_000, &[], &[range(A, 6), range(A + 8 * PAGE, 6)]),
        rig.fill(A, 8 * PAGE, 7),
        rig.transfer(B, A, 8 * PAGE, LocalToLocal),
    ];
    for (commands, half) in commands.into_iter().zip([vec![0, 1, 2, 3, 4, 5], vec![0, 1, 2, 3], vec![0, 1, 2, 3]]) {
        let ended = |rig: &Rig| {
            let counters = rig.gpu.counters();
            let commands = counters.commands;
            (commands.kernel, commands.fill, commands.transfer, counters.bytes_filled, counters.bytes_local)
        };
        let before = ended(&rig);
        rig.submit(process, RENDER_ENGINE, &[], commands);
        let events = reset_after(&mut rig, 100);
        assert_eq!(resets(&events).len(), 1);
        assert_eq!(written(&mut rig, process, A, 16), half);
        assert_eq!(ended(&rig), before);
        let clear = rig.fill(A, 16 * PAGE, 0);
        rig.run_well(process, clear);
    }
}

#[test]
fn a_run_of_entries_that_is_stopped_is_half_written() {
    let (mut rig, process) = rig();
    let at = A + (1 << 20) / 2;
    let unmap = rig.map(process, at, Pte::INVALID, 8, PageSize::Kib64);
    rig.submit(process, RENDER_ENGINE, &[], unmap);
    reset_after(&mut rig, 100);
    let mapped = |rig: &mut Rig, index: u64| rig.digest(process, at + index * (64 << 10)).is_some();
    assert_eq!(
        (0..8).map(|index| mapped(&mut rig, index)).collect::<Vec<_>>(),
        [false, false, false, false, true, true, true, true]
    );
}

#[test]
fn a_decompression_that_is_stopped_loses_nothing() {
    let (mut rig, process) = rig();
    let pages = compressed(range(A, 8), 1, 0);
    rig.run_well(process, kernel(1, 0, &[], &[range(B, 8)]));
    let plain: Vec<_> = (0..8).map(|page| rig.digest(process, B + page * PAGE).unwrap()).collect();
    rig.run_well(process, kernel(1, 0, &[], &[pages]));
    assert_eq!(rig.read(process, pages), plain);
    let allocation = rig.allocation(8 * PAGE, vidmm_runtime::AllocationSegments::LocalOrSystem, Some(1));
    let commands = rig.build(&notify_eviction(allocation, 0, 8 * PAGE, A));
    rig.submit(process, RENDER_ENGINE, &[], commands);
    reset_after(&mut rig, 100);
    assert_eq!(rig.gpu.counters().bytes_decompressed, 0);
    assert_eq!(rig.digest(process, A), Some(plain[0]), "the first half is plain");
    assert_ne!(rig.digest(process, A + 7 * PAGE), Some(plain[7]));
    assert_eq!(rig.read(process, pages), plain);
}

#[test]
fn a_reset_of_the_adapter_loses_local_memory_and_keeps_system_memory() {
    let (mut rig, process) = rig();
    rig.run_well(process, kernel(1, 0, &[], &[range(A, 1), range(IN_SYSTEM, 1)]));
    let kept = rig.gpu.page_digest(system(IN_SYSTEM));
    let lost = rig.gpu.page_digest(local(A));
    let hangs = rig.submit(process, RENDER_ENGINE, &[], kernel(2, u64::MAX, &[], &[]));
    let queued = rig.submit(process, RENDER_ENGINE, &[], kernel(3, 0, &[], &[]));
    let waits = rig.submit(process, COPY_ENGINE, &[queued], kernel(4, 0, &[], &[]));
    rig.drain();
    let begun = rig.now;
    rig.gpu.reset_from_timeout(rig.now);
    let events = rig.drain();
    let [GpuEvent::ResetFromTimeout { returned, at }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(*at, begun + 1_000);
    assert_eq!(returned.iter().map(|&(signal, _)| signal).collect::<Vec<_>>(), [hangs, queued, waits]);
    assert_ne!(rig.gpu.page_digest(local(A)), lost);
    assert_eq!(rig.gpu.page_digest(system(IN_SYSTEM)), kept);
}

#[test]
fn after_a_reset_of_the_adapter_nothing_runs_until_it_is_restarted() {
    let (mut rig, process) = rig();
    let hangs = rig.submit(process, RENDER_ENGINE, &[], kernel(1, u64::MAX, &[], &[]));
    rig.drain();
    rig.gpu.reset_from_timeout(rig.now);
    rig.drain();
    // Its address space is lost with local memory; without commands it needs none.
    let next = rig.submit(process, COPY_ENGINE, &[hangs], vec![]);
    assert_eq!(rig.gpu.next_event_at(), None);
    rig.gpu.restart_from_timeout(rig.now);
    let events = rig.drain();
    assert!(matches!(events[0], GpuEvent::RestartedFromTimeout { result: Ok(()), .. }), "{events:?}");
    assert_eq!(times(&events)[0].0, next, "each engine's fence is that of the last packet submitted to it");
}

#[test]
fn a_reset_of_the_adapter_forgets_what_was_cached() {
    let (mut rig, process) = rig();
    let page = range(IN_SYSTEM, 1);
    rig.run_well(process, kernel(1, 0, &[], &[page]));
    let read = |rig: &mut Rig| reads(&rig.run(process, kernel(2, 0, &[page], &[])));
    let kept = [(2, vec![vec![expected(1, &[])]])];
    assert_eq!(read(&mut rig), kept);
    rig.gpu.reset_from_timeout(rig.now);
    rig.gpu.restart_from_timeout(rig.now);
    rig.drain();
    assert_ne!(read(&mut rig), kept, "the page tables that led there were in local memory");
}

#[test]
fn an_engine_whose_reset_lied_is_dead_until_the_adapter_is_reset() {
    let (mut rig, process) =
        rig_with(ModelGpuFaults { lie_about_engine_reset: Some(Hits::Nth(1).into()), ..Default::default() });
    rig.submit(process, RENDER_ENGINE, &[], kernel(1, u64::MAX, &[], &[]));
    for _ in 0..2 {
        let last = rig.submit(process, RENDER_ENGINE, &[], vec![]);
        let events = reset_after(&mut rig, 10);
        assert_eq!(resets(&events)[0].2.last(), Some(&last.fence_id), "it gives back the queue as if all were well");
        rig.submit(process, RENDER_ENGINE, &[], vec![]);
        rig.gpu.preempt(rig.now, RENDER_ENGINE, 1);
        assert_eq!(rig.drain().len(), 0);
    }
    let other = rig.submit(process, COPY_ENGINE, &[], vec![]);
    assert_eq!(times(&rig.drain())[0].0, other);
    rig.gpu.reset_from_timeout(rig.now);
    rig.gpu.restart_from_timeout(rig.now);
    rig.drain();
    let works = rig.submit(process, RENDER_ENGINE, &[], vec![]);
    assert_eq!(times(&rig.drain())[0].0, works);
}

#[test]
fn chosen_packets_hang_or_fault() {
    // The rig itself runs three packets.
    let fifth = PacketHits { engine: RENDER_ENGINE, occasions: Hits::Nth(5).into() };
    let (mut rig, process) = rig_with(ModelGpuFaults { hang_packets: vec![fifth.clone()], ..Default::default() });
    rig.run_well(process, kernel(1, 0, &[], &[]));
    for commands in [kernel(2, 0, &[], &[range(A, 4)]), vec![]] {
        let (mut rig, process) = rig_with(ModelGpuFaults { hang_packets: vec![fifth.clone()], ..Default::default() });
        rig.run_well(process, kernel(1, 0, &[], &[]));
        let hangs = rig.submit(process, RENDER_ENGINE, &[], commands);
        assert_eq!(times(&rig.drain()), []);
        assert_eq!(resets(&reset_after(&mut rig, 0))[0].1, hangs.fence_id);
        rig.run_well(process, kernel(3, 0, &[], &[]));
    }
    let (mut rig, process) = rig_with(ModelGpuFaults { forge_page_faults: vec![fifth], ..Default::default() });
    rig.run_well(process, kernel(1, 0, &[], &[]));
    assert_eq!(faults(&rig.run(process, kernel(2, 0, &[], &[]))), [(FORGED_FAULT_ADDRESS.0, false)]);
    rig.run_well(process, kernel(3, 0, &[], &[]));
}
