//! Priorities of contexts: who goes first on an engine, and who is asked to make way.

use crate::world::*;
use vidmm::*;

fn prioritised() -> (World, Client, Client) {
    let mut world = World::new(Config::pages(16));
    let (usual, urgent) = (world.client(), world.client());
    world.call(|vidmm, _, _| vidmm.set_context_scheduling_priority(urgent.context, 5)).unwrap();
    (world, usual, urgent)
}

/// A client's urgent work is asked for behind work 1, which runs, and before works 2 and 3.
fn overtake(world: &mut World, urgent: Client) {
    world.submit(urgent, &[Access::Tag(9)]);
    world.poll();
    assert_eq!(world.preempting, [(RENDER, 1)]);
    world.complete(RENDER);
    world.yield_engine(RENDER);
    world.run_all();
    assert_eq!(world.read, [1, 9, 2, 3]);
}

/// Of what is ready at one time, the more urgent goes first.
#[test]
fn the_more_urgent_goes_first() {
    let (mut world, usual, urgent) = prioritised();
    world.submit(usual, &[Access::Tag(1)]);
    world.submit(urgent, &[Access::Tag(2)]);
    world.run_all();
    assert_eq!(world.read, [2, 1]);
    world.tear_down();
}

/// Packets that an engine was given and has not begun are taken back for it, and run afterwards in their order.
#[test]
fn urgent_work_overtakes_what_has_not_begun() {
    let (mut world, usual, urgent) = prioritised();
    (1..=3).for_each(|tag| _ = world.submit(usual, &[Access::Tag(tag)]));
    world.poll();
    overtake(&mut world, urgent);
    world.tear_down();
}

/// The same behind a packet that runs and is as urgent.
#[test]
fn urgent_work_overtakes_what_is_behind_other_urgent_work() {
    let (mut world, usual, urgent) = prioritised();
    let other = world.client();
    world.call(|vidmm, _, _| vidmm.set_context_scheduling_priority(other.context, 5)).unwrap();
    for (client, tag) in [(urgent, 1), (usual, 2), (usual, 3)] {
        world.submit(client, &[Access::Tag(tag)]);
        world.poll();
    }
    assert_eq!(world.preempting, []);
    overtake(&mut world, other);
    world.tear_down();
}

/// D23: the packets of a context run in their order, also where one of them has been given back and the next is urgent.
#[test]
fn urgent_work_does_not_overtake_its_own_context() {
    let (mut world, usual, urgent) = prioritised();
    for (client, tag) in [(usual, 1), (urgent, 2), (usual, 3), (urgent, 4)] {
        world.submit(client, &[Access::Tag(tag)]);
        world.poll();
    }
    assert_eq!(world.preempting, [(RENDER, 1)]);
    world.complete(RENDER);
    world.yield_engine(RENDER);
    world.run_all();
    assert!(world.read == [1, 2, 4, 3] || world.read == [1, 2, 3, 4], "{:?}", world.read);
    world.tear_down();
}

/// Urgent work that waits for less urgent work does not overtake it.
#[test]
fn urgent_work_waits_for_what_it_needs() {
    let (mut world, usual, urgent) = prioritised();
    let fence = world.fence();
    world.submit(usual, &[Access::Tag(1)]);
    world.submit_to(usual.context, &[Access::Tag(2)], &[], &[(fence, 1)]);
    world.poll();
    world.submit_to(urgent.context, &[Access::Tag(9)], &[(fence, 1)], &[]);
    world.poll();
    assert_eq!(world.preempting, []);
    world.run_all();
    assert_eq!(world.read, [1, 2, 9]);
    world.tear_down();
}

/// A packet that runs is not less urgent: no packet makes way.
#[test]
fn equals_do_not_overtake() {
    let (mut world, _, urgent) = prioritised();
    let peer = world.client();
    world.call(|vidmm, _, _| vidmm.set_context_scheduling_priority(peer.context, 5)).unwrap();
    (1..=3).for_each(|tag| _ = world.submit(urgent, &[Access::Tag(tag)]));
    world.poll();
    world.submit(peer, &[Access::Tag(9)]);
    world.run_all();
    assert_eq!(world.preempting, []);
    assert_eq!(world.read, [1, 2, 3, 9]);
    world.tear_down();
}

/// A priority that there is not is refused, and changes nothing.
#[test]
fn priorities_are_from_minus_seven_to_seven() {
    let (mut world, usual, _) = prioritised();
    for priority in [-8, 8, i32::MIN, i32::MAX] {
        let refused = world.call(|vidmm, _, _| vidmm.set_context_scheduling_priority(usual.context, priority));
        assert_eq!(refused, Err(PriorityError::Range { priority }));
    }
    for priority in [-7, 0, 7] {
        let changed = world.call(|vidmm, _, _| vidmm.set_context_scheduling_priority(usual.context, priority));
        assert_eq!(changed, Ok(()));
    }
    world.tear_down();
}
