//! Submissions: what they require, when they are handed out, what they wait for (D2, D7, RES-01, SYN-).

use crate::world::*;
use vidmm::*;

/// D2: work requires the list as it stood, not as it stands.
#[test]
fn work_requires_the_list_as_it_stood() {
    let (mut world, client) = World::with_pages(4);
    let (a, at) = world.resident(client, 4);
    world.submit(client, &[Access::Write(at, 7), Access::Read(at)]);
    world.evict(client, &[a], SOON).unwrap();
    world.submit(client, &[]);
    world.run_all();
    assert_eq!(world.read, [7]);
    assert_eq!(world.translate(client, at), None);
}

/// D2: sixteen deep, with memory for two of the sets.
#[test]
fn a_client_may_run_far_ahead() {
    let (mut world, client) = World::with_pages(8);
    let sets: Vec<_> = (0..5).map(|_| (world.allocate(client, 2), world.allocate(client, 2))).collect();
    let at: Vec<_> = sets.iter().map(|&(a, b)| (world.map(client, a), world.map(client, b))).collect();
    for turn in 0..16 {
        let ((a, b), (a_at, b_at)) = (sets[turn % 5], at[turn % 5]);
        let _: Residency = world.make_resident(client, &[a, b]).unwrap();
        world.submit(client, &[Access::Read(a_at), Access::Write(a_at, turn as u64 + 1), Access::Read(b_at)]);
        world.evict(client, &[a, b], IF_NECESSARY).unwrap();
    }
    world.run_all();
    let expected = (0..16).flat_map(|turn: u64| [turn.saturating_sub(4), 0]);
    assert_eq!(world.read, expected.collect::<Vec<_>>());
    assert_eq!(world.paging_fence(client), 26);
    world.tear_down();
}

/// RES-01, I06, P06: no context of the device runs while one allocation is missing; other devices do.
#[test]
fn no_context_runs_before_all_is_resident() {
    let mut world = World::new(Config::pages(64));
    let (client, other) = (world.client(), world.client());
    let contexts = [client.context, world.context(client, COPY), world.context(client, RENDER)];
    let others = [other.context, world.context(other, COPY)];
    let allocations = [0; 5].map(|_| world.allocate(client, 8));
    world.bring_in(client, &allocations[..4]);
    let _: Residency = world.make_resident(client, &allocations[4..]).unwrap();
    for context in contexts.into_iter().chain(others) {
        world.submit_to(context, &[], &[], &[]);
    }
    world.poll();
    for engine in [RENDER, COPY] {
        for packet in &world.engines[engine as usize] {
            let process = words(&packet.preamble).next();
            let must_wait = process == Some(client.kmd_process.0);
            let waits = packet.waits.iter().any(|wait| wait.engine == PAGING && wait.fence_id > world.completed[0]);
            assert_eq!(waits, must_wait, "on engine {engine}");
        }
    }
    world.run_all();
}

/// I06: as long as a request is not granted, its device's later work is not even handed out.
#[test]
fn work_behind_an_ungranted_request_waits_in_the_core() {
    let mut world = World::new(Config::pages(8));
    let (client, other) = (world.client(), world.client());
    let (a, at) = world.resident(client, 8);
    world.submit(client, &[Access::Read(at)]);
    world.evict(client, &[a], SOON).unwrap();
    let b = world.allocate(client, 8);
    let _: Residency = world.make_resident(client, &[b]).unwrap();
    world.submit(client, &[]);
    world.submit(other, &[]);
    world.poll();
    assert_eq!(world.engines[RENDER as usize].len(), 2, "the first work, and the other device's");
    world.run_all();
    assert_eq!(world.completed[RENDER as usize], 3);
}

/// D7: packets wait for fences on the GPU, without the host.
#[test]
fn work_waits_for_other_work_on_the_gpu() {
    let (mut world, client) = World::with_pages(8);
    let copy = world.context(client, COPY);
    let fence = world.fence();
    let (_, at) = world.resident(client, 1);
    world.submit_to(client.context, &[Access::Write(at, 1)], &[], &[(fence, 1)]);
    world.submit_to(copy, &[Access::Read(at), Access::Write(at, 2)], &[(fence, 1)], &[(fence, 2)]);
    world.submit_to(client.context, &[Access::Read(at)], &[(fence, 2)], &[(fence, 3)]);
    world.poll();
    assert_eq!((world.engines[RENDER as usize].len(), world.engines[COPY as usize].len()), (2, 1));
    assert!(!world.can_complete(COPY));
    world.run_all();
    assert_eq!(world.read, [1, 2]);
    assert_eq!(world.vidmm.monitored_fence_value(fence), Ok(3));
}

/// SYN-02: work that waits for the CPU is handed out when the CPU signals.
#[test]
fn work_waits_for_the_cpu() {
    let (mut world, client) = World::with_pages(8);
    let fence = world.fence();
    world.submit_to(client.context, &[], &[(fence, 5)], &[]);
    world.submit(client, &[]);
    world.run_all();
    assert_eq!(world.completed[RENDER as usize], 0, "a context runs its work in order");
    world.signal(fence, 4);
    world.run_all();
    assert_eq!(world.completed[RENDER as usize], 0);
    world.signal(fence, 6);
    world.run_all();
    assert_eq!(world.completed[RENDER as usize], 2);
    world.tear_down();
}

/// SYN-01: work may wait for work that is submitted later, on another context.
#[test]
fn work_may_wait_for_work_submitted_later() {
    let (mut world, client) = World::with_pages(8);
    let copy = world.context(client, COPY);
    let fence = world.fence();
    world.submit_to(client.context, &[], &[(fence, 1)], &[]);
    world.submit_to(copy, &[], &[], &[(fence, 1)]);
    world.run_all();
    assert_eq!(world.completed[RENDER as usize..], [1, 1]);
}

/// SYN-01, D5: also when the later work needs room, and the earlier holds an allocation that was destroyed meanwhile.
#[test]
fn later_work_finds_room_beside_destroyed_allocations() {
    let (mut world, client) = World::with_pages(8);
    let copy = world.context(client, COPY);
    let (living, _) = world.resident(client, 4);
    world.evict(client, &[living], IF_NECESSARY).unwrap();
    let (dying, _) = world.resident(client, 4);
    let fence = world.fence();
    world.submit_to(client.context, &[], &[(fence, 1)], &[]);
    world.destroy(dying);
    let wanted = world.allocate(client, 4);
    let _: Residency = world.make_resident(client, &[wanted]).unwrap();
    world.submit_to(copy, &[], &[], &[(fence, 1)]);
    world.run_all();
    assert_eq!(world.completed[RENDER as usize..], [1, 1]);
}

/// Two devices that share a segment of 4 pages, 2 each. The first runs ahead: its work on two allocations waits for work of
/// the second, and it already asks for a third allocation in the place of one of the two.
fn run_ahead_into_anothers_room(third_is_in_place: bool, priority: i32) {
    let mut world = World::new(Config::pages(4));
    let (ahead, other) = (world.client(), world.client());
    let queue = world.call(|vidmm, _, _| vidmm.create_paging_queue(ahead.device, priority)).unwrap();
    let fence = world.fence();
    let [a, b, c] = [0; 3].map(|_| world.allocate(ahead, 1));
    world.bring_in(ahead, &[a, b]);
    if third_is_in_place {
        world.evict(ahead, &[a], IF_NECESSARY).unwrap();
        world.bring_in(ahead, &[c]);
        world.evict(ahead, &[c], IF_NECESSARY).unwrap();
        world.bring_in(ahead, &[a]);
    }
    let theirs = world.allocate(other, 2);
    let _: Residency = world.make_resident(other, &[theirs]).unwrap();
    world.submit_to(other.context, &[], &[], &[(fence, 1)]);
    world.submit_to(ahead.context, &[], &[(fence, 1)], &[]);
    world.evict(ahead, &[a], SOON).unwrap();
    let _: Residency = world.call(|vidmm, _, _| vidmm.make_resident(queue, &[c], MakeResidentFlags::empty())).unwrap();
    world.run_all();
    assert_eq!(world.completed[RENDER as usize], 2, "the two devices wait for each other");
    assert_eq!(world.paging_fence(other), 1);
}

/// D5, RES-11, I32: every admitted request is granted: a device that runs ahead never holds more than it was admitted
/// with.
#[test]
fn allocations_in_place_are_not_held_beyond_what_was_admitted() {
    run_ahead_into_anothers_room(true, 0);
}

/// D5, RES-11, I32: nor does a request of higher priority take what another device was promised.
#[test]
fn urgent_allocations_are_not_held_beyond_what_was_admitted() {
    run_ahead_into_anothers_room(false, 1);
}

/// SYN-01: a fence never falls.
#[test]
fn a_fence_never_falls() {
    let (mut world, client) = World::with_pages(8);
    let copy = world.context(client, COPY);
    let fence = world.fence();
    world.submit_to(client.context, &[], &[], &[(fence, 7)]);
    world.submit_to(copy, &[], &[], &[(fence, 3)]);
    world.poll();
    world.complete(RENDER);
    world.complete(COPY);
    assert_eq!(world.vidmm.monitored_fence_value(fence), Ok(7));
    world.signal(fence, 2);
    assert_eq!(world.vidmm.monitored_fence_value(fence), Ok(7));
    let signaled = world.outputs.iter().filter(|output| matches!(output, Output::MonitoredFenceSignaled { .. }));
    assert_eq!(signaled.count(), 1);
    world.tear_down();
}

/// D2, SYN-13: a device's work may end in any order across engines; memory is given up when all has ended that needs it.
#[test]
fn work_ends_in_any_order_across_engines() {
    let (mut world, client) = World::with_pages(4);
    let copy = world.context(client, COPY);
    let (a, at) = world.resident(client, 4);
    world.submit(client, &[Access::Write(at, 7)]);
    world.submit_to(copy, &[Access::Write(at + PAGE_SIZE, 8)], &[], &[]);
    world.evict(client, &[a], SOON).unwrap();
    world.poll();
    world.complete(COPY);
    world.run_paging();
    assert_eq!(world.token(client, at + PAGE_SIZE), Some(8), "the other work still needs it");
    world.complete(RENDER);
    world.run_all();
    assert_eq!(world.translate(client, at), None);
    world.bring_in(client, &[a]);
    assert_eq!((world.token(client, at), world.token(client, at + PAGE_SIZE)), (Some(7), Some(8)));
}

/// GVA-17: a context's root is told to the driver before its first work, even if its process has no tables.
#[test]
fn the_root_is_set_before_the_first_submission() {
    for tables_in_system in [true, false] {
        let mut world = World::new(Config { tables_in_system, ..Config::default() });
        let client = world.client();
        world.submit(client, &[]);
        world.run_all();
        let (submit, root) = world.driver.submitted.last().unwrap();
        assert!(!submit.paging);
        assert!(root.is_some(), "the driver was handed work of a context without a root table");
    }
}

/// GVA-17, GVA-25, I26: no work runs with a root table that was not initialised, whoever mapped first.
#[test]
fn no_work_runs_with_a_root_that_is_not_initialised() {
    let mut world = World::new(Config { tables_in_system: false, ..Config::default() });
    let client = world.client();
    let sibling = world.sibling(client);
    let a = world.allocate(client, 1);
    world.map(client, a);
    world.submit(sibling, &[]);
    world.poll();
    while world.can_complete(RENDER) {
        let packet = world.engines[RENDER as usize].front().unwrap();
        let root: Vec<u64> = words(&packet.preamble).collect();
        let initialised = world.machine.root_of(client.kmd_process);
        let known = initialised.map(|root| root.table.offset) == Some(root[2]);
        assert!(root[3] == 0 || known, "the GPU walks memory of whoever had it before");
        world.complete(RENDER);
    }
    world.run_all();
}

/// D14: a context's queue is bounded.
#[test]
fn queued_work_is_bounded() {
    let (mut world, client) = World::with_pages(8);
    let fence = world.fence();
    world.submit_to(client.context, &[], &[(fence, 1)], &[]);
    let error = loop {
        if let Err(error) = world.vidmm.submit(client.context, SubmitDesc::default()) {
            break error;
        }
    };
    assert_eq!(error, SubmitError::QueueFull { queued: 4096 });
    world.signal(fence, 1);
    world.run_all();
    assert_eq!(world.completed[RENDER as usize], 4096);
}

/// RES-74: numbers of submissions count from 1 within the device.
#[test]
fn submissions_are_numbered_within_their_device() {
    let mut world = World::new(Config::pages(8));
    let (client, other) = (world.client(), world.client());
    let copy = world.context(client, COPY);
    assert_eq!(world.submit(client, &[]), 1);
    assert_eq!(world.submit_to(copy, &[], &[], &[]), 2);
    assert_eq!(world.submit(other, &[]), 1);
    world.run_all();
}

/// How urgent a context is changes at once, for what is queued already too.
#[test]
fn work_that_is_queued_goes_by_the_priority_that_its_context_has_now() {
    for (priorities, expected) in [([0, 0], [1, 2]), ([0, 1], [2, 1]), ([-1, 0], [2, 1]), ([2, 1], [1, 2])] {
        let (mut world, client) = World::with_pages(8);
        let contexts = [client.context, world.context(client, RENDER)];
        let gate = world.fence();
        for (context, tag) in contexts.into_iter().zip([1, 2]) {
            world.submit_to(context, &[Access::Tag(tag)], &[(gate, 1)], &[]);
        }
        for (context, priority) in contexts.into_iter().zip(priorities) {
            world.call(|vidmm, _, _| vidmm.set_context_scheduling_priority(context, priority)).unwrap();
        }
        world.signal(gate, 1);
        world.run_all();
        assert_eq!(world.read, expected, "{priorities:?}");
        world.tear_down();
    }
}
