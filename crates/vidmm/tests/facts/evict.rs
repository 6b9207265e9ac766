//! Evict: what leaves, when, in which order, and what is copied out (5.3, CRE-31a).

use crate::world::*;
use vidmm::event::EvictReason;
use vidmm::*;

/// RES-21: without a flag it goes at the earliest opportunity.
#[test]
fn an_evict_without_flags_evicts_at_once() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    assert_eq!(world.evicted(), [(a, EvictReason::EvictRequested)]);
    assert_eq!(world.translate(client, at), None);
    world.bring_in(client, &[a]);
    assert_eq!(world.token(client, at), Some(7));
}

/// RES-21: EvictOnlyIfNecessary waits until memory is wanted.
#[test]
fn an_evict_only_if_necessary_waits_for_need() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    world.run_all();
    assert_eq!(world.evicted(), []);
    let (b, _) = world.resident(client, 6);
    assert_eq!(world.evicted(), [(a, EvictReason::RoomWanted)]);
    world.evict(client, &[b], IF_NECESSARY).unwrap();
    world.bring_in(client, &[a]);
    assert_eq!(world.token(client, at), Some(7));
    world.tear_down();
}

/// RES-21: flags of an Evict that leaves the count above 0 do not evict.
#[test]
fn flags_are_ignored_while_the_count_is_above_0() {
    let (mut world, client) = World::with_pages(8);
    let (a, _) = world.resident(client, 4);
    world.bring_in(client, &[a]);
    world.evict(client, &[a], SOON).unwrap();
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    world.run_all();
    assert_eq!(world.evicted(), []);
}

/// RES-21: the last Evict decides, not one of an earlier span that work held open.
#[test]
fn an_earlier_span_does_not_hasten_a_later_eviction() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    let fence = world.fence();
    world.submit_to(client.context, &[Access::Read(at)], &[(fence, 1)], &[]);
    world.evict(client, &[a], SOON).unwrap();
    assert_eq!(world.make_resident(client, &[a]), Ok(Residency::Resident));
    world.signal(fence, 1);
    world.run_all();
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    world.run_all();
    assert_eq!(world.evicted(), []);
}

/// RES-21: nor do two spans that end with the same submission change places.
#[test]
fn of_two_spans_that_end_together_the_later_decides() {
    for (first, second, evicted) in [(SOON, IF_NECESSARY, 0), (IF_NECESSARY, SOON, 1)] {
        let (mut world, client) = World::with_pages(8);
        let (a, at) = world.resident(client, 4);
        let fence = world.fence();
        world.submit_to(client.context, &[Access::Read(at)], &[(fence, 1)], &[]);
        world.evict(client, &[a], first).unwrap();
        assert_eq!(world.make_resident(client, &[a]), Ok(Residency::Resident));
        world.evict(client, &[a], second).unwrap();
        world.signal(fence, 1);
        world.run_all();
        assert_eq!(world.evicted().len(), evicted, "{first:?}, then {second:?}");
    }
}

/// RES-21: an Evict of a request that still waits, behind which no work was submitted, decides as any other.
#[test]
fn an_evict_before_the_grant_evicts_at_once() {
    for (flags, evicted) in [(SOON, 1), (IF_NECESSARY, 0)] {
        let (mut world, client) = World::with_pages(8);
        let (a, _) = world.resident(client, 4);
        world.evict(client, &[a], IF_NECESSARY).unwrap();
        world.run_all();
        let b = world.allocate(client, 2);
        assert!(matches!(world.make_resident(client, &[a, b]), Ok(Residency::Pending { .. })));
        world.evict(client, &[a], flags).unwrap();
        world.run_all();
        assert_eq!(world.evicted().len(), evicted, "{flags:?}");
        assert_eq!(world.make_resident(client, &[b]), Ok(Residency::Resident));
        world.tear_down();
    }
}

/// RES-22, P18: an allocation that was not written to is not copied out, and comes back from its backing store.
#[test]
fn unwritten_allocations_are_not_copied_out() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    world.bring_in(client, &[a]);
    world.evict(client, &[a], NOT_WRITTEN).unwrap();
    world.run_all();
    assert_eq!((world.vidmm.statistics().evictions, world.vidmm.statistics().evictions_copied), (2, 1));
    world.bring_in(client, &[a]);
    assert_eq!(world.token(client, at), Some(7));
}

/// RES-22, P18, I26: an allocation that never had content is filled again, and shows nothing of others.
#[test]
fn an_allocation_that_never_had_content_is_filled_again() {
    let (mut world, client) = World::with_pages(4);
    let (a, at) = world.resident(client, 4);
    world.evict(client, &[a], NOT_WRITTEN).unwrap();
    world.run_all();
    let other = world.client();
    let (b, b_at) = world.resident(other, 4);
    write(&mut world, other, b_at, 99);
    world.evict(other, &[b], SOON).unwrap();
    world.run_all();
    world.bring_in(client, &[a]);
    assert_eq!(world.token(client, at), Some(0));
    let statistics = world.vidmm.statistics();
    assert_eq!((statistics.bytes_paged_in, statistics.bytes_filled), (0, 12 * PAGE_SIZE));
}

/// RES-22: it may be said by any of several Evicts, if nothing was submitted since.
#[test]
fn any_of_several_evicts_may_say_that_nothing_was_written() {
    let (mut world, client) = World::with_pages(8);
    let (a, _) = world.resident(client, 4);
    world.bring_in(client, &[a]);
    world.evict(client, &[a], NOT_WRITTEN).unwrap();
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    assert_eq!(world.vidmm.statistics().evictions_copied, 0);
}

/// RES-22: nor is an allocation copied out that its device's work never had, however often it comes and goes.
#[test]
fn an_allocation_that_no_work_was_given_is_not_copied_out() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    for _ in 0..3 {
        world.bring_in(client, &[a]);
        world.evict(client, &[a], SOON).unwrap();
        world.submit(client, &[]);
        world.run_all();
    }
    assert_eq!((world.vidmm.statistics().evictions, world.vidmm.statistics().evictions_copied), (4, 1));
    world.bring_in(client, &[a]);
    assert_eq!(world.token(client, at), Some(7));
}

/// RES-22, I02: a span without work does not hide what work of the span before wrote.
#[test]
fn a_write_before_a_span_without_work_is_copied_out() {
    for is_dispatched in [false, true] {
        let (mut world, client) = World::with_pages(8);
        let (a, at) = world.resident(client, 4);
        let gate = world.fence();
        world.submit_to(client.context, &[Access::Write(at, 7)], &[(gate, 1)], &[]);
        if is_dispatched {
            world.signal(gate, 1);
            world.poll();
        }
        world.evict(client, &[a], IF_NECESSARY).unwrap();
        assert_eq!(world.make_resident(client, &[a]), Ok(Residency::Resident));
        world.evict(client, &[a], SOON).unwrap();
        world.signal(gate, 1);
        world.run_all();
        assert_eq!(world.vidmm.statistics().evictions_copied, 1);
        world.bring_in(client, &[a]);
        assert_eq!(world.token(client, at), Some(7));
    }
}

/// RES-22, FLT-04: dropped work has written nothing.
#[test]
fn content_of_dropped_work_is_not_copied_out() {
    for leaves in [false, true] {
        let (mut world, client) = World::with_pages(8);
        let (a, at) = world.resident(client, 4);
        write(&mut world, client, at, 7);
        world.evict(client, &[a], SOON).unwrap();
        world.run_all();
        world.bring_in(client, &[a]);
        let gate = world.fence();
        let waiting = world.context(client, COPY);
        world.submit_to(waiting, &[Access::Write(at, 8)], &[(gate, 1)], &[]);
        if leaves {
            world.evict(client, &[a], IF_NECESSARY).unwrap();
        }
        let must = MakeResidentFlags::CANT_TRIM_FURTHER | MakeResidentFlags::MUST_SUCCEED;
        let too_large = world.allocate(client, 9);
        world.call(|vidmm, _, _| vidmm.make_resident(client.queue, &[too_large], must)).unwrap_err();
        let other = world.client();
        world.resident(other, 6);
        let statistics = world.vidmm.statistics();
        assert_eq!((statistics.evictions, statistics.evictions_copied), (2, 1), "leaves: {leaves}");
    }
}

/// U-41: nothing is moved for an allocation that no list and no work wants any more; the paging fence signals all the same.
#[test]
fn an_allocation_that_nothing_wants_any_more_is_not_brought_in() {
    type End = fn(&mut World, Client, AllocationId);
    let evict: End = |world, client, a| world.evict(client, &[a], SOON).unwrap();
    let offer: End = |world, client, a| world.offer(client, &[a], OfferPriority::Low).unwrap();
    let destroy: End = |world, _, a| world.destroy(a);
    for end in [evict, offer, destroy] {
        let (mut world, client) = World::with_pages(8);
        let (victim, at) = world.resident(client, 6);
        write(&mut world, client, at, 7);
        world.evict(client, &[victim], IF_NECESSARY).unwrap();
        let a = world.allocate(client, 4);
        world.map(client, a);
        world.run_all();
        let before = world.vidmm.statistics().bytes_filled;
        let Ok(Residency::Pending { paging_fence_value }) = world.make_resident(client, &[a]) else {
            panic!("the allocation is not resident")
        };
        end(&mut world, client, a);
        world.submit(client, &[]);
        world.run_all();
        assert_eq!(world.paging_fence(client), paging_fence_value);
        assert_eq!((world.vidmm.statistics().evictions, world.vidmm.statistics().bytes_filled - before), (0, 0));
        world.tear_down();
    }
}

/// RES-22, I02: it is said of what was submitted before, not of what is submitted later.
#[test]
fn not_written_to_does_not_cover_later_work() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    world.bring_in(client, &[a]);
    world.evict(client, &[a], NOT_WRITTEN).unwrap();
    write(&mut world, client, at, 7);
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    world.bring_in(client, &[a]);
    assert_eq!(world.token(client, at), Some(7));
}

/// RES-22, D2: a client far ahead of the GPU; the span that wrote counts, whatever the next one says.
#[test]
fn a_write_in_one_span_outlives_a_clean_one() {
    let (mut world, client) = World::with_pages(4);
    let (a, b) = (world.allocate(client, 4), world.allocate(client, 4));
    let (a_at, b_at) = (world.map(client, a), world.map(client, b));
    let turn = |world: &mut World, allocation, program: &[Access], flags| {
        let _: Residency = world.make_resident(client, &[allocation]).unwrap();
        world.submit(client, program);
        world.evict(client, &[allocation], flags).unwrap();
    };
    for round in 0..4 {
        turn(&mut world, a, &[Access::Write(a_at, 7 + round)], IF_NECESSARY);
        turn(&mut world, b, &[Access::Read(b_at)], NOT_WRITTEN);
        turn(&mut world, a, &[Access::Read(a_at)], NOT_WRITTEN | IF_NECESSARY);
        turn(&mut world, b, &[Access::Read(b_at)], NOT_WRITTEN | IF_NECESSARY);
    }
    world.run_all();
    assert_eq!(world.read, [0, 7, 0, 0, 8, 0, 0, 9, 0, 0, 10, 0]);
    world.tear_down();
}

/// RES-24, U-27, P09: eviction waits for the work submitted before, and Evict does not.
#[test]
fn eviction_waits_for_work_submitted_before() {
    let (mut world, client) = World::with_pages(4);
    let (a, at) = world.resident(client, 4);
    world.submit(client, &[Access::Write(at, 7)]);
    world.evict(client, &[a], SOON).unwrap();
    let b = world.allocate(client, 4);
    let _: Residency = world.make_resident(client, &[b]).unwrap();
    world.poll();
    world.run_paging();
    assert_eq!(world.token(client, at), Some(0), "it is in place as long as the work runs");
    world.complete(RENDER);
    world.run_all();
    assert_eq!(world.paging_fence(client), 3);
    world.evict(client, &[b], SOON).unwrap();
    world.bring_in(client, &[a]);
    assert_eq!(world.token(client, at), Some(7));
}

/// CRE-31a: lower priority first.
#[test]
fn lower_priority_goes_first() {
    let (mut world, client) = World::with_pages(8);
    let priorities = [0x7800_0000, 0x2800_0000, 0xC800_0000, 0x5000_0000, 1, u32::MAX];
    let allocations = priorities.map(|priority| world.allocate_with(client, 1, priority));
    world.bring_in(client, &allocations);
    world.evict(client, &allocations, IF_NECESSARY).unwrap();
    squeeze(&mut world, 8);
    let order = [4, 1, 3, 0, 2, 5].map(|index| (allocations[index], EvictReason::RoomWanted));
    assert_eq!(world.evicted()[..6], order);
}

/// CRE-31a: at equal priority the less recently used.
#[test]
fn less_recently_used_goes_first() {
    let (mut world, client) = World::with_pages(8);
    let allocations = [0, 1, 2].map(|_| world.allocate(client, 2));
    world.bring_in(client, &allocations);
    for index in [1, 0, 2] {
        world.submit(client, &[]);
        world.evict(client, &[allocations[index]], IF_NECESSARY).unwrap();
    }
    world.run_all();
    // Used again: now it is the last to go.
    assert_eq!(world.make_resident(client, &[allocations[1]]), Ok(Residency::Resident));
    world.submit(client, &[]);
    world.evict(client, &[allocations[1]], IF_NECESSARY).unwrap();
    world.run_all();
    squeeze(&mut world, 8);
    let order = [0, 2, 1].map(|index| (allocations[index], EvictReason::RoomWanted));
    assert_eq!(world.evicted()[..3], order);
}

/// CRE-31a, D11: a submission uses what is on its device's list; being made resident is no use.
#[test]
fn allocations_that_no_work_has_used_go_first() {
    let (mut world, client) = World::with_pages(8);
    let [used, unused, again] = [0, 1, 2].map(|_| world.allocate(client, 2));
    world.bring_in(client, &[again]);
    world.submit(client, &[]);
    world.evict(client, &[again], IF_NECESSARY).unwrap();
    world.bring_in(client, &[used]);
    world.submit(client, &[]);
    world.evict(client, &[used], IF_NECESSARY).unwrap();
    for allocation in [again, unused] {
        world.bring_in(client, &[allocation]);
        world.evict(client, &[allocation], IF_NECESSARY).unwrap();
    }
    world.run_all();
    squeeze(&mut world, 8);
    let order = [unused, again, used].map(|allocation| (allocation, EvictReason::RoomWanted));
    assert_eq!(world.evicted()[..3], order);
}

/// CRE-31a: the last submission counts, whenever the Evict comes.
#[test]
fn the_last_submission_decides_between_devices() {
    let (mut world, client) = World::with_pages(8);
    let other = world.client();
    let (earlier, later) = (world.allocate(client, 2), world.allocate(other, 2));
    for (client, allocation) in [(client, earlier), (other, later)] {
        world.bring_in(client, &[allocation]);
        world.submit(client, &[]);
    }
    world.run_all();
    world.evict(other, &[later], IF_NECESSARY).unwrap();
    world.evict(client, &[earlier], IF_NECESSARY).unwrap();
    squeeze(&mut world, 8);
    let order = [earlier, later].map(|allocation| (allocation, EvictReason::RoomWanted));
    assert_eq!(world.evicted()[..2], order);
}

/// I32: no more goes than is wanted.
#[test]
fn no_more_is_evicted_than_needed() {
    let (mut world, client) = World::with_pages(8);
    let allocations = [0; 4].map(|_| world.allocate(client, 2));
    world.bring_in(client, &allocations);
    world.evict(client, &allocations, IF_NECESSARY).unwrap();
    world.resident(client, 3);
    assert_eq!(world.evicted().len(), 2);
}

/// D3: a request's own allocations are no victims of it.
#[test]
fn a_request_does_not_evict_what_it_names() {
    let (mut world, client) = World::with_pages(8);
    let (a, a_at) = world.resident(client, 4);
    let (b, _) = world.resident(client, 4);
    world.evict(client, &[a, b], IF_NECESSARY).unwrap();
    let c = world.allocate(client, 4);
    world.bring_in(client, &[a, c]);
    assert_eq!(world.evicted(), [(b, EvictReason::RoomWanted)]);
    assert_eq!(world.token(client, a_at), Some(0));
}

/// I04, I05, P58: no process sees memory that is not its own any more.
#[test]
fn evicted_memory_is_out_of_sight_before_it_is_used_again() {
    let (mut world, client) = World::with_pages(4);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    let other = world.client();
    let (_, other_at) = world.resident(other, 4);
    assert_eq!(world.translate(client, at), None);
    assert_eq!(world.token(other, other_at), Some(0));
}
