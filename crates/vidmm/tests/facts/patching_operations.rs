//! The operations without GPU virtual addresses: TRANSFER, FILL, DISCARD_CONTENT, and the aperture (BPB-20 to
//! BPB-25, BPB-30 to BPB-33); and where in a segment an allocation goes (SEG-31, SEG-42 to SEG-44).

use crate::patching::*;
use vidmm::{contract::*, *};

fn read(allocation: AllocationId, page: u64) -> RenderDesc {
    Writer::new().split().read(0, allocation, page).finish()
}

fn write(allocation: AllocationId, page: u64, token: u64) -> RenderDesc {
    Writer::new().split().write(0, allocation, page, token).finish()
}

fn run(world: &mut World, client: Client, desc: RenderDesc) {
    world.forget();
    world.render(client.context, desc);
    world.run_all();
}

/// BPB-24, BPB-25: first content is filled in; what was written is copied; what is clean is left behind without a copy.
#[test]
fn content_is_filled_copied_and_discarded_as_it_must_be() {
    let mut world = World::new(Config::pages(4));
    let client = world.client();
    let [first, second] = [4; 2].map(|pages| world.local(client, pages));
    use PagingOperationKind::{DiscardContent, Fill, Transfer};
    let counts = |world: &World| [Fill, Transfer, DiscardContent].map(|kind| world.operations(kind).len());
    run(&mut world, client, write(first, 3, 7));
    assert_eq!(counts(&world), [1, 0, 0]);
    run(&mut world, client, read(second, 3));
    assert_eq!(counts(&world), [1, 1, 0], "the first was written and goes with a copy");
    run(&mut world, client, read(first, 3));
    assert_eq!(counts(&world), [0, 1, 1], "nobody wrote the second");
    assert_eq!(world.read, [7]);
    run(&mut world, client, read(second, 3));
    assert_eq!(counts(&world)[1..], [0, 1], "the first has not been written since it was copied");
    assert_eq!(world.read, [0]);
    run(&mut world, client, read(first, 3));
    assert_eq!(world.read, [7]);
}

/// BPB-20, BPB-21: an allocation moves completely; the offset counts in the segment, and the page list's in system memory.
#[test]
fn a_large_allocation_moves_in_parts_from_its_start_to_its_end() {
    let pages = (160 << 20) / PAGE_SIZE;
    let mut world = World::new(Config::pages(pages));
    let client = world.client();
    let (large, other) = (world.local(client, pages - 1), world.local(client, 2));
    let mut writer = Writer::new().split();
    let tested = [0, 1, (64 << 20) / PAGE_SIZE - 1, (64 << 20) / PAGE_SIZE, (128 << 20) / PAGE_SIZE + 5, pages - 2];
    for page in tested {
        writer = writer.write(0, large, page, page + 1);
    }
    run(&mut world, client, writer.finish());
    run(&mut world, client, read(other, 0));
    let mut next = 0;
    for operation in world.operations(PagingOperationKind::Transfer) {
        let PagingOperation::Transfer(op) = operation else { unreachable!() };
        assert_eq!((op.transfer_offset, u64::from(op.mdl_offset)), (next, next / PAGE_SIZE));
        assert_eq!((op.source.segment, op.destination.segment), (LOCAL, SegmentId::SYSTEM));
        assert_eq!(op.flags.contains(TransferFlags::TRANSFER_START), next == 0);
        next += op.transfer_size;
        assert_eq!(op.flags.contains(TransferFlags::TRANSFER_END), next == (pages - 1) * PAGE_SIZE);
    }
    assert_eq!(next, (pages - 1) * PAGE_SIZE);
    assert!(world.operations(PagingOperationKind::Transfer).len() > 1);
    let back = tested.iter().fold(Writer::new().split(), |writer, &page| writer.read(0, large, page));
    run(&mut world, client, back.finish());
    assert_eq!(world.read, tested.map(|page| page + 1));
}

/// BPB-30, BPB-33: an allocation in system memory is mapped while it is used, and unmapped when its range is wanted.
#[test]
fn allocations_of_the_aperture_are_mapped_and_make_way_for_each_other() {
    let mut world = World::new(Config { aperture_pages: 32, ..Config::pages(4) });
    let client = world.client();
    let aperture = SegmentSet::of(APERTURE);
    let allocations: Vec<AllocationId> = (0..4).map(|_| world.create(client, info(16, aperture))).collect();
    let mut writer = Writer::new();
    for (at, &allocation) in (0..).zip(&allocations) {
        writer = writer.split().write(0, allocation, 15, at + 1).read(0, allocation, 15);
    }
    run(&mut world, client, writer.finish());
    assert_eq!(world.read, [1, 2, 3, 4]);
    assert_eq!(world.portions().len(), 2);
    assert_eq!(world.operations(PagingOperationKind::MapApertureSegment).len(), 4);
    assert_eq!(world.operations(PagingOperationKind::UnmapApertureSegment).len(), 2);
    assert_eq!(world.operations(PagingOperationKind::Transfer), []);
    let back = allocations.iter().fold(Writer::new(), |writer, &allocation| writer.split().read(0, allocation, 15));
    run(&mut world, client, back.finish());
    assert_eq!(world.read, [1, 2, 3, 4]);
}

/// An allocation that may be in either segment does not keep out one that may only be in one.
#[test]
fn allocations_allowed_in_the_aperture_make_way_for_those_allowed_only_in_memory() {
    let mut world = World::new(Config::pages(4));
    let client = world.client();
    let either = world.create(client, info(2, SegmentSet(0b11)));
    let local = world.local(client, 4);
    let both = Writer::new().split().write(0, either, 1, 5).write(1, local, 3, 6).read(0, either, 1).read(1, local, 3);
    run(&mut world, client, both.finish());
    assert_eq!(world.errors(), []);
    assert_eq!(world.read, [5, 6]);
}

/// And the other way round, where that is in the aperture already.
#[test]
fn allocations_allowed_in_memory_make_way_for_those_allowed_only_in_the_aperture() {
    let mut world = World::new(Config { aperture_pages: 32, ..Config::pages(32) });
    let client = world.client();
    let either = world.create(client, info(16, SegmentSet(0b11)));
    let local = world.local(client, 32);
    let in_aperture = world.create(client, info(32, SegmentSet::of(APERTURE)));
    let first = Writer::new().split().write(0, either, 15, 5).write(1, local, 3, 6);
    run(&mut world, client, first.finish());
    assert_eq!(world.events.iter().filter(|event| matches!(event, Event::Portion { .. })).count(), 1);
    let second = Writer::new().split().read(0, either, 15).write(1, in_aperture, 31, 7).read(1, in_aperture, 31);
    run(&mut world, client, second.finish());
    assert_eq!(world.errors(), []);
    assert_eq!(world.read, [5, 7]);
    run(&mut world, client, first_and(local, either));
    assert_eq!(world.read, [6, 5]);
}

fn first_and(local: AllocationId, either: AllocationId) -> RenderDesc {
    Writer::new().split().read(0, local, 3).read(1, either, 15).finish()
}

/// A range of the aperture that is not bound across the cut may move there too (SPL-08).
#[test]
fn a_portions_allocations_in_the_aperture_may_move_so_that_the_rest_fits() {
    let mut world = World::new(Config { aperture_pages: 64, ..Config::pages(4) });
    let client = world.client();
    let aperture = SegmentSet::of(APERTURE);
    let small: Vec<AllocationId> = (0..4).map(|_| world.create(client, info(16, aperture))).collect();
    let large = world.create(client, info(32, aperture));
    let all = small.iter().fold(Writer::new().split(), |writer, &allocation| writer.write(0, allocation, 0, 3));
    run(&mut world, client, all.finish());
    let some =
        Writer::new().split().read(0, small[0], 0).read(1, small[2], 0).write(2, large, 31, 4).read(2, large, 31);
    run(&mut world, client, some.finish());
    assert_eq!(world.errors(), []);
    assert_eq!(world.read, [3, 3, 4]);
}

fn page_of(world: &World, slot: u32) -> u64 {
    world.place(0, slot).unwrap().1
}

#[test]
fn an_allocation_lies_at_a_multiple_of_its_alignment() {
    let mut world = World::new(Config::pages(64));
    let client = world.client();
    let mut writer = Writer::new().split();
    for (slot, pages) in [1, 8, 2, 16, 4, 1].into_iter().enumerate() {
        let alignment = pages as u32 * PAGE_SIZE as u32;
        let allocation = world.create(client, AllocationInfo { alignment, ..info(pages, SegmentSet::of(LOCAL)) });
        writer = writer.write(slot as u32, allocation, pages - 1, 1);
    }
    run(&mut world, client, writer.finish());
    for (slot, pages) in [1, 8, 2, 16, 4, 1].into_iter().enumerate() {
        assert_eq!(page_of(&world, slot as u32) % pages, 0);
    }
}

/// An aligned allocation fits only at the start or at the end, and another between them.
#[test]
fn alignment_does_not_hide_the_one_place_there_is() {
    let mut world = World::new(Config::pages(12));
    let client = world.client();
    let aligned = |pages, alignment: u32| AllocationInfo {
        alignment: alignment * PAGE_SIZE as u32,
        ..info(pages, SegmentSet::of(LOCAL))
    };
    let [large, middle, small] = [aligned(5, 1), aligned(4, 4), aligned(3, 8)].map(|info| world.create(client, info));
    let writer = Writer::new().split().read(0, large, 4).read(1, middle, 3).read(2, small, 2);
    run(&mut world, client, writer.finish());
    assert_eq!(world.errors(), []);
    assert_eq!([page_of(&world, 0), page_of(&world, 1), page_of(&world, 2)], [3, 8, 0]);
}

/// SEG-44.
#[test]
fn room_is_looked_for_from_the_end_where_that_is_asked_for() {
    let mut world = World::new(Config::pages(64));
    let client = world.client();
    let local = SegmentSet::of(LOCAL);
    let from_start = world.create(client, info(3, local));
    let from_end =
        world.create(client, AllocationInfo { flags: AllocationFlags::FROM_END_OF_SEGMENT, ..info(3, local) });
    let preferred = SegmentPreference {
        segment_ids: [LOCAL, SegmentId(0), SegmentId(0), SegmentId(0), SegmentId(0)],
        directions: [Direction::FromEnd; 5],
    };
    let by_preference = world.create(client, AllocationInfo { preferred_segment: preferred, ..info(3, local) });
    let writer = Writer::new().split().read(0, from_start, 0).read(1, from_end, 0).read(2, by_preference, 0);
    run(&mut world, client, writer.finish());
    assert_eq!([page_of(&world, 0), page_of(&world, 1), page_of(&world, 2)], [0, 61, 58]);
}

/// SEG-31, SEG-43: banks 1 to 3 end at pages 16, 32 and, implied, 64; a full bank is no obstacle.
#[test]
fn a_hinted_bank_is_looked_in_first() {
    let table = vec![16 * PAGE_SIZE, 32 * PAGE_SIZE];
    let mut world = World::new(Config { bank_range_table: table, ..Config::pages(64) });
    let client = world.client();
    let hinted = |banks, direction| AllocationInfo {
        preferred_segment: SegmentPreference::of([LOCAL, SegmentId(0), SegmentId(0), SegmentId(0), SegmentId(0)]),
        hinted_bank: SegmentBankPreference { banks, directions: [direction; 4] },
        ..info(10, SegmentSet::of(LOCAL))
    };
    let (start, end) = (Direction::FromStart, Direction::FromEnd);
    let hints = [([2, 0, 0, 0], start), ([3, 0, 0, 0], end), ([2, 1, 0, 0], start), ([2, 0, 0, 0], start)];
    let mut writer = Writer::new().split();
    for (slot, (banks, direction)) in hints.into_iter().enumerate() {
        let allocation = world.create(client, hinted(banks, direction));
        writer = writer.read(slot as u32, allocation, 0);
    }
    run(&mut world, client, writer.finish());
    assert_eq!([0, 1, 2].map(|slot| page_of(&world, slot)), [16, 54, 0]);
    assert!(page_of(&world, 3) >= 26, "where there is room");
    assert_eq!(world.errors(), []);
}
