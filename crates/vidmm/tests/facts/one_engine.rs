//! An adapter whose only engine runs paging buffers and all work (FLT-23, D7, D23).

use crate::world::*;
use vidmm::contract::*;
use vidmm::*;

fn one_engine(pages: u64) -> World {
    World::new(Config { one_engine: true, ..Config::pages(pages) })
}

/// Packets that were handed out again, by their fences before and after.
fn again(world: &World) -> Vec<(u64, u64)> {
    let fences = |event: &Event| match event {
        Event::Resubmitted { before, signal, .. } => Some((before.fence_id, signal.fence_id)),
        _ => None,
    };
    world.events.iter().filter_map(fences).collect()
}

/// An adapter with further engines keeps its paging engine for paging buffers.
#[test]
fn a_paging_engine_beside_others_takes_no_contexts() {
    let (mut world, client) = World::with_pages(16);
    let answer = world.call(|vidmm, driver, _| vidmm.create_context(driver, client.device, PAGING));
    assert_eq!(answer, Err(CreateError::Engine { engine: PAGING, last: COPY, paging: PAGING }));
    world.tear_down();
}

/// Allocations that do not fit together come and go on the engine that uses them, and work finds what it wrote.
#[test]
fn paging_and_work_share_the_engine() {
    let mut world = one_engine(16);
    let client = world.client();
    let allocations = [1, 2, 3].map(|token| {
        let allocation = world.allocate(client, 10);
        (allocation, world.map(client, allocation), token)
    });
    for round in 0..2 {
        for (allocation, at, token) in allocations {
            let _: Residency = world.make_resident(client, &[allocation]).unwrap();
            world.submit(client, &[if round == 0 { Access::Write(at, token) } else { Access::Read(at) }]);
            world.evict(client, &[allocation], SOON).unwrap();
            world.poll();
        }
    }
    world.run_all();
    assert_eq!(world.read, [1, 2, 3]);
    world.tear_down();
}

/// FLT-23: work that faults is aborted alone. Paging buffers behind it keep their fences and come first.
#[test]
fn a_fault_of_work_resets_the_engine_alone() {
    let mut world = one_engine(16);
    let (guilty, other) = (world.client(), world.client());
    world.submit(guilty, &[]);
    world.submit(other, &[Access::Tag(1)]);
    world.poll();
    let first = world.engines[PAGING as usize][0].signal.fence_id;
    let allocation = world.allocate(other, 4);
    let at = world.map(other, allocation);
    let _: Residency = world.make_resident(other, &[allocation]).unwrap();
    world.submit(other, &[Access::Write(at, 7)]);
    world.poll();
    let is_paging = |packet: &Packet| matches!(packet.buffer, DmaBuffer::Paging(_));
    let paging: Vec<u64> =
        world.engines[0].iter().filter(|&packet| is_paging(packet)).map(|packet| packet.signal.fence_id).collect();
    assert!(!paging.is_empty());
    let last = world.last_submitted(PAGING);
    world.fault(PAGING, 0xDEAD_0000);
    assert_eq!(world.engine_resets(), [PAGING]);
    world.run_all();
    assert!(world.trouble.adapter_resets.is_empty());
    let kept = paging.iter().map(|&fence| (fence, fence));
    let renewed = (first + 1..=last).filter(|fence| !paging.contains(fence)).zip(last + 1..);
    assert_eq!(again(&world), kept.chain(renewed).collect::<Vec<_>>());
    assert_eq!(world.token(other, at), Some(7));
    assert_eq!(world.read, [1]);
    assert_eq!(world.devices_in_error().len(), 1, "the guilty device alone");
    world.tear_down();
}

/// FLT-23, U-43: a fault of a paging buffer has no guilty device; the adapter is reset.
#[test]
fn a_fault_of_a_paging_buffer_resets_the_adapter() {
    let mut world = one_engine(16);
    let client = world.client();
    let allocation = world.allocate(client, 4);
    world.map(client, allocation);
    let _: Residency = world.make_resident(client, &[allocation]).unwrap();
    world.poll();
    world.fault(PAGING, 0xDEAD_0000);
    assert_eq!((world.engine_resets().len(), world.trouble.adapter_resets.len()), (0, 1));
    world.run_all();
    world.tear_down();
}

/// Work that runs for a quantum is asked to yield. Paging buffers behind it come before work that it held up.
#[test]
fn work_that_yields_lets_paging_pass() {
    let mut world = World::new(Config { one_engine: true, tdr: TdrOptions::default(), ..Config::pages(16) });
    let (long, other) = (world.client(), world.client());
    world.submit(long, &[Access::Tag(1)]);
    world.submit(other, &[Access::Tag(2)]);
    world.poll();
    let allocation = world.allocate(other, 4);
    world.map(other, allocation);
    let _: Residency = world.make_resident(other, &[allocation]).unwrap();
    world.poll();
    assert!(world.pass_time());
    assert_eq!(world.preempting, [(PAGING, 1)]);
    world.complete(PAGING);
    world.yield_engine(PAGING);
    world.poll();
    assert!(matches!(world.engines[0][0].buffer, DmaBuffer::Paging(_)));
    world.run_all();
    assert_eq!(world.read, [1, 2]);
    world.tear_down();
}

/// FLT-22: the only engine has ended all its packets, and has not answered a request to yield in time. Nothing is reset.
#[test]
fn an_only_engine_with_nothing_left_is_not_reset() {
    let mut world = World::new(Config { one_engine: true, tdr: TdrOptions::default(), ..Config::pages(16) });
    let client = world.client();
    world.submit(client, &[Access::Tag(1)]);
    world.poll();
    assert!(world.pass_time());
    assert_eq!(world.preempting, [(PAGING, 1)]);
    world.complete(PAGING);
    world.wait(10_000_000_000);
    let over = Event::PreemptTimedOut { engine: PAGING, preemption_fence_id: 1 };
    assert!(world.events.contains(&over), "the time to answer is over");
    assert_eq!((world.engine_resets().len(), world.trouble.adapter_resets.len()), (0, 0));
    world.submit(client, &[Access::Tag(2)]);
    world.run_all();
    assert_eq!((world.read.as_slice(), world.devices_in_error()), (&[1, 2][..], vec![]));
    world.tear_down();
}

/// Paging buffers keep their fences, so nothing new can go before them: the engine is not asked to yield for work that is
/// ready or urgent.
#[test]
fn the_only_engine_is_not_asked_to_yield_for_other_work() {
    let config = Config { segment_bytes: 64 << 20, level_bits: vec![9, 9, 9], ..Config::default() };
    let mut world = World::new(Config { one_engine: true, ..config });
    let (pages_in, urgent) = (world.client(), world.client());
    world.call(|vidmm, _, _| vidmm.set_context_scheduling_priority(urgent.context, 5)).unwrap();
    let allocations = Vec::from_iter((0..4).map(|_| world.allocate(pages_in, 2048)));
    let _: Residency = world.make_resident(pages_in, &allocations).unwrap();
    (1..=3).for_each(|tag| _ = world.submit(pages_in, &[Access::Tag(tag)]));
    world.poll();
    world.submit(urgent, &[Access::Tag(9)]);
    world.poll();
    assert_eq!(world.preempting, []);
    world.run_all();
    let mut read = world.read.clone();
    read.sort_unstable();
    assert_eq!(read, [1, 2, 3, 9]);
    world.tear_down();
}
