//! The properties of an allocation that change later: its priority, and the segments that it may be in (CRE-31, 2.6).

use crate::world::*;
use vidmm::contract::{SegmentPreference, SegmentSet};
use vidmm::event::EvictReason;
use vidmm::*;

const HIGH: u32 = 0xA000_0000;

fn update(
    world: &mut World,
    client: Client,
    allocation: AllocationId,
    update: UpdateAllocationProperty,
) -> Result<u64, UpdateError> {
    world.call(|vidmm, driver, _| vidmm.update_allocation_property(driver, client.queue, allocation, &update))
}

fn set(set: SegmentSet) -> UpdateAllocationProperty {
    UpdateAllocationProperty { supported_segment_set: Some(set), preferred_segment: None }
}

/// A world with an allocation that may be in local memory or in system memory, and both sets.
fn both() -> (World, Client, AllocationId, u64, [SegmentSet; 2]) {
    let mut world = World::new(Config::discrete(8, 32));
    let client = world.client();
    let (allocation, at) = world.create_resident(client, Place::LocalOrSystem, 4, SILENT);
    world.submit(client, &[Access::Write(at, 7)]);
    world.run_all();
    let sets = [SegmentSet::of(LOCAL), SegmentSet::of(world.config.aperture())];
    (world, client, allocation, at, sets)
}

/// CRE-31a: the priority decides who goes first, also of what may be evicted already.
#[test]
fn a_higher_priority_stays_longer() {
    let (mut world, client) = World::with_pages(8);
    let [a, b] = [(); 2].map(|()| world.resident(client, 4).0);
    world.evict(client, &[a, b], IF_NECESSARY).unwrap();
    world.call(|vidmm, _, _| vidmm.set_allocation_priority(a, HIGH)).unwrap();
    world.resident(client, 4);
    assert_eq!(world.evicted(), [(b, EvictReason::RoomWanted)]);
    let none = UpdateError::Impossible(AllocationInfoRule::Priority);
    assert_eq!(world.call(|vidmm, _, _| vidmm.set_allocation_priority(a, 0)), Err(none), "CRE-05");
    world.tear_down();
}

/// CRE-50: it leaves the segment where it may not be any more, with its content, and the fence says when it has.
#[test]
fn an_allocation_leaves_a_segment_that_is_no_longer_its() {
    let (mut world, client, a, at, [_, system]) = both();
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    let value = update(&mut world, client, a, set(system)).unwrap();
    assert!(value > 0);
    world.run_all();
    assert_eq!(world.paging_fence(client), value);
    assert_eq!(world.evicted(), [(a, EvictReason::PropertyUpdated)]);
    world.bring_in(client, &[a]);
    assert_eq!(world.placed[&a], SegmentId::SYSTEM);
    assert_eq!(world.token(client, at), Some(7));
    world.tear_down();
}

/// CRE-51: the same value again is ignored; what may stay where it is changes at once.
#[test]
fn a_change_that_moves_nothing_is_made_at_once() {
    let (mut world, client, a, _, [local, system]) = both();
    let both = SegmentSet(local.0 | system.0);
    world.driver.vetoes = true;
    assert_eq!(update(&mut world, client, a, set(both)), Ok(0), "the driver is not asked");
    world.driver.vetoes = false;
    assert_eq!(update(&mut world, client, a, set(local)), Ok(0));
    assert_eq!(update(&mut world, client, a, set(both)), Ok(0));
    world.run_all();
    assert_eq!(world.evicted(), []);
    world.tear_down();
}

/// CRE-50: an allocation that prefers another segment from now on goes there when it joins the list again.
#[test]
fn a_preference_is_followed_when_the_list_is_joined_again() {
    let (mut world, client, a, at, _) = both();
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    let aperture = world.config.aperture();
    let none = SegmentId::SYSTEM;
    let preferred_segment = Some(SegmentPreference::of([aperture, none, none, none, none]));
    let change = UpdateAllocationProperty { supported_segment_set: None, preferred_segment };
    assert_eq!(update(&mut world, client, a, change), Ok(0));
    world.bring_in(client, &[a]);
    assert_eq!(world.placed[&a], SegmentId::SYSTEM);
    assert_eq!(world.token(client, at), Some(7));
    world.tear_down();
}

/// CRE-50, CRE-51: a change that is impossible, vetoed, or not built yet, changes nothing.
#[test]
fn a_refused_change_changes_nothing() {
    let (mut world, client, a, _, [local, system]) = both();
    let other = world.client();
    assert_eq!(update(&mut world, other, a, set(system)), Err(UpdateError::WrongDevice));
    for impossible in [SegmentSet(0), SegmentSet(1 << 9)] {
        let rule = AllocationInfoRule::SegmentSet(impossible.0);
        assert_eq!(update(&mut world, client, a, set(impossible)), Err(UpdateError::Impossible(rule)));
    }
    let none = SegmentId::SYSTEM;
    let preferred_segment = Some(SegmentPreference::of([world.config.aperture(), none, none, none, none]));
    let outside = UpdateAllocationProperty { supported_segment_set: Some(local), preferred_segment };
    let rule = AllocationInfoRule::PreferredSegment(world.config.aperture().0);
    assert_eq!(update(&mut world, client, a, outside), Err(UpdateError::Impossible(rule)));
    assert!(matches!(update(&mut world, client, a, set(system)), Err(UpdateError::NotSupported(_))), "it is required");
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    world.driver.vetoes = true;
    assert_eq!(update(&mut world, client, a, set(system)), Err(UpdateError::Vetoed));
    world.run_all();
    assert_eq!(world.evicted(), []);
    world.tear_down();
}

/// RES-55: an allocation that would rather be elsewhere is not placed anew while something outstanding needs it where
/// it is, and its device does not yield for it again and again.
#[test]
fn no_device_yields_for_a_placement_that_cannot_be() {
    let mut world = World::new(Config::discrete(24, 24));
    let client = world.client();
    let other = world.sibling(client);
    let [a, b] = [0, 1].map(|_| world.create(other, Place::System, 3, SILENT));
    let both = SegmentSet(SegmentSet::of(LOCAL).0 | SegmentSet::of(world.config.aperture()).0);
    let _ = world.make_resident(other, &[a]).unwrap();
    let none = SegmentId::SYSTEM;
    let preferred_segment = Some(SegmentPreference::of([LOCAL, none, none, none, none]));
    let change = UpdateAllocationProperty { supported_segment_set: Some(both), preferred_segment };
    update(&mut world, other, a, change).unwrap();
    let _ = world.cant_trim(other, &[b]).unwrap();
    let fence = world.fence();
    let waits = vec![FenceValueDesc { fence, value: 1 }];
    let desc = SubmitDesc { waits, ..SubmitDesc::default() };
    world.call(|vidmm, _, _| vidmm.submit(client.context, desc)).unwrap();
    world.run_all();
    let yields = world.vidmm.statistics().yields;
    assert!(yields <= 2, "it yields {yields} times");
    assert_eq!(world.placed[&a], LOCAL, "it comes back when nothing needs it where it was");
    world.call(|vidmm, _, _| vidmm.signal_monitored_fence(fence, 1)).unwrap();
    world.run_all();
    world.tear_down();
}
