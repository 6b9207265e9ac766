//! Large pages: entries of level 1 that show memory in place of leaf tables (GVA-21).

use crate::judge::found;
use crate::world::*;
use vidmm::contract::*;
use vidmm::*;
use vidmm_trace::Invariant;

/// Pages of a large page: what a leaf table covers.
const LARGE: u64 = 16;
const SUPPORTED: GpuMmuFlags = GpuMmuFlags::LARGE_PAGE_SUPPORTED;

fn config(large_pages: GpuMmuFlags) -> Config {
    Config { large_pages, ..Config::pages(8 * LARGE) }
}

impl World {
    /// For each of the large pages from an address on: whether it is one.
    fn are_large(&self, client: Client, at: u64, count: u64) -> Vec<bool> {
        let is_large = |address| {
            let entry = self.pte(client, address);
            entry.is_some_and(|entry| entry.flags.contains(PteFlags::LARGE_PAGE))
        };
        (0..count).map(|number| is_large(at + number * LARGE * PAGE_SIZE)).collect()
    }

    fn map_part(&mut self, client: Client, allocation: AllocationId, base: u64, pages: u64) -> u64 {
        let desc = MapGpuVirtualAddress {
            base_address: Some(GpuVirtualAddress(base)),
            size: pages * PAGE_SIZE,
            ..MapGpuVirtualAddress::whole(allocation)
        };
        self.try_map(client, &desc).unwrap().virtual_address.0
    }

    /// The updates of a client's entries since an operation: of which level, whether they are valid, and show a large page.
    fn updates_since(&self, client: Client, since: usize) -> Vec<(u32, bool, bool)> {
        let operations = self.operations_since(since);
        let updates = operations.iter().filter_map(|operation| match operation {
            PagingOperation::UpdatePageTable(op) if op.process == client.kmd_process => Some(op),
            _ => None,
        });
        let has = |op: &UpdatePageTable, flag| op.page_table_entries.first.flags.contains(flag);
        updates.map(|op| (op.page_table_level, has(op, PteFlags::VALID), has(op, PteFlags::LARGE_PAGE))).collect()
    }
}

/// The leaf table says the same, so that a part of a large page can be hidden as any other range.
#[test]
fn a_large_page_shows_what_all_of_a_leaf_table_shows() {
    let mut world = World::new(config(SUPPORTED));
    let client = world.client();
    let a = world.allocate(client, 2 * LARGE + 3);
    let at = world.map(client, a);
    world.run_all();
    let since = world.driver.operations.len();
    world.bring_in(client, &[a]);
    assert_eq!(world.are_large(client, at, 3), [true, true, false]);
    let (leaf, large) = ((0, true, false), (1, true, true));
    assert_eq!(world.updates_since(client, since), [leaf, leaf, leaf, large, large]);
    let shown = world.driver.operations.iter().rev().find_map(|operation| match operation {
        PagingOperation::UpdatePageTable(op) if op.page_table_level == 1 => Some(*op),
        _ => None,
    });
    let shown = shown.unwrap();
    assert_eq!((shown.allocation, shown.allocation_offset_in_bytes), (Some(world.handle(a)), LARGE * PAGE_SIZE));
    for page in 0..2 * LARGE + 3 {
        write(&mut world, client, at + page * PAGE_SIZE, 100 + page);
    }
    for page in 0..2 * LARGE + 3 {
        assert_eq!(read(&mut world, client, at + page * PAGE_SIZE), 100 + page);
    }
    assert_eq!(found(&world.events), []);
    world.tear_down();
}

#[test]
fn the_leaf_table_takes_its_place_before_a_large_page_is_hidden() {
    let mut world = World::new(config(SUPPORTED));
    let client = world.client();
    let a = world.allocate(client, LARGE);
    let at = world.map(client, a);
    world.bring_in(client, &[a]);
    world.evict(client, &[a], EvictFlags::empty()).unwrap();
    let since = world.driver.operations.len();
    squeeze(&mut world, 8 * LARGE);
    assert_eq!(world.pte(client, at), None);
    assert_eq!(world.updates_since(client, since)[..2], [(1, true, false), (0, false, false)]);
    assert_eq!(found(&world.events), []);
    world.tear_down();
}

#[test]
fn the_rest_of_a_large_page_is_shown_when_a_part_is_freed() {
    let mut world = World::new(config(SUPPORTED));
    let client = world.client();
    let a = world.allocate(client, 2 * LARGE);
    let at = world.map(client, a);
    world.bring_in(client, &[a]);
    write(&mut world, client, at, 7);
    world.free(client, at + 3 * PAGE_SIZE, 2).unwrap();
    world.run_all();
    assert_eq!(world.are_large(client, at, 2), [false, true]);
    assert_eq!(read(&mut world, client, at), 7);
    assert_eq!(world.pte(client, at + 3 * PAGE_SIZE), None);
    assert!(world.pte(client, at + 5 * PAGE_SIZE).is_some());
    assert_eq!(found(&world.events), []);
    world.tear_down();
}

/// An entry says so only where the GPU can, where its memory can be, and where the allocation may.
#[test]
fn a_large_page_is_used_only_where_it_can_be() {
    let anywhere = SUPPORTED | GpuMmuFlags::ALLOW_NON_ALIGNED_LARGE_PAGE_ADDRESS;
    let in_system = SUPPORTED | GpuMmuFlags::SYS_MEM_LARGE_PAGE_SUPPORTED;
    let (may, never) = (AllocationFlags::empty(), AllocationFlags::DISABLE_LARGE_PAGE_MAPPING);
    for (caps, place, flags, offset, is_large) in [
        (GpuMmuFlags::empty(), Place::Local, may, 0, false),
        (SUPPORTED, Place::Local, may, 0, true),
        (SUPPORTED, Place::Local, never, 0, false),
        // The addresses begin in a leaf table, and the memory at a multiple of a large page.
        (SUPPORTED, Place::Local, may, 1, false),
        (anywhere, Place::Local, may, 1, true),
        (SUPPORTED, Place::System, may, 0, false),
        (in_system, Place::System, may, 0, true),
        (in_system, Place::System, never, 0, false),
    ] {
        let mut world = World::new(config(caps));
        let client = world.client();
        let a = world.create_flagged(client, place, 2 * LARGE, flags).unwrap();
        let base = 64 * LARGE * PAGE_SIZE;
        world.map_part(client, a, base - offset * PAGE_SIZE, 2 * LARGE);
        world.bring_in(client, &[a]);
        assert_eq!(world.are_large(client, base, 1), [is_large], "{caps:?} {place:?} {flags:?} {offset}");
        assert_eq!(found(&world.events), []);
        world.tear_down();
    }
}

/// U-23: where there is room, addresses and memory begin at a multiple of a large page.
#[test]
fn addresses_and_memory_begin_where_large_pages_do() {
    let mut world = World::new(config(SUPPORTED));
    let client = world.client();
    let (_, small) = world.resident(client, 1);
    let (_, large) = world.resident(client, 2 * LARGE);
    assert!(large.is_multiple_of(LARGE * PAGE_SIZE), "{small:#x} {large:#x}");
    assert_eq!(world.are_large(client, large, 2), [true, true]);
    // The rest of the memory is no multiple of a large page, and holds an allocation all the same.
    let (_, last) = world.resident(client, 5 * LARGE - 1 + LARGE / 2);
    assert_eq!(world.are_large(client, last, 5).iter().filter(|&&is_large| is_large).count(), 5);
    world.tear_down();
}

/// GVA-43: a large page is on the side of the pages that its leaf table maps.
#[test]
fn large_pages_are_on_one_side_of_dual_entries() {
    for place in [Place::Local, Place::LocalOrSystem] {
        let mut world = World::new(Config { large_pages: SUPPORTED, ..Config::pages_64kb(16, true) });
        let client = world.client();
        let pages = 1 << world.config.level_bits[0];
        let info = AllocationInfo { alignment: 1 << 16, ..world.config.allocation(place, 2 * pages, SILENT) };
        let a = world.try_create(client, info).unwrap();
        let at = world.map(client, a);
        world.bring_in(client, &[a]);
        let is_large = |world: &World, page| {
            world.pte(client, at + page * PAGE_SIZE).is_some_and(|pte| pte.flags.contains(PteFlags::LARGE_PAGE))
        };
        assert!(is_large(&world, 0) && is_large(&world, pages));
        // A page of 64 KiB is cut.
        world.free(client, at + PAGE_SIZE, 1).unwrap();
        world.run_all();
        assert!(!is_large(&world, 0) && is_large(&world, pages));
        assert!(world.pte(client, at).is_some() && world.pte(client, at + PAGE_SIZE).is_none());
        assert_eq!(found(&world.events), []);
        world.tear_down();
    }
}

/// The log of a large page that comes, of which a part is freed, and that leaves.
fn log() -> Vec<Event> {
    let mut world = World::new(config(SUPPORTED));
    let client = world.client();
    let a = world.allocate(client, LARGE);
    let at = world.map(client, a);
    world.bring_in(client, &[a]);
    world.free(client, at, 1).unwrap();
    world.run_all();
    let events = world.events.clone();
    world.tear_down();
    assert_eq!(found(&events), []);
    events
}

fn large_page(event: &mut Event) -> Option<&mut UpdatePageTable> {
    match event {
        Event::PagingOperation { operation: PagingOperation::UpdatePageTable(op), .. } => {
            op.page_table_entries.first.flags.contains(PteFlags::LARGE_PAGE).then_some(op)
        }
        _ => None,
    }
}

#[test]
fn the_auditor_finds_large_pages_that_cannot_be() {
    let wrong: [fn(&mut UpdatePageTable); 7] = [
        |op| op.page_table_entries.first.address.offset += LARGE * PAGE_SIZE,
        |op| op.page_table_entries.first.address.offset += PAGE_SIZE,
        |op| op.page_table_entries.first.address.segment = SegmentId::SYSTEM,
        |op| op.page_table_entries.first.flags |= PteFlags::READ_ONLY,
        |op| op.page_table_entries.num_page_table_entries = 2,
        |op| op.allocation = None,
        |op| op.page_table_level = 2,
    ];
    for (number, change) in wrong.into_iter().enumerate() {
        let mut events = log();
        change(events.iter_mut().find_map(large_page).expect("there is one"));
        assert!(found(&events).contains(&Invariant::Gva21), "{number}: {:?}", found(&events));
    }
    let mut events = log();
    for event in &mut events {
        match event {
            Event::AllocationCreated { disable_large_page_mapping, .. } => *disable_large_page_mapping = true,
            _ => continue,
        }
    }
    assert_eq!(found(&events), [Invariant::Gva21]);
    let mut events = log();
    for event in &mut events {
        match event {
            Event::AdapterStarted { large_page_supported, .. } => *large_page_supported = false,
            _ => continue,
        }
    }
    assert_eq!(found(&events), [Invariant::Gva21]);
}

#[test]
fn the_auditor_finds_a_large_page_that_stays() {
    let mut events = log();
    let shown = events.iter_mut().position(|event| large_page(event).is_some()).unwrap();
    let is_link = |event: &Event| match event {
        Event::PagingOperation { operation: PagingOperation::UpdatePageTable(op), .. } => op.page_table_level == 1,
        _ => false,
    };
    let split = shown + 1 + events[shown + 1..].iter().position(is_link).expect("the leaf table takes its place");
    events.remove(split);
    assert!(found(&events).contains(&Invariant::Gva21), "{:?}", found(&events));
}
