//! Entries that read as zero: reserved addresses where nothing is mapped (GVA-20, GVA-52, U-21).

use crate::judge::found;
use crate::world::*;
use vidmm::contract::*;
use vidmm::*;

const UNIT: u64 = PAGE_SIZE_64K;

/// An adapter whose leaf tables cover 64 KiB, those above 1 MiB, and the root 256 MiB.
fn config() -> Config {
    Config { has_zero: true, ..Config::pages(64) }
}

/// The effect of an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Does {
    Fault,
    ReadZero,
    Show,
}

impl World {
    fn reserve_addresses(&mut self, client: Client, base: Option<u64>, size: u64) -> Result<Reserved, MapError> {
        let base = base.map(GpuVirtualAddress);
        self.call(|vidmm, _, host| vidmm.reserve_gpu_virtual_address(host, client.queue, base, size))
    }

    /// The first address of a reservation that is shown.
    fn reserved(&mut self, client: Client, base: u64, size: u64) -> u64 {
        let reserved = self.reserve_addresses(client, Some(base), size).unwrap();
        assert!(reserved.paging_fence_value > 0, "it is shown by a plan");
        self.run_all();
        assert_eq!(self.paging_fence(client), reserved.paging_fence_value);
        reserved.virtual_address.0
    }

    fn map_at(&mut self, client: Client, allocation: AllocationId, base: u64) -> Mapped {
        let base_address = Some(GpuVirtualAddress(base));
        self.try_map(client, &MapGpuVirtualAddress { base_address, ..MapGpuVirtualAddress::whole(allocation) }).unwrap()
    }

    fn free_bytes(&mut self, client: Client, base: u64, size: u64) -> Result<(), GpuVaError> {
        self.call(|vidmm, _, host| vidmm.free_gpu_virtual_address(host, client.process, GpuVirtualAddress(base), size))
    }

    /// The effects of accesses from an address on, and on how many pages each.
    fn does(&self, client: Client, from: u64, pages: u64) -> Vec<(Does, u64)> {
        let mut runs: Vec<(Does, u64)> = Vec::new();
        for page in 0..pages {
            let does = match self.pte(client, from + page * PAGE_SIZE) {
                None => Does::Fault,
                Some(Pte::ZERO) => Does::ReadZero,
                Some(_) => Does::Show,
            };
            match runs.last_mut() {
                Some((last, count)) if *last == does => *count += 1,
                _ => runs.push((does, 1)),
            }
        }
        runs
    }

    fn table_count(&self) -> usize {
        self.tables().count()
    }
}

use Does::{Fault, ReadZero, Show};

#[test]
fn reserved_addresses_read_as_zero_until_they_are_given_back() {
    let mut world = World::new(config());
    let client = world.client();
    let base = world.reserved(client, 10 * UNIT, 3 * UNIT);
    assert_eq!(world.does(client, base - UNIT, 5 * 16), [(Fault, 16), (ReadZero, 48), (Fault, 16)]);
    world.free_bytes(client, base, 3 * UNIT).unwrap();
    world.run_all();
    assert_eq!(world.does(client, base - UNIT, 5 * 16), [(Fault, 80)]);
    assert_eq!(
        world.reserve_addresses(client, Some(base), 3 * UNIT).map(|reserved| reserved.virtual_address.0),
        Ok(base)
    );
    world.run_all();
    world.tear_down();
}

/// U-18: without such entries nothing is written, and access faults.
#[test]
fn without_zero_entries_a_reservation_is_made_at_once() {
    let mut world = World::new(Config { has_zero: false, ..config() });
    let client = world.client();
    world.run_all();
    let tables = world.table_count();
    let reserved = world.reserve_addresses(client, Some(16 * UNIT), 40 * UNIT).unwrap();
    assert_eq!(reserved.paging_fence_value, 0);
    world.run_all();
    assert_eq!(world.table_count(), tables);
    assert_eq!(world.does(client, 16 * UNIT, 40 * 16), [(Fault, 640)]);
    world.tear_down();
}

/// Zero is said on every level: only the tables in which a reservation ends are needed.
#[test]
fn a_reservation_needs_the_tables_in_which_it_ends() {
    for (base, units, tables) in [(16, 16 * 100, 0), (16, 16 * 3 + 1, 1), (15, 16 * 3 + 2, 2), (17, 3, 1)] {
        let mut world = World::new(config());
        let client = world.client();
        world.run_all();
        let before = world.table_count();
        let base = world.reserved(client, base * UNIT, units * UNIT);
        assert_eq!(world.table_count() - before, tables, "{units} units at {base:#x}");
        let pages = units * 16;
        assert_eq!(world.does(client, base - PAGE_SIZE, pages + 2), [(Fault, 1), (ReadZero, pages), (Fault, 1)]);
        world.tear_down();
    }
}

#[test]
fn pages_of_a_reservation_that_no_mapping_shows_stay_zero() {
    let mut world = World::new(config());
    let client = world.client();
    let base = world.reserved(client, 16 * UNIT, 32 * UNIT);
    let a = world.allocate(client, 4);
    world.map_at(client, a, base + UNIT);
    world.run_all();
    // U-21: a mapping that shows nothing is not zero.
    assert_eq!(world.does(client, base, 48), [(ReadZero, 16), (Fault, 4), (ReadZero, 28)]);
    world.bring_in(client, &[a]);
    assert_eq!(world.does(client, base, 48), [(ReadZero, 16), (Show, 4), (ReadZero, 28)]);
    world.submit(client, &[Access::Write(base + UNIT, 7)]);
    world.run_all();
    world.evict(client, &[a], EvictFlags::empty()).unwrap();
    world.run_all();
    assert_eq!(world.does(client, base, 48), [(ReadZero, 16), (Fault, 4), (ReadZero, 28)]);
    world.bring_in(client, &[a]);
    assert_eq!(world.token(client, base + UNIT), Some(7));
    world.free(client, base + UNIT + PAGE_SIZE, 2).unwrap();
    world.run_all();
    assert_eq!(world.does(client, base, 48), [(ReadZero, 16), (Show, 1), (ReadZero, 2), (Show, 1), (ReadZero, 28)]);
    world.free(client, base + UNIT, 1).unwrap();
    world.free(client, base + UNIT + 3 * PAGE_SIZE, 1).unwrap();
    world.run_all();
    assert_eq!(world.does(client, base, 32 * 16), [(ReadZero, 512)]);
    world.tear_down();
}

#[test]
fn the_end_of_a_mapping_that_is_not_shown_leaves_zeros() {
    let mut world = World::new(config());
    let client = world.client();
    let base = world.reserved(client, 16 * UNIT, 2 * UNIT);
    let [freed, destroyed, resident] = [(); 3].map(|()| world.allocate(client, 4));
    for (allocation, at) in [(freed, 0), (destroyed, 8), (resident, 16)] {
        world.map_at(client, allocation, base + at * PAGE_SIZE);
    }
    world.bring_in(client, &[resident]);
    let before = [(Fault, 4), (ReadZero, 4), (Fault, 4), (ReadZero, 4), (Show, 4), (ReadZero, 12)];
    assert_eq!(world.does(client, base, 32), before);
    world.free(client, base, 4).unwrap();
    world.destroy(destroyed);
    world.destroy(resident);
    world.run_all();
    assert_eq!(world.does(client, base, 32), [(ReadZero, 32)]);
    world.tear_down();
}

#[test]
fn a_part_of_a_reservation_can_be_given_back() {
    let mut world = World::new(config());
    let client = world.client();
    let base = world.reserved(client, 16 * UNIT, 16 * 5 * UNIT);
    let tables = world.table_count();
    // The rest ends inside of entries that were zero as a whole.
    world.free_bytes(client, base + 20 * UNIT + PAGE_SIZE, 20 * UNIT).unwrap();
    world.run_all();
    let pages = 16 * 5 * 16;
    let parts = [(ReadZero, 321), (Fault, 320), (ReadZero, pages - 641)];
    assert_eq!(world.does(client, base, pages), parts);
    assert_eq!(world.table_count() - tables, 4, "two levels at each end");
    let again = world.reserve_addresses(client, Some(base + 21 * UNIT), 19 * UNIT);
    assert_eq!(again.map(|reserved| reserved.virtual_address.0), Ok(base + 21 * UNIT));
    world.run_all();
    assert_eq!(world.does(client, base, pages)[..2], [(ReadZero, 321), (Fault, 15)]);
    for (from, size) in [
        (base, 20 * UNIT + PAGE_SIZE),
        (base + 21 * UNIT, 19 * UNIT),
        (base + 40 * UNIT + PAGE_SIZE, 40 * UNIT - PAGE_SIZE),
    ] {
        world.free_bytes(client, from, size).unwrap();
    }
    world.run_all();
    assert_eq!(world.does(client, base, pages), [(Fault, pages)]);
    assert_eq!(world.table_count(), 1, "the root stays");
    world.tear_down();
}

#[test]
fn addresses_of_a_reservation_are_free_when_it_is_hidden() {
    let mut world = World::new(config());
    let client = world.client();
    let base = world.reserved(client, 16 * UNIT, UNIT);
    world.submit(client, &[]);
    world.poll();
    world.free_bytes(client, base, UNIT).unwrap();
    let refused = world.reserve_addresses(client, Some(base), UNIT);
    assert_eq!(refused, Err(MapError::Range(VaRangeError::InUse)));
    world.poll();
    assert_eq!(world.does(client, base, 16), [(ReadZero, 16)], "the work that runs may read it");
    world.run_all();
    assert_eq!(world.does(client, base, 16), [(Fault, 16)]);
    world.tear_down();
}

#[test]
fn a_reservation_that_is_not_shown_yet_can_be_given_back() {
    let mut world = World::new(config());
    let client = world.client();
    let base = 16 * UNIT;
    world.reserve_addresses(client, Some(base), 18 * UNIT).unwrap();
    world.free_bytes(client, base + UNIT, 16 * UNIT).unwrap();
    world.run_all();
    assert_eq!(world.does(client, base, 18 * 16), [(ReadZero, 16), (Fault, 256), (ReadZero, 16)]);
    world.tear_down();
}

/// Work that was submitted later waits for the plan that shows the reservation.
#[test]
fn work_that_was_submitted_later_reads_zeros() {
    let mut world = World::new(config());
    let client = world.client();
    world.run_all();
    let base = world.reserve_addresses(client, None, 2 * UNIT).unwrap().virtual_address.0;
    world.submit(client, &[]);
    world.poll();
    let dispatched = |event: &Event| matches!(event, Event::Dispatched { .. });
    let first = world.events.iter().position(dispatched);
    let written = |event: &Event| match event {
        Event::PagingOperation { operation: PagingOperation::UpdatePageTable(op), .. } => {
            op.page_table_entries.first == Pte::ZERO
        }
        _ => false,
    };
    let last_zero = world.events.iter().rposition(written);
    assert!(last_zero.is_some() && first.is_none_or(|first| last_zero < Some(first)), "it waits");
    world.run_all();
    assert_eq!(world.does(client, base, 32), [(ReadZero, 32)]);
    world.tear_down();
}

#[test]
fn a_mapping_that_was_granted_before_its_reservation_is_not_covered() {
    let mut world = World::new(config());
    let client = world.client();
    let other = world.sibling(client);
    let (a, _) = world.resident(other, 4);
    world.run_all();
    let base = world.reserve_addresses(client, Some(16 * UNIT), 2 * UNIT).unwrap().virtual_address.0;
    world.map_at(other, a, base + UNIT);
    world.run_all();
    assert_eq!(world.does(client, base, 32), [(ReadZero, 16), (Show, 4), (ReadZero, 12)]);
    world.tear_down();
}

/// GVA-43: only one of the two sizes says anything of an address.
#[test]
fn mappings_of_a_reservation_have_small_pages() {
    let mut world = World::new(Config { has_zero: true, ..Config::pages_64kb(16, true) });
    let client = world.client();
    let a = world.allocate(client, 32);
    let base = world.reserved(client, 256 * UNIT, 64 * UNIT);
    world.map_at(client, a, base + UNIT);
    let outside = world.map(client, a);
    world.bring_in(client, &[a]);
    assert_eq!(world.does(client, base, 64), [(ReadZero, 16), (Show, 32), (ReadZero, 16)]);
    let pages = world.events.iter().filter_map(|event| match event {
        Event::GpuVirtualAddressMapped { page_size, virtual_address, .. } => Some((virtual_address.0, *page_size)),
        _ => None,
    });
    assert_eq!(pages.collect::<Vec<_>>(), [(base + UNIT, PageSize::Kib4), (outside, PageSize::Kib64)]);
    world.evict(client, &[a], EvictFlags::empty()).unwrap();
    world.run_all();
    assert_eq!(world.does(client, base, 64), [(ReadZero, 16), (Fault, 32), (ReadZero, 16)]);
    world.tear_down();
}

#[test]
fn a_reservation_whose_tables_do_not_fit_is_refused_and_changes_nothing() {
    let mut world = World::new(Config { has_zero: true, tables_in_system: false, ..Config::pages(10) });
    let client = world.client();
    world.resident(client, 3);
    let before = world.fingerprint();
    let refused = world.reserve_addresses(client, Some(15 * UNIT), 18 * UNIT);
    assert!(matches!(refused, Err(MapError::NoMemory { .. })), "{refused:?}");
    assert_eq!(world.fingerprint(), before);
    let base = world.reserved(client, 16 * UNIT, 16 * UNIT);
    let refused = world.free_bytes(client, base + UNIT + PAGE_SIZE, 2 * UNIT);
    assert!(matches!(refused, Err(GpuVaError::NoMemory { .. })), "{refused:?}");
    assert_eq!(world.does(client, base, 256), [(ReadZero, 256)]);
    world.tear_down();
}

#[test]
fn tables_that_are_written_again_say_the_same() {
    let reset = |world: &mut World| {
        let client = world.client();
        let allocation = world.allocate(client, 1);
        let _: Residency = world.make_resident(client, &[allocation]).unwrap();
        world.poll();
        world.fault(PAGING, 0xBAD_0000);
    };
    let cycle = |world: &mut World| {
        world.call(|vidmm, _, _| vidmm.power_down());
        world.run_all();
        world.call(|vidmm, _, _| vidmm.power_up());
    };
    for again in [&reset as &dyn Fn(&mut World), &cycle] {
        let mut world = World::new(Config { tables_in_system: false, ..config() });
        let client = world.client();
        let a = world.allocate(client, 4);
        let base = world.reserved(client, 15 * UNIT, 20 * UNIT);
        world.map_at(client, a, base + 2 * UNIT);
        world.bring_in(client, &[a]);
        world.evict(client, &[a], EvictFlags::EVICT_ONLY_IF_NECESSARY).unwrap();
        world.run_all();
        assert_eq!(world.does(client, base, 20 * 16), [(ReadZero, 32), (Show, 4), (ReadZero, 284)]);
        again(&mut world);
        world.run_all();
        assert_eq!(world.does(client, base, 20 * 16), [(ReadZero, 32), (Fault, 4), (ReadZero, 284)]);
        world.tear_down();
    }
}

/// U-32: memory that is set aside for the tables in which a reservation ends is no budget's, whether the tables are placed yet or not.
#[test]
fn a_budget_is_told_while_tables_of_a_rest_are_set_aside() {
    let mut world = World::new(Config { has_zero: true, tables_in_system: false, ..Config::pages_64kb(24, false) });
    let (client, _other) = (world.client(), world.client());
    let base = world.reserved(client, 16 * UNIT, 32 * UNIT);
    let told = |world: &World| world.events.iter().filter(|event| matches!(event, Event::BudgetChanged { .. })).count();
    world.call(|vidmm, _, _| vidmm.notify_budget_changes(client.process, true)).unwrap();
    let before = told(&world);
    world.set_priority(client, PriorityBand::Normal, Visibility::Occluded);
    world.free_bytes(client, base + 9 * UNIT, 10 * UNIT).unwrap();
    world.run_all();
    assert!(told(&world) > before, "the process is told its budget");
    assert_eq!(found(&world.events), []);
    world.tear_down();
}
