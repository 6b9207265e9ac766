//! The area at the end of a memory segment that holds nothing but page tables, so that ranges find their places before it (D19).

use crate::world::*;
use vidmm::contract::*;
use vidmm::*;

/// The pages of local memory before the area, and those of the area.
const PAGES: u64 = 32;
const AREA: u64 = 32;

fn config() -> Config {
    config_of(PAGES, AREA)
}

fn config_of(pages: u64, area: u64) -> Config {
    Config { tables_in_system: false, page_table_area: area * PAGE_SIZE, ..Config::discrete(pages + area, 64) }
}

/// An allocation of one range in local memory, and its address.
fn range(world: &mut World, client: Client, pages: u64) -> (AllocationId, u64) {
    let info =
        AllocationInfo { flags: AllocationFlags::ACCESSED_PHYSICALLY, ..allocation_info(pages * PAGE_SIZE, NORMAL) };
    let allocation = world.try_create(client, info).unwrap();
    let at = world.map(client, allocation);
    (allocation, at)
}

/// SEG-13: a list whose range takes all that is before the area is admitted, and finds its place, whatever tables come and go.
#[test]
fn a_range_finds_its_place_beside_page_tables() {
    let mut world = World::new(config());
    let clients: Vec<_> = (0..3).map(|_| world.client()).collect();
    for (token, &client) in (1..).zip(&clients) {
        let (_, at) = world.resident(client, 4);
        write(&mut world, client, at, token);
    }
    let (whole, at) = range(&mut world, clients[0], PAGES);
    assert!(world.make_resident(clients[0], &[whole]).is_err(), "its device lists 4 pages beside");
    world.free(clients[0], at, PAGES).unwrap();
    let last = world.client();
    let (whole, at) = range(&mut world, last, PAGES);
    _ = world.cant_trim(last, &[whole]).unwrap();
    world.run_all();
    while world.translate(last, at).is_none() && world.pass_time() {
        world.run_all();
    }
    write(&mut world, last, at, 9);
    assert_eq!(read(&mut world, last, at), 9);
    let below = |&(address, _): &(PhysicalAddress, u64)| address.segment == LOCAL && address.offset < PAGES * PAGE_SIZE;
    assert_eq!(world.tables().find(below), None);
    world.tear_down();
}

/// GVA-15: tables of several pages lie in the area, each at a multiple of what the largest takes, and leave no hole that none fits into.
#[test]
fn tables_above_a_page_find_their_places_whatever_comes_and_goes() {
    let (pages, table) = (2 * PAGES, 2 * PAGE_SIZE);
    let mut world = World::new(Config { level_bits: vec![4, 10, 8], ..config_of(pages, 2 * AREA) });
    let clients: Vec<_> = (0..3).map(|_| world.client()).collect();
    for token in 1..40 {
        let client = clients[token as usize % 3];
        let (allocation, at) = world.resident(client, 4);
        write(&mut world, client, at, token);
        assert_eq!(read(&mut world, client, at), token);
        let tables = Vec::from_iter(world.tables());
        assert!(tables.iter().all(|&(_, size)| size == table), "{tables:?}");
        let in_area = |at: PhysicalAddress| at.offset >= pages * PAGE_SIZE && at.offset.is_multiple_of(table);
        assert!(tables.iter().all(|&(address, _)| in_area(address)), "{tables:?}");
        world.destroy(allocation);
        world.run_all();
    }
    world.tear_down();
}

/// D9: a mapping whose tables do not fit into the area is refused whole, with what is missing; what is unmapped makes room.
#[test]
fn a_mapping_beyond_the_area_is_refused() {
    let mut world = World::new(config());
    let client = world.client();
    let covered_by_a_table = 16;
    let large = world.allocate(client, AREA * covered_by_a_table / 2);
    let at = world.map(client, large);
    world.run_all();
    let other = world.allocate(client, AREA * covered_by_a_table / 2);
    let before = world.fingerprint();
    let answer = world.try_map(client, &MapGpuVirtualAddress::whole(other));
    let Err(MapError::PageTableAreaFull { missing }) = answer else { panic!("{answer:?}") };
    assert!(missing > 0 && missing <= AREA * PAGE_SIZE, "{missing}");
    assert_eq!(world.fingerprint(), before);
    world.free(client, at, AREA * covered_by_a_table / 2).unwrap();
    world.run_all();
    world.try_map(client, &MapGpuVirtualAddress::whole(other)).unwrap();
    world.run_all();
    world.tear_down();
}

/// D9: a process whose root does not fit into the area is refused, and changes nothing.
#[test]
fn a_process_without_room_for_its_root_is_refused() {
    let mut world = World::new(config());
    let mut created = 0;
    let answer = loop {
        match world.try_client() {
            Ok(_) if created < AREA => created += 1,
            answer => break answer,
        }
    };
    assert!(matches!(answer, Err(CreateError::PageTableAreaFull { missing: PAGE_SIZE })), "{:?}", answer.err());
    assert!(created > AREA / 2, "{created}");
    world.tear_down();
}

/// RES-50: the area is no part of any budget, and tables take nothing from one.
#[test]
fn page_tables_in_the_area_leave_budgets_alone() {
    let mut world = World::new(config());
    let client = world.client();
    let before = world.local_info(client).budget;
    let allocation = world.allocate(client, 4);
    world.map(client, allocation);
    world.run_all();
    assert_eq!((before, world.local_info(client).budget), (PAGES * PAGE_SIZE, PAGES * PAGE_SIZE));
    world.tear_down();
}

fn broken_by(page_table_area: u64) -> Vec<BrokenRule> {
    let config = Config { page_table_area, ..config() };
    let (mut driver, mut host) = (Driver::new(&config), Ledger::default());
    let started = VidMm::start_adapter(config.options(), &mut driver, &mut host);
    started.err().map(|error| error.broken_rules).unwrap_or_default()
}

/// The area is whole pages, at most half of its segment, and the paging process's tables leave half of it to others (PGV-04).
#[test]
fn an_impossible_area_is_refused() {
    let half = (PAGES + AREA) / 2 * PAGE_SIZE;
    assert_eq!(broken_by(half), []);
    for area in [half + PAGE_SIZE, PAGE_SIZE / 2, u64::MAX] {
        assert!(matches!(broken_by(area)[..], [BrokenRule::PageTableArea { .. }]), "{area}");
    }
    assert!(matches!(broken_by(4 * PAGE_SIZE)[..], [BrokenRule::PagingTables { .. }]));
}
