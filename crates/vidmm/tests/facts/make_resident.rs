//! MakeResident: counts, admission, answers and fences (5.2, 5.4).

use crate::world::*;
use vidmm::{contract::SegmentSet, *};

fn pending(value: u64) -> Result<Residency, MakeResidentError> {
    Ok(Residency::Pending { paging_fence_value: value })
}

fn no_memory(pages: u64) -> Result<Residency, MakeResidentError> {
    let reason = NoMemoryReason::DoesNotFit;
    Err(refused_in(LOCAL_MEMORY, pages * PAGE_SIZE, reason))
}

/// RES-18, CRE-42, P17.
#[test]
fn a_fresh_allocation_reads_as_zero() {
    let (mut world, client) = World::with_pages(8);
    let (_, at) = world.resident(client, 2);
    world.submit(client, &[Access::Read(at), Access::Read(at + PAGE_SIZE)]);
    world.run_all();
    assert_eq!(world.read, [0, 0]);
    world.tear_down();
}

/// RES-33, D26: once its paging is handed out, a client can let the GPU wait for a request.
#[test]
fn the_end_of_a_request_is_known_when_its_paging_is_handed_out() {
    let (mut world, client) = World::with_pages(8);
    let a = world.allocate(client, 4);
    world.map(client, a);
    world.run_all();
    let Ok(Residency::Pending { paging_fence_value }) = world.make_resident(client, &[a]) else { panic!("it waits") };
    let end = |world: &World, value| world.vidmm.paging_fence_end(client.queue, value).unwrap();
    assert_eq!(end(&world, paging_fence_value), None, "nothing is decided");
    world.poll();
    let last = world.engines[PAGING as usize].back().expect("its paging is handed out").signal;
    assert_eq!(end(&world, paging_fence_value), Some(last));
    assert_eq!(end(&world, paging_fence_value + 1), None);
    assert!(world.paging_fence(client) < paging_fence_value, "the manager has not heard of the end");
    while world.paging_fence(client) < paging_fence_value {
        world.complete(PAGING);
    }
    assert_eq!(world.completed[PAGING as usize], last.fence_id);
    assert_eq!(end(&world, paging_fence_value), None);
    world.tear_down();
}

/// RES-02, P01: two MakeResident need two Evict; a third fails and changes nothing.
#[test]
fn each_evict_takes_back_one_make_resident() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    assert_eq!(world.make_resident(client, &[a]), Ok(Residency::Resident));
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    assert_eq!(world.token(client, at), Some(0), "it is still required");
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    assert_eq!(world.token(client, at), None);
    let before = world.fingerprint();
    assert_eq!(world.evict(client, &[a], SOON), Err(EvictError::NotResident { position: 0 }));
    assert_eq!(world.fingerprint(), before);
}

/// U-26: duplicates count once per occurrence, and weigh once.
#[test]
fn duplicates_count_each_and_weigh_once() {
    let (mut world, client) = World::with_pages(8);
    let a = world.allocate(client, 8);
    assert_eq!(world.make_resident(client, &[a, a, a]), pending(1));
    world.run_all();
    assert_eq!(world.evict(client, &[a, a, a, a], SOON), Err(EvictError::NotResident { position: 3 }));
    world.evict(client, &[a, a], SOON).unwrap();
    world.evict(client, &[a], SOON).unwrap();
    assert_eq!(world.evict(client, &[a], SOON), Err(EvictError::NotResident { position: 0 }));
    world.tear_down();
}

/// U-26, RES-17.
#[test]
fn an_empty_list_is_refused() {
    let (mut world, client) = World::with_pages(8);
    assert_eq!(world.make_resident(client, &[]), Err(MakeResidentError::Empty));
    assert_eq!(world.evict(client, &[], SOON), Err(EvictError::Empty));
}

/// RES-10.
#[test]
fn only_allocations_of_the_queues_device_can_be_named() {
    let (mut world, client) = World::with_pages(8);
    let sibling = world.sibling(client);
    let (own, foreign) = (world.allocate(client, 1), world.allocate(sibling, 1));
    assert_eq!(world.make_resident(client, &[own, foreign]), Err(MakeResidentError::WrongDevice { position: 1 }));
    assert_eq!(world.evict(client, &[own], SOON), Err(EvictError::NotResident { position: 0 }), "nothing was counted");
}

/// RES-11, P02: the refusal of one refuses all.
#[test]
fn all_are_made_resident_or_none() {
    let (mut world, client) = World::with_pages(8);
    let allocations: Vec<AllocationId> =
        (0..8).map(|index| world.allocate(client, if index == 5 { 5 } else { 1 })).collect();
    let before = world.fingerprint();
    assert_eq!(world.make_resident(client, &allocations), no_memory(0));
    assert_eq!(world.fingerprint(), before);
    for allocation in allocations {
        assert_eq!(world.evict(client, &[allocation], SOON), Err(EvictError::NotResident { position: 0 }));
    }
}

/// RES-13, P03: trimming what was said is enough, whichever allocations it is made of.
#[test]
fn trimming_what_was_said_is_enough() {
    let (mut world, client) = World::with_pages(8);
    let (a, _) = world.resident(client, 3);
    let (b, _) = world.resident(client, 3);
    let (c, _) = world.resident(client, 2);
    world.submit(client, &[]);
    let d = world.allocate(client, 5);
    assert_eq!(world.make_resident(client, &[d]), no_memory(5));
    world.evict(client, &[a, c], SOON).unwrap();
    let answer = world.make_resident(client, &[d]);
    assert!(matches!(answer, Ok(Residency::Pending { .. })), "even though the work has not ended: {answer:?}");
    world.run_all();
    world.evict(client, &[b, d], SOON).unwrap();
    world.tear_down();
}

/// I08: never more than what is asked for, beyond what is there.
#[test]
fn the_bytes_to_trim_are_not_absurd() {
    let (mut world, client) = World::with_pages(8);
    world.resident(client, 4);
    let (fits, larger) = (world.allocate(client, 5), world.allocate(client, 9));
    assert_eq!(world.make_resident(client, &[fits]), no_memory(1));
    assert_eq!(world.make_resident(client, &[larger]), no_memory(0), "not even all of the list is enough");
}

/// RES-75, P12: a list that is required is nobody's victim; the neighbour is told at once, and nothing moves.
#[test]
fn the_lists_of_others_are_not_touched() {
    let (mut world, client) = World::with_pages(8);
    let (_, at) = world.resident(client, 8);
    let other = world.client();
    // Half of the segment is its budget: it gets no more than that of what another requires.
    let a = world.allocate(other, 5);
    let before = world.fingerprint();
    let refused = refused_in(LOCAL_MEMORY, 0, NoMemoryReason::OverBudget);
    assert_eq!(world.make_resident(other, &[a]), Err(refused));
    assert_eq!(world.fingerprint(), before);
    assert_eq!(world.token(client, at), Some(0));
}

/// RES-13, I08: memory that an idle device gave up is room for others at once.
#[test]
fn evictions_of_an_idle_device_are_room_for_others() {
    let (mut world, client) = World::with_pages(8);
    let (a, _) = world.resident(client, 8);
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    let other = world.client();
    let b = world.allocate(other, 8);
    assert_eq!(world.make_resident(other, &[b]), pending(1));
    world.run_all();
    assert_eq!(world.paging_fence(other), 1);
}

/// RES-13, RES-91: so is what it destroyed.
#[test]
fn destructions_of_an_idle_device_are_room_for_others() {
    let (mut world, client) = World::with_pages(8);
    let (a, _) = world.resident(client, 8);
    world.destroy(a);
    let other = world.client();
    let b = world.allocate(other, 8);
    assert_eq!(world.make_resident(other, &[b]), pending(1));
    world.run_all();
    assert_eq!(world.paging_fence(other), 1);
}

/// RES-11, RES-16, P05, U-25: an allocation in place needs no fence.
#[test]
fn allocations_in_place_are_usable_at_once() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    world.run_all();
    let operations = world.driver.operations.len();
    assert_eq!(world.make_resident(client, &[a]), Ok(Residency::Resident));
    world.run_all();
    assert_eq!(world.driver.operations.len(), operations);
    assert_eq!(world.token(client, at), Some(0));
}

/// RES-11, P04: before the fence nothing can be relied on, with it all pages are there.
#[test]
fn a_pending_fence_says_when_all_pages_are_there() {
    let (mut world, client) = World::with_pages(64);
    let a = world.allocate(client, 40);
    let at = world.map(client, a);
    assert_eq!(world.make_resident(client, &[a]), pending(2));
    world.poll();
    while world.paging_fence(client) < 2 {
        world.complete(PAGING);
    }
    for page in 0..40 {
        assert_eq!(world.token(client, at + page * PAGE_SIZE), Some(0));
    }
}

/// RES-11: two requests for one allocation both wait for it.
#[test]
fn allocations_on_their_way_are_not_there_yet() {
    let (mut world, client) = World::with_pages(8);
    let a = world.allocate(client, 4);
    assert_eq!(world.make_resident(client, &[a]), pending(1));
    assert_eq!(world.make_resident(client, &[a]), pending(2));
    world.poll();
    assert_eq!(world.make_resident(client, &[a]), pending(3));
    world.run_all();
    assert_eq!(world.paging_fence(client), 3);
    world.evict(client, &[a, a, a], SOON).unwrap();
    world.tear_down();
}

/// RES-31, RES-33: fence values rise one by one on each queue, and signal in their order.
#[test]
fn fences_signal_in_order_on_each_queue() {
    let (mut world, client) = World::with_pages(64);
    let second = world.call(|vidmm, _, _| vidmm.create_paging_queue(client.device, 1)).unwrap();
    for turn in 1..=8 {
        let a = world.allocate(client, 1);
        let b = world.allocate(client, 4);
        assert_eq!(world.make_resident(client, &[a]), pending(turn));
        let answer = world.call(|vidmm, _, _| vidmm.make_resident(second, &[b], MakeResidentFlags::empty()));
        assert_eq!(answer, pending(turn));
    }
    world.run_all();
    for queue in [client.queue, second] {
        let values = world.outputs.iter().filter_map(|output| match *output {
            Output::PagingFenceSignaled { queue: of, value } if of == queue => Some(value),
            _ => None,
        });
        assert_eq!(values.collect::<Vec<_>>(), (1..=8).collect::<Vec<_>>());
    }
}

/// RES-32, U-28: between devices the queue's priority decides, then arrival.
#[test]
fn queues_of_higher_priority_are_granted_first() {
    let mut world = World::new(Config::pages(8));
    let clients: Vec<Client> = (0..3).map(|_| world.client()).collect();
    let urgent = world.call(|vidmm, _, _| vidmm.create_paging_queue(clients[2].device, 1)).unwrap();
    for client in &clients {
        let a = world.allocate(*client, 1);
        let queue = if client.device == clients[2].device { urgent } else { client.queue };
        let _: Residency =
            world.call(|vidmm, _, _| vidmm.make_resident(queue, &[a], MakeResidentFlags::empty())).unwrap();
    }
    world.run_all();
    let granted = world.events.iter().filter_map(|event| match event {
        Event::Granted { device, .. } => Some(*device),
        _ => None,
    });
    assert_eq!(granted.collect::<Vec<_>>(), [clients[2].device, clients[0].device, clients[1].device]);
}

/// P16: the largest that fits, and one page more.
#[test]
fn an_allocation_may_be_as_large_as_the_segment() {
    let (mut world, client) = World::with_pages(16);
    let (whole, more) = (world.allocate(client, 16), world.allocate(client, 17));
    assert_eq!(world.make_resident(client, &[more]), no_memory(0));
    assert_eq!(world.make_resident(client, &[whole]), pending(1));
    world.run_all();
    assert_eq!(world.paging_fence(client), 1);
}

/// SEG-13, D10: pages need not adjoin, so fragmentation refuses nothing.
#[test]
fn fragments_are_as_good_as_a_whole() {
    let (mut world, client) = World::with_pages(16);
    let small: Vec<_> = (0..16).map(|_| world.resident(client, 1)).collect();
    for (allocation, _) in small.iter().step_by(2) {
        world.evict(client, &[*allocation], NOT_WRITTEN).unwrap();
    }
    let (large, at) = world.resident(client, 8);
    let program: Vec<Access> = (0..8).map(|page| Access::Write(at + page * PAGE_SIZE, 100 + page)).collect();
    world.submit(client, &program);
    world.run_all();
    world.evict(client, &[large], SOON).unwrap();
    world.run_all();
    world.bring_in(client, &[large]);
    for page in 0..8 {
        assert_eq!(world.token(client, at + page * PAGE_SIZE), Some(100 + page));
    }
    assert_eq!(world.token(client, small[1].1), Some(0), "no neighbour was touched");
    world.tear_down();
}

/// RES-02: an allocation that was held when it was named, and evicted before the grant, is not held by the grant.
#[test]
fn evicting_before_the_grant_leaves_nothing_held() {
    let (mut world, client) = World::with_pages(8);
    let (a, _) = world.resident(client, 4);
    let b = world.allocate(client, 4);
    assert_eq!(world.make_resident(client, &[a, b]), pending(3));
    world.evict(client, &[a, a], IF_NECESSARY).unwrap();
    world.evict(client, &[b], IF_NECESSARY).unwrap();
    world.run_all();
    assert_eq!(world.paging_fence(client), 3);
    let (_, at) = world.resident(client, 8);
    assert_eq!(world.token(client, at), Some(0));
    world.tear_down();
}

/// RES-76: the residency of an allocation can be asked for.
#[test]
fn residency_can_be_asked_for() {
    use AllocationResidencyStatus::*;
    let (mut world, client) = World::with_pages(8);
    let local = world.allocate(client, 4);
    let system = world.create(client, Place::System, 1, SILENT);
    let status = |world: &World, allocation| world.vidmm.query_allocation_residency(allocation);
    assert_eq!((status(&world, local), status(&world, system)), (Ok(NotResident), Ok(NotResident)));
    let _ = world.make_resident(client, &[local, system]).unwrap();
    world.run_all();
    assert_eq!((status(&world, local), status(&world, system)), (Ok(ResidentInGpuMemory), Ok(ResidentInSharedMemory)));
    world.evict(client, &[local, system], EvictFlags::empty()).unwrap();
    world.run_all();
    assert_eq!((status(&world, local), status(&world, system)), (Ok(NotResident), Ok(NotResident)));
    world.destroy(local);
    world.run_all();
    assert!(status(&world, local).is_err());
    world.tear_down();
}

/// D14: pending requests are bounded, and the refusal changes nothing.
#[test]
fn pending_requests_are_bounded() {
    let (mut world, client) = World::with_pages(8);
    let a = world.allocate(client, 1);
    let offered = world.allocate(client, 1);
    world.offer(client, &[offered], OfferPriority::Low).unwrap();
    let movable = world.create(client, Place::LocalOrSystem, 1, SILENT);
    let error = loop {
        if let Err(error) = world.vidmm.make_resident(client.queue, &[a], MakeResidentFlags::empty()) {
            break error;
        }
    };
    assert_eq!(error, MakeResidentError::TooManyPending { pending: 4096 });
    let pending = 4096;
    assert_eq!(world.try_map(client, &MapGpuVirtualAddress::whole(a)), Err(MapError::TooManyPending { pending }));
    assert_eq!(world.reclaim(client, &[offered]), Err(ReclaimError::TooManyPending { pending }));
    let local = SegmentSet::of(LOCAL);
    let update = UpdateAllocationProperty { supported_segment_set: Some(local), preferred_segment: None };
    let updated =
        world.call(|vidmm, driver, _| vidmm.update_allocation_property(driver, client.queue, movable, &update));
    assert_eq!(updated, Err(UpdateError::TooManyPending { pending }));
    world.run_all();
    assert_eq!(world.paging_fence(client), 4096);
    assert_eq!(world.make_resident(client, &[a]), Ok(Residency::Resident));
    world.tear_down();
}
