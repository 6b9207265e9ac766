//! GPU virtual addresses: reserve, map, free; what page tables say (4.4..4.8, P57).

use crate::world::*;
use vidmm::contract::*;
use vidmm::event::EvictReason;
use vidmm::*;

const UNIT: u64 = PAGE_SIZE_64K;

fn at(world: &mut World, client: Client, allocation: AllocationId, base: u64) -> Result<u64, MapError> {
    let base_address = Some(GpuVirtualAddress(base));
    let desc = MapGpuVirtualAddress { base_address, ..MapGpuVirtualAddress::whole(allocation) };
    world.try_map(client, &desc).map(|mapped| mapped.virtual_address.0)
}

fn reserve(world: &mut World, client: Client, base: Option<u64>, size: u64) -> Result<u64, VaRangeError> {
    let base = base.map(GpuVirtualAddress);
    let answer = world.call(|vidmm, _, host| vidmm.reserve_gpu_virtual_address(host, client.queue, base, size));
    answer.map(|reserved| reserved.virtual_address.0).map_err(|error| match error {
        MapError::Range(error) => error,
        other => panic!("{other}"),
    })
}

fn free_range(world: &mut World, client: Client, base: u64, size: u64) -> Result<(), GpuVaError> {
    world.call(|vidmm, _, host| vidmm.free_gpu_virtual_address(host, client.process, GpuVirtualAddress(base), size))
}

/// GVA-52.
#[test]
fn reservations_are_made_of_64_kib() {
    let (mut world, client) = World::with_pages(16);
    for (base, size) in [(None, 0), (None, PAGE_SIZE), (Some(UNIT + PAGE_SIZE), UNIT), (Some(4 * UNIT), UNIT + 1)] {
        let answer = reserve(&mut world, client, base, size);
        assert!(matches!(answer, Err(VaRangeError::Invalid { page_size: UNIT, .. })), "{answer:?}");
    }
    let base = reserve(&mut world, client, None, 3 * UNIT).unwrap();
    assert!(base.is_multiple_of(UNIT));
    assert_eq!(reserve(&mut world, client, Some(base + 2 * UNIT), 2 * UNIT), Err(VaRangeError::InUse));
    assert_eq!(reserve(&mut world, client, Some(base + 3 * UNIT), UNIT), Ok(base + 3 * UNIT));
    free_range(&mut world, client, base, 3 * UNIT).unwrap();
    assert_eq!(reserve(&mut world, client, Some(base), 2 * UNIT), Ok(base));
}

/// GVA-58, GVA-59: the first leaf table's range is never used, and nothing beyond the address bits.
#[test]
fn the_ends_of_the_space_are_out_of_reach() {
    let (mut world, client) = World::with_pages(16);
    let a = world.allocate(client, 1);
    let end = 1 << 28;
    for base in [0, PAGE_SIZE, UNIT - PAGE_SIZE, end, end + UNIT, u64::MAX - PAGE_SIZE + 1] {
        let answer = at(&mut world, client, a, base);
        assert!(matches!(answer, Err(MapError::Range(VaRangeError::Invalid { .. }))), "{base:#x}: {answer:?}");
    }
    assert_eq!(at(&mut world, client, a, UNIT), Ok(UNIT));
    assert_eq!(at(&mut world, client, a, end - PAGE_SIZE), Ok(end - PAGE_SIZE));
    let all = reserve(&mut world, client, None, end);
    assert_eq!(all, Err(VaRangeError::Exhausted { size: end }));
    assert_eq!(reserve(&mut world, client, None, !0 << 16), Err(VaRangeError::Exhausted { size: !0 << 16 }));
    world.bring_in(client, &[a]);
    assert_eq!((world.token(client, UNIT), world.token(client, end - PAGE_SIZE)), (Some(0), Some(0)));
    assert_eq!(world.translate(client, 0), None);
    world.tear_down();
}

/// GVA-50: a base that is given is taken, if all of it is free or inside one reservation.
#[test]
fn a_given_base_must_be_free_or_reserved() {
    let (mut world, client) = World::with_pages(64);
    let a = world.allocate(client, 4);
    let base = reserve(&mut world, client, None, 2 * UNIT).unwrap();
    let in_use = Err(MapError::Range(VaRangeError::InUse));
    assert_eq!(at(&mut world, client, a, base + 2 * UNIT - PAGE_SIZE), in_use, "it leaves the reservation");
    assert_eq!(at(&mut world, client, a, base + UNIT), Ok(base + UNIT));
    assert_eq!(at(&mut world, client, a, base + UNIT + 3 * PAGE_SIZE), in_use, "a mapping is there");
    assert_eq!(at(&mut world, client, a, base + UNIT + 4 * PAGE_SIZE), Ok(base + UNIT + 4 * PAGE_SIZE));
    assert_eq!(free_range(&mut world, client, base, 2 * UNIT), Err(VaRangeError::HasMappings.into()));
    assert_eq!(free_range(&mut world, client, base + UNIT, UNIT), Err(VaRangeError::HasMappings.into()));
    for mapping in [base + UNIT, base + UNIT + 4 * PAGE_SIZE] {
        world.free(client, mapping, 4).unwrap();
    }
    world.run_all();
    free_range(&mut world, client, base, 2 * UNIT).unwrap();
    world.tear_down();
}

/// GVA-50: 4 KiB granularity; a part of an allocation may be shown.
#[test]
fn a_part_of_an_allocation_can_be_mapped() {
    let (mut world, client) = World::with_pages(64);
    let (a, whole) = world.resident(client, 8);
    let part = |offset, size| MapGpuVirtualAddress { offset, size, ..MapGpuVirtualAddress::whole(a) };
    let rest = world.try_map(client, &part(5 * PAGE_SIZE, 0)).unwrap().virtual_address.0;
    let middle = world.try_map(client, &part(2 * PAGE_SIZE, 2 * PAGE_SIZE)).unwrap().virtual_address.0;
    let program: Vec<Access> = (0..8).map(|page| Access::Write(whole + page * PAGE_SIZE, 10 + page)).collect();
    world.submit(client, &program);
    world.run_all();
    let tokens =
        |from: u64, pages: u64| (0..pages).map(|page| world.token(client, from + page * PAGE_SIZE)).collect::<Vec<_>>();
    assert_eq!(tokens(rest, 3), [Some(15), Some(16), Some(17)]);
    assert_eq!(tokens(middle, 2), [Some(12), Some(13)]);
    for (offset, size) in
        [(1, 0), (0, 1), (0, 9 * PAGE_SIZE), (8 * PAGE_SIZE, 0), (7 * PAGE_SIZE, 2 * PAGE_SIZE), (!0 << 12, 0)]
    {
        let answer = world.try_map(client, &part(offset, size));
        assert!(matches!(answer, Err(MapError::Part { .. })), "{offset:#x}, {size:#x}: {answer:?}");
    }
    world.tear_down();
}

/// GVA-50: a mapping that needs nothing to be written is usable at once.
#[test]
fn a_mapping_without_entries_to_write_is_made_at_once() {
    let (mut world, client) = World::with_pages(16);
    let a = world.allocate(client, 1);
    let first = world.try_map(client, &MapGpuVirtualAddress::whole(a)).unwrap();
    assert_eq!(first.paging_fence_value, 1, "its tables are made");
    world.run_all();
    let second = world.try_map(client, &MapGpuVirtualAddress::whole(a)).unwrap();
    assert_eq!(second.paging_fence_value, 0);
    world.bring_in(client, &[a]);
    for mapped in [first, second] {
        assert_eq!(world.token(client, mapped.virtual_address.0), Some(0));
    }
}

/// GVA-51: mapped before it is resident, or after; while it is not, access faults.
#[test]
fn mapping_and_residency_come_in_any_order() {
    let (mut world, client) = World::with_pages(16);
    let a = world.allocate(client, 2);
    let before = world.map(client, a);
    world.run_all();
    assert_eq!(world.translate(client, before), None);
    let _: Residency = world.make_resident(client, &[a]).unwrap();
    let during = world.map(client, a);
    world.run_all();
    let after = world.map(client, a);
    world.run_all();
    let place = world.translate(client, before);
    assert!(place.is_some());
    assert_eq!((world.translate(client, during), world.translate(client, after)), (place, place));
    world.evict(client, &[a], SOON).unwrap();
    world.run_all();
    for address in [before, during, after] {
        assert_eq!(world.translate(client, address), None, "GVA-28: all mappings follow");
    }
    world.tear_down();
}

/// GVA-20, GVA-50: a mapping without write permission.
#[test]
fn a_mapping_can_be_read_only() {
    let (mut world, client) = World::with_pages(16);
    let (a, writable) = world.resident(client, 2);
    let desc = MapGpuVirtualAddress { write: false, ..MapGpuVirtualAddress::whole(a) };
    let read_only = world.try_map(client, &desc).unwrap().virtual_address.0;
    world.run_all();
    assert!(!world.pte(client, writable).unwrap().flags.contains(PteFlags::READ_ONLY));
    assert!(world.pte(client, read_only).unwrap().flags.contains(PteFlags::READ_ONLY));
}

/// GVA-53, RES-91: work submitted before the Free still sees the mapping; then it is gone.
#[test]
fn a_freed_mapping_serves_the_work_submitted_before() {
    let (mut world, client) = World::with_pages(16);
    let (_, address) = world.resident(client, 2);
    world.submit(client, &[Access::Write(address, 7), Access::Read(address)]);
    world.free(client, address, 2).unwrap();
    world.poll();
    world.run_paging();
    world.complete(RENDER);
    world.run_all();
    assert_eq!(world.read, [7]);
    assert_eq!(world.translate(client, address), None);
}

/// GVA-53: a mapping is freed once, and nothing beyond its ends.
#[test]
fn a_mapping_is_freed_once() {
    let (mut world, client) = World::with_pages(16);
    let (_, first) = world.resident(client, 4);
    let (_, address) = world.resident(client, 4);
    assert_eq!(address, first + 4 * PAGE_SIZE);
    for (base, pages) in [(address, 5), (address + PAGE_SIZE, 4), (address - PAGE_SIZE, 4), (address - PAGE_SIZE, 2)] {
        assert_eq!(world.free(client, base, pages), Err(VaRangeError::NotFound.into()));
    }
    world.free(client, address, 4).unwrap();
    assert_eq!(world.free(client, address, 4), Err(VaRangeError::NotFound.into()));
    assert!(free_range(&mut world, client, u64::MAX, u64::MAX).is_err());
    world.tear_down();
}

/// GVA-53, RES-91: mappings go with their allocation, and cannot be freed while work still uses them.
#[test]
fn a_mapping_of_what_is_destroyed_is_not_freed() {
    let (mut world, client) = World::with_pages(16);
    let (a, address) = world.resident(client, 2);
    world.submit(client, &[Access::Write(address, 7)]);
    world.destroy(a);
    assert_eq!(world.free(client, address, 1), Err(VaRangeError::NotFound.into()));
    world.run_all();
    assert_eq!(world.free(client, address, 1), Err(VaRangeError::NotFound.into()));
    world.tear_down();
}

/// GVA-53: addresses can be mapped again as soon as Free returns; the new mapping waits for the old one's work.
#[test]
#[ignore = "not built yet: GVA-53, addresses are free again when the work submitted before has ended"]
fn freed_addresses_can_be_mapped_at_once() {
    let (mut world, client) = World::with_pages(16);
    let (_, address) = world.resident(client, 2);
    let (b, _) = world.resident(client, 2);
    world.submit(client, &[Access::Write(address, 7), Access::Read(address)]);
    world.free(client, address, 2).unwrap();
    assert_eq!(at(&mut world, client, b, address), Ok(address));
    world.submit(client, &[Access::Read(address)]);
    world.run_all();
    assert_eq!(world.read, [7, 0]);
    world.tear_down();
}

/// GVA-53: addresses can be mapped again when the work that used them has ended.
#[test]
fn freed_addresses_can_be_mapped_when_their_work_has_ended() {
    let (mut world, client) = World::with_pages(16);
    let (_, address) = world.resident(client, 2);
    let (b, _) = world.resident(client, 2);
    world.submit(client, &[Access::Write(address, 7)]);
    world.free(client, address, 2).unwrap();
    world.run_all();
    assert_eq!(at(&mut world, client, b, address), Ok(address));
    world.run_all();
    assert_eq!(world.token(client, address), Some(0));
    world.tear_down();
}

/// U-22, P57: any pages of a mapping can be freed, and mapped again; what is left of it shows what it did.
#[test]
fn a_part_of_a_mapping_can_be_freed() {
    let (mut world, client) = World::with_pages(32);
    let (_, address) = world.resident(client, 8);
    let (b, _) = world.resident(client, 1);
    let page = |page: u64| address + page * PAGE_SIZE;
    let program: Vec<Access> = (0..8).map(|at| Access::Write(page(at), 10 + at)).collect();
    world.submit(client, &program);
    world.run_all();
    let seen = |world: &World| (0..8).map(|at| world.token(client, page(at))).collect::<Vec<_>>();
    let mut right: Vec<Option<u64>> = (10..18).map(Some).collect();
    // Front, back, middle, and what is left of the middle.
    for (first, pages) in [(0, 2), (7, 1), (4, 1), (2, 2), (5, 2)] {
        world.free(client, page(first), pages).unwrap();
        world.run_all();
        right[first as usize..][..pages as usize].fill(None);
        assert_eq!(seen(&world), right);
        assert_eq!(at(&mut world, client, b, page(first)), Ok(page(first)));
        world.run_all();
        right[first as usize] = Some(0);
        assert_eq!(seen(&world), right);
    }
    world.tear_down();
}

/// U-22: a range that is free in part, or of two mappings, is refused, and so is one that is not made of pages.
#[test]
fn only_pages_of_one_mapping_are_freed() {
    let (mut world, client) = World::with_pages(32);
    let base = reserve(&mut world, client, None, 2 * UNIT).unwrap();
    let a = world.allocate(client, 8);
    assert_eq!(at(&mut world, client, a, base), Ok(base));
    assert_eq!(at(&mut world, client, a, base + 8 * PAGE_SIZE), Ok(base + 8 * PAGE_SIZE));
    world.free(client, base + 2 * PAGE_SIZE, 2).unwrap();
    for (first, pages) in [(0, 3), (2, 1), (2, 2), (1, 4), (4, 5), (15, 2)] {
        let answer = world.free(client, base + first * PAGE_SIZE, pages);
        assert_eq!(answer, Err(VaRangeError::HasMappings.into()), "{first}, {pages}");
    }
    for (start, size) in [(base + 1, PAGE_SIZE), (base, 1), (base, 0), (0, PAGE_SIZE), (base, !0 << 12)] {
        let answer = free_range(&mut world, client, start, size);
        assert!(matches!(answer, Err(GpuVaError::Range(VaRangeError::Invalid { .. }))), "{start:#x}: {answer:?}");
    }
    world.tear_down();
}

/// U-22: a part of a reservation can be given back, if nothing is mapped there; the rest stays reserved.
#[test]
fn a_part_of_a_reservation_can_be_freed() {
    let (mut world, client) = World::with_pages(32);
    let base = reserve(&mut world, client, None, 3 * UNIT).unwrap();
    let a = world.allocate(client, 2);
    assert_eq!(at(&mut world, client, a, base + UNIT), Ok(base + UNIT));
    assert_eq!(free_range(&mut world, client, base, 2 * UNIT), Err(VaRangeError::HasMappings.into()));
    free_range(&mut world, client, base, UNIT).unwrap();
    assert_eq!(free_range(&mut world, client, base, UNIT), Err(VaRangeError::NotFound.into()));
    assert_eq!(reserve(&mut world, client, Some(base), UNIT), Ok(base));
    free_range(&mut world, client, base + UNIT + 2 * PAGE_SIZE, PAGE_SIZE).unwrap();
    let across = at(&mut world, client, a, base + UNIT + 2 * PAGE_SIZE);
    assert_eq!(across, Err(MapError::Range(VaRangeError::InUse)), "half of it is free, half of it reserved");
    assert_eq!(at(&mut world, client, a, base + 2 * UNIT), Ok(base + 2 * UNIT));
    world.tear_down();
}

/// U-22: of two reservations side by side each is given back, and kept, on its own.
#[test]
fn a_reservation_ends_where_the_next_begins() {
    let (mut world, client) = World::with_pages(16);
    let base = reserve(&mut world, client, None, 2 * UNIT).unwrap();
    assert_eq!(reserve(&mut world, client, Some(base + 2 * UNIT), UNIT), Ok(base + 2 * UNIT));
    assert_eq!(free_range(&mut world, client, base + UNIT, 2 * UNIT), Err(VaRangeError::NotFound.into()));
    free_range(&mut world, client, base + UNIT, UNIT).unwrap();
    assert_eq!(reserve(&mut world, client, Some(base + 2 * UNIT), UNIT), Err(VaRangeError::InUse));
    free_range(&mut world, client, base + 2 * UNIT, UNIT).unwrap();
    free_range(&mut world, client, base, UNIT).unwrap();
    assert_eq!(reserve(&mut world, client, Some(base), 3 * UNIT), Ok(base));
    world.tear_down();
}

/// U-22: a mapping that still waits for its grant can be freed in part; the rest is made.
#[test]
fn a_part_of_what_is_not_mapped_yet_can_be_freed() {
    let (mut world, client) = World::with_pages(32);
    let a = world.allocate(client, 4);
    the_second_of_four_pages_is_freed_before_they_are_mapped(&mut world, client, a);
    world.tear_down();
}

/// U-22, U-34: so can one that a device has asked for which has opened the allocation.
#[test]
fn mappings_that_an_opener_asked_for_can_be_freed() {
    let (mut world, client) = World::with_pages(32);
    let other = world.client();
    let shared = world.create_shared(client, 4);
    world.open(other, shared).unwrap();
    the_second_of_four_pages_is_freed_before_they_are_mapped(&mut world, other, shared);
    world.tear_down();
}

fn the_second_of_four_pages_is_freed_before_they_are_mapped(
    world: &mut World,
    client: Client,
    allocation: AllocationId,
) {
    let mapped = world.try_map(client, &MapGpuVirtualAddress::whole(allocation)).unwrap();
    assert!(mapped.paging_fence_value > 0);
    let address = mapped.virtual_address.0;
    world.free(client, address + PAGE_SIZE, 1).unwrap();
    world.bring_in(client, &[allocation]);
    world.run_all();
    let seen = [0, 1, 2, 3].map(|page| world.token(client, address + page * PAGE_SIZE));
    assert_eq!(seen, [Some(0), None, Some(0), Some(0)]);
}

/// GVA-42, GVA-43: where a page of 64 KiB is cut, its rest is mapped by pages of 4 KiB; work does not notice.
#[test]
fn a_page_of_64_kib_that_is_cut_becomes_small_ones() {
    for (first, pages) in [(3, 1), (0, 3), (5, 11), (14, 4), (0, 16), (15, 33), (63, 1), (1, 62)] {
        for dual in [true, false] {
            for tables_in_system in [true, false] {
                let mut world = World::new(Config { tables_in_system, ..Config::pages_64kb(16, dual) });
                let client = world.client();
                let (a, address) = world.resident(client, 64);
                let page = |page: u64| address + page * PAGE_SIZE;
                let program: Vec<Access> = (0..64).map(|at| Access::Write(page(at), 10 + at)).collect();
                world.submit(client, &program);
                let is_freed = |at: &u64| (first..first + pages).contains(at);
                let rest: Vec<Access> = (0..64).filter(|at| !is_freed(at)).map(|at| Access::Read(page(at))).collect();
                world.free(client, page(first), pages).unwrap();
                world.submit(client, &rest);
                world.run_all();
                let right: Vec<u64> = (0..64).filter(|at| !is_freed(at)).map(|at| 10 + at).collect();
                assert_eq!(world.read, right);
                let seen =
                    |world: &World| (0..64).filter(|at| world.token(client, page(*at)).is_some()).collect::<Vec<_>>();
                let left: Vec<u64> = (0..64).filter(|at| !is_freed(at)).collect();
                assert_eq!(seen(&world), left);
                // It stays so when the allocation leaves and comes again.
                world.evict(client, &[a], SOON).unwrap();
                world.run_all();
                assert_eq!(seen(&world), Vec::<u64>::new());
                world.bring_in(client, &[a]);
                assert_eq!(seen(&world), left);
                world.tear_down();
            }
        }
    }
}

/// GVA-42: cuts of a page that follow one another before any has taken effect.
#[test]
fn a_page_of_64_kib_is_cut_again_and_again() {
    let mut world = World::new(Config::pages_64kb(8, true));
    let client = world.client();
    let (_, address) = world.resident(client, 32);
    let page = |page: u64| address + page * PAGE_SIZE;
    world.submit(client, &[Access::Write(page(0), 7), Access::Write(page(31), 8)]);
    for at in [5, 2, 12, 20, 13, 14, 3] {
        world.free(client, page(at), 1).unwrap();
    }
    world.run_all();
    let seen: Vec<u64> = (0..32).filter(|at| world.translate(client, page(*at)).is_some()).collect();
    let left: Vec<u64> = (0..32).filter(|at| ![5, 2, 12, 20, 13, 14, 3].contains(at)).collect();
    assert_eq!(seen, left);
    assert_eq!((world.token(client, page(0)), world.token(client, page(31))), (Some(7), Some(8)));
    world.tear_down();
}

/// GVA-42, D9: the allocation whose page is cut may have to leave for the table of its rest.
#[test]
fn an_allocation_whose_page_is_cut_makes_room_for_its_own_table() {
    let config = Config { tables_in_system: false, level_bits: vec![8, 6], ..Config::pages_64kb(12, true) };
    let mut world = World::new(config);
    let client = world.client();
    // All that is left beside the tables of its mapping.
    let (a, address, pages) = (1..12)
        .rev()
        .find_map(|units| {
            let a = world.allocate(client, 16 * units);
            let address = world.map(client, a);
            let fits = world.make_resident(client, &[a]).is_ok();
            if !fits {
                world.destroy(a);
            }
            world.run_all();
            fits.then_some((a, address, 16 * units))
        })
        .unwrap();
    let page = |page: u64| address + page * PAGE_SIZE;
    let program: Vec<Access> = (0..pages).map(|at| Access::Write(page(at), 10 + at)).collect();
    world.submit(client, &program);
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    world.run_all();
    assert_eq!(world.evicted(), []);
    world.free(client, page(3), 1).unwrap();
    world.run_all();
    let seen = (0..pages).filter(|at| world.token(client, page(*at)).is_some()).count();
    assert!(world.evicted() == [(a, EvictReason::RoomWanted)] && seen == 0, "{:?}, {seen}", world.evicted());
    // It does not fit beside that table, but when that of its large pages is gone.
    world.free(client, page(16), pages - 16).unwrap();
    world.run_all();
    world.bring_in(client, &[a]);
    for at in 0..pages {
        assert_eq!(world.token(client, page(at)), (at < 16 && at != 3).then_some(10 + at));
    }
    world.tear_down();
}

/// GVA-42: work that is submitted after a cut runs when what is left of the page is there.
#[test]
fn work_waits_for_a_cut() {
    let mut world = World::new(Config::pages_64kb(8, true));
    let client = world.client();
    let (_, address) = world.resident(client, 16);
    write(&mut world, client, address, 7);
    world.free(client, address + 4 * PAGE_SIZE, 1).unwrap();
    world.poll();
    assert!(world.can_complete(PAGING), "the page is cut");
    world.submit(client, &[Access::Read(address)]);
    world.poll();
    assert!(!world.can_complete(RENDER), "the page shows nothing in between");
    world.run_all();
    assert_eq!(world.read, [7]);
    world.tear_down();
}

/// GVA-42: while a page is cut nothing of its process runs, in whatever order it was handed out.
#[test]
fn a_cut_waits_for_work_that_has_overtaken_other_work() {
    let mut world = World::new(Config::pages_64kb(8, true));
    let client = world.client();
    let (_, address) = world.resident(client, 16);
    let copy = world.context(client, COPY);
    let (first, second) = (world.fence(), world.fence());
    world.submit_to(client.context, &[], &[(first, 1)], &[]);
    world.free(client, address + 4 * PAGE_SIZE, 1).unwrap();
    // The packet that waits for the second fence was submitted before the one that runs.
    world.submit_to(copy, &[], &[(second, 1)], &[]);
    world.submit(client, &[Access::Write(address, 7), Access::Write(address + 15 * PAGE_SIZE, 8)]);
    world.signal(first, 1);
    world.poll();
    world.complete(RENDER);
    assert!(!world.can_complete(PAGING), "work that uses the page is in flight");
    world.complete(RENDER);
    assert!(world.can_complete(PAGING));
    world.run_all();
    world.signal(second, 1);
    world.run_all();
    assert_eq!((world.token(client, address), world.token(client, address + 15 * PAGE_SIZE)), (Some(7), Some(8)));
    assert_eq!(world.token(client, address + 4 * PAGE_SIZE), None);
    world.tear_down();
}

/// GVA-42: work of a device that is created while a page is being cut waits for that, too.
#[test]
fn a_new_device_waits_for_a_cut_of_its_process() {
    let mut world = World::new(Config::pages_64kb(8, true));
    let client = world.client();
    let (_, address) = world.resident(client, 16);
    world.free(client, address + 4 * PAGE_SIZE, 1).unwrap();
    world.poll();
    assert!(world.can_complete(PAGING), "the page is being cut");
    let sibling = world.sibling(client);
    world.submit(sibling, &[Access::Read(address)]);
    world.poll();
    assert!(!world.can_complete(RENDER));
    world.run_all();
    world.tear_down();
}

/// GVA-42, D2: only where a page is cut the work of other devices of the process has to end first.
#[test]
fn whole_pages_are_freed_while_others_of_the_process_run() {
    let mut world = World::new(Config::pages_64kb(8, true));
    let client = world.client();
    let sibling = world.sibling(client);
    let (_, address) = world.resident(client, 48);
    for (first, pages, waits) in [(0, 16, false), (16, 1, true)] {
        world.submit(sibling, &[]);
        world.poll();
        world.free(client, address + first * PAGE_SIZE, pages).unwrap();
        world.poll();
        assert_eq!(world.can_complete(PAGING), !waits, "{pages} pages");
        world.submit(sibling, &[]);
        world.poll();
        world.complete(RENDER);
        assert_eq!(world.can_complete(RENDER), !waits, "{pages} pages");
        world.run_all();
    }
    world.tear_down();
}

/// P57, GVA-42: the tables for what is left of a page that was cut go when that is freed.
#[test]
fn the_tables_of_a_cut_page_are_freed_with_its_rest() {
    for tables_in_system in [true, false] {
        for dual in [true, false] {
            let mut world = World::new(Config { tables_in_system, ..Config::pages_64kb(16, dual) });
            let client = world.client();
            world.run_all();
            let roots = world.tables().count();
            let (_, address) = world.resident(client, 32);
            for (first, pages) in [(4, 1), (20, 12), (0, 4), (5, 15)] {
                world.free(client, address + first * PAGE_SIZE, pages).unwrap();
                world.run_all();
            }
            assert_eq!(world.tables().count(), roots, "tables in system memory: {tables_in_system}, dual: {dual}");
            world.tear_down();
        }
    }
}

/// D9: where no table for the rest of a page can be had, the call is refused, and changes nothing.
#[test]
fn a_cut_whose_tables_cannot_be_had_is_refused() {
    let mut world = World::new(Config { tables_in_system: true, ..Config::pages_64kb(8, true) });
    let client = world.client();
    let (_, address) = world.resident(client, 32);
    let before = world.fingerprint();
    world.host.fails_after = Some(0);
    let answer = world.free(client, address + PAGE_SIZE, 1);
    assert!(matches!(answer, Err(GpuVaError::BackingStore(_))), "{answer:?}");
    assert_eq!(world.fingerprint(), before);
    world.free(client, address + PAGE_SIZE, 1).unwrap();
    world.run_all();
    world.tear_down();
}

/// P57: a table through which nothing is mapped any more is freed, and made anew when it is needed again.
#[test]
fn empty_tables_are_freed() {
    for tables_in_system in [true, false] {
        let config = Config { level_bits: vec![4, 3, 4, 4], tables_in_system, ..Config::pages(256) };
        let mut world = World::new(config);
        let client = world.client();
        let a = world.allocate(client, 32);
        world.bring_in(client, &[a]);
        let tables = |world: &World| world.tables().count();
        world.run_all();
        let roots = tables(&world);
        let base = 1 << 16;
        for _ in 0..3 {
            assert_eq!(at(&mut world, client, a, base), Ok(base));
            world.run_all();
            let all = tables(&world);
            assert_eq!(all - roots, 2 + 1 + 1, "two leaves, a table of level 1 and one of level 2");
            let program: Vec<Access> = (0..32).map(|page| Access::Write(base + page * PAGE_SIZE, page)).collect();
            world.submit(client, &program);
            world.free(client, base, 15).unwrap();
            world.run_all();
            assert_eq!(tables(&world), all, "a page of the first leaf is mapped");
            world.free(client, base + 15 * PAGE_SIZE, 1).unwrap();
            world.run_all();
            assert_eq!(tables(&world), all - 1);
            assert_eq!(world.token(client, base + 31 * PAGE_SIZE), Some(31));
            world.free(client, base + 16 * PAGE_SIZE, 16).unwrap();
            world.run_all();
            assert_eq!(tables(&world), roots);
            assert_eq!(world.translate(client, base + 31 * PAGE_SIZE), None);
        }
        world.tear_down();
    }
}

/// GVA-11, GVA-12: any number of levels; a mapping may cross tables of all of them.
#[test]
fn all_layouts_of_levels_work() {
    for level_bits in [vec![9, 6], vec![4, 8], vec![3, 3, 9], vec![5, 2, 2, 3, 5], vec![3, 2, 2, 2, 2, 4]] {
        for tables_in_system in [true, false] {
            let segment_bytes = 1024 * PAGE_SIZE;
            let config =
                Config { level_bits: level_bits.clone(), tables_in_system, segment_bytes, ..Config::default() };
            let mut world = World::new(config);
            let client = world.client();
            let a = world.allocate(client, 40);
            // Across the middle of the address space, where tables of all levels meet.
            let middle = 1 << (11 + level_bits.iter().sum::<u32>());
            let address = at(&mut world, client, a, middle - 20 * PAGE_SIZE).unwrap();
            world.bring_in(client, &[a]);
            let program: Vec<Access> = (0..40).map(|page| Access::Write(address + page * PAGE_SIZE, page)).collect();
            world.submit(client, &program);
            world.run_all();
            for page in 0..40 {
                assert_eq!(world.token(client, address + page * PAGE_SIZE), Some(page), "{level_bits:?}");
            }
            assert_eq!(world.translate(client, address - PAGE_SIZE), None);
            assert_eq!(world.translate(client, address + 40 * PAGE_SIZE), None);
            world.tear_down();
        }
    }
}

/// GVA-40, GVA-41, GVA-44: pages of 64 KiB, by one entry or by sixteen.
#[test]
fn pages_of_64_kib_are_mapped_by_one_entry_or_sixteen() {
    for dual in [false, true] {
        let mut world = World::new(Config::pages_64kb(4, dual));
        let client = world.client();
        let since = world.driver.operations.len();
        let (_, address) = world.resident(client, 20);
        assert!(address.is_multiple_of(UNIT));
        let first = world.translate(client, address).unwrap();
        assert!(first.offset.is_multiple_of(UNIT));
        for page in 0..32 {
            let place = world.translate(client, address + page * PAGE_SIZE).unwrap();
            assert_eq!(place.offset - first.offset, page * PAGE_SIZE);
        }
        let entries = world
            .operations_since(since)
            .iter()
            .filter_map(|operation| match operation {
                PagingOperation::UpdatePageTable(op)
                    if op.process == client.kmd_process && kind(operation) == "valid" =>
                {
                    Some(op.page_table_entries.num_page_table_entries)
                }
                _ => None,
            })
            .sum::<u32>();
        assert_eq!(entries, if dual { 2 } else { 32 });
        world.tear_down();
    }
}

/// GVA-43: on one range only one side is valid; what is not made of 64 KiB is mapped by entries of 4 KiB.
#[test]
fn parts_of_64_kib_pages_are_mapped_on_the_4_kib_side() {
    let mut world = World::new(Config::pages_64kb(8, true));
    let client = world.client();
    let (a, whole) = world.resident(client, 32);
    let desc = MapGpuVirtualAddress { offset: 3 * PAGE_SIZE, size: 4 * PAGE_SIZE, ..MapGpuVirtualAddress::whole(a) };
    let part = world.try_map(client, &desc).unwrap().virtual_address.0;
    world.run_all();
    assert_eq!(world.translate(client, part), world.translate(client, whole + 3 * PAGE_SIZE));
    // The same addresses, first on one side, then on the other.
    let base = reserve(&mut world, client, None, UNIT).unwrap();
    let small = MapGpuVirtualAddress { base_address: Some(GpuVirtualAddress(base)), ..desc };
    let large = MapGpuVirtualAddress { offset: UNIT, size: UNIT, ..small };
    for desc in [small, large, small, large] {
        world.try_map(client, &desc).unwrap();
        world.run_all();
        assert_eq!(world.translate(client, base), world.translate(client, whole + desc.offset));
        world.free(client, base, desc.size / PAGE_SIZE).unwrap();
        world.run_all();
        assert_eq!(world.translate(client, base), None);
    }
    world.tear_down();
}

/// GVA-25, D9: tables are evicted by nobody, and placed by victims if need be.
#[test]
fn tables_take_their_room_from_what_is_evictable() {
    let mut world = World::new(Config { tables_in_system: false, ..Config::pages(64) });
    let client = world.client();
    let (a, a_at) = world.resident(client, 16);
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    let large = world.allocate(client, 30);
    world.bring_in(client, &[large]);
    assert_eq!(world.evicted(), []);
    for far in 2..6 {
        let b = world.allocate(client, 1);
        at(&mut world, client, b, far << 20).unwrap();
        world.run_all();
    }
    assert_eq!(world.evicted(), [(a, EvictReason::RoomWanted)]);
    world.evict(client, &[large], SOON).unwrap();
    world.run_all();
    world.bring_in(client, &[a]);
    assert_eq!(world.token(client, a_at), Some(0));
    world.tear_down();
}

/// GVA-25, D9: a mapping waits for a table that another is placing.
#[test]
fn a_mapping_waits_for_a_table_that_waits_for_its_room() {
    let mut world = World::new(Config { tables_in_system: false, ..Config::pages(64) });
    let client = world.client();
    let (a, a_at) = world.resident(client, 16);
    let [(b, _), (c, _)] = [1; 2].map(|pages| world.resident(client, pages));
    world.submit(client, &[Access::Write(a_at, 7)]);
    world.poll();
    world.evict(client, &[a], IF_NECESSARY).unwrap();
    let large = world.allocate(client, 29);
    let _: Residency = world.make_resident(client, &[large]).unwrap();
    world.run_paging();
    let far = (2..8).map(|far| far << 20).find(|&far| {
        at(&mut world, client, b, far).unwrap();
        world.run_paging();
        !world.evicted().is_empty()
    });
    let far = far.expect("the tables need room");
    assert_eq!(at(&mut world, client, c, far + PAGE_SIZE), Ok(far + PAGE_SIZE));
    world.poll();
    assert!(!world.can_complete(PAGING), "work uses what makes room");
    world.run_all();
    assert_eq!([far, far + PAGE_SIZE].map(|at| world.token(client, at)), [Some(0); 2]);
    world.tear_down();
}

/// D9: a mapping whose tables do not fit is refused whole.
#[test]
fn a_mapping_whose_tables_do_not_fit_is_refused() {
    let mut world = World::new(Config { tables_in_system: false, ..Config::pages(32) });
    let client = world.client();
    let list = world.allocate(client, 20);
    world.bring_in(client, &[list]);
    let a = world.allocate(client, 300);
    let before = world.fingerprint();
    let answer = world.try_map(client, &MapGpuVirtualAddress::whole(a));
    let Err(MapError::NoMemory { num_bytes_to_trim, account: LOCAL_MEMORY }) = answer else { panic!("{answer:?}") };
    assert_eq!(world.fingerprint(), before);
    // P03 for tables: what is said is enough.
    assert!(num_bytes_to_trim <= 20 * PAGE_SIZE, "{num_bytes_to_trim}");
    world.evict(client, &[list], SOON).unwrap();
    world.try_map(client, &MapGpuVirtualAddress::whole(a)).unwrap();
    world.run_all();
    world.tear_down();
}

/// D9, P54: the host may refuse at any table; nothing is left of the attempt.
#[test]
fn the_host_may_refuse_tables() {
    let (mut world, client) = World::with_pages(16);
    let a = world.allocate(client, 40);
    let before = world.fingerprint();
    let mut refusals = 0;
    for fails_after in 0.. {
        world.host.fails_after = Some(fails_after);
        let answer = world.try_map(client, &MapGpuVirtualAddress::whole(a));
        world.host.fails_after = None;
        match answer {
            Err(MapError::BackingStore(_)) => refusals += 1,
            Err(error) => panic!("{error}"),
            Ok(_) => break,
        }
        assert_eq!(world.fingerprint(), before);
    }
    assert!(refusals >= 4, "{refusals}");
    world.run_all();
    world.tear_down();
}

/// GVA-06: devices of a process share its space; processes do not.
#[test]
fn an_address_space_belongs_to_a_process() {
    let (mut world, client) = World::with_pages(16);
    let sibling = world.sibling(client);
    let other = world.client();
    let (_, address) = world.resident(client, 1);
    let (b, c) = (world.allocate(sibling, 1), world.allocate(other, 1));
    assert_eq!(at(&mut world, sibling, b, address), Err(MapError::Range(VaRangeError::InUse)));
    assert_eq!(at(&mut world, other, c, address), Ok(address));
    world.bring_in(other, &[c]);
    assert_ne!(world.translate(client, address), world.translate(other, address));
}

/// U-23: ranges of 64 KiB and more are aligned to 64 KiB.
#[test]
fn large_mappings_are_aligned() {
    let (mut world, client) = World::with_pages(16);
    for pages in [1, 3, 16, 1, 17, 2, 40] {
        let a = world.allocate(client, pages);
        let address = world.map(client, a);
        assert!(pages < 16 || address.is_multiple_of(UNIT), "{pages} pages at {address:#x}");
    }
    world.tear_down();
}
