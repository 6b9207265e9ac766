//! Prefetch: what a device has announced, or a policy chooses, comes into free memory while engines leave the bus alone, and nothing is
//! evicted for it (D37).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use vidmm::contract::{AllocationFlags, SegmentSet};
use vidmm::event::PrefetchReason;
use vidmm::policy::{Candidates, Policy, Recency, Subject};
use vidmm::*;

use crate::world::*;

fn world(pages: u64) -> (World, Client) {
    let mut world = World::new(Config::pages(pages));
    let client = world.client();
    (world, client)
}

/// An allocation with content that is in no memory and on no list, and the address.
fn away(world: &mut World, client: Client, pages: u64, token: u64) -> (AllocationId, u64) {
    let (allocation, at) = world.resident(client, pages);
    write(world, client, at, token);
    world.evict(client, &[allocation], EvictFlags::empty()).unwrap();
    world.run_paging();
    assert_eq!(status(world, allocation), AllocationResidencyStatus::NotResident);
    (allocation, at)
}

fn status(world: &World, allocation: AllocationId) -> AllocationResidencyStatus {
    world.vidmm.query_allocation_residency(allocation).unwrap()
}

fn announce(world: &mut World, client: Client, allocations: &[AllocationId]) {
    world.call(|vidmm, _, _| vidmm.announce(client.device, allocations)).unwrap();
}

/// The prefetched allocations, in order.
fn prefetched(world: &World) -> Vec<AllocationId> {
    let of = |event: &Event| match *event {
        Event::Prefetched { allocation, .. } => Some(allocation),
        _ => None,
    };
    world.events.iter().filter_map(of).collect()
}

fn evictions(world: &World) -> u64 {
    world.vidmm.statistics().evictions
}

#[test]
fn announced_content_comes_into_free_memory_and_a_make_resident_waits_for_nothing() {
    let (mut world, client) = world(16);
    let (one, at) = away(&mut world, client, 4, 7);
    let (two, _) = away(&mut world, client, 4, 8);
    announce(&mut world, client, &[two, one]);
    world.run_paging();
    assert_eq!(prefetched(&world), [two, one], "the first need is first");
    let reason = PrefetchReason::Announced { device: client.device };
    assert!(world.events.iter().any(|event| matches!(event, Event::Prefetched { reason: of, .. } if *of == reason)));
    assert_eq!(world.make_resident(client, &[one, two]), Ok(Residency::Resident));
    assert_eq!(read(&mut world, client, at), 7);
    let statistics = world.vidmm.statistics();
    assert_eq!((statistics.prefetches, statistics.bytes_prefetched), (2, 8 * PAGE_SIZE));
    world.tear_down();
}

#[test]
fn nothing_is_evicted_for_announced_content_and_no_later_need_takes_the_room_of_an_earlier_one() {
    let (mut world, client) = world(16);
    let (large, _) = away(&mut world, client, 8, 1);
    let (small, _) = away(&mut world, client, 2, 2);
    let (kept, _) = world.resident(client, 12);
    world.evict(client, &[kept], IF_NECESSARY).unwrap();
    let before = evictions(&world);
    announce(&mut world, client, &[large, small]);
    world.run_paging();
    assert_eq!((prefetched(&world), evictions(&world)), (vec![], before));
    world.destroy(kept);
    world.run_paging();
    assert_eq!(prefetched(&world), [large, small], "the room is free now");
}

#[test]
fn prefetched_content_is_a_victim_like_any_other_and_comes_again_only_by_another_announcement() {
    let (mut world, client) = world(16);
    let (soon, at) = away(&mut world, client, 12, 7);
    announce(&mut world, client, &[soon]);
    world.run_paging();
    let (large, _) = world.resident(client, 8);
    assert_eq!(status(&world, soon), AllocationResidencyStatus::NotResident);
    world.destroy(large);
    world.wait(100 * MILLISECOND);
    assert_eq!(prefetched(&world), [soon]);
    world.bring_in(client, &[soon]);
    assert_eq!(read(&mut world, client, at), 7);
}

#[test]
fn an_announcement_is_a_use_in_the_order_of_evictions() {
    let (mut world, client) = world(16);
    let (one, at) = world.resident(client, 6);
    write(&mut world, client, at, 1);
    world.evict(client, &[one], IF_NECESSARY).unwrap();
    let (two, at) = world.resident(client, 6);
    write(&mut world, client, at, 2);
    world.evict(client, &[two], IF_NECESSARY).unwrap();
    announce(&mut world, client, &[one]);
    world.resident(client, 8);
    assert_eq!(status(&world, two), AllocationResidencyStatus::NotResident, "the other was announced since");
    assert_eq!(status(&world, one), AllocationResidencyStatus::ResidentInGpuMemory);
}

#[test]
fn a_new_announcement_voids_the_last_one_and_an_empty_one_withdraws_it() {
    let (mut world, client) = world(16);
    let (one, _) = away(&mut world, client, 4, 1);
    let (two, _) = away(&mut world, client, 4, 2);
    let (full, _) = world.resident(client, 16);
    announce(&mut world, client, &[one]);
    announce(&mut world, client, &[two]);
    world.destroy(full);
    world.run_paging();
    assert_eq!(prefetched(&world), [two]);
    let (full, _) = world.resident(client, 16);
    announce(&mut world, client, &[one, two]);
    announce(&mut world, client, &[]);
    world.destroy(full);
    world.run_paging();
    assert_eq!(prefetched(&world), [two]);
}

#[test]
fn offered_locked_listed_and_destroyed_allocations_do_not_come() {
    let mut world = World::new(Config { cpu_visible: true, ..Config::pages(32) });
    let client = world.client();
    let (offered, _) = away(&mut world, client, 2, 1);
    let (destroyed, _) = away(&mut world, client, 2, 2);
    let locked = world.create_flagged(client, Place::Local, 2, AllocationFlags::CPU_VISIBLE).unwrap();
    let (right, _) = away(&mut world, client, 2, 3);
    world.lock(client, locked).unwrap();
    world.offer(client, &[offered], OfferPriority::Low).unwrap();
    let (full, _) = world.resident(client, 32);
    announce(&mut world, client, &[offered, destroyed, locked, right]);
    world.destroy(destroyed);
    world.destroy(full);
    world.run_paging();
    assert_eq!(prefetched(&world), [right]);
}

#[test]
fn nothing_comes_ahead_for_a_device_in_error_or_without_power() {
    let (mut world, client) = world(16);
    let (soon, _) = away(&mut world, client, 4, 1);
    let (full, _) = world.resident(client, 16);
    announce(&mut world, client, &[soon]);
    world.destroy(full);
    world.call(|vidmm, _, _| vidmm.power_down());
    world.run_paging();
    assert_eq!(prefetched(&world), []);
    world.call(|vidmm, _, _| vidmm.power_up());
    world.run_paging();
    assert_eq!(prefetched(&world), [soon]);
}

/// An occurrence while the content of an announced allocation is on the way.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Meanwhile {
    MakeResident,
    Move,
    Offer,
    PowerDown,
    Destruction,
}

#[test]
fn an_announced_allocation_keeps_its_content_whatever_occurs_on_the_way() {
    use Meanwhile::*;
    for meanwhile in [MakeResident, Move, Offer, PowerDown, Destruction] {
        let mut world = World::new(Config::discrete(16, 32));
        let client = world.client();
        let (soon, at) = world.create_resident(client, Place::LocalOrSystem, 4, SILENT);
        write(&mut world, client, at, 7);
        world.evict(client, &[soon], EvictFlags::empty()).unwrap();
        world.run_paging();
        announce(&mut world, client, &[soon]);
        world.poll();
        assert_eq!(prefetched(&world), [soon]);
        assert!(world.can_complete(PAGING), "the copy is under way");
        let mut home = LOCAL;
        match meanwhile {
            MakeResident => {
                let residency = world.make_resident(client, &[soon]).unwrap();
                assert!(matches!(residency, Residency::Pending { .. }), "the copy has not ended (RES-11)");
                world.evict(client, &[soon], IF_NECESSARY).unwrap();
            }
            Move => {
                home = SegmentId::SYSTEM;
                let system = SegmentSet::of(world.config.aperture());
                let update = UpdateAllocationProperty { supported_segment_set: Some(system), preferred_segment: None };
                let queue = client.queue;
                world.call(|vidmm, driver, _| vidmm.update_allocation_property(driver, queue, soon, &update)).unwrap();
            }
            Offer => {
                world.offer(client, &[soon], OfferPriority::Low).unwrap();
                world.run_all();
                let _: Reclaimed = world.reclaim(client, &[soon]).unwrap();
            }
            PowerDown => {
                world.call(|vidmm, _, _| vidmm.power_down());
                world.run_all();
                world.call(|vidmm, _, _| vidmm.power_up());
            }
            Destruction => world.destroy(soon),
        }
        world.run_all();
        if meanwhile != Destruction {
            world.bring_in(client, &[soon]);
            assert_eq!(world.placed[&soon], home, "{meanwhile:?}");
            assert_eq!(read(&mut world, client, at), 7, "{meanwhile:?}");
        }
        world.tear_down();
    }
}

#[test]
fn a_wrong_announcement_is_refused_and_the_last_one_stands() {
    let (mut world, client) = world(16);
    let other = world.client();
    let (soon, _) = away(&mut world, client, 4, 1);
    let foreign = world.allocate(other, 4);
    let (full, _) = world.resident(client, 16);
    announce(&mut world, client, &[soon]);
    let wrong = world.call(|vidmm, _, _| vidmm.announce(client.device, &[soon, foreign]));
    assert_eq!(wrong, Err(AnnounceError::WrongDevice { position: 1 }));
    world.destroy(full);
    world.run_paging();
    assert_eq!(prefetched(&world), [soon]);
}

/// Answers with the slot of the moment, whatever the slot is.
#[derive(Debug)]
struct Answers(Recency, Arc<AtomicUsize>);

impl Policy for Answers {
    fn released(&mut self, subject: Subject, last_use: u64) {
        self.0.released(subject, last_use);
    }

    fn rank(&self, slot: usize) -> u64 {
        self.0.rank(slot)
    }

    fn victim(&mut self, candidates: &mut dyn Candidates) -> usize {
        self.0.victim(candidates)
    }

    fn prefetches(&self) -> bool {
        true
    }

    fn prefetch(&mut self, _memory: SegmentId, _free: u64) -> Option<usize> {
        Some(self.1.load(Ordering::Relaxed))
    }

    fn gone(&mut self, subject: Subject) {
        self.0.gone(subject);
    }
}

#[test]
fn a_policy_chooses_what_comes_and_a_wrong_answer_brings_nothing() {
    let (mut world, client) = world(16);
    let slot = Arc::new(AtomicUsize::new(usize::MAX));
    world.vidmm.set_policy(Box::new(Answers(Recency::default(), Arc::clone(&slot)))).unwrap();
    let (_too_large, _) = away(&mut world, client, 12, 8);
    let (_listed, _) = world.resident(client, 6);
    let (soon, at) = away(&mut world, client, 4, 7);
    let mut answer = |wrong: usize| {
        slot.store(wrong, Ordering::Relaxed);
        world.allocate(client, 1);
        world.run_paging();
        prefetched(&world)
    };
    for wrong in [77, 1 << 40, 0, 1] {
        assert_eq!(answer(wrong), [], "slot {wrong}");
    }
    for right_then_resident in [2, 2] {
        assert_eq!(answer(right_then_resident), [soon]);
    }
    assert_eq!(world.make_resident(client, &[soon]), Ok(Residency::Resident));
    assert_eq!(read(&mut world, client, at), 7);
    world.tear_down();
}

#[test]
fn content_comes_while_a_kernel_runs_in_local_memory_and_not_while_the_paging_engine_works() {
    let (mut world, client) = world(32);
    let (soon, _) = away(&mut world, client, 4, 1);
    let (busy, at) = world.resident(client, 4);
    let other = world.allocate(client, 4);
    world.submit(client, &[Access::Read(at)]);
    announce(&mut world, client, &[soon]);
    world.poll();
    assert_eq!(prefetched(&world), [soon], "the kernel leaves the bus alone");
    world.run_paging();
    let _: Residency = world.make_resident(client, &[other]).unwrap();
    world.poll();
    let (late, _) = (world.allocate(client, 4), busy);
    announce(&mut world, client, &[late]);
    world.poll();
    assert_eq!(prefetched(&world), [soon], "a page-in is under way");
    world.run_paging();
    assert_eq!(prefetched(&world), [soon, late]);
}

#[test]
fn a_prefetch_that_waits_for_a_kernel_keeps_no_other_content_away() {
    // A look ends with 2 MiB: the second allocation needs another look.
    let (mut world, client) = world(2048);
    let (second, _) = away(&mut world, client, 4, 1);
    let (first, at) = world.resident(client, 600);
    world.submit(client, &[Access::Write(at, 7)]);
    world.evict(client, &[first], EvictFlags::empty()).unwrap();
    world.poll();
    announce(&mut world, client, &[first, second]);
    world.poll();
    assert_eq!(
        prefetched(&world),
        [first, second],
        "the page-out of the first waits for the kernel, and the bus is free"
    );
    world.run_paging();
    assert_eq!(status(&world, second), AllocationResidencyStatus::ResidentInGpuMemory);
}
