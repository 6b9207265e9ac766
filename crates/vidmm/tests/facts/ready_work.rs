//! Ready work first: no engine is kept from work that can run by work that waits for paging (D23, RES-01).

use crate::world::*;
use vidmm::*;

/// More than moves in a millisecond: four times 8 MiB.
const LARGE: [u64; 4] = [2048; 4];

fn world() -> (World, Client, Client) {
    let mut world = World::new(Config { segment_bytes: 64 << 20, level_bits: vec![9, 9, 9], ..Config::default() });
    let (pages_in, neighbour) = (world.client(), world.client());
    (world, pages_in, neighbour)
}

/// Allocations are on their way in, and work that requires them has been submitted.
fn waits_for(world: &mut World, client: Client, pages: &[u64], tag: u64) {
    let allocations = Vec::from_iter(pages.iter().map(|&pages| world.allocate(client, pages)));
    let _: Residency = world.make_resident(client, &allocations).unwrap();
    world.submit(client, &[Access::Tag(tag)]);
    world.poll();
}

/// RES-01: the engine gives back what waits for much paging, and runs what needs nothing.
#[test]
fn ready_work_overtakes_a_long_page_in() {
    let (mut world, pages_in, neighbour) = world();
    waits_for(&mut world, pages_in, &LARGE, 1);
    for request in 1..=2 {
        world.submit(neighbour, &[Access::Tag(1 + request)]);
        world.poll();
        assert_eq!(world.preempting, [(RENDER, request)]);
        world.yield_engine(RENDER);
        world.poll();
        world.complete(RENDER);
    }
    assert_eq!(world.read, [2, 3], "neither waited for the page-in");
    world.run_all();
    assert_eq!(world.read, [2, 3, 1]);
    world.tear_down();
}

/// Of little paging the end is near: no engine is asked to yield for it.
#[test]
fn ready_work_does_not_overtake_a_short_page_in() {
    let (mut world, pages_in, neighbour) = world();
    waits_for(&mut world, pages_in, &LARGE[..2], 1);
    world.submit(neighbour, &[Access::Tag(2)]);
    world.poll();
    assert_eq!(world.preempting, []);
    world.run_all();
    assert_eq!(world.read, [1, 2]);
    world.tear_down();
}

/// Work that waits is not handed out while the engine holds as much of another context's ready work as it may.
#[test]
fn waiting_work_does_not_come_between_ready_work() {
    let (mut world, pages_in, neighbour) = world();
    (1..=6).for_each(|tag| _ = world.submit(neighbour, &[Access::Tag(tag)]));
    waits_for(&mut world, pages_in, &LARGE[..1], 9);
    let is_its = |event: &&Event| matches!(event, Event::Dispatched { device, .. } if *device == pages_in.device);
    assert_eq!(
        world.events.iter().find(is_its),
        None,
        "the engine has as much as it may of ready work, and more waits"
    );
    world.run_all();
    assert_eq!(world.preempting, []);
    let at = world.read.iter().position(|&tag| tag == 9).unwrap();
    assert!(at >= 2, "two were left when it came: {:?}", world.read);
    assert_eq!(world.read.iter().copied().filter(|&tag| tag != 9).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    world.tear_down();
}

/// D7: with no other ready work the engine is given what waits, and needs no round trip to the host to begin it.
#[test]
fn waiting_work_is_handed_out_where_it_is_in_nobodys_way() {
    let (mut world, pages_in, _) = world();
    waits_for(&mut world, pages_in, &LARGE, 1);
    assert!(world.events.iter().any(|event| matches!(event, Event::Dispatched { .. })));
    world.run_all();
    world.tear_down();
}

/// Nothing else is handed to an engine behind a packet that waits for long: ready work would be behind both.
#[test]
fn waiting_work_stays_behind_a_long_page_in_of_others() {
    let (mut world, pages_in, neighbour) = world();
    waits_for(&mut world, pages_in, &LARGE, 1);
    let dispatched =
        |world: &World| world.events.iter().filter(|event| matches!(event, Event::Dispatched { .. })).count();
    waits_for(&mut world, neighbour, &[2], 2);
    assert_eq!((dispatched(&world), &world.preempting[..]), (1, &[][..]));
    world.run_all();
    assert_eq!(world.read, [1, 2]);
    world.tear_down();
}

/// Of several contexts with ready work each gets one packet in turn.
#[test]
fn contexts_with_ready_work_take_turns() {
    let (mut world, one, other) = world();
    for tag in 1..=3 {
        world.submit(one, &[Access::Tag(tag)]);
        world.submit(other, &[Access::Tag(10 + tag)]);
    }
    world.run_all();
    assert_eq!(world.read, [1, 11, 2, 12, 3, 13]);
    world.tear_down();
}
