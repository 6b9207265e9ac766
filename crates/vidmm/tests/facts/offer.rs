//! Offer and Reclaim: memory that its owner can do without for a while (5.7).

use crate::world::*;
use vidmm::event::EvictReason;
use vidmm::*;

const LOW: OfferPriority = OfferPriority::Low;
const OFFERED: EvictReason = EvictReason::Offered;

fn results(reclaimed: Result<Reclaimed, ReclaimError>) -> Vec<ReclaimResult> {
    reclaimed.unwrap().results
}

/// P55, RES-64, U-37: offered memory that nobody needed is where and what it was.
#[test]
fn offered_memory_that_nobody_needed_keeps_its_content() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    world.offer(client, &[a], LOW).unwrap();
    world.run_all();
    assert_eq!(world.evicted(), []);
    let reclaimed = world.reclaim(client, &[a]).unwrap();
    assert_eq!(reclaimed, Reclaimed { results: vec![ReclaimResult::Ok], paging_fence_value: 0 });
    assert_eq!(read(&mut world, client, at), 7);
    world.tear_down();
}

/// P56, P18, RES-61: it goes when memory is wanted, nothing is copied, and it reads as zero afterwards (U-36).
#[test]
fn offered_memory_that_was_needed_is_discarded_and_reads_as_zero() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    // It has content in its backing store as well, which must not come back.
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    world.bring_in(client, &[a]);
    write(&mut world, client, at, 8);
    world.offer(client, &[a], LOW).unwrap();
    let copied = world.statistics_of_copies().1;
    squeeze(&mut world, 8);
    assert_eq!(world.evicted()[1..][..1], [(a, OFFERED)]);
    assert_eq!(world.statistics_of_copies().1, copied, "I26: nothing is copied out");
    let discarded = |event: &Event| matches!(event, Event::Evicted { discarded: true, .. });
    assert_eq!(world.events.iter().filter(|event| discarded(event)).count(), 1);

    let reclaimed = world.reclaim(client, &[a]).unwrap();
    assert_eq!(reclaimed.results, [ReclaimResult::Discarded]);
    assert!(reclaimed.paging_fence_value > 0, "RES-65: it is on the list, so it is brought in");
    let store = world.machine.known[&world.handle(a)].backing_store;
    assert_eq!(world.machine.read(store, &world.host), 0, "RES-65, U-36: the backing store is usable at once");
    assert_eq!(read(&mut world, client, at), 0);
    world.tear_down();
}

/// I25, U-37: low before normal before high, and of one priority the one offered first; all before what is only evicted.
#[test]
fn offered_allocations_go_first_and_in_the_order_of_their_priorities() {
    let (mut world, client) = World::with_pages(8);
    let evicted = world.allocate_with(client, 1, 1);
    world.bring_in(client, &[evicted]);
    world.evict(client, &[evicted], IF_NECESSARY).unwrap();
    let [high, normal, low, later] = [(); 4].map(|()| world.resident(client, 1).0);
    world.offer(client, &[high], OfferPriority::High).unwrap();
    world.offer(client, &[normal], OfferPriority::Normal).unwrap();
    world.offer(client, &[low], LOW).unwrap();
    world.offer(client, &[later], LOW).unwrap();
    squeeze(&mut world, 8);
    let order: Vec<_> = world.evicted().into_iter().map(|(allocation, _)| allocation).take(5).collect();
    assert_eq!(order, [low, later, normal, high, evicted]);
    world.tear_down();
}

/// U-37, CRE-31a: the priority that an allocation gets later is none of its offer's: it goes in its turn.
#[test]
fn another_priority_moves_no_offered_allocation() {
    let (mut world, client) = World::with_pages(8);
    let [first, second] = [(); 2].map(|()| world.resident(client, 1).0);
    world.offer(client, &[first, second], LOW).unwrap();
    world.call(|vidmm, _, _| vidmm.set_allocation_priority(first, 0xA001_0000)).unwrap();
    squeeze(&mut world, 8);
    assert_eq!(world.evicted()[..2], [(first, OFFERED), (second, OFFERED)]);
    world.tear_down();
}

/// RES-61, RES-21: an Evict that was to take effect at once ends with the Offer that follows it: the content stays.
#[test]
fn an_offer_takes_back_the_haste_of_an_evict_before_it() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    world.evict(client, &[a], SOON).unwrap();
    world.offer(client, &[a], LOW).unwrap();
    world.run_all();
    assert_eq!(world.evicted(), []);
    assert_eq!(results(world.reclaim(client, &[a])), [ReclaimResult::Ok]);
    world.bring_in(client, &[a]);
    assert_eq!(read(&mut world, client, at), 7);
    world.tear_down();
}

/// RES-60, CRE-31b: AUTO follows the allocation's own priority.
#[test]
fn auto_is_as_reluctant_as_the_allocation_s_priority() {
    let (mut world, client) = World::with_pages(8);
    let [high, normal, low] = [0xA001_0000, NORMAL, 0x5000_0000].map(|priority| {
        let allocation = world.allocate_with(client, 1, priority);
        world.bring_in(client, &[allocation]);
        allocation
    });
    world.offer(client, &[high, normal, low], OfferPriority::Auto).unwrap();
    let said_low = world.resident(client, 1).0;
    world.offer(client, &[said_low], LOW).unwrap();
    squeeze(&mut world, 8);
    let order: Vec<_> = world.evicted().into_iter().map(|(allocation, _)| allocation).take(4).collect();
    assert_eq!(order, [low, said_low, normal, high]);
}

/// RES-61: work submitted before the offer finds the content, however much memory is wanted.
#[test]
fn work_submitted_before_still_has_it() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    let fence = world.fence();
    world.submit_to(client.context, &[Access::Read(at)], &[(fence, 1)], &[]);
    world.offer(client, &[a], LOW).unwrap();
    let other = world.client();
    let b = world.allocate(other, 8);
    // Whether the other one waits or is refused, it does not get the room before the work has ended.
    let pending = world.make_resident(other, &[b]).is_ok();
    world.run_paging();
    assert_eq!(world.evicted(), []);
    world.signal(fence, 1);
    world.run_all();
    assert_eq!(world.read, [7]);
    if !pending {
        world.bring_in(other, &[b]);
    }
    assert_eq!(world.evicted(), [(a, OFFERED)]);
    world.tear_down();
}

/// RES-61: an Evict that waits for such work does not hasten what was offered since: it stays until memory is wanted.
#[test]
fn an_earlier_evict_does_not_hasten_what_is_offered() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    let fence = world.fence();
    world.submit_to(client.context, &[Access::Read(at)], &[(fence, 1)], &[]);
    world.evict(client, &[a], SOON).unwrap();
    world.offer(client, &[a], LOW).unwrap();
    world.signal(fence, 1);
    world.run_all();
    assert_eq!(world.evicted(), []);
    assert_eq!(results(world.reclaim(client, &[a])), [ReclaimResult::Ok]);
    world.tear_down();
}

/// RES-61: nor is it discarded for a MakeResident that waits, and for work that waits for that.
#[test]
fn a_request_that_waits_keeps_the_content() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    assert!(matches!(world.make_resident(client, &[a]), Ok(Residency::Pending { .. })));
    world.submit(client, &[Access::Read(at)]);
    world.offer_with(client, &[a], LOW, OfferFlags::OFFER_IMMEDIATELY).unwrap();
    world.run_all();
    assert_eq!(world.read, [7]);
    assert_eq!(results(world.reclaim(client, &[a])), [ReclaimResult::Discarded]);
    assert_eq!(read(&mut world, client, at), 0);
    world.tear_down();
}

/// RES-67, U-37: an offered allocation leaves room on the lists; what is on the list again after Reclaim has its count.
#[test]
fn an_offered_allocation_leaves_its_room_to_others_and_keeps_its_count() {
    let (mut world, client) = World::with_pages(8);
    let (a, _) = world.resident(client, 6);
    world.bring_in(client, &[a]);
    world.offer(client, &[a], LOW).unwrap();
    let other = world.client();
    let (b, _) = world.resident(other, 8);
    assert_eq!(world.evicted(), [(a, OFFERED)]);
    world.destroy(b);
    world.run_all();
    assert_eq!(results(world.reclaim(client, &[a])), [ReclaimResult::Discarded]);
    world.run_all();
    assert_eq!(world.evict(client, &[a, a, a], SOON), Err(EvictError::NotResident { position: 2 }));
    world.evict(client, &[a, a], SOON).unwrap();
    world.tear_down();
}

/// RES-65, RES-71: Reclaim is never refused for room; if others have taken it, the device waits for its turn, and gets it.
#[test]
fn a_reclaim_without_room_waits_for_its_turn() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 6);
    world.offer(client, &[a], LOW).unwrap();
    let other = world.client();
    let (b, b_at) = world.resident(other, 8);
    write(&mut world, other, b_at, 7);
    assert!(world.reclaim(client, &[a]).unwrap().paging_fence_value > 0);
    assert_eq!(read(&mut world, client, at), 0);
    assert_eq!(world.evicted().last(), Some(&(b, EvictReason::DeviceSuspended)));
    assert_eq!(read(&mut world, other, b_at), 7);
}

/// P56: an offered allocation makes room on the device's own list too; what does not fit any more, even alone, is not
/// reclaimed.
#[test]
fn offered_allocations_take_no_room_on_the_own_list() {
    let (mut world, client) = World::with_pages(8);
    let (a, _) = world.resident(client, 6);
    world.offer(client, &[a], LOW).unwrap();
    let b = world.allocate(client, 4);
    world.bring_in(client, &[b]);
    assert_eq!(world.evicted(), [(a, OFFERED)]);
    let num_bytes_to_trim = 2 * PAGE_SIZE;
    let shortages = short(LOCAL_MEMORY, num_bytes_to_trim, NoMemoryReason::DoesNotFit);
    let refused = ReclaimError::NoMemory { num_bytes_to_trim, shortages };
    assert_eq!(world.reclaim(client, &[a]), Err(refused));
    world.evict(client, &[b], SOON).unwrap();
    assert_eq!(results(world.reclaim(client, &[a])), [ReclaimResult::Discarded]);
    world.run_all();
    world.tear_down();
}

/// RES-02: Evict of an offered allocation lowers the count that it will have.
#[test]
fn an_evict_while_offered_takes_it_off_the_list() {
    let (mut world, client) = World::with_pages(8);
    let (a, _) = world.resident(client, 4);
    world.offer(client, &[a], LOW).unwrap();
    assert_eq!(world.evict(client, &[a, a], IF_NECESSARY), Err(EvictError::NotResident { position: 1 }));
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    squeeze(&mut world, 8);
    let reclaimed = world.reclaim(client, &[a]).unwrap();
    assert_eq!(reclaimed, Reclaimed { results: vec![ReclaimResult::Discarded], paging_fence_value: 0 });
    world.run_all();
    assert_eq!(world.placed.get(&a), None, "RES-65: it is not on the list, so it is not brought in");
    world.tear_down();
}

/// RES-65: an allocation that is not on the list is not brought in by Reclaim, and an offer of it is like any other.
#[test]
fn unlisted_allocations_can_be_offered() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    world.offer(client, &[a], LOW).unwrap();
    assert_eq!(world.reclaim(client, &[a]).unwrap().paging_fence_value, 0);
    world.offer(client, &[a], LOW).unwrap();
    squeeze(&mut world, 8);
    assert_eq!(world.evicted()[0], (a, OFFERED));
    assert_eq!(results(world.reclaim(client, &[a])), [ReclaimResult::Discarded]);
    world.tear_down();
}

/// U-37: an allocation that is not resident keeps its content in its backing store; memory pressure does not reach it
/// there.
#[test]
fn allocations_that_are_not_resident_keep_their_content() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    world.offer(client, &[a], LOW).unwrap();
    squeeze(&mut world, 8);
    assert_eq!(results(world.reclaim(client, &[a])), [ReclaimResult::Ok]);
    world.bring_in(client, &[a]);
    assert_eq!(read(&mut world, client, at), 7);
}

/// RES-62: a refused call changes nothing, and none of the list is offered.
#[test]
fn a_refused_offer_offers_nothing() {
    let (mut world, client) = World::with_pages(16);
    let other = world.client();
    let [(a, _), (b, _)] = [(); 2].map(|()| world.resident(client, 4));
    let (foreign, _) = world.resident(other, 4);
    assert_eq!(world.offer(client, &[], LOW), Err(OfferError::Empty));
    assert_eq!(world.offer(client, &[a, foreign], LOW), Err(OfferError::WrongDevice { position: 1 }));
    assert_eq!(world.offer(client, &[a, a], LOW), Err(OfferError::Offered { position: 1 }));
    world.offer(client, &[b], LOW).unwrap();
    assert_eq!(world.offer(client, &[a, b], LOW), Err(OfferError::Offered { position: 1 }));
    assert_eq!(world.make_resident(client, &[a, b]), Err(MakeResidentError::Offered { position: 1 }));

    assert_eq!(world.reclaim(client, &[]), Err(ReclaimError::Empty));
    assert_eq!(world.reclaim(client, &[b, b]), Err(ReclaimError::NotOffered { position: 1 }));
    assert_eq!(world.reclaim(client, &[b, a]), Err(ReclaimError::NotOffered { position: 1 }));
    assert_eq!(world.reclaim(client, &[b, foreign]), Err(ReclaimError::WrongDevice { position: 1 }));
    assert_eq!(results(world.reclaim(client, &[b])), [ReclaimResult::Ok]);
    world.tear_down();
}

/// RES-60: OFFER_IMMEDIATELY discards without need, but not before the work submitted before has ended.
#[test]
fn an_immediate_offer_is_discarded_when_earlier_work_has_ended() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    world.submit(client, &[Access::Write(at, 7), Access::Read(at)]);
    world.offer_with(client, &[a], LOW, OfferFlags::OFFER_IMMEDIATELY).unwrap();
    world.run_paging();
    assert!(world.translate(client, at).is_some(), "it is still there");
    world.complete(RENDER);
    world.run_all();
    assert_eq!(world.read, [7]);
    assert_eq!(world.evicted(), [(a, OFFERED)]);
    assert_eq!(world.translate(client, at), None);
    assert_eq!(results(world.reclaim(client, &[a])), [ReclaimResult::Discarded]);
    assert_eq!(read(&mut world, client, at), 0);
    world.tear_down();
}

/// RES-60: work of a device that has closed the allocation keeps the content, which is discarded when that has been handed out.
#[test]
fn an_immediate_offer_is_discarded_when_devices_that_closed_it_are_done() {
    let (mut world, client) = World::with_pages(8);
    let other = world.client();
    let a = world.create_shared(client, 4);
    world.open(other, a).unwrap();
    let at = world.map(other, a);
    world.bring_in(client, &[a]);
    world.bring_in(other, &[a]);
    write(&mut world, other, at, 7);
    let fence = world.fence();
    world.submit_to(other.context, &[Access::Read(at)], &[(fence, 1)], &[]);
    world.close(other, a).unwrap();
    world.offer_with(client, &[a], LOW, OfferFlags::OFFER_IMMEDIATELY).unwrap();
    world.run_paging();
    assert_eq!(world.evicted(), []);
    world.signal(fence, 1);
    world.run_all();
    assert_eq!((&world.read[..], world.evicted()), (&[7][..], vec![(a, OFFERED)]));
    assert_eq!(results(world.reclaim(client, &[a])), [ReclaimResult::Discarded]);
    world.tear_down();
}

/// RES-60: also what is in its backing store alone.
#[test]
fn an_immediate_offer_discards_what_is_not_resident() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    world.evict(client, &[a], SOON).unwrap();
    // Its content is still on its way to the backing store.
    world.poll();
    world.offer_with(client, &[a], LOW, OfferFlags::OFFER_IMMEDIATELY).unwrap();
    world.run_all();
    assert_eq!(results(world.reclaim(client, &[a])), [ReclaimResult::Discarded]);
    world.bring_in(client, &[a]);
    assert_eq!(read(&mut world, client, at), 0);
    let store = world.machine.known[&world.handle(a)].backing_store;
    assert_eq!(world.machine.read(store, &world.host), 0);
    world.tear_down();
}

/// RES-60: a Reclaim in time keeps the content of an immediate offer, and a later offer is another one.
#[test]
fn a_reclaim_in_time_takes_an_immediate_offer_back() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    let fence = world.fence();
    world.submit_to(client.context, &[Access::Read(at)], &[(fence, 1)], &[]);
    world.offer_with(client, &[a], LOW, OfferFlags::OFFER_IMMEDIATELY).unwrap();
    assert_eq!(results(world.reclaim(client, &[a])), [ReclaimResult::Ok]);
    world.offer(client, &[a], LOW).unwrap();
    world.signal(fence, 1);
    world.run_all();
    assert_eq!(world.evicted(), []);
    assert_eq!(results(world.reclaim(client, &[a])), [ReclaimResult::Ok]);
    assert_eq!(read(&mut world, client, at), 7);
}

/// RES-66: with ALLOW_DECOMMIT the backing store goes with the content, and Reclaim commits another.
#[test]
fn a_decommitted_allocation_gets_a_new_backing_store() {
    let (mut world, client) = World::with_pages(8);
    let (a, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    let committed = world.host.bytes();
    world.offer_with(client, &[a], LOW, OfferFlags::ALLOW_DECOMMIT).unwrap();
    world.run_all();
    assert_eq!(world.host.bytes(), committed, "nothing is wanted yet");
    let other = world.client();
    let with_other = world.host.bytes();
    let b = world.allocate(other, 8);
    world.bring_in(other, &[b]);
    assert_eq!(world.host.bytes(), with_other - 4 * PAGE_SIZE + 8 * PAGE_SIZE);
    assert!(world.events.contains(&Event::Decommitted { allocation: a }));
    world.destroy(b);
    world.run_all();
    assert_eq!(results(world.reclaim(client, &[a])), [ReclaimResult::Discarded]);
    assert_eq!(read(&mut world, client, at), 0);
    write(&mut world, client, at, 9);
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    world.bring_in(client, &[a]);
    assert_eq!(read(&mut world, client, at), 9);
    world.tear_down();
}

/// RES-66: if the system has no memory for another one, the allocation can only be destroyed.
#[test]
fn an_allocation_without_backing_store_can_only_be_destroyed() {
    let (mut world, client) = World::with_pages(8);
    let (a, _) = world.resident(client, 4);
    let flags = OfferFlags::ALLOW_DECOMMIT | OfferFlags::OFFER_IMMEDIATELY;
    world.offer_with(client, &[a], LOW, flags).unwrap();
    world.run_all();
    world.host.fails_after = Some(0);
    let reclaimed = world.reclaim(client, &[a]).unwrap();
    assert_eq!(reclaimed, Reclaimed { results: vec![ReclaimResult::NotCommitted], paging_fence_value: 0 });
    assert_eq!(world.make_resident(client, &[a]), Err(MakeResidentError::NotCommitted { position: 0 }));
    assert_eq!(world.offer(client, &[a], LOW), Err(OfferError::NotCommitted { position: 0 }));
    assert_eq!(world.lock(client, a), Err(LockError::NotCommitted));
    assert_eq!(world.vidmm.system_copy(a), Ok(None), "that is somebody else's by now");
    assert_eq!(world.evict(client, &[a], SOON), Err(EvictError::NotResident { position: 0 }));
    world.destroy(a);
    world.tear_down();
}

/// RES-66: when the host's memory is short, what allows it is decommitted, the least wanted first.
#[test]
fn a_commit_that_finds_no_memory_decommits_what_is_offered() {
    let (mut world, client) = World::with_pages(16);
    let [high, low] = [(); 2].map(|()| world.resident(client, 4).0);
    world.evict(client, &[high, low], SOON).unwrap();
    world.run_all();
    world.offer_with(client, &[high], OfferPriority::High, OfferFlags::ALLOW_DECOMMIT).unwrap();
    world.offer_with(client, &[low], LOW, OfferFlags::ALLOW_DECOMMIT).unwrap();
    world.host.limit = Some(world.host.bytes());
    world.allocate(client, 4);
    let is_of_memory = |event: &&Event| matches!(event, Event::BackingStoreRefused { .. } | Event::Decommitted { .. });
    let of_memory: Vec<_> = world.events.iter().filter(is_of_memory).collect();
    let refused = Event::BackingStoreRefused { size: 4 * PAGE_SIZE };
    assert_eq!(of_memory, [&refused, &Event::Decommitted { allocation: low }]);
    assert!(world.try_allocate(client, 8 * PAGE_SIZE, NORMAL).is_err(), "four pages are not eight");
    world.host.limit = None;
    assert_eq!(results(world.reclaim(client, &[low])), [ReclaimResult::Discarded]);
    world.tear_down();
}

/// NTF-03: the driver is not told of an eviction whose content is discarded.
#[test]
fn discarded_content_is_not_notified() {
    let mut world = World::new(Config::discrete(8, 8));
    let client = world.client();
    for place in [Place::System, Place::Aperture] {
        let (a, at) = world.create_resident(client, place, 4, EVICTION);
        write(&mut world, client, at, 7);
        world.evict(client, &[a], IF_NECESSARY).unwrap();
        world.offer(client, &[a], LOW).unwrap();
        let before = world.vidmm.statistics().eviction_notifications;
        let all = world.create(client, place, 8, SILENT);
        world.bring_in(client, &[all]);
        // In the aperture it is in the way, whatever else it is.
        let reason = if place == Place::Aperture { EvictReason::RangeWanted } else { OFFERED };
        assert_eq!(world.evicted().last(), Some(&(a, reason)));
        assert_eq!(world.vidmm.statistics().eviction_notifications, before);
        world.destroy(all);
        world.run_all();
        assert_eq!(results(world.reclaim(client, &[a])), [ReclaimResult::Discarded]);
        world.bring_in(client, &[a]);
        assert_eq!(read(&mut world, client, at), 0, "U-36: {place:?}");
        world.destroy(a);
        world.run_all();
    }
    world.tear_down();
}

/// U-36: a Reclaim that comes before the discard has been carried out finds zeros too, and what is written then stays.
#[test]
fn writes_after_an_early_reclaim_are_not_reset() {
    for place in [Place::Local, Place::System, Place::Aperture] {
        let mut world = World::new(Config::discrete(16, 16));
        let client = world.client();
        let (a, at) = world.create_resident(client, place, 4, SILENT);
        // Work that runs keeps the discard waiting.
        world.submit(client, &[Access::Write(at, 7)]);
        world.offer_with(client, &[a], LOW, OfferFlags::OFFER_IMMEDIATELY).unwrap();
        world.poll();
        assert_eq!(world.evicted(), [(a, OFFERED)], "it is decided");
        assert_eq!(results(world.reclaim(client, &[a])), [ReclaimResult::Discarded]);
        world.submit(client, &[Access::Read(at), Access::Write(at, 8)]);
        world.submit(client, &[Access::Read(at)]);
        world.run_all();
        assert_eq!(world.read, [0, 8], "{place:?}");
        world.evict(client, &[a], SOON).unwrap();
        world.run_all();
        world.bring_in(client, &[a]);
        assert_eq!(read(&mut world, client, at), 8);
        world.tear_down();
    }
}

/// RES-66: an allocation that was reclaimed and offered again is decommitted when the second offer's discard is over,
/// not the first's: between them it comes in.
#[test]
fn a_discard_that_is_over_does_not_decommit_for_a_later_offer() {
    for place in [Place::Local, Place::System, Place::Aperture] {
        let mut world = World::new(Config::discrete(16, 16));
        let client = world.client();
        let (a, at) = world.create_resident(client, place, 4, SILENT);
        // Work that runs keeps the first discard waiting.
        world.submit(client, &[Access::Write(at, 7)]);
        let immediately = OfferFlags::OFFER_IMMEDIATELY;
        world.offer_with(client, &[a], LOW, immediately).unwrap();
        world.poll();
        assert_eq!(results(world.reclaim(client, &[a])), [ReclaimResult::Discarded]);
        world.poll();
        world.offer_with(client, &[a], LOW, immediately | OfferFlags::ALLOW_DECOMMIT).unwrap();
        world.poll();
        assert_eq!(world.evicted(), [(a, OFFERED), (a, OFFERED)], "both discards are decided");
        let is_decommitted = |world: &World| world.events.contains(&Event::Decommitted { allocation: a });
        world.complete(RENDER);
        assert!(!is_decommitted(&world), "{place:?}: it is still to come in and to leave");
        world.run_all();
        assert!(is_decommitted(&world), "{place:?}");
        assert_eq!(results(world.reclaim(client, &[a])), [ReclaimResult::Discarded]);
        assert_eq!(read(&mut world, client, at), 0);
        world.tear_down();
    }
}

/// D5, U-36: an allocation that was reclaimed before its discard is carried out can be demoted meanwhile.
#[test]
fn an_allocation_that_waits_for_its_discard_can_be_demoted() {
    let mut world = World::new(Config::discrete(8, 16));
    let client = world.client();
    let (a, at) = world.create_resident(client, Place::LocalOrSystem, 4, SILENT);
    // Work that runs keeps the discard waiting.
    world.submit(client, &[Access::Write(at, 7)]);
    world.offer_with(client, &[a], LOW, OfferFlags::OFFER_IMMEDIATELY).unwrap();
    world.poll();
    assert_eq!(results(world.reclaim(client, &[a])), [ReclaimResult::Discarded]);
    world.poll();
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    let all = world.create(client, Place::Local, 8, SILENT);
    let _: Residency = world.make_resident(client, &[all]).unwrap();
    world.poll();
    assert_eq!(world.evicted(), [(a, OFFERED), (a, EvictReason::RoomWanted)]);
    assert!(world.placed[&a].is_system(), "it is demoted");
    world.run_all();
    world.evict(client, &[all], SOON).unwrap();
    world.bring_in(client, &[a]);
    assert_eq!(read(&mut world, client, at), 0);
    world.tear_down();
}

/// RES-91: an offered allocation can be destroyed, resident, discarded or decommitted.
#[test]
fn offered_allocations_can_be_destroyed() {
    for flags in [OfferFlags::empty(), OfferFlags::OFFER_IMMEDIATELY, OfferFlags::all()] {
        for ended in [false, true] {
            let (mut world, client) = World::with_pages(8);
            let (a, at) = world.resident(client, 4);
            world.submit(client, &[Access::Write(at, 7)]);
            world.offer_with(client, &[a], LOW, flags).unwrap();
            world.poll();
            if ended {
                world.run_all();
            }
            world.destroy(a);
            world.run_all();
            world.tear_down();
        }
    }
}

/// SEG-13: ranges are found with the grant, so the aperture keeps none for an offered allocation, and Reclaim finds another.
#[test]
fn the_aperture_keeps_no_range_for_an_offered_allocation() {
    let mut world = World::new(Config::discrete(8, 48));
    let client = world.client();
    let (a, at) = world.create_resident(client, Place::Aperture, 16, SILENT);
    write(&mut world, client, at, 7);
    world.offer(client, &[a], LOW).unwrap();
    let all = world.create(client, Place::Aperture, 48, SILENT);
    world.bring_in(client, &[all]);
    assert_eq!(world.evicted(), [(a, EvictReason::RangeWanted)]);
    let refused = world.reclaim(client, &[a]);
    assert!(matches!(refused, Err(ReclaimError::NoMemory { .. })), "{refused:?}");
    world.evict(client, &[all], SOON).unwrap();
    assert_eq!(results(world.reclaim(client, &[a])), [ReclaimResult::Discarded]);
    assert_eq!(read(&mut world, client, at), 0, "U-36");
    world.tear_down();
}

/// I25: an allocation that was made resident twice and offered before it was brought in is among the first to go.
#[test]
fn an_offer_before_the_grant_stays_in_force() {
    let (mut world, client) = World::with_pages(8);
    let a = world.allocate(client, 1);
    let _: Residency = world.make_resident(client, &[a, a]).unwrap();
    world.offer(client, &[a], LOW).unwrap();
    world.call(|vidmm, _, _| vidmm.suspend_process(client.process, false)).unwrap();
    world.run_all();
    world.call(|vidmm, _, _| vidmm.resume_process(client.process)).unwrap();
    world.run_all();
    assert_eq!(results(world.reclaim(client, &[a])), [ReclaimResult::Ok]);
    world.tear_down();
}

/// U-36, RES-91: an allocation that is reclaimed after it was discarded reads as zero, also for work that was submitted
/// before it is destroyed.
#[test]
fn discarded_allocations_read_as_zero_until_they_are_destroyed() {
    let mut world = World::new(Config::integrated(contract::AddressingModel::GpuMmu, 16));
    let client = world.client();
    let (a, at) = world.create_resident(client, Place::System, 4, SILENT);
    world.submit(client, &[Access::Write(at, 7)]);
    world.poll();
    world.offer(client, &[a], LOW).unwrap();
    // Others need the room: it is discarded once the work before has ended.
    let b = world.create(client, Place::System, 16, SILENT);
    let _: Residency = world.make_resident(client, &[b]).unwrap();
    world.submit(client, &[]);
    world.evict(client, &[b], SOON).unwrap();
    world.poll();
    assert_eq!(results(world.reclaim(client, &[a])), [ReclaimResult::Discarded]);
    world.submit(client, &[Access::Read(at)]);
    world.destroy(a);
    world.run_all();
    assert_eq!(world.read, [0]);
    world.tear_down();
}

/// RES-64, RES-11: a device that still holds what has left its list does not hold what comes back as well, where the room for it was
/// promised to another.
#[test]
fn an_allocation_in_place_waits_if_its_room_was_promised_to_another() {
    let (mut world, client) = World::with_pages(8);
    let other = world.client();
    let (a, at) = world.resident(client, 4);
    let (b, b_at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    world.offer(client, &[a], LOW).unwrap();
    let gate = world.fence();
    world.submit_to(client.context, &[Access::Write(b_at, 8)], &[(gate, 1)], &[]);
    world.run_all();
    world.evict(client, &[b], IF_NECESSARY).unwrap();
    let c = world.allocate(other, 4);
    let _: Residency = world.make_resident(other, &[c]).unwrap();
    let next = world.paging_fence(client) + 1;
    let reclaimed = world.reclaim(client, &[a]).unwrap();
    assert_eq!(reclaimed, Reclaimed { results: vec![ReclaimResult::Ok], paging_fence_value: next });
    world.signal(gate, 1);
    assert_eq!(read(&mut world, client, at), 7);
    world.tear_down();
}
