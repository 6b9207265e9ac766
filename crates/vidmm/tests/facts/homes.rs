//! Homes: an allocation that may be in several segments makes room, by moving, for one that may not (D19, SEG-47).

use crate::world::*;
use vidmm::contract::*;
use vidmm::event::EvictReason;
use vidmm::*;

/// 16 pages of local memory, and 64 of system memory.
fn world() -> (World, Client) {
    let mut world = World::new(Config::discrete(16, 64));
    let client = world.client();
    (world, client)
}

fn segment(world: &World, client: Client, at: u64) -> Option<SegmentId> {
    world.translate(client, at).map(|at| at.segment)
}

/// An allocation that is made resident on its own, and holds a token.
fn listed(world: &mut World, client: Client, place: Place, pages: u64, token: u64) -> (AllocationId, u64) {
    let (allocation, at) = world.create_resident(client, place, pages, SILENT);
    write(world, client, at, token);
    (allocation, at)
}

/// SEG-47: A may be in local or system memory, B in local memory only. Both fit if A moves, and nothing is lost.
#[test]
fn an_allocation_moves_its_home_for_another_of_its_list() {
    let (mut world, client) = world();
    let (_, a_at) = listed(&mut world, client, Place::LocalOrSystem, 12, 7);
    assert_eq!(segment(&world, client, a_at), Some(LOCAL));
    let (_, b_at) = listed(&mut world, client, Place::Local, 12, 8);
    assert_eq!(segment(&world, client, a_at), Some(SegmentId::SYSTEM));
    assert_eq!(segment(&world, client, b_at), Some(LOCAL));
    assert_eq!((read(&mut world, client, a_at), read(&mut world, client, b_at)), (7, 8));
    world.tear_down();
}

/// SEG-47: in one call, allocations with the fewest choices get their places first, whatever the order of the call.
#[test]
fn allocations_with_the_fewest_choices_are_placed_first() {
    let (mut world, client) = world();
    let flexible = world.create(client, Place::LocalOrSystem, 12, SILENT);
    let local = world.create(client, Place::Local, 12, SILENT);
    let at = [flexible, local].map(|allocation| world.map(client, allocation));
    world.bring_in(client, &[flexible, local]);
    assert_eq!(at.map(|at| segment(&world, client, at)), [Some(SegmentId::SYSTEM), Some(LOCAL)]);
    world.tear_down();
}

/// CRE-31a: allocations of the lowest priority move first, then the largest; no more of them than it takes.
#[test]
fn no_more_allocations_move_than_it_takes() {
    let (mut world, client) = world();
    let priorities = [(4, 0xa000_0000), (2, NORMAL), (4, NORMAL), (4, NORMAL)];
    let at = priorities.map(|(pages, priority)| {
        let info = AllocationInfo {
            allocation_priority: priority,
            ..world.config.allocation(Place::LocalOrSystem, pages, SILENT)
        };
        let allocation = world.try_create(client, info).unwrap();
        world.bring_in(client, &[allocation]);
        world.map(client, allocation)
    });
    world.run_all();
    let before = world.evicted().len();
    world.create_resident(client, Place::Local, 6, SILENT);
    let segments = at.map(|at| segment(&world, client, at));
    assert_eq!(segments, [Some(LOCAL), Some(LOCAL), Some(SegmentId::SYSTEM), Some(LOCAL)]);
    assert_eq!(world.evicted()[before..].iter().map(|&(_, reason)| reason).collect::<Vec<_>>(), [EvictReason::Moved]);
    world.tear_down();
}

/// D19: work that runs, and work that was submitted before, has the allocation where it is; it moves when the request is granted, and
/// later work finds it there.
#[test]
fn an_allocation_moves_when_no_work_of_its_device_runs() {
    let (mut world, client) = world();
    let (_, a_at) = listed(&mut world, client, Place::LocalOrSystem, 12, 7);
    world.submit(client, &[Access::Write(a_at, 9)]);
    world.submit(client, &[Access::Read(a_at), Access::Write(a_at, 10)]);
    world.poll();
    let b = world.create(client, Place::Local, 12, SILENT);
    let b_at = world.map(client, b);
    assert!(matches!(world.make_resident(client, &[b]), Ok(Residency::Pending { .. })));
    world.submit(client, &[Access::Read(a_at), Access::Write(b_at, 8)]);
    world.poll();
    assert_eq!(segment(&world, client, a_at), Some(LOCAL), "work that uses it runs");
    world.run_all();
    assert_eq!(segment(&world, client, a_at), Some(SegmentId::SYSTEM));
    assert_eq!(world.read, [9, 10]);
    assert_eq!((world.token(client, a_at), world.token(client, b_at)), (Some(10), Some(8)));
    world.tear_down();
}

/// D19: an allocation that leaves the list before the grant has no new home: it goes as any victim does.
#[test]
fn an_allocation_that_leaves_the_list_before_the_grant_is_a_victim() {
    let (mut world, client) = world();
    let (a, a_at) = listed(&mut world, client, Place::LocalOrSystem, 12, 7);
    world.submit(client, &[Access::Read(a_at)]);
    world.poll();
    let b = world.create(client, Place::Local, 6, SILENT);
    assert!(matches!(world.make_resident(client, &[b]), Ok(Residency::Pending { .. })));
    world.check();
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    world.check();
    world.run_all();
    assert_eq!(world.evicted(), [(a, EvictReason::RoomWanted)]);
    assert_eq!(world.token(client, a_at), Some(7), "it is demoted");
    world.tear_down();
}

/// D2, D19: work that is submitted after the call requires the allocation in its next home, though the list does not name it any more
/// when the request is granted.
#[test]
fn an_allocation_that_leaves_the_list_moves_for_work_submitted_before() {
    for destroys in [false, true] {
        let (mut world, client) = world();
        let (a, a_at) = listed(&mut world, client, Place::LocalOrSystem, 12, 7);
        let b = world.create(client, Place::Local, 12, SILENT);
        let b_at = world.map(client, b);
        assert!(matches!(world.make_resident(client, &[b]), Ok(Residency::Pending { .. })));
        world.submit(client, &[Access::Read(a_at), Access::Write(b_at, 8)]);
        match destroys {
            true => world.destroy(a),
            false => world.evict(client, &[a], IF_NECESSARY).unwrap(),
        }
        world.run_all();
        assert_eq!(world.read, [7]);
        assert_eq!(world.token(client, b_at), Some(8));
        world.tear_down();
    }
}

/// D19: an allocation that leaves the list and joins it again before the grant is counted in its next home.
#[test]
fn an_allocation_that_joins_again_has_its_next_home() {
    let (mut world, client) = world();
    let (a, a_at) = listed(&mut world, client, Place::LocalOrSystem, 12, 7);
    let b = world.create(client, Place::Local, 12, SILENT);
    let b_at = world.map(client, b);
    assert!(matches!(world.make_resident(client, &[b]), Ok(Residency::Pending { .. })));
    world.submit(client, &[Access::Write(b_at, 8)]);
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    assert!(matches!(world.make_resident(client, &[a]), Ok(Residency::Pending { .. })));
    world.check();
    world.run_all();
    assert_eq!([a_at, b_at].map(|at| segment(&world, client, at)), [Some(SegmentId::SYSTEM), Some(LOCAL)]);
    assert_eq!((read(&mut world, client, a_at), read(&mut world, client, b_at)), (7, 8));
    world.tear_down();
}

/// RES-14: where moving does not help, the call is refused, says what to trim of the list as it stands, and nothing has moved.
#[test]
fn a_call_that_moving_does_not_help_is_refused() {
    let (mut world, client) = world();
    let (a, a_at) = listed(&mut world, client, Place::LocalOrSystem, 6, 7);
    let (_, kept_at) = listed(&mut world, client, Place::Local, 8, 8);
    let b = world.create(client, Place::Local, 9, SILENT);
    let refused = Err(refused_in(LOCAL_MEMORY, 7 * PAGE_SIZE, NoMemoryReason::DoesNotFit));
    assert_eq!(world.make_resident(client, &[b]), refused);
    assert_eq!([a_at, kept_at].map(|at| segment(&world, client, at)), [Some(LOCAL); 2]);
    world.evict(client, &[a], SOON).unwrap();
    assert_eq!(world.evicted().len(), 0);
    world.tear_down();
}

/// D19: an allocation that other devices may open keeps its home.
#[test]
fn a_shared_allocation_keeps_its_home() {
    let (mut world, client) = world();
    let shared = world.create_to_share(client, world.config.allocation(Place::LocalOrSystem, 12, SILENT));
    world.bring_in(client, &[shared]);
    let b = world.create(client, Place::Local, 12, SILENT);
    assert!(matches!(world.make_resident(client, &[b]), Err(MakeResidentError::NoMemory { .. })));
    world.tear_down();
}

/// D19: an allocation that the CPU sees keeps its home, also where the CPU would see it in another one.
#[test]
fn a_locked_allocation_keeps_its_home() {
    let mut world = World::new(Config { cpu_visible: true, ..Config::discrete(16, 64) });
    let client = world.client();
    let info = AllocationInfo {
        flags: AllocationFlags::CPU_VISIBLE,
        ..world.config.allocation(Place::LocalOrSystem, 12, SILENT)
    };
    let seen = world.try_create(client, info).unwrap();
    world.bring_in(client, &[seen]);
    world.lock(client, seen).unwrap();
    let b = world.create(client, Place::Local, 12, SILENT);
    assert!(matches!(world.make_resident(client, &[b]), Err(MakeResidentError::NoMemory { .. })));
    world.unlock(seen).unwrap();
    world.bring_in(client, &[b]);
    world.tear_down();
}

/// D19: what moves its home to local memory for a range of the aperture leaves its bytes of the commit limit to it.
#[test]
fn a_range_takes_the_bytes_that_a_home_leaves_in_system_memory() {
    let mut world = World::new(Config::discrete(16, 16));
    let client = world.client();
    let mut all = Vec::new();
    for (place, pages) in
        [(Place::Local, 1), (Place::LocalOrSystem, 4), (Place::LocalOrSystem, 6), (Place::Local, 3), (Place::Local, 3)]
    {
        let a = world.create(client, place, pages, SILENT);
        let at = world.map(client, a);
        world.bring_in(client, &[a]);
        all.push((a, at));
    }
    let moved = all[1].1;
    assert_eq!(
        world.translate(client, moved).unwrap().segment,
        SegmentId::SYSTEM,
        "the last one had no room beside it"
    );
    world.evict(client, &[all[3].0], SOON).unwrap();
    let range = world.create(client, Place::Aperture, 13, SILENT);
    world.bring_in(client, &[range]);
    assert_eq!(world.translate(client, moved).unwrap().segment, LOCAL);
    world.tear_down();
}
