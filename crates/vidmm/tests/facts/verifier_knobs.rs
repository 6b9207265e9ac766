//! The verifier's knobs: the consequence of a client's mistake comes at once (RES-25).

use crate::world::*;
use vidmm::event::EvictReason;
use vidmm::*;

const SYNCHRONOUS: VerifierKnobs = VerifierKnobs { force_synchronous_evict: true, ..NONE };
const NEVER_DEFERRED: VerifierKnobs = VerifierKnobs { never_defer_evictions: true, ..NONE };
const DISCARDED: VerifierKnobs = VerifierKnobs { always_discard_offer: true, ..NONE };
const NONE: VerifierKnobs = VerifierKnobs {
    force_synchronous_evict: false,
    never_defer_evictions: false,
    always_discard_offer: false,
    restrict_budget_local: None,
    restrict_budget_non_local: None,
};

/// A world with these knobs, and a client with an allocation that holds the token 7; and where.
fn world_with(verifier: VerifierKnobs) -> (World, Client, AllocationId, u64) {
    let mut world = World::new(Config { verifier, ..Config::pages(8) });
    let client = world.client();
    let (allocation, at) = world.resident(client, 4);
    write(&mut world, client, at, 7);
    (world, client, allocation, at)
}

/// RES-25: an Evict that need not take effect does, and the content comes back as it was.
#[test]
fn evictions_are_never_deferred() {
    for (verifier, goes) in [(NONE, false), (NEVER_DEFERRED, true), (SYNCHRONOUS, true), (DISCARDED, false)] {
        let (mut world, client, a, at) = world_with(verifier);
        world.evict(client, &[a], IF_NECESSARY).unwrap();
        world.run_all();
        let evicted = if goes { vec![(a, EvictReason::EvictRequested)] } else { vec![] };
        assert_eq!(world.evicted(), evicted, "{verifier:?}");
        world.bring_in(client, &[a]);
        assert_eq!(read(&mut world, client, at), 7);
        world.tear_down();
    }
}

/// Evicts or offers, as each knob is about.
fn give_up(world: &mut World, client: Client, allocation: AllocationId, verifier: VerifierKnobs) {
    match verifier.always_discard_offer {
        true => world.offer(client, &[allocation], OfferPriority::High).unwrap(),
        false => world.evict(client, &[allocation], IF_NECESSARY).unwrap(),
    }
}

/// RES-25: work that is submitted after an Evict, or an Offer, begins when that has taken effect: also another process's work.
#[test]
fn no_work_begins_while_anything_is_on_its_way_out() {
    for (verifier, waits) in [(NEVER_DEFERRED, false), (SYNCHRONOUS, true), (DISCARDED, true)] {
        let (mut world, client, a, _) = world_with(verifier);
        let other = world.client();
        give_up(&mut world, client, a, verifier);
        world.submit(other, &[Access::Tag(1)]);
        world.poll();
        assert_eq!(world.can_complete(RENDER), !waits, "{verifier:?}");
        world.run_paging();
        world.complete(RENDER);
        assert_eq!((world.read.as_slice(), world.placed.contains_key(&a)), (&[1][..], false));
        world.tear_down();
    }
}

/// RES-20, RES-61: the work that was submitted before ends first; what is submitted later is not handed out before.
#[test]
fn nothing_goes_before_the_work_that_was_submitted_before() {
    for verifier in [SYNCHRONOUS, DISCARDED] {
        let (mut world, client, a, at) = world_with(verifier);
        world.submit(client, &[Access::Read(at)]);
        world.poll();
        give_up(&mut world, client, a, verifier);
        world.submit(client, &[Access::Tag(1)]);
        world.poll();
        assert!(world.translate(client, at).is_some(), "{verifier:?}");
        world.complete(RENDER);
        assert_eq!(world.read, [7]);
        assert!(!world.can_complete(RENDER), "{verifier:?}");
        world.run_all();
        assert_eq!((world.read.as_slice(), world.translate(client, at)), (&[7, 1][..], None));
        world.tear_down();
    }
}

/// RES-60: an offered allocation loses its content, whatever its flags say, and no other does.
#[test]
fn offered_content_is_always_discarded() {
    for (verifier, result) in [(DISCARDED, ReclaimResult::Discarded), (NEVER_DEFERRED, ReclaimResult::Ok)] {
        let (mut world, client, a, at) = world_with(verifier);
        world.offer(client, &[a], OfferPriority::High).unwrap();
        world.run_all();
        assert_eq!(world.reclaim(client, &[a]).unwrap().results, [result]);
        world.run_paging();
        assert_eq!(read(&mut world, client, at), if result == ReclaimResult::Ok { 7 } else { 0 });
        world.tear_down();
    }
}

/// RES-25, RES-50: budgets are those of a smaller memory, and a list above them is accepted all the same.
#[test]
fn a_restricted_budget_restricts_no_list() {
    let local = VerifierKnobs { restrict_budget_local: Some(2 * PAGE_SIZE), ..NONE };
    let non_local = VerifierKnobs { restrict_budget_non_local: Some(2 * PAGE_SIZE), ..NONE };
    for (verifier, group) in [(local, MemorySegmentGroup::Local), (non_local, MemorySegmentGroup::NonLocal)] {
        let mut world = World::new(Config { verifier, ..Config::discrete(8, 8) });
        let client = world.client();
        for place in [Place::Local, Place::System] {
            world.create_resident(client, place, 4, SILENT);
        }
        for of in [MemorySegmentGroup::Local, MemorySegmentGroup::NonLocal] {
            let info = world.vidmm.query_video_memory_info(client.process, of).unwrap();
            assert_eq!(info.budget <= 2 * PAGE_SIZE, of == group, "{of:?} of {verifier:?}: {info:?}");
            assert_eq!(info.current_usage, 4 * PAGE_SIZE);
        }
        world.tear_down();
    }
}
