//! Without GPU virtual addresses kernels need the state of their engine programmed, and other work makes the engine lose it.

use crate::common::patching::*;
use crate::common::*;
use vidmm::contract::*;
use vidmm_runtime::{Gpu, GpuEvent};
use vidmm_soft::*;

/// A kernel that takes 10 and touches nothing.
fn a_kernel() -> Vec<u8> {
    kernel(1, 10, &[], &[])
}

fn programming() -> Vec<u8> {
    [set_state(), a_kernel()].concat()
}

/// Whether `commands` end well as a packet of `process` on the engine of kernels.
fn ends_well(rig: &mut PatchRig, process: Process, commands: Vec<u8>) -> bool {
    let events = rig.rig.run(process, commands);
    assert_eq!(events.len(), 1 + reads(&events).len(), "{events:?}");
    let ends = matches!(events.last(), Some(GpuEvent::Completed { .. }));
    assert!(ends || is_refusal(&events), "{events:?}");
    ends
}

fn page_something(rig: &mut PatchRig) {
    rig.transfer(system(0), local(0), 0, 1);
}

#[test]
fn a_kernel_without_programmed_state_is_stopped() {
    let mut rig = PatchRig::new(config());
    let user = rig.user;
    assert!(!ends_well(&mut rig, user, a_kernel()));
    assert!(ends_well(&mut rig, user, programming()));
    assert_eq!(rig.rig.gpu.counters().illegal_commands, 1);
}

#[test]
fn state_lasts_from_packet_to_packet_of_a_context() {
    let mut rig = PatchRig::new(config());
    let user = rig.user;
    assert!(ends_well(&mut rig, user, programming()));
    assert!(ends_well(&mut rig, user, a_kernel()));
    assert!(ends_well(&mut rig, user, a_kernel()));
}

#[test]
fn each_engine_has_its_own_state() {
    let mut rig = PatchRig::new(config());
    let user = rig.user;
    assert!(ends_well(&mut rig, user, programming()));
    rig.rig.submit(user, COPY_ENGINE, &[], a_kernel());
    assert!(is_refusal(&rig.rig.drain()));
    assert!(ends_well(&mut rig, user, a_kernel()));
}

#[test]
fn a_paging_buffer_makes_every_engine_lose_its_state() {
    for preemption_aware in [false, true] {
        let mut rig = PatchRig::new(SoftAdapterConfig { preemption_aware, ..config() });
        let user = rig.user;
        assert!(ends_well(&mut rig, user, programming()));
        page_something(&mut rig);
        assert!(!ends_well(&mut rig, user, a_kernel()));
        page_something(&mut rig);
        assert!(ends_well(&mut rig, user, programming()), "a portion that programs it again does not mind");
    }
}

#[test]
fn a_paging_buffer_that_ends_while_a_packet_runs_harms_the_next_packet_only() {
    let mut rig = PatchRig::new(config());
    let user = rig.user;
    let paging = rig.paging;
    let signal = rig.rig.submit(user, RENDER_ENGINE, &[], [programming(), a_kernel()].concat());
    let commands = rig.rig.build(&transfer(KmdAllocationHandle(1), system(0), local(0), 0, 1));
    rig.rig.submit(paging, PAGING_ENGINE, &[], commands);
    let events = rig.rig.drain();
    let ended: Vec<_> = times(&events).into_iter().map(|(signal, ..)| signal.engine).collect();
    assert_eq!((ended, signal.fence_id), (vec![PAGING_ENGINE, RENDER_ENGINE], 1));
    assert!(!ends_well(&mut rig, user, a_kernel()));
}

#[test]
fn another_contexts_packet_makes_an_engine_lose_its_state_unless_it_is_saved() {
    for preemption_aware in [false, true] {
        let mut rig = PatchRig::new(SoftAdapterConfig { preemption_aware, ..config() });
        let (first, second) = (rig.user, rig.rig.process());
        assert!(ends_well(&mut rig, first, programming()));
        assert!(!ends_well(&mut rig, second, a_kernel()), "it is the first context's state");
        // The refused packet was followed by a reset, which leaves nothing.
        assert!(ends_well(&mut rig, first, programming()));
        assert!(ends_well(&mut rig, second, programming()));
        assert_eq!(ends_well(&mut rig, first, a_kernel()), preemption_aware);
    }
}

#[test]
fn two_contexts_of_one_process_do_not_share_state() {
    let mut rig = PatchRig::new(config());
    let user = rig.user;
    let context = rig.rig.kmd.create_context(user.handle, RENDER_ENGINE, false).unwrap();
    assert!(ends_well(&mut rig, user, programming()));
    assert!(!ends_well(&mut rig, Process { context, ..user }, a_kernel()));
}

#[test]
fn a_reset_leaves_no_state() {
    let mut rig = PatchRig::new(config());
    let user = rig.user;
    assert!(ends_well(&mut rig, user, programming()));
    rig.rig.gpu.reset_engine(rig.rig.now, RENDER_ENGINE);
    rig.rig.drain();
    assert!(!ends_well(&mut rig, user, a_kernel()));
    assert!(ends_well(&mut rig, user, programming()));
    rig.rig.gpu.lose_power();
    assert!(!ends_well(&mut rig, user, a_kernel()));
    assert!(ends_well(&mut rig, user, programming()));
    rig.rig.gpu.reset_from_timeout(rig.rig.now);
    rig.rig.gpu.restart_from_timeout(rig.rig.now);
    rig.rig.drain();
    assert!(!ends_well(&mut rig, user, a_kernel()));
}
