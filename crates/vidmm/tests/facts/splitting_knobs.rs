//! The switches that a driver author can set (SPL-13), and when Patch is called (PAT-10, PAT-14, U-47).

use crate::patching::*;
use vidmm::*;

const PLAIN: PreparationKnobs = PreparationKnobs {
    take_split_point: false,
    never_prepatch: false,
    always_repatch: false,
    expect_preparation_failure: false,
    accept_max_slot_id: false,
};

fn world(pages: u64, knobs: PreparationKnobs) -> (World, Client, Vec<AllocationId>) {
    let mut world = World::new(Config { knobs, ..Config::pages(pages) });
    let client = world.client();
    let allocations = (0..4).map(|_| world.local(client, 2)).collect();
    (world, client, allocations)
}

/// Reads the last page of each allocation, at a split point of its own.
fn read_each(allocations: &[AllocationId]) -> RenderDesc {
    let read = |writer: Writer, &allocation: &AllocationId| writer.split().read(0, allocation, 1);
    allocations.iter().fold(Writer::new(), read).finish()
}

const EACH: u32 = 2 * COMMAND_BYTES;

#[test]
fn every_split_point_is_taken_where_that_is_asked_for() {
    let (mut world, client, allocations) = world(1024, PreparationKnobs { take_split_point: true, ..PLAIN });
    world.render(client.context, read_each(&allocations));
    world.run_all();
    assert_eq!(world.portions(), [(0, EACH), (EACH, 2 * EACH), (2 * EACH, 3 * EACH), (3 * EACH, 4 * EACH)]);
    assert_eq!(world.read, [0; 4]);
}

/// Of a split point at either end of the buffer there is nothing to cut.
#[test]
fn no_portion_is_empty_although_every_split_point_is_taken() {
    let (mut world, client, allocations) = world(1024, PreparationKnobs { take_split_point: true, ..PLAIN });
    let mut desc = read_each(&allocations[..1]);
    desc.allocations.push(AllocationListDesc { allocation: None, write_operation: false });
    desc.patch_locations.push(contract::PatchLocation {
        allocation_index: 1,
        split_offset: EACH,
        ..Default::default()
    });
    world.render(client.context, desc);
    world.run_all();
    assert_eq!(world.portions(), [(0, EACH)]);
}

#[test]
fn patch_is_not_called_while_the_addresses_that_were_told_are_right() {
    let (mut world, client, allocations) = world(8, PLAIN);
    world.render(client.context, read_each(&allocations));
    world.run_all();
    assert_eq!(world.driver.told, [None; 4]);
    assert_eq!(world.driver.patches, [(0, 4 * EACH, 0, 4)], "nothing was known yet");
    world.render(client.context, read_each(&allocations));
    assert!(world.driver.told.iter().all(Option::is_some), "PAT-14");
    world.run_all();
    assert_eq!(world.driver.patches.len(), 1);
    assert_eq!(world.read, [0; 8]);
}

#[test]
fn patch_is_called_when_anything_has_moved_since_its_address_was_told() {
    let (mut world, client, allocations) = world(8, PLAIN);
    let write = |writer: Writer, (at, &id): (u64, &AllocationId)| writer.split().write(0, id, 1, at + 5);
    world.render(client.context, (0..).zip(&allocations).fold(Writer::new(), write).finish());
    world.run_all();
    let others: Vec<AllocationId> = (0..2).map(|_| world.local(client, 3)).collect();
    let both = Writer::new().split().read(0, others[0], 0).read(1, others[1], 0).finish();
    world.render(client.context, both);
    world.render(client.context, read_each(&allocations));
    let told = world.driver.told.clone();
    assert!(told.iter().all(Option::is_some), "they have not gone yet");
    world.driver.patches.clear();
    world.read.clear();
    world.run_all();
    assert_eq!(world.read, [0, 0, 5, 6, 7, 8]);
    assert!(world.driver.patches.iter().any(|&(.., count)| count == 4) || world.portions().len() > 2);
}

/// U-47: each portion is patched where its own split offsets are; together they are the whole list, in order.
#[test]
fn each_portion_is_patched_with_the_patch_locations_whose_split_offsets_are_in_it() {
    for knobs in [PLAIN, PreparationKnobs { take_split_point: true, ..PLAIN }] {
        let (mut world, client, allocations) = world(4, PreparationKnobs { always_repatch: true, ..knobs });
        let desc = read_each(&allocations);
        let locations = desc.patch_locations.clone();
        world.render(client.context, desc);
        world.run_all();
        let portions = world.portions();
        assert!(portions.len() >= 2);
        assert_eq!(world.driver.patches.len(), portions.len());
        let mut next = 0;
        for (&(start, end, first, count), portion) in world.driver.patches.iter().zip(portions) {
            assert_eq!(((start, end), first), (portion, next));
            next += count;
            let is_inside = |offset| start <= offset && offset < end;
            let inside = locations.iter().filter(|location| is_inside(location.split_offset)).count();
            assert_eq!(inside as u32, count);
        }
        assert_eq!(next, 4);
    }
}

#[test]
fn no_address_is_told_early_where_that_is_asked_for() {
    let (mut world, client, allocations) = world(8, PreparationKnobs { never_prepatch: true, ..PLAIN });
    for rendered in 1..=3 {
        world.render(client.context, read_each(&allocations));
        world.run_all();
        assert_eq!(world.driver.told, [None; 4]);
        assert_eq!(world.driver.patches.len(), rendered);
    }
}

#[test]
fn patch_is_always_called_where_that_is_asked_for() {
    let (mut world, client, allocations) = world(8, PreparationKnobs { always_repatch: true, ..PLAIN });
    for rendered in 1..=3 {
        world.render(client.context, read_each(&allocations));
        world.run_all();
        assert_eq!(world.driver.patches.len(), rendered);
    }
}

/// SPL-13: the failure is no finding. The part that can run has run, the rest is dropped, and nobody waits for it.
#[test]
fn a_buffer_that_cannot_be_brought_in_is_dropped_where_that_is_expected() {
    let (mut world, client, allocations) = world(6, PreparationKnobs { expect_preparation_failure: true, ..PLAIN });
    let fence = world.call(|vidmm, _, _| vidmm.create_monitored_fence(0)).unwrap();
    let writer = Writer::new().split().read(0, allocations[0], 0).split();
    let all = (0..).zip(&allocations).fold(writer, |writer, (slot, &id)| writer.read(slot, id, 0));
    let failing = RenderDesc { signals: vec![FenceValueDesc { fence, value: 3 }], ..all.finish() };
    world.render(client.context, failing);
    world.render(client.context, read_each(&allocations));
    world.run_all();
    assert!(world.vidmm.is_idle());
    assert_eq!(world.errors(), []);
    assert_eq!(world.vidmm.driver_findings(), []);
    assert_eq!(world.vidmm.monitored_fence_value(fence), Ok(3));
    assert_eq!(world.read.len(), 5, "one of the first portion, and all of the buffer behind it");
    let offset = EACH;
    let failed = |event: &&Event| matches!(event, Event::PreparationFailed { dma_buffer: 1, offset: at, bytes, .. } if (*at, *bytes) == (offset, 8 * PAGE_SIZE));
    assert_eq!(world.events.iter().filter(failed).count(), 1);
}

/// SPL-13: dropped work signals its fences in their order: not while work that was handed out before it runs.
#[test]
fn a_dropped_buffer_signals_after_what_came_before() {
    let (mut world, client, allocations) = world(6, PreparationKnobs { expect_preparation_failure: true, ..PLAIN });
    let fence = world.call(|vidmm, _, _| vidmm.create_monitored_fence(0)).unwrap();
    let writer = Writer::new().split().read(0, allocations[0], 0).split();
    let all = (0..).zip(&allocations).fold(writer, |writer, (slot, &id)| writer.read(slot, id, 0));
    world.render(client.context, RenderDesc { signals: vec![FenceValueDesc { fence, value: 3 }], ..all.finish() });
    world.poll();
    while world.complete(PAGING) {
        world.poll();
    }
    assert!(world.events.iter().any(|event| matches!(event, Event::PreparationFailed { .. })));
    assert_eq!(world.read.len(), 0, "the first portion has not run");
    assert_eq!(world.vidmm.monitored_fence_value(fence), Ok(0), "it says that the portion has ended");
    world.run_all();
    assert_eq!((world.read.len(), world.vidmm.monitored_fence_value(fence)), (1, Ok(3)));
}
