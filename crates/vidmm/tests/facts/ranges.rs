//! Ranges among pages: what engines address physically is one range of its memory segment, also where all else is pages
//! (SEG-13, D19).

use crate::world::*;
use vidmm::contract::*;
use vidmm::event::EvictReason;
use vidmm::*;

/// An adapter with 16 pages of local memory.
fn world() -> (World, Client) {
    let mut world = World::new(Config::discrete(16, 64));
    let client = world.client();
    (world, client)
}

/// An allocation of one range in local memory, at a multiple of `alignment`, and its address.
fn range(world: &mut World, client: Client, pages: u64, alignment: u32) -> (AllocationId, u64) {
    let info = AllocationInfo {
        flags: AllocationFlags::ACCESSED_PHYSICALLY,
        alignment,
        ..allocation_info(pages * PAGE_SIZE, NORMAL)
    };
    let allocation = world.try_create(client, info).unwrap();
    let at = world.map(client, allocation);
    (allocation, at)
}

/// An allocation of pages that is resident and holds a token, and its address.
fn written(world: &mut World, client: Client, pages: u64, token: u64) -> (AllocationId, u64) {
    let (allocation, at) = world.resident(client, pages);
    write(world, client, at, token);
    (allocation, at)
}

/// The pages of local memory that an address and those behind it show.
fn pages(world: &World, client: Client, at: u64, count: u64) -> Vec<u64> {
    let page = |number| world.translate(client, at + number * PAGE_SIZE).filter(|at| at.segment == LOCAL);
    (0..count).map(|number| page(number).unwrap().offset / PAGE_SIZE).collect()
}

/// SEG-13: pages that leave need not lie together, so those between them move; and pages come back in parts.
#[test]
fn pages_that_a_list_keeps_move_for_a_range_while_nothing_uses_them() {
    let (mut world, client) = world();
    let all: Vec<_> = (1..=4).map(|token| written(&mut world, client, 4, token)).collect();
    world.evict(client, &[all[0].0, all[2].0], SOON).unwrap();
    world.run_all();
    let (large, at) = range(&mut world, client, 8, 0);
    world.bring_in(client, &[large]);
    let shown = pages(&world, client, at, 8);
    assert!(shown.windows(2).all(|pair| pair[1] == pair[0] + 1), "{shown:?}");
    let moved = world.evicted().into_iter().filter(|(_, reason)| *reason == EvictReason::Moved).count();
    assert_eq!(moved, 1, "no more move than it takes");
    write(&mut world, client, at, 9);
    assert_eq!((read(&mut world, client, all[1].1), read(&mut world, client, all[3].1)), (2, 4));
    world.evict(client, &[large], SOON).unwrap();
    world.bring_in(client, &[all[0].0, all[2].0]);
    for (token, &(_, at)) in (1..).zip(&all) {
        assert_eq!(read(&mut world, client, at), token);
    }
    world.tear_down();
}

/// D5: work that is in flight keeps its pages where they are; the range comes when it has ended.
#[test]
fn a_range_waits_for_work_that_uses_the_pages_in_its_way() {
    let (mut world, client) = world();
    let all: Vec<_> = (1..=4).map(|token| written(&mut world, client, 4, token)).collect();
    world.evict(client, &[all[0].0, all[2].0], SOON).unwrap();
    world.run_all();
    world.submit(client, &[Access::Write(all[1].1, 5)]);
    world.poll();
    let (large, at) = range(&mut world, client, 8, 0);
    _ = world.make_resident(client, &[large]).unwrap();
    world.run_paging();
    assert_eq!(world.translate(client, at), None, "the work runs");
    world.run_all();
    assert_eq!(pages(&world, client, at, 8).len(), 8);
    assert_eq!(read(&mut world, client, all[1].1), 5);
    world.tear_down();
}

/// D19: bytes beside others do not give a place. A device whose range finds none takes a turn with the segment to itself.
#[test]
fn a_range_that_finds_no_place_beside_another_device_takes_a_turn() {
    let (mut world, client) = world();
    let other = world.client();
    let kept = written(&mut world, other, 2, 1);
    let mut others = vec![written(&mut world, other, 6, 2)];
    let between = written(&mut world, other, 2, 3);
    others.push(written(&mut world, other, 6, 4));
    world.evict(other, &[others[0].0, others[1].0], SOON).unwrap();
    world.run_all();
    // The work that the other device runs all the time keeps its pages where they are.
    let program = [Access::Write(kept.1, 5), Access::Write(between.1, 6)];
    world.submit(other, &program);
    world.poll();
    let (large, at) = range(&mut world, client, 8, 0);
    _ = world.make_resident(client, &[large]).unwrap();
    world.submit(client, &[Access::Write(at, 7)]);
    world.submit(other, &program);
    world.run_all();
    assert_eq!(read(&mut world, client, at), 7);
    assert_eq!((read(&mut world, other, kept.1), read(&mut world, other, between.1)), (5, 6));
    world.tear_down();
}

/// SEG-46: the range begins at a multiple of what its driver asked for, and victims of pages make room for it.
#[test]
fn a_range_is_aligned() {
    let (mut world, client) = world();
    let first = written(&mut world, client, 1, 1);
    let (large, at) = range(&mut world, client, 8, 8 * PAGE_SIZE as u32);
    world.bring_in(client, &[large]);
    assert_eq!(pages(&world, client, at, 1), [8]);
    assert_eq!(read(&mut world, client, first.1), 1);
    world.tear_down();
}

/// RES-11: ranges weigh their alignment, and a list that could not be laid out with nobody beside it is refused.
#[test]
fn a_list_of_ranges_that_does_not_fit_alone_is_refused() {
    let (mut world, client) = world();
    let ranges: Vec<_> = (0..3).map(|_| range(&mut world, client, 5, 8 * PAGE_SIZE as u32).0).collect();
    world.bring_in(client, &ranges[..2]);
    let answer = world.make_resident(client, &ranges[2..]);
    assert!(
        matches!(answer, Err(MakeResidentError::NoMemory { reason: NoMemoryReason::Fragmented, .. })),
        "{answer:?}"
    );
    world.tear_down();
}

/// BPB-51: such an allocation may be told of under GPU virtual addresses too.
#[test]
fn a_driver_hears_of_the_residency_of_a_range_among_pages() {
    let (mut world, client) = world();
    let flags = AllocationFlags::ACCESSED_PHYSICALLY | AllocationFlags::EXPLICIT_RESIDENCY_NOTIFICATION;
    let info = AllocationInfo { flags, ..allocation_info(4 * PAGE_SIZE, NORMAL) };
    let told = world.try_create(client, info).unwrap();
    let at = world.map(client, told);
    world.bring_in(client, &[told]);
    let [page, ..] = pages(&world, client, at, 1)[..] else { unreachable!() };
    world.evict(client, &[told], SOON).unwrap();
    world.run_all();
    let notices = world.driver.operations.iter().filter_map(|operation| match operation {
        PagingOperation::NotifyResidency(op) => Some((op.resident, op.physical_address.offset / PAGE_SIZE)),
        _ => None,
    });
    assert_eq!(notices.collect::<Vec<_>>(), [(true, page), (false, 0)]);
    world.tear_down();
}
