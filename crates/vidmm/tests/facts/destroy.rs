//! The end of things: memory, addresses and backing stores come back, when what uses them has ended (RES-91, RES-93, P59).

use crate::world::*;
use vidmm::*;

/// RES-91: work submitted before still runs; then all comes back.
#[test]
fn work_outlives_the_allocation_that_it_uses() {
    let (mut world, client) = World::with_pages(8);
    let before = world.host.bytes();
    let (a, at) = world.resident(client, 8);
    let committed = world.host.bytes();
    world.submit(client, &[Access::Write(at, 7), Access::Read(at)]);
    world.destroy(a);
    world.poll();
    world.run_paging();
    assert_eq!(world.host.bytes(), committed);
    world.complete(RENDER);
    world.run_all();
    assert_eq!(world.read, [7]);
    assert_eq!(world.host.bytes(), before, "its tables are gone, too");
    assert_eq!(world.translate(client, at), None);
    world.resident(client, 8);
    world.tear_down();
}

/// I27: the handle is dead at once.
#[test]
fn a_destroyed_allocation_has_no_handle() {
    let (mut world, client) = World::with_pages(8);
    let (a, _) = world.resident(client, 1);
    world.destroy(a);
    assert!(world.call(|vidmm, _, host| vidmm.destroy_allocation(host, a, DestroyFlags::empty())).is_err());
    assert!(matches!(world.make_resident(client, &[a]), Err(MakeResidentError::InvalidHandle(_))));
    assert!(matches!(world.evict(client, &[a], SOON), Err(EvictError::InvalidHandle(_))));
    assert!(matches!(world.try_map(client, &MapGpuVirtualAddress::whole(a)), Err(MapError::InvalidHandle(_))));
    world.tear_down();
}

/// RES-91: a destroyed allocation is not copied out.
#[test]
fn destroyed_content_is_not_copied_out() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    world.submit(client, &[Access::Write(at, 7)]);
    world.destroy(a);
    world.run_all();
    assert_eq!(world.vidmm.statistics().bytes_paged_out, 0);
}

/// GVA-50, RES-93: its addresses are free again.
#[test]
fn addresses_come_back() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    world.destroy(a);
    world.run_all();
    let b = world.allocate(client, 4);
    let desc = MapGpuVirtualAddress { base_address: Some(GpuVirtualAddress(at)), ..MapGpuVirtualAddress::whole(b) };
    world.try_map(client, &desc).unwrap();
    world.bring_in(client, &[b]);
    assert_eq!(world.token(client, at), Some(0));
    world.tear_down();
}

/// RES-93, U-41: pending operations on it end, and their fences signal.
#[test]
fn pending_requests_of_a_destroyed_allocation_end() {
    let (mut world, client) = World::with_pages(8);
    let a = world.allocate(client, 8);
    world.map(client, a);
    let _: Residency = world.make_resident(client, &[a, a]).unwrap();
    world.destroy(a);
    world.run_all();
    assert_eq!(world.paging_fence(client), 2);
    world.tear_down();
}

/// RES-91, D2: work between the request and the end finds what it requires, with its content.
#[test]
fn work_submitted_before_the_end_finds_its_content() {
    for destroy_first in [false, true] {
        let (mut world, client) = World::with_pages(8);
        let (a, at) = world.resident(client, 4);
        world.submit(client, &[Access::Write(at, 7)]);
        world.run_all();
        world.evict(client, &[a], IF_NECESSARY).unwrap();
        let b = world.allocate(client, 4);
        let _: Residency = world.make_resident(client, &[a, b]).unwrap();
        world.submit(client, &[Access::Read(at)]);
        if !destroy_first {
            world.poll();
        }
        world.destroy(a);
        world.run_all();
        assert_eq!(world.read, [7]);
        world.tear_down();
    }
}

/// RES-91, RES-11, I32: every admitted request is granted, even if its room is that of an allocation that is destroyed
/// meanwhile.
#[test]
fn an_earlier_request_gets_the_room_of_what_is_destroyed() {
    let (mut world, client) = World::with_pages(8);
    let (a, _) = world.resident(client, 8);
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    let b = world.allocate(client, 8);
    let answer = world.make_resident(client, &[b]);
    assert!(matches!(answer, Ok(Residency::Pending { .. })));
    world.destroy(a);
    let last = world.vidmm.paging_fence_value(client.queue).unwrap();
    world.run_all();
    assert!(world.paging_fence(client) > last, "the request waits for the purge, and the purge for the request");
    world.tear_down();
}

/// RES-91, I32: nor is another device's request starved.
#[test]
fn another_devices_request_gets_the_room_of_what_is_destroyed() {
    let mut world = World::new(Config::pages(8));
    let (client, other) = (world.client(), world.client());
    let (a, _) = world.resident(client, 8);
    world.submit(client, &[]);
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    world.run_all();
    let (b, c) = (world.allocate(other, 8), world.allocate(client, 0x10));
    let _: Residency = world.make_resident(other, &[b]).unwrap();
    world.map(client, c);
    world.destroy(a);
    world.run_all();
    assert_eq!(world.paging_fence(other), 1);
    world.tear_down();
}

/// P59, I28: whenever a client goes, all that it had comes back, and others keep theirs.
#[test]
fn a_client_may_go_at_any_moment() {
    for moment in 0..50 {
        let mut world = World::new(Config { operation_bytes: 2048, tables_in_system: false, ..Config::pages(64) });
        let (client, other) = (world.client(), world.client());
        let (_, kept) = world.resident(other, 4);
        world.submit(other, &[Access::Write(kept, 5)]);
        let mut allocations = Vec::new();
        for turn in 0..4 {
            let a = world.allocate(client, 10);
            let at = world.map(client, a);
            let _: Residency = world.make_resident(client, &[a]).unwrap();
            world.submit(client, &[Access::Write(at, turn)]);
            world.evict(client, &[a], if turn % 2 == 0 { SOON } else { IF_NECESSARY }).unwrap();
            allocations.push(a);
        }
        world.poll();
        for _ in 0..moment {
            if let Some(engine) = [PAGING, RENDER].into_iter().find(|&engine| world.can_complete(engine)) {
                world.complete(engine);
            }
        }
        allocations.into_iter().for_each(|a| world.destroy(a));
        world.run_all();
        assert_eq!(world.token(other, kept), Some(5));
        world.tear_down();
    }
}

/// I28: page tables of a process go with it.
#[test]
fn page_tables_go_with_their_process() {
    for tables_in_system in [false, true] {
        let mut world = World::new(Config { tables_in_system, ..Config::pages(128) });
        for _ in 0..3 {
            let client = world.client();
            for _ in 0..4 {
                world.resident(client, 5);
            }
            world.run_all();
        }
        world.tear_down();
    }
}

/// I28: a mapping that was never granted goes too.
#[test]
fn a_mapping_that_waits_for_its_grant_goes_with_its_allocation() {
    let mut world = World::new(Config { tables_in_system: false, ..Config::pages(64) });
    let client = world.client();
    let a = world.allocate(client, 4);
    for _ in 0..3 {
        world.map(client, a);
    }
    world.destroy(a);
    world.run_all();
    world.tear_down();
}
