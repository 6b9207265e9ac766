//! Suspension of a process by a call: nothing of it runs, and what it had comes back as it was (P10).

use crate::world::*;
use vidmm::event::EvictReason;
use vidmm::*;

fn suspend(world: &mut World, client: Client) {
    world.call(|vidmm, _, _| vidmm.suspend_process(client.process, false)).unwrap();
}

fn suspend_until_it_submits(world: &mut World, client: Client) {
    world.call(|vidmm, _, _| vidmm.suspend_process(client.process, true)).unwrap();
}

fn resume(world: &mut World, client: Client) {
    world.call(|vidmm, _, _| vidmm.resume_process(client.process)).unwrap();
}

/// Packets of clients that were handed out, and not run.
fn waiting(world: &World) -> usize {
    world.engines[RENDER as usize].len() + world.engines[COPY as usize].len()
}

/// P10: everything of a suspended process is evicted, and is what it was after it was resumed.
#[test]
fn a_suspended_process_is_evicted_and_comes_back() {
    let (mut world, client) = World::with_pages(8);
    let sibling = world.sibling(client);
    let (a, a_at) = world.resident(client, 3);
    let (b, b_at) = world.resident(sibling, 3);
    write(&mut world, client, a_at, 7);
    write(&mut world, sibling, b_at, 8);
    suspend(&mut world, client);
    world.run_all();
    let suspended = EvictReason::DeviceSuspended;
    assert_eq!(world.evicted(), [(a, suspended), (b, suspended)]);
    assert_eq!([a_at, b_at].map(|at| world.translate(client, at)), [None, None]);
    assert_eq!(world.local_info(client).current_usage, 0);
    resume(&mut world, client);
    world.submit(client, &[Access::Read(a_at)]);
    world.submit(sibling, &[Access::Read(b_at)]);
    world.run_all();
    assert_eq!(world.read, [7, 8]);
    world.tear_down();
}

/// P10: work in flight ends, and nothing else of the process runs until it is resumed.
#[test]
fn nothing_of_a_suspended_process_is_dispatched() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    world.submit(client, &[Access::Write(at, 7)]);
    world.poll();
    suspend(&mut world, client);
    world.run_paging();
    assert_eq!(world.evicted(), [], "I17: its work is in flight");
    world.submit(client, &[Access::Read(at)]);
    world.poll();
    assert_eq!(waiting(&world), 1);
    world.complete(RENDER);
    world.run_paging();
    assert_eq!(world.evicted(), [(a, EvictReason::DeviceSuspended)]);
    world.wait(60_000 * MILLISECOND);
    assert_eq!(waiting(&world), 0);
    assert_eq!(world.read, [0u64; 0]);
    resume(&mut world, client);
    world.run_all();
    assert_eq!(world.read, [7]);
    world.tear_down();
}

/// RES-74: calls are accepted while the process is suspended, and take effect when it is resumed.
#[test]
fn calls_of_a_suspended_process_wait() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    suspend(&mut world, client);
    world.run_all();
    let b = world.allocate(client, 2);
    let b_at = world.map(client, b);
    assert!(matches!(world.make_resident(client, &[b]), Ok(Residency::Pending { .. })));
    assert!(matches!(world.make_resident(client, &[a]), Ok(Residency::Pending { .. })), "it is not in place");
    world.evict(client, &[a], SOON).unwrap();
    world.submit(client, &[Access::Read(at), Access::Write(b_at, 9), Access::Read(b_at)]);
    world.destroy(a);
    let pending = world.paging_fence(client);
    world.wait(1000 * MILLISECOND);
    assert_eq!(world.paging_fence(client), pending);
    resume(&mut world, client);
    world.run_all();
    assert_eq!(world.read, [7, 9]);
    world.tear_down();
}

/// P10: a submission ends the suspension if that was allowed, and otherwise not.
#[test]
fn a_submission_wakes_only_who_may_be_woken() {
    for may_wake in [true, false] {
        let (mut world, client) = World::with_pages(8);
        let (_, at) = world.resident(client, 4);
        write(&mut world, client, at, 7);
        if may_wake {
            suspend_until_it_submits(&mut world, client);
        } else {
            suspend(&mut world, client);
        }
        world.run_all();
        world.submit(client, &[Access::Read(at)]);
        world.wait(1000 * MILLISECOND);
        assert_eq!(waiting(&world), usize::from(may_wake));
        let resumed = Event::ProcessResumed { process: client.process, by_submission: true };
        assert_eq!(world.events.contains(&resumed), may_wake);
        resume(&mut world, client);
        world.run_all();
        assert_eq!(world.read, [7]);
        world.tear_down();
    }
}

/// The memory of a suspended process is there for others meanwhile, and they keep running.
#[test]
fn others_run_and_have_the_room() {
    let (mut world, client) = World::with_pages(8);
    world.resident(client, 8);
    suspend(&mut world, client);
    world.run_all();
    let other = world.client();
    let b = world.allocate(other, 4);
    let b_at = world.map(other, b);
    world.bring_in(other, &[b]);
    write(&mut world, other, b_at, 7);
    assert_eq!(world.token(other, b_at), Some(7));
    resume(&mut world, client);
    world.run_all();
    world.tear_down();
}

/// A device that is created while its process is suspended is suspended too.
#[test]
fn a_device_created_meanwhile_waits_too() {
    let (mut world, client) = World::with_pages(8);
    suspend(&mut world, client);
    world.poll();
    let sibling = world.sibling(client);
    let a = world.allocate(sibling, 2);
    let at = world.map(sibling, a);
    let _: Residency = world.make_resident(sibling, &[a]).unwrap();
    world.submit(sibling, &[Access::Read(at)]);
    world.wait(1000 * MILLISECOND);
    assert_eq!(waiting(&world), 0);
    assert_eq!(world.placed.get(&a), None);
    resume(&mut world, client);
    world.run_all();
    assert_eq!(world.read, [0]);
    world.tear_down();
}

/// Suspending twice is suspending once; the last call says whether a submission wakes. A process that is not suspended
/// is not resumed.
#[test]
fn suspensions_do_not_add_up() {
    let (mut world, client) = World::with_pages(8);
    let (_, at) = world.resident(client, 2);
    resume(&mut world, client);
    assert!(!world.events.iter().any(|event| matches!(event, Event::ProcessResumed { .. })));
    suspend(&mut world, client);
    suspend_until_it_submits(&mut world, client);
    world.submit(client, &[Access::Read(at)]);
    world.run_all();
    assert_eq!(world.read, [0]);
    suspend(&mut world, client);
    suspend(&mut world, client);
    resume(&mut world, client);
    world.submit(client, &[Access::Read(at)]);
    world.run_all();
    assert_eq!(world.read, [0, 0]);
    world.tear_down();
}

/// A suspension that ends before the work in flight does costs nothing.
#[test]
fn resumed_before_it_was_drained_nothing_has_moved() {
    let (mut world, client) = World::with_pages(8);
    let (_, at) = world.resident(client, 4);
    world.submit(client, &[Access::Write(at, 7)]);
    world.poll();
    suspend(&mut world, client);
    world.poll();
    resume(&mut world, client);
    world.submit(client, &[Access::Read(at)]);
    world.run_all();
    assert_eq!(world.read, [7]);
    assert_eq!(world.evicted(), []);
    world.tear_down();
}

/// A process can end while it is suspended.
#[test]
fn a_suspended_process_can_end() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    suspend(&mut world, client);
    world.run_all();
    world.destroy(a);
    world.run_all();
    world.tear_down();
}

/// P10, I03: a device's allocations are found however much it held before.
#[test]
fn held_allocations_are_evicted_and_come_back_after_many_others_came_and_went() {
    let (mut world, client) = World::with_pages(8);
    let (kept, kept_at) = world.resident(client, 2);
    let (twice, twice_at) = world.resident(client, 2);
    write(&mut world, client, kept_at, 7);
    let passing: Vec<AllocationId> = (0..200).map(|_| world.allocate(client, 1)).collect();
    for passing in passing {
        world.bring_in(client, &[passing]);
        world.evict(client, &[passing, twice], SOON).unwrap();
        world.run_all();
        world.destroy(passing);
        world.bring_in(client, &[twice]);
    }
    write(&mut world, client, twice_at, 8);
    let evictions = world.evicted().len();
    suspend(&mut world, client);
    world.run_all();
    let gone: std::collections::BTreeSet<_> = world.evicted()[evictions..].iter().map(|&(gone, _)| gone).collect();
    assert_eq!(gone, [kept, twice].into());
    resume(&mut world, client);
    world.submit(client, &[Access::Read(kept_at), Access::Read(twice_at)]);
    world.run_all();
    assert_eq!(world.read, [7, 8]);
    world.tear_down();
}

/// RES-22: queued work has written nothing, with or without the allocation on the list.
#[test]
fn content_of_queued_work_is_not_copied_out() {
    for leaves in [false, true] {
        let (mut world, client) = World::with_pages(8);
        let (a, at) = world.resident(client, 4);
        write(&mut world, client, at, 7);
        world.evict(client, &[a], SOON).unwrap();
        world.run_all();
        world.bring_in(client, &[a]);
        let gate = world.fence();
        world.submit_to(client.context, &[Access::Write(at, 8)], &[(gate, 1)], &[]);
        if leaves {
            world.evict(client, &[a], IF_NECESSARY).unwrap();
        }
        for evictions in [2, 3] {
            suspend(&mut world, client);
            world.run_all();
            let statistics = world.vidmm.statistics();
            assert_eq!((statistics.evictions, statistics.evictions_copied), (evictions, 1), "leaves: {leaves}");
            resume(&mut world, client);
            world.wait(1_000 * MILLISECOND);
            world.run_all();
        }
        world.signal(gate, 1);
        world.run_all();
        suspend(&mut world, client);
        let other = world.client();
        world.resident(other, 6);
        assert_eq!(world.vidmm.statistics().evictions_copied, 2, "leaves: {leaves}");
    }
}

/// RES-22: a write is copied out once, also with earlier work of the device undispatched.
#[test]
fn a_write_before_earlier_work_is_copied_out_once() {
    for leaves in [false, true] {
        let (mut world, client) = World::with_pages(8);
        let (a, at) = world.resident(client, 4);
        let (gate, copies) = (world.fence(), world.context(client, COPY));
        world.submit_to(copies, &[], &[(gate, 1)], &[]);
        world.submit(client, &[Access::Write(at, 7)]);
        world.submit_to(copies, &[Access::Write(at, 8)], &[(gate, 1)], &[]);
        world.run_all();
        if leaves {
            world.evict(client, &[a], IF_NECESSARY).unwrap();
        }
        for evictions in [1, 2] {
            suspend(&mut world, client);
            world.run_all();
            let statistics = world.vidmm.statistics();
            assert_eq!((statistics.evictions, statistics.evictions_copied), (evictions, 1), "leaves: {leaves}");
            resume(&mut world, client);
            world.wait(1_000 * MILLISECOND);
            world.run_all();
        }
        world.signal(gate, 1);
        world.run_all();
        suspend(&mut world, client);
        let other = world.client();
        world.resident(other, 6);
        assert_eq!(world.vidmm.statistics().evictions_copied, 2, "leaves: {leaves}");
    }
}
