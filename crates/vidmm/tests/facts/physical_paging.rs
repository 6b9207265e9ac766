//! Paging without GPU virtual addresses: TRANSFER, FILL, DISCARD_CONTENT, and the aperture (BPB-20 to BPB-33, SEG-42 to SEG-45).

use crate::patching::*;
use vidmm::contract::*;
use vidmm::*;

fn kinds(world: &World) -> Vec<PagingOperationKind> {
    world.driver.operations.iter().map(PagingOperation::kind).collect()
}

/// Writes a token to the last page of an allocation, and ends.
fn write(world: &mut World, client: Client, allocation: AllocationId, page: u64, token: u64) {
    world.render(client.context, Writer::new().split().write(0, allocation, page, token).finish());
    world.run_all();
}

fn read(world: &mut World, client: Client, allocation: AllocationId, page: u64) -> u64 {
    world.render(client.context, Writer::new().split().read(0, allocation, page).finish());
    world.run_all();
    world.read.pop().expect("it was read")
}

/// An eviction segment set sends the content through the aperture, which shows the backing store meanwhile (SEG-45).
#[test]
fn content_leaves_through_the_aperture_if_its_driver_wants_that() {
    let mut world = World::new(Config::pages(4));
    let client = world.client();
    let set = SegmentSet::of(APERTURE);
    let a = world.create(client, AllocationInfo { eviction_segment_set: set, ..info(4, SegmentSet::of(LOCAL)) });
    let b = world.local(client, 4);
    write(&mut world, client, a, 3, 77);
    world.driver.operations.clear();
    write(&mut world, client, b, 0, 1);
    use PagingOperationKind::*;
    assert_eq!(kinds(&world), [MapApertureSegment, Transfer, UnmapApertureSegment, Fill]);
    let PagingOperation::Transfer(transfer) = world.driver.operations[1] else { unreachable!() };
    assert_eq!((transfer.source.segment, transfer.destination.segment), (LOCAL, APERTURE));
    assert_eq!(read(&mut world, client, a, 3), 77);
}

/// Without room in the aperture it goes to its page list, as without an eviction segment set.
#[test]
fn content_leaves_directly_where_the_aperture_has_no_room() {
    let mut world = World::new(Config { aperture_pages: 16, ..Config::pages(32) });
    let client = world.client();
    let set = SegmentSet::of(APERTURE);
    let a = world.create(client, AllocationInfo { eviction_segment_set: set, ..info(32, SegmentSet::of(LOCAL)) });
    let b = world.local(client, 32);
    write(&mut world, client, a, 31, 77);
    world.driver.operations.clear();
    write(&mut world, client, b, 0, 1);
    assert_eq!(kinds(&world), [PagingOperationKind::Transfer, PagingOperationKind::Fill]);
    assert_eq!(read(&mut world, client, a, 31), 77);
}

/// BPB-25, U-13: content that was not written is left behind, and the driver is told.
#[test]
fn clean_content_is_discarded() {
    let mut world = World::new(Config::pages(4));
    let client = world.client();
    let (a, b) = (world.local(client, 4), world.local(client, 4));
    assert_eq!(read(&mut world, client, a, 0), 0, "CRE-42: it reads as zero at first");
    world.driver.operations.clear();
    write(&mut world, client, b, 0, 1);
    assert_eq!(kinds(&world), [PagingOperationKind::DiscardContent, PagingOperationKind::Fill]);
    assert_eq!(read(&mut world, client, a, 0), 0);
    assert_eq!(read(&mut world, client, b, 0), 1);
}

/// SEG-44: from the end if the driver says so; a preference's direction overrides the flag.
#[test]
fn room_is_looked_for_from_the_end_that_the_driver_names() {
    let mut world = World::new(Config::pages(16));
    let client = world.client();
    let flags = AllocationFlags::FROM_END_OF_SEGMENT;
    let last = world.create(client, AllocationInfo { flags, ..info(4, SegmentSet::of(LOCAL)) });
    let mut preferred_segment = SegmentPreference::default();
    preferred_segment.segment_ids[0] = LOCAL;
    let first = world.create(client, AllocationInfo { flags, preferred_segment, ..info(4, SegmentSet::of(LOCAL)) });
    let writer = Writer::new().split().write(0, last, 0, 1).write(1, first, 0, 2);
    world.render(client.context, writer.finish());
    world.run_all();
    let places: Vec<u64> = world.events.iter().filter_map(placed).collect();
    assert_eq!(places, [12 * PAGE_SIZE, 0]);
}

/// SEG-43: banks in the order of the hints; beyond them anywhere.
#[test]
fn hinted_banks_come_first() {
    let bank_range_table = vec![4 * PAGE_SIZE, 8 * PAGE_SIZE];
    let mut world = World::new(Config { bank_range_table, ..Config::pages(16) });
    let client = world.client();
    let mut preferred_segment = SegmentPreference::default();
    preferred_segment.segment_ids[0] = LOCAL;
    let mut hinted_bank = SegmentBankPreference::default();
    (hinted_bank.banks[0], hinted_bank.banks[1]) = (2, 3);
    hinted_bank.directions[1] = Direction::FromEnd;
    let hinted = AllocationInfo { preferred_segment, hinted_bank, ..info(3, SegmentSet::of(LOCAL)) };
    let mut writer = Writer::new().split();
    for slot in 0..5 {
        let allocation = world.create(client, hinted);
        writer = writer.write(slot, allocation, 0, 1);
    }
    world.render(client.context, writer.finish());
    world.run_all();
    let places: Vec<u64> = world.events.iter().filter_map(placed).map(|offset| offset / PAGE_SIZE).collect();
    assert_eq!(places[..3], [4, 13, 10], "the second bank, then the third from its end");
    assert_eq!(places.len(), 5);
}

fn placed(event: &Event) -> Option<u64> {
    match event {
        Event::Placed { extents, .. } => Some(extents[0].offset),
        _ => None,
    }
}

/// BPB-30, BPB-33: an allocation in the aperture is mapped, not copied.
#[test]
fn system_memory_is_mapped_in_the_aperture() {
    let mut world = World::new(Config { aperture_pages: 16, ..Config::pages(4) });
    let client = world.client();
    let (a, b) = (
        world.create(client, info(16, SegmentSet::of(APERTURE))),
        world.create(client, info(16, SegmentSet::of(APERTURE))),
    );
    write(&mut world, client, a, 15, 7);
    write(&mut world, client, b, 15, 8);
    use PagingOperationKind::*;
    assert_eq!(kinds(&world), [MapApertureSegment, UnmapApertureSegment, MapApertureSegment]);
    assert_eq!((read(&mut world, client, a, 15), read(&mut world, client, b, 15)), (7, 8));
}

/// The rule that the driver's word on an allocation breaks.
fn broken(config: Config, info: AllocationInfo) -> AllocationInfoRule {
    let mut world = World::new(config);
    let client = world.client();
    world.driver.next_allocation = Some(info);
    let refused = world.call(|vidmm, driver, host| vidmm.create_allocation(driver, host, client.device, &[0u8; 0][..]));
    match refused {
        Err(CreateError::Violation(Violation::AllocationInfo { rule })) => rule,
        other => panic!("{other:?}"),
    }
}

/// SEG-45: only an aperture segment that there is can be named.
#[test]
fn an_eviction_segment_set_that_names_no_aperture_is_refused() {
    let without = Config { aperture_pages: 0, ..Config::pages(4) };
    for (config, set) in [(Config::pages(4), LOCAL), (Config::pages(4), SegmentId(9)), (without, APERTURE)] {
        let eviction_segment_set = SegmentSet::of(set);
        let info = AllocationInfo { eviction_segment_set, ..info(1, SegmentSet::of(LOCAL)) };
        assert_eq!(broken(config, info), AllocationInfoRule::EvictionSegmentSet(eviction_segment_set.0));
    }
}

/// SEG-43: a bank is one of the segment of first preference; one without a table has one.
#[test]
fn a_hint_at_a_bank_that_there_is_not_is_refused() {
    for (bank_range_table, bank) in [(vec![4 * PAGE_SIZE, 8 * PAGE_SIZE], 4), (vec![16 * PAGE_SIZE], 2), (vec![], 2)] {
        let mut hinted = info(1, SegmentSet::of(LOCAL));
        hinted.preferred_segment.segment_ids[0] = LOCAL;
        hinted.hinted_bank.banks = [1, bank, 0, 0];
        let config = Config { bank_range_table, ..Config::pages(16) };
        assert_eq!(broken(config, hinted), AllocationInfoRule::HintedBank(bank));
    }
}
