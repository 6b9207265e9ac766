//! An engine gives back what it has not begun, between two packets.

use crate::common::*;
use vidmm_runtime::{Gpu, GpuEvent};
use vidmm_soft::{COPY_ENGINE, PAGING_ENGINE, RENDER_ENGINE, SoftAdapterConfig};

/// The answers to requests: engine, request, last completed fence, the fences of what came back, and when.
fn answers(events: &[GpuEvent]) -> Vec<(u32, u64, u64, Vec<u64>, u64)> {
    let answer = |event: &GpuEvent| match event {
        &GpuEvent::Preempted { engine, preemption_fence_id, last_completed_fence_id, ref returned, at } => {
            let fences = returned.iter().map(|&(fence, _)| fence).collect();
            Some((engine, preemption_fence_id, last_completed_fence_id, fences, at))
        }
        _ => None,
    };
    events.iter().filter_map(answer).collect()
}

fn rig() -> (Rig, Process) {
    let mut rig = Rig::new(SoftAdapterConfig { local_memory_bytes: 256 << 20, ..Default::default() });
    let process = rig.process();
    (rig, process)
}

#[test]
fn a_running_packet_ends_and_the_others_come_back() {
    let (mut rig, process) = rig();
    let first = rig.submit(process, RENDER_ENGINE, &[], kernel(1, 1000, &[], &[]));
    for number in 2..4 {
        rig.submit(process, RENDER_ENGINE, &[], kernel(number, 10, &[], &[]));
    }
    let mut events = Vec::new();
    rig.now = 400;
    rig.gpu.advance(rig.now, &mut events);
    rig.gpu.preempt(rig.now, RENDER_ENGINE, 77);
    events.extend(rig.drain());
    assert_eq!(times(&events), [(first, 0, 1000)]);
    assert_eq!(answers(&events), [(RENDER_ENGINE, 77, 1, vec![2, 3], 1000)]);
    let next = rig.submit(process, RENDER_ENGINE, &[], kernel(4, 10, &[], &[]));
    assert_eq!(times(&rig.drain()), [(next, 1000, 1010)], "the engine runs what comes then");
}

#[test]
fn an_idle_engine_answers_at_once_and_so_does_one_that_waits() {
    let (mut rig, process) = rig();
    rig.now = 50;
    let hangs = rig.submit(process, COPY_ENGINE, &[], kernel(1, u64::MAX, &[], &[]));
    rig.submit(process, RENDER_ENGINE, &[hangs], kernel(2, 10, &[], &[]));
    rig.drain();
    for engine in [PAGING_ENGINE, RENDER_ENGINE] {
        rig.gpu.preempt(rig.now, engine, 5);
        assert_eq!(rig.gpu.next_event_at(), Some(50));
    }
    let expected = [(PAGING_ENGINE, 5, 0, vec![], 50), (RENDER_ENGINE, 5, 0, vec![1], 50)];
    assert_eq!(answers(&rig.drain()), expected);
}

#[test]
fn a_packet_that_would_begin_at_the_same_moment_comes_back_unbegun() {
    let (mut rig, process) = rig();
    rig.submit(process, RENDER_ENGINE, &[], kernel(1, 10, &[], &[]));
    rig.gpu.preempt(rig.now, RENDER_ENGINE, 1);
    let events = rig.drain();
    assert_eq!((times(&events), reads(&events)), (vec![], vec![]));
    assert_eq!(answers(&events), [(RENDER_ENGINE, 1, 0, vec![1], 0)]);
}

#[test]
fn an_engine_that_hangs_or_has_stopped_does_not_answer() {
    let (mut rig, process) = rig();
    rig.submit(process, RENDER_ENGINE, &[], kernel(1, u64::MAX, &[], &[]));
    rig.submit(process, COPY_ENGINE, &[], vec![1]);
    rig.drain();
    rig.gpu.preempt(rig.now, RENDER_ENGINE, 1);
    rig.gpu.preempt(rig.now, COPY_ENGINE, 1);
    assert_eq!(rig.gpu.next_event_at(), None);
    rig.gpu.reset_engine(rig.now, RENDER_ENGINE);
    assert_eq!(answers(&rig.drain()), [], "a reset makes it forget the request");
}
