//! Write-behind: written content at the cold end is copied out while engines leave the bus alone, and an eviction then copies nothing
//! (D37).

use vidmm::contract::{AllocationFlags, SegmentSet};
use vidmm::policy::{Candidate, Policy};
use vidmm::*;

use crate::world::*;

/// A world with write-behind of half of the memory, and a client.
fn world(pages: u64) -> (World, Client) {
    world_of(Config { write_behind: WriteBehind { watermark_percent: 50, link_percent: 25 }, ..Config::pages(pages) })
}

fn world_of(config: Config) -> (World, Client) {
    let mut world = World::new(config);
    let client = world.client();
    (world, client)
}

/// A written allocation of so many pages that no list names any more, and the address.
fn written(world: &mut World, client: Client, pages: u64, token: u64) -> (AllocationId, u64) {
    let (allocation, at) = world.resident(client, pages);
    write(world, client, at, token);
    world.evict(client, &[allocation], IF_NECESSARY).unwrap();
    world.poll();
    (allocation, at)
}

/// The parts that were cleaned: the allocation, the first byte, the bytes, and whether the part is the last.
fn cleaned(world: &World) -> Vec<(AllocationId, u64, u64, bool)> {
    let part = |event: &Event| match *event {
        Event::Cleaned { allocation, offset, size, is_last, .. } => Some((allocation, offset, size, is_last)),
        _ => None,
    };
    world.events.iter().filter_map(part).collect()
}

/// Lets chunks be copied that take so long for their bytes, until an allocation is clean. Returns the time of all chunks.
fn clean_all(world: &mut World, time_of: impl Fn(u64) -> Nanoseconds) -> Nanoseconds {
    let mut busy = 0;
    while !cleaned(world).last().is_some_and(|&(.., is_last)| is_last) {
        world.poll();
        if world.can_complete(PAGING) {
            let took = time_of(cleaned(world).last().unwrap().2);
            world.now += took;
            busy += took;
            world.complete(PAGING);
        } else {
            world.now = world.vidmm.next_wake().expect("the rest is to be cleaned");
        }
    }
    busy
}

/// Lets the time come at which a chunk is under way.
fn begin_a_chunk(world: &mut World) {
    world.poll();
    while cleaned(world).is_empty() {
        world.now = world.vidmm.next_wake().expect("there is something to clean");
        world.poll();
    }
}

/// Of the last eviction of an allocation, whether the content was copied.
fn was_copied(world: &World, id: AllocationId) -> bool {
    let copied = |event: &Event| match *event {
        Event::Evicted { allocation, copied, .. } if allocation == id => Some(copied),
        _ => None,
    };
    world.events.iter().rev().find_map(copied).expect("it was evicted")
}

#[test]
fn the_eviction_of_clean_content_copies_nothing_and_loses_nothing() {
    let (mut world, client) = world(16);
    let (cold, at) = written(&mut world, client, 12, 7);
    world.wait(100 * MILLISECOND);
    assert_eq!(cleaned(&world), [(cold, 0, 12 * PAGE_SIZE, true)]);
    let copied = world.vidmm.statistics();
    assert_eq!((copied.bytes_cleaned, copied.bytes_paged_out), (12 * PAGE_SIZE, 12 * PAGE_SIZE));
    squeeze(&mut world, 16);
    assert!(!was_copied(&world, cold), "its backing store is right");
    assert_eq!(world.vidmm.statistics().bytes_paged_out, copied.bytes_paged_out);
    world.bring_in(client, &[cold]);
    assert_eq!(read(&mut world, client, at), 7);
    world.tear_down();
}

#[test]
fn content_that_is_written_again_is_copied_by_the_eviction() {
    let (mut world, client) = world(16);
    let (cold, at) = written(&mut world, client, 12, 7);
    world.wait(100 * MILLISECOND);
    world.bring_in(client, &[cold]);
    write(&mut world, client, at, 8);
    world.evict(client, &[cold], IF_NECESSARY).unwrap();
    squeeze(&mut world, 16);
    assert!(was_copied(&world, cold));
    world.bring_in(client, &[cold]);
    assert_eq!(read(&mut world, client, at), 8);
}

#[test]
fn nothing_is_cleaned_while_memory_is_free_nor_without_the_drivers_consent() {
    let write_behind = WriteBehind { watermark_percent: 25, link_percent: 25 };
    let (mut roomy, client) = world_of(Config { write_behind, ..Config::pages(64) });
    written(&mut roomy, client, 12, 7);
    roomy.wait(100 * MILLISECOND);
    assert_eq!(cleaned(&roomy), [], "more than half of the memory is free");

    let (mut foreign, client) = world_of(Config::pages(16));
    written(&mut foreign, client, 12, 7);
    foreign.wait(100 * MILLISECOND);
    assert_eq!(cleaned(&foreign), []);
}

#[test]
fn an_offered_a_locked_and_a_listed_allocation_are_not_cleaned() {
    let write_behind = WriteBehind { watermark_percent: 100, link_percent: 25 };
    let (mut world, client) = world_of(Config { write_behind, cpu_visible: true, ..Config::pages(16) });
    let locked = world.create_flagged(client, Place::Local, 4, AllocationFlags::CPU_VISIBLE).unwrap();
    let at = world.map(client, locked);
    world.bring_in(client, &[locked]);
    write(&mut world, client, at, 1);
    world.evict(client, &[locked], IF_NECESSARY).unwrap();
    world.lock(client, locked).unwrap();
    let (offered, at) = world.resident(client, 4);
    write(&mut world, client, at, 2);
    world.offer(client, &[offered], OfferPriority::Low).unwrap();
    let (_listed, at) = world.resident(client, 8);
    write(&mut world, client, at, 3);
    world.wait(100 * MILLISECOND);
    assert_eq!(cleaned(&world), []);
    world.unlock(locked).unwrap();
    world.wait(100 * MILLISECOND);
    assert_eq!(cleaned(&world), [(locked, 0, 4 * PAGE_SIZE, true)]);
}

#[test]
fn a_copy_waits_for_running_work_of_the_allocation() {
    let (mut world, client) = world(16);
    let (cold, at) = world.resident(client, 12);
    world.submit(client, &[Access::Write(at, 7)]);
    world.evict(client, &[cold], IF_NECESSARY).unwrap();
    world.wait(100 * MILLISECOND);
    assert_eq!(cleaned(&world), [], "the work may still write");
    world.run_all();
    world.wait(100 * MILLISECOND);
    assert_eq!(cleaned(&world).len(), 1);
}

#[test]
fn a_copy_waits_until_work_with_system_memory_on_its_list_is_done() {
    let (mut world, client) = world(16);
    written(&mut world, client, 12, 7);
    let other = world.client();
    let seen = world.create(other, Place::System, 4, SILENT);
    world.bring_in(other, &[seen]);
    let copies = world.context(other, COPY);
    world.submit_to(copies, &[Access::Tag(1)], &[], &[]);
    world.wait(100 * MILLISECOND);
    assert_eq!(cleaned(&world), [], "the copy engine may use the bus");
    world.run_all();
    world.wait(100 * MILLISECOND);
    assert_eq!(cleaned(&world).len(), 1);
}

#[test]
fn a_large_allocation_is_cleaned_in_chunks_of_250_us() {
    let (mut world, client) = world(256);
    let (cold, at) = written(&mut world, client, 200, 7);
    // 64 KiB take 25 us.
    clean_all(&mut world, |bytes| bytes * 25_000 / (64 << 10));
    let parts = cleaned(&world);
    assert!(parts.len() > 2, "{parts:?}");
    let mut next = 0;
    for &(allocation, offset, size, is_last) in &parts {
        assert_eq!((allocation, offset, is_last), (cold, next, next + size == 200 * PAGE_SIZE));
        next += size;
    }
    assert_eq!((parts[0].2, parts[1].2), (64 << 10, 640 << 10), "the first chunk shows how much 250 us are");
    squeeze(&mut world, 256);
    world.bring_in(client, &[cold]);
    assert_eq!(read(&mut world, client, at), 7);
}

#[test]
fn copies_take_their_share_of_the_time_and_no_more() {
    let (mut world, client) = world(256);
    written(&mut world, client, 200, 7);
    let began = world.now;
    // A chunk of 64 KiB takes 100 ms: the first ones take the share of a second, and the others wait for theirs.
    let busy = clean_all(&mut world, |_| 100 * MILLISECOND);
    assert_eq!(busy, 1300 * MILLISECOND);
    let time = world.now - began;
    let needed = 4 * (busy - 250 * MILLISECOND);
    assert!((needed - 400 * MILLISECOND..needed + 400 * MILLISECOND).contains(&time), "{time}");
}

#[test]
fn a_request_between_two_chunks_waits_for_none_and_voids_the_parts() {
    let (mut world, client) = world(256);
    let (cold, at) = written(&mut world, client, 200, 7);
    begin_a_chunk(&mut world);
    // The allocation is in place: nobody waits for the copy.
    let residency = world.make_resident(client, &[cold]).unwrap();
    assert_eq!(residency, Residency::Resident);
    world.submit(client, &[Access::Write(at, 8)]);
    world.poll();
    world.complete(RENDER);
    world.evict(client, &[cold], IF_NECESSARY).unwrap();
    clean_all(&mut world, |_| MILLISECOND);
    let offsets: Vec<u64> = cleaned(&world).iter().map(|&(_, offset, ..)| offset).collect();
    assert_eq!(offsets[..3], [0, 0, 64 << 10], "what was clean in part was written");
    squeeze(&mut world, 256);
    assert!(!was_copied(&world, cold));
    world.bring_in(client, &[cold]);
    assert_eq!(read(&mut world, client, at), 8);
}

/// An occurrence while the only chunk of a written allocation is under way.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Meanwhile {
    Nothing,
    Write,
    Eviction,
    Offer,
    PowerDown,
    EngineReset,
}

#[test]
fn content_is_clean_when_the_copy_has_ended_without_a_write_and_no_earlier() {
    use Meanwhile::*;
    for meanwhile in [Nothing, Write, Eviction, Offer, PowerDown, EngineReset] {
        let (mut world, client) = world(16);
        let other = world.client();
        let all = world.allocate(other, 16);
        let (cold, at) = written(&mut world, client, 12, 7);
        begin_a_chunk(&mut world);
        assert_eq!(cleaned(&world), [(cold, 0, 12 * PAGE_SIZE, true)]);
        match meanwhile {
            Nothing => world.complete(PAGING),
            Write => {
                assert_eq!(world.make_resident(client, &[cold]).unwrap(), Residency::Resident);
                world.submit(client, &[Access::Write(at, 8)]);
                world.poll();
                world.complete(PAGING);
                world.complete(RENDER);
                world.evict(client, &[cold], IF_NECESSARY).unwrap();
            }
            Eviction => {
                let _: Residency = world.make_resident(other, &[all]).unwrap();
                world.run_all();
                world.destroy(all);
            }
            Offer => {
                world.offer(client, &[cold], OfferPriority::Low).unwrap();
                world.run_all();
                let _: Reclaimed = world.reclaim(client, &[cold]).unwrap();
            }
            PowerDown => {
                world.call(|vidmm, _, _| vidmm.power_down());
                world.run_all();
                world.call(|vidmm, _, _| vidmm.power_up());
            }
            EngineReset => {
                world.submit(other, &[Access::Tag(1)]);
                world.poll();
                world.fault(RENDER, 0xBAD_0000);
                world.run_all();
                let is_reset = |event: &Event| matches!(event, Event::EngineReset { .. });
                assert!(world.events.iter().any(is_reset), "the engine of kernels was reset");
            }
        }
        squeeze(&mut world, 16);
        let is_copied = matches!(meanwhile, Write | Eviction | PowerDown);
        assert_eq!(was_copied(&world, cold), is_copied, "{meanwhile:?}");
        world.bring_in(client, &[cold]);
        assert_eq!(read(&mut world, client, at), if meanwhile == Write { 8 } else { 7 }, "{meanwhile:?}");
        world.tear_down();
    }
}

#[test]
fn an_allocation_destroyed_or_discarded_during_a_copy_loses_the_store_after_the_copy() {
    for is_discarded in [false, true] {
        let (mut world, client) = world(16);
        let (cold, _) = written(&mut world, client, 12, 7);
        begin_a_chunk(&mut world);
        let store = world.backing_store_bytes();
        if is_discarded {
            let flags = OfferFlags::OFFER_IMMEDIATELY | OfferFlags::ALLOW_DECOMMIT;
            world.offer_with(client, &[cold], OfferPriority::Low, flags).unwrap();
        } else {
            world.destroy(cold);
        }
        world.poll();
        assert_eq!(world.backing_store_bytes(), store, "the copy goes there");
        world.run_all();
        assert_eq!(world.backing_store_bytes(), store - 12 * PAGE_SIZE);
        world.tear_down();
    }
}

/// CRE-50: an allocation has to leave local memory while a chunk is under way, or when the chunk has ended.
#[test]
fn an_allocation_that_must_move_during_a_copy_keeps_its_content() {
    for is_over in [false, true] {
        let write_behind = WriteBehind { watermark_percent: 50, link_percent: 25 };
        let (mut world, client) = world_of(Config { write_behind, ..Config::discrete(16, 32) });
        let (cold, at) = world.create_resident(client, Place::LocalOrSystem, 12, SILENT);
        write(&mut world, client, at, 7);
        world.evict(client, &[cold], IF_NECESSARY).unwrap();
        begin_a_chunk(&mut world);
        assert_eq!(cleaned(&world), [(cold, 0, 12 * PAGE_SIZE, true)]);
        if is_over {
            world.complete(PAGING);
        }
        let system = SegmentSet::of(world.config.aperture());
        let update = UpdateAllocationProperty { supported_segment_set: Some(system), preferred_segment: None };
        let queue = client.queue;
        let value = world.call(|vidmm, driver, _| vidmm.update_allocation_property(driver, queue, cold, &update));
        assert!(value.unwrap() > 0);
        world.run_all();
        assert_eq!(was_copied(&world, cold), !is_over);
        world.bring_in(client, &[cold]);
        assert_eq!(world.placed[&cold], SegmentId::SYSTEM);
        assert_eq!(read(&mut world, client, at), 7);
        world.tear_down();
    }
}

#[test]
fn a_reset_loses_content_unless_the_copy_has_ended() {
    for is_over in [false, true] {
        let (mut world, client) = world(16);
        let other = world.client();
        let wanted = world.allocate(other, 1);
        let (cold, _) = written(&mut world, client, 12, 7);
        begin_a_chunk(&mut world);
        if is_over {
            world.complete(PAGING);
        }
        let _: Residency = world.make_resident(other, &[wanted]).unwrap();
        world.poll();
        world.fault(PAGING, 0xBAD_0000);
        world.run_all();
        let is_loss = |event: &Event| matches!(event, Event::ContentLost { allocation, .. } if *allocation == cold);
        assert_eq!(world.events.iter().any(is_loss), !is_over);
    }
}

/// Before, a chunk that a reset ended early told of a bus that was too fast, and the next chunk took longer than 250 us.
#[test]
fn a_chunk_that_a_reset_ends_does_not_tell_the_speed_of_the_bus() {
    let (mut world, client) = world(256);
    let other = world.client();
    let wanted = world.allocate(other, 1);
    written(&mut world, client, 200, 7);
    begin_a_chunk(&mut world);
    let first = cleaned(&world)[0].2;
    let _: Residency = world.make_resident(other, &[wanted]).unwrap();
    world.poll();
    world.fault(PAGING, 0xBAD_0000);
    world.run_all();
    // The reset has put the earlier devices in error.
    let client = world.client();
    written(&mut world, client, 200, 8);
    let before = cleaned(&world).len();
    while cleaned(&world).len() == before {
        world.poll();
        world.now = world.vidmm.next_wake().unwrap_or(world.now);
    }
    assert_eq!(cleaned(&world)[before].2, first);
}

#[test]
fn cleaning_in_vain_lowers_the_watermark() {
    let (mut world, client) = world(16);
    let (cold, at) = written(&mut world, client, 12, 0);
    for token in 1..20 {
        world.wait(100 * MILLISECOND);
        world.bring_in(client, &[cold]);
        write(&mut world, client, at, token);
        world.evict(client, &[cold], IF_NECESSARY).unwrap();
        world.run_all();
    }
    assert!(cleaned(&world).len() < 4, "content that is always written again is left alone: {:?}", cleaned(&world));
}

/// A policy that never wants anything cleaned.
#[derive(Debug)]
struct Never;

impl Policy for Never {
    fn rank(&self, _: usize) -> u64 {
        0
    }
    fn cleans(&self, _: Candidate) -> bool {
        false
    }
}

#[test]
fn a_policy_may_refuse_a_copy() {
    let (mut world, client) = world(16);
    world.vidmm.set_policy(Box::new(Never)).unwrap();
    written(&mut world, client, 12, 7);
    world.wait(100 * MILLISECOND);
    assert_eq!(cleaned(&world), []);
}
