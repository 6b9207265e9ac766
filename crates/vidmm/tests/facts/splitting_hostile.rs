//! Patch-location lists that break a rule: refused before anything is submitted, and nobody else is harmed (P38, U-44, U-45).

use crate::patching::*;
use vidmm::{contract::PatchLocation, *};

/// A DMA buffer of two split points with two references each: locations 0 and 1 in bytes 0 to 96, 2 and 3 in 96 to 192.
fn world() -> (World, Client, RenderDesc) {
    let mut world = World::new(Config { slots: 4, ..Config::pages(8) });
    let client = world.client();
    let [first, second] = [2; 2].map(|pages| world.local(client, pages));
    let writer = Writer::new().split().write(0, first, 0, 1).read(1, second, 0);
    let desc = writer.split().read(2, first, 0).read(3, second, 1).finish();
    assert_eq!(desc.command.len(), 192);
    (world, client, desc)
}

/// The driver gives out a list that was changed in one place: it is refused, for `rule`, at `position`.
#[track_caller]
fn is_refused(position: usize, rule: PatchListRule, change: impl FnOnce(&mut Vec<PatchLocation>)) {
    let (mut world, client, desc) = world();
    let other = world.client();
    let theirs = world.local(other, 8);
    world.render(other.context, Writer::new().split().write(0, theirs, 7, 4).finish());
    let mut locations = desc.patch_locations.clone();
    change(&mut locations);
    world.driver.patch_locations = Some(locations);
    let refused = world.try_render(client.context, desc.clone());
    assert_eq!(refused, Err(RenderError::PatchLocationList { position, rule }));
    world.run_all();
    assert_eq!(world.errors(), [DeviceErrorReason::PatchLocationList { rule }]);
    assert_eq!(world.portions().len(), 1, "only the other device's");
    assert!(matches!(world.try_render(client.context, desc), Err(RenderError::DeviceInError(_))));
    world.render(other.context, Writer::new().split().read(0, theirs, 7).finish());
    world.run_all();
    assert_eq!(world.read, [4], "others go on");
    assert_eq!(world.vidmm.driver_findings(), [DriverFinding::PatchLocationList { position, rule }]);
}

#[test]
fn the_list_as_it_was_is_accepted() {
    let (mut world, client, desc) = world();
    world.render(client.context, desc);
    world.run_all();
    assert_eq!((world.errors(), world.read.len()), (vec![], 3));
}

#[test]
fn a_split_offset_past_the_end_is_refused() {
    is_refused(3, PatchListRule::SplitOffset, |list| list[3].split_offset = 193);
    is_refused(3, PatchListRule::SplitOffset, |list| list[3].split_offset = u32::MAX);
}

#[test]
fn an_allocation_index_beyond_the_list_is_refused() {
    is_refused(1, PatchListRule::AllocationIndex, |list| list[1].allocation_index = 4);
    is_refused(0, PatchListRule::AllocationIndex, |list| list[0].allocation_index = u32::MAX);
}

#[test]
fn a_slot_beyond_the_table_is_refused() {
    is_refused(2, PatchListRule::SlotId, |list| list[2].slot_id = 4);
    is_refused(2, PatchListRule::SlotId, |list| list[2].slot_id = u32::MAX);
}

#[test]
fn decreasing_split_offsets_are_refused() {
    is_refused(3, PatchListRule::DecreasingSplitOffset, |list| list[3].split_offset = 95);
    is_refused(2, PatchListRule::DecreasingSplitOffset, |list| {
        list[1] = PatchLocation { split_offset: 96, patch_offset: 96 + 40, ..list[1] };
        list[2] = PatchLocation { split_offset: 0, ..list[2] };
        list[3] = PatchLocation { split_offset: 0, ..list[3] };
    });
}

#[test]
fn an_address_outside_what_its_binding_is_for_is_refused() {
    is_refused(2, PatchListRule::PatchOffset, |list| list[2].patch_offset = 95);
    is_refused(1, PatchListRule::PatchOffset, |list| list[1].patch_offset = 96);
    is_refused(1, PatchListRule::PatchOffset, |list| list[1].patch_offset = 96 - 7);
    is_refused(3, PatchListRule::PatchOffset, |list| list[3].patch_offset = 192 - 7);
    is_refused(3, PatchListRule::PatchOffset, |list| list[3].patch_offset = u32::MAX);
    is_refused(0, PatchListRule::PatchOffset, |list| list[0].patch_offset = u32::MAX);
}

#[test]
fn a_binding_at_the_very_end_has_no_room_for_its_address_but_an_unbinding_has() {
    is_refused(3, PatchListRule::PatchOffset, |list| list[3].split_offset = 192);
    let (mut world, client, mut desc) = world();
    desc.allocations.push(AllocationListDesc { allocation: None, write_operation: false });
    let unbinding = PatchLocation { allocation_index: 4, slot_id: 3, split_offset: 192, ..PatchLocation::default() };
    desc.patch_locations.push(unbinding);
    world.render(client.context, desc);
    world.run_all();
    assert_eq!((world.errors(), world.portions()), (vec![], vec![(0, 192)]));
}

#[test]
fn random_lists_never_harm_another_device() {
    let mut random = random::Random(38);
    let (mut refused, mut accepted) = (0, 0);
    for _ in 0..2000 {
        let (mut world, client, desc) = world();
        let other = world.client();
        let theirs = world.local(other, 8);
        let mut locations = desc.patch_locations.clone();
        for _ in 0..1 + random.below(2) {
            let at = random.below(locations.len() as u64) as usize;
            let near = [0, 1, 4, 8, 88, 96, 97, 104, 136, 184, 192, 200, 1 << 24, u32::MAX];
            let value = near[random.below(near.len() as u64) as usize];
            match random.below(6) {
                0 => locations[at].allocation_index = value,
                1 => locations[at].slot_id = value,
                2 => locations[at].patch_offset = value,
                3 => locations[at].split_offset = value,
                4 => drop(locations.remove(at)),
                _ => locations.push(locations[at]),
            }
            if locations.is_empty() {
                break;
            }
        }
        world.driver.patch_locations = Some(locations.clone());
        world.ignoring = Some(RENDER);
        match world.try_render(client.context, desc) {
            Ok(_) => accepted += 1,
            Err(RenderError::PatchLocationList { .. }) => refused += 1,
            Err(error) => panic!("{error}: {locations:?}"),
        }
        let copy = world.context(other.device, COPY);
        world.render(copy, Writer::new().split().write(0, theirs, 7, 4).read(0, theirs, 7).finish());
        world.run_all();
        assert_eq!(world.read.last(), Some(&4));
        assert!(world.vidmm.is_idle());
    }
    assert!(refused > 500 && accepted > 300, "{refused} refused, {accepted} accepted");
}

#[test]
fn an_adapter_without_slots_or_with_more_than_ids_name_is_refused() {
    for slots in [0, (1 << 24) + 1, 1 << 31] {
        let refused = World::try_new(Config { slots, ..Config::default() }).err().expect("it is refused");
        assert_eq!(refused.broken_rules, [BrokenRule::SlotCount(slots)]);
    }
    for slots in [1, 1 << 24] {
        assert!(World::try_new(Config { slots, ..Config::default() }).is_ok());
    }
}

/// U-44: the slot whose id is the number of slots, only if that is asked for.
#[test]
fn the_slot_whose_id_is_the_number_of_slots_is_there_if_that_is_asked_for() {
    for accept_max_slot_id in [false, true] {
        let knobs = PreparationKnobs { accept_max_slot_id, ..PreparationKnobs::default() };
        let mut world = World::new(Config { slots: 4, knobs, ..Config::pages(8) });
        let client = world.client();
        let allocation = world.local(client, 1);
        let with_slot = |slot| Writer::new().split().read(slot, allocation, 0).finish();
        let answer = world.try_render(client.context, with_slot(4));
        assert_eq!(answer.is_ok(), accept_max_slot_id);
        if accept_max_slot_id {
            let rule = PatchListRule::SlotId;
            let refused = world.try_render(client.context, with_slot(5));
            assert_eq!(refused, Err(RenderError::PatchLocationList { position: 0, rule }));
        }
    }
}
