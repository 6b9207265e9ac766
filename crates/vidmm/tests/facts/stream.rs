//! The stream: what waits, waits apart; what runs, runs in order (D4, D5).

use crate::world::*;
use vidmm::*;

/// D5: a kernel that hangs holds back its own device's paging, and nobody else's.
#[test]
fn a_hung_kernel_delays_nobody_elses_paging() {
    let mut world = World::new(Config::pages(12));
    let (hung, other) = (world.client(), world.client());
    let (a, at) = world.resident(hung, 4);
    world.submit(hung, &[Access::Read(at)]);
    world.evict(hung, &[a], SOON).unwrap();
    let b = world.allocate(hung, 4);
    let _: Residency = world.make_resident(hung, &[b]).unwrap();
    world.poll();
    // The hung kernel never ends; the other device pages in and out as it likes.
    let copy = world.context(other, COPY);
    for turn in 0..10 {
        let (c, at) = world.resident(other, 4);
        world.submit_to(copy, &[Access::Write(at, turn), Access::Read(at)], &[], &[]);
        world.poll();
        world.complete(COPY);
        world.destroy(c);
        world.run_paging();
    }
    assert_eq!(world.read, (0..10).collect::<Vec<_>>());
    assert!(!world.engines[RENDER as usize].is_empty());
    world.run_all();
    world.tear_down();
}

/// D5, U-27: a plan that must wait for work is parked, and enters when the work has ended.
#[test]
fn a_plan_that_waits_is_parked() {
    let (mut world, client) = World::with_pages(4);
    let (a, at) = world.resident(client, 4);
    world.submit(client, &[Access::Read(at)]);
    world.evict(client, &[a], SOON).unwrap();
    let operations = world.driver.operations.len();
    world.run_paging();
    let decided =
        |world: &World| world.events.iter().filter(|event| matches!(event, Event::PlanDecided { .. })).count();
    let entered =
        |world: &World| world.events.iter().filter(|event| matches!(event, Event::PlanEntered { .. })).count();
    assert_eq!(decided(&world), entered(&world) + 1);
    assert_eq!(world.driver.operations.len(), operations);
    world.complete(RENDER);
    assert_eq!(decided(&world), entered(&world));
    assert!(world.driver.operations.len() > operations);
    world.run_all();
}

/// D4: a range that a parked plan empties can be promised; who takes it comes after that plan.
#[test]
fn a_promised_range_is_used_after_it_was_emptied() {
    let (mut world, client) = World::with_pages(4);
    let (a, at) = world.resident(client, 4);
    world.submit(client, &[Access::Write(at, 7)]);
    world.evict(client, &[a], SOON).unwrap();
    let other = world.client();
    let b = world.allocate(other, 4);
    let b_at = world.map(other, b);
    world.poll();
    let operations = world.driver.operations.len();
    let _: Residency = world.make_resident(other, &[b]).unwrap();
    world.poll();
    assert_eq!(world.driver.operations.len(), operations, "the work has not ended: the device waits for its turn");
    world.complete(RENDER);
    // The eviction has entered the stream, but has not run: the page-in is behind it, without waiting for its end.
    let kinds: Vec<_> = world.operations_since(operations).iter().map(kind).collect();
    assert!(kinds.contains(&"fill"), "{kinds:?}");
    world.run_all();
    assert_eq!(world.token(other, b_at), Some(0));
    world.evict(other, &[b], SOON).unwrap();
    world.bring_in(client, &[a]);
    assert_eq!(world.token(client, at), Some(7));
}

/// D5: plans of one allocation enter in the order in which they were decided.
#[test]
fn plans_of_one_allocation_keep_their_order() {
    let (mut world, client) = World::with_pages(4);
    let a = world.allocate(client, 4);
    let at = world.map(client, a);
    for turn in 1..=20 {
        let _: Residency = world.make_resident(client, &[a]).unwrap();
        world.submit(client, &[Access::Read(at), Access::Write(at, turn)]);
        world.evict(client, &[a], SOON).unwrap();
        if turn % 3 == 0 {
            world.poll();
        }
    }
    world.run_all();
    assert_eq!(world.read, (0..20).collect::<Vec<_>>());
    assert_eq!(world.token(client, at), None);
    world.tear_down();
}

/// D5, GVA-25: a mapping that shares a table with an earlier one follows the plan that makes it.
#[test]
fn mappings_follow_the_plan_that_makes_their_tables() {
    let mut world = World::new(Config { tables_in_system: false, ..Config::pages(64) });
    let client = world.client();
    let sibling = world.sibling(client);
    let (a, b) = (world.allocate(client, 1), world.allocate(sibling, 1));
    let (a_at, b_at) = (world.map(client, a), world.map(sibling, b));
    assert_eq!(a_at / (16 * PAGE_SIZE), b_at / (16 * PAGE_SIZE), "they share a leaf table");
    world.bring_in(sibling, &[b]);
    world.bring_in(client, &[a]);
    assert_eq!((world.token(client, a_at), world.token(sibling, b_at)), (Some(0), Some(0)));
    world.tear_down();
}

/// D5: all buffers may be out; the rest waits for one to come back, and nothing is lost.
#[test]
fn paging_buffers_are_bounded() {
    let mut world = World::new(Config { operation_bytes: 4096, ..Config::pages(64) });
    let client = world.client();
    let allocations: Vec<_> = (0..32).map(|_| world.allocate(client, 1)).collect();
    let _: Residency = world.make_resident(client, &allocations).unwrap();
    world.poll();
    assert_eq!(world.engines[PAGING as usize].len(), 16);
    world.complete(PAGING);
    assert_eq!(world.engines[PAGING as usize].len(), 16);
    world.run_all();
    assert_eq!(world.paging_fence(client), 1);
}

/// D5, I17: the end of a device that nothing waits for takes no wait away from plans that wait for others.
#[test]
fn a_plan_waits_for_its_work_though_another_device_ends() {
    let (mut world, client) = World::with_pages(8);
    let other = world.client();
    let (a, at) = world.resident(client, 8);
    world.submit(client, &[Access::Write(at, 7)]);
    world.evict(client, &[a], SOON).unwrap();
    world.run_paging();
    world.call(|vidmm, driver, host| vidmm.destroy_device(driver, host, other.device)).unwrap();
    world.client();
    world.run_paging();
    assert!(world.translate(client, at).is_some(), "work that has not ended uses it");
    world.complete(RENDER);
    world.run_paging();
    assert_eq!(world.translate(client, at), None);
    world.bring_in(client, &[a]);
    assert_eq!(world.token(client, at), Some(7));
}
