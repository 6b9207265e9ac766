//! How an allocation is destroyed: ASSUME_NOT_IN_USE and SYNCHRONOUS_DESTROY (5.10).

use crate::world::*;
use vidmm::*;

fn is_reclaimed(world: &World, allocation: AllocationId) -> bool {
    world.events.contains(&Event::AllocationReclaimed { allocation })
}

/// RES-91: with ASSUME_NOT_IN_USE nothing waits for work that was submitted before.
#[test]
fn memory_assumed_not_in_use_is_free_while_work_runs() {
    for (flags, freed) in [(DestroyFlags::empty(), false), (DestroyFlags::ASSUME_NOT_IN_USE, true)] {
        let (mut world, client) = World::with_pages(8);
        let [(a, _), (_, b_at)] = [(); 2].map(|()| world.resident(client, 4));
        world.submit(client, &[Access::Write(b_at, 7), Access::Read(b_at)]);
        let fence = world.fence();
        world.submit_to(client.context, &[Access::Read(b_at)], &[(fence, 1)], &[]);
        world.poll();
        world.destroy_with(a, flags);
        world.run_paging();
        assert_eq!(is_reclaimed(&world, a), freed, "{flags:?}");
        world.signal(fence, 1);
        world.run_all();
        assert!(is_reclaimed(&world, a));
        assert_eq!(world.read, [7, 7]);
        world.tear_down();
    }
}

/// RES-91: work that uses it all the same faults.
#[test]
fn work_that_uses_it_all_the_same_finds_nothing() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    world.submit(client, &[Access::Read(at)]);
    world.poll();
    world.destroy_with(a, DestroyFlags::ASSUME_NOT_IN_USE);
    world.run_paging();
    assert_eq!(world.translate(client, at), None);
    world.fault(RENDER, at);
    let in_error = |output: &Output| matches!(output, Output::DeviceInError(_));
    assert!(world.outputs.iter().any(in_error), "FLT-03");
}

/// U-41: a MakeResident of it that is pending, and spans that queued work was made in, become no-ops; fences still signal.
#[test]
fn pending_operations_on_a_destroyed_allocation_end() {
    let (mut world, client) = World::with_pages(8);
    let (a, _) = world.resident(client, 4);
    let fence = world.fence();
    world.submit_to(client.context, &[Access::Tag(1)], &[(fence, 1)], &[]);
    world.evict(client, &[a], SOON).unwrap();
    world.run_paging();
    let (b, b_at) = world.resident(client, 4);
    world.evict(client, &[b], IF_NECESSARY).unwrap();
    let _: Residency = world.make_resident(client, &[a, b]).unwrap();
    world.submit(client, &[Access::Read(b_at)]);
    world.destroy_with(a, DestroyFlags::ASSUME_NOT_IN_USE);
    world.signal(fence, 1);
    world.run_all();
    assert!(is_reclaimed(&world, a));
    assert_eq!(world.read, [1, 0]);
    world.tear_down();
}

/// GVA-53: also when its mapping was freed before, and that waits for work.
#[test]
fn a_mapping_that_was_freed_before_goes_with_it() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    let fence = world.fence();
    world.submit_to(client.context, &[Access::Tag(1)], &[(fence, 1)], &[]);
    world.free(client, at, 4).unwrap();
    world.destroy_with(a, DestroyFlags::ASSUME_NOT_IN_USE);
    world.run_paging();
    world.signal(fence, 1);
    world.run_all();
    assert!(is_reclaimed(&world, a));
    world.tear_down();
}

/// RES-91: SYNCHRONOUS_DESTROY says when the memory is free, and only it does.
#[test]
fn a_synchronous_destroy_says_when_the_memory_is_free() {
    let (mut world, client) = World::with_pages(8);
    let [(a, at), (b, _)] = [(); 2].map(|()| world.resident(client, 4));
    world.submit(client, &[Access::Write(at, 7)]);
    world.destroy_with(a, DestroyFlags::SYNCHRONOUS_DESTROY);
    world.destroy(b);
    world.run_paging();
    let reclaimed = |world: &World| {
        let named = |output: &Output| match *output {
            Output::AllocationReclaimed { allocation } => Some(allocation),
            _ => None,
        };
        world.outputs.iter().filter_map(named).collect::<Vec<_>>()
    };
    assert_eq!(reclaimed(&world), []);
    world.run_all();
    assert_eq!(reclaimed(&world), [a]);
    world.tear_down();
}

/// U-41, RES-91: the same of a shared allocation that another device has closed while its work may still use it: nobody can
/// inherit it, and a request of the owner's for it passes by.
#[test]
fn pending_operations_end_though_another_device_has_just_closed_the_allocation() {
    let (mut world, owner) = World::with_pages(16);
    let other = world.client();
    let shared = world.create_shared(owner, 4);
    world.open(other, shared).unwrap();
    let (held, _) = world.resident(owner, 12);
    world.bring_in(other, &[shared]);
    let fences = [0; 2].map(|_| world.fence());
    world.submit_to(owner.context, &[Access::Tag(1)], &[(fences[0], 1)], &[]);
    world.submit_to(other.context, &[Access::Tag(2)], &[(fences[1], 1)], &[]);
    world.evict(owner, &[held], SOON).unwrap();
    let wanted = world.allocate(owner, 8);
    let _: Residency = world.make_resident(owner, &[shared, wanted]).unwrap();
    world.poll();
    assert!(world.paging_fence(owner) < 3, "it waits for room");
    world.close(other, shared).unwrap();
    world.destroy_with(shared, DestroyFlags::ASSUME_NOT_IN_USE);
    world.signal(fences[0], 1);
    world.run_all();
    world.signal(fences[1], 1);
    world.run_all();
    assert!(is_reclaimed(&world, shared));
    world.tear_down();
}

/// RES-91, U-34: a caller that waits for the memory of a shared allocation is told when that is free, although its heir destroys it
/// without waiting.
#[test]
fn a_former_owner_that_waits_is_told_when_the_memory_is_free() {
    let (mut world, owner) = World::with_pages(16);
    let heir = world.client();
    let shared = world.create_shared(owner, 4);
    world.open(heir, shared).unwrap();
    world.destroy_with(shared, DestroyFlags::SYNCHRONOUS_DESTROY);
    world.run_all();
    let told = |world: &World| {
        let is_it =
            |output: &Output| matches!(*output, Output::AllocationReclaimed { allocation } if allocation == shared);
        world.outputs.iter().any(is_it)
    };
    assert!(!told(&world), "the heir has it");
    world.destroy(shared);
    world.run_all();
    assert!(told(&world));
    world.tear_down();
}
